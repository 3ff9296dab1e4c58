/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * spend.c: what the time of a spike is attributed to. For an exit, a halt, a spin or a wait for an
 * idle CPU that is known only when it is over: until then its time is kept in the spike.
 */
#include "priv.h"

#define OTHERS	UINT64_MAX /* key of a part for several */
#define IDLE_MS 5u	   /* no CPU takes that long to leave its idle state */
#define TICK_MS 5u	   /* ... and a busy one shows its tick within that */

/* No room for another one: the smallest of that cause takes all others of it. */
static struct blame_part *parts_others(struct blame_spike *s, enum blame_cause cause)
{
	struct blame_part *p, *least = NULL;

	for (p = s->part; p < s->part + s->room; p++) {
		if (p->cause != cause)
			continue;
		if (p->key == OTHERS)
			return p;
		if (!least || p->time < least->time)
			least = p;
	}
	p = least ?: &s->part[s->room];
	if (!least)
		s->nparts = s->room + 1;
	p->key = OTHERS;
	snprintf(p->name, sizeof(p->name), least ? "others" : "many others");
	return p;
}

static struct blame_part *part_of(struct blame_spike *s, enum blame_cause cause, uint64_t key,
				  uint64_t time)
{
	struct blame_part *p = s->part, *end = s->part + MIN(s->nparts, s->room);

	while (p < end && (p->cause != cause || p->key != key))
		p++;
	if (p == s->part + s->room) {
		p = parts_others(s, cause);
	} else if (p == end) {
		*p = (struct blame_part){ .cause = cause, .key = key };
		s->nparts++;
	}
	p->time += time;
	return p;
}

static const struct blame_vcpu *spike_vcpu_of(const struct blame *b, const struct blame_spike *s)
{
	uint64_t at;

	return u64map_get(&b->vcpu_at, (uint64_t)s->vm << 32 | (uint32_t)s->on, &at) ? &b->vcpu[at]
										      : NULL;
}

/* The same, but NULL if its last exit, and so why it left the guest, may be lost. */
static const struct blame_vcpu *spike_exit_of(const struct blame *b, const struct blame_spike *s)
{
	const struct blame_vcpu *v = spike_vcpu_of(b, s);

	return v && v->left == b->gaps ? v : NULL;
}

static uint32_t spend_has(const struct blame *b, const struct blame_spike *s)
{
	return s->vm < 0 ? 0 : b->has[b->map->vm[s->vm].of];
}

/* The part of a cause if what both rules (or one) need was recorded; else who it may be. */
static struct blame_part *part_by(const struct blame *b, struct blame_spike *s,
				  const struct evidence_rule *r, const struct evidence_rule *more,
				  enum blame_cause cause, uint64_t key, uint64_t time)
{
	const struct blame_vcpu *v = spike_exit_of(b, s);
	struct blame_part *p;
	uint32_t lacks;
	bool moved;
	int len;

	if (cause == CAUSE_HALT_WAKE && (s->what == BLAME_IO || s->what == BLAME_HRTIMER))
		r = b->io_wake;
	/* Who had a request meanwhile is not known. */
	if (s->what == BLAME_IO && s->away_to == s->away_from && cause < CAUSE_GUEST_IRQS_OFF &&
	    b->io->needs & ~spend_has(b, s))
		r = b->io;
	lacks = (r->needs | (more ? more->needs : 0)) & ~spend_has(b, s);

	if (!lacks) {
		p = part_of(s, cause, key, time);
		/* Without any of the host, it may have been that in part. */
		p->lacks |= (r->sure | (more ? more->sure : 0) | EVID_HOST) & ~spend_has(b, s);
		return p;
	}
	/* Who leaves its CPU is in no interrupt. */
	moved = v && v->at && blame_window_is(b, s->vm, s->on, v->at) == BLAME_MOVED;
	if (cause == CAUSE_HOST_IRQ && moved)
		r = b->rule[CAUSE_EXIT_KERNEL];
	key = 1ull << 40 | (uint64_t)moved << 41 | (uint64_t)lacks << 8;
	p = part_of(s, CAUSE_UNKNOWN, key | (uint64_t)(r - evidence_at(0)), time);
	p->lacks |= lacks | (EVID_HOST & ~spend_has(b, s));
	if (!p->name[0]) {
		len = snprintf(p->name, sizeof(p->name), "%s", moved ? "its thread left its CPU, " : "");
		evidence_candidates(r, lacks, p->name + len, sizeof(p->name) - (size_t)len);
	}
	return p;
}

