/* SPDX-License-Identifier: GPL-2.0-or-later */
/* verify.c: the result of `kvmft verify`, for people, for programs and for tables. */
#include "kvmft/verify.h"
#include "kvmft/columns.h"
#include "kvmft/screen.h"
#include "kvmft/output.h"

#include <inttypes.h>

#include "kvmft/table.h"

#define TEXT_SLICES 8 /* rows of the table over time */

/* ---- text ---- */

/* A signed number of cycles as us with three decimals, or as cycles. */
static const char *amount(char *buf, size_t size, bool has, int64_t cycles, uint64_t khz)
{
	uint64_t abs = cycles < 0 ? 0 - (uint64_t)cycles : (uint64_t)cycles, ns;

	if (!has) {
		snprintf(buf, size, "-");
	} else if (!khz) {
		snprintf(buf, size, "%+" PRId64, cycles);
	} else {
		ns = tsc_cycles_to_ns(abs, khz);
		snprintf(buf, size, "%c%" PRIu64 ".%03u", cycles < 0 ? '-' : '+', ns / 1000,
			 (unsigned int)(ns % 1000));
	}
	return buf;
}

static void text_row(const struct verify *v, const char *name, const struct win_stats *s,
		     struct sbuf *b)
{
	char early[32], late[32];

	sbuf_addf(b, "  %-20s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %12s %12s\n", name, s->inside,
		  s->outside, s->unchecked,
		  amount(early, sizeof(early), s->has_early, -s->early, v->khz),
		  amount(late, sizeof(late), s->has_late, s->late, v->khz));
}

/*
 * The vCPUs of the VM that have guest events, by id: the one after `after`; NULL: the first, and
 * after the last.
 */
static const struct win_vcpu *next_vcpu(const struct verify *v, size_t vm,
					const struct win_vcpu *after)
{
	const struct win_vcpu *best = NULL;

	for (size_t k = 0; k < win_count(v->w); k++) {
		const struct win_vcpu *c = win_vcpu(v->w, k);

		if (c->vm == vm && (c->s.checked || c->s.unchecked) &&
		    (!after || c->vcpu > after->vcpu) && (!best || c->vcpu < best->vcpu))
			best = c;
	}
	return best;
}

/* Name of the i-th host. */
static const char *host_name(const struct verify *v, size_t i)
{
	for (size_t k = 0; k < tl_sources(v->p.t); k++)
		if (!tl_source(v->p.t, k)->guest && !i--)
			return tl_source(v->p.t, k)->label;
	return "";
}

/* The parts of the hosts that the VM ran on, if there are several. */
static void text_hosts(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	struct win_stats s;
	char name[32];

	for (size_t i = 0; i < win_hosts(v->w) && win_hosts(v->w) > 1; i++) {
		win_host_total(v->w, g->g->vm, i, &s);
		snprintf(name, sizeof(name), "on %.20s", host_name(v, i));
		text_row(v, name, &s, b);
	}
}

static void text_vcpus(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	char name[32];

	sbuf_addf(b, "  %-20s %9s %9s %9s %12s %12s\n", "", "inside", "outside", "unchecked",
		  v->khz ? "earliest us" : "earliest cyc", v->khz ? "latest us" : "latest cyc");
	text_row(v, "all", &g->a.total, b);
	text_hosts(v, g, b);
	for (const struct win_vcpu *c = NULL; (c = next_vcpu(v, g->g->vm, c));) {
		snprintf(name, sizeof(name), "vCPU %" PRIu32, c->vcpu);
		text_row(v, name, &c->s, b);
	}
}

/* Figures of slices [i, i + n) of all vCPUs of the VM. */
static void slices_sum(const struct verify *v, size_t vm, size_t i, size_t n, struct win_stats *s)
{
	*s = (struct win_stats){ 0 };
	for (size_t k = 0; k < win_count(v->w); k++)
		for (size_t m = i; win_vcpu(v->w, k)->vm == vm && m < i + n; m++)
			win_stats_add(s, &win_vcpu(v->w, k)->slice[m]);
}

