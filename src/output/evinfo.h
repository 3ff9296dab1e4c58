/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * evinfo.h: what an output knows about the types of events, found once per type and source: the
 * full name, its role, and the fields of that role. Private to src/output.
 */
#pragma once

#include "kvmft/output.h"

struct evinfo {
	const struct fmt_event *ev;
	enum event_role role;
	bool is_stack;
	uint64_t addresses; /* bit k: field k is one, see fmt_is_address() */
	char *name; /* "kvm:kvm_exit" */
	const struct event_type *type; /* the fields of the role */
};

struct evinfos {
	struct u64map by_type;	  /* tl_type() → index */
	struct evinfo **v;
	size_t cap;
};

void evinfos_free(struct evinfos *s);
/* Of an item with i->ev; lives as long as s. */
const struct evinfo *evinfo_get(struct evinfos *s, const struct tl_item *i);
size_t evinfo_fields(const struct fmt_event *ev); /* how many fields it has of its own */
/* Field number n of the role; false if this kernel or record lacks it. */
bool evinfo_u64(const struct evinfo *e, const struct tl_item *i, size_t n, uint64_t *v);
/* The reason of an exit, as text in buf; false if the event is not an exit. */
bool evinfo_reason(const struct evinfo *e, const struct tl_item *i, char *buf, size_t size);
