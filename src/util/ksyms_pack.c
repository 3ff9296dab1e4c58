/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms_pack.c: the symbols of a kernel as a capture holds them: text, lines in this order.
 *
 *	kvmft-symbols 2
 *	+NAME BASE SIZE		a module as /proc/modules has it, hexadecimal
 *	@NAME BASE BYTES	a group of functions of module NAME, @ BASE BYTES of the kernel;
 *				the first begins at BASE, BYTES is the length of its lines
 *	(an empty line)
 *	!OFFSET			in a group: its functions before BASE + OFFSET end there
 *	CREST OFFSET		a function at BASE + OFFSET
 *
 * Groups have no more than GROUP functions, and follow each other by their addresses; so a name is
 * found by reading one of them. Inside a group functions are sorted by name: C, one of 0-9a-z, is
 * how many characters a name shares with the one before it, REST the others. OFFSETs are in base
 * 36. So a line takes some 17 bytes, as it would if all functions were sorted by name.
 */
#include "ksyms_priv.h"

#include <inttypes.h>

#define MAX_SHARE (KSYMS_BASE - 1)
#define GROUP	  256u

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static int by_name(const void *a, const void *b)
{
	const struct ksym *x = *(const struct ksym *const *)a, *y = *(const struct ksym *const *)b;

	return strcmp(x->name, y->name) ?: ORDER(x->addr, y->addr);
}

static void put_number(struct sbuf *b, uint64_t v)
{
	char text[16], *p = text + sizeof(text);

	do
		*--p = digits[v % KSYMS_BASE];
	while (v /= KSYMS_BASE);
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

/* n functions; all is the end of the last one of all. */
static void put_group(const struct ksym *v, size_t n, const struct ksym *all, struct sbuf *b)
{
	const struct ksym *sorted[GROUP];
	const char *before = "";

	for (size_t i = 0; i < n; i++) {
		sorted[i] = &v[i];
		/* Where something other than the next function ends it. */
		if (v + i + 1 == all || v[i].addr + v[i].size != v[i + 1].addr) {
			sbuf_addc(b, '!');
			put_number(b, v[i].addr + v[i].size - v[0].addr);
		}
	}
	qsort(sorted, n, sizeof(*sorted), by_name);
	for (size_t i = 0; i < n; i++) {
		put_name(b, before, sorted[i]->name);
		put_number(b, sorted[i]->addr - v[0].addr);
		before = sorted[i]->name;
	}
}

int ksyms_pack(const struct ksyms *k, struct sbuf *out)
{
	_cleanup_(sbuf_free) struct sbuf groups = { 0 };

	sbuf_add(out, KSYMS_HEAD);
	for (size_t i = 0; i < k->nmod; i++)
		sbuf_addf(out, "+%.*s %" PRIx64 " %" PRIx32 "\n", (int)strlen(k->mod[i].name) - 2,
			  k->mod[i].name + 1, k->mod[i].addr, k->mod[i].size);
	for (size_t i = 0, n; i < k->n; i += n) {
		const struct ksym *v = k->v + i;
		size_t before = groups.len;

		for (n = 1; n < GROUP && i + n < k->n && !strcmp(v[n].module, v->module); n++)
			;
		put_group(v, n, k->v + k->n, &groups);
		sbuf_addf(out, "@%s %" PRIx64 " %zx\n", v->module, v->addr, groups.len - before);
	}
	sbuf_addc(out, '\n');
	sbuf_add(out, groups.s ?: "");
	return groups.error ?: out->error;
}
