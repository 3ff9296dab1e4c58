/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * match.c: each VM that may be meant is tried with all events of the guest; then the TSC offsets of
 * its vCPUs, if the captures have none, or not of all.
 */
#include "kvmft/pairing.h"
#include "kvmft/exit_names.h"
#include "kvmft/hostmap.h"
#include "kvmft/timeline.h"
#include "kvmft/tracedat.h"

#include <strings.h>

#define MIN_CHECKED    8
#define ACCIDENTS      64   /* one of so many events outside may be one */
#define MAX_TRIALS     1024 /* VMs; each takes a walk over all of the guest's events */
#define ENOUGH	       4096 /* events of a CPU */
#define ANCHORS	       3    /* vCPUs that are solved separately, until one gives a result */
#define MAX_CANDIDATES 64   /* threads of one vCPU number: the search must end */

const char *const match_by_names[] = {
	[MATCH_BY_UUID] = "uuid",
	[MATCH_BY_USER] = "given",
	[MATCH_ONLY_VM] = "only-vm",
	[MATCH_BY_EVENTS] = "events",
};

/* One VM tried for a guest. */
struct trial {
	size_t vm;
	bool known;	 /* its offsets are known: events were counted with them, ... */
	uint64_t enough; /* ... that many of each CPU; 0: all */
	uint64_t checked, outside;
	struct solution sol; /* else what the events say */
};

/* ---- the ratio of a guest's TSC to the host's, if the host did not record it ---- */

/*
 * KVM scales the TSC of a guest that was promised another frequency than the host's
 * (arch/x86/kvm/x86.c, set_tsc_khz()), by guest kHz / host kHz, both whole numbers. So two files
 * with exact kHz give the ratio as well. KVM tolerates a difference of up to 250 parts per million
 * (the default of tsc_tolerance_ppm).
 */

#define TOLERANCE_PPM 250

enum { MATCH_SCALES = 4 };

/* Ratio and fraction bits of a VM, given or as known to the host. */
static struct tsc_map match_scale(const struct matcher *m, size_t vm)
{
	const struct tsc_map *map = m->scale ?: epoch_vm_first_map(m->map->vm[vm].epochs);

	return map ? *map : (struct tsc_map){ 0 };
}

/* To a kHz or so, and not taken from a guest. */
static bool is_exact(const struct tsc_rate *r)
{
	return r->source && !r->supposed && r->max - r->min <= 2;
}

/*
 * The ratios that a VM may have, the likeliest first; n of them, at least 1. Without a record of
 * them they follow from what host and guest say about their frequencies: what the guest says
 * itself, else what KVM told it, which the host may have seen. 0, or a failed read.
 */
static int match_scales(const struct matcher *m, size_t vm, const struct capture *guest,
			struct tsc_map map[MATCH_SCALES], size_t *n)
{
	static const int rounding[MATCH_SCALES - 1] = { 0, 1, -1 }; /* of the guest's kHz */
	const struct capture *host = m->map->cap;
	struct tsc_rate of_host, of_guest = { 0 };
	unsigned __int128 apart;
	bool told = false;
	int ret = 0;

	*n = 0;
	map[0] = match_scale(m, vm);
	tsc_rate_said(host, &of_host);
	if (!m->scale && !map[0].ratio && host->tsc_khz && is_exact(&of_host)) {
		for (size_t i = 0; i < guest->npvclock && !told; i++)
			told = tsc_rate_of_pvclock(guest->pvclock[i].pv.mul,
						   guest->pvclock[i].pv.shift, &of_guest);
		if (!told)
			tsc_rate_said(guest, &of_guest);
		if (!told && !is_exact(&of_guest) &&
		    m->map->nvm <= 1) /* else whose record would that be? */
			ret = tsc_rate_scan(m->map->cap, m->map->fmt, &of_guest);
		if (ret)
			return ret;
	}
	apart = MAX(of_guest.khz, of_host.khz) - MIN(of_guest.khz, of_host.khz);
	for (size_t i = 0; i < ARRAY_SIZE(rounding) && is_exact(&of_guest) &&
			   apart * 1000000 > (unsigned __int128)of_host.khz * TOLERANCE_PPM;
	     i++) {
		struct tsc_map *s = &map[(*n)++];
		uint64_t khz = of_guest.khz + (uint64_t)rounding[i];

		*s = (struct tsc_map){ .frac = exit_tsc_frac(exit_isa_of_vendor(host->vendor)) };
		s->ratio = (uint64_t)(((unsigned __int128)khz << s->frac) / host->tsc_khz);
	}
	map[(*n)++] = match_scale(m, vm);
	return 0;
}

/* ---- one VM ---- */

static int match_runs(struct matcher *m, struct kvmft_err *err)
{
	return m->runs ? 0 : runs_collect(m->map, &m->runs, err);
}

/* ---- with known offsets ---- */

