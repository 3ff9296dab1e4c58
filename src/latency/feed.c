/* SPDX-License-Identifier: GPL-2.0-or-later */
/* feed.c: the walk behind all latency analyses: what it needs, what it hears, how it ends. */
#include "priv.h"
#include "kvmft/events.h"
#include "kvmft/exit_names.h"

const char *const lat_kind_names[] = { "irq", "sched", "io", "timer", "mem", "net", "event",
				       "wait", NULL };

extern const struct lat_desc lat_desc_irq, lat_desc_sched, lat_desc_stealer, lat_desc_io,
	lat_desc_timer, lat_desc_hrtimer, lat_desc_task, lat_desc_handler, lat_desc_event[2],
	lat_desc_wait;

static const struct lat_desc *const descs[LAT_TABLES] = {
	[LAT_T_IRQ] = &lat_desc_irq,	       [LAT_T_SCHED] = &lat_desc_sched,
	[LAT_T_STEALER] = &lat_desc_stealer,   [LAT_T_IO] = &lat_desc_io,
	[LAT_T_TIMER] = &lat_desc_timer,       [LAT_T_HRTIMER] = &lat_desc_hrtimer,
	[LAT_T_NET_RX] = &lat_desc_net_rx,     [LAT_T_NET_TX] = &lat_desc_net_tx,
	[LAT_T_TASK] = &lat_desc_task,	       [LAT_T_HANDLER] = &lat_desc_handler,
	[LAT_T_EVENT] = &lat_desc_event[0],    [LAT_T_MEM] = &lat_desc_mem,
	[LAT_T_WAIT] = &lat_desc_wait,
	[LAT_T_MEM_VCPU] = &lat_desc_mem_vcpu, [LAT_T_MEM_TASK] = &lat_desc_mem_task,
	[LAT_T_MEM_GPA] = &lat_desc_mem_gpa,   [LAT_T_MEM_THREAD] = &lat_desc_mem_thread,
	[LAT_T_MEM_TIME] = &lat_desc_mem_time, [LAT_T_MEM_MOVE] = &lat_desc_mem_move,
};

enum lat_kind lat_table_kind(enum lat_table_id id)
{
	return descs[id]->kind;
}

int64_t lat_task_vm(const struct lat *l, const struct tl_source *host, int32_t tid)
{
	const struct migrate *link = host->link;
	ssize_t vm = hostmap_vm_of(link ? link->map : l->map, tid);

	return vm >= 0 && link ? (int64_t)link->vm[vm] : vm;
}

int64_t lat_vm_of(const struct lat *l, const struct lat_in *in)
{
	const struct migrate *link = in->i->src->link;
	int64_t vm = in->i->vm >= 0 ? in->i->vm : lat_task_vm(l, in->i->src, in->i->tid);

	if (vm < 0 && (link ? link->map : l->map)->nvm == 1)
		vm = link ? (int64_t)link->vm[0] : 0;
	return vm;
}

bool lat_wanted(const struct lat *l, int64_t vm, int64_t vcpu)
{
	return (l->o.vm < 0 || vm == l->o.vm) && (l->o.vcpu < 0 || vcpu == l->o.vcpu);
}

/* ---- set-up ---- */

void lat_note_add(struct lat *l, const char *text)
{
	char **slot = xarray_grow(&l->note, l->nnote++, &l->note_cap, sizeof(*slot));

	*slot = xstrdup(text);
}

/* The first guest's; QEMU's traces and other hosts come after the guests. */
static const struct lat_decoder *guest_decoder(const struct lat *l)
{
	return l->nsrc > 1 && tl_source(l->t, 1)->guest ? l->dec[1] : NULL;
}

#define RECORD_GUEST(events) "record it, with " events " (`kvmft record` in the guest has them)"

/* What an answer would need but no capture has. */
static void feed_notes(struct lat *l)
{
	const struct lat_decoder *guest = guest_decoder(l);

	for (unsigned int k = 0; k < LAT_KINDS; k++)
		if (l->left_out[k])
			lat_note_add(l, TEXTF("%s is left out: %s", lat_kind_names[k],
					      l->left_out[k]));
	if (hostmap_floating(l->map))
		lat_note_add(l, TEXTF("%s: " HOSTMAP_FLOATING, hostmap_floating(l->map)));
	if (l->alone) {
		lat_note_add(l, "the host was not recorded: how much of these times was its "
				"is not known");
		return;
	}
	if (!guest && (l->o.want[LAT_IRQ] || l->o.want[LAT_TIMER]))
		lat_note_add(
			l,
			"no guest capture: measured to the entry of the guest, not to its handler");
	if (guest && l->o.want[LAT_IRQ] && l->irqs->untold)
		lat_note_add(l, l->irqs->untold);
	if (!guest && l->o.want[LAT_SCHED])
		lat_note_add(
			l, "no guest capture: which guest task was hit is not known; " RECORD_GUEST(
				   "sched:sched_switch"));
	if (l->o.want[LAT_WAIT] && !lat_decoder_has(l->dec[0], EV_SKB_COPY))
		lat_note_add(l, "not recorded: which interrupts are of the network: `kvmft record -e "
				"default -e io -e net` on the host");
	if (l->o.want[LAT_MEM])
		lat_mem_notes(l);
	if (guest && l->o.want[LAT_SCHED] && !lat_decoder_has(guest, EV_SWITCH))
		lat_note_add(
			l,
			"the guest capture has no sched:sched_switch: which guest task was hit is known "
			"only where it made other events; `kvmft record` in the guest has it");
}

