/* SPDX-License-Identifier: GPL-2.0-or-later */
/* verify.c: the result of `kvmft verify`, for people, for programs and for tables. */
#include "kvmft/pairing.h"
#include "kvmft/output.h"
#include "kvmft/table.h"

#define TEXT_SLICES 8 /* rows of the table over time */

/* ---- text ---- */

/* A signed number of cycles as us with three decimals, or as cycles. */
static const char *verify_amount(char *buf, size_t size, bool has, int64_t cycles, uint64_t khz)
{
	uint64_t ns;

	if (!has) {
		snprintf(buf, size, "-");
	} else if (!khz) {
		snprintf(buf, size, "%+" PRId64, cycles);
	} else {
		ns = tsc_cycles_to_ns(clock_size(cycles), khz);
		snprintf(buf, size, "%c%" PRIu64 ".%03u", cycles < 0 ? '-' : '+', ns / 1000,
			 (unsigned int)(ns % 1000));
	}
	return buf;
}

/* A date is longer. */
static int name_width(const struct verify *v)
{
	return v->clock ? 26 : 20;
}

static void text_row(const struct verify *v, const char *name, const struct win_stats *s,
		     struct sbuf *b)
{
	char early[32], late[32];

	sbuf_addf(b, "  %-*s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %12s %12s\n",
		  name_width(v), name, s->inside, s->outside, s->unchecked,
		  verify_amount(early, sizeof(early), s->has_early, -s->early, v->khz),
		  verify_amount(late, sizeof(late), s->has_late, s->late, v->khz));
}

/* Figures of slices [i, i + n) of all vCPUs of the VM. */
static void slices_sum(const struct verify *v, size_t vm, size_t i, size_t n, struct win_stats *s)
{
	*s = (struct win_stats){ 0 };
	win_each_vcpu(v->w, vm, c)
		for (size_t m = i; m < i + n; m++)
			win_stats_add(s, &c->slice[m]);
}

/* What there are figures of: a row each. */
enum part { PART_ALL, PART_HOST, PART_VCPU, PART_SLICE, PART_PAIRS, PARTS };

struct line {
	size_t i;
	const struct win_vcpu *c;
	const struct msr_pair_stats *pairs;
	struct win_stats s;
	uint64_t host; /* TSC at which a slice begins */
	const char *name;
	char number[32];
};

/* The next one of that part; l is all 0 before the first. Hosts, if there are several. */
static bool verify_next_line(const struct verify *v, const struct verify_guest *g, enum part part,
			     struct line *l)
{
	const size_t vm = g->g->vm,
		     ends[PARTS] = { 1, win_hosts(v->w), 0, WIN_SLICES, MSR_PAIR_KINDS };
	uint64_t from, width;

	l->name = l->number;
	if (part == PART_VCPU) {
		do /* one with guest events */
			l->c = win_next(v->w, vm, l->c);
		while (l->c && !l->c->s.checked && !l->c->s.unchecked);
		if (!l->c)
			return false;
		l->s = l->c->s;
		snprintf(l->number, sizeof(l->number), "%" PRIu32, l->c->vcpu);
		return true;
	}
	win_slices(v->w, &from, &width);
	while (l->i < ends[part] && (part != PART_HOST || win_hosts(v->w) > 1)) {
		size_t i = l->i++;

		if (part == PART_ALL)
			l->s = g->a.total;
		if (part == PART_HOST) {
			win_host_total(v->w, vm, i, &l->s);
			for (size_t k = 0, n = i; k < tl_sources(v->p->t); k++)
				if (!tl_source(v->p->t, k)->guest && !n--)
					l->name = tl_source(v->p->t, k)->label;
		} else if (part == PART_SLICE) {
			slices_sum(v, vm, i, 1, &l->s);
			l->host = from + i * width;
			snprintf(l->number, sizeof(l->number), "%" PRIu64, l->host);
			if (!l->s.checked && !l->s.unchecked)
				continue;
		} else if (part == PART_PAIRS) {
			l->pairs = msr_pairs_get(v->pairs, vm, (enum msr_pair)i);
			l->name = msr_pair_names[i];
			if (!l->pairs)
				continue;
		}
		return true;
	}
	return false;
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
		uint64_t host, d;

