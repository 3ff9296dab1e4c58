/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hist.c: the text of an event's hist file (kernel/trace/trace_events_hist.c, hist_show()). It is
 * parsed as it comes: libtracefs would read all of it into memory, by a path.
 *
 *	# event histogram
 *	#
 *	# trigger info: hist:keys=common_pid,exit_reason:vals=hitcount:...:size=2048 [active]
 *	#
 *
 *	{ common_pid:        156, exit_reason:        120 } hitcount:       2000  lat:   17470047
 *		max:   14262547  lat:   14262547
 *
 *	Totals:
 *	    Hits: 51758
 *	    Entries: 8
 *	    Dropped: 0
 *
 * One such block per hist trigger of the event. The text of a busy map has megabytes, so it is
 * taken apart while it is read. What is not of this form is an error: a number that was
 * misunderstood would be worse than none.
 */
#include "priv.h"

#define HIST_CHUNK (32u << 10)

static const char info[] = "# trigger info: ";

void khist_begin(struct khist *h, const char *keys, khist_fn fn, void *ctx)
{
	*h = (struct khist){ .keys = keys, .fn = fn, .ctx = ctx };
}

/* Cuts "name:   number" off the front of *s, or "name: ~ 2^number", which is a key's logarithm;
 * the separator after it is left. */
static int pair_cut(char **s, struct khist_pair *p)
{
	char *name = *s + strspn(*s, " \t"), *colon = strchr(name, ':'), *end, saved;
	int got;

	if (!colon || colon == name)
		return -EBADMSG;
	*colon = '\0';
	p->name = name;
	colon += 1 + strspn(colon + 1, " ");
	if (str_starts(colon, "~ 2^"))
		colon += 4;
	end = colon + strcspn(colon, " ,}\t");
	saved = *end;
	*end = '\0';
	got = parse_u64(colon, &p->v);
	*end = saved;
	*s = end;
	return got ? -EBADMSG : 0;
}

/* Pairs up to end (a character, or '\0'). A comma or blanks separate them. */
static int pairs_cut(struct khist *h, char **s, char end)
{
	for (;;) {
		char *p = *s + strspn(*s, " \t,");
		int got;

		*s = p;
		if (*p == end) {
			*s += *p != '\0';
			return 0;
		}
		if (!*p || h->e.n >= KHIST_PAIRS)
			return -EBADMSG;
		got = pair_cut(s, &h->e.pair[h->e.n]);
		if (got)
			return got;
		h->e.n++;
	}
}

/* The entry is complete when something else begins: what actions saved is on lines of its own. */
static int entry_give(struct khist *h)
{
	if (!h->have)
		return 0;
	h->have = false;
	return h->fn(h->ctx, &h->e);
}

/* The line is needed while the entry is open, so it is copied. */
static char *line_keep(struct khist *h, const char *line, size_t at)
{
	size_t n = strlen(line);

	if (n >= sizeof(h->text) - at)
		return NULL;
	memcpy(h->text + at, line, n + 1);
	h->used = at + n + 1;
	return h->text + at;
}

int khist_line(struct khist *h, const char *line)
{
	static const char head[] = "hist:keys=";
	char *s;
	int got;

	if (str_starts(line, info)) {
		const char *trigger = line + strlen(info); /* "hist:keys=KEYS:..." */

		got = entry_give(h);
		h->in_block = str_starts(trigger, head) &&
			      str_starts(trigger + strlen(head), h->keys) &&
			      trigger[strlen(head) + strlen(h->keys)] == ':';
		h->found |= h->in_block;
		h->in_totals = false;
		return got;
	}
	if (!h->in_block || *line == '#')
		return 0;
	if (str_starts(line, "Totals:")) {
		h->in_totals = true;
		return entry_give(h);
	}
	if (h->in_totals) {
		const struct {
			const char *name;
			uint64_t *v;
		} total[] = {
			{ "Hits: ", &h->hits },
			{ "Entries: ", &h->entries },
			{ "Dropped: ", &h->dropped },
		};

		line += strspn(line, " ");
		got = 0;
		for (size_t i = 0; i < ARRAY_SIZE(total); i++)
			if (str_starts(line, total[i].name))
				got = parse_u64(line + strlen(total[i].name), total[i].v);
		return got ? -EBADMSG : 0;
	}
	if (*line == '{') {
		got = entry_give(h);
		s = line_keep(h, line, 0);
		if (got)
			return got;
		if (!s)
			return -EBADMSG;
		h->e.n = 0;
		s++;
		got = pairs_cut(h, &s, '}');
		h->e.nkeys = h->e.n;
		got = got ?: pairs_cut(h, &s, '\0');
		h->have = !got;
		return got;
	}
	if (!line[strspn(line, " \t")])
		return entry_give(h);
	s = h->have ? line_keep(h, line, h->used) : NULL;
	return s ? pairs_cut(h, &s, '\0') : -EBADMSG;
}

int khist_end(struct khist *h)
{
	int got = entry_give(h);

	if (got)
		return got;
	/* A block without totals was cut. */
	return !h->found ? -ENOENT : !h->in_totals && h->in_block ? -EBADMSG : 0;
}

bool khist_get(const struct khist_entry *e, const char *name, uint64_t *v)
{
	for (size_t i = 0; i < e->n; i++) {
		if (strcmp(e->pair[i].name, name))
			continue;
		*v = e->pair[i].v;
		return true;
	}
	return false;
}

int kinst_hist_walk(struct kinst *k, const char *sys, const char *name, struct khist *h)
{
	_cleanup_free_ char *buf = malloc(HIST_CHUNK);
	_cleanup_close_ int fd = -1;
	size_t len = 0;

	if (!buf || !kname_ok(sys) || !kname_ok(name))
		return buf ? -EINVAL : -ENOMEM;
	fd = openat(k->dirfd, TEXTF("events/%s/%s/hist", sys, name), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, buf + len, HIST_CHUNK - len);
		char *line = buf, *end;
		int got = 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return len ? -EBADMSG : khist_end(h);
		len += (size_t)n;
		/* Whole lines; the rest moves to the front. */
		for (; !got && (end = memchr(line, '\n', len - (size_t)(line - buf)));
		     line = end + 1) {
			*end = '\0';
			got = khist_line(h, line);
		}
		len -= (size_t)(line - buf);
		memmove(buf, line, len);
		if (!got && len == HIST_CHUNK)
			got = -EBADMSG;
		if (got)
			return got;
	}
}
