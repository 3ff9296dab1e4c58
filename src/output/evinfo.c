/* SPDX-License-Identifier: GPL-2.0-or-later */
/* evinfo.c: the types of events, as an output needs them. */
#include "evinfo.h"

void evinfos_free(struct evinfos *s)
{
	for (size_t i = 0; i < s->by_type.n; i++) {
		if (s->v[i])
			free(s->v[i]->name);
		free(s->v[i]);
	}
	free(s->v);
	u64map_free(&s->by_type);
	*s = (struct evinfos){ 0 };
}

const struct evinfo *evinfo_get(struct evinfos *s, const struct tl_item *i)
{
	struct evinfo **slot = xu64map_elem(&s->by_type, tl_type(i), &s->v, &s->cap, sizeof(*slot));
	_cleanup_(sbuf_free) struct sbuf b = { 0 };
	const struct fmt_event *ev = i->ev;
	struct evinfo *e = *slot;

	if (e)
		return e;
	*slot = e = xcalloc(1, sizeof(*e));
	e->ev = ev;
	sbuf_add(&b, fmt_sys(ev));
	sbuf_addc(&b, ':');
	sbuf_add(&b, fmt_name(ev));
	e->name = xsbuf_take(&b);
	e->is_stack = fmt_is_stack(ev);
	for (size_t k = 0; k < 64 && fmt_field_at(ev, k); k++)
		e->addresses |= (uint64_t)fmt_is_address(ev, fmt_field_at(ev, k)) << k;
	e->type = event_type_of(ev);
	e->role = e->type->role;
	return e;
}

size_t evinfo_fields(const struct fmt_event *ev)
{
	size_t n = fmt_common_fields(ev);

	while (fmt_field_at(ev, n))
		n++;
	return n - fmt_common_fields(ev);
}

bool evinfo_u64(const struct evinfo *e, const struct tl_item *i, size_t n, uint64_t *v)
{
	return fmt_u64(&e->type->f[n], i->rec, v);
}

bool evinfo_reason(const struct evinfo *e, const struct tl_item *i, char *buf, size_t size)
{
	const struct exit_names *n = &i->src->exits;
	uint64_t reason, isa = 0;
	struct exit_why why;

	if ((e->role != EV_EXIT && e->role != EV_NESTED_EXIT) || !evinfo_u64(e, i, 0, &reason))
		return false;
	if (!evinfo_u64(e, i, 1, &isa))
		isa = 0;
	why = exit_why(n, reason, isa);
	exit_reason_text(n, why.isa, why.reason, buf, size);
	return true;
}
