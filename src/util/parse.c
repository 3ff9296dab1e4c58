/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * parse.c: numbers as users (and kernel files) write them.
 *
 * strtoull() accepts leading blanks, a minus sign on unsigned numbers and octal; none of that is
 * wanted. Text that is not a number is -EINVAL even if it is also too long, and the result is only
 * changed on success. All arithmetic is in integers.
 */
#include "kvmft/util.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_unit[] = {
	{ "", 1000000000 },  { "ns", 1 },	   { "us", 1000 },	   { "ms", 1000000 },
	{ "s", 1000000000 }, { "m", 60000000000 }, { "h", 3600000000000 },
};

static const struct unit size_unit[] = {
	{ "", 1 },	  { "K", 1 << 10 },   { "k", 1 << 10 },	  { "KiB", 1 << 10 },
	{ "M", 1 << 20 }, { "m", 1 << 20 },   { "MiB", 1 << 20 }, { "G", 1 << 30 },
	{ "g", 1 << 30 }, { "GiB", 1 << 30 },
};

/* More decimals than this cannot make whole nanoseconds: an hour is 2^13 * 5^11 * 9 of them. */
#define FRACTION_MAX 13

static const struct unit *unit_find(const struct unit *unit, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(unit[i].name, name))
			return &unit[i];
	return NULL;
}

/*
 * Digits at *s, which moves past them: -EINVAL if there are none. Too large a number sets *range,
 * so that the caller can first check the rest.
 */
static inline int scan_digits(const char **s, unsigned int base, uint64_t *v, bool *range)
{
	const char *from = *s;
	unsigned int d;

	*v = 0;
	for (; (d = (unsigned int)str_hex_value(**s)) < base; (*s)++) /* -1: none */
		if (__builtin_mul_overflow(*v, base, v) || __builtin_add_overflow(*v, d, v))
			*range = true;
	return *s == from ? -EINVAL : 0;
}

/* Decimal, or hexadecimal after 0x. */
static int scan_u64(const char **s, uint64_t *v, bool *range)
{
	if ((*s)[0] == '0' && ((*s)[1] == 'x' || (*s)[1] == 'X')) {
		*s += 2;
		return scan_digits(s, 16, v, range);
	}
	return scan_digits(s, 10, v, range);
}

int parse_u64(const char *s, uint64_t *v)
{
	bool range = false;
	uint64_t got;

	if (scan_u64(&s, &got, &range) || *s)
		return -EINVAL;
	if (range)
		return -ERANGE;
	*v = got;
	return 0;
}

bool take_u64(const char **s, uint64_t max, uint64_t *v)
{
	bool range = false;
	const char *p = *s;
	uint64_t got;

	if (scan_digits(&p, 10, &got, &range) || range || got > max)
		return false;
	*s = p;
	*v = got;
	return true;
}

int parse_s64(const char *s, int64_t *v)
{
	const bool minus = *s == '-';
	uint64_t got = 0;
	int err = parse_u64(s + minus, &got);

	if (err)
		return err;
	if (got > (uint64_t)INT64_MAX + minus)
		return -ERANGE;
	/* -(got - 1) - 1 never leaves the range, not even for INT64_MIN. */
	*v = minus && got ? -(int64_t)(got - 1) - 1 : (int64_t)got;
	return 0;
}

int parse_bits64(const char *s, uint64_t *v)
{
	int64_t got = 0;
	int err;

	if (*s != '-')
		return parse_u64(s, v);
	err = parse_s64(s, &got);
	if (!err)
		*v = (uint64_t)got;
	return err;
}

int parse_size(const char *s, uint64_t *bytes)
{
	const struct unit *unit;
	bool range = false;
	uint64_t got;

	if (scan_u64(&s, &got, &range))
		return -EINVAL;
	unit = unit_find(size_unit, ARRAY_SIZE(size_unit), s);
	if (!unit)
		return -EINVAL;
	if (range || __builtin_mul_overflow(got, unit->factor, &got))
		return -ERANGE;
	*bytes = got;
	return 0;
}

