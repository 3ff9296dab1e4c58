/* SPDX-License-Identifier: GPL-2.0-or-later */
/* gate.c: limits for what may change, as text: "exits/op > +5 %". */
#include "kvmft/diff.h"

#include <ctype.h>

/* [+|-]N[.N] % and nothing else: a share. */
static bool percent_parse(const char *s, double *share)
{
	double v = 0, place = 1, sign = 1;

	s += strspn(s, " \t");
	if (*s == '+' || *s == '-')
		sign = *s++ == '-' ? -1 : 1;
	if (!isdigit((unsigned char)*s))
		return false;
	while (isdigit((unsigned char)*s))
		v = v * 10 + (*s++ - '0');
	if (*s == '.')
		while (isdigit((unsigned char)*++s))
			v += (*s - '0') * (place /= 10);
	s += strspn(s, " \t");
	*share = sign * v / 100;
	return *s == '%' && !s[1 + strspn(s + 1, " \t")] && v <= 1e6 && *share > -1;
}

int diff_gate_parse(struct diff_gate *g, const char *text, struct kvmft_err *err)
{
	static const struct {
		const char *end;
		enum diff_measure measure;
	} rates[] = { { "/s", DIFF_RATE }, { "/guest-s", DIFF_PER_GUEST }, { "/op", DIFF_PER_OP } };
	const char *op = text + strcspn(text, "<>");
	size_t n = (size_t)(op - text), m;
	const char *name = text;
	bool found = false;

	*g = (struct diff_gate){ .text = text, .less = *op == '<' };
	if (!*op || !percent_parse(op + 1, &g->limit))
		return err_usage(err, "'%s': a limit is WHAT > PERCENT %% or WHAT < PERCENT %%, "
				 "such as 'exits/s > +5 %%'", text);
	if (str_starts(text, "latency "))
		g->kind = DIFF_LATENCY, name += strlen("latency ");
	while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--;
	n -= MIN(n, (size_t)(name - text));
	for (size_t i = 0; i < ARRAY_SIZE(rates) && !found; i++) {
		m = strlen(rates[i].end);
		found = n > m && !strncmp(name + n - m, rates[i].end, m);
		if (found)
			g->measure = rates[i].measure, n -= m;
	}
	for (unsigned int i = DIFF_MEAN; i < DIFF_MEASURES && !found; i++) {
		m = strlen(diff_measures[i]);
		found = n > m && name[n - m - 1] == ' ' &&
			!strncmp(name + n - m, diff_measures[i], m);
		if (found)
			g->measure = (enum diff_measure)i, n -= m + 1;
	}
	if (!found || !n || n >= sizeof(g->name))
		return err_usage(err, "'%s': before the limit stands a row of --all with /s, /guest-s, /op, "
				 "mean, p50, p99 or share", text);
	memcpy(g->name, name, n);
	return 0;
}
