/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * timer.c: deadlines of the guest's local timer (MSR 0x6e0, IA32_TSC_DEADLINE) and how late they
 * were served.
 *
 * The deadline is a guest TSC: it becomes a host TSC with the vCPU's clock as it was when it was
 * set. The interrupt that follows on that vCPU with the vector of the guest's timer ends it.
 */
#include "priv.h"

#define MSR_TSC_DEADLINE 0x6e0u

const struct lat_desc lat_desc_timer = {
	.name = "timer",
	.kind = LAT_TIMER,
	.title = "how late the guest's timer interrupts were",
	.key = "Timer",
	.stage = { "total", "expire", "deliver", "masked", "enter", "guest", "off-cpu" },
	.stage_help = {
		"from the deadline to the guest's handler (without a guest: to the entry)",
		"from the deadline to the APIC: the host's timer, and the wake-up of a halted vCPU",
		"from there to the injection, less the part that follows",
		"... the guest ran with interrupts off",
		"from the injection to the entry of the guest",
		"from the entry to the handler",
		"... of all this: the vCPU's thread wanted a CPU and had none",
	},
	.crosses = TIMER_CROSSES,
	.parts = TIMER_PARTS,
	.cause = { "", "late on the host", "late in the guest", "vCPU off its CPU", "early" },
	/* The first is the sum up to "open at the end"; "fired" that of the two behind it. */
	.count = { "armed", "fired", "cancelled", "set anew before they fired", "not to be placed",
		   "cut by lost events", "open at the end", "measured", "fired, their handler not seen" },
};

/* kvm_msr of the vCPU's own thread. */
void lat_timer_msr(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	const struct epoch_vcpu *e;
	uint64_t lo, hi;

	if (!in->f[0] || (uint32_t)in->f[1] != MSR_TSC_DEADLINE)
		return;
	if (v->armed)
		lat_count(l, v, LAT_T_TIMER, in->f[2] ? TIMER_REARMED : TIMER_CANCELLED);
	v->armed = v->due = false;
	if (!in->f[2])
		return;
	lat_count(l, v, LAT_T_TIMER, TIMER_ARMED);
	e = epoch_vm_find(l->map->vm[v->vm].epochs, v->id);
	if (!e || !epoch_result_usable(epoch_guest_to_host(e, in->f[2], &lo, &hi))) {
		lat_count(l, v, LAT_T_TIMER, TIMER_UNPLACED);
		return;
	}
	v->armed = true;
	v->armed_at = in->t;
	v->deadline = lo;
}

void lat_timer_tick(struct lat_vcpu *v, uint64_t t)
{
	if (!v->armed || v->due || t < v->deadline)
		return;
	lat_times_at(v, v->deadline, v->at_deadline);
	v->due = true;
}

/* The vCPU's APIC accepted an interrupt: its timer's, if it has that vector and one is armed. */
void lat_timer_accept(struct lat *l, struct lat_vcpu *v, struct irq_chain *c)
{
	if (!l->irqs->is_timer(c->vector) || !v->armed)
		return;
	lat_timer_tick(v, c->t_accept);
	c->is_timer = true;
	c->deadline = v->deadline;
	c->armed_at = v->armed_at;
	/* KVM may fire a little early, and let the vCPU wait for the rest. */
	if (v->due)
		memcpy(c->at_deadline, v->at_deadline, sizeof(c->at_deadline));
	else
		lat_times_at(v, c->t_accept, c->at_deadline);
	v->armed = false;
	lat_count(l, v, LAT_T_TIMER, TIMER_FIRED);
}

void lat_timer_stages(const struct lat *l, const struct irq_chain *c, uint64_t from, uint64_t end,
		      struct lat_case *k)
{
	uint64_t deliver = c->t_inject - MAX(c->t_accept, MIN(from, c->t_inject));
	uint64_t masked = MIN(c->masked, deliver);

	lat_stage(k, TIMER_ST_EXPIRE, c->t_accept > from ? lat_span(l, c->t_accept - from) : 0);
	lat_stage(k, TIMER_ST_DELIVER, lat_span(l, deliver - masked));
	lat_stage(k, TIMER_ST_MASKED, lat_span(l, masked));
	lat_stage(k, TIMER_ST_ENTER,
		  lat_span(l, c->t_entry - MAX(c->t_inject, MIN(from, c->t_entry))));
	if (c->handled)
		lat_stage(k, TIMER_ST_GUEST, lat_span(l, end - MAX(c->t_entry, MIN(from, end))));
}

static void timer_stages(struct lat *l, struct lat_vcpu *v, const struct irq_chain *c,
			 struct lat_case *k)
{
	uint64_t end = c->handled ? c->t_handler : c->t_entry, now[VS_STATES];
	/* A deadline in the past fires at once: it is late from the moment it was set. */
	uint64_t from = MAX(c->deadline, c->armed_at);

	k->begin = MIN(from, end);
	k->end = end;
	k->time = lat_span(l, end - k->begin);
	lat_stage(k, TIMER_ST_TOTAL, k->time);
	lat_timer_stages(l, c, from, end, k);
	lat_times_at(v, end, now);
	lat_stage(k, TIMER_ST_OFFCPU,
		  lat_span(l, now[VS_WAITING] - c->at_deadline[VS_WAITING] + now[VS_PREEMPTED] -
				      c->at_deadline[VS_PREEMPTED]));
	if (end < from)
		k->cause = TIMER_BY_EARLY;
	else if (k->stage_time[TIMER_ST_OFFCPU] > k->time / 2)
		k->cause = TIMER_BY_OFFCPU;
	else if (k->stage_time[TIMER_ST_GUEST] + k->stage_time[TIMER_ST_MASKED] > k->time / 2)
		k->cause = TIMER_BY_GUEST;
	else
		k->cause = k->time ? TIMER_BY_HOST : TIMER_BY_NOTHING;
}

/* A chain got to its handler, or (host alone) to the entry. */
int lat_timer_fired(struct lat *l, struct lat_vcpu *v, const struct irq_chain *c)
{
	struct lat_case k = { .vm = (int64_t)v->vm, .vcpu = v->id };
	struct lat_group *g;

	if (!c->is_timer)
		return 0;
	lat_count(l, v, LAT_T_TIMER, TIMER_MEASURED);
	if (!l->o.want[LAT_TIMER] || !lat_wanted(l, k.vm, k.vcpu))
		return 0;
	g = lat_group_get(l, LAT_T_TIMER, k.vm, v->id, &k.group);
	if (!g)
		return -ENOMEM;
	if (!g->name[0])
		snprintf(g->name, sizeof(g->name), "deadline of vCPU %u", v->id);
	timer_stages(l, v, c, &k);
	if (lat_case_named(l, &k))
		snprintf(k.what, sizeof(k.what), "deadline of vCPU %u", v->id);
	return lat_case_add(l, LAT_T_TIMER, g, &k);
}
