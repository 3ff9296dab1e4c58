/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * judge.c: from what was seen of a vCPU to why it makes no progress. Arithmetic alone.
 *
 * The order of the questions matters: a thread that the host does not let run says nothing about
 * its guest, and one that sleeps spins in no function.
 */
#include "kvmft/stuck.h"

#define ROWS_MAX     8192u /* of a vCPU: more kinds of things are not a loop */
#define MOSTLY	     800u  /* thousandths that make a state */
#define LOOP_SHARE   900u  /* ... of all exits, for one that repeats */
#define LOOP_SHARE_3 980u  /* ... for three: a loop that polls may have a delay or two in it */
#define LOOP_PER_S   50u
#define FEW_RIPS     5u
#define FEW_TURNS    5u
#define PAGE	     4096u
#define LOOP_RIPS    20u
#define EXIT_HLT     5u /* KVM_EXIT_HLT, KVM_EXIT_INTR of linux/kvm.h */
#define EXIT_INTR    10u

/* In the order of the enumeration, and part of the JSON format. */
static const struct {
	const char *name;
	bool stuck;
} classes[STUCK_CLASSES] = {
	[STUCK_UNKNOWN] = { "unknown", false },
	[STUCK_RUNNING] = { "running", false },
	[STUCK_IDLE] = { "idle", false },
	[STUCK_SPINNING] = { "spinning", true },
	[STUCK_IN_GUEST] = { "in-guest", false },
	[STUCK_EXIT_LOOP] = { "exit-loop", true },
	[STUCK_HALTED] = { "halted", true },
	[STUCK_STARVED] = { "starved", true },
	[STUCK_THROTTLED] = { "throttled", true },
	[STUCK_STOPPED] = { "stopped", true },
	[STUCK_BLOCKED] = { "blocked", true },
	[STUCK_PAUSED] = { "paused", true },
	[STUCK_VMM] = { "vmm", true },
};

const char *stuck_class_name(enum stuck_class c)
{
	return classes[c].name;
}

bool stuck_class_is(enum stuck_class c)
{
	return classes[c].stuck;
}

/* ---- rows ---- */

void stuck_count_n(struct stuck_obs *o, enum stuck_what what, uint64_t a, uint64_t b, uint64_t n)
{
	const uint64_t words[] = { (uint64_t)what, a, b };
	struct stuck_row one = { .what = what, .a = a, .b = b, .n = n };
	uint64_t hash, at;

	o->count[what] += n;
	if (!o->nrow)
		hash_key_init(&o->key);
	hash = hash_bytes(&o->key, words, sizeof(words));
	if (u64map_get(&o->by_key, hash, &at)) {
		o->row[at].n += n;
	} else if (o->nrow < ROWS_MAX) {
		xarray_add(&o->row, &o->nrow, &o->cap, &one, sizeof(one));
		xu64map_put(&o->by_key, hash, o->nrow - 1);
	}
}

void stuck_count_none(struct stuck_obs *o, enum stuck_what from, enum stuck_what to)
{
	for (size_t i = 0; i < o->nrow; i++)
		if (o->row[i].what >= from && o->row[i].what <= to)
			o->row[i].n = 0;
	for (enum stuck_what w = from; w <= to; w++)
		o->count[w] = 0;
}

void stuck_obs_free(struct stuck_obs *o)
{
	free(o->row);
	u64map_free(&o->by_key);
	o->row = NULL;
	o->nrow = o->cap = 0;
}

const struct stuck_row *stuck_most(const struct stuck_obs *o, enum stuck_what from,
				   enum stuck_what to)
{
	const struct stuck_row *most = NULL;

	for (const struct stuck_row *r = o->row; r < o->row + o->nrow; r++)
		if (r->what >= from && r->what <= to && (!most || r->n > most->n))
			most = r;
	return most;
}