/* The events of one stream; when a thread ran its vCPU, and from when to when each is known. */
struct count {
	struct trial *t;
	const struct guest_time *g;
	const struct epoch_vcpu *e;
	const struct run_list *ran;
	struct run_list known;
	uint64_t after; /* host TSC of the event before */
	uint64_t n;
};

static int count_event(void *arg, const struct rec *rec)
{
	struct count *c = arg;
	uint64_t lo, hi;
	size_t at;

	if (c->t->enough && c->n++ >= c->t->enough)
		return 1;
	if (!epoch_result_usable(guest_time_to_host(c->g, c->e, c->after, rec->ts, &lo, &hi)))
		return 0;
	c->after = lo;
	/* Could it have been in the guest at host TSC lo..hi? */
	at = run_list_at(&c->known, lo);
	if (at == c->known.n || c->known.v[at].from > hi)
		return 0;
	at = run_list_at(c->ran, lo);
	c->t->checked++;
	c->t->outside += at == c->ran->n || c->ran->v[at].from > hi;
	return 0;
}

static void add_runs(struct run_list *to, const struct run_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		xarray_add(&to->v, &to->n, &to->cap, &l->v[i], sizeof(*l->v));
}

static int count_known(const struct matcher *m, struct trial *t, const struct capture *cap,
		       struct kvmft_err *err)
{
	_cleanup_(guest_time_free) struct guest_time g;
	int ret = guest_time_init(&g, cap, err);

	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		uint32_t vcpu = cap_vcpu_of_cpu(cap, cap->stream[i].cpu);
		const struct hostmap_thread *th;
		struct run_list joined = { 0 }; /* of several threads */
		struct vcpu_run all;
		struct count c = { .t = t,
				   .g = &g,
				   .e = epoch_vm_find(m->map->vm[t->vm].epochs, vcpu) };

		if (!c.e)
			continue;
		hostmap_each_thread(m->map, t->vm, th) {
			const struct run_list *l =
				th->vcpu == vcpu ? runs_of(m->runs, th->tid) : NULL;

			if (!l || !l->n)
				continue;
			if (c.ran && !joined.n)
				add_runs(&joined, c.ran);
			if (c.ran)
				add_runs(&joined, l);
			c.ran = c.ran ? &joined : l;
			all = (struct vcpu_run){ .from = l->v[0].from, .to = l->v[l->n - 1].to };
			xarray_add(&c.known.v, &c.known.n, &c.known.cap, &all, sizeof(all));
		}
		run_list_sort(&joined);
		run_list_sort(&c.known);
		ret = rstream_each(cap, &cap->stream[i], count_event, &c);
		ret = MIN(ret, 0); /* 1: enough */
		free(joined.v);
		free(c.known.v);
	}
	return ret;
}

/*
 * Is the TSC of any vCPU with events of the guest known? What was solved for another capture of the
 * VM does not count: that may be of another boot.
 */
static bool match_is_known(const struct hostmap *map, size_t vm, const struct capture *cap)
{
	for (size_t i = 0; i < cap->nstream && !map->vm[vm].has_forced; i++)
		if (epoch_vm_has_map(map->vm[vm].epochs, cap_vcpu_of_cpu(cap, cap->stream[i].cpu)))
			return true;
	return false;
}

/* ---- with unknown offsets ---- */

/* Most guests run at the host's speed, which is the last of the maps. */
static int solve_vm(const struct matcher *m, struct trial *t, const struct capture *cap,
		    const struct fmt *fmt)
{
	struct tsc_map map[MATCH_SCALES];
	size_t n = 0;
	int ret;

	if (!own_tsc_is_exact(cap)) {
		t->sol.tried = true;
		t->sol.r.why =
			"only stamps in guest TSC show an offset: record the guest with --clock "
			"x86-tsc (trace-cmd: -C x86-tsc)";
		return 0;
	}
	ret = match_scales(m, t->vm, cap, map, &n);
	for (size_t i = 0; i < n && !ret && !solution_is_sure(&t->sol); i++) {
		struct solve *s;

		ret = solve_captures(&map[i], m->map, t->vm, m->runs, cap, fmt, &s);
		solution_free(&t->sol);
		if (!ret)
			solution_find(s, &map[i], &t->sol);
		solve_free(s);
	}
	solution_count(&t->sol, &t->checked, &t->outside);
	return ret;
}

/* Fills in what follows from t->vm. 0 or -errno with err. */
static int match_try(struct matcher *m, struct trial *t, const struct capture *cap,
		     const struct fmt *fmt, struct kvmft_err *err)
{
	int ret = match_runs(m, err);

	if (ret)
		return ret;
	t->known = !m->solve && match_is_known(m->map, t->vm, cap);
	ret = t->known ? count_known(m, t, cap, err) : solve_vm(m, t, cap, fmt);
	return ret && !err->text[0]
		       ? err_set(err, -ret, "cannot read %s: %s", cap->path, strerror(-ret))
		       : ret;
}

