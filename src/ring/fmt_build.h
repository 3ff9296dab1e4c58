/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_build.h: what the files between a print format and its plan share; private to src/ring, and
 * only for files that may include event-parse.h.
 *
 * fmt_safe.c checks and regroups the text, libtraceevent parses it, and fmt_compile.c, fmt_expr.c
 * and fmt_text.c turn its tree into a plan, whose names and texts stay in that tree.
 */
#ifndef KVMFT_RING_FMT_BUILD_H
#define KVMFT_RING_FMT_BUILD_H

#include "fmt_plan.h"

#include <event-parse.h>

/*
 * fmt_safe.c: adds e's print format, or "%s" of the one call at table_at, in a form that
 * libtraceevent cannot misread. False: libtraceevent must not be given it.
 */
bool fmt_safe(const struct fmt_event *e, const char *table_at, struct sbuf *out) __must_check;
/* The value of "{ }", which ends a table: a name, so that nothing equals it. */
#define FMT_NO_VALUE "kvmft_no_value"

/* Nothing here returns NULL: failed alone says what went wrong. */
struct build {
	struct fmt_plan *plan;
	const struct fmt_event *e;
	const struct fmt *f;
	size_t nodes;
	bool failed;	    /* the plan is given up */
	struct pnode spare; /* what then stands in for every node */
};

typedef struct pnode *build_fn(struct build *b, const struct tep_print_arg *arg);

/* fmt_expr.c: a new node, owned by the plan */
struct pnode *build_node(struct build *b, enum pkind kind);
struct pnode *build_fail(struct build *b);
/* A node about a field; dynamic ones are remembered, to be checked for each record. */
struct pnode *build_field(struct build *b, enum pkind kind, const char *name);
const char *build_dyn_name(const struct tep_print_arg *arg);
/* "?", whose branches are numbers or texts */
struct pnode *build_cond(struct build *b, const struct tep_print_arg *arg, build_fn *branch);
/* `in` as a number of that size and sign */
struct pnode *build_cast(struct build *b, struct pnode *in, uint16_t bytes, bool is_signed);
/* The argument as a number; a missing one (the left side of a unary operator) is 0. */
build_fn build_number;
/* fmt_text.c: the argument as a text */
build_fn build_text;

#endif
