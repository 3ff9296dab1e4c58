/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * msr_pairs.h: one moment seen from both sides. The guest accesses an MSR that KVM intercepts: the
 * host traces kvm_msr while it handles the access, the guest traces read_msr or write_msr when it
 * runs again. Number and value show which two belong together, so each pair shows how much later
 * the guest's event is, independently of the windows; it can never be earlier.
 */
#pragma once

#include "kvmft/timeline.h"

enum msr_pair {
	MSR_PAIR_DEADLINE, /* write of IA32_TSC_DEADLINE: the values are unique */
	MSR_PAIR_ICR,      /* write of the x2APIC's interrupt command register */
	MSR_PAIR_RDMSR,    /* read of MSR 0x11: made by hand, for this very purpose */
	MSR_PAIR_KINDS,
};
extern const char *const msr_pair_names[MSR_PAIR_KINDS];

/* Distances in host cycles, guest's time minus host's. */
struct msr_pair_stats {
	uint64_t n, violations; /* violations: the guest's event came first */
	uint64_t alone_host, alone_guest; /* accesses that only one side has */
	int64_t min, max;	/* valid when n is not 0 */
	struct loghist late;	/* of those that are not violations */
};

struct msr_pairs;

void msr_pairs_new(const struct timeline *t, struct msr_pairs **out);
/* Feeds the items of a timeline in order. */
void msr_pairs_feed(struct msr_pairs *p, const struct tl_item *item);
/* Call once after the last item. */
void msr_pairs_finish(struct msr_pairs *p);
/* NULL if the captures have no such access of that VM. */
const struct msr_pair_stats *msr_pairs_get(const struct msr_pairs *p, size_t vm,
					   enum msr_pair kind);
/* Can both sides' captures show pairs at all? (They hold the events' formats.) */
bool msr_pairs_possible(const struct msr_pairs *p, size_t vm);
void msr_pairs_free(struct msr_pairs *p);

/* ---- the events themselves, also used elsewhere ---- */

/* The MSR events of one source, resolved once. */
struct msr_pair_events {
	struct msr_pair_event {
		const struct fmt_event *ev; /* NULL: the source has none */
		struct fmt_field msr, value, write;
		int is_write; /* -1: the field says it */
	} e[2];
};

void msr_pair_events_init(struct msr_pair_events *p, const struct fmt *fmt, bool guest);
/* Whether rec, of type ev, is an access that makes pairs: its kind and value. */
bool msr_pair_match(const struct msr_pair_events *p, const struct fmt_event *ev,
		    const struct rec *rec, enum msr_pair *kind, uint64_t *value);
