/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * meta.c: the record lines of a capture's meta file, both ways.
 *
 *   RECORD NAME=VALUE NAME=VALUE ...\n
 *
 * Values are words: bytes outside 0x21..0x7e, '%' and '=' are written as %XX. An empty value is
 * legal. Names are plain words chosen by kvmft. One line is one record; appending is atomic enough,
 * because the reader ignores a line without newline.
 */
#include "reader.h"

void meta_begin(struct sbuf *line, const char *record)
{
	sbuf_reset(line);
	sbuf_add(line, record);
}

static void add_key(struct sbuf *line, const char *key)
{
	sbuf_addc(line, ' ');
	sbuf_add(line, key);
	sbuf_addc(line, '=');
}

void meta_str(struct sbuf *line, const char *key, const char *val)
{
	if (!val)
		return;
	add_key(line, key);
	sbuf_add_escaped(line, val);
}

void meta_u64(struct sbuf *line, const char *key, uint64_t val)
{
	add_key(line, key);
	sbuf_add_u64(line, val);
}

void meta_s64(struct sbuf *line, const char *key, int64_t val)
{
	add_key(line, key);
	sbuf_add_s64(line, val);
}

bool meta_is_line(const char *line, size_t len)
{
	size_t i = 0;

	while (i < len && line[i] >= ' ' && line[i] <= '~')
		i++;
	return i == len;
}

bool meta_parse(char *line, struct meta_rec *rec)
{
	char *save, *word = strtok_r(line, " ", &save);

	rec->n = 0;
	if (!word || strchr(word, '='))
		return false;
	rec->name = word;
	while ((word = strtok_r(NULL, " ", &save))) {
		char *eq = strchr(word, '=');

		if (!eq || eq == word)
			return false;
		if (rec->n == META_MAX_KEYS) /* names of a later version, ignored like others */
			break;
		*eq = '\0';
		str_unescape(eq + 1);
		rec->kv[rec->n].key = word;
		rec->kv[rec->n].val = eq + 1;
		rec->n++;
	}
	return true;
}

const char *meta_get(const struct meta_rec *rec, const char *key)
{
	size_t i;

	for (i = 0; i < rec->n; i++)
		if (!strcmp(rec->kv[i].key, key))
			return rec->kv[i].val;
	return NULL;
}

bool meta_get_u64(const struct meta_rec *rec, const char *key, uint64_t *v)
{
	const char *s = meta_get(rec, key);

	return s && !parse_u64(s, v);
}

bool meta_get_s64(const struct meta_rec *rec, const char *key, int64_t *v)
{
	const char *s = meta_get(rec, key);

	return s && !parse_s64(s, v);
}

bool meta_get_bits(const struct meta_rec *rec, const char *key, uint64_t *v)
{
	const char *s = meta_get(rec, key);

	return s && !parse_bits64(s, v);
}

bool meta_get_u32(const struct meta_rec *rec, const char *key, uint32_t *v)
{
	uint64_t wide;

	if (!meta_get_u64(rec, key, &wide) || wide > UINT32_MAX)
		return false;
	*v = (uint32_t)wide;
	return true;
}

bool meta_get_s32(const struct meta_rec *rec, const char *key, int32_t *v)
{
	int64_t wide;

	if (!meta_get_s64(rec, key, &wide) || wide < INT32_MIN || wide > INT32_MAX)
		return false;
	*v = (int32_t)wide;
	return true;
}
