/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blame_out.c: spikes and their causes: as text, a block for each or a line per group; as one JSON
 * document; as CSV with a line per part, or group.
 */
#include "kvmft/columns.h"
#include "kvmft/evidence.h"
#include "kvmft/ksyms.h"
#include "kvmft/blame_output.h"
#include "kvmft/row.h"
#include "lat_text.h"

#include <inttypes.h>
#include <time.h>

const char *const blame_bys[] = { "length", "time", "cause", "task", "vcpu", NULL };

static uint64_t khz(const struct blame_view *v)
{
	return tl_source(v->t, 0)->cap->tsc_khz;
}

/* ns, or cycles as they are. */
static uint64_t span(const struct blame_view *v, uint64_t cycles)
{
	return khz(v) ? tsc_cycles_to_ns(cycles, khz(v)) : cycles;
}

static char *amount(const struct blame_view *v, char *buf, size_t size, uint64_t cycles)
{
	if (khz(v))
		return str_ns(buf, size, span(v, cycles));
	snprintf(buf, size, "%" PRIu64 " cycles", cycles);
	return buf;
}

static const char *vm_label(const struct blame_view *v, const struct blame_spike *s)
{
	return s->vm < 0 ? "host" : tl_hostmap(v->t)->vm[s->vm].label;
}

static unsigned int percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned int)((unsigned __int128)part * 100 / whole) : 0;
}

static void put_when(struct sbuf *b, const struct blame_view *v, const struct blame_spike *s)
{
	char date[32];
	struct tm tm;
	uint64_t at;
	time_t sec;

	if (!out_clock_value(v->clock, s->begin, s->vcpu, &at)) {
		sbuf_add(b, "?");
		return;
	}
	sec = (time_t)(at / 1000000000);
	if (v->clock->kind == OUT_CLOCK_REALTIME && localtime_r(&sec, &tm) &&
	    strftime(date, sizeof(date), "%F %T", &tm))
		sbuf_addf(b, "%s.%09" PRIu64, date, at % 1000000000);
	else if (!strcmp(out_clock_unit(v->clock), "ns"))
		sbuf_addf(b, "%" PRIu64 ".%09" PRIu64, at / 1000000000, at % 1000000000);
	else
		sbuf_add_u64(b, at);
}

/* ---- order ---- */

static uint64_t length(const struct blame_spike *s)
{
	return s->end - s->begin;
}

COMPARE_BY(by_begin, struct blame_spike *, ->begin);

/* In the requested order; to be freed. */
static const struct blame_spike **ordered(const struct blame_view *v)
{
	size_t n = blame_spikes(v->blame);
	const struct blame_spike **s = calloc(n + 1, sizeof(*s));

	for (size_t i = 0; s && i < n; i++)
		s[i] = blame_spike(v->blame, i);
	if (s && n && v->by == BLAME_BY_TIME)
		qsort(s, n, sizeof(*s), by_begin);
	return s;
}

/* ---- text ---- */

/* What else was late then, and counts as the same. */
static void put_also(struct sbuf *b, const struct blame_spike *s)
{
	const char *sep = " (also: ";

	for (unsigned int w = 0; w < BLAME_WHATS; w++) {
		if (!s->also[w])
			continue;
		sbuf_addf(b, "%s%" PRIu32 " %s", sep, s->also[w], blame_whats[w].name);
		sep = ", ";
	}
	if (sep[0] == ',')
		sbuf_add(b, ")");
}

static void put_parts(struct sbuf *b, const struct blame_view *v, const struct blame_spike *s)
{
	const int width = khz(v) ? 12 : 20;
	uint64_t rest = 0, n = 0;
	char text[32];

	for (size_t i = 0; i < s->nparts; i++) {
		const struct blame_part *p = &s->part[i];

		if (i >= 3 && p->time * 50 < length(s) && s->nparts > 4) {
			rest += p->time;
			n++;
			continue;
		}
		sbuf_addf(b, "   %*s %3u %%  %s%s%s\n", width,
			  amount(v, text, sizeof(text), p->time), percent(p->time, length(s)),
			  blame_causes[p->cause].name, p->name[0] ? ": " : "", p->name);
	}
	if (n)
		sbuf_addf(b, "   %*s %3u %%  %" PRIu64 " other%s\n", width,
			  amount(v, text, sizeof(text), rest), percent(rest, length(s)), n,
			  n > 1 ? "s" : "");
}

