/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_read.c: reading a trace.dat of trace-cmd: the common start and the areas of CPUs.
 *
 *   u8[3] 17 08 44, "tracing", "6" NUL or "7" NUL, u8 0 (1: big endian),
 *   u8 sizeof(long), u32 size of a sub-buffer; all integers are little-endian.
 *
 * What follows is described in tracedat_v6.c and tracedat_v7.c. Whatever part is missing, the rest
 * is read: every complete sub-buffer inside the file is used, and what is missing is noted.
 */
#include "tracedat.h"

#include <inttypes.h>

#define TD_START 18 /* bytes of the common start */
#define TD_HEAD	 4096 /* more than it and the strings of v7 need */

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

bool td_streams_full(struct td *t)
{
	const uint64_t honest = MAX(t->size / TD_STREAM_BYTES, (uint64_t)TD_MIN_STREAMS);

	if (t->c->nstream < MIN(honest, (uint64_t)TD_MAX_STREAMS))
		return false;
	cap_note(t->c, "more CPUs of buffers than %zu: they are left out", t->c->nstream);
	t->c->complete = false;
	return true;
}

int td_add_area(struct td *t, uint32_t cpu, const char *instance, uint64_t off, uint64_t len)
{
	uint64_t there = off < t->size ? t->size - off : 0, rest, holes;
	const char *dot = *instance ? instance : "the top buffer";
	struct cap_stream *s;
	int ret;

	if (cpu >= CAPTURE_MAX_CPUS) {
		cap_note(t->c, "CPU %u of %s is beyond the limit", cpu, dot);
		return 0;
	}
	if (td_streams_full(t))
		return 0;
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
	ret = cap_stream_extend_file(t->c, s, t->fd, &(struct cap_extent){
			.fd = t->fd, .off = off, .len = len }, &holes);
	if (holes)
		cap_note(t->c, "CPU %u of %s: %" PRIu64 " of %" PRIu64 " bytes were never written, "
			 "and left out", cpu, dot, holes, len);
	return ret;
}

/* v7 names its compressor after the common start: two strings, then the first OPTIONS offset. */
static int read_v7(struct td *t, struct cursor *cur, struct kvmft_err *err)
{
	const char *name, *version;
	uint64_t off;

	size_t before = cur->left;

	if (cur_str(cur, &name) || cur_str(cur, &version) || cur_u64(cur, &off))
		return err_set(err, EBADMSG, "trace.dat is cut in its first bytes");
	t->start += before - cur->left;
	if (strcmp(name, "none")) {
		cap_priv(t->c)->packing = cap_packing(name, err);
		if (!cap_priv(t->c)->packing)
			return -EOPNOTSUPP;
	}
	return td_read_v7(t, off);
}

static int read_start(struct td *t, struct cursor *cur, struct kvmft_err *err)
{
	uint8_t endian, long_size;
	const char *version;
	const uint8_t *p;
	uint32_t size;

	if (cur_bytes(cur, TD_MAGIC, &p) || cur_str(cur, &version) || cur_u8(cur, &endian) ||
	    cur_u8(cur, &long_size))
		return err_set(err, EBADMSG, "trace.dat is cut in its first bytes");
	if (strcmp(version, "6") && strcmp(version, "7"))
		return err_set(err, EPROTONOSUPPORT,
			       "trace.dat has version %.16s, kvmft reads 6 and 7", version);
	t->c->version = version[0] - '0';
	if (endian == 1)
		return err_set(err, EPROTONOSUPPORT, CAP_BIG_ENDIAN "trace-cmd report shows it");
	if (cur_u32(cur, &size))
		return err_set(err, EBADMSG, "trace.dat is cut in its first bytes");
	if ((long_size != 4 && long_size != 8) || endian || !cap_subbuf_ok(size))
		return err_set(err, EBADMSG,
			       "trace.dat header is damaged (sizeof(long) %u, page size "
			       "%u)",
			       long_size, size);
	t->start = TD_START;
	t->c->long_size = long_size;
	t->c->subbuf_size = size;
	t->c->page_header = 8u + long_size;
	return 0;
}

static int finish(struct capture *c)
{
	if (c->page_header >= c->subbuf_size) {
		cap_note(c, "header_page: the header is larger than a sub-buffer");
		c->page_header = 8 + c->long_size;
	}
	/* A guest's file carries TIME_SHIFT, a host's names guests. */
	if (c->nvm)
		c->side = CAP_SIDE_HOST;
	else if (c->nshift)
		c->side = CAP_SIDE_GUEST;
	if (c->has_tsc2nsec) { /* ns = ticks * mult >> shift */
		unsigned __int128 khz =
			((unsigned __int128)1000000 << c->tsc2nsec_shift) / c->tsc2nsec_mult;
		unsigned __int128 rest =
			((unsigned __int128)1000000 << c->tsc2nsec_shift) % c->tsc2nsec_mult;

		khz += rest * 2 >= c->tsc2nsec_mult;
		c->tsc_khz = khz <= UINT32_MAX ? (uint64_t)khz : 0;
		if (cap_set_str(&c->tsc_khz_source, "TSC2NSEC"))
			return -ENOMEM;
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
	ret = td_load(&t, 0, TD_HEAD, &data, &len);
	if (ret == -ENODATA)
		return err_set(err, EBADMSG, "the file is empty");
	if (ret)
		return ret;
	cur = (struct cursor){ data, len };
	ret = read_start(&t, &cur, err);
	if (!ret)
		ret = c->version == 6 ? td_read_v6(&t, TD_START) : read_v7(&t, &cur, err);
	ret = ret ?: finish(c);
	for (i = 0; i < t.nbuf; i++)
		free(t.buf[i].name);
	free(t.buf);
	u64map_free(&t.seen);
	if (!ret)
		cap_priv(c)->fd = fd;
	return ret;
}
