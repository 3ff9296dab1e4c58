/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tsc_rate_events.c: the TSC frequency from the events of a capture.
 *
 *   kvm_pvclock_update     the record that KVM computes from the frequency
 *   kvm_vcpu_wakeup        how many ns of CLOCK_MONOTONIC a halted vCPU waited. The exit that
 *                          halted it was before that, and this event after it: no fewer cycles
 *                          than the wait. No more than from where its thread went to sleep until
 *                          it ran again, by sched_switch.
 *   hrtimer_expire_entry   what a clock showed: it was read after all that the CPU did in a task,
 *                          and after the timer's interrupt began, and before this event. Two
 *                          readings for one timer on one CPU, whose TSC that is, bound what passed
 *                          between them from both sides.
 *
 * The longest times are the narrowest bounds. Those clocks follow NTP, which may steer them by 500
 * parts per million. Where events were lost nothing is known of any thread.
 */

#include "kvmft/events.h"
#include "kvmft/exit_names.h"
#include "kvmft/tsc_rate.h"

typedef unsigned __int128 u128;

/*
 * Up to `max`, more is not searched for. To see whether a record fits them, fewer will do. But that
 * many must have agreed: if a clock was set, or a VM stood still, others contradict.
 */
#define ENOUGH	    256
#define ENOUGH_PPM  100
#define CHECKS_PPM  5000
#define THREADS_MAX (1u << 20) /* a hostile file must not take all memory */

#define TIMERS_MAX  65536u

/* They are of use if they have their first `need` fields. */
static const struct {
	enum event_role role;
	size_t need;
} events[] = {
	{ EV_EXIT, 1 },	  { EV_ENTRY, 0 },   { EV_USER_EXIT, 0 }, { EV_VCPU_WAKEUP, 1 },
	{ EV_SWITCH, 3 }, { EV_PVCLOCK, 6 }, { EV_TIMER_IRQ, 0 }, { EV_HRTIMER_EXPIRE, 2 },
};

/* A thread whose vCPU is halted; stamps, 0: not yet. */
struct halted {
	uint64_t exit, sleep, slept_from, slept_to;
};

/* A clock showed now, ns, at some TSC between these. */
struct reading {
	uint64_t before, after, now;
};

/* A timer on a CPU. */
struct expiries {
	struct reading first, best; /* the narrowest */
};

struct rate_scan {
	const struct capture *cap;
	const struct fmt *fmt;
	uint8_t role[UINT16_MAX + 1]; /* by event id */
	struct event_type type[EV_ROLES];
	struct exit_names names;
	struct u64map at; /* tid → index into thread */
	struct halted *thread;
	size_t thread_cap;
	struct u64map timer_at; /* of timer and CPU → index into timer */
	struct expiries *timer;
	size_t timer_cap;
	struct tsc_rate_events *e;
	struct rate_stream {
		struct rate_scan *scan;
		struct rstream r;
		bool gap;
		uint64_t task;	 /* stamp of the last event in a task, or of a timer's interrupt */
		uint64_t before; /* ... before this one */
	} *stream;
	size_t nstream;
};

static bool resolve(struct rate_scan *s)
{
	struct event_type *t = s->type;

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (event_find(s->fmt, events[i].role, events[i].need, &t[events[i].role]))
			s->role[fmt_id(t[events[i].role].ev)] = (uint8_t)events[i].role;
	return t[EV_PVCLOCK].ev || (t[EV_EXIT].ev && t[EV_VCPU_WAKEUP].ev) ||
	       t[EV_HRTIMER_EXPIRE].ev;
}

static uint64_t value(const struct rate_scan *s, enum event_role role, size_t i,
		      const struct rec *rec)
{
	return event_u64(s->fmt, &s->type[role], i, rec);
}

/* ---- waits ---- */

static struct halted *halted_of(const struct rate_scan *s, int32_t tid)
{
	uint64_t at;

	return u64map_get(&s->at, (uint32_t)tid, &at) ? &s->thread[at] : NULL;
}