/* Counted with known offsets: these are not the guest's, or nothing shows that they are. */
static bool match_contradicts(const struct trial *t)
{
	return t->checked < MIN_CHECKED || t->outside > t->checked / ACCIDENTS;
}

static bool match_fits(const struct trial *t)
{
	return t->known ? t->checked >= MIN_CHECKED && !t->outside : solution_is_sure(&t->sol);
}

/* Makes the trial the result; takes its solution. */
static void match_take(const struct matcher *m, struct match *out, struct trial *t,
		       enum match_by by)
{
	out->vm = t->vm;
	out->by = by;
	out->checked = t->checked;
	out->outside = t->outside;
	out->sol = t->sol;
	out->solved = m->undecided_ok ? t->sol.r.found : solution_is_sure(&t->sol);
	t->sol = (struct solution){ 0 };
}

/* Is there anything to check against? Some KVMs show no entries. */
static bool match_has_runs(const struct matcher *m, size_t vm)
{
	const struct hostmap_thread *t;

	hostmap_each_thread(m->map, vm, t) {
		const struct run_list *l = runs_of(m->runs, t->tid);

		if (l && l->n)
			return true;
	}
	return false;
}

/* ---- threads ---- */

/*
 * A guest's events show which threads of the host ran its vCPUs, if nothing else did so correctly.
 * The vCPU with most events is solved with each thread that ran a vCPU of its number; with the
 * resulting offset every other vCPU must fit some thread of its own number.
 */

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

COMPARE(cpu_cmp, struct cpu, ORDER(y->events, x->events));

/* A thread whose VM was not recorded. */
static bool is_free(const struct hostmap *m, const struct hostmap_thread *t, uint32_t vcpu)
{
	return t->vcpu == vcpu && t->vm != HOSTMAP_END && !m->vm[t->vm].cap && !m->vm[t->vm].paired;
}

/*
 * How an offset found with the anchor's events fits those of another vCPU, with the best of the
 * threads that may run it.
 */
struct fitting {
	const struct solve_result *r;
	struct solve_counts anchor;
	uint64_t inside; /* this many of its events are */
	int32_t tid;
	bool tried, may; /* there are such threads; no event contradicts one of them */
};

/* Counts the vCPU's events. How many are absent. */
static uint64_t count_vcpu(const struct regroup *g, uint32_t vcpu, const struct fitting *f,
			   struct solve_counts *c)
{
	size_t i = 0;

	while (solve_vcpu_id(g->s, i) != vcpu)
		i++;
	solve_count(g->s, i, f->r, c);
	return solve_absent(g->s, i, c, &f->anchor);
}

/* Finds each other vCPU's best thread. How many events fit: 0 if none of some vCPU do. */
static uint64_t fill_group(struct regroup *g, size_t anchor, int32_t tid, struct fitting *f,
			   size_t *n)
{
	const struct hostmap *m = g->m->map;
	struct solve_counts c;
	uint64_t events = f->r->inside;

	*n = 1;
	g->tid[0] = tid;
	for (size_t k = 0; k < g->ncpu; k++) {
		const uint32_t vcpu = g->cpu[k].vcpu;

		if (k == anchor)
			continue;
		f->inside = 0;
		f->tried = f->may = false;
		for (size_t i = 0; i < m->nthread; i++) {
			if (!is_free(m, &m->thread[i], vcpu))
				continue;
			solve_set_thread(g->s, vcpu, g->m->runs, m->thread[i].tid);
			f->tried = true;
			f->may |= !count_vcpu(g, vcpu, f, &c) && !c.outside;
			if (!c.outside && c.inside > f->inside) {
				f->inside = c.inside;
				f->tid = m->thread[i].tid;
			}
			solve_set_thread(g->s, vcpu, g->m->runs, 0);
		}
		if (f->tried && !f->may)
			return 0;
		if (f->inside)
			g->tid[(*n)++] = f->tid;
		events += f->inside;
	}
	return events;
}

static void try_anchor(struct regroup *g, size_t anchor, int32_t tid)
{
	struct solve_result r = { 0 };
	struct fitting f = { .r = &r };
	uint64_t events;
	size_t n;

	solve_set_thread(g->s, g->cpu[anchor].vcpu, g->m->runs, tid);
	solve_run(g->s, SOLVE_ALL, &r);
	count_vcpu(g, g->cpu[anchor].vcpu, &f, &f.anchor);
	solve_set_thread(g->s, g->cpu[anchor].vcpu, g->m->runs, 0);
	if (!r.found || r.equal || r.outside)
		return;
	events = fill_group(g, anchor, tid, &f, &n);
	if (!events || events < g->best_events)
		return;
	g->tie = events == g->best_events;
	g->best_events = events;
	g->nbest = n;
	memcpy(g->best, g->tid, n * sizeof(*g->tid));
}

