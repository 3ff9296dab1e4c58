/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_devices.h: which device a guest rings by writing to an address: QEMU registers an ioeventfd
 * for it with KVM. Private to src/timeline.
 */
#ifndef KVMFT_TIMELINE_QEMU_DEVICES_H
#define KVMFT_TIMELINE_QEMU_DEVICES_H

#include "kvmft/timeline.h"

struct qdevices {
	struct qdevice {
		uint64_t addr, from; /* host TSC, cycles */
		uint64_t before;     /* index + 1 of the previous one with this address */
		int64_t vm;	     /* -1: unknown */
		int64_t fd;	     /* -1: not registered any more */
		char *name;
	} *v;
	size_t n, cap;
	struct u64map last;   /* address: index of its last registration */
	struct u64map region; /* address: index + 1 into name */
	char **name;
	size_t nname, name_cap;
	struct { /* the host's kvm_fast_mmio (Intel) and kvm_mmio (AMD); NULL: it has none */
		const struct fmt_event *ev;
		struct fmt_field gpa;
	} bell[2];
};

/* Uses an event if it is of interest; it happened at host TSC `host`. 0 or -ENOMEM. */
int qdevices_feed(struct qdevices *d, const struct qtrace_item *i, uint64_t host, int64_t vm)
	__must_check;
/* After the last one: the names. */
int qdevices_name(struct qdevices *d) __must_check;
/* Which events of the host have a doorbell's address; for qdevices_item(). fmt is borrowed. */
void qdevices_bells(struct qdevices *d, const struct fmt *fmt);
/* Sets the device of an event that is such a one. */
void qdevices_item(const struct qdevices *d, struct tl_item *item);
void qdevices_free(struct qdevices *d);

#endif
