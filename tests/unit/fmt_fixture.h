/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_fixture.h: captures that hold nothing but formats, for the tests of src/ring/fmt*.c.
 */
#ifndef KVMFT_TESTS_FMT_FIXTURE_H
#define KVMFT_TESTS_FMT_FIXTURE_H

#include "unit/capture_fixture.h"

#include <setjmp.h>

#include <cmocka.h>

#define COMMON                                                         \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

/* libtraceevent leaks what it built of a print format that it then refuses. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libtraceevent";
}

static inline void add_format(struct capture *c, const char *sys, const char *name, const char *text)
{
	struct cap_format *f = array_grow(&c->format, c->nformat, &c->format_cap, sizeof(*f));

	assert_non_null(f);
	f->sys = strdup(sys);
	f->name = strdup(name);
	f->text = strdup(text);
	f->len = strlen(text);
	c->nformat++;
}

static inline void free_formats(struct capture *c)
{
	size_t i;

	for (i = 0; i < c->nformat; i++) {
		free(c->format[i].sys);
		free(c->format[i].name);
		free(c->format[i].text);
	}
	free(c->format);
}

static inline struct fmt *load(struct capture *c)
{
	return fmt_load(c);
}

static inline struct capture corpus_capture(void)
{
	struct capture c = { .long_size = 8 };
	const char *sys, *name, *text;
	size_t i;

	for (i = 0; (text = enc_format_at(i, &sys, &name)); i++)
		add_format(&c, sys, name, text);
	return c;
}

#endif