static struct blame_part *blame_part_add(const struct blame *b, struct blame_spike *s,
					 enum blame_cause cause, uint64_t key, uint64_t time)
{
	if (cause <= CAUSE_LOST)
		return part_of(s, cause, key, time);
	return part_by(b, s, b->rule[cause], NULL, cause, key, time);
}

/* A timer of the guest is due, and the host's has not fired yet. */
static bool not_due_yet(const struct blame_spike *s)
{
	return s->since <= s->accepted;
}

static void name_task(const struct tl_source *s, struct blame_part *p, int32_t tid)
{
	if (!p->name[0])
		snprintf(p->name, sizeof(p->name), "%.40s-%d", tid ? tl_comm(s, tid) : "<idle>", tid);
}

static void spend_unrecorded(const struct blame *b, struct blame_spike *s, uint64_t time)
{
	struct blame_part *p = blame_part_add(b, s, CAUSE_UNKNOWN, 0, time);

	if (!p->name[0])
		snprintf(p->name, sizeof(p->name), "what ran on its CPU was not recorded");
}

static bool exited_for(const struct blame *b, const struct blame_spike *s, enum exit_kind kind)
{
	const struct blame_vcpu *v = spike_exit_of(b, s);

	return v && exit_kind(v->why) == kind;
}

/* Another thread has the CPU, perhaps not alone. */
static struct blame_part *by_thread(const struct blame *b, struct blame_spike *s, int32_t tid,
				    bool perhaps, uint64_t time)
{
	const struct tl_source *host = tl_source(b->t, 0);
	const struct hostmap_thread *th = hostmap_thread(b->map, tid);
	enum blame_cause cause = CAUSE_HOST_TASK;
	struct blame_part *p;
	size_t len;

	if (th && (int64_t)th->vm == s->vm)
		/* KVM gives the CPU of a spinning vCPU to another of its VM: perhaps the holder. */
		cause = exited_for(b, s, EXIT_KIND_PAUSE) ? CAUSE_LOCK_HOLDER : CAUSE_SIBLING;
	else if (!strncmp(tl_comm(host, tid), "migration/", 10))
		cause = CAUSE_MIGRATED;
	else if (!strncmp(tl_comm(host, tid), "ksoftirqd/", 10) ||
		 !strncmp(tl_comm(host, tid), "irq/", 4))
		cause = CAUSE_HOST_IRQ; /* in a thread */
	p = blame_part_add(b, s, cause, (uint32_t)tid, time);
	if (p->name[0])
		return p;
	if (cause == CAUSE_LOCK_HOLDER)
		snprintf(p->name, sizeof(p->name), "its CPU given to vCPU %u", th->vcpu);
	else if (cause == CAUSE_SIBLING)
		snprintf(p->name, sizeof(p->name), "vCPU %u", th->vcpu);
	else if (th)
		snprintf(p->name, sizeof(p->name), "vCPU %u of %.40s", th->vcpu,
			 b->map->vm[th->vm].label);
	else
		name_task(host, p, tid);
	len = strlen(p->name);
	if (perhaps)
		snprintf(p->name + len, sizeof(p->name) - len, ", perhaps others");
	return p;
}

