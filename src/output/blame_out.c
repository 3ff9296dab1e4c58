/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blame_out.c: spikes and their causes: as text, a block for each or a line per group; as one JSON
 * document; as CSV with a line per part, or group.
 */
#include "kvmft/evidence.h"
#include "kvmft/results.h"
#include "kvmft/table.h"

const char *const blame_bys[] = { "length", "time", "cause", "task", "vcpu", NULL };

static uint64_t view_khz(const struct blame_view *v)
{
	return tl_source(v->t, 0)->cap->tsc_khz;
}

static char *blame_amount(const struct blame_view *v, char *buf, size_t size, uint64_t cycles)
{
	if (view_khz(v))
		return str_ns_grain(buf, size, ns_or_cycles(cycles, view_khz(v)),
				    tl_hostmap(v->t)->cap->grain);
	snprintf(buf, size, "%" PRIu64 " cycles", cycles);
	return buf;
}

static const char *blame_vm_label(const struct blame_view *v, const struct blame_spike *s)
{
	return s->vm < 0 ? "host" : tl_hostmap(v->t)->vm[s->vm].label;
}

static unsigned int blame_percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned int)((unsigned __int128)part * 100 / whole) : 0;
}

static uint64_t spike_len(const struct blame_spike *s)
{
	return s->end - s->begin;
}

COMPARE_BY(by_begin, struct blame_spike *, ->begin);

/* ---- text ---- */

static const struct ksyms *spike_symbols(const struct blame_view *v, const struct blame_spike *s)
{
	return s->vm < 0 || !s->has_rip ? NULL : tl_hostmap(v->t)->vm[s->vm].syms;
}

/* The length of s->of without a vCPU at its end, which is printed with the name of its VM. */
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

static void blame_put_spike(struct sbuf *b, const struct blame_view *v, size_t nth,
			    const struct blame_spike *s)
{
	const char *what = blame_whats[s->what].name, *sep;
	const int of = without_vcpu(s);
	size_t from = b->len;
	char text[32];
	const int width = view_khz(v) ? 12 : 20;
	uint64_t rest = 0, n = 0;

	sbuf_addf(b, "%zu. %s ", nth, blame_amount(v, text, sizeof(text), spike_len(s)));
	if (strncmp(s->of, what, strlen(what)))
		sbuf_addf(b, " %s", what);
	if (of)
		sbuf_addf(b, " %.*s", of, s->of);
	sbuf_addf(b, ", %s vCPU %lld, at ", blame_vm_label(v, s), (long long)s->vcpu);
	if (!out_clock_put(v->clock, s->begin, s->vcpu, 9, b))
		sbuf_add(b, "?");
	/* What else was late then, and counts as the same. */
	sep = " (also: ";
	for (unsigned int w = 0; w < BLAME_WHATS; w++) {
		if (!s->also[w])
			continue;
		sbuf_addf(b, "%s%" PRIu32 " %s", sep, s->also[w], blame_whats[w].name);
		sep = ", ";
	}
	if (sep[0] == ',')
		sbuf_add(b, ")");
	sbuf_addc(b, '\n');
	text_wrap(b, from, "   ", v->width);
	from = b->len;
	sbuf_addf(b, "   %s: %s, %u %%%s\n", blame_causes[s->cause].name,
		  blame_causes[s->cause].help, blame_percent(s->cause_time, spike_len(s)),
		  s->sure || s->cause <= CAUSE_LOST ? "" : " (not sure)");
	text_wrap(b, from, "   ", v->width);
	if (spike_symbols(v, s)) {
		sbuf_add(b, "   its guest was at ");
		ksyms_place(spike_symbols(v, s), s->rip, b);
		sbuf_addc(b, '\n');
	}
	if (s->with)
		sbuf_addf(b, "   %" PRIu32 " other vCPU%s out for the same page at once: %sat 0x%" PRIx64 "\n",
			  s->with, s->with > 1 ? "s were" : " was", s->fetched ? "to run code " : "",
			  s->page);
	for (size_t i = 0; i < s->nparts; i++) {
		const struct blame_part *p = &s->part[i];

		if (i >= 3 && p->time * 50 < spike_len(s) && s->nparts > 4) {
			rest += p->time;
			n++;
			continue;
		}
		from = b->len;
		sbuf_addf(b, "   %*s %3u %%  %s%s%s\n", width,
			  blame_amount(v, text, sizeof(text), p->time),
			  blame_percent(p->time, spike_len(s)), blame_causes[p->cause].name,
			  p->name[0] ? ": " : "", p->name);
		text_wrap(b, from, TEXTF("%*s", width + 13, ""), v->width);
	}
	if (n)
		sbuf_addf(b, "   %*s %3u %%  %" PRIu64 " other%s\n", width,
			  blame_amount(v, text, sizeof(text), rest),
			  blame_percent(rest, spike_len(s)), n, n > 1 ? "s" : "");
}