/* What a guest writes for its timer and ends of interrupts, often all that one at work does. */
static const struct {
	enum stuck_what what;
	uint64_t from, to;
} upkeep[] = {
	{ STUCK_MSR, 0x6e0, 0x6e0 },		/* IA32_TSC_DEADLINE */
	{ STUCK_MSR, 0x800, 0x8ff },		/* x2APIC */
	{ STUCK_MSR, 0x40000070, 0x40000072 },	/* Hyper-V: EOI, ICR, TPR */
	{ STUCK_MSR, 0x400000b0, 0x400000b7 },	/* ... synthetic timers */
	{ STUCK_MMIO, 0xfee00000, 0xfee00fff }, /* xAPIC */
	{ STUCK_MMIO, 0xfed00000, 0xfed003ff }, /* HPET */
	{ STUCK_PIO, 0x40, 0x43 },		/* PIT */
	{ STUCK_PIO, 0x20, 0x21 },		/* PIC */
	{ STUCK_PIO, 0xa0, 0xa1 },
};

bool stuck_is_upkeep(enum stuck_what what, uint64_t a, uint64_t b)
{
	for (size_t i = 0; b && i < ARRAY_SIZE(upkeep); i++)
		if (what == upkeep[i].what && a >= upkeep[i].from && a <= upkeep[i].to)
			return true;
	return false;
}

/* ---- numbers ---- */

static unsigned int permille(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned int)((unsigned __int128)part * 1000 / whole) : 0;
}

/* Lost events are taken to be like those that were kept: nothing better is known. */
static uint64_t obs_scaled(const struct stuck_obs *o, uint64_t n, uint64_t times, uint64_t ns)
{
	unsigned __int128 all = (unsigned __int128)n * times;

	if (!ns)
		return 0;
	if (o->read && o->lost)
		all = all / o->read * (o->read + o->lost);
	return (uint64_t)(all / ns);
}

/* n: how many of the events by which exits are counted. */
static uint64_t exits_per_second(const struct stuck_obs *o, uint64_t n)
{
	if (!o->exact)
		return obs_scaled(o, n, 1000000000u, o->ns);
	return o->exits_ns ? (uint64_t)((unsigned __int128)n * 1000000000u / o->exits_ns) : 0;
}

/* Makes a number of events of the ring comparable with a number of exits. */
static uint64_t as_exits(const struct stuck_obs *o, uint64_t n)
{
	return o->exact ? obs_scaled(o, n, o->exits_ns, o->ns) : n;
}

static uint64_t exits_of(const struct stuck_obs *o)
{
	return o->count[STUCK_SAMPLE] + o->count[STUCK_HLT] + o->count[STUCK_UPKEEP] +
	       o->count[STUCK_EXIT];
}

static uint64_t accesses_of(const struct stuck_obs *o)
{
	return o->count[STUCK_PIO] + o->count[STUCK_MMIO] + o->count[STUCK_MSR];
}

/* Some VMMs emulate the interrupt controller: their guests halt in them. */
static uint64_t halts_of(const struct stuck_obs *o)
{
	uint64_t n = 0;

	for (const struct stuck_row *r = o->row; r < o->row + o->nrow; r++)
		if (r->what == STUCK_TO_USER && r->a == EXIT_HLT)
			n += r->n;
	return MAX(as_exits(o, n), o->count[STUCK_HLT]);
}

/* ---- where its guest is ---- */

COMPARE(by_rip, struct stuck_row,
	ORDER(x->what, y->what) ?: ORDER(x->b, y->b) ?: ORDER(x->a, y->a));

static uint64_t judge_place_of(const struct ksyms *syms, uint64_t rip, const struct ksym **sym)
{
	*sym = syms ? ksyms_find(syms, rip) : NULL;
	return *sym ? (*sym)->addr : rip / PAGE * PAGE;
}

/* Where a place with n RIPs belongs, with room made there; it may be in the list already. */
static size_t place_rank(struct stuck_verdict *v, uint64_t place, const struct ksyms *syms,
			 uint64_t n)
{
	const struct ksym *sym;
	size_t at = STUCK_PLACES, had = 0;

	while (had < STUCK_PLACES && v->place[had].n &&
	       judge_place_of(syms, v->place[had].rip, &sym) != place)
		had++;
	for (size_t i = STUCK_PLACES; i-- > 0 && v->place[i].n < n;)
		at = i;
	if (at > had)
		return STUCK_PLACES;
	had = MIN(had, (size_t)STUCK_PLACES - 1);
	if (at < had)
		memmove(&v->place[at + 1], &v->place[at], (had - at) * sizeof(v->place[0]));
	return at;
}

