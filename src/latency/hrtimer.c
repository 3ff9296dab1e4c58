/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hrtimer.c: the guest's high-resolution timers, and how late their functions were called.
 *
 * hrtimer_start shows when a timer is due, in ns of the guest's CLOCK_MONOTONIC, or of
 * CLOCK_REALTIME. The readings of that clock and of the TSC in the guest's capture make it a guest
 * TSC, the vCPU's clock a host TSC. The time in hrtimer_expire_entry is converted in the same way,
 * and must not be later than that event, nor much earlier: otherwise the timer uses another clock
 * (CLOCK_TAI, a CLOCK_BOOTTIME that was suspended) and is left out.
 *
 * The local timer's interrupt whose handler runs on the vCPU is what called it; without one only
 * the total is known. hrtimer_cancel, if recorded, also comes before hrtimer_expire_entry.
 */
#include "priv.h"
#include "kvmft/ksyms.h"
#include "kvmft/hostmap.h"

/*
 * Deadlines of the guest's local timer (MSR 0x6e0, IA32_TSC_DEADLINE) and how late they
 * were served.
 *
 * The deadline is a guest TSC: it becomes a host TSC with the vCPU's clock as it was when it was
 * set. The interrupt that follows on that vCPU with the vector of the guest's timer ends it.
 */

#define MSR_TSC_DEADLINE 0x6e0u

/* Of both tables. */
enum { ST_TOTAL, ST_EXPIRE, ST_DELIVER, ST_MASKED, ST_ENTER, ST_GUEST, ST_OFFCPU };
enum { BY_NOTHING, BY_HOST, BY_GUEST, BY_OFFCPU, BY_EARLY };

/* The deadline is the guest's; the total is by two clocks, the deadline's and the events'. */
#define TIMERS(name_, title_, key_, total_, expire_, guest_, ...)                                \
	{                                                                                        \
		.name = name_, .kind = LAT_TIMER, .title = title_, .key = key_,                  \
		.stage = { "total", "expire", "deliver", "masked", "enter", "guest", "off-cpu" },\
		.stage_help = { total_, expire_,                                                 \
				"from there to the injection, less the part that follows",       \
				"... the guest ran with interrupts off",                         \
				"from the injection to the entry of the guest", guest_,          \
				"... of all this: the vCPU's thread wanted a CPU and had none" },\
		.crosses = 1u << ST_TOTAL | 1u << ST_EXPIRE | 1u << ST_GUEST,                    \
		.parts = 1u << ST_EXPIRE | 1u << ST_DELIVER | 1u << ST_MASKED | 1u << ST_ENTER | \
			 1u << ST_GUEST,                                                         \
		.cause = (const char *const[LAT_CAUSES]){ "", "host: late on the host",          \
							  "guest: late in the guest",            \
							  "off_cpu: vCPU off its CPU", "early" },\
		.count = { __VA_ARGS__ },                                                        \
	}

/* The first is the sum up to "open at the end"; "fired" that of the two behind it. */
const struct lat_desc lat_desc_timer = TIMERS(
	"timer", "how late the guest's timer interrupts were", "Timer",
	"from the deadline to the guest's handler (without a guest: to the entry)",
	"from the deadline to the APIC: the host's timer, and the wake-up of a halted vCPU",
	"from the entry to the handler",
	"armed", "fired", "cancelled", "set_anew: set anew before they fired",
	"not_placed: not placed", "cut: cut by lost events", "open: open at the end", "measured",
	"no_handler: fired, handler not seen");

/* The first is the sum of those up to "outside the host's capture". */
const struct lat_desc lat_desc_hrtimer = TIMERS(
	"hrtimer", "how late the guest's high-resolution timers were", "Function",
	"from when it was due to hrtimer_expire_entry", "from when it was due to the APIC",
	"from the entry until the function is called",
	"started", "expired", "cancelled", "restarted: started anew", "cut: cut by lost events",
	"open: open at the end", "not_placed: not placed",
	"outside_host: outside the host's capture",
	"outside_interrupt: outside the timer's interrupt",
	"start_not_seen: expiries of timers not seen to start");

