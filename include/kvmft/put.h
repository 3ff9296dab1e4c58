/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * put.h: short texts and numbers appended to one another, for lines that are printed by the
 * million: inline, eight or sixteen digits at once, without a loop.
 *
 * Each function writes at p, returns the end of what it wrote, checks nothing and adds no NUL: the
 * caller has made room (sbuf_room()) for the whole line before. Functions write whole words: up to
 * PUT_SLACK bytes after the returned end may be overwritten, and must be available.
 */
#pragma once

#include "kvmft/util.h"

#if defined(__SSE2__) && defined(__x86_64__)
#include <emmintrin.h>
#endif

#define PUT_SLACK 16

extern const uint64_t put_power[20]; /* 10^n, put_power[0] = 0 */

static inline char *put_mem(char *p, const char *s, size_t n)
{
	__builtin_memcpy(p, s, n);
	return p + n;
}

/* s is followed by PUT_SLACK readable bytes, so that it can be copied in whole blocks. */
static inline char *put_padded(char *p, const char *s, size_t n)
{
	char *end = p + n;

	do {
		__builtin_memcpy(p, s, PUT_SLACK);
		p += PUT_SLACK;
		s += PUT_SLACK;
	} while (p < end);
	return end;
}

/* The same, in one go if n is at most `usual`, a constant: so many bytes are readable at least. */
static inline char *put_blocks(char *p, const char *s, size_t n, size_t usual)
{
	__builtin_memcpy(p, s, usual);
	if (n > usual)
		put_padded(p + usual, s + usual, n - usual);
	return p + n;
}

/* The digits that put_dec() writes: about log10(2) per bit, corrected by one comparison. */
static inline unsigned int put_dec_len(uint64_t v)
{
	unsigned int n = ((64 - (unsigned int)__builtin_clzll(v | 1)) * 1233) >> 12;

	return n + (v >= put_power[n]);
}

/* 8 characters, the first one in the low byte. */
static inline void put_word(char *p, uint64_t text)
{
	__builtin_memcpy(p, &text, sizeof(text));
}

/*
 * The 8 decimal digits of v < 10^8 as such a word: halves, quarters and eighths of the number side
 * by side, each divided at once by a multiplication that is exact in its range. What is left moves
 * up and the quotient takes its place: (x - q * d) << n | q is x << n less a multiple of q.
 */
static inline uint64_t put_dec_word(uint32_t v)
{
	uint64_t x = v, q = v / 10000;

	x = (x << 32) - q * ((10000ull << 32) - 1);
	q = x * 10486 >> 20 & 0x0000007f0000007f; /* / 100, below 10^4 */
	x = (x << 16) - q * ((100u << 16) - 1);
	q = x * 103 >> 10 & 0x000f000f000f000f; /* / 10, below 100 */
	x = (x << 8) - q * ((10u << 8) - 1);
	return x + '0' * 0x0101010101010101;
}

/* Exactly n <= 20 decimal digits, the low ones, with leading zeros. */
static inline char *put_dec_fixed(char *p, uint64_t v, unsigned int n)
{
	const uint64_t e8 = 100000000;

	if (n > 16) {
		put_word(p, put_dec_word((uint32_t)(v / e8 / e8)) >> 8 * (24 - n));
		p += n - 16;
		n = 16;
	}
	if (n > 8) {
		put_word(p, put_dec_word((uint32_t)(v / e8 % e8)) >> 8 * (16 - n));
		p += n - 8;
		n = 8;
	}
	if (n)
		put_word(p, put_dec_word((uint32_t)(v % e8)) >> 8 * (8 - n));
	return p + n;
}

/* Decimal: as many digits as v has. */
static inline char *put_dec(char *p, uint64_t v)
{
	if (v < 10) {
		*p = (char)('0' + v);
		return p + 1;
	}
	if (v < 100000000) { /* most numbers */
		unsigned int n = put_dec_len(v);

		put_word(p, put_dec_word((uint32_t)v) >> 8 * (8 - n));
		return p + n;
	}
	return put_dec_fixed(p, v, put_dec_len(v));
}

