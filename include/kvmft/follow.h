/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * follow.h: captures that are still being recorded, as one time line that grows.
 *
 * In pass after pass, the captures are opened in their current state, and whatever is due is given
 * out, in time order over all sides. Due is what is no newer than the newest event that any side
 * had shown `delay` earlier: anything older has arrived by then, unless its side is later than
 * that. Nothing waits for such a side: its events are given out when they come, late.
 */
#pragma once

#include "kvmft/pairing.h"

struct follow;

struct follow_config {
	const char *host; /* as pairing_prepare() has them; all borrowed */
	char **guests;
	size_t n;
	const struct pairing_opts *opts;
	uint64_t delay_ns;
	note_fn *note;
	bool (*is_enough)(void); /* no longer waits for the captures' ends */
};

/* What follow_pass() opened. */
struct follow_pass {
	struct pairing *p; /* its time line is to be started; valid until the next pass */
	/* last: everything is due, because the captures have ended, or enough was given out */
	bool first, last;
};

void follow_new(const struct follow_config *c, struct follow **out);
/*
 * Waits until something may be due. 0, -ENOMEM, or -errno with err for something that is not a
 * capture.
 */
int follow_pass(struct follow *f, struct follow_pass *pass, struct kvmft_err *err) __must_check;
/* A guest that is left out. */
struct follow_gone {
	bool opened;	 /* it was a capture, and is gone */
	bool first;	 /* it was the first guest, whose clock --clock may name */
	uint64_t events; /* events of it that were given out */
};

/*
 * A pass failed because of a guest: the next ones go on without it, and its events not yet given
 * out are lost. False: it failed for another reason, or because of the only guest in the first
 * pass.
 */
bool follow_leave_out(struct follow *f, struct follow_gone *gone);
/* Whether something newer was given out in an earlier pass; counted for follow_tell(). */
bool follow_late(struct follow *f, const struct tl_item *item);
/* What came late, by side. */
void follow_tell(const struct follow *f);
void follow_free(struct follow *f); /* NULL is fine */