/* ---- exits that repeat ---- */

static uint64_t top_three(const struct stuck_obs *o, enum stuck_what from, enum stuck_what to)
{
	uint64_t n[3] = { 0 };

	for (const struct stuck_row *r = o->row; r < o->row + o->nrow; r++) {
		uint64_t left = r->what >= from && r->what <= to ? r->n : 0, smaller;

		for (size_t i = 0; i < ARRAY_SIZE(n); i++) {
			smaller = MIN(n[i], left);
			n[i] = MAX(n[i], left);
			left = smaller;
		}
	}
	return n[0] + n[1] + n[2];
}

/* Whether interrupts of the host find the guest elsewhere than at the exits that repeat. */
static bool vcpu_moves(const struct stuck_obs *o)
{
	uint64_t loop[LOOP_RIPS], away = 0;
	size_t n = 0;

	for (const struct stuck_row *r = o->row; r < o->row + o->nrow && n < LOOP_RIPS; r++)
		if (r->what == STUCK_EXIT && r->n > o->count[STUCK_EXIT] / LOOP_RIPS)
			loop[n++] = r->b;
	for (const struct stuck_row *r = o->row; r < o->row + o->nrow; r++) {
		bool near = r->what != STUCK_SAMPLE;

		for (size_t i = 0; i < n && !near; i++)
			near = r->b + PAGE > loop[i] && r->b < loop[i] + PAGE;
		away += near ? 0 : r->n;
	}
	return o->count[STUCK_SAMPLE] >= FEW_RIPS &&
	       permille(away, o->count[STUCK_SAMPLE]) > 1000 - LOOP_SHARE;
}

/* Of devices: those of its timer come to one that hangs, too. */
static uint64_t device_irqs(const struct stuck_obs *o)
{
	uint64_t n[2] = { 0 };

	for (const struct stuck_row *r = o->row; r < o->row + o->nrow; r++)
		if ((r->what == STUCK_INJECT || r->what == STUCK_ACCEPT) &&
		    !(o->is_timer && o->is_timer((unsigned int)r->a)))
			n[r->what == STUCK_ACCEPT] += r->n;
	return as_exits(o, MAX(n[0], n[1]));
}

/* It takes its interrupts: more than the one that may be on its way. */
static bool takes_irqs(const struct stuck_obs *o)
{
	return o->count[STUCK_INJECT] > 1 || o->count[STUCK_EOI] > 1 || o->count[STUCK_UPKEEP] > 1;
}

/*
 * One exit again and again, or three in turn, and nothing else runs: no interrupt of a device comes
 * for it, with which its driver looks just like that, and the host's interrupts find it there. What
 * it exits for to keep its timer and interrupts going does not count, nor does a program of its own
 * that its timer can end. Where KVM reports no exits, accesses stand in.
 */
static bool is_loop(const struct stuck_obs *o, struct stuck_verdict *v)
{
	bool exits = exits_of(o) != 0;
	enum stuck_what from = exits ? STUCK_EXIT : STUCK_PIO, to = exits ? STUCK_EXIT : STUCK_MSR;
	uint64_t all = exits ? o->count[STUCK_EXIT] : accesses_of(o);
	const struct stuck_row *most = stuck_most(o, from, to);
	uint64_t loops = !most	 ? 0
			 : exits ? exits_per_second(o, most->n)
				 : obs_scaled(o, most->n, 1000000000u, o->ns);

	if (!most || loops < LOOP_PER_S || (o->recorded && most->n < LOOP_PER_S) ||
	    halts_of(o) > all / 10 || device_irqs(o) > all / 100)
		return false;
	v->exit_pm = permille(most->n, all);
	if (v->exit_pm < LOOP_SHARE && permille(top_three(o, from, to), all) < LOOP_SHARE_3)
		return false;
	if (exits && (vcpu_moves(o) || (ksyms_is_user(most->b) && takes_irqs(o))))
		return false;
	v->access = stuck_most(o, STUCK_PIO, STUCK_MSR);
	if (!v->access || as_exits(o, v->access->n) < most->n / 2)
		v->access = stuck_most(o, STUCK_FAULT, STUCK_FAULT);
	if (v->access && as_exits(o, v->access->n) < most->n / 2)
		v->access = NULL;
	/* Counted by the kernel, or without exits: which exits were for the timer is not known. */
	if (v->access && stuck_is_upkeep(v->access->what, v->access->a, v->access->b)) {
		v->access = NULL;
		return false;
	}
	v->exit = exits ? most : NULL;
	v->per_s = loops;
	return true;
}

