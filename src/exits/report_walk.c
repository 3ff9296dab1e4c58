/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_walk.c: from the streams of a capture to the events of each thread, in their order.
 *
 * A thread's events have to be fed in time order, and it may move between CPUs. A full merge of all
 * streams would cost more than all the rest, so that is done only where it matters: the events of
 * each stream are decoded into a small array, and what is before the earliest end of all arrays is
 * a slice. No event in a slice can come before those of earlier slices. If no thread has events on
 * two CPUs of the slice, each CPU is fed alone; else they are merged.
 */
#include "report_priv.h"
#include "kvmft/events.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Entries of such an array; fewer if there are many CPUs. */
#define CHUNK_MIN 8
#define CHUNK_MAX 1024
#define TRIM_STREAMS 64
#define CHUNK_ALL (3u << 19) /* bytes of all arrays together */

struct wstream {
	struct rstream s;
	bool open;	     /* s.sb is being decoded */
	struct rev *ev;	     /* w->chunk of them */
	uint32_t at, n;	     /* not fed yet: ev[at .. n-1] */
	uint32_t to;	     /* ... of this slice: ev[at .. to-1] */
	int64_t last_tid;    /* u32 as in records, of last_thread; -1: none yet */
	uint32_t last_thread;
	uint64_t last_ts;
	bool ended, in_gap;
	bool has_gap;	     /* a gap begins or ends in the array */
	bool mixed;	     /* the array has entries of several threads */
	uint64_t events, exits, entries, failed;
};

#define EXITS_SAID 64 /* more than the number of common reasons */

/* What the class said of an exit: it depends only on these two fields, and is asked once. */
struct exit_said {
	uint32_t reason, isa; /* as recorded; at index (reason + isa) % EXITS_SAID */
	uint64_t key;
	struct rwhat is;
};

struct walk {
	struct report *r;
	struct wstream *st;
	struct rev *ev;
	uint32_t n, chunk;
	uint32_t *heap;	     /* those with something in this slice, the earliest first */
	uint32_t low;	     /* an array is refilled once it has no more entries than this */
	uint64_t slice;
	struct rwhat entry;  /* every kvm_entry */
	struct class_event exit; /* an exit on its way to the class */
	struct exit_said said[EXITS_SAID];
	struct exit_said failed_entry; /* the last one that is not kept there */
	bool cutting;	     /* opts.cut: a stretch was begun, */
	uint64_t stretch, stretch_end; /* its number and last tick */
	int error;
};

/* ---- decoding ---- */

static inline uint64_t rfield_get(const struct rfield *f, const struct rec *rec)
{
	const uint8_t *p = rec->data + f->off;

	if (f->size == 4) /* most */
		return load_u32(p);
	return f->size == 8 ? load_u64(p) : f->size == 2 ? load_u16(p) : f->size == 1 ? *p : 0;
}

/* The index of the thread of an event; known: only if it exists already. */
static inline uint32_t report_thread_of(struct walk *w, struct wstream *st, int32_t tid, bool known)
{
	uint32_t at;

	if ((uint32_t)tid == st->last_tid)
		return st->last_thread;
	if (tid <= 0) /* an idle task runs no vCPU */
		return UINT32_MAX;
	at = known ? report_thread_known(w->r, tid) : report_thread(w->r, tid);
	if (at == UINT32_MAX)
		return at;
	st->last_tid = (uint32_t)tid;
	st->last_thread = at;
	st->mixed |= st->n > 0;
	return at;
}

static inline struct rev *slice_push(struct wstream *st, uint64_t ts, uint32_t thread, enum rop op,
				     uint64_t key)
{
	struct rev *e = &st->ev[st->n++];

	*e = (struct rev){ .ts = ts, .key = key, .thread = thread, .is.op = (uint8_t)op };
	st->mixed |= thread != st->last_thread;
	return e;
}

