/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfetto.h: what the files of the Perfetto output share; private to src/output.
 *
 *	perfetto.c		what goes where; kvmft's own tracks
 *	perfetto_ftrace.c	events as Perfetto's own recorder writes them, in bundles by CPU
 *	perfetto_packets.c	tracks, and events on them; hosts and guests: names, tasks, clocks
 */
#pragma once

#include "evinfo.h"
#include "kvmft/pb.h"

enum { PF_PACKET = 1 }; /* of Trace */

/* Pairs of events that Perfetto makes slices of: of a CPU; from PF_OF_THREADS on, of a thread. */
#define PF_PAIRS      7
#define PF_OF_THREADS 5

/* ---- machines ---- */

struct pf_machine {
	uint32_t id;	       /* 0: none is written: the first one */
	bool remote;	       /* not the first one: the host, or the only one */
	struct tl_source *src; /* its first capture */
	struct sbuf *to;       /* where its packets go: the output's line */
	uint64_t synced; /* its clocks were written up to then */
	bool read;	 /* ... and what it read itself, if anything */
	/* Of threads, by pair: an exit was seen; there are entries without. */
	bool exits[PF_PAIRS], no_exits[PF_PAIRS];
};

/* ---- types of events ---- */

enum pf_form {
	PF_TYPED,     /* Perfetto has a message for it */
	PF_DESCRIBED, /* one that the trace describes */
	PF_GENERIC,   /* names and values */
};

/* The only field of a stack, which has more addresses than its format says: their names. */
#define PF_STACK "stack"

struct pf_field {
	const struct fmt_field *at;
	uint8_t number; /* of the message's field, below 32 */
};

struct pf_type {
	const struct evinfo *info;
	enum pf_form form;
	uint32_t number; /* field of FtraceEvent */
	bool described;
	uint8_t pair; /* from 1; 0: Perfetto makes no slice of it */
	bool ends;
	struct pf_field *field;
	size_t nfield;
};

/* ---- events of a CPU that are not written yet ---- */

struct pf_cpu {
	struct pf_machine *m;
	uint32_t cpu;
	struct sbuf event; /* fields of the bundle, as they are written */
	uint64_t last; /* stamp */
	bool lost;     /* events before these */
	uint8_t entered[PF_OF_THREADS]; /* without an exit: is_unpaired() */
	bool no_exits[PF_OF_THREADS];
	struct pf_track *vcpu; /* of the vCPU that ran here last */
};

/* ---- tracks ---- */

/* The numbers of a type's name and of its first field's. */
struct pf_info {
	uint64_t name, field;
};

/* What an open slice on a track stands for. */
enum pf_slice { PF_GUEST, PF_EXIT, PF_OFF, PF_IRQ, PF_VECTOR, PF_REQUEST };

#define PF_DEPTH 16 /* open slices of a track; interrupts nest a few deep */

struct pf_track {
	uint64_t uuid;
	uint64_t ran_iid; /* of a vCPU's: its name where a CPU runs it; 0: none yet */
	unsigned int depth;
	enum pf_slice open[PF_DEPTH];
	bool waiting; /* its PF_OFF is: for a CPU */
	bool no_ends; /* of interrupts only the beginnings were recorded */
};

enum pf_kind {
	PF_SOURCE = 1,
	PF_CPU, PF_VM, PF_VCPU, PF_TASKS, PF_THREAD, PF_LOST, PF_REMARK, PF_IO,
	PF_SPIKES
};

/* An interrupt of a vCPU under way: flow 0 = none. */
struct pf_irq {
	uint64_t flow, next; /* next: accepted after the injection */
	bool injected;	  /* the flow is past its injection, or an entry where none is reported */
	uint64_t entered; /* then, host TSC */
	uint32_t owner;	  /* of an APIC that injects none: the guest's number + 1, once known */
};

/* By vector of an APIC, or INTID of a GIC: as many as event_irqs has. */
struct pf_irqs {
	unsigned int device; /* the last one of a device: what irq_handler_entry belongs to */
	bool injects;	     /* the host tells of injections */
	unsigned int listed; /* where the host does not: flows */
	bool handled;	     /* ... and whether its guest had a handler */
	struct pf_irq of[];
};

/* A block request under way, one on each track. */
#define PF_IO_TRACKS 64

struct pf_io {
	bool on;
	uint64_t dev, sector;
};

