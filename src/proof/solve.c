/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.c: the TSC offset of a guest from windows of vCPUs and events of their guest. They are
 * collected, thinned where there are too many; all offsets are searched coarsely, in cells; and the
 * best place in the cells that are left is found exactly.
 *
 * An offset is a number of guest cycles, so host times are scaled first: what remains to be found
 * is a plain difference, d. Captures must overlap by an eighth of the shorter one; the candidates
 * follow from that.
 *
 * Times are relative: H of a host time scaled to guest cycles, G of a guest time, both from the
 * first one known; an event is at host time G - d, and d is sought.
 */
#include "kvmft/proof.h"
#include "kvmft/hostmap.h"

struct solve_vcpu {
	uint32_t id;
	struct run_list w; /* the guest may have run then: guest cycles */
	int32_t *tid;	   /* threads that run it */
	size_t ntid, tidcap;
	uint64_t *e;
	size_t ne, ecap;
	uint64_t pair; /* the least by value: guest time minus scaled host time */
	size_t np;
	/* Of a run: */
	size_t taken;	   /* its events */
	struct solve_gap { /* cells in which it did not run, nor in the one before */
		uint32_t from, to;
	} * gap;
	size_t ngap, gapcap;
	uint32_t *first; /* by 2^step cells: the first gap that ends in them or later */
	size_t steps;
	unsigned int step;
};

#define SHARE_BITS 20

struct solve_event {
	int64_t g;
	uint32_t v; /* index of its vCPU */
};

/* A stretch of candidates [from, to). */
struct solve_cell {
	int64_t from, to;
};

struct solve {
	struct tsc_map map;
	struct solve_vcpu *v;
	size_t nv, vcap;
	size_t first, end;	 /* of v: those of this run */
	struct u64map by_id; /* vCPU -> index */
	uint64_t events, seen;	 /* all that are kept; all of them */
	uint64_t stride;	 /* every n-th event is kept */
	uint64_t windows, taken; /* all of them, and those of this run */
	uint64_t h0, g0;	 /* what H and G are counted from */
	uint64_t hspan, gspan;
	struct solve_event *ev; /* all of them, shuffled */
	size_t nev;
	int64_t lo, hi; /* candidates: lo <= d < hi */
	struct solve_cell *cell;
	size_t ncell, cellcap, left; /* left: cells of the grid in them */
	int shift;		     /* they are of 2^shift ... */
	int64_t width;		     /* ... and were of this at first */
	uint64_t share;	       /* of events, 2^-SHARE_BITS: outside with a wrong offset, at least */
	uint64_t spent, limit; /* by all runs, and allowed to this one; about 1 ns each */
};

/* An event outside counts against this many inside. */
#define SOLVE_COST 19

/* The best place within a cell, exactly. */
struct solve_place {
	int64_t from, to;  /* every d in [from, to] is as good; the widest such stretch */
	int64_t low, high; /* all that are as good, near it: there may be worse ones between them */
	int64_t score;
	uint64_t inside, outside;
};

/* ---- what is known ---- */

#define MAX_EVENTS (1u << 19)

void solve_new(const struct tsc_map *map, struct solve **out)
{
	struct solve *s = xcalloc(1, sizeof(*s));

	*out = s;
	s->map = *map;
	s->map.offset = 0;
	s->stride = 1;
}

static struct solve_vcpu *vcpu_at(struct solve *s, uint32_t id)
{
	struct solve_vcpu *v;
	uint64_t i;

	if (u64map_get(&s->by_id, id, &i))
		return &s->v[i];
	v = xarray_grow(&s->v, s->nv, &s->vcap, sizeof(*v));
	v->id = id;
	*xu64map_at(&s->by_id, id) = s->nv++;
	return v;
}

void solve_add_window(struct solve *s, uint32_t vcpu, uint64_t entry, uint64_t exit)
{
	struct run_list *l = &vcpu_at(s, vcpu)->w;
	struct vcpu_run w = { tsc_to_guest(&s->map, entry), tsc_to_guest(&s->map, exit) };

	if (!l->n || l->v[l->n - 1].from <= w.from) {
		s->windows += run_list_add(l, w.from, w.to, 0);
		return;
	}
	/* Of another thread: solve_captures() sorts them. */
	xarray_add(&l->v, &l->n, &l->cap, &w, sizeof(w));
	s->windows++;
}

void solve_add_event(struct solve *s, uint32_t vcpu, uint64_t guest)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);

	if (s->seen++ % s->stride)
		return;
	if (s->events >= MAX_EVENTS) { /* drops every other one */
		s->stride *= 2;
		s->events = 0;
		for (size_t i = 0; i < s->nv; i++) {
			struct solve_vcpu *o = &s->v[i];

			for (size_t k = 0; k < o->ne / 2; k++)
				o->e[k] = o->e[2 * k];
			s->events += o->ne /= 2;
		}
	}
	s->events++;
	xarray_add(&v->e, &v->ne, &v->ecap, &guest, sizeof(guest));
}

