/* SPDX-License-Identifier: GPL-2.0-or-later */
/* by_stack.h: how often each event of a capture occurred on which kernel stack. */
#ifndef KVMFT_BY_STACK_H
#define KVMFT_BY_STACK_H

#include "kvmft/report.h"
#include "kvmft/tally.h"

struct by_stack { /* to be freed with by_stack_free() */
	struct tally rows; /* texts: see by_stack_row() */
	uint64_t stacks;   /* all that are in rows, and rows.others */
	uint64_t apart;	   /* whose event is missing: lost, or before the beginning */
	uint64_t events, lost, damaged; /* of the capture: events, losses marked in the data,
					 * sub-buffers */
	bool lost_unknown;
};

/* What a row is; texts are printable. */
struct by_stack_row {
	const char *event;  /* "kvm:kvm_exit" */
	const char *reason; /* of an exit, else "" */
	const char *stack;  /* functions, innermost first, BY_STACK_BETWEEN them */
};
#define BY_STACK_BETWEEN " <- "

/*
 * Walks all of cap and counts the stacks of events of one class, or of all (NULL), most frequent
 * first. 0, -errno with err; b is to be freed in any case.
 */
int by_stack_walk(const struct capture *cap, const struct fmt *fmt, const struct event_class *cls,
		  struct by_stack *b, struct kvmft_err *err) __must_check;
void by_stack_free(struct by_stack *b);

/* Shortens the text of a row in place; once for each. */
struct by_stack_row by_stack_row(char *text);

#endif