#define RECORDING_LACKS(events) \
	"the recording has no " events ": `kvmft record` in the guest has them"

#define NET_LACKS(side, a, b)                                                         \
	"the " side " capture has no " a " and " b ": record both sides with `kvmft " \
	"record -e default -e net`"

/* The events that each analysis needs, besides kvm_entry and kvm_exit. */
static const struct {
	enum lat_kind kind;
	bool guest; /* the events are the guest's */
	enum event_role ev[2];
	const char *lacks;
} needs[] = {
	{ LAT_IRQ,
	  false,
	  { EV_ACCEPT, EV_ACCEPT },
	  "the host capture has no kvm:kvm_apic_accept_irq: record it (it is in kvmft record's default events)" },
	{ LAT_IRQ,
	  false,
	  { EV_VGIC, EV_VGIC },
	  "the host capture has no kvm:vgic_update_irq_pending: record it (it is in kvmft record's default events)" },
	{ LAT_WAIT,
	  false,
	  { EV_ACCEPT, EV_ACCEPT },
	  "not recorded: which interrupts ended the halts (kvm:kvm_apic_accept_irq, of x86): `kvmft record`" },
	{ LAT_TIMER,
	  false,
	  { EV_MSR, EV_ACCEPT },
	  "the host capture has no kvm:kvm_msr and kvm:kvm_apic_accept_irq: record them (they are in kvmft "
	  "record's default events)" },
	{ LAT_MEM,
	  false,
	  { EV_PAGE_FAULT, EV_PAGE_FAULT },
	  "the host capture has no kvm:kvm_page_fault: record it (it is in kvmft record's default events "
	  "where KVM has it; that of arm64 has not)" },
	{ LAT_IO,
	  true,
	  { EV_RQ_ISSUE, EV_RQ_COMPLETE },
	  "the guest capture has no block:block_rq_issue and block:block_rq_complete: record them (they "
	  "are in kvmft record's default events)" },
	{ LAT_NET,
	  false,
	  { EV_NET_START, EV_NET_RECEIVE },
	  NET_LACKS("host", "net_dev_start_xmit", "netif_receive_skb") },
	{ LAT_NET,
	  false,
	  { EV_SKB_COPY, EV_SWITCH },
	  NET_LACKS("host", "skb_copy_datagram_iovec", "sched_switch") },
	{ LAT_NET,
	  false,
	  { EV_SKB_FREE, EV_WAKING },
	  NET_LACKS("host", "consume_skb", "sched_waking") },
	{ LAT_NET,
	  true,
	  { EV_NET_START, EV_NET_RECEIVE },
	  NET_LACKS("guest", "net_dev_start_xmit", "netif_receive_skb") },
	{ LAT_NET,
	  true,
	  { EV_NAPI_POLL, EV_SKB_FREE },
	  NET_LACKS("guest", "napi_poll", "consume_skb") },
	{ LAT_NET,
	  true,
	  { EV_NET_QUEUE, EV_SWITCH },
	  NET_LACKS("guest", "net_dev_queue", "sched_switch") },
};

/* Of a guest without its host; EV_NONE: the guest alone cannot tell. */
static const struct {
	enum event_role ev[2];
	const char *lacks;
} needs_alone[LAT_KINDS] = {
	[LAT_SCHED] = { { EV_SWITCH, EV_SWITCH }, RECORDING_LACKS("sched:sched_switch") },
	[LAT_IRQ] = { { EV_IRQ_ENTRY, EV_IRQ_EXIT },
		      RECORDING_LACKS("irq:irq_handler_entry and irq:irq_handler_exit") },
	[LAT_TIMER] = { { EV_HRTIMER_START, EV_HRTIMER_EXPIRE },
			RECORDING_LACKS("timer:hrtimer_start and timer:hrtimer_expire_entry") },
	[LAT_IO] = { { EV_RQ_ISSUE, EV_RQ_COMPLETE },
		     RECORDING_LACKS("block:block_rq_issue and block:block_rq_complete") },
	[LAT_MEM] = { .lacks = "the host was not recorded: there, `kvmft record -e default -e mem`" },
	[LAT_WAIT] = { .lacks = "the host was not recorded: there, `kvmft record`" },
	[LAT_NET] = { .lacks = "the host was not recorded: on both sides, `kvmft record -e default "
			       "-e net`" },
};

