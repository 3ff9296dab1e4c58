/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rows.c: from the sums of both sides to rows that are compared, and their order.
 *
 * Everything is tested as a ratio of sums. A rate is samples over seconds, a mean is time over
 * samples. A percentile is no such ratio, but one shows whether it moved: the share of samples
 * above the percentile of both sides together. Samples in the bucket of that percentile count half,
 * so that times that are all the same can be distinguished as well.
 */

#include <ctype.h>

#include "kvmft/diff.h"

/*
 * Which change comes first.
 *
 * Everything that follows from one thing is a group: an exit's rate, its times, where they went.
 * Groups are ordered by their effect in seconds per second, since a tiny thing that doubled matters
 * less than one that costs half a CPU. Causes come before their effects: exits, and time stolen by
 * others, before the time that is left to guests, and that before latencies. What has no measurable
 * effect comes last.
 */

enum place {
	PLACE_CAUSE, PLACE_TIME, PLACE_LATENCY, PLACE_SMALL, PLACE_NOISE,
};

/* A row's place, found before the rows are sorted. */
struct ranked {
	struct diff_row row;
	enum place place;
	double effect; /* of the group */
	double weight; /* in the group */
	bool shares;   /* the change in the group's total time is beyond noise */
};

/* Twice the rate is twice the CPU time: of equal effects the simplest measure leads. */
static double row_weight(const struct diff_row *r)
{
	if (r->measure == DIFF_RATE)
		return 1.3 * r->effect;
	return r->measure == DIFF_MEAN ? 1.2 * r->effect : r->effect;
}

static enum place row_place(const struct ranked *k)
{
	const struct diff_row *r = &k->row;

	if (!r->beyond)
		return PLACE_NOISE;
	if (k->effect < DIFF_SHARE_ERROR)
		return PLACE_SMALL;
	if (r->kind == DIFF_TIME)
		return PLACE_TIME;
	if (r->kind == DIFF_EXITS || (k->shares && !strcmp(r->group, "sched")))
		return PLACE_CAUSE;
	return PLACE_LATENCY;
}

/* Finds the lead of each group. */
static void ranked_lead(struct ranked *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ranked *first = &v[i];

		for (size_t k = 0; k < n; k++) {
			if (!v[k].row.beyond || v[k].row.kind != v[i].row.kind ||
			    strcmp(v[k].row.group, v[i].row.group))
				continue;
			v[i].shares |= v[k].row.measure == DIFF_SHARE;
			if (!first->row.beyond || v[k].weight > first->weight ||
			    (!(v[k].weight < first->weight) &&
			     v[k].row.measure < first->row.measure))
				first = &v[k];
		}
		v[i].effect = first->row.effect;
		v[i].row.lead = first == &v[i] && v[i].row.beyond;
	}
}

static int by_place(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	int d = ORDER(x->place, y->place);

	if (!d && x->place == PLACE_NOISE) {
		d = ORDER(x->row.chance, y->row.chance);
	} else if (!d) {
		d = ORDER(y->effect, x->effect) ?: strcmp(x->row.group, y->row.group)
			?: ORDER(y->row.lead, x->row.lead);
	}
	if (!d && x->row.kind == DIFF_TIME)
		d = ORDER(y->row.effect, x->row.effect);
	return d ?: strcmp(x->row.name, y->row.name) ?: ORDER(x->row.measure, y->row.measure);
}

void diff_order(struct diff *d)
{
	_cleanup_free_ struct ranked *v = xcalloc(d->n + 1, sizeof(*v));

	for (size_t i = 0; i < d->n; i++) {
		v[i].row = d->row[i];
		v[i].weight = row_weight(&d->row[i]);
	}
	ranked_lead(v, d->n);
	for (size_t i = 0; i < d->n; i++)
		v[i].place = row_place(&v[i]);
	array_sort(v, d->n, by_place);
	for (size_t i = 0; i < d->n; i++)
		d->row[i] = v[i].row;
}

#define FEW	 10  /* samples of both sides: fewer cannot be compared */
#define FEW_TAIL 200 /* of either, for p99 */

