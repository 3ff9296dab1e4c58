/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lat_text.c: latency results as text: per table the stages of each group, a histogram of the
 * totals, what was counted, and the worst cases with their part of the time line.
 */
#include "kvmft/table.h"
#include "kvmft/results.h"

/* How far off what crosses may be, if that matters beside this time. */
static bool off_matters(const struct lat_bound *off, uint64_t time)
{
	return off && off->known && (off->early + off->late) * 100 > time;
}

/* Whether the median of a stage is not much longer than the alignment may be off. */
static bool stage_is_off(const struct lat_view *v, const struct lat_table *t,
			 const struct lat_group *g, unsigned int stage)
{
	const struct loghist *h = g->stage[stage];

	return h &&
	       off_matters(lat_stage_bound(v, t->desc, g, stage), loghist_percentile(h, 50, 100));
}

static bool several_vms(const struct lat_table *t)
{
	for (size_t g = 1; g < t->ngroup; g++)
		if (t->group[g].vm != t->group[0].vm)
			return true;
	return false;
}

void lat_put_story(struct sbuf *b, const struct lat_story *story)
{
	if (story->text)
		sbuf_add(b, story->text);
	if (story->left_out)
		sbuf_addf(b, "(%llu lines left out)\n", (unsigned long long)story->left_out);
}

/* ---- on one screen ---- */

/* The groups that took most of the time, and when the worst cases were. */

#define NAME_WIDTH 30 /* longer ones end in ~ */

/* The stage that took most of the time, or that none of them did; NULL: there are none. */
static const char *most_in(const struct lat_table *t, const struct lat_group *g)
{
	unsigned __int128 rest = g->stage[0]->sum, most = 0;
	const char *name = NULL;

	for (unsigned int s = 1; s < LAT_STAGES; s++) {
		bool part = g->stage[s] && t->desc->parts >> s & 1;
		unsigned __int128 sum = part ? g->stage[s]->sum : 0;

		rest -= MIN(rest, sum);
		if (sum > most) {
			most = sum;
			name = t->desc->stage[s];
		}
	}
	if (!name) {
		const char *cause = NULL;
		uint64_t longest = 0;

		/* Without parts: the cause that took most of the time; NULL: none known. */
		for (unsigned int c = 0; c < LAT_CAUSES && !t->desc->parts; c++)
			if (g->cause_time[c] > longest && t->desc->cause[c] &&
			    t->desc->cause[c][0]) {
				longest = g->cause_time[c];
				cause = lat_word_text(t->desc->cause[c]);
			}
		return cause;
	}
	return rest > most ? "not known" : name;
}

/* Rows of the groups of a table. */
struct lat_rows {
	const struct lat_view *v;
	const struct lat_table *t;
	unsigned __int128 all; /* the time that they took */
};

static bool took_time(const struct lat_group *g)
{
	return g->stage[0] && g->stage[0]->sum;
}

static void short_cells(struct row *o, const void *ctx, size_t i)
{
	static const struct loghist nothing;
	const struct lat_rows *x = ctx;
	const struct lat_group *g = &x->t->group[i];
	const struct loghist *h = o->head ? &nothing : g->stage[0];
	const bool several = several_vms(x->t);
	char name[2 * LAT_NAME], text[32];

	if (!o->head && !took_time(g))
		return;
	snprintf(name, sizeof(name), "%s%s%s", several ? lat_vm_label(x->v, g->vm) : "",
		 several ? " " : "", g->name);
	if (strlen(name) > NAME_WIDTH)
		strcpy(name + str_cut(name, NAME_WIDTH - 1), "~");
	cell_text(o, COL_LEFT, x->t->desc->key, "%s", name);
	cell_u64(o, IN_TEXT, NULL, "Count", true, h->n);
	cell_text(o, 0, "Time", h->sum * 100 < x->all ? "<1 %%" : "%u %%",
		  (unsigned int)(x->all ? h->sum * 100 / x->all : 0));
	cell_text(o, 0, "p50", "%s%s",
		  lat_amount(x->v, text, sizeof(text), loghist_percentile(h, 50, 100)),
		  o->head			       ? ""
		  : lat_is_uncertain(x->v, x->t, g, 0) ? "<" /* explained in the notes, as ~ */
		  : stage_is_off(x->v, x->t, g, 0)     ? "~"
						       : "");
	cell_text(o, 0, "p99", "%s",
		  lat_amount(x->v, text, sizeof(text), loghist_percentile(h, 99, 100)));
	cell_text(o, 0, "Max", "%s", lat_amount(x->v, text, sizeof(text), h->max));
	cell_text(o, COL_LEFT, "Mostly", "%s", o->head ? "" : most_in(x->t, g) ?: "");
}