static const struct ksyms *symbols(const struct blame_view *v, const struct blame_spike *s)
{
	return s->vm < 0 || !s->has_rip ? NULL : tl_hostmap(v->t)->vm[s->vm].syms;
}

static void put_where(struct sbuf *b, const struct blame_view *v, const struct blame_spike *s)
{
	if (!symbols(v, s))
		return;
	sbuf_add(b, "   its guest was at ");
	ksyms_place(symbols(v, s), s->rip, b);
	sbuf_addc(b, '\n');
}

/* The length of s->of without a vCPU at its end, which is told with the name of its VM. */
static int without_vcpu(const struct blame_spike *s)
{
	size_t n = strlen(s->of);
	char tail[32];
	int len = snprintf(tail, sizeof(tail), "vCPU %lld", (long long)s->vcpu);

	if (n < (size_t)len || strcmp(s->of + n - len, tail))
		return (int)n;
	n -= (size_t)len;
	if (n >= 4 && (!memcmp(s->of + n - 4, " on ", 4) || !memcmp(s->of + n - 4, " of ", 4) ||
		       !memcmp(s->of + n - 4, " to ", 4)))
		n -= 4;
	return (int)n;
}

static void put_spike(struct sbuf *b, const struct blame_view *v, size_t nth,
		      const struct blame_spike *s)
{
	const char *what = blame_whats[s->what].name;
	const int of = without_vcpu(s);
	size_t from = b->len;
	char text[32];

	sbuf_addf(b, "%zu. %s ", nth, amount(v, text, sizeof(text), length(s)));
	if (strncmp(s->of, what, strlen(what)))
		sbuf_addf(b, " %s", what);
	if (of)
		sbuf_addf(b, " %.*s", of, s->of);
	sbuf_addf(b, ", %s vCPU %lld, at ", vm_label(v, s), (long long)s->vcpu);
	put_when(b, v, s);
	put_also(b, s);
	sbuf_addc(b, '\n');
	text_wrap(b, from, "   ", v->width);
	from = b->len;
	sbuf_addf(b, "   %s: %s, %u %%%s\n", blame_causes[s->cause].name,
		  blame_causes[s->cause].help, percent(s->cause_time, length(s)),
		  s->sure || s->cause <= CAUSE_LOST ? "" : " (not sure)");
	text_wrap(b, from, "   ", v->width);
	put_where(b, v, s);
	put_parts(b, v, s);
}

/* ---- groups ---- */

struct group {
	char name[BLAME_NAME * 2];
	uint64_t n, sum, longest;
};

static void group_name(const struct blame_view *v, const struct blame_spike *s, struct group *g)
{
	switch (v->by) {
	case BLAME_BY_TASK:
		snprintf(g->name, sizeof(g->name), "%s", s->tid ? s->of : "(of no task)");
		break;
	case BLAME_BY_VCPU:
		snprintf(g->name, sizeof(g->name), "%.64s vCPU %lld", vm_label(v, s),
			 (long long)s->vcpu);
		break;
	default: snprintf(g->name, sizeof(g->name), "%s", blame_causes[s->cause].name);
	}
}

static int by_sum(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return ORDER(y->sum, x->sum) ?: strcmp(x->name, y->name);
}

/* *n of them, the greatest sum first; to be freed. */
static struct group *groups(const struct blame_view *v, size_t *n)
{
	struct group *g = calloc(blame_spikes(v->blame) + 1, sizeof(*g));

