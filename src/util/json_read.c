/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * json_read.c: the JSON reader. jval_parse() checks the grammar of the whole text; the functions
 * after it rely on that, but never leave the bounds of the value they were given.
 */
#include "kvmft/json_read.h"

/* ---- the grammar ---- */

static const char *json_skip_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

static bool one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

/* Four hex digits; negative if there are fewer. */
static int32_t hex4(const char *p, const char *end)
{
	int32_t v = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int d = str_hex_value(p[i]);

		if (d < 0)
			return -1;
		v = v * 16 + d;
	}
	return v;
}

/*
 * The scanners return the end of what begins at p; NULL if it does not end before `end`, or is
 * something else.
 */
static const char *scan_string(const char *p, const char *end)
{
	while (++p < end && *p != '"') {
		if ((unsigned char)*p < 0x20)
			return NULL;
		if (*p != '\\')
			continue;
		if (++p == end || !one_of(*p, "\"\\/bfnrtu") || (*p == 'u' && hex4(p + 1, end) < 0))
			return NULL;
		p += *p == 'u' ? 4 : 0;
	}
	return p < end ? p + 1 : NULL;
}

static const char *json_digits(const char *p, const char *end)
{
	const char *from = p;

	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p > from ? p : NULL;
}

static const char *scan_word(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - p) >= n && !memcmp(p, word, n) ? p + n : NULL;
}

static const char *scan_value(const char *p, const char *end, unsigned int depth);

static const char *scan_container(const char *p, const char *end, unsigned int depth)
{
	const bool object = *p == '{';
	const char close = object ? '}' : ']';

	p = json_skip_blanks(p + 1, end);
	if (p < end && *p == close)
		return p + 1;
	do {
		p = json_skip_blanks(p, end);
		if (object) {
			p = p < end && *p == '"' ? scan_string(p, end) : NULL;
			p = p ? json_skip_blanks(p, end) : end;
			if (p == end || *p++ != ':')
				return NULL;
		}
		p = scan_value(p, end, depth);
		p = p ? json_skip_blanks(p, end) : end;
		if (p == end)
			return NULL;
	} while (*p++ == ',');
	return p[-1] == close ? p : NULL;
}

/* Also past blanks before it. */
static const char *scan_value(const char *p, const char *end, unsigned int depth)
{
	p = json_skip_blanks(p, end);
	switch (p < end ? *p : '\0') {
	case '"': return scan_string(p, end);
	case 't': return scan_word(p, end, "true");
	case 'f': return scan_word(p, end, "false");
	case 'n': return scan_word(p, end, "null");
	case '{':
	case '[': return depth < JVAL_DEPTH_MAX ? scan_container(p, end, depth + 1) : NULL;
	}
	p += p < end && *p == '-';
	p = p < end && *p == '0' ? p + 1 : json_digits(p, end);
	if (p && p < end && *p == '.')
		p = json_digits(p + 1, end);
	if (p && p < end && one_of(*p, "eE")) {
		p++;
		p = json_digits(p + (p < end && one_of(*p, "+-")), end);
	}
	return p;
}

int jval_parse(const char *text, size_t n, struct jval *v)
{
	const char *end = text + n, *from = json_skip_blanks(text, end);
	const char *stop = scan_value(from, end, 0);

	*v = (struct jval){ 0 };
	if (!stop || json_skip_blanks(stop, end) != end)
		return -EINVAL;
	*v = (struct jval){ from, (size_t)(stop - from) };
	return 0;
}

/* ---- looking things up ---- */

enum jval_type jval_type(struct jval v)
{
	switch (v.n ? *v.p : '\0') {
	case '\0': return JVAL_NONE;
	case 'n': return JVAL_NULL;
	case 't':
	case 'f': return JVAL_BOOL;
	case '"': return JVAL_STRING;
	case '[': return JVAL_ARRAY;
	case '{': return JVAL_OBJECT;
	default: return JVAL_NUMBER;
	}
}

/* The value at *at, which moves past what follows it (',' or ':'). */
static struct jval json_take_value(const char **at, const char *end)
{
	const char *from = json_skip_blanks(*at, end), *stop = scan_value(from, end, 0) ?: from;

	*at = json_skip_blanks(stop, end);
	*at += *at < end;
	return (struct jval){ from, (size_t)(stop - from) };
}

