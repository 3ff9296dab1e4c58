/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_write.c: writing a trace.dat; the parts are described in tracedat_read.c (version 6) and
 * tracedat_v7.c.
 *
 * Two things are documented nowhere: in version 6 the clock follows a CPU table exactly if option
 * TRACECLOCK exists, so both always do; and sub-buffers begin at multiples of their size, at least
 * of a page, because readers map them.
 */
#include "kvmft/tracedat.h"
#include "reader.h"
#include "tracedat_write.h"

#define OUT_BUFFER (1u << 20)
#define MIN_ALIGN  4096u

/* ---- bytes ---- */

void tdw_put_u16(struct sbuf *b, const struct subbuf_geom *g, uint16_t v)
{
	v = g->swap ? __builtin_bswap16(v) : v;
	sbuf_add_mem(b, &v, sizeof(v));
}

void tdw_put_u32(struct sbuf *b, const struct subbuf_geom *g, uint32_t v)
{
	v = g->swap ? __builtin_bswap32(v) : v;
	sbuf_add_mem(b, &v, sizeof(v));
}

void tdw_put_u64(struct sbuf *b, const struct subbuf_geom *g, uint64_t v)
{
	v = g->swap ? __builtin_bswap64(v) : v;
	sbuf_add_mem(b, &v, sizeof(v));
}

static int flush(struct tdw *w)
{
	int ret = full_write(w->fd, w->buf, w->fill, NULL);

	w->fill = 0;
	return ret;
}

int tdw_write(struct tdw *w, const void *p, size_t n)
{
	int ret = 0;

	if (n > OUT_BUFFER - w->fill)
		ret = flush(w);
	if (ret)
		return ret;
	w->pos += n;
	if (n >= OUT_BUFFER)
		return full_write(w->fd, p, n, NULL);
	memcpy(w->buf + w->fill, p, n);
	w->fill += n;
	return 0;
}

int tdw_write_sbuf(struct tdw *w, struct sbuf *b)
{
	int ret = b->error ?: tdw_write(w, b->s, b->len);

	sbuf_free(b);
	return ret;
}

static int pad_to(struct tdw *w, uint32_t align)
{
	static const uint8_t zero[4096];
	uint64_t rest = w->pos % align ? align - w->pos % align : 0;
	int ret = 0;

	while (rest && !ret) {
		size_t n = MIN(rest, sizeof(zero));

		ret = tdw_write(w, zero, n);
		rest -= n;
	}
	return ret;
}

/* Overwrites something already written. */
static int patch(struct tdw *w, uint64_t at, const void *p, size_t n)
{
	int ret = flush(w);
	ssize_t got;

	if (ret)
		return ret;
	got = pwrite(w->fd, p, n, (off_t)at);
	return got == (ssize_t)n ? 0 : got < 0 ? -errno : -EIO;
}

int tdw_patch_u64(struct tdw *w, uint64_t at, uint64_t v)
{
	v = w->spec->g.swap ? __builtin_bswap64(v) : v;
	return patch(w, at, &v, sizeof(v));
}

int tdw_patch_u32(struct tdw *w, uint64_t at, uint32_t v)
{
	v = w->spec->g.swap ? __builtin_bswap32(v) : v;
	return patch(w, at, &v, sizeof(v));
}

int tdw_align(struct tdw *w)
{
	return pad_to(w, MAX(w->spec->g.size, MIN_ALIGN));
}

/* ---- options: collected until the version has its place for them ---- */

int tdw_option(struct tdw *w, enum td_opt id, const void *data, size_t len)
{
	const struct subbuf_geom *g = &w->spec->g;

	if (len > UINT32_MAX)
		return -EFBIG;
	tdw_put_u16(&w->options, g, (uint16_t)id);
	tdw_put_u32(&w->options, g, (uint32_t)len);
	sbuf_add_mem(&w->options, data, len);
	return w->options.error;
}

int tdw_option_sbuf(struct tdw *w, enum td_opt id, struct sbuf *b)
{
	int ret = b->error ?: tdw_option(w, id, b->s, b->len);

	sbuf_free(b);
	return ret;
}

/* The kernel's trace_clock file shows the current one in brackets; NUL included. */
static int clock_option(struct tdw *w)
{
	char text[80];
	int n = snprintf(text, sizeof(text), "[%.64s]", w->spec->clock);

	return tdw_option(w, TD_TRACECLOCK, text, (size_t)n + 1);
}

/* ---- the file ---- */