#define LEFT_OUT "timer is left out: "
static const char other_clock[] = LEFT_OUT
	"the guest sets its timer by its TSC, and nothing relates the recording's clock to that: "
	"record with kvmft record, or trace-cmd record -C x86-tsc";

/* What is missing for this analysis; NULL: nothing. */
static const char *note_lacks(const struct lat *l, unsigned int kind)
{
	if (l->alone) {
		const struct lat_decoder *d = l->dec[0];
		const enum event_role *ev = needs_alone[kind].ev;
		bool has = ev[0] && lat_decoder_has(d, ev[0]) && lat_decoder_has(d, ev[1]);

		has |= kind == LAT_IRQ && lat_decoder_has(d, EV_VECTOR_ENTRY) &&
		       lat_decoder_has(d, EV_VECTOR_EXIT);
		return has ? NULL : needs_alone[kind].lacks;
	}
	if (kind == LAT_TIMER && l->irqs->no_deadlines)
		return l->irqs->no_deadlines;
	if (kind == LAT_TIMER && l->nsrc == 1 && l->map->cap->unit_ns)
		return other_clock + strlen(LEFT_OUT);
	for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
		const struct lat_decoder *d = needs[i].guest ? guest_decoder(l) : l->dec[0];
		bool has = false;

		if (needs[i].kind != kind || (kind == LAT_IRQ && needs[i].ev[0] != l->irqs->accept))
			continue;
		if (!d && kind == LAT_NET)
			return "needs a capture of the guest: record both sides with `kvmft record -e "
			       "default -e net`";
		if (!d)
			return "needs a capture of the guest: "
			       RECORD_GUEST("block:block_rq_issue and block:block_rq_complete");
		/* The host's capture, or that of any guest, has both: others need not. */
		for (size_t k = 0; k < l->nsrc; k++)
			has |= tl_source(l->t, k)->guest == needs[i].guest &&
			       (needs[i].guest || !k) &&
			       lat_decoder_has(l->dec[k], needs[i].ev[0]) &&
			       lat_decoder_has(l->dec[k], needs[i].ev[1]);
		if (!has)
			return needs[i].lacks;
	}
	return NULL;
}

/* ---- what was recorded ---- */

uint32_t lat_lacks(const struct lat *l, const char *of, const char *what)
{
	const struct evidence_rule *r = evidence_rule(of, what);

	/* Recorded for that alone; and when a guest heard of pages, where others fetch them. */
	return r && (l->path || !(r->needs & EVID_WAKING)) &&
			       (!(r->needs & EVID_ASYNC) || l->seen[0][EV_ASYNC]) ?
		       r->needs & ~l->recorded : 0;
}

uint32_t lat_needs(const struct lat *l)
{
	return l->needs;
}

static uint32_t count_untold(struct lat *l, unsigned int id, const char *const *what,
			     unsigned int n)
{
	uint32_t bits = 0;

	for (unsigned int i = 0; i < n && what[i]; i++) {
		uint32_t lacks = lat_lacks(l, descs[id]->name, lat_word_text(what[i]));

		bits |= lacks ? 1u << i : 0;
		l->needs |= lat_has_table(l, (enum lat_table_id)id) ? lacks : 0;
	}
	return bits;
}

/* For now: what a trace.dat has is only known when it was seen. */
static void know_evidence(struct lat *l)
{
	l->needs = 0;
	for (size_t i = 0; i < l->nsrc; i++) {
		const struct tl_source *s = tl_source(l->t, i);

		if (s->guest || !i)
			l->recorded |= evidence_recorded(s->cap, s->fmt, s->guest, l->seen[i]);
	}
	for (unsigned int s = 0; s < VS_STATES && l->o.want[LAT_SCHED]; s++)
		l->needs |= lat_lacks(l, "vcpu", vs_names[s]);
	if (l->o.want[LAT_WAIT])
		l->needs |= (EVID_RAISE | EVID_INJECT | EVID_BLOCK | EVID_WAKING) & ~l->recorded;
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		l->untold[id].stages = count_untold(l, id, descs[id]->stage, LAT_STAGES);
		l->untold[id].causes = count_untold(l, id, descs[id]->cause, LAT_CAUSES) |
				       (descs[id]->cause_is_stage ? l->untold[id].stages : 0);
	}
}

