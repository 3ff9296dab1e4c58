/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * format.c: print formats of trace events: read from a declaration, applied to values, and matched
 * against a text.
 *
 * A format is untrusted data: every conversion is parsed here, widths are bounded, and anything
 * unknown makes the whole format unusable.
 */
#include "events.h"

#include <ctype.h>

#define MAX_FORMAT 4096
#define MAX_WIDTH  4095
#define SCAN_TRIES 4096 /* places where a string might end, over one text */

/* ---- from a declaration ---- */

static const struct {
	const char *name, *text;
} macros[] = {
	{ "HWADDR_PRIx", "lx" },	{ "HWADDR_PRId", "ld" },
	{ "HWADDR_PRIu", "lu" },	{ "HWADDR_PRIX", "lX" },
	{ "HWADDR_FMT_plx", "%016lx" }, { "TARGET_FMT_plx", "%016lx" },
	{ "TARGET_FMT_lx", "%016lx" },	{ "TARGET_FMT_ld", "%ld" },
	{ "TARGET_FMT_lu", "%lu" },	{ "RAM_ADDR_FMT", "%lx" },
	{ "VADDR_PRIx", "lx" },		{ "VADDR_PRIu", "lu" },
	{ "VADDR_PRId", "ld" },
};

/* PRIx64 and the like, as on x86-64. */
static bool macro(const char *s, size_t n, struct sbuf *b)
{
	static const char *const wide[] = { "64",     "PTR",	"MAX",	  "FAST16",
					    "FAST32", "FAST64", "LEAST64" };
	static const char *const narrow[] = { "8",	"16",	   "32",     "FAST8",
					      "LEAST8", "LEAST16", "LEAST32" };

	for (size_t i = 0; i < ARRAY_SIZE(macros); i++) {
		if (strlen(macros[i].name) == n && !memcmp(macros[i].name, s, n)) {
			sbuf_add(b, macros[i].text);
			return true;
		}
	}
	if (n < 5 || memcmp(s, "PRI", 3) || !strchr("diouxX", s[3]))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(wide); i++) {
		if (strlen(wide[i]) == n - 4 && !memcmp(wide[i], s + 4, n - 4)) {
			sbuf_addc(b, 'l');
			sbuf_addc(b, s[3]);
			return true;
		}
		if (strlen(narrow[i]) == n - 4 && !memcmp(narrow[i], s + 4, n - 4)) {
			sbuf_addc(b, s[3]);
			return true;
		}
	}
	return false;
}

/* After a backslash; *p moves past the escape. */
static char escape(const char **p, const char *end)
{
	static const char from[] = "abfnrtv", to[] = "\a\b\f\n\r\t\v";
	const char *at = strchr(from, **p);
	unsigned int v = 0, n = 0;

	if (**p && at) {
		++*p;
		return to[at - from];
	}
	if (**p == 'x') {
		for (++*p; *p < end && isxdigit((unsigned char)**p) && n < 2; ++*p, n++)
			v = v * 16 + (unsigned int)(isdigit((unsigned char)**p) ? **p - '0' :
							  (**p | 32) - 'a' + 10);
		return (char)v;
	}
	if (**p >= '0' && **p <= '7') {
		for (; *p < end && **p >= '0' && **p <= '7' && n < 3; ++*p, n++)
			v = v * 8 + (unsigned int)(**p - '0');
		return (char)v;
	}
	return *(*p)++; /* \" \\ \' \? and any other, which is itself */
}

static int literal(const char **p, const char *end, struct sbuf *b)
{
	for (++*p; *p < end && **p != '"';) {
		char c = **p;

		++*p;
		if (c == '\\') {
			if (*p == end)
				return -EBADMSG;
			c = escape(p, end);
		}
		if (!c) /* would end the text; no format needs it */
			return -EBADMSG;
		sbuf_addc(b, c);
	}
	if (*p == end)
		return -EBADMSG;
	++*p;
	return b->len > MAX_FORMAT ? -EBADMSG : 0;
}

