/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_v6.c: a trace.dat of version 6 behind its common start.
 *
 * Version 6 goes on in one fixed order:
 *
 *   "header_page" NUL u64 n text, "header_event" NUL u64 n text
 *   u32 count, count x { u64 n, format }                                    ftrace events
 *   u32 systems x { name NUL, u32 count, count x { u64 n, format } }        event formats
 *   u32 n kallsyms, u32 n printk formats, u64 n saved_cmdlines, u32 CPUs
 *   "options  " NUL, { u16 id, u32 size, data }, u16 0                      may be absent
 *   "flyrecord" NUL, per CPU { u64 offset, u64 size }                       or "latency  "
 *   u64 n, clock                                           only with option TRACECLOCK
 *   sub-buffers, each CPU at its offset
 *
 * An option BUFFER points to another "flyrecord" block, of a tracefs instance.
 *
 * The length of a block is found by walking its lengths; then it is loaded, read and forgotten.
 */
#include "tracedat.h"

#define WORD 10 /* "options  " NUL, "flyrecord" NUL, "latency  " NUL */

/* "flyrecord" NUL, the table with one more entry, and the clock. */
#define TABLE_BYTES(cpus) (WORD + 16ull * ((cpus) + 1) + 8 + 4096)

/* ---- how long a block is ---- */

/* A walk over lengths, reading some bytes of the file at a time. */
struct scan {
	const struct td *t;
	uint64_t at, end; /* end: of the file, or as far as a block may reach */
	uint64_t from;	  /* of buf in the file */
	size_t have;
	uint8_t buf[4096];
};

/* n bytes at the current place, at most 16; NULL if they are missing. */
static const uint8_t *scan_bytes(struct scan *s, size_t n)
{
	const uint8_t *p;

	if (s->at > s->end || n > s->end - s->at)
		return NULL;
	if (s->at < s->from || s->at + n > s->from + s->have) {
		ssize_t got = full_pread(s->t->fd, s->buf, sizeof(s->buf), s->at);

		s->from = s->at;
		s->have = got > 0 ? (size_t)got : 0;
		if (s->have < n)
			return NULL;
	}
	p = s->buf + (s->at - s->from);
	s->at += n;
	return p;
}

static bool scan_u32(struct scan *s, uint32_t *v)
{
	const uint8_t *p = scan_bytes(s, 4);

	if (p)
		*v = load_u32(p);
	return p;
}

static bool scan_skip(struct scan *s, uint64_t n)
{
	bool there = s->at <= s->end && n <= s->end - s->at;

	s->at = there ? s->at + n : s->end;
	return there;
}

/* u64 length and that many bytes. */
static bool scan_text64(struct scan *s)
{
	const uint8_t *p = scan_bytes(s, 8);

	return p && scan_skip(s, load_u64(p));
}

static bool scan_texts(struct scan *s)
{
	uint32_t n;

	if (!scan_u32(s, &n))
		return false;
	while (n && scan_text64(s))
		n--;
	return !n;
}

static bool size_header(struct scan *s)
{
	return scan_skip(s, sizeof("header_page")) && scan_text64(s) &&
	       scan_skip(s, sizeof("header_event")) && scan_text64(s);
}

static bool size_systems(struct scan *s)
{
	const uint8_t *p;
	uint32_t n;

	if (!scan_u32(s, &n))
		return false;
	for (; n; n--) {
		do {
			p = scan_bytes(s, 1);
		} while (p && *p);
		if (!p || !scan_texts(s))
			return false;
	}
	return true;
}

static bool size_block32(struct scan *s)
{
	uint32_t n;

	return scan_u32(s, &n) && scan_skip(s, n);
}

static bool size_cpus(struct scan *s)
{
	return scan_skip(s, 4);
}

/* { u16 id, u32 size, data } up to id 0; nothing if the block is absent. */
static bool size_options(struct scan *s)
{
	const uint8_t *p = scan_bytes(s, WORD);

	if (!p)
		return false;
	if (memcmp(p, "options  ", WORD)) {
		s->at -= WORD;
		return true;
	}
	while ((p = scan_bytes(s, 2))) {
		if (load_u16(p) == TD_DONE)
			return true;
		if (!size_block32(s))
			return false;
	}
	return false;
}

/* ---- what is in it ---- */

/* The CPU table after "flyrecord" NUL; *cpus entries, as many as present. */
static int read_table(struct td *t, struct cursor *cur, uint32_t cpus, const char *instance)
{
	uint64_t off, len;
	uint32_t i;
	int ret;

	for (i = 0; i < cpus; i++) {
		if (cur_u64(cur, &off) || cur_u64(cur, &len))
			return -ENODATA;
		ret = td_add_area(t, i, instance, off, len);
		if (ret)
			return ret;
	}
	return 0;
}

/* u64 n and the clock in brackets; present exactly when option TRACECLOCK is. */
static int read_clock(struct td *t, struct cursor *cur)
{
	_cleanup_free_ char *text = NULL;
	const uint8_t *p;
	uint64_t n;

	if (!t->has_clock)
		return 0;
	if (cur_u64(cur, &n) || n > cur->left || n > 4096 || cur_bytes(cur, (size_t)n, &p))
		return -ENODATA;
	text = strndup((const char *)p, (size_t)n);
	if (!text)
		return -ENOMEM;
	return t->c->clock ? 0 : cap_parse_clock(&t->c->clock, text);
}