const char *const diff_kinds[] = { "exits", "time", "latency" };
const char *const diff_measures[] = {
	"rate",	  "per_guest", "per_op",  "mean",   "p50",     "p99",	    "share",
	"kernel", "user",      "polling", "asleep", "waiting", "preempted",
};

static const struct {
	enum report_part part;
	const char *name;
} parts[] = {
	{ PART_KERNEL, "exits: kernel" },    { PART_USER, "exits: user space" },
	{ PART_POLL, "exits: polling" },     { PART_BLOCKED, "exits: asleep" },
	{ PART_RUNNABLE, "exits: waiting" }, { PART_PREEMPTED, "exits: preempted" },
};

/* A side of a row, with its values in it. */
struct values {
	double num[DIFF_SLICES], den[DIFF_SLICES];
};

struct build {
	struct diff *d;
	struct boot_row *row; /* beside d->row */
	size_t row_cap;
	struct values **values; /* two to a row */
	size_t nvalues, values_cap;
};

/* Adds a row: its values are to be filled in. */
static struct values *row_new(struct build *b, enum diff_kind kind, enum diff_measure m,
			      const char *name, const char *group)
{
	struct diff *d = b->d;
	struct diff_row *r = xarray_grow(&d->row, d->n, &d->row_cap, sizeof(*r));
	struct boot_row *t = xarray_grow(&b->row, d->n, &b->row_cap, sizeof(*t));
	struct values **slot = xarray_grow(&b->values, b->nvalues, &b->values_cap, sizeof(*slot));
	struct values *v = *slot = xcalloc(2, sizeof(*v));

	b->nvalues++;
	*r = (struct diff_row){ .kind = kind, .measure = m, .group = group };
	snprintf(r->name, sizeof(r->name), "%s", name);
	*t = (struct boot_row){ .error = 0 };
	for (int s = 0; s < 2; s++)
		t->side[s] = (struct boot_side){ .num = v[s].num, .den = v[s].den };
	d->n++;
	return v;
}

static double values_sum(const double *v, size_t n)
{
	double all = 0;

	for (size_t i = 0; i < n; i++)
		all += v[i];
	return all;
}

/* The last row made has its values. */
static void row_ready(struct build *b, const struct diff_set *set[2], struct values *v,
		      double least)
{
	struct boot_row *t = &b->row[b->d->n - 1];

	for (int s = 0; s < 2; s++) {
		double den = values_sum(v[s].den, set[s]->n), num = values_sum(v[s].num, set[s]->n);

		t->side[s].n = set[s]->n;
		t->side[s].least = den > 0 ? 1 / den : 0;
		if (b->d->row[b->d->n - 1].measure == DIFF_MEAN)
			t->side[s].least = den > 0 ? num / den / den : 0;
		t->side[s].least = MAX(t->side[s].least, least);
		b->d->row[b->d->n - 1].value[s] = den > 0 ? num / den : 0;
	}
}

/* ---- what a change costs ---- */

/* Of a key on either side: sleep costs nothing, an exit a microsecond, a halt two switches. */
struct cost {
	double rate[2], busy[2]; /* per second; CPUs */
	double each;		 /* seconds of one */
	bool sleeps;		 /* most of its time is spent off the CPU */
};

#define LEAST_EACH 1e-6
#define HALT_EACH  1e-5

static const char *group_of(const struct diff_key *k)
{
	return k->kind == DIFF_LATENCY && k->group ? k->group : k->name;
}

