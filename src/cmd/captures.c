/* SPDX-License-Identifier: GPL-2.0-or-later */
/* captures.c: the captures of a session, for commands that take its directory. */
#include "captures.h"

/* The text goes with the operands. */
static int keep(struct operands *o, char *text, struct kvmft_err *err)
{
	if (text && !array_add(&o->own, &o->n_own, &o->own_max, &text, sizeof(text)))
		return 0;
	free(text);
	return err_set(err, ENOMEM, "out of memory");
}

static const char *kept(const struct operands *o)
{
	return o->own[o->n_own - 1];
}

static void tell_missing(struct operands *o, const char *path, const struct session *s)
{
	if (!s->missing.len)
		return;
	o->incomplete = true;
	cli_note("%s: the session recorded %s, but its capture is missing", path, s->missing.s);
}

/* Whether an operand after the session names this guest of it, to say which VM it is. */
static bool is_named(const struct operands *o, int from, const char *path)
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
static int put(struct operands *o, int at, int instead, const struct session *s, size_t first,
	       struct kvmft_err *err)
{
	char **argv = calloc((size_t)o->argc + s->n + 1, sizeof(*argv));
	int n = 0, ret = argv ? 0 : err_set(err, ENOMEM, "out of memory");

	for (int i = 0; !ret && i < at; i++)
		argv[n++] = o->argv[i];
	for (size_t i = first; !ret && i < s->n; i++) {
		if (i && is_named(o, at + instead, s->v[i].path))
			continue;
		ret = keep(o, strdup(s->v[i].operand), err);
		if (!ret)
			argv[n++] = (char *)kept(o);
	}
	for (int i = at + instead; !ret && i < o->argc; i++)
		argv[n++] = o->argv[i];
	if (ret) {
		free(argv);
		return ret;
	}
	free(o->made);
	o->argv = o->made = argv;
	o->argc = n;
	return 0;
}

int captures_before(struct operands *o, const struct session *s, struct kvmft_err *err)
{
	return put(o, 0, 0, s, 1, err);
}

int captures_at(struct operands *o, int at, struct kvmft_err *err)
{
	_cleanup_(session_free) struct session s = { 0 };
	int ret = at < o->argc ? session_ask(o->argv[at], &s, err) : 0;

	if (ret || !s.n)
		return ret;
	tell_missing(o, o->argv[at], &s);
	return put(o, at, 1, &s, 0, err);
}

int captures_host(struct operands *o, const char **input, struct session *s, struct kvmft_err *err)
{
	int ret = session_ask(*input, s, err);

	if (ret || !s->n)
		return ret;
	tell_missing(o, *input, s);
	ret = keep(o, strdup(s->v[0].path), err);
	if (!ret)
		*input = kept(o);
	return ret;
}

int captures_word(struct operands *o, const char *text, const char **word, struct kvmft_err *err)
{
	int ret = keep(o, strdup(text), err);

	if (!ret)
		*word = kept(o);
	return ret;
}

int captures_first(void *opts __unused_arg, struct operands *o, struct kvmft_err *err)
{
	return captures_at(o, 0, err);
}