/* Of these stages that which took most; 0: none did. */
static unsigned int longest(const struct lat_case *c, uint32_t of)
{
	unsigned int most = 0;
	uint64_t time = 0;

	for (unsigned int s = 1; s < LAT_STAGES; s++)
		if ((c->known & of) >> s & 1 && c->stage_time[s] > time)
			time = c->stage_time[most = s];
	return most;
}

static void put_case(struct sbuf *b, const struct lat_view *v, const struct lat_table *t,
		     const struct lat_case *c)
{
	char text[32];
	size_t from = b->len, at;
	unsigned int told = 0, wait = longest(c, t->desc->waits);
	uint64_t rest = t->desc->parts ? c->time : 0; /* what none of its stages has */

	sbuf_addf(b, "  %s", lat_amount(v, text, sizeof(text), c->time));
	at = b->len;
	sbuf_add(b, " at ");
	if (!out_clock_put(v->clock, c->begin, c->vcpu, 6, b))
		b->len = at;
	sbuf_addf(b, " %s", c->what);
	if (several_vms(t) && c->vm >= 0)
		sbuf_addf(b, ", %s", lat_vm_label(v, c->vm));
	if (t->desc->cause[c->cause] && t->desc->cause[c->cause][0])
		sbuf_addf(b, "; %s", lat_word_text(t->desc->cause[c->cause]));
	/* The two longest stages; what is not known, and the longest wait, if a tenth of it. */
	for (unsigned int s = 1; s < LAT_STAGES; s++)
		if ((c->known & t->desc->parts) >> s & 1)
			rest -= MIN(rest, c->stage_time[s]);
	for (unsigned int k = 0; k < 2; k++) {
		unsigned int most = longest(c, t->desc->parts & ~told);

		if (!most)
			break;
		sbuf_addf(b, "%s%s %s", k ? ", " : ": ", t->desc->stage[most],
			  lat_amount(v, text, sizeof(text), c->stage_time[most]));
		told |= 1u << most;
	}
	if (told && rest && rest >= c->time / 10)
		sbuf_addf(b, ", not known %s", lat_amount(v, text, sizeof(text), rest));
	if (wait && c->stage_time[wait] >= c->time / 10)
		sbuf_addf(b, "; of that %s %s", t->desc->stage[wait],
			  lat_amount(v, text, sizeof(text), c->stage_time[wait]));
	sbuf_addc(b, '\n');
	text_wrap(b, from, "      ", v->width);
}

/* The largest groups, up to `rows` of them, and the worst cases, up to `worst`. */
static void lat_short(struct sbuf *b, const struct lat_view *v, enum lat_table_id id, size_t rows,
		      size_t worst)
{
	const struct lat_table *t = lat_table(v->lat, id);
	const struct lat_story *story = v->story[id];
	size_t from, n = 0;
	struct lat_rows x = { v, t, 0 };
	struct table table = { .cells = short_cells, .ctx = &x, .bold = v->color };

	for (size_t i = 0; i < t->ngroup; i++)
		if (took_time(&t->group[i])) {
			x.all += t->group[i].stage[0]->sum;
			if (n++ < rows || t->desc->in_order)
				table.n = i + 1;
		}
	if (n)
		table_text(&table, b);
	if (n > rows && !t->desc->in_order)
		sbuf_addf(b, "(%zu more: --%s)\n", n - rows, v->rows ? "top" : "all");
	if (t->nworst && worst)
		sbuf_add(b, "\nThe worst:\n");
	for (size_t i = 0; i < MIN(t->nworst, worst); i++) {
		put_case(b, v, t, &t->worst[i]);
		if (story)
			lat_put_story(b, &story[i]);
	}
	if (t->ngroup)
		sbuf_addc(b, '\n');
	from = b->len;
	lat_counts_text(t, b);
	sbuf_addc(b, '\n');
	text_wrap(b, from, "  ", v->width);
}

