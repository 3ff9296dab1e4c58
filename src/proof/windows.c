/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * windows.c: entry..exit windows per vCPU, the events in them, and the slack they leave.
 *
 * Per vCPU its turns (vcpu_turn.h), fed in host TSC order. The host stream comes first among equal
 * stamps, so an event stamped exactly like an entry is inside; one stamped exactly like an exit is
 * taken as inside too.
 *
 * An event after an exit is outside only once an entry follows. If another exit does, the guest had
 * been re-entered without an event (the fast path of older kernels): nothing is known about that
 * time.
 */
#include "kvmft/proof.h"

#define RECENT_BITS	10 /* 2^this many vCPUs may be found without the map */
#define SLICE_MIN_SHIFT 16 /* 2^16 cycles; doubled whenever the slices do not reach far enough */

struct windows {
	const struct timeline *t;
	size_t nsrc; /* of t, which may be gone when this is freed */
	struct win_vcpu *v;
	size_t cap;
	struct u64map by_key; /* vm << 32 | vcpu → index */
	struct u64map first;  /* vm → 1 and the index of its first one; see win_next() */
	/* those that had events since the last gap: only they are touched by the next */
	size_t *heard, nheard, heard_cap;
	struct {
		uint64_t key;
		struct win_vcpu *v; /* NULL: none */
	} recent[1u << RECENT_BITS];
	uint64_t blind_until; /* host events were lost up to here: no window is known */
	uint64_t last_host;   /* the newest event of any host */
	uint64_t from;	      /* where the slices begin */
	unsigned int shift;   /* 2^shift cycles each */
	bool started, late;
	size_t *host; /* of each source, by its id: which of the hosts it is */
	size_t hosts;
	void (*each)(void *ctx, const struct win_vcpu *v, uint64_t exit);
	void *ctx;
};

static inline uint64_t window_key_of(size_t vm, uint32_t vcpu)
{
	return (uint64_t)vm << 32 | vcpu;
}

static inline struct win_vcpu *win_recent(const struct windows *w, size_t vm, uint32_t vcpu)
{
	size_t r = near_slot((uint32_t)vm, vcpu, RECENT_BITS);

	return w->recent[r].key == window_key_of(vm, vcpu) ? w->recent[r].v : NULL;
}

static struct win_vcpu *win_at(struct windows *w, size_t vm, uint32_t vcpu)
{
	struct win_vcpu *v = win_recent(w, vm, vcpu), *all = w->v;
	uint64_t key = window_key_of(vm, vcpu);
	size_t r = near_slot((uint32_t)vm, vcpu, RECENT_BITS);

	if (v)
		return v;
	v = xu64map_elem(&w->by_key, key, &w->v, &w->cap, sizeof(*v));
	if (!v)
		return NULL;
	if (w->v != all) /* they have moved */
		memset(w->recent, 0, sizeof(w->recent));
	w->recent[r].key = key;
	w->recent[r].v = v;
	v->vm = vm;
	v->vcpu = vcpu;
	return v;
}

void win_new(const struct timeline *t, struct windows **out)
{
	struct windows *w = xcalloc(1, sizeof(*w));

	*out = w;
	w->t = t;
	w->nsrc = tl_sources(t);
	w->shift = SLICE_MIN_SHIFT;
	w->host = xcalloc(w->nsrc, sizeof(*w->host));
	for (size_t i = 0; i < tl_sources(t); i++) {
		const struct tl_source *s = tl_source(t, i);

		w->host[i] = MIN(w->hosts, (size_t)WIN_HOSTS - 1);
		w->hosts += !s->guest && !s->qemu;
	}
}

void win_each(struct windows *w, void (*fn)(void *ctx, const struct win_vcpu *v, uint64_t exit),
	      void *ctx)
{
	w->each = fn;
	w->ctx = ctx;
}

void win_go_on(struct windows *w, const struct timeline *t)
{
	w->t = t;
}

/* ---- figures ---- */

/*
 * From one host TSC to a later one. Stamps that are years apart are a damaged file's: cut so that
 * figures can be negated and subtracted.
 */
