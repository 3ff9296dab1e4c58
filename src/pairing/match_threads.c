/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * match_threads.c: a guest's events show which threads of the host ran its vCPUs, if nothing else
 * did so correctly. The vCPU with most events is solved with each thread that ran a vCPU of its
 * number; with the resulting offset every other vCPU must fit some thread of its own number.
 */

#include "kvmft/guest_time.h"
#include "kvmft/timeline.h"
#include "match.h"

#define ANCHORS	       3  /* vCPUs that are solved separately, until one gives a result */
#define MAX_CANDIDATES 64 /* threads of one vCPU number: the search must end */

struct cpu {
	uint32_t vcpu;
	uint64_t events;
};

struct regroup {
	struct matcher *m;
	const struct capture *cap;
	const struct fmt *fmt;
	struct solve *s; /* all events; windows of the threads being tried */
	struct cpu *cpu; /* most events first */
	size_t ncpu;
	int32_t *tid, *best; /* threads of the group being tried, and of the best one */
	size_t nbest;
	uint64_t best_events;
	bool tie;
};

static int cpu_cmp(const void *a, const void *b)
{
	const struct cpu *x = a, *y = b;

	return ORDER(y->events, x->events);
}

/* Counting sub-buffers is enough: the question is only who has most. */
static int list_cpus(struct regroup *g)
{
	g->cpu = calloc(g->cap->nstream + 1, sizeof(*g->cpu));
	g->tid = calloc(g->cap->nstream + 1, sizeof(*g->tid));
	g->best = calloc(g->cap->nstream + 1, sizeof(*g->best));
	if (!g->cpu || !g->tid || !g->best)
		return -ENOMEM;
	for (size_t i = 0; i < g->cap->nstream; i++)
		if (g->cap->stream[i].nsub)
			g->cpu[g->ncpu++] = (struct cpu){ .vcpu = cap_vcpu_of_cpu(
								  g->cap, g->cap->stream[i].cpu),
							  .events = g->cap->stream[i].nsub };
	qsort(g->cpu, g->ncpu, sizeof(*g->cpu), cpu_cmp);
	return 0;
}

/* A thread whose VM was not recorded. */
static bool is_free(const struct hostmap *m, const struct hostmap_thread *t, uint32_t vcpu)
{
	return t->vcpu == vcpu && t->vm != HOSTMAP_END && !m->vm[t->vm].cap && !m->vm[t->vm].paired;
}

/* The thread alone runs the vCPU; tid 0: none does. */
static int set_thread(struct regroup *g, uint32_t vcpu, int32_t tid)
{
	solve_clear_windows(g->s, vcpu);
	return tid ? solve_add_thread(g->s, vcpu, g->m->runs, tid) : 0;
}

/*
 * How an offset found with the anchor's events fits those of another vCPU, with the best of the
 * threads that may run it.
 */
struct fitting {
	const struct solve_result *r;
	struct solve_span span; /* in which the anchor has events */
	uint64_t inside;	/* this many of its events are */
	int32_t tid;
	bool tried, may; /* there are such threads; no event contradicts one of them */
};

static int fit_thread(struct regroup *g, uint32_t vcpu, int32_t tid, struct fitting *f)
{
	uint64_t inside = 0, outside = 0, absent = 0;
	int ret = set_thread(g, vcpu, tid);

	for (size_t i = 0; i < solve_vcpus(g->s) && !ret; i++)
		if (solve_vcpu_id(g->s, i) == vcpu) {
			solve_count(g->s, i, f->r, &inside, &outside);
			absent = solve_absent(g->s, i, f->r, &f->span);
		}
	f->tried = true;
	f->may |= !outside && !absent;
	if (!outside && inside > f->inside) {
		f->inside = inside;
		f->tid = tid;
	}
	return ret ?: set_thread(g, vcpu, 0);
}

static int fit_vcpu(struct regroup *g, uint32_t vcpu, struct fitting *f)
{
	const struct hostmap *m = g->m->map;
	int ret = 0;

	f->inside = 0;
	f->tried = f->may = false;
	for (size_t i = 0; i < m->nthread && !ret; i++)
		if (is_free(m, &m->thread[i], vcpu))
			ret = fit_thread(g, vcpu, m->thread[i].tid, f);
	return ret;
}

