/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * match.h: which VM of a host a guest's capture belongs to, and the TSC offset by which its stamps
 * have to be moved, if neither was recorded. The guest's events can only have happened while its
 * vCPUs were in the guest: with the right VM and offset all of them did, with a wrong one many did
 * not.
 */
#pragma once

#include "kvmft/solve.h"

struct matcher {
	struct hostmap *map;
	size_t guests;	   /* the number of guest captures */
	bool solve;	   /* offsets are searched for even if they are known */
	const struct tsc_map *scale; /* ratio and fraction bits, given by hand; NULL: as recorded */
	const char *naming;	     /* how a VM is named, for messages; NULL: "GUEST=SEL" */
	bool growing;	   /* recorded offsets are not put to the test */
	bool undecided_ok; /* a VM without a reliable offset is no error */
	struct runs *runs; /* collected when needed */
};

enum match_by {
	MATCH_BY_UUID,	/* or by the id that trace-cmd gives a recording */
	MATCH_BY_USER,	/* named */
	MATCH_ONLY_VM,	/* there is no other */
	MATCH_BY_EVENTS, /* the only one whose windows contain all of its events */
};
extern const char *const match_by_names[];

/* Zero-initialised; freed with match_free(). */
struct match {
	size_t vm;
	enum match_by by;
	bool solved;	      /* sol has to be forced */
	struct solution sol;  /* tried: the events were searched */
	uint64_t checked, outside; /* MATCH_BY_EVENTS: with this VM */
	/* Events that contradict what was recorded, of those compared; not 0: it is not used. */
	uint64_t against, against_of;
	uint64_t others, others_outside; /* ... and of the best of all other VMs */
};

/*
 * Finds the VM that the capture belongs to; sel: what the user says, or NULL. known: its offsets
 * need not be found, since they were given by hand. 0, or -errno with err: -ENOENT and -ENOTUNIQ
 * list selectors; -EDOM (exit code 4): no offset is reliable.
 */
int match_guest(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
		const char *sel, bool known, struct match *out, struct kvmft_err *err) __must_check;
void match_free(struct match *r);
void matcher_free(struct matcher *m);
