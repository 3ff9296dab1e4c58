/* SPDX-License-Identifier: GPL-2.0-or-later */
/* match.c: each VM that may be meant is tried with all events of the guest. */
#include "kvmft/match.h"

#include <inttypes.h>
#include <strings.h>

#include "kvmft/guest_time.h"
#include "kvmft/timeline.h"
#include "kvmft/tracedat.h"
#include "match.h"

#define MIN_CHECKED 8
#define ACCIDENTS   64	 /* one of so many events outside may be one */
#define MAX_TRIALS  1024 /* VMs; each takes a walk over all of the guest's events */

const char *const match_by_names[] = {
	[MATCH_BY_UUID] = "uuid",
	[MATCH_BY_USER] = "given",
	[MATCH_ONLY_VM] = "only-vm",
	[MATCH_BY_EVENTS] = "events",
};

int match_runs(struct matcher *m, struct kvmft_err *err)
{
	return m->runs ? 0 : runs_collect(m->map, &m->runs, err);
}

/* ---- with known offsets ---- */

/* What is known about all threads that ran one vCPU. */
struct vcpu_runs {
	const struct run_list **list;
	size_t n;
};

static int runs_of_vcpu(const struct matcher *m, size_t vm, uint32_t vcpu, struct vcpu_runs *v)
{
	const struct hostmap_thread *t;
	size_t all = 0;

	hostmap_each_thread(m->map, vm, t)
		all++;
	v->n = 0;
	v->list = calloc(all + 1, sizeof(*v->list));
	if (!v->list)
		return -ENOMEM;
	hostmap_each_thread(m->map, vm, t) {
		const struct run_list *l = t->vcpu == vcpu ? runs_of(m->runs, t->tid) : NULL;

		if (l && l->n)
			v->list[v->n++] = l;
	}
	return 0;
}

/* Could it have been in the guest at host TSC lo..hi? */
static enum solve_fit fit_at(const struct vcpu_runs *v, uint64_t lo, uint64_t hi)
{
	enum solve_fit fit = SOLVE_UNKNOWN;

	for (size_t i = 0; i < v->n; i++) {
		const struct run_list *l = v->list[i];
		size_t at = run_list_at(l, lo);

		if (at >= l->n || hi < l->v[0].from)
			continue;
		if (l->v[at].from <= hi)
			return SOLVE_INSIDE;
		fit = SOLVE_OUTSIDE;
	}
	return fit;
}

/* The events of one stream. */
struct count {
	struct trial *t;
	const struct guest_time *g;
	const struct epoch_vcpu *e;
	struct vcpu_runs v;
	uint64_t after; /* host TSC of the event before */
	uint64_t n;
};

static int count_event(void *arg, const struct rec *rec)
{
	struct count *c = arg;
	uint64_t lo, hi;
	enum solve_fit fit;

	if (c->t->enough && c->n++ >= c->t->enough)
		return 1;
	if (!epoch_result_usable(guest_time_to_host(c->g, c->e, c->after, rec->ts, &lo, &hi)))
		return 0;
	c->after = lo;
	fit = fit_at(&c->v, lo, hi);
	c->t->checked += fit != SOLVE_UNKNOWN;
	c->t->outside += fit == SOLVE_OUTSIDE;
	return 0;
}

static int count_known(const struct matcher *m, struct trial *t, const struct capture *cap,
		       struct kvmft_err *err)
{
	struct guest_time g;
	int ret = guest_time_init(&g, cap, err);

	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		uint32_t vcpu = cap_vcpu_of_cpu(cap, cap->stream[i].cpu);
		struct count c = { .t = t,
				   .g = &g,
				   .e = epoch_vm_find(m->map->vm[t->vm].epochs, vcpu) };

		if (!c.e)
			continue;
		ret = runs_of_vcpu(m, t->vm, vcpu, &c.v);
		ret = ret ?: MIN(rstream_each(cap, &cap->stream[i], count_event, &c), 0);
		free(c.v.list);
	}
	guest_time_free(&g);
	return ret;
}

/*
 * Is the TSC of any vCPU with events of the guest known? What was solved for another capture of the
 * VM does not count: that may be of another boot.
 */
bool match_is_known(const struct hostmap *map, size_t vm, const struct capture *cap)
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
		ret = ret ?: solution_find(s, &map[i], &t->sol);
		solve_free(s);
	}
	solution_count(&t->sol, &t->checked, &t->outside);
	return ret;
}

int match_try(struct matcher *m, struct trial *t, const struct capture *cap, const struct fmt *fmt,
	      struct kvmft_err *err)
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

bool match_contradicts(const struct trial *t)
{
	return t->checked < MIN_CHECKED || t->outside > t->checked / ACCIDENTS;
}