/* An idle CPU starts a woken thread at once, unless the VM's limit forbids it or it is late. */
static void idle_wait_over(const struct blame *b, struct blame_spike *s, int32_t from)
{
	uint64_t khz = b->khz ?: 2000000, wait = s->wait;
	struct blame_part *p;
	bool late, limit;

	s->wait = 0;
	if (wait && from > 0) /* since when it ran, or if the CPU was late, all switches tell */
		by_thread(b, s, from, true, wait)->lacks |= EVID_SWITCH;
	else if (wait && from < 0)
		spend_unrecorded(b, s, wait);
	else
		s->idle_wait += wait;
	late = s->idle_wait > khz * IDLE_MS;
	limit = late && s->vm >= 0 && (size_t)s->vm < b->nlimited && b->limited[s->vm];
	if (!s->idle_wait)
		return;
	p = blame_part_add(b, s, limit ? CAUSE_THROTTLED : CAUSE_HALT_WAKE, 3u + late,
			   s->idle_wait);
	if (!p->name[0] && late && !limit && s->idle_state != UINT32_MAX)
		snprintf(p->name, sizeof(p->name), "woken, its CPU %u took long to leave idle state %u",
			 s->idle_cpu, s->idle_state);
	else if (!p->name[0])
		snprintf(p->name, sizeof(p->name), "woken, its CPU %s idle", late ? "left" : "still");
	s->idle_wait = 0;
}

/*
 * Who can run and does not get an idle CPU is at a limit, and was so since it lost that CPU; what
 * ran there later may not have been in its way either. Who gets another CPU may have waited there.
 */
static void stint_over(const struct blame *b, struct blame_spike *s, bool same)
{
	bool limit = same && s->limited > (b->khz ?: 2000000) * IDLE_MS;
	uint64_t time = s->limited;
	struct blame_part *p;

	for (p = s->part; p < s->part + s->nparts; p++) {
		uint64_t part = limit ? p->held : s->limited && !same ? p->stint - p->first : 0;

		p->time -= part;
		time += part;
		s->dark += limit ? p->stint - p->held : 0;
		p->stint = p->first = p->held = 0;
	}
	s->limited = 0;
	if (!time)
		return;
	p = blame_part_add(b, s, same ? CAUSE_THROTTLED : CAUSE_UNKNOWN, same ? 0 : 4, time);
	if (!same && !p->name[0])
		snprintf(p->name, sizeof(p->name), "it lost its CPU, and got another one later");
}

/* Somebody else has the CPU that the vCPU wants. */
static void robbed_of(struct blame *b, struct blame_spike *s, const struct lat_now *n,
		      uint64_t time)
{
	const struct blame_cpu *c = blame_cpu_of(b, n->thief_cpu);
	bool waits = n->state == VS_WAITING, idle = !n->thief_known && n->perhaps && c && c->slept;
	enum blame_cause cause = n->stopped ? CAUSE_STOPPED : CAUSE_HOST_TIMER;
	struct blame_part *p;

	if (!n->stopped && !n->thief_known && !idle) {
		if (!waits || !n->perhaps) {
			spend_unrecorded(b, s, time);
			return;
		}
		if (!s->idle_wait)
			s->idle_state = UINT32_MAX;
		s->idle_cpu = n->thief_cpu;
		s->wait += time;
		return;
	}
	if (!n->stopped && n->thief) {
		p = by_thread(b, s, n->thief, n->perhaps, time);
		p->stint += waits ? 0 : time;
		return;
	}
	if (!n->stopped && waits && !not_due_yet(s)) {
		if (!s->idle_wait)
			s->idle_state = c && c->slept ? c->idle_state : UINT32_MAX;
		s->idle_cpu = n->thief_cpu;
		s->idle_wait += time;
		return;
	}
	if (!n->stopped && !waits) {
		for (p = s->part; p < s->part + s->nparts; p++) {
			p->first = s->limited ? p->first : p->stint;
			p->held = p->stint;
		}
		s->limited += time;
		return;
	}
	p = blame_part_add(b, s, cause, 0, time);
	if (!p->name[0] && cause == CAUSE_HOST_TIMER)
		snprintf(p->name, sizeof(p->name), "its CPU was idle");
}