static __attribute__((noinline)) const struct exit_said *ask_of_exit(struct walk *w,
								     struct wstream *st,
								     uint32_t reason, uint32_t isa)
{
	struct exit_said *x = &w->said[(reason + isa) % EXITS_SAID];
	struct exit_why why = exit_why(&w->r->names, reason, isa);
	struct class_event *ce = &w->exit;
	enum class_mark begin, end;
	uint64_t key = 0;

	ce->v[0] = why.reason;
	ce->v[1] = why.isa;
	begin = w->r->rules->begin(ce, &key);
	end = w->r->rules->end(ce, &key);
	if (ce->v[0] >> 31 &&
	    exit_reason_flags((enum exit_isa)(uint32_t)ce->v[1], ce->v[0]) >> 31) {
		st->failed++; /* to be counted each time, so it is asked each time */
		x = &w->failed_entry;
	}
	*x = (struct exit_said){ reason, isa, key, { .op = OP_EXIT, .begin = (uint8_t)begin,
							.end = (uint8_t)end } };
	x->is.direct =
		(begin == MARK_NO || begin == MARK_KEY) && end == MARK_NO ? OP_EXIT : OP_NONE;
	return x;
}

/* What an exit is, according to the class; the rest of e is up to the caller. */
static inline void set_exit(struct walk *w, struct wstream *st, struct rev *e, uint32_t reason,
			    uint32_t isa)
{
	const struct exit_said *x = &w->said[(reason + isa) % EXITS_SAID];

	if (x->reason != reason || x->isa != isa)
		x = ask_of_exit(w, st, reason, isa);
	e->key = x->key;
	e->is = x->is;
}

static __attribute__((noinline)) void set_place(const struct report *r, struct rev *e,
						 const struct rplan *p, const struct rec *rec)
{
	int64_t vm = r->thread[e->thread]->v->vm;
	const struct ksyms *k = vm >= 0 ? r->map->vm[r->map->vm[vm].of].syms : NULL;

	if (p->f[2].size)
		e->key = by_rip_key(r->rips, vm, k, rfield_get(&p->f[2], rec), e->key);
}

static void decode_other(struct walk *w, struct wstream *st, const struct rplan *p,
			 const struct rec *rec)
{
	uint32_t thread;

	if (!w->r->tot.seen[p->role])
		report_saw(w->r, p->role);
	if (p->kind == RE_SWITCH || p->kind == RE_WOKEN) {
		struct report *r = w->r;
		uint32_t t = report_thread_known(r, (int32_t)rfield_get(&p->f[0], rec));

		/* Scheduler events concern up to two threads, neither of which emits them. */
		if (t != UINT32_MAX && p->kind == RE_WOKEN)
			slice_push(st, rec->ts, t, OP_WOKEN, 0);
		if (p->kind == RE_WOKEN)
			return;
		if (t != UINT32_MAX)
			slice_push(st, rec->ts, t, OP_OUT,
				   event_task_sleeps(rfield_get(&p->f[1], rec)));
		t = report_thread_known(r, (int32_t)rfield_get(&p->f[2], rec));
		if (t != UINT32_MAX)
			slice_push(st, rec->ts, t, OP_IN, 0);
		return;
	}
	thread = report_thread_of(w, st, (int32_t)rfield_get(&w->r->pid, rec), p->kind != RE_CLASS);
	if (thread == UINT32_MAX)
		return;
	if (p->kind == RE_CLASS) {
		struct report *r = w->r;
		struct class_event ce = { .tp = p->tp, .tps = r->tps, .has = p->has };
		struct rev *e = slice_push(st, rec->ts, thread, OP_CLASS, 0);

		for (int i = 0; i < CLASS_FIELDS; i++)
			if (p->f[i].size)
				ce.v[i] = rfield_get(&p->f[i], rec);
		r->tot.class_events++;
		e->is.begin = (uint8_t)r->rules->begin(&ce, &e->key);
		e->is.end = (uint8_t)r->rules->end(&ce, &e->key);
		if (r->rips)
			set_place(r, e, p, rec);
		if (!e->is.begin && !e->is.end)
			st->n--;
	} else {
		struct report *r = w->r;
		uint64_t v = rfield_get(&p->f[0], rec);

		switch (p->kind) {
		case RE_USER: slice_push(st, rec->ts, thread, OP_USER, 0); break;
		case RE_RESUME: slice_push(st, rec->ts, thread, OP_RESUME, 0); break;
		case RE_IOCTL:
			if ((uint32_t)v == 0xae80) /* KVM_RUN */
				slice_push(st, rec->ts, thread, OP_RESUME, 0);
			break;
		case RE_WAKEUP: slice_push(st, rec->ts, thread, OP_WAKEUP, v & INT64_MAX); break;
		default:
			r->tot.poll_grow += v != 0;
			r->tot.poll_shrink += v == 0;
			break;
		}
	}
}

