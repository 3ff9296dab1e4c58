/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_util_hash.c: tests of src/util/hash.c.
 */
#include "kvmft/util.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

/*
 * Of the key 00 01 .. 0f and the texts "", 00, 00 01 and so on, by an implementation that was held against
 * the published ones of SipHash-2-4.
 */
static void test_vectors(void **state __unused_arg)
{
	static const struct {
		size_t n;
		uint64_t hash;
	} want[] = {
		{ 0, 0xabac0158050fc4dc },  { 1, 0xc9f49bf37d57ca93 },	{ 7, 0xd3927d989bb11140 },
		{ 8, 0x369095118d299a8e },  { 9, 0x25a48eb36c063de4 },	{ 15, 0xd320d86d2a519956 },
		{ 16, 0xcc4fdd1a7d908b66 }, { 63, 0x9d199062b7bbb3a8 },
	};
	const struct hash_key key = { { 0x0706050403020100, 0x0f0e0d0c0b0a0908 } };
	uint8_t text[64];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)i;
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		/* Nothing behind the text counts, or is read. */
		uint8_t *alone = malloc(want[i].n ? want[i].n : 1);

		assert_non_null(alone);
		memcpy(alone, text, want[i].n);
		assert_true(hash_bytes(&key, alone, want[i].n) == want[i].hash);
		free(alone);
	}
}

/* One key in a process, another one in the next. */
static void test_key(void **state __unused_arg)
{
	struct hash_key a, b, other[2];
	char self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert_true(n > 0);
	self[n] = '\0';
	hash_key_init(&a);
	hash_key_init(&b);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_true(a.k[0] && a.k[1] && a.k[0] != a.k[1]);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		char command[300];
		FILE *f;

		snprintf(command, sizeof(command), "%s key", self);
		f = popen(command, "r");
		assert_non_null(f);
		assert_int_equal(fread(&other[i], sizeof(other[i]), 1, f), 1);
		assert_int_equal(pclose(f), 0);
	}
	assert_memory_not_equal(&other[0], &other[1], sizeof(a));
	assert_memory_not_equal(&other[0], &a, sizeof(a));
}

int main(int argc, char **argv __unused_arg)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_key),
	};
	struct hash_key own;

	if (argc > 1) {
		hash_key_init(&own);
		return full_write(STDOUT_FILENO, &own, sizeof(own), NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
