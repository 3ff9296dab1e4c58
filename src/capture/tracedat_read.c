/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_read.c: reading a trace.dat of trace-cmd: the common start, and version 6.
 *
 *   u8[3] 17 08 44, "tracing", "6" NUL or "7" NUL, u8 big endian, u8 sizeof(long),
 *   u32 size of a sub-buffer; all integers in the file's byte order.
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
 * An option BUFFER points to another "flyrecord" block, of a tracefs instance. Version 7 is in
 * tracedat_v7.c. Whatever part is missing, the rest is read: every complete sub-buffer inside the
 * file is used, and what is not there is noted.
 */
#include "tracedat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TD_START 18 /* bytes of the common start */
#define WORD 10 /* "options  " NUL, "flyrecord" NUL, "latency  " NUL */

int td_load(const struct td *t, uint64_t off, uint64_t n, uint8_t **out, size_t *len)
{
	ssize_t got;

	if (off >= t->size)
		return -ENODATA;
	n = MIN(n, t->size - off);
	*out = malloc((size_t)n + 1);
	if (!*out)
		return -ENOMEM;
	got = full_pread(t->fd, *out, (size_t)n, off);
	if (got < 0)
		return (int)got;
	*len = (size_t)got;
	return 0;
}

const char *td_instance(struct td *t, const char *name)
{
	struct cap_priv *p = cap_priv(t->c);
	char **slot;

	if (!name || !*name)
		return "";
	slot = array_grow(&p->instance, p->ninstance, &p->instance_cap, sizeof(*slot));
	if (!slot || cap_set_str(slot, name))
		return NULL;
	p->ninstance++;
	return *slot;
}

int td_add_area(struct td *t, uint32_t cpu, const char *instance, uint64_t off, uint64_t len)
{
	uint64_t there = off < t->size ? t->size - off : 0, rest;
	const char *dot = *instance ? instance : "the top buffer";
	struct cap_stream *s;

	if (cpu >= CAPTURE_MAX_CPUS) {
		cap_note(t->c, "CPU %u of %s is beyond the limit", cpu, dot);
		return 0;
	}
	s = cap_stream_add(t->c, cpu, instance);
	if (!s)
		return -ENOMEM;
	if (len > there) {
		cap_note(t->c, "CPU %u of %s: file cut, %" PRIu64 " bytes of events are missing",
			 cpu, dot, len - there);
		t->c->complete = false;
		len = there;
	}
	if (len > t->left) { /* honest areas do not overlap; the work stays bounded by the file */
		cap_note(t->c, "CPU %u of %s overlaps the data of other CPUs", cpu, dot);
		return 0;
	}
	t->left -= len;
	rest = len % t->c->subbuf_size;
	if (rest)
		cap_note(t->c, "CPU %u of %s: ends inside a sub-buffer, %" PRIu64 " bytes cut", cpu,
			 dot, rest);
	return cap_stream_extend(t->c, s, &(struct cap_extent){ .fd = t->fd, .off = off,
								.len = len });
}

/* The CPU table behind "flyrecord" NUL; *cpus entries, as many as are there. */
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
		cap_note(t->c, "this file holds the text of a latency tracer, no events");
		return 0;
	}
	if (memcmp(word, "flyrecord", WORD))
		return -EBADMSG;
	ret = read_table(t, cur, cpus, instance);
	/* libtracecmd skips one pair more when the option raises the count. */
	if (!ret && !*instance && t->cpucount > cpus && cur_skip(cur, 16))
		ret = -ENODATA;
	return ret ? ret : read_clock(t, cur);
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
		ret = td_option(t, id, td_cursor(t, p, size));
	}
	return ret;
}

static int read_cpus(struct td *t, struct cursor *cur)
{
	if (cur_u32(cur, &t->cpus))
		return -ENODATA;
	return t->cpus > CAPTURE_MAX_CPUS ? -EBADMSG : 0;
}

static int read_top(struct td *t, struct cursor *cur)
{
	return read_flyrecord(t, cur, t->cpus, "");
}

static int read_instance(struct td *t, const struct td_buffer *b)
{
	_cleanup_free_ uint8_t *data = NULL;
	uint32_t cpus = b->cpus ? b->cpus : t->cpus;
	const char *name = td_instance(t, b->name);
	struct cursor cur;
	size_t len = 0;
	int ret;

	if (!name)
		return -ENOMEM;
	ret = td_load(t, b->off, WORD + 16ull * cpus + 8 + 4096, &data, &len);
	if (ret)
		return ret;
	cur = td_cursor(t, data, len);
	return read_flyrecord(t, &cur, cpus, name);
}

/* What the file lacks costs that part alone; only memory ends the reading. */
static int survive(struct td *t, int ret, const char *what)
{
	if (!ret || ret == -ENOMEM)
		return ret;
	cap_note(t->c, "%s: %s", what, ret == -ENODATA ? "the file ends inside it" :
				       ret == -EBADMSG ? "damaged" : strerror(-ret));
	t->c->complete = false;
	return 0;
}

static const struct {
	const char *what;
	int (*read)(struct td *t, struct cursor *cur);
} block[] = {
	{ "header_page and header_event", td_header_info },
	{ "ftrace events", td_ftrace_events },
	{ "event formats", td_event_formats },
	{ "kallsyms", td_skip_block32 },
	{ "printk formats", td_printk },
	{ "saved command lines", td_cmdlines },
	{ "CPU count", read_cpus },
	{ "options", read_options },
	{ "top buffer", read_top },
};

