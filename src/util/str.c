/* SPDX-License-Identifier: GPL-2.0-or-later */
/* str.c: small questions about text, making text harmless, and short readable forms of numbers. */
#include "kvmft/util.h"

#include <ctype.h>
#include <strings.h>

#define DISTANCE_MAX 63

bool str_starts(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

#define TEXT_BLOCK 128

/*
 * Non-zero if one of n bytes is not text; without a branch, so that a whole block is checked at
 * once.
 */
static inline unsigned char bytes_no_text(const char *s, size_t n)
{
	unsigned char bad = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		bad |= (unsigned char)(c - ' ') > '~' - ' ' && (unsigned char)(c - '\t') > 1;
	}
	return bad;
}

bool str_is_text(const char *s, size_t n)
{
	const char *last;

	if (n < TEXT_BLOCK)
		return !bytes_no_text(s, n);
	last = s + n - TEXT_BLOCK; /* overlaps the one before */
	for (; s < last; s += TEXT_BLOCK)
		if (bytes_no_text(s, TEXT_BLOCK))
			return false;
	return !bytes_no_text(last, TEXT_BLOCK);
}

/* On a mismatch the last * takes one more character: earlier ones need not be tried again. */
bool str_glob(const char *pattern, const char *s)
{
	const char *star = NULL, *from = NULL;

	while (*s) {
		if (*pattern == '*') {
			star = ++pattern;
			from = s;
		} else if (*pattern == '?' || *pattern == *s) {
			pattern++;
			s++;
		} else if (star) {
			pattern = star;
			s = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

const char *str_quoted_end(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		p += *p == '\\' && p + 1 < end;
	return p < end ? p + 1 : end;
}

void str_unescape(char *s)
{
	char *to = s;

	while (*s) {
		int high = *s == '%' ? str_hex_value(s[1]) : -1;
		int low = high < 0 ? -1 : str_hex_value(s[2]);
		bool byte = low >= 0 && (high || low); /* %00 would cut the text */

		*to = *s;
		if (byte)
			*to = (char)(high << 4 | low);
		to++;
		s += byte ? 3 : 1;
	}
	*to = '\0';
}

size_t str_utf8_len(const char *s, size_t n)
{
	/* Smallest code point that needs this many bytes: shorter forms only exist to deceive. */
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	uint32_t code;
	size_t len;

	if (!n)
		return 0;
	if (p[0] < 0x80)
		return 1;
	len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] < 0xc2 || p[0] > 0xf4 || len > n)
		return 0;
	code = p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < least[len] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return len;
}

/*
 * Whatever drives a terminal (C0, DEL, C1), changes the direction of what follows, breaks lines, or
 * is invisible, so that two different names look the same.
 */
uint32_t str_unseen(const char *s, size_t len)
{
	static const struct {
		uint32_t first, last;
	} range[] = {
		{ 0, 0x1f },	      { 0x7f, 0x9f },	    { 0xad, 0xad },
		{ 0x34f, 0x34f },     { 0x61c, 0x61c },	    { 0x115f, 0x1160 },
		{ 0x17b4, 0x17b5 },   { 0x180b, 0x180f },   { 0x200b, 0x200f },
		{ 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x2800, 0x2800 },
		{ 0x3164, 0x3164 },   { 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },
		{ 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb },   { 0x1bca0, 0x1bca3 },
		{ 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
	};
	const unsigned char *p = (const unsigned char *)s;
	uint32_t code = len > 1 ? p[0] & (0x7fu >> len) : p[0];

	for (size_t i = 1; i < len; i++)
		code = code << 6 | (p[i] & 0x3f);
	for (size_t i = 0; i < ARRAY_SIZE(range) && code >= range[i].first; i++)
		if (code <= range[i].last)
			return code;
	return 0;
}

size_t str_cut(const char *s, size_t max)
{
	size_t n = strnlen(s, max), from = n;

	if (n < max || !s[n] || (unsigned char)s[n] >> 6 != 2)
		return n;
	while (from && n - from < 3 && (unsigned char)s[from] >> 6 == 2)
		from--;
	return (unsigned char)s[from] >= 0xc0 ? from : n;
}

void str_printable(char *s)
{
	size_t n;

	while (*s >= ' ' && *s <= '~') /* nearly always all of it */
		s++;
	n = strlen(s);
	while (n) {
		size_t len = str_utf8_len(s, n);

		if (!len || str_unseen(s, len)) {
			len = MAX(len, (size_t)1);
			memset(s, '?', len);
		}
		s += len;
		n -= len;
	}
}

bool str_poses_as(const char *name, const char *const *words)
{
	const char *p = name + strspn(name, " ?");

	for (const char *c = name; *c; c++)
		if ((unsigned char)*c > '~' || (*c == ' ' && (c == name || !c[1])))
			return true;
	for (; *words; words++)
		if (!strncasecmp(p, *words, strlen(*words)) &&
		    !isalnum((unsigned char)p[strlen(*words)]))
			return true;
	return false;
}

size_t str_spec_len(const char *specs)
{
	bool filter = false;
	char quote = '\0';
	size_t n = 0;

	for (; specs[n] && (filter || specs[n] != ','); n++) {
		if (filter && (quote ? specs[n] == quote : specs[n] == '"' || specs[n] == '\''))
			quote = quote ? '\0' : specs[n];
		filter ^= specs[n] == '/' && !quote;
	}
	return n;
}

unsigned int str_distance(const char *a, const char *b)
{
	/* Wagner and Fischer with one row: row[j] is the distance of a[0..i] and b[0..j]. */
	unsigned int row[DISTANCE_MAX + 1];
	size_t na = strnlen(a, DISTANCE_MAX), nb = strnlen(b, DISTANCE_MAX);

	for (size_t j = 0; j <= nb; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned int replace = diagonal + (a[i - 1] != b[j - 1]);
			unsigned int edit = MIN(row[j], row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = MIN(replace, edit);
		}
	}
	return row[nb];
}

/* One decimal, dropped when it is 0, in the first unit that keeps the number below its step. */
static char *str_scaled(char *buf, size_t size, uint64_t v, unsigned int step,
			const char *const *unit, size_t n)
{
	unsigned __int128 tenths = (unsigned __int128)v * 10, scale = 1;
	size_t i = 0;
	uint64_t t = 0;

	for (;; i++, scale *= step) {
		/* Rounded before comparing, or 999999 ns would read "1000 us". */
		t = (uint64_t)MIN((tenths + scale / 2) / scale, (unsigned __int128)UINT64_MAX);
		if (i + 1 == n || t < (uint64_t)step * 10)
			break;
	}
	if (t % 10)
		snprintf(buf, size, "%llu.%llu %s", (unsigned long long)(t / 10),
			 (unsigned long long)(t % 10), unit[i]);
	else
		snprintf(buf, size, "%llu %s", (unsigned long long)(t / 10), unit[i]);
	return buf;
}

char *str_ns(char *buf, size_t size, uint64_t ns)
{
	static const char *const unit[] = { "ns", "us", "ms", "s" };

	return str_scaled(buf, size, ns, 1000, unit, ARRAY_SIZE(unit));
}

char *str_ns_grain(char *buf, size_t size, uint64_t ns, uint64_t grain)
{
	bool less = ns < grain;

	buf[0] = '<';
	str_ns(buf + less, size - less, ns + (less ? grain : 0));
	return buf;
}

char *str_bytes(char *buf, size_t size, uint64_t bytes)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

	return str_scaled(buf, size, bytes, 1024, unit, ARRAY_SIZE(unit));
}

const char *text_fill(char to[512], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(to, 512, fmt, ap) < 0)
		to[0] = '\0';
	va_end(ap);
	return to;
}

