/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_ftrace.c: events as Perfetto's own recorder writes them: FtraceEventBundle, one CPU's
 * events each; which events Perfetto has a message for, and how each other type is written. Field
 * numbers are those of perfetto's protos/perfetto/trace/ftrace.
 *
 * A message is a line of the table: the field of FtraceEvent that it is, whether Perfetto makes
 * something of it (a state of a thread, a slice, a name), and its fields, as the kernel calls them,
 * with their numbers: "name=number", then "s" where it is text, "*" where it is repeated, and "!"
 * where the message tells nothing without it. All numbers are varints: their sizes do not matter.
 *
 * What is not in the table, or has fields that the message has no place for, becomes an event with
 * a description of its own (FtraceEventBundle.generic_event_descriptors), with all fields: but for
 * those that Perfetto makes something of.
 */
#include "perfetto.h"

#include <malloc.h>

enum {
	/* TracePacket */
	FTRACE_EVENTS = 1,
	/* FtraceEventBundle */
	BUNDLE_CPU = 1, BUNDLE_EVENT = 2, BUNDLE_LOST = 3, BUNDLE_DESCRIPTOR = 11,
	/* FtraceEvent */
	EVENT_TIME = 1, EVENT_PID = 2,
	/* GenericFtraceEvent and its Field */
	GENERIC_NAME = 1, GENERIC_FIELD = 2, FIELD_NAME = 1, FIELD_STRING = 3, FIELD_INT = 4,
	FIELD_UINT = 5,
	/* FtraceEvent */
	GENERIC = 327, /* brings its names along */
	HRTIMER_ENTRY = 553,
};

#define MAX_CPUS    1024	/* trace processor refuses a trace with more */
#define BUNDLE	    (64u << 10) /* bytes of events kept of a CPU */
#define ALL_PENDING (2u << 20)	/* what all CPUs together keep */

