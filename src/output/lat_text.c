/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lat_text.c: latency results as text: per table the stages of each group, a histogram of the
 * totals, what was counted, and the worst cases with their part of the time line.
 */
#include "kvmft/columns.h"
#include "kvmft/lat_output.h"
#include "kvmft/screen.h"

#include <inttypes.h>

/* How far off what crosses may be, if that matters beside this time. */
static bool matters(const struct lat_bound *off, uint64_t time)
{
	return off && off->known && (off->early + off->late) * 100 > time;
}

/* Whether the median of a stage is not much longer than the alignment may be off. */
static bool is_off(const struct lat_view *v, const struct lat_table *t, const struct lat_group *g,
		   unsigned int stage)
{
	const struct loghist *h = g->stage[stage];

	return h && matters(lat_stage_bound(v, t->desc, g, stage), loghist_percentile(h, 50, 100));
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

/*
 * The groups that took most of the time, and when the
 * worst cases were.
 */

#define NAME_WIDTH 30 /* longer ones end in ~ */

static void short_name(struct columns *c, struct sbuf *b, const struct lat_view *v,
		       const struct lat_table *t, const struct lat_group *g)
{
	bool several = several_vms(t);
	char name[2 * LAT_NAME];

	snprintf(name, sizeof(name), "%s%s%s", several ? lat_vm_label(v, g->vm) : "",
		 several ? " " : "", g->name);
	if (strlen(name) > NAME_WIDTH)
		strcpy(name + str_cut(name, NAME_WIDTH - 1), "~");
	columns_put(c, b, "%s", name);
}

/* The cause that took most of the time, of a table without parts; NULL: none known. */
static const char *most_for(const struct lat_table *t, const struct lat_group *g)
{
	const char *name = NULL;
	uint64_t most = 0;

	for (unsigned int c = 0; c < LAT_CAUSES && !t->desc->parts; c++)
		if (t->desc->cause[c] && t->desc->cause[c][0] && g->cause_time[c] > most) {
			most = g->cause_time[c];
			name = t->desc->cause[c];
		}
	return name;
}

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
	if (!name)
		return most_for(t, g);
	return rest > most ? "not known" : name;
}

static void put_amount(struct columns *c, struct sbuf *b, const struct lat_view *v, uint64_t time,
		       const char *mark)
{
	char text[32];

	columns_put(c, b, "%s%s", lat_amount(v, text, sizeof(text), time), mark);
}

/* ~ and < are explained in the notes. */
static const char *mark_of(const struct lat_view *v, const struct lat_table *t,
			   const struct lat_group *g)
{
	if (lat_is_uncertain(v, t, g, 0))
		return "<";
	return is_off(v, t, g, 0) ? "~" : "";
}

static void put_group(struct columns *c, struct sbuf *b, const struct lat_view *v,
		      const struct lat_table *t, const struct lat_group *g, unsigned __int128 all)
{
	const struct loghist *h = g->stage[0];
	uint64_t median = loghist_percentile(h, 50, 100);
	const char *most = most_in(t, g);

	short_name(c, b, v, t, g);
	columns_put(c, b, "%" PRIu64, h->n);
	if (h->sum * 100 < all)
		columns_put(c, b, "<1 %%");
	else
		columns_put(c, b, "%u %%", (unsigned int)(h->sum * 100 / all));
	put_amount(c, b, v, median, mark_of(v, t, g));
	put_amount(c, b, v, loghist_percentile(h, 99, 100), "");
	put_amount(c, b, v, h->max, "");
	columns_put(c, b, "%s", most ?: "");
	columns_end(c, b);
}