static int thread_halts(struct rate_scan *s, int32_t tid, uint64_t t)
{
	struct halted *h = halted_of(s, tid);

	if (!h && s->at.n >= THREADS_MAX)
		return 0;
	h = u64map_elem(&s->at, (uint32_t)tid, &s->thread, &s->thread_cap, sizeof(*h));
	if (!h)
		return -ENOMEM;
	*h = (struct halted){ .exit = t };
	return 0;
}

static void thread_goes_on(struct rate_scan *s, int32_t tid)
{
	struct halted *h = halted_of(s, tid);

	if (h)
		*h = (struct halted){ 0 };
}

static void thread_switch(struct rate_scan *s, const struct rec *rec)
{
	struct halted *prev = halted_of(s, (int32_t)value(s, EV_SWITCH, 0, rec));
	struct halted *next = halted_of(s, (int32_t)value(s, EV_SWITCH, 2, rec));

	/* as waits of KVM are */
	if (prev && prev->exit && value(s, EV_SWITCH, 1, rec) == EVENT_TASK_INTERRUPTIBLE)
		prev->sleep = rec->ts;
	if (!next || !next->sleep)
		return;
	next->slept_from = next->slept_from ?: next->sleep;
	next->slept_to = rec->ts;
	next->sleep = 0;
}

/* ns took at least `least` cycles and at most `most`. */
static void bound(struct tsc_rate_bounds *b, uint64_t ns, uint64_t least, uint64_t most)
{
	u128 min = ((u128)least * 1000000 + ns - 1) / ns, max = (u128)most * 1000000 / ns;

	b->min = MAX(b->min, (uint64_t)MIN(min, (u128)UINT32_MAX));
	b->max = MIN(b->max, (uint64_t)MIN(max, (u128)UINT32_MAX));
	b->n++;
}

static void thread_wakes(struct rate_scan *s, const struct rec *rec)
{
	struct halted *h = halted_of(s, fmt_pid(s->fmt, rec));
	uint64_t ns = value(s, EV_VCPU_WAKEUP, 0, rec);

	if (!h || !h->exit)
		return;
	if (ns && rec->ts > h->exit)
		bound(&s->e->waits, ns, h->slept_to - h->slept_from, rec->ts - h->exit);
	*h = (struct halted){ 0 };
}

static int scan_exit(struct rate_scan *s, const struct rec *rec)
{
	int32_t tid = fmt_pid(s->fmt, rec);
	uint64_t first = value(s, EV_EXIT, 0, rec), second = value(s, EV_EXIT, 1, rec);

	if (exit_is_halt(exit_why(&s->names, first, second)))
		return thread_halts(s, tid, rec->ts);
	thread_goes_on(s, tid);
	return 0;
}

/* ---- timers ---- */

static void between_readings(struct tsc_rate_events *e, const struct reading *a,
			     const struct reading *b)
{
	if (b->now > a->now && b->after > a->before)
		bound(&e->timers, b->now - a->now, b->before > a->after ? b->before - a->after : 0,
		      b->after - a->before);
}

static int timer_expires(struct rate_scan *s, const struct rate_stream *st)
{
	const struct rec *rec = &st->r.rec;
	const struct reading r = { .before = st->before,
				   .after = rec->ts,
				   .now = value(s, EV_HRTIMER_EXPIRE, 1, rec) };
	uint64_t key = value(s, EV_HRTIMER_EXPIRE, 0, rec) ^ (uint64_t)(st - s->stream) << 48;
	struct expiries *t;

	if (!r.before)
		return 0;
	if (s->timer_at.n >= TIMERS_MAX && !u64map_get(&s->timer_at, key, NULL))
		return 0;
	t = u64map_elem(&s->timer_at, key, &s->timer, &s->timer_cap, sizeof(*t));
	if (!t)
		return -ENOMEM;
	if (!t->first.before) {
		*t = (struct expiries){ r, r };
		return 0;
	}
	between_readings(s->e, &t->first, &r);
	between_readings(s->e, &t->best, &r);
	if (r.after - r.before < t->best.after - t->best.before)
		t->best = r;
	return 0;
}

