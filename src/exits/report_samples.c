/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_samples.c: from the events of a vCPU thread to samples.
 *
 * Exact. A thread is in the guest since kvm_entry, or out of it since kvm_exit, or its state is
 * unknown (at the beginning, after a gap). What a class finds is charged to the exit in which it
 * happened:
 *
 *   exit ............ write A ..... write B ...... entry     A: to B; B: to the entry
 *   exit ... in A done ... in B done ............. entry     A: exit to "A done"; B: the rest
 *   exit ... read A done ... read B done ......... entry     A: exit to done; B: from there to done
 *
 * so that time inside an exit is assigned once. An exit that follows an exit (the kernel entered
 * the guest again without an event) ends what is open: a sample without time.
 *
 * perf. What `perf kvm stat report` does (tools/perf/builtin-kvm.c of Linux 6.12): a begin replaces
 * the one before, an end without begin or without any key is ignored, time 0 means no begin, and a
 * thread counts from its first kvm_entry, which also says for good which vCPU it is.
 */
#include "report_priv.h"

/*
 * What the time between an exit and the next entry was spent on.
 *
 *   user       from kvm_userspace_exit to the thread's next event in KVM's run loop
 *   off CPU    from sched_switch away to sched_switch back, asleep until sched_wakeup
 *   halted     kvm_vcpu_wakeup says afterwards how long (virt/kvm/kvm_main.c, kvm_vcpu_halt()):
 *              what it was not off its CPU, it polled
 *
 * What is left is work in the kernel. Sleep in user space is part of user. That is so if all these
 * events were recorded: else a part that lacks one is not shown, see report_lacks().
 */

static void split_exit(struct rsplit *s)
{
	for (int i = 0; i < REPORT_PARTS; i++)
		s->part[i] = 0;
	s->blocked = s->runnable = s->off_guest = 0;
	s->in_user = false;
	/* s->off stays: an event of a thread that is off its CPU is impossible, see split_on() */
}

/* The thread is on its CPU again, or was all the time: books the time that it was off. */
static void split_on(struct rsplit *s, uint64_t now, bool guest)
{
	uint64_t d = now > s->off_since ? now - s->off_since : 0;

	if (guest) {
		s->off_guest += s->off == ON_CPU ? 0 : d;
	} else if (s->off == OFF_PREEMPTED) {
		s->part[PART_PREEMPTED] += d;
	} else if (s->off == OFF_WOKEN) {
		s->part[PART_RUNNABLE] += d;
		s->runnable += d;
	} else if (s->off == OFF_ASLEEP && !s->in_user) {
		s->part[PART_BLOCKED] += d;
		s->blocked += d;
	}
	if (s->in_user && (s->off == OFF_PREEMPTED || s->off == OFF_WOKEN) && !guest)
		s->user_since += d; /* not user's time */
	s->off = ON_CPU;
}

static void split_user_end(struct rsplit *s, uint64_t now)
{
	if (s->in_user && now > s->user_since)
		s->part[PART_USER] += now - s->user_since;
	s->in_user = false;
}

static uint64_t ns_ticks(const struct report *r, uint64_t ns)
{
	u128 t = (u128)ns * r->div / r->mul;

	return t > UINT64_MAX ? UINT64_MAX : (uint64_t)t;
}

static void split_event(struct report *r, struct rthread *t, const struct rev *e)
{
	struct rsplit *s = t->split;
	bool guest = t->state == STATE_GUEST;

	switch (e->is.op) {
	case OP_OUT:
		s->off = e->key ? OFF_ASLEEP : OFF_PREEMPTED;
		s->off_since = e->ts;
		break;
	case OP_WOKEN:
		if (s->off != OFF_ASLEEP)
			break;
		split_on(s, e->ts, guest);
		s->off = OFF_WOKEN;
		s->off_since = e->ts;
		break;
	case OP_IN:
		split_on(s, e->ts, guest);
		break;
	case OP_USER:
		if (t->state != STATE_EXITED)
			break;
		split_user_end(s, e->ts);
		s->in_user = true;
		s->user_since = e->ts;
		break;
	case OP_WAKEUP:
		split_user_end(s, e->ts);
		if (t->state == STATE_EXITED) {
			uint64_t since = e->ts > t->mark ? e->ts - t->mark : 0;
			uint64_t given = 0;
			uint64_t halted;

			/*
			 * A halt that took `ns` is over; the scheduler's events have accounted for
			 * a part of it already.
			 */
			s = t->split;
			for (int i = 0; i < REPORT_PARTS; i++)
				given += s->part[i];
			halted = ns_ticks(r, e->key);
			halted = MIN(halted, since); /* its clock is another one */
			halted -= MIN(halted, s->blocked + s->runnable);
			halted = MIN(halted, since - MIN(since, given));
			s->part[PART_POLL] += halted;
			s->blocked = s->runnable = 0;
		}
		break;
	default:
		split_user_end(s, e->ts);
		break;
	}
}