static inline void report_decode(struct walk *w, struct wstream *st, const struct rplan *p,
				 const struct rec *rec)
{
	uint32_t thread;
	struct rev *e;

	if (rec->len < p->need)
		return;
	if (p->kind != RE_ENTRY && p->kind != RE_EXIT) {
		decode_other(w, st, p, rec);
		return;
	}
	thread = report_thread_of(w, st, (int32_t)rfield_get(&w->r->pid, rec), false);
	if (thread == UINT32_MAX)
		return;
	if (p->kind == RE_ENTRY) {
		e = slice_push(st, rec->ts, thread, OP_ENTRY, VCPU_UNKNOWN);
		if (p->f[0].size)
			e->key = (uint32_t)rfield_get(&p->f[0], rec);
		e->is = w->entry;
		st->entries++;
		return;
	}
	e = slice_push(st, rec->ts, thread, OP_EXIT, 0);
	set_exit(w, st, e, exit_first(rfield_get(&p->f[0], rec)),
		 p->f[1].size ? (uint32_t)rfield_get(&p->f[1], rec) : 0);
	if (w->r->rips)
		set_place(w->r, e, p, rec);
	st->exits++;
}

static void decode_gap(struct walk *w, struct wstream *st, bool pause)
{
	slice_push(st, MAX(st->last_ts, w->r->from), UINT32_MAX, OP_GAP, pause);
	st->in_gap = st->has_gap = true;
	w->r->tot.gaps++;
}

/* Not inline, because few events come here: the calling loop keeps its state in registers. */
static __attribute__((noinline)) void decode_event(struct walk *w, struct wstream *st,
						   struct rec *rec)
{
	uint64_t known = MAX(st->s.gap_to, st->last_ts); /* at the end of a gap */
	struct report *r = w->r;

	if (rec->ts < st->last_ts) { /* kept in order, or slices would not be */
		r->tot.backwards++;
		rec->ts = st->last_ts;
	}
	st->last_ts = rec->ts;
	if (rec->ts < r->from)
		return;
	st->events++;
	if (st->in_gap) {
		slice_push(st, MIN(known, rec->ts), UINT32_MAX, OP_GAP_END, 0);
		st->in_gap = false;
		st->has_gap = true;
	}
	if (r->plan_of[rec->id])
		report_decode(w, st, &r->plan[r->plan_of[rec->id]], rec);
}

/* What is not direct, from the loop below: makes its state visible to others, and takes it back. */
static __attribute__((noinline)) struct rev *fill_other(struct walk *w, struct wstream *st,
							struct rev *e, uint64_t last_ts,
							struct rec rec)
{
	st->n = (uint32_t)(e - st->ev);
	st->last_ts = last_ts;
	decode_event(w, st, &rec);
	return st->ev + st->n;
}

/*
 * The rest of the open sub-buffer, as far as it fits: one event makes at most 3 entries.
 *
 * Most events are an entry or an exit of the thread that had the previous event, or mean nothing to
 * the report. They are handled here, separately from the general way, decode_event(), so that the
 * loop's state stays in registers.
 */
