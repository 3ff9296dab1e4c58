/* SPDX-License-Identifier: GPL-2.0-or-later */
/* json.c: a JSON writer whose only state is its nesting. */
#include "kvmft/json.h"

void json_init(struct json *j, struct sbuf *out)
{
	*j = (struct json){ .out = out };
}

int json_finish(const struct json *j)
{
	if (j->out->error)
		return j->out->error;
	if (j->error || j->depth || !j->filled)
		return -EINVAL;
	return 0;
}

static bool json_in_object(const struct json *j)
{
	return j->depth && (j->objects >> (j->depth - 1) & 1);
}

/* Whether a value may come now; if so, its comma is written. */
static bool json_value(struct json *j)
{
	const bool second_top = !j->depth && j->filled;
	const bool keyless = json_in_object(j) && !j->keyed;

	if (second_top || keyless)
		j->error = -EINVAL;
	if (j->error)
		return false;
	if (j->filled && !j->keyed)
		sbuf_addc(j->out, ',');
	j->filled = true;
	j->keyed = false;
	return true;
}

static void json_begin(struct json *j, bool object)
{
	uint64_t bit;

	if (j->depth == JSON_DEPTH_MAX)
		j->error = -EINVAL;
	if (!json_value(j))
		return;
	bit = (uint64_t)1 << j->depth++;
	j->objects = object ? j->objects | bit : j->objects & ~bit;
	j->filled = false;
	sbuf_addc(j->out, object ? '{' : '[');
}

static void json_end(struct json *j, bool object)
{
	if (!j->depth || json_in_object(j) != object || j->keyed)
		j->error = -EINVAL;
	if (j->error)
		return;
	j->depth--;
	j->filled = true; /* the enclosing container now has at least this one */
	sbuf_addc(j->out, object ? '}' : ']');
}

void json_object_begin(struct json *j)
{
	json_begin(j, true);
}

void json_object_end(struct json *j)
{
	json_end(j, true);
}

void json_array_begin(struct json *j)
{
	json_begin(j, false);
}

void json_array_end(struct json *j)
{
	json_end(j, false);
}

static void json_add_code(struct sbuf *out, uint32_t code)
{
	if (code > 0xffff) {
		sbuf_addf(out, "\\u%04x", 0xd7c0 + (code >> 10));
		code = 0xdc00 | (code & 0x3ff);
	}
	sbuf_addf(out, "\\u%04x", code);
}

static void json_add_ascii(struct sbuf *out, char c)
{
	/* Each letter of the second string is the escape of the byte above it. */
	static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
	const char *at = c ? strchr(special, c) : NULL;

	if (at) {
		sbuf_addc(out, '\\');
		sbuf_addc(out, letter[at - special]);
	} else if (c < 0x20 || c == 0x7f) {
		json_add_code(out, (unsigned char)c);
	} else {
		sbuf_addc(out, c);
	}
}

static void json_add_quoted(struct sbuf *out, const char *s, size_t n)
{
	sbuf_addc(out, '"');
	while (n) {
		const unsigned char *p = (const unsigned char *)s;
		size_t len = 0;

		/* The run at the beginning that needs no escape: nearly always all of it. */
		while (len < n && p[len] >= 0x20 && p[len] < 0x7f && p[len] != '"' &&
		       p[len] != '\\')
			len++;
		if (len) {
			sbuf_add_mem(out, s, len);
			s += len;
			n -= len;
			continue;
		}
		len = str_utf8_len(s, n);
		if (len == 1)
			json_add_ascii(out, *s);
		else if (!len)
			json_add_code(out, (unsigned char)*s);
		else if (str_unseen(s, len))
			json_add_code(out, str_unseen(s, len));
		else
			sbuf_add_mem(out, s, len);
		len = MAX(len, (size_t)1);
		s += len;
		n -= len;
	}
	sbuf_addc(out, '"');
}

void json_key(struct json *j, const char *key)
{
	if (!json_in_object(j) || j->keyed)
		j->error = -EINVAL;
	if (j->error)
		return;
	if (j->filled)
		sbuf_addc(j->out, ',');
	json_add_quoted(j->out, key, strlen(key));
	sbuf_addc(j->out, ':');
	j->keyed = true;
}

void json_str_mem(struct json *j, const void *p, size_t n)
{
	if (json_value(j))
		json_add_quoted(j->out, p, n);
}

void json_str(struct json *j, const char *text)
{
	if (text)
		json_str_mem(j, text, strlen(text));
	else
		json_null(j);
}

void json_hex(struct json *j, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, v);
	json_str(j, text);
}

void json_u64(struct json *j, uint64_t v)
{
	if (json_value(j))
		sbuf_add_u64(j->out, v);
}

void json_s64(struct json *j, int64_t v)
{
	if (json_value(j))
		sbuf_add_s64(j->out, v);
}

void json_bool(struct json *j, bool v)
{
	if (json_value(j))
		sbuf_add(j->out, v ? "true" : "false");
}

void json_null(struct json *j)
{
	if (json_value(j))
		sbuf_add(j->out, "null");
}

void json_fixed_u64(struct json *j, uint64_t v, unsigned int scale)
{
	char digit[JSON_SCALE_MAX + 20]; /* least significant first */
	unsigned int n = 0;

	if (scale > JSON_SCALE_MAX)
		j->error = -EINVAL;
	if (!json_value(j))
		return;
	do {
		digit[n++] = (char)('0' + v % 10);
		v /= 10;
	} while (v || n <= scale);
	while (n) {
		sbuf_addc(j->out, digit[--n]);
		if (n && n == scale)
			sbuf_addc(j->out, '.');
	}
}

/* ---- keys with their values ---- */

void json_put_str(struct json *j, const char *key, const char *text)
{
	json_key(j, key);
	json_str(j, text);
}

void json_put_u64(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_u64(j, v);
}

void json_put_s64(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_s64(j, v);
}

void json_put_bool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}

void json_put_fixed(struct json *j, const char *key, uint64_t v, unsigned int scale)
{
	json_key(j, key);
	json_fixed_u64(j, v, scale);
}

void json_put_known_u64(struct json *j, const char *key, bool known, uint64_t v)
{
	json_key(j, key);
	known ? json_u64(j, v) : json_null(j);
}

void json_put_known_s64(struct json *j, const char *key, bool known, int64_t v)
{
	json_key(j, key);
	known ? json_s64(j, v) : json_null(j);
}

void json_put_array(struct json *j, const char *key)
{
	json_key(j, key);
	json_array_begin(j);
}

void json_put_object(struct json *j, const char *key)
{
	json_key(j, key);
	json_object_begin(j);
}

void json_line_begin(struct json *j, struct sbuf *out)
{
	json_init(j, out);
	json_object_begin(j);
}

void json_line_end(struct json *j)
{
	json_object_end(j);
	sbuf_addc(j->out, '\n');
	j->out->error = json_finish(j);
}
