/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto_messages.c: which events Perfetto has a message for, and how each type of event that a
 * capture has is written.
 *
 * An event is a line of the table: the field of FtraceEvent that it is, by the numbers of
 * perfetto's protos/perfetto/trace/ftrace, whether Perfetto makes something of it (a state of a
 * thread, a slice, a name), and its fields, as the kernel calls them, with their numbers: "name=number", then
 * "s" where it is text, "*" where it is repeated, and "!" where the message tells nothing without it.
 * All numbers are varints, so their sizes do not matter.
 *
 * What is not in the table, or has fields that the message has no place for, becomes an event with
 * a description of its own (FtraceEventBundle.generic_event_descriptors), with all fields: but for
 * those that Perfetto makes something of.
 */
#include "perfetto.h"

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

#define GENERIC	       327   /* FtraceEvent: GenericFtraceEvent, which brings its names along */
#define FIRST_OWN      65536 /* ... from here on those that a trace describes itself */
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

struct pf_type *pf_type_own(struct pf *p, const struct tl_item *i)
{
	return pf_type_of(p, i, true);
}

void pf_type_free(struct pf_type *t)
{
	if (t)
		free(t->field);
	free(t);
}

static void describe_field(struct sbuf *b, const char *name, uint32_t number, uint64_t type)
{
	enum { FIELD = 2, FIELD_NAME = 1, NUMBER = 3, LABEL = 4, TYPE = 5, OPTIONAL = 1 };
	size_t mark = pb_begin(b, FIELD);

	pb_str(b, FIELD_NAME, name);
	pb_u64(b, NUMBER, number);
	pb_u64(b, LABEL, OPTIONAL);
	pb_u64(b, TYPE, type);
	pb_end(b, mark);
}

/* FtraceEventBundle.GenericEventDescriptor, and the DescriptorProto in it. */
void pf_describe(const struct pf_type *t, struct sbuf *b, uint32_t field)
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