/* A deadline is set, or (set: false) taken back; another timer's that was armed is left alone. */
static void timer_set(struct lat *l, struct lat_vcpu *v, bool set, uint8_t stimer)
{
	if (v->armed)
		lat_count(l, v, LAT_T_TIMER,
			  v->stimer != stimer ? TIMER_UNPLACED
			  : set		      ? TIMER_REARMED
					      : TIMER_CANCELLED);
	v->armed = v->due = false;
	v->stimer = stimer;
	if (set)
		lat_count(l, v, LAT_T_TIMER, TIMER_ARMED);
}

/* kvm_msr of the vCPU's own thread. */
void lat_timer_msr(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	const struct epoch_vcpu *e;
	uint64_t lo, hi;
	long now;

	if (!in->f[0] || (uint32_t)in->f[1] != MSR_TSC_DEADLINE)
		return;
	timer_set(l, v, in->f[2], 0);
	if (!in->f[2])
		return;
	e = epoch_vm_find(l->map->vm[v->vm].epochs, v->id);
	now = e ? epoch_index(e, in->t) : -1;
	/* What is long over when it is set is of another clock: a guest's file was changed. */
	if (!e || (now >= 0 && e->v[now].doubtful) ||
	    !epoch_result_usable(epoch_guest_to_host(e, in->f[2], &lo, &hi)) ||
	    lo + (l->khz ?: 2000000) * 1000 < in->t) {
		lat_count(l, v, LAT_T_TIMER, TIMER_UNPLACED);
		return;
	}
	v->armed = true;
	v->armed_at = in->t;
	v->deadline = lo;
}

/* Hyper-V's stimer_start(): time_now and count are in 100 ns; it is due by their distance. */
void lat_stimer_set(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	uint64_t units = in->f[3] - in->f[2];

	timer_set(l, v, true, (uint8_t)MIN(in->f[1] + 1, 255u));
	v->armed = l->khz && in->f[3] >= in->f[2] && units < UINT32_MAX && in->f[1] < 4;
	if (!v->armed)
		lat_count(l, v, LAT_T_TIMER, TIMER_UNPLACED);
	v->armed_at = in->t;
	v->deadline = in->t + units * l->khz / 10000;
}

void lat_timer_tick(struct lat_vcpu *v, uint64_t t)
{
	if (!v->armed || v->due || t < v->deadline)
		return;
	lat_times_at(v, v->deadline, v->at_deadline);
	v->due = true;
}

/* Of what is armed, the interrupt is c. */
static void timer_take(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	lat_timer_tick(v, c->t_accept);
	c->is_timer = true;
	c->deadline = v->deadline;
	c->armed_at = v->armed_at;
	/* KVM may fire a little early, and let the vCPU wait for the rest. */
	if (v->due)
		memcpy(c->at_deadline, v->at_deadline, sizeof(c->at_deadline));
	else
		lat_times_at(v, c->t_accept, c->at_deadline);
	c->stimer = v->stimer;
	v->armed = false;
	lat_count(l, v, LAT_T_TIMER, TIMER_FIRED);
}

/* The vCPU's APIC accepted an interrupt: its timer's, if it has that vector and one is armed. */
void lat_timer_accept(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	if (l->irqs->is_timer(c->vector) && v->armed && !v->stimer)
		timer_take(l, v, c);
}

/* c: the interrupt that was accepted for it; NULL: none was, its message had no room. */
void lat_stimer_expired(struct lat *l, struct lat_vcpu *v, struct irq_chain *c, uint64_t index)
{
	if (!v->armed || v->stimer != index + 1)
		return;
	if (c) {
		timer_take(l, v, c);
		return;
	}
	v->armed = false;
	lat_count(l, v, LAT_T_TIMER, TIMER_FIRED);
}

/*
 * A timer due at host TSC from, which was served at end, by interrupt c unless NULL. off: cycles
 * without a CPU, NULL if not known; known: enough to say that the host was late.
 */
