/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pick.h: which items of a time line are wanted: by event and fields, vCPU, side; and the context
 * of matches.
 *
 * An event is named [SYSTEM:]NAME[/FILTER/], both names with wildcards. FILTER has the syntax of
 * ftrace's event filters: FIELD OP VALUE with OP one of == != < <= > >= & ~, combined by && and ||,
 * negated by !, grouped by parentheses. ~ compares text with a pattern. A comparison with a field
 * that the event lacks is false.
 */
#pragma once

#include "kvmft/timeline.h"

struct pick;

void pick_new(const struct timeline *t, struct pick **out);
/* Any of these; without one, all events. -EINVAL with err: not an event specification. */
int pick_add_event(struct pick *p, const char *spec, struct kvmft_err *err) __must_check;
/* The same, but as matches: only they and `context` items on either side of each are wanted. */
int pick_add_match(struct pick *p, const char *spec, struct kvmft_err *err) __must_check;
#define PICK_MAX_CONTEXT 10000
/* At most PICK_MAX_CONTEXT. */
void pick_set_context(struct pick *p, uint64_t items);
/* Any of these vCPUs. */
void pick_add_vcpu(struct pick *p, uint32_t vcpu);
/*
 * Any of these: "host", "guest" (all), a VM's name (all its captures), a source's label, or the
 * directory name of a guest.
 */
void pick_add_side(struct pick *p, const char *side);
bool pick_side_is(const struct timeline *t, const struct tl_source *s, const char *side);

/* Whether the item passes everything but the matches; for gaps and damage only the side counts. */
bool pick_wants(struct pick *p, const struct tl_item *item);

/*
 * Passes a wanted item through the matches: calls show() for it, and before that for earlier items
 * that are in the context of a match. 0 or what show() returned, or -ENOMEM. The rec of an item
 * shown later is a copy. Where wanted items are left out between two matches with context, it is
 * called with NULL.
 */
int pick_feed(struct pick *p, const struct tl_item *item,
	      int (*show)(void *arg, const struct tl_item *item), void *arg) __must_check;
/*
 * The captures were opened again (follow.h), as t: what is kept for a match that may come, and what
 * still has to be shown after the last one, continues there. The previous time line may be gone.
 * QEMU's events are not kept for later.
 */
void pick_go_on(struct pick *p, const struct timeline *t);
uint64_t pick_matches(const struct pick *p);
/* Items of the context that were dropped because keeping them would have taken too many bytes. */
uint64_t pick_dropped(const struct pick *p);
/* Whether any event was wanted, and matched if there are matches. */
bool pick_any(const struct pick *p);
/*
 * The i-th name or number that was requested and that nothing in the time line has, as a sentence
 * in b, with similar names. *slip: no format of the captures has that name, so it is most likely a
 * typing error. False: there are no more.
 */
bool pick_unmet(const struct pick *p, size_t i, bool *slip, struct sbuf *b) __must_check;
void pick_free(struct pick *p);

/* ---- filters, by themselves ---- */

struct filter;

/* Parses FILTER (n bytes of text). 0, -ENOMEM, or -EINVAL with err. */
int filter_parse(const char *text, size_t n, struct filter **out,
		 struct kvmft_err *err) __must_check;
/* Whether the record of that event passes. */
bool filter_match(const struct filter *f, const struct fmt_event *ev, const struct rec *rec);
void filter_free(struct filter *f);
