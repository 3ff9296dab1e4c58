/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve.c: the TSC offset of a guest from windows of vCPUs and events of their guest. They are
 * collected, thinned where there are too many; all offsets are searched coarsely, in cells; and the
 * best place in the cells that are left is found exactly.
 *
 * An offset is a number of guest cycles, so host times are scaled first: what remains to be found
 * is a plain difference, d. Captures must overlap by an eighth of the shorter one; the candidates
 * follow from that.
 */
#include "solve.h"
#include "kvmft/hostmap.h"

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

	for (size_t i = 0; i < s->nv; i++)
		if (s->v[i].id == id)
			return &s->v[i];
	v = xarray_grow(&s->v, s->nv, &s->vcap, sizeof(*v));
	v->id = id;
	s->nv++;
	return v;
}

void solve_add_window(struct solve *s, uint32_t vcpu, uint64_t entry, uint64_t exit)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);

	s->windows += run_list_add(&v->w, entry, exit, s->min_gap);
	/* Windows with short gaps are joined until there are half as many. */
	for (bool many = s->windows >= RUNS_MAX; many; many = s->windows > RUNS_MAX / 2) {
		s->min_gap = s->min_gap ? s->min_gap * 2 : 1024;
		s->windows = 0;
		for (size_t i = 0; i < s->nv; i++) {
			run_list_join(&s->v[i].w, s->min_gap);
			s->windows += s->v[i].w.n;
		}
	}
}

void solve_clear_windows(struct solve *s, uint32_t vcpu)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);

	s->windows -= v->w.n;
	s->scaled = false; /* others would be scaled twice, unless the ratio is 1 */
	v->w.n = v->ntid = v->np = 0;
}

void solve_add_event(struct solve *s, uint32_t vcpu, uint64_t guest)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	uint64_t left = 0;

	if (s->seen++ % s->stride)
		return;
	for (size_t i = 0; i < s->nv && s->events >= MAX_EVENTS; i++) { /* drops every other one */
		struct solve_vcpu *o = &s->v[i];

		for (size_t k = 0; k < o->ne / 2; k++)
			o->e[k] = o->e[2 * k];
		left += o->ne /= 2;
	}
	if (s->events >= MAX_EVENTS) {
		s->stride *= 2;
		s->events = left;
	}
	s->events++;
	xarray_add(&v->e, &v->ne, &v->ecap, &guest, sizeof(guest));
}

void solve_add_pair(struct solve *s, uint32_t vcpu, uint64_t host, uint64_t guest)
{
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	int64_t p = (int64_t)(guest - tsc_to_guest(&s->map, host));

	if (v->np < MAX_EVENTS) /* it only helps */
		xarray_add(&v->p, &v->np, &v->pcap, &p, sizeof(p));
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
		free(s->v[i].p);
	}
	free(s->v);
	free(s->ev);
	free(s->order);
	free(s->cell);
	free(s);
}

/* ---- from captures ---- */

COMPARE_BY(by_from, struct vcpu_run, .from);

void solve_add_thread(struct solve *s, uint32_t vcpu, const struct runs *runs, int32_t tid)
{
	const struct run_list *l = runs_of(runs, tid);
	struct solve_vcpu *v = vcpu_at(s, vcpu);
	struct run_list old = v->w;

	xarray_add(&v->tid, &v->ntid, &v->tidcap, &tid, sizeof(tid));
	if (!l || !l->n)
		return;
	if (!old.n || old.v[old.n - 1].to < l->v[0].from) {
		for (size_t i = 0; i < l->n; i++)
			solve_add_window(s, vcpu, l->v[i].from, l->v[i].to);
		return;
	}
	/* At whatever time another thread of the vCPU ran. */
	v->w = (struct run_list){ 0 };
	s->windows -= old.n;
	for (size_t i = 0; i < l->n; i++)
		xarray_add(&old.v, &old.n, &old.cap, &l->v[i], sizeof(l->v[i]));
	array_sort(old.v, old.n, by_from);
	for (size_t i = 0; i < old.n; i++)
		solve_add_window(s, vcpu, old.v[i].from, old.v[i].to);
	free(old.v);
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
		solve_add_thread(*out, t->vcpu, runs, t->tid);
	return solve_add_guest(*out, runs, cap, fmt);
}

/* ---- the coarse search ---- */

/* So many events are tested that a wrong offset is expected to leave 64 of them outside. */
static size_t solve_enough(const struct solve *s)
{
	return (64ull << SHARE_BITS) / s->share + 1;
}

/*
 * So many of n events must fall into times about which something is known: an offset that moves
 * nearly all of them out of the host's recording is contradicted by nothing, but proves nothing.
 */
static size_t solve_least(size_t n)
{
	return MAX(n / 64, (size_t)2);
}

#define MIN_EVENTS 8

/* True while the budget is not spent. */
static bool solve_spend(struct solve *s, uint64_t work)
{
	s->spent += work;
	return s->spent < s->limit;
}

/* Windows of one vCPU in terms of H. */
static int64_t solve_h(const struct solve *s, uint64_t scaled)
{
	return (int64_t)(scaled - s->h0);
}

/* A vCPU that counts in this run. */
static bool solve_takes(const struct solve *s, const struct solve_vcpu *v)
{
	return v->w.n && v->ne && (s->only == SOLVE_ALL || s->only == (int64_t)v->id);
}

