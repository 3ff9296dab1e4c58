/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spec.c: which guests are to be recorded, how they are reached, and what is recorded there. */
#include "sides.h"

#define QGA "qga:"

/* ---- words ---- */

/* One word, unquoted in place; *p is after it then. -EINVAL: an unclosed quote. */
static int next_word(char **p, char **word)
{
	char *from = *p, *to = *p, quote = '\0';

	*word = to;
	for (; *from && (quote || !strchr(" \t\n", *from)); from++) {
		if (*from == quote)
			quote = '\0';
		else if (!quote && (*from == '\'' || *from == '"'))
			quote = *from;
		else if (*from == '\\' && quote != '\'' && from[1])
			*to++ = *++from;
		else
			*to++ = *from;
	}
	*p = *from ? from + 1 : from;
	*to = '\0';
	return quote ? -EINVAL : 0;
}

int side_split(const char *text, const char *what, struct remote_words *w, struct kvmft_err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	char *p = copy, *word;
	int ret = copy ? 0 : -ENOMEM;

	while (!ret && *(p += strspn(p, " \t\n"))) {
		ret = next_word(&p, &word);
		if (ret)
			return err_usage(err, "%s: a quote is not closed in '%s'", what, text);
		ret = remote_words_add(w, word);
	}
	return ret ? err_set(err, -ret, "out of memory") : 0;
}

/* ---- --guest ---- */

/* A name is a label, a file, and maybe a VM of this host. */
static int check_name(const char *name, struct kvmft_err *err)
{
	if (!*name || *name == '.' || strlen(name) > 63)
		return err_usage(err,
				 "--guest: a guest's name has 1 to 63 characters, the first of "
				 "them no dot");
	for (const char *p = name; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr("/=:%\\'\"", *p))
			return err_usage(err,
					 "--guest '%s': the name becomes a directory: letters, "
					 "digits, - _ . only",
					 name);
	if (!strcmp(name, SIDES_HOST) || !strcmp(name, "session"))
		return err_usage(err, "--guest %s: that name is reserved", name);
	return 0;
}

static int parse_one(const char *text, struct side_spec *s, struct kvmft_err *err)
{
	const char *eq = strchr(text, '=');
	char *how;
	int ret;

	s->name = strndup(text, eq ? (size_t)(eq - text) : strlen(text));
	if (!s->name)
		return err_set(err, ENOMEM, "out of memory");
	ret = check_name(s->name, err);
	if (ret)
		return ret;
	if (!eq) {
		struct sbuf ssh = { 0 };

		sbuf_addf(&ssh, "ssh root@%s", s->name);
		how = sbuf_take(&ssh);
	} else {
		how = strdup(eq + 1);
	}
	s->text = how;
	if (!how)
		return err_set(err, ENOMEM, "out of memory");
	if (!strncmp(how, QGA, strlen(QGA))) {
		s->agent = how + strlen(QGA);
		if (!*s->agent)
			return err_usage(err, "--guest %s: the agent's socket goes after qga:",
					 text);
		/* A path has no blanks here: virsh qemu-agent-command DOMAIN. */
		return strpbrk(s->agent, " \t") ? side_split(s->agent, "--guest", &s->command, err)
						: 0;
	}
	ret = side_split(how, "--guest", &s->command, err);
	if (ret || s->command.n)
		return ret;
	return err_usage(err, "--guest %s: after = goes the command that reaches the guest, such "
			 "as 'ssh root@%s'", text, s->name);
}

static int check_twice(const struct side_spec *spec, size_t n, struct kvmft_err *err)
{
	for (size_t i = 0; i + 1 < n; i++)
		if (!strcmp(spec[i].name, spec[n - 1].name))
			return err_usage(err, "--guest %s is given twice", spec[i].name);
	return 0;
}

static bool is_for_guest(const char *text, const char *guest)
{
	size_t len = strcspn(guest, "=");

	return !strncmp(guest, text, len) && text[len] == ':';
}

/*
 * Options begin like this; otherwise it would be a command to run there, with a name that nobody
 * has.
 */
static int check_options(const struct sides_config *s, struct kvmft_err *err)
{
	for (size_t i = 0; i < s->options.n; i++) {
		const char *text = s->options.v[i];
		const char *first = text + strspn(text, " \t\n'\"");
		bool known = *first == '-' || !*first;

		for (size_t k = 0; k < s->guests.n && !known; k++)
			known = is_for_guest(text, s->guests.v[k]);
		if (!known)
			return err_usage(err, "--guest-options '%s': options, or the NAME of a --guest, a "
					 "colon and options", text);
	}
	return 0;
}

int side_specs(const struct sides_config *s, struct side_spec **spec, size_t *n,
	       struct kvmft_err *err)
{
	int ret = check_options(s, err);

	*n = 0;
	*spec = NULL;
	if (ret)
		return ret;
	if (s->guests.n > SIDES_MAX_GUESTS)
		return err_usage(err, "--guest: at most %d guests at once", SIDES_MAX_GUESTS);
	*spec = calloc(s->guests.n + 1, sizeof(**spec));
	if (!*spec)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < s->guests.n && !ret; i++) {
		ret = parse_one(s->guests.v[i], &(*spec)[(*n)++], err);
		ret = ret ?: check_twice(*spec, *n, err);
	}
	return ret;
}

void side_specs_free(struct side_spec *spec, size_t n)
{
	for (size_t i = 0; spec && i < n; i++) {
		free(spec[i].name);
		free(spec[i].text);
		remote_words_free(&spec[i].command);
	}
	free(spec);
}

/* ---- what is recorded there ---- */

/* Options after "NAME:" are for that guest; NULL: they are for another one. */
static const char *options_for(const char *text, const struct sides_config *s, const char *name)
{
	for (size_t i = 0; i < s->guests.n; i++)
		if (is_for_guest(text, s->guests.v[i]))
			return is_for_guest(text, name) ? strchr(text, ':') + 1 : NULL;
	return text;
}

int side_words(const struct sides_config *s, const struct side_spec *spec, struct remote_words *w,
	       struct kvmft_err *err)
{
	int ret = s->flight ? remote_words_add(w, "--flight-recorder") : 0;
	char before[32];

	snprintf(before, sizeof(before), "--before=%lluns", (unsigned long long)s->before.v);
	ret = ret || !s->before.set ? ret : remote_words_add(w, before);
	for (size_t i = 0; i < s->events.n && !ret; i++) {
		ret = remote_words_add(w, "-e");
		ret = ret ?: remote_words_add(w, s->events.v[i]);
	}
	if (ret)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < s->options.n && !ret; i++) {
		const char *text = options_for(s->options.v[i], s, spec->name);

		ret = text ? side_split(text, "--guest-options", w, err) : 0;
	}
	if (ret || !s->command)
		return ret;
	ret = remote_words_add(w, "--");
	return ret ? err_set(err, ENOMEM, "out of memory")
		   : side_split(s->command, "--guest-command", w, err);
}
