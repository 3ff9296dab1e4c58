/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lat_short.c: latency results on one screen: the groups that took most of the time, and when the
 * worst cases were.
 */
#include "kvmft/columns.h"
#include "lat_text.h"
#include "kvmft/screen.h"

#include <inttypes.h>

#define NAME_WIDTH 30 /* longer ones end in ~ */

static void put_name(struct columns *c, struct sbuf *b, const struct lat_view *v,
		     const struct lat_table *t, const struct lat_group *g)
{
	bool several = lat_several_vms(t);
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
	return lat_is_off(v, t, g, 0) ? "~" : "";
}

static void put_group(struct columns *c, struct sbuf *b, const struct lat_view *v,
		      const struct lat_table *t, const struct lat_group *g, unsigned __int128 all)
{
	const struct loghist *h = g->stage[0];
	uint64_t median = loghist_percentile(h, 50, 100);
	const char *most = most_in(t, g);

	put_name(c, b, v, t, g);
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
	if (lat_several_vms(t) && c->vm >= 0)
		sbuf_addf(b, ", %s", lat_vm_label(v, c->vm));
	if (t->desc->cause[c->cause] && t->desc->cause[c->cause][0])
		sbuf_addf(b, "; %s", t->desc->cause[c->cause]);
	put_stages(b, v, t, c);
	sbuf_addc(b, '\n');
	text_wrap(b, from, "      ", v->width);
}

void lat_short(struct sbuf *b, const struct lat_view *v, enum lat_table_id id, size_t rows,
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
