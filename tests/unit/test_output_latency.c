/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_output_latency.c: tests of src/output/lat_*.c: times shorter than the alignment's uncertainty are marked, in
 * all forms; in ns and in cycles.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "latency/priv.h"
#include "timeline/priv.h"
#include "kvmft/results.h"

extern const struct lat_desc lat_desc_irq;

enum { TOTAL = 0, GUEST = 8 }; /* stages of irq */

/* A VM with one group of interrupts: half of them took `guest` from the entry to the handler. */
struct fixture {
	struct capture cap;
	struct hostmap_vm vm;
	struct hostmap map;
	struct tl_source src, *srcs[1];
	struct timeline t;
	struct lat lat;
	struct lat_guest guest;
	struct lat_group group;
	struct lat_bound bound;
	struct out_clock clock;
	struct lat_view view;
	bool want[LAT_KINDS];
};

static void fixture_make(struct fixture *f, uint64_t guest, uint64_t uncertain, uint64_t khz)
{
	*f = (struct fixture){ .vm = { .label = "one" }, .want = { [LAT_IRQ] = true } };
	f->cap.tsc_khz = khz;
	f->map = (struct hostmap){ .cap = &f->cap, .vm = &f->vm, .nvm = 1 };
	f->src.cap = &f->cap;
	f->srcs[0] = &f->src;
	f->t = (struct timeline){ .map = &f->map, .src = f->srcs, .nsrc = 1 };
	f->lat.khz = khz;
	f->lat.guest = &f->guest;
	f->lat.o.want[LAT_IRQ] = true;
	f->lat.table[LAT_T_IRQ] = (struct lat_table){ .desc = &lat_desc_irq, .group = &f->group, .ngroup = 1 };
	snprintf(f->group.name, sizeof(f->group.name), "236 local_timer");
	for (unsigned int s = TOTAL; s <= GUEST; s += GUEST) {
		f->group.stage[s] = calloc(1, sizeof(*f->group.stage[s]));
		loghist_add(f->group.stage[s], s ? guest : 100000);
	}
	f->bound = (struct lat_bound){ .guest = true, .known = true, .early = 1, .late = 1, .uncertain = uncertain };
	f->clock = (struct out_clock){ .map = &f->map, .khz = khz, .no_rate = !khz };
	f->view = (struct lat_view){ .lat = &f->lat, .t = &f->t, .clock = &f->clock, .want = f->want,
				     .bound = &f->bound, .all = true };
}

/* What the form of that name prints; the caller's. */
static char *printed(const char *format, uint64_t guest, uint64_t uncertain, uint64_t khz)
{
	struct fixture f;
	struct sbuf b = { 0 };

	fixture_make(&f, guest, uncertain, khz);
	lat_format_find(format)->print(&f.view, &b);
	for (unsigned int s = TOTAL; s <= GUEST; s += GUEST) {
		loghist_free(f.group.stage[s]);
		free(f.group.stage[s]);
	}
	return sbuf_take(&b);
}

static void has(const char *format, uint64_t guest, uint64_t uncertain, uint64_t khz, const char *what, bool want)
{
	char *text = printed(format, guest, uncertain, khz);

	if (!strstr(text, what) == want)
		fail_msg("%s: %s '%s' in:\n%s", format, want ? "no" : "there is", what, text);
	free(text);
}

static void test_below(void **state)
{
	(void)state;
	has("text", 500, 1000, 1000000, "0.500 <\n", true);
	has("text", 500, 1000, 1000000, "100.000 <\n", false);
	has("text", 500, 1000, 1000000, "the uncertainty of one's alignment, +-1 us", true);
	has("json", 500, 1000, 1000000, "\"uncertain_ns\":1000,\"below_uncertainty\":true", true);
	has("json", 500, 1000, 1000000, "\"off_late_ns\":1,\"uncertain_ns\":1000", true);
	has("csv", 500, 1000, 1000000, ",guest,1,0.500,0.500,0.500,0.500,0.500,0.500,0.001,0.001,1.000,1\n", true);
	has("csv", 500, 1000, 1000000, ",total,1,100.000,100.000,100.000,100.000,100.000,100.000,0.001,0.001,1.000,0\n",
	    true);
}

static void test_above(void **state)
{
	(void)state;
	has("text", 1500, 1000, 1000000, "<\n", false);
	has("json", 1500, 1000, 1000000, "\"below_uncertainty\":true", false);
	has("csv", 1500, 1000, 1000000, ",1.000,1\n", false);
}

/* The offset is known: nothing of it is said. */
static void test_known(void **state)
{
	(void)state;
	has("text", 500, 0, 1000000, "<", false);
	has("json", 500, 0, 1000000, "below_uncertainty", false);
	has("csv", 500, 0, 1000000, ",guest,1,0.500,0.500,0.500,0.500,0.500,0.500,0.001,0.001,,\n", true);
}

static void test_cycles(void **state)
{
	(void)state;
	has("text", 500, 1000, 0, " 500 ~ <\n", false); /* 2 cycles of slack are not 1 % of it */
	has("text", 500, 1000, 0, " 500 <\n", true);
	has("text", 500, 1000, 0, "alignment, +-1000 cycles", true);
	has("text", 500, 1000, 0, "note: times are in CYCLES", true);
	has("json", 500, 1000, 0, "\"unit\":\"cycles\",\"tsc_khz\":null", true);
	has("json", 500, 1000, 0, "\"uncertain_cycles\":1000,\"below_uncertainty\":true", true);
	has("csv", 500, 1000, 0, ",guest,1,500,500,500,500,500,500,1,1,1000,1\n", true);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_below),
		cmocka_unit_test(test_above),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_cycles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