static int64_t window_distance(uint64_t from, uint64_t to)
{
	return (int64_t)MIN(to - from, (uint64_t)1 << 61);
}

static void slack_put(int64_t *field, bool *has, int64_t value)
{
	if (!*has || value < *field)
		*field = value;
	*has = true;
}

void win_stats_add(struct win_stats *a, const struct win_stats *b)
{
	a->checked += b->checked;
	a->inside += b->inside;
	a->outside += b->outside;
	a->unchecked += b->unchecked;
	a->apart += b->apart;
	if (b->has_early)
		slack_put(&a->early, &a->has_early, b->early);
	if (b->has_late)
		slack_put(&a->late, &a->has_late, b->late);
	a->outside_max = MAX(a->outside_max, b->outside_max);
}

/* Halves the number of slices in use by doubling their width. */
static void slices_fold(struct windows *w)
{
	for (size_t k = 0; k < w->by_key.n; k++) {
		struct win_stats *s = w->v[k].slice;

		for (size_t i = 0; i < WIN_SLICES / 2; i++) {
			struct win_stats sum = s[2 * i];

			win_stats_add(&sum, &s[2 * i + 1]);
			s[i] = sum;
		}
		for (size_t i = WIN_SLICES / 2; i < WIN_SLICES; i++)
			s[i] = (struct win_stats){ 0 };
	}
	w->shift++;
}

static inline struct win_stats *slice_at(struct windows *w, struct win_vcpu *v, uint64_t host)
{
	uint64_t since = host > w->from ? host - w->from : 0;

	while (since >> w->shift >= WIN_SLICES)
		slices_fold(w);
	return &v->slice[since >> w->shift];
}

/* Figures about the vCPU at a moment: into its slice and into its total. */
static void windows_account(struct windows *w, struct win_vcpu *v, uint64_t host,
			    const struct win_stats *s)
{
	win_stats_add(slice_at(w, v, host), s);
	win_stats_add(&v->part[v->on], s);
	win_stats_add(&v->s, s);
}

/* Into the figures what is inside and was only counted. */
static void account_run(struct windows *w, struct win_vcpu *v)
{
	struct win_stats s = { .checked = v->run, .inside = v->run };

	if (v->run)
		windows_account(w, v, v->run_from, &s);
	v->run = v->run_len = 0;
}

/* The same for slack alone. */
static void account_slack(struct windows *w, struct win_vcpu *v, uint64_t host, bool late,
			  int64_t value)
{
	struct win_stats *const to[] = { slice_at(w, v, host), &v->part[v->on], &v->s };

	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		slack_put(late ? &to[i]->late : &to[i]->early,
			  late ? &to[i]->has_late : &to[i]->has_early, value);
		to[i]->outside_max = MAX(to[i]->outside_max, -value);
	}
}

/* Whether less is known already. */
static bool slack_known(const struct win_stats *s, int64_t early, int64_t late)
{
	return s->has_early && s->has_late && early >= s->early && late >= s->late;
}

/* Both, of a window and the events inside. The total has no more slack than a part of it. */
static void account_window(struct windows *w, struct win_vcpu *v, uint64_t exit)
{
	int64_t early = window_distance(v->entry, v->first_in),
		late = window_distance(v->last_in, exit);

	if (slack_known(slice_at(w, v, exit), early, late) &&
	    slack_known(&v->part[v->on], early, late))
		return;
	account_slack(w, v, exit, false, early);
	account_slack(w, v, exit, true, late);
}

/* ---- turns ---- */

/* An entry (or the end of the host's events) comes next: what is before it was outside. */
static void settle_outside(struct windows *w, struct win_vcpu *v, bool entered, uint64_t entry)
{
	struct win_stats s = { .checked = v->pending, .outside = v->pending };
	int64_t to_exit, to_entry;

	if (!v->pending)
		return;
	account_run(w, v);
	to_exit = window_distance(v->exit, v->pending_last);
	to_entry = entered ? window_distance(v->pending_first, entry) : INT64_MAX;
	windows_account(w, v, v->pending_first, &s);
	/* All too late by to_exit, or all too early by to_entry: the nearer one is blamed. */
	if (to_exit <= to_entry)
		account_slack(w, v, v->pending_first, true, -to_exit);
	else
		account_slack(w, v, v->pending_first, false, -to_entry);
	if (v->s.outside == v->pending) {
		v->first_out = v->pending_first;
		v->inside_before_out = v->s.inside;
	}
	v->last_out = v->pending_last;
	v->pending = 0;
}

