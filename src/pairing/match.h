/* SPDX-License-Identifier: GPL-2.0-or-later */
/* match.h: what match.c and match_threads.c share. */
#ifndef KVMFT_PAIRING_MATCH_H
#define KVMFT_PAIRING_MATCH_H

#include "kvmft/match.h"

/* One VM tried for a guest. */
struct trial {
	size_t vm;
	bool known;	 /* its offsets are known: events were counted with them, ... */
	uint64_t enough; /* ... that many of each CPU; 0: all */
	uint64_t checked, outside;
	struct solution sol; /* else what the events say */
};

int match_runs(struct matcher *m, struct kvmft_err *err) __must_check;
/* Fills in what follows from t->vm. 0 or -errno with err. */
int match_try(struct matcher *m, struct trial *t, const struct capture *cap, const struct fmt *fmt,
	      struct kvmft_err *err) __must_check;
bool match_fits(const struct trial *t);
/* Counted with known offsets: these are not the guest's, or nothing shows that they are. */
bool match_contradicts(const struct trial *t);
/* Is there anything to check against? Some KVMs show no entries. */
bool match_has_runs(const struct matcher *m, size_t vm);
/* Is the TSC of any vCPU with events of the guest known? */
bool match_is_known(const struct hostmap *map, size_t vm, const struct capture *cap);
/*
 * The ratios that a VM may have, the likeliest first; n of them, at least 1. Without a record of
 * them they follow from what host and guest say about their frequencies. 0, or a failed read.
 */
enum { MATCH_SCALES = 4 };
int match_scales(const struct matcher *m, size_t vm, const struct capture *guest,
		 struct tsc_map map[MATCH_SCALES], size_t *n) __must_check;
/* Makes the trial the result; takes its solution. */
void match_take(const struct matcher *m, struct match *out, struct trial *t, enum match_by by);
/* The offsets of VM out->vm, as far as they are needed. 0 or -errno with err. */
int match_find_offset(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
		      struct match *out, struct kvmft_err *err) __must_check;
/*
 * If no VM fits as its threads were grouped: the threads that do fit, whatever their grouping. 1:
 * found, and made a VM; 0: there are none; -errno with err.
 */
int match_threads(struct matcher *m, const struct capture *cap, const struct fmt *fmt,
		  struct match *out, struct kvmft_err *err) __must_check;

#endif