void solve_add_pair(struct solve *s, uint32_t vcpu, uint64_t host, uint64_t guest)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	uint64_t p = guest - tsc_to_guest(&s->map, host);

	/* They may be anywhere in 64 bits, but are all close to each other. */
	if (!v->np++ || (int64_t)(p - v->pair) < 0)
		v->pair = p;
}

size_t solve_vcpus(const struct solve *s)
{
	return s->nv;
}

uint32_t solve_vcpu_id(const struct solve *s, size_t i)
{
	return s->v[i].id;
}

void solve_free(struct solve *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->nv; i++) {
		free(s->v[i].w.v);
		free(s->v[i].tid);
		free(s->v[i].e);
		free(s->v[i].gap);
		free(s->v[i].first);
	}
	free(s->v);
	u64map_free(&s->by_id);
	free(s->ev);
	free(s->cell);
	free(s);
}

/* ---- from captures ---- */

static void add_thread(struct solve *s, uint32_t vcpu, const struct runs *runs, int32_t tid)
{
	const struct run_list *l = runs_of(runs, tid);
	struct solve_vcpu *v = vcpu_at(s, vcpu);

	xarray_add(&v->tid, &v->ntid, &v->tidcap, &tid, sizeof(tid));
	for (size_t k = 0; l && k < l->n; k++)
		solve_add_window(s, vcpu, l->v[k].from, l->v[k].to);
}

void solve_set_thread(struct solve *s, uint32_t vcpu, const struct runs *runs, int32_t tid)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);

	s->windows -= v->w.n;
	v->w.n = v->ntid = v->np = 0;
	if (tid)
		add_thread(s, vcpu, runs, tid);
}

struct guest_side {
	struct solve *s;
	const struct runs *runs;
	const struct fmt *fmt;
	struct own_tsc own;
	uint32_t vcpu; /* of the stream */
};

static int guest_event(void *arg, const struct rec *rec)
{
	const struct guest_side *g = arg;
	const struct solve_vcpu *v;
	enum msr_pair kind;
	uint64_t value, host = 0, ts, width;

	if (!own_tsc_place(&g->own, rec->ts, &ts, &width))
		return 0;
	if (g->runs->ndeadline &&
	    msr_pair_match(true, fmt_by_id(g->fmt, rec->id), rec, &kind, &value) &&
	    kind == MSR_PAIR_DEADLINE) {
		/* When the host handled the write of that deadline by the vCPU. */
		v = vcpu_at(g->s, g->vcpu);
		for (size_t i = 0; i < v->ntid && !host; i++)
			host = runs_deadline(g->runs, v->tid[i], value);
		if (host)
			solve_add_pair(g->s, g->vcpu, host, ts);
	}
	solve_add_event(g->s, g->vcpu, ts);
	return 0;
}

int solve_add_guest(struct solve *s, const struct runs *runs, const struct capture *cap,
		    const struct fmt *fmt)
{
	struct guest_side g = { .s = s, .runs = runs, .fmt = fmt };
	int ret = own_tsc_init(&g.own, cap, NULL);

	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		g.vcpu = cap_vcpu_of_cpu(cap, cap->stream[i].cpu);
		ret = rstream_each(cap, &cap->stream[i], guest_event, &g);
	}
	own_tsc_free(&g.own);
	return ret;
}

int solve_captures(const struct tsc_map *scale, const struct hostmap *map, size_t vm,
		   const struct runs *runs, const struct capture *cap, const struct fmt *fmt,
		   struct solve **out)
{
	const struct hostmap_thread *t;

	solve_new(scale, out);
	hostmap_each_thread(map, vm, t)
		add_thread(*out, t->vcpu, runs, t->tid);
	for (size_t i = 0; i < (*out)->nv; i++) {
		(*out)->windows -= (*out)->v[i].w.n;
		run_list_sort(&(*out)->v[i].w);
		(*out)->windows += (*out)->v[i].w.n;
	}
	return solve_add_guest(*out, runs, cap, fmt);
}

/* ---- the coarse search ---- */

/*
 * Host time is cut into cells of a power of two cycles. Per vCPU, gaps are the cells in which the
 * guest did not run, and not in the cell before either. For one event, each gap contradicts a
 * stretch of offsets (in cells); the differences that all of them make, summed up in order, count
 * the contradictions of each offset. In the same way the events are counted that it puts into the
 * time known.
 *
 * If many are left they are searched again, in smaller cells: a guest that is idle but for its
 * ticks fits nearly as well a tick earlier or later, as long as cells are wider than its windows.
 * Or with more events, as long as they are more than can be solved exactly with all events.
 */

