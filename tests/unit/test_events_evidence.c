/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of what must have been recorded to name a cause: manual pages show it as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>

#include "kvmft/evidence.h"

static void add_events(struct sbuf *b, uint32_t events)
{
	if (!events)
		sbuf_addc(b, '-');
	for (const char *gap = ""; events; events &= events - 1, gap = ", ") {
		_cleanup_(sbuf_free) struct sbuf name = { 0 };

		evidence_names(events & -events, "", &name);
		sbuf_addf(b, "%s%s%s", gap, *name.s == 'g' ? "guest's " : "",
			  strchr(name.s, ' ') + 1);
	}
}

/* Where rules are shown, in a list with that head. */
static const struct page {
	const char *of; /* of which; NULL: of all others, with what they are of */
	const char *path, *head;
} pages[] = {
	{ "blame", "kvmft-blame.1", "\n.It Em cause Ta Em needs\n" },
	{ "split", "kvmft-report.1", "\n.It Em part Ta Em needs\n" },
	{ "clock", "kvmft-clock.1", "\n.It Em finding Ta Em needs\n" },
	{ "stuck", "kvmft-stuck.1", "\n.It Em class Ta Em needs\n" },
	{ NULL, "kvmft-latency.1", "\n.It Em what Ta Em needs\n" },
};

/* Which of the pages has it. */
static size_t page_of(const struct evidence_rule *r)
{
	size_t i = 0;

	while (pages[i].of && strcmp(pages[i].of, r->of))
		i++;
	return i;
}

static size_t page_rules(const struct page *p, const char *section)
{
	size_t n = 0;

	for (size_t i = 0; evidence_at(i); i++) {
		_cleanup_(sbuf_free) struct sbuf row = { 0 };
		const struct evidence_rule *r = evidence_at(i);

		if (&pages[page_of(r)] != p)
			continue;
		assert_ptr_equal(evidence_rule(r->of, r->what), r);
		assert_int_equal(r->needs & r->sure, 0);
		sbuf_addf(&row, "\n.It %s%s%s Ta ", p->of ? "" : r->of, p->of ? "" : " ", r->what);
		add_events(&row, r->needs);
		if (r->sure) {
			sbuf_add(&row, "; sure: ");
			add_events(&row, r->sure);
		}
		sbuf_addc(&row, '\n');
		if (!strstr(section, row.s))
			fail_msg("%s lacks the row:%s", p->path, row.s);
		n++;
	}
	return n;
}

static void test_manual(void **state __unused_arg)
{
	size_t all = 0, n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		_cleanup_free_ char *text = NULL, *path = NULL;
		size_t rows = 0, rules;
		char *section, *end;

		assert_true(asprintf(&path, "%s/../../man/%s", TEST_DATA_DIR, pages[i].path) > 0);
		assert_true(file_read_all(AT_FDCWD, path, 1u << 20, &text) > 0);
		section = strstr(text, pages[i].head);
		assert_non_null(section);
		end = strstr(section, "\n.El\n");
		assert_non_null(end);
		end[1] = '\0';
		rules = page_rules(&pages[i], section);
		for (const char *p = section; (p = strstr(p, "\n.It ")); p++)
			rows++;
		assert_int_equal(rows, rules + 1); /* and the head */
		all += rules;
	}
	while (evidence_at(n))
		n++;
	assert_int_equal(all, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_manual) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