#define BAR_WIDTH  40
#define SHARES	   6 /* of a headline */
#define SHORT_ROWS 8 /* of a table that is alone on its screen */

/* ---- the answer in short ---- */

struct share {
	const char *vm; /* NULL: goes without saying */
	const char *name;
	unsigned __int128 sum;
};

COMPARE(larger, struct share, ORDER(y->sum, x->sum));

/* The largest, in percent; with all, the rest if it is 1 %: "not recorded" if untold. */
static void put_shares(struct sbuf *b, const char *head, struct share *s, size_t n,
		       unsigned __int128 whole, bool all, bool untold)
{
	unsigned __int128 rest = whole;
	const char *sep = "";

	array_sort(s, n, larger);
	for (size_t i = 0; i < MIN(n, (size_t)SHARES) && whole && s[i].sum * 100 >= whole; i++) {
		sbuf_addf(b, "%s%s%s%s %llu %%", sep[0] ? sep : head, s[i].vm ? s[i].vm : "",
			  s[i].vm ? " " : "", s[i].name,
			  (unsigned long long)(s[i].sum * 100 / whole));
		sep = ", ";
	}
	for (size_t i = 0; i < n; i++)
		rest -= MIN(rest, s[i].sum);
	if (all && (sep[0] || untold) && whole && rest * 100 >= whole)
		sbuf_addf(b, "%s%s %llu %%", sep[0] ? sep : head,
			  untold ? "not recorded" : "not known",
			  (unsigned long long)(rest * 100 / whole));
	sep = untold && whole ? "," : sep;
	if (sep[0])
		sbuf_addc(b, '\n');
}

/* A line of VM m, if what is off matters, or is not known. */
static void bound_text(struct sbuf *b, const struct lat_view *v, const char *head, size_t m,
		       bool told)
{
	const struct hostmap *map = tl_hostmap(v->t);
	const struct lat_bound *off = &v->bound[m];
	char early[32], late[32];

	if (told)
		sbuf_addf(b, "%stimes that span host and guest may be off by -%s/+%s", head,
			  lat_amount(v, early, sizeof(early), off->early),
			  lat_amount(v, late, sizeof(late), off->late));
	else if (off->guest && !off->known)
		sbuf_addf(b, "%sit is unknown how far times that span host and guest may be off",
			  head);
	else
		return;
	sbuf_addf(b, map->nvm > 1 ? ", %s\n" : "\n", map->vm[m].label);
}

/* How long, which stages, of what: some lines. */
static void lat_headline(struct sbuf *b, const struct lat_view *v, const struct lat_table *t)
{
	struct share part[LAT_STAGES] = { 0 }, wait[LAT_STAGES] = { 0 };
	struct share *of = xcalloc(t->ngroup + 1, sizeof(*of));
	struct loghist *all = xcalloc(1, sizeof(*all));
	char half[32], most[32], longest[32];
	bool several = several_vms(t), untold = false;

	for (unsigned int s = 0; s < LAT_STAGES && t->desc->stage[s]; s++)
		if (t->desc->parts >> s & 1)
			untold |= lat_lacks(v->lat, t->desc->name, t->desc->stage[s]);
	for (size_t g = 0; g < t->ngroup; g++) {
		of[g].name = t->group[g].name;
		of[g].vm = several ? lat_vm_label(v, t->group[g].vm) : NULL;
		for (unsigned int s = 0; s < LAT_STAGES && t->group[g].stage[0]; s++) {
			part[s].name = wait[s].name = t->desc->stage[s];
			if (t->group[g].stage[s] && t->desc->parts >> s & 1)
				part[s].sum += t->group[g].stage[s]->sum;
			if (t->group[g].stage[s] && t->desc->waits >> s & 1)
				wait[s].sum += t->group[g].stage[s]->sum;
		}
		if (t->group[g].stage[0]) {
			of[g].sum = t->group[g].stage[0]->sum;
			loghist_merge(all, t->group[g].stage[0]);
		}
	}
	if (all->n)
		sbuf_addf(b, "  %llu measured: half up to %s, 99 %% up to %s, the longest %s\n",
			  (unsigned long long)all->n,
			  lat_amount(v, half, sizeof(half), loghist_percentile(all, 50, 100)),
			  lat_amount(v, most, sizeof(most), loghist_percentile(all, 99, 100)),
			  lat_amount(v, longest, sizeof(longest), all->max));
	put_shares(b, "  where the time went: ", part, LAT_STAGES, all->sum, true, untold);
	if (t->desc->waits)
		put_shares(b, "  of that waits: ", wait, LAT_STAGES, all->sum, false, false);
	put_shares(b, "  most of it: ", of, t->ngroup, all->sum, false, false);
	for (size_t m = 0; t->desc->crosses && all->n && m < tl_hostmap(v->t)->nvm; m++)
		bound_text(b, v, "  ", m,
			   off_matters(&v->bound[m], loghist_percentile(all, 50, 100)));
	sbuf_addc(b, '\n');
	loghist_free(all);
	free(all);
	free(of);
}