/* The number of the first window that ends at or after h; w.n if there is none. */
static size_t solve_window_at(const struct solve *s, const struct solve_vcpu *v, int64_t h)
{
	return COUNT_BEFORE(i, v->w.n, solve_h(s, v->w.v[i].to) < h);
}

/* What a vCPU's events are at that host time; *w: window_at(). */
static enum solve_fit solve_fit_at(const struct solve *s, const struct solve_vcpu *v, int64_t h,
				   size_t *w)
{
	*w = solve_window_at(s, v, h);
	if (!v->w.n || h < solve_h(s, v->w.v[0].from) || *w >= v->w.n)
		return SOLVE_UNKNOWN; /* nothing is known about that time */
	return solve_h(s, v->w.v[*w].from) <= h ? SOLVE_INSIDE : SOLVE_OUTSIDE;
}

/*
 * The coarse search, over all possible offsets.
 *
 * Host time is cut into cells of a power of two cycles. Per vCPU, gaps are the cells in which the
 * guest did not run, and not in the cell before either. For one event, each gap contradicts a
 * stretch of offsets (in cells); the differences that all of them make, summed up in order, count
 * the contradictions of each offset, which is dropped at 16.
 * So many events are tested that a wrong offset contradicts about 64 of them: by chance one of
 * 10^11 wrong offsets remains, and a right one remains even if a quarter as many events are wrong
 * as a wrong one would make.
 */

#define BLOCK	   (1 << 15)	/* candidates at once: their counts stay in the cache */
#define DROPPED	   16		/* contradictions */
#define MAX_BITS   (1ull << 27) /* cells of host time or of offsets */
#define MAX_CELLED (1ull << 29) /* ... when those of offsets are few */
#define MAX_SHIFT  30
#define MANY_CELLS (1u << 17)
#define MAX_CELLS  (1u << 21)
#define FEW_CELLS  256 /* they are not searched again, in cells smaller by ... */
#define FINER	   6   /* ... so many bits, ... */
#define FINE	   8   /* ... down to this part of the mean window */
#define GAP_WORK   3
#define FETCH_WORK 20

/* Of one vCPU. */
struct gaps {
	/* What remains visible of gaps between windows in cells of 2^n cycles. */
	uint64_t count[64], sum[64]; /* by the gap's highest bit */
	uint64_t known;		     /* time from the first window to the end of the last */
	struct gap {
		uint32_t from, to;
	} * v; /* in cells; NULL: no event is tested */
	size_t n;
	uint32_t *first; /* by 2^step cells: the first gap that ends in them or later */
	size_t steps;
	unsigned int step;
};

/* ---- how fine the grid has to be ---- */

/* Share of the known time, 2^-SHARE_BITS, in which cells of 2^shift cycles are seen to be empty. */
static uint64_t seen_empty(const struct gaps *g, unsigned int shift)
{
	uint64_t empty = 0;

	for (unsigned int b = shift ? shift + 2 : 0; b < 64; b++)
		empty += g->sum[b] - g->count[b] * (shift ? 3ull << shift : 0);
	return (uint64_t)(((unsigned __int128)empty << SHARE_BITS) / g->known);
}

/*
 * The same for all vCPUs, weighted by their events: the share of events that show that a wrong
 * offset is wrong.
 */
static uint64_t all_empty(const struct solve *s, const struct gaps *g, unsigned int shift)
{
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < s->nv; i++)
		if (g[i].known)
			sum += (unsigned __int128)seen_empty(&g[i], shift) * s->v[i].taken;
	return (uint64_t)(sum / MAX(s->nev, (size_t)1));
}

/*
 * The largest cells that still show half of all gaps, and enough of them; -1: there are no gaps.
 * s->least: the smallest that are of use; they take not too much memory.
 */
static int pick_shift(struct solve *s, const struct gaps *g)
{
	uint64_t span = MAX(s->hspan, (uint64_t)(s->hi - s->lo)), all = all_empty(s, g, 0);
	uint64_t in = 0, n = 1;
	unsigned int shift = MAX_SHIFT, least = 0;

	while (span >> least > MAX_BITS)
		least++;
	while (shift > least && (all_empty(s, g, shift) * 2 < all ||
				 all_empty(s, g, shift) * s->nev < 64ull << SHARE_BITS))
		shift--;
	shift = MAX(shift, least);
	for (size_t i = 0; i < s->nv; i++)
		for (size_t k = 0; s->v[i].taken && k < s->v[i].w.n; k++, n++)
			in += s->v[i].w.v[k].to - s->v[i].w.v[k].from;
	for (s->least = 0; s->hspan >> s->least > MAX_CELLED || in / n >> s->least > FINE;)
		s->least++;
	s->share = all_empty(s, g, shift);
	return s->share ? (int)shift : -1;
}

/* ---- events against candidates ---- */