/* Nothing is known about the time since the exit. */
static void settle_unknown(struct windows *w, struct win_vcpu *v)
{
	struct win_stats s = { .unchecked = v->pending };

	if (v->pending)
		windows_account(w, v, v->pending_first, &s);
	v->pending = 0;
}

static __attribute__((noinline)) void settle_entered(struct windows *w, struct win_vcpu *v,
						     uint64_t t)
{
	if (v->pending_last >= t) /* later ones may be of this window */
		settle_unknown(w, v);
	settle_outside(w, v, true, t);
}

static inline void win_entry(struct windows *w, struct win_vcpu *v, uint64_t t)
{
	/* entry after entry: the first one failed or its exit was not traced; no slack from it. */
	if (v->pending)
		settle_entered(w, v, t);
	v->entry = t;
	v->in = 0;
	v->first_in = UINT64_MAX;
}

static void win_guest_event(struct windows *w, struct win_vcpu *v, const struct tl_item *i)
{
	struct win_stats s = { 0 };

	if (v->turn.state == TURN_IN_GUEST && !i->unplaced) {
		v->in++;
		v->first_in = MIN(v->first_in, i->host);
		v->last_in = i->host;
		/* From here on those of the slice that it is in are counted. */
		account_run(w, v);
		(void)slice_at(w, v, i->host); /* the slices reach that far */
		v->run_from = i->host;
		if (i->host > w->from)
			v->run_from -= (i->host - w->from) & ((1ull << w->shift) - 1);
		v->run_len = i->host >= w->from ? 1ull << w->shift : 1;
		v->run = 1;
		return;
	}
	if (v->turn.state == TURN_UNKNOWN || i->unplaced) {
		s.unchecked = 1;
	} else if (i->host <= v->exit) {
		s.checked = s.inside = 1;
		s.late = (int64_t)(v->exit - i->host);
		s.has_late = true;
	} else {
		if (!v->pending++)
			v->pending_first = i->host;
		v->pending_last = i->host;
		return;
	}
	windows_account(w, v, i->host, &s);
}

/* What a guest event says about where the host's recording began, and has ended. */
static inline void note_end(const struct windows *w, struct win_vcpu *v, uint64_t host)
{
	uint64_t last = w->last_host;

	v->after = (v->after & (0 - (uint64_t)(v->since == last))) + (host > last);
	v->since = last;
}

/* Forgets the windows of a vCPU: entries or exits of it may have been lost. */
static void win_forget(struct windows *w, struct win_vcpu *v)
{
	settle_unknown(w, v);
	v->turn = (struct vcpu_turn){ 0 };
}

static void win_turn(struct windows *w, struct win_vcpu *v, const struct tl_item *i,
		     enum turn_event e)
{
	/* As early, and as late, as they may have been. */
	uint64_t early = i->host - MIN(i->host, i->around), late = i->host + i->width + i->around;

	switch (vcpu_turn_step(&v->turn, e)) {
	case TURN_SAME: break;
	case TURN_BEGAN:
	case TURN_AGAIN: win_entry(w, v, early); break;
	case TURN_ENDED:
		v->windows++;
		if (v->in)
			account_window(w, v, late);
		v->exit = late;
		if (w->each)
			w->each(w->ctx, v, late);
		break;
	case TURN_MISSED:
		settle_unknown(w, v);
		v->exit = late;
		break;
	}
	if (v->on != w->host[i->src->id])
		account_run(w, v);
	v->on = w->host[i->src->id];
}