/* Finds each other vCPU's best thread; *events that fit: 0 if none of some vCPU fit. */
static int fill_group(struct regroup *g, size_t anchor, int32_t tid, struct fitting *f, size_t *n,
		      uint64_t *events)
{
	*n = 1;
	g->tid[0] = tid;
	*events = f->r->inside;
	for (size_t c = 0; c < g->ncpu; c++) {
		int ret;

		if (c == anchor)
			continue;
		ret = fit_vcpu(g, g->cpu[c].vcpu, f);
		if (ret)
			return ret;
		if (f->tried && !f->may) {
			*events = 0;
			return 0;
		}
		if (f->inside)
			g->tid[(*n)++] = f->tid;
		*events += f->inside;
	}
	return 0;
}

static int try_anchor(struct regroup *g, size_t anchor, int32_t tid)
{
	struct solve_result r = { 0 };
	struct fitting f = { .r = &r };
	uint64_t events;
	size_t n;
	int ret = set_thread(g, g->cpu[anchor].vcpu, tid);

	ret = ret ?: solve_run(g->s, SOLVE_ALL, &r);
	if (!ret && r.found)
		f.span = solve_span_of(g->s, &r);
	ret = ret ?: set_thread(g, g->cpu[anchor].vcpu, 0);
	if (ret || !r.found || r.equal || r.outside)
		return ret;
	ret = fill_group(g, anchor, tid, &f, &n, &events);
	if (ret || !events || events < g->best_events)
		return ret;
	g->tie = events == g->best_events;
	g->best_events = events;
	g->nbest = n;
	memcpy(g->best, g->tid, n * sizeof(*g->tid));
	return 0;
}

static int find_group(struct regroup *g)
{
	const struct hostmap *m = g->m->map;
	struct tsc_map map = { 0 };
	size_t n = 0;
	int ret = list_cpus(g);

	/* Threads that may run one of the guest's vCPUs: each is tried. */
	for (size_t i = 0; i < m->nthread && !ret && g->ncpu; i++)
		n += is_free(m, &m->thread[i], g->cpu[0].vcpu);
	if (!ret && (!g->ncpu || n > MAX_CANDIDATES))
		return 0;
	ret = ret ?: solve_new(&map, &g->s);
	ret = ret ?: solve_add_guest(g->s, g->m->runs, g->cap, g->fmt);
	for (size_t c = 0; c < MIN(g->ncpu, (size_t)ANCHORS) && !g->nbest && !ret; c++)
		for (size_t i = 0; i < m->nthread && !ret; i++)
			if (is_free(m, &m->thread[i], g->cpu[c].vcpu))
				ret = try_anchor(g, c, m->thread[i].tid);
	return ret;
}

int match_threads(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
		  struct match *out, struct kvmft_err *err)
{
	struct regroup g = { .m = m, .cap = cap, .fmt = fmt };
	struct trial t = { 0 };
	ssize_t vm = -1;
	int ret = 0;

	if (own_tsc_is_exact(cap))
		ret = match_runs(m, err);
	if (!ret && m->runs && find_group(&g))
		ret = err_set(err, ENOMEM, "out of memory");
	if (!ret && g.nbest && !g.tie)
		vm = hostmap_take_threads(m->map, g.best, g.nbest, HOSTMAP_BY_GUEST, err);
	if (vm >= 0) {
		t.vm = (size_t)vm;
		ret = match_try(m, &t, cap, fmt, err);
	}
	if (!ret && vm >= 0 && match_fits(&t)) {
		solution_free(&out->sol);
		*out = (struct match){ .vm = t.vm,
				       .by = MATCH_BY_EVENTS,
				       .checked = t.checked,
				       .outside = t.outside,
				       .sol = t.sol,
				       .solved = solution_is_sure(&t.sol) };
		ret = 1;
	} else {
		solution_free(&t.sol);
	}
	solve_free(g.s);
	free(g.cpu);
	free(g.tid);
	free(g.best);
	return ret;
}
