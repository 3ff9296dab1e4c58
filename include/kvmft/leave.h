/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * leave.h: events that a vCPU's thread raises only when its guest was left already, before KVM gets
 * to write kvm_exit. Between kvm_entry and the guest, interrupts are off; so an interrupt that this
 * thread takes, and all that an interrupt leads to, comes after the guest. Such an event ends the
 * window earlier than kvm_exit, by as long as the interrupt took to be served.
 */
#ifndef KVMFT_LEAVE_H
#define KVMFT_LEAVE_H

#include "kvmft/ring.h"

struct leave_events {
	uint64_t bit[(UINT16_MAX + 1) / 64]; /* by id */
};

/* Those that a host has formats of. */
void leave_events_init(struct leave_events *l, const struct fmt *fmt);

static inline bool leave_events_has(const struct leave_events *l, uint16_t id)
{
	return l->bit[id / 64] >> (id % 64) & 1;
}

#endif