int qev_format_parse(const char **p, const char *end, char **out, const char **why)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	int ret = 0;

	*why = "a format is neither text in quotes nor a known macro";
	while (*p < end && **p != ',' && !ret) {
		const char *word = *p;

		if (isspace((unsigned char)**p)) {
			++*p;
		} else if (**p == '"') {
			ret = literal(p, end, &b);
		} else {
			while (*p < end && (isalnum((unsigned char)**p) || **p == '_'))
				++*p;
			if (*p == word || !macro(word, (size_t)(*p - word), &b) ||
			    b.len > MAX_FORMAT)
				ret = -EBADMSG;
		}
	}
	if (!ret) {
		*out = sbuf_take(&b);
		ret = *out ? 0 : -ENOMEM;
	}
	return ret;
}

/* ---- conversions ---- */

struct conv {
	bool left, plus, blank, alt, zero;
	bool star;	 /* the width is an argument of its own, before this one */
	int width, prec; /* prec -1 = none */
	uint8_t size;	 /* bytes of the argument that count */
	char type;
};

static int number(const char **p)
{
	int v = 0;

	for (; **p >= '0' && **p <= '9'; ++*p)
		v = MIN(v * 10 + (**p - '0'), MAX_WIDTH);
	return v;
}

static uint8_t length(const char **p)
{
	uint8_t size = 4;

	for (; **p && strchr("hljztq", **p); ++*p)
		size = **p == 'h' ? (uint8_t)(size == 2 ? 1 : 2) : 8;
	return size;
}

/* *p is at '%'; it moves past the conversion. False: not a known one. */
static bool conv_parse(const char **p, struct conv *c)
{
	memset(c, 0, sizeof(*c));
	for (++*p; **p && strchr("-+ #0", **p); ++*p) {
		c->left |= **p == '-';
		c->plus |= **p == '+';
		c->blank |= **p == ' ';
		c->alt |= **p == '#';
		c->zero |= **p == '0';
	}
	c->star = **p == '*';
	*p += c->star;
	c->width = c->star ? 0 : number(p);
	c->prec = -1;
	if (**p == '.') {
		++*p;
		c->prec = number(p);
	}
	c->size = length(p);
	c->type = **p;
	if (!c->type || !strchr("diuxXocsp%", c->type) || (c->star && c->type == '%'))
		return false;
	if (c->type == 'p')
		c->size = 8;
	++*p;
	return true;
}

bool qev_format_fits(const struct qev *e)
{
	const char *p = e->format;
	struct conv c;
	size_t n = 0;

	if (!*p)
		return false;
	while (*p) {
		if (*p != '%') {
			p++;
			continue;
		}
		if (!conv_parse(&p, &c))
			return false;
		if (c.type == '%')
			continue;
		if (c.star && (n == e->nargs || e->arg[n++].kind == QEV_STRING))
			return false;
		if (n == e->nargs || (c.type == 's') != (e->arg[n].kind == QEV_STRING))
			return false;
		n++;
	}
	return n == e->nargs;
}

/* ---- printing ---- */

static void fill(struct sbuf *b, char c, size_t n)
{
	while (n--)
		sbuf_addc(b, c);
}

/* prefix ("-", "0x") and digits, at the place and width given by c. */
static void pad_number(const struct conv *c, const char *prefix, const char *digits, size_t n,
		       struct sbuf *b)
{
	size_t zeros = c->prec > (int)n ? (size_t)c->prec - n : 0;
	size_t all = strlen(prefix) + zeros + n, width = (size_t)c->width;

	if (c->zero && !c->left && c->prec < 0 && width > all) {
		zeros = width - all;
		all = width;
	}
	if (!c->left && width > all)
		fill(b, ' ', width - all);
	sbuf_add(b, prefix);
	fill(b, '0', zeros);
	sbuf_add_mem(b, digits, n);
	if (c->left && width > all)
		fill(b, ' ', width - all);
}

static void pad_text(const struct conv *c, const char *s, size_t n, struct sbuf *b)
{
	size_t width = (size_t)c->width;

	if (c->prec >= 0)
		n = MIN(n, (size_t)c->prec);
	if (!c->left && width > n)
		fill(b, ' ', width - n);
	sbuf_add_mem(b, s, n);
	if (c->left && width > n)
		fill(b, ' ', width - n);
}

static uint64_t low_bytes(uint64_t v, unsigned int size)
{
	return size >= 8 ? v : v & ((1ull << 8 * size) - 1);
}