/* The exit's name, and what it was for. */
static void name_exit(const struct blame *b, const struct blame_vcpu *v, struct blame_part *p,
		      const char *more)
{
	char reason[EXIT_NAME_MAX], what[32] = "";

	if (p->name[0])
		return;
	exit_reason_text(&tl_source(b->t, 0)->exits, v->why.isa, v->why.reason, reason,
			 sizeof(reason));
	if (v->what)
		snprintf(what, sizeof(what), " %s 0x%llx", v->what, (unsigned long long)v->address);
	snprintf(p->name, sizeof(p->name), "%.24s%s%s", reason, what, more);
}

static uint64_t last_exit_key(const struct blame_vcpu *v)
{
	uint64_t key = (uint64_t)v->why.isa << 32 | v->why.reason;

	return v->what ? (key * 31 + (unsigned char)*v->what) * 31 + v->address : key;
}

/* What KVM did with an exit. */
static void in_kernel(const struct blame *b, struct blame_spike *s, const struct blame_vcpu *v,
		      bool asleep, uint64_t time)
{
	static const enum blame_cause causes[] = {
		[EXIT_KIND_OTHER] = CAUSE_EXIT_KERNEL, [EXIT_KIND_HALT] = CAUSE_HALT_WAKE,
		[EXIT_KIND_INTR] = CAUSE_HOST_IRQ,     [EXIT_KIND_FAULT] = CAUSE_PAGE_FAULT,
		[EXIT_KIND_PAUSE] = CAUSE_LOCK_HOLDER, [EXIT_KIND_ASYNC] = CAUSE_EXIT_KERNEL,
	};
	const struct evidence_rule *more = asleep ? b->asleep : NULL;
	struct blame_part *p;
	enum exit_kind kind;
	uint32_t fault = 0;

	if (!v) {
		p = part_of(s, CAUSE_UNKNOWN, 5, time);
		snprintf(p->name, sizeof(p->name), "in KVM, for an exit that is not recorded");
		return;
	}
	kind = exit_kind(v->why);
	if (kind == EXIT_KIND_FAULT && v->device)
		kind = EXIT_KIND_OTHER;
	if (kind == EXIT_KIND_FAULT)
		fault = blame_fault_kind(b, s->vm, s->on, v->at);
	if (!more && causes[kind] == CAUSE_EXIT_KERNEL && time > (b->khz ?: 2000000) * TICK_MS)
		more = b->long_exit;
	p = part_by(b, s, b->rule[causes[kind]], more, causes[kind],
		    last_exit_key(v) + asleep + fault * 2ull, time);
	if (fault && !p->name[0])
		snprintf(p->name, sizeof(p->name), "%s%s", lat_mem_kind(fault),
			 asleep ? ", asleep" : "");
	if (kind == EXIT_KIND_HALT && !p->name[0])
		snprintf(p->name, sizeof(p->name), "awake, on its way into the guest");
	else
		name_exit(b, v, p, asleep ? ", asleep" : "");
	if (p->cause != CAUSE_LOCK_HOLDER || v->wider == v->window)
		return;
	/* It spins on and on: the window that KVM lets it spin changes with each of these exits. */
	s->window = s->window ?: v->window;
	p->name[strcspn(p->name, ",")] = '\0';
	snprintf(p->name + strlen(p->name), sizeof(p->name) - strlen(p->name),
		 ", its window from %u to %u", s->window, v->wider);
}

/* The one that releases a lock had it until then. */
void blame_halt_over(const struct blame *b, struct blame_spike *s, const struct blame_vcpu *v)
{
	bool freed = v && v->freed, kicked = v && v->kicked && !freed;
	bool lock = kicked || (v && !freed && blame_lock_halt(b, s->vm, v->rip));
	enum blame_cause cause = CAUSE_HALT_WAKE;
	struct blame_part *p;

	if (!s->in_halt)
		return;
	/* Awake, it does not wait for the lock any more. */
	lock &= s->what != BLAME_STALL || s->begin <= v->at;
	if (lock)
		cause = CAUSE_LOCK_HOLDER;
	else if (s->what == BLAME_MOMENT && !freed)
		cause = CAUSE_GUEST_SLEEP;
	/* Of a stretch it is enough that it was halted. */
	p = part_by(b, s, b->by_reason && cause == CAUSE_GUEST_SLEEP ? b->halt : b->rule[cause],
		    v && v->kicked ? NULL : b->halt, cause,
		    kicked ? v->kicker + 3ull :
		    freed  ? 1ull << 33 :
			     2,
		    s->in_halt);
	s->in_halt = 0;
	if (!p->name[0] && kicked)
		snprintf(p->name, sizeof(p->name), "halted, for a lock of vCPU %u", v->kicker);
	else if (!p->name[0] && freed)
		snprintf(p->name, sizeof(p->name), "kicked by vCPU %u, not awake yet", v->kicker);
	else if (!p->name[0] && cause != CAUSE_GUEST_SLEEP)
		snprintf(p->name, sizeof(p->name), "halted%s", lock ? ", for a lock" : "");
}