/* ---- stages ---- */

/* Thousandths, as cycles if that is what they are. */
static void cell_thousandths(struct row *o, const char *head, bool whole, uint64_t v)
{
	if (whole)
		cell_text(o, 0, head, "%llu", (unsigned long long)v);
	else
		cell_text(o, 0, head, "%llu.%03llu", (unsigned long long)(v / 1000),
			  (unsigned long long)(v % 1000));
}

static void stage_cells(struct row *o, const struct lat_view *v, const struct lat_table *t,
			const struct lat_group *g, unsigned int s)
{
	static const char *const heads[][5] = {
		{ "Min us", "Avg us", "p50 us", "p99 us", "Max us" },
		{ "Min cyc", "Avg cyc", "p50 cyc", "p99 cyc", "Max cyc" },
	};
	static const struct loghist nothing;
	const struct loghist *h = g ? g->stage[s] : &nothing;
	const char *off = g && stage_is_off(v, t, g, s) ? "~" : "";
	bool cycles = lat_in_cycles(v->lat);
	const uint64_t time[] = { h->min, loghist_mean(h), loghist_percentile(h, 50, 100),
				  loghist_percentile(h, 99, 100), h->max };

	cell_text(o, COL_LEFT | COL_ALONE, t->desc->key, "%s", s || !g ? "" : g->name);
	cell_text(o, COL_LEFT, "Stage", "%s", t->desc->stage[s]);
	cell_u64(o, IN_TEXT, NULL, "Count", true, h->n);
	cell_thousandths(o, cycles ? "Sum Mcyc" : "Sum ms", false, (uint64_t)(h->sum / 1000));
	for (size_t i = 0; i < ARRAY_SIZE(time); i++)
		cell_thousandths(o, heads[cycles][i], cycles, time[i]);
	if (g && lat_is_uncertain(v, t, g, s))
		cell_text(o, 0, "", "%s%s<", off, off[0] ? " " : "");
	else
		cell_text(o, 0, "", "%s", off);
}