/* ---- names that were probably meant ---- */

void near_offer(struct near *near, const char *name, const char *text)
{
	size_t at = near->n, len = MIN(strlen(near->word), (size_t)63);
	unsigned int score = str_distance(near->word, name), same = 0;

	/*
	 * A third of the letters wrong is still a typing error; more is a different word. Two
	 * swapped letters count as two, and also happen in words of four. Of two letters none may
	 * be wrong.
	 */
	if (score > MAX(len / 3, len > 3 ? (size_t)2 : (size_t)0) || !text)
		return;
	/* Equal distances are common in short names: a longer common beginning is likelier. */
	while (same < 63 && near->word[same] && near->word[same] == name[same])
		same++;
	score = score * 64 + 63 - same;
	for (size_t i = 0; i < near->n; i++)
		if (!strcmp(near->best[i].text, text))
			return;
	/* By name if the score is equal, because directories have no defined order. */
	while (at > 0 && (near->best[at - 1].score > score ||
			  (near->best[at - 1].score == score &&
			   strcmp(near->best[at - 1].text, text) > 0)))
		at--;
	if (at == NEAR_MAX)
		return;
	if (near->n < NEAR_MAX)
		near->n++;
	memmove(&near->best[at + 1], &near->best[at], (near->n - at - 1) * sizeof(near->best[0]));
	near->best[at].score = score;
	snprintf(near->best[at].text, sizeof(near->best[at].text), "%s", text);
}

void near_text(const struct near *near, struct sbuf *b)
{
	size_t n = near->n;

	/* Beside a good guess a much worse one is noise; beside an exact match, any other is. */
	while (n && near->best[n - 1].score / 64 > near->best[0].score / 64 * 2)
		n--;
	for (size_t i = 0; i < n; i++) {
		sbuf_add(b, !i ? " (did you mean " : i + 1 == n ? " or " : ", ");
		sbuf_add(b, near->best[i].text);
	}
	if (n)
		sbuf_add(b, "?)");
}