#define BLOCK	   (1 << 15)	/* candidates at once: their counts stay in the cache */
#define MAX_BITS   (1ull << 27) /* cells of host time or of offsets */
#define MAX_CELLED (1ull << 29) /* ... when those of offsets are few */
#define MAX_SHIFT  30
#define MAX_CELLS  (1u << 18) /* more events are needed: they may come in bursts */
#define FEW_CELLS  256
#define FINER	   6   /* cells are searched again in cells smaller by so many bits, ... */
#define FINE	   8   /* ... down to this part of the mean window */
#define JOINED	   256 /* so many of them that touch are one */
#define MANY_TESTS (1u << 14)
#define MAX_SWEEPS 512 /* cells that are solved exactly, ... */
#define MAX_FULL   8   /* ... and this many of those with all events */
#define GAP_WORK   3
#define FETCH_WORK 20

/* So many events are tested that a wrong offset is expected to leave 64 of them outside. */
static size_t solve_enough(const struct solve *s)
{
	return (64ull << SHARE_BITS) / s->share + 1;
}

/*
 * How many of n events may be wrong by accident: a quarter of what a wrong offset leaves outside,
 * even if it puts them into a time in which the vCPU was busy and hardly left its guest.
 */
static uint64_t outside_allowed(const struct solve *s, uint64_t n)
{
	return 2 + MIN(n * s->share >> (SHARE_BITS + 2), n / 32);
}

/*
 * So many of n events must fall into times about which something is known: an offset that moves
 * nearly all of them out of the host's recording is contradicted by nothing, but proves nothing.
 */
static uint64_t solve_least(uint64_t n)
{
	return MAX(n / 64, UINT64_C(2));
}

/* A guest time with an offset, or a host time, in terms of H. */
static int64_t solve_h(const struct solve *s, uint64_t scaled)
{
	return (int64_t)(scaled - s->h0);
}

/* The number of the first window that ends at or after h; w.n if there is none. */
static size_t solve_window_at(const struct solve *s, const struct solve_vcpu *v, int64_t h)
{
	return COUNT_BEFORE(i, v->w.n, solve_h(s, v->w.v[i].to) < h);
}

/* What a vCPU's events are at that host time; *w: solve_window_at(). */
static enum solve_fit solve_fit_at(const struct solve *s, const struct solve_vcpu *v, int64_t h,
				   size_t *w)
{
	*w = solve_window_at(s, v, h);
	if (!v->w.n || h < solve_h(s, v->w.v[0].from) || *w >= v->w.n)
		return SOLVE_UNKNOWN; /* nothing is known about that time */
	return solve_h(s, v->w.v[*w].from) <= h ? SOLVE_INSIDE : SOLVE_OUTSIDE;
}

/*
 * The share of events that show that a wrong offset is wrong, if cells are of 2^shift cycles; in
 * 2^-SHARE_BITS.
 */
static uint64_t share_seen(struct solve *s, int shift)
{
	unsigned __int128 sum = 0;

	for (size_t i = s->first; i < s->end; i++) {
		const struct run_list *w = &s->v[i].w;
		uint64_t empty = 0;

		if (!s->v[i].taken)
			continue;
		for (size_t k = 1; k < w->n; k++) {
			uint64_t gap = w->v[k].from - w->v[k - 1].to;

			if (!shift || gap >> (shift + 2))
				empty += gap - (shift ? 3ull << shift : 0);
		}
		sum += ((unsigned __int128)empty << SHARE_BITS) /
		       (w->v[w->n - 1].to - w->v[0].from + 1) * s->v[i].taken;
		s->spent += w->n;
	}
	return (uint64_t)(sum / MAX(s->nev, (size_t)1));
}

/*
 * s->shift: of the largest cells that still show half of all gaps, and enough of them. That of the
 * smallest that are of use.
 */
static int pick_shift(struct solve *s)
{
	uint64_t span = MAX(s->hspan, (uint64_t)(s->hi - s->lo)), all = share_seen(s, 0);
	uint64_t in = 0, share;
	int least = 0;

	while (span >> least > MAX_BITS)
		least++;
	for (s->shift = MAX(MAX_SHIFT, least); s->shift > least; s->shift--) {
		share = share_seen(s, s->shift);
		if (share * 2 >= all && share * s->nev >= 64ull << SHARE_BITS)
			break;
	}
	for (size_t i = s->first; i < s->end; i++)
		for (size_t k = 0; s->v[i].taken && k < s->v[i].w.n; k++)
			in += s->v[i].w.v[k].to - s->v[i].w.v[k].from;
	for (least = 0; s->hspan >> least > MAX_CELLED || in / s->taken >> least > FINE;)
		least++;
	return least;
}