static __attribute__((noinline)) void fill_subbuf(struct walk *w, struct wstream *st)
{
	const struct report *r = w->r;
	const struct rdirect entry = r->entry, exit = r->exit;
	uint32_t pid_off = r->pid.off;
	uint64_t to = r->to, last_ts = st->last_ts, others = 0, entries = 0, direct = 0;
	struct rev *e = st->ev + st->n, *full = st->ev + w->chunk - 3;
	struct subbuf sb = st->s.sb;
	struct rec rec;
	int ret = 1;

	for (;;) {
		/* The direct way is for times from here on: in the window, in no gap. */
		uint64_t least = MAX(last_ts, r->from),
			 span = st->in_gap || least > to ? 0 : to - least + 1;
		const struct rev *first = e;
		bool have;

		while ((have = e < full && subbuf_next_fast(&sb, &rec)) && rec.ts - least < span) {
			if (rec.id == exit.id) {
				if (rec.len < exit.need ||
				    load_u32(rec.data + pid_off) != st->last_tid)
					break;
				e->ts = rec.ts;
				e->thread = st->last_thread;
				set_exit(w, st, e++, load_u32(rec.data + exit.off[0]),
					 load_u32(rec.data + exit.off[1]));
			} else if (rec.id == entry.id) {
				if (rec.len < entry.need ||
				    load_u32(rec.data + pid_off) != st->last_tid)
					break;
				e->ts = rec.ts;
				e->thread = st->last_thread;
				e->key = load_u32(rec.data + entry.off[0]);
				e->is = w->entry;
				e++;
				entries++;
			} else if (!r->plan_of[rec.id]) {
				others++;
			} else {
				break;
			}
			last_ts = rec.ts;
		}
		direct += (uint64_t)(e - first);
		if (!have && (e >= full || (ret = subbuf_next(&sb, &rec)) <= 0))
			break;
		if (rec.ts > to) { /* so is everything that follows */
			st->ended = true;
			break;
		}
		e = fill_other(w, st, e, last_ts, rec);
		last_ts = st->last_ts;
	}
	st->n = (uint32_t)(e - st->ev);
	st->last_ts = last_ts;
	st->events += direct + others;
	st->entries += entries;
	st->exits += direct - entries;
	st->s.sb = sb;
	st->open = ret > 0;
	if (ret < 0) {
		rstream_damage(&st->s);
		decode_gap(w, st, false);
	}
}

/* Refills an array; what was not fed stays at its front. */
static void slice_fill(struct walk *w, struct wstream *st)
{
	bool left = st->in_gap; /* a gap */

	st->n -= st->at;
	memmove(st->ev, st->ev + st->at, st->n * sizeof(*st->ev));
	st->at = st->to = 0;
	for (uint32_t i = 0; i < st->n && st->has_gap && !left; i++)
		left = st->ev[i].is.op >= OP_GAP;
	st->has_gap = left;
	st->mixed = st->mixed && st->n;
	while (st->n < w->chunk - 3 && !st->ended) {
		enum rkind k = R_EVENT;

		if (!st->open)
			k = rstream_subbuf(&st->s);
		if (k == R_END) {
			st->ended = true;
			w->error = st->s.error;
			if ((st->s.s->cut || st->s.s->open_end) && !w->error && st->last_ts &&
			    w->r->to == UINT64_MAX)
				decode_gap(w, st, false);
			return;
		}
		if (k == R_EVENT)
			fill_subbuf(w, st);
		else
			decode_gap(w, st, k == R_GAP && st->s.why == GAP_OFF);
	}
}

/* ---- feeding ---- */

static bool stream_earlier(const struct walk *w, uint32_t a, uint32_t b)
{
	const struct wstream *x = &w->st[a], *y = &w->st[b];

	return (ORDER(x->ev[x->at].ts, y->ev[y->at].ts) ?: ORDER(a, b)) < 0;
}

static int feed_merged(struct walk *w)
{
	uint32_t n = 0, at;
	int ret = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		if (w->st[i].at >= w->st[i].to)
			continue;
		for (at = n++; at && stream_earlier(w, i, w->heap[(at - 1) / 2]); at = (at - 1) / 2)
			w->heap[at] = w->heap[(at - 1) / 2];
		w->heap[at] = i;
	}
	while (n && !ret) {
		uint32_t first = w->heap[0], i, k, x;
		struct wstream *st = &w->st[first];

		ret = samples_feed(w->r, &st->ev[st->at++], 1, first);
		if (st->at == st->to)
			w->heap[0] = w->heap[--n];
		i = 0;
		x = w->heap[0];
		for (; (k = 2 * i + 1) < n; i = k) {
			k += k + 1 < n && stream_earlier(w, w->heap[k + 1], w->heap[k]);
			if (!stream_earlier(w, w->heap[k], x))
				break;
			w->heap[i] = w->heap[k];
		}
		w->heap[i] = x;
	}
	return ret;
}

