/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_plan.h: a print format as compiled for printing many events; private to src/ring.
 *
 * A plan is a list of segments: literal text, or one conversion with the expression it prints.
 * Expressions refer to fields that were checked against the record length once, or are checked
 * when evaluated (arrays). Printing allocates nothing but room in the output.
 */
#ifndef KVMFT_RING_FMT_PLAN_H
#define KVMFT_RING_FMT_PLAN_H

#include "fmt_priv.h"

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

enum pop {
	OP_NONE, OP_NOT, OP_INV, OP_OR, OP_LOR, OP_AND, OP_LAND, OP_XOR, OP_SHL, OP_SHR, OP_LT,
	OP_LE, OP_GT, OP_GE, OP_EQ, OP_NE, OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MOD,
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
	char *text;
	size_t len;
	struct psym *sym;
	size_t nsym;
	bool sorted;	     /* P_SYMBOL: sym is sorted by value */
	struct pnode *owned; /* list of all nodes, for freeing */
};

enum pstar { STAR_NONE, STAR_WIDTH, STAR_PREC };

#define PLAN_MAX_WIDTH	  512
#define PLAN_SIMPLE_WIDTH 32

struct pspec {
	char conv; /* d u x X o c s p, or 0: literal text */
	bool left, zero, alt, plus;
	bool has_prec;
	bool simple; /* digits only: no flag but 0, no precision, width at most 32 */
	uint16_t width, prec;
	enum pstar star;
	uint8_t bytes; /* of the number after truncation: 1, 2, 4, 8 */
};

struct pseg {
	struct pspec spec;
	char *text;
	size_t len;
	const struct pnode *arg, *star;
};

struct fmt_plan {
	struct pseg *seg;
	size_t nseg, seg_cap;
	struct pnode *nodes;
	struct fmt_field *dyn; /* dynamic fields the plan uses */
	size_t ndyn, dyn_cap;
};

/*
 * Text on its way to an sbuf: one event is a few dozen small pieces, and an sbuf checks its
 * memory for each.
 */
struct pout {
	struct sbuf *to;
	size_t n;
	char buf[1024];
};

void pout_flush(struct pout *o);

static inline void pout_mem(struct pout *o, const void *p, size_t n)
{
	if (n > sizeof(o->buf) - o->n) {
		pout_flush(o);
		if (n > sizeof(o->buf)) {
			sbuf_add_mem(o->to, p, n);
			return;
		}
	}
	__builtin_memcpy(o->buf + o->n, p, n);
	o->n += n;
}

/* Text that was allocated with PLAN_PAD more bytes: short pieces are copied as a whole. */
#define PLAN_PAD 16

static inline void pout_padded(struct pout *o, const char *p, size_t n)
{
	if (n <= PLAN_PAD && sizeof(o->buf) - o->n >= PLAN_PAD) {
		__builtin_memcpy(o->buf + o->n, p, PLAN_PAD);
		o->n += n;
	} else {
		pout_mem(o, p, n);
	}
}

static inline void pout_char(struct pout *o, char c)
{
	if (o->n == sizeof(o->buf))
		pout_flush(o);
	o->buf[o->n++] = c;
}

/* v as a number of that many bytes (1 to 8), extended to 64 bits. */
static inline uint64_t plan_fit(uint64_t v, unsigned int bytes, bool is_signed)
{
	unsigned int shift = 64 - 8 * bytes;

	return is_signed ? (uint64_t)((int64_t)(v << shift) >> shift) : v << shift >> shift;
}

/* Value of a number expression. */
uint64_t plan_eval(const struct pnode *n, const struct fmt *f, const struct rec *rec);
/* What C gives for a op b once both have type t; of a shift, t is the type of a. */
uint64_t plan_apply(enum pop op, struct ptype t, uint64_t a, uint64_t b);
/* fmt_number.c: v as printf would show it with that specification. */
void plan_number(struct pout *out, const struct pspec *spec, uint64_t v);
/* n bytes padded and cut like %s; they are printable already. */
void plan_text(struct pout *out, const struct pspec *spec, const char *s, size_t n);
/* The same for bytes from a record. */
void plan_foreign(struct pout *out, const struct pspec *spec, const char *s, size_t n);
/* 0x and hex digits */
void plan_hex(struct pout *out, uint64_t v);

#endif