static const struct pf_message {
	uint16_t number;
	bool used; /* Perfetto makes something of it */
	const char *sys, *name, *fields;
} messages[] = {
	{ 4, true, "sched", "sched_switch",
	  "prev_comm=1s! prev_pid=2! prev_prio=3 prev_state=4! next_comm=5s! next_pid=6! "
	  "next_prio=7" },
	{ 17, false, "sched", "sched_wakeup", "comm=1s pid=2 prio=3 success=4 target_cpu=5" },
	{ 18, true, "sched", "sched_blocked_reason", "pid=1 caller=2 io_wait=3" },
	{ 20, true, "sched", "sched_waking", "comm=1s pid=2! prio=3 success=4 target_cpu=5" },
	{ 114, false, "sched", "sched_wakeup_new", "comm=1s pid=2 prio=3 success=4 target_cpu=5" },
	{ 237, false, "sched", "sched_process_exec", "filename=1s pid=2 old_pid=3" },
	{ 238, false, "sched", "sched_process_exit", "comm=1s pid=2 tgid=3 prio=4" },
	{ 239, false, "sched", "sched_process_fork",
	  "parent_comm=1s parent_pid=2 child_comm=3s child_pid=4" },
	{ 240, true, "sched", "sched_process_free", "comm=1s pid=2 prio=3" },
	{ 242, false, "sched", "sched_process_wait", "comm=1s pid=2 prio=3" },
	{ 353, false, "sched", "sched_pi_setprio", "comm=1s newprio=2 oldprio=3 pid=4" },
	{ 491, false, "sched", "sched_migrate_task",
	  "comm=1s pid=2 prio=3 orig_cpu=4 dest_cpu=5 running=6 load=7" },
	{ 24, true, "irq", "softirq_entry", "vec=1!" },
	{ 25, true, "irq", "softirq_exit", "vec=1!" },
	{ 26, false, "irq", "softirq_raise", "vec=1" },
	{ 36, true, "irq", "irq_handler_entry", "irq=1! name=2s! handler=3" },
	{ 37, true, "irq", "irq_handler_exit", "irq=1 ret=2" },
	{ 559, true, "irq_vectors", "local_timer_entry", "vector=1" },
	{ 560, true, "irq_vectors", "local_timer_exit", "vector=1" },
	{ 551, false, "timer", "hrtimer_start",
	  "hrtimer=1 function=2 expires=3 softexpires=4 mode=5" },
	{ 552, false, "timer", "hrtimer_cancel", "hrtimer=1" },
	{ 553, false, "timer", "hrtimer_expire_entry", "hrtimer=1 now=2 function=3" },
	{ 554, false, "timer", "hrtimer_expire_exit", "hrtimer=1" },
	{ 555, false, "timer", "timer_start",
	  "timer=1 function=2 expires=3 now=4 deferrable=5 flags=6 bucket_expiry=7" },
	{ 556, false, "timer", "timer_cancel", "timer=1" },
	{ 557, false, "timer", "timer_expire_entry", "timer=1 now=2 function=3 baseclk=4" },
	{ 558, false, "timer", "timer_expire_exit", "timer=1" },
	{ 235, true, "task", "task_newtask", "pid=1! comm=2s clone_flags=3 oom_score_adj=4" },
	{ 236, true, "task", "task_rename", "pid=1! oldcomm=2s newcomm=3s oom_score_adj=4" },
	{ 56, false, "workqueue", "workqueue_activate_work", "work=1 function=2" },
	{ 57, true, "workqueue", "workqueue_execute_end", "work=1 function=2" },
	{ 58, true, "workqueue", "workqueue_execute_start", "work=1 function=2" },
	{ 59, false, "workqueue", "workqueue_queue_work",
	  "work=1 function=2 req_cpu=4 cpu=5 workqueue=6s" },
	{ 45, false, "block", "block_rq_issue",
	  "dev=1 sector=2 nr_sector=3 bytes=4 rwbs=5s comm=6s cmd=7s" },
	{ 115, false, "block", "block_bio_backmerge",
	  "dev=1 sector=2 nr_sector=3 rwbs=4s comm=5s" },
	{ 116, false, "block", "block_bio_bounce", "dev=1 sector=2 nr_sector=3 rwbs=4s comm=5s" },
	{ 117, false, "block", "block_bio_complete", "dev=1 sector=2 nr_sector=3 error=4 rwbs=5s" },
	{ 118, false, "block", "block_bio_frontmerge",
	  "dev=1 sector=2 nr_sector=3 rwbs=4s comm=5s" },
	{ 119, false, "block", "block_bio_queue", "dev=1 sector=2 nr_sector=3 rwbs=4s comm=5s" },
	{ 120, false, "block", "block_bio_remap",
	  "dev=1 sector=2 nr_sector=3 old_dev=4 old_sector=5 rwbs=6s" },
	{ 121, false, "block", "block_dirty_buffer", "dev=1 sector=2 size=3" },
	{ 122, false, "block", "block_getrq", "dev=1 sector=2 nr_sector=3 rwbs=4s comm=5s" },
	{ 123, false, "block", "block_plug", "comm=1s" },
	{ 125, false, "block", "block_rq_complete",
	  "dev=1 sector=2 nr_sector=3 errors=4 rwbs=5s cmd=6s error=7" },
	{ 126, false, "block", "block_rq_insert",
	  "dev=1 sector=2 nr_sector=3 bytes=4 rwbs=5s comm=6s cmd=7s" },
	{ 129, false, "block", "block_rq_requeue",
	  "dev=1 sector=2 nr_sector=3 errors=4 rwbs=5s cmd=6s" },
	{ 131, false, "block", "block_split", "dev=1 sector=2 new_sector=3 rwbs=4s comm=5s" },
	{ 132, false, "block", "block_touch_buffer", "dev=1 sector=2 size=3" },
	{ 133, false, "block", "block_unplug", "nr_rq=1 comm=2s" },
	{ 546, true, "block", "block_io_start",
	  "dev=1 sector=2 nr_sector=3 bytes=4 ioprio=5 rwbs=6s comm=7s cmd=8s" },
	{ 547, true, "block", "block_io_done",
	  "dev=1 sector=2 nr_sector=3 bytes=4 ioprio=5 rwbs=6s comm=7s cmd=8s" },
	{ 360, true, "net", "netif_receive_skb", "len=1 name=2s skbaddr=3" },
	{ 361, true, "net", "net_dev_xmit", "len=1 name=2s rc=3 skbaddr=4" },
	{ 365, true, "net", "napi_gro_receive_entry",
	  "data_len=1 gso_size=2 gso_type=3 hash=4 ip_summed=5 l4_hash=6 len=7 "
	  "mac_header=8 mac_header_valid=9 name=10s napi_id=11 nr_frags=12 protocol=13 "
	  "queue_mapping=14 skbaddr=15 truesize=16 vlan_proto=17 vlan_tagged=18 "
	  "vlan_tci=19" },
	{ 366, true, "net", "napi_gro_receive_exit", "ret=1" },
	{ 368, false, "kvm", "kvm_access_fault", "ipa=1" },
	{ 369, false, "kvm", "kvm_ack_irq", "irqchip=1 pin=2" },
	{ 370, false, "kvm", "kvm_age_hva", "end=1 start=2" },
	{ 371, false, "kvm", "kvm_age_page", "gfn=1 hva=2 level=3 referenced=4" },
	{ 372, false, "kvm", "kvm_arm_clear_debug", "guest_debug=1" },
	{ 373, false, "kvm", "kvm_arm_set_dreg32", "name=1s value=2" },
	{ 374, false, "kvm", "kvm_arm_set_regset", "len=1 name=2s" },
	{ 375, false, "kvm", "kvm_arm_setup_debug", "guest_debug=1 vcpu=2" },
	{ 376, false, "kvm", "kvm_entry", "vcpu_pc=1" },
	{ 377, false, "kvm", "kvm_exit", "esr_ec=1 ret=2 vcpu_pc=3" },
	{ 378, false, "kvm", "kvm_fpu", "load=1" },
	{ 379, false, "kvm", "kvm_get_timer_map",
	  "direct_ptimer=1 direct_vtimer=2 emul_ptimer=3 vcpu_id=4" },
	{ 380, false, "kvm", "kvm_guest_fault", "hsr=1 hxfar=2 ipa=3 vcpu_pc=4" },
	{ 381, false, "kvm", "kvm_handle_sys_reg", "hsr=1" },
	{ 382, false, "kvm", "kvm_hvc_arm64", "imm=1 r0=2 vcpu_pc=3" },
	{ 383, false, "kvm", "kvm_irq_line", "irq_num=1 level=2 type=3 vcpu_idx=4" },
	{ 384, false, "kvm", "kvm_mmio", "gpa=1 len=2 type=3 val=4" },
	{ 385, false, "kvm", "kvm_mmio_emulate", "cpsr=1 instr=2 vcpu_pc=3" },
	{ 386, false, "kvm", "kvm_set_guest_debug", "guest_debug=1 vcpu=2" },
	{ 387, false, "kvm", "kvm_set_irq", "gsi=1 irq_source_id=2 level=3" },
	{ 388, false, "kvm", "kvm_set_spte_hva", "hva=1" },
	{ 389, false, "kvm", "kvm_set_way_flush", "cache=1 vcpu_pc=2" },
	{ 390, false, "kvm", "kvm_sys_access",
	  "CRm=1 CRn=2 Op0=3 Op1=4 Op2=5 is_write=6 name=7s vcpu_pc=8" },
	{ 391, false, "kvm", "kvm_test_age_hva", "hva=1" },
	{ 392, false, "kvm", "kvm_timer_emulate", "should_fire=1 timer_idx=2" },
	{ 393, false, "kvm", "kvm_timer_hrtimer_expire", "timer_idx=1" },
	{ 394, false, "kvm", "kvm_timer_restore_state", "ctl=1 cval=2 timer_idx=3" },
	{ 395, false, "kvm", "kvm_timer_save_state", "ctl=1 cval=2 timer_idx=3" },
	{ 396, false, "kvm", "kvm_timer_update_irq", "irq=1 level=2 vcpu_id=3" },
	{ 397, false, "kvm", "kvm_toggle_cache", "now=1 vcpu_pc=2 was=3" },
	{ 398, false, "kvm", "kvm_unmap_hva_range", "end=1 start=2" },
	{ 399, false, "kvm", "kvm_userspace_exit", "reason=1" },
	{ 400, false, "kvm", "kvm_vcpu_wakeup", "ns=1 valid=2 waited=3" },
	{ 401, false, "kvm", "kvm_wfx_arm64", "is_wfe=1 vcpu_pc=2" },
	{ 403, false, "kvm", "vgic_update_irq_pending", "irq=1 level=2 vcpu_id=3" },
	{ 11, true, "power", "cpu_frequency", "state=1 cpu_id=2!" },
	{ 12, true, "power", "cpu_frequency_limits", "min_freq=1 max_freq=2 cpu_id=3" },
	{ 13, true, "power", "cpu_idle", "state=1 cpu_id=2!" },
	{ 113, true, "power", "suspend_resume", "action=1s val=2 start=3" },
	{ 404, true, "power", "wakeup_source_activate", "name=1s state=2" },
	{ 405, true, "power", "wakeup_source_deactivate", "name=1s state=2" },
	{ 21, false, "ipi", "ipi_entry", "reason=1s" },
	{ 22, false, "ipi", "ipi_exit", "reason=1s" },
	{ 23, false, "ipi", "ipi_raise", "target_cpus=1 reason=2s" },
	{ 324, true, "signal", "signal_deliver", "code=1 sa_flags=2 sig=3" },
	{ 325, true, "signal", "signal_generate", "code=1 comm=2s group=3 pid=4 result=5 sig=6" },
	{ 329, true, "raw_syscalls", "sys_enter", "id=1! args=2*" },
	{ 330, true, "raw_syscalls", "sys_exit", "id=1! ret=2" },
	{ 3, true, "ftrace", "print", "ip=1 buf=2s" },
};