/* Distance from the host's first event, in ms. */
static uint64_t slice_ms(const struct verify *v, uint64_t host)
{
	uint64_t d = host < v->host_first ? v->host_first - host : host - v->host_first;

	return v->khz ? tsc_cycles_to_ns(d, v->khz) / 1000000 : 0;
}

static void text_slices(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const size_t step = WIN_SLICES / TEXT_SLICES;
	uint64_t from, width, ms;
	struct win_stats s;
	char name[48];
	size_t drift;

	win_slices(v->w, &from, &width);
	for (size_t i = 0; i < WIN_SLICES; i += step) {
		slices_sum(v, g->g->vm, i, step, &s);
		if (!s.checked && !s.unchecked)
			continue;
		ms = slice_ms(v, from + i * width);
		if (v->khz)
			snprintf(name, sizeof(name), "from %s%" PRIu64 ".%03" PRIu64 " s",
				 from + i * width < v->host_first ? "-" : "", ms / 1000, ms % 1000);
		else
			snprintf(name, sizeof(name), "%" PRIu64, from + i * width);
		text_row(v, name, &s, b);
	}
	drift = b->len;
	if (g->a.has_drift)
		sbuf_addf(b,
			  "  drift of the guest's clock against the host's: between %+" PRId64
			  " and %+" PRId64 " parts per 10^9%s\n",
			  -g->a.drift_hi, -g->a.drift_lo,
			  g->a.drift_hi < g->a.drift_lo ? ": no steady rate" : "");
	text_wrap(b, drift, "    ", v->width);
}

/* Whether a side has no such access at all: a trace.dat has formats of events not recorded, too. */
static bool lacks_pairs(const struct verify *v, size_t vm)
{
	uint64_t host = 0, guest = 0;

	for (int k = 0; k < MSR_PAIR_KINDS; k++) {
		const struct msr_pair_stats *s = msr_pairs_get(v->pairs, vm, (enum msr_pair)k);

		host += s ? s->n + s->alone_host : 0;
		guest += s ? s->n + s->alone_guest : 0;
	}
	return host || guest ? !host || !guest : !msr_pairs_possible(v->pairs, vm);
}

static void text_pairs(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	const bool lacks = lacks_pairs(v, g->g->vm);
	const char *arch = v->p.host.cap->arch;
	size_t from = b->len;
	bool any = false;

	for (int k = 0; k < MSR_PAIR_KINDS; k++) {
		const struct msr_pair_stats *s =
			msr_pairs_get(v->pairs, g->g->vm, (enum msr_pair)k);
		char min[32], med[32], max[32];

		if (!s || lacks)
			continue;
		if (!any)
			sbuf_addf(b, "  %-14s %9s %9s %9s %10s %10s %10s\n", "host to guest",
				  "pairs", "reversed", "unpaired", v->khz ? "min us" : "min cycles",
				  v->khz ? "median us" : "median", v->khz ? "max us" : "max");
		any = true;
		sbuf_addf(b, "  %-14s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %10s %10s %10s\n",
			  msr_pair_names[k], s->n, s->violations, s->alone_host + s->alone_guest,
			  amount(min, sizeof(min), s->n, s->min, v->khz),
			  amount(med, sizeof(med), s->late.n,
				 (int64_t)loghist_percentile(&s->late, 50, 100), v->khz),
			  amount(max, sizeof(max), s->n, s->max, v->khz));
	}
	/* Others than x86 have no MSRs. */
	if (lacks && (!arch || strstr(arch, "86")))
		sbuf_add(b, "  no pairs by value: record kvm:kvm_msr on the host and msr:* in the "
			    "guest for them\n");
	text_wrap(b, from, "    ", v->width);
}