/* Leaves out, with a note, the analyses that lack events; if none is left, that is an error. */
static int feed_need(struct lat *l, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf why = { 0 };
	const bool entry = lat_decoder_has(l->dec[0], EV_ENTRY);
	const bool exit = lat_decoder_has(l->dec[0], EV_EXIT);
	bool any = l->o.want[LAT_EVENT];

	if (!l->alone && !any && (!entry || !exit))
		return err_lack(err, ENOENT,
				"the host capture has no %s%s%s: record both with `kvmft record` "
				"on the host (`kvmft check` tells whether its KVM has them)",
				entry ? "" : "kvm_entry", entry || exit ? "" : " and ",
				exit ? "" : "kvm_exit");
	for (unsigned int k = 0; k < LAT_KINDS; k++) {
		l->left_out[k] = l->o.want[k] ? note_lacks(l, k) : NULL;
		l->o.want[k] &= !l->left_out[k];
		any |= l->o.want[k];
		l->chains |= l->o.want[k] && k != LAT_MEM && k != LAT_SCHED && k != LAT_EVENT;
		if (l->left_out[k])
			sbuf_addf(&why, "%s%s: %s", why.len ? "; " : "", lat_kind_names[k],
				  l->left_out[k]);
	}
	return any || !why.len ? 0 : err_lack(err, ENOENT, "%s", why.s);
}

static int lat_make_tables(struct lat *l)
{
	int ret;

	for (unsigned int i = 0; i < LAT_TABLES; i++) {
		l->table[i].desc = descs[i];
		l->table[i].worst = xcalloc(l->o.worst ?: 1, sizeof(*l->table[i].worst));
	}
	l->guest = xcalloc(l->map->nvm + 1, sizeof(*l->guest));
	ret = tl_source_end(l->t, tl_source(l->t, 0), &l->stop);
	if (!ret)
		l->stop = UINT64_MAX;
	for (size_t i = !l->alone; i < l->nsrc && ret >= 0; i++)
		if (tl_source(l->t, i)->guest) {
			const struct tl_source *s = tl_source(l->t, i);
			struct lat_guest *g = &l->guest[l->map->vm[s->vm].of];
			uint64_t stop;

			/* Where the guest's capture ends: later interrupts are not unhandled. */
			ret = tl_source_end(l->t, s, &stop);
			if (ret >= 0) {
				if (!ret)
					stop = UINT64_MAX;
				g->stop = g->src ? MAX(g->stop, stop)
						 : stop; /* a VM may have several captures */
				g->src = s;
				g->uncertain = MAX(g->uncertain, l->map->vm[s->vm].uncertain);
				ret = 0;
			}
		}
	if (ret < 0)
		return ret;
	if (l->o.want[LAT_MEM])
		lat_mem_new(l);
	if (l->o.want[LAT_NET])
		lat_net_new(l);
	if (l->alone)
		lat_tasks_new(l);
	else if (l->o.want[LAT_IO])
		lat_path_new(l);
	lat_io_new(l);
	lat_workers_new(l);
	lat_hrtimers_new(l);
	return 0;
}

int lat_new(const struct timeline *t, const struct lat_opts *o, struct lat **out,
	    struct kvmft_err *err)
{
	struct lat *l = xcalloc(1, sizeof(*l));
	int ret = 0;

	*out = NULL;
	l->t = t;
	l->map = tl_hostmap(t);
	l->irqs = event_irqs(l->map->fmt);
	l->o = *o;
	l->o.want[LAT_EVENT] = o->spans.from;
	l->nsrc = tl_sources(t);
	l->alone = tl_source(t, 0)->guest && tl_source(t, 0)->vm != HOSTMAP_END;
	l->khz = tl_source(t, 0)->cap->tsc_khz;
	l->some_switches = tl_source(t, 0)->cap->some_switches;
	l->dec = xcalloc(l->nsrc, sizeof(*l->dec));
	l->vm_groups = xcalloc(LAT_TABLES * (l->map->nvm + 1), sizeof(*l->vm_groups));
	l->seen = xcalloc(l->nsrc, sizeof(*l->seen));
	hash_key_init(&l->group_key);
	for (size_t i = 0; i < l->nsrc; i++) {
		const struct tl_source *s = tl_source(t, i);

		l->dec[i] = lat_decoder_new(s->fmt, s->guest);
		/* What ends a handler, from the start where it is known that it was recorded. */
		for (size_t k = 0; !s->cap->is_tracedat && fmt_at(s->fmt, k); k++) {
			enum event_role r = event_role_of(fmt_at(s->fmt, k));

			l->seen[i][r] |= r == EV_IRQ_EXIT || r == EV_SOFTIRQ_EXIT ||
					 r == EV_VECTOR_EXIT;
		}
	}
	for (size_t i = 0; !ret && i < l->nsrc; i++)
		ret = event_arch_check(tl_source(t, i)->cap, tl_source(t, i)->fmt, err);
	ret = ret ?: feed_need(l, err);
	if (!ret && l->o.want[LAT_EVENT])
		ret = spans_new(t, &l->o.spans, l->o.vm, &l->spans, err);
	if (!ret)
		know_evidence(l);
	for (size_t i = 0; !ret && !l->chains && i < l->nsrc; i++)
		lat_decoder_spare(l->dec[i], l->o.want[LAT_MEM]);
	for (size_t i = 0; !ret && o->states_only && i < l->nsrc; i++)
		lat_decoder_states(l->dec[i]);
	if (!ret && (ret = lat_make_tables(l)))
		err_why(err, ret, "cannot read the captures");
	if (ret) {
		lat_free(l);
	} else {
		feed_notes(l);
		*out = l;
	}
	return ret;
}

