/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fmt_priv.h: event formats as the files of src/ring share them; private to this room. */
#pragma once

#include "kvmft/ksyms.h"
#include "kvmft/ring.h"

#define FMT_MAX_FIELDS 512
#define FMT_MAX_SYMS   65536 /* entries in all tables of one event */

struct fmt_fld {
	char *name;
	const char *decl; /* "char comm[16]", in the event's text */
	struct fmt_field f;
};

struct fmt_plan;

/*
 * Few of the thousands of event types that a kernel declares are used: the print plan is compiled
 * when an event is first printed, its tables of names are read when a name is first needed.
 */
struct fmt_lazy {
	struct fmt *f;
	struct fmt_event *e; /* whose this is */
	struct fmt_plan *plan;
	bool tried, tab_tried;
	struct fmt_plan **tab;
	size_t ntab, tab_cap;
};

struct fmt_event {
	struct fmt_line line; /* first: see ring.h */
	const char *sys, *name;
	const char *text; /* the whole format */
	size_t len;
	const char *print; /* behind "print fmt: ", NULL when there is none */
	uint16_t id;
	struct fmt_fld *fld;
	size_t nfld, fld_cap;
	size_t ncommon; /* the first ones, up to the empty line */
	bool is_stack;	/* ftrace:kernel_stack, which stack.c prints */
	bool is_printk; /* ftrace:bprint and bputs, trace_printk()'s */
	struct fmt_lazy *lazy;
};

/* Names of fields, tens of thousands of them, one after the other. */
#define FMT_NAMES_BLOCK 16384

struct fmt_names {
	struct fmt_names *next;
	size_t used, room;
	char text[];
};

/* Where a stack is in its record. */
struct fmt_stack_fields {
	const struct fmt_event *of; /* NULL: not looked up yet */
	bool has_size, has_caller;
	struct fmt_field size, caller;
};

struct fmt_stack_text;

struct fmt {
	struct fmt_quick quick; /* first: see ring.h */
	uint32_t long_size;
	struct fmt_event **event;
	size_t n, cap;
	struct fmt_field pid, flags, preempt;
	struct fmt_names *names;
	const struct capture *of; /* for its kallsyms, and what is wrong; NULL = none */
	struct fmt_stack_fields stack;
	struct fmt_stack_text *stack_text; /* NULL: none is needed yet */
	struct ksyms syms;		   /* made for the first stack */
	bool syms_tried;
	struct u64map printk; /* fmt_print.c */
	bool printk_tried;
};

/* fmt.c: n bytes of s and a NUL, freed with f. */
char *fmt_name_copy(struct fmt *f, const char *s, size_t n);

const struct fmt_fld *fmt_find_fld(const struct fmt_event *e, const char *name, size_t len);

/* fmt.c: the bytes of a (possibly dynamic) array field; false when outside the record. */
bool fmt_bytes(const struct fmt_field *fld, const struct rec *rec, const uint8_t **p,
	       uint32_t *len);
/* Possible sizes of a number; a field declared with another one counts as 0. */
static inline bool fmt_is_number(uint32_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Unsigned value of that many bytes; 0 for impossible sizes. */
static inline uint64_t fmt_get(const void *p, uint32_t size)
{
	switch (size) {
	case 1: return *(const uint8_t *)p;
	case 2: return load_u16(p);
	case 4: return load_u32(p);
	case 8: return load_u64(p);
	default: return 0;
	}
}

/*
 * fmt_compile.c: the plan of the event's print format, or of the one call at table_at; NULL: it is
 * not understood.
 */
struct fmt_plan *fmt_plan_new(struct fmt *f, const struct fmt_event *e, const char *table_at);
void fmt_stacks_free(struct fmt *f);
/* fmt_print.c: tells e what fmt_print() needs to know of a plan. */
void fmt_plan_quick(struct fmt_plan *p, struct fmt_event *e);
/* fmt_plan.c */
void fmt_plan_free(struct fmt_plan *p);
