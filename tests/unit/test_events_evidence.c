/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of what must have been recorded to name a cause: kvmft-blame(1) shows it as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>

#include "kvmft/evidence.h"

static void add_events(struct sbuf *b, uint32_t events)
{
	bool first = true;

	for (uint32_t bit = 1; bit < 1u << EVIDENCE_BITS; bit <<= 1) {
		if (!(events & bit))
			continue;
		sbuf_addf(b, "%s%s%s", first ? "" : ", ", evidence_is_guests(bit) ? "guest's " : "",
			  evidence_name(bit));
		first = false;
	}
	if (first)
		sbuf_addc(b, '-');
}

static void test_manual(void **state __unused_arg)
{
	_cleanup_free_ char *page = NULL;
	size_t rules = 0, rows = 0;
	char *section, *end;

	assert_true(file_read_all(AT_FDCWD, TEST_DATA_DIR "/../../man/kvmft-blame.1", 1u << 20, &page) > 0);
	section = strstr(page, "\n.Bl -column \"guest-irqs-off\"");
	assert_non_null(section);
	end = strstr(section, "\n.El\n");
	assert_non_null(end);
	end[1] = '\0';
	for (const struct evidence_rule *r; (r = evidence_at(rules)); rules++) {
		_cleanup_(sbuf_free) struct sbuf row = { 0 };

		assert_string_equal(r->of, "blame");
		assert_ptr_equal(evidence_rule(r->of, r->what), r);
		assert_int_equal(r->needs & r->sure, 0);
		sbuf_addf(&row, "\n.It %s Ta ", r->what);
		add_events(&row, r->needs);
		sbuf_add(&row, " Ta ");
		add_events(&row, r->sure);
		sbuf_addc(&row, '\n');
		if (!strstr(section, row.s))
			fail_msg("kvmft-blame(1) lacks the row:%s", row.s);
	}
	for (const char *p = section; (p = strstr(p, "\n.It ")); p++)
		rows++;
	assert_true(rules > 20);
	assert_int_equal(rows, rules + 1); /* and the head */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_manual) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