/* Closes the parts of an exit that took `total` ticks until now: part[] adds up to that. */
static void split_entry(struct rsplit *s, uint64_t now, uint64_t total, uint64_t part[REPORT_PARTS])
{
	uint64_t left = total;

	split_on(s, now, false);
	split_user_end(s, now);
	for (int i = PART_KERNEL + 1; i < REPORT_PARTS; i++) {
		uint64_t d = MIN(s->part[i], left); /* the sum is the total, whatever a file says */

		part[i] = d;
		left -= d;
	}
	part[PART_KERNEL] = left;
}

/* Ticks that the thread was off its CPU while it seemed to be in the guest. */
static uint64_t split_guest(struct rsplit *s, uint64_t now)
{
	split_on(s, now, true);
	return s->off_guest;
}

#define PERF_DIFFERS 5u /* percent */

/* Events were lost between then, on cpu a, and now, on cpu b: anything may have happened. */
static bool over_gap(const struct report *r, uint64_t then, uint32_t a, uint32_t b)
{
	return r->tot.gaps && (r->gap_to[a] > then || r->gap_to[b] > then);
}

/*
 * ... or on any CPU, to which a thread that is out of its guest may have gone. In less than that
 * none goes, runs its guest there, and comes back: two switches and two moves.
 */
#define AWAY_NS 10000

static bool out_over_gap(const struct report *r, const struct rthread *t, uint64_t then, uint32_t a,
			 uint64_t now, uint32_t b)
{
	bool stayed = (r->opts.split || r->switches) && r->recorded & EVID_SWITCH && !t->left;

	return over_gap(r, then, a, b) || (r->tot.gaps && !stayed && r->any_loss_to > then &&
					   now - then >= ns_ticks(r, AWAY_NS));
}

/* A sample of key from `from` to `to`; *cell receives its cell if it counted. */
static void sample_put(struct report *r, struct rthread *t, uint64_t from, uint32_t from_cpu,
		  uint64_t to, uint32_t cpu, struct cell **cell)
{
	struct cell *c;

	if (out_over_gap(r, t, from, from_cpu, to, cpu)) {
		r->tot.dropped++;
		return;
	}
	if (to < from) {
		r->tot.negative++;
		return;
	}
	c = cell_get(t->v->cells, &r->budget, t->key);
	t->v->sampled = true;
	cell_time(c, &r->budget, to - from);
	if (cell)
		*cell = c;
}

static void close_open(struct report *r, struct rthread *t, uint64_t to, uint32_t cpu,
		      struct cell **cell)
{
	t->open = OPEN_NONE;
	sample_put(r, t, t->from, t->from_cpu, to, cpu, cell);
}

/* For opts.each: part is NULL if the end is unknown. */
static int tell_sample(const struct report *r, const struct rthread *t, const uint64_t *part,
		       uint64_t to)
{
	struct report_sample s = {
		.tid = t->tid, .vcpu = t->v->vcpu, .key = t->key, .from = t->from,
		.timed = part, .to = to,
	};

	for (int i = 0; part && i < REPORT_PARTS; i++)
		s.part[i] = part[i];
	return r->opts.each(r->opts.ctx, r, &s);
}

/* What is open ends without a time of its own. */
static int close_untimed(struct report *r, struct rthread *t)
{
	struct cell *c = cell_get(t->v->cells, &r->budget, t->key);

	t->open = OPEN_NONE;
	t->v->sampled = true;
	c->untimed++;
	return r->opts.each ? tell_sample(r, t, NULL, 0) : 0;
}