/* In cells; only those of vCPUs that exclude anything. */
static int find_gaps(struct solve *s, struct gaps *g, unsigned int shift)
{
	for (size_t i = 0; i < s->nv; i++) {
		const struct run_list *w = &s->v[i].w;
		int64_t from = 0, to;

		if (!g[i].known || !seen_empty(&g[i], 0))
			continue;
		g[i].v = g[i].v ?: xcalloc(w->n, sizeof(*g[i].v));
		g[i].n = 0;
		for (size_t k = 0; k < w->n; k++) {
			to = (solve_h(s, w->v[k].from) >> shift) - 1;
			if (k && from <= to)
				g[i].v[g[i].n++] = (struct gap){ (uint32_t)from, (uint32_t)to };
			from = (solve_h(s, w->v[k].to) >> shift) + 2;
		}
		for (g[i].step = 0; s->hspan >> shift >> g[i].step > 2 * w->n;)
			g[i].step++;
		g[i].steps = (s->hspan >> shift >> g[i].step) + 1;
		g[i].first = g[i].first ?: xcalloc(2 * w->n + 1, sizeof(*g[i].first));
		for (size_t k = 0, gap = 0; k < g[i].steps; g[i].first[k++] = (uint32_t)gap)
			while (gap < g[i].n && g[i].v[gap].to >> g[i].step < k)
				gap++;
		if (!solve_spend(s, w->n * 8))
			return -ETIME;
	}
	return 0;
}

/* The first gap that ends at that cell or later. */
static size_t gap_at(const struct gaps *g, int64_t cell)
{
	size_t step = (size_t)MAX(cell, 0) >> g->step, k;

	for (k = step < g->steps ? g->first[step] : g->n; k < g->n && g->v[k].to < cell; k++)
		;
	return k;
}

static bool any_left(const int32_t *change, int64_t cells)
{
	int32_t wrong = 0;

	for (int64_t i = 0; i < cells; i++)
		if ((wrong += change[i]) < DROPPED)
			return true;
	return false;
}

/* A block of candidates against up to `tests` events; change[] has room for one more. */
static int search_block(struct solve *s, const struct gaps *gaps, size_t tests, int64_t first,
			int64_t cells, unsigned int shift, int32_t *change)
{
	int32_t wrong = 0;
	size_t look = 2 * DROPPED; /* after so many events: are any left? */

	memset(change, 0, ((size_t)cells + 1) * sizeof(*change));
	for (size_t i = 0, done = 0; i < s->nev && done < tests; i++) {
		const struct gaps *g = &gaps[s->ev[i].v];
		int64_t at = ((s->ev[i].g - s->lo) >> shift) - first;
		size_t k, from;

		if (!g->v)
			continue;
		from = k = gap_at(g, at - cells + 1);
		for (; k < g->n && g->v[k].from <= at; k++) {
			change[MAX(at - g->v[k].to, 0)]++;
			change[MIN(at - g->v[k].from + 1, cells)]--;
		}
		if (!solve_spend(s, FETCH_WORK + (k - from) * GAP_WORK))
			return -ETIME;
		if (++done < look)
			continue;
		if (!any_left(change, cells))
			return 0;
		look += look / 4;
	}
	for (int64_t i = 0; i < cells; i++) {
		int64_t from = s->lo + ((first + i) << shift);
		struct solve_cell c = { .from = from, .to = from + (1ll << shift) };

		wrong += change[i];
		if (wrong >= DROPPED)
			continue;
		if (s->ncell >= s->most)
			return -E2BIG;
		xarray_add(&s->cell, &s->ncell, &s->cellcap, &c, sizeof(c));
	}
	return 0;
}

/* The candidates in n cells of an earlier, coarser search, in order. */
static int search(struct solve *s, const struct gaps *g, size_t tests, unsigned int shift,
		  const struct solve_cell *in, size_t n)
{
	_cleanup_free_ int32_t *change = xmalloc((BLOCK + 1) * sizeof(*change));
	int ret = 0;

	s->ncell = 0;
	for (size_t i = 0, k; i < n && !ret; i = k) {
		for (k = i + 1; k < n && in[k].from == in[k - 1].to; k++)
			;
		for (int64_t from = in[i].from, to = in [k - 1].to; from < to && !ret;) {
			int64_t cells = MIN(((to - from - 1) >> shift) + 1, BLOCK);

			/* Candidates must move enough events into the host's time. */
			size_t early = COUNT_BEFORE(e, s->nev, s->order[e] < from);
			size_t late = COUNT_BEFORE(e, s->nev,
						   s->order[e] < from + (cells << shift) +
									 (int64_t)s->hspan);

			if (late - early >= solve_least(s->nev))
				ret = search_block(s, g, tests, (from - s->lo) >> shift, cells,
						   shift, change);
			from += cells << shift;
		}
	}
	return ret;
}

/*
 * Fills s->cell with the cells of the grid that may hold the answer. 0, -E2BIG: too many
 * fit, -ENODATA: the windows have no gaps, -ETIME: the allowed work is done.
 *
 * If too many cells are left, more events are needed, since they may come in bursts; or smaller
 * cells: a guest that is idle but for its ticks fits nearly as well a tick earlier or later, as
 * long as cells are wider than its windows.
 */