/* ---- the walk ---- */

struct lat_vcpu *lat_vcpu_get(struct lat *l, size_t vm, uint32_t id)
{
	struct lat_vcpu **near = &l->near[near_slot((uint32_t)vm, id, LAT_NEAR_BITS)], *v = *near;
	uint64_t key = (uint64_t)vm << 32 | id, at;

	if (!v || v->vm != vm || v->id != id) {
		v = u64map_get(&l->vcpu_at, key, &at) ? l->vcpu[at] : xcalloc(1, sizeof(*v));
		*near = v;
	}
	if (!v->numbers) { /* new */
		xarray_grow(&l->heard, l->nvcpu, &l->heard_cap, sizeof(*l->heard));
		xu64map_put(&l->vcpu_at, key, l->nvcpu);
		xarray_add(&l->vcpu, &l->nvcpu, &l->vcpu_cap, &v, sizeof(v));
		v->vm = vm;
		v->id = id;
		v->next_of_vm = l->guest[vm].vcpu;
		l->guest[vm].vcpu = v;
		v->numbers = l->irqs->numbers;
	}
	if (!v->heard)
		l->heard[l->nheard++] = v;
	v->heard = v->fresh = true;
	return v;
}

/* What vCPUs' threads do, according to the scheduler. */
static void feed_state(struct lat *l, const struct lat_in *in)
{
	if (in->kind == EV_WAKEUP)
		lat_vcpu_wake(l, in);
	else if (in->kind == EV_SWITCH)
		lat_vcpu_switch(l, in);
}

/* sched and block events are made by the thread, but are not about it. */
static bool is_of_thread(enum event_role kind)
{
	return kind < EV_SWITCH && kind != EV_ACCEPT && kind != EV_APICV_ACCEPT &&
	       kind != EV_VGIC && kind != EV_DOORBELL && kind != EV_GA_LOG;
}

static void left_to_kvm(struct lat *l, const struct lat_vcpu *v, bool ipi)
{
	if (v)
		lat_count(l, v, LAT_T_IRQ, ipi ? IRQ_AVIC_IPIS : IRQ_AVIC_ACCESSES);
}

