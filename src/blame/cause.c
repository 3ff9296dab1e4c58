/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cause.c: the names of kinds and causes, and which cause a spike is due to. */
#include "priv.h"

const struct blame_name blame_whats[BLAME_WHATS] = {
	[BLAME_TIMER] = { "timer", "a timer interrupt came after its deadline" },
	[BLAME_HRTIMER] = { "hrtimer", "a high-resolution timer of the guest's kernel was late" },
	[BLAME_IRQ] = { "irq", "an interrupt, from its source to its handler" },
	[BLAME_IO] = { "io", "a block request, from its issue to its completion" },
	[BLAME_WAKEUP] = { "wakeup", "a task was woken and waited for a CPU" },
	[BLAME_READY] = { "ready", "a task lost its CPU and waited to run again" },
	[BLAME_STALL] = { "stall", "the vCPU exited, or woke from a halt, and was not re-entered" },
	[BLAME_TIMERLAT] = { "timerlat", "the guest's timerlat tracer measured it" },
	[BLAME_NOISE] = { "noise", "the guest's osnoise tracer measured it" },
	[BLAME_MARKER] = { "marker", "the time between two markers" },
	[BLAME_MOMENT] = { "moment", "nothing was late: what the vCPU did around that time" },
};

const struct blame_name blame_causes[BLAME_CAUSES] = {
	[CAUSE_UNKNOWN] = { "unknown", "the captures do not show it" },
	[CAUSE_LOST] = { "lost", "events were lost there" },
	[CAUSE_HOST_TASK] = { "host-task", "another task had the vCPU's CPU" },
	[CAUSE_SIBLING] = { "sibling", "another vCPU of this VM had its CPU" },
	[CAUSE_HOST_IRQ] = { "host-irq", "the host served an interrupt or softirq" },
	[CAUSE_THROTTLED] = { "throttled", "it could run, but its CPU was idle: a limit of its cgroup" },
	[CAUSE_STOPPED] = { "stopped", "its thread was stopped by a signal" },
	[CAUSE_MIGRATED] = { "migrated", "the host moved it to another CPU" },
	[CAUSE_EXIT_KERNEL] = { "exit-kernel", "KVM took long to handle an exit" },
	[CAUSE_EXIT_USER] = { "exit-user", "the VMM took long to handle an exit, on a CPU" },
	[CAUSE_VMM] = { "vmm", "in the VMM: its thread slept, or another one worked" },
	[CAUSE_PAGE_FAULT] = { "page-fault", "guest memory had to be mapped" },
	[CAUSE_DISK] = { "disk", "the host's disk" },
	[CAUSE_HALT_WAKE] = { "halt-wake", "a vCPU that had slept was on its way into its guest" },
	[CAUSE_HOST_TIMER] = { "host-timer", "the host's own timer came late" },
	[CAUSE_LOCK_HOLDER] = { "lock-holder", "it waited for a lock, spinning or halted" },
	[CAUSE_GUEST_IRQS_OFF] = { "guest-irqs-off", "the guest ran without taking its interrupt" },
	[CAUSE_GUEST_HANDLER] = { "guest-handler", "the guest served interrupts or softirqs" },
	[CAUSE_GUEST_SCHED] = { "guest-sched", "the guest had not switched to the task yet" },
	[CAUSE_GUEST_SLEEP] = { "guest-sleep", "the guest or its program slept" },
	[CAUSE_GUEST_CODE] = { "guest-code", "the guest ran this code itself" },
};

/*
 * The largest cause; unknown if the unknown part is larger. It is sure if the alignment's error
 * could not make another one as large, no event was lost, and all was recorded that would show
 * another cause. How long a vCPU stood still, the host alone says.
 */
void blame_judge(struct blame_spike *s, const uint64_t *offs)
{
	uint64_t off = s->what == BLAME_STALL || s->vm < 0 ? 0 : offs[s->vm];
	uint64_t sum[BLAME_CAUSES] = { 0 }, unknown, second = 0;
	enum blame_cause best = CAUSE_UNKNOWN;
	uint32_t lacks = 0;

	for (size_t i = 0; i < s->nparts; i++)
		sum[s->part[i].cause] += s->part[i].time;
	unknown = sum[CAUSE_UNKNOWN] + sum[CAUSE_LOST];
	for (unsigned int c = CAUSE_LOST + 1; c < BLAME_CAUSES; c++) {
		if (sum[c] <= sum[best] && best != CAUSE_UNKNOWN)
			second = MAX(second, sum[c]);
		else if (sum[c]) {
			second = best == CAUSE_UNKNOWN ? second : MAX(second, sum[best]);
			best = (enum blame_cause)c;
		}
	}
	if (best == CAUSE_UNKNOWN || sum[best] <= unknown)
		best = sum[CAUSE_LOST] > sum[CAUSE_UNKNOWN] ? CAUSE_LOST : CAUSE_UNKNOWN;
	s->cause = best;
	s->cause_time = sum[best];
	for (size_t i = 0; i < s->nparts; i++) {
		const struct blame_part *p = &s->part[i];

		lacks |= p->cause == best ? p->lacks : 0;
		s->needs |= p->cause == best || p->cause == CAUSE_UNKNOWN ? p->lacks : 0;
	}
	s->sure = !s->holes && best > CAUSE_LOST && !sum[CAUSE_LOST] && !lacks &&
		  off != UINT64_MAX && sum[best] > off &&
		  sum[best] - off > second + unknown + off;
}