/* Marks the threads of this part of the slice; true if one was already marked by another CPU. */
static bool shares_thread(struct walk *w, uint32_t cpu)
{
	const struct wstream *st = &w->st[cpu];
	uint32_t last = UINT32_MAX;

	for (uint32_t i = st->at; i < st->to; i++) {
		struct rthread *t;

		if (st->ev[i].thread == last)
			continue;
		last = st->ev[i].thread;
		if (last == UINT32_MAX)
			continue;
		t = w->r->thread[last];
		if (t->slice == w->slice && t->slice_cpu != cpu)
			return true;
		t->slice = w->slice;
		t->slice_cpu = cpu;
		if (!st->mixed)
			break;
	}
	return false;
}

/* For opts.cut: ends the stretch if the next event is beyond it, and a slice where one ends. */
static int slice_cut(struct walk *w, uint64_t first, uint64_t *end)
{
	const struct report_opts *o = &w->r->opts;
	uint64_t ticks = report_ticks(w->r, o->every), n;
	int ret = 0;

	if (!w->cutting || first > w->stretch_end) {
		if (w->cutting)
			ret = o->cut(o->ctx, w->r, w->stretch);
		w->cutting = true;
		n = (first - w->r->begin) / ticks;
		w->stretch = n;
		n = w->r->begin + n * ticks;
		w->stretch_end = n + MIN(ticks - 1, UINT64_MAX - n);
	}
	*end = MIN(*end, w->stretch_end);
	return ret;
}

/* Feeds one slice: 1, 0 when all streams are at their end, -errno. */
static int report_slice(struct walk *w)
{
	uint64_t end = UINT64_MAX, first = UINT64_MAX;
	bool merge = false;
	int ret = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		struct wstream *st = &w->st[i];

		if (st->n - st->at <= w->low && !st->ended)
			slice_fill(w, st);
		if (w->error)
			return w->error;
		/* What comes after a full array is no earlier than its last entry. */
		if (!st->ended)
			end = MIN(end, st->n ? st->ev[st->n - 1].ts : st->last_ts);
		if (st->at < st->n)
			first = MIN(first, st->ev[st->at].ts);
	}
	if (first == UINT64_MAX)
		return 0;
	if (!w->slice) {
		w->r->begin = w->r->from ?: cap_in_tsc(w->r->cap) ? w->r->cap->begin_tsc : 0;
		if (!w->r->begin || w->r->begin > first)
			w->r->begin = first;
	}
	if (w->r->opts.every && (ret = slice_cut(w, first, &end)))
		return ret;
	w->slice++;
	for (uint32_t i = 0; i < w->n; i++) {
		struct wstream *st = &w->st[i];
		const struct rev *e = st->ev + st->at;

		/* The first entry that is not before or at `end`. */
		if (st->at < st->n && st->ev[st->n - 1].ts <= end)
			st->to = st->n;
		else
			st->to = st->at +
				 (uint32_t)COUNT_BEFORE(k, st->n - st->at, e[k].ts <= end);
		merge |= st->has_gap || w->r->in_order || shares_thread(w, i);
	}
	if (merge)
		return (ret = feed_merged(w)) ? ret : 1;
	for (uint32_t i = 0; i < w->n && !ret; i++) {
		struct wstream *st = &w->st[i];

		ret = samples_feed(w->r, st->ev + st->at, st->to - st->at, i);
		st->at = st->to;
	}
	return ret ?: 1;
}