/* ---- records ---- */

/* The ratio of the vCPU that the thread runs; NULL: not in the capture. */
static const struct cap_vcpu *vcpu_of(const struct capture *cap, int32_t tid)
{
	for (size_t i = 0; i < cap->nvm; i++)
		for (size_t k = 0; k < cap->vm[i].nvcpu; k++)
			if (cap->vm[i].vcpu[k].tid == tid && cap->vm[i].vcpu[k].has_offset)
				return &cap->vm[i].vcpu[k];
	return NULL;
}

static void scan_pvclock(struct rate_scan *s, const struct rec *rec)
{
	const struct cap_vcpu *v = vcpu_of(s->cap, fmt_pid(s->fmt, rec));
	struct tsc_map map = { .ratio = v ? v->ratio : 0, .frac = v ? v->frac : 0 };
	struct tsc_rate guest;

	if (s->e->pvclock.source && !s->e->pvclock.supposed)
		return;
	if (!tsc_rate_of_pvclock((uint32_t)value(s, EV_PVCLOCK, 4, rec),
				 (int8_t)value(s, EV_PVCLOCK, 5, rec), &guest) ||
	    !tsc_rate_of_guest(&guest, v ? &map : NULL, &s->e->pvclock))
		s->e->pvclock = (struct tsc_rate){ 0 };
}

/* ---- the walk, in time order over all CPUs, because threads move ---- */

/* For timers: when the last event in a task was. */
static inline void stream_in_task(struct rate_stream *st, enum event_role role, uint64_t ts)
{
	st->before = st->task;
	if (st->gap || role == EV_TIMER_IRQ ||
	    !event_in_interrupt(st->scan->fmt, &st->r.rec))
		st->task = st->gap ? 0 : ts;
}

static bool stream_next(void *stream, uint64_t *key)
{
	struct rate_stream *st = stream;
	enum rkind k;

	while ((k = rstream_next(&st->r)) != R_END) {
		enum event_role role =
			k == R_EVENT ? (enum event_role)st->scan->role[st->r.rec.id] : EV_NONE;

		st->gap = k != R_EVENT;
		*key = st->gap ? st->r.sb.ts : st->r.rec.ts;
		if (st->scan->type[EV_HRTIMER_EXPIRE].ev)
			stream_in_task(st, role, *key);
		if (st->gap || role)
			return true;
	}
	return false;
}

static int scan_event(struct rate_scan *s, const struct rate_stream *st)
{
	const struct rec *rec = &st->r.rec;

	switch ((enum event_role)s->role[rec->id]) {
	case EV_EXIT: return scan_exit(s, rec);
	case EV_ENTRY:
	case EV_USER_EXIT: thread_goes_on(s, fmt_pid(s->fmt, rec)); break;
	case EV_VCPU_WAKEUP: thread_wakes(s, rec); break;
	case EV_SWITCH: thread_switch(s, rec); break;
	case EV_PVCLOCK: scan_pvclock(s, rec); break;
	case EV_HRTIMER_EXPIRE: return timer_expires(s, st);
	default: break;
	}
	return 0;
}

static bool is_narrow(const struct tsc_rate_bounds *b, uint64_t ppm)
{
	return b->n >= ENOUGH && b->min && b->max >= b->min &&
	       (b->max - b->min) * 1000000 <= b->min * ppm;
}

/* No event could reveal more, or not enough to matter. */
static bool is_enough(const struct rate_scan *s)
{
	const struct tsc_rate_events *e = s->e;
	uint64_t ppm = e->pvclock.source ? CHECKS_PPM : ENOUGH_PPM;

	return (e->pvclock.source && !e->pvclock.supposed) || is_narrow(&e->waits, ppm) ||
	       is_narrow(&e->timers, ppm);
}

