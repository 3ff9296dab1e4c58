/* SPDX-License-Identifier: GPL-2.0-or-later */
/* evinfo.c: the types of events, as an output needs them. */
#include "evinfo.h"

int evinfos_init(struct evinfos *s, const struct timeline *t)
{
	s->n = 0;
	s->src = calloc(MAX(tl_sources(t), (size_t)1), sizeof(*s->src));
	if (!s->src)
		return -ENOMEM;
	s->n = tl_sources(t);
	for (size_t i = 0; i < s->n; i++) {
		const struct tl_source *src = tl_source(t, i);

		exit_names_init(&s->src[i].exits, event_format(src->fmt, EV_EXIT),
				src->cap->vendor);
	}
	return 0;
}

static void evinfo_free(struct evinfo *e)
{
	if (e)
		free(e->name);
	free(e);
}

void evinfos_free(struct evinfos *s)
{
	for (size_t i = 0; i < s->n; i++) {
		for (size_t k = 0; k < s->src[i].n; k++)
			evinfo_free(s->src[i].v[k]);
		free(s->src[i].v);
		u64map_free(&s->src[i].by_id);
	}
	free(s->src);
	*s = (struct evinfos){ 0 };
}

static struct evinfo *evinfo_new(const struct fmt_event *ev)
{
	struct evinfo *e = calloc(1, sizeof(*e));
	_cleanup_(sbuf_free) struct sbuf b = { 0 };

	if (!e)
		return NULL;
	e->ev = ev;
	sbuf_add(&b, fmt_sys(ev));
	sbuf_addc(&b, ':');
	sbuf_add(&b, fmt_name(ev));
	e->name = sbuf_take(&b);
	if (!e->name) {
		free(e);
		return NULL;
	}
	e->is_stack = fmt_is_stack(ev);
	for (size_t k = 0; k < 64 && fmt_field_at(ev, k); k++)
		e->addresses |= (uint64_t)fmt_is_address(ev, fmt_field_at(ev, k)) << k;
	e->role = event_role_of(ev);
	event_resolve(ev, e->role, 0, &e->type);
	return e;
}

const struct evinfo *evinfo_get(struct evinfos *s, const struct tl_item *i)
{
	struct evinfo_source *src = &s->src[i->src->index];
	struct evinfo **slot;
	uint64_t at;

	if (u64map_get(&src->by_id, tl_type(i), &at))
		return src->v[at];
	slot = array_grow(&src->v, src->n, &src->cap, sizeof(*slot));
	if (!slot)
		return NULL;
	*slot = evinfo_new(i->ev);
	if (!*slot)
		return NULL;
	if (u64map_put(&src->by_id, tl_type(i), src->n)) {
		evinfo_free(*slot);
		return NULL;
	}
	return src->v[src->n++];
}

bool evinfo_u64(const struct evinfo *e, const struct tl_item *i, size_t n, uint64_t *v)
{
	return fmt_u64(&e->type.f[n], i->rec, v);
}

bool evinfo_reason(const struct evinfos *s, const struct evinfo *e, const struct tl_item *i,
		   char *buf, size_t size)
{
	const struct exit_names *n = &s->src[i->src->index].exits;
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