/* What an exit was for is known only when it is over. */
void blame_exit_over(const struct blame *b, struct blame_spike *s)
{
	const struct blame_vcpu *v = spike_exit_of(b, s);
	uint64_t time = s->in_halt;

	/* The exit that took most of a spike; if it is the only one, whatever it took. */
	for (unsigned int k = 0; k < ARRAY_SIZE(s->in_exit); k++)
		time += s->in_exit[k];
	if (v && v->has_rip && (!s->has_rip || time > s->rip_time)) {
		s->has_rip = true;
		s->rip = v->rip;
		s->rip_time = time;
	}
	blame_halt_over(b, s, v);
	for (unsigned int k = 0; k < ARRAY_SIZE(s->in_exit); k++) {
		if (k < 2 && s->in_exit[k]) {
			in_kernel(b, s, v, k & 1, s->in_exit[k]);
		} else if (s->in_exit[k]) {
			bool asleep = k & 1;
			const char *reason =
				v && v->user ? exit_userspace_name(v->user_reason) : NULL;
			struct blame_part *p =
				blame_part_add(b, s, asleep ? CAUSE_VMM : CAUSE_EXIT_USER,
					       v ? last_exit_key(v) : 0, s->in_exit[k]);

			/* What the VMM did with it. */
			if (!p->name[0]) {
				if (reason && !strcmp(reason, "INTR"))
					snprintf(p->name, sizeof(p->name),
						 "a signal to the vCPU's thread");
				else if (v)
					name_exit(b, v, p, asleep ? ", asleep" : "");
			}
		}
		s->in_exit[k] = 0;
	}
}

/* A CPU that handles an interrupt does nothing else. False: it does not, as far as is known. */
static bool spend_interrupted(const struct blame *b, struct blame_spike *s,
			      const struct blame_vcpu *v, const struct lat_now *n, uint64_t time)
{
	const struct blame_cpu *c = v ? blame_cpu_of(b, v->cpu) : NULL;
	bool named = c && (c->irqs || c->softirqs);
	uint64_t key = 1ull << 34;
	struct blame_part *p;

	if (n->asleep || (!named && !(v && v->in_irq && n->state == VS_GUEST)))
		return false;
	if (named)
		key = c->irqs ? c->irq : 1ull << 32 | c->softirq;
	p = blame_part_add(b, s, CAUSE_HOST_IRQ, key, time);
	if (!p->name[0] && named) {
		const char *name = c->vector ? fmt_name(c->vector) : "";

		if (!c->irqs)
			snprintf(p->name, sizeof(p->name), "softirq %llu",
				 (unsigned long long)c->softirq);
		else if (c->vector)
			snprintf(p->name, sizeof(p->name), "%.*s",
				 (int)(strlen(name) - strlen("_entry")), name);
		else if (c->handler[0])
			snprintf(p->name, sizeof(p->name), "%s", c->handler);
		else
			snprintf(p->name, sizeof(p->name), "interrupt %llu",
				 (unsigned long long)c->irq);
	} else if (!p->name[0]) {
		snprintf(p->name, sizeof(p->name), "before its exit");
	}
	return true;
}

