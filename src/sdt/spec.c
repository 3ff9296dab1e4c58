/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * spec.c: which markers of which file are meant.
 *
 * A path may contain colons: of the prefixes of the text that end before a colon, the first that is
 * a regular file is the path.
 */
#include "kvmft/sdt.h"

#define NAMES_SHOWN 10 /* of markers, in a message */

/* ---- the file ---- */

static int open_regular(const char *path, struct sdt_spec *s)
{
	int fd = file_open_regular(path, false);
	struct stat st;

	if (fd < 0)
		return fd == -EINVAL ? -ENOENT : fd;
	if (fstat(fd, &st) < 0) {
		close(fd);
		return -errno;
	}
	s->path = xstrdup(path);
	s->fd = fd;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

static int open_binary(const char *name, struct sdt_spec *s)
{
	int ret = *name ? open_regular(name, s) : -ENOENT;
	const char *p;

	if (ret != -ENOENT || !*name || strchr(name, '/'))
		return ret;
	/* Only absolute entries of PATH: a relative one depends on the current directory. */
	p = getenv("PATH");
	while (p && *p && ret == -ENOENT) {
		size_t n = strcspn(p, ":");
		struct sbuf path = { 0 };

		if (*p == '/') {
			sbuf_add_mem(&path, p, n);
			sbuf_addf(&path, "/%s", name);
			ret = open_regular(xsbuf_text(&path), s);
		}
		sbuf_free(&path);
		p += n + (p[n] == ':');
	}
	return ret;
}

/* Cuts the text after the path; *rest is what follows the colon, or "". */
static int take_path(struct sdt_spec *s, char **rest, struct kvmft_err *err)
{
	int ret = open_binary(s->text, s), first = ret;
	char *colon = strchr(s->text, ':');

	*rest = s->text + strlen(s->text);
	for (; ret == -ENOENT && colon; colon = strchr(colon + 1, ':')) {
		*colon = '\0';
		ret = open_binary(s->text, s);
		*rest = colon + 1;
		first = first == -ENOENT ? ret : first;
		if (ret == -ENOENT)
			*colon = ':';
	}
	if (!ret)
		return 0;
	return err_why(err, first, "%.*s: cannot open the program or library",
		       (int)strcspn(s->text, ":"), s->text);
}

/* ---- what of it ---- */

/* "argN:TYPE" */
static int take_type(char *text, struct sdt_want *w, const char *arg, struct kvmft_err *err)
{
	static const struct {
		const char *name;
		enum sdt_as as;
	} types[] = { { "string", SDT_AS_STRING }, { "hex", SDT_AS_HEX } };
	char *colon = strchr(text, ':');
	uint64_t n;

	if (colon)
		*colon = '\0';
	if (!colon || !str_starts(text, "arg") || parse_u64(text + 3, &n) || !n || n > SDT_ARGS_MAX)
		return err_usage(err,
				 "%s: '%s' is not argN:string or argN:hex, with N from 1 to %d",
				 arg, text, SDT_ARGS_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strcmp(colon + 1, types[i].name)) {
			w->as[n - 1] = types[i].as;
			return 0;
		}
	return err_usage(err, "%s: '%s' is not a type: string or hex", arg, colon + 1);
}

static int take_want(char *rest, struct sdt_want *w, const char *arg, struct kvmft_err *err)
{
	char *comma, *colon, *next, *from = strchr(rest, '/');
	size_t n = from ? strlen(from) : 0;
	int ret = 0;

	if (from && (n < 3 || from[n - 1] != '/'))
		return err_usage(err, "%s: the filter is not /FILTER/", arg);
	if (from) {
		from[n - 1] = '\0';
		*from = '\0';
		w->filter = from + 1;
	}
	comma = strchr(rest, ',');
	while (!ret && comma) {
		*comma++ = '\0';
		next = strchr(comma, ',');
		if (next)
			*next = '\0';
		ret = take_type(comma, w, arg, err);
		comma = next;
	}
	if (ret)
		return ret;
	colon = strchr(rest, ':');
	if (colon) {
		*colon = '\0';
		w->name = colon[1] ? colon + 1 : NULL;
	}
	w->provider = *rest ? rest : NULL;
	if (w->name && strchr(w->name, ':'))
		return err_usage(err, "%s: more than BINARY:PROVIDER:MARKER", arg);
	return 0;
}

int sdt_spec_parse(const char *arg, struct sdt_spec *s, struct kvmft_err *err)
{
	char *rest = NULL;
	int ret;

	*s = (struct sdt_spec){ .fd = -1, .text = xstrdup(arg) };
	ret = take_path(s, &rest, err);
	ret = ret ?: take_want(rest, &s->want, arg, err);
	if (ret)
		sdt_spec_free(s);
	return ret;
}

void sdt_spec_free(struct sdt_spec *s)
{
	util_close_fd(&s->fd);
	free(s->path);
	free(s->text);
	*s = (struct sdt_spec){ .fd = -1 };
}

/* ---- which there are ---- */

/* A few of them, each once as long as the compiler's copies of a marker are adjacent. */
static void add_names(const struct sdt_file *f, struct sbuf *b)
{
	const struct sdt_marker *last = NULL;
	size_t shown = 0;

	for (size_t i = 0; i < f->n; i++) {
		const struct sdt_marker *m = &f->v[i];

		if (last && !strcmp(last->name, m->name) && !strcmp(last->provider, m->provider))
			continue;
		last = m;
		if (shown++ == NAMES_SHOWN) {
			sbuf_add(b, ", ...");
			return;
		}
		sbuf_addf(b, "%s%s:%s", shown > 1 ? ", " : "", m->provider, m->name);
	}
}

int sdt_spec_check(const struct sdt_spec *s, const struct sdt_file *f, struct kvmft_err *err)
{
	const struct sdt_want *w = &s->want;
	struct sbuf names = { 0 };
	int ret;

	if (!f->n)
		return err_set(err, ENOENT,
			       "%s: no SDT markers in it (a program has them when it was built "
			       "with sys/sdt.h; QEMU: with the trace back end dtrace)",
			       s->path);
	for (size_t i = 0; i < f->n; i++)
		if (sdt_want_match(w, &f->v[i]))
			return 0;
	add_names(f, &names);
	ret = err_set(err, ENOENT, "%s: no marker %s:%s; there are %s (kvmft qemu sdt lists all)",
		      s->path, w->provider ?: "*", w->name ?: "*", names.s ?: "others");
	sbuf_free(&names);
	return ret;
}
