/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * json.h: a JSON writer (RFC 8259) that streams onto an sbuf.
 *
 * Nothing is built in memory: the struct holds the nesting, the sbuf the text, and the caller may
 * write the text out and sbuf_reset() it between any two calls. Output is compact and plain: no
 * blanks, no newline. No double appears anywhere; decimals are an integer and a scale.
 *
 * 	struct sbuf out = { 0 };
 * 	struct json j;
 *
 * 	json_line_begin(&j, &out);
 * 	json_put_fixed(&j, "wall_ms", 1250, 3);
 * 	json_line_end(&j);			{"wall_ms":1.250}
 *
 * Calls that would make invalid JSON (a value without key in an object, an end that does not match,
 * a second top-level value, nesting deeper than JSON_DEPTH_MAX) write nothing and stick: later
 * calls do nothing, and json_finish() returns the error.
 */
#pragma once

#include "kvmft/util.h"

#define JSON_DEPTH_MAX 64  /* containers open at the same time */
#define JSON_SCALE_MAX 100 /* decimals of json_fixed_u64() */

/* Private to json.c; public only so that it can be on a stack. */
struct json {
	struct sbuf *out; /* borrowed */
	uint64_t objects; /* bit d: the container at depth d is an object, else an array */
	unsigned int depth;
	bool filled; /* the innermost container (or the top) has a value, so a comma comes next */
	bool keyed;  /* a key waits for its value */
	int error;   /* 0 or -EINVAL */
};

/* Starts one document in out; what out already holds stays. For JSON lines, once per line. */
void json_init(struct json *j, struct sbuf *out);
/* 0; -EINVAL after misuse or when something is still open or missing; -ENOMEM from the sbuf. */
int json_finish(const struct json *j) __must_check;

void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);
/* Within an object, before each value. The caller must keep keys unique. */
void json_key(struct json *j, const char *key);

/*
 * Valid UTF-8 is written as it is. Quote, backslash and what str_unseen() is about are escaped;
 * every byte that is not part of valid UTF-8 is written as \u00XX of its value. A NULL text is
 * written as null. The second form takes n bytes, including NUL bytes.
 */
void json_str(struct json *j, const char *text);
void json_str_mem(struct json *j, const void *p, size_t n);
/* Exact to the last digit; readers that put numbers in doubles lose bits above 2^53. */
/* As a string: many readers keep numbers as double, which would round addresses of a kernel. */
void json_hex(struct json *j, uint64_t v);
void json_u64(struct json *j, uint64_t v);
void json_s64(struct json *j, int64_t v);
void json_bool(struct json *j, bool v);
void json_null(struct json *j);
/* A key and its value. */
void json_put_str(struct json *j, const char *key, const char *text);
void json_put_u64(struct json *j, const char *key, uint64_t v);
void json_put_s64(struct json *j, const char *key, int64_t v);
void json_put_bool(struct json *j, const char *key, bool v);
void json_put_fixed(struct json *j, const char *key, uint64_t v, unsigned int scale);
/* null unless known. */
void json_put_known_u64(struct json *j, const char *key, bool known, uint64_t v);
void json_put_known_s64(struct json *j, const char *key, bool known, int64_t v);
/* A key, and the beginning of its value. */
void json_put_array(struct json *j, const char *key);
void json_put_object(struct json *j, const char *key);

/* One object, from json_init() to json_finish(), whose error out keeps, and a trailing newline. */
void json_line_begin(struct json *j, struct sbuf *out);
void json_line_end(struct json *j);

/* v / 10^scale with exactly scale decimals: (5, 3) is 0.005, (7, 0) is 7. */
void json_fixed_u64(struct json *j, uint64_t v, unsigned int scale);