static uint64_t extend(uint64_t v, unsigned int size)
{
	uint64_t sign = size >= 8 ? 0 : 1ull << (8 * size - 1);

	v = low_bytes(v, size);
	return sign ? (v ^ sign) - sign : v;
}

static void print_number(const struct conv *c, uint64_t v, struct sbuf *b)
{
	const char *digit = c->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef", *prefix = "";
	unsigned int base = c->type == 'o' ? 8 : strchr("xXp", c->type) ? 16 : 10;
	char buf[24];
	size_t n = sizeof(buf);

	if (c->type == 'd' || c->type == 'i') {
		v = extend(v, c->size);
		prefix = (int64_t)v < 0 ? "-" : c->plus ? "+" : c->blank ? " " : "";
		if ((int64_t)v < 0)
			v = 0 - v;
	} else {
		v = low_bytes(v, c->size);
		if (c->type == 'p' || (base == 16 && c->alt && v))
			prefix = c->type == 'X' ? "0X" : "0x";
	}
	if (!v && c->prec) /* no digit at all for 0 with precision 0 */
		buf[--n] = '0';
	for (; v; v /= base)
		buf[--n] = digit[v % base];
	if (base == 8 && c->alt && (n == sizeof(buf) || buf[n] != '0'))
		buf[--n] = '0';
	pad_number(c, prefix, buf + n, sizeof(buf) - n, b);
}

static void print_conv(const struct conv *c, const struct qev_value *v, struct sbuf *b)
{
	struct conv plain = { .type = 'x', .alt = true, .size = 8, .prec = -1 };
	char ch = (char)v->num;

	if (v->s) /* even if the format takes it for a number */
		pad_text(c, v->s, v->len, b);
	else if (c->type == 's')
		print_number(&plain, v->num, b);
	else if (c->type == 'c')
		pad_text(c, &ch, 1, b);
	else if (c->type == 'p' && !v->num)
		pad_text(c, "(nil)", 5, b);
	else
		print_number(c, v->num, b);
}

static void print_pairs(const struct qev *e, const struct qev_value *v, size_t n, struct sbuf *b)
{
	for (size_t i = 0; i < n; i++) {
		struct conv c = { .type = 'x', .alt = true, .size = 8, .prec = -1 };

		sbuf_addf(b, "%s%s=", i ? " " : "", i < e->nargs ? e->arg[i].name : "?");
		if (i < e->nargs && e->arg[i].kind == QEV_SIGNED)
			c.type = 'd';
		if (i < e->nargs && e->arg[i].kind == QEV_UNSIGNED)
			c.type = 'u';
		print_conv(&c, &v[i], b);
	}
}

/* As in C: a negative one means left-aligned. */
static void take_width(struct conv *c, const struct qev_value *v)
{
	int32_t width = (int32_t)v->num;

	c->left |= width < 0;
	c->width = (int)MIN(width < 0 ? -(int64_t)width : (int64_t)width, (int64_t)MAX_WIDTH);
}

void qev_print(const struct qev *e, const struct qev_value *v, size_t n, struct sbuf *b)
{
	const char *p = e->format;
	struct conv c;
	size_t i = 0;

	if (!e->format_usable || n != e->nargs) {
		print_pairs(e, v, n, b);
		return;
	}
	while (*p) {
		size_t plain = strcspn(p, "%");

		sbuf_add_mem(b, p, plain);
		p += plain;
		if (!*p || !conv_parse(&p, &c))
			return;
		if (c.star)
			take_width(&c, &v[i++]);
		if (c.type == '%')
			sbuf_addc(b, '%');
		else
			print_conv(&c, &v[i++], b);
	}
}

/* ---- scanning ---- */

struct scan {
	const char *p, *end; /* of the text */
};

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 32);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static bool take(struct scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n))
		return false;
	s->p += n;
	return true;
}

/*
 * limited: at most as many digits as the conversion's width, because another one follows at once.
 */
