/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_util_btf.c: members of a structure in BTF, whole and damaged. */
#include "kvmft/btf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NAMES "\0sk_buff\0len\0data\0other\0bits"
enum { N_SKB = 1, N_LEN = 9, N_DATA = 13, N_OTHER = 18, N_BITS = 24 };

struct built {
	uint8_t b[4096];
	size_t n;
};

static void put32(struct built *o, uint32_t v)
{
	memcpy(o->b + o->n, &v, sizeof(v));
	o->n += sizeof(v);
}

static void type(struct built *o, uint32_t name, uint32_t kind, uint32_t entries, uint32_t bits)
{
	put32(o, name);
	put32(o, bits << 31 | kind << 24 | entries);
	put32(o, 4);
}

static void words(struct built *o, unsigned int n, uint32_t v)
{
	while (n--)
		put32(o, v);
}

static void member(struct built *o, uint32_t name, uint32_t bit)
{
	put32(o, name);
	put32(o, 1);
	put32(o, bit);
}

static void begin(struct built *o)
{
	*o = (struct built){ 0 };
	o->n = 24;
}

static void end(struct built *o)
{
	uint32_t types = (uint32_t)o->n - 24;
	uint16_t magic = 0xeb9f;

	memcpy(o->b + o->n, NAMES, sizeof(NAMES));
	o->n = 0;
	memcpy(o->b, &magic, 2);
	o->b[2] = 1;
	o->n = 4;
	put32(o, 24);
	put32(o, 0);
	put32(o, types);
	put32(o, types);
	put32(o, sizeof(NAMES));
	o->n = 24 + types + sizeof(NAMES);
}

/* One of each kind before it, and structures that are not meant. */
static void build(struct built *o, uint32_t bits)
{
	static const uint8_t more[20] = { 0, 1, 0, 3, 3, 3, 2, 0, 0, 0,
					  0, 0, 0, 2, 1, 3, 0, 1, 0, 3 };

	begin(o);
	for (uint32_t kind = 1; kind < 20; kind++) {
		type(o, kind == 7 ? N_SKB : N_OTHER, kind, 1, 0);
		words(o, more[kind], 1);
	}
	type(o, N_OTHER, 4, 1, 0);
	member(o, N_DATA, 8);
	type(o, N_SKB, 4, 4, bits);
	member(o, 0, 0);
	member(o, N_LEN, 112 * 8);
	member(o, N_BITS, bits ? 3u << 24 | 126 * 8 : 126 * 8 + 1);
	member(o, N_DATA, 200 * 8);
	end(o);
}

static int find(const struct built *o, const char *name, const char *a, const char *b,
		uint32_t off[2])
{
	const char *const list[] = { a, b };
	/* Nothing behind the end may be read: ASan sees it there. */
	void *copy = malloc(o->n + !o->n);
	int ret;

	memcpy(copy, o->b, o->n);
	ret = btf_offsets(&(struct btf_text){ copy, o->n }, NULL, name, list, 2, off);
	free(copy);
	return ret;
}

static void finds_members(void **state)
{
	struct built o;
	uint32_t off[2];

	(void)state;
	for (uint32_t bits = 0; bits < 2; bits++) {
		build(&o, bits);
		assert_int_equal(find(&o, "sk_buff", "data", "len", off), 0);
		assert_int_equal(off[0], 200);
		assert_int_equal(off[1], 112);
		assert_int_equal(find(&o, "sk_buff", "data", "bits", off), -ENOENT);
		assert_int_equal(find(&o, "sk_buff", "data", "other", off), -ENOENT);
		assert_int_equal(find(&o, "sk", "data", "len", off), -ENOENT);
	}
}

/* A module's: names of its own come after the kernel's. */
static void finds_those_of_modules(void **state)
{
	static const char names[] = "\0vcpu_svm\0vmcb";
	static const char *const members[] = { "len", "vmcb" };
	struct built kernel, o;
	uint32_t off[2];

	(void)state;
	build(&kernel, 0);
	begin(&o);
	type(&o, sizeof(NAMES) + 1, 4, 2, 0);
	member(&o, N_LEN, 8 * 8);
	member(&o, sizeof(NAMES) + 10, 6552 * 8);
	end(&o);
	o.n -= sizeof(NAMES);
	memcpy(o.b + o.n, names, sizeof(names));
	o.n += sizeof(names);
	memcpy(o.b + 20, &(uint32_t){ sizeof(names) }, 4);
	for (size_t cut = 0; cut < 2; cut++) {
		const struct btf_text base = { kernel.b, kernel.n - cut }, more = { o.b, o.n };
		const struct btf_text less = { o.b, o.n - 1 };

		assert_int_equal(btf_offsets(&more, &base, "vcpu_svm", members, 2, off),
				 cut ? -EPROTO : 0);
		assert_int_equal(btf_offsets(&less, &base, "vcpu_svm", members, 2, off), -EPROTO);
		assert_true(btf_offsets(&more, NULL, "vcpu_svm", members, 2, off) < 0);
	}
	build(&kernel, 0);
	assert_int_equal(btf_offsets(&(struct btf_text){ o.b, o.n },
				     &(struct btf_text){ kernel.b, kernel.n }, "vcpu_svm", members,
				     2, off), 0);
	assert_int_equal(off[0], 8);
	assert_int_equal(off[1], 6552);
	assert_int_equal(btf_offsets(&(struct btf_text){ o.b, o.n },
				     &(struct btf_text){ kernel.b, kernel.n }, "sk_buff", members,
				     2, off), -ENOENT);
}

static void refuses_damage(void **state)
{
	struct built o;
	uint32_t off[2];

	(void)state;
	build(&o, 0);
	for (size_t n = o.n - 1; n--;) { /* cut anywhere */
		o.n = n + 1;
		assert_true(find(&o, "sk_buff", "data", "len", off) < 0);
	}
	build(&o, 0);
	o.b[o.n - 1] = 'x'; /* names without an end */
	assert_int_equal(find(&o, "sk_buff", "data", "len", off), -EPROTO);
	build(&o, 0);
	o.b[2] = 2;
	assert_int_equal(find(&o, "sk_buff", "data", "len", off), -EPROTO);
	build(&o, 0);
	o.b[24 + 7] = 31; /* an unknown kind */
	assert_int_equal(find(&o, "sk_buff", "data", "len", off), -ENOTSUP);
	build(&o, 0);
	memset(o.b + 4, 0xff, 20);
	assert_int_equal(find(&o, "sk_buff", "data", "len", off), -EPROTO);
}

static void any_bytes_end(void **state)
{
	struct built o;
	uint32_t off[2], seed = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		build(&o, i & 1);
		for (int k = 0; k < 1 + i % 3; k++) {
			seed = seed * 1103515245u + 12345;
			o.b[(seed >> 8) % o.n] = (uint8_t)(seed >> 24);
		}
		if (!find(&o, "sk_buff", "data", "len", off))
			assert_true(off[0] < 1u << 29 && off[1] < 1u << 29);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_members),
		cmocka_unit_test(finds_those_of_modules),
		cmocka_unit_test(refuses_damage),
		cmocka_unit_test(any_bytes_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