/* Also of a vCPU that had none since the last gap, or within it; or of a guest. */
static __attribute__((noinline)) void any_event(struct windows *w, const struct tl_item *i,
						size_t vm, enum turn_event e)
{
	struct win_vcpu *v = win_at(w, vm, (uint32_t)i->vcpu);

	if (!v->heard) {
		size_t at = (size_t)(v - w->v);

		v->heard = true;
		xarray_add(&w->heard, &w->nheard, &w->heard_cap, &at, sizeof(at));
	}
	if (i->src->guest) {
		/* The offset is known from the host's beginning on: what is before has no place. */
		v->before += !w->last_host || (i->unplaced && !v->placed);
		v->placed |= !i->unplaced;
		if (!i->unplaced)
			note_end(w, v, i->host);
	}
	if (w->blind_until && i->host <= w->blind_until) {
		struct win_stats s = { .unchecked = i->src->guest };

		windows_account(w, v, i->host, &s);
		win_forget(w, v);
	} else if (e != TURN_OTHER) {
		win_turn(w, v, i, e);
	} else {
		win_guest_event(w, v, i);
	}
}

static inline void win_event(struct windows *w, const struct tl_item *i, size_t vm,
			     enum turn_event e)
{
	struct win_vcpu *v = win_recent(w, vm, (uint32_t)i->vcpu);

	if (!v || !v->heard || e == TURN_OTHER || i->host <= w->blind_until)
		any_event(w, i, vm, e);
	else
		win_turn(w, v, i, e);
}

/* An event of a host that says something about the turns of its thread's vCPU. */
static __attribute__((noinline)) void feed_turn(struct windows *w, const struct tl_item *i,
						enum turn_event e)
{
	/* The host's windows are those of all captures of the VM. */
	for (size_t vm = (size_t)i->vm; vm != HOSTMAP_END; vm = tl_hostmap(w->t)->vm[vm].next)
		win_event(w, i, vm, e);
}

static inline enum turn_event host_turn(const struct tl_item *i)
{
	return (i->vcpu | i->vm) < 0 ? TURN_OTHER : turn_event_of(i->ev);
}

static void win_blind(struct windows *w, uint64_t until)
{
	w->blind_until = MAX(w->blind_until, until);
	for (size_t k = 0; k < w->nheard; k++) {
		win_forget(w, &w->v[w->heard[k]]);
		w->v[w->heard[k]].heard = false;
	}
	w->nheard = 0;
}

void win_late(struct windows *w)
{
	w->late = true;
	win_blind(w, w->last_host);
}

bool win_was_late(const struct windows *w)
{
	return w->late;
}

static __attribute__((noinline)) void feed_any(struct windows *w, const struct tl_item *i)
{
	enum turn_event e;

	if (i->src->qemu)
		return;
	if (!w->started) {
		w->started = true;
		w->from = i->host;
	}
	if (i->kind != TL_EVENT) {
		/*
		 * Lost host events may have been entries and exits of any vCPU, whichever CPU lost
		 * them. Lost guest events do not matter: the rest are still inside or outside.
		 */
		if (!i->src->guest && (i->kind == TL_GAP || i->kind == TL_DAMAGE))
			win_blind(w, i->host + i->width);
		return;
	}
	if (i->src->guest) {
		if (i->vcpu >= 0 && i->vm >= 0)
			win_event(w, i, i->src->vm, TURN_OTHER);
		return;
	}
	w->last_host = i->host;
	e = i->marker ? TURN_OTHER : host_turn(i);
	if (e != TURN_OTHER)
		feed_turn(w, i, e);
}

/* The usual event of a guest: in a window, and in the slice of the one before it. */
static inline bool feed_inside(struct windows *w, const struct tl_item *i)
{
	struct win_vcpu *v =
		(i->vcpu | i->vm) < 0 ? NULL : win_recent(w, i->src->vm, (uint32_t)i->vcpu);

	if (!v || v->turn.state != TURN_IN_GUEST || i->host - v->run_from >= v->run_len)
		return false;
	v->in++;
	v->first_in = MIN(v->first_in, i->host); /* no branch, which would be hard to predict */
	v->last_in = i->host;
	v->run++;
	note_end(w, v, i->host);
	return true;
}