static int find_group(struct regroup *g)
{
	const struct hostmap *m = g->m->map;
	struct tsc_map map = { 0 };
	size_t n = 0;
	int ret = 0;

	/* Counting sub-buffers is enough: the question is only who has most. */
	g->cpu = xcalloc(g->cap->nstream + 1, sizeof(*g->cpu));
	g->tid = xcalloc(g->cap->nstream + 1, sizeof(*g->tid));
	g->best = xcalloc(g->cap->nstream + 1, sizeof(*g->best));
	for (size_t i = 0; i < g->cap->nstream; i++)
		if (g->cap->stream[i].nsub)
			g->cpu[g->ncpu++] = (struct cpu){ .vcpu = cap_vcpu_of_cpu(
								  g->cap, g->cap->stream[i].cpu),
							  .events = g->cap->stream[i].nsub };
	array_sort(g->cpu, g->ncpu, cpu_cmp);
	/* Threads that may run one of the guest's vCPUs: each is tried. */
	for (size_t i = 0; i < m->nthread && g->ncpu; i++)
		n += is_free(m, &m->thread[i], g->cpu[0].vcpu);
	if (!g->ncpu || n > MAX_CANDIDATES)
		return 0;
	solve_new(&map, &g->s);
	ret = solve_add_guest(g->s, g->m->runs, g->cap, g->fmt);
	for (size_t c = 0; c < MIN(g->ncpu, (size_t)ANCHORS) && !g->nbest && !ret; c++)
		for (size_t i = 0; i < m->nthread; i++)
			if (is_free(m, &m->thread[i], g->cpu[c].vcpu))
				try_anchor(g, c, m->thread[i].tid);
	return ret;
}

/*
 * If no VM fits as its threads were grouped: the threads that do fit, whatever their grouping. 1:
 * found, and made a VM; 0: there are none; -errno with err.
 */
static int match_threads(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			 struct match *out, struct kvmft_err *err)
{
	struct regroup g = { .m = m, .cap = cap, .fmt = fmt };
	struct trial t = { 0 };
	ssize_t vm = -1;
	int ret = 0;

	if (own_tsc_is_exact(cap))
		ret = match_runs(m, err);
	if (!ret && m->runs && (ret = find_group(&g)))
		err_set(err, -ret, "cannot read %s: %s", cap->path, strerror(-ret));
	if (!ret && g.nbest && !g.tie)
		vm = hostmap_take_threads(m->map, g.best, g.nbest, HOSTMAP_BY_GUEST, err);
	if (vm >= 0) {
		t.vm = (size_t)vm;
		ret = match_try(m, &t, cap, fmt, err);
	}
	if (!ret && vm >= 0 && match_fits(&t)) {
		solution_free(&out->sol);
		*out = (struct match){ 0 };
		match_take(m, out, &t, MATCH_BY_EVENTS);
		ret = 1;
	}
	solution_free(&t.sol);
	solve_free(g.s);
	free(g.cpu);
	free(g.tid);
	free(g.best);
	return ret;
}

/* ---- vCPUs about which nothing is known, beside others about which everything is ---- */

/* An offset that fits another vCPU of the VM usually fits this one as well. */
static bool same_as_another(const struct matcher *m, const struct solve *s, size_t at, size_t vm,
			    struct solve_result *r)
{
	const struct epoch_vm *e = m->map->vm[vm].epochs;
	struct solve_counts c;

	for (size_t i = 0; e && i < e->n; i++) {
		const struct epoch_vcpu *v = e->vcpus[i];

		if (!v->n || !v->v[v->n - 1].has_map)
			continue;
		*r = (struct solve_result){ .found = true, .offset = v->v[v->n - 1].map.offset };
		r->offset_lo = r->offset_hi = r->offset;
		solve_count(s, at, r, &c);
		r->inside = c.inside;
		r->outside = c.outside;
		if (!r->outside && r->inside)
			return true;
	}
	return false;
}

/* What is not found stays without a place, and is reported so. */
static int fill_unknown(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			struct match *out, struct kvmft_err *err)
{
	struct tsc_map map = match_scale(m, out->vm);
	struct solve *s;
	bool any = false;
	int ret;

	for (size_t i = 0; i < cap->nstream; i++)
		any |= cap->stream[i].nsub &&
		       !epoch_vm_has_map(m->map->vm[out->vm].epochs,
					 cap_vcpu_of_cpu(cap, cap->stream[i].cpu));
	if (!any || !own_tsc_is_exact(cap))
		return 0;
	ret = match_runs(m, err);
	if (ret)
		return ret;
	out->sol.map = map;
	ret = solve_captures(&map, m->map, out->vm, m->runs, cap, fmt, &s);
	for (size_t i = 0; !ret && i < solve_vcpus(s); i++) {
		uint32_t id = solve_vcpu_id(s, i);
		struct solve_result r;

		if (epoch_vm_has_map(m->map->vm[out->vm].epochs, id))
			continue;
		if (same_as_another(m, s, i, out->vm, &r))
			solution_add(&out->sol, id, &r);
		else
			solution_find_vcpu(s, i, &out->sol);
	}
	if (!ret)
		solution_fill(&out->sol, m->map, out->vm);
	solve_free(s);
	return ret ? err_set(err, -ret, "cannot read %s: %s", cap->path, strerror(-ret)) : 0;
}

