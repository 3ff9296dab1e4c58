/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * json_read.h: a JSON reader (RFC 8259) without a tree. A text is checked once, as a whole; what
 * is then asked for is looked up in the text itself. Nothing is allocated but decoded strings.
 *
 *	struct jval v, e;
 *
 *	if (!jval_parse(text, n, &v) && jval_get(v, "return", &e))
 *		for (struct jiter i = jval_iter(e); jiter_next(&i);)
 *			... i.value, and i.key in an object ...
 *
 * The texts come from programs that may be hostile: they need not end with a NUL, and nothing
 * beyond their n bytes is read.
 */
#pragma once

#include "kvmft/util.h"

/* Deeper nesting is refused: QEMU's own limit is 1024, its replies to us need 5. */
#define JVAL_DEPTH_MAX 128

enum jval_type {
	JVAL_NONE, JVAL_NULL, JVAL_BOOL, JVAL_NUMBER, JVAL_STRING, JVAL_ARRAY, JVAL_OBJECT,
};

/* One value within a checked text, borrowed from it; all zero is no value (JVAL_NONE). */
struct jval {
	const char *p;
	size_t n;
};

/* Takes text as one value, with only blanks around it. 0 or -EINVAL; *v is borrowed. */
int jval_parse(const char *text, size_t n, struct jval *v) __must_check;
enum jval_type jval_type(struct jval v);
/*
 * The first member called key (which must need no escapes); false, and no value, if there is none.
 */
bool jval_get(struct jval object, const char *key, struct jval *v);
/* Is it a string with this text? */
bool jval_is(struct jval v, const char *text);
/* Is it true? */
bool jval_true(struct jval v);
/* A number that is an integer and fits. */
bool jval_u64(struct jval v, uint64_t *u);
/* Adds the text of a string in UTF-8; -EINVAL when v is none. A half surrogate becomes U+FFFD. */
int jval_text(struct jval v, struct sbuf *out) __must_check;

struct jiter {
	struct jval key; /* a string, in an object */
	struct jval value;
	const char *at, *end;
	bool object;
};

/* The elements of an array or members of an object; none for other values. */
struct jiter jval_iter(struct jval v);
bool jiter_next(struct jiter *i);

/*
 * Finds the end of a value that arrives in pieces. All zero to begin with; text is what has arrived
 * so far, always from its beginning. 1 with *len = the bytes up to the end of the first array or
 * object, 0 if more is needed, -EINVAL if what has come is neither.
 */
struct jframe {
	size_t pos;
	unsigned int depth;
	bool in_string, escaped;
};

int jframe_find(struct jframe *f, const char *text, size_t n, size_t *len) __must_check;