static int solve_grid(struct solve *s)
{
	_cleanup_free_ struct gaps *g = xcalloc(s->nv, sizeof(*g));
	struct solve_cell *in = xcalloc(1, sizeof(*in));
	int shift, ret = 0;

	for (size_t i = 0; i < s->nv && !ret; i++)
		if (solve_takes(s, &s->v[i])) {
			const struct run_list *w = &s->v[i].w;

			g[i].known = w->v[w->n - 1].to - w->v[0].from + 1;
			for (size_t k = 1; k < w->n; k++) {
				uint64_t gap = w->v[k].from - w->v[k - 1].to;
				int bit = 63 - __builtin_clzll(gap | 1);

				g[i].count[bit]++;
				g[i].sum[bit] += gap;
			}
			ret = solve_spend(s, w->n) ? 0 : -ETIME;
		}
	shift = ret ? 0 : pick_shift(s, g);
	ret = ret ?: shift < 0 ? -ENODATA : 0;
	*in = (struct solve_cell){ .from = s->lo, .to = s->hi };
	s->width = (int64_t)1 << MAX(shift, 0);
	s->ncell = 1;
	while (!ret) {
		size_t n = s->ncell, enough = solve_enough(s);

		s->fine = (int64_t)1 << shift;
		ret = find_gaps(s, g, (unsigned int)shift) ?: -E2BIG;
		s->most = MANY_CELLS;
		for (size_t k = 1; ret == -E2BIG && k <= 16 && enough * k < 4 * s->nev; k *= 4)
			ret = search(s, g, enough * k, (unsigned int)shift, in, n);
		s->most = MAX_CELLS;
		if (ret == -E2BIG)
			ret = search(s, g, enough, (unsigned int)shift, in, n);
		if (ret || s->ncell <= FEW_CELLS || shift <= s->least)
			break;
		free(in);
		in = s->cell;
		s->cell = NULL;
		s->cellcap = 0;
		shift = MAX(shift - FINER, s->least);
		s->share = all_empty(s, g, (unsigned int)shift);
	}
	free(in);
	for (size_t i = 0; i < s->nv; i++) {
		free(g[i].v);
		free(g[i].first);
	}
	return ret;
}

/*
 * In one stretch of candidates: as d grows, each event moves back in host time and enters or leaves
 * windows; between two such moments nothing changes. So all those moments, in order, with a running
 * score, find the best stretch to the cycle.
 */

#define MAX_SWEEPS   512	/* cells that are solved exactly, ... */
#define SWEEP_EVENTS (1u << 20) /* ... with this many events in all, ... */
#define SWEEP_MOST   (1u << 14) /* ... with no more for each than this, ... */
#define MAX_FULL     8		/* ... and this many of those with all events */
#define FEW_JOINED   4
#define MANY_JOINED  256
#define MANY_TESTS   (1u << 14) /* cells that pass so many are solved */
#define TEST_WORK    20		/* a window is looked up */
#define CHANCE_BITS  10		/* one wrong answer in 2^10 */
#define AROUND	     8		/* windows to either side that are "around" one */
#define LOOK_WORK    20		/* looking up an event's window */
#define TURN_WORK    100	/* ... and sorting what follows from it */

/* ---- the exact search ---- */

struct turn {
	int64_t d;		 /* from this candidate on ... */
	int32_t inside, outside; /* ... the counts differ by this */
};

struct turns {
	struct turn *v;
	size_t n, cap;
};

static void turn_add(struct turns *t, int64_t d, int inside, int outside)
{
	xarray_add(&t->v, &t->n, &t->cap, &(struct turn){ d, inside, outside }, sizeof(*t->v));
}

static int event_turns(struct solve *s, const struct solve_event *e, const struct solve_cell *c,
		       struct turns *t)
{
	const struct solve_vcpu *v = &s->v[e->v];
	int64_t first = solve_h(s, v->w.v[0].from), last = solve_h(s, v->w.v[v->w.n - 1].to);
	int64_t from = MAX(c->from, e->g - last), to = MIN(c->to - 1, e->g - first);
	int ret = 0;

