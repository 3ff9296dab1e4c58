/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_compile.c: from libtraceevent's parse of a print format to a plan.
 *
 * Only the files that include fmt_build.h see event-parse.h. libtraceevent parses; it never sees an
 * event. What it gets is written from fields that were checked and by fmt_safe.c. Plugins are
 * switched off: they are code from the user's home directory.
 *
 * Its own printing, tep_print_event(), is what tests compare with, and no more: its eval_num_arg()
 * computes all in long long and reads where a record's lengths point, past its end as well.
 *
 * Anything these files do not know makes the whole event fall back to name=value pairs.
 */
#include "fmt_build.h"

#include <ctype.h>

/* ---- libtraceevent ---- */

static struct tep_handle *handle(struct fmt *f)
{
	struct tep_handle *tep = f->tep ?: tep_alloc();

	if (f->tep || !tep)
		return tep;
	tep_set_flag(tep, TEP_DISABLE_PLUGINS | TEP_DISABLE_SYS_PLUGINS);
	tep_set_loglevel(TEP_LOG_NONE); /* what cannot be parsed is not worth a line on stderr */
	f->tep = tep;
	return tep;
}

void fmt_plan_close(struct fmt *f)
{
	if (f->tep)
		tep_free(f->tep);
	f->tep = NULL;
}

/* A format with nothing but what was checked; NULL if it must not be handed over. */
static char *safe_format(const struct fmt_event *e, const char *table_at, int id)
{
	struct sbuf b = { 0 };
	size_t i;

	sbuf_addf(&b, "name: %s\nID: %d\nformat:\n", e->name, id);
	for (i = 0; i < e->nfld; i++) {
		const struct fmt_fld *fld = &e->fld[i];

		sbuf_addf(&b, "%s\tfield:%.*s;\toffset:%u;\tsize:%u;\tsigned:%u;\n",
			  i == e->ncommon ? "\n" : "", (int)fld->decl_len, fld->decl, fld->f.off,
			  fld->f.size, fld->f.is_signed);
	}
	sbuf_add(&b, "\nprint fmt: ");
	if (!fmt_safe(e, table_at, &b)) {
		sbuf_free(&b);
		return NULL;
	}
	sbuf_addc(&b, '\n');
	return sbuf_take(&b);
}

/* libtraceevent's parse, kept until fmt_plan_close(). */
static const struct tep_event *parse(struct fmt *f, const struct fmt_event *e, const char *table_at)
{
	struct tep_handle *tep = handle(f);
	int id = tep ? tep_get_events_count(tep) + 1 : 0; /* a text may be parsed more than once */
	_cleanup_free_ char *text = id ? safe_format(e, table_at, id) : NULL;
	struct tep_event *ev;

	if (!text || tep_parse_event(tep, text, strlen(text), e->sys))
		return NULL;
	ev = tep_find_event(tep, id);
	return ev && !(ev->flags & (int)(TEP_EVENT_FL_FAILED | TEP_EVENT_FL_ISBPRINT)) ? ev : NULL;
}

/* ---- the format string ---- */

static struct pseg *segment(struct build *b)
{
	struct fmt_plan *p = b->plan;
	struct pseg *s = array_grow(&p->seg, p->nseg, &p->seg_cap, sizeof(*s));

	if (s)
		p->nseg++;
	else
		b->failed = true;
	return s;
}

/* An event is one line: tabs and line ends of its format are blanks there. */
static void one_line(struct sbuf *t, bool last)
{
	while (last && t->len && t->s[t->len - 1] == '\n')
		t->len--;
	for (size_t i = 0; i < t->len; i++)
		if (isspace((unsigned char)t->s[i]))
			t->s[i] = ' ';
}

/* Literal text up to the next conversion; returns its end. */
static const char *literal(struct build *b, const char *f)
{
	static const char zeros[PUT_SLACK];
	_cleanup_(sbuf_free) struct sbuf t = { 0 };
	struct pseg *s;

	for (; *f && (*f != '%' || f[1] == '%'); f++) {
		if (*f == '\\' && f[1]) {
			f++;
			sbuf_addc(&t, *f == 'n' ? '\n' : *f == 't' ? '\t' : *f == 'r' ? '\r' : *f);
		} else {
			f += *f == '%';
			sbuf_addc(&t, *f);
		}
	}
	one_line(&t, !*f);
	s = segment(b);
	if (s) {
		s->len = t.len;
		sbuf_add_mem(&t, zeros, sizeof(zeros));
		s->text = sbuf_take(&t);
		if (s->text)
			str_printable(s->text);
		else
			b->failed = true;
	}
	return f;
}

