/* SPDX-License-Identifier: GPL-2.0-or-later */
/* remote.c: the messages of a recorder that is started by another machine. */
#include "kvmft/remote.h"

#define HELLO "kvmft-remote version="

int remote_words_add(struct remote_words *w, const char *word)
{
	char *copy = strdup(word), *end = NULL;

	if (!copy || array_add(&w->v, &w->n, &w->cap, &copy, sizeof(copy))) {
		free(copy);
		return -ENOMEM;
	}
	/* Room for the NULL, which is not counted. */
	if (array_add(&w->v, &w->n, &w->cap, &end, sizeof(end)))
		return -ENOMEM;
	w->n--;
	return 0;
}

void remote_words_free(struct remote_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	free(w->spool);
	*w = (struct remote_words){ 0 };
}

void remote_put(struct sbuf *text, const struct remote_words *w)
{
	sbuf_addf(text, HELLO "%d\n", REMOTE_VERSION);
	for (size_t i = 0; i < w->n; i++) {
		sbuf_add(text, "arg ");
		sbuf_add_escaped(text, w->v[i]);
		sbuf_addc(text, '\n');
	}
	if (w->spool)
		sbuf_addf(text, "spool %s\n", w->spool);
	sbuf_addf(text, "%srun\n", w->drop ? "drop\n" : "");
}

/* A line, without its newline; what follows is for others, so it is read byte by byte. */
static int read_line(int fd, struct sbuf *line, size_t *left)
{
	char c = 0;

	sbuf_reset(line);
	while (!line->error && (*left)--) {
		ssize_t n = read(fd, &c, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		if (c == '\n')
			return 0;
		sbuf_addc(line, c);
	}
	return line->error ?: -E2BIG;
}

static int check_hello(const char *line, struct kvmft_err *err)
{
	uint64_t version;

	if (strncmp(line, HELLO, strlen(HELLO)) || parse_u64(line + strlen(HELLO), &version))
		return err_set(err, EPROTO,
			       "standard input does not come from kvmft record --guest, which starts "
			       "--remote");
	if (version > REMOTE_VERSION)
		return err_lack(err, EPROTONOSUPPORT,
				"the kvmft that records host and guest speaks version %llu, this "
				"one %d: use the same here, or its --push",
				(unsigned long long)version, REMOTE_VERSION);
	return 0;
}

/* 1: it was the last. */
static int take_line(char *line, struct remote_words *w, struct kvmft_err *err)
{
	if (!strcmp(line, "run"))
		return 1;
	if (!strcmp(line, "drop")) {
		w->drop = true;
		return 0;
	}
	if (!strncmp(line, "spool ", 6) && !w->spool) {
		w->spool = strdup(line + 6);
		return w->spool ? 0 : err_set(err, ENOMEM, "out of memory");
	}
	if (strncmp(line, "arg ", 4) || w->n == REMOTE_MAX_ARGS)
		return err_set(err, EPROTO, "what to record was not understood: '%s'", line);
	str_unescape(line + 4);
	return remote_words_add(w, line + 4) ? err_set(err, ENOMEM, "out of memory") : 0;
}

int remote_get(int fd, struct remote_words *w, struct kvmft_err *err)
{
	_cleanup_(sbuf_free) struct sbuf line = { 0 };
	size_t left = REMOTE_MAX;
	bool first = true;
	int ret = 0;

	while (!ret) {
		ret = read_line(fd, &line, &left);
		if (ret)
			return err_why(err, ret, "cannot read what to record");
		sbuf_add(&line, ""); /* an empty line is a text, too */
		ret = !line.s ? -ENOMEM : first ? check_hello(line.s, err)
						: take_line(line.s, w, err);
		first = false;
	}
	return MIN(ret, 0);
}