/* ---- the thread ---- */

static bool samples_mostly(const struct stuck_verdict *v, enum stuck_at at)
{
	return v->at_pm[at] >= MOSTLY;
}

/* Functions in which a kernel does nothing but wait. */
static const char *const waits[] = {
	"delay_", "__delay", "__const_udelay", "__udelay", "__ndelay", "__timer_delay",
	"panic", "read_tsc", "arch_counter_get", "csd_lock_wait",
	"smp_call_function_many_cond", "native_queued_spin_lock_slowpath",
	"__pv_queued_spin_lock_slowpath", "queued_spin_lock_slowpath",
	"queued_read_lock_slowpath", "queued_write_lock_slowpath", "machine_halt",
	"native_halt", "stop_this_cpu",
};

static bool waits_there(const struct stuck_verdict *v)
{
	for (size_t i = 0; v->sym && i < ARRAY_SIZE(waits); i++)
		if (str_starts(v->sym->name, waits[i]))
			return true;
	return false;
}

static enum stuck_class judge_vcpu(const struct stuck_obs *o, struct stuck_verdict *v)
{
	unsigned int can;
	uint64_t ticks;
	bool samples;

	if (!o->looks || v->at_pm[STUCK_AT_GONE])
		return STUCK_UNKNOWN;
	if (samples_mostly(v, STUCK_AT_STOP) || samples_mostly(v, STUCK_AT_FREEZE))
		return STUCK_STOPPED;
	if (samples_mostly(v, STUCK_AT_WAIT))
		return STUCK_BLOCKED;
	/*
	 * It could run most of the time, but got less than a fifth of that. Looks alone may be
	 * wrong: one that is woken by the same timer as kvmft can run whenever it is looked at. How
	 * long it had to wait for a CPU is known as well, once it got one.
	 */
	can = v->at_pm[STUCK_AT_CPU];
	if (o->has_sched && can >= 500 && v->run_pm < can / 5 &&
	    (o->turns < FEW_TURNS || permille(o->delay_ns, o->ns) >= (can - v->run_pm) / 2))
		return o->throttled ? STUCK_THROTTLED : STUCK_STARVED;
	if (is_loop(o, v))
		return STUCK_EXIT_LOOP;
	if (samples_mostly(v, STUCK_AT_USER)) {
		bool returned = o->peeked && o->peek != EXIT_INTR && o->peek != 0;

		/* One that comes back is merely slow. */
		if (o->count[STUCK_TO_USER] > 1)
			return halts_of(o) ? STUCK_IDLE : STUCK_RUNNING;
		if (o->peeked && o->peek == EXIT_HLT)
			return STUCK_HALTED;
		/* One that was told to stop has left KVM by a signal, and waits to be continued. */
		return o->futex && !returned ? STUCK_PAUSED : STUCK_VMM;
	}
	/* Asleep in HLT; or woken and back without an exit, as KVM polls. */
	if (samples_mostly(v, STUCK_AT_HALT) ||
	    (v->at_pm[STUCK_AT_HALT] >= 100 && !exits_of(o) && (!o->blind || v->deaf) &&
	     v->at_pm[STUCK_AT_HALT] + v->at_pm[STUCK_AT_CPU] >= MOSTLY))
		return exits_of(o) || (o->blind && o->turns > 2 && !v->deaf) ? STUCK_IDLE
									     : STUCK_HALTED;
	/* It is on a CPU, or was most of the time. */
	ticks = o->ticks_user + o->ticks_kernel + o->ticks_guest;
	samples = o->count[STUCK_SAMPLE] >= FEW_RIPS;
	if (!samples && exits_of(o) == o->count[STUCK_SAMPLE] && !accesses_of(o) &&
	    !o->count[STUCK_TO_USER]) {
		if (ticks >= 10 && permille(o->ticks_user, ticks) >= MOSTLY)
			return STUCK_VMM;
		if (o->blind && o->at[STUCK_AT_HALT] && o->turns > 2)
			return STUCK_RUNNING;
		return samples_mostly(v, STUCK_AT_CPU) ? STUCK_IN_GUEST : STUCK_UNKNOWN;
	}
	/* At one place it may compute: it hangs if it takes no interrupts, or only waits there. */
	if (samples_mostly(v, STUCK_AT_CPU) && samples && !halts_of(o) &&
	    permille(v->rip_n, v->rip_all) >= (v->sym ? MOSTLY : LOOP_SHARE) &&
	    (waits_there(v) || v->deaf ||
	     (!ksyms_is_user(v->rip) && !takes_irqs(o) &&
	      o->count[STUCK_EXIT] <= o->count[STUCK_SAMPLE] / 100)))
		return STUCK_SPINNING;
	/* It did something and was then held up, but by no one thing for most of the time. */
	if (o->has_sched && !v->run_pm)
		return STUCK_UNKNOWN;
	return STUCK_RUNNING;
}