#define FIRST_OWN      65536 /* of FtraceEvent: from here on those that a trace describes itself */
#define MAX_OWN_FIELDS 31

/* ---- how a type is written ---- */

static const struct pf_message *message_of(const struct fmt_event *ev)
{
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		if (!strcmp(messages[i].name, fmt_name(ev)) &&
		    !strcmp(messages[i].sys, fmt_sys(ev)))
			return &messages[i];
	return NULL;
}

/* Whether its values are; others are text. */
static bool is_number(const struct fmt_field *f)
{
	return !f->is_array && (f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8);
}

/* By the table's line, in its order. False: the event is not the one that the line means. */
static bool fill_message(struct pf_type *t, const struct pf_message *m)
{
	const struct fmt_event *ev = t->info->ev;

	for (const char *s = m->fields; *s; s += strcspn(s, " "), s += *s == ' ') {
		const char *is = strchr(s, '=');
		char *end;
		unsigned long number = strtoul(is + 1, &end, 10);
		const char *next = s + strcspn(s, " "), *name;
		const struct fmt_field *at = NULL; /* not in the capture */

		for (size_t k = fmt_common_fields(ev); !at && (name = fmt_field_name(ev, k)); k++)
			if (strlen(name) == (size_t)(is - s) && !memcmp(name, s, (size_t)(is - s)))
				at = fmt_field_at(ev, k);
		/* A field of the capture has the message's type: readers rely on that. */
		if (!at ? next[-1] == '!'
			: !(*end == 's'	  ? at->is_string
			    : *end == '*' ? at->is_array && !at->is_string
					  : is_number(at)))
			return false;
		if (at)
			t->field[t->nfield++] =
				(struct pf_field){ .at = at, .number = (uint8_t)number };
	}
	t->number = m->number;
	return m->used || t->nfield == evinfo_fields(ev);
}