static void text_verdict(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	static const char *const sgr[] = {
		[ALIGN_OK] = "32",
		[ALIGN_BAD] = "1;31",
		[ALIGN_UNKNOWN] = "33",
	};
	const char *line = verify_reason(g, NULL);
	size_t from = b->len, second;

	sbuf_addf(b, "%s: %s\n", g->src->label, line ?: "");
	text_wrap(b, from, "    ", v->width);
	second = b->len;
	while ((line = verify_reason(g, line)))
		sbuf_addf(b, "  %s\n", line);
	text_wrap(b, second, "    ", v->width);
	if (v->color && !b->error)
		screen_paint(b, from, second - 1, sgr[g->verdict]);
}

void verify_text(const struct verify *v, struct sbuf *b)
{
	for (size_t i = 0; i < v->p.nguest; i++) {
		const struct verify_guest *g = &v->guest[i];

		text_verdict(v, g, b);
		text_vcpus(v, g, b);
		if (g->a.total.checked)
			text_slices(v, g, b);
		text_pairs(v, g, b);
	}
}

/* ---- JSON and CSV ---- */

/* khz is not 0. */
static int64_t signed_ns(int64_t cycles, uint64_t khz)
{
	uint64_t abs = cycles < 0 ? 0 - (uint64_t)cycles : (uint64_t)cycles;
	int64_t ns = (int64_t)tsc_cycles_to_ns(abs, khz);

	return cycles < 0 ? -ns : ns;
}

/* KEY_cycles, and KEY_ns, which is known if the TSC's rate is. */
static void put_cycles(struct row *o, const char *key, bool has, int64_t cycles, uint64_t khz)
{
	char name[48];

	snprintf(name, sizeof(name), "%s_cycles", key);
	row_s64(o, name, has, cycles);
	snprintf(name, sizeof(name), "%s_ns", key);
	row_s64(o, name, has && khz, khz ? signed_ns(cycles, khz) : 0);
}

/* s: NULL in CSV's lines of pairs. */
static void put_stats(struct row *o, const struct verify *v, const struct win_stats *s)
{
	const struct win_stats none = { 0 };
	bool known = s, json = o->form == ROW_JSON;

	s = s ?: &none;
	if (json)
		row_u64(o, "checked", true, s->checked);
	row_u64(o, "inside", known, s->inside);
	row_u64(o, "outside", known, s->outside);
	row_u64(o, "unchecked", known, s->unchecked);
	put_cycles(o, "earliest", s->has_early, -s->early, v->khz);
	put_cycles(o, "latest", s->has_late, s->late, v->khz);
	if (json)
		put_cycles(o, "outside_max", s->outside, s->outside_max, v->khz);
}

/* s: NULL in CSV's other lines. */
static void put_pairs(struct row *o, const struct verify *v, const struct msr_pair_stats *s)
{
	bool json = o->form == ROW_JSON;

	row_u64(o, "pairs", s, s ? s->n : 0);
	row_u64(o, "reversed", s, s ? s->violations : 0);
	if (json) {
		row_u64(o, "host_only", true, s->alone_host);
		row_u64(o, "guest_only", true, s->alone_guest);
	} else {
		row_u64(o, "unpaired", s, s ? s->alone_host + s->alone_guest : 0);
	}
	put_cycles(o, "min", s && s->n, s ? s->min : 0, v->khz);
	put_cycles(o, "median", s && s->late.n,
		   s ? (int64_t)loghist_percentile(&s->late, 50, 100) : 0, v->khz);
	put_cycles(o, "max", s && s->n, s ? s->max : 0, v->khz);
}

/* ---- JSON ---- */

static void json_vcpus(struct json *j, const struct verify *v, size_t vm)
{
	struct row o;

	json_put_array(j, "vcpus");
	for (const struct win_vcpu *c = NULL; (c = next_vcpu(v, vm, c));) {
		row_json(&o, j, false);
		row_u64(&o, "vcpu", true, c->vcpu);
		row_u64(&o, "windows", true, c->windows);
		put_stats(&o, v, &c->s);
		if (c->s.outside) {
			row_u64(&o, "outside_from_host_tsc", true, c->first_out);
			row_u64(&o, "outside_to_host_tsc", true, c->last_out);
		}
		row_end(&o);
	}
	json_array_end(j);
}

