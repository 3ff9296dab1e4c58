/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hash.c: SipHash-1-3 (Aumasson and Bernstein 2012, with the rounds that hash tables use): without
 * the key, nobody can make texts with the same hash.
 */
#include "kvmft/util.h"

#include <sys/auxv.h>

static uint64_t rotate(uint64_t x, unsigned int by)
{
	return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
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