static void put_start(struct tdw *w, struct sbuf *b)
{
	static const uint8_t magic[] = { 0x17, 0x08, 0x44, 't', 'r', 'a', 'c', 'i', 'n', 'g' };
	const struct subbuf_geom *g = &w->spec->g;

	sbuf_add_mem(b, magic, sizeof(magic));
	sbuf_add_mem(b, w->spec->version == 6 ? "6" : "7", 2);
	sbuf_addc(b, (char)g->big_endian);
	sbuf_addc(b, (char)g->long_size);
	tdw_put_u32(b, g, g->size);
}

static bool spec_ok(const struct tdw_spec *s)
{
	return (s->version == 6 || s->version == 7) &&
	       (!s->zstd || (s->version == 7 && cap_can_pack())) && cap_subbuf_ok(s->g.size) &&
	       s->cpus <= CAPTURE_MAX_CPUS && strlen(s->clock) <= 64;
}

bool tdw_has_zstd(void)
{
	return cap_can_pack();
}

int tdw_create(int fd, const struct tdw_spec *spec, struct tdw **out)
{
	struct sbuf b = { 0 };
	struct tdw *w;
	int ret;

	*out = NULL;
	if (!spec_ok(spec))
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->spec = spec;
	w->fd = fd;
	w->buf = malloc(OUT_BUFFER);
	ret = w->buf ? 0 : -ENOMEM;
	if (!ret) {
		put_start(w, &b);
		ret = tdw_write_sbuf(w, &b);
	}
	if (!ret)
		ret = spec->version == 6 ? tdw_v6_begin(w) : tdw_v7_begin(w);
	ret = ret ?: clock_option(w);
	if (ret)
		return tdw_close(w, ret);
	*out = w;
	return 0;
}

static int cpu_end(struct tdw *w)
{
	int ret = 0;

	if (!w->in_cpu)
		return 0;
	w->in_cpu = false;
	if (w->spec->zstd)
		ret = tdw_pack_end(w);
	if (ret)
		return ret;
	return w->spec->version == 6 ? tdw_v6_cpu_end(w) : tdw_v7_cpu_end(w);
}

static int buffer_end(struct tdw *w)
{
	int ret = cpu_end(w);

	return ret || w->spec->version == 6 ? ret : tdw_v7_buffer_end(w);
}

int tdw_buffer(struct tdw *w)
{
	int ret = w->buffer ? buffer_end(w) : 0;

	if (ret)
		return ret;
	if (w->buffer > w->spec->ninstance)
		return -EINVAL;
	w->buffer++;
	w->cpus = w->buffer == 1 ? w->spec->cpus : w->spec->instance_cpus[w->buffer - 2];
	w->in_cpu = false;
	w->cpu = 0;
	return w->spec->version == 6 ? tdw_v6_buffer(w) : tdw_v7_buffer(w);
}

int tdw_cpu(struct tdw *w, uint32_t cpu)
{
	int ret = cpu_end(w);

	if (!ret && (!w->buffer || cpu >= w->cpus))
		ret = -EINVAL;
	ret = ret ?: tdw_align(w);
	if (ret)
		return ret;
	w->in_cpu = true;
	w->cpu = cpu;
	w->cpu_at = w->pos;
	w->cpu_plain = 0;
	return w->spec->zstd ? tdw_pack_begin(w) : 0;
}

int tdw_subbuf(void *arg, const void *buf)
{
	struct tdw *w = arg;

	if (!w->in_cpu)
		return -EINVAL;
	w->cpu_plain += w->spec->g.size;
	return w->spec->zstd ? tdw_pack(w, buf) : tdw_write(w, buf, w->spec->g.size);
}

void tdw_events(struct tdw *w, uint64_t n)
{
	for (size_t i = 0; i < w->spec->cap->ncpu && w->events; i++)
		w->events[i] += w->spec->cap->cpu[i].cpu == w->cpu ? n : 0;
}

int tdw_patch_options(struct tdw *w, size_t at, const char *text)
{
	if (w->spec->version == 6)
		return patch(w, w->options_at + at, text, strlen(text));
	memcpy(w->options.s + at, text, strlen(text));
	return 0;
}

int tdw_close(struct tdw *w, int ret)
{
	if (!ret && w->buffer <= w->spec->ninstance)
		ret = -EINVAL; /* a buffer was promised and never written */
	ret = ret ?: buffer_end(w);
	ret = ret ?: tdw_facts_end(w);
	if (!ret && w->spec->version == 7)
		ret = tdw_v7_end(w);
	ret = ret ?: flush(w);
	tdw_pack_free(w);
	sbuf_free(&w->options);
	sbuf_free(&w->table);
	free(w->offset_at);
	free(w->stats_at);
	free(w->events);
	free(w->buf);
	free(w);
	return ret;
}