/* In cells; and by 2^step of them the first gap that ends there or later. */
static void find_gaps(struct solve *s)
{
	const int shift = s->shift;

	s->share = share_seen(s, shift);
	for (size_t i = s->first; i < s->end; i++) {
		struct solve_vcpu *v = &s->v[i];
		int64_t from = INT64_MAX, to;

		v->ngap = 0;
		for (size_t k = 0; v->taken && k < v->w.n; k++) {
			struct solve_gap g;

			to = (solve_h(s, v->w.v[k].from) >> shift) - 1;
			g = (struct solve_gap){ (uint32_t)from, (uint32_t)to };
			if (from <= to)
				xarray_add(&v->gap, &v->ngap, &v->gapcap, &g, sizeof(g));
			from = (solve_h(s, v->w.v[k].to) >> shift) + 2;
		}
		for (v->step = 0; s->hspan >> shift >> v->step > 2 * v->ngap;)
			v->step++;
		v->steps = (s->hspan >> shift >> v->step) + 1;
		free(v->first);
		v->first = xcalloc(v->steps, sizeof(*v->first));
		for (size_t k = 0, gap = 0; k < v->steps; v->first[k++] = (uint32_t)gap)
			while (gap < v->ngap && v->gap[gap].to >> v->step < k)
				gap++;
		s->spent += v->w.n * 8;
	}
}

#define KNOWN (1ll << 32) /* of a count of what contradicts a cell */

/* What an event says about a block of cells; at: where it would be in the host's first cell. */
static void test_event(struct solve *s, const struct solve_vcpu *v, int64_t at, int64_t cells,
		       int64_t *change)
{
	int64_t from = at - (solve_h(s, v->w.v[v->w.n - 1].to) >> s->shift) - 1;
	int64_t to = at - (solve_h(s, v->w.v[0].from) >> s->shift) + 1,
		low = MAX(at - cells + 1, 0);
	size_t k = low >> v->step < (int64_t)v->steps ? v->first[low >> v->step] : v->ngap;

	if (from >= cells || to <= 0)
		return;
	change[MAX(from, 0)] += KNOWN;
	change[MIN(to, cells)] -= KNOWN;
	while (k < v->ngap && v->gap[k].to < low)
		k++;
	for (; k < v->ngap && v->gap[k].from <= at; k++) {
		change[MAX(at - v->gap[k].to, 0)]++;
		change[MIN(at - v->gap[k].from + 1, cells)]--;
		s->spent += GAP_WORK;
	}
}

/* Adds those of a block's cells that may hold the answer; change[] has room for one more. */
static int search_block(struct solve *s, size_t tests, int64_t first, int64_t cells,
			int64_t *change)
{
	const int64_t width = 1ll << s->shift, limit = (int64_t)outside_allowed(s, tests);
	int64_t sum, i = 0;
	size_t done = 0, e = 0;

	memset(change, 0, ((size_t)cells + 1) * sizeof(*change));
	/* After so many events: are any left? */
	for (size_t look = 32; e < s->nev && done < tests && i < cells; look += look / 4) {
		for (; e < s->nev && done < MIN(look, tests); e++) {
			const struct solve_vcpu *v = &s->v[s->ev[e].v];

			if (!v->ngap)
				continue;
			test_event(s, v, ((s->ev[e].g - s->lo) >> s->shift) - first, cells, change);
			s->spent += FETCH_WORK;
			done++;
		}
		for (i = sum = 0; i < cells; i++)
			if ((uint32_t)(sum += change[i]) <= limit)
				break;
		if (s->spent >= s->limit)
			return -ETIME;
	}
	for (i = i < cells ? 0 : cells, sum = 0; i < cells; i++) {
		struct solve_cell c = { .from = s->lo + ((first + i) << s->shift) };
		struct solve_cell *last = s->ncell ? &s->cell[s->ncell - 1] : NULL;
		uint64_t known = (uint64_t)(sum += change[i]) >> 32;

		if ((uint32_t)sum > limit || (uint32_t)sum > outside_allowed(s, known) ||
		    known < solve_least(done))
			continue;
		if (++s->left > MAX_CELLS)
			return -E2BIG;
		c.to = c.from + width;
		if (last && last->to == c.from && c.to - last->from <= JOINED * width)
			last->to = c.to;
		else
			xarray_add(&s->cell, &s->ncell, &s->cellcap, &c, sizeof(c));
	}
	return 0;
}

/* Replaces s->cell by what it leaves of them, in order. */
static int solve_search(struct solve *s, size_t tests)
{
	_cleanup_free_ int64_t *change = xmalloc((BLOCK + 1) * sizeof(*change));
	struct solve_cell *in = s->cell;
	size_t n = s->ncell;
	int ret = 0;

	s->cell = NULL;
	s->ncell = s->cellcap = s->left = 0;
	for (size_t i = 0; i < n; i++)
		for (int64_t from = in[i].from, cells; from < in[i].to && !ret;
		     from += cells << s->shift) {
			cells = MIN(((in[i].to - from - 1) >> s->shift) + 1, BLOCK);
			ret = search_block(s, tests, (from - s->lo) >> s->shift, cells, change);
		}
	if (ret) {
		free(s->cell);
		s->cell = in;
		s->ncell = n;
	} else {
		free(in);
	}
	return ret;
}

