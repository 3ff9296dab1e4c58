/* SPDX-License-Identifier: GPL-2.0-or-later */
/* array.c: growth of arrays of fixed-size elements; the end of readers without memory. */
#include "kvmft/util.h"

#define ARRAY_FIRST_CAP 8
#define ARRAY_FIRST	256 /* bytes, of large ones: a file may claim any number of arrays */

void *array_grow(void *array, size_t n, size_t *cap, size_t elem)
{
	size_t want, bytes;
	char *v;

	/* Copied, not cast: array is a T **, and reading it as a void ** would break aliasing. */
	memcpy(&v, array, sizeof(v));
	if (n >= *cap) {
		if (__builtin_mul_overflow(MAX(n, *cap), 2, &want))
			return NULL;
		if (elem)
			want = MAX(want, MIN(ARRAY_FIRST / elem + 1, (size_t)ARRAY_FIRST_CAP));
		if (__builtin_mul_overflow(want, elem, &bytes) || !bytes)
			return NULL;
		v = realloc(v, bytes);
		if (!v)
			return NULL;
		memcpy(array, &v, sizeof(v));
		*cap = want;
	}
	return memset(v + n * elem, 0, elem);
}

int array_add(void *array, size_t *n, size_t *cap, const void *one, size_t elem)
{
	void *slot = array_grow(array, *n, cap, elem);

	if (!slot)
		return -ENOMEM;
	memcpy(slot, one, elem);
	++*n;
	return 0;
}

static struct {
	void (*end)(void *ctx);
	void *ctx;
} without_memory;

void memory_out_is(void (*end)(void *ctx), void *ctx)
{
	without_memory.end = end;
	without_memory.ctx = ctx;
}

void memory_out(void)
{
	static const char text[] = "kvmft: out of memory\n";

	if (without_memory.end)
		without_memory.end(without_memory.ctx);
	(void)!full_write(STDERR_FILENO, text, strlen(text), NULL);
	_exit(KVMFT_FAILED);
}

void strings_free(char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}