/* ---- nothing is known about any ---- */

static int no_offset(const struct matcher *m, const struct capture *g, const struct match *r,
		     struct kvmft_err *err)
{
	const struct solution_vcpu *o = NULL; /* one of several that several offsets fit */
	const char *label = m->map->vm[r->vm].label, *offset = pairing_offset_name(m->map->cap);

	for (size_t i = 0; i < r->sol.n_own && !o; i++)
		o = r->sol.own[i].r.equal ? &r->sol.own[i] : NULL;
	if (!r->sol.r.found)
		return err_lack(err, EDOM,
				"%s: the %s of %s is not recorded, and the events do not tell it: "
				"%s; record both at once with `kvmft record` or trace-cmd record -A, or "
				"give it with --tsc-offset N",
				g->path, offset, label, r->sol.r.why);
	if (r->sol.r.equal)
		return err_lack(err, EDOM,
				"%s: the %s of %s is not recorded, and %" PRIu64 " others fit the "
				"events as well as the best: record longer, or give --tsc-offset N",
				g->path, offset, label, r->sol.r.equal);
	if (o)
		return err_lack(
			err, EDOM,
			"%s: the %s of %s is not recorded, and for vCPU %" PRIu32 " %" PRIu64
			" others fit as well as the best: record longer, or give --tsc-offset N",
			g->path, offset, label, o->id, o->r.equal);
	if (r->sol.missed_why)
		return err_lack(err, EDOM,
				"%s: the %s of %s is not recorded, and the events do not tell that "
				"of vCPU %" PRIu32 ": %s; see kvmft verify --solve",
				g->path, offset, label, r->sol.missed, r->sol.missed_why);
	return err_lack(err, EDOM,
			"%s: the %s of %s is not recorded, and no offset fits all events: %" PRIu64
			" of %" PRIu64 " are outside with the best; see kvmft verify --solve",
			g->path, offset, label, r->outside, r->checked);
}

/* The guest may show better which threads are a VM. */
static int correct_threads(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			   struct match *out, struct kvmft_err *err)
{
	const struct hostmap_vm *vm = &m->map->vm[out->vm];
	bool lacks = !out->solved;
	int ret;

	/* What was concluded only from ids and wake-ups may be wrong. */
	if (out->by == MATCH_BY_USER || vm->cap ||
	    (vm->basis != HOSTMAP_BY_WAKES && vm->basis != HOSTMAP_BY_IDS))
		return 0;
	/* Does some vCPU have events of the guest, but no thread that was seen to run it? */
	for (size_t i = 0; i < cap->nstream && !lacks; i++)
		lacks = cap->stream[i].nsub &&
			!hostmap_vcpu(m->map, out->vm, cap_vcpu_of_cpu(cap, cap->stream[i].cpu));
	if (!lacks)
		return 0;
	ret = match_threads(m, cap, fmt, out, err);
	return MIN(ret, 0);
}

/*
 * Do the events contradict recorded offsets? A guest whose TSC is not KVM's has one in debugfs all
 * the same. The first events of each CPU show it, unless they are from before the host's. 1: they
 * decide on another offset.
 */
static int solve_instead(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			 struct match *out, struct kvmft_err *err)
{
	struct trial known = { .vm = out->vm }, t = { .vm = out->vm };
	int ret = m->growing || !own_tsc_is_exact(cap) ? 1 : match_runs(m, err);

	if (ret || !match_has_runs(m, known.vm))
		return MIN(ret, 0);
	known.enough = ENOUGH;
	ret = match_try(m, &known, cap, fmt, err);
	if (!ret && !known.checked) {
		known.enough = 0;
		ret = match_try(m, &known, cap, fmt, err);
	}
	if (ret || !match_contradicts(&known))
		return ret;
	m->solve = true;
	ret = match_try(m, &t, cap, fmt, err);
	m->solve = false;
	if (!ret && match_fits(&t)) {
		solution_free(&out->sol);
		match_take(m, out, &t, out->by);
		out->against = known.outside ?: 1;
		out->against_of = known.checked;
		ret = 1;
	}
	solution_free(&t.sol);
	return ret;
}

