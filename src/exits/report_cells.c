/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report_cells.c: samples by key, in memory that is bounded for all keys together.
 *
 * Addresses of a hostile, or just a large, guest may be any number of keys. When the budget is used
 * up, the samples of further keys go to one cell, so that sums stay right.
 */
#include "report_priv.h"

#define MAP_SLOT  48 /* bytes that a key costs in struct u64map, at its mean load */
#define HEAP_HEAD 16 /* ... and what an allocation costs on top */
#define CACHE     32 /* slots; a power of 2 */
#define CACHE_FEW 8
#define LIST_MAX  24 /* cells of a vCPU found without a map: usually all that it has */

static size_t cell_size(const struct cell_budget *b)
{
	return sizeof(struct cell) + (b->part ? REPORT_PARTS * sizeof(uint64_t) : 0) +
	       (b->hist ? sizeof(struct cell_hist) : 0);
}

struct cells *cells_new(bool few)
{
	uint32_t slots = few ? CACHE_FEW : CACHE;
	struct cells *c = calloc(1, sizeof(*c) + slots * sizeof(c->cache[0]));

	if (c)
		c->mask = slots - 1;
	return c;
}

struct cell *cell_find(const struct cells *c, uint64_t key)
{
	struct cell *cell = c->first;
	uint64_t at;

	if (c->n > LIST_MAX)
		return u64map_get(&c->by_key, key, &at) ? (struct cell *)(uintptr_t)at : NULL;
	while (cell && cell->key != key)
		cell = cell->next;
	return cell;
}

/* Adds a cell to the list; once there are too many for that, moves all of them to the map. */
static int cell_add(struct cells *c, struct cell *cell)
{
	int ret = 0;

	for (struct cell *i = c->n == LIST_MAX ? c->first : NULL; i && !ret; i = i->next)
		ret = u64map_put(&c->by_key, i->key, (uint64_t)(uintptr_t)i);
	if (!ret && c->n >= LIST_MAX)
		ret = u64map_put(&c->by_key, cell->key, (uint64_t)(uintptr_t)cell);
	if (ret)
		return ret;
	cell->next = c->first;
	c->first = cell;
	c->n++;
	return 0;
}

/* What one more cell takes. */
static size_t cell_cost(const struct cells *c, size_t size)
{
	size_t mapped = c->n < LIST_MAX ? 0 : c->n == LIST_MAX ? LIST_MAX + 1 : 1;

	return size + HEAP_HEAD + mapped * MAP_SLOT;
}

static struct cell *cell_new(struct cells *c, struct cell_budget *b, uint64_t key, bool others)
{
	size_t size = cell_size(b), cost = cell_cost(c, size);
	struct cell *cell;

	if (!others && b->used + cost > b->limit)
		return NULL;
	cell = calloc(1, size);
	if (!cell)
		return NULL;
	b->used += cost;
	cell->key = key;
	cell->min = UINT64_MAX;
	if (b->part)
		cell->part = (uint64_t *)(cell + 1);
	if (b->hist)
		cell->hist = (struct cell_hist *)((char *)(cell + 1) +
						  (b->part ? REPORT_PARTS * sizeof(uint64_t) : 0));
	if (cell_add(c, cell)) {
		free(cell);
		return NULL;
	}
	return cell;
}

struct cell *cell_slow(struct cells *c, struct cell_budget *b, uint64_t key)
{
	struct cell *cell = cell_find(c, key);

	if (!cell && !c->closed)
		cell = cell_new(c, b, key, false);
	if (cell) {
		c->cache[cell_slot(c, key)] = cell;
		return cell;
	}
	b->crowded += !c->closed;
	cell = cell_find(c, CELL_OTHERS);
	return cell ?: cell_new(c, b, CELL_OTHERS, true);
}

/* Another row of a histogram; false if there is no memory for it. */
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
		b->no_hist++;
		return;
	}
	count = &c->hist->row[c->hist->at[octave] - 1][i % LOGHIST_STEPS];
	if (*count != UINT32_MAX)
		++*count;
	else
		b->no_hist++;
}

void cell_hist_add(const struct cell *c, struct loghist *h)
{
	for (unsigned int o = 0; c->hist && o < OCTAVES; o++)
		for (unsigned int i = 0; c->hist->at[o] && i < LOGHIST_STEPS; i++)
			h->count[o * LOGHIST_STEPS + i] += c->hist->row[c->hist->at[o] - 1][i];
}

void cell_clear(struct cell *c)
{
	c->timed = c->untimed = c->max = 0;
	c->sum = c->squares = 0;
	c->min = UINT64_MAX;
	if (c->hist && c->hist->n)
		memset(c->hist->row, 0, c->hist->n * sizeof(*c->hist->row));
	if (c->part)
		memset(c->part, 0, REPORT_PARTS * sizeof(*c->part));
}

void cells_free(struct cells *c)
{
	struct cell *cell, *next;

	if (!c)
		return;
	for (cell = c->first; cell; cell = next) {
		next = cell->next;
		if (cell->hist)
			free(cell->hist->row);
		free(cell);
	}
	u64map_free(&c->by_key);
	free(c);
}