static void timer_stages(const struct lat *l, const struct irq_chain *c, uint64_t from,
			 uint64_t end, const uint64_t *off, bool known, struct lat_case *k)
{
	k->begin = MIN(from, end);
	k->end = end;
	k->time = lat_span(l, end - k->begin);
	if (c) {
		uint64_t deliver = c->t_inject - MAX(c->t_accept, MIN(from, c->t_inject));
		uint64_t masked = MIN(c->masked, deliver);

		lat_stage(k, ST_EXPIRE, c->t_accept > from ? lat_span(l, c->t_accept - from) : 0);
		lat_stage(k, ST_DELIVER, lat_span(l, deliver - masked));
		lat_stage(k, ST_MASKED, lat_span(l, masked));
		lat_stage(k, ST_ENTER,
			  lat_span(l, c->t_entry - MAX(c->t_inject, MIN(from, c->t_entry))));
		if (c->handled)
			lat_stage(k, ST_GUEST, lat_span(l, end - MAX(c->t_entry, MIN(from, end))));
	}
	if (off)
		lat_stage(k, ST_OFFCPU, lat_span(l, *off));
	if (end < from)
		k->cause = BY_EARLY;
	else if (k->stage_time[ST_OFFCPU] > k->time / 2)
		k->cause = BY_OFFCPU;
	else if (k->stage_time[ST_GUEST] + k->stage_time[ST_MASKED] > k->time / 2)
		k->cause = BY_GUEST;
	else
		k->cause = k->time && known ? BY_HOST : BY_NOTHING;
}

/* A chain got to its handler, or (host alone) to the entry. */
void lat_timer_fired(struct lat *l, struct lat_vcpu *v, const struct irq_chain *c)
{
	struct lat_case k = { .vm = (int64_t)v->vm, .vcpu = v->id };
	struct lat_group *g;
	uint64_t end = c->handled ? c->t_handler : c->t_entry, now[VS_STATES], off, key;
	bool known; /* what the vCPU did since: events may have been lost */

	if (!c->is_timer)
		return;
	lat_count(l, v, LAT_T_TIMER, TIMER_MEASURED);
	if (!l->o.want[LAT_TIMER] || !lat_wanted(l, k.vm, k.vcpu))
		return;
	key = (uint64_t)c->stimer << 32 | v->id;
	g = c->stimer ? lat_group_named(l, LAT_T_TIMER, k.vm, key, &k.group,
					"Hyper-V timer %u of vCPU %u", c->stimer - 1u, v->id)
		      : lat_group_named(l, LAT_T_TIMER, k.vm, key, &k.group,
					"deadline of vCPU %u", v->id);
	lat_times_at(v, end, now);
	off = now[VS_WAITING] - c->at_deadline[VS_WAITING] + now[VS_PREEMPTED] -
	      c->at_deadline[VS_PREEMPTED];
	known = now[VS_UNKNOWN] == c->at_deadline[VS_UNKNOWN];
	timer_stages(l, c, MAX(c->deadline, c->armed_at), end, known ? &off : NULL, known, &k);
	if (lat_case_named(l, &k))
		snprintf(k.what, sizeof(k.what), "%s", g->name);
	lat_case_add(l, LAT_T_TIMER, g, &k);
}

#define OPEN_MAX   65536		  /* timers of a VM set at once; more are not trusted */
#define REAL_FIRST 1000000000000000000ull /* ns, September 2001: CLOCK_REALTIME is past it */
#define BEHIND_MS  10000u /* a vCPU may be off its CPU before it makes the event ... */
#define AHEAD_MS   1u	  /* ... but it cannot have read the future */

struct hrtimer {
	bool cancelled;
	uint32_t vcpu;	    /* that started it */
	uint64_t timer;	    /* the guest's pointer */
	uint64_t expires;   /* ns of the guest's clock */
	uint64_t set_at;    /* host TSC */
};

struct lat_hrtimers {
	/* By VM: what one guest does is nothing to the others. */
	struct timers {
		struct hrtimer *v;
		size_t n, cap;
		struct u64map at; /* of pointer → index */
		bool told;	  /* in `some` */
	} *vm;
	size_t *some, nsome; /* VMs that have timers, perhaps */
	struct clocks {
		struct cap_pieces mono, real;
		bool has_mono, has_real;
	} *clock; /* by source */
};