/* ---- groups ---- */

struct group {
	char name[BLAME_NAME * 2];
	uint64_t n, sum, longest;
};

COMPARE(by_sum, struct group, ORDER(y->sum, x->sum) ?: strcmp(x->name, y->name));

/* *n of them, the greatest sum first; to be freed. */
static struct group *spike_groups(const struct blame_view *v, size_t *n)
{
	struct group *g = xcalloc(blame_spikes(v->blame) + 1, sizeof(*g));

	*n = 0;
	for (size_t i = 0; i < blame_spikes(v->blame); i++) {
		const struct blame_spike *s = blame_spike(v->blame, i);
		size_t k = 0;
		struct group *group = &g[*n];

		switch (v->by) {
		case BLAME_BY_TASK:
			snprintf(group->name, sizeof(group->name), "%s",
				 s->tid ? s->of : "(of no task)");
			break;
		case BLAME_BY_VCPU:
			snprintf(group->name, sizeof(group->name), "%.64s vCPU %lld",
				 blame_vm_label(v, s), (long long)s->vcpu);
			break;
		default:
			snprintf(group->name, sizeof(group->name), "%s",
				 blame_causes[s->cause].name);
		}
		while (strcmp(g[k].name, g[*n].name))
			k++;
		*n += k == *n;
		g[k].n++;
		g[k].sum += spike_len(s);
		g[k].longest = MAX(g[k].longest, spike_len(s));
	}
	array_sort(g, *n, by_sum);
	return g;
}

static bool view_grouped(const struct blame_view *v)
{
	return v->by >= BLAME_BY_CAUSE;
}

struct groups {
	const struct blame_view *v;
	const struct group *g;
};

static void blame_group_cells(struct row *r, const void *ctx, size_t i)
{
	static const struct group none;
	const struct groups *x = ctx;
	const struct group *g = r->head ? &none : &x->g[i];
	char text[32];

	if (r->form == ROW_TEXT)
		cell_text(r, COL_LEFT,
			  x->v->by == BLAME_BY_TASK   ? "Task"
			  : x->v->by == BLAME_BY_VCPU ? "vCPU"
						      : "Cause",
			  "%s", g->name);
	row_quoted(r, r->form == ROW_JSON ? "name" : blame_bys[x->v->by], g->name);
	cell_u64(r, IN_ALL, "spikes", "Spikes", true, g->n);
	cell_text(r, 0, "Sum", "%s", blame_amount(x->v, text, sizeof(text), g->sum));
	cell_text(r, 0, "Longest", "%s", blame_amount(x->v, text, sizeof(text), g->longest));
	row_time(r, "sum", true, ns_or_cycles(g->sum, view_khz(x->v)));
	row_time(r, "longest", true, ns_or_cycles(g->longest, view_khz(x->v)));
}

/* j: as a member of that, else as text or CSV. */
static void blame_put_groups(const struct blame_view *v, bool text, struct json *j, struct sbuf *b)
{
	size_t n;
	_cleanup_free_ struct group *g = spike_groups(v, &n);
	const struct groups x = { v, g };
	const struct table t = {
		.cells = blame_group_cells, .ctx = &x, .n = n, .cycles = !view_khz(v)
	};

	if (j)
		table_json(&t, "groups", j);
	else if (text)
		table_text(&t, b);
	else
		table_csv(&t, true, b);
}