static inline char *put_sdec(char *p, int64_t v)
{
	if (v >= 0)
		return put_dec(p, (uint64_t)v);
	*p = '-';
	return put_dec(p + 1, 0 - (uint64_t)v);
}

#if defined(__SSE2__) && defined(__x86_64__)
static inline char *put_hex16(char *p, uint64_t v)
{
	__m128i x = _mm_cvtsi64_si128((int64_t)__builtin_bswap64(v)), letter;

	x = _mm_unpacklo_epi8(_mm_srli_epi64(x, 4),
			      x); /* a digit per byte, and what was above it */
	x = _mm_and_si128(x, _mm_set1_epi8(0x0f));
	letter = _mm_and_si128(_mm_cmpgt_epi8(x, _mm_set1_epi8(9)), _mm_set1_epi8('a' - '0' - 10));
	x = _mm_add_epi8(_mm_add_epi8(x, _mm_set1_epi8('0')), letter);
	_mm_storeu_si128((__m128i *)p, x);
	return p + 16;
}
#else
/* The 8 hex digits of v, the first one in the low byte: one per byte, '0' or 'a' - 10 added. */
static inline uint64_t put_hex_word(uint32_t v)
{
	const uint64_t low = 0x0101010101010101;
	uint64_t x = __builtin_bswap32(v), letter;

	x = (x | x << 16) & 0x0000ffff0000ffff;
	x = (x | x << 8) & 0x00ff00ff00ff00ff;
	x = (x >> 4 | x << 8) & 0x0f0f0f0f0f0f0f0f;
	letter = (x + 6 * low) >> 4 & low;
	return x + '0' * low + letter * ('a' - '0' - 10);
}

static inline char *put_hex16(char *p, uint64_t v)
{
	put_word(p, put_hex_word((uint32_t)(v >> 32)));
	put_word(p + 8, put_hex_word((uint32_t)v));
	return p + 16;
}
#endif

/* All 8 digits; put_hex16(): all 16. In lower case. */
static inline char *put_hex8(char *p, uint32_t v)
{
	put_hex16(p, (uint64_t)v << 32);
	return p + 8;
}

/* As many digits as v has, at least min of 16; put_hex(): "0" for 0. */
static inline char *put_hex_pad(char *p, uint64_t v, unsigned int min)
{
	unsigned int n = MAX((67 - (unsigned int)__builtin_clzll(v | 1)) / 4, min);

	put_hex16(p, v << (64 - 4 * n));
	return p + n;
}

static inline char *put_hex(char *p, uint64_t v)
{
	return put_hex_pad(p, v, 1);
}

/*
 * Conversions of printf formats, as the kernel's events, its trace_printk() and QEMU's events have
 * them: d i u x X o c s p, flags, width and precision, sizes hh h l ll L j z t.
 */
enum { STAR_WIDTH = 1, STAR_PREC = 2 };

struct spec {
	char conv; /* d u x X o c s p %, or 0: literal text */
	bool left, zero, alt, plus, blank;
	bool has_prec;
	bool bare_zero;	      /* %#x of 0 is 0, as in C; the kernel prints 0x0 */
	uint16_t width, prec; /* at most SPEC_MOST */
	uint8_t star;	      /* which of them is an argument */
	int8_t longs;	      /* as written: hh -2, ll 2 */
	uint8_t bytes;	      /* of the number after truncation: 1, 2, 4, 8; the caller's to set */
};

#define SPEC_MOST 4095
#define SPEC_ROOM (32 + PUT_SLACK) /* and width, precision, the text */

/* *p is behind '%'; it moves past the conversion, or false: to what is none. */
bool spec_parse(const char **p, struct spec *s);
char *put_number(char *p, const struct spec *s, uint64_t v); /* v as d u x X o */
/* n bytes, cut and padded as by s. */
char *put_text(char *p, const struct spec *s, const char *text, size_t n);
void sbuf_add_number(struct sbuf *b, const struct spec *s, uint64_t v);
void sbuf_add_text(struct sbuf *b, const struct spec *s, const char *text, size_t n);