/*
 * Makes s->cell what may hold the answer. 0, -E2BIG: too many fit, -ENODATA: the windows have no
 * gaps, -ETIME: the allowed work is done.
 */
static int solve_grid(struct solve *s)
{
	int least = pick_shift(s), ret;
	size_t tests = 0;
	bool more;

	s->ncell = 0;
	xarray_add(&s->cell, &s->ncell, &s->cellcap, &(struct solve_cell){ s->lo, s->hi },
		   sizeof(*s->cell));
	s->width = 1ll << s->shift;
	do {
		if (!tests) {
			find_gaps(s);
			if (!s->share)
				return -ENODATA;
			tests = solve_enough(s);
		}
		ret = solve_search(s, tests);
		more = tests < MIN(s->nev, (size_t)MANY_TESTS) &&
		       (ret == -E2BIG || (!ret && s->ncell > MAX_FULL));
		tests *= 4;
		if (!ret && s->left > FEW_CELLS && s->shift > least) {
			s->shift = MAX(s->shift - FINER, least);
			tests = 0;
			more = true;
		}
	} while (more);
	return ret ?: s->ncell > MAX_SWEEPS ? -E2BIG : 0;
}

/* ---- the exact search ---- */

/*
 * In one stretch of candidates: as d grows, each event moves back in host time and enters or leaves
 * windows; between two such moments nothing changes. So all those moments, in order, with a running
 * score, find the best stretch to the cycle.
 */

#define SWEEP_EVENTS (1u << 20) /* all cells are solved with this many events, ... */
#define SWEEP_MOST   (1u << 12) /* ... with no more for each than this */
#define TURN_WORK    100	/* looking up an event's window, and sorting what follows from it */

struct turns {
	const struct solve_cell *c;
	int64_t inside, known; /* at its first candidate */
	struct turn {
		int64_t d;	       /* from this candidate on ... */
		int32_t inside, known; /* ... the counts differ by this */
	} * v;
	size_t n, cap;
};

static void turn_add(struct turns *t, int64_t d, int inside, int known)
{
	if (d <= t->c->from) {
		t->inside += inside;
		t->known += known;
	} else if (d < t->c->to) {
		xarray_add(&t->v, &t->n, &t->cap, &(struct turn){ d, inside, known },
			   sizeof(*t->v));
	}
}

/* One more stretch, at least as good, near the best one. */
static void solve_place_add(struct solve_place *best, const struct solve_place *p)
{
	int64_t low = MIN(best->low, p->low), high = MAX(best->high, p->high);

	if (p->score > best->score) {
		*best = *p;
		return;
	}
	if (p->to - p->from > best->to - best->from)
		*best = *p;
	best->low = low;
	best->high = high;
}

COMPARE_BY(turn_cmp, struct turn, .d);

/* With the first n events. 0, -ETIME. */
static int solve_sweep(struct solve *s, const struct solve_cell *c, size_t n,
		       struct solve_place *best)
{
	struct solve_place cur = { .score = INT64_MIN };
	int64_t d = c->from, next;
	struct turns t = { .c = c };

	*best = (struct solve_place){ .from = c->from, .score = INT64_MIN };
	for (size_t i = 0; i < MIN(n, s->nev) && s->spent < s->limit; i++) {
		const struct solve_vcpu *v = &s->v[s->ev[i].v];
		int64_t g = s->ev[i].g, to;

		/* It is known from its last window to its first, and inside from each end on. */
		turn_add(&t, g - solve_h(s, v->w.v[v->w.n - 1].to), 0, 1);
		turn_add(&t, g - solve_h(s, v->w.v[0].from) + 1, 0, -1);
		for (size_t k = solve_window_at(s, v, g - c->to + 1); k < v->w.n; k++) {
			to = g - solve_h(s, v->w.v[k].from);
			if (to < c->from)
				break;
			turn_add(&t, g - solve_h(s, v->w.v[k].to), 1, 0);
			turn_add(&t, to + 1, -1, 0);
			s->spent += TURN_WORK;
		}
		s->spent += TURN_WORK;
	}
	array_sort(t.v, t.n, turn_cmp);
	for (size_t i = 0; d < c->to; d = next) {
		int64_t score = t.inside - SOLVE_COST * (t.known - t.inside);

		/* Neighbours that are as good, though with other events, are one stretch. */
		if (score != cur.score)
			cur = (struct solve_place){ .from = d,
						    .low = d,
						    .score = score,
						    .inside = (uint64_t)t.inside,
						    .outside = (uint64_t)(t.known - t.inside) };
		next = i < t.n ? t.v[i].d : c->to;
		cur.to = cur.high = next - 1;
		if (score >= best->score)
			solve_place_add(best, &cur);
		for (; i < t.n && t.v[i].d == next; i++) {
			t.inside += t.v[i].inside;
			t.known += t.v[i].known;
		}
	}
	free(t.v);
	return s->spent < s->limit ? 0 : -ETIME;
}