static void blame_text(const struct blame_view *v, const struct blame_spike **s, struct sbuf *b)
{
	size_t n = view_grouped(v) ? 0 : blame_spikes(v->blame), from;
	const char *note, *sep;
	const struct hostmap *map;
	char early[32], late[32];

	if (view_grouped(v))
		blame_put_groups(v, true, NULL, b);
	for (size_t i = 0; i < n; i++) {
		if (i)
			sbuf_addc(b, '\n');
		blame_put_spike(b, v, i + 1, s[i]);
		if (v->story)
			lat_put_story(b, &v->story[s[i] - blame_spike(v->blame, 0)]);
	}
	from = b->len;
	sep = "\n# spikes: ";
	for (unsigned int w = 0; w < BLAME_WHATS; w++) {
		if (!blame_count(v->blame, (enum blame_what)w))
			continue;
		sbuf_addf(b, "%s%s %" PRIu64, sep, blame_whats[w].name,
			  blame_count(v->blame, (enum blame_what)w));
		sep = ", ";
	}
	if (sep[0] == ',')
		sbuf_addf(b, "; %s the %zu %s, one where several overlap\n",
			  view_grouped(v) ? "summed up:" : "shown:", blame_spikes(v->blame),
			  v->at ? "nearest" : "longest");
	map = tl_hostmap(v->t);
	for (size_t m = 0; m < map->nvm; m++) {
		const struct lat_bound *o = &v->bound[m];

		if (!o->guest)
			continue;
		if (!o->known) {
			sbuf_addf(b, "# it is not known how far the stamps of %s may be off\n",
				  map->vm[m].label);
			continue;
		}
		if (view_khz(v)) {
			str_ns(early, sizeof(early), o->early);
			str_ns(late, sizeof(late), o->late);
		} else {
			snprintf(early, sizeof(early), "%" PRIu64, o->early);
			snprintf(late, sizeof(late), "%" PRIu64, o->late);
		}
		sbuf_addf(b, "# the stamps of %s may be off by -%s/+%s%s\n", map->vm[m].label,
			  early, late, view_khz(v) ? "" : " cycles");
	}
	for (size_t i = 0; (note = blame_note(v->blame, i)); i++)
		sbuf_addf(b, "# %s\n", note);
	text_wrap(b, from, "#   ", v->width);
}

/* ---- for programs ---- */

static void spike_columns(struct row *r, const struct blame_view *v, const struct blame_spike *s)
{
	uint64_t at;
	bool placed = s->end && out_clock_value(v->clock, s->begin, s->vcpu, &at);
	bool ns = !strcmp(out_clock_unit(v->clock), "ns");

	row_str(r, "what", blame_whats[s->what].name);
	row_quoted(r, "of", s->of);
	row_quoted(r, "vm", s->end ? blame_vm_label(v, s) : "");
	row_s64(r, "vcpu", true, s->vcpu);
	row_u64(r, ns ? "time_ns" : "time", placed, placed ? at : 0);
	row_u64(r, "begin_host_tsc", true, s->begin);
	row_u64(r, "end_host_tsc", true, s->end);
	row_time(r, "length", true, ns_or_cycles(spike_len(s), view_khz(v)));
	row_str(r, "cause", blame_causes[s->cause].name);
	row_time(r, "cause_time", true, ns_or_cycles(s->cause_time, view_khz(v)));
	row_bool(r, "sure", true, s->sure);
}

/* The last columns: they came last. */
static void where_columns(struct row *r, const struct blame_view *v, const struct blame_spike *s)
{
	_cleanup_(sbuf_free) struct sbuf place = { 0 }, needs = { 0 };
	const struct ksyms *k = spike_symbols(v, s);
	char rip[32] = "";

	if (s->has_rip)
		snprintf(rip, sizeof(rip), "0x%" PRIx64, s->rip);
	if (k && (ksyms_find(k, s->rip) || ksyms_is_user(s->rip)))
		ksyms_name(k, s->rip, &place);
	row_str(r, "rip", s->has_rip ? rip : NULL);
	row_str(r, "function", place.s);
	if (r->form == ROW_JSON) {
		row_u64(r, "same_page_vcpus", s->with, s->with);
		return;
	}
	evidence_names(s->needs, "; ", &needs);
	row_quoted(r, "needs", needs.s ?: "");
}

/* Of one spike; CSV repeats what it is of in each of its lines. */
struct parts {
	const struct blame_view *v;
	const struct blame_spike *s;
};