static int walk(struct rate_scan *s, struct rmerge *m)
{
	uint64_t key;
	ssize_t at;
	int ret = 0;

	for (at = rmerge_peek(m, &key); at >= 0 && !ret && !is_enough(s);
	     at = rmerge_pop(m, at, stream_next, &key)) {
		struct rate_stream *st = &s->stream[at];

		for (size_t i = 0; st->gap && i < s->at.n; i++)
			s->thread[i] = (struct halted){ 0 };
		if (!st->gap)
			ret = scan_event(s, st);
	}
	for (size_t i = 0; i < s->nstream && !ret; i++)
		ret = s->stream[i].r.error;
	return ret;
}

static int open_all(struct rate_scan *s)
{
	int ret = 0;

	s->nstream = 0;
	for (; s->nstream < s->cap->nstream && !ret; s->nstream += !ret) {
		struct rate_stream *st = &s->stream[s->nstream];

		*st = (struct rate_stream){ .scan = s };
		ret = rstream_open(&st->r, s->cap, &s->cap->stream[s->nstream]);
	}
	return ret;
}

static void close_all(struct rate_scan *s)
{
	for (size_t i = 0; i < s->nstream; i++)
		rstream_close(&s->stream[i].r);
	s->nstream = 0;
}

/* ---- most captures of which nothing is known have no such event at all ---- */

/* Without these, the others reveal nothing. */
static bool is_decisive(const struct rate_scan *s, uint16_t id)
{
	enum event_role role = (enum event_role)s->role[id];

	return role == EV_PVCLOCK || role == EV_VCPU_WAKEUP || role == EV_HRTIMER_EXPIRE;
}

/* Whether this sub-buffer, or what can be read of it, has one. */
static bool subbuf_decides(const struct rate_scan *s, struct rstream *r)
{
	struct subbuf sb = r->sb;
	struct rec rec;
	int ret;

	while ((ret = subbuf_next(&sb, &rec)) > 0)
		if (is_decisive(s, rec.id))
			return true;
	if (ret < 0)
		rstream_damage(r);
	return false;
}

/* One stream after the other, in no order of time: a tenth of what walk() costs. */
static bool any_decides(struct rate_scan *s)
{
	for (size_t i = 0; i < s->nstream; i++) {
		struct rstream *r = &s->stream[i].r;
		enum rkind k;

		while ((k = rstream_subbuf(r)) != R_END)
			if (k == R_EVENT && subbuf_decides(s, r))
				return true;
		if (r->error)
			return true; /* left to walk() to see, and to report */
	}
	return false;
}

static int walk_all(struct rate_scan *s)
{
	_cleanup_free_ void **src = calloc(s->cap->nstream + 1, sizeof(*src));
	struct rmerge *m = NULL;
	int ret;

	s->stream = calloc(s->cap->nstream + 1, sizeof(*s->stream));
	if (!src || !s->stream)
		return -ENOMEM;
	ret = open_all(s);
	if (ret || !any_decides(s))
		return ret;
	close_all(s);
	ret = open_all(s);
	exit_names_init(&s->names, event_format(s->fmt, EV_EXIT), s->cap->vendor);
	for (size_t i = 0; i < s->nstream; i++)
		src[i] = &s->stream[i];
	ret = ret ?: rmerge_new(&m, stream_next, src, s->nstream);
	ret = ret ?: walk(s, m);
	rmerge_free(m);
	return ret;
}

int tsc_rate_scan(const struct capture *cap, const struct fmt *fmt, struct tsc_rate_events *e)
{
	_cleanup_free_ struct rate_scan *s = calloc(1, sizeof(*s));
	int ret = 0;

	*e = (struct tsc_rate_events){ .waits.max = UINT32_MAX, .timers.max = UINT32_MAX };
	if (!s)
		return -ENOMEM;
	s->cap = cap;
	s->fmt = fmt;
	s->e = e;
	if (resolve(s))
		ret = walk_all(s);
	close_all(s);
	free(s->stream);
	free(s->thread);
	free(s->timer);
	u64map_free(&s->at);
	u64map_free(&s->timer_at);
	return ret;
}
