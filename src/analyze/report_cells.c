/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_cells.c: samples by key, in memory that is bounded for all keys together.
 *
 * Addresses of a hostile or only a large guest may be any number of keys. When the budget is used
 * up, the samples of further keys go to one cell, so that sums stay right.
 */
#include "report_priv.h"

#include <string.h>

#define MAP_SLOT 48 /* bytes that a key costs in struct u64map, at its usual load */

static size_t cell_size(const struct cell_budget *b)
{
	return sizeof(struct cell) + (b->part ? REPORT_PARTS * sizeof(uint64_t) : 0) +
	       (b->hist ? sizeof(struct cell_hist) : 0);
}

static struct cell *cell_new(struct cells *c, struct cell_budget *b, uint64_t key, bool others)
{
	size_t size = cell_size(b);
	struct cell *cell;

	if (!others && b->used + size + MAP_SLOT > b->limit)
		return NULL;
	cell = calloc(1, size);
	if (!cell)
		return NULL;
	b->used += size + MAP_SLOT;
	cell->key = key;
	cell->min = UINT64_MAX;
	if (b->part)
		cell->part = (uint64_t *)(cell + 1);
	if (b->hist)
		cell->hist = (struct cell_hist *)((char *)(cell + 1) +
						  (b->part ? REPORT_PARTS * sizeof(uint64_t) : 0));
	if (u64map_put(&c->by_key, key, (uint64_t)(uintptr_t)cell)) {
		free(cell);
		return NULL;
	}
	cell->next = c->first;
	c->first = cell;
	return cell;
}

struct cell *cell_slow(struct cells *c, struct cell_budget *b, uint64_t key)
{
	struct cell *cell;
	uint64_t at;

	if (u64map_get(&c->by_key, key, &at)) {
		cell = (struct cell *)(uintptr_t)at;
		c->cache[cell_slot(key)] = cell;
		return cell;
	}
	cell = cell_new(c, b, key, false);
	if (cell) {
		c->cache[cell_slot(key)] = cell;
		return cell;
	}
	b->crowded++;
	if (u64map_get(&c->by_key, CELL_OTHERS, &at))
		return (struct cell *)(uintptr_t)at;
	return cell_new(c, b, CELL_OTHERS, true);
}

/* A further row of a histogram; false when there is no memory for it. */
static bool add_row(struct cell_hist *h, struct cell_budget *b, unsigned int octave)
{
	uint32_t (*row)[LOGHIST_STEPS];

	if (b->hist_used + sizeof(*row) > b->hist_limit)
		return false;
	row = realloc(h->row, (h->n + 1u) * sizeof(*row));
	if (!row)
		return false;
	b->hist_used += sizeof(*row);
	h->row = row;
	for (unsigned int i = 0; i < LOGHIST_STEPS; i++)
		row[h->n][i] = 0;
	h->at[octave] = ++h->n;
	return true;
}

void cell_time_hist(struct cell *c, struct cell_budget *b, uint64_t ticks)
{
	unsigned int i = loghist_index(ticks), octave = i / LOGHIST_STEPS;
	uint32_t *count;

	if (!c->hist->at[octave] && !add_row(c->hist, b, octave)) {
		b->crowded++;
		return;
	}
	count = &c->hist->row[c->hist->at[octave] - 1][i % LOGHIST_STEPS];
	*count += *count != UINT32_MAX;
}

void cell_hist_add(const struct cell *c, struct loghist *h)
{
	for (unsigned int o = 0; c->hist && o < OCTAVES; o++)
		for (unsigned int i = 0; c->hist->at[o] && i < LOGHIST_STEPS; i++)
			h->count[o * LOGHIST_STEPS + i] += c->hist->row[c->hist->at[o] - 1][i];
}

void cells_free(struct cells *c)
{
	struct cell *cell, *next;

	for (cell = c->first; cell; cell = next) {
		next = cell->next;
		if (cell->hist)
			free(cell->hist->row);
		free(cell);
	}
	u64map_free(&c->by_key);
	memset(c, 0, sizeof(*c));
}
