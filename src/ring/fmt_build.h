/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_build.h: what the files that turn libtraceevent's parse of a print format into a plan
 * share; private to src/ring, and only for files that include event-parse.h.
 */
#ifndef KVMFT_RING_FMT_BUILD_H
#define KVMFT_RING_FMT_BUILD_H

#include "fmt_plan.h"

#include <event-parse.h>

struct build {
	struct fmt_plan *plan;
	const struct fmt_event *e;
	const struct fmt *f;
	size_t nodes;
	bool failed; /* once set, the plan is given up; nothing else needs a check */
};

/* fmt_expr.c: a new node, owned by the plan; NULL and b->failed when there are too many. */
struct pnode *build_node(struct build *b, enum pkind kind);
/* NULL, after setting b->failed. */
struct pnode *build_fail(struct build *b);
/* A field by name; dynamic ones are remembered, to be checked for each record. */
const struct fmt_field *build_field(struct build *b, const char *name);
const char *build_dyn_name(const struct tep_print_arg *arg);
/* The argument as a number; a missing one (the left side of a unary operator) is 0. */
struct pnode *build_number(struct build *b, const struct tep_print_arg *arg);
/* in as a number of that size and sign. */
struct pnode *build_cast(struct build *b, struct pnode *in, uint16_t bytes, bool is_signed);
/* fmt_text.c: the argument as a text */
struct pnode *build_text(struct build *b, const struct tep_print_arg *arg);

#endif
