/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto.h: what the files of the Perfetto output share; private to src/output.
 */
#ifndef KVMFT_OUTPUT_PERFETTO_H
#define KVMFT_OUTPUT_PERFETTO_H

#include "evinfo.h"

/* What a slice that is open on a track stands for. */
enum pf_slice { PF_TASK, PF_GUEST, PF_EXIT, PF_IRQ, PF_VECTOR, PF_SOFTIRQ };

#define PF_DEPTH 16 /* open slices of a track; interrupts nest a few deep */

struct pf_track {
	uint64_t uuid;
	unsigned int depth;
	enum pf_slice open[PF_DEPTH];
};

enum pf_kind { PF_SOURCE = 1, PF_CPU, PF_VM, PF_VCPU, PF_TASKS, PF_THREAD, PF_LOST, PF_REMARK };

/* Interrupts of a vCPU that are under way: flow id by vector, 0 = none. */
struct pf_irqs {
	uint64_t flow[256];
	bool injected[256]; /* the flow is past its injection */
	unsigned int device; /* the last one of a device: what irq_handler_entry belongs to */
};

struct pf {
	struct evinfos types;
	struct pf_track **track;
	size_t ntrack, track_cap;
	struct u64map by_uuid; /* index into track */
	struct pf_irqs **irqs;
	size_t nirqs, irqs_cap;
	struct u64map irqs_of; /* VM << 32 | vCPU */
	struct u64map iid; /* address of an evinfo: number of its name, and of its first field's */
	uint64_t next_iid, next_flow;
	uint64_t add;	       /* ns between the output's clock and the trace's */
	uint64_t now;	       /* the last time known */
	uint64_t *lost;	       /* by source, so far */
	/* what must be said of all times, the name of a track; empty: nothing, or it was said */
	struct sbuf remark;
};

/* An event on a track. */
struct pf_event {
	uint64_t type;		 /* PF_BEGIN ... */
	const char *name;	 /* NULL: that of info */
	const struct evinfo *info; /* with the fields of item; NULL: none */
	const struct tl_item *item;
	uint64_t flow;		 /* 0 = none */
	bool flow_ends;
	int64_t value;		 /* of a counter */
};

enum { PF_BEGIN = 1, PF_END = 2, PF_INSTANT = 3, PF_COUNTER = 4 };

/*
 * perfetto_packets.c: one packet each onto o->line, at p->now. Their errors are those of o->line,
 * and -ENOMEM.
 */
int pf_head(struct out *o, struct pf *p) __must_check;
struct pf_track *pf_track(struct out *o, struct pf *p, enum pf_kind kind, size_t source,
			  uint32_t number);
int pf_put(struct out *o, struct pf *p, const struct pf_track *t, const struct pf_event *e)
	__must_check;

#endif