/* Events that Perfetto makes slices of, by the numbers of their messages. */
static const struct {
	uint16_t entry, exit;
} pairs[PF_PAIRS] = { { 36, 37 },   { 24, 25 }, { 559, 560 }, { 365, 366 },
		      { 553, 554 }, { 58, 57 }, { 329, 330 } };

static void fill_own(struct pf_type *t, uint32_t *next)
{
	const struct fmt_event *ev = t->info->ev;
	const struct fmt_field *at;

	t->nfield = 0;
	for (size_t k = fmt_common_fields(ev); (at = fmt_field_at(ev, k)); k++, t->nfield++)
		t->field[t->nfield] =
			(struct pf_field){ .at = at, .number = (uint8_t)(t->nfield + 1) };
	if (t->info->is_stack)
		t->nfield = 0; /* it has one of its own */
	t->form = t->nfield > MAX_OWN_FIELDS ? PF_GENERIC : PF_DESCRIBED;
	t->number = t->form == PF_GENERIC ? GENERIC : FIRST_OWN + (*next)++;
}

static struct pf_type *pf_type_of(struct pf *p, const struct tl_item *i, bool own)
{
	uint64_t key = tl_type(i) | (uint64_t)own << 63;
	struct pf_type **slot =
		xu64map_elem(&p->type_of, key, &p->type, &p->type_cap, sizeof(*slot));
	struct pf_type *t;
	const struct pf_message *m;

