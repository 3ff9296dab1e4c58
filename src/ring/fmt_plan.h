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

#include "fmt_priv.h"

#include "kvmft/put.h"

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
 * printing fields have codes of their own; all others go through the segment. A text is copied as
 * one block whatever its length, because no branch predictor foresees the end of a loop over
 * blocks; the few longer texts are segments.
 */
enum pcode {
	C_END,		/* only the text */
	C_DEC_U32, C_DEC_S32, C_DEC_U64, C_DEC_S64,
	C_HEX_U32, C_HEX_U64,	/* without leading zeros */
	C_HEX8_U32, C_HEX16_U64,	/* %08x, %016llx */
	C_HEX_PAD_U64,	/* %08lx and the like: width digits or more */
	C_POINTER_U64,	/* %ps: 0x and digits */
	C_HEX_BYTES,	/* seg: __print_hex() of a few bytes */
	C_SEGMENT,	/* seg */
	C_MEMO, C_MEMO_MASKED, C_MEMO_WORDS, /* memo: texts that depend on few values */
};

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
		const struct pseg *seg; /* C_SEGMENT, C_HEX_BYTES */
		struct pmemo *memo;	/* C_MEMO */
	};
	uint8_t len;
	uint8_t width; /* C_HEX_PAD_U64 */
};

/* fmt_print.c */
bool plan_is_memo(const struct pstep *s);

/*
 * The texts of consecutive segments, by the values of the few fields that they depend on: names of
 * exit reasons are looked up once per reason and not once per exit. Direct-mapped.
 */
#define MEMO_SLOTS  64
#define MEMO_TEXT   48 /* copied as one block */
#define MEMO_FIELDS 4

struct pmemo {
	struct {
		uint16_t off;
		uint8_t size;
	} in[MEMO_FIELDS];
	size_t nin;
	uint64_t mask;	/* if not 0: these bits of the 8 bytes at at */
	uint16_t at;
	bool two_words; /* 2 fields of 4 bytes */
	const struct pseg *seg;
	size_t nseg;
	struct pmemo_slot {
		uint64_t key;
		uint8_t used, len;
		char text[MEMO_TEXT];
	} slot[MEMO_SLOTS];
};

struct fmt_plan {
	struct pseg *seg;
	size_t nseg, seg_cap;
	struct pnode *nodes;
	struct fmt_field *dyn; /* dynamic fields the plan uses */
	size_t ndyn, dyn_cap;
	struct pstep *step;    /* ends with C_END */
	char *lead;	       /* of struct fmt_line */
	uint32_t need;	       /* minimum length of a record */
	size_t nstep, step_cap;
	/* A line needs at most room + room_len * length of the record. */
	size_t room, room_len;
};

/* Text on its way to an sbuf that has room for all of the plan's line, see struct fmt_plan. */
struct pout {
	char *p;
	struct sbuf *to; /* only for its error */
};

static inline void pout_mem(struct pout *o, const void *p, size_t n)
{
	o->p = put_mem(o->p, p, n);
}

static inline void pout_char(struct pout *o, char c)
{
	*o->p++ = c;
}

/* v as a number of that many bytes (1 to 8), extended to 64 bits. */
static inline uint64_t plan_fit(uint64_t v, unsigned int bytes, bool is_signed)
{
	unsigned int shift = 64 - 8 * bytes;

	return is_signed ? (uint64_t)((int64_t)(v << shift) >> shift) : v << shift >> shift;
}

/* fmt_print.c: fills step, room and room_len from the segments. */
void plan_lower(struct fmt_plan *p);
/* fmt_plan.c: one segment, literal or conversion. */
void plan_segment(const struct pseg *s, const struct rec *rec, struct pout *out);
/* The entry of a P_SYMBOL with that value, or NULL. */
const struct psym *plan_symbol(const struct pnode *n, int64_t v);
/* What C gives for a op b once both have type t; of a shift, t is the type of a. */
uint64_t plan_apply(enum pop op, struct ptype t, uint64_t a, uint64_t b);
