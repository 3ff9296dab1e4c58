/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_write.c: writing a trace.dat of version 6, which every reader knows; its parts are
 * described in tracedat_v6.c.
 *
 * Two things are documented nowhere: the clock follows a CPU table exactly if option TRACECLOCK
 * exists, so both always do; and sub-buffers begin at multiples of their size, at least of a page,
 * because readers map them.
 */
#include "tracedat_write.h"
#include "reader.h"

#define OUT_BUFFER (1u << 20)
#define MIN_ALIGN  4096u

/* ---- bytes ---- */

static int flush(struct tdw *w)
{
	int ret = full_write(w->fd, w->buf, w->fill, NULL);

	w->fill = 0;
	return ret;
}

static int tdw_write(struct tdw *w, const void *p, size_t n)
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

static int tdw_write_sbuf(struct tdw *w, struct sbuf *b)
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

static int patch_u64(struct tdw *w, uint64_t at, uint64_t v)
{
	return patch(w, at, &v, sizeof(v));
}

static int align(struct tdw *w)
{
	return pad_to(w, MAX(w->spec->g.size, MIN_ALIGN));
}

/* ---- options: collected until their place in the file comes ---- */

int tdw_option(struct tdw *w, enum td_opt id, const void *data, size_t len)
{
	if (len > UINT32_MAX)
		return -EFBIG;
	tdw_put_u16(&w->options, (uint16_t)id);
	tdw_put_u32(&w->options, (uint32_t)len);
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
	sbuf_add_mem(b, "6", 2);
	sbuf_addc(b, 0);
	sbuf_addc(b, (char)g->long_size);
	tdw_put_u32(b, g->size);
}

static int put_blocks(struct tdw *w)
{
	struct sbuf b = { 0 };
	int ret = 0;

	for (int k = 0; k < TDW_BLOCKS && !ret; k++) {
		tdw_block(w->spec, (enum tdw_block)k, &b);
		ret = tdw_write_sbuf(w, &b);
	}
	tdw_put_u32(&b, w->spec->cpus);
	ret = ret ?: tdw_write_sbuf(w, &b);
	sbuf_free(&b);
	w->offset_at = calloc(w->spec->ninstance + 1, sizeof(*w->offset_at));
	return w->offset_at ? ret : -ENOMEM;
}

int tdw_create(int fd, const struct tdw_spec *spec, struct tdw **out)
{
	struct sbuf b = { 0 };
	struct tdw *w;
	int ret;

	*out = NULL;
	if (!cap_subbuf_ok(spec->g.size) || spec->cpus > CAPTURE_MAX_CPUS ||
	    strlen(spec->clock) > 64)
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
	ret = ret ?: put_blocks(w);
	ret = ret ?: clock_option(w);
	if (ret)
		return tdw_close(w, ret);
	*out = w;
	return 0;
}

/* The option's offset is not known yet; its place is remembered. */
static int instance_option(struct tdw *w, size_t i, uint64_t options_at)
{
	const struct tdw_spec *s = w->spec;
	struct sbuf b = { 0 };
	int ret;

	tdw_put_u64(&b, 0);
	sbuf_add_mem(&b, s->instance[i], strlen(s->instance[i]) + 1);
	w->offset_at[i] = options_at + w->options.len + 6;
	ret = tdw_option_sbuf(w, TD_BUFFER, &b);
	if (ret || s->instance_cpus[i] == s->cpus)
		return ret;
	tdw_put_u32(&b, s->instance_cpus[i]);
	return tdw_option_sbuf(w, TD_CPUCOUNT, &b);
}

static int write_options(struct tdw *w)
{
	uint64_t at = w->options_at = w->pos + 10;
	int ret = tdw_write(w, "options  ", 10);

	for (size_t i = 0; i < w->spec->ninstance && !ret; i++)
		ret = instance_option(w, i, at);
	tdw_put_u16(&w->options, TD_DONE);
	return ret ?: tdw_write_sbuf(w, &w->options);
}

static int put_table(struct tdw *w)
{
	struct sbuf b = { 0 };
	char clock[80];
	int n, ret = 0;

	if (w->buffer == 1) {
		ret = write_options(w);
	} else {
		ret = align(w);
		ret = ret ?: patch_u64(w, w->offset_at[w->buffer - 2], w->pos);
	}
	if (ret)
		return ret;
	w->table_at = w->pos + 10;
	n = snprintf(clock, sizeof(clock), "[%.64s]", w->spec->clock);
	sbuf_add_mem(&b, "flyrecord", 10);
	for (uint32_t i = 0; i < 2 * w->cpus; i++)
		tdw_put_u64(&b, 0);
	tdw_put_u64(&b, (uint64_t)n);
	sbuf_add_mem(&b, clock, (size_t)n);
	return tdw_write_sbuf(w, &b);
}

static int cpu_end(struct tdw *w)
{
	uint64_t at = w->table_at + 16ull * w->cpu;
	int ret;

	if (!w->in_cpu)
		return 0;
	w->in_cpu = false;
	ret = patch_u64(w, at, w->cpu_at);
	return ret ?: patch_u64(w, at + 8, w->pos - w->cpu_at);
}

int tdw_buffer(struct tdw *w)
{
	int ret = w->buffer ? cpu_end(w) : 0;

	if (ret)
		return ret;
	if (w->buffer > w->spec->ninstance)
		return -EINVAL;
	w->buffer++;
	w->cpus = w->buffer == 1 ? w->spec->cpus : w->spec->instance_cpus[w->buffer - 2];
	w->in_cpu = false;
	w->cpu = 0;
	return put_table(w);
}

int tdw_cpu(struct tdw *w, uint32_t cpu)
{
	int ret = cpu_end(w);

	if (!ret && (!w->buffer || cpu >= w->cpus))
		ret = -EINVAL;
	ret = ret ?: align(w);
	if (ret)
		return ret;
	w->in_cpu = true;
	w->cpu = cpu;
	w->cpu_at = w->pos;
	return 0;
}

int tdw_subbuf(void *arg, const void *buf)
{
	struct tdw *w = arg;

	if (!w->in_cpu)
		return -EINVAL;
	return tdw_write(w, buf, w->spec->g.size);
}

void tdw_events(struct tdw *w, uint64_t n)
{
	for (size_t i = 0; i < w->spec->cap->ncpu && w->events; i++)
		w->events[i] += w->spec->cap->cpu[i].cpu == w->cpu ? n : 0;
}

int tdw_patch_options(struct tdw *w, size_t at, const char *text)
{
	return patch(w, w->options_at + at, text, strlen(text));
}

int tdw_close(struct tdw *w, int ret)
{
	if (!ret && w->buffer <= w->spec->ninstance)
		ret = -EINVAL; /* a buffer was promised and never written */
	ret = ret ?: cpu_end(w);
	ret = ret ?: tdw_facts_end(w);
	ret = ret ?: flush(w);
	sbuf_free(&w->options);
	free(w->offset_at);
	free(w->stats_at);
	free(w->events);
	free(w->buf);
	free(w);
	return ret;
}
