/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_open.c: opening a report: what its events are in this capture, what a tick is, and what
 * has to be said about the traced kernel; threads and vCPUs.
 */
#include "report_priv.h"
#include "kvmft/events.h"
#include "kvmft/hostmap.h"

/* With the streams, and a row of a table for each key, a report fits into 64 MiB. */
#define CELLS_LIMIT  (14u << 20)
#define HISTS_LIMIT  (14u << 20)
#define HISTS_LEAST  (3u << 20) /* of more streams than these */
#define STREAMS_FREE 4096u
#define MAX_THREADS 16384
#define NSEC_PER_MSEC 1000000

/* Events that every report looks at, and those of --split. */
static const struct wanted {
	enum event_role role;
	enum rplan_kind kind;
	bool split;
} wanted[] = {
	{ EV_ENTRY, RE_ENTRY, false }, { EV_EXIT, RE_EXIT, false },
	{ EV_USER_EXIT, RE_USER, true }, { EV_PIO, RE_RESUME, true },
	{ EV_MMIO, RE_RESUME, true }, { EV_INJECT, RE_RESUME, true },
	{ EV_IOCTL, RE_IOCTL, true },
	{ EV_VCPU_WAKEUP, RE_WAKEUP, true },
	{ EV_HALT_POLL, RE_POLL, true },
	{ EV_SWITCH, RE_SWITCH, true },
	{ EV_WAKEUP, RE_WOKEN, true },
};

void report_remark(struct report *r, const char *fmt, ...)
{
	char **slot = xarray_grow(&r->note, r->nnote, &r->note_cap, sizeof(*slot));
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(slot, fmt, ap) < 0)
		memory_out();
	str_printable(*slot);
	r->nnote++;
	va_end(ap);
}

const char *report_note(const struct report *r, size_t i)
{
	return i < r->nnote ? r->note[i] : NULL;
}

bool report_in_cycles(const struct report *r)
{
	return r->cycles;
}

const struct report_totals *report_totals(const struct report *r)
{
	return &r->tot;
}

