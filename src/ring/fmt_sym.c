/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fmt_sym.c: the __print_symbolic() tables of a print format, for names of exit reasons.
 *
 *   (REC->isa == 1) ? __print_symbolic(REC->exit_reason & 0xffff, { 0, "EXCEPTION_NMI" }, ...)
 *                   : __print_symbolic(REC->exit_reason, { 0x000, "read_cr0" }, ...)
 *
 * Each is a plan of its own, so that the names survive a print format newer than libtraceevent:
 * tep_parse_event() throws away all arguments when it does not know one.
 */
#include "fmt_plan.h"

#define MAX_TABLES 32 /* tried: libtraceevent keeps what it parses, good or not */

/* The first field in an expression. */
static const struct pnode *first_field(const struct pnode *n)
{
	const struct pnode *found;

	if (!n || n->kind == P_FIELD)
		return n;
	found = first_field(n->a);
	found = found ?: first_field(n->b);
	return found ?: first_field(n->c);
}

int fmt_read_symbols(const struct fmt_event *e)
{
	struct fmt_lazy *lazy = e->lazy;
	const char *p = e->print, *end = p ? p + strlen(p) : NULL;
	struct fmt_plan **slot;
	unsigned int tried = 0;

	lazy->tab_tried = true;
	while (p < end && tried < MAX_TABLES) {
		if (*p == '"') {
			p = str_quoted_end(p, end);
			continue;
		}
		if (*p == '_' && str_starts(p, "__print_symbolic(")) {
			slot = array_grow(&lazy->tab, lazy->ntab, &lazy->tab_cap, sizeof(*slot));
			if (!slot)
				return -ENOMEM;
			errno = 0; /* libtraceevent does not tell why it failed */
			*slot = fmt_plan_new(lazy->f, e, p);
			if (!*slot && errno == ENOMEM)
				return -ENOMEM;
			lazy->ntab += *slot != NULL;
			tried++;
		}
		p++;
	}
	return 0;
}

const char *fmt_symbol(const struct fmt_event *e, const char *field, unsigned int nth,
		       uint64_t value)
{
	struct fmt_lazy *lazy = e->lazy;
	struct fmt_field fld;
	const struct psym *s;

	if (!fmt_field(e, field, &fld))
		return NULL;
	if (!lazy->tab_tried)
		(void)!fmt_read_symbols(e);
	for (size_t i = 0; i < lazy->ntab; i++) {
		const struct pnode *n = lazy->tab[i]->seg->arg, *of = first_field(n->a);

		if (!of || of->off != fld.off || nth--)
			continue;
		/* Of a field of 4 bytes, { -1, "X" } and { 0xffffffff, "X" } are the same. */
		if (fld.size == 4)
			value = (uint32_t)value;
		s = plan_symbol(n, (int64_t)value);
		if (!s && fld.size == 4)
			s = plan_symbol(n, (int32_t)value);
		return s ? s->str : NULL;
	}
	return NULL;
}

void fmt_free_symbols(struct fmt_lazy *lazy)
{
	for (size_t i = 0; i < lazy->ntab; i++)
		fmt_plan_free(lazy->tab[i]);
	free(lazy->tab);
}