	if (*slot)
		return *slot;
	*slot = xcalloc(1, sizeof(**slot));
	t = *slot;
	t->info = evinfo_get(&p->types, i);
	t->field = xcalloc(evinfo_fields(i->ev) + 1, sizeof(*t->field));
	m = i->marker || own ? NULL : message_of(i->ev);
	if (!m || !fill_message(t, m))
		fill_own(t, &p->next_own);
	if (t->form == PF_TYPED) {
		for (uint8_t k = 0; k < PF_PAIRS; k++)
			if (t->number == pairs[k].entry || t->number == pairs[k].exit) {
				t->pair = (uint8_t)(k + 1);
				t->ends = t->number == pairs[k].exit;
			}
	}
	/* Were the exits that belong to these entries not even requested? */
	if (t->pair && !t->ends) {
		const struct fmt_event *ev;
		bool lacks = true;

		for (size_t k = 0; (ev = fmt_at(tl_fmt(i), k)); k++) {
			m = message_of(ev);
			lacks &= !m || m->number != pairs[t->pair - 1].exit;
		}
		if (lacks) {
			t->pair = 0;
			fill_own(t, &p->next_own);
		}
	}
	return *slot;
}

struct pf_type *pf_type(struct pf *p, const struct tl_item *i)
{
	struct pf_type *t = pf_type_of(p, i, false);
	char text[4] = "";

	/* Not a text of slices and counters, "B|77|name", which would count as errors. */
	if (t->info->role == EV_PRINT &&
	    (!fmt_str(&t->info->type->f[0], i->rec, text, sizeof(text)) ||
	     !strchr("BCEFGHINS", text[0]) || text[1] != '|'))
		t = pf_type_of(p, i, true);
	return t;
}

void pf_type_free(struct pf_type *t)
{
	if (t)
		free(t->field);
	free(t);
}

static void describe_field(struct sbuf *b, const char *name, uint32_t number, uint64_t type)
{
	enum { FIELD = 2, DESCRIBED_NAME = 1, NUMBER = 3, LABEL = 4, TYPE = 5, OPTIONAL = 1 };
	size_t mark = pb_begin(b, FIELD);

	pb_str(b, DESCRIBED_NAME, name);
	pb_u64(b, NUMBER, number);
	pb_u64(b, LABEL, OPTIONAL);
	pb_u64(b, TYPE, type);
	pb_end(b, mark);
}

/* FtraceEventBundle.GenericEventDescriptor, and the DescriptorProto in it. */
static void pf_describe(const struct pf_type *t, struct sbuf *b, uint32_t field)
{
	enum { FIELD_ID = 1, DESCRIPTOR = 2, GROUP = 3, NAME = 1 };
	enum { INT64 = 3, UINT64 = 4, STRING = 9 };
	const struct fmt_event *ev = t->info->ev;
	size_t all = pb_begin(b, field), mark;

	pb_u64(b, FIELD_ID, t->number);
	mark = pb_begin(b, DESCRIPTOR);
	pb_str(b, NAME, fmt_name(ev));
	for (size_t k = 0; k < t->nfield; k++) {
		const struct fmt_field *at = t->field[k].at;

		describe_field(b, fmt_field_name(ev, fmt_common_fields(ev) + k), t->field[k].number,
			       !is_number(at) ? STRING : at->is_signed ? INT64 : UINT64);
	}
	if (t->info->is_stack)
		describe_field(b, PF_STACK, 1, STRING);
	pb_end(b, mark);
	pb_str(b, GROUP, fmt_sys(ev));
	pb_end(b, all);
}

/* ---- the bundle ---- */

bool pf_has_cpu(const struct tl_item *i)
{
	return i->cpu < MAX_CPUS;
}

struct pf_cpu *pf_cpu(struct pf *p, const struct tl_item *i)
{
	uint64_t key = (uint64_t)i->src->index << 32 | i->cpu;
	struct pf_cpu *c = xu64map_elem(&p->cpu_of, key, &p->cpu, &p->cpu_cap, sizeof(*c));

	if (!c->m) {
		c->m = p->of[i->src->index];
		c->cpu = i->cpu;
	}
	return c;
}

