/* SPDX-License-Identifier: GPL-2.0-or-later */
/* wide.h: 128-bit helpers private to the clock room: rounding and range checks in one place. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

typedef unsigned __int128 u128;
typedef __int128 s128;

/* Smallest integer >= a / b. */
static inline u128 wide_div_ceil(u128 a, u128 b)
{
	return a / b + (a % b != 0);
}

/* floor(a / b) for any a and b > 0; C itself rounds towards zero. */
static inline s128 wide_div_floor(s128 a, s128 b)
{
	return a / b - (a % b < 0);
}

/* ceil(a / b) for any a and b > 0. */
static inline s128 wide_sdiv_ceil(s128 a, s128 b)
{
	return a / b + (a % b > 0);
}

/* Store a value that must be a u64: 0 or -ERANGE. */
static inline int wide_store(s128 v, uint64_t *out)
{
	if (v < 0 || v > (s128)UINT64_MAX)
		return -ERANGE;
	*out = (uint64_t)v;
	return 0;
}

/*
 * Store a preimage: the first value must be a u64, the last one is cut at 2^64 - 1.  @end is the
 * first value after the range, so an empty range has end == lo.
 */
static inline int wide_store_range(s128 first, s128 end, uint64_t *lo, uint64_t *hi)
{
	if (first > (s128)UINT64_MAX || end <= 0)
		return -ERANGE;
	*lo = first < 0 ? 0 : (uint64_t)first;
	*hi = end > (s128)UINT64_MAX ? UINT64_MAX : (uint64_t)(end - 1);
	return 0;
}
