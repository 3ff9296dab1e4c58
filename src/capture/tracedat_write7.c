/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_write7.c: what only version 7 of trace.dat has: sections, found through options at the
 * end, and compression.
 */
#include "tracedat_write.h"
#include "reader.h"

#define SECTION_HEADER 16
#define PACKED	       1u
#define CHUNK_SUBBUFS  10u /* as in libtracecmd */

/* ---- sections ---- */

/* The name of a section in section STRINGS, for people. */
static const struct {
	uint16_t id;
	const char *name;
} section_name[] = {
	{ TD_DONE, "options" },		   { TD_BUFFER, "sub-buffers" },
	{ TD_STRINGS, "strings" },	   { TD_HEADER_INFO, "headers" },
	{ TD_FTRACE_EVENTS, "ftrace events" }, { TD_EVENT_FORMATS, "event formats" },
	{ TD_KALLSYMS, "kallsyms" },	   { TD_PRINTK, "printk formats" },
	{ TD_CMDLINES, "command lines" },
};

static uint32_t name_offset(uint16_t id)
{
	uint32_t off = 0;

	for (size_t i = 0; i < ARRAY_SIZE(section_name); i++) {
		if (section_name[i].id == id)
			return off;
		off += (uint32_t)strlen(section_name[i].name) + 1;
	}
	return UINT32_MAX;
}

static int section_begin(struct tdw *w, uint16_t id, bool packed)
{
	const struct subbuf_geom *g = &w->spec->g;
	struct sbuf b = { 0 };

	w->section_at = w->pos;
	tdw_put_u16(&b, g, id);
	tdw_put_u16(&b, g, packed ? PACKED : 0);
	tdw_put_u32(&b, g, name_offset(id));
	tdw_put_u64(&b, g, 0);
	return tdw_write_sbuf(w, &b);
}

static int section_end(struct tdw *w)
{
	return tdw_patch_u64(w, w->section_at + 8, w->pos - w->section_at - SECTION_HEADER);
}

/* u32 packed size, u32 plain size, bytes. */
static int write_packed(struct tdw *w, const void *p, size_t n)
{
	size_t bound = cap_pack_bound(n);
	struct sbuf head = { 0 };
	ssize_t packed;
	int ret;

	if (bound > w->packed_size) {
		free(w->packed);
		w->packed = malloc(bound);
		w->packed_size = w->packed ? bound : 0;
	}
	if (!w->packed)
		return -ENOMEM;
	packed = cap_pack(p, n, w->packed, w->packed_size);
	if (packed < 0)
		return (int)packed;
	if ((uint64_t)packed > UINT32_MAX || n > UINT32_MAX)
		return -EFBIG;
	tdw_put_u32(&head, &w->spec->g, (uint32_t)packed);
	tdw_put_u32(&head, &w->spec->g, (uint32_t)n);
	ret = tdw_write_sbuf(w, &head);
	return ret ?: tdw_write(w, w->packed, (size_t)packed);
}

static int offset_option(struct tdw *w, enum td_opt id, uint64_t off)
{
	struct sbuf b = { 0 };

	tdw_put_u64(&b, &w->spec->g, off);
	return tdw_option_sbuf(w, id, &b);
}

static int write_block(struct tdw *w, enum tdw_block block, enum td_opt id)
{
	struct sbuf b = { 0 };
	int ret;

	tdw_block(w->spec, block, &b);
	ret = b.error ?: section_begin(w, (uint16_t)id, w->spec->zstd);
	if (!ret)
		ret = w->spec->zstd ? write_packed(w, b.s, b.len) : tdw_write(w, b.s, b.len);
	sbuf_free(&b);
	ret = ret ?: section_end(w);
	return ret ?: offset_option(w, id, w->section_at);
}

int tdw_v7_begin(struct tdw *w)
{
	static const enum td_opt id[TDW_BLOCKS] = {
		[TDW_HEADER_INFO] = TD_HEADER_INFO, [TDW_FTRACE] = TD_FTRACE_EVENTS,
		[TDW_FORMATS] = TD_EVENT_FORMATS,   [TDW_KALLSYMS] = TD_KALLSYMS,
		[TDW_PRINTK] = TD_PRINTK,	    [TDW_CMDLINES] = TD_CMDLINES,
	};
	struct sbuf b = { 0 };
	int ret;

	/* The compressor and its version, which nobody reads. */
	sbuf_add_mem(&b, w->spec->zstd ? "zstd\0" "1.0" : "none\0", w->spec->zstd ? 9 : 6);
	w->first_at = w->pos + b.len;
	tdw_put_u64(&b, &w->spec->g, 0);
	ret = tdw_write_sbuf(w, &b);
	for (int k = 0; k < TDW_BLOCKS && !ret; k++)
		ret = write_block(w, (enum tdw_block)k, id[k]);
	return ret;
}