void lat_hrtimers_new(struct lat *l)
{
	l->hrtimers = xcalloc(1, sizeof(*l->hrtimers));
	l->hrtimers->clock = xcalloc(l->nsrc, sizeof(*l->hrtimers->clock));
	l->hrtimers->vm = xcalloc(l->map->nvm + 1, sizeof(*l->hrtimers->vm));
	l->hrtimers->some = xcalloc(l->map->nvm + 1, sizeof(*l->hrtimers->some));
	for (size_t i = 1; i < l->nsrc && l->o.want[LAT_TIMER]; i++) {
		const struct tl_source *s = tl_source(l->t, i);
		struct clocks *c = &l->hrtimers->clock[i];

		if (!s->guest || s->qemu || !lat_decoder_has(l->dec[i], EV_HRTIMER_START))
			continue;
		c->has_mono = !cap_pieces_init(&c->mono, s->cap, CAP_CLOCK_MONO);
		c->has_real = !cap_pieces_init(&c->real, s->cap, CAP_CLOCK_REALTIME);
	}
}

void lat_hrtimers_free(struct lat *l)
{
	struct lat_hrtimers *h = l->hrtimers;

	if (!h)
		return;
	for (size_t i = 0; h->clock && i < l->nsrc; i++) {
		cap_pieces_free(&h->clock[i].mono);
		cap_pieces_free(&h->clock[i].real);
	}
	for (size_t vm = 0; h->vm && vm < l->map->nvm; vm++) {
		free(h->vm[vm].v);
		u64map_free(&h->vm[vm].at);
	}
	free(h->clock);
	free(h->some);
	free(h->vm);
	free(h);
}

static struct hrtimer *timer_find(const struct timers *h, uint64_t timer)
{
	uint64_t at;

	return u64map_get(&h->at, timer, &at) ? &h->v[at] : NULL;
}

/* Host TSC at which the guest's clock read ns. */
static bool timer_place(const struct lat *l, const struct lat_vcpu *v, const struct lat_in *in,
			uint64_t ns, uint64_t *host)
{
	const struct clocks *c = &l->hrtimers->clock[in->i->src->index];
	const struct epoch_vcpu *e = epoch_vm_find(l->map->vm[in->i->src->vm].epochs, v->id);
	bool real = ns >= REAL_FIRST;
	uint64_t lo, hi, from, to;

	if (!e || !(real ? c->has_real : c->has_mono) ||
	    clock_pieces_to_tsc(real ? &c->real.pieces : &c->mono.pieces, ns, &lo, &hi) < 0)
		return false;
	if (!epoch_result_usable(epoch_guest_to_host(e, lo + (hi - lo) / 2, &from, &to)))
		return false;
	*host = from;
	return true;
}

static void timer_expire(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct lat_case k = { .vm = (int64_t)v->vm, .vcpu = v->id };
	struct hrtimer *t = timer_find(&l->hrtimers->vm[v->vm], in->f[0]);
	/* Its interrupt, if that is known. */
	const struct irq_chain *c =
		v->running.open && l->irqs->is_timer(v->running.vector) ? &v->running : NULL;
	uint64_t due = 0, read = 0, off;
	struct lat_group *g;
	bool placed, outside;
	struct timers *h;
	const struct hrtimer *last;

	if (!t) {
		lat_count(l, v, LAT_T_HRTIMER, HRT_STRAY);
		return;
	}
	if (l->alone) {
		bool early = in->f[1] < t->expires;
		unsigned __int128 ns = early ? t->expires - in->f[1] : in->f[1] - t->expires;
		unsigned __int128 cycles = ns * l->khz / 1000000u;

		/* A guest alone: the kernel read both times of an event by one clock. */
		if (early ? cycles > UINT64_MAX - in->t : cycles > in->t) {
			placed = false;
		} else {
			due = early ? in->t + (uint64_t)cycles : in->t - (uint64_t)cycles;
			placed = l->khz;
		}
	} else {
		placed = l->khz && timer_place(l, v, in, t->expires, &due) &&
			 timer_place(l, v, in, in->f[1], &read) &&
			 read <= in->t + l->khz * AHEAD_MS && read + l->khz * BEHIND_MS >= in->t;
	}
	due = MAX(due, t->set_at); /* one that was already due is late from when it was set */
	outside = !l->begun || MIN(due, in->t) < l->begin || in->t > l->stop;
	/* The last one takes its place. */
	h = &l->hrtimers->vm[v->vm];
	last = &h->v[--h->n];
	u64map_del(&h->at, t->timer);
	if (t != last) {
		*t = *last;
		xu64map_put(&h->at, t->timer, (uint64_t)(t - h->v));
	}
	lat_count(l, v, LAT_T_HRTIMER,
		  !placed   ? HRT_UNPLACED
		  : outside ? HRT_OUTSIDE
			    : HRT_EXPIRED);
	if (!placed || outside)
		return;
	lat_count_add(l, v->vm, v->id, LAT_T_HRTIMER, HRT_ALONE, !l->alone && !c);
	if (!lat_wanted(l, k.vm, k.vcpu))
		return;
	g = lat_group_get(l, LAT_T_HRTIMER, k.vm, in->f[2], &k.group);
	timer_stages(l, c, due, in->t, lat_off_cpu(v, due, in->t, &off) ? &off : NULL, c, &k);
	if (lat_case_named(l, &k)) {
		if (!g->name[0] || g->others) {
			const struct ksyms *names = l->map->vm[l->map->vm[v->vm].of].syms;
			const struct ksym *s = names ? ksyms_find(names, in->f[2]) : NULL;

			/* It points to its first byte: anything else is from another kernel. */
			if (s && s->addr == in->f[2] && s->type != 'm')
				snprintf(g->name, LAT_NAME, "hrtimer %.40s", s->name);
			else
				snprintf(g->name, LAT_NAME, "hrtimer 0x%llx", (unsigned long long)in->f[2]);
		}
		snprintf(k.what, sizeof(k.what), "%.40s on vCPU %u", g->name, v->id);
	}
	lat_case_add(l, LAT_T_HRTIMER, g, &k);
}