	*n = 0;
	for (size_t i = 0; g && i < blame_spikes(v->blame); i++) {
		const struct blame_spike *s = blame_spike(v->blame, i);
		size_t k = 0;

		group_name(v, s, &g[*n]);
		while (strcmp(g[k].name, g[*n].name))
			k++;
		*n += k == *n;
		g[k].n++;
		g[k].sum += length(s);
		g[k].longest = MAX(g[k].longest, length(s));
	}
	if (g && *n)
		qsort(g, *n, sizeof(*g), by_sum);
	return g;
}

static bool grouped(const struct blame_view *v)
{
	return v->by >= BLAME_BY_CAUSE;
}

static int text_groups(const struct blame_view *v, struct sbuf *b)
{
	struct columns c = { .left = 1 };
	size_t n;
	_cleanup_free_ struct group *g = groups(v, &n);
	char text[32];

	if (!g)
		return -ENOMEM;
	for (unsigned int pass = 0; pass < 2; pass++) {
		c.print = pass;
		columns_put(&c, b, v->by == BLAME_BY_TASK ? "Task"
				   : v->by == BLAME_BY_VCPU ? "vCPU"
							    : "Cause");
		columns_put(&c, b, "Spikes");
		columns_put(&c, b, "Sum");
		columns_put(&c, b, "Longest");
		columns_end(&c, b);
		for (size_t i = 0; i < n; i++) {
			columns_put(&c, b, "%s", g[i].name);
			columns_put(&c, b, "%" PRIu64, g[i].n);
			columns_put(&c, b, "%s", amount(v, text, sizeof(text), g[i].sum));
			columns_put(&c, b, "%s", amount(v, text, sizeof(text), g[i].longest));
			columns_end(&c, b);
		}
	}
	return 0;
}

static void put_counts(struct sbuf *b, const struct blame_view *v)
{
	const char *sep = "\n# spikes in all: ";

	for (unsigned int w = 0; w < BLAME_WHATS; w++) {
		if (!blame_count(v->blame, (enum blame_what)w))
			continue;
		sbuf_addf(b, "%s%s %" PRIu64, sep, blame_whats[w].name,
			  blame_count(v->blame, (enum blame_what)w));
		sep = ", ";
	}
	if (sep[0] == ',')
		sbuf_addf(b, "; %s the %zu %s, only one where several overlap\n",
			  grouped(v) ? "summed up:" : "shown:", blame_spikes(v->blame),
			  v->at ? "nearest" : "longest");
}

static void put_bounds(struct sbuf *b, const struct blame_view *v)
{
	const struct hostmap *map = tl_hostmap(v->t);
	char early[32], late[32], unit[16];

	snprintf(unit, sizeof(unit), "%s", khz(v) ? "" : " cycles");
	for (size_t m = 0; m < map->nvm; m++) {
		const struct lat_bound *o = &v->bound[m];

		if (!o->guest)
			continue;
		if (!o->known) {
			sbuf_addf(b, "# it is not known how far the stamps of %s may be off\n",
				  map->vm[m].label);
			continue;
		}
		if (khz(v)) {
			str_ns(early, sizeof(early), o->early);
			str_ns(late, sizeof(late), o->late);
		} else {
			snprintf(early, sizeof(early), "%" PRIu64, o->early);
			snprintf(late, sizeof(late), "%" PRIu64, o->late);
		}
		sbuf_addf(b, "# the stamps of %s may be off by -%s/+%s%s\n", map->vm[m].label,
			  early, late, unit);
	}
}

static int text_print(const struct blame_view *v, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const struct blame_spike **s = ordered(v);
	const char *note;
	int ret = s ? 0 : -ENOMEM;
	size_t from;

	if (s && grouped(v))
		ret = text_groups(v, &b);
	for (size_t i = 0; s && !grouped(v) && i < blame_spikes(v->blame); i++) {
		if (i)
			sbuf_addc(&b, '\n');
		put_spike(&b, v, i + 1, s[i]);
		if (v->story)
			lat_put_story(&b, &v->story[s[i] - blame_spike(v->blame, 0)]);
	}
	free(s);
	from = b.len;
	put_counts(&b, v);
	put_bounds(&b, v);
	for (size_t i = 0; (note = blame_note(v->blame, i)); i++)
		sbuf_addf(&b, "# %s\n", note);
	text_wrap(&b, from, "#   ", v->width);
	return ret ?: sbuf_write(&b, f);
}

