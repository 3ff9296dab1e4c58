/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pairs.h: one moment seen from both sides. The guest accesses an MSR that KVM intercepts: the host
 * traces kvm_msr while it serves the access, the guest traces read_msr or write_msr when it runs
 * again. Number and value tell which two belong together, so each pair says how much later the
 * guest's event is, whatever the windows say; it can never be earlier.
 */
#ifndef KVMFT_PAIRS_H
#define KVMFT_PAIRS_H

#include "kvmft/timeline.h"

enum pair_kind {
	PAIR_DEADLINE, /* write of IA32_TSC_DEADLINE: the values are unique */
	PAIR_ICR,      /* write of the x2APIC's interrupt command register */
	PAIR_RDMSR,    /* read of MSR 0x11: rarely done, so done by hand for this very purpose */
	PAIR_KINDS,
};
extern const char *const pair_names[PAIR_KINDS];

/* Distances in host cycles, guest's time minus host's. */
struct pair_stats {
	uint64_t n, violations; /* violations: the guest's event came first */
	uint64_t alone_host, alone_guest; /* accesses that only one side shows */
	int64_t min, max;	/* valid when n is not 0 */
	struct loghist late;	/* of those that are no violation */
};

struct pairs;

int pairs_new(const struct timeline *t, struct pairs **out) __must_check;
/* Feeds the items of a timeline in order. 0 or -ENOMEM. */
int pairs_feed(struct pairs *p, const struct tl_item *item) __must_check;
/* Call once after the last item. */
void pairs_finish(struct pairs *p);
/* NULL when the captures show no such access of that VM. */
const struct pair_stats *pairs_get(const struct pairs *p, size_t vm, enum pair_kind kind);
/* Can both sides' captures show pairs at all? (They hold the events' formats.) */
bool pairs_possible(const struct pairs *p, size_t vm);
void pairs_free(struct pairs *p);

/* ---- the events themselves, also of use elsewhere ---- */

/* The MSR events of one source, resolved once. */
struct pair_events {
	struct pair_event {
		const struct fmt_event *ev; /* NULL: the source has none */
		struct fmt_field msr, value, write;
		int is_write; /* -1: the field says it */
	} e[2];
};

void pair_events_init(struct pair_events *p, const struct fmt *fmt, bool guest);
/* Whether rec, of type ev, is an access that makes pairs: its kind and value. */
bool pair_match(const struct pair_events *p, const struct fmt *fmt, const struct fmt_event *ev,
		const struct rec *rec, enum pair_kind *kind, uint64_t *value);

#endif