static void bundle_flush(struct pf_cpu *c)
{
	struct sbuf *b = c->m->to;
	size_t packet, bundle;

	if (!c->event.len && !c->event.error)
		return;
	packet = pb_begin(b, PF_PACKET);
	if (c->m->id)
		pb_u64(b, 98, c->m->id);
	bundle = pb_begin(b, FTRACE_EVENTS);
	pb_u64(b, BUNDLE_CPU, c->cpu);
	if (c->lost)
		pb_u64(b, BUNDLE_LOST, 1);
	xsbuf_text(&c->event);
	sbuf_add_mem(b, c->event.s, c->event.len);
	pb_end(b, bundle);
	pb_end(b, packet);
	c->event.len = 0;
	c->lost = false;
}

/* What a capture of very many CPUs must not do: keep that much of each. */
void pf_ftrace_flush(struct out *o, struct pf *p)
{
#ifdef M_TRIM_THRESHOLD
	/* It is soon needed again: new pages would cost more than what is written. */
	(void)mallopt(M_TRIM_THRESHOLD, 4 * ALL_PENDING);
#endif
	for (size_t i = 0; i < p->cpu_of.n; i++) {
		bundle_flush(&p->cpu[i]);
		sbuf_free(&p->cpu[i].event);
		if (o->line.len > (256u << 10))
			out_flush(o);
	}
	p->pending = 0;
}

void pf_ftrace_lost(struct pf *p, struct pf_cpu *c)
{
	bundle_flush(c);
	c->lost = true;
	memset(c->entered, 0, sizeof(c->entered));
	u64map_free(&p->entered);
}

/* ---- one event ---- */

/* "0x1 0x1ff"; of bytes "01 ff" */
void pf_put_array(struct sbuf *b, uint32_t number, const struct fmt_value *v)
{
	char text[PF_SHOWN * 24], *t = text;

	for (uint32_t i = 0; i < v->len && i < PF_SHOWN; i++)
		t += snprintf(t, (size_t)(text + sizeof(text) - t),
			      v->elem == 1 ? "%s%02" PRIx64 : "%s0x%" PRIx64, i ? " " : "",
			      fmt_element(v, i));
	pb_str_mem(b, number, text, (size_t)(t - text));
}

static void put_field(struct sbuf *b, const struct pf_type *t, const struct pf_field *fld,
		      const struct rec *rec)
{
	struct fmt_value v;

	fmt_value(fld->at, rec, &v);
	switch (v.kind) {
	case FMT_ABSENT: break;
	case FMT_STRING: pb_str_mem(b, fld->number, v.p, v.len); break;
	case FMT_NUMBERS:
		if (t->form != PF_TYPED)
			pf_put_array(b, fld->number, &v);
		for (uint32_t i = 0; t->form == PF_TYPED && i < v.len && i < PF_SHOWN; i++)
			pb_u64(b, fld->number, fmt_element(&v, i));
		break;
	default: pb_u64(b, fld->number, v.num); break;
	}
}

/* Time and thread, before the message: the order that trace processor reads fastest. */
static size_t event_begin(struct sbuf *b, const struct pf *p, const struct tl_item *i)
{
	size_t mark = pb_begin(b, BUNDLE_EVENT);

	pb_u64(b, EVENT_TIME, p->now + p->add);
	pb_u64(b, EVENT_PID, (uint32_t)i->tid);
	return mark;
}

/* ---- with names and values: for which no message can be described, or is not enough ---- */