static void feed_host(struct lat *l, const struct lat_in *in)
{
	struct lat_vcpu *v = NULL;

	if (in->i->vm >= 0 && in->i->vcpu >= 0)
		v = lat_vcpu_get(l, (size_t)in->i->vm, (uint32_t)in->i->vcpu);
	if (l->o.want[LAT_WAIT] && !in->i->src->index)
		lat_wait_host(l, v, in);
	if (l->path)
		lat_path_event(l, in);
	if (lat_path_is(in->kind))
		return;
	if (in->kind == EV_WAKING && l->net)
		lat_net_host(l, in);
	if (lat_mem_is(in->kind)) {
		if (l->mem)
			lat_mem_event(l, v, in);
		return;
	}
	if (lat_net_is(in->kind)) {
		if (l->net)
			lat_net_host(l, in);
		return;
	}
	if (v && is_of_thread(in->kind)) {
		/* An injection is part of the entry that follows it. */
		if (in->kind == EV_ENTRY && l->mem)
			lat_mem_entry(l, v, in);
		if (in->kind == EV_ENTRY && l->chains)
			lat_irq_entry(l, v, in->t);
		lat_vcpu_host(l, v, in);
		if (in->kind == EV_EXIT && l->mem)
			lat_mem_exit(l, v, in);
		if (in->kind == EV_EXIT && v->state == VS_HALTED && l->chains)
			lat_irq_passed(l, v, in->t, -1, PAST_HALT);
	}
	if (v && (in->kind == EV_MMIO || in->kind == EV_FAST_MMIO))
		lat_mem_device(v);
	if (!l->chains) {
		feed_state(l, in);
		return;
	}
	if (l->net && v && lat_is_doorbell(in))
		lat_net_doorbell(l, v);
	lat_io_host(l, v, in);
	lat_irq_raised(l, in);
	if (l->net)
		lat_net_host(l, in);
	switch (in->kind) {
	case EV_ACCEPT:
	case EV_APICV_ACCEPT: lat_irq_accept(l, in); return;
	case EV_VGIC: lat_irq_line(l, in); return;
	case EV_APICV_INHIBIT: lat_irq_inhibit(l, in); return;
	case EV_DOORBELL:
	case EV_GA_LOG: lat_irq_avic(l, in); return;
	case EV_AVIC_IPI:
	case EV_AVIC_ACCESS: left_to_kvm(l, v, in->kind == EV_AVIC_IPI); return;
	case EV_EXIT: l->svm = in->f[1] == EXIT_ISA_SVM; return;
	case EV_INJECT:
		if (v)
			lat_irq_inject(l, v, in);
		return;
	case EV_EOI: lat_irq_eoi(l, in); return;
	case EV_MSR:
		if (v)
			lat_timer_msr(l, v, in);
		return;
	case EV_HV_TIMER:
		if (v)
			lat_stimer_set(l, v, in);
		return;
	case EV_HV_EXPIRED:
	case EV_HV_SYNIC:
		if (v)
			lat_irq_hyperv(l, v, in);
		return;
	case EV_SWITCH:
		lat_worker_switch(l, in);
		lat_vcpu_switch(l, in);
		return;
	case EV_WAKEUP:
		if (l->ga_tid)
			lat_irq_avic(l, in);
		lat_worker_wake(l, in);
		lat_vcpu_wake(l, in);
		return;
	default: return;
	}
}

static void feed_guest(struct lat *l, const struct lat_in *in)
{
	struct lat_vcpu *v;

	if (in->i->vm < 0 || in->i->vcpu < 0)
		return;
	v = lat_vcpu_get(l, (size_t)in->i->vm, (uint32_t)in->i->vcpu);
	if (!l->guest[in->i->vm].begun && !in->i->unplaced) {
		size_t vm = (size_t)in->i->vm;

		/* A guest's first event: who handled what was injected before is unknown. */
		l->guest[vm].begun = true;
		l->guest[vm].begin = in->t;
		for (struct lat_vcpu *o = l->guest[vm].vcpu; o; o = o->next_of_vm)
			lat_irq_passed(l, o, in->t, -1, PAST_ALL);
	}
	if (l->alone)
		lat_own_guest(l, v, in);
	if (!l->chains) {
		lat_vcpu_guest(l, v, in);
		return;
	}
	if (!l->alone)
		lat_irq_guest(l, v, in);
	lat_io_guest(l, v, in);
	if (in->kind >= EV_HRTIMER_START && in->kind <= EV_HRTIMER_EXPIRE)
		lat_hrtimer_guest(l, v, in);
	if (l->net)
		lat_net_guest(l, v, in);
	lat_vcpu_guest(l, v, in);
}

static void vcpu_forget(struct lat *l, struct lat_vcpu *v, bool guest)
{
	lat_irq_forget(l, v);
	v->fresh = false;
	v->io_pending = 0;
	if (guest) { /* the host's gaps hide nothing of what it runs */
		v->guest_known = false;
		v->irq_depth = v->softirq_depth = 0;
		return;
	}
	lat_vcpu_forget(l, v);
	lat_count_add(l, v->vm, v->id, LAT_T_TIMER, TIMER_CUT, v->armed);
	v->armed = false;
	lat_count_add(l, v->vm, v->id, LAT_T_WAIT, HALT_CUT, v->halt != 0);
	v->halt = v->kicked = 0;
}

/* Whatever was in progress may have ended in the gap. */
static void feed_gap(struct lat *l, const struct tl_item *i)
{
	int64_t vm_or_all = i->src->guest ? i->vm : -1;
	bool of_one = i->src->guest && !l->alone; /* others go on */
	uint64_t *blind;

	if (i->src->qemu) {
		lat_io_qemu_forget(l);
		return;
	}
	blind = of_one ? &l->guest[i->vm].blind_until : &l->blind_until;
	*blind = MAX(*blind, i->host + i->width);
	for (struct lat_vcpu *v = of_one ? l->guest[i->vm].vcpu : NULL; v; v = v->next_of_vm)
		if (v->fresh)
			vcpu_forget(l, v, true);
	for (size_t k = 0; k < l->nheard && !of_one; k++)
		vcpu_forget(l, l->heard[k], i->src->guest);
	lat_hrtimers_forget(l, vm_or_all);
	lat_tasks_over(l, true);
	l->ga_tid = 0;
	for (struct lat_guest *g = l->inhibited; g && !i->src->guest; g = g->next_inhibited) {
		g->apicv.cycles += g->apicv.now ? l->now - g->apicv.since : 0;
		g->apicv.now = 0;
		g->is_inhibited = false;
	}
	if (!i->src->guest) {
		l->inhibited = NULL;
		lat_path_forget(l);
		l->cpu_gen++;
	}
	lat_io_forget(l, vm_or_all);
	lat_net_forget(l, vm_or_all);
	if (!i->src->guest)
		lat_mem_forget(l);
	for (; l->nheard && !of_one; l->nheard--)
		l->heard[l->nheard - 1]->heard = false;
}