static int exact_exit(struct report *r, struct rthread *t, const struct rev *e, uint32_t cpu)
{
	int ret = 0;
	uint64_t off = t->split ? split_guest(t->split, e->ts) : 0;
	uint64_t d;

	if (t->state == STATE_GUEST && e->ts >= t->entered) {
		/* No guest moves: unless its thread did, its exit or another entry is missing. */
		if (over_gap(r, t->entered, t->entered_cpu, cpu) ||
		    (cpu != t->entered_cpu && !off)) {
			r->tot.cut++;
		} else {
			d = e->ts - t->entered;
			t->v->guest += d - MIN(d, off);
			t->v->windows++;
		}
	}
	if (t->state == STATE_EXITED && out_over_gap(r, t, t->mark, t->mark_cpu, e->ts, cpu)) {
		r->tot.dropped += t->open != OPEN_NONE;
		t->open = OPEN_NONE;
	} else if (t->state == STATE_EXITED) {
		r->tot.no_end++;
		ret = t->open ? close_untimed(r, t) : 0;
	}
	/* What came between entry and exit is still open: it belongs to this exit. */
	t->state = STATE_EXITED;
	t->left = false;
	t->mark = e->ts;
	t->mark_cpu = cpu;
	if (t->split)
		split_exit(t->split);
	return ret;
}

static void exact_begin(struct report *r, struct rthread *t, const struct rev *e, uint32_t cpu)
{
	uint64_t from = e->ts;
	uint32_t from_cpu = cpu;

	if (e->is.begin == MARK_AT_EXIT && t->state == STATE_UNKNOWN) {
		r->tot.no_begin++;
		return;
	}
	if (e->is.begin == MARK_AT_EXIT && t->state == STATE_EXITED) {
		from = t->mark;
		from_cpu = t->mark_cpu;
		if (!t->open && from <= e->ts && !over_gap(r, from, from_cpu, cpu))
			r->before += e->ts - from;
	}
	if (t->open) {
		bool late = t->open == OPEN_AT_EXIT;

		close_open(r, t, late ? t->last : e->ts, cpu, NULL);
		from = late && e->is.begin == MARK_AT_EXIT ? t->last : e->ts;
	}
	t->open = e->is.begin == MARK_AT_EXIT ? OPEN_AT_EXIT : OPEN_HERE;
	t->key = e->key;
	t->from = from;
	t->from_cpu = from_cpu;
	t->last = e->ts;
}

/* The end of what has its key only now: it ran since the exit, or the last end. */
static void exact_end_key(struct report *r, struct rthread *t, const struct rev *e, uint32_t cpu)
{
	uint64_t from = t->mark;
	uint32_t from_cpu = t->mark_cpu;

	if (t->state != STATE_EXITED) {
		r->tot.no_begin++;
		return;
	}
	if (t->open) {
		/* A write and a read in one exit: where one became the other is unknown. */
		close_open(r, t, e->ts, cpu, NULL);
		from = e->ts;
		from_cpu = cpu;
	}
	t->key = e->key;
	t->mark = e->ts;
	t->mark_cpu = cpu;
	sample_put(r, t, from, from_cpu, e->ts, cpu, NULL);
}

static int exact_any(struct report *r, struct rthread *t, const struct rev *e, uint32_t cpu)
{
	int ret = 0;

	if (r->opts.counts) {
		t->key = e->key;
		return e->is.op == OP_CLASS && e->is.begin != MARK_MORE ? close_untimed(r, t) : 0;
	}
	if (e->is.op > OP_CLASS) {
		t->left |= e->is.op == OP_OUT;
		if (t->split)
			split_event(r, t, e);
		return 0;
	}
	if (e->is.op == OP_EXIT)
		ret = exact_exit(r, t, e, cpu);
	if (e->is.op == OP_ENTRY && e->key != VCPU_UNKNOWN) {
		bool other = t->v->vcpu >= 0 && (uint64_t)t->v->vcpu != e->key;
		uint64_t *owner;

		/*
		 * Does a thread enter another vCPU than it left, or one that another thread had
		 * meanwhile? Then what it left did not last until now.
		 */
		if (t->floats || other) {
			owner = xu64map_at(&r->owner, e->key);
			other |= *owner != e->thread + 1ull;
			*owner = e->thread + 1ull;
		}
		r->handed += other && t->open;
		ret = other && t->open ? close_untimed(r, t) : 0;
	}
	if (!ret && e->is.end == MARK_YES) {
		struct cell *c = NULL;

		ret = 0;
		if (t->open)
			close_open(r, t, e->ts, cpu, &c);
		r->tot.moved += c && t->mark_cpu != cpu;
		if (!ret && t->split && c && e->is.op == OP_ENTRY) {
			uint64_t part[REPORT_PARTS];

			/* An exit that an entry ended: where its time went. */
			split_entry(t->split, e->ts, e->ts - t->from, part);
			for (int i = 0; c->part && i < REPORT_PARTS; i++)
				c->part[i] += part[i];
			ret = r->opts.each ? tell_sample(r, t, part, e->ts) : 0;
		}
		t->mark = e->ts;
		t->mark_cpu = cpu;
	}
	if (!ret && e->is.end == MARK_KEY)
		exact_end_key(r, t, e, cpu);
	if (!ret && e->is.begin == MARK_MORE)
		t->key |= t->open ? e->key : 0;
	else if (!ret && e->is.begin)
		exact_begin(r, t, e, cpu);
	if (e->is.op == OP_CLASS && t->split)
		split_event(r, t, e);
	if (e->is.op == OP_ENTRY) {
		t->state = STATE_GUEST;
		t->entered = e->ts;
		t->entered_cpu = cpu;
		if (t->split)
			split_exit(t->split);
		if (!ret && e->key != VCPU_UNKNOWN)
			report_set_vcpu(r, t, (uint32_t)e->key);
	}
	return ret;
}