static void cost_of(struct cost *c, const struct build *b, const struct diff_set *set[2],
		    const struct diff_key *const k[2])
{
	double time = 0, asleep = 0;

	*c = (struct cost){ .each = LEAST_EACH };
	for (int s = 0; s < 2; s++) {
		double seconds = values_sum(set[s]->seconds, set[s]->n), t = 0, a = 0;

		for (size_t i = 0; k[s] && i < set[s]->n; i++) {
			const struct diff_cell *cell = k[s]->slice[i];

			c->rate[s] += cell ? (double)cell->n : 0;
			t += cell ? cell->time / 1e9 : 0;
			a += cell ? cell->part[PART_BLOCKED] / 1e9 : 0;
		}
		if (k[s] && k[s]->halts && !b->d->side[s].parts) {
			a = t;
			c->each = HALT_EACH;
		}
		c->rate[s] /= seconds > 0 ? seconds : 1;
		c->busy[s] = seconds > 0 ? (t - a) / seconds : 0;
		time += t;
		asleep += a;
	}
	c->sleeps = asleep > time / 2;
	if (c->rate[0] + c->rate[1] > 0)
		c->each = MAX((c->busy[0] + c->busy[1]) / (c->rate[0] + c->rate[1]), c->each);
}

static double change_size(double v)
{
	return v < 0 ? -v : v;
}

static double cost_longer(const struct cost *c)
{
	if (!(c->rate[0] > 0) || !(c->rate[1] > 0))
		return 0;
	return change_size(c->busy[1] / c->rate[1] - c->busy[0] / c->rate[0]) *
	       (c->rate[0] + c->rate[1]) / 2;
}

/* This row's change as time, all else equal. Percentiles move samples; longer sleeps are fewer. */
static void row_effect(struct diff_row *r, const struct cost *c)
{
	double change = change_size(r->value[1] - r->value[0]),
	       rate = (c->rate[0] + c->rate[1]) / 2,
	       often = change_size(c->rate[1] - c->rate[0]) * c->each / 2;

	switch ((int)r->measure) {
	case DIFF_RATE: r->effect = change * c->each; break;
	case DIFF_PER_GUEST:
	case DIFF_PER_OP: r->effect = often; break;
	case DIFF_MEAN: r->effect = c->sleeps ? often : cost_longer(c); break;
	case DIFF_P50:
	case DIFF_P99:
		r->effect = change / 1e9 * rate * (r->measure == DIFF_P50 ? 0.5 : 0.01);
		if (c->sleeps)
			r->effect = r->measure == DIFF_P50 ? often : 0;
		break;
	case DIFF_SHARE: r->effect = change_size(c->busy[1] - c->busy[0]); break;
	case DIFF_PART_OF(PART_BLOCKED): break;
	default: r->effect = change;
	}
	/* Fewer but longer: the same stolen time; as long as ever: caused by more wake-ups. */
	if (!strcmp(r->group, "sched"))
		r->effect =
			MIN(r->effect, MIN(change_size(c->busy[1] - c->busy[0]), cost_longer(c)));
}

/* ---- percentiles ---- */

static double share_to(const struct loghist *h, size_t bucket)
{
	uint64_t n = 0;

	for (size_t i = 0; i < (bucket + 1) * 4; i++)
		n += loghist_count(h, i);
	return h->n ? (double)n / (double)h->n : 0;
}

/* part: how many of the bucket itself count. */
static double bucket_above(const struct diff_cell *c, size_t bucket, double part)
{
	double n = c->count[bucket] * part;

	for (size_t i = bucket + 1; i < DIFF_BUCKETS; i++)
		n += c->count[i];
	return n;
}

/* Times of a text may be off by that, ns. */
static double grain_of(const struct diff *d)
{
	return (double)MAX(d->side[0].grain, d->side[1].grain);
}

static void percentile_row(struct build *b, const struct diff_set *set[2],
		      const struct diff_key *const k[2], enum diff_measure m)
{
	unsigned int percent = m == DIFF_P50 ? 50 : 99;
	size_t bucket = 0;
	struct values *v = row_new(b, k[0]->kind, m, k[0]->name, group_of(k[0]));
	struct diff_row *r = &b->d->row[b->d->n - 1];
	const double grain = grain_of(b->d);
	while (bucket < DIFF_BUCKETS - 1 &&
	       share_to(k[0]->times, bucket) + share_to(k[1]->times, bucket) < percent / 50.0)
		bucket++;

	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < set[s]->n; i++) {
			const struct diff_cell *c = k[s]->slice[i];

			v[s].num[i] = c ? bucket_above(c, bucket, 0.5) : 0;
			v[s].den[i] = c ? (double)c->timed : 0;
		}
	row_ready(b, set, v, 0);
	for (int s = 0; s < 2; s++)
		r->value[s] = (double)loghist_percentile(k[s]->times, percent, 100);
	if (grain > 0 && r->value[0] - r->value[1] <= grain && r->value[1] - r->value[0] <= grain)
		for (int s = 0; s < 2; s++)
			b->row[b->d->n - 1].side[s].least = 1;
}