/* ---- places ---- */

#define CHANCE_BITS 10 /* one wrong answer in 2^10 */
#define AROUND	    8  /* windows to either side that are "around" one */
#define MIN_EVENTS  8

/* No more are outside than a quarter of what a wrong offset leaves there. */
static bool place_worth(const struct solve *s, const struct solve_place *p)
{
	uint64_t known = p->inside + p->outside;

	return p->inside >= MIN_EVENTS && p->outside <= 2 + (known * s->share >> (SHARE_BITS + 2));
}

/* Two places in one or in neighbouring cells of the grid are one. */
static bool same_place(const struct solve *s, const struct solve_place *a,
		       const struct solve_place *b)
{
	return a->from <= b->to + s->width && b->from <= a->to + s->width;
}

COMPARE(by_score, struct solve_place *, ORDER((*y)->score, (*x)->score) ?: ORDER(*x, *y));

/*
 * The exact places of all cells: with a part of the events if there are many cells, then the best
 * ones with all. p has room for one per cell.
 */
static int sweep_cells(struct solve *s, struct solve_place *p)
{
	_cleanup_free_ struct solve_place **order = xcalloc(s->ncell + 1, sizeof(*order));
	size_t some = MIN((size_t)SWEEP_EVENTS / s->ncell, (size_t)SWEEP_MOST);
	int ret = 0;

	for (size_t i = 0; i < s->ncell && !ret; i++) {
		order[i] = &p[i];
		ret = solve_sweep(s, &s->cell[i], some, &p[i]);
	}
	if (ret || some >= s->nev)
		return ret;
	array_sort(order, s->ncell, by_score);
	for (size_t i = 0; i < s->ncell && !ret; i++) {
		/* More events leave less of the room of those that are all inside. */
		struct solve_cell room = { order[i]->low, order[i]->high + 1 };

		if (i < MAX_FULL && place_worth(s, order[i]))
			ret = solve_sweep(s, order[i]->outside ? &s->cell[order[i] - p] : &room,
					  s->nev, order[i]);
		else
			order[i]->score = INT64_MIN;
	}
	return ret;
}

/* The best of n places, in order, and what r says of the others. NULL: none is any good. */
static const struct solve_place *best_place(const struct solve *s, struct solve_place *p, size_t n,
					    struct solve_result *r)
{
	const struct solve_place *next = NULL, *last = NULL;
	struct solve_place *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (place_worth(s, &p[i]) && (!best || p[i].score > best->score))
			best = &p[i];
	for (size_t i = 0; i < n && best; i++) {
		if (!place_worth(s, &p[i]) || &p[i] == best)
			continue;
		if (same_place(s, &p[i], best)) {
			if (p[i].score == best->score && p[i].from == best->to + 1)
				best->to = p[i].to;
			if (p[i].score == best->score)
				solve_place_add(best, &p[i]);
			continue;
		}
		if (!next || p[i].score > next->score)
			next = &p[i];
		/* It contradicts no more, and is based on as much: as good as the best. */
		if (p[i].outside <= best->outside && p[i].inside >= best->inside / 2) {
			r->equal += !last || !same_place(s, &p[i], last);
			last = &p[i];
		}
	}
	r->has_next = next;
	if (next) {
		r->next_distance = next->from - best->from;
		r->next_inside = next->inside;
		r->next_outside = next->outside;
	}
	return best;
}

/* Multiplies *m, at least 2^63, by a / b. By how many bits it was shifted to the right for that. */
static int64_t bits_mul(uint64_t *m, uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)*m * a / b;
	int64_t bits = 0;

	for (; p >> 64; p >>= 1)
		bits++;
	for (; !(p >> 63); p <<= 1)
		bits--;
	*m = (uint64_t)p;
	return bits;
}

/*
 * Could events of another VM or time fit as well somewhere? Each window with an event in it says
 * that they do not, by how little of the time around it the vCPU was in its guest: a wrong offset
 * may put all events into a time when the vCPU hardly left it. All that is multiplied, and divided
 * by how many offsets there are and by the ways in which some events may be wrong.
 */
