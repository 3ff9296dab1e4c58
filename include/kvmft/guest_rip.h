/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_rip.h: where the guest was, from those events of its host that say so (rip of kvm_exit,
 * kvm_entry, kvm_page_fault; vcpu_pc on arm64), and which function that is: see hostmap_vm.syms.
 */
#pragma once

#include "kvmft/ksyms.h"
#include "kvmft/timeline.h"

/* The types of events that have it; zero is empty. */
struct guest_rips {
	struct guest_rip_type {
		const struct fmt_event *ev; /* NULL: none yet */
		bool has;
		struct fmt_field f;
	} type[64];
};

/* Whether the symbols of any VM are known. */
bool guest_rip_any(const struct hostmap *m);
/* The types of events that have a RIP, by format: whether there are any. */
bool guest_rip_has(struct guest_rips *g, const struct tl_item *i);
/*
 * The RIP in an event of a host. *k: the symbols of its VM. False: the event has none, its VM is
 * not known, or that VM has no symbols.
 */
bool guest_rip(struct guest_rips *g, const struct hostmap *m, const struct tl_item *i,
	       uint64_t *rip, const struct ksyms **k);

/*
 * Takes the symbols from VMs that enter guests of their own, since a RIP may be one of theirs;
 * found by a walk over the host's capture, if there are symbols at all. *n: the number of such VMs.
 * 0 or -errno.
 */
int guest_rip_drop_nested(struct hostmap *m, size_t *n) __must_check;