uint64_t report_time(const struct report *r, u128 ticks)
{
	u128 most = ~(u128)0 / r->mul, ns;

	if (ticks > most)
		return UINT64_MAX;
	ns = (ticks * r->mul + r->div / 2) / r->div;
	return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

/* ---- event plans ---- */

static struct rfield rfield_of(const struct fmt_field *f)
{
	if (f->is_array || (f->size != 1 && f->size != 2 && f->size != 4 && f->size != 8))
		return (struct rfield){ 0 };
	return (struct rfield){ .off = f->off, .size = (uint8_t)f->size };
}

static void plan_add(struct report *r, const struct fmt_event *e, enum rplan_kind kind,
		     unsigned int tp, enum event_role role,
		     const struct fmt_field field[CLASS_FIELDS])
{
	struct rplan *p;

	if (r->plan_of[fmt_id(e)] || r->nplan >= RPLANS)
		return;
	p = &r->plan[r->nplan];
	*p = (struct rplan){ .kind = (uint8_t)kind, .tp = (uint8_t)tp, .role = (uint8_t)role };
	p->need = (uint16_t)(r->pid.off + r->pid.size);
	for (unsigned int i = 0; i < CLASS_FIELDS; i++) {
		p->f[i] = rfield_of(&field[i]);
		if (!p->f[i].size)
			continue;
		p->has |= (uint8_t)(1u << i);
		p->need = MAX(p->need, (uint16_t)(p->f[i].off + p->f[i].size));
	}
	if (r->pid.size == 4 && p->f[0].size >= 4 &&
	    (kind == RE_ENTRY || (kind == RE_EXIT && p->f[1].size >= 4)))
		*(kind == RE_ENTRY ? &r->entry : &r->exit) =
			(struct rdirect){ fmt_id(e), p->need, { p->f[0].off, p->f[1].off } };
	r->plan_of[fmt_id(e)] = (uint8_t)r->nplan++;
}

static int report_plans(struct report *r, struct kvmft_err *err)
{
	const struct event_class *cls = r->opts.cls;
	const struct fmt_event *e = fmt_at(r->fmt, 0);
	struct fmt_field pid, field[CLASS_FIELDS];
	const struct event_type *t;

	if (!e)
		return err_set(err, ENOENT, "%s holds no event formats", r->cap->path);
	r->entry.id = r->exit.id = NO_EVENT;
	fmt_field(e, "common_pid", &pid);
	r->pid = rfield_of(&pid);
	if (!r->pid.size)
		return err_set(err, ENOENT,
			       "%s: its events do not name their thread (no common_pid)",
			       r->cap->path);
	r->nplan = 1; /* 0: not looked at */
	for (unsigned int i = 0; i < CLASS_TPS && cls->tp[i].name; i++) {
		e = fmt_find(r->fmt, "kvm", cls->tp[i].name);
		if (!e)
			continue;
		r->tps |= 1u << i;
		for (size_t k = 0; k < CLASS_FIELDS; k++)
			fmt_field(e, cls->tp[i].field[k] ? cls->tp[i].field[k] : "", &field[k]);
		plan_add(r, e, RE_CLASS, i, EV_NONE, field);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		t = event_find(r->fmt, wanted[i].role, 0);
		if ((r->opts.split || !wanted[i].split) && t->ev)
			plan_add(r, t->ev, wanted[i].kind, 0, wanted[i].role, t->f);
	}
	if (r->opts.seen)
		memcpy(r->tot.seen, r->opts.seen, sizeof(r->tot.seen));
	report_saw(r, EV_NONE);
	return 0;
}

/* ---- what the capture lacks ---- */

void report_saw(struct report *r, enum event_role role)
{
	r->tot.seen[role] = true;
	r->recorded = evidence_recorded(r->cap, r->fmt, false, r->tot.seen);
}

static int check_events(const struct report *r, struct kvmft_err *err)
{
	const struct event_class *cls = r->opts.cls;
	const char *own = cls->tp[0].name, *path = r->cap->path;
	const struct event_type *exit = event_find(r->fmt, EV_EXIT, 1);

	if (r->cap->side == CAP_SIDE_GUEST && !event_format(r->fmt, EV_EXIT))
		return err_set(err, ENOENT,
			       "%s is a capture of a guest: exits are in the capture of its host",
			       path);
	if (own && !r->tps && !cls->optional)
		return err_lack(err, ENOENT, "no %s events in %s: record them with -e kvm:%s", own,
				path, own);
	if (own && r->tps && r->opts.by_rip && r->plan[1].f[2].size)
		return 0;
	if (!event_format(r->fmt, EV_EXIT) && !event_format(r->fmt, EV_ENTRY) && !r->tps)
		return err_lack(
			err, ENOENT,
			"no kvm_exit and kvm_entry events in %s: record them with `kvmft record` on "
			"the host",
			path);
	if (event_format(r->fmt, EV_EXIT) && !exit->ev)
		return err_set(err, ENOTSUP,
			       "kvm_exit in %s has no field %.*s: kvmft does not know this kind of "
			       "host",
			       path, EVENT_FIELD(event_field(EV_EXIT, 0)));
	if (r->opts.by_rip && !exit->f[2].size)
		return err_lack(err, ENOENT, "no %s in %s says where the guest was",
				event_format(r->fmt, EV_EXIT) ? "kvm_exit" : "kvm_exit or kvm_entry",
				path);
	return 0;
}

bool report_untimed(const struct capture *c)
{
	return !clock_trace_is_ns(c->clock ?: "local") &&
	       !(c->has_tsc2nsec && c->tsc2nsec_mult && c->tsc2nsec_shift < 63) &&
	       (!c->tsc_khz || !cap_in_tsc(c));
}

/* What a tick of the trace clock is. */
static void clock_scale(struct report *r)
{
	const struct capture *c = r->cap;

	r->mul = r->div = 1;
	r->cycles = report_untimed(c);
	if (r->cycles || clock_trace_is_ns(c->clock ?: "local"))
		return;
	if (c->has_tsc2nsec && c->tsc2nsec_mult && c->tsc2nsec_shift < 63) {
		r->mul = c->tsc2nsec_mult;
		r->div = 1ull << c->tsc2nsec_shift;
	} else {
		r->mul = NSEC_PER_MSEC;
		r->div = c->tsc_khz;
	}
}

/* The first tick that is `ns` or more after the capture began; cycles are ticks. */
static uint64_t tick_at(const struct report *r, uint64_t ns)
{
	uint64_t begin = r->cap->begin_tsc, ts, hi; /* ... on the clock of its stamps */
	u128 t;

	if (r->map->own && begin && clock_link_down(&r->map->own->link, begin, &ts, &hi) >= 0)
		begin = ts;
	t = r->cycles ? ns : begin + ((u128)ns * r->div + r->mul - 1) / r->mul;
	return t > UINT64_MAX ? UINT64_MAX : (uint64_t)t;
}

/* ---- remarks ---- */

/*
 * Where the two events are traced differs (arch/x86/kvm/{x86,vmx/vmx,svm/svm}.c): if in the exit
 * handler, the host's interrupts were already handled, so that the exit looks shorter.
 */
static void remark_kernel(struct report *r)
{
	const char *release = r->cap->uname ?: "an unknown kernel";
	const char *traced = exit_traced(r->names.isa);
	unsigned int major, minor;

	if (traced) {
		report_remark(r, "kernel: %s; kvm_exit is traced %s", release, traced);
		return;
	}
	if (r->names.own || !event_kernel(r->cap, &major, &minor)) {
		report_remark(
			r,
			"kernel: %s; where its kvm_exit is traced is not known, so compare times "
			"only with the same kernel",
			release);
		return;
	}
	if (major > 6 || (major == 6 && minor >= 12))
		report_remark(r,
			      "kernel: %s; kvm_exit is traced right after the exit, on VMX and SVM",
			      release);
	else if (major == 4 || (major == 5 && minor < 10))
		report_remark(
			r,
			"kernel: %s; kvm_exit may be traced in the exit handler, after the host's "
			"interrupts were served: EXTERNAL_INTERRUPT then looks too short",
			release);
	else if (major < 4)
		report_remark(r,
			      "kernel: %s; kvm_exit is traced right after the exit, kvm_entry well "
			      "before the entry",
			      release);
	else
		report_remark(
			r,
			"kernel: %s; kvm_exit is traced right after the exit on VMX, but on SVM in "
			"the exit handler, after the host's interrupts were served",
			release);
}

/* Whether the report's own walk shows it as well, and in time: all the entries there are. */
static bool vms_can_wait(const struct report *r)
{
	const struct report_opts *o = &r->opts;
	const struct fmt_field *vcpu = &event_find(r->fmt, EV_ENTRY, 1)->f[0];

	return hostmap_by_entries(r->cap, r->fmt) &&
	       rfield_of(vcpu).size == sizeof(uint32_t) && !vcpu->is_signed &&
	       o->semantics == REPORT_EXACT && !o->has_from && !o->has_to && !o->by_rip &&
	       !o->every && !o->each;
}

/* Which VM was named, if they are known now. */
static int find_named(struct report *r, struct kvmft_err *err)
{
	if (!r->opts.vm || r->vms_later)
		return 0;
	r->vm_named = hostmap_find_vm(r->map, r->opts.vm, err);
	return r->vm_named < 0 ? (int)r->vm_named : 0;
}

static int open_report(const struct capture *cap, const struct fmt *fmt,
		       const struct report_opts *opts, bool may_wait, struct report **out,
		       struct kvmft_err *err)
{
	struct report *r = xcalloc(1, sizeof(*r));
	int ret = 0;
	bool search;
	const struct event_class *cls;

	*out = NULL;
	r->cap = cap;
	r->fmt = fmt;
	r->opts = *opts;
	r->opts.counts |= opts->cls->counts;
	r->budget = (struct cell_budget){
		.limit = CELLS_LIMIT,
		.hist_limit = cap->nstream > STREAMS_FREE ? HISTS_LEAST : HISTS_LIMIT,
		.hist = opts->percentiles, .part = opts->split,
	};
	exit_names_init(&r->names, event_format(fmt, EV_EXIT), cap->vendor);
	cls = r->opts.cls;
	if (r->opts.semantics != REPORT_PERF)
		r->rules = &cls->exact;
	else
		r->rules = cls->perf_before.begin && exit_perf_before(r->names.isa)
				   ? &cls->perf_before
				   : &cls->perf;
	r->cut_by = xcalloc(cap->nstream + 1, sizeof(struct rthread *));
	r->gap_to = xcalloc(cap->nstream + 1, sizeof(*r->gap_to));
	r->loss_to = xcalloc(cap->nstream + 1, sizeof(*r->loss_to));
	/*
	 * Which thread belongs to which VM: as recorded; if nothing was recorded and it matters, by
	 * the events, which takes walks of its own or waits for the report's.
	 */
	search = !r->cap->nvm && (r->opts.vms || r->opts.vm);
	r->vm_named = -1;
	r->vms_later = search && may_wait && vms_can_wait(r);
	if (search && !r->vms_later)
		ret = hostmap_new(r->cap, r->fmt, &r->map, err);
	else
		hostmap_known(r->cap, r->fmt, &r->map);
	ret = ret ?: find_named(r, err);
	ret = ret ?: event_arch_check(cap, NULL, err);
	ret = ret ?: report_plans(r, err);
	ret = ret ?: check_events(r, err);
	clock_scale(r);
	if (!ret && r->opts.by_rip) {
		r->exit.id = NO_EVENT; /* each of them has to be looked at */
		r->rips = by_rip_new();
	}
	if (!ret && r->opts.held)
		ret = err_why(err, rstream_held(cap, &r->from), "cannot read %s", cap->path);
	if (ret) {
		report_free(r);
		return ret;
	}
	if (r->cycles && !cap_in_tsc(cap))
		report_remark(r, "the trace clock %s is no time: what stands as cycles are its counts",
			      cap->clock);
	r->to = UINT64_MAX;
	if (r->opts.has_from)
		r->from = tick_at(r, r->opts.from);
	if (r->opts.has_to && r->opts.to < UINT64_MAX)
		r->to = tick_at(r, r->opts.to + 1) - 1;
	if (event_format(fmt, EV_EXIT) && !r->opts.counts)
		remark_kernel(r);
	*out = r;
	return 0;
}

int report_new(const struct capture *cap, const struct fmt *fmt, const struct report_opts *opts,
	       struct report **out, struct kvmft_err *err)
{
	return open_report(cap, fmt, opts, true, out, err);
}

static void drop_all(struct report *r)
{
	for (size_t i = 0; i < r->nthread; i++)
		free(r->thread[i]);
	for (size_t i = 0; i < r->nvcpu; i++) {
		cells_free(r->vcpu[i]->cells);
		free(r->vcpu[i]);
	}
	for (size_t i = 0; i < r->nnote; i++)
		free(r->note[i]);
	free(r->note);
	free(r->thread);
	free(r->vcpu);
	free(r->first_vcpu);
	free(r->cut_by);
	free(r->gap_to);
	free(r->loss_to);
	by_rip_free(r->rips);
	u64map_free(&r->by_tid);
	u64map_free(&r->by_vcpu);
	u64map_free(&r->owner);
	hostmap_free(r->map);
}

void report_free(struct report *r)
{
	if (r)
		drop_all(r);
	free(r);
}

struct hostmap *report_hostmap(const struct report *r)
{
	return r->map;
}

/* Index of the VM that a thread belongs to; -1 if not in the capture. */
static int64_t report_vm_of(const struct report *r, int32_t tid)
{
	const struct hostmap_thread *t = hostmap_thread(r->map, tid);

	return t ? (int64_t)t->vm : hostmap_task_vm(r->map, tid);
}

static struct rvcpu *vcpu_new(struct report *r, int32_t tid, int64_t vcpu)
{
	struct rvcpu **slot = xarray_grow(&r->vcpu, r->nvcpu, &r->vcpu_cap, sizeof(*slot));
	struct rvcpu *v = *slot = xcalloc(1, sizeof(*v));

	v->tid = tid;
	v->vcpu = vcpu;
	v->vm = report_vm_of(r, tid);
	v->cells = xcalloc(1, sizeof(*v->cells));
	r->budget.vcpus = ++r->nvcpu;
	return v;
}

/* ---- VMs after the walk ---- */

/* As if the VMs had been looked for first. */
int report_start_over(struct report *r, struct kvmft_err *err)
{
	const struct report old = {
		.cap = r->cap, .fmt = r->fmt, .opts = r->opts, .holes = r->holes,
		.in_order = r->in_order, .switches = r->switches,
	};
	struct report *again;
	const struct event_type *t;
	int ret;

	drop_all(r);
	*r = old;
	ret = open_report(r->cap, r->fmt, &r->opts, false, &again, err);
	if (ret)
		return ret;
	*r = *again;
	r->holes = old.holes;
	r->in_order = old.in_order;
	t = event_find(r->fmt, EV_SWITCH, 0);
	r->switches = old.switches && t->ev;
	if (r->switches)
		plan_add(r, t->ev, RE_SWITCH, 0, EV_SWITCH, t->f);
	free(again);
	return report_walk(r, err);
}

int report_vms_now(struct report *r, struct kvmft_err *err)
{
	int ret;

	r->vms_later = false;
	/* -EAGAIN if the walk did not show enough. */
	ret = r->nvcpu != r->nthread || r->tot.left_out ? -EAGAIN : 0;
	for (size_t i = 0; i < r->nvcpu && !ret; i++)
		if (r->vcpu[i]->vcpu >= 0)
			hostmap_ran(r->map, r->vcpu[i]->tid, (uint32_t)r->vcpu[i]->vcpu);
	ret = ret ?: hostmap_group(r->map);
	if (ret == -EAGAIN)
		return report_start_over(r, err);
	ret = ret ? err_set(err, -ret, "out of memory") : find_named(r, err);
	for (size_t i = 0; i < r->nvcpu && !ret; i++)
		r->vcpu[i]->vm = report_vm_of(r, r->vcpu[i]->tid);
	return ret;
}

uint32_t report_thread_known(const struct report *r, int32_t tid)
{
	uint64_t at;

	return u64map_get(&r->by_tid, (uint32_t)tid, &at) ? (uint32_t)at : UINT32_MAX;
}

uint32_t report_thread(struct report *r, int32_t tid)
{
	uint32_t at = report_thread_known(r, tid);
	struct rthread **slot, *t;
	const struct hostmap_thread *known;
	bool split;

	if (at != UINT32_MAX)
		return at;
	if (r->nthread >= MAX_THREADS) {
		r->tot.left_out++;
		return at;
	}
	slot = xarray_grow(&r->thread, r->nthread, &r->thread_cap, sizeof(*slot));
	known = hostmap_thread(r->map, tid);
	split = r->opts.split && r->opts.semantics == REPORT_EXACT;
	t = xcalloc(1, sizeof(*t) + (split ? sizeof(*t->split) : 0));
	t->tid = tid;
	if (split)
		t->split = (struct rsplit *)(t + 1);
	t->v = t->first = vcpu_new(r, tid, -1);
	if (known)
		report_set_vcpu(r, t, known->vcpu);
	*slot = t;
	at = (uint32_t)r->nthread++;
	xu64map_put(&r->by_tid, (uint32_t)tid, at);
	return at;
}

void report_set_vcpu(struct report *r, struct rthread *t, uint32_t vcpu)
{
	uint64_t key = (uint64_t)(uint32_t)t->tid << 32 | vcpu, at;

	if (t->v->vcpu == vcpu)
		return;
	if (t->v->vcpu < 0) { /* what the thread did before belongs to the same vCPU */
		t->v->vcpu = vcpu;
		return;
	}
	t->floats = r->floats = true;
	if (t->first->vcpu == vcpu) {
		t->v = t->first;
		return;
	}
	if (u64map_get(&r->by_vcpu, key, &at)) {
		t->v = r->vcpu[at];
		return;
	}
	if (r->nvcpu >= 2 * MAX_THREADS) {
		r->tot.misplaced++;
		return;
	}
	t->v = vcpu_new(r, t->tid, vcpu);
	xu64map_put(&r->by_vcpu, key, r->nvcpu - 1);
}