static bool is_chance(const struct solve *s, uint64_t offset)
{
	uint64_t m = 1ull << 63;
	int64_t bits = bits_mul(&m, 1, (uint64_t)((s->hi - s->lo) >> s->shift) + 1) - CHANCE_BITS;

	for (size_t i = s->first; i < s->end; i++) {
		const struct solve_vcpu *v = &s->v[i];
		uint64_t hits = 0, wrong = 0;
		size_t w, before = SIZE_MAX;

		for (size_t k = 0; k < v->taken; k++) {
			enum solve_fit f = solve_fit_at(s, v, solve_h(s, v->e[k] - offset), &w);
			size_t from = w > AROUND ? w - AROUND : 0, to = MIN(w + AROUND, v->w.n - 1);
			uint64_t in = 0;

			if (f == SOLVE_UNKNOWN)
				continue;
			wrong += f == SOLVE_OUTSIDE;
			/* Consecutive events in one window say the same about an offset. */
			if (f == SOLVE_INSIDE && w != before) {
				for (size_t n = from; n <= to; n++)
					in += v->w.v[n].to - v->w.v[n].from + 1;
				bits += bits_mul(&m, v->w.v[to].to - v->w.v[from].from + 1, in);
				hits++;
			}
			before = w;
		}
		for (uint64_t k = 0; k < wrong; k++)
			bits += bits_mul(&m, wrong, 3 * (hits + wrong));
	}
	return bits < 0;
}

/*
 * The best place from lo up to hi, if it is not chance. 0, found or not; -EDOM: it may be chance;
 * or as solve_grid().
 */
static int solve_within(struct solve *s, int64_t lo, int64_t hi, struct solve_result *r)
{
	_cleanup_free_ struct solve_place *p = NULL;
	const struct solve_place *best;
	uint64_t base = s->g0 - s->h0;
	int ret;

	s->lo = lo;
	s->hi = hi;
	r->span = (uint64_t)(hi - lo);
	ret = solve_grid(s);
	if (ret || !s->ncell)
		return ret;
	p = xcalloc(s->ncell, sizeof(*p));
	ret = sweep_cells(s, p);
	best = ret ? NULL : best_place(s, p, s->ncell, r);
	if (!best)
		return ret;
	r->offset_lo = base + (uint64_t)best->low;
	r->offset_hi = base + (uint64_t)best->high;
	r->offset = base + (uint64_t)(best->from + (best->to - best->from) / 2);
	r->inside = best->inside;
	r->outside = best->outside;
	ret = is_chance(s, r->offset) ? -EDOM : 0;
	r->found = !ret;
	return r->outside <= outside_allowed(s, r->inside + r->outside) ? ret : 0;
}

/* ---- runs ---- */

#define LEAST_OVERLAP 8 /* captures overlap by at least this part of the shorter one */
#define MIN_PAIRS     4
#define MANY_PAIRS    64
#define PAIR_LATE     (1 << 24) /* cycles, some ms: of several pairs one is closer than that ... */
#define MANY_LATE     (1 << 21) /* ... and of many, closer than that */

/*
 * Windows and events of the vCPUs that count, each from the first one known; the events in random
 * order, so that any few of them are a sample.
 */
static void state_problem(struct solve *s, int64_t only)
{
	uint64_t last = 0, latest = 0;
	uint32_t seed = 1;
	size_t n = 0;

	s->h0 = s->g0 = UINT64_MAX;
	s->nev = s->taken = 0;
	for (size_t i = s->first; i < s->end; i++)
		s->v[i].taken = 0;
	s->first = only == SOLVE_ALL ? 0 : (size_t)(vcpu_at(s, (uint32_t)only) - s->v);
	s->end = only == SOLVE_ALL ? s->nv : s->first + 1;
	for (size_t i = s->first; i < s->end; i++) {
		struct solve_vcpu *v = &s->v[i];

		v->taken = v->w.n ? v->ne : 0;
		s->nev += v->taken;
		if (v->taken) {
			s->taken += v->w.n;
			s->h0 = MIN(s->h0, v->w.v[0].from);
			last = MAX(last, v->w.v[v->w.n - 1].to);
		}
		for (size_t k = 0; k < v->taken; k++) {
			s->g0 = MIN(s->g0, v->e[k]);
			latest = MAX(latest, v->e[k]);
		}
	}
	s->hspan = last - s->h0;
	s->gspan = s->nev ? latest - s->g0 : 0;
	free(s->ev);
	s->ev = xcalloc(s->nev + 1, sizeof(*s->ev));
	for (size_t i = s->first; i < s->end; i++)
		for (size_t k = 0; k < s->v[i].taken; k++)
			s->ev[n++] = (struct solve_event){ .g = (int64_t)(s->v[i].e[k] - s->g0),
							   .v = (uint32_t)i };
	for (size_t i = s->nev; i > 1; i--) {
		struct solve_event e = s->ev[i - 1];
		size_t k;

		seed = seed * 1664525u + 1013904223u;
		k = (seed >> 8) % i;
		s->ev[i - 1] = s->ev[k];
		s->ev[k] = e;
	}
}

/* First where the pairs say that it must be: they may be wrong, if a clock was set. */
static int solve_both(struct solve *s, int64_t lo, int64_t hi, uint64_t pairs,
		      struct solve_result *r)
{
	int64_t late = pairs < MANY_PAIRS ? PAIR_LATE : MANY_LATE;
	int64_t most = (int64_t)(r->at_most - (s->g0 - s->h0));
	const struct solve_result none = *r;