/* ---- rows of a key ---- */

static void cell_rate(struct build *b, const struct diff_set *set[2],
		      const struct diff_key *const k[2], enum diff_measure m)
{
	const struct diff_key *any = k[0] ? k[0] : k[1];
	struct values *v = row_new(b, any->kind, m, any->name, group_of(any));

	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < set[s]->n; i++) {
			const struct diff_cell *c = k[s] ? k[s]->slice[i] : NULL;

			v[s].num[i] = !c		? 0
				      : m == DIFF_SHARE ? c->time
				      : m >= DIFF_PART	? c->part[m - DIFF_PART]
							: (double)c->n;
			v[s].den[i] = m >= DIFF_SHARE	    ? set[s]->ns[i]
				      : m == DIFF_PER_GUEST ? set[s]->guest[i] / 1e9
				      : m == DIFF_PER_OP    ? set[s]->ops[i]
							    : set[s]->seconds[i];
		}
	row_ready(b, set, v, m >= DIFF_SHARE ? DIFF_SHARE_ERROR : 0);
}

static void cell_mean(struct build *b, const struct diff_set *set[2],
		      const struct diff_key *const k[2])
{
	struct values *v = row_new(b, k[0]->kind, DIFF_MEAN, k[0]->name, group_of(k[0]));

	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < set[s]->n; i++) {
			v[s].num[i] = k[s]->slice[i] ? k[s]->slice[i]->time : 0;
			v[s].den[i] = k[s]->slice[i] ? (double)k[s]->slice[i]->timed : 0;
		}
	row_ready(b, set, v, grain_of(b->d));
}

/* How long a reason took in all, and in which of the parts, if there are any. */
static void share_rows(struct build *b, const struct diff_set *set[2],
		      const struct diff_key *const k[2])
{
	double part[REPORT_PARTS] = { 0 }, time = 0;

	for (int s = 0; s < 2; s++)
		for (size_t i = 0; k[s] && i < set[s]->n; i++) {
			const struct diff_cell *c = k[s]->slice[i];

			time += c ? c->time / (double)set[s]->length : 0;
			for (int p = 0; c && p < REPORT_PARTS; p++)
				part[p] += c->part[p] / (double)set[s]->length;
		}
	if (time < DIFF_SHARE_ERROR)
		return;
	cell_rate(b, set, k, DIFF_SHARE);
	if (!b->d->side[0].parts || !b->d->side[1].parts || part[PART_KERNEL] > 0.9 * time)
		return;
	for (int p = 0; p < REPORT_PARTS; p++)
		if (part[p] >= DIFF_SHARE_ERROR)
			cell_rate(b, set, k, DIFF_PART_OF(p));
}

