/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_diff_order.c: causes before what comes of them, by what they cost; details below what leads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "kvmft/diff.h"

struct sample {
	enum diff_kind kind;
	const char *group, *name;
	enum diff_measure measure;
	double effect;
	bool beyond;
};

/* As they have to come out. */
static const struct sample wanted[] = {
	{ DIFF_EXITS, "hlt", "hlt", DIFF_PART_OF(PART_POLL), 1.2, true },
	{ DIFF_EXITS, "hlt", "hlt", DIFF_RATE, 0.1, true },
	{ DIFF_EXITS, "hlt", "hlt", DIFF_PART_OF(PART_BLOCKED), 0, true },
	{ DIFF_LATENCY, "sched", "sched total", DIFF_SHARE, 0.5, true },
	{ DIFF_LATENCY, "sched", "sched waiting", DIFF_MEAN, 0.4, true },
	/* nearly the same effect: the rate leads */
	{ DIFF_EXITS, "npf", "npf", DIFF_RATE, 0.09, true },
	{ DIFF_EXITS, "npf", "npf", DIFF_SHARE, 0.1, true },
	{ DIFF_TIME, "time", "guest", DIFF_SHARE, 0.9, true },
	{ DIFF_TIME, "time", "exits: polling", DIFF_SHARE, 0.8, true },
	{ DIFF_LATENCY, "io", "io total", DIFF_MEAN, 5, true },
	/* no effect to speak of */
	{ DIFF_EXITS, "cpuid", "cpuid", DIFF_RATE, 0.0002, true },
	{ DIFF_LATENCY, "irq", "irq masked", DIFF_P50, 0.0001, true },
	/* noise */
	{ DIFF_EXITS, "msr", "msr", DIFF_RATE, 3, false },
	{ DIFF_EXITS, "npf", "npf", DIFF_P99, 0.3, false },
};

#define N ARRAY_SIZE(wanted)

static void test_order(void **state __unused_arg)
{
	/* each start gives another order to sort */
	for (size_t start = 0; start < N; start++) {
		struct diff_row row[N] = { 0 };
		struct diff d = { .row = row, .n = N };

		for (size_t i = 0; i < N; i++) {
			const struct sample *w = &wanted[(start + i * 5) % N];

			row[i] = (struct diff_row){ .kind = w->kind, .group = w->group, .measure = w->measure,
						    .effect = w->effect, .beyond = w->beyond,
						    .chance = w->measure == DIFF_P99 ? 0.5 : 0.1 };
			strcpy(row[i].name, w->name);
		}
		diff_order(&d);
		for (size_t i = 0; i < N; i++) {
			assert_string_equal(row[i].name, wanted[i].name);
			assert_int_equal(row[i].measure, wanted[i].measure);
			assert_int_equal(row[i].lead, wanted[i].beyond &&
						(!i || strcmp(wanted[i].group, wanted[i - 1].group)));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_order) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