static int read_v6(struct td *t, struct cursor *cur)
{
	int ret = 0;
	size_t i;

	/* Each block begins where the one before ends: after a broken one nothing can be found. */
	for (i = 0; i < ARRAY_SIZE(block); i++) {
		ret = block[i].read(t, cur);
		if (ret) {
			ret = survive(t, ret, block[i].what);
			break;
		}
	}
	for (i = 0; i < t->nbuf && !ret; i++)
		ret = survive(t, read_instance(t, &t->buf[i]), t->buf[i].name);
	return ret;
}

/* v7 names its compressor behind the common start: two strings, then the first OPTIONS offset. */
static int read_v7(struct td *t, struct cursor *cur, struct kvmft_err *err)
{
	const char *name, *version;
	uint64_t off;

	size_t before = cur->left;

	if (cur_str(cur, &name) || cur_str(cur, &version) || cur_u64(cur, &off))
		return err_set(err, EBADMSG, "trace.dat is cut in its first bytes");
	t->start += before - cur->left;
	if (strcmp(name, "none")) {
		t->compressed = true;
		if (strcmp(name, "zstd"))
			return err_set(err, EOPNOTSUPP, "trace.dat is compressed with %s, which kvmft "
				       "cannot read (trace-cmd convert --compression none)", name);
		if (!cap_can_unpack())
			return err_set(err, EOPNOTSUPP, "trace.dat is compressed with zstd, and this "
				       "kvmft was built without libzstd");
	}
	return td_read_v7(t, off);
}

static int read_start(struct td *t, struct cursor *cur, struct kvmft_err *err)
{
	static const uint8_t magic[] = { 0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g' };
	uint8_t endian, long_size;
	const char *version;
	const uint8_t *p;
	uint32_t size;

	if (cur_bytes(cur, sizeof(magic), &p) || memcmp(p, magic, sizeof(magic)))
		return err_set(err, EBADMSG, "neither a capture directory nor a trace.dat");
	if (cur_str(cur, &version) || cur_u8(cur, &endian) || cur_u8(cur, &long_size))
		return err_set(err, EBADMSG, "trace.dat is cut in its first bytes");
	if (strcmp(version, "6") && strcmp(version, "7"))
		return err_set(err, EPROTONOSUPPORT, "trace.dat has version %.16s, kvmft reads 6 and 7",
			       version);
	t->c->version = version[0] - '0';
	t->c->big_endian = endian;
	cur->swap = t->swap = endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	if (cur_u32(cur, &size))
		return err_set(err, EBADMSG, "trace.dat is cut in its first bytes");
	if ((long_size != 4 && long_size != 8) || endian > 1 || !cap_subbuf_ok(size))
		return err_set(err, EBADMSG, "trace.dat header is damaged (sizeof(long) %u, page size "
			       "%u)", long_size, size);
	t->start = TD_START;
	t->c->long_size = long_size;
	t->c->subbuf_size = size;
	t->c->page_header = 8u + long_size;
	return 0;
}

/* A guest's file carries TIME_SHIFT, a host's names guests. */
static void guess_side(struct capture *c)
{
	if (c->nvm)
		c->side = CAP_SIDE_HOST;
	else if (c->nshift)
		c->side = CAP_SIDE_GUEST;
}

static int finish(struct capture *c)
{
	if (c->page_header >= c->subbuf_size) {
		cap_note(c, "header_page: the header is larger than a sub-buffer");
		c->page_header = 8 + c->long_size;
	}
	guess_side(c);
	if (c->has_tsc2nsec) { /* ns = ticks * mult >> shift */
		unsigned __int128 khz = ((unsigned __int128)1000000 << c->tsc2nsec_shift) / c->tsc2nsec_mult;
		unsigned __int128 rest = ((unsigned __int128)1000000 << c->tsc2nsec_shift) % c->tsc2nsec_mult;

		khz += rest * 2 >= c->tsc2nsec_mult;
		c->tsc_khz = khz <= UINT32_MAX ? (uint64_t)khz : 0;
	}
	return c->clock ? 0 : cap_set_str(&c->clock, "local");
}

int cap_tracedat_read(struct capture *c, int fd, uint64_t size, struct kvmft_err *err)
{
	struct td t = { .c = c, .fd = fd, .size = size, .left = size };
	_cleanup_free_ uint8_t *data = NULL;
	struct cursor cur;
	size_t len = 0, i;
	int ret;

	c->is_tracedat = true;
	c->complete = true;
	ret = td_load(&t, 0, CAPTURE_MAX_META, &data, &len);
	if (ret == -ENODATA)
		return err_set(err, EBADMSG, "the file is empty");
	if (ret)
		return ret;
	cur = td_cursor(&t, data, len);
	ret = read_start(&t, &cur, err);
	if (!ret)
		ret = c->version == 6 ? read_v6(&t, &cur) : read_v7(&t, &cur, err);
	if (!ret)
		ret = finish(c);
	for (i = 0; i < t.nbuf; i++)
		free(t.buf[i].name);
	free(t.buf);
	u64map_free(&t.seen);
	if (!ret)
		cap_priv(c)->fd = fd;
	return ret;
}
