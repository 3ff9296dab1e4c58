/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * evinfo.h: what an output knows about the types of events, found once per type and source: the
 * full name, the part it plays, and the fields that this part needs. Private to src/output.
 */
#ifndef KVMFT_OUTPUT_EVINFO_H
#define KVMFT_OUTPUT_EVINFO_H

#include "kvmft/exit_names.h"
#include "kvmft/output.h"

enum ev_role {
	EV_OTHER,
	EV_KVM_ENTRY,
	EV_KVM_EXIT,	  /* exit_reason, isa */
	EV_NESTED_EXIT,	  /* exit_reason, isa; of a guest's guest: no end of a window */
	EV_ACCEPT_IRQ,	  /* apicid, vec: the APIC of a vCPU takes an interrupt */
	EV_INJECT,	  /* vector: the host hands it to the vCPU */
	EV_SWITCH,	  /* prev_pid, next_pid */
	EV_IRQ_ENTRY,	  /* irq */
	EV_IRQ_EXIT,
	EV_VECTOR_ENTRY,  /* vector */
	EV_VECTOR_EXIT,
	EV_SOFTIRQ_ENTRY, /* vec */
	EV_SOFTIRQ_EXIT,
};

#define EV_FIELDS 2

struct evinfo {
	const struct fmt_event *ev;
	enum ev_role role;
	char *name; /* "kvm:kvm_exit" */
	struct fmt_field f[EV_FIELDS]; /* by role, as above; size 0 where the kernel lacks it */
};

struct evinfo_source {
	struct u64map by_id; /* id → index */
	struct evinfo **v;
	size_t n, cap;
	struct exit_names exits;
};

struct evinfos {
	struct evinfo_source *src;
	size_t n;
};

int evinfos_init(struct evinfos *s, const struct timeline *t) __must_check;
void evinfos_free(struct evinfos *s);
/* Of an item with i->ev; NULL when out of memory. Lives as long as s. */
const struct evinfo *evinfo_get(struct evinfos *s, const struct tl_item *i);
/* Field number n of the role; false when this kernel or record lacks it. */
bool evinfo_u64(const struct evinfo *e, const struct tl_item *i, size_t n, uint64_t *v);
/* The reason of an exit, as text in buf; false when the event is none. */
bool evinfo_reason(const struct evinfos *s, const struct evinfo *e, const struct tl_item *i,
		   char *buf, size_t size);

#endif
