/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lat_formats.c: the table of formats for latency results, and what they all share. */
#include "kvmft/lat_output.h"

#include <inttypes.h>

extern const struct lat_format lat_text, lat_json, lat_csv, lat_html, lat_metrics;

/* The first is the default. */
static const struct lat_format *const lat_formats[] = {
	&lat_text,
	&lat_json,
	&lat_csv,
	&lat_html,
	&lat_metrics,
};

const char *lat_format_name(size_t i)
{
	return i < ARRAY_SIZE(lat_formats) ? lat_formats[i]->name : NULL;
}

const struct lat_format *lat_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(lat_formats); i++)
		if (!strcmp(lat_formats[i]->name, name))
			return lat_formats[i];
	return NULL;
}

const char *lat_vm_label(const struct lat_view *v, int64_t vm)
{
	return vm < 0 ? "host" : tl_hostmap(v->t)->vm[vm].label;
}

const struct lat_bound *lat_stage_bound(const struct lat_view *v, const struct lat_desc *d,
					const struct lat_group *g, unsigned int stage)
{
	if (g->vm < 0 || !(d->crosses >> stage & 1) || !v->bound[g->vm].known)
		return NULL;
	return &v->bound[g->vm];
}

uint64_t lat_stage_uncertain(const struct lat_view *v, const struct lat_desc *d,
			     const struct lat_group *g, unsigned int stage)
{
	return g->vm >= 0 && d->crosses >> stage & 1 ? v->bound[g->vm].uncertain : 0;
}

bool lat_is_uncertain(const struct lat_view *v, const struct lat_table *t,
		      const struct lat_group *g, unsigned int stage)
{
	const struct loghist *h = g->stage[stage];

	return h && loghist_percentile(h, 50, 100) < lat_stage_uncertain(v, t->desc, g, stage);
}

void lat_counts_text(const struct lat_table *t, struct sbuf *b)
{
	const char *sep = "";

	for (unsigned int c = 0; c < LAT_COUNTS && t->desc->count[c]; c++) {
		if (c > 1 && !t->count[c])
			continue;
		sbuf_addf(b, "%s%s %llu", sep, t->desc->count[c], (unsigned long long)t->count[c]);
		sep = "; ";
	}
}

const char *lat_unit(const struct lat_view *v)
{
	return lat_in_cycles(v->lat) ? "cycles" : "ns";
}

char *lat_amount(const struct lat_view *v, char *buf, size_t size, uint64_t time)
{
	if (!lat_in_cycles(v->lat))
		return str_ns(buf, size, time);
	snprintf(buf, size, "%" PRIu64 " cycles", time);
	return buf;
}

uint64_t lat_of_cycles(const struct lat_view *v, uint64_t cycles)
{
	return lat_in_cycles(v->lat) ? cycles : tsc_cycles_to_ns(cycles, v->clock->khz);
}