struct pf {
	struct evinfos types;
	struct pf_machine *machine;
	size_t nmachine;
	struct pf_machine **of; /* by source */
	struct pf_type **type;
	size_t type_cap;
	struct u64map type_of; /* tl_type() */
	uint32_t next_own;
	struct pf_cpu *cpu;
	size_t cpu_cap;
	struct u64map cpu_of; /* source << 32 | CPU */
	size_t pending; /* bytes that all of them have room for, about */
	struct u64map entered; /* source << 40 | pair << 32 | thread: without an exit */
	struct sbuf scratch;
	struct pf_track **track;
	size_t track_cap;
	struct u64map by_place; /* index into track */
	struct pf_irqs **irqs;
	size_t irqs_cap;
	struct u64map irqs_of; /* VM << 32 | vCPU */
	const struct event_irqs *irq_kind; /* of the host */
	size_t irqs_listed; /* of all vCPUs */
	struct u64map irq_number; /* of a GIC: VM << 32 | number in the guest */
	struct hash_key name_key;
	struct u64map name_of; /* by hash of the text: its number, from 1 */
	struct pf_info *info;
	size_t info_cap;
	struct u64map info_of; /* address of an evinfo */
	struct u64map reason_iid;
	uint64_t next_field, next_flow, next_uuid;
	uint64_t add; /* ns between the output's clock and the trace's */
	uint64_t now; /* the last time known */
	uint64_t *lost; /* by source, so far */
	struct pf_io (*io)[PF_IO_TRACKS]; /* by source */
	/* what must be said of all times, the name of a track; empty: nothing, or it was said */
	struct sbuf remark;
	uint32_t nremark;
};

/* perfetto_ftrace.c: of an item with i->ev. */
struct pf_type *pf_type(struct pf *p, const struct tl_item *i);
void pf_type_free(struct pf_type *t);

/* Keeps an event, or passes it on with earlier ones; t NULL: no format. */
void pf_ftrace(struct out *o, struct pf *p, struct pf_cpu *c, const struct pf_type *t,
	       const struct tl_item *i);
/* Valid until another one is asked for. */
struct pf_cpu *pf_cpu(struct pf *p, const struct tl_item *i);
/* Before the next item on this CPU, events were lost. */
void pf_ftrace_lost(struct pf *p, struct pf_cpu *c);
/* What is kept. */
void pf_ftrace_flush(struct out *o, struct pf *p);
bool pf_has_cpu(const struct tl_item *i);

/* perfetto_packets.c: what is said of each machine before its events. */
void pf_machines_init(struct out *o, struct pf *p);
void pf_machines_free(struct pf *p);
void pf_machines_head(struct out *o, struct pf *p);
void pf_machines_end(struct out *o, struct pf *p); /* ... and behind them. */
/* A guest's clock changed. */
void pf_machine_epoch(struct out *o, struct pf *p, const struct out_epoch *e);
/* What merge found of a guest's alignment. */
void pf_machine_alignment(struct out *o, const struct out_alignment *a);

/* An event on a track. */
struct pf_event {
	uint64_t type;		 /* PF_BEGIN ... */
	const char *name;	 /* NULL: by iid, or that of info */
	uint64_t iid;		 /* of a name; 0: none */
	const struct evinfo *info; /* with the fields of item; NULL: none */
	const struct tl_item *item;
	uint64_t flow;		 /* 0 = none */
	bool flow_ends;
	int64_t value;		 /* of a counter */
	const struct sbuf *notes; /* further arguments, by pf_note_*(); NULL: none */
};

enum { PF_BEGIN = 1, PF_END = 2, PF_INSTANT = 3, PF_COUNTER = 4 };

/* One packet each onto o->line, at p->now. */
void pf_head(struct out *o, struct pf *p);
struct pf_track *pf_track(struct out *o, struct pf *p, enum pf_kind kind, size_t source,
			  uint32_t number);
/* The number of a name, which is written if it is new; 0: it has none, write it as it is. */
uint64_t pf_name(struct out *o, struct pf *p, const char *name);
void pf_put(struct out *o, struct pf *p, const struct pf_track *t, const struct pf_event *e);
/* An event with its fields. */
void pf_instant(struct out *o, const struct pf_track *t, const struct evinfo *e,
	       const struct tl_item *i, uint64_t flow);
void pf_note_str(struct sbuf *b, const char *name, const char *text);
void pf_note_u64(struct sbuf *b, const char *name, uint64_t v);

/* perfetto_ftrace.c: an array as text. */
void pf_put_array(struct sbuf *b, uint32_t number, const struct fmt_value *v);

#define PF_SHOWN 32 /* elements of an array that are shown */
