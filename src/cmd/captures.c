/* SPDX-License-Identifier: GPL-2.0-or-later */
/* captures.c: the captures of a session, for commands that take its directory. */
#include "captures.h"

const char *captures_word(struct operands *o, const char *text)
{
	char *copy = xstrdup(text);

	xarray_add(&o->own, &o->n_own, &o->own_max, &copy, sizeof(copy));
	return copy;
}

static void tell_missing(struct operands *o, const char *path, const struct session *s)
{
	if (!s->missing.len)
		return;
	o->incomplete = true;
	cli_note("%s: the session recorded %s, but its capture is missing", path, s->missing.s);
}

/* Whether an operand after the session names this guest of it, to say which VM it is. */
static bool operand_is_named(const struct operands *o, int from, const char *path)
{
	size_t n = strlen(path);

	for (int i = from; i < o->argc; i++)
		if (!strncmp(o->argv[i], path, n) && (!o->argv[i][n] || o->argv[i][n] == '='))
			return true;
	return false;
}

/*
 * Captures of a session from `first` on, in place of that many operands from `at` on. What an
 * operand after the session says about a guest takes precedence over the session.
 */
static void captures_put(struct operands *o, int at, int instead, const struct session *s,
			 size_t first)
{
	char **argv = xcalloc((size_t)o->argc + s->n + 1, sizeof(*argv));
	int n = 0;

	for (int i = 0; i < at; i++)
		argv[n++] = o->argv[i];
	for (size_t i = first; i < s->n; i++)
		if (!i || !operand_is_named(o, at + instead, s->v[i].path))
			argv[n++] = (char *)captures_word(o, s->v[i].operand);
	for (int i = at + instead; i < o->argc; i++)
		argv[n++] = o->argv[i];
	free(o->made);
	o->argv = o->made = argv;
	o->argc = n;
}

int captures_at(struct operands *o, int at, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	int ret = at < o->argc ? session_ask(o->argv[at], &s, err) : 0;

	if (ret || !s.n)
		return ret;
	tell_missing(o, o->argv[at], &s);
	captures_put(o, at, 1, &s, 0);
	return 0;
}

int captures_host(struct operands *o, const char **input, struct session *s, struct kvmft_err *err)
{
	int ret = session_ask(*input, s, err);

	if (ret || !s->n)
		return ret;
	tell_missing(o, *input, s);
	*input = captures_word(o, s->v[0].path);
	return 0;
}

int captures_session(struct operands *o, const char **input, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	int ret = captures_host(o, input, &s, err);

	if (!ret && s.n > 1)
		captures_put(o, 0, 0, &s, 1);
	return ret;
}

int captures_first(void *opts __unused_arg, struct operands *o, struct kvmft_err *err)
{
	return captures_at(o, 0, err);
}
