/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms_pack.c: the symbols of a kernel as a capture holds them: text, lines in this order.
 *
 *	kvmft-symbols 1
 *	+NAME BASE SIZE		a module as /proc/modules has it, hexadecimal
 *	@NAME BASE		functions of module NAME follow, @ BASE those of the kernel
 *	!OFFSET			no function that begins before BASE + OFFSET goes on behind it
 *	CREST OFFSET		a function at BASE + OFFSET
 *
 * Functions are sorted by name: C, one of 0-9a-z, tells how many characters a name shares with the
 * one before it, REST the others. OFFSETs are of base 36, so that a line takes some 15 bytes.
 */
#include "kvmft/ksyms.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define HEAD	  "kvmft-symbols 1"
#define BASE	  36u
#define MAX_SHARE (BASE - 1)

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

/* ---- packing ---- */

/* By module, then by name. */
static int by_name(const void *a, const void *b)
{
	const struct ksym *x = *(const struct ksym *const *)a, *y = *(const struct ksym *const *)b;
	int order = strcmp(x->module, y->module);

	order = order ? order : strcmp(x->name, y->name);
	return order ? order : x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void put_number(struct sbuf *b, uint64_t v)
{
	char text[16], *p = text + sizeof(text);

	do
		*--p = digits[v % BASE];
	while (v /= BASE);
	sbuf_add_mem(b, p, (size_t)(text + sizeof(text) - p));
	sbuf_addc(b, '\n');
}

static void put_name(struct sbuf *b, const char *before, const char *name)
{
	unsigned int same = 0;

	while (same < MAX_SHARE && before[same] && before[same] == name[same])
		same++;
	sbuf_addc(b, digits[same]);
	sbuf_add(b, name + same);
	sbuf_addc(b, ' ');
}

/* Where something other than the next function ends them. */
static void put_ends(const struct ksyms *k, const struct ksym *const *v, size_t n, uint64_t base,
		     struct sbuf *b)
{
	const struct ksym *last = k->v + k->n - 1;

	for (size_t i = 0; i < n; i++) {
		const struct ksym *s = v[i];

		if (s == last || s->addr + s->size != s[1].addr) {
			sbuf_addc(b, '!');
			put_number(b, s->addr + s->size - base);
		}
	}
}

/* n functions of one module. */
static void put_group(const struct ksyms *k, const struct ksym *const *v, size_t n, struct sbuf *b)
{
	uint64_t base = v[0]->addr;
	const char *before = "";

	for (size_t i = 1; i < n; i++)
		base = MIN(base, v[i]->addr);
	sbuf_addf(b, "@%s %" PRIx64 "\n", v[0]->module, base);
	put_ends(k, v, n, base, b);
	for (size_t i = 0; i < n; i++) {
		put_name(b, before, v[i]->name);
		put_number(b, v[i]->addr - base);
		before = v[i]->name;
	}
}

int ksyms_pack(const struct ksyms *k, struct sbuf *out)
{
	const struct ksym **v = calloc(k->n + 1, sizeof(*v));
	size_t from = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < k->n; i++)
		v[i] = &k->v[i];
	if (k->n)
		qsort(v, k->n, sizeof(*v), by_name);
	sbuf_add(out, HEAD "\n");
	for (size_t i = 0; i < k->nmod; i++)
		sbuf_addf(out, "+%.*s %" PRIx64 " %" PRIx32 "\n", (int)strlen(k->mod[i].name) - 2,
			  k->mod[i].name + 1, k->mod[i].addr, k->mod[i].size);
	for (size_t i = 1; i <= k->n; i++) {
		if (i < k->n && !strcmp(v[i]->module, v[from]->module))
			continue;
		put_group(k, v + from, i - from, out);
		from = i;
	}
	free(v);
	return out->error;
}

/* ---- unpacking ---- */

struct unpack {
	struct ksyms *k;
	const char *p, *end;	 /* of the line */
	char module[KSYM_NAME], name[KSYM_NAME];
	size_t nm, nn;
	uint64_t base, last;	 /* last: address of the function before */
	bool group;
	uint64_t mod_end;	 /* modules come in the order of their addresses */
};

/* What comes up to the next blank, or the end: printable characters. */
static bool take(struct unpack *u, const char **s, size_t *n)
{
	*s = u->p;
	for (; u->p < u->end; u->p++)
		if (*u->p <= ' ' || *u->p > '~')
			break;
	*n = (size_t)(u->p - *s);
	/* A blank stands between two words, so none is the last. */
	return u->p == u->end || (*u->p++ == ' ' && u->p < u->end);
}