/*
 * The digits after a decimal point, as *num / *den without trailing zeros. -EINVAL without any
 * digit, or if they are finer than a nanosecond in any unit.
 */
static int scan_fraction(const char **s, uint64_t *num, uint64_t *den)
{
	const size_t digits = strspn(*s, "0123456789");
	size_t n = digits;

	while (n && (*s)[n - 1] == '0')
		n--;
	if (!digits || n > FRACTION_MAX)
		return -EINVAL;
	*num = 0;
	*den = 1;
	for (size_t i = 0; i < n; i++) {
		*num = *num * 10 + (uint64_t)((*s)[i] - '0');
		*den *= 10;
	}
	*s += digits;
	return 0;
}

int parse_duration(const char *s, uint64_t *ns)
{
	uint64_t whole, num = 0, den = 1;
	const struct unit *unit;
	unsigned __int128 total;
	bool range = false;

	if (scan_digits(&s, 10, &whole, &range))
		return -EINVAL;
	if (*s == '.') {
		s++;
		if (scan_fraction(&s, &num, &den))
			return -EINVAL;
	}
	unit = unit_find(duration_unit, ARRAY_SIZE(duration_unit), s);
	if (!unit)
		return -EINVAL;
	total = (unsigned __int128)num * unit->factor;
	if (total % den)
		return -EINVAL; /* rounding 0.5ns to 0 would turn a limit into none */
	total = total / den + (unsigned __int128)whole * unit->factor;
	if (range || total > UINT64_MAX)
		return -ERANGE;
	*ns = (uint64_t)total;
	return 0;
}

/* ---- texts of the kernel ---- */

/* "field: TYPE NAME;\toffset:8;\tsize:8;" of the line that declares NAME. */
static bool page_field(const char *text, const char *name, unsigned int *off, unsigned int *size)
{
	size_t n = strlen(name);
	const char *p = text, *semi;

	while ((p = strstr(p, "field:"))) {
		semi = strchr(p, ';');
		if (!semi)
			return false;
		if ((size_t)(semi - p) > n + 1 && !memcmp(semi - n, name, n) &&
		    (semi[-(long)n - 1] == ' '))
			return sscanf(semi, "; offset:%9u; size:%9u;", off, size) == 2;
		p = semi;
	}
	return false;
}

bool ktext_page(const char *text, struct ktext_page *p)
{
	unsigned int commit, clen, data, dlen;

	if (!page_field(text, "commit", &commit, &clen) || !page_field(text, "data", &data, &dlen))
		return false;
	if (commit != 8 || (clen != 4 && clen != 8) || data < 8 + clen || data > 64)
		return false;
	*p = (struct ktext_page){ .long_size = clen, .header = data, .size = data + dlen };
	return true;
}

int ktext_chosen(const char *text, char *buf, size_t size)
{
	const char *from = strchr(text, '[');
	const char *to = from ? strchr(from, ']') : NULL;

	if (!to || to == from + 1 || (size_t)(to - from - 1) >= size)
		return -EINVAL;
	memcpy(buf, from + 1, (size_t)(to - from - 1));
	buf[to - from - 1] = '\0';
	return 0;
}

const char *ktext_value(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *p;

		line += *line == '\n';
		if (strncmp(line, key, len))
			continue;
		p = line + len + strspn(line + len, " \t");
		if (*p == ':')
			return p + 1 + strspn(p + 1, " \t");
	}
	return NULL;
}

int ktext_number(const char *text, const char *key, uint64_t *v)
{
	const char *p = ktext_value(text, key);

	if (!p)
		return -ENOENT;
	if (!take_u64(&p, UINT64_MAX, v))
		return *p >= '0' && *p <= '9' ? -ERANGE : -EINVAL;
	return *p && *p != '\n' && strncmp(p, " kB", 3) ? -EINVAL : 0;
}