bool match_fits(const struct trial *t)
{
	return t->known ? t->checked >= MIN_CHECKED && !t->outside : solution_is_sure(&t->sol);
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

/* It may be the guest's: it ran, and nothing says that it is another's. */
static bool may_be(const struct hostmap *map, size_t vm, const struct capture *g)
{
	const struct hostmap_vm *v = &map->vm[vm];

	return v->of == vm && !v->empty && v->threads != HOSTMAP_END &&
	       !(v->cap && v->cap->uuid && g->uuid);
}

/* ---- the decision ---- */

void match_take(const struct matcher *m, struct match *out, struct trial *t, enum match_by by)
{
	out->vm = t->vm;
	out->by = by;
	out->checked = t->checked;
	out->outside = t->outside;
	out->sol = t->sol;
	out->solved = m->undecided_ok ? t->sol.r.found : solution_is_sure(&t->sol);
	t->sol = (struct solution){ 0 };
}

bool match_has_runs(const struct matcher *m, size_t vm)
{
	const struct hostmap_thread *t;

	hostmap_each_thread(m->map, vm, t) {
		const struct run_list *l = runs_of(m->runs, t->tid);

		if (l && l->n)
			return true;
	}
	return false;
}

static void add_trial(const struct matcher *m, const struct trial *t, struct sbuf *b)
{
	sbuf_addf(b, "%s (", m->map->vm[t->vm].label);
	if (match_fits(t))
		sbuf_addf(b, "all %" PRIu64 " events fit", t->checked);
	else if (t->known && !t->checked)
		sbuf_add(b, match_has_runs(m, t->vm) ? "no event between its entries and exits"
						     : "no kvm_entry or kvm_exit of it");
	else if (t->known && !t->outside)
		sbuf_addf(b, "%" PRIu64 " events fit, %u are needed", t->checked, MIN_CHECKED);
	else if (t->known || t->sol.r.found)
		sbuf_addf(b, "%" PRIu64 " of %" PRIu64 " events outside", t->outside, t->checked);
	else
		sbuf_add(b, "no offset fits");
	sbuf_add(b, ")");
}

static int undecided(const struct matcher *m, const struct capture *g, const struct trial *t,
		     size_t n, size_t fits, struct kvmft_err *err)
{
	bool tried = false, few = false;
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	add_naming(m, g, &b);
	for (size_t i = 0; i < n && b.len < 700; i++) {
		sbuf_add(&b, i ? ", " : "");
		add_trial(m, &t[i], &b);
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
		return ret ? MIN(ret, 0) : undecided(m, g, t, n, fits, err);
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

/* Known offsets decide: the guest's events fit, except for an accident or two. */
static int check_only(struct matcher *m, const struct capture *g, const struct fmt *fmt,
		      struct trial *t, struct kvmft_err *err)
{
	int ret;

	if (m->solve || m->undecided_ok || !match_is_known(m->map, t->vm, g))
		return 0;
	ret = match_try(m, t, g, fmt, err);
	if (ret || !match_has_runs(m, t->vm) || !match_contradicts(t))
		return ret;
	return undecided(m, g, t, 1, 0, err);
}

/* A single VM is the guest's, unless there are more guests: then events must decide. */
static int decide(struct matcher *m, const struct capture *g, const struct fmt *fmt, bool known,
		  struct match *out, struct kvmft_err *err)
{
	struct trial *t = calloc(m->map->nvm + 1, sizeof(*t));
	size_t n = 0;
	int ret = 0;

	if (!t)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < m->map->nvm; i++)
		if (may_be(m->map, i, g))
			t[n++].vm = i;
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
	else if (known || !(ret = check_only(m, g, fmt, t, err)))
		match_take(m, out, t, MATCH_ONLY_VM);
	for (size_t i = 0; i < n; i++)
		solution_free(&t[i].sol);
	free(t);
	return ret;
}

/*
 * trace-cmd names the guest but may not know its threads: it gets those that the events name and no
 * other VM has.
 */
static int decide_threads(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
			  bool known, struct match *out, struct kvmft_err *err)
{
	size_t vm = out->vm;
	int ret = decide(m, cap, fmt, known, out, err);

	if (ret)
		return ret;
	if (hostmap_adopt(m->map, vm, out->vm))
		return err_set(err, ENOMEM, "out of memory");
	out->vm = vm;
	return 0;
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
	if (vm < 0)
		ret = decide(m, cap, fmt, known, out, err);
	else if (!sel && m->map->nthread && m->map->vm[m->map->vm[vm].of].threads == HOSTMAP_END)
		ret = decide_threads(m, cap, fmt, known, out, err);
	if (!ret && !known && hostmap_add_shift(m->map, out->vm, cap))
		ret = err_set(err, ENOMEM, "out of memory");
	if (!ret && !known)
		ret = match_find_offset(m, cap, fmt, out, err);
	return ret;
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