static void put_groups(struct sbuf *b, const struct lat_view *v, const struct lat_table *t,
		       size_t rows)
{
	static const char *const heads[] = { "Count", "Time", "p50", "p99", "Max", "Mostly" };
	struct columns c = { .left = 1 | 1 << ARRAY_SIZE(heads) };
	unsigned __int128 all = 0;
	size_t n = 0, shown = 0;

	for (size_t i = 0; i < t->ngroup; i++)
		if (t->group[i].stage[0] && t->group[i].stage[0]->sum) {
			all += t->group[i].stage[0]->sum;
			n++;
		}
	for (unsigned int pass = 0; pass < 2 && n; pass++) {
		size_t head = b->len;

		c.print = pass;
		columns_put(&c, b, "%s", t->desc->key);
		for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
			columns_put(&c, b, "%s", heads[i]);
		columns_end(&c, b);
		if (c.print && v->color)
			screen_paint(b, head, b->len - 1, "1");
		shown = 0;
		for (size_t i = 0; i < t->ngroup && (shown < rows || t->desc->in_order); i++)
			if (t->group[i].stage[0] && t->group[i].stage[0]->sum) {
				put_group(&c, b, v, t, &t->group[i], all);
				shown++;
			}
	}
	if (shown < n)
		sbuf_addf(b, "(%zu more: --all)\n", n - shown);
}