static void perf_any(struct report *r, struct rthread *t, const struct rev *e)
{
	struct cell *c;
	uint64_t from = t->from;

	if (e->is.op > OP_CLASS)
		return;
	if (!t->known) {
		if (e->is.op != OP_ENTRY)
			return;
		t->known = true;
		if (e->key != VCPU_UNKNOWN)
			report_set_vcpu(r, t, (uint32_t)e->key);
	}
	if (e->is.begin) {
		t->perf_key = e->is.begin != MARK_YES;
		t->key = e->key;
		t->from = e->ts;
		return;
	}
	if (!e->is.end || !from || (!t->perf_key && e->is.end != MARK_KEY))
		return;
	c = cell_get(t->v->cells, &r->budget, t->perf_key ? t->key : e->key);
	t->perf_key = false;
	t->from = 0;
	if (e->ts < from) {
		r->tot.negative++;
		return;
	}
	t->v->sampled = true;
	cell_time(c, &r->budget, e->ts - from);
}

/* NULL: in none. */
static void thread_list(struct rthread *t, struct rthread **list)
{
	if (t->list == list)
		return;
	if (t->list && t->next)
		t->next->at = t->at;
	if (t->list)
		*t->at = t->next;
	t->list = t->at = list;
	if (list && *list)
		(*list)->at = &t->next;
	t->next = list ? *list : NULL;
	if (list)
		*list = t;
}

/* Threads whose last event was on this CPU may have missed anything. */
static void samples_gap(struct report *r, const struct rev *e, uint32_t cpu)
{
	r->gap_to[cpu] = e->is.op == OP_GAP ? UINT64_MAX : e->ts;
	if (e->is.op == OP_GAP ? !e->key : r->loss_to[cpu] == UINT64_MAX)
		r->loss_to[cpu] = r->gap_to[cpu];
	r->any_loss_to = 0;
	for (size_t i = 0; i < r->cap->nstream; i++)
		r->any_loss_to = MAX(r->any_loss_to, r->loss_to[i]);
	if (e->is.op != OP_GAP)
		return;
	for (struct rthread *t; (t = r->cut_by[cpu]);) {
		thread_list(t, NULL);
		if (t->state == STATE_UNKNOWN)
			continue;
		r->tot.cut += t->state == STATE_GUEST;
		r->tot.dropped += t->open != OPEN_NONE;
		t->open = OPEN_NONE;
		t->state = STATE_UNKNOWN;
	}
}

/*
 * The usual case: exits out of the guest, each followed by an entry that ends what the exit began,
 * all of one thread. What they change in the thread and its vCPU is written once, after the last
 * one. Returns what comes then, which may be e itself: anything special is left to exact_any().
 */
