/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_write6.c: what only version 6 of trace.dat has: one fixed order, CPU tables before the
 * data.
 */
#include "tracedat_write.h"

int tdw_v6_begin(struct tdw *w)
{
	struct sbuf b = { 0 };
	int ret = 0;

	for (int k = 0; k < TDW_BLOCKS && !ret; k++) {
		tdw_block(w->spec, (enum tdw_block)k, &b);
		ret = tdw_write_sbuf(w, &b);
	}
	tdw_put_u32(&b, &w->spec->g, w->spec->cpus);
	ret = ret ?: tdw_write_sbuf(w, &b);
	sbuf_free(&b);
	w->offset_at = calloc(w->spec->ninstance + 1, sizeof(*w->offset_at));
	return w->offset_at ? ret : -ENOMEM;
}

/* The option's offset is not known yet; its place is remembered. */
static int instance_option(struct tdw *w, size_t i, uint64_t options_at)
{
	const struct tdw_spec *s = w->spec;
	struct sbuf b = { 0 };
	int ret;

	tdw_put_u64(&b, &s->g, 0);
	sbuf_add_mem(&b, s->instance[i], strlen(s->instance[i]) + 1);
	w->offset_at[i] = options_at + w->options.len + 6;
	ret = tdw_option_sbuf(w, TD_BUFFER, &b);
	if (ret || s->instance_cpus[i] == s->cpus)
		return ret;
	tdw_put_u32(&b, &s->g, s->instance_cpus[i]);
	return tdw_option_sbuf(w, TD_CPUCOUNT, &b);
}

static int write_options(struct tdw *w)
{
	uint64_t at = w->options_at = w->pos + 10;
	int ret = tdw_write(w, "options  ", 10);

	for (size_t i = 0; i < w->spec->ninstance && !ret; i++)
		ret = instance_option(w, i, at);
	tdw_put_u16(&w->options, &w->spec->g, TD_DONE);
	return ret ?: tdw_write_sbuf(w, &w->options);
}

int tdw_v6_buffer(struct tdw *w)
{
	struct sbuf b = { 0 };
	char clock[80];
	int n, ret = 0;

	if (w->buffer == 1) {
		ret = write_options(w);
	} else {
		ret = tdw_align(w);
		ret = ret ?: tdw_patch_u64(w, w->offset_at[w->buffer - 2], w->pos);
	}
	if (ret)
		return ret;
	w->table_at = w->pos + 10;
	n = snprintf(clock, sizeof(clock), "[%.64s]", w->spec->clock);
	sbuf_add_mem(&b, "flyrecord", 10);
	for (uint32_t i = 0; i < 2 * w->cpus; i++)
		tdw_put_u64(&b, &w->spec->g, 0);
	tdw_put_u64(&b, &w->spec->g, (uint64_t)n);
	sbuf_add_mem(&b, clock, (size_t)n);
	return tdw_write_sbuf(w, &b);
}

int tdw_v6_cpu_end(struct tdw *w)
{
	int ret = tdw_patch_u64(w, w->table_at + 16ull * w->cpu, w->cpu_at);

	return ret ?: tdw_patch_u64(w, w->table_at + 16ull * w->cpu + 8, w->cpu_plain);
}
