/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace.c: opens a trace of QEMU, determines its format, and hands out its events. */
#include "trace.h"

#include <sys/stat.h>

#define PROBE_LINES 200

const char *const qtrace_format_names[] = {
	[QTRACE_AUTO] = "auto",	    [QTRACE_SIMPLE] = "simple", [QTRACE_LOG] = "log",
	[QTRACE_SYSLOG] = "syslog", [QTRACE_UST] = "ust",	NULL,
};

/* Text formats in the order in which they win a tie. */
static const struct qtrace_reader *const readers[] = {
	&qtrace_simple,
	&qtrace_ust,
	&qtrace_syslog,
	&qtrace_log,
};

/* ---- the buffer ---- */

ssize_t qbuf_peek(struct qbuf *b, size_t n, const uint8_t **p)
{
	ssize_t got;

	if (b->len - b->pos < n) {
		memmove(b->p, b->p + b->pos, b->len - b->pos);
		b->at += b->pos;
		b->len -= b->pos;
		b->pos = 0;
		got = full_pread(b->fd, b->p + b->len, QBUF_SIZE - b->len, b->at + b->len);
		if (got < 0)
			return got;
		b->len += (size_t)got;
	}
	*p = b->p + b->pos;
	return (ssize_t)MIN(n, b->len - b->pos);
}

void qbuf_skip(struct qbuf *b, size_t n)
{
	b->pos += MIN(n, b->len - b->pos);
}

void qbuf_seek(struct qbuf *b, uint64_t offset)
{
	b->at = offset;
	b->pos = b->len = 0;
}

/* ---- text ---- */

/* The next line, without its newline; *n and what must be skipped for it. 0 at the end. */
static int line_peek(struct qtrace *t, const char **s, size_t *n, size_t *skip)
{
	const uint8_t *p, *nl;
	ssize_t got = qbuf_peek(&t->buf, QTRACE_MAX_LINE, &p);

	if (got <= 0)
		return (int)got;
	nl = memchr(p, '\n', (size_t)got);
	*s = (const char *)p;
	*n = nl ? (size_t)(nl - p) : (size_t)got;
	*skip = *n + (nl != NULL);
	if (*n && p[*n - 1] == '\r')
		--*n;
	return 1;
}

static void item_init(struct qtrace_item *item)
{
	*item = (struct qtrace_item){ .cpu = -1, .unit = 1 };
}

static int text_next(struct qtrace *t, struct qtrace_item *item)
{
	const char *s;
	size_t n, skip;
	int ret;

	while ((ret = line_peek(t, &s, &n, &skip)) > 0) {
		bool cut = t->buf.at + t->buf.pos + skip >= t->size && skip == n;

		qbuf_skip(&t->buf, skip);
		item_init(item);
		if (t->reader->line(t, s, n, item))
			return 1;
		/* A last line without newline was being written. */
		if (n && cut)
			t->st.truncated = true;
		t->st.foreign += n > 0;
	}
	return ret;
}

/* How many of the first lines the reader understands. */
static int text_score(struct qtrace *t, const struct qtrace_reader *r)
{
	struct qtrace_item item;
	const char *s;
	size_t n, skip;
	int score = 0;

	qbuf_seek(&t->buf, 0);
	for (int i = 0; i < PROBE_LINES && line_peek(t, &s, &n, &skip) > 0; i++) {
		qbuf_skip(&t->buf, skip);
		item_init(&item);
		score += r->line(t, s, n, &item);
	}
	return score;
}

static const struct qtrace_reader *probe(struct qtrace *t)
{
	const struct qtrace_reader *best = NULL;
	int most = 0;

	if (simple_probe(t))
		return &qtrace_simple;
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		int score = readers[i]->line ? text_score(t, readers[i]) : 0;

		if (score > most) {
			most = score;
			best = readers[i];
		}
	}
	t->st = (struct qtrace_stats){ 0 };
	return best;
}

/* ---- the interface ---- */

static int choose(struct qtrace *t, const char *path, struct kvmft_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		if (readers[i]->format == t->o.format)
			t->reader = readers[i];
	t->reader = t->reader ?: probe(t);
	if (!t->reader)
		return err_set(
			err, ENODATA,
			"%s: no trace event of QEMU in its first %d lines; if it has some, say its format: "
			"FILE:simple, FILE:log, FILE:syslog or FILE:ust",
			path, PROBE_LINES);
	return 0;
}

int qtrace_open(const char *path, const struct qtrace_options *o, struct qtrace **out,
		struct kvmft_err *err)
{
	struct qtrace *t = calloc(1, sizeof(*t));
	struct stat st;
	int ret = 0;

	*out = NULL;
	if (!t)
		return err_set(err, ENOMEM, "out of memory");
	t->o = *o;
	t->buf.p = malloc(QBUF_SIZE);
	t->buf.fd = file_open_regular(path, false);
	if (!t->buf.p)
		ret = err_set(err, ENOMEM, "out of memory");
	else if (t->buf.fd == -EINVAL)
		ret = err_set(err, EINVAL, "%s is not a regular file", path);
	else if (t->buf.fd < 0)
		ret = err_why(err, t->buf.fd, "cannot open %s", path);
	else if (fstat(t->buf.fd, &st) < 0)
		ret = err_why(err, errno, "cannot access %s", path);
	if (!ret) {
		t->size = (uint64_t)st.st_size;
		t->by_file = !t->o.near;
		t->o.near = t->o.near ?: (uint64_t)st.st_mtim.tv_sec * 1000000000;
		ret = choose(t, path, err);
	}
	if (!ret) {
		t->st.format = t->reader->format;
		qbuf_seek(&t->buf, 0);
		if (t->reader->open)
			ret = t->reader->open(t, err);
		if (ret && err && err->text[0])
			err_set(err, -ret, "%s: %s", path, err->text);
	}
	if (ret) {
		qtrace_close(t);
		return ret;
	}
	*out = t;
	return 0;
}

int qtrace_next(struct qtrace *t, struct qtrace_item *item)
{
	int ret;

	item_init(item);
	ret = t->reader->next ? t->reader->next(t, item) : text_next(t, item);
	if (ret > 0 && item->kind == QTRACE_LOST) {
		t->st.lost_records++;
		t->st.lost += item->lost;
	} else if (ret > 0) {
		t->st.events++;
		t->st.undeclared += t->o.events && !item->ev;
		t->st.misfits += item->ev && !item->has_args;
	}
	return ret;
}

int qtrace_rewind(struct qtrace *t)
{
	struct qtrace_stats old = t->st;

	t->st = (struct qtrace_stats){ .format = old.format, .version = old.version };
	qbuf_seek(&t->buf, 0);
	return t->reader->rewind ? t->reader->rewind(t) : 0;
}

const struct qtrace_stats *qtrace_stats(const struct qtrace *t)
{
	return &t->st;
}

void qtrace_close(struct qtrace *t)
{
	if (!t)
		return;
	if (t->reader && t->reader->close)
		t->reader->close(t);
	if (t->buf.fd >= 0)
		close(t->buf.fd);
	free(t->buf.p);
	free(t);
}
