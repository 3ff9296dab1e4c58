/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_types.c: an event of QEMU as a record with fields.
 *
 * An event has up to three kinds of records, each with a format of its own: with the arguments of
 * its declaration, with its text, with bare numbers. After the common fields come
 *
 * 	8	where its text is (offset | length << 16); a field only of records without arguments
 * 	12	where its numbers are; a field only of records that have nothing else
 * 	16	arguments, 8 bytes each: numbers, or where the string is
 *
 * and behind those what is pointed to.
 */
#include "qemu_source.h"

#define HEAD	  16
#define MAX_REC	  65000u
#define MAX_TYPES 20000u

enum shape { SHAPE_ARGS, SHAPE_TEXT, SHAPE_RAW };

void qtypes_init(struct qtypes *t)
{
	struct capture none = { .long_size = sizeof(long) };

	hash_key_init(&t->key);
	t->fmt = fmt_load(&none);
}

void qtypes_free(struct qtypes *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].name);
	free(t->v);
	u64map_free(&t->by_key);
	fmt_free(t->fmt);
	*t = (struct qtypes){ 0 };
}

/* ---- formats ---- */

static void add_field(struct sbuf *b, const char *type, const char *name, size_t off,
		      unsigned int size, bool is_signed)
{
	sbuf_addf(b, "\tfield:%s %s;\toffset:%zu;\tsize:%u;\tsigned:%d;\n", type, name, off, size,
		  is_signed);
}

static char *format_text(const char *name, size_t id, const struct qev *ev, enum shape shape)
{
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	char *text;

	sbuf_addf(&b, "name: %s\nID: %zu\nformat:\n", name, id);
	add_field(&b, "unsigned short", "common_type", 0, 2, false);
	add_field(&b, "unsigned char", "common_flags", 2, 1, false);
	add_field(&b, "unsigned char", "common_preempt_count", 3, 1, false);
	add_field(&b, "int", "common_pid", 4, 4, true);
	sbuf_addc(&b, '\n');
	if (shape == SHAPE_TEXT)
		add_field(&b, "__data_loc char[]", "text", 8, 4, false);
	if (shape == SHAPE_RAW)
		add_field(&b, "__data_loc u64[]", "args", 12, 4, false);
	for (size_t k = 0; shape == SHAPE_ARGS && k < ev->nargs; k++) {
		const struct qev_arg *a = &ev->arg[k];
		size_t off = HEAD + 8 * k;

		switch (a->kind) {
		case QEV_STRING: add_field(&b, "__data_loc char[]", a->name, off, 4, false); break;
		case QEV_POINTER: add_field(&b, "void *", a->name, off, 8, false); break;
		case QEV_SIGNED: add_field(&b, "s64", a->name, off, 8, true); break;
		case QEV_UNSIGNED: add_field(&b, "u64", a->name, off, 8, false); break;
		}
	}
	sbuf_add(&b, "\nprint fmt: \"\"\n");
	text = xsbuf_take(&b);
	return text;
}

static int type_add(struct qtypes *t, char *name, const struct qev *ev, enum shape shape)
{
	struct qtype *slot = xarray_grow(&t->v, t->n, &t->cap, sizeof(*slot));
	_cleanup_free_ char *text = format_text(name, t->n + 1, ev, shape);
	char sys[] = "qemu";
	int ret;

	*slot = (struct qtype){ .ev = shape == SHAPE_ARGS ? ev : NULL, .name = name };
	t->n++;
	ret = fmt_add(t->fmt,
		      &(struct cap_format){
			      .sys = sys, .name = name, .text = text, .len = strlen(text) });
	return ret < 0 ? ret : 0;
}

static int qemu_type_of(struct qtypes *t, const struct qtrace_item *i, enum shape shape,
			uint16_t *id)
{
	const struct hash_key by = { { t->key.k[0] + shape, t->key.k[1] } };
	uint64_t key = hash_bytes(&by, i->name, i->name_len), at;
	char *name;
	int ret;

	if (u64map_get(&t->by_key, key, &at)) {
		*id = (uint16_t)at;
		return 0;
	}
	if (t->n >= MAX_TYPES)
		return -E2BIG;
	name = xstrndup(i->name, MIN(i->name_len, 255u));
	for (char *p = name; *p; p++) /* the name of an event in a file may be anything */
		if (*p <= ' ' || *p > '~' || *p == ':')
			*p = '?';
	ret = type_add(t, name, i->ev, shape);
	if (ret)
		return ret;
	*id = (uint16_t)t->n;
	xu64map_put(&t->by_key, key, t->n);
	return 0;
}