/* ---- for programs ---- */

static void spike_columns(struct row *r, const struct blame_view *v, const struct blame_spike *s)
{
	uint64_t at;
	bool placed = s->end && out_clock_value(v->clock, s->begin, s->vcpu, &at);
	bool ns = !strcmp(out_clock_unit(v->clock), "ns");

	row_str(r, "what", blame_whats[s->what].name);
	row_quoted(r, "of", s->of);
	row_quoted(r, "vm", s->end ? vm_label(v, s) : "");
	row_s64(r, "vcpu", true, s->vcpu);
	row_u64(r, ns ? "time_ns" : "time", placed, placed ? at : 0);
	row_u64(r, "begin_host_tsc", true, s->begin);
	row_u64(r, "end_host_tsc", true, s->end);
	row_time(r, "length", true, span(v, length(s)));
	row_str(r, "cause", blame_causes[s->cause].name);
	row_time(r, "cause_time", true, span(v, s->cause_time));
	row_bool(r, "sure", true, s->sure);
}

/* The last columns: they came last. */
static void where_columns(struct row *r, const struct blame_view *v, const struct blame_spike *s)
{
	_cleanup_(sbuf_free) struct sbuf place = { 0 }, needs = { 0 };
	const struct ksyms *k = symbols(v, s);
	char rip[32] = "", need[64];

	if (s->has_rip)
		snprintf(rip, sizeof(rip), "0x%" PRIx64, s->rip);
	if (k && (ksyms_find(k, s->rip) || ksyms_is_user(s->rip)))
		ksyms_name(k, s->rip, &place);
	row_str(r, "rip", s->has_rip ? rip : NULL);
	row_str(r, "function", place.s);
	if (r->form == ROW_JSON)
		return;
	for (uint32_t bit = 0; evidence_next(s->needs, &bit, need, sizeof(need));)
		sbuf_addf(&needs, "%s%s", needs.len ? "; " : "", need);
	row_quoted(r, "needs", needs.s ?: "");
}

static void part_columns(struct row *r, const struct blame_view *v, const struct blame_part *p)
{
	row_str(r, r->form == ROW_JSON ? "cause" : "part", blame_causes[p->cause].name);
	row_quoted(r, r->form == ROW_JSON ? "name" : "part_name", p->name);
	row_time(r, r->form == ROW_JSON ? "time" : "part_time", true, span(v, p->time));
}

static void put_story(struct json *j, const struct lat_story *story)
{
	json_put_str(j, "excerpt", story->text);
	json_put_u64(j, "excerpt_left_out", story->left_out);
}

static void spike_json(struct json *j, const struct blame_view *v, const struct blame_spike *s)
{
	struct row r;

	json_object_begin(j);
	r = (struct row){ .form = ROW_JSON, .j = j, .cycles = !khz(v) };
	spike_columns(&r, v, s);
	where_columns(&r, v, s);
	evidence_json("needs", s->needs, j);
	json_put_array(j, "parts");
	for (size_t i = 0; i < s->nparts; i++) {
		row_json(&r, j, !khz(v));
		part_columns(&r, v, &s->part[i]);
		row_end(&r);
	}
	json_array_end(j);
	json_put_object(j, "also");
	for (unsigned int w = 0; w < BLAME_WHATS; w++)
		if (s->also[w])
			json_put_u64(j, blame_whats[w].name, s->also[w]);
	json_object_end(j);
	if (v->story && v->story[s - blame_spike(v->blame, 0)].text)
		put_story(j, &v->story[s - blame_spike(v->blame, 0)]);
	json_object_end(j);
}

static void group_columns(struct row *r, const struct blame_view *v, const struct group *g)
{
	row_quoted(r, r->form == ROW_JSON ? "name" : blame_bys[v->by], g->name);
	row_u64(r, "spikes", true, g->n);
	row_time(r, "sum", true, span(v, g->sum));
	row_time(r, "longest", true, span(v, g->longest));
	row_end(r);
}

