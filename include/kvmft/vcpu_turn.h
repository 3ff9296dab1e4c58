/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vcpu_turn.h: when a vCPU's guest may run, as a machine that is fed with the events of the vCPU's
 * thread.
 *
 * A turn lasts from kvm_entry to kvm_exit, or to the first event that the thread raises only when
 * its guest was left already: between kvm_entry and the guest interrupts are off, so an interrupt
 * that this thread takes, and all that an interrupt leads to, comes after the guest. Such an event
 * ends the turn before KVM gets to write kvm_exit, by as long as the interrupt took to be served.
 *
 * Two keep a machine of their own: report's pairing (exits/report_samples.c), which is fed from
 * registers and has perf's rules as well, and latency's (latency/vcpu.c), whose states are what the
 * thread does between the turns.
 */
#ifndef KVMFT_VCPU_TURN_H
#define KVMFT_VCPU_TURN_H

#include "kvmft/ring.h"

enum turn_event {
	TURN_OTHER, /* tells nothing of turns */
	TURN_ENTRY,
	TURN_EXIT,
	TURN_LEFT, /* what comes only after the guest */
};

/* Which events of a host those are. */
struct turn_events {
	const struct fmt_event *entry, *exit;	/* NULL: the capture has none */
	uint64_t left[(UINT16_MAX + 1) / 64];	/* bit by id */
};

void turn_events_init(struct turn_events *t, const struct fmt *fmt);

/* ev: NULL is of no format. */
static inline enum turn_event turn_event_of(const struct turn_events *t, const struct fmt_event *ev)
{
	uint16_t id;

	if (!ev)
		return TURN_OTHER;
	if (ev == t->entry || ev == t->exit)
		return ev == t->entry ? TURN_ENTRY : TURN_EXIT;
	id = fmt_id(ev);
	return t->left[id / 64] >> (id % 64) & 1 ? TURN_LEFT : TURN_OTHER;
}

/* All zero: nothing is known yet, or nothing any more since events were lost. */
struct vcpu_turn {
	enum { TURN_UNKNOWN, TURN_IN_GUEST, TURN_OUT } state;
	bool left; /* the turn ended by TURN_LEFT; its kvm_exit is still to come */
};

/* What an event did to the turn. */
enum turn_step {
	TURN_SAME,
	TURN_BEGAN,
	TURN_AGAIN,  /* an entry in a turn: the one before failed, or its exit was not traced */
	TURN_ENDED,
	TURN_MISSED, /* an exit out of a turn: KVM entered without an event, or nothing was known */
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

#endif