	if (pairs >= MIN_PAIRS && most > lo && most - late < hi) {
		r->pairs = pairs;
		if (!solve_within(s, MAX(lo, most - late), MIN(hi, most + 1), r) && r->found &&
		    r->outside <= r->inside / 64)
			return 0;
		*r = none;
	}
	return solve_within(s, lo, hi, r);
}

void solve_run(struct solve *s, int64_t vcpu, struct solve_result *r)
{
	uint64_t pairs = 0, overlap;
	int ret;

	state_problem(s, vcpu);
	*r = (struct solve_result){ .events = s->nev };
	/* The guest's event of an access never comes before the host's. */
	for (size_t i = s->first; i < s->end; i++) {
		const struct solve_vcpu *v = &s->v[i];

		if (!v->np)
			continue;
		if (!pairs || (int64_t)(v->pair - r->at_most) < 0)
			r->at_most = v->pair;
		pairs += v->np;
		r->has_most = true;
	}
	/*
	 * Work grows no faster than the input, whatever the stamps are: what a run may spend is
	 * bounded, and so is what all of them may. Captures of real machines take a tenth of it
	 * (make bench).
	 */
	s->limit = MIN((1ull << 30) + (s->windows * 4 + s->events) * 4096,
		       s->spent + (1ull << 28) + (s->taken * 4 + s->nev) * 2048);
	if (!s->windows) {
		r->why = "the host capture shows no entries and exits of this VM's vCPUs";
	} else if (s->nev < MIN_EVENTS) {
		r->why =
			"the guest capture has too few events of vCPUs that are in the host capture";
	} else if (s->hspan >> 61 || s->gspan >> 61) {
		r->why = "the stamps of one capture are too far apart";
	} else {
		overlap = MIN(s->hspan, s->gspan) / LEAST_OVERLAP;
		ret = solve_both(s, -(int64_t)(s->hspan - overlap),
				 (int64_t)(s->gspan - overlap) + 1, pairs, r);
		if (ret == -ENODATA)
			r->why = "the vCPUs never left their guest: the windows exclude no offset";
		else if (ret == -E2BIG)
			r->why = "too many offsets fit: record longer";
		else if (ret == -EDOM)
			r->why = "an offset fits, but that may be chance: record longer";
		else if (ret == -ETIME)
			r->why = "too many offsets nearly fit: the search reached its limit";
		else if (!r->found)
			r->why = "no offset puts the guest's events into the windows: another VM, "
				 "another ratio (--tsc-ratio), or captures of different times";
	}
}

/* ---- what a result leaves ---- */

#define LEFT_MIN   48 /* events that are no accident, windows in which some should be */
#define ABSENT_MIN 8  /* events of which at least one should be where the vCPU ran */

void solve_count(const struct solve *s, size_t i, const struct solve_result *r,
		 struct solve_counts *c)
{
	const struct solve_vcpu *v = &s->v[i];
	size_t begin = 0, first = 0, last = 0, w;
	int64_t sum = 0, best = 0;

	*c = (struct solve_counts){ .from = INT64_MAX, .to = INT64_MIN };
	if (!v->w.n)
		return;
	/*
	 * Also the stretch of the vCPU's events that the offset fits best. Events beyond it are
	 * also inside now and then, so one that is outside outweighs several that are not.
	 */
	for (size_t k = 0; k < v->ne; k++) {
		int64_t h = solve_h(s, v->e[k] - r->offset);
		enum solve_fit f = solve_fit_at(s, v, h, &w);

		if (f == SOLVE_INSIDE) {
			c->inside++;
			c->from = MIN(c->from, h);
			c->to = MAX(c->to, h);
			sum++;
		} else if (f == SOLVE_OUTSIDE) {
			c->outside++;
			sum -= 16;
		}
		if (sum <= 0) {
			sum = 0;
			begin = k + 1;
		} else if (sum > best) {
			best = sum;
			first = begin;
			last = k + 1;
		}
	}
	if (first == last) {
		c->left = v->ne;
		return;
	}
	if (first >= LEFT_MIN &&
	    solve_window_at(s, v, solve_h(s, v->e[first] - r->offset)) >= LEFT_MIN)
		c->left = first;
	if (v->ne - last >= LEFT_MIN &&
	    solve_window_at(s, v, solve_h(s, v->e[last - 1] - r->offset)) + LEFT_MIN < v->w.n)
		c->left += v->ne - last;
}

uint64_t solve_absent(const struct solve *s, size_t i, const struct solve_counts *c,
		      const struct solve_counts *all)
{
	const struct solve_vcpu *v = &s->v[i];

	if (!v->w.n || v->ne < ABSENT_MIN || c->inside || c->outside || all->from > all->to)
		return 0;
	return solve_window_at(s, v, all->to) - solve_window_at(s, v, all->from) >= LEFT_MIN ? v->ne
											     : 0;
}