static void json_hosts(struct json *j, const struct verify *v, size_t vm)
{
	struct win_stats s;
	struct row o;

	if (win_hosts(v->w) < 2)
		return;
	json_put_array(j, "hosts");
	for (size_t i = 0; i < win_hosts(v->w); i++) {
		win_host_total(v->w, vm, i, &s);
		row_json(&o, j, false);
		row_str(&o, "host", host_name(v, i));
		put_stats(&o, v, &s);
		row_end(&o);
	}
	json_array_end(j);
}

static void json_slices(struct json *j, const struct verify *v, const struct verify_guest *g)
{
	uint64_t from, width;
	struct win_stats s;
	struct row o;

	win_slices(v->w, &from, &width);
	json_put_array(j, "slices");
	for (size_t i = 0; i < WIN_SLICES; i++) {
		slices_sum(v, g->g->vm, i, 1, &s);
		if (!s.checked && !s.unchecked)
			continue;
		row_json(&o, j, false);
		row_u64(&o, "host_tsc", true, from + i * width);
		put_stats(&o, v, &s);
		row_end(&o);
	}
	json_array_end(j);
	json_key(j, "drift_ppb");
	if (g->a.has_drift) {
		json_array_begin(j);
		json_s64(j, -g->a.drift_hi);
		json_s64(j, -g->a.drift_lo);
		json_array_end(j);
	} else {
		json_null(j);
	}
}

static void json_pairs(struct json *j, const struct verify *v, size_t vm)
{
	struct row o;

	json_put_array(j, "pairs");
	for (int k = 0; k < MSR_PAIR_KINDS; k++) {
		const struct msr_pair_stats *s = msr_pairs_get(v->pairs, vm, (enum msr_pair)k);

		if (!s)
			continue;
		row_json(&o, j, false);
		row_str(&o, "kind", msr_pair_names[k]);
		put_pairs(&o, v, s);
		row_end(&o);
	}
	json_array_end(j);
}

static void json_offset(struct json *j, const struct solve_result *r)
{
	json_put_s64(j, "tsc_offset", (int64_t)r->offset);
	json_put_s64(j, "tsc_offset_min", (int64_t)r->offset_lo);
	json_put_s64(j, "tsc_offset_max", (int64_t)r->offset_hi);
	json_put_u64(j, "events", r->events);
	json_put_u64(j, "inside", r->inside);
	json_put_u64(j, "outside", r->outside);
	json_put_u64(j, "searched_cycles", r->span);
	json_put_u64(j, "others_as_good", r->equal);
	json_put_known_u64(j, "next_best_outside", r->has_next, r->next_outside);
	json_put_u64(j, "pairs", r->pairs);
}

