/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clock_vectors.h - what the clock tests share: reader of clock-vectors.tsv, a seeded PRNG
 *
 * KVMFT_TEST_DATA names the directory of the data files, else TEST_DATA_DIR does.
 */
#ifndef TESTS_CLOCK_VECTORS_H
#define TESTS_CLOCK_VECTORS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vector {
	unsigned int line;
	char kind[16];
	uint64_t in[9], out[2];		/* negative numbers in two's complement */
	unsigned int n_in, n_out;
};

/* Compare with the numbers of the failing vector in the message. */
static inline void vector_expect(const struct vector *v, const char *what, uint64_t got,
				 uint64_t want)
{
	if (got != want)
		fail_msg("line %u (%s): %s is %llu, not %llu", v->line, v->kind, what,
			 (unsigned long long)got, (unsigned long long)want);
}

static inline bool vector_number(const char *text, uint64_t *v)
{
	char *end;

	if (!strcmp(text, "-"))
		return false;
	errno = 0;
	*v = text[0] == '-' ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
	assert_true(end != text && !*end && !errno);
	return true;
}

static inline void vector_parse(struct vector *v, char *line)
{
	char *save = NULL, *f = strtok_r(line, "\t\n", &save);
	unsigned int col = 0;

	assert_non_null(f);
	assert_true(strlen(f) < sizeof(v->kind));
	memcpy(v->kind, f, strlen(f) + 1);
	for (f = strtok_r(NULL, "\t\n", &save); f; f = strtok_r(NULL, "\t\n", &save), col++) {
		assert_true(col < 11);
		if (col < 9)
			v->n_in += vector_number(f, &v->in[col]);
		else
			v->n_out += vector_number(f, &v->out[col - 9]);
	}
	assert_int_equal(col, 11);
}

/* Call @fn for each vector of @kind (NULL: of all); returns how many there were. */
static inline unsigned int vectors_each(const char *kind, void (*fn)(const struct vector *v))
{
	const char *dir = getenv("KVMFT_TEST_DATA");
	unsigned int count = 0, number = 0;
	char path[4096], line[1024];
	FILE *f;

	assert_true(snprintf(path, sizeof(path), "%s/clock-vectors.tsv",
			     dir ? dir : TEST_DATA_DIR) < (int)sizeof(path));
	f = fopen(path, "re");
	if (!f)
		fail_msg("cannot open %s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		struct vector v = { .line = ++number };

		assert_non_null(strchr(line, '\n'));
		if (line[0] == '#')
			continue;
		vector_parse(&v, line);
		if (kind && strcmp(kind, v.kind))
			continue;
		fn(&v);
		count++;
	}
	assert_int_equal(fclose(f), 0);
	return count;
}

/* splitmix64: the same numbers on every machine. */
static inline uint64_t prng(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* A number of random length: small ones and huge ones are equally likely. */
static inline uint64_t prng_any(uint64_t *state)
{
	return prng(state) >> (prng(state) % 64);
}

static inline uint64_t prng_between(uint64_t *state, uint64_t lo, uint64_t hi)
{
	return lo + prng(state) % (hi - lo + 1);
}

#endif