static void key_rows(struct build *b, const struct diff_set *set[2],
		    const struct diff_key *const k[2])
{
	const struct diff_key *any = k[0] ? k[0] : k[1];
	uint64_t n[2] = { k[0] ? k[0]->times->n : 0, k[1] ? k[1]->times->n : 0 };
	uint64_t timed = MIN(n[0], n[1]);
	size_t first = b->d->n;
	struct cost c;

	if (any->kind == DIFF_LATENCY &&
	    (!b->d->side[0].answers[any->lat] || !b->d->side[1].answers[any->lat]))
		return;
	if ((k[0] ? k[0]->n : 0) + (k[1] ? k[1]->n : 0) < FEW) {
		b->d->rare++;
		return;
	}
	if (any->events)
		cell_rate(b, set, k, DIFF_RATE);
	if (any->kind == DIFF_EXITS && values_sum(set[0]->guest, set[0]->n) > 0 &&
	    values_sum(set[1]->guest, set[1]->n) > 0)
		cell_rate(b, set, k, DIFF_PER_GUEST);
	if (any->kind == DIFF_EXITS && b->d->side[0].ops && b->d->side[1].ops)
		cell_rate(b, set, k, DIFF_PER_OP);
	if (any->kind == DIFF_LATENCY && !strcmp(any->name, "sched total"))
		cell_rate(b, set, k, DIFF_SHARE);
	if (any->kind == DIFF_EXITS)
		share_rows(b, set, k);
	if (timed >= FEW)
		cell_mean(b, set, k);
	if (timed >= FEW)
		percentile_row(b, set, k, DIFF_P50);
	if (timed >= FEW_TAIL)
		percentile_row(b, set, k, DIFF_P99);
	cost_of(&c, b, set, k);
	for (size_t i = first; i < b->d->n; i++)
		row_effect(&b->d->row[i], &c);
}

static const struct diff_key *row_find(const struct diff_set *s, const struct diff_key *k)
{
	for (size_t i = 0; i < s->nkey; i++)
		if (!strcmp(s->key[i]->name, k->name))
			return s->key[i];
	return NULL;
}

/* Keys are matched by their names: the same reason may have another number elsewhere. */
static void set_rows(struct build *b, const struct diff_set *x, const struct diff_set *y)
{
	const struct diff_set *set[2] = { x, y };

	for (size_t i = 0; i < x->nkey; i++)
		key_rows(b, set, (const struct diff_key *[2]){ x->key[i], row_find(y, x->key[i]) });
	for (size_t i = 0; i < y->nkey; i++)
		if (!row_find(x, y->key[i]))
			key_rows(b, set, (const struct diff_key *[2]){ NULL, y->key[i] });
}

static void row_share(struct build *b, const char *name, const double *of[2])
{
	const struct diff_set *set[2] = { &b->d->side[0].exits, &b->d->side[1].exits };
	struct diff_row *r;
	struct values *v;

	if (!(values_sum(of[0], set[0]->n) + values_sum(of[1], set[1]->n) > 0))
		return;
	v = row_new(b, DIFF_TIME, DIFF_SHARE, name, "time");
	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < set[s]->n; i++) {
			v[s].num[i] = of[s][i];
			v[s].den[i] = set[s]->ns[i];
		}
	row_ready(b, set, v, DIFF_SHARE_ERROR);
	r = &b->d->row[b->d->n - 1];
	r->effect = change_size(r->value[1] - r->value[0]);
}

/* ---- gates ---- */

static const struct diff_key *gate_key(const struct diff_set *s, const struct diff_gate *g)
{
	size_t n = strlen(g->name);

	for (size_t i = 0; i < s->nkey; i++)
		if (!strcasecmp(s->key[i]->name, g->name) ||
		    (g->kind == DIFF_LATENCY && !strncasecmp(s->key[i]->name, g->name, n) &&
		     !strcmp(s->key[i]->name + n, " total")))
			return s->key[i];
	return NULL;
}

/*
 * As many of the samples after are above a percentile of those before, moved by the limit, as of
 * those before above itself, if the limit is what changed. Of the bucket that it is in before as
 * many count as make that share right; where it is moved to, all of its bucket (hi), or none, and
 * the percentile is known to 1/64.
 */
