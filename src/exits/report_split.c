/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_split.c: what the time between an exit and the next entry was spent on.
 *
 *   user       from kvm_userspace_exit to the thread's next event in KVM's run loop
 *   off CPU    from sched_switch away to sched_switch back, asleep until sched_wakeup
 *   halted     kvm_vcpu_wakeup says afterwards how long (virt/kvm/kvm_main.c, kvm_vcpu_halt()):
 *              what it was not off its CPU, it polled
 *
 * What is left is work in the kernel. Sleep in user space is part of user. That is so if all these
 * events were recorded: else a part that lacks one is not shown, see report_lacks().
 */
#include "report_priv.h"

void split_exit(struct rsplit *s)
{
	for (int i = 0; i < REPORT_PARTS; i++)
		s->part[i] = 0;
	s->blocked = s->runnable = s->off_guest = 0;
	s->in_user = false;
	/* s->off stays: an event of a thread that is off its CPU is impossible, see split_on() */
}

/* The thread is on its CPU again, or was all the time: books the time that it was off. */
static void split_on(struct rsplit *s, uint64_t now, bool guest)
{
	uint64_t d = now > s->off_since ? now - s->off_since : 0;

	if (guest) {
		s->off_guest += s->off == ON_CPU ? 0 : d;
	} else if (s->off == OFF_PREEMPTED) {
		s->part[PART_PREEMPTED] += d;
	} else if (s->off == OFF_WOKEN) {
		s->part[PART_RUNNABLE] += d;
		s->runnable += d;
	} else if (s->off == OFF_ASLEEP && !s->in_user) {
		s->part[PART_BLOCKED] += d;
		s->blocked += d;
	}
	if (s->in_user && (s->off == OFF_PREEMPTED || s->off == OFF_WOKEN) && !guest)
		s->user_since += d; /* not user's time */
	s->off = ON_CPU;
}

static void split_user_end(struct rsplit *s, uint64_t now)
{
	if (s->in_user && now > s->user_since)
		s->part[PART_USER] += now - s->user_since;
	s->in_user = false;
}

static uint64_t ns_ticks(const struct report *r, uint64_t ns)
{
	u128 t = (u128)ns * r->div / r->mul;

	return t > UINT64_MAX ? UINT64_MAX : (uint64_t)t;
}

/* A halt that took `ns` is over; the scheduler's events have accounted for a part of it already. */
static void split_wakeup(struct report *r, struct rthread *t, const struct rev *e)
{
	struct rsplit *s = t->split;
	uint64_t since = e->ts > t->mark ? e->ts - t->mark : 0, given = 0, halted;

	for (int i = 0; i < REPORT_PARTS; i++)
		given += s->part[i];
	halted = ns_ticks(r, e->key);
	halted = MIN(halted, since); /* its clock is another one */
	halted -= MIN(halted, s->blocked + s->runnable);
	halted = MIN(halted, since - MIN(since, given));
	s->part[PART_POLL] += halted;
	s->blocked = s->runnable = 0;
}

void split_event(struct report *r, struct rthread *t, const struct rev *e)
{
	struct rsplit *s = t->split;
	bool guest = t->state == STATE_GUEST;

	switch (e->is.op) {
	case OP_OUT:
		s->off = e->key ? OFF_ASLEEP : OFF_PREEMPTED;
		s->off_since = e->ts;
		break;
	case OP_WOKEN:
		if (s->off != OFF_ASLEEP)
			break;
		split_on(s, e->ts, guest);
		s->off = OFF_WOKEN;
		s->off_since = e->ts;
		break;
	case OP_IN:
		split_on(s, e->ts, guest);
		break;
	case OP_USER:
		if (t->state != STATE_EXITED)
			break;
		split_user_end(s, e->ts);
		s->in_user = true;
		s->user_since = e->ts;
		break;
	case OP_WAKEUP:
		split_user_end(s, e->ts);
		if (t->state == STATE_EXITED)
			split_wakeup(r, t, e);
		break;
	default:
		split_user_end(s, e->ts);
		break;
	}
}

void split_entry(struct rsplit *s, uint64_t now, uint64_t total, uint64_t part[REPORT_PARTS])
{
	uint64_t left = total;

	split_on(s, now, false);
	split_user_end(s, now);
	for (int i = PART_KERNEL + 1; i < REPORT_PARTS; i++) {
		uint64_t d = MIN(s->part[i], left); /* the sum is the total, whatever a file says */

		part[i] = d;
		left -= d;
	}
	part[PART_KERNEL] = left;
}

uint64_t split_guest(struct rsplit *s, uint64_t now)
{
	split_on(s, now, true);
	return s->off_guest;
}
