/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tally.c: texts and their counts. A keyed hash of 64 bits stands for a text: see hash_bytes(). */
#include "kvmft/tally.h"

void tally_add(struct tally *t, const char *text, size_t len, uint64_t n)
{
	uint64_t hash, at;
	struct tally_row row;

	if (!t->keyed)
		hash_key_init(&t->key);
	t->keyed = true;
	hash = hash_bytes(&t->key, text, len);
	if (u64map_get(&t->by_hash, hash, &at)) {
		t->row[at].n += n;
	} else if (len > TALLY_MEMORY - MIN(t->bytes, (size_t)TALLY_MEMORY)) {
		t->others += n;
	} else {
		row = (struct tally_row){ .n = n, .text = xstrndup(text, len) };
		xu64map_put(&t->by_hash, hash, t->n);
		xarray_add(&t->row, &t->n, &t->cap, &row, sizeof(row));
		t->bytes += len;
	}
}

COMPARE(by_text, struct tally_row, strcmp(x->text, y->text));

COMPARE(by_count, struct tally_row, ORDER(y->n, x->n) ?: by_text(x, y));

void tally_sort(struct tally *t, bool count)
{
	u64map_free(&t->by_hash);
	array_sort(t->row, t->n, count ? by_count : by_text);
}

void tally_free(struct tally *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->row[i].text);
	free(t->row);
	u64map_free(&t->by_hash);
	*t = (struct tally){ 0 };
}