void stuck_judge(struct stuck_obs *o, const struct ksyms *syms, struct stuck_verdict *v)
{
	bool samples = o->count[STUCK_SAMPLE] >= FEW_RIPS;
	uint64_t place = 0, last = 0, n = 0, most = 0, rip = 0;
	const struct ksym *sym;
	size_t at;

	*v = (struct stuck_verdict){ .run_pm = permille(o->run_ns, o->ns) };
	for (size_t i = 0; i < STUCK_ATS; i++)
		v->at_pm[i] = permille(o->at[i], o->looks);
	array_sort(o->row, o->nrow, by_rip);
	v->exits_per_s = exits_per_second(o, exits_of(o));
	v->deaf = o->count[STUCK_ACCEPT] && !o->count[STUCK_INJECT] && !o->count[STUCK_EOI];
	/*
	 * The functions, or the pages, with the most RIPs, and the RIP seen most in it. Exits that
	 * the host caused come at any moment, so they show where the guest is; the others show only
	 * where it asks for something, which is better than nothing.
	 */
	for (const struct stuck_row *r = o->row; r < o->row + o->nrow; r++) {
		if (r->what > STUCK_EXIT || !r->n || (samples && r->what != STUCK_SAMPLE))
			continue;
		place = judge_place_of(syms, r->b, &sym);
		if (!v->rip_all || place != last)
			n = most = 0;
		last = place;
		n += r->n;
		v->rip_all += r->n;
		rip = r->n > most ? r->b : rip;
		most = MAX(most, r->n);
		v->rip_user += ksyms_is_user(r->b) ? r->n : 0;
		at = place_rank(v, judge_place_of(syms, rip, &sym), syms, n);
		if (at < STUCK_PLACES)
			v->place[at] = (struct stuck_place){ .rip = rip, .n = n };
	}
	v->rip = v->place[0].rip;
	v->rip_n = v->place[0].n;
	judge_place_of(syms, v->rip, &v->sym);
	v->class = v->seems = judge_vcpu(o, v);
	/* Who works takes interrupts: that is in no event. */
	if (o->untold && (v->class == STUCK_EXIT_LOOP ||
			  (v->class == STUCK_SPINNING && !waits_there(v))))
		v->class = STUCK_UNKNOWN;
	/* Posted ones are not seen taken, but none made it run; the last may be on its way. */
	if (v->class == STUCK_HALTED && MAX(o->count[STUCK_INJECT], o->count[STUCK_ACCEPT]) > 1)
		v->deaf = true;
}