void lat_feed(void *lat, const struct tl_item *i)
{
	struct lat *l = lat;
	struct lat_in in;

	if (l->spans)
		lat_event_feed(l, i);
	if (i->kind != TL_EVENT) {
		feed_gap(l, i);
		return;
	}
	if (i->src->qemu || i->marker) {
		if (i->host >= l->blind_until && lat_decode_qemu(i, &in))
			lat_io_qemu(l, &in);
		return;
	}
	l->now = MAX(l->now, i->host);
	if (!i->src->guest || l->alone) {
		if (!l->begun)
			l->begin = i->host;
		l->begun = true;
		l->end = MAX(l->end, i->host);
	}
	if (i->host < l->blind_until ||
	    (i->src->guest && !l->alone && i->host < l->guest[i->vm].blind_until)) {
		/* What a guest runs its own events tell, also where the host's are lost. */
		if (i->src->guest && !l->alone && i->host >= l->guest[i->vm].blind_until &&
		    i->vcpu >= 0 && lat_decode(l->dec[i->src->index], i, &in))
			lat_vcpu_guest(l, lat_vcpu_get(l, (size_t)i->vm, (uint32_t)i->vcpu), &in);
		return;
	}
	if (!lat_decode(l->dec[i->src->index], i, &in)) {
		/* A guest's still show the task, and whether preemption or interrupts were off. */
		if (i->src->guest)
			feed_guest(l, &(struct lat_in){ .kind = EV_NONE, .i = i, .t = i->host });
		return;
	}
	if (!l->seen[i->src->index][in.kind]) {
		l->seen[i->src->index][in.kind] = true;
		know_evidence(l);
	}
	if (i->src->guest) {
		feed_guest(l, &in);
	} else if (l->o.states_only) {
		struct lat_vcpu *v;

		/* The same, when nothing but lat_vcpu_now() is wanted. */
		if (!is_of_thread(in.kind)) {
			feed_state(l, &in);
			return;
		}
		if (in.i->vm < 0 || in.i->vcpu < 0)
			return;
		v = lat_vcpu_get(l, (size_t)i->vm, (uint32_t)i->vcpu);
		lat_vcpu_host(l, v, &in);
	} else {
		feed_host(l, &in);
	}
}

void lat_finish(struct lat *l)
{
	uint64_t around;
	char text[128], off[32];

	for (size_t k = 0; k < l->nvcpu; k++) {
		struct lat_vcpu *v = l->vcpu[k];

		lat_vcpu_finish(l, v);
		lat_count_add(l, v->vm, v->id, LAT_T_TIMER, TIMER_OPEN, v->armed);
		lat_count_add(l, v->vm, v->id, LAT_T_WAIT, HALT_OPEN, v->halt != 0);
		lat_waits_ran(l, v->vm, v->id, 0, LAT_NOT_SEEN);
	}
	if (l->table[LAT_T_TIMER].count[TIMER_UNPLACED] &&
	    !l->table[LAT_T_TIMER].count[TIMER_FIRED])
		lat_note_add(l, other_clock);
	lat_irq_finish(l);
	l->table[LAT_T_TIMER].count[TIMER_UNSEEN] = l->table[LAT_T_TIMER].count[TIMER_FIRED] -
						    l->table[LAT_T_TIMER].count[TIMER_MEASURED];
	lat_io_finish(l);
	lat_mem_finish(l);
	lat_net_finish(l);
	lat_hrtimers_finish(l);
	lat_tasks_over(l, false);
	lat_event_finish(l);
	/* How far off the stages divided by QEMU's own events may be. */
	around = lat_io_qemu_around(l);
	if (around) {
		if (l->khz)
			str_ns(off, sizeof(off), lat_span(l, around));
		else
			snprintf(off, sizeof(off), "%llu cycles", (unsigned long long)around);
		snprintf(
			text, sizeof(text),
			"take, block and notify are by QEMU's own clock, and may be off by %s either way",
			off);
		lat_note_add(l, text);
	}
	if (l->o.want[LAT_NET] && l->o.vcpu >= 0)
		lat_note_add(l, "net: packets of all vCPUs are counted: when one is sent, "
				"nothing tells which vCPU will get it");
	if (l->o.want[LAT_SCHED] && l->unseen_switches)
		lat_note_add(
			l,
			"the host's switches between threads of no VM are not all recorded (`kvmft "
			"record -e default -e sched:sched_switch` has all): which of them ran between "
			"the first and the last named is not known");
	if (l->needs && !l->o.cases_only) {
		_cleanup_(sbuf_free) struct sbuf b = { 0 };

		sbuf_add(&b, "what was not recorded would be shown by ");
		evidence_remedy(l->needs, &b);
		lat_note_add(l, xsbuf_text(&b));
	}
	for (unsigned int i = 0; i < LAT_TABLES; i++) {
		lat_table_untold(l, (enum lat_table_id)i);
		lat_table_sort(&l->table[i]);
	}
}