/* For each VM, the host first, a row per stage of each group, and one for its causes. */
static void lat_group_cells(struct row *o, const void *ctx, size_t i)
{
	const struct lat_rows *x = ctx;
	const struct lat_table *t = x->t;
	const size_t nth = i / (LAT_STAGES + 1), n = MAX(t->ngroup, (size_t)1);
	const struct lat_group *g = &t->group[nth % n];
	int64_t vm = (int64_t)(nth / n) - 1;
	unsigned int s = (unsigned int)(i % (LAT_STAGES + 1));

	if (o->head) {
		stage_cells(o, x->v, t, NULL, 0);
		return;
	}
	if (g->vm != vm)
		return;
	if (o->c.print && !s && vm >= 0) {
		size_t first = nth % n;

		while (first && t->group[first - 1].vm != vm)
			first--;
		if (!first)
			sbuf_addf(o->b, "-- %s\n", lat_vm_label(x->v, vm));
	}
	if (s < LAT_STAGES && g->stage[s])
		stage_cells(o, x->v, t, g, s);
	else if (s == LAT_STAGES && o->c.print) {
		const size_t from = o->b->len;
		const char *sep = "";

		for (unsigned int c = 0; c < LAT_CAUSES; c++) {
			if (!g->cause[c] || !t->desc->cause[c] || !t->desc->cause[c][0])
				continue;
			if (!sep[0])
				sbuf_addf(o->b, "%-*s cause: ", (int)o->c.width[0], "");
			sbuf_addf(o->b, "%s%s %llu", sep, lat_word_text(t->desc->cause[c]),
				  (unsigned long long)g->cause[c]);
			sep = ", ";
		}
		if (sep[0])
			sbuf_addc(o->b, '\n');
		text_wrap(o->b, from, "    ", x->v->width);
	}
}

static void histogram_text(struct sbuf *b, const struct lat_view *v, const struct lat_table *t)
{
	uint64_t count[64] = { 0 }, most = 0, lo, hi;
	unsigned int first = 64, last = 0;

	for (size_t g = 0; g < t->ngroup; g++)
		for (unsigned int k = 0; t->group[g].stage[0] && k < LOGHIST_BUCKETS; k++) {
			uint64_t n = loghist_count(t->group[g].stage[0], k);
			unsigned int at;

			if (!n)
				continue;
			loghist_bounds(k, &lo, &hi);
			at = lo ? 63 - (unsigned int)__builtin_clzll(lo) : 0;
			count[at] += n;
			most = MAX(most, count[at]);
			first = MIN(first, at);
			last = MAX(last, at);
		}
	if (!most)
		return;
	sbuf_addf(b, "\n%-23s %9s\n", "total", "count");
	for (unsigned int k = first; k <= last; k++) {
		char from[32], to[32];
		unsigned int bar = (unsigned int)((count[k] * BAR_WIDTH + most - 1) / most);

		lat_amount(v, from, sizeof(from), k ? 1ull << k : 0);
		lat_amount(v, to, sizeof(to), k < 63 ? 2ull << k : UINT64_MAX);
		from[strcspn(from, "c")] = '\0'; /* one "cycles" of two is enough */
		sbuf_addf(b, "%10s - %-10s %9llu |", from, to, (unsigned long long)count[k]);
		for (unsigned int i = 0; i < bar; i++)
			sbuf_addc(b, '#');
		sbuf_addc(b, '\n');
	}
}

/* ---- where the vCPUs' time went ---- */

static void lat_vcpu_cells(struct row *o, const void *ctx, size_t i)
{
	const struct lat_view *v = ctx;
	struct lat_times t = { 0 };
	uint64_t wall = !o->head && lat_vcpu_times(v->lat, i, &t) ? t.last - t.first : 0;
	const char *vm = o->head ? "" : lat_vm_label(v, (int64_t)t.vm);
	char head[32];

	if (!wall && !o->head)
		return;
	cell_text(o, COL_LEFT, "VM", "%.*s", (int)str_cut(vm, 24), vm);
	cell_text(o, 0, "vCPU", "%u", t.vcpu);
	cell_u64(o, IN_TEXT, NULL, lat_in_cycles(v->lat) ? "Wall Mcyc" : "Wall ms", true,
		 lat_of_cycles(v, wall) / 1000000);
	for (unsigned int s = VS_GUEST; s <= VS_STATES; s++) {
		unsigned int which = s == VS_STATES ? VS_UNKNOWN : s;
		unsigned __int128 part = (unsigned __int128)t.time[which] * 10000;
		uint64_t pct = wall ? (uint64_t)(part / wall) : 0;

		snprintf(head, sizeof(head), "%s%%", vs_names[which]);
		cell_text(o, 0, head, lat_lacks(v->lat, "vcpu", vs_names[which]) ? "?" : "%llu.%02llu",
			  (unsigned long long)(pct / 100), (unsigned long long)(pct % 100));
	}
}

/* The cases of another table once more: what applies to all of them is said there. */
static bool is_view(enum lat_table_id id)
{
	return id > LAT_T_MEM;
}

