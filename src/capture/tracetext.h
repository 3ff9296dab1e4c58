/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracetext.h: what the files that read a trace as text share; private to src/capture. */
#pragma once

#include "reader.h"

#define TT_SLACK  80
#define TASK_COMM 15 /* bytes of the name of a task, at most */

/* ---- tracetext_line.c: one line ---- */

/* A piece of the line. */
struct tt_word {
	const char *s;
	size_t n;
};

enum tt_time { TT_NO_TIME, TT_COUNT, TT_NS };

struct tt_line {
	struct tt_word side; /* kvmft's first column, or trace-cmd's file; empty: none */
	struct tt_word comm; /* empty: none */
	int32_t pid;	     /* -1: none */
	uint32_t cpu;
	bool has_cpu, is_vcpu; /* kvmft writes a guest's CPU as [v0] */
	enum tt_time kind;
	uint8_t digits; /* of the seconds' fraction */
	uint64_t time;
	uint8_t flags, preempt; /* as in the common fields of an event */
	struct tt_word sys;	/* empty: not in the text */
	struct tt_word name, text;
	const char *what;	/* where sys, or else name, begins; or text */
	struct tt_shape *guess; /* its head is that of this one, NULL: not known; */
	uint32_t set;		/* ... as long as so many were set */
	bool lost;		/* no event, but so many lost on that CPU, 0: number unknown */
	uint64_t count;
};

/* From elsewhere, or compilers would clear each one by an instruction that is slow to begin. */
extern const struct tt_line tt_no_line;

/* The head of a line of late, up to its CPU, and what it says; 0 at first. */
#define TT_HEADS 64
struct tt_head {
	char text[80];
	size_t n, open, side, comm; /* bytes of it; where its bracket and its words are */
	bool kvmft;
	struct tt_line l;
};

typedef uint16_t pairs16 __attribute__((vector_size(16)));
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef int8_t chars16 __attribute__((vector_size(16)));
typedef uint8_t bytes8 __attribute__((vector_size(8)));

static inline bool tt_word_is(struct tt_word w, const char *s)
{
	return w.n == strlen(s) && !memcmp(w.s, s, w.n);
}

/* 1: a decimal digit, 2: another one of hex, 3: any other letter and '_', 0: not in a word. */
extern const uint8_t tt_class[256];

static inline bool tt_in_word(char c)
{
	return tt_class[(uint8_t)c] != 0;
}

static inline bool tt_is_digit(char c)
{
	return (uint8_t)(c - '0') < 10;
}

/* Whether *p begins with a decimal number that has 64 bits; *p is moved behind it. */
static inline bool tt_digits(const char **p, uint64_t *v)
{
	const char *q = *p;
	uint64_t w = load_u64(q), n = 0;
	const uint64_t other =
		((w & 0xf0f0f0f0f0f0f0f0) ^ 0x3030303030303030) |
		(((w + 0x0606060606060606) & 0xf0f0f0f0f0f0f0f0) ^ 0x3030303030303030);
	const int digits = other ? __builtin_ctzll(other) / 8 : 8;

	/* Eight at once, or as many as there are, of which pairs are joined three times. */
	if (digits) {
		w = ((w << (64 - 8 * digits)) & 0x0f0f0f0f0f0f0f0f) * 2561 >> 8;
		w = (w & 0x00ff00ff00ff00ff) * 6553601 >> 16;
		n = (w & 0x0000ffff0000ffff) * 42949672960001 >> 32;
		q += digits;
	}
	for (; digits == 8 && tt_is_digit(*q); q++)
		n = n * 10 + (uint64_t)(*q - '0');
	*v = n;
	if (q - *p > 19)
		return take_u64(p, UINT64_MAX, v);
	n = q != *p;
	*p = q;
	return n;
}

/* Whether n bytes are the same; both have 8 bytes more. */
static inline bool tt_same(const char *a, const char *b, size_t n)
{
	if (n < 8)
		return !((load_u64(a) ^ load_u64(b)) << (56 - 8 * n) << 8);
	for (; n > 16; n -= 8, a += 8, b += 8)
		if (load_u64(a) != load_u64(b))
			return false;
	return !((load_u64(a) ^ load_u64(b)) | (load_u64(a + n - 8) ^ load_u64(b + n - 8)));
}

/* ---- tracetext_fields.c: from the text of an event to its fields ---- */