/* The first capture of a VM's guest; NULL: there is none. */
static const struct tl_source *blame_guest_of(const struct blame *b, int64_t vm)
{
	for (size_t i = 0; i < tl_sources(b->t); i++) {
		const struct tl_source *s = tl_source(b->t, i);

		if (s->guest && (int64_t)b->map->vm[s->vm].of == vm)
			return s;
	}
	return NULL;
}

/* What else may look like the guest: whatever came before its exit was traced. */
static const struct evidence_rule *late_exit(const struct blame *b, const struct blame_vcpu *v)
{
	return v && v->why.isa < ARRAY_SIZE(b->late) && b->late[v->why.isa] ? b->late_exit : NULL;
}

/* The guest exits and took no interrupt before: if it halts for a lock, it spun on it. */
void blame_masked_over(const struct blame *b, struct blame_spike *s, bool lock)
{
	const struct tl_source *guest = blame_guest_of(b, s->vm);
	uint64_t time = s->masked;
	enum blame_cause cause;
	struct blame_part *p;

	s->masked = 0;
	if (!time)
		return;
	cause = lock ? CAUSE_LOCK_HOLDER : CAUSE_GUEST_IRQS_OFF;
	p = part_by(b, s, b->rule[cause], late_exit(b, spike_vcpu_of(b, s)), cause,
		    lock ? 1 : s->masked_by, time);
	if (p->name[0])
		return;
	if (lock)
		snprintf(p->name, sizeof(p->name), "spinning");
	else if (guest && s->masked_by != UINT32_MAX)
		name_task(guest, p, (int32_t)s->masked_by);
	else
		snprintf(p->name, sizeof(p->name), "%s", guest ? "" : "the guest was not recorded");
}

/* The guest runs. The question is whether it does what was waited for. */
static void guest_runs(const struct blame *b, struct blame_spike *s, const struct lat_now *n,
		       uint64_t time)
{
	const struct tl_source *guest = blame_guest_of(b, s->vm);
	const struct evidence_rule *late = late_exit(b, spike_vcpu_of(b, s));
	uint32_t task = n->task_known ? (uint32_t)n->task : UINT32_MAX;
	enum blame_cause cause = CAUSE_GUEST_SCHED;
	struct blame_part *p;

	if (n->in_handler)
		cause = CAUSE_GUEST_HANDLER;
	else if (s->running || s->what == BLAME_MOMENT)
		cause = CAUSE_GUEST_CODE;
	else if (!s->tid)
		cause = s->what == BLAME_IO ? CAUSE_GUEST_CODE : CAUSE_GUEST_IRQS_OFF;
	if (cause == CAUSE_GUEST_IRQS_OFF) {
		if (s->masked_by != task)
			blame_masked_over(b, s, false);
		s->masked_by = task;
		s->masked += time;
		return;
	}
	if (b->by_reason && !late) /* that it ran is enough */
		p = part_of(s, cause, task, time);
	else
		p = part_by(b, s, b->by_reason ? late : b->rule[cause], late, cause, task, time);
	if (p->name[0])
		return;
	if (cause == CAUSE_GUEST_SCHED && guest && n->task_known && !n->task)
		snprintf(p->name, sizeof(p->name), "<idle>-0, on its way to switch");
	else if (guest && n->task_known)
		name_task(guest, p, n->task);
	else
		snprintf(p->name, sizeof(p->name), "%s", guest ? "" : "the guest was not recorded");
}

static void in_guest(struct blame *b, struct blame_spike *s, const struct lat_now *n, uint64_t time)
{
	const struct blame_vcpu *v = spike_vcpu_of(b, s);
	struct blame_part *p;

	if (spend_interrupted(b, s, v, n, time))
		return;
	if (v && v->empty == BLAME_MOVED) {
		p = blame_part_add(b, s, CAUSE_LOST, 1, time);
		snprintf(p->name, sizeof(p->name), "entered on one CPU, left on another");
	} else if (v && v->empty == BLAME_NOTHING) {
		p = blame_part_add(b, s, CAUSE_UNKNOWN, 2, time);
		snprintf(p->name, sizeof(p->name), "the guest executed nothing: the host%s, or below it",
			 late_exit(b, v) ? ", whose exits are traced late" : "'s interrupt");
	} else if (not_due_yet(s) && late_exit(b, v) && !(spend_has(b, s) & EVID_IRQ)) {
		p = blame_part_add(b, s, CAUSE_UNKNOWN, 1, time);
		p->lacks |= EVID_IRQ;
		if (!p->name[0])
			snprintf(p->name, sizeof(p->name), "the guest, or an interrupt of the host");
	} else if (not_due_yet(s)) {
		p = blame_part_add(b, s, CAUSE_HOST_TIMER, 1, time);
		if (!p->name[0])
			snprintf(p->name, sizeof(p->name), "the guest ran meanwhile");
	} else if (exited_for(b, s, EXIT_KIND_PAUSE)) {
		s->spun += time;
	} else {
		guest_runs(b, s, n, time);
	}
}