	if (from > to)
		return 0; /* never within the time known of this vCPU */
	turn_add(t, from, 0, 1);
	turn_add(t, to + 1, 0, -1);
	for (size_t i = solve_window_at(s, v, e->g - c->to + 1); i < v->w.n && !ret; i++) {
		to = e->g - solve_h(s, v->w.v[i].from);
		if (to < c->from)
			break;
		/* It is inside for d in [from, to], both cut to the cell. */
		from = MAX(e->g - solve_h(s, v->w.v[i].to), c->from);
		to = MIN(to, c->to - 1);
		if (from <= to) {
			turn_add(t, from, 1, -1);
			turn_add(t, to + 1, -1, 1);
		}
		if (!solve_spend(s, TURN_WORK))
			ret = -ETIME;
	}
	return ret;
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

static void sweep(const struct turns *t, const struct solve_cell *c, struct solve_place *best)
{
	struct solve_place cur = { .score = INT64_MIN };
	int64_t inside = 0, outside = 0;
	bool open = false;

	for (size_t i = 0; i < t->n;) {
		int64_t d = t->v[i].d, score;

		for (; i < t->n && t->v[i].d == d; i++) {
			inside += t->v[i].inside;
			outside += t->v[i].outside;
		}
		score = inside - SOLVE_COST * outside;
		/* Neighbours that are as good, though with other events, are one stretch. */
		if (open && d < c->to && score == cur.score)
			continue;
		if (open) { /* at least as good as the best so far */
			cur.to = cur.high = d - 1;
			solve_place_add(best, &cur);
		}
		open = d < c->to && score >= best->score;
		if (d >= c->to)
			break;
		cur = (struct solve_place){ .from = d,
					    .low = d,
					    .score = score,
					    .inside = (uint64_t)inside,
					    .outside = (uint64_t)outside };
	}
}

int solve_sweep(struct solve *s, const struct solve_cell *c, size_t n, struct solve_place *best)
{
	struct turns t = { 0 };
	int ret = 0;

	*best = (struct solve_place){
		.from = c->from, .to = c->from, .low = c->from, .high = c->from, .score = INT64_MIN
	};
	for (size_t i = 0; i < MIN(n, s->nev) && !ret; i++) {
		ret = event_turns(s, &s->ev[i], c, &t);
		if (!solve_spend(s, TURN_WORK))
			ret = -ETIME;
	}
	if (!ret && t.n) {
		array_sort(t.v, t.n, turn_cmp);
		sweep(&t, c, best);
	}
	free(t.v);
	return ret;
}

/*
 * Every event leaves some room around a candidate that has it inside: if all do, the room that they
 * have in common is the place, and no sweep is needed. False: one is outside.
 */
static bool common_room(const struct solve *s, int64_t d, struct solve_place *room)
{
	*room = (struct solve_place){ .from = INT64_MIN, .to = INT64_MAX };
	for (size_t i = 0; i < s->nev; i++) {
		const struct solve_vcpu *v = &s->v[s->ev[i].v];
		int64_t g = s->ev[i].g;
		size_t w = MIN(solve_window_at(s, v, g - d), v->w.n - 1);
		bool early = solve_h(s, v->w.v[w].from) > g - d,
		     late = solve_h(s, v->w.v[w].to) < g - d;

		if (early && w)
			return false; /* in a gap, not before everything known */
		/* An unknown event may come into the nearest window, but not out of it. */
		if (!late)
			room->from = MAX(room->from, g - solve_h(s, v->w.v[w].to));
		if (!early)
			room->to = MIN(room->to, g - solve_h(s, v->w.v[w].from));
		room->inside += !early && !late;
	}
	room->score = (int64_t)room->inside;
	return true;
}

/* ---- cells ---- */

/*
 * How many of n events may be wrong by accident. A wrong offset leaves more outside, even if it
 * puts them into a time in which the vCPU was busy and hardly left its guest.
 */
static uint64_t allowed(const struct solve *s, size_t n)
{
	return 2 + MIN(n * s->share >> (SHARE_BITS + 2), n / 32);
}

/* Tests with n events, within what is allowed. 1: possible, 0: impossible, -ETIME. */
static int test_cell(struct solve *s, const struct solve_cell *c, size_t n)
{
	uint64_t limit = allowed(s, n), known = 0, outside = 0;
	size_t i;

	for (i = 0; i < n && outside <= limit; i++) {
		const struct solve_vcpu *v = &s->v[s->ev[i].v];
		int64_t from = s->ev[i].g - (c->to - 1), to = s->ev[i].g - c->from;
		int64_t first = solve_h(s, v->w.v[0].from);
		size_t w = solve_window_at(s, v, from);

		if (w >= v->w.n || to < first)
			continue;
		known++;
		/* The best that the event can be for a candidate of the cell. */
		outside += from >= first && solve_h(s, v->w.v[w].from) > to;
	}
	if (!solve_spend(s, i * TEST_WORK))
		return -ETIME;
	return outside <= allowed(s, known) && known >= solve_least(n);
}

COMPARE_BY(cell_cmp, struct solve_cell, .from);

/* Cells that touch are joined, if the result is not wider than this many of the grid's. */
static void join_cells(struct solve *s, int64_t most)
{
	size_t n = 0;

	if (!s->ncell)
		return;
	array_sort(s->cell, s->ncell, cell_cmp);
	for (size_t i = 0; i < s->ncell; i++) {
		struct solve_cell *c = n ? &s->cell[n - 1] : NULL;

		if (c && c->to == s->cell[i].from && s->cell[i].to - c->from <= most * s->fine)
			c->to = s->cell[i].to;
		else
			s->cell[n++] = s->cell[i];
	}
	s->ncell = n;
}

/* Tests with ever more events, keeping only what may be the true offset. */
static int narrow(struct solve *s)
{
	join_cells(s, FEW_JOINED);
	for (size_t n = solve_enough(s); s->ncell; n *= 4) {
		size_t kept = 0, tests = MIN(n, s->nev);

		for (size_t i = 0; i < s->ncell; i++) {
			int ret = test_cell(s, &s->cell[i], tests);

			if (ret < 0)
				return ret;
			if (ret)
				s->cell[kept++] = s->cell[i];
		}
		s->ncell = kept;
		if (tests == s->nev || n >= MANY_TESTS)
			break;
	}
	join_cells(s, MANY_JOINED);
	return s->ncell > MAX_SWEEPS ? -E2BIG : 0;
}

static bool worth(const struct solve_place *p)
{
	return p->inside >= MIN_EVENTS && p->outside <= p->inside;
}

/* Two places in one or in neighbouring cells of the grid are one. */
static bool same_place(const struct solve *s, const struct solve_place *a,
		       const struct solve_place *b)
{
	return a->from <= b->to + s->width && b->from <= a->to + s->width;
}

static void take_place(struct solve *s, const struct solve_place *p, struct solve_place *best,
		       struct solve_place *next)
{
	struct solve_place old = *best;

