/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slices.c: sums of many things by slices of time.
 *
 * The length of a recording may be known only at its end. So slices begin short; when there are too
 * many, each pair is joined.
 */
#include "kvmft/diff.h"

#define OTHERS UINT64_MAX

static void cell_add(struct diff_cell *to, const struct diff_cell *from)
{
	to->n += from->n;
	to->timed += from->timed;
	to->time += from->time;
	for (size_t i = 0; i < REPORT_PARTS; i++)
		to->part[i] += from->part[i];
	for (size_t i = 0; i < DIFF_BUCKETS; i++)
		to->count[i] += from->count[i];
}

static void key_halve(struct diff_key *k)
{
	for (size_t i = 0; i < DIFF_SLICES; i += 2) {
		struct diff_cell *a = k->slice[i], *b = k->slice[i + 1];

		k->slice[i] = k->slice[i + 1] = NULL;
		if (a && b) {
			cell_add(a, b);
			free(b);
		}
		k->slice[i / 2] = a ?: b;
	}
}

static void halve(double v[DIFF_SLICES])
{
	for (size_t i = 0; i < DIFF_SLICES; i += 2) {
		double sum = v[i] + v[i + 1];

		v[i] = v[i + 1] = 0;
		v[i / 2] = sum;
	}
}

static void set_halve(struct diff_set *s)
{
	s->shift++;
	for (size_t i = 0; i < s->nkey; i++)
		key_halve(s->key[i]);
	halve(s->guest);
	for (int p = 0; p < REPORT_PARTS; p++)
		halve(s->part[p]);
}

size_t diff_set_slice(struct diff_set *s, uint64_t n)
{
	while (s->shift < 63 && n >> s->shift >= DIFF_SLICES)
		set_halve(s);
	return (size_t)MIN(n >> s->shift, (uint64_t)DIFF_SLICES - 1);
}

struct diff_key *diff_set_key(struct diff_set *s, uint64_t number, bool *is_new)
{
	struct diff_key **slot, *k;
	uint64_t at;

	*is_new = false;
	if (u64map_get(&s->at, number, &at))
		return s->key[at];
	if (s->nkey >= DIFF_KEYS && number != OTHERS)
		return diff_set_key(s, OTHERS, is_new);
	slot = array_grow(&s->key, s->nkey, &s->cap, sizeof(*slot));
	k = slot ? calloc(1, sizeof(*k)) : NULL;
	if (k)
		k->times = calloc(1, sizeof(*k->times));
	if (!k || !k->times || u64map_put(&s->at, number, s->nkey)) {
		free(k ? k->times : NULL);
		free(k);
		return NULL;
	}
	*slot = k;
	s->nkey++;
	*is_new = number != OTHERS;
	strcpy(k->name, "(others)");
	return k;
}

struct diff_cell *diff_key_cell(struct diff_key *k, size_t slice)
{
	if (!k->slice[slice])
		k->slice[slice] = calloc(1, sizeof(struct diff_cell));
	return k->slice[slice];
}

void diff_key_time(struct diff_key *k, struct diff_cell *c, uint64_t ns, uint32_t n)
{
	unsigned int i = loghist_index(ns);

	k->times->min = k->times->n ? MIN(k->times->min, ns) : ns;
	k->times->max = MAX(k->times->max, ns);
	k->times->n += n;
	k->times->count[i] += n;
	c->count[i / 4] += n;
}

void diff_set_end(struct diff_set *s, uint64_t length_ns)
{
	uint64_t last;

	(void)diff_set_slice(s, length_ns ? (length_ns - 1) / DIFF_SLICE : 0);
	s->length = length_ns;
	s->slice = (uint64_t)DIFF_SLICE << MIN(s->shift, 40u);
	s->n = length_ns ? (size_t)MIN((length_ns - 1) / s->slice + 1, (uint64_t)DIFF_SLICES) : 0;
	for (size_t i = 0; i < s->n; i++) {
		last = length_ns - MIN(length_ns, i * s->slice);
		s->ns[i] = (double)MIN(s->slice, last);
		s->seconds[i] = s->ns[i] / 1e9;
	}
}

void diff_set_free(struct diff_set *s)
{
	for (size_t i = 0; i < s->nkey; i++) {
		for (size_t k = 0; k < DIFF_SLICES; k++)
			free(s->key[i]->slice[k]);
		free(s->key[i]->times);
		free(s->key[i]);
	}
	free(s->key);
	u64map_free(&s->at);
}