static int open_streams(struct walk *w)
{
	const struct capture *cap = w->r->cap;
	int ret = 0;

	w->chunk = (uint32_t)(CHUNK_ALL / sizeof(*w->ev) / MAX(cap->nstream, (size_t)1));
	w->chunk = MIN(MAX(w->chunk, (uint32_t)CHUNK_MIN), (uint32_t)CHUNK_MAX);
	/* A slice ends where its first array does: they are half full, or it would be tiny. */
	w->low = w->chunk / 2;
	w->st = xcalloc(cap->nstream + 1, sizeof(*w->st));
	w->ev = xcalloc(cap->nstream + 1, w->chunk * sizeof(*w->ev));
	w->heap = xcalloc(cap->nstream + 1, sizeof(*w->heap));
	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		ret = rstream_open(&w->st[i].s, cap, &cap->stream[i]);
		w->st[i].ev = w->ev + i * w->chunk;
		w->st[i].last_tid = -1;
		w->st[i].s.holes |= w->r->holes;
		w->n += !ret;
		if (cap->stream[i].cut && !cap->stream[i].nsub) { /* nothing of this CPU is there */
			w->st[i].in_gap = w->st[i].has_gap = true;
			w->r->gap_to[i] = w->r->loss_to[i] = w->r->any_loss_to = UINT64_MAX;
			w->r->tot.gaps++;
		}
		if (!ret && w->r->from)
			ret = rstream_seek(&w->st[i].s, w->r->from);
	}
	return ret;
}

/* Only the whole capture can be counted. What was handed out already cannot be taken back. */
static bool knows_more(struct report *r)
{
	bool holes = r->holes, in_order = r->in_order, counts = r->opts.counts;
	bool switches = r->switches;

	if (r->opts.each || r->opts.cut)
		return false;
	r->holes |= r->cap->is_tracedat && !r->from && r->to == UINT64_MAX &&
		    capture_missing(r->cap, r->tot.events);
	r->in_order |= r->floats;
	r->switches |= r->tot.gaps && !r->opts.split && r->opts.semantics == REPORT_EXACT &&
		       event_format(r->fmt, EV_SWITCH);
	/* Without exits; a time from an entry on, or up to one, is known of some. */
	r->opts.counts |= !r->tot.exits && r->tot.class_events &&
			  (!r->tot.entries || r->tot.no_begin >= r->tot.class_events);
	return r->holes != holes || r->in_order != in_order || r->opts.counts != counts ||
	       r->switches != switches;
}

int report_walk(struct report *r, struct kvmft_err *err)
{
	const struct class_event entry = { .tp = CLASS_ENTRY, .tps = r->tps };
	struct walk w = { .r = r, .exit = { .tp = CLASS_EXIT, .tps = r->tps } };
	uint64_t none;
	int ret;

	w.entry = (struct rwhat){
		.op = OP_ENTRY, .begin = (uint8_t)r->rules->begin(&entry, &none),
		.end = (uint8_t)r->rules->end(&entry, &none),
	};
	w.entry.direct = w.entry.end == MARK_YES && w.entry.begin == MARK_NO ? OP_ENTRY : OP_NONE;
	for (uint32_t i = 0; i < EXITS_SAID; i++)
		w.said[i].reason = i + 1; /* no exit of interest here */
	capture_skip_text(r->cap, true);
	ret = open_streams(&w);
	if (!ret)
		do
			ret = report_slice(&w);
		while (ret > 0);
	capture_skip_text(r->cap, false);
	if (!ret && w.cutting)
		ret = r->opts.cut(r->opts.ctx, r, w.stretch);
	for (uint32_t i = 0; i < w.n; i++) {
		const struct wstream *st = &w.st[i];

		r->tot.events += st->events;
		r->tot.exits += st->exits;
		r->tot.entries += st->entries;
		r->tot.fail_entry += st->failed;
		r->tot.lost += st->s.lost_total;
		r->tot.lost_unknown |= st->s.lost_unknown;
		r->tot.damaged += st->s.damaged;
		r->last = MAX(r->last, st->last_ts);
		rstream_close(&w.st[i].s);
	}
	free(w.st);
	free(w.ev);
	free(w.heap);
#ifdef __GLIBC__ /* many streams' memory is scattered among the cells; tables would come on top
		  * of it */
	if (w.n > TRIM_STREAMS)
		malloc_trim(0);
#endif
	if (ret)
		return err_set(err, -ret, "cannot read %s: %s", r->cap->path, strerror(-ret));
	if (knows_more(r))
		return report_start_over(r, err);
	samples_finish(r);
	r->tot.crowded = r->budget.crowded;
	r->tot.no_hist = r->budget.no_hist;
	return r->vms_later ? report_vms_now(r, err) : 0;
}
