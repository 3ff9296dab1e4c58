/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lat_json.c: latency results as one JSON document, and as CSV with a line per group and stage. */
#include "kvmft/lat_output.h"
#include "kvmft/table.h"

/* KEY_ns, or KEY_cycles. */
static void put_time(struct json *j, const struct lat_view *v, const char *key, bool known,
		     uint64_t time)
{
	char name[32];

	snprintf(name, sizeof(name), "%s_%s", key, lat_unit(v));
	json_put_known_u64(j, name, known, time);
}

/* A stage of a group: a member of JSON's "stages", a line of CSV; CSV's header with no group. */
static void stage_columns(struct row *o, const struct lat_view *v, const struct lat_desc *d,
			  const struct lat_group *g, unsigned int s)
{
	const struct loghist none = { 0 }, *h = g ? g->stage[s] : &none;
	const struct lat_bound *off = g ? lat_stage_bound(v, d, g, s) : NULL;
	uint64_t uncertain = g ? lat_stage_uncertain(v, d, g, s) : 0;
	uint64_t half = loghist_percentile(h, 50, 100), sum = (uint64_t)h->sum;
	bool json = o->form == ROW_JSON;

	if (!json) {
		row_str(o, "table", g ? d->name : NULL);
		row_quoted(o, "vm", g ? lat_vm_label(v, g->vm) : NULL);
		row_quoted(o, "name", g ? g->name : NULL);
		row_str(o, "stage", g ? d->stage[s] : NULL);
	}
	row_u64(o, "count", true, h->n);
	row_time(o, "min", true, h->min);
	row_time(o, "avg", true, loghist_mean(h));
	row_time(o, "p50", true, half);
	row_time(o, "p99", true, loghist_percentile(h, 99, 100));
	row_time(o, "max", true, h->max);
	row_time(o, json ? "total" : "sum", true, json && h->sum > UINT64_MAX ? UINT64_MAX : sum);
	if (off || !json) {
		row_time(o, "off_early", off, off ? off->early : 0);
		row_time(o, "off_late", off, off ? off->late : 0);
	}
	if (uncertain || !json) {
		row_time(o, "uncertain", uncertain, uncertain);
		row_bool(o, "below_uncertainty", uncertain, half < uncertain);
	}
	row_end(o);
}

static void stages(struct json *j, const struct lat_view *v, const struct lat_desc *d,
		   const struct lat_group *g)
{
	struct row o;

	json_put_object(j, "stages");
	for (unsigned int s = 0; s < LAT_STAGES; s++) {
		if (!g->stage[s])
			continue;
		json_key(j, d->stage[s]);
		row_json(&o, j, lat_in_cycles(v->lat));
		stage_columns(&o, v, d, g, s);
	}
	json_object_end(j);
}

/* The number of totals up to each power of two less 1. */
static void histogram_json(struct json *j, const struct loghist *h)
{
	uint64_t n = 0, lo, hi;

	json_put_array(j, "histogram");
	for (unsigned int i = 0; h && i < LOGHIST_BUCKETS; i++) {
		n += h->count[i];
		loghist_bounds(i, &lo, &hi);
		if (!n || hi & (hi + 1))
			continue;
		json_array_begin(j);
		json_u64(j, hi);
		json_u64(j, n);
		json_array_end(j);
		n = 0;
	}
	json_array_end(j);
}

static void group_json(struct json *j, const struct lat_view *v, const struct lat_desc *d,
		       const struct lat_group *g)
{
	json_object_begin(j);
	json_put_str(j, "vm", g->vm < 0 ? NULL : lat_vm_label(v, g->vm));
	json_put_str(j, "name", g->name);
	stages(j, v, d, g);
	histogram_json(j, g->stage[0]);
	json_put_object(j, "longest");
	json_put_u64(j, "begin_host_tsc", g->begin);
	json_put_u64(j, "end_host_tsc", g->end);
	json_object_end(j);
	json_put_object(j, "causes");
	for (unsigned int c = 0; c < LAT_CAUSES; c++)
		if (g->cause[c] && d->cause[c])
			json_put_u64(j, d->cause[c][0] ? d->cause[c] : "none", g->cause[c]);
	json_object_end(j);
	json_object_end(j);
}

static void case_json(struct json *j, const struct lat_view *v, const struct lat_desc *d,
		      const struct lat_case *c, const struct lat_story *story)
{
	json_object_begin(j);
	json_put_str(j, "what", c->what);
	json_put_str(j, "vm", c->vm < 0 ? NULL : lat_vm_label(v, c->vm));
	json_put_s64(j, "vcpu", c->vcpu);
	json_put_u64(j, "begin_host_tsc", c->begin);
	json_put_u64(j, "end_host_tsc", c->end);
	put_time(j, v, "total", true, c->time);
	json_put_object(j, lat_in_cycles(v->lat) ? "stages_cycles" : "stages_ns");
	for (unsigned int s = 1; s < LAT_STAGES; s++)
		if (c->known >> s & 1)
			json_put_u64(j, d->stage[s], c->stage_time[s]);
	json_object_end(j);
	json_put_str(j, "cause",
		     d->cause[c->cause] && d->cause[c->cause][0] ? d->cause[c->cause] : NULL);
	if (story && story->text)
		json_put_str(j, "excerpt", story->text);
	json_object_end(j);
}

