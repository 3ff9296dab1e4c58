/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recording.c: the same of a host's capture. What a live look learns from /proc, how a vCPU's time
 * was divided, is here what lies between its exits and entries; what its thread did is not known.
 */
#include "room.h"
#include "kvmft/evidence.h"
#include "kvmft/pairing.h"

#define TASKS 1000 /* of a guest on one vCPU; further ones are not counted */

struct stuck_recording {
	struct pairing p; /* with its guests */
	struct vm *vm;	      /* as the map has them, */
	struct vm_vcpu *vcpu; /* ... and their vCPUs */
	struct vm_list vms;
	uint64_t mul, div; /* of stamps, to ns */
	uint64_t first, last;
	bool began, unknown, seen[EV_ROLES]; /* unknown: so is how many events were lost */
};

void stuck_recording_free(struct stuck_recording *r)
{
	if (!r)
		return;
	for (size_t i = 0; r->vm && i < r->p.map->nvm; i++)
		free(r->vm[i].sel);
	free(r->vm);
	free(r->vcpu);
	r->p.host.fmt = NULL; /* s->ev has it */
	pairing_close(&r->p);
	free(r);
}

/* Stamps as times: of a TSC whose rate is neither given nor found, and of a counter, none. */
static int clock_of(struct stuck *s)
{
	struct stuck_recording *r = s->recording;
	struct capture *c = r->p.host.cap;
	const uint64_t khz = s->c->khz.v;
	struct tsc_rate rate = { .source = TSC_RATE_GIVEN, .khz = khz, .min = khz, .max = khz };
	int ret = s->c->khz.set ? 0 : tsc_rate_find(c, s->ev.fmt, NULL, 0, &rate);

	if (!ret)
		tsc_rate_use(c, &rate);
	r->mul = r->div = 1;
	if (ret || clock_trace_is_ns(c->clock ?: "local"))
		return ret;
	if (c->has_tsc2nsec && c->tsc2nsec_mult && c->tsc2nsec_shift < 63) {
		r->mul = c->tsc2nsec_mult;
		r->div = 1ull << c->tsc2nsec_shift;
		return 0;
	}
	s->untimed = !cap_in_tsc(c) || !c->tsc_khz;
	if (!s->untimed) {
		r->mul = 1000000;
		r->div = c->tsc_khz;
	}
	return 0;
}

static uint64_t ns_of(const struct stuck_recording *r, uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * r->mul / r->div);
}

COMPARE(by_vcpu, struct stuck_vcpu, ORDER(x->vm, y->vm) ?: ORDER(x->vcpu->id, y->vcpu->id));

/* Threads that run a vCPU, by VM and id; only: of this VM, -1: of all. */
static void recording_add_vcpus(struct stuck *s, ssize_t only)
{
	struct stuck_recording *r = s->recording;
	const struct hostmap *m = r->p.map;

	r->vm = xcalloc(MAX(m->nvm, (size_t)1), sizeof(*r->vm));
	r->vcpu = xcalloc(MAX(m->nthread, (size_t)1), sizeof(*r->vcpu));
	for (size_t i = 0; i < m->nvm; i++) {
		r->vm[i].sel = xstrdup(m->vm[i].label);
		r->vm[i].pid = (uint32_t)m->vm[i].pid;
		r->vm[i].vmm = m->vm[i].cap && m->vm[i].cap->vmm ? m->vm[i].cap->vmm : (char *)"?";
	}
	for (size_t i = 0; i < m->nthread; i++) {
		const struct hostmap_thread *t = &m->thread[i];
		struct stuck_vcpu *c;

		if (t->vm == HOSTMAP_END || t->floats ||
		    (only >= 0 && m->vm[t->vm].of != m->vm[only].of))
			continue;
		c = xarray_grow(&s->vcpu, s->n, &s->cap, sizeof(*c));
		s->n++;
		r->vcpu[i] = (struct vm_vcpu){ .id = t->vcpu, .tid = (uint32_t)t->tid };
		c->vm = &r->vm[m->vm[t->vm].of];
		c->vcpu = &r->vcpu[i];
		c->task.dir = -1;
		c->obs.recorded = true;
	}
	array_sort(s->vcpu, s->n, by_vcpu);
	for (size_t i = 0; i < s->n; i++) {
		xu64map_put(&s->by_tid, s->vcpu[i].vcpu->tid, i);
		xu64map_put(&s->vm_of, s->vcpu[i].vcpu->tid, i);
	}
}

/* From its last exit or entry to this: halted, or at something else. */
static void recording_pass(struct stuck *s, struct stuck_vcpu *c, uint64_t ts)
{
	enum stuck_at at = c->halted ? STUCK_AT_HALT : STUCK_AT_CPU;

	if (c->since)
		c->spent[at] += ns_of(s->recording, ts - c->since);
	c->since = ts;
}