static void gate_percentile(struct build *b, const struct diff_set *set[2],
			    const struct diff_key *const k[2], const struct diff_gate *g, bool hi)
{
	struct values *v = row_new(b, g->kind, g->measure, g->name, g->name);
	unsigned int percent = g->measure == DIFF_P50 ? 50 : 99;
	uint64_t ns = loghist_percentile(k[0]->times, percent, 100);
	double to = (double)ns * (1 + g->limit) * (hi ? 63 : 65) / 64;
	size_t bucket[2] = { loghist_index(ns) / 4, loghist_index((uint64_t)to) / 4 };
	struct diff_cell all = { .n = 0 };
	struct diff_row *r;
	double part[2] = { 0, hi };

	for (size_t i = 0; i < LOGHIST_BUCKETS; i++)
		all.count[i / 4] += (uint32_t)MIN(loghist_count(k[0]->times, i), UINT64_C(1) << 29);
	if (all.count[bucket[0]])
		part[0] = ((double)k[0]->times->n * (100 - percent) / 100 -
			   bucket_above(&all, bucket[0], 0)) /
			  all.count[bucket[0]];
	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < set[s]->n; i++) {
			const struct diff_cell *c = k[s]->slice[i];

			v[s].num[i] = c ? bucket_above(c, bucket[s], part[s]) : 0;
			v[s].den[i] = c ? (double)c->timed : 0;
		}
	row_ready(b, set, v, 0);
	r = &b->d->row[b->d->n - 1];
	for (int s = 0; s < 2; s++)
		r->value[s] = (double)loghist_percentile(k[s]->times, percent, 100);
	if (change_size(r->value[1] - r->value[0] * (1 + g->limit)) <= grain_of(b->d))
		for (int s = 0; s < 2; s++)
			b->row[b->d->n - 1].side[s].least = 1;
}

/* Its row as compare() makes it, but with what was before moved by the limit. */
static const char *gate_rows(struct build *b, const struct diff_gate *g)
{
	struct diff_side *side = b->d->side;
	bool latency = g->kind == DIFF_LATENCY;
	const struct diff_set *set[2] = { latency ? &side[0].latency : &side[0].exits,
					  latency ? &side[1].latency : &side[1].exits };
	const struct diff_key *k[2] = { gate_key(set[0], g), gate_key(set[1], g) };
	uint64_t timed = k[0] && k[1] ? MIN(k[0]->times->n, k[1]->times->n) : 0;
	const struct diff_key *any = k[0] ?: k[1];
	const double *time[2] = { NULL, NULL };
	size_t n = b->nvalues;

	for (int s = 0; s < 2 && !any && g->measure == DIFF_SHARE; s++) {
		if (!strcasecmp(g->name, "guest"))
			time[s] = set[s]->guest;
		for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
			if (!strcasecmp(g->name, parts[i].name))
				time[s] = set[s]->part[parts[i].part];
	}
	if (!any && !time[0])
		return "neither recording has such a row (--all lists what they have)";
	if (latency && any && !(side[0].answers[any->lat] && side[1].answers[any->lat]))
		return "one of the recordings lacks events that it needs";
	if (g->measure == DIFF_PER_GUEST &&
	    !(values_sum(set[0]->guest, set[0]->n) > 0 && values_sum(set[1]->guest, set[1]->n) > 0))
		return "the time of the guest is not known";
	if ((g->measure > DIFF_SHARE || (time[0] && strcasecmp(g->name, "guest"))) &&
	    !(side[0].parts && side[1].parts))
		return "where the time went is not known (kvmft report --split says why)";
	if (any && ((k[0] ? k[0]->n : 0) + (k[1] ? k[1]->n : 0) < FEW ||
		    (g->measure >= DIFF_MEAN && g->measure < DIFF_SHARE &&
		     timed < (g->measure == DIFF_P99 ? FEW_TAIL : FEW))))
		return "too few samples";
	if (g->measure == DIFF_P50 || g->measure == DIFF_P99) {
		gate_percentile(b, set, k, g, false);
		gate_percentile(b, set, k, g, true);
		return NULL;
	}
	for (int hi = 0; hi < 2; hi++)
		if (time[0])
			row_share(b, g->name, time);
		else if (g->measure == DIFF_MEAN)
			cell_mean(b, set, k);
		else
			cell_rate(b, set, k, g->measure);
	if (n == b->nvalues)
		return "neither recording has any";
	for (; n < b->nvalues; n++)
		for (size_t i = 0; i < set[0]->n; i++)
			b->values[n][0].num[i] *= 1 + g->limit;
	return NULL;
}