static int read_flyrecord(struct td *t, struct cursor *cur, uint32_t cpus, const char *instance)
{
	const uint8_t *word;
	int ret;

	if (cur_bytes(cur, WORD, &word))
		return -ENODATA;
	if (!memcmp(word, "latency  ", WORD)) {
		cap_note(t->c, "this file holds the text of a latency tracer, and no events");
		return 0;
	}
	if (memcmp(word, "flyrecord", WORD))
		return -EBADMSG;
	if (td_streams_full(t))
		return 0;
	ret = read_table(t, cur, cpus, instance);
	/* libtracecmd skips one more pair if the option raises the count. */
	if (!ret && !*instance && t->cpucount > cpus && cur_skip(cur, 16))
		ret = -ENODATA;
	return ret ?: read_clock(t, cur);
}

/* { u16 id, u32 size, data }, closed by a bare u16 0. The whole block may be absent. */
static int read_options(struct td *t, struct cursor *cur)
{
	const uint8_t *p;
	uint32_t size;
	uint16_t id;
	int ret = 0;

	if (cur->left < WORD)
		return -ENODATA;
	if (memcmp(cur->p, "options  ", WORD))
		return 0;
	if (cur_skip(cur, WORD))
		return -ENODATA;
	while (!ret) {
		if (cur_u16(cur, &id))
			return -ENODATA;
		if (id == TD_DONE)
			return 0;
		if (cur_u32(cur, &size) || cur_bytes(cur, size, &p))
			return -ENODATA;
		ret = td_option(t, id, (struct cursor){ p, size });
	}
	return ret;
}

static int read_cpus(struct td *t, struct cursor *cur)
{
	if (cur_u32(cur, &t->cpus))
		return -ENODATA;
	return t->cpus > CAPTURE_MAX_CPUS ? -EBADMSG : 0;
}

static int read_instance(struct td *t, const struct td_buffer *b)
{
	_cleanup_free_ uint8_t *data = NULL;
	uint32_t cpus = b->cpus ?: t->cpus;
	const char *name = td_instance(t, b->name);
	struct cursor cur;
	size_t len = 0;
	int ret;

	if (!name)
		return -ENOMEM;
	ret = td_load(t, b->off, TABLE_BYTES(cpus), &data, &len);
	if (ret)
		return ret;
	cur = (struct cursor){ data, len };
	return read_flyrecord(t, &cur, cpus, name);
}

/* What the file lacks costs only that part; only lack of memory ends the reading. */
static int survive(struct td *t, int ret, const char *what)
{
	if (!ret || ret == -ENOMEM)
		return ret;
	cap_note(t->c, "%s: %s", what, ret == -ENODATA ? "the file ends inside it" :
				       ret == -EBADMSG ? "damaged" : strerror(-ret));
	t->c->complete = false;
	return 0;
}

/* The top-level buffer comes last: its length depends on what was read before. */
static const struct {
	const char *what;
	bool (*size)(struct scan *s);
	int (*read)(struct td *t, struct cursor *cur); /* NULL: of no interest */
} block[] = {
	{ "header_page and header_event", size_header, td_header_info },
	{ "ftrace events", scan_texts, td_ftrace_events },
	{ "event formats", size_systems, td_event_formats },
	{ "kallsyms", size_block32, td_kallsyms },
	{ "printk formats", size_block32, td_printk },
	{ "saved command lines", scan_text64, td_cmdlines },
	{ "CPU count", size_cpus, read_cpus },
	{ "options", size_options, read_options },
};

/* Reads block i at *off, and moves *off past it. A cut block is read as far as it goes. */
static int read_block(struct td *t, struct scan *s, size_t i, uint64_t *off)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct cursor cur;
	uint64_t end;
	size_t len = 0;
	bool whole;
	int ret;

	s->at = *off;
	s->end = t->size;
	if (block[i].read && s->end - s->at > CAPTURE_MAX_META)
		s->end = s->at + CAPTURE_MAX_META;
	whole = block[i].size(s);
	end = whole ? s->at : s->end;
	if (!block[i].read) {
		*off = end;
		return whole ? 0 : -ENODATA;
	}
	if (whole && block[i].read == td_kallsyms && td_kallsyms_later(t, *off, end - *off, 0)) {
		*off = end;
		return 0;
	}
	/* At least the word that says whether there is such a block. */
	ret = td_load(t, *off, MAX(end - *off, (uint64_t)WORD), &data, &len);
	if (ret)
		return ret;
	cur = (struct cursor){ data, len };
	*off = end;
	return block[i].read(t, &cur);
}

static int read_top(struct td *t, uint64_t off)
{
	_cleanup_free_ uint8_t *data = NULL;
	struct cursor cur;
	size_t len = 0;
	int ret = td_load(t, off, TABLE_BYTES(t->cpus), &data, &len);

	if (ret)
		return ret;
	cur = (struct cursor){ data, len };
	return read_flyrecord(t, &cur, t->cpus, "");
}

int td_read_blocks(struct td *t, size_t n, uint64_t *off)
{
	_cleanup_free_ struct scan *s = calloc(1, sizeof(*s));
	int ret = 0;
	size_t i;

	if (!s)
		return -ENOMEM;
	s->t = t;
	/* Each block begins where the one before ends: after a broken one nothing can be found. */
	for (i = 0; i < n && !ret; i++)
		ret = read_block(t, s, i, off);
	return ret ? survive(t, ret, block[i - 1].what) : 1;
}

int td_read_v6(struct td *t, uint64_t off)
{
	int ret = td_read_blocks(t, ARRAY_SIZE(block), &off);

	if (ret > 0)
		ret = survive(t, read_top(t, off), "top buffer");
	for (size_t i = 0; i < t->nbuf && !ret; i++)
		ret = survive(t, read_instance(t, &t->buf[i]), t->buf[i].name);
	return ret;
}