		slices_sum(v, g->g->vm, i, step, &s);
		if (!s.checked && !s.unchecked)
			continue;
		/* Distance from the host's first event, in ms. */
		host = from + i * width;
		d = host < v->host_first ? v->host_first - host : host - v->host_first;
		ms = v->khz ? tsc_cycles_to_ns(d, v->khz) / 1000000 : 0;
		if (v->clock) {
			_cleanup_(sbuf_free) struct sbuf t = { 0 };

			if (!out_clock_put(v->clock, host, -1, 6, &t))
				sbuf_add(&t, "?");
			snprintf(name, sizeof(name), "%s", t.s ?: "");
		} else if (v->khz)
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

static void verify_text(const struct verify *v, struct sbuf *b)
{
	for (size_t i = 0; i < v->p->nguest; i++) {
		const struct verify_guest *g = &v->guest[i];
		static const char *const names[] = { "all", "on %.20s", "vCPU %s" };
		char name[48];
		uint64_t host = 0, guest = 0;
		bool lacks, any;
		const char *arch;
		size_t from;

		text_verdict(v, g, b);
		sbuf_addf(b, "  %-*s %9s %9s %9s %12s %12s\n", name_width(v), "", "inside", "outside",
			  "unchecked", v->khz ? "earliest us" : "earliest cyc",
			  v->khz ? "latest us" : "latest cyc");
		for (enum part p = PART_ALL; p <= PART_VCPU; p++) {
			struct line l = { 0 };

			while (verify_next_line(v, g, p, &l)) {
				snprintf(name, sizeof(name), names[p], l.name);
				text_row(v, name, &l.s, b);
			}
		}
		if (g->a.total.checked)
			text_slices(v, g, b);
		/* Has a side no such access? A trace.dat has formats of others, too. */
		for (enum msr_pair k = 0; k < MSR_PAIR_KINDS; k++) {
			const struct msr_pair_stats *s = msr_pairs_get(v->pairs, g->g->vm, k);

			host += s ? s->n + s->alone_host : 0;
			guest += s ? s->n + s->alone_guest : 0;
		}
		lacks = host || guest ? !host || !guest : !msr_pairs_possible(v->pairs, g->g->vm);
		arch = v->p->host.cap->arch;
		from = b->len;
		any = false;
		for (int k = 0; k < MSR_PAIR_KINDS; k++) {
			const struct msr_pair_stats *s =
				msr_pairs_get(v->pairs, g->g->vm, (enum msr_pair)k);
			char min[32], med[32], max[32];

			if (!s || lacks)
				continue;
			if (!any)
				sbuf_addf(b, "  %-14s %9s %9s %9s %10s %10s %10s\n",
					  "host to guest", "pairs", "reversed", "unpaired",
					  v->khz ? "min us" : "min cycles",
					  v->khz ? "median us" : "median",
					  v->khz ? "max us" : "max");
			any = true;
			sbuf_addf(b,
				  "  %-14s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %10s %10s %10s\n",
				  msr_pair_names[k], s->n, s->violations,
				  s->alone_host + s->alone_guest,
				  verify_amount(min, sizeof(min), s->n, s->min, v->khz),
				  verify_amount(med, sizeof(med), s->late.n,
						(int64_t)loghist_percentile(&s->late, 50, 100),
						v->khz),
				  verify_amount(max, sizeof(max), s->n, s->max, v->khz));
		}
		/* Others than x86 have no MSRs. */
		if (lacks && (!arch || strstr(arch, "86")))
			sbuf_add(
				b,
				"  no pairs by value: record kvm:kvm_msr on the host and msr:* in the "
				"guest for them\n");
		text_wrap(b, from, "    ", v->width);
	}
}

/* ---- JSON and CSV ---- */

/* KEY_cycles, and KEY_ns, which is known if the TSC's rate is. */
static void put_cycles(struct row *o, const char *key, bool has, int64_t cycles, uint64_t khz)
{
	row_s64(o, TEXTF("%s_cycles", key), has, cycles);
	row_s64(o, TEXTF("%s_ns", key), has && khz, tsc_span_ns(cycles, khz));
}

static void stats_cells(struct row *o, const struct verify *v, bool known,
			const struct win_stats *s)
{
	bool json = o->form == ROW_JSON;

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
static void pairs_cells(struct row *o, const struct verify *v, const struct msr_pair_stats *s)
{
	row_u64(o, "pairs", s, s ? s->n : 0);
	row_u64(o, "reversed", s, s ? s->violations : 0);
	if (o->form == ROW_JSON) {
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

static const char *verify_vm_label(const struct verify *v, const struct verify_guest *g)
{
	return v->p->map->vm[v->p->map->vm[g->g->vm].of].label;
}

/* CSV has one header for windows and pairs; fields that a line lacks are empty. g: NULL in it. */
static void csv_cells(struct row *o, const struct verify *v, const struct verify_guest *g,
		      enum part part, const struct line *l)
{
	static const char *const names[PARTS] = { "all", "host", "vcpu", "slice", "pairs" };

	row_str(o, "vm", g ? verify_vm_label(v, g) : NULL);
	row_str(o, "capture", g ? g->src->cap->path : NULL);
	row_str(o, "verdict", g ? align_names[g->verdict] : NULL);
	row_str(o, "part", names[part]);
	row_str(o, "name", l->name);
	stats_cells(o, v, part != PART_PAIRS, &l->s);
	pairs_cells(o, v, l->pairs);
	row_end(o);
}

/* ---- JSON ---- */

static void json_lines(struct json *j, const struct verify *v, const struct verify_guest *g,
		       enum part part)
{
	static const char *const keys[PARTS] = { NULL, "hosts", "vcpus", "slices", "pairs" };
	struct line l = { 0 };
	struct row o;

	if (part == PART_HOST && win_hosts(v->w) < 2)
		return;
	json_put_array(j, keys[part]);
	while (verify_next_line(v, g, part, &l)) {
		row_json(&o, j, false);
		switch (part) {
		case PART_HOST: row_str(&o, "host", l.name); break;
		case PART_VCPU:
			row_u64(&o, "vcpu", true, l.c->vcpu);
			row_u64(&o, "windows", true, l.c->windows);
			break;
		case PART_SLICE: row_u64(&o, "host_tsc", true, l.host); break;
		default: row_str(&o, "kind", l.name); break;
		}
		if (part == PART_PAIRS)
			pairs_cells(&o, v, l.pairs);
		else
			stats_cells(&o, v, true, &l.s);
		if (part == PART_VCPU && l.s.outside) {
			row_u64(&o, "outside_from_host_tsc", true, l.c->first_out);
			row_u64(&o, "outside_to_host_tsc", true, l.c->last_out);
		}
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

static void verify_json(const struct verify *v, struct sbuf *b)
{
	struct json j;

	json_line_begin(&j, b);
	json_put_bool(&j, "complete", v->complete);
	out_json_rate(&j, v->p->host.cap);
	json_put_array(&j, "guests");
	for (size_t i = 0; i < v->p->nguest; i++) {
		const struct verify_guest *g = &v->guest[i];
		const struct solution *sol = verify_solution(g);
		struct row o;

		row_json(&o, &j, false);
		json_put_str(&j, "vm", verify_vm_label(v, g));
		json_put_str(&j, "capture", g->src->cap->path);
		json_put_str(&j, "verdict", align_names[g->verdict]);
		json_put_array(&j, "reasons");
		for (const char *line = NULL; (line = verify_reason(g, line));)
			json_str(&j, line);
		json_array_end(&j);
		json_put_u64(&j, "events", g->src->events);
		json_put_u64(&j, "unplaced", g->src->unplaced);
		json_put_u64(&j, "windows", g->a.windows);
		json_put_u64(&j, "outside_recording", g->a.total.apart);
		json_put_u64(&j, "checked_pct", g->a.share);
		stats_cells(&o, v, true, &g->a.total);
		json_key(&j, "solution");
		if (sol->r.found) {
			json_object_begin(&j);
			json_offset(&j, &sol->r);
			json_put_array(&j, "vcpus");
			for (size_t k = 0; k < sol->n_own; k++) {
				json_object_begin(&j);
				json_put_u64(&j, "vcpu", sol->own[k].id);
				json_offset(&j, &sol->own[k].r);
				json_object_end(&j);
			}
			json_array_end(&j);
			json_object_end(&j);
		} else {
			json_null(&j);
		}
		json_lines(&j, v, g, PART_HOST);
		json_lines(&j, v, g, PART_VCPU);
		json_lines(&j, v, g, PART_SLICE);
		json_key(&j, "drift_ppb");
		if (g->a.has_drift) {
			json_array_begin(&j);
			json_s64(&j, -g->a.drift_hi);
			json_s64(&j, -g->a.drift_lo);
			json_array_end(&j);
		} else {
			json_null(&j);
		}
		json_lines(&j, v, g, PART_PAIRS);
		row_end(&o);
	}
	json_array_end(&j);
	json_line_end(&j);
}

void verify_print(const struct verify *v, const char *format, struct sbuf *b)
{
	struct row o = { .form = ROW_CSV, .b = b, .head = true };

	if (strcmp(format, "csv")) {
		(strcmp(format, "json") ? verify_text : verify_json)(v, b);
		return;
	}
	csv_cells(&o, v, NULL, PART_ALL, &(struct line){ 0 });
	o.head = false;
	for (size_t i = 0; i < v->p->nguest; i++)
		for (enum part p = 0; p < PARTS; p++) {
			struct line l = { 0 };

			while (verify_next_line(v, &v->guest[i], p, &l))
				csv_cells(&o, v, &v->guest[i], p, &l);
		}
}