	if (!worth(p))
		return;
	if (best->score != INT64_MIN && same_place(s, p, best)) {
		if (p->score == best->score && p->from == best->to + 1)
			best->to = p->to;
		else if (p->score == best->score && p->to + 1 == best->from)
			best->from = p->from;
		if (p->score >= best->score)
			solve_place_add(best, p);
		return;
	}
	if (p->score > best->score) {
		*best = *p;
		p = &old;
	}
	if (p->score > next->score)
		*next = *p;
}

COMPARE_BY(by_place, struct solve_place, .from);

/* Other places that contradict no more and are based on as much: as good as the best. */
static uint64_t count_equal(const struct solve *s, struct solve_place *p, size_t n,
			    const struct solve_place *best)
{
	const struct solve_place *last = NULL;
	uint64_t count = 0;

	array_sort(p, n, by_place);
	for (size_t i = 0; i < n; i++) {
		if (!worth(&p[i]) || p[i].outside > best->outside ||
		    p[i].inside < best->inside / 2 || same_place(s, &p[i], best))
			continue;
		count += !last || !same_place(s, &p[i], last);
		last = &p[i];
	}
	return count;
}

COMPARE(by_score, struct solve_place *, ORDER((*y)->score, (*x)->score) ?: by_place(*x, *y));

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
		if (i < MAX_FULL) {
			struct solve_place *best = order[i];
			struct solve_place room;

			/* With all events, in the cell where some have the place *best. */
			if (!solve_spend(s, s->nev * LOOK_WORK)) {
				ret = -ETIME;
			} else if (best->score == INT64_MIN || best->outside ||
				   !common_room(s, best->from + (best->to - best->from) / 2,
						&room)) {
				ret = solve_sweep(s, &s->cell[order[i] - p], s->nev, best);
			} else {
				room.low = best->low < best->from ? best->low : room.from;
				room.high = best->high > best->to ? best->high : room.to;
				*best = room;
				ret = 0;
			}
		} else {
			order[i]->score = INT64_MIN;
		}
	}
	return ret;
}

/* ---- what a place rests on ---- */

/* log2(x), 2^-8; x > 0. */
static uint64_t log2_8(uint64_t x)
{
	unsigned int whole = 63 - (unsigned int)__builtin_clzll(x);
	uint64_t log = whole, m = whole > 31 ? x >> (whole - 31) : x << (31 - whole);

	for (int i = 0; i < 8; i++) {
		m = m * m >> 31;
		log = log << 1 | m >> 32;
		m >>= m >> 32;
	}
	return log;
}

/*
 * The value of the vCPU's events being in windows, and how many such events and windows there are.
 * Consecutive events in one window say the same about an offset.
 */
static uint64_t count_bits(const struct solve *s, const struct solve_vcpu *v, uint64_t offset,
			   uint64_t *hits, uint64_t *wrong)
{
	size_t before = SIZE_MAX;
	uint64_t bits = 0;

	*hits = *wrong = 0;
	for (size_t i = 0; i < v->ne; i++) {
		size_t w;
		enum solve_fit f = solve_fit_at(s, v, solve_h(s, v->e[i] - offset), &w);

		if (f == SOLVE_UNKNOWN)
			continue;
		if (f == SOLVE_OUTSIDE) {
			++*wrong;
		} else if (w != before) {
			size_t from, to;
			uint64_t in, all;

			++*hits;
			/*
			 * How unexpected it is that an event of this window is in one: in 2^-8
			 * bits, by how much of the time around it the vCPU was in its guest. A
			 * wrong offset may put all events into a time when the vCPU hardly left it.
			 */
			from = w > AROUND ? w - AROUND : 0;
			to = MIN(w + AROUND, v->w.n - 1);
			in = 0;
			all = v->w.v[to].to - v->w.v[from].from + 1;
			for (size_t k = from; k <= to; k++)
				in += v->w.v[k].to - v->w.v[k].from + 1;
			bits += log2_8(all) - log2_8(in);
		}
		before = w;
	}
	return bits;
}

/* Could events of another VM or time fit as well somewhere? */
static bool is_chance(const struct solve *s, const struct solve_result *r)
{
	uint64_t gain = 0,
		 cost = log2_8((uint64_t)((s->hi - s->lo) / s->fine) + 1) + CHANCE_BITS * 256;

	for (size_t i = 0; i < s->nv; i++) {
		uint64_t hits, wrong;

		if (!s->v[i].taken)
			continue;
		gain += count_bits(s, &s->v[i], r->offset, &hits, &wrong);
		if (wrong)
			cost += wrong * log2_8(3 * (hits + wrong) / wrong);
	}
	return gain < cost;
}

/*
 * The best place of all cells, if it is not chance. 0, found or not; -ETIME; -E2BIG: too
 * many cells fit; -EDOM: it may be chance.
 */
static int solve_cells(struct solve *s, struct solve_result *r)
{
	struct solve_place best = { .score = INT64_MIN }, next = { .score = INT64_MIN };
	_cleanup_free_ struct solve_place *p = NULL;
	int ret = narrow(s);
	uint64_t base;

	if (ret || !s->ncell)
		return ret;
	p = xcalloc(s->ncell, sizeof(*p));
	ret = sweep_cells(s, p);
	for (size_t i = 0; i < s->ncell && !ret; i++)
		take_place(s, &p[i], &best, &next);
	if (ret || best.score == INT64_MIN)
		return ret;
	r->equal = count_equal(s, p, s->ncell, &best);
	base = s->g0 - s->h0;
	r->found = true;
	r->offset_lo = base + (uint64_t)best.low;
	r->offset_hi = base + (uint64_t)best.high;
	r->offset = base + (uint64_t)(best.from + (best.to - best.from) / 2);
	r->inside = best.inside;
	r->outside = best.outside;
	r->has_next = next.score != INT64_MIN;
	r->next_distance = next.from - best.from;
	r->next_inside = next.inside;
	r->next_outside = next.outside;
	r->found = !is_chance(s, r);
	return r->found ? 0 : -EDOM;
}

