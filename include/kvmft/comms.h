/* SPDX-License-Identifier: GPL-2.0-or-later */
/* comms.h: names of tasks, from what the capture noted and from the events themselves. */
#pragma once

#include "kvmft/capture.h"
#include "kvmft/ring.h"

#define COMM_LEN 16

struct comm {
	char name[COMM_LEN];
	int32_t tid;
};

#define COMMS_NEAR 256u

struct tl_comms {
	const struct fmt *fmt;
	struct comm *v;
	size_t cap;
	struct u64map by_tid;
	uint32_t near[COMMS_NEAR]; /* by tid: index + 1 of one seen lately; 0: none */
	struct learn *learn;
	size_t nlearn;
	uint64_t ids; /* bit (id % 64) of each event that names tasks, or is to be looked at */
};

struct tl_comms *comms_new(const struct capture *cap, const struct fmt *fmt);
/* comms_wants() is true of this event as well; NULL is fine. */
void comms_also(struct tl_comms *c, const struct fmt_event *ev);
bool comms_learn(struct tl_comms *c, const struct rec *rec);
/* Whether the event may be one to learn from. */
static inline bool comms_wants(const struct tl_comms *c, const struct rec *rec)
{
	return c->ids >> (rec->id % 64) & 1;
}

/* Learns from sched events; cheap for all others. Whether a name changed. */
static inline bool comms_feed(struct tl_comms *c, const struct rec *rec)
{
	return comms_wants(c, rec) && comms_learn(c, rec);
}

/* Names that only `from`, an older state of the same capture, has. */
void comms_inherit(struct tl_comms *c, const struct tl_comms *from);
const char *comms_get(const struct tl_comms *c, int32_t tid);
void comms_free(struct tl_comms *c);