/* The offsets of VM out->vm, as far as they are needed. 0 or -errno with err. */
static int match_find_offset(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			     struct match *out, struct kvmft_err *err)
{
	struct trial t = { .vm = out->vm };
	bool all_known = m->solve;
	int ret;

	if (!m->solve && match_is_known(m->map, out->vm, cap)) {
		ret = solve_instead(m, cap, fmt, out, err);
		return ret ? MIN(ret, 0) : fill_unknown(m, cap, fmt, out, err);
	}
	if (out->solved)
		return correct_threads(m, cap, fmt, out, err);
	solution_free(&out->sol);
	m->solve = true;
	ret = match_try(m, &t, cap, fmt, err);
	m->solve = all_known;
	if (!ret) {
		match_take(m, out, &t, out->by);
		ret = correct_threads(m, cap, fmt, out, err);
	}
	if (!ret && !out->solved && !m->undecided_ok)
		ret = no_offset(m, cap, out, err);
	return ret;
}

/* ---- which VMs there are ---- */

/* "guest.dat=SEL. VMs there: " */
static void add_naming(const struct matcher *m, const struct capture *g, struct sbuf *b)
{
	if (m->naming)
		sbuf_add(b, m->naming);
	else
		sbuf_addf(b, "%s=SEL", g->path);
	sbuf_add(b, ". VMs there: ");
}

/* Lists what may be meant, so that the user can say it. */
static int name_one(const struct matcher *m, const struct capture *g, int error, const char *what,
		    struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	add_naming(m, g, &b);
	hostmap_list(m->map, &b);
	return err_set(err, error, "guest %s %s; name one: %s", g->path, what, b.s ?: "");
}

/* -ENOENT without err: none has it. */
static ssize_t by_uuid(const struct matcher *m, const struct capture *g, struct kvmft_err *err)
{
	const struct hostmap *map = m->map;
	ssize_t found = -ENOENT;

	for (size_t i = 0; i < map->nvm; i++) {
		const struct cap_vm *v = map->vm[i].cap;

		/* In trace-cmd files by the id of the guest's file in the host's. */
		if (map->vm[i].of != i || !v ||
		    !((v->uuid && g->uuid && !strcasecmp(v->uuid, g->uuid)) ||
		      (v->trace_id && (g->trace_id || g->uuid) && v->trace_id == tdw_trace_id(g))))
			continue;
		if (found >= 0)
			return name_one(m, g, ENOTUNIQ, "matches several VMs by UUID", err);
		found = (ssize_t)i;
	}
	return found;
}

/* ---- the decision ---- */

static int match_undecided(const struct matcher *m, const struct capture *g, const struct trial *t,
			   size_t n, size_t fits, struct kvmft_err *err)
{
	bool tried = false, few = false;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	add_naming(m, g, &b);
	for (size_t i = 0; i < n && b.len < 700; i++) {
		sbuf_addf(&b, "%s%s (", i ? ", " : "", m->map->vm[t[i].vm].label);
		if (match_fits(&t[i]))
			sbuf_addf(&b, "all %" PRIu64 " events fit", t[i].checked);
		else if (t[i].known && !t[i].checked)
			sbuf_add(&b, match_has_runs(m, t[i].vm)
					     ? "no event between its entries and exits"
					     : "no kvm_entry or kvm_exit of it");
		else if (t[i].known && !t[i].outside)
			sbuf_addf(&b, "%" PRIu64 " events fit, %u are needed", t[i].checked,
				  MIN_CHECKED);
		else if (t[i].known || t[i].sol.r.found)
			sbuf_addf(&b, "%" PRIu64 " of %" PRIu64 " events outside", t[i].outside,
				  t[i].checked);
		else
			sbuf_add(&b, "no offset fits");
		sbuf_add(&b, ")");
		tried |= t[i].checked || !t[i].known;
		few |= t[i].known && t[i].checked && !t[i].outside;
	}
	return err_lack(err, EDOM, "guest %s: %s; name its VM: %s", g->path,
			fits	? "its events fit several VMs of the host"
			: few	? "it has too few events to tell whose they are"
			: tried ? "its events fit no VM of the host, so it may be another "
				  "host's, or of another time"
				: "nothing tells which VM its events come from",
			b.s ?: "");
}

static int decide_by_events(struct matcher *m, const struct capture *g, const struct fmt *fmt,
			    struct trial *t, size_t n, struct match *out, struct kvmft_err *err)
{
	size_t fits = 0;
	ssize_t best = -1;
	int ret = 0;