static void json_solution(struct json *j, const struct verify_guest *g)
{
	const struct solution *sol = verify_solution(g);

	json_key(j, "solution");
	if (!sol->r.found) {
		json_null(j);
		return;
	}
	json_object_begin(j);
	json_offset(j, &sol->r);
	json_put_array(j, "vcpus");
	for (size_t i = 0; i < sol->n_own; i++) {
		json_object_begin(j);
		json_put_u64(j, "vcpu", sol->own[i].id);
		json_offset(j, &sol->own[i].r);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void json_guest(struct json *j, const struct verify *v, const struct verify_guest *g)
{
	struct row o;

	row_json(&o, j, false);
	json_put_str(j, "vm", v->p.map->vm[v->p.map->vm[g->g->vm].of].label);
	json_put_str(j, "capture", g->src->cap->path);
	json_put_str(j, "verdict", align_names[g->verdict]);
	json_put_array(j, "reasons");
	for (const char *line = NULL; (line = verify_reason(g, line));)
		json_str(j, line);
	json_array_end(j);
	json_put_u64(j, "events", g->src->events);
	json_put_u64(j, "unplaced", g->src->unplaced);
	json_put_u64(j, "windows", g->a.windows);
	json_put_u64(j, "outside_recording", g->a.total.apart);
	json_put_u64(j, "checked_pct", g->a.share);
	put_stats(&o, v, &g->a.total);
	json_solution(j, g);
	json_hosts(j, v, g->g->vm);
	json_vcpus(j, v, g->g->vm);
	json_slices(j, v, g);
	json_pairs(j, v, g->g->vm);
	row_end(&o);
}

void verify_json(const struct verify *v, struct sbuf *b)
{
	struct json j;

	json_line_begin(&j, b);
	json_put_bool(&j, "complete", v->complete);
	out_json_rate(&j, v->p.host.cap);
	json_put_array(&j, "guests");
	for (size_t i = 0; i < v->p.nguest; i++)
		json_guest(&j, v, &v->guest[i]);
	json_array_end(&j);
	if (json_line_end(&j) && !b->error)
		b->error = -EINVAL;
}

/* ---- CSV: one header for windows and pairs; fields that a line lacks are empty ---- */

/* g: NULL in the header. */
static void csv_columns(struct row *o, const struct verify *v, const struct verify_guest *g,
			const char *part, const char *name, const struct win_stats *s,
			const struct msr_pair_stats *pairs)
{
	row_str(o, "vm", g ? v->p.map->vm[v->p.map->vm[g->g->vm].of].label : NULL);
	row_str(o, "capture", g ? g->src->cap->path : NULL);
	row_str(o, "verdict", g ? align_names[g->verdict] : NULL);
	row_str(o, "part", part);
	row_str(o, "name", name);
	put_stats(o, v, s);
	put_pairs(o, v, pairs);
	row_end(o);
}

static void csv_stats(const struct verify *v, const struct verify_guest *g, const char *part,
		      const char *name, const struct win_stats *s, struct sbuf *b)
{
	struct row o;

	row_csv(&o, b, false);
	csv_columns(&o, v, g, part, name, s, NULL);
}

static void csv_slices(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	uint64_t from, width;
	struct win_stats s;
	char name[32];

	win_slices(v->w, &from, &width);
	for (size_t i = 0; i < WIN_SLICES; i++) {
		slices_sum(v, g->g->vm, i, 1, &s);
		snprintf(name, sizeof(name), "%" PRIu64, from + i * width);
		if (s.checked || s.unchecked)
			csv_stats(v, g, "slice", name, &s, b);
	}
}

static void csv_guest(const struct verify *v, const struct verify_guest *g, struct sbuf *b)
{
	struct win_stats s;
	struct row o;
	char name[32];

	csv_stats(v, g, "all", "", &g->a.total, b);
	for (size_t i = 0; i < win_hosts(v->w) && win_hosts(v->w) > 1; i++) {
		win_host_total(v->w, g->g->vm, i, &s);
		csv_stats(v, g, "host", host_name(v, i), &s, b);
	}
	for (const struct win_vcpu *c = NULL; (c = next_vcpu(v, g->g->vm, c));) {
		snprintf(name, sizeof(name), "%" PRIu32, c->vcpu);
		csv_stats(v, g, "vcpu", name, &c->s, b);
	}
	csv_slices(v, g, b);
	for (int k = 0; k < MSR_PAIR_KINDS; k++) {
		const struct msr_pair_stats *pairs =
			msr_pairs_get(v->pairs, g->g->vm, (enum msr_pair)k);

		row_csv(&o, b, false);
		if (pairs)
			csv_columns(&o, v, g, "pairs", msr_pair_names[k], NULL, pairs);
	}
}

void verify_csv(const struct verify *v, struct sbuf *b)
{
	struct row o;

	row_head(&o, b, false);
	csv_columns(&o, v, NULL, NULL, NULL, NULL, NULL);
	for (size_t i = 0; i < v->p.nguest; i++)
		csv_guest(v, &v->guest[i], b);
}