/* After the exit of a pause loop: the guest spun on if the next exit is one of those, too. */
void blame_spun_over(const struct blame *b, struct blame_spike *s, bool on)
{
	uint64_t time = s->spun;
	struct blame_part *p;
	struct lat_now n;

	s->spun = 0;
	if (time && on) {
		p = blame_part_add(b, s, CAUSE_LOCK_HOLDER, 1, time);
		if (!p->name[0])
			snprintf(p->name, sizeof(p->name), "spinning");
	} else if (time && lat_vcpu_now(b->lat, (size_t)s->vm, (uint32_t)s->on, &n)) {
		guest_runs(b, s, &n, time);
	} else if (time) {
		blame_part_add(b, s, CAUSE_UNKNOWN, 0, time);
	}
}

/* On its CPU it polls, or is on its way already: its kvm_vcpu_wakeup tells. */
static void spend_halted(const struct blame *b, struct blame_spike *s, bool asleep, uint64_t time)
{
	struct blame_part *p;

	if (!not_due_yet(s) || s->what == BLAME_MOMENT) {
		s->in_halt += time;
		return;
	}
	p = part_by(b, s, b->rule[CAUSE_HOST_TIMER], asleep ? NULL : b->awake, CAUSE_HOST_TIMER, 2,
		    time);
	if (!p->name[0])
		snprintf(p->name, sizeof(p->name), "the guest was halted");
}

const struct blame_away blame_away[BLAME_AWAY] = {
	{ "disk", "", CAUSE_DISK },
	{ "vmm-wait", "its thread waited for a CPU", CAUSE_VMM },
	{ "vmm-fault", "its thread had a page fault", CAUSE_VMM },
	{ "vmm-lock", "its thread waited for a lock", CAUSE_VMM },
	{ "vmm-disk", "its thread waited for a file", CAUSE_VMM },
};

/* Time from the doorbell to the interrupt: the VMM has the request, or its disk. */
static uint64_t time_away(const struct blame *b, struct blame_spike *s, uint64_t from, uint64_t to)
{
	uint64_t lo = MAX(from, s->away_from), hi = MIN(to, s->away_to), left, take;
	struct blame_part *p;

	if (hi <= lo)
		return 0;
	left = hi - lo;
	for (unsigned int k = 0; k < BLAME_AWAY; k++) {
		take = MIN(left, s->away[k]);
		if (!take)
			continue;
		p = part_by(b, s, b->request, NULL, blame_away[k].cause, k + 1, take);
		if (!p->name[0])
			snprintf(p->name, sizeof(p->name), "%s", blame_away[k].name);
		s->away[k] -= take;
		left -= take;
	}
	if (left) {
		p = part_by(b, s, b->request, NULL, CAUSE_VMM, 0, left);
		if (!p->name[0])
			snprintf(p->name, sizeof(p->name), "while it had the request");
	}
	return hi - lo;
}