/* By themselves: the other rows do not make them less sure. */
static void gates_judge(struct diff *d)
{
	struct diff only = { .side = { d->side[0], d->side[1] } };
	struct build b = { .d = &only };

	for (size_t i = 0; i < d->ngate; i++) {
		struct diff_gate *g = &d->gate[i];

		if (d->misaligned && (g->kind == DIFF_LATENCY || g->measure == DIFF_PER_OP))
			g->why = "a guest is misaligned (see kvmft verify)";
		else
			g->why = d->lossy ? "events were lost" : gate_rows(&b, g);
	}
	boot_test(b.row, only.n, &d->boot);
	for (size_t i = 0, r = 0; i < d->ngate; i++) {
		struct diff_gate *g = &d->gate[i];
		bool more, fewer;

		g->verdict = DIFF_CANNOT_TELL;
		if (g->why)
			continue;
		more = b.row[r].surely > 0 && b.row[r].value[1] > b.row[r].value[0];
		fewer = b.row[r + 1].surely > 0 && b.row[r + 1].value[1] < b.row[r + 1].value[0];
		if (more || fewer)
			g->verdict = more != g->less ? DIFF_FAIL : DIFF_PASS;
		g->chance = MIN(b.row[r].chance, b.row[r + 1].chance);
		for (int s = 0; s < 2; s++)
			g->value[s] = only.row[r].value[s];
		if (g->measure != DIFF_P50 && g->measure != DIFF_P99 && g->value[0] > 0)
			g->error = b.row[r].critical / g->value[0];
		r += 2;
	}
	for (size_t i = 0; i < b.nvalues; i++)
		free(b.values[i]);
	free(b.values);
	free(b.row);
	free(only.row);
}

/* ---- the answer ---- */

COMPARE_BY(ascending, double, );

/* The noise of a sum falls with the root of its length. */
static void find_smallest(struct diff *d)
{
	_cleanup_free_ double *v = xcalloc(d->n + 1, sizeof(*v));
	double shorter, more;
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		if (d->row[i].smallest > 0)
			v[n++] = d->row[i].smallest;
	if (!n)
		return;
	array_sort(v, n, ascending);
	d->smallest = v[n / 2];
	more = d->least > 0 ? d->smallest / d->least : 0;
	shorter = (double)MIN(d->side[0].exits.length, d->side[1].exits.length);
	if (more > 1)
		d->enough_ns = (uint64_t)MIN(more * more * shorter, 1e18);
}

bool diff_can_tell(const struct diff *d)
{
	return d->side[0].exits.n >= DIFF_ENOUGH && d->side[1].exits.n >= DIFF_ENOUGH;
}

void diff_compare(struct diff *d)
{
	struct build b = { .d = d };
	const struct diff_set *x, *y;

	set_rows(&b, &d->side[0].exits, &d->side[1].exits);
	x = &b.d->side[0].exits;
	y = &b.d->side[1].exits;
	row_share(&b, "guest", (const double *[2]){ x->guest, y->guest });
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (b.d->side[0].parts && b.d->side[1].parts)
			row_share(&b, parts[i].name,
				  (const double *[2]){ x->part[parts[i].part],
						       y->part[parts[i].part] });
	if (d->side[0].latency.n && d->side[1].latency.n)
		set_rows(&b, &d->side[0].latency, &d->side[1].latency);
	gates_judge(d);
	boot_test(b.row, d->n, &d->boot);
	for (size_t i = 0; i < d->n; i++) {
		struct diff_row *row = &d->row[i];
		const struct boot_row *t = &b.row[i];
		double diff = change_size(row->value[1] - row->value[0]);
		double tested = change_size(t->value[1] - t->value[0]);
		double both = row->value[0] + row->value[1];
		double less = MIN(row->value[0], row->value[1]);

		/* What is beyond noise, as a share of both sides. */
		row->chance = t->chance;
		row->differs = t->surely > 0;
		if (row->measure != DIFF_P50 && row->measure != DIFF_P99 && row->value[0] > 0)
			row->smallest = t->critical / row->value[0];
		if ((both > 0) && (tested > 0)) {
			row->surely = diff * (t->surely / tested) / both;
			row->beyond = row->surely > 0 && row->surely * both > d->least * less;
		}
		d->differ += d->row[i].differs;
		d->beyond += d->row[i].beyond;
	}
	/* A rate per second of either kind changed alike: the second one adds nothing. */
	for (size_t i = 0; i < d->n; i++) {
		struct diff_row *r = &d->row[i];

		for (size_t k = 0; k < d->n && r->differs && r->measure == DIFF_PER_GUEST; k++)
			if (d->row[k].measure == DIFF_RATE && d->row[k].differs &&
			    !strcmp(d->row[k].name, r->name))
				r->implied = (d->row[k].value[1] > d->row[k].value[0]) ==
					     (r->value[1] > r->value[0]);
	}
	find_smallest(d);
	diff_order(d);
	for (size_t i = 0; i < b.nvalues; i++)
		free(b.values[i]);
	free(b.values);
	free(b.row);
}