static void put_generic(struct pf *p, struct pf_cpu *c, const struct tl_item *i)
{
	struct sbuf *b = &c->event;
	bool stack = i->ev && fmt_is_stack(i->ev);
	size_t event = event_begin(b, p, i), mark, one;
	struct fmt_value v;

	mark = pb_begin(b, GENERIC);
	pb_str(b, GENERIC_NAME, i->ev ? fmt_name(i->ev) : "(no format)");
	for (size_t k = i->ev ? fmt_common_fields(i->ev) : 0;
	     i->ev && !stack && fmt_field_at(i->ev, k); k++) {
		fmt_value(fmt_field_at(i->ev, k), i->rec, &v);
		if (v.kind == FMT_ABSENT)
			continue;
		one = pb_begin(b, GENERIC_FIELD);
		pb_str(b, FIELD_NAME, fmt_field_name(i->ev, k));
		switch (v.kind) {
		case FMT_SIGNED: pb_s64(b, FIELD_INT, (int64_t)v.num); break;
		case FMT_STRING: pb_str_mem(b, FIELD_STRING, v.p, v.len); break;
		case FMT_NUMBERS: pf_put_array(b, FIELD_STRING, &v); break;
		default: pb_u64(b, FIELD_UINT, v.num); break;
		}
		pb_end(b, one);
	}
	if (stack) {
		one = pb_begin(b, GENERIC_FIELD);
		sbuf_reset(&p->scratch);
		fmt_print(i->ev, i->rec, &p->scratch);
		pb_str(b, FIELD_NAME, PF_STACK);
		pb_str_mem(b, FIELD_STRING, p->scratch.s, p->scratch.len);
		pb_end(b, one);
	}
	if (i->unplaced) {
		one = pb_begin(b, GENERIC_FIELD);
		pb_str(b, FIELD_NAME, "unplaced");
		pb_u64(b, FIELD_INT, 1);
		pb_end(b, one);
	}
	pb_end(b, mark);
	pb_end(b, event);
}

/* The same of a thread: some end without an exit (exit_group), and their numbers come again. */
static bool is_thread_unpaired(struct pf *p, struct pf_cpu *c, const struct pf_type *t,
			       const struct tl_item *i)
{
	enum { LEFT_OPEN = 8, THREADS = 65536 };
	unsigned int k = t->pair - 1u;
	uint64_t n = 0, key = (uint64_t)i->src->index << 40 | (uint64_t)k << 32 | (uint32_t)i->tid;
	bool *none = &c->m->no_exits[k];

	c->m->exits[k] |= t->ends;
	if (*none)
		return true;
	(void)u64map_take(&p->entered, key, &n);
	if (p->entered.n > THREADS)
		u64map_free(&p->entered);
	if (t->ends)
		n -= n > 0;
	else
		n++;
	*none = n > (c->m->exits[k] ? LEFT_OPEN : 1);
	if (n)
		xu64map_put(&p->entered, key, n);
	return *none;
}

/* Entries without exits would nest without end: from the second on they are only events. */
static bool is_unpaired(struct pf *p, struct pf_cpu *c, const struct pf_type *t,
			const struct tl_item *item)
{
	enum { NESTED = 2 };
	unsigned int i = t->pair - 1u;

	if (!t->pair)
		return false;
	if (i >= PF_OF_THREADS)
		return is_thread_unpaired(p, c, t, item);
	if (t->ends && c->entered[i])
		c->entered[i]--;
	else if (!t->ends && c->entered[i] == (t->number == HRTIMER_ENTRY ? NESTED : 1))
		c->no_exits[i] = true;
	else if (!t->ends)
		c->entered[i]++;
	return c->no_exits[i];
}

void pf_ftrace(struct out *o, struct pf *p, struct pf_cpu *c, const struct pf_type *t,
	       const struct tl_item *i)
{
	uint64_t now = p->now + p->add;
	size_t was = c->event.cap, event, message;

	if (now < c->last) /* the clock was set: differences cannot go back */
		bundle_flush(c);
	c->last = now;
	if (t && !i->unplaced && is_unpaired(p, c, t, i))
		t = pf_type_of(p, i, true);
	if (!t || i->unplaced || t->form == PF_GENERIC) {
		put_generic(p, c, i);
	} else {
		if (t->form == PF_DESCRIBED && !t->described) {
			pf_describe(t, &c->event, BUNDLE_DESCRIPTOR);
			((struct pf_type *)t)->described = true;
		}
		event = event_begin(&c->event, p, i);
		message = pb_begin(&c->event, t->number);
		if (t->info->is_stack) {
			const struct sbuf *text = xmem((void *)fmt_stack_text(i->ev, i->rec));

			pb_str_mem(&c->event, 1, text->s, text->len);
		}
		for (size_t k = 0; k < t->nfield; k++)
			put_field(&c->event, t, &t->field[k], i->rec);
		pb_end(&c->event, message);
		pb_end(&c->event, event);
	}
	if (c->event.len >= BUNDLE)
		bundle_flush(c);
	p->pending += c->event.cap - was;
	if (p->pending >= ALL_PENDING)
		pf_ftrace_flush(o, p);
}