struct jiter jval_iter(struct jval v)
{
	enum jval_type t = jval_type(v);
	struct jiter i = { .object = t == JVAL_OBJECT };

	if ((t == JVAL_OBJECT || t == JVAL_ARRAY) && v.n >= 2) {
		i.at = v.p + 1;
		i.end = v.p + v.n - 1;
	}
	return i;
}

bool jiter_next(struct jiter *i)
{
	if (i->at)
		i->at = json_skip_blanks(i->at, i->end);
	if (i->at == i->end)
		return false;
	if (i->object)
		i->key = json_take_value(&i->at, i->end);
	i->value = json_take_value(&i->at, i->end);
	return i->value.n > 0;
}

bool jval_is(struct jval v, const char *text)
{
	size_t n = strlen(text);

	return jval_type(v) == JVAL_STRING && v.n == n + 2 && !memcmp(v.p + 1, text, n);
}

bool jval_get(struct jval object, const char *key, struct jval *v)
{
	struct jiter i = jval_iter(object);

	*v = (struct jval){ 0 };
	while (i.object && jiter_next(&i))
		if (jval_is(i.key, key)) {
			*v = i.value;
			return true;
		}
	return false;
}

bool jval_true(struct jval v)
{
	return v.n == 4 && !memcmp(v.p, "true", 4);
}

bool jval_u64(struct jval v, uint64_t *u)
{
	char text[24];

	if (jval_type(v) != JVAL_NUMBER || v.n >= sizeof(text))
		return false;
	memcpy(text, v.p, v.n);
	text[v.n] = '\0';
	return parse_u64(text, u) == 0;
}

static void add_utf8(struct sbuf *out, uint32_t c)
{
	static const uint32_t head[] = { 0, 0xc0, 0xe0, 0xf0 };
	uint32_t more = c >= 0x10000 ? 3 : c >= 0x800 ? 2 : c >= 0x80;

	sbuf_addc(out, (char)(head[more] | c >> 6 * more));
	while (more--)
		sbuf_addc(out, (char)(0x80 | (c >> 6 * more & 0x3f)));
}

/* After "\u" at p: adds the character, of one escape or of two that are a surrogate pair. */
static const char *add_u_escape(const char *p, const char *end, struct sbuf *out)
{
	int32_t a = hex4(p, end), b;

	if (a < 0)
		return end;
	p += 4;
	if (a < 0xd800 || a > 0xdfff) {
		add_utf8(out, (uint32_t)a);
		return p;
	}
	b = a < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, end) : -1;
	if (b < 0xdc00 || b > 0xdfff) {
		add_utf8(out, 0xfffd);
		return p;
	}
	add_utf8(out, 0x10000 + ((uint32_t)(a - 0xd800) << 10) + (uint32_t)(b - 0xdc00));
	return p + 6;
}

int jval_text(struct jval v, struct sbuf *out)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *p, *end, *at;

	if (jval_type(v) != JVAL_STRING || v.n < 2)
		return -EINVAL;
	end = v.p + v.n - 1;
	for (p = v.p + 1; p < end;) {
		if (*p != '\\') {
			sbuf_addc(out, *p++);
			continue;
		}
		if (++p == end)
			break;
		if (*p == 'u') {
			p = add_u_escape(p + 1, end, out);
			continue;
		}
		at = strchr(from, *p);
		sbuf_addc(out, at && *p ? to[at - from] : *p);
		p++;
	}
	return out->error;
}

/* ---- values that arrive in pieces ---- */

int jframe_find(struct jframe *f, const char *text, size_t n, size_t *len)
{
	for (; f->pos < n; f->pos++) {
		char c = text[f->pos];

		if (f->in_string) {
			if (f->escaped)
				f->escaped = false;
			else if (c == '\\')
				f->escaped = true;
			else if (c == '"')
				f->in_string = false;
		} else if (c == '{' || c == '[') {
			f->depth++;
		} else if (!f->depth) {
			if (!one_of(c, " \t\r\n"))
				return -EINVAL;
		} else if (c == '"') {
			f->in_string = true;
		} else if (c == '}' || c == ']') {
			if (--f->depth)
				continue;
			*len = ++f->pos;
			return 1;
		}
	}
	return 0;
}