/* Which task a guest runs: known from its own switch on, until it lost events. */
static void take_guest(struct stuck *s, const struct tl_item *i)
{
	struct stuck_recording *r = s->recording;
	const struct vm *vm;
	struct stuck_vcpu *c;
	bool is_event = i->kind == TL_EVENT;

	if (i->vm < 0 || i->vcpu < 0 ||
	    (is_event && (event_role_of(i->ev) != EV_SWITCH || event_type_of(i->ev)->have < 3)))
		return;
	vm = &r->vm[r->p.map->vm[i->vm].of];
	c = stuck_vcpu_find(s, vm, (uint32_t)i->vcpu);
	/* Threads may have followed each other. */
	for (; c && c < s->vcpu + s->n && c->vm == vm && c->vcpu->id == (uint32_t)i->vcpu; c++) {
		c->has_task = is_event;
		c->guest_task = is_event ? (uint32_t)tl_field(i, 2) : 0;
	}
}

COMPARE(by_n, struct stuck_ran, ORDER(y->n, x->n) ?: ORDER(x->tid, y->tid));

static void take_item(void *stuck, const struct tl_item *i)
{
	struct stuck *s = stuck;
	enum event_role role = event_role_of(i->ev);
	struct stuck_recording *r = s->recording;
	struct stuck_vcpu *c;
	uint64_t at, samples;

	if (i->guest)
		take_guest(s, i);
	if (i->kind != TL_EVENT || i->guest)
		return;
	r->first = r->began ? r->first : i->rec->ts;
	r->began = true;
	r->last = MAX(r->last, i->rec->ts);
	r->seen[role] = true;
	s->ev.read++;
	c = (role == EV_ENTRY || role == EV_EXIT) && u64map_get(&s->by_tid, (uint32_t)i->tid, &at)
		    ? &s->vcpu[at]
		    : NULL;
	samples = c ? c->obs.count[STUCK_SAMPLE] : 0;
	stuck_watch_take(s, event_type_of(i->ev), i->rec);
	if (!c)
		return;
	if (c->has_task && c->obs.count[STUCK_SAMPLE] > samples) {
		struct stuck_ran new = { .tid = c->guest_task }, *ran = c->ran;

		while (ran < c->ran + c->nran && ran->tid != new.tid)
			ran++;
		if (ran == c->ran + c->nran && c->nran < TASKS) {
			xarray_add(&c->ran, &c->nran, &c->ran_cap, &new, sizeof(new));
			ran = c->ran + c->nran - 1;
		}
		if (ran < c->ran + c->nran)
			ran->n++;
	}
	recording_pass(s, c, i->rec->ts);
	c->halted = role == EV_EXIT && c->exit_what == STUCK_HLT;
}

static int recording_walk(struct stuck *s)
{
	struct stuck_recording *r = s->recording;
	const struct capture *cap = r->p.host.cap;
	struct timeline *t = r->p.t;
	struct tl_loss loss;
	uint64_t from;
	int ret = err_why(s->err, rstream_held(cap, &from), "cannot read %s", cap->path);
	uint32_t recorded;

	if (!ret && from) {
		s->c->remark("%s: a flight recorder's: only its last snapshot is looked at", cap->path);
		tl_window(t, from, UINT64_MAX);
	}
	ret = ret ?: tl_start(t, s->err);
	ret = ret ?: tl_walk(t, TL_FEED(take_item, s)) ?: tl_error(t);
	if (ret)
		return err_why(s->err, ret, "cannot read %s", cap->path);
	tl_loss(tl_source(t, 0), &loss);
	s->lost = loss.total;
	r->unknown = loss.unknown;
	s->partial = !capture_all_cpus(cap);
	s->blind = false;
	s->ns = s->untimed ? 0 : ns_of(r, r->last - r->first);
	for (size_t k = 0; k < s->n; k++) {
		struct stuck_vcpu *c = &s->vcpu[k];
		uint64_t all;

		recording_pass(s, c, r->last);
		for (size_t g = 0; s->c->nguest && g < tl_sources(t); g++) {
			const struct tl_source *src = tl_source(t, g);

			if (src->guest && c->vm == &r->vm[r->p.map->vm[src->vm].of])
				c->guest = src;
		}
		for (struct stuck_ran *ran = c->ran; ran < c->ran + c->nran; ran++)
			snprintf(ran->comm, sizeof(ran->comm), "%s",
				 tl_comm(c->guest, (int32_t)ran->tid));
		array_sort(c->ran, c->nran, by_n);
		all = c->spent[STUCK_AT_CPU] + c->spent[STUCK_AT_HALT];
		if (!all)
			continue; /* it never ran, or all the time: nothing shows which */
		c->obs.looks = 1000;
		c->obs.at[STUCK_AT_HALT] =
			(uint32_t)((unsigned __int128)c->spent[STUCK_AT_HALT] * 1000 / all);
		c->obs.at[STUCK_AT_CPU] = 1000 - c->obs.at[STUCK_AT_HALT];
	}
	/* What a vCPU's thread did in between would take these. */
	recorded = evidence_recorded(cap, s->ev.fmt, false, r->seen);
	for (int c = 0; c < STUCK_CLASSES; c++) {
		const struct evidence_rule *rule =
			evidence_rule("stuck", stuck_class_name((enum stuck_class)c));

		s->lacks |= rule ? rule->needs & ~recorded : 0;
	}
	for (size_t k = 0; k < s->n; k++)
		s->vcpu[k].obs.untold = s->lacks & EVID_TAKES;
	return pairing_placed(t, s->err);
}