/* A host that may itself be a VM: a busy CPU that shows not even ticks may not have had its CPU. */
static void spend_silent(const struct blame *b, struct blame_spike *s, const struct lat_now *n,
			 uint64_t to)
{
	const struct blame_vcpu *v = spike_vcpu_of(b, s);
	const struct blame_cpu *c = b->below && v ? blame_cpu_of(b, v->cpu) : NULL;
	uint64_t from = c ? c->heard : 0;

	if (!from || to < from + (b->khz ?: 2000000) * TICK_MS || n->asleep ||
	    (n->state != VS_GUEST && n->state != VS_KERNEL && n->state != VS_USER))
		return;
	from = MAX(MAX(from, s->begin), s->dark_to);
	s->dark += to > from ? to - from : 0;
	s->dark_to = to;
}

void blame_spend(struct blame *b, struct blame_spike *s, uint64_t to)
{
	uint64_t from = s->since, time;
	struct lat_now n;
	bool known;

	to = MIN(to, s->end);
	if (to <= from)
		return;
	s->since = to;
	time = to - from - time_away(b, s, from, to);
	if (!time)
		return;
	if (from < b->lost_to) {
		blame_part_add(b, s, CAUSE_LOST, 0, time);
		return;
	}
	if (from < b->overwritten_to) {
		struct blame_part *p = part_of(s, CAUSE_UNKNOWN, 4, time);

		if (!p->name[0])
			snprintf(p->name, sizeof(p->name), "the flight recorder had overwritten it");
		return;
	}
	if (s->asleep && s->fetch) {
		struct blame_part *p = part_by(b, s, b->fetch, NULL, CAUSE_PAGE_FAULT, 1, time);

		if (!p->name[0])
			snprintf(p->name, sizeof(p->name), "its page is fetched meanwhile");
		return;
	}
	if (s->asleep) {
		blame_part_add(b, s, CAUSE_GUEST_SLEEP, 0, time);
		return;
	}
	known = lat_vcpu_now(b->lat, (size_t)s->vm, (uint32_t)s->on, &n);
	if (b->alone) {
		const struct lat_now *now = known ? &n : NULL;
		bool did = now && (now->in_handler || s->running ||
				   (s->tid && now->task_known && now->task));
		struct blame_part *p;

		/*
		 * Nothing of the host is known; n NULL: nor of the vCPU. What kept a task from the
		 * vCPU is known if the guest did that there, even if the host took some of the
		 * time. Why an idle vCPU, a device or a timer took long, the host alone could tell.
		 */
		if (did && s->what != BLAME_IO && s->what != BLAME_HRTIMER &&
		    s->what != BLAME_TIMERLAT) {
			guest_runs(b, s, now, time);
			return;
		}
		p = part_of(s, CAUSE_UNKNOWN, 3, time);
		p->lacks |= EVID_HOST;
		if (!p->name[0])
			snprintf(p->name, sizeof(p->name), "the host was not recorded");
		return;
	}
	if (!known) {
		blame_part_add(b, s, CAUSE_UNKNOWN, 0, time);
		return;
	}
	spend_silent(b, s, &n, to);
	if (n.state != VS_WAITING)
		idle_wait_over(b, s, n.from);
	if (n.state != VS_PREEMPTED)
		stint_over(b, s, n.cpu == n.thief_cpu);
	switch (n.state) {
	case VS_GUEST: in_guest(b, s, &n, time); break;
	case VS_KERNEL:
	case VS_USER:
		/* A vCPU that is woken for an interrupt which it does not take yet sleeps again. */
		if (n.state == VS_KERNEL && n.asleep && exited_for(b, s, EXIT_KIND_HALT))
			spend_halted(b, s, n.asleep, time);
		else if (!spend_interrupted(b, s, spike_vcpu_of(b, s), &n, time))
			s->in_exit[(n.state == VS_USER) * 2 + n.asleep] += time;
		break;
	case VS_HALTED: spend_halted(b, s, n.asleep, time); break;
	case VS_WAITING:
	case VS_PREEMPTED: robbed_of(b, s, &n, time); break;
	default: blame_part_add(b, s, CAUSE_UNKNOWN, 0, time);
	}
}

void blame_settle(struct blame *b, struct blame_spike *s)
{
	blame_exit_over(b, s);
	blame_spun_over(b, s, false);
	blame_masked_over(b, s, false);
	idle_wait_over(b, s, -1);
	stint_over(b, s, false);
}
