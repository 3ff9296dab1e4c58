/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * follow.h: captures that are still recorded, as one time line that goes on.
 *
 * Again and again, in passes, the captures are opened as they are by then, and what is due of them
 * is given out, in order of time over all sides. Due is what is no newer than the newest event that
 * any side had shown `delay` before: what is older has come by then, unless its side is later than
 * that. Nobody waits for a side that is: its events are given out when they come, late.
 */
#ifndef KVMFT_FOLLOW_H
#define KVMFT_FOLLOW_H

#include "kvmft/pairing.h"

struct follow;

struct follow_config {
	const char *host; /* as pairing_prepare() has them; all borrowed */
	char **guests;
	size_t n;
	const struct pairing_opts *opts;
	uint64_t delay_ns;
	note_fn *note;
	bool (*is_enough)(void); /* nobody waits for the captures' ends any more */
};

/* What follow_pass() opened. */
struct follow_pass {
	struct pairing *p; /* its time line is to be started; valid until the next pass */
	/* last: all that there is is due, for the captures have ended, or it is enough */
	bool first, last;
};

int follow_new(const struct follow_config *c, struct follow **out) __must_check;
/* Waits until something may be due. 0, -ENOMEM, or -errno with err of a capture that is none. */
int follow_pass(struct follow *f, struct follow_pass *pass, struct kvmft_err *err) __must_check;
/* A guest that is left out. */
struct follow_gone {
	bool opened;	 /* its capture was one, and is gone */
	bool first;	 /* it was the first guest, whose clock --clock may be */
	uint64_t events; /* of it that were given out */
};

/*
 * A pass failed at a guest: the next ones go on without it, and its events that were not given out
 * yet are lost. False: it failed at something else, or the first one at the only guest.
 */
bool follow_leave_out(struct follow *f, struct follow_gone *gone);
/* Whether something newer was given out in an earlier pass; counted for follow_tell(). */
bool follow_late(struct follow *f, const struct tl_item *item);
/* What came late, by side. */
void follow_tell(const struct follow *f);
void follow_free(struct follow *f); /* NULL is fine */

#endif