static int groups_json(struct json *j, const struct blame_view *v)
{
	size_t n;
	_cleanup_free_ struct group *g = groups(v, &n);

	json_put_array(j, "groups");
	for (size_t i = 0; g && i < n; i++) {
		struct row r;

		row_json(&r, j, !khz(v));
		group_columns(&r, v, &g[i]);
	}
	json_array_end(j);
	return g ? 0 : -ENOMEM;
}

static int json_print(const struct blame_view *v, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const struct blame_spike **s = ordered(v);
	const struct hostmap *map = tl_hostmap(v->t);
	struct json j;
	int ret = s ? 0 : -ENOMEM;

	json_line_begin(&j, &b);
	json_put_str(&j, "clock", out_clock_names[v->clock->kind]);
	json_put_str(&j, "unit", khz(v) ? "ns" : "cycles");
	out_json_rate(&j, tl_source(v->t, 0)->cap);
	json_put_array(&j, "spikes");
	for (size_t i = 0; s && i < blame_spikes(v->blame); i++)
		spike_json(&j, v, s[i]);
	json_array_end(&j);
	free(s);
	if (grouped(v) && groups_json(&j, v))
		ret = -ENOMEM;
	json_put_object(&j, "counts");
	for (unsigned int w = 0; w < BLAME_WHATS; w++)
		json_put_u64(&j, blame_whats[w].name, blame_count(v->blame, (enum blame_what)w));
	json_object_end(&j);
	json_put_array(&j, "alignment");
	for (size_t m = 0; m < map->nvm; m++) {
		if (!v->bound[m].guest)
			continue;
		json_object_begin(&j);
		json_put_str(&j, "vm", map->vm[m].label);
		json_put_known_u64(&j, khz(v) ? "off_early_ns" : "off_early_cycles",
				   v->bound[m].known, v->bound[m].early);
		json_put_known_u64(&j, khz(v) ? "off_late_ns" : "off_late_cycles",
				   v->bound[m].known, v->bound[m].late);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_put_array(&j, "notes");
	for (size_t i = 0; blame_note(v->blame, i); i++)
		json_str(&j, blame_note(v->blame, i));
	json_array_end(&j);
	if (json_line_end(&j) && !b.error)
		b.error = -EINVAL;
	return ret ?: sbuf_write(&b, f);
}

static int csv_groups(const struct blame_view *v, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const struct group none = { 0 };
	size_t n;
	_cleanup_free_ struct group *g = groups(v, &n);
	struct row r;

	if (!g)
		return -ENOMEM;
	row_head(&r, &b, !khz(v));
	group_columns(&r, v, &none);
	for (size_t i = 0; i < n; i++) {
		row_csv(&r, &b, !khz(v));
		group_columns(&r, v, &g[i]);
	}
	return sbuf_write(&b, f);
}

static int csv_spikes(const struct blame_view *v, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const struct blame_spike none = { 0 }, **s = ordered(v);
	const struct blame_part no_part = { 0 };
	struct row r;

	if (!s)
		return -ENOMEM;
	row_head(&r, &b, !khz(v));
	spike_columns(&r, v, &none);
	part_columns(&r, v, &no_part);
	where_columns(&r, v, &none);
	row_end(&r);
	for (size_t i = 0; i < blame_spikes(v->blame); i++)
		for (size_t p = 0; p < s[i]->nparts; p++) {
			row_csv(&r, &b, !khz(v));
			spike_columns(&r, v, s[i]);
			part_columns(&r, v, &s[i]->part[p]);
			where_columns(&r, v, s[i]);
			row_end(&r);
		}
	free(s);
	return sbuf_write(&b, f);
}

static int csv_print(const struct blame_view *v, FILE *f)
{
	return grouped(v) ? csv_groups(v, f) : csv_spikes(v, f);
}

static const struct blame_format formats[] = {
	{ "text", text_print }, { "json", json_print }, { "csv", csv_print },
};

const struct blame_format *blame_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}