/* ---- records ---- */

/* Appends n bytes to the record, cut to the room that there is; returns where they are. */
static uint32_t add_bytes(struct sbuf *b, const void *p, size_t n)
{
	uint32_t off = (uint32_t)b->len;

	n = MIN(n, MAX_REC - MIN((size_t)off, (size_t)MAX_REC));
	sbuf_add_mem(b, p, n);
	return off | (uint32_t)n << 16;
}

int qtypes_record(struct qtypes *t, const struct qtrace_item *i, uint16_t *id, uint8_t **data,
		  uint32_t *len)
{
	static const uint8_t zero[HEAD + 8 * QEV_MAX_ARGS];
	enum shape shape = i->has_args ? SHAPE_ARGS : i->text ? SHAPE_TEXT : SHAPE_RAW;
	uint32_t text = 0, raw = 0;
	struct sbuf b = { 0 };
	int ret = qemu_type_of(t, i, shape, id);

	*data = NULL;
	if (ret)
		return ret;
	sbuf_add_mem(&b, zero, HEAD + (shape == SHAPE_ARGS ? 8 * i->ev->nargs : 0));
	if (shape == SHAPE_ARGS) {
		for (size_t k = 0; k < i->ev->nargs; k++) {
			const struct qev_value *v = &i->arg[k];
			uint64_t cell = v->num;
			uint32_t loc;

			if (i->ev->arg[k].kind == QEV_STRING) { /* format 0 has only its address */
				loc = add_bytes(&b, v->s ?: "", v->s ? v->len : 0);
				cell = 0;
				memcpy(&cell, &loc, sizeof(loc));
			}
			if (!b.error)
				memcpy(b.s + HEAD + 8 * k, &cell, sizeof(cell));
		}
	}
	if (i->text)
		text = add_bytes(&b, i->text, i->text_len);
	if (shape == SHAPE_RAW)
		raw = add_bytes(&b, i->raw, 8 * i->nraw);
	*len = (uint32_t)b.len;
	*data = (uint8_t *)xsbuf_take(&b);
	sbuf_free(&b);
	memcpy(*data, id, 2);
	memcpy(*data + 4, &i->tid, 4);
	memcpy(*data + 8, &text, 4);
	memcpy(*data + 12, &raw, 4);
	return 0;
}

/* ---- printing ---- */

static const char *at(const struct rec *rec, uint32_t loc, uint32_t *n)
{
	*n = loc >> 16;
	return (loc & 0xffff) + *n <= rec->len ? (const char *)rec->data + (loc & 0xffff) : NULL;
}

void qtypes_print(const struct qtypes *t, const struct rec *rec, struct sbuf *out)
{
	const struct qtype *y = rec->id && rec->id <= t->n ? &t->v[rec->id - 1] : NULL;
	size_t from = out->len;
	const char *p;
	uint32_t n;

	if (!y || rec->len < HEAD)
		return;
	p = at(rec, load_u32(rec->data + 8), &n);
	if (p && n) { /* as QEMU wrote it */
		sbuf_add_mem(out, p, n);
	} else if (y->ev && rec->len >= HEAD + 8 * y->ev->nargs) {
		struct qev_value v[QEV_MAX_ARGS];

		for (size_t k = 0; k < y->ev->nargs; k++) {
			v[k] = (struct qev_value){ .num = load_u64(rec->data + HEAD + 8 * k) };
			if (y->ev->arg[k].kind == QEV_STRING)
				v[k].s = at(rec, load_u32(rec->data + HEAD + 8 * k), &v[k].len);
		}
		qev_print(y->ev, v, y->ev->nargs, out);
	}
	p = at(rec, load_u32(rec->data + 12), &n);
	for (uint32_t k = 0; p && k + 8 <= n; k += 8)
		sbuf_addf(out, "%s0x%llx", k ? " " : "args ", (unsigned long long)load_u64(p + k));
	for (size_t k = from; k < out->len && !out->error; k++)
		out->s[k] = out->s[k] ? out->s[k] : '?';
	if (out->len > from && !out->error)
		str_printable(out->s + from);
}