static const struct rev *direct_run(struct report *r, const struct rev *e, const struct rev *last,
				    uint32_t cpu)
{
	const uint32_t thread = e->thread;
	struct rthread *t = r->thread[thread];
	struct rvcpu *v = t->v;
	struct cells *cells = v->cells;
	const uint64_t vcpu = (uint64_t)v->vcpu;
	uint64_t entered = t->entered, guest = 0, began = 0;
	const struct rev *first = e;

	/* No gap since the first time means none since a later one. */
	if (t->state != STATE_GUEST || t->open || t->floats || t->entered_cpu != cpu ||
	    over_gap(r, entered, cpu, cpu) || (r->tot.gaps && r->any_loss_to > entered))
		return e;
	for (; e < last && e[0].is.direct == OP_EXIT && e[1].is.direct == OP_ENTRY; e += 2) {
		uint64_t exit = e[0].ts, entry = e[1].ts;

		if (e[0].thread != thread || e[1].thread != thread || exit < entered ||
		    entry < exit || e[1].key != vcpu)
			break;
		if (e->is.begin) {
			cell_time(cell_get(cells, &r->budget, e->key), &r->budget, entry - exit);
			began++;
		}
		guest += exit - entered;
		entered = entry;
	}
	if (e == first)
		return e;
	v->sampled |= began != 0;
	v->guest += guest;
	v->windows += (uint64_t)(e - first) / 2;
	t->entered = entered;
	return e;
}

/* What is not direct: not inline, so that direct_run() is a short loop. */
static __attribute__((noinline)) int samples_feed_one(struct report *r, const struct rev *e,
						      uint32_t cpu)
{
	struct rthread *t = e->is.op < OP_GAP ? r->thread[e->thread] : NULL;
	int ret = 0;

	if (!t) {
		samples_gap(r, e, cpu);
	} else if (r->opts.semantics != REPORT_PERF) {
		ret = exact_any(r, t, e, cpu);
		thread_list(t, &r->cut_by[t->state == STATE_GUEST ? t->entered_cpu : t->mark_cpu]);
	} else {
		perf_any(r, t, e);
	}
	return ret;
}

int samples_feed(struct report *r, const struct rev *e, size_t n, uint32_t cpu)
{
	bool direct = r->opts.semantics == REPORT_EXACT && !r->opts.split;
	const struct rev *end = e + n, *last = direct && n ? end - 1 : e;

	while (e < end) {
		int ret;

		if (e < last && e->is.direct == OP_EXIT) {
			const struct rev *next = direct_run(r, e, last, cpu);

			if (next > e) {
				e = next;
				continue;
			}
		}
		ret = samples_feed_one(r, e++, cpu);
		if (ret)
			return ret;
	}
	return 0;
}

void samples_finish(struct report *r)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	evidence_remedy(report_needs(r), &b);
	if (*xsbuf_text(&b))
		report_remark(r, "?: not recorded; what would show it: %s", b.s);
	if (r->tot.cut)
		report_remark(r,
			      "%llu entries whose exit was on another CPU, or came after lost "
			      "events: not in the guest's run time",
			      (unsigned long long)r->tot.cut);
	if (r->tot.moved && !(r->recorded & EVID_SWITCH))
		report_remark(r,
			      "%llu exits whose entry was on another CPU: their threads were off "
			      "their CPU in between; how long only sched_switch tells (--split)",
			      (unsigned long long)r->tot.moved);
	if (r->handed)
		report_remark(r,
			      "%llu exits have no time: another thread entered their vCPU next, or "
			      "their thread another vCPU", (unsigned long long)r->handed);
	if (r->opts.semantics == REPORT_EXACT && class_has_perf(r->opts.cls)) {
		u128 sum = 0, before = r->before;

		/* Whoever compares with perf should know why its sums are smaller. */
		for (size_t i = 0; i < r->nvcpu; i++) {
			const struct rvcpu *v = r->vcpu[i];

			for (const struct cell *c = v->cells->first; c; c = c->next)
				sum += c->sum;
		}
		if (before < sum && before * 100 > (sum - before) * PERF_DIFFERS)
			report_remark(
				r,
				"%u %% or more above perf's times, which begin at %s (see --semantics perf)",
				(unsigned int)(before * 100 / (sum - before)),
				r->opts.cls->tp[0].name);
	}
	for (size_t i = 0; i < r->nthread; i++) {
		struct rthread *t = r->thread[i];

		if (t->open && !r->tot.entries) /* no exit has an end, not only the last one */
			(void)close_untimed(r, t);
		if (t->open || (r->opts.semantics == REPORT_PERF && t->from && t->perf_key))
			r->tot.open++;
	}
}