static bool take_number(struct unpack *u, unsigned int base, uint64_t *v)
{
	const char *s;
	size_t n;

	*v = 0;
	if (!take(u, &s, &n) || !n)
		return false;
	for (; n; n--, s++) {
		unsigned int c = (unsigned char)*s;
		unsigned int d = c >= 'a' ? c - 'a' + 10 : c <= '9' ? c - '0' : BASE;

		if (d >= base || __builtin_mul_overflow(*v, (uint64_t)base, v) ||
		    __builtin_add_overflow(*v, (uint64_t)d, v))
			return false;
	}
	return true;
}

static bool take_offset(struct unpack *u, uint64_t *addr)
{
	return u->group && take_number(u, BASE, addr) && u->p == u->end &&
	       !__builtin_add_overflow(*addr, u->base, addr);
}

static int module_line(struct unpack *u)
{
	uint64_t base, size;
	const char *name;
	size_t n;

	if (u->group || !take(u, &name, &n) || !n || n > KSYM_NAME - 3 ||
	    !take_number(u, 16, &base) || !take_number(u, 16, &size) || u->p != u->end ||
	    base < u->mod_end || ksyms_is_user(base) ||
	    __builtin_add_overflow(base, size, &u->mod_end))
		return -EBADMSG;
	return ksyms_add_module(u->k, base, size, name, n);
}

static int group_line(struct unpack *u)
{
	const char *name;
	size_t n;

	/* In the order of their names, so none comes twice. */
	if (!take(u, &name, &n) || n >= sizeof(u->module) || !take_number(u, 16, &u->base) ||
	    u->p != u->end || ksyms_is_user(u->base))
		return -EBADMSG;
	if (u->group) {
		int order = memcmp(u->module, name, MIN(n, u->nm));

		if (order > 0 || (!order && n <= u->nm))
			return -EBADMSG;
	}
	memcpy(u->module, name, n);
	u->nm = n;
	u->nn = 0;
	u->last = 0;
	u->group = true;
	return 0;
}

static int end_line(struct unpack *u)
{
	uint64_t addr;

	return take_offset(u, &addr) ? ksyms_add_bound(u->k, addr) : -EBADMSG;
}

static int function_line(struct unpack *u, const char *same)
{
	size_t shared = (size_t)(same - digits), n;
	const char *rest;
	uint64_t addr;
	int order;

	if (!take(u, &rest, &n) || shared > u->nn || shared + n >= sizeof(u->name) || !(shared + n))
		return -EBADMSG;
	/*
	 * After what it shares it is greater, or continues; or it is the same at a later address.
	 */
	order = memcmp(u->name + shared, rest, MIN(n, u->nn - shared));
	if (order > 0 || (!order && n < u->nn - shared))
		return -EBADMSG;
	order = order ? order : n > u->nn - shared ? -1 : 0;
	memcpy(u->name + shared, rest, n);
	u->nn = shared + n;
	if (!take_offset(u, &addr) || (!order && addr <= u->last))
		return -EBADMSG;
	u->last = addr;
	return ksyms_add(u->k, addr, 't', u->name, u->nn, u->module, u->nm);
}

static int one_line(struct unpack *u)
{
	const char *same;

	if (u->p == u->end)
		return -EBADMSG;
	switch (*u->p++) {
	case '+': return module_line(u);
	case '@': return group_line(u);
	case '!': return end_line(u);
	default: break;
	}
	same = memchr(digits, u->p[-1], BASE);
	return same ? function_line(u, same) : -EBADMSG;
}

static int lines(struct unpack *u, const char *p, const char *end, size_t *line)
{
	int ret = 0;

	for (*line = 1; p < end && !ret; ++*line) {
		u->p = p;
		u->end = memchr(p, '\n', (size_t)(end - p));
		if (!u->end)
			return -EBADMSG; /* it is cut */
		p = u->end + 1;
		if (*line > 1)
			ret = one_line(u);
		else if ((size_t)(u->end - u->p) != strlen(HEAD) ||
			 memcmp(u->p, HEAD, strlen(HEAD)))
			return -EBADMSG;
		if (ret)
			return ret == -E2BIG ? -EBADMSG : ret;
	}
	return *line > 1 ? 0 : -EBADMSG;
}

int ksyms_unpack(struct ksyms *k, const char *text, size_t len, size_t *line)
{
	struct unpack *u = calloc(1, sizeof(*u));
	int ret = u ? 0 : -ENOMEM;

	*k = (struct ksyms){ 0 };
	if (u) {
		u->k = k;
		ret = lines(u, text, text + len, line);
	}
	free(u);
	ret = ret ? ret : ksyms_finish(k);
	/* Two functions at one address: there is no telling which one it is. */
	if (!ret && k->aliases)
		ret = -EBADMSG;
	if (ret)
		ksyms_free(k);
	return ret;
}