	if (n > MAX_TRIALS)
		return err_set(err, E2BIG, "guest %s: %zu VMs are too many to be tried: name one",
			       g->path, n);
	for (size_t i = 0; i < n && !ret; i++) {
		ret = match_try(m, &t[i], g, fmt, err);
		fits += !ret && match_fits(&t[i]);
		best = !ret && match_fits(&t[i]) ? (ssize_t)i : best;
	}
	if (ret)
		return ret;
	if (fits != 1) { /* parts of one VM fit separately */
		ret = match_threads(m, g, fmt, out, err);
		return ret ? MIN(ret, 0) : match_undecided(m, g, t, n, fits, err);
	}
	match_take(m, out, &t[best], MATCH_BY_EVENTS);
	for (size_t i = 0; i < n; i++) { /* how close the best of the rejected ones comes */
		if (t[i].vm == out->vm || !t[i].checked)
			continue;
		if (!out->others ||
		    t[i].outside * out->others < out->others_outside * t[i].checked) {
			out->others = t[i].checked;
			out->others_outside = t[i].outside;
		}
	}
	return 0;
}

/* A single VM is the guest's, unless there are more guests: then events must decide. */
static int match_decide(struct matcher *m, const struct capture *g, const struct fmt *fmt,
			bool known, struct match *out, struct kvmft_err *err)
{
	struct trial *t = xcalloc(m->map->nvm + 1, sizeof(*t));
	bool check = !known && !m->solve && !m->undecided_ok;
	size_t n = 0;
	int ret = 0;

	for (size_t i = 0; i < m->map->nvm; i++) {
		const struct hostmap_vm *v = &m->map->vm[i];

		/* It may be the guest's: it ran, and nothing says that it is another's. */
		if (v->of == i && !v->empty && v->threads != HOSTMAP_END &&
		    !(v->cap && v->cap->uuid && g->uuid))
			t[n++].vm = i;
	}
	if (!n && g->uuid && m->map->nvm)
		ret = name_one(m, g, ENOENT,
			       "has a UUID that no VM of the host capture has, so "
			       "it may be another host's",
			       err);
	else if (!n)
		ret = err_lack(
			err, ENOENT,
			"guest %s: host capture %s knows no VM: it has no kvm_entry events and no "
			"list of VMs: record both with `kvmft record` while the VM runs",
			g->path, m->map->cap->path);
	else if (n > 1 || m->guests > 1)
		ret = decide_by_events(m, g, fmt, t, n, out, err);
	else if (check && match_is_known(m->map, t->vm, g)) {
		/* Known offsets decide: the guest's events fit, except for an accident or two. */
		ret = match_try(m, t, g, fmt, err);
		if (!ret && match_has_runs(m, t->vm) && match_contradicts(t))
			ret = match_undecided(m, g, t, 1, 0, err);
	}
	if (!ret && n == 1 && m->guests <= 1)
		match_take(m, out, t, MATCH_ONLY_VM);
	for (size_t i = 0; i < n; i++)
		solution_free(&t[i].sol);
	free(t);
	return ret;
}

/*
 * The TSC offsets of a guest from its trace.dat, as trace-cmd writes them when it records
 * host and guest together (option TIME_SHIFT); the host's own file does not have them.
 *
 * A sample is { time, offset, scaling }: from that guest TSC on, the host's is guest TSC + offset.
 * So KVM's offset is its negative, and the ratio is KVM's own, which no other reader applies in the
 * right direction.
 */

#define MAX_CHANGES 64	 /* of one vCPU: each costs a walk over all events of its CPU */
#define MAX_LINES   1024 /* ... where samples are joined by lines */

static struct tsc_map map_of(const struct cap_shift *s, const struct cap_shift_sample *v)
{
	struct tsc_map map = { .offset = 0 - (uint64_t)v->offset };

	if (s->frac) { /* else the ratio is 1 */
		map.ratio = (uint64_t)v->scaling;
		map.frac = s->frac > 0 && s->frac < 64 ? (uint8_t)s->frac : 64; /* 64: refused */
	}
	return map;
}

/* The basis of the search below. */
struct widest {
	uint64_t change, until, last, first, gap;
};

static int see_gap(void *arg, const struct rec *rec)
{
	struct widest *w = arg;
	uint64_t gap = w->last && rec->ts > w->last ? rec->ts - w->last : 0;

	if (rec->ts >= w->until && gap > w->change) {
		w->first = w->until;
	} else if (rec->ts < w->until && gap > w->gap) {
		w->first = rec->ts;
		w->gap = gap;
	}
	w->last = rec->ts;
	return w->last >= w->until;
}

/*
 * trace-cmd samples from time to time; the offset may have changed before it saw that. If events
 * before and after guest TSC `until`, when it looked, are further apart than the change, it is
 * exact. Else the new offset begins with the event whose stamp exceeds the previous one by more
 * than the change, and by most.
 */
static uint64_t first_after(const struct capture *guest, uint32_t cpu, uint64_t change,
			    uint64_t until)
{
	const struct cap_stream *st = NULL;
	struct widest w = { .change = change, .until = until, .first = until, .gap = change };

	for (size_t i = 0; i < guest->nstream && !st; i++)
		if (guest->stream[i].cpu == cpu && !*guest->stream[i].instance)
			st = &guest->stream[i];
	if (st && change && !(change >> 63))
		(void)!rstream_each(guest, st, see_gap, &w);
	return w.first;
}