bool stuck_recording_note(const struct stuck *s)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const struct stuck_recording *r = s->recording;
	const struct capture *cap = r->p.host.cap;
	bool incomplete = s->lost || r->unknown || cap->ndamage;

	if (s->c->nguest) /* of the guests, too */
		incomplete = !pairing_summary(&r->p, true, s->note);
	else if (s->lost || r->unknown)
		s->note("%s: %" PRIu64 "%s events lost: what they were is not known", cap->path,
			s->lost, r->unknown ? " or more" : "");
	for (size_t i = 0; i < cap->ndamage && !s->c->nguest; i++)
		s->note("%s: %s", cap->path, cap->damage[i].text);
	if (s->untimed)
		s->note("%s: how long its clock's ticks are is not known%s: rates are not, and what "
			"is an exit loop looks busy", cap->path,
			cap_in_tsc(cap) ? " (give it with --tsc-khz)" : "");
	if (s->partial)
		s->note("%s has a CPU without events, which was perhaps not recorded (trace-cmd record "
			"-M): nothing is sure", cap->path);
	evidence_remedy(s->lacks, &b);
	if (s->lacks)
		s->c->remark("whether a vCPU %s is not recorded: %s",
			     s->lacks & EVID_TAKES
				     ? "takes interrupts, or what its thread did otherwise,"
				     : "was starved, stopped, blocked or in its VMM",
			     b.s ?: "");
	return incomplete;
}

void stuck_recording_needs(const struct stuck *s, struct json *j)
{
	evidence_json("needs", s->lacks, j);
}

int stuck_recording_open(struct stuck *s)
{
	const struct pairing_opts po = { .khz = &s->c->khz, .need = PAIRING_CLOCKS };
	struct stuck_recording *r = xcalloc(1, sizeof(*r));
	const struct capture *cap;
	const struct hostmap *map;
	ssize_t vm = -1;
	int ret = s->c->nguest ? pairing_prepare(&r->p, s->c->input, s->c->guests, s->c->nguest,
						 &po, s->err)
			       : pairing_open_alone(&r->p, s->c->input, s->err);

	s->recording = r;
	s->ev.fmt = r->p.host.fmt;
	cap = r->p.host.cap;
	map = r->p.map;
	if (!ret && cap->lacks)
		s->note("%s: %s", cap->path, cap->lacks);
	ret = ret ?: event_arch_check(cap, s->ev.fmt, s->err);
	ret = ret ?: err_why(s->err, clock_of(s), "cannot read %s", cap->path);
	if (!ret && s->c->vm) {
		vm = hostmap_find_vm(r->p.map, s->c->vm, s->err);
		ret = vm < 0 ? (int)vm : 0;
	}
	if (ret)
		return ret;
	stuck_watch_events(s);
	recording_add_vcpus(s, vm);
	if (hostmap_floating(map) && !s->n)
		return err_lack(s->err, ENODATA, "%s: " HOSTMAP_FLOATING, hostmap_floating(map));
	if (hostmap_floating(map))
		s->note("%s: " HOSTMAP_FLOATING, hostmap_floating(map));
	if (!s->n || !s->ev.exit)
		return err_lack(s->err, ENODATA,
				"%s: no vCPU's kvm_entry and kvm_exit: record "
				"both on the host",
				cap->path);
	r->vms = (struct vm_list){ .vm = r->vm, .n = map->nvm };
	s->vms = &r->vms;
	if (vm < 0 && s->c->syms && map->nvm > 1)
		return err_usage(s->err, "symbols of a guest: whose? Name the VM with --vm");
	return recording_walk(s);
}
