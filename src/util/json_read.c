/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * json_read.c: the JSON reader. jval_parse() checks the grammar of the whole text; the functions
 * after it rely on that, but never leave the bounds of the value they were given.
 */
#include "kvmft/json_read.h"

/* ---- the grammar ---- */

struct check {
	const char *p, *end;
	uint64_t object[JVAL_DEPTH_MAX / 64]; /* bit d: the container at depth d is an object */
	unsigned int depth;
};

static void skip_blanks(const char **p, const char *end)
{
	while (*p < end && (**p == ' ' || **p == '\t' || **p == '\n' || **p == '\r'))
		(*p)++;
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

static bool check_string(struct check *c)
{
	if (c->p == c->end || *c->p != '"')
		return false;
	for (c->p++; c->p < c->end; c->p++) {
		if (*c->p == '"') {
			c->p++;
			return true;
		}
		if ((unsigned char)*c->p < 0x20)
			return false;
		if (*c->p != '\\')
			continue;
		if (++c->p == c->end)
			return false;
		if (*c->p == 'u') {
			if (hex4(c->p + 1, c->end) < 0)
				return false;
			c->p += 4;
		} else if (!one_of(*c->p, "\"\\/bfnrt")) {
			return false;
		}
	}
	return false;
}

static bool check_digits(struct check *c)
{
	const char *from = c->p;

	while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
		c->p++;
	return c->p > from;
}

static bool take_one(struct check *c, const char *set)
{
	bool found = c->p < c->end && one_of(*c->p, set);

	c->p += found;
	return found;
}

static bool check_number(struct check *c)
{
	take_one(c, "-");
	if (!take_one(c, "0") && !check_digits(c))
		return false;
	if (take_one(c, ".") && !check_digits(c))
		return false;
	if (!take_one(c, "eE"))
		return true;
	take_one(c, "+-");
	return check_digits(c);
}

static bool check_word(struct check *c, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n))
		return false;
	c->p += n;
	return true;
}

static bool check_key(struct check *c)
{
	skip_blanks(&c->p, c->end);
	if (!check_string(c))
		return false;
	skip_blanks(&c->p, c->end);
	return check_word(c, ":");
}

static bool check_open(struct check *c, bool object)
{
	if (c->depth == JVAL_DEPTH_MAX)
		return false;
	c->object[c->depth / 64] &= ~((uint64_t)1 << c->depth % 64);
	c->object[c->depth / 64] |= (uint64_t)object << c->depth % 64;
	c->depth++;
	c->p++;
	return true;
}

static bool in_object(const struct check *c)
{
	return c->object[(c->depth - 1) / 64] >> (c->depth - 1) % 64 & 1;
}

/* One step: a scalar, or the beginning of a container. *filled: a value is complete now. */
static bool check_value(struct check *c, bool *filled)
{
	*filled = true;
	switch (c->p < c->end ? *c->p : '\0') {
	case '"': return check_string(c);
	case 't': return check_word(c, "true");
	case 'f': return check_word(c, "false");
	case 'n': return check_word(c, "null");
	case '{':
	case '[':
		*filled = false;
		if (!check_open(c, *c->p == '{'))
			return false;
		skip_blanks(&c->p, c->end);
		if (c->p < c->end && *c->p == (in_object(c) ? '}' : ']')) {
			c->p++;
			c->depth--;
			*filled = true;
			return true;
		}
		return !in_object(c) || check_key(c);
	default: return check_number(c);
	}
}

/* After a complete value: closes what ends here, or passes the comma before the next one. */
static bool check_after(struct check *c, bool *more)
{
	*more = false;
	while (c->depth) {
		skip_blanks(&c->p, c->end);
		if (c->p == c->end)
			return false;
		if (*c->p == ',') {
			c->p++;
			*more = true;
			return !in_object(c) || check_key(c);
		}
		if (*c->p != (in_object(c) ? '}' : ']'))
			return false;
		c->p++;
		c->depth--;
	}
	return true;
}

int jval_parse(const char *text, size_t n, struct jval *v)
{
	struct check c = { .p = text, .end = text + n };
	const char *from;
	bool more = true, filled;

	*v = (struct jval){ 0 };
	skip_blanks(&c.p, c.end);
	from = c.p;
	while (more) {
		skip_blanks(&c.p, c.end);
		if (!check_value(&c, &filled) || (filled && !check_after(&c, &more)))
			return -EINVAL;
	}
	*v = (struct jval){ from, (size_t)(c.p - from) };
	skip_blanks(&c.p, c.end);
	if (c.p != c.end) {
		*v = (struct jval){ 0 };
		return -EINVAL;
	}
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

/* Moves p over one value. */
static const char *skip_value(const char *p, const char *end)
{
	unsigned int depth = 0;
	bool in_string = false;

	for (; p < end; p++) {
		if (in_string) {
			if (*p == '\\' && p + 1 < end)
				p++;
			else if (*p == '"')
				in_string = false;
		} else if (*p == '"') {
			in_string = true;
		} else if (*p == '[' || *p == '{') {
			depth++;
		} else if (*p == ']' || *p == '}') {
			if (!depth)
				return p;
			depth--;
		} else if (!depth && (*p == ',' || *p == ':')) {
			return p;
		}
	}
	return end;
}

/* The value at *at without the blanks around it; *at moves past what follows it (',' or ':'). */
static struct jval take_value(const char **at, const char *end)
{
	const char *from, *stop, *last;

	skip_blanks(at, end);
	from = *at;
	stop = last = skip_value(from, end);
	while (last > from && strchr(" \t\r\n", last[-1]))
		last--;
	*at = stop < end ? stop + 1 : end;
	return (struct jval){ from, (size_t)(last - from) };
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
		skip_blanks(&i->at, i->end);
	if (i->at == i->end)
		return false;
	if (i->object)
		i->key = take_value(&i->at, i->end);
	i->value = take_value(&i->at, i->end);
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