void win_feed(void *windows, const struct tl_item *i)
{
	struct windows *w = windows;
	enum turn_event e;

	if (!i->usual || !w->started || (i->guest && !feed_inside(w, i))) {
		feed_any(w, i);
	} else if (!i->guest) {
		w->last_host = i->host;
		e = host_turn(i);
		if (e != TURN_OTHER)
			feed_turn(w, i, e);
	}
}

/* n events were taken for inside of a window that the host's end has left open. */
static void stats_uncheck(struct win_stats *s, uint64_t n)
{
	s->checked -= n;
	s->inside -= n;
	s->unchecked += n;
}

static void settle_ends(struct windows *w, struct win_vcpu *v)
{
	uint64_t after = v->since == w->last_host ? v->after : 0;
	uint64_t open = v->turn.state == TURN_IN_GUEST ? after : 0;

	if (!w->last_host)
		return;
	stats_uncheck(&v->s, open);
	stats_uncheck(&v->part[v->on], open);
	for (size_t i = WIN_SLICES; i-- && open;) { /* they were the last ones */
		uint64_t n = MIN(open, v->slice[i].inside);

		stats_uncheck(&v->slice[i], n);
		open -= n;
	}
	v->s.apart += after + (v->placed ? v->before : 0);
	v->after = v->before = 0;
}

COMPARE(win_order, struct win_vcpu *, ORDER((*x)->vm, (*y)->vm) ?: ORDER((*x)->vcpu, (*y)->vcpu));

void win_finish(struct windows *w)
{
	const size_t n = w->by_key.n;
	_cleanup_free_ struct win_vcpu **by = xcalloc(n + 1, sizeof(*by));

	/* If the host's recording had ended already, nothing is known about what came after. */
	for (size_t k = 0; k < n; k++) {
		struct win_vcpu *v = by[k] = &w->v[k];

		account_run(w, v);
		if (v->pending && v->pending_last < w->last_host)
			settle_outside(w, v, false, 0);
		else
			settle_unknown(w, v);
		settle_ends(w, v);
	}
	array_sort(by, n, win_order);
	u64map_free(&w->first);
	for (size_t k = n; k--;) { /* those of each VM, from the last on */
		uint64_t *first = xu64map_at(&w->first, by[k]->vm);

		by[k]->next = (size_t)*first;
		*first = (uint64_t)(by[k] - w->v) + 1;
	}
}

const struct win_vcpu *win_next(const struct windows *w, size_t vm, const struct win_vcpu *v)
{
	uint64_t at = v ? v->next : 0;

	return (v || u64map_get(&w->first, vm, &at)) && at ? &w->v[at - 1] : NULL;
}

void win_total(const struct windows *w, int64_t vm, struct win_stats *s)
{
	*s = (struct win_stats){ 0 };
	for (size_t k = 0; vm < 0 && k < w->by_key.n; k++)
		win_stats_add(s, &w->v[k].s);
	if (vm >= 0)
		win_each_vcpu(w, (size_t)vm, v)
			win_stats_add(s, &v->s);
}

size_t win_hosts(const struct windows *w)
{
	return MIN(w->hosts, (size_t)WIN_HOSTS);
}

void win_host_total(const struct windows *w, size_t vm, size_t i, struct win_stats *s)
{
	*s = (struct win_stats){ 0 };
	win_each_vcpu(w, vm, v)
		win_stats_add(s, &v->part[i]);
}

void win_slices(const struct windows *w, uint64_t *from, uint64_t *width)
{
	*from = w->from;
	*width = 1ull << w->shift;
}

void win_free(struct windows *w)
{
	if (!w)
		return;
	free(w->v);
	free(w->host);
	free(w->heard);
	u64map_free(&w->by_key);
	u64map_free(&w->first);
	free(w);
}

/*
 * ---- from figures of windows to a verdict ----
 *
 * Each slice of time allows an interval of shifts. A clock with another rate needs another shift in
 * each slice; a straight line that crosses all intervals exists only if for every two of them it is
 * allowed by the line between their opposite ends, which bounds its slope from both sides.
 */

const char *const align_names[] = {
	[ALIGN_OK] = "aligned",
	[ALIGN_BAD] = "misaligned",
	[ALIGN_UNKNOWN] = "cannot-tell",
};

