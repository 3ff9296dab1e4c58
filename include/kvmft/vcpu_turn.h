/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vcpu_turn.h: when a vCPU's guest may run, as a machine fed with the events of the vCPU's thread.
 *
 * A turn lasts from kvm_entry to kvm_exit, or to the first event that the thread raises only after
 * its guest was left: between kvm_entry and the guest, interrupts are off, so an interrupt that
 * this thread takes, and everything that it causes, comes after the guest. Such an event ends the
 * turn before KVM writes kvm_exit, earlier by as long as the interrupt took to be handled.
 *
 * Two have machines of their own: report's pairing (exits/report_samples.c), which is fed from
 * registers and also has perf's rules, and latency's (latency/vcpu.c), whose states are what the
 * thread does between turns.
 */
#pragma once

#include "kvmft/events.h"

enum turn_event {
	TURN_OTHER, /* says nothing about turns */
	TURN_ENTRY,
	TURN_EXIT,
	TURN_LEFT, /* what comes only after the guest */
};

/* ev: of a host; NULL has no format. Not an NMI, which can also come before the guest runs. */
static inline enum turn_event turn_event_of(const struct fmt_event *ev)
{
	switch (event_role_of(ev)) {
	case EV_ENTRY: return TURN_ENTRY;
	case EV_EXIT: return TURN_EXIT;
	case EV_IRQ_ENTRY:
	case EV_SOFTIRQ_ENTRY:
	case EV_SWITCH:
	case EV_VECTOR_ENTRY: return TURN_LEFT;
	default: return TURN_OTHER;
	}
}

/* All zero: nothing is known yet, or nothing any more because events were lost. */
struct vcpu_turn {
	enum { TURN_UNKNOWN, TURN_IN_GUEST, TURN_OUT } state;
	bool left; /* the turn was ended by TURN_LEFT; its kvm_exit is still to come */
};

/* What an event did to the turn. */
enum turn_step {
	TURN_SAME,
	TURN_BEGAN,
	TURN_AGAIN,  /* an entry within a turn: the previous one failed, or its exit was not
		      * traced */
	TURN_ENDED,
	TURN_MISSED, /* an exit outside a turn: KVM entered without an event, or nothing was
		      * known */
};

static inline enum turn_step vcpu_turn_step(struct vcpu_turn *t, enum turn_event e)
{
	bool in_guest = t->state == TURN_IN_GUEST, told = t->left;

	if (e == TURN_OTHER || (e == TURN_LEFT && !in_guest))
		return TURN_SAME;
	t->left = e == TURN_LEFT;
	if (e == TURN_EXIT && told)
		return TURN_SAME;
	t->state = e == TURN_ENTRY ? TURN_IN_GUEST : TURN_OUT;
	if (e == TURN_ENTRY)
		return in_guest ? TURN_AGAIN : TURN_BEGAN;
	return in_guest ? TURN_ENDED : TURN_MISSED;
}
