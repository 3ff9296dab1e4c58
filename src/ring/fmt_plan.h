/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_plan.h: a print format as compiled for printing many events; private to src/ring.
 *
 * A plan is a list of segments: literal text, or one conversion with the expression it prints.
 * Expressions refer to fields that were checked against the record length once, or are checked
 * when evaluated (arrays). fmt_print.c turns segments into steps, which is what printing goes
 * through. Printing makes room in the output once per event and allocates nothing else.
 */
#pragma once

#include "kvmft/ksyms.h"
#include "kvmft/put.h"
#include "kvmft/ring.h"

/* ---- event formats ---- */

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
void fmt_plan_free(struct fmt_plan *p);

/* ---- plans ---- */

enum pkind {
	/* numbers */
	P_CONST,   /* val */
	P_FIELD,   /* off, size, is_signed */
	P_CAST,	   /* a as a number of size bytes, is_signed */
	P_BINARY,  /* a op b; OP_NOT and OP_INV have only b */
	P_COND,	   /* a ? b : c; also of texts */
	P_DYNLEN,  /* length of fld */
	P_ELEMENT, /* element a of fld */
	/* texts */
	P_TEXT,	   /* text */
	P_CHARS,   /* fld, a char array, fixed or dynamic */
	P_POINTER, /* off, size: a pointer printed as text */
	P_SYMBOL,  /* name of a in sym */
	P_FLAGS,   /* names of the bits of a in sym, text between them */
	P_HEX,	   /* a bytes of fld; val 1: without blanks */
	P_ARRAY,   /* a elements of b bytes of fld */
};

/* Operators, by their characters. */
#define OP(a, b) ((a) << 8 | (b))

enum pop {
	OP_NOT = OP('!', 0), OP_INV = OP('~', 0), OP_OR = OP('|', 0), OP_LOR = OP('|', '|'),
	OP_AND = OP('&', 0), OP_LAND = OP('&', '&'), OP_SHL = OP('<', '<'), OP_SHR = OP('>', '>'),
	OP_LT = OP('<', 0), OP_LE = OP('<', '='), OP_GT = OP('>', 0), OP_GE = OP('>', '='),
	OP_EQ = OP('=', '='), OP_NE = OP('!', '='), OP_ADD = OP('+', 0), OP_SUB = OP('-', 0),
	OP_MUL = OP('*', 0), OP_DIV = OP('/', 0), OP_MOD = OP('%', 0),
};

/*
 * C type of a number. Values travel as 64 bits that are extended by the sign of their type, so
 * that only what differs from 64-bit arithmetic needs the type.
 */
struct ptype {
	uint8_t bytes; /* 4 or 8: anything smaller was promoted to int */
	bool is_signed;
};

struct psym {
	int64_t val;
	const char *str;
	uint32_t len, order;
};

struct pnode {
	enum pkind kind;
	enum pop op;
	uint16_t off, size;
	bool is_signed;	   /* P_FIELD, P_CAST: of the bytes read, before promotion */
	struct ptype type; /* of the value */
	struct ptype in;   /* P_BINARY: what both operands are converted to */
	uint64_t val;
	struct fmt_field fld;
	const struct pnode *a, *b, *c;
	const char *text;
	size_t len;
	struct psym *sym; /* P_SYMBOL: sorted by value */
	size_t nsym;
	struct pnode *owned; /* list of all nodes, for freeing */
};

#define PLAN_MAX_WIDTH 512

struct pseg {
	struct spec spec;
	char *text;
	size_t len;
	const struct pnode *arg, *star;
};

/*
 * What is done for one event, in order: copy the text, then print one value. The common ways of
 * printing fields have steps of their own; all others go through the segment. A text is copied as
 * one block whatever its length, because no branch predictor foresees the end of a loop over
 * blocks; the few longer texts are segments.
 */
#define STEP_TEXT 16

/*
 * print() prints the value of s at p and continues with what follows it; data: the record's. The
 * caller has reserved room for the longest text.
 */
struct pstep {
	char text[STEP_TEXT];
	fmt_step *print;
	union {
		size_t off;		/* of the field */
		const struct pseg *seg;
		struct pmemo *memo;
	};
	uint8_t len;
	uint8_t width; /* of a number with leading zeros */
};

/*
 * The texts of consecutive segments, by the values of the few fields that they depend on: names of
 * exit reasons are looked up once per reason and not once per exit. Direct-mapped.
 */
#define MEMO_SLOTS 64
#define MEMO_TEXT  46 /* copied as one block */

struct pmemo {
	/* All of these fields: bits of 8 bytes, in one or two places that every record has. */
	struct pmemo_key {
		uint64_t mask;
		size_t off;
	} key[2];
	const struct pseg *seg;
	size_t nseg;
	struct pmemo *next; /* of the plan */
	struct pmemo_slot {
		uint64_t key[2];
		uint8_t used, len;
		char text[MEMO_TEXT];
	} slot[MEMO_SLOTS];
};

struct fmt_plan {
	struct pseg *seg;
	size_t nseg, seg_cap;
	struct pnode *nodes;
	struct pmemo *memos;
	struct fmt_field *dyn; /* dynamic fields the plan uses */
	size_t ndyn, dyn_cap;
	struct pstep *step;    /* the last one only has a text */
	char *lead;	       /* of struct fmt_line */
	uint32_t need;	       /* minimum length of a record */
	size_t nstep, step_cap;
	/* A line needs at most room + room_len * length of the record. */
	size_t room, room_len;
};

/* v as a number of that many bytes (1 to 8), extended to 64 bits. */
static inline uint64_t plan_fit(uint64_t v, unsigned int bytes, bool is_signed)
{
	unsigned int shift = 64 - 8 * bytes;

	return is_signed ? (uint64_t)((int64_t)(v << shift) >> shift) : v << shift >> shift;
}

/* fmt_print.c: fills step, room and room_len from the segments. */
void plan_lower(struct fmt_plan *p);
/* The entry of a P_SYMBOL with that value, or NULL. */
const struct psym *plan_symbol(const struct pnode *n, int64_t v);
/* What C gives for a op b once both have type t; of a shift, t is the type of a. */
uint64_t plan_apply(enum pop op, struct ptype t, uint64_t a, uint64_t b);
