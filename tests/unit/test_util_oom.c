/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_oom.c: what the util room does when the n-th allocation fails.
 *
 * The sources are compiled into this test once more with their allocator replaced; the archive's
 * own copies are then not linked.
 */
#include "kvmft/util.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Allocations that still succeed; one test after the other, never two at once. */
static unsigned int allowed;

static void *scarce_realloc(void *p, size_t n)
{
	if (!allowed)
		return NULL;
	allowed--;
	return realloc(p, n);
}

static void *scarce_calloc(size_t n, size_t size)
{
	if (!allowed)
		return NULL;
	allowed--;
	return calloc(n, size);
}

#define realloc scarce_realloc
#define calloc	scarce_calloc
#include "../../src/util/array.c"
#include "../../src/util/io.c"
#include "../../src/util/map.c"
#include "../../src/util/sbuf.c"
#undef realloc
#undef calloc

static void test_sbuf(void **state __unused_arg)
{
	char *s;

	for (unsigned int n = 0; n < 5; n++) {
		struct sbuf b = { 0 };
		size_t len = 0;

		allowed = n;
		while (!b.error) {
			len = b.len;
			sbuf_add(&b, "0123456789");
		}
		/* What was there stays whole. */
		assert_int_equal(b.error, -ENOMEM);
		assert_int_equal(b.len, len);
		assert_int_equal(b.s ? strlen(b.s) : 0, len);
		assert_int_equal(len > 0, n > 0);
		allowed = 100;
		sbuf_addf(&b, "%d", 1);
		assert_int_equal(b.len, len);
		s = sbuf_take(&b);
		assert_null(s);
		sbuf_add(&b, "works again");
		s = sbuf_take(&b);
		assert_string_equal(s, "works again");
		free(s);
	}
	allowed = 0;
	assert_null(sbuf_take(&(struct sbuf){ 0 }));
}

static void test_map(void **state __unused_arg)
{
	for (unsigned int n = 0; n < 5; n++) {
		struct u64map m = { 0 };
		uint64_t key = 0, v;

		allowed = n;
		while (!u64map_put(&m, key, key + 1))
			key++;
		assert_null(u64map_at(&m, key));
		assert_int_equal(m.n, key);
		assert_false(u64map_get(&m, key, NULL));
		/* Full, but nothing lost; keys that are there need no memory. */
		for (uint64_t i = 0; i < key; i++) {
			assert_int_equal(u64map_put(&m, i, i + 2), 0);
			assert_true(u64map_get(&m, i, &v));
			assert_int_equal(v, i + 2);
		}
		allowed = 1;
		assert_int_equal(u64map_put(&m, key, 0), 0);
		u64map_free(&m);
	}
}

static void test_array(void **state __unused_arg)
{
	for (unsigned int n = 0; n < 5; n++) {
		uint32_t *v = NULL, *p;
		size_t used = 0, cap = 0;

		allowed = n;
		while ((p = array_grow(&v, used, &cap, sizeof(*p))))
			*p = (uint32_t)used++;
		assert_int_equal(used, cap);
		assert_int_equal(used > 0, n > 0);
		for (size_t i = 0; i < used; i++)
			assert_int_equal(v[i], i);
		free(v);
	}
}

static void test_read_all(void **state __unused_arg)
{
	char *out = (char *)&out;
	unsigned int n;

	/* 100000 bytes take 4096, 8192, ... 131072: six allocations. */
	for (n = 0; n < 10; n++) {
		FILE *f = tmpfile();
		char path[64];
		ssize_t got;

		assert_non_null(f);
		assert_int_equal(ftruncate(fileno(f), 100000), 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(f));
		allowed = n;
		got = file_read_all(AT_FDCWD, path, 1 << 20, &out);
		fclose(f);
		if (got >= 0)
			break;
		assert_int_equal(got, -ENOMEM);
		assert_null(out);
	}
	assert_int_equal(n, 6);
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sbuf),
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_array),
		cmocka_unit_test(test_read_all),
	};

	return cmocka_run_group_tests_name("util/oom", tests, NULL, NULL);
}