/* Guest from host time on the line from one sample to another: a ratio and an offset. */
static struct tsc_map shift_line(const struct cap_shift_sample *a, const struct cap_shift_sample *b)
{
	struct tsc_map map = { .offset = 0 - (uint64_t)a->offset };
	__int128 guest = (__int128)b->time - a->time, host = guest + b->offset - a->offset;
	uint64_t begin = (uint64_t)a->time + (uint64_t)a->offset;

	if (guest <= 0 || host <= guest / 2 || host > guest * 2 || host == guest)
		return map;
	map.frac = 48;
	map.ratio = (uint64_t)(((unsigned __int128)guest << map.frac) / (unsigned __int128)host);
	map.offset =
		(uint64_t)a->time - (uint64_t)(((unsigned __int128)begin * map.ratio) >> map.frac);
	return map;
}

/* If the host's capture, to which they must refer, has none. */
static void add_shift(struct hostmap *m, size_t vm, const struct capture *guest)
{
	/* Bit 0: PTP's, to be interpolated, not KVM's. */
	if (!guest->nshift || !m->cap->trace_id || guest->shift_peer != m->cap->trace_id ||
	    ((guest->shift_flags & 1) && !guest->unit_ns) || !cap_in_tsc(guest))
		return;
	for (size_t i = 0; i < guest->nshift; i++) {
		uint32_t vcpu = cap_vcpu_of_cpu(guest, (uint32_t)i);

		if (!guest->shift[i].nsample || epoch_vm_has_map(m->vm[vm].epochs, vcpu))
			continue;
		if (guest->shift_flags & 1) {
			const struct cap_shift *s = &guest->shift[i];
			size_t step = s->nsample / MAX_LINES + 1;

			/* What PTP found holds from sample to sample along a line. */
			for (size_t k = 0; !k || k + 1 < s->nsample; k += step) {
				const struct cap_shift_sample *a = &s->sample[k];
				struct tsc_map map =
					shift_line(a, &s->sample[MIN(k + step, s->nsample - 1)]);
				uint64_t from = k ? (uint64_t)a->time + (uint64_t)a->offset : 0;

				if (!tsc_map_check(&map))
					hostmap_force_vcpu(m, vm, vcpu, from, &map);
			}
		} else {
			const struct cap_shift *s = &guest->shift[i];
			uint32_t cpu = (uint32_t)i;
			unsigned int changes = 0;
			uint64_t lo, hi, from;
			struct tsc_map map = map_of(s, &s->sample[0]);

			if (tsc_map_check(&map)) /* nonsense: the vCPU stays without */
				continue;
			hostmap_force_vcpu(m, vm, vcpu, 0, &map);
			for (size_t k = 1; k < s->nsample && changes < MAX_CHANGES; k++) {
				struct tsc_map next = map_of(s, &s->sample[k]);

				if (next.offset == map.offset)
					continue;
				from = first_after(guest, cpu, next.offset - map.offset,
						   (uint64_t)s->sample[k].time);
				map.offset = next.offset;
				changes++;
				if (!tsc_to_host(&map, from, &lo, &hi) && lo)
					hostmap_force_vcpu(m, vm, vcpu, lo, &map);
			}
		}
	}
	hostmap_rebuild(m, vm);
}

int match_guest(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
		const char *sel, bool known, struct match *out, struct kvmft_err *err)
{
	ssize_t vm = sel ? hostmap_find_vm(m->map, sel, err) : by_uuid(m, cap, err);
	int ret = 0;

	if (vm < 0 && (sel || vm != -ENOENT || err->text[0]))
		return (int)vm;
	out->vm = vm < 0 ? 0 : (size_t)vm;
	out->by = sel ? MATCH_BY_USER : MATCH_BY_UUID;
	if (vm < 0) {
		ret = match_decide(m, cap, fmt, known, out, err);
	} else if (!sel && m->map->nthread &&
		   m->map->vm[m->map->vm[vm].of].threads == HOSTMAP_END) {
		size_t named = out->vm;

		/*
		 * trace-cmd names the guest but may not know its threads: it gets those that the
		 * events name and no other VM has.
		 */
		ret = match_decide(m, cap, fmt, known, out, err);
		if (!ret) {
			hostmap_adopt(m->map, named, out->vm);
			out->vm = named;
		}
	}
	if (ret || known)
		return ret;
	add_shift(m->map, out->vm, cap);
	return match_find_offset(m, cap, fmt, out, err);
}

void match_free(struct match *r)
{
	solution_free(&r->sol);
}

void matcher_free(struct matcher *m)
{
	runs_free(m->runs);
	m->runs = NULL;
}
