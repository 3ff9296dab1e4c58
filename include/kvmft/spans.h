/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * spans.h: the time from any event of a time line to any other.
 *
 * Which beginning belongs to an end is what the kernel's own synthetic events do
 * (Documentation/trace/histogram.rst, onmatch): the last one with the same key, and each is used
 * once; if there is one of the same side, that. Without a key it is the last one of the same thread
 * or, if that has none, the last one of the same VM, where one of the two that belongs to no VM
 * belongs to all. An event may be both: the end of one span, and the beginning of the next. Events
 * of two guests are never a span, and if one VM alone is asked for, events of other guests are none
 * of it: a guest is believed about itself alone.
 */
#pragma once

#include "kvmft/timeline.h"

struct spans_opts {
	const char *from, *to; /* as for pick_add_event(); NULL: none are wanted */
	const char *key;       /* FIELD of both, or FIELD=FIELD (from's, to's); NULL: by thread */
};

struct span {
	uint64_t begin, end; /* host TSC */
	int64_t vm, vcpu;    /* of the first of the two that is a vCPU's; or a VM's; -1 */
	int32_t tid;	     /* that began it, */
	bool by_guest;	     /* ... in a guest */
	bool across;	     /* the other is of the other side */
	uint64_t types;	     /* the same for all between events of the same types */
	const char *from;    /* name of the event that began it */
	const char *comm;    /* ... and of its thread; both as long as the time line */
};

/* Begun; begun again before an end; ends that nothing began; cut by lost events; open. */
enum spans_count { SPANS_BEGUN, SPANS_AGAIN, SPANS_STRAY, SPANS_CUT, SPANS_OPEN, SPANS_COUNTS };

struct spans;

/* The time line and the options are borrowed. vm: the only one, or -1. -EINVAL: no such spec. */
int spans_new(const struct timeline *t, const struct spans_opts *o, int64_t vm, struct spans **out,
	      struct kvmft_err *err) __must_check;
/* Takes all items in order. True: this one ends a span. */
bool spans_feed(struct spans *s, const struct tl_item *i, struct span *out);
uint64_t spans_count(const struct spans *s, enum spans_count which);
/*
 * Why there is none, in b, as far as it can be told: an event that no capture has, a field that it
 * lacks. False: both were met.
 */
bool spans_unmet(const struct spans *s, struct sbuf *b);
void spans_free(struct spans *s);
