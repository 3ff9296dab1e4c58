/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blaming.h: the walks over a pairing that find spikes and explain them: for `kvmft blame`, and for
 * pages that show them.
 */
#pragma once

#include "kvmft/blame.h"
#include "kvmft/results.h"
#include "kvmft/pairing.h"
#include "kvmft/windows.h"

struct blaming {
	struct pairing *p; /* borrowed; its time line is left as the last walk left it */
	struct kvmft_err *err;
	struct blame_opts o;
	uint64_t from, to; /* host TSC: what is outside is not read; to 0: everything is */
	bool unjudged;	   /* causes are found later, by blaming_judge() */
	struct windows *w;
	struct blame *b;
	struct lat_bound *bound; /* by VM */
};

/* Before the first walk, and the walk. 0 or -errno with m->err set; blaming_free() in any case. */
int blaming_begin(struct blaming *m) __must_check;
int blaming_find(struct blaming *m) __must_check;
/* The second walk, if there is anything to explain. */
int blaming_explain(struct blaming *m) __must_check;
/* The same time line from here to there, once more. */
int blaming_again(const struct blaming *m, uint64_t from, uint64_t to) __must_check;
void blaming_free(struct blaming *m);

/*
 * The longest spikes in [from, to] for a page, as the JSON of `kvmft blame`, to be freed; NULL if
 * the captures show none, or come from several hosts. The time line is stopped. 0 or -errno.
 * blaming_spikes(): the spikes themselves, up to `top` of them, to be freed with blame_free();
 * without judge they have only parts, and get their causes by blaming_judge(), from what a walk
 * over the same has proved. Their VMs may be any number.
 */
int blaming_json(struct pairing *p, const struct out_clock *clock, uint64_t from, uint64_t to,
		 char **json, struct kvmft_err *err) __must_check;
int blaming_spikes(struct pairing *p, uint64_t from, uint64_t to, size_t top, bool judge,
		   struct blame **spikes, struct kvmft_err *err) __must_check;
void blaming_judge(const struct pairing *p, const struct windows *w, struct blame_spike *s,
		   size_t n);

/* ---- parts of the time line, in a walk of their own, around moments that were found ---- */

/* From one host TSC to another, of one VM; -1: of all. */
struct story {
	int64_t vm;
	uint64_t begin, end;
	struct lat_story *to; /* what is written there is the caller's to free */
};

/*
 * Tells n of them by a time line that was started. context: lines before and after each. 0, -errno.
 */
int stories_tell(const struct story *v, size_t n, struct timeline *t, const struct out_clock *clock,
		 bool color, uint64_t context) __must_check;