static void blame_part_cells(struct row *r, const void *ctx, size_t i)
{
	static const struct blame_part none;
	const struct parts *x = ctx;
	const struct blame_part *p = r->head ? &none : &x->s->part[i];
	bool json = r->form == ROW_JSON;

	if (!json)
		spike_columns(r, x->v, x->s);
	row_str(r, json ? "cause" : "part", blame_causes[p->cause].name);
	row_quoted(r, json ? "name" : "part_name", p->name);
	row_time(r, json ? "time" : "part_time", true, ns_or_cycles(p->time, view_khz(x->v)));
	if (!json)
		where_columns(r, x->v, x->s);
}

static struct table parts_of(const struct parts *x)
{
	return (struct table){
		.cells = blame_part_cells, .ctx = x, .n = x->s->nparts, .cycles = !view_khz(x->v)
	};
}

static void blame_json(const struct blame_view *v, const struct blame_spike **s, struct sbuf *b)
{
	const struct hostmap *map = tl_hostmap(v->t);
	struct json j;
	struct row r;

	json_line_begin(&j, b);
	json_put_str(&j, "clock", out_clock_names[v->clock->kind]);
	json_put_str(&j, "unit", view_khz(v) ? "ns" : "cycles");
	out_json_rate(&j, tl_source(v->t, 0)->cap);
	json_put_array(&j, "spikes");
	for (size_t i = 0; i < blame_spikes(v->blame); i++) {
		const struct parts x = { v, s[i] };
		const struct table parts = parts_of(&x);
		const struct lat_story *story =
			v->story ? &v->story[s[i] - blame_spike(v->blame, 0)] : NULL;

		row_json(&r, &j, !view_khz(v));
		spike_columns(&r, v, s[i]);
		where_columns(&r, v, s[i]);
		evidence_json("needs", s[i]->needs, &j);
		table_json(&parts, "parts", &j);
		json_put_object(&j, "also");
		for (unsigned int w = 0; w < BLAME_WHATS; w++)
			if (s[i]->also[w])
				json_put_u64(&j, blame_whats[w].name, s[i]->also[w]);
		json_object_end(&j);
		if (story && story->text) {
			json_put_str(&j, "excerpt", story->text);
			json_put_u64(&j, "excerpt_left_out", story->left_out);
		}
		row_end(&r);
	}
	json_array_end(&j);
	if (view_grouped(v))
		blame_put_groups(v, false, &j, b);
	json_put_object(&j, "counts");
	for (unsigned int w = 0; w < BLAME_WHATS; w++)
		json_put_u64(&j, blame_whats[w].name, blame_count(v->blame, (enum blame_what)w));
	json_object_end(&j);
	json_put_array(&j, "alignment");
	for (size_t m = 0; m < map->nvm; m++) {
		if (!v->bound[m].guest)
			continue;
		row_json(&r, &j, !view_khz(v));
		row_str(&r, "vm", map->vm[m].label);
		row_time(&r, "off_early", v->bound[m].known, v->bound[m].early);
		row_time(&r, "off_late", v->bound[m].known, v->bound[m].late);
		row_end(&r);
	}
	json_array_end(&j);
	json_put_array(&j, "notes");
	for (size_t i = 0; blame_note(v->blame, i); i++)
		json_str(&j, blame_note(v->blame, i));
	json_array_end(&j);
	json_line_end(&j);
}

void blame_print(const struct blame_view *v, const char *format, struct sbuf *b)
{
	size_t n = blame_spikes(v->blame);
	_cleanup_free_ const struct blame_spike **s = xcalloc(n + 1, sizeof(*s));

	for (size_t i = 0; i < n; i++)
		s[i] = blame_spike(v->blame, i);
	if (n && v->by == BLAME_BY_TIME)
		array_sort(s, n, by_begin);
	if (!strcmp(format, "csv") && view_grouped(v)) {
		blame_put_groups(v, false, NULL, b);
	} else if (!strcmp(format, "csv")) {
		static const struct blame_spike none;
		struct parts x = { v, &none };
		struct table t = parts_of(&x);

		table_csv(&t, true, b);
		for (size_t i = 0; i < n; i++) {
			x.s = s[i];
			t = parts_of(&x);
			table_csv(&t, false, b);
		}
	} else if (!strcmp(format, "json")) {
		blame_json(v, s, b);
	} else {
		blame_text(v, s, b);
	}
}