/* ---- buffers ---- */

int tdw_v7_buffer(struct tdw *w)
{
	sbuf_reset(&w->table);
	w->table_n = 0;
	return section_begin(w, TD_BUFFER, w->spec->zstd);
}

/* libtracecmd does not count the four bytes of the chunk count in the size. */
int tdw_v7_cpu_end(struct tdw *w)
{
	const struct subbuf_geom *g = &w->spec->g;
	uint64_t size = w->pos - w->cpu_at - (w->spec->zstd ? 4 : 0);

	if (!w->cpu_plain)
		return 0;
	tdw_put_u32(&w->table, g, w->cpu);
	tdw_put_u64(&w->table, g, w->cpu_at);
	tdw_put_u64(&w->table, g, size);
	w->table_n++;
	return w->table.error;
}

int tdw_v7_buffer_end(struct tdw *w)
{
	const struct tdw_spec *s = w->spec;
	const char *name = w->buffer == 1 ? "" : s->instance[w->buffer - 2];
	struct sbuf b = { 0 };
	int ret = section_end(w);

	tdw_put_u64(&b, &s->g, w->section_at);
	sbuf_add_mem(&b, name, strlen(name) + 1);
	sbuf_add_mem(&b, s->clock, strlen(s->clock) + 1);
	tdw_put_u32(&b, &s->g, s->g.size);
	tdw_put_u32(&b, &s->g, w->table_n);
	sbuf_add_mem(&b, w->table.s, w->table.len);
	if (!ret)
		return tdw_option_sbuf(w, TD_BUFFER, &b);
	sbuf_free(&b);
	return ret;
}

/* Readers look for this section by walking all of them: it has no option. */
static int write_strings(struct tdw *w)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = section_begin(w, TD_STRINGS, false);

	for (size_t i = 0; i < ARRAY_SIZE(section_name); i++)
		sbuf_add_mem(&b, section_name[i].name, strlen(section_name[i].name) + 1);
	ret = ret ?: tdw_write_sbuf(w, &b);
	return ret ?: section_end(w);
}

/* Options are never compressed: libtracecmd adds to them in place. */
int tdw_v7_end(struct tdw *w)
{
	struct sbuf b = { 0 };
	int ret = write_strings(w);

	tdw_put_u32(&b, &w->spec->g, w->spec->cpus);
	ret = ret ?: tdw_option_sbuf(w, TD_CPUCOUNT, &b);
	sbuf_free(&b);
	ret = ret ?: offset_option(w, TD_DONE, 0); /* no further options */
	ret = ret ?: section_begin(w, TD_DONE, false);
	ret = ret ?: tdw_write_sbuf(w, &w->options);
	ret = ret ?: section_end(w);
	return ret ?: tdw_patch_u64(w, w->first_at, w->section_at);
}

/* ---- compression ---- */

int tdw_pack_begin(struct tdw *w)
{
	const uint32_t none = 0;

	w->chunks = 0;
	w->chunk_fill = 0;
	w->chunk = w->chunk ?: malloc((size_t)CHUNK_SUBBUFS * w->spec->g.size);
	return w->chunk ? tdw_write(w, &none, sizeof(none)) : -ENOMEM;
}

static int write_chunk(struct tdw *w)
{
	int ret = w->chunk_fill ? write_packed(w, w->chunk, w->chunk_fill) : 0;

	w->chunks += w->chunk_fill != 0;
	w->chunk_fill = 0;
	return ret;
}

int tdw_pack(struct tdw *w, const void *subbuf)
{
	memcpy(w->chunk + w->chunk_fill, subbuf, w->spec->g.size);
	w->chunk_fill += w->spec->g.size;
	return w->chunk_fill == (size_t)CHUNK_SUBBUFS * w->spec->g.size ? write_chunk(w) : 0;
}

int tdw_pack_end(struct tdw *w)
{
	int ret = write_chunk(w);

	return ret ?: tdw_patch_u32(w, w->cpu_at, w->chunks);
}

void tdw_pack_free(struct tdw *w)
{
	free(w->chunk);
	free(w->packed);
}
