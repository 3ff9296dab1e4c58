/* SPDX-License-Identifier: GPL-2.0-or-later */
/* text.c: kernel text files, which both capture formats carry, and the symbols of a capture. */

#include "kvmft/ksyms.h"
#include "kvmft/util.h"
#include "reader.h"

/*
 * ---- the record lines of a capture's meta file, both ways ----
 *
 *   RECORD NAME=VALUE NAME=VALUE ...\n
 *
 * Values are words: bytes outside 0x21..0x7e, '%' and '=' are written as %XX. An empty value is
 * legal. Names are plain words chosen by kvmft. One line is one record; appending is atomic enough,
 * because the reader ignores a line without newline.
 */

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

void cap_parse_tasks(struct capture *c, char *text, bool tgids)
{
	char *save, *line = strtok_r(text, "\n", &save);
	uint64_t tid, tgid = 0;

	for (; line; line = strtok_r(NULL, "\n", &save)) {
		const char *s = line + strspn(line, " \t");

		if (!take_u64(&s, INT32_MAX, &tid))
			continue;
		s += strspn(s, tgids ? " \t" : " ");
		if (tgids ? take_u64(&s, INT32_MAX, &tgid) : *s != '\0')
			cap_task_add(c, (int32_t)tid, (int32_t)tgid, tgids ? NULL : s, false);
	}
}

void cap_set_printk(struct capture *c, const char *text, size_t len)
{
	if (!len || c->printk)
		return;
	if (len > CAP_MAX_TEXT || memchr(text, 0, len)) {
		cap_note(c, "printk formats: not text, or too long");
		return;
	}
	c->printk = xstrndup(text, len);
	c->printk_len = len;
}

void cap_set_kallsyms(struct capture *c, const char *text, size_t len)
{
	if (!len || c->kallsyms || len > CAP_MAX_KALLSYMS)
		return;
	c->kallsyms = xmalloc(len + 1);
	memcpy(c->kallsyms, text, len);
	c->kallsyms[len] = '\0';
	c->kallsyms_len = len;
}

const char *capture_kallsyms(const struct capture *c, size_t *len)
{
	struct cap_later later = { .load = NULL };

	if (c->priv) {
		later = cap_priv(c)->kallsyms;
		cap_priv(c)->kallsyms.load = NULL;
	}
	/* What the reader of the whole file would have done. */
	if (later.load)
		later.load((struct capture *)(uintptr_t)c, &later);
	*len = c->kallsyms_len;
	return c->kallsyms;
}

void cap_parse_clock(char **slot, const char *text)
{
	char word[256];

	if (!strchr(text, '['))
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, " \n"), text);
	else if (ktext_chosen(text, word, sizeof(word)))
		*word = '\0';
	if (*word)
		cap_set_str(slot, word);
}

void cap_parse_stats(const char *text, struct cap_cpustat *st)
{
	const struct {
		const char *name;
		uint64_t *val;
	} known[] = {
		{ "entries", &st->entries },
		{ "overrun", &st->overrun },
		{ "commit overrun", &st->commit_overrun },
		{ "dropped events", &st->dropped },
		{ "read events", &st->read },
	};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!ktext_number(text, known[i].name, &v)) {
			*known[i].val += v;
			st->valid = true;
		}
}

/* ---- the symbols that a capture holds of its kernel ---- */

static bool symbols_load(struct capture *c, struct ksyms *k, const struct cap_part *file)
{
	const size_t size = (size_t)file->size;
	_cleanup_free_ char *text = xmalloc(size + 1);
	size_t bad;
	int ret;

	if (cap_part_read(file, text, size, 0) != (ssize_t)size) {
		cap_note(c, CAP_SYMBOLS " cannot be read: no symbol is used");
		return false;
	}
	ret = ksyms_unpack(k, text, size, &bad);
	if (ret == -EBADMSG && !bad)
		cap_note(c, CAP_SYMBOLS
			 " is not in the format that this kvmft reads: no symbol is used");
	else if (ret == -EBADMSG)
		cap_note(c, CAP_SYMBOLS " is damaged at byte %zu: no symbol is used", bad);
	else if (ret)
		memory_out();
	if (ret)
		return false;
	for (size_t i = 0; i < c->ngone; i++)
		ksyms_drop_module(k, c->gone[i]);
	return true;
}

static bool symbols_of_directory(struct capture *c, struct ksyms *k)
{
	const struct cap_priv *p = cap_priv(c);
	struct cap_part file;
	int ret = cap_part_open(&p->dir, CAP_SYMBOLS, &file);
	bool any = false;

	if (ret && (ret != -ENOENT || p->symbols_told))
		cap_note(c, CAP_SYMBOLS ": %s", strerror(-ret));
	if (ret)
		return false;
	if (file.size > CAP_MAX_TEXT)
		cap_note(c, CAP_SYMBOLS ": too long");
	else if (p->symbols_told && file.size != p->symbols_bytes)
		cap_note(c,
			 CAP_SYMBOLS " is cut: %" PRIu64 " of %" PRIu64 " bytes: no symbol is used",
			 file.size, p->symbols_bytes);
	else
		any = symbols_load(c, k, &file);
	util_close_fd(&file.fd);
	return any;
}

bool capture_symbols(struct capture *c, struct ksyms *k)
{
	const char *text;
	size_t len;

	*k = (struct ksyms){ 0 };
	if (!c->is_tracedat)
		return cap_priv(c)->fd < 0 && symbols_of_directory(c, k);
	/* trace-cmd stores all of kallsyms; a part of it would not show where functions end. */
	text = capture_kallsyms(c, &len);
	if (!text || !memmem(text, len, " _stext\n", 8) || !memmem(text, len, " _etext\n", 8))
		return false;
	xdone(ksyms_parse(k, c->kallsyms, c->kallsyms_len));
	return k->n;
}
