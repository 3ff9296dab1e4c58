/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cursor.c: reading untrusted bytes.
 *
 * Only the remaining length is ever compared, never a pointer past the end, and a failed read
 * leaves the cursor where it was.
 */
#include "kvmft/util.h"

int cur_bytes(struct cursor *c, size_t n, const uint8_t **p)
{
	if (n > c->left)
		return -ENODATA;
	*p = c->p;
	if (n) /* an empty cursor may hold NULL, to which nothing may be added, not even 0 */
		c->p += n;
	c->left -= n;
	return 0;
}

int cur_skip(struct cursor *c, size_t n)
{
	const uint8_t *p;

	return cur_bytes(c, n, &p);
}

static inline int cur_copy(struct cursor *c, void *v, size_t n)
{
	const uint8_t *p;

	if (cur_bytes(c, n, &p))
		return -ENODATA;
	memcpy(v, p, n);
	return 0;
}

int cur_u8(struct cursor *c, uint8_t *v)
{
	return cur_copy(c, v, sizeof(*v));
}

int cur_u16(struct cursor *c, uint16_t *v)
{
	return cur_copy(c, v, sizeof(*v));
}

int cur_u32(struct cursor *c, uint32_t *v)
{
	return cur_copy(c, v, sizeof(*v));
}

int cur_u64(struct cursor *c, uint64_t *v)
{
	return cur_copy(c, v, sizeof(*v));
}

int cur_str(struct cursor *c, const char **s)
{
	const uint8_t *end = c->left ? memchr(c->p, 0, c->left) : NULL;
	const uint8_t *p;

	if (!end)
		return -ENODATA;
	if (cur_bytes(c, (size_t)(end - c->p) + 1, &p))
		return -ENODATA;
	*s = (const char *)p;
	return 0;
}
