/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * by_rip.c: exits by the guest code in which they happened, and by reason.
 *
 * The key of such a sample is the number of a row: a place and a reason. A place is a function, by
 * its name, so that those of several VMs are counted together; all of user space; or an address
 * without a known symbol.
 */
#include "report_priv.h"
#include "kvmft/ksyms.h"

#define ROWS_MAX (1u << 16)
#define ROWS_VM	 1024u /* of each, whatever others take */

struct place {
	const char *name, *module; /* NULL: an address */
	uint64_t addr;
};

struct rip_row {
	uint32_t place;
	uint64_t reason; /* the class's key */
};

struct by_rip {
	struct hash_key key;
	struct u64map place_of; /* hash of what it is → index */
	struct u64map row_of;	/* hash of place and reason → index */
	struct place *place;
	struct rip_row *row;
	size_t nplace, place_cap, nrow, row_cap;
	struct u64map rows_of; /* VM + 1 → how many rows were made for it */
	bool least;	       /* that of the exit looked at has fewer than ROWS_VM */
	/* the last one: exits come in runs */
	const struct ksym *last;
	uint32_t last_place;
};

struct by_rip *by_rip_new(void)
{
	struct by_rip *b = xcalloc(1, sizeof(*b));

	hash_key_init(&b->key);
	return b;
}

void by_rip_free(struct by_rip *b)
{
	if (!b)
		return;
	u64map_free(&b->place_of);
	u64map_free(&b->row_of);
	u64map_free(&b->rows_of);
	free(b->place);
	free(b->row);
	free(b);
}

/* UINT32_MAX: there are too many. */
static uint32_t rip_place_add(struct by_rip *b, uint64_t hash, const struct place *p)
{
	uint64_t at;

	if (u64map_get(&b->place_of, hash, &at))
		return (uint32_t)at;
	if (b->nplace >= ROWS_MAX && !b->least)
		return UINT32_MAX;
	xarray_add(&b->place, &b->nplace, &b->place_cap, p, sizeof(*p));
	xu64map_put(&b->place_of, hash, b->nplace - 1);
	return (uint32_t)b->nplace - 1;
}

static uint32_t place_named(struct by_rip *b, const char *name, const char *module)
{
	uint64_t hash = hash_bytes(&b->key, name, strlen(name));

	hash = hash * 31 + hash_bytes(&b->key, module, strlen(module));
	return rip_place_add(b, hash, &(struct place){ .name = name, .module = module });
}

static uint32_t rip_place_of(struct by_rip *b, const struct ksyms *k, uint64_t rip)
{
	const struct ksym *s = k ? ksyms_find(k, rip) : NULL;

	if (!s && k && ksyms_is_user(rip))
		return place_named(b, "user", "");
	if (!s)
		return rip_place_add(b, hash_bytes(&b->key, &rip, sizeof(rip)),
				     &(struct place){ .addr = rip });
	if (s != b->last) {
		b->last_place = place_named(b, s->name, s->module);
		b->last = s;
	}
	return b->last_place;
}

uint64_t by_rip_key(struct by_rip *b, int64_t vm, const struct ksyms *k, uint64_t rip,
		    uint64_t reason)
{
	uint64_t *rows = xu64map_at(&b->rows_of, (uint64_t)(vm + 1)), both[2] = { 0, reason };
	struct rip_row row = { .reason = reason };
	uint64_t hash, at;

	b->least = *rows < ROWS_VM;
	both[0] = row.place = rip_place_of(b, k, rip);
	hash = hash_bytes(&b->key, both, sizeof(both));
	if (row.place == UINT32_MAX)
		return CELL_OTHERS;
	if (u64map_get(&b->row_of, hash, &at))
		return at;
	if (b->nrow >= ROWS_MAX && !b->least)
		return CELL_OTHERS;
	++*rows;
	xarray_add(&b->row, &b->nrow, &b->row_cap, &row, sizeof(row));
	xu64map_put(&b->row_of, hash, b->nrow - 1);
	return b->nrow - 1;
}

/* What the class said about more than the row: see MARK_MORE. */
#define MORE (1ull << 63)

uint64_t by_rip_reason(const struct by_rip *b, uint64_t key)
{
	uint64_t row = key & ~MORE;

	return row < b->nrow ? b->row[row].reason | (key & MORE) : 0;
}

void by_rip_place(const struct by_rip *b, uint64_t key, struct report_place *p)
{
	uint64_t row = key & ~MORE;
	const struct place *of = row < b->nrow ? &b->place[b->row[row].place] : NULL;

	*p = (struct report_place){ 0 };
	if (!of || key == CELL_OTHERS)
		return;
	p->function = of->name;
	p->module = of->module && *of->module ? of->module : NULL;
	p->has_addr = !of->name;
	p->addr = of->addr;
}
