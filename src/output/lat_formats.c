/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lat_formats.c: the table of formats for latency results, and what they all share. */
#include "kvmft/results.h"
#include "kvmft/table.h"

#define KEY_SIZE 32

/* Latency results as one JSON document, and as CSV with a line per group and stage. */

/* The unit of lengths of time. */
static const char *lat_unit(const struct lat_view *v)
{
	return lat_in_cycles(v->lat) ? "cycles" : "ns";
}

/* How uncertain a stage that crosses is; 0: not at all. Medians below that may be no time. */
static uint64_t lat_stage_uncertain(const struct lat_view *v, const struct lat_desc *d,
				    const struct lat_group *g, unsigned int stage)
{
	return g->vm >= 0 && d->crosses >> stage & 1 ? v->bound[g->vm].uncertain : 0;
}

/* KEY_ns, or KEY_cycles. */
static void put_time(struct json *j, const struct lat_view *v, const char *key, bool known,
		     uint64_t time)
{
	json_put_known_u64(j, TEXTF("%s_%s", key, lat_unit(v)), known, time);
}

/* A stage of a group: a member of JSON's "stages", a line of CSV; CSV's header with no group. */
static void stage_columns(struct row *o, const struct lat_view *v, const struct lat_desc *d,
			  const struct lat_group *g, unsigned int s)
{
	const struct loghist none = { 0 }, *h = g ? g->stage[s] : &none;
	const struct lat_bound *off = g ? lat_stage_bound(v, d, g, s) : NULL;
	uint64_t uncertain = g ? lat_stage_uncertain(v, d, g, s) : 0;
	uint64_t half = loghist_percentile(h, 50, 100), sum = (uint64_t)h->sum;
	const struct {
		const char *name;
		uint64_t v;
	} times[] = {
		{ "min", h->min }, { "avg", loghist_mean(h) },
		{ "p50", half },   { "p99", loghist_percentile(h, 99, 100) },
		{ "max", h->max },
	};
	bool json = o->form == ROW_JSON;

	if (!json) {
		row_str(o, "table", g ? d->name : NULL);
		row_quoted(o, "vm", g ? lat_vm_label(v, g->vm) : NULL);
		row_quoted(o, "name", g ? g->name : NULL);
		row_str(o, "stage", g ? d->stage[s] : NULL);
	}
	row_u64(o, "count", true, h->n);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) /* what is less than its grain is unknown */
		row_time(o, times[i].name, times[i].v >= v->clock->map->cap->grain, times[i].v);
	row_time(o, json ? "total" : "sum", h->sum >= v->clock->map->cap->grain,
		 json && h->sum > UINT64_MAX ? UINT64_MAX : sum);
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

/* NULL: none in particular. */
static const char *word_key(const char *word, char key[KEY_SIZE])
{
	snprintf(key, KEY_SIZE, "%.*s", word ? (int)strcspn(word, ":") : 0, word);
	return key[0] ? key : NULL;
}

/* What the keys mean that are no words for people. */
static void words_json(struct json *j, const char *const *word, unsigned int n)
{
	char key[KEY_SIZE];

	for (unsigned int i = 0; i < n && word[i]; i++)
		if (strchr(word[i], ':'))
			json_put_str(j, word_key(word[i], key), lat_word_text(word[i]));
}

