/* SPDX-License-Identifier: GPL-2.0-or-later */
/* merge_pick.h: the options of merge that select a part of the time line. */
#ifndef KVMFT_CMD_MERGE_PICK_H
#define KVMFT_CMD_MERGE_PICK_H

#include "kvmft/cli.h"
#include "kvmft/pick.h"

struct merge_pick_opts {
	struct str_list event, grep, side, vcpu;
	struct opt_u64 context;
};

/*
 * What was requested, checked; gone: an unknown side may belong to a guest that was left out. *out
 * is NULL if nothing was requested. err says which option is wrong. To be freed with pick_free(),
 * also after a failure.
 */
int merge_pick_init(const struct merge_pick_opts *o, const struct timeline *t, bool gone,
		    struct pick **out, struct kvmft_err *err) __must_check;

#endif