void diff_free(struct diff *d)
{
	for (size_t i = 0; i < d->nfact; i++) {
		free(d->fact[i].value[0]);
		free(d->fact[i].value[1]);
	}
	free(d->fact);
	free(d->row);
	diff_side_free(&d->side[0]);
	diff_side_free(&d->side[1]);
}

/* [+|-]N[.N] % and nothing else: a share. */
static bool percent_parse(const char *s, double *share)
{
	double v = 0, place = 1, sign = 1;

	s += strspn(s, " \t");
	if (*s == '+' || *s == '-')
		sign = *s++ == '-' ? -1 : 1;
	if (!isdigit((unsigned char)*s))
		return false;
	while (isdigit((unsigned char)*s))
		v = v * 10 + (*s++ - '0');
	if (*s == '.')
		while (isdigit((unsigned char)*++s))
			v += (*s - '0') * (place /= 10);
	s += strspn(s, " \t");
	*share = sign * v / 100;
	return *s == '%' && !s[1 + strspn(s + 1, " \t")] && v <= 1e6 && *share > -1;
}

int diff_gate_parse(struct diff_gate *g, const char *text, struct kvmft_err *err)
{
	static const struct {
		const char *end;
		enum diff_measure measure;
	} rates[] = { { "/s", DIFF_RATE }, { "/guest-s", DIFF_PER_GUEST }, { "/op", DIFF_PER_OP } };
	const char *op = text + strcspn(text, "<>");
	size_t n = (size_t)(op - text), m;
	const char *name = text;
	bool found = false;

	*g = (struct diff_gate){ .text = text, .less = *op == '<' };
	if (!*op || !percent_parse(op + 1, &g->limit))
		return err_usage(err, "'%s': a limit is WHAT > PERCENT %% or WHAT < PERCENT %%, "
				 "such as 'exits/s > +5 %%'", text);
	if (str_starts(text, "latency "))
		g->kind = DIFF_LATENCY, name += strlen("latency ");
	while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--;
	n -= MIN(n, (size_t)(name - text));
	for (size_t i = 0; i < ARRAY_SIZE(rates) && !found; i++) {
		m = strlen(rates[i].end);
		found = n > m && !strncmp(name + n - m, rates[i].end, m);
		if (found)
			g->measure = rates[i].measure, n -= m;
	}
	for (unsigned int i = DIFF_MEAN; i < DIFF_MEASURES && !found; i++) {
		m = strlen(diff_measures[i]);
		found = n > m && name[n - m - 1] == ' ' &&
			!strncmp(name + n - m, diff_measures[i], m);
		if (found)
			g->measure = (enum diff_measure)i, n -= m + 1;
	}
	if (!found || !n || n >= sizeof(g->name))
		return err_usage(err, "'%s': before the limit stands a row of --all with /s, /guest-s, /op, "
				 "mean, p50, p99 or share", text);
	memcpy(g->name, name, n);
	return 0;
}
