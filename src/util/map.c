/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * map.c: u64 to u64 map with open addressing and linear probing.
 *
 * Keys are addresses, PIDs and sequence numbers, all of which differ in few bits; they are mixed
 * (the finalizer of splitmix64, public domain, Vigna 2015) before the low bits choose the slot.
 * Twice, with the seed added before and between, so that colliding keys cannot be computed.
 */
#include "kvmft/util.h"

#include <sys/auxv.h>

/*
 * SipHash-1-3 (Aumasson and Bernstein 2012, with the rounds that hash tables use): without
 * the key, nobody can make texts with the same hash.
 */

static uint64_t rotate_left(uint64_t x, unsigned int by)
{
	return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate_left(v[1], 13) ^ v[0];
	v[0] = rotate_left(v[0], 32);
	v[2] += v[3];
	v[3] = rotate_left(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate_left(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate_left(v[1], 17) ^ v[2];
	v[2] = rotate_left(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
}

static uint64_t sip_load(const uint8_t *p, size_t n)
{
	uint64_t word = 0;

	memcpy(&word, p, n);
	return word;
}

uint64_t hash_bytes(const struct hash_key *k, const void *data, size_t n)
{
	uint64_t v[4] = { k->k[0] ^ 0x736f6d6570736575, k->k[1] ^ 0x646f72616e646f6d,
			  k->k[0] ^ 0x6c7967656e657261, k->k[1] ^ 0x7465646279746573 };
	const uint8_t *p = data;
	size_t left = n;

	for (; left >= sizeof(uint64_t); p += sizeof(uint64_t), left -= sizeof(uint64_t))
		sip_word(v, sip_load(p, sizeof(uint64_t)));
	sip_word(v, (left ? sip_load(p, left) : 0) | (uint64_t)n << 56);
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/*
 * The kernel gives each process 16 random bytes (AT_RANDOM): nothing to be opened, kept or shared
 * between threads, and no system call that a sandbox would have to allow. The C library makes the
 * stack's canary from them, so they are not used directly.
 */
void hash_key_init(struct hash_key *k)
{
	const struct hash_key zero = { { 0 } };
	const void *random = (const void *)getauxval(AT_RANDOM);
	uint8_t bytes[2 * sizeof(uint64_t) + 1] = { 0 };

	if (random)
		memcpy(bytes, random, sizeof(bytes) - 1);
	for (uint8_t i = 0; i < 2; i++) {
		bytes[sizeof(bytes) - 1] = i;
		k->k[i] = hash_bytes(&zero, bytes, sizeof(bytes));
	}
}

#define MAP_FIRST_CAP 16
#define MAP_PAGE      4096u

static uint64_t map_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

static size_t map_home(const struct u64map *m, uint64_t key)
{
	return (size_t)map_mix(map_mix(key ^ m->seed) + m->seed) & (m->cap - 1);
}

/* The slot of key or the free one where it belongs; at least one slot is free. */
static struct u64map_slot *map_probe(const struct u64map *m, uint64_t key)
{
	size_t i = map_home(m, key);

	while (m->slot[i].used && m->slot[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return &m->slot[i];
}

/* cap: a power of two. */
static int map_resize(struct u64map *m, size_t cap)
{
	struct u64map bigger = { .n = m->n, .seed = m->seed, .cap = cap };
	struct hash_key key;

	/* The address tells maps of one process apart. */
	if (!bigger.seed) {
		hash_key_init(&key);
		bigger.seed = hash_bytes(&key, &m, sizeof(m)) ?: 1;
	}
	bigger.slot = calloc(bigger.cap, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	/* A page that is read before it is written is a fault twice: probes would do so. */
	for (size_t i = 0; i < bigger.cap; i += MAP_PAGE / sizeof(*bigger.slot))
		*(volatile bool *)&bigger.slot[i].used = false;
	for (size_t i = 0; i < m->cap; i++)
		if (m->slot[i].used)
			*map_probe(&bigger, m->slot[i].key) = m->slot[i];
	free(m->slot);
	*m = bigger;
	return 0;
}

int u64map_reserve(struct u64map *m, size_t n)
{
	size_t cap = MAX(m->cap, (size_t)MAP_FIRST_CAP);

	while (cap - cap / 4 < n)
		if (__builtin_mul_overflow(cap, 2, &cap))
			return -ENOMEM;
	return cap > m->cap ? map_resize(m, cap) : 0;
}

uint64_t *u64map_at(struct u64map *m, uint64_t key)
{
	struct u64map_slot *slot = NULL;

	if (m->cap) {
		slot = map_probe(m, key);
		if (slot->used)
			return &slot->val;
	}
	/* At most three quarters full: probes stay short and always end. */
	if (m->n >= m->cap - m->cap / 4) {
		size_t cap;

		if (__builtin_mul_overflow(m->cap, 2, &cap) ||
		    map_resize(m, MAX(cap, (size_t)MAP_FIRST_CAP)))
			return NULL;
		slot = map_probe(m, key);
	}
	*slot = (struct u64map_slot){ .key = key, .used = true };
	m->n++;
	return &slot->val;
}

int u64map_put(struct u64map *m, uint64_t key, uint64_t val)
{
	uint64_t *at = u64map_at(m, key);

	if (!at)
		return -ENOMEM;
	*at = val;
	return 0;
}

bool u64map_get(const struct u64map *m, uint64_t key, uint64_t *val)
{
	const struct u64map_slot *slot;

	if (!m->cap)
		return false;
	slot = map_probe(m, key);
	if (slot->used && val)
		*val = slot->val;
	return slot->used;
}

/*
 * The slots after it move up if that brings them no further from home, so no tombstones are needed.
 */
bool u64map_take(struct u64map *m, uint64_t key, uint64_t *val)
{
	struct u64map_slot *slot = m->cap ? map_probe(m, key) : NULL;
	size_t hole, mask = m->cap - 1;

	if (!slot || !slot->used)
		return false;
	if (val)
		*val = slot->val;
	hole = (size_t)(slot - m->slot);
	for (size_t i = (hole + 1) & mask; m->slot[i].used; i = (i + 1) & mask) {
		size_t home = map_home(m, m->slot[i].key);

		if (((i - home) & mask) < ((i - hole) & mask))
			continue; /* the hole lies before its home */
		m->slot[hole] = m->slot[i];
		hole = i;
	}
	m->slot[hole] = (struct u64map_slot){ 0 };
	m->n--;
	return true;
}

void u64map_free(struct u64map *m)
{
	if (!m)
		return;
	free(m->slot);
	*m = (struct u64map){ 0 };
}

void *u64map_elem(struct u64map *m, uint64_t key, void *array, size_t *cap, size_t elem)
{
	uint64_t at;
	char *v;

	if (u64map_get(m, key, &at)) {
		memcpy(&v, array, sizeof(v)); /* as in array_grow() */
		return v + at * elem;
	}
	v = array_grow(array, m->n, cap, elem);
	return v && !u64map_put(m, key, m->n) ? v : NULL;
}