static void lat_table_json(struct json *j, const struct lat_view *v, const struct lat_table *t,
		       const struct lat_story *story)
{
	json_object_begin(j);
	json_put_str(j, "title", t->desc->title);
	json_put_array(j, "groups");
	for (size_t i = 0; i < t->ngroup; i++)
		group_json(j, v, t->desc, &t->group[i]);
	json_array_end(j);
	json_put_object(j, "not_recorded");
	for (unsigned int s = 0; s < LAT_STAGES && t->desc->stage[s]; s++) {
		uint32_t lacks = lat_lacks(v->lat, t->desc->name, t->desc->stage[s]);

		if (lacks)
			evidence_json(t->desc->stage[s], lacks, j);
	}
	json_object_end(j);
	json_put_object(j, "counts");
	for (unsigned int c = 0; c < LAT_COUNTS && t->desc->count[c]; c++)
		json_put_u64(j, t->desc->count[c], t->count[c]);
	json_object_end(j);
	json_put_array(j, "worst");
	for (size_t i = 0; i < t->nworst; i++)
		case_json(j, v, t->desc, &t->worst[i], story ? &story[i] : NULL);
	json_array_end(j);
	json_object_end(j);
}

static void vcpus_json(struct json *j, const struct lat_view *v)
{
	json_put_array(j, "vcpus");
	for (size_t i = 0; i < lat_vcpus(v->lat); i++) {
		struct lat_times t;

		if (!lat_vcpu_times(v->lat, i, &t))
			continue;
		json_object_begin(j);
		json_put_str(j, "vm", lat_vm_label(v, (int64_t)t.vm));
		json_put_u64(j, "vcpu", t.vcpu);
		json_put_u64(j, "wall_cycles", t.last - t.first);
		for (unsigned int s = 0; s < VS_STATES; s++)
			json_put_known_u64(j, vs_names[s], !lat_lacks(v->lat, "vcpu", vs_names[s]),
					   t.time[s]);
		json_object_end(j);
	}
	json_array_end(j);
}

/* null: unknown. */
static void bounds_json(struct json *j, const struct lat_view *v)
{
	json_put_array(j, "alignment");
	for (size_t m = 0; m < tl_hostmap(v->t)->nvm; m++) {
		if (!v->bound[m].guest)
			continue;
		json_object_begin(j);
		json_put_str(j, "vm", lat_vm_label(v, (int64_t)m));
		put_time(j, v, "off_early", v->bound[m].known, v->bound[m].early);
		put_time(j, v, "off_late", v->bound[m].known, v->bound[m].late);
		if (v->bound[m].uncertain)
			json_put_str(j, "tsc_offset_from", "events");
		put_time(j, v, "uncertain", true, v->bound[m].uncertain);
		json_object_end(j);
	}
	json_array_end(j);
}

static int json_print(const struct lat_view *v, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct json j;

	json_line_begin(&j, &b);
	json_put_str(&j, "unit", lat_unit(v));
	out_json_rate(&j, tl_source(v->t, 0)->cap);
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(v->lat, (enum lat_table_id)id);

		if (!lat_has_table(v->lat, (enum lat_table_id)id))
			continue;
		json_key(&j, t->desc->name);
		lat_table_json(&j, v, t, v->story[id]);
	}
	if (v->want[LAT_SCHED])
		vcpus_json(&j, v);
	bounds_json(&j, v);
	evidence_json("needs", lat_needs(v->lat), &j);
	json_put_array(&j, "notes");
	for (size_t i = 0; lat_note(v->lat, i); i++)
		json_str(&j, lat_note(v->lat, i));
	json_array_end(&j);
	if (json_line_end(&j) && !b.error)
		b.error = -EINVAL;
	return sbuf_write(&b, f);
}

const struct lat_format lat_json = { .name = "json", .help = "one document", .print = json_print };

const struct lat_format lat_html = {
	.name = "html",
	.help = "one page to look at in a browser",
	.print = json_print,
	.page = true,
};

/* ---- CSV ---- */

/* What was only counted: a line each, named by its stage. */
static void csv_counts(struct sbuf *b, const struct lat_view *v, const struct lat_table *t)
{
	for (unsigned int s = 0; s < LAT_STAGES && t->desc->stage[s]; s++)
		if (lat_lacks(v->lat, t->desc->name, t->desc->stage[s]))
			sbuf_addf(b, "%s,\"\",\"%s\",not recorded,,,,,,,,,,,\n", t->desc->name,
				  t->desc->stage[s]);

	for (unsigned int c = 0; c < LAT_COUNTS && t->desc->count[c]; c++) {
		sbuf_addf(b, "%s,\"\",", t->desc->name);
		sbuf_add_csv_quoted(b, t->desc->count[c]);
		sbuf_addf(b, ",counted,%llu,,,,,,,,,,\n", (unsigned long long)t->count[c]);
	}
}

static int csv_print(const struct lat_view *v, FILE *f)
{
	bool cycles = lat_in_cycles(v->lat);
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	struct row o;

	row_head(&o, &b, cycles);
	stage_columns(&o, v, NULL, NULL, 0);
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(v->lat, (enum lat_table_id)id);

		if (!lat_has_table(v->lat, (enum lat_table_id)id))
			continue;
		for (size_t i = 0; i < t->ngroup; i++)
			for (unsigned int s = 0; s < LAT_STAGES; s++) {
				if (!t->group[i].stage[s])
					continue;
				row_csv(&o, &b, cycles);
				stage_columns(&o, v, t->desc, &t->group[i], s);
			}
		csv_counts(&b, v, t);
	}
	return sbuf_write(&b, f);
}

const struct lat_format lat_csv = { .name = "csv",
				    .help = "a line per group and stage",
				    .print = csv_print };
