/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pvclock.c: kvmclock: the record a guest shares with KVM, forward and exactly backward. */
#include "kvmft/clock.h"
#include "wide.h"

#define NSEC_PER_SEC	1000000000ULL

int pvclock_check_body(const struct pvclock *pv)
{
	if (!pv->mul)
		return -EINVAL;
	return pv->shift < -31 || pv->shift > 31 ? -EDOM : 0;
}

int pvclock_check(const struct pvclock *pv)
{
	if (!pv->version)
		return -ENODATA;
	if (pv->version & 1)
		return -EAGAIN;
	return pvclock_check_body(pv);
}

bool pvclock_same_body(const struct pvclock *a, const struct pvclock *b)
{
	return a->tsc_timestamp == b->tsc_timestamp && a->system_time == b->system_time &&
	       a->mul == b->mul && a->shift == b->shift;
}

/* May a stamp @d cycles from the record be converted with it? */
static int check_distance(const struct pvclock *pv, u128 d)
{
	if (d >> 63)
		return -ERANGE;
	return pv->shift > 0 && d >> (64 - pv->shift) ? -EOVERFLOW : 0;
}

int pvclock_to_ns(const struct pvclock *pv, uint64_t tsc, uint64_t *ns)
{
	bool before = tsc < pv->tsc_timestamp;
	uint64_t d = before ? pv->tsc_timestamp - tsc : tsc - pv->tsc_timestamp;
	s128 scaled;
	int err = pvclock_check_body(pv);

	err = err ?: check_distance(pv, d);
	if (err)
		return err;
	d = pv->shift < 0 ? d >> -pv->shift : d << pv->shift;
	scaled = (s128)(((u128)d * pv->mul) >> 32);
	return wide_store((s128)pv->system_time + (before ? -scaled : scaled), ns);
}

/*
 * Smallest d with scale(d) >= k. Two steps, because the kernel shifts first and so drops bits
 * before it multiplies. k < 2^65, hence below 2^97 before and 2^128 after the shift; results past
 * 2^64 are useless, so they are cut there and stay far from the sign bit.
 */
static s128 least_delta(const struct pvclock *pv, u128 k)
{
	u128 x = wide_div_ceil(k << 32, pv->mul);

	if (pv->shift > 0)
		return (s128)wide_div_ceil(x, (u128)1 << pv->shift);
	if (x >> 64)
		x = (u128)1 << 64;
	return (s128)(x << -pv->shift);
}

/* Smallest guest TSC, as an unbounded integer, with kvmclock >= ns; 0 or the errors of clock.h. */
static int first_tsc(const struct pvclock *pv, u128 ns, s128 *tsc)
{
	s128 d;
	int err;

	if (ns > pv->system_time)
		d = least_delta(pv, ns - pv->system_time);
	else
		d = 1 - least_delta(pv, pv->system_time - ns + 1);
	err = check_distance(pv, (u128)(d < 0 ? -d : d));
	if (!err)
		*tsc = (s128)pv->tsc_timestamp + d;
	return err;
}

int pvclock_to_tsc_range(const struct pvclock *pv, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	s128 first, end;
	int err = pvclock_check_body(pv);

	err = err ?: first_tsc(pv, ns, &first);
	err = err ?: first_tsc(pv, (u128)ns + 1, &end);
	return err ?: wide_store_range(first, end, lo, hi);
}

int pvclock_params_from_khz(uint32_t khz, uint32_t *mul, int8_t *shift)
{
	uint64_t scaled = NSEC_PER_SEC;
	uint64_t tps = (uint64_t)khz * 1000;
	uint32_t tps32;
	int sh = 0;

	if (!khz)
		return -EINVAL;
	while (tps > 2 * NSEC_PER_SEC || tps >> 32) {
		tps >>= 1;
		sh--;
	}
	tps32 = (uint32_t)tps;
	while (tps32 <= scaled || scaled >> 32) {
		if (scaled >> 32 || tps32 >> 31)
			scaled >>= 1;
		else
			tps32 <<= 1;
		sh++;
	}
	*mul = (uint32_t)((scaled << 32) / tps32);
	*shift = (int8_t)sh;
	return 0;
}

int pvclock_khz(uint32_t mul, int8_t shift, uint64_t *khz)
{
	uint64_t v;

	if (!mul)
		return -EINVAL;
	if (shift < -31 || shift > 31)
		return -EDOM;
	v = (1000000ULL << 32) / mul;
	return wide_store(shift < 0 ? (s128)v << -shift : (s128)v >> shift, khz);
}
