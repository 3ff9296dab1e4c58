/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btf.c: types of the kernel, as far as the layout of one structure goes.
 *
 * A header, then types, then their names. A type is three words (name; kind and number of entries;
 * size or another type) and what its kind adds, so each has to be looked at to find the next one.
 */
#include "kvmft/btf.h"

#define BTF_MAGIC   0xeb9fu
#define BTF_VERSION 1
#define BTF_HEADER  24u
#define KIND_STRUCT 4u

struct btf {
	struct cursor types;
	const char *names; /* the last byte is 0 */
	uint32_t nnames;
	const char *before; /* names of a base, at offsets below its length; likewise */
	uint32_t nbefore;
};

struct btf_type {
	uint32_t name, kind, entries;
	bool bits; /* offsets of members have the size of a bit field in the upper byte */
	struct cursor more;
};

static int btf_part(const uint8_t *from, size_t size, uint32_t off, uint32_t len, struct cursor *c)
{
	if (off > size || len > size - off)
		return -EPROTO;
	*c = (struct cursor){ .p = from + off, .left = len };
	return 0;
}

static int btf_header(const struct btf_text *t, struct btf *b)
{
	struct cursor c = { .p = t->p, .left = t->n }, names;
	const uint8_t *data = t->p;
	size_t size = t->n;
	uint32_t len, type_off, type_len, name_off, name_len;
	uint16_t magic;
	uint8_t version, flags;

	if (cur_u16(&c, &magic))
		return -EPROTO;
	if (magic != BTF_MAGIC || cur_u8(&c, &version) || cur_u8(&c, &flags) ||
	    version != BTF_VERSION || cur_u32(&c, &len) || cur_u32(&c, &type_off) ||
	    cur_u32(&c, &type_len) || cur_u32(&c, &name_off) || cur_u32(&c, &name_len) ||
	    len < BTF_HEADER || len > size)
		return -EPROTO;
	if (btf_part(data + len, size - len, type_off, type_len, &b->types) ||
	    btf_part(data + len, size - len, name_off, name_len, &names) ||
	    !name_len || names.p[name_len - 1])
		return -EPROTO;
	b->names = (const char *)names.p;
	b->nnames = name_len;
	return 0;
}

/* Bytes that a type of that kind adds; -ENOTSUP. */
static int64_t btf_extra(uint32_t kind, uint32_t entries)
{
	static const struct {
		uint8_t known, fixed, each;
	} kinds[] = {
		[1] = { 1, 4, 0 },	     /* integer */
		[2] = { 1, 0, 0 },	     /* pointer */
		[3] = { 1, 12, 0 },	     /* array */
		[KIND_STRUCT] = { 1, 0, 12 }, /* members: name, type, offset in bits */
		[5] = { 1, 0, 12 },	     /* union */
		[6] = { 1, 0, 8 },	     /* enum */
		[7] = { 1, 0, 0 },	     /* declared only */
		[8] = { 1, 0, 0 },	     /* typedef, volatile, const, restrict, function */
		[9] = { 1, 0, 0 },	     [10] = { 1, 0, 0 },
		[11] = { 1, 0, 0 },	     [12] = { 1, 0, 0 },
		[13] = { 1, 0, 8 },	     /* prototype */
		[14] = { 1, 4, 0 },	     /* variable */
		[15] = { 1, 0, 12 },	     /* section */
		[16] = { 1, 0, 0 },	     /* floating point */
		[17] = { 1, 4, 0 },	     /* tag of a declaration */
		[18] = { 1, 0, 0 },	     /* tag of a type */
		[19] = { 1, 0, 12 },	     /* enum of 64 bits */
	};

	if (kind >= ARRAY_SIZE(kinds) || !kinds[kind].known)
		return -ENOTSUP;
	return kinds[kind].fixed + (int64_t)kinds[kind].each * entries;
}

static int btf_next(struct btf *b, struct btf_type *t)
{
	uint32_t info, size;
	const uint8_t *p;
	int64_t more;

	if (cur_u32(&b->types, &t->name) || cur_u32(&b->types, &info) || cur_u32(&b->types, &size))
		return -EPROTO;
	t->kind = info >> 24 & 0x1f;
	t->entries = info & 0xffff;
	t->bits = info >> 31;
	more = btf_extra(t->kind, t->entries);
	if (more < 0)
		return (int)more;
	if (cur_bytes(&b->types, (size_t)more, &p))
		return -EPROTO;
	t->more = (struct cursor){ .p = p, .left = (size_t)more };
	return 0;
}

static bool btf_is_called(const struct btf *b, uint32_t at, const char *name)
{
	if (at < b->nbefore)
		return !strcmp(b->before + at, name);
	at -= b->nbefore;
	return at < b->nnames && !strcmp(b->names + at, name);
}

/* False: it has none of that name at a whole byte. */
static bool member_find(const struct btf *b, const struct btf_type *t, const char *name,
			uint32_t *offset)
{
	struct cursor c = t->more;
	uint32_t at, type, bit;

	while (!cur_u32(&c, &at) && !cur_u32(&c, &type) && !cur_u32(&c, &bit)) {
		if (!btf_is_called(b, at, name))
			continue;
		if (t->bits && bit >> 24)
			return false;
		bit &= t->bits ? 0xffffff : UINT32_MAX;
		*offset = bit / 8;
		return !(bit % 8);
	}
	return false;
}

int btf_offsets(const struct btf_text *data, const struct btf_text *base, const char *name,
		const char *const *member, size_t n, uint32_t *offset)
{
	struct btf b = { 0 }, kernel = { 0 };
	struct btf_type t;
	int ret = base ? btf_header(base, &kernel) : 0;

	ret = ret ?: btf_header(data, &b);
	b.before = kernel.names;
	b.nbefore = kernel.nnames;
	while (!ret && b.types.left) {
		ret = btf_next(&b, &t);
		if (ret || t.kind != KIND_STRUCT || !btf_is_called(&b, t.name, name))
			continue;
		for (size_t i = 0; i < n; i++)
			if (!member_find(&b, &t, member[i], &offset[i]))
				return -ENOENT;
		return 0;
	}
	return ret ?: -ENOENT;
}
