/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_timeline_filter.c: tests of src/timeline/filter.c: what a filter says of a record, and what is no
 * filter.
 */
#include "kvmft/timeline.h"

#include <errno.h>
#include <setjmp.h>

#include <cmocka.h>

#include "unit/capture_fixture.h"

static void test_filters(void **state)
{
	static const struct {
		const char *text;
		int want; /* 1, 0; -1: no filter */
	} cases[] = {
		{ "common_pid == 100", 1 }, { "common_pid==0x64", 1 }, { "common_pid != 100", 0 },
		{ "common_pid > 99", 1 }, { "common_pid >= 101", 0 }, { "common_pid < -1", 0 },
		{ "common_pid > -1", 1 }, { "common_pid & 4", 1 }, { "common_pid & 3", 0 },
		{ "common_pid == 1 || common_pid == 100", 1 }, { "common_pid == 1 && common_pid == 100", 0 },
		{ "common_pid == 1 && common_pid == 1 || common_pid == 100", 1 },
		{ "common_pid == 100 || common_pid == 1 && common_pid == 2", 1 },
		{ "(common_pid == 100 || common_pid == 1) && common_pid == 2", 0 },
		{ "!common_pid == 100", 0 }, { "!(common_pid == 1)", 1 }, { "!!common_pid == 100", 1 },
		/* what cannot be told is neither true nor false */
		{ "nosuch == 0", 0 }, { "!nosuch == 0", 0 }, { "nosuch == 0 || common_pid == 100", 1 },
		{ "!nosuch == 0 && common_pid == 100", 0 }, { "!(nosuch == 0 && common_pid == 1)", 1 },
		{ "common_pid ~ \"1*\"", 0 }, { "!common_pid == text", 0 }, { "common_pid != text", 0 },
		{ "", -1 }, { "common_pid", -1 }, { "common_pid ==", -1 }, { "== 1", -1 }, { "(common_pid == 1", -1 },
		{ "common_pid == 1)", -1 }, { "common_pid == 1 &&", -1 }, { "common_pid < text", -1 },
		{ "common_pid == \"open", -1 }, { "common_pid == 1 common_pid == 1", -1 }, { "!", -1 },
	};
	struct subbuf_geom g = enc_geom(FX_SUB, 8);
	char *dir = enc_tmpdir();
	struct kvmft_err err = { .text = "" };
	struct sbuf meta = { 0 };
	const struct fmt_event *ev;
	struct capture *cap;
	uint8_t data[64];
	struct rec rec = { .data = data, .len = sizeof(data) };
	struct fmt *fmt;

	(void)state;
	fx_meta(&meta, &g);
	fx_event(dir, &meta, "kvm", "kvm_entry");
	fx_end(&meta);
	fx_write(dir, &meta);
	cap = fx_open(dir);
	assert_non_null(cap);
	fmt = fmt_load(cap);
	ev = fmt_find(fmt, "kvm", "kvm_entry");
	assert_non_null(ev);
	rec.id = fmt_id(ev);
	enc_record(data, rec.id, 100, 0, sizeof(data));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct filter *f;
		int ret = filter_parse(cases[i].text, strlen(cases[i].text), &f, &err);

		if (cases[i].want < 0) {
			assert_int_equal(ret, -EINVAL);
			assert_null(f);
			continue;
		}
		assert_int_equal(ret, 0);
		if (filter_match(f, ev, &rec) != cases[i].want)
			fail_msg("'%s' is not %d", cases[i].text, cases[i].want);
		filter_free(f);
	}
	filter_free(NULL);
	fmt_free(fmt);
	capture_close(cap);
	enc_rmtree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_filters) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