void lat_hrtimer_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct hrtimer *t;

	if (!l->o.want[LAT_TIMER] || in->i->unplaced)
		return;
	switch (in->kind) {
	case EV_HRTIMER_START: {
		struct timers *h = &l->hrtimers->vm[v->vm];

		t = timer_find(h, in->f[0]);
		lat_count(l, v, LAT_T_HRTIMER, HRT_STARTED);
		if (t) {
			lat_count(l, v, LAT_T_HRTIMER, t->cancelled ? HRT_CANCELLED : HRT_REARMED);
		} else if (h->n >= OPEN_MAX) {
			lat_count(l, v, LAT_T_HRTIMER, HRT_UNPLACED);
			return;
		} else {
			t = xarray_grow(&h->v, h->n, &h->cap, sizeof(*t));
			xu64map_put(&h->at, in->f[0], h->n);
			h->n++;
			if (!h->told)
				l->hrtimers->some[l->hrtimers->nsome++] = v->vm;
			h->told = true;
		}
		*t = (struct hrtimer){
			.vcpu = v->id, .timer = in->f[0], .expires = in->f[1], .set_at = in->t
		};
		return;
	}
	case EV_HRTIMER_EXPIRE: timer_expire(l, v, in); return;
	case EV_HRTIMER_CANCEL:
		t = timer_find(&l->hrtimers->vm[v->vm], in->f[0]);
		if (t)
			t->cancelled = true;
		return;
	default: return;
	}
}

static void timers_end(struct lat *l, size_t vm, unsigned int how)
{
	const struct timers *h = &l->hrtimers->vm[vm];

	for (size_t i = 0; i < h->n; i++)
		lat_count_add(l, vm, h->v[i].vcpu, LAT_T_HRTIMER,
			      h->v[i].cancelled ? HRT_CANCELLED : how, 1);
}

void lat_hrtimers_forget(struct lat *l, int64_t vm)
{
	size_t one = (size_t)vm, n = vm < 0 ? l->hrtimers->nsome : 1;

	for (size_t i = 0; i < n; i++) {
		size_t of = vm < 0 ? l->hrtimers->some[i] : one;
		struct timers *h = &l->hrtimers->vm[of];

		timers_end(l, of, HRT_CUT);
		h->n = 0;
		u64map_free(&h->at);
		h->told &= vm >= 0;
	}
	if (vm < 0)
		l->hrtimers->nsome = 0;
}

void lat_hrtimers_finish(struct lat *l)
{
	for (size_t vm = 0; vm < l->map->nvm; vm++)
		timers_end(l, vm, HRT_OPEN);
}