static bool scan_number(struct scan *s, const struct conv *c, bool limited, uint64_t *v)
{
	int base = c->type == 'o' ? 8 : strchr("xXp", c->type) ? 16 : 10;
	size_t most = limited ? (size_t)MAX(c->width, c->prec) : SIZE_MAX, n = 0;
	bool minus = false;

	while (s->p < s->end && *s->p == ' ' && (c->width || c->blank))
		s->p++;
	if (c->type == 'p' && take(s, "(nil)")) {
		*v = 0;
		return true;
	}
	if (base == 10 && c->type != 'u') {
		minus = take(s, "-");
		if (!minus && c->plus)
			take(s, "+");
	}
	if (base == 16 && (c->alt || c->type == 'p') && !take(s, "0x"))
		take(s, "0X");
	for (*v = 0; s->p < s->end && n < (most ?: SIZE_MAX) && digit_of(*s->p) < base;
	     s->p++, n++) {
		if (*v > (UINT64_MAX - (uint64_t)digit_of(*s->p)) / (uint64_t)base)
			return false;
		*v = *v * (uint64_t)base + (uint64_t)digit_of(*s->p);
	}
	if (minus)
		*v = 0 - *v;
	while (c->left && c->width && s->p < s->end && *s->p == ' ')
		s->p++;
	return n || c->prec == 0;
}

static bool scan_conv(struct scan *s, const struct conv *c, const char *rest,
		      const struct qev_arg *a, struct qev_value *v)
{
	uint8_t size = c->type == 'c' ? 1 : c->size;

	*v = (struct qev_value){ 0 };
	if (c->type == 'c') {
		if (s->p == s->end)
			return false;
		v->num = (uint64_t)(int64_t)(signed char)*s->p++;
	} else if (!scan_number(s, c, *rest == '%' && rest[1] != '%', &v->num)) {
		return false;
	}
	v->num = a->kind == QEV_SIGNED ? extend(v->num, MIN(a->size, size))
				       : low_bytes(v->num, a->size);
	return true;
}

static bool scan_rest(const struct qev *e, const char *p, size_t i, struct scan s,
		      struct qev_value *v, unsigned int *tries);

/*
 * A string ends where the rest of the format fits the rest of the text; the shortest one wins. The
 * format's next literal shows where to try.
 */
static bool scan_string(const struct qev *e, const char *p, size_t i, struct scan s,
			struct qev_value *v, unsigned int *tries)
{
	size_t plain = strcspn(p, "%");
	const char *begin = s.p;

	for (;; s.p++) {
		if (!*p)
			s.p = s.end;
		else if (plain)
			s.p = memmem(s.p, (size_t)(s.end - s.p), p, plain);
		if (!s.p || !*tries)
			break;
		--*tries;
		v[i] = (struct qev_value){
			.s = begin, .len = (uint32_t)MIN((size_t)(s.p - begin), (size_t)UINT32_MAX)
		};
		if (scan_rest(e, p, i + 1, s, v, tries))
			return true;
		if (!*tries || s.p == s.end)
			break;
	}
	return false;
}

static bool scan_rest(const struct qev *e, const char *p, size_t i, struct scan s,
		      struct qev_value *v, unsigned int *tries)
{
	struct conv c;

	while (*p) {
		if (*p != '%') {
			if (s.p == s.end || *s.p++ != *p++)
				return false;
			continue;
		}
		if (!conv_parse(&p, &c))
			return false;
		/* A width is not printed: only how much it padded the number is known. */
		if (c.star && c.type != 's') {
			const char *from = s.p;

			c.width = MAX_WIDTH;
			if (i + 1 >= e->nargs || !scan_conv(&s, &c, p, &e->arg[i + 1], &v[i + 1]))
				return false;
			v[i] = (struct qev_value){ .num = (uint64_t)(s.p - from) };
			i += 2;
			continue;
		}
		if (c.type == 's')
			return !c.star && scan_string(e, p, i, s, v, tries);
		if (c.type == '%' ? !take(&s, "%") : !scan_conv(&s, &c, p, &e->arg[i], &v[i]))
			return false;
		i += c.type != '%';
	}
	return s.p == s.end;
}

bool qev_scan(const struct qev *e, const char *text, size_t len, struct qev_value *v)
{
	unsigned int tries = SCAN_TRIES;

	if (!*e->format) /* no format and no arguments: QEMU prints the name alone */
		return !e->nargs && !len;
	return e->format_usable &&
	       scan_rest(e, e->format, 0, (struct scan){ text, text + len }, v, &tries);
}