/* Whether there is anything to show of a table. */
static bool is_told(const struct lat_view *v, enum lat_table_id id)
{
	const struct lat_table *t = lat_table(v->lat, id);
	bool any = id != LAT_T_HRTIMER;

	for (unsigned int c = 0; c < LAT_COUNTS; c++)
		any |= t->count[c] != 0;
	return lat_has_table(v->lat, id) && any &&
	       (v->all || t->ngroup || t->count[0]);
}

typedef bool (*mark_fn)(const struct lat_view *v, const struct lat_table *t,
			const struct lat_group *g, unsigned int stage);

/* Of the nvm VMs, those of which a row has the mark of what is so. */
static bool *vms_marked(const struct lat_view *v, size_t nvm, mark_fn is)
{
	bool *of = xcalloc(nvm + 1, sizeof(*of));

	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(v->lat, (enum lat_table_id)id);

		for (size_t i = 0; is_told(v, (enum lat_table_id)id) && i < t->ngroup; i++)
			for (unsigned int s = 0; s < (v->all ? LAT_STAGES : 1); s++)
				if (t->group[i].vm >= 0 && is(v, t, &t->group[i], s))
					of[t->group[i].vm] = true;
	}
	return of;
}

static void notes_text(struct sbuf *b, const struct lat_view *v, bool crosses)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };
	size_t blank = b->len;

	sbuf_addc(b, '\n');
	/* That times are cycles, or how well they are known. */
	if (out_clock_remark(v->clock, &text) && text.s)
		sbuf_addf(b, "note: %s\n", text.s);
	for (size_t i = 0; lat_note(v->lat, i); i++)
		sbuf_addf(b, "note: %s\n", lat_note(v->lat, i));
	if (crosses) {
		const struct hostmap *map = tl_hostmap(v->t);
		_cleanup_free_ bool *off = vms_marked(v, map->nvm, stage_is_off);
		_cleanup_free_ bool *doubt = vms_marked(v, map->nvm, lat_is_uncertain);
		char by[32];

		for (size_t m = 0; m < map->nvm; m++)
			bound_text(b, v, "note: ~: ", m, off[m]);
		/* What that means: a line per VM whose offset is not known to the cycle. */
		for (size_t m = 0; m < map->nvm; m++)
			if (doubt[m])
				sbuf_addf(
					b,
					"note: <: half of these are shorter than the uncertainty of %s's "
					"alignment, +-%s: they may have taken no time at all\n",
					map->vm[m].label,
					lat_amount(v, by, sizeof(by), v->bound[m].uncertain));
	}
	if (b->len == blank + 1)
		b->len = blank; /* none */
}

/* Everything about a table. */
static void put_whole(struct sbuf *b, const struct lat_view *v, enum lat_table_id id)
{
	const struct lat_table *t = lat_table(v->lat, id);
	char text[32];
	size_t from;
	const struct lat_rows x = { v, t, 0 };
	const struct table table = { .cells = lat_group_cells,
				     .ctx = &x, .width = v->width,
				     .n = (LAT_STAGES + 1) * t->ngroup *
					  (tl_hostmap(v->t)->nvm + 1) };

	table_text(&table, b);
	from = b->len;
	if (!is_view(id)) {
		/* What the stages of the table mean, or lack. */
		for (unsigned int s = 0; s < LAT_STAGES; s++) {
			bool used = false;
			uint32_t lacks;

			for (size_t g = 0; g < t->ngroup && !used; g++)
				used = t->group[g].stage[s];
			if (used)
				sbuf_addf(b, "%s  %-9s %s\n", s ? "" : "\n", t->desc->stage[s],
					  t->desc->stage_help[s]);
			lacks = !used && t->desc->stage[s]
					? lat_lacks(v->lat, t->desc->name, t->desc->stage[s])
					: 0;
			if (!lacks)
				continue;
			sbuf_addf(b, "%s  %-9s not recorded: ", s ? "" : "\n", t->desc->stage[s]);
			evidence_names(lacks, ", ", b);
			sbuf_addc(b, '\n');
		}
		text_wrap(b, from, "            ", v->width);
		histogram_text(b, v, t);
	}
	from = b->len;
	sbuf_addc(b, '\n');
	lat_counts_text(t, b);
	sbuf_addc(b, '\n');
	text_wrap(b, from, "  ", v->width);
	for (size_t i = 0; i < t->nworst; i++) {
		const struct lat_case *c = &t->worst[i];

		from = b->len;
		sbuf_addf(b, "\n%zu. %s: %s", i + 1, lat_amount(v, text, sizeof(text), c->time),
			  c->what);
		if (c->vm >= 0)
			sbuf_addf(b, ", %s", lat_vm_label(v, c->vm));
		if (t->desc->cause[c->cause] && t->desc->cause[c->cause][0])
			sbuf_addf(b, "; %s", lat_word_text(t->desc->cause[c->cause]));
		sbuf_add(b, c->known >> 1 ? "\n  " : "");
		for (unsigned int s = 1; s < LAT_STAGES; s++)
			if (c->known >> s & 1)
				sbuf_addf(b, " %s %s", t->desc->stage[s],
					  lat_amount(v, text, sizeof(text), c->stage_time[s]));
		sbuf_addc(b, '\n');
		text_wrap(b, from, "    ", v->width);
		if (v->story[id])
			lat_put_story(b, &v->story[id][i]);
	}
}