static void group_json(struct json *j, const struct lat_view *v, const struct lat_desc *d,
		       const struct lat_group *g)
{
	char key[KEY_SIZE];
	struct row o;
	const struct loghist *h;
	uint64_t n, lo, hi;

	json_object_begin(j);
	json_put_str(j, "vm", g->vm < 0 ? NULL : lat_vm_label(v, g->vm));
	json_put_str(j, "name", g->name);
	json_put_object(j, "stages");
	for (unsigned int s = 0; s < LAT_STAGES; s++) {
		if (!g->stage[s])
			continue;
		json_key(j, d->stage[s]);
		row_json(&o, j, lat_in_cycles(v->lat));
		stage_columns(&o, v, d, g, s);
	}
	json_object_end(j);
	/* The number of totals up to each power of two less 1. */
	h = g->stage[0];
	n = 0;
	json_put_array(j, "histogram");
	for (unsigned int i = 0; h && i < LOGHIST_BUCKETS; i++) {
		n += loghist_count(h, i);
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
	json_put_object(j, "longest");
	json_put_u64(j, "begin_host_tsc", g->begin);
	json_put_u64(j, "end_host_tsc", g->end);
	json_object_end(j);
	json_put_object(j, "causes");
	for (unsigned int c = 0; c < LAT_CAUSES; c++)
		if (g->cause[c] && d->cause[c])
			json_put_u64(j, word_key(d->cause[c], key) ?: "none", g->cause[c]);
	json_object_end(j);
	json_object_end(j);
}

static void lat_table_json(struct json *j, const struct lat_view *v, const struct lat_table *t,
		       const struct lat_story *story)
{
	char key[KEY_SIZE];

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
		json_put_u64(j, word_key(t->desc->count[c], key), t->count[c]);
	json_object_end(j);
	json_put_object(j, "words");
	words_json(j, t->desc->cause, LAT_CAUSES);
	words_json(j, t->desc->count, LAT_COUNTS);
	json_object_end(j);
	json_put_array(j, "worst");
	for (size_t i = 0; i < t->nworst; i++) {
		const struct lat_case *c = &t->worst[i];

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
				json_put_u64(j, t->desc->stage[s], c->stage_time[s]);
		json_object_end(j);
		json_put_str(j, "cause", word_key(t->desc->cause[c->cause], key));
		if (story && story[i].text)
			json_put_str(j, "excerpt", story[i].text);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void lat_json(const struct lat_view *v, struct sbuf *b)
{
	struct json j;

	json_line_begin(&j, b);
	json_put_str(&j, "unit", lat_unit(v));
	out_json_rate(&j, tl_source(v->t, 0)->cap);
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(v->lat, (enum lat_table_id)id);

		if (!lat_has_table(v->lat, (enum lat_table_id)id))
			continue;
		json_key(&j, t->desc->name);
		lat_table_json(&j, v, t, v->story[id]);
	}
	if (v->want[LAT_SCHED]) {
		json_put_array(&j, "vcpus");
		for (size_t i = 0; i < lat_vcpus(v->lat); i++) {
			struct lat_times t;

			if (!lat_vcpu_times(v->lat, i, &t))
				continue;
			json_object_begin(&j);
			json_put_str(&j, "vm", lat_vm_label(v, (int64_t)t.vm));
			json_put_u64(&j, "vcpu", t.vcpu);
			json_put_u64(&j, "wall_cycles", t.last - t.first);
			for (unsigned int s = 0; s < VS_STATES; s++)
				json_put_known_u64(&j, vs_names[s],
						   !lat_lacks(v->lat, "vcpu", vs_names[s]),
						   t.time[s]);
			json_object_end(&j);
		}
		json_array_end(&j);
	}
	if (v->want[LAT_IRQ]) {
		json_put_array(&j, "apicv_inhibited");
		for (size_t m = 0; m < tl_hostmap(v->t)->nvm; m++) {
			_cleanup_(sbuf_free) struct sbuf by = { 0 };
			struct lat_apicv a;

			if (!lat_apicv(v->lat, m, &a))
				continue;
			event_apicv_inhibits(tl_source(v->t, 0)->cap, a.ever, &by);
			json_object_begin(&j);
			json_put_str(&j, "vm", lat_vm_label(v, (int64_t)m));
			json_put_str(&j, "by", xsbuf_text(&by));
			json_put_u64(&j, "times", a.times);
			put_time(&j, v, "total", true, lat_of_cycles(v, a.cycles));
			json_put_bool(&j, "still", a.now);
			json_put_known_u64(&j, "since_host_tsc", !a.before, a.since);
			json_put_bool(&j, "known_to_the_end", a.known);
			json_object_end(&j);
		}
		json_array_end(&j);
	}
	/* null: unknown. */
	json_put_array(&j, "alignment");
	for (size_t m = 0; m < tl_hostmap(v->t)->nvm; m++) {
		if (!v->bound[m].guest)
			continue;
		json_object_begin(&j);
		json_put_str(&j, "vm", lat_vm_label(v, (int64_t)m));
		put_time(&j, v, "off_early", v->bound[m].known, v->bound[m].early);
		put_time(&j, v, "off_late", v->bound[m].known, v->bound[m].late);
		if (v->bound[m].uncertain)
			json_put_str(&j, "tsc_offset_from", "events");
		put_time(&j, v, "uncertain", true, v->bound[m].uncertain);
		json_object_end(&j);
	}
	json_array_end(&j);
	evidence_json("needs", lat_needs(v->lat), &j);
	json_put_array(&j, "notes");
	for (size_t i = 0; lat_note(v->lat, i); i++)
		json_str(&j, lat_note(v->lat, i));
	json_array_end(&j);
	json_line_end(&j);
}

/* ---- CSV ---- */

static void lat_csv(const struct lat_view *v, struct sbuf *b)
{
	struct row o = { .form = ROW_CSV, .b = b, .cycles = lat_in_cycles(v->lat), .head = true };

	stage_columns(&o, v, NULL, NULL, 0);
	o.head = false;
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(v->lat, (enum lat_table_id)id);

		if (!lat_has_table(v->lat, (enum lat_table_id)id))
			continue;
		for (size_t i = 0; i < t->ngroup; i++)
			for (unsigned int s = 0; s < LAT_STAGES; s++) {
				if (t->group[i].stage[s])
					stage_columns(&o, v, t->desc, &t->group[i], s);
			}
		/* What was only counted: a line each, named by its stage. */
		for (unsigned int s = 0; s < LAT_STAGES && t->desc->stage[s]; s++)
			if (lat_lacks(v->lat, t->desc->name, t->desc->stage[s]))
				sbuf_addf(b, "%s,\"\",\"%s\",not recorded,,,,,,,,,,,\n",
					  t->desc->name, t->desc->stage[s]);
		for (unsigned int c = 0; c < LAT_COUNTS && t->desc->count[c]; c++) {
			sbuf_addf(b, "%s,\"\",", t->desc->name);
			sbuf_add_csv_quoted(b, lat_word_text(t->desc->count[c]));
			sbuf_addf(b, ",counted,%llu,,,,,,,,,,\n", (unsigned long long)t->count[c]);
		}
	}
}

/* Metrics: a histogram for each analysis and VM; interrupts and tasks are too many for labels. */

/* Buckets end at 2^k - 1 ns, which loghist counts exactly: 1 us, 4 us ... 4.3 s. */
#define LE_FIRST 10
#define LE_LAST	 32
#define LE_STEP	 2

static const struct hostmap_vm *vm_at(const struct lat_view *v, size_t vm)
{
	return &tl_hostmap(v->t)->vm[vm];
}

static void table_labels(const struct lat_view *v, const struct lat_desc *d, size_t vm,
			 const char *suffix, struct sbuf *b)
{
	sbuf_addf(b, "kvmft_latency_seconds%s{", suffix);
	metric_label(b, "analysis", d->name);
	metric_vm(b, vm_at(v, 0), vm_at(v, vm));
}

/* All groups of a VM together. */
static void table_metrics(const struct lat_view *v, const struct lat_table *t, size_t nvm,
			  struct sbuf *b)
{
	struct loghist *all = xcalloc(nvm + 1, sizeof(*all));

	for (size_t i = 0; i < t->ngroup; i++)
		if ((uint64_t)t->group[i].vm < nvm && t->group[i].stage[0])
			loghist_merge(&all[t->group[i].vm], t->group[i].stage[0]);
	for (size_t vm = 0; vm < nvm; vm++) {
		struct loghist *h = &all[vm];

		for (unsigned int k = LE_FIRST; k <= LE_LAST && h->n; k += LE_STEP) {
			uint64_t most = ((uint64_t)1 << k) - 1, n = 0, lo, hi;

			for (unsigned int i = 0; i < LOGHIST_BUCKETS; i++) {
				loghist_bounds(i, &lo, &hi);
				n += hi <= most ? loghist_count(h, i) : 0;
			}
			table_labels(v, t->desc, vm, "_bucket", b);
			sbuf_add(b, ",le=\"");
			metric_seconds(b, most);
			sbuf_addf(b, "\"} %" PRIu64 "\n", n);
		}
		if (h->n) {
			table_labels(v, t->desc, vm, "_bucket", b);
			sbuf_addf(b, ",le=\"+Inf\"} %" PRIu64 "\n", h->n);
			table_labels(v, t->desc, vm, "_sum", b);
			sbuf_add(b, "} ");
			metric_seconds(b, h->sum > UINT64_MAX ? UINT64_MAX : (uint64_t)h->sum);
			sbuf_addc(b, '\n');
			table_labels(v, t->desc, vm, "_count", b);
			sbuf_addf(b, "} %" PRIu64 "\n", h->n);
		}
		loghist_free(h);
	}
	free(all);
}

static void metrics_print(const struct lat_view *v, struct sbuf *b)
{
	size_t all = tl_hostmap(v->t)->nvm, nvm = MIN(all, (size_t)METRICS_VMS);

	if (!lat_in_cycles(v->lat)) {
		struct vm_states {
			uint64_t sum[VS_STATES];
			bool any;
		} *of = xcalloc(nvm + 1, sizeof(*of));
		struct lat_times t;

		metric_head(b, "kvmft_latency_seconds", "histogram",
			    "How long it took, from its cause to its effect.");
		for (unsigned int id = 0; id < LAT_TABLES; id++)
			/* Those after LAT_T_MEM have its cases once more. */
			if (lat_has_table(v->lat, (enum lat_table_id)id) && id != LAT_T_STEALER &&
			    id <= LAT_T_MEM)
				table_metrics(v, lat_table(v->lat, (enum lat_table_id)id), nvm, b);
		metric_head(b, "kvmft_vcpu_seconds", "gauge",
			    "What the vCPUs of the VM did, all together.");
		for (size_t i = 0; i < lat_vcpus(v->lat); i++) {
			if (!lat_vcpu_times(v->lat, i, &t) || t.vm >= nvm)
				continue;
			for (unsigned int s = 0; s < VS_STATES; s++)
				of[t.vm].sum[s] += t.time[s];
			of[t.vm].any |= t.last;
		}
		for (size_t vm = 0; vm < nvm; vm++) {
			for (unsigned int s = 0; s < VS_STATES && of[vm].any; s++) {
				if (lat_lacks(v->lat, "vcpu", vs_names[s]))
					continue;
				metric_of_vm(b, "kvmft_vcpu_seconds", vm_at(v, 0), vm_at(v, vm), "state",
					     vs_names[s]);
				metric_seconds(b, lat_of_cycles(v, of[vm].sum[s]));
				sbuf_addc(b, '\n');
			}
		}
		free(of);
	}
	metric_head(b, "kvmft_alignment_ok", "gauge",
		    "1: all events of the guest lie between an entry and an exit of their vCPU.");
	for (size_t vm = 0; vm < nvm; vm++) {
		if (!v->bound || !v->bound[vm].guest)
			continue;
		metric_of_vm(b, "kvmft_alignment_ok", vm_at(v, 0), vm_at(v, vm), NULL, NULL);
		sbuf_add(b, v->bound[vm].known ? "1\n" : "0\n");
	}
	metric_head(b, "kvmft_latency_vms_left_out", "gauge", "VMs left out, as there are too "
		"many for labels.");
	sbuf_addf(b, "kvmft_latency_vms_left_out %zu\n# EOF\n", all - nvm);
}

/* The first is the default. */
static const struct lat_format lat_formats[] = {
	{ .name = "text", .print = lat_text_print },
	{ .name = "json", .print = lat_json },
	{ .name = "csv", .print = lat_csv },
	{ .name = "html", .print = lat_json, .page = true },
	{ .name = "openmetrics", .print = metrics_print },
};

const char *lat_format_name(size_t i)
{
	return i < ARRAY_SIZE(lat_formats) ? lat_formats[i].name : NULL;
}

const struct lat_format *lat_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(lat_formats); i++)
		if (!strcmp(lat_formats[i].name, name))
			return &lat_formats[i];
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
		sbuf_addf(b, "%s%s %llu", sep, lat_word_text(t->desc->count[c]),
			  (unsigned long long)t->count[c]);
		sep = "; ";
	}
}

char *lat_amount(const struct lat_view *v, char *buf, size_t size, uint64_t time)
{
	if (!lat_in_cycles(v->lat))
		return str_ns_grain(buf, size, time, v->clock->map->cap->grain);
	snprintf(buf, size, "%" PRIu64 " cycles", time);
	return buf;
}

uint64_t lat_of_cycles(const struct lat_view *v, uint64_t cycles)
{
	return lat_in_cycles(v->lat) ? cycles : tsc_cycles_to_ns(cycles, v->clock->khz);
}
