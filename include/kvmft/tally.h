/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tally.h: how often each of many texts occurred, in bounded memory. */
#pragma once

#include "kvmft/util.h"

#define TALLY_MEMORY (128u << 20) /* of texts, bytes */

struct tally_row {
	uint64_t n;
	char *text;
};

struct tally { /* zeroed is empty */
	struct tally_row *row;
	size_t n, cap, bytes;
	struct u64map by_hash;
	struct hash_key key;
	bool keyed;
	uint64_t others; /* occurrences of texts that did not fit into memory */
};

/* n more of a text, of len bytes without a NUL. */
void tally_add(struct tally *t, const char *text, size_t len, uint64_t n);
/* Rows by text, or by count, largest first; nothing can be added afterwards. */
void tally_sort(struct tally *t, bool count);
void tally_free(struct tally *t);
