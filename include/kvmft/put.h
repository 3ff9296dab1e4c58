/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * put.h: short texts and numbers appended to one another, for lines that are printed by the
 * million.
 *
 * Each function writes at p, returns the end of what it wrote, checks nothing and adds no NUL: the
 * caller has made room (sbuf_room()) for the whole line before. Functions write whole words: up to
 * PUT_SLACK bytes after the returned end may be overwritten, and must be available.
 */
#pragma once

#include "kvmft/util.h"

#define PUT_SLACK 16

extern const uint64_t put_power[20]; /* 10^n, put_power[0] = 0 */

static inline char *put_mem(char *p, const char *s, size_t n);
/* s is followed by PUT_SLACK readable bytes, so that it can be copied in whole blocks. */
static inline char *put_padded(char *p, const char *s, size_t n);
/* The same, in one go if n is at most `usual`, a constant: so many bytes are readable at least. */
static inline char *put_blocks(char *p, const char *s, size_t n, size_t usual);

/* Decimal: as many digits as v has; exactly n <= 20, the low ones, with leading zeros; signed. */
static inline char *put_dec(char *p, uint64_t v);
static inline char *put_dec_fixed(char *p, uint64_t v, unsigned int n);
static inline char *put_sdec(char *p, int64_t v);
/* The number of digits that put_dec() writes: 1 for 0. */
static inline unsigned int put_dec_len(uint64_t v);

/* Hexadecimal, in lower case: as many digits as v has, "0" for 0; at least min of 16; all 8; all 16. */
static inline char *put_hex(char *p, uint64_t v);
static inline char *put_hex_pad(char *p, uint64_t v, unsigned int min);
static inline char *put_hex8(char *p, uint32_t v);
static inline char *put_hex16(char *p, uint64_t v);

#include "kvmft/put_inline.h"