/* Why KVM had to inject what the CPU could have delivered. */
static void apicv_text(struct sbuf *b, const struct lat_view *v)
{
	for (size_t vm = 0; vm < tl_hostmap(v->t)->nvm; vm++) {
		struct lat_apicv a;
		const struct capture *cap = v->clock->map->cap;
		size_t from = b->len;
		char text[32];

		if (!lat_apicv(v->lat, vm, &a))
			continue;
		sbuf_addf(b, "%s: APICv was inhibited for %s, by ", lat_vm_label(v, (int64_t)vm),
			  lat_amount(v, text, sizeof(text), lat_of_cycles(v, a.cycles)));
		event_apicv_inhibits(cap, a.ever, b);
		sbuf_addf(b, " (times: %" PRIu64 "%s)", a.times,
			  a.known ? "" : "; what came after lost events is not known");
		if (a.now) {
			sbuf_add(b, "; it still is, by ");
			event_apicv_inhibits(cap, a.now, b);
			sbuf_add(b, a.before ? ", since before " : ", since ");
			(void)out_clock_put(v->clock, a.since, -1, 6, b);
		}
		sbuf_addc(b, '\n');
		text_wrap(b, from, "  ", v->width);
	}
}

void lat_text_print(const struct lat_view *v, struct sbuf *b)
{
	bool crosses = false;
	size_t tables = 0, from;

	for (unsigned int id = 0; id < LAT_TABLES; id++)
		tables += is_told(v, (enum lat_table_id)id) && !is_view((enum lat_table_id)id);

	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(v->lat, (enum lat_table_id)id);

		if (!is_told(v, (enum lat_table_id)id))
			continue;
		sbuf_addf(b, "%s%s: %s\n", b->len ? "\n" : "", t->desc->name, t->desc->title);
		crosses |= t->desc->crosses;
		from = b->len;
		if (!is_view((enum lat_table_id)id))
			lat_headline(b, v, t);
		text_wrap(b, from, "    ", v->width);
		if (v->all)
			put_whole(b, v, (enum lat_table_id)id);
		else
			lat_short(b, v, (enum lat_table_id)id,
				  v->rows	? v->rows
				  : tables > 1 || is_view((enum lat_table_id)id) ? SHORT_ROWS / 2
										 : SHORT_ROWS,
				  v->worst);
		if (id == LAT_T_IRQ)
			apicv_text(b, v);
	}
	if (lat_has_table(v->lat, LAT_T_SCHED)) {
		sbuf_addc(b, '\n');
		table_text(&(struct table){ .cells = lat_vcpu_cells, .ctx = v,
					    .n = lat_vcpus(v->lat) },
			   b);
	}
	from = b->len;
	notes_text(b, v, crosses);
	text_wrap(b, from, "  ", v->width);
}