/* ---- results ---- */

const struct lat_table *lat_table(const struct lat *l, enum lat_table_id id)
{
	return &l->table[id];
}

bool lat_has_table(const struct lat *l, enum lat_table_id id)
{
	const uint32_t alone = 1u << LAT_T_TASK | 1u << LAT_T_HANDLER,
		       both = 1u << LAT_T_IO | 1u << LAT_T_HRTIMER | 1u << LAT_T_EVENT;
	uint32_t has = l->alone ? alone | both : ~alone;

	return l->o.want[lat_table_kind(id)] && has >> id & 1 &&
	       (id < LAT_T_MEM_VCPU || l->o.mem_by >> (id - LAT_T_MEM_VCPU) & 1);
}

bool lat_apicv(const struct lat *l, size_t vm, struct lat_apicv *a)
{
	*a = l->guest[vm].apicv;
	a->cycles += a->now ? l->end - a->since : 0;
	a->known = l->guest[vm].apicv_gen == l->cpu_gen + 1;
	return a->ever;
}

bool lat_in_cycles(const struct lat *l)
{
	return !l->khz;
}

size_t lat_vcpus(const struct lat *l)
{
	return l->nvcpu;
}

bool lat_vcpu_times(const struct lat *l, size_t i, struct lat_times *t)
{
	const struct lat_vcpu *v = l->vcpu[i];

	*t = (struct lat_times){
		.vm = v->vm, .vcpu = v->id, .tid = v->tid, .first = v->first, .last = v->last
	};
	for (unsigned int s = 0; s < VS_STATES; s++)
		t->time[lat_lacks(l, "vcpu", vs_names[s]) ? VS_UNKNOWN : s] += v->time[s];
	return !l->alone && lat_wanted(l, (int64_t)v->vm, v->id);
}

const bool *lat_answers(const struct lat *l)
{
	return l->o.want;
}

const char *lat_left_out(const struct lat *l, enum lat_kind kind)
{
	return l->left_out[kind];
}

const char *lat_note(const struct lat *l, size_t i)
{
	return i < l->nnote ? l->note[i] : NULL;
}

void lat_free(struct lat *l)
{
	if (!l)
		return;
	for (size_t i = 0; l->dec && i < l->nsrc; i++)
		free(l->dec[i]);
	free(l->dec);
	free(l->seen);
	spans_free(l->spans);
	lat_mem_free(l);
	lat_net_free(l);
	for (size_t i = 0; i < l->nvcpu; i++) {
		free(l->vcpu[i]->chain);
		free(l->vcpu[i]);
	}
	free(l->vcpu);
	free(l->heard);
	free(l->vm_groups);
	for (unsigned int i = 0; i < LAT_TABLES; i++) {
		struct lat_table *t = &l->table[i];

		for (size_t g = 0; g < t->ngroup; g++)
			for (unsigned int s = 0; s < LAT_STAGES; s++) {
				loghist_free(t->group[g].stage[s]);
				free(t->group[g].stage[s]);
			}
		free(t->group);
		free(t->worst);
		u64map_free(&l->group_at[i]);
	}
	strings_free(l->note, l->nnote);
	free(l->cpu);
	for (size_t i = 0; l->guest && i <= l->map->nvm; i++)
		free(l->guest[i].handler);
	free(l->guest);
	u64map_free(&l->vcpu_at);
	free(l->device);
	u64map_free(&l->device_at);
	u64map_free(&l->did);
	u64map_free(&l->irq_vector);
	u64map_free(&l->irq_vcpu);
	u64map_free(&l->ga_vm);
	lat_io_free(l);
	lat_workers_free(l);
	lat_path_free(l);
	lat_hrtimers_free(l);
	lat_tasks_free(l);
	free(l);
}