static void put_when(struct sbuf *b, const struct lat_view *v, const struct lat_case *c)
{
	uint64_t at;

	if (!out_clock_value(v->clock, c->begin, c->vcpu, &at))
		return;
	if (!strcmp(out_clock_unit(v->clock), "ns"))
		sbuf_addf(b, " at %" PRIu64 ".%06u", at / 1000000000u,
			  (unsigned int)(at % 1000000000u / 1000));
	else
		sbuf_addf(b, " at %" PRIu64, at);
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

/* What none of its stages has. */
static uint64_t not_known(const struct lat_table *t, const struct lat_case *c)
{
	uint64_t rest = c->time;

	for (unsigned int s = 1; s < LAT_STAGES; s++)
		if ((c->known & t->desc->parts) >> s & 1)
			rest -= MIN(rest, c->stage_time[s]);
	return rest;
}

/*
 * The two stages that took most of its time; what is not known, and the longest wait, if that was a
 * tenth of it.
 */
static void put_stages(struct sbuf *b, const struct lat_view *v, const struct lat_table *t,
		       const struct lat_case *c)
{
	unsigned int told = 0, wait = longest(c, t->desc->waits);
	uint64_t rest = t->desc->parts ? not_known(t, c) : 0;
	char text[32];

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
}

static void put_case(struct sbuf *b, const struct lat_view *v, const struct lat_table *t,
		     const struct lat_case *c)
{
	char text[32];
	size_t from = b->len;

	sbuf_addf(b, "  %s", lat_amount(v, text, sizeof(text), c->time));
	put_when(b, v, c);
	sbuf_addf(b, " %s", c->what);
	if (several_vms(t) && c->vm >= 0)
		sbuf_addf(b, ", %s", lat_vm_label(v, c->vm));
	if (t->desc->cause[c->cause] && t->desc->cause[c->cause][0])
		sbuf_addf(b, "; %s", t->desc->cause[c->cause]);
	put_stages(b, v, t, c);
	sbuf_addc(b, '\n');
	text_wrap(b, from, "      ", v->width);
}

/* The largest groups, up to `rows` of them, and the worst cases, up to `worst`. */
static void lat_short(struct sbuf *b, const struct lat_view *v, enum lat_table_id id, size_t rows,
		      size_t worst)
{
	const struct lat_table *t = lat_table(v->lat, id);
	const struct lat_story *story = v->story[id];
	size_t from;

	put_groups(b, v, t, rows);
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

static void put_thousandths(struct columns *c, struct sbuf *b, uint64_t v)
{
	columns_put(c, b, "%llu.%03llu", (unsigned long long)(v / 1000),
		    (unsigned long long)(v % 1000));
}

/* ns as us, or cycles as they are. */
static void put_time(struct columns *c, struct sbuf *b, const struct lat_view *v, uint64_t time)
{
	if (lat_in_cycles(v->lat))
		columns_put(c, b, "%llu", (unsigned long long)time);
	else
		put_thousandths(c, b, time);
}

/* ---- the answer in short ---- */

struct share {
	const char *vm; /* NULL: goes without saying */
	const char *name;
	unsigned __int128 sum;
};

static int larger(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return ORDER(y->sum, x->sum);
}

/*
 * The largest of them, in percent of the whole; less than 1 % is not shown. With all, the rest is:
 * untold, if what was not recorded would show it.
 */
static void shares(struct sbuf *b, const char *head, struct share *s, size_t n,
		   unsigned __int128 whole, bool all, bool untold)
{
	unsigned __int128 rest = whole;
	const char *sep = "";

	qsort(s, n, sizeof(*s), larger);
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
static void bound(struct sbuf *b, const struct lat_view *v, const char *head, size_t m, bool told)
{
	const struct hostmap *map = tl_hostmap(v->t);
	const struct lat_bound *off = &v->bound[m];
	char early[32], late[32];

	if (told)
		sbuf_addf(b, "%swhat crosses between host and guest may be off by -%s/+%s", head,
			  lat_amount(v, early, sizeof(early), off->early),
			  lat_amount(v, late, sizeof(late), off->late));
	else if (off->guest && !off->known)
		sbuf_addf(
			b,
			"%sit is not known how far what crosses between host and guest may be off",
			head);
	else
		return;
	sbuf_addf(b, map->nvm > 1 ? ", %s\n" : "\n", map->vm[m].label);
}

/* How long, which stages, of what: some lines. 0 or -ENOMEM. */
static int lat_headline(struct sbuf *b, const struct lat_view *v, const struct lat_table *t)
{
	struct share part[LAT_STAGES] = { 0 }, wait[LAT_STAGES] = { 0 };
	struct share *of = calloc(t->ngroup + 1, sizeof(*of));
	struct loghist *all = calloc(1, sizeof(*all));
	char half[32], most[32], longest[32];
	bool several = several_vms(t), untold = false;

	for (unsigned int s = 0; s < LAT_STAGES && t->desc->stage[s]; s++)
		if (t->desc->parts >> s & 1)
			untold |= lat_lacks(v->lat, t->desc->name, t->desc->stage[s]);
	if (!all || !of) {
		free(all);
		free(of);
		return -ENOMEM;
	}
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
	shares(b, "  where the time went: ", part, LAT_STAGES, all->sum, true, untold);
	if (t->desc->waits)
		shares(b, "  of that waits: ", wait, LAT_STAGES, all->sum, false, false);
	shares(b, "  most of it: ", of, t->ngroup, all->sum, false, false);
	for (size_t m = 0; t->desc->crosses && all->n && m < tl_hostmap(v->t)->nvm; m++)
		bound(b, v, "  ", m, matters(&v->bound[m], loghist_percentile(all, 50, 100)));
	sbuf_addc(b, '\n');
	free(all);
	free(of);
	return 0;
}

/* ---- stages ---- */

/* First in a row; on a line of its own where all else has no room beside the names. */
static void put_name(struct columns *c, struct sbuf *b, const char *name)
{
	if (c->print && c->width[0] == 1 && name[0])
		sbuf_addf(b, "%s\n", name);
	columns_put(c, b, "%s", c->width[0] == 1 ? "" : name);
}

static void stage_row(struct columns *c, struct sbuf *b, const struct lat_view *v,
		      const struct lat_table *t, const struct lat_group *g, unsigned int s)
{
	const struct loghist *h = g->stage[s];
	const char *off = is_off(v, t, g, s) ? "~" : "";

	put_name(c, b, s ? "" : g->name);
	columns_put(c, b, "%s", t->desc->stage[s]);
	columns_put(c, b, "%llu", (unsigned long long)h->n);
	put_thousandths(c, b, (uint64_t)(h->sum / 1000));
	put_time(c, b, v, h->min);
	put_time(c, b, v, loghist_mean(h));
	put_time(c, b, v, loghist_percentile(h, 50, 100));
	put_time(c, b, v, loghist_percentile(h, 99, 100));
	put_time(c, b, v, h->max);
	if (lat_is_uncertain(v, t, g, s))
		columns_put(c, b, "%s%s<", off, off[0] ? " " : "");
	else
		columns_put(c, b, "%s", off);
	columns_end(c, b);
}

static void group_causes(struct sbuf *b, unsigned int at, const struct lat_desc *d,
			 const struct lat_group *g, unsigned int width)
{
	const size_t from = b->len;
	const char *sep = "";

	for (unsigned int c = 0; c < LAT_CAUSES; c++) {
		if (!g->cause[c] || !d->cause[c] || !d->cause[c][0])
			continue;
		if (!sep[0])
			sbuf_addf(b, "%-*s cause: ", (int)at, "");
		sbuf_addf(b, "%s%s %llu", sep, d->cause[c], (unsigned long long)g->cause[c]);
		sep = ", ";
	}
	if (sep[0])
		sbuf_addc(b, '\n');
	text_wrap(b, from, "    ", width);
}

static void groups_head(struct columns *c, struct sbuf *b, const struct lat_view *v,
			const struct lat_table *t)
{
	static const char *const heads[] = { "Min", "Avg", "p50", "p99", "Max" };
	bool cycles = lat_in_cycles(v->lat);

	put_name(c, b, t->desc->key);
	columns_put(c, b, "Stage");
	columns_put(c, b, "Count");
	columns_put(c, b, cycles ? "Sum Mcyc" : "Sum ms");
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		columns_put(c, b, "%s %s", heads[i], cycles ? "cyc" : "us");
	columns_end(c, b);
}

/* Those of the VM, or of the host (-1). */
static void groups_of(struct columns *c, struct sbuf *b, const struct lat_view *v,
		      const struct lat_table *t, int64_t vm)
{
	bool first = true;

	for (size_t i = 0; i < t->ngroup; i++) {
		const struct lat_group *g = &t->group[i];

		if (g->vm != vm)
			continue;
		if (c->print && first && vm >= 0)
			sbuf_addf(b, "-- %s\n", lat_vm_label(v, vm));
		first = false;
		for (unsigned int s = 0; s < LAT_STAGES; s++)
			if (g->stage[s])
				stage_row(c, b, v, t, g, s);
		if (c->print)
			group_causes(b, c->width[0], t->desc, g, v->width);
	}
}

static void groups(struct sbuf *b, const struct lat_view *v, const struct lat_table *t)
{
	struct columns c = { .left = 3 };

	for (unsigned int pass = 0; pass < 2; pass++) {
		c.print = pass;
		if (pass && v->width && columns_width(&c) > v->width)
			c.width[0] = 1;
		groups_head(&c, b, v, t);
		for (size_t m = 0; m <= tl_hostmap(v->t)->nvm; m++)
			groups_of(&c, b, v, t, (int64_t)m - 1);
	}
}

/* ---- histogram: powers of two ---- */

static void histogram(struct sbuf *b, const struct lat_view *v, const struct lat_table *t)
{
	uint64_t count[64] = { 0 }, most = 0, lo, hi;
	unsigned int first = 64, last = 0;

	for (size_t g = 0; g < t->ngroup; g++)
		for (unsigned int k = 0; t->group[g].stage[0] && k < LOGHIST_BUCKETS; k++) {
			uint64_t n = t->group[g].stage[0]->count[k];
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

/* What the stages of the table mean, or lack. */
static void meanings(struct sbuf *b, const struct lat_view *v, const struct lat_table *t)
{
	char need[64];

	for (unsigned int s = 0; s < LAT_STAGES; s++) {
		bool used = false;
		uint32_t lacks;

		for (size_t g = 0; g < t->ngroup && !used; g++)
			used = t->group[g].stage[s];
		if (used)
			sbuf_addf(b, "%s  %-9s %s\n", s ? "" : "\n", t->desc->stage[s],
				  t->desc->stage_help[s]);
		lacks = !used && t->desc->stage[s] ?
				lat_lacks(v->lat, t->desc->name, t->desc->stage[s]) : 0;
		if (lacks)
			sbuf_addf(b, "%s  %-9s not recorded:", s ? "" : "\n", t->desc->stage[s]);
		for (uint32_t bit = 0; evidence_next(lacks, &bit, need, sizeof(need));)
			sbuf_addf(b, " %s%s", need, lacks >> 1 < bit ? "\n" : ",");
	}
}

static bool any_count(const struct lat_table *t)
{
	for (unsigned int c = 0; c < LAT_COUNTS; c++)
		if (t->count[c])
			return true;
	return false;
}

/* ---- the worst ---- */

static void worst(struct sbuf *b, const struct lat_view *v, const struct lat_table *t,
		  const struct lat_story *story)
{
	char text[32];

	for (size_t i = 0; i < t->nworst; i++) {
		const struct lat_case *c = &t->worst[i];
		const size_t from = b->len;

		sbuf_addf(b, "\n%zu. %s: %s", i + 1, lat_amount(v, text, sizeof(text), c->time),
			  c->what);
		if (c->vm >= 0)
			sbuf_addf(b, ", %s", lat_vm_label(v, c->vm));
		if (t->desc->cause[c->cause] && t->desc->cause[c->cause][0])
			sbuf_addf(b, "; %s", t->desc->cause[c->cause]);
		sbuf_add(b, c->known >> 1 ? "\n  " : "");
		for (unsigned int s = 1; s < LAT_STAGES; s++)
			if (c->known >> s & 1)
				sbuf_addf(b, " %s %s", t->desc->stage[s],
					  lat_amount(v, text, sizeof(text), c->stage_time[s]));
		sbuf_addc(b, '\n');
		text_wrap(b, from, "    ", v->width);
		if (story)
			lat_put_story(b, &story[i]);
	}
}

/* ---- where the vCPUs' time went ---- */

static void vcpu_row(struct columns *c, struct sbuf *b, const struct lat_view *v, size_t i)
{
	struct lat_times t;
	uint64_t wall = lat_vcpu_times(v->lat, i, &t) ? t.last - t.first : 0;

	if (!wall)
		return;
	columns_put(c, b, "%.*s", (int)str_cut(lat_vm_label(v, (int64_t)t.vm), 24),
		    lat_vm_label(v, (int64_t)t.vm));
	columns_put(c, b, "%u", t.vcpu);
	columns_put(c, b, "%llu", (unsigned long long)(lat_of_cycles(v, wall) / 1000000));
	for (unsigned int s = VS_GUEST; s <= VS_STATES; s++) {
		unsigned int which = s == VS_STATES ? VS_UNKNOWN : s;
		uint64_t pct = (uint64_t)((unsigned __int128)t.time[which] * 10000 / wall);

		if (lat_lacks(v->lat, "vcpu", vs_names[which]))
			columns_put(c, b, "?");
		else
			columns_put(c, b, "%llu.%02llu", (unsigned long long)(pct / 100),
			    (unsigned long long)(pct % 100));
	}
	columns_end(c, b);
}

static void vcpu_times(struct sbuf *b, const struct lat_view *v)
{
	struct columns c = { .left = 1 };

	sbuf_addc(b, '\n');
	for (unsigned int pass = 0; pass < 2; pass++) {
		c.print = pass;
		columns_put(&c, b, "VM");
		columns_put(&c, b, "vCPU");
		columns_put(&c, b, lat_in_cycles(v->lat) ? "Wall Mcyc" : "Wall ms");
		for (unsigned int s = VS_GUEST; s <= VS_STATES; s++)
			columns_put(&c, b, "%s%%", vs_names[s == VS_STATES ? VS_UNKNOWN : s]);
		columns_end(&c, b);
		for (size_t i = 0; i < lat_vcpus(v->lat); i++)
			vcpu_row(&c, b, v, i);
	}
}

/* That times are cycles, or how well they are known. */
static void remark(struct sbuf *b, const struct lat_view *v)
{
	_cleanup_(sbuf_free) struct sbuf text = { 0 };

	if (out_clock_remark(v->clock, &text) && text.s)
		sbuf_addf(b, "note: %s\n", text.s);
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

	return lat_has_table(v->lat, id) && (id != LAT_T_HRTIMER || any_count(t)) &&
	       (v->all || t->ngroup || t->count[0]);
}

typedef bool (*mark_fn)(const struct lat_view *v, const struct lat_table *t,
			const struct lat_group *g, unsigned int stage);

/* Whether a row of this VM has the mark of what is so. */
static bool is_marked(const struct lat_view *v, int64_t vm, mark_fn is)
{
	for (unsigned int id = 0; id < LAT_TABLES; id++) {
		const struct lat_table *t = lat_table(v->lat, (enum lat_table_id)id);

		for (size_t i = 0; is_told(v, (enum lat_table_id)id) && i < t->ngroup; i++)
			for (unsigned int s = 0; s < (v->all ? LAT_STAGES : 1); s++)
				if (t->group[i].vm == vm && is(v, t, &t->group[i], s))
					return true;
	}
	return false;
}

/* What that means: a line per VM whose offset is not known to the cycle. */
static void uncertainties(struct sbuf *b, const struct lat_view *v)
{
	const struct hostmap *map = tl_hostmap(v->t);
	char off[32];

	for (size_t m = 0; m < map->nvm; m++)
		if (is_marked(v, (int64_t)m, lat_is_uncertain))
			sbuf_addf(b,
				  "note: <: half of these are shorter than the uncertainty of %s's "
				  "alignment, +-%s: they may have taken no time at all\n",
				  map->vm[m].label,
				  lat_amount(v, off, sizeof(off), v->bound[m].uncertain));
}

static void notes(struct sbuf *b, const struct lat_view *v, bool crosses)
{
	size_t blank = b->len;

	sbuf_addc(b, '\n');
	remark(b, v);
	for (size_t i = 0; lat_note(v->lat, i); i++)
		sbuf_addf(b, "note: %s\n", lat_note(v->lat, i));
	for (size_t m = 0; crosses && m < tl_hostmap(v->t)->nvm; m++)
		bound(b, v, "note: ~: ", m, is_marked(v, (int64_t)m, is_off));
	if (crosses)
		uncertainties(b, v);
	if (b->len == blank + 1)
		b->len = blank; /* none */
}

/* Everything about a table. */
static void whole(struct sbuf *b, const struct lat_view *v, enum lat_table_id id)
{
	const struct lat_table *t = lat_table(v->lat, id);
	size_t from;

	groups(b, v, t);
	from = b->len;
	if (!is_view(id)) {
		meanings(b, v, t);
		text_wrap(b, from, "            ", v->width);
		histogram(b, v, t);
	}
	from = b->len;
	sbuf_addc(b, '\n');
	lat_counts_text(t, b);
	sbuf_addc(b, '\n');
	text_wrap(b, from, "  ", v->width);
	worst(b, v, t, v->story[id]);
}

static int text_print(const struct lat_view *v, FILE *f)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	bool crosses = false;
	size_t tables = 0, from;
	int ret = 0;

	for (unsigned int id = 0; id < LAT_TABLES; id++)
		tables += is_told(v, (enum lat_table_id)id) && !is_view((enum lat_table_id)id);

	for (unsigned int id = 0; id < LAT_TABLES && !ret; id++) {
		const struct lat_table *t = lat_table(v->lat, (enum lat_table_id)id);

		if (!is_told(v, (enum lat_table_id)id))
			continue;
		sbuf_addf(&b, "%s%s: %s\n", b.len ? "\n" : "", t->desc->name, t->desc->title);
		crosses |= t->desc->crosses;
		from = b.len;
		ret = is_view((enum lat_table_id)id) ? 0 : lat_headline(&b, v, t);
		text_wrap(&b, from, "    ", v->width);
		if (v->all)
			whole(&b, v, (enum lat_table_id)id);
		else
			lat_short(&b, v, (enum lat_table_id)id,
				  tables > 1 || is_view((enum lat_table_id)id) ? SHORT_ROWS / 2
									       : SHORT_ROWS,
				  v->worst);
	}
	if (v->want[LAT_SCHED])
		vcpu_times(&b, v);
	from = b.len;
	notes(&b, v, crosses);
	text_wrap(&b, from, "  ", v->width);
	return ret ?: sbuf_write(&b, f);
}

const struct lat_format lat_text = { .name = "text",
				     .help = "tables to read",
				     .print = text_print };