#define TT_FIELDS     16    /* of an event, at most */
#define TT_NUMBERS    48    /* in the text of an event, and 1; others are as words are */
#define TT_TEXT_MAX   2700u /* bytes of the text of an event */
#define TT_STRING_MAX 500u  /* ... of a string in it; none has more than two */
#define TT_RECORD_MAX (16 + 8 * TT_FIELDS + TT_TEXT_MAX + 1 + 2 * (TT_STRING_MAX + 1))

/* An event whose text is understood; name: "a|b" have the same fields. */
struct tt_event {
	const char *sys, *name, *fields;
};

/* Where the value of a field is, and what does not change while only numbers do. */
struct tt_place {
	char type;
	uint8_t size;
	bool there, named, fixed, known; /* known: its fixed value is one */
	bool plain;			 /* it is what the next number says */
	uint32_t bit;			 /* of those that an event has */
	uint32_t number, skip;		 /* bytes behind the end of that number, 0: the beginning */
	struct tt_word words;
	uint64_t v, isa;
};

/* Words of a text, and how the number behind them is wanted; the last: the rest and a NUL. */
struct tt_step {
	uint64_t word[2], mask[2]; /* the first 16 bytes of them, and which of these count */
	uint64_t over;		   /* bits that the number has not */
	uint16_t at, n;		   /* of skeleton */
	char wanted;		   /* 'x', 'u': read as a field of that type is */
};

/* Events of one name whose texts differ in their numbers alone; e may be NULL. */
struct tt_shape {
	const struct tt_event *e;
	size_t len, head, sys, name; /* of skeleton: what is before the text; 0: not known by it */
	bool headed;		     /* that is "sys:name: " or "name: " */
	bool variant, quick;
	uint16_t id;	     /* of its format, 0: none so far */
	uint32_t n, size;    /* fields that may be there; bytes of a record of them */
	uint32_t have;	     /* bits of those that the last one had */
	uint32_t bits, slot; /* the same, of the record; where its text's is */
	uint32_t numbers;    /* and 1 */
	/* Where only plain numbers change: the last record, and where these are; +1: u32. */
	uint64_t known, isa;
	uint8_t to[TT_NUMBERS], record[16 + 8 * TT_FIELDS];
	struct tt_step step[TT_NUMBERS];
	char skeleton[496 + TT_SLACK];
	struct tt_place at[TT_FIELDS];
};

/*
 * Heads and shapes of late, and the text that is read; TT_SLACK bytes behind it can be read, too.
 */
struct tt_shapes {
	struct tt_head heads[TT_HEADS];
	size_t open; /* where the bracket of the last line was */
	struct tt_shape *slot;
	uint16_t *guess; /* by the first bytes of an event */
	struct sbuf plain;
	const char *text, *end[TT_NUMBERS]; /* ends of its numbers; [0]: its beginning */
	uint64_t v[TT_NUMBERS], known;	    /* of those that are wanted; known: bits, of all */
	uint32_t n, set;		    /* set: how many shapes, so far */
	uint8_t record[TT_RECORD_MAX];	    /* that of the last line, if its shape is not quick */
};

/*
 * Whether the line from s to end is an event or a loss; *begun: it may be the first half of an
 * event.
 */
bool tt_line(struct tt_shapes *all, const char *s, const char *end, struct tt_line *l, bool *begun);
/* Where the number of the shape is that texts which begin as what do are guessed to have. */
uint16_t *tt_guess(const struct tt_shapes *all, const char *what, const char *end);
/* The one of that name, of any system if sys is empty. */
const struct tt_event *tt_event_find(struct tt_word sys, struct tt_word name);
/*
 * How many bytes the record of a line has, without its text, which is the field behind those of
 * (*shape)->bits. l's text is TT_TEXT_MAX long at most. *isa: that of the last exit whose reason
 * was a name.
 */
uint32_t tt_record(struct tt_shapes *all, const struct tt_line *l, uint64_t *isa,
		   struct tt_shape **shape);
/* These n bytes, without the common fields. */
void tt_put_record(const struct tt_shapes *all, const struct tt_shape *s, uint8_t *to, uint32_t n);
/* w as a string at `at`, whose place the slot says; what is behind it. */
uint32_t tt_put_string(uint8_t *buf, uint8_t *slot, uint32_t at, struct tt_word w);
/* The format of such records. */
void tt_format(const struct tt_event *e, uint32_t have, const char *name, uint16_t id,
	       struct sbuf *b);