/* ---- runs ---- */

#define LEAST_OVERLAP 8 /* captures overlap by at least this part of the shorter one */
#define MIN_PAIRS     4
#define MANY_PAIRS    64
#define LEFT_MIN      48	/* events that are no accident, windows in which some should be */
#define ABSENT_MIN    8		/* events of which at least one should be where the vCPU ran */
#define PAIR_LATE     (1 << 24) /* cycles, some ms: of several pairs one is closer than that ... */
#define MANY_LATE     (1 << 21) /* ... and of many, closer than that */

/* The smallest of all pairs: they may be anywhere in 64 bits, but are all close to each other. */
static int64_t pairs_least(const struct solve_vcpu *v)
{
	int64_t least = v->np ? v->p[0] : 0;

	for (size_t i = 1; i < v->np; i++)
		if ((int64_t)((uint64_t)v->p[i] - (uint64_t)least) < 0)
			least = v->p[i];
	return least;
}

COMPARE_BY(by_value, int64_t, );

/*
 * Windows and events of the vCPUs that count, each from the first one known; the events in random
 * order, so that any few of them are a sample.
 */
static void state_problem(struct solve *s)
{
	uint64_t last = 0, latest = 0;
	bool ordered = true;
	uint32_t seed = 1;

	s->h0 = s->g0 = UINT64_MAX;
	s->nev = 0;
	for (size_t i = 0; i < s->nv; i++) {
		struct solve_vcpu *v = &s->v[i];

		for (size_t k = 0; k < v->w.n && !s->scaled; k++) {
			v->w.v[k].from = tsc_to_guest(&s->map, v->w.v[k].from);
			v->w.v[k].to = tsc_to_guest(&s->map, v->w.v[k].to);
		}
		v->taken = solve_takes(s, v) ? v->ne : 0;
		s->nev += v->taken;
		if (v->taken) {
			s->h0 = MIN(s->h0, v->w.v[0].from);
			last = MAX(last, v->w.v[v->w.n - 1].to);
		}
		for (size_t k = 0; k < v->taken; k++) {
			s->g0 = MIN(s->g0, v->e[k]);
			latest = MAX(latest, v->e[k]);
		}
	}
	s->scaled = true;
	s->hspan = last - s->h0;
	s->gspan = s->nev ? latest - s->g0 : 0;
	free(s->ev);
	free(s->order);
	s->ev = xcalloc(s->nev + 1, sizeof(*s->ev));
	s->order = xcalloc(s->nev + 1, sizeof(*s->order));
	for (size_t i = 0, n = 0; i < s->nv; i++)
		for (size_t k = 0; k < s->v[i].taken; k++, n++) {
			s->order[n] = (int64_t)(s->v[i].e[k] - s->g0);
			s->ev[n] = (struct solve_event){ .g = s->order[n], .v = (uint32_t)i };
			ordered &= !n || s->order[n - 1] <= s->order[n];
		}
	if (!ordered) /* else it is one vCPU's */
		array_sort(s->order, s->nev, by_value);
	for (size_t i = s->nev; i > 1; i--) {
		struct solve_event e = s->ev[i - 1];
		size_t k;

		seed = seed * 1664525u + 1013904223u;
		k = (seed >> 8) % i;
		s->ev[i - 1] = s->ev[k];
		s->ev[k] = e;
	}
}

static int solve_once(struct solve *s, struct solve_result *r)
{
	int ret;

	r->span = (uint64_t)(s->hi - s->lo);
	r->equal = 0;
	ret = solve_grid(s);
	return ret ?: solve_cells(s, r);
}

/*
 * First where the pairs say that it must be, within the range to be searched anyway. They may be
 * wrong, if a clock was set, and then do not help.
 */
static int solve_both(struct solve *s, struct solve_result *r)
{
	int64_t lo = s->lo, hi = s->hi, least = 0, late;
	uint64_t base = s->g0 - s->h0;
	int ret = 0;

	for (size_t i = 0; i < s->nv; i++) {
		int64_t d = (int64_t)((uint64_t)pairs_least(&s->v[i]) - base);

		if (!solve_takes(s, &s->v[i]) || !s->v[i].np)
			continue;
		least = r->pairs ? MIN(least, d) : d;
		r->pairs += s->v[i].np;
	}
	late = r->pairs < MANY_PAIRS ? PAIR_LATE : MANY_LATE;
	if (r->pairs < MIN_PAIRS || least <= lo || least - late >= hi)
		r->pairs = 0;
	if (r->pairs) {
		s->lo = MAX(lo, least - late);
		s->hi = MIN(hi, least + 1);
		ret = solve_once(s, r);
	}
	if (r->pairs && (ret || !r->found || r->outside > r->inside / 64)) {
		*r = (struct solve_result){ .events = r->events,
					    .has_most = r->has_most,
					    .at_most = r->at_most };
		ret = 0;
	}
	s->lo = lo;
	s->hi = hi;
	return ret || r->found ? ret : solve_once(s, r);
}