/* Shifts that the figures allow; false if they contradict each other or bound only one side. */
static bool allowed_shifts(const struct win_stats *s, int64_t *lo, int64_t *hi)
{
	*lo = -s->early;
	*hi = s->late;
	return s->has_early && s->has_late && *lo <= *hi;
}

/* The weakest statement about a slope: it is not known where within their slices both ends are. */
static int64_t slices_slope(int64_t rise, size_t slices, uint64_t width, bool least)
{
	bool far = (rise > 0) == least;

	__int128 ppb =
		(__int128)rise * 1000000000 / (__int128)((far ? slices + 1 : slices - 1) * width);

	return ppb > INT64_MAX ? INT64_MAX : ppb < INT64_MIN ? INT64_MIN : (int64_t)ppb;
}

void align_measure(const struct windows *w, size_t vm, struct align *a)
{
	uint64_t all;
	struct win_stats s[WIN_SLICES];
	int64_t lo[WIN_SLICES], hi[WIN_SLICES];
	bool ok[WIN_SLICES];
	uint64_t from, width;

	*a = (struct align){ 0 };
	win_total(w, (int64_t)vm, &a->total);
	a->has_shift = allowed_shifts(&a->total, &a->shift_lo, &a->shift_hi);
	win_each_vcpu(w, vm, v) {
		a->windows += v->windows;
		if (!v->s.checked && !v->s.unchecked)
			continue; /* runs on the host, but has no guest events */
		a->vcpus++;
		a->vcpus_blind += !v->s.checked;
		if (!v->s.outside)
			continue;
		a->bad_vcpu = v->vcpu;
		a->bad_from = a->vcpus_bad ? MIN(a->bad_from, v->first_out) : v->first_out;
		a->bad_to = MAX(a->bad_to, v->last_out);
		a->bad_inside += v->s.inside;
		a->bad_after_good += v->inside_before_out;
		a->vcpus_bad++;
	}
	win_slices(w, &from, &width);
	for (size_t i = 0; i < WIN_SLICES; i++) {
		s[i] = (struct win_stats){ 0 };
		win_each_vcpu(w, vm, v)
			win_stats_add(&s[i], &v->slice[i]);
		ok[i] = allowed_shifts(&s[i], &lo[i], &hi[i]);
	}
	for (size_t i = 0; i < WIN_SLICES; i++) {
		for (size_t k = i + 2; ok[i] && k < WIN_SLICES; k++) {
			int64_t least, most;

			if (!ok[k])
				continue;
			least = slices_slope(lo[k] - hi[i], k - i, width, true);
			most = slices_slope(hi[k] - lo[i], k - i, width, false);
			a->drift_lo = a->has_drift ? MAX(a->drift_lo, least) : least;
			a->drift_hi = a->has_drift ? MIN(a->drift_hi, most) : most;
			a->has_drift = true;
		}
	}
	all = a->total.checked + a->total.unchecked - a->total.apart;
	if (all)
		a->share = (unsigned int)(a->total.checked * 100 / all);
}

enum align_kind proof_judge(const struct proof_facts *f)
{
	const struct align *a = f->windows;

	if (f->solved && f->solved->missed_why) /* a vCPU without an offset of its own */
		return ALIGN_UNKNOWN;
	/*
	 * Whether deadlines alone contradict the alignment. They are unique, so their order counts;
	 * that of repeating values may be an accident. So may be a few: a deadline that was written
	 * twice, one of which is in the capture.
	 */
	if (a->total.outside || (f->deadlines && f->deadlines->violations > f->deadlines->n / 100))
		return ALIGN_BAD;
	if (!a->total.checked || !a->has_shift || a->share < ALIGN_MIN_SHARE)
		return f->elsewhere ? ALIGN_BAD : ALIGN_UNKNOWN;
	if (f->solved && !solution_is_sure(f->solved)) /* being as good as another one is not
						        * proof */
		return ALIGN_UNKNOWN;
	return f->off_record ? ALIGN_BAD : ALIGN_OK;
}