static bool take_width(const char **f, uint16_t *v)
{
	unsigned int n = 0;

	for (; isdigit((unsigned char)**f); (*f)++)
		if ((n = n * 10 + (unsigned int)(**f - '0')) > PLAN_MAX_WIDTH)
			return false;
	*v = (uint16_t)n;
	return true;
}

/* "%" flags width .prec length conversion; false for those not printed here. */
static bool parse_spec(const char **pf, struct pspec *s, uint32_t long_size)
{
	const char *f = *pf + 1;
	int longs = 0;

	for (; *f && strchr("#0-+", *f); f++) {
		s->alt |= *f == '#';
		s->zero |= *f == '0';
		s->left |= *f == '-';
		s->plus |= *f == '+';
	}
	if (*f == '*') {
		s->star = STAR_WIDTH;
		f++;
	} else if (!take_width(&f, &s->width)) {
		return false;
	}
	if (*f == '.') {
		f++;
		if (*f == '*') {
			if (s->star)
				return false;
			s->star = STAR_PREC;
			f++;
		} else if (s->has_prec = true, !take_width(&f, &s->prec)) {
			return false;
		}
	}
	for (; *f && strchr("hlLzZ", *f); f++)
		longs = *f == 'h' ? longs - 1 : *f == 'l' ? longs + 1 : *f == 'L' ? 2 : 1;
	if (longs < -2 || longs > 2 || !*f || !strchr("cduixXosp", *f))
		return false;
	s->conv = *f == 'i' ? 'd' : *f;
	/* libtraceevent turns %l of a 64-bit kernel into 64 bits, and leaves the machine's long */
	s->bytes = longs == -2 ? 1 : longs == -1 ? 2 : longs == 0 ? 4 :
		   longs == 2 || long_size == 8 ? 8 : (uint8_t)sizeof(long);
	*pf = f + 1;
	return true;
}

/* %p prints an address, %ps and the like a function, which is only an address here, too. */
static bool parse_pointer(const char **f, struct pspec *s)
{
	s->alt = **f && strchr("sSfF", **f);
	if (s->alt)
		(*f)++;
	else if (isalpha((unsigned char)**f))
		return false; /* %pI4, %pM, %ph ...: not printed here */
	return !s->star;
}

static const char *conversion(struct build *b, const char *f, const struct tep_print_arg **arg)
{
	struct pseg *s = segment(b);

	if (!s || !parse_spec(&f, &s->spec, b->f->long_size) ||
	    (s->spec.conv == 'p' && !parse_pointer(&f, &s->spec))) {
		b->failed = true;
		return f;
	}
	if (s->spec.star) {
		s->star = build_number(b, *arg);
		*arg = *arg ? (*arg)->next : NULL;
	}
	s->arg = s->spec.conv == 's' ? build_text(b, *arg) : build_number(b, *arg);
	*arg = *arg ? (*arg)->next : NULL;
	return f;
}

struct fmt_plan *fmt_plan_new(struct fmt *f, const struct fmt_event *e, const char *table_at)
{
	struct build b = { .e = e, .f = f };
	const struct tep_event *ev = parse(f, e, table_at);
	const struct tep_print_arg *arg;
	const char *p;

	if (!ev || !ev->print_fmt.format)
		return NULL;
	b.plan = calloc(1, sizeof(*b.plan));
	if (!b.plan)
		return NULL;
	b.plan->need = e->line.need;
	arg = ev->print_fmt.args;
	for (p = ev->print_fmt.format; *p && !b.failed; )
		p = *p == '%' && p[1] != '%' ? conversion(&b, p, &arg) : literal(&b, p);
	if (b.failed || !plan_lower(b.plan)) {
		fmt_plan_free(b.plan);
		return NULL;
	}
	return b.plan;
}
