/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_collect.c: windows and events for solve.c, from captures. Where the host lost events, or
 * shows two exits without an entry between them, the guest may have run.
 */
#include "solve.h"

#include <errno.h>
#include <string.h>

#include "kvmft/timeline.h"

struct vcpu_state {
	bool known, in_guest;
	uint64_t since; /* the guest may be running since then, or the time of the last exit */
};

struct collect {
	struct solve *s;
	size_t vm;
	const struct fmt_event *entry, *exit;
	struct u64map by_id; /* vCPU → index into v */
	struct vcpu_state *v;
	uint32_t *id;
	size_t n, cap, idcap;
};

static struct vcpu_state *state_at(struct collect *c, uint32_t id)
{
	struct vcpu_state *v;
	uint32_t *name;
	uint64_t at;

	if (u64map_get(&c->by_id, id, &at))
		return &c->v[at];
	v = array_grow(&c->v, c->n, &c->cap, sizeof(*v));
	name = array_grow(&c->id, c->n, &c->idcap, sizeof(*name));
	if (!v || !name || u64map_put(&c->by_id, id, c->n))
		return NULL;
	*name = id;
	c->n++;
	return v;
}

/* Host events were lost: from the last thing known on, every guest may have run. */
static void collect_gap(struct collect *c)
{
	for (size_t i = 0; i < c->n; i++)
		c->v[i].in_guest = c->v[i].known;
}

static int collect_item(struct collect *c, const struct tl_item *i)
{
	bool entry = i->ev == c->entry, exit = i->ev == c->exit;
	struct vcpu_state *v;
	int ret = 0;

	if (i->kind == TL_GAP || i->kind == TL_DAMAGE)
		collect_gap(c);
	if (i->kind != TL_EVENT || i->vm != (int64_t)c->vm || i->vcpu < 0 || !i->ev || !(entry || exit))
		return 0;
	v = state_at(c, (uint32_t)i->vcpu);
	if (!v)
		return -ENOMEM;
	if (v->known && exit)
		ret = solve_add_window(c->s, (uint32_t)i->vcpu, v->since, i->host);
	if (exit || !v->known || !v->in_guest)
		v->since = i->host;
	v->known = true;
	v->in_guest = entry;
	return ret;
}

int solve_add_host(struct solve *s, struct hostmap *map, size_t vm, struct kvmft_err *err)
{
	struct collect c = {
		.s = s, .vm = map->vm[vm].of, .entry = fmt_find(map->fmt, "kvm", "kvm_entry"),
		.exit = fmt_find(map->fmt, "kvm", "kvm_exit"),
	};
	struct timeline *t;
	struct tl_item item;
	int ret = tl_new(map, &t, err);

	if (!ret)
		ret = tl_start(t, err);
	while (!ret && (ret = tl_next(t, &item)) > 0)
		ret = collect_item(&c, &item);
	tl_free(t);
	u64map_free(&c.by_id);
	free(c.v);
	free(c.id);
	return ret;
}

int solve_add_guest(struct solve *s, const struct capture *cap)
{
	int ret = 0;

	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		uint32_t vcpu = tl_vcpu_of_cpu(cap, cap->stream[i].cpu);
		struct rstream r;
		enum rkind k;

		ret = rstream_open(&r, cap, &cap->stream[i]);
		if (ret)
			return ret;
		while (!ret && (k = rstream_next(&r)) != R_END)
			if (k == R_EVENT)
				ret = solve_add_event(s, vcpu, r.rec.ts);
		if (!ret)
			ret = r.error;
		rstream_close(&r);
	}
	return ret;
}