void solve_run(struct solve *s, int64_t vcpu, struct solve_result *r)
{
	int ret;
	uint64_t all, windows, overlap;

	s->only = vcpu;
	memset(r, 0, sizeof(*r));
	/* The guest's event of an access never comes before the host's. */
	for (size_t i = 0; i < s->nv; i++) {
		const struct solve_vcpu *v = &s->v[i];
		uint64_t least = (uint64_t)pairs_least(v);

		if ((s->only != SOLVE_ALL && s->only != (int64_t)v->id) || !v->np)
			continue;
		if (!r->has_most || (int64_t)(least - r->at_most) < 0)
			r->at_most = least;
		r->has_most = true;
	}
	state_problem(s);
	/*
	 * Work grows no faster than the input, whatever the stamps are: what a run may spend is
	 * bounded, and so is what all of them may. Captures of real machines take a tenth of it
	 * (make bench).
	 */
	all = (1ull << 30) + (s->windows * 4 + s->events) * 4096;
	windows = 0;
	for (size_t i = 0; i < s->nv; i++)
		windows += s->v[i].taken ? s->v[i].w.n : 0;
	s->limit = MIN(all, s->spent + (1ull << 28) + (windows * 4 + s->nev) * 2048);
	if (!s->windows) {
		r->why = "the host capture shows no entries and exits of this VM's vCPUs";
	} else if (s->nev < MIN_EVENTS) {
		r->why =
			"the guest capture has too few events of vCPUs that are in the host capture";
	} else if (s->hspan >> 61 || s->gspan >> 61) {
		r->why = "the stamps of one capture are too far apart";
	} else {
		overlap = MIN(s->hspan, s->gspan) / LEAST_OVERLAP;
		s->lo = -(int64_t)(s->hspan - overlap);
		s->hi = (int64_t)(s->gspan - overlap) + 1;
		r->why = NULL;
	}
	if (r->why)
		return;
	r->events = s->nev;
	ret = solve_both(s, r);
	if (ret == -ENODATA)
		r->why = "the vCPUs never left their guest: the windows exclude no offset";
	else if (ret == -E2BIG)
		r->why = "too many offsets fit: record longer";
	else if (ret == -EDOM)
		r->why = "an offset fits, but that may be chance: record longer";
	else if (ret == -ETIME)
		r->why = "too many offsets nearly fit: the search reached its limit";
	else if (!r->found)
		r->why =
			"no offset puts the guest's events into the windows: another VM, another ratio "
			"(--tsc-ratio), or captures of different times";
}

void solve_count(const struct solve *s, size_t i, const struct solve_result *r, uint64_t *inside,
		 uint64_t *outside)
{
	const struct solve_vcpu *v = &s->v[i];
	size_t w;

	*inside = *outside = 0;
	for (size_t k = 0; k < v->ne; k++) {
		enum solve_fit f = solve_fit_at(s, v, solve_h(s, v->e[k] - r->offset), &w);

		*inside += f == SOLVE_INSIDE;
		*outside += f == SOLVE_OUTSIDE;
	}
}

uint64_t solve_leaves(const struct solve *s, size_t i, const struct solve_result *r)
{
	const struct solve_vcpu *v = &s->v[i];
	size_t from = 0, first = 0, last = 0, w;
	int64_t sum = 0, best = 0;
	uint64_t left = 0;

	if (!v->w.n || !v->ne)
		return 0;
	/*
	 * The stretch of the vCPU's events that the offset fits best. Events beyond it are also
	 * inside now and then, so one that is outside outweighs several that are not.
	 */
	for (size_t k = 0; k < v->ne; k++) {
		enum solve_fit f = solve_fit_at(s, v, solve_h(s, v->e[k] - r->offset), &w);

		sum += f == SOLVE_INSIDE ? 1 : f == SOLVE_OUTSIDE ? -16 : 0;
		if (sum <= 0) {
			sum = 0;
			from = k + 1;
		} else if (sum > best) {
			best = sum;
			first = from;
			last = k + 1;
		}
	}
	if (first == last)
		return v->ne;
	if (first >= LEFT_MIN &&
	    solve_window_at(s, v, solve_h(s, v->e[first] - r->offset)) >= LEFT_MIN)
		left = first;
	if (v->ne - last >= LEFT_MIN &&
	    solve_window_at(s, v, solve_h(s, v->e[last - 1] - r->offset)) + LEFT_MIN < v->w.n)
		left += v->ne - last;
	return left;
}

struct solve_span solve_span_of(const struct solve *s, const struct solve_result *r)
{
	struct solve_span span = { .from = INT64_MAX, .to = INT64_MIN };

	for (size_t i = 0; i < s->nv; i++)
		for (size_t k = 0; k < s->v[i].ne; k++) {
			int64_t h = solve_h(s, s->v[i].e[k] - r->offset);
			size_t w;

			if (solve_fit_at(s, &s->v[i], h, &w) != SOLVE_INSIDE)
				continue;
			span.from = MIN(span.from, h);
			span.to = MAX(span.to, h);
		}
	return span;
}

uint64_t solve_absent(const struct solve *s, size_t i, const struct solve_result *r,
		      const struct solve_span *span)
{
	const struct solve_vcpu *v = &s->v[i];
	uint64_t inside, outside;

	solve_count(s, i, r, &inside, &outside);
	if (!v->w.n || v->ne < ABSENT_MIN || inside || outside || span->from > span->to)
		return 0;
	return solve_window_at(s, v, span->to) - solve_window_at(s, v, span->from) >= LEFT_MIN
		       ? v->ne
		       : 0;
}
