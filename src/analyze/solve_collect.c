/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * solve_collect.c: windows and events for solve.c, from captures. Where the host lost events, or
 * shows two exits without an entry between them, the guest may have run.
 */
#include "solve.h"

#include <errno.h>
#include <string.h>

#include "kvmft/pairs.h"
#include "kvmft/timeline.h"
#include "leave.h"

#define MAX_DEADLINES (1u << 18)

struct vcpu_state {
	bool known, in_guest;
	bool left; /* an interrupt told of the exit; its kvm_exit is still to come */
	uint64_t since; /* the guest may be running since then, or the time of the last exit */
};

struct collect {
	struct solve *s;
	size_t vm;
	const struct fmt_event *entry, *exit;
	struct leave_events leave;
	struct pair_events msr;
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
	for (size_t i = 0; i < c->n; i++) {
		c->v[i].in_guest = c->v[i].known;
		c->v[i].left = false;
	}
}

static uint64_t deadline_key(uint32_t vcpu, uint64_t value)
{
	return value * 0x9e3779b97f4a7c15ull + vcpu;
}

/* Each value is written once; one that is not belongs to nobody (time 0). */
static void collect_deadline(struct solve *s, uint32_t vcpu, uint64_t value, uint64_t host)
{
	uint64_t key = deadline_key(vcpu, value), other;

	if (u64map_get(&s->deadline, key, &other))
		host = 0;
	else if (s->deadlines++ >= MAX_DEADLINES)
		return;
	(void)!u64map_put(&s->deadline, key, host); /* it only helps */
}

/* The vCPU's thread at an entry, an exit, or (neither) an interrupt that tells of the exit. */
static int collect_turn(struct collect *c, struct vcpu_state *v, const struct tl_item *i)
{
	bool entry = i->ev == c->entry, exit = i->ev == c->exit;
	int ret = 0;

	if (exit && v->left) {
		v->left = false;
		return 0;
	}
	if (!entry && !exit && (!v->known || !v->in_guest))
		return 0;
	if (v->known && !entry)
		ret = solve_add_window(c->s, (uint32_t)i->vcpu, v->since, i->host);
	if (!entry || !v->known || !v->in_guest)
		v->since = i->host;
	v->known = true;
	v->in_guest = entry;
	v->left = !entry && !exit;
	return ret;
}

static int collect_item(struct collect *c, const struct tl_item *i)
{
	struct vcpu_state *v;
	enum pair_kind kind;
	uint64_t value;

	if (i->kind == TL_GAP || i->kind == TL_DAMAGE)
		collect_gap(c);
	if (i->kind != TL_EVENT || i->vm != (int64_t)c->vm || i->vcpu < 0 || !i->ev || i->marker)
		return 0;
	if (pair_match(&c->msr, i->src->fmt, i->ev, i->rec, &kind, &value) && kind == PAIR_DEADLINE)
		collect_deadline(c->s, (uint32_t)i->vcpu, value, i->host);
	if (i->ev != c->entry && i->ev != c->exit && !leave_events_has(&c->leave, fmt_id(i->ev)))
		return 0;
	v = state_at(c, (uint32_t)i->vcpu);
	return v ? collect_turn(c, v, i) : -ENOMEM;
}

int solve_add_host(struct solve *s, struct hostmap *map, size_t vm, struct kvmft_err *err)
{
	struct collect c = {
		.s = s, .vm = map->vm[vm].of, .entry = fmt_find(map->fmt, "kvm", "kvm_entry"),
		.exit = fmt_find(map->fmt, "kvm", "kvm_exit"),
	};
	struct timeline *t;
	const struct tl_item *item;
	int ret = tl_new(map, &t, err);

	pair_events_init(&c.msr, map->fmt, false);
	leave_events_init(&c.leave, map->fmt);
	if (!ret)
		ret = tl_start(t, err);
	while (!ret && (ret = tl_next(t, &item)) > 0)
		ret = collect_item(&c, item);
	tl_free(t);
	u64map_free(&c.by_id);
	free(c.v);
	free(c.id);
	return ret;
}

static int guest_event(struct solve *s, const struct pair_events *msr, const struct fmt *fmt,
		       uint32_t vcpu, const struct rec *rec)
{
	const struct fmt_event *ev = fmt_by_id(fmt, rec->id);
	enum pair_kind kind;
	uint64_t value, host;

	if (s->deadlines && pair_match(msr, fmt, ev, rec, &kind, &value) && kind == PAIR_DEADLINE &&
	    u64map_get(&s->deadline, deadline_key(vcpu, value), &host) && host)
		solve_add_pair(s, vcpu, host, rec->ts);
	return solve_add_event(s, vcpu, rec->ts);
}

int solve_add_guest(struct solve *s, const struct capture *cap, const struct fmt *fmt)
{
	struct pair_events msr;
	int ret = 0;

	pair_events_init(&msr, fmt, true);

	for (size_t i = 0; i < cap->nstream && !ret; i++) {
		uint32_t vcpu = tl_vcpu_of_cpu(cap, cap->stream[i].cpu);
		struct rstream r;
		enum rkind k;

		ret = rstream_open(&r, cap, &cap->stream[i]);
		if (ret)
			return ret;
		while (!ret && (k = rstream_next(&r)) != R_END)
			if (k == R_EVENT)
				ret = guest_event(s, &msr, fmt, vcpu, &r.rec);
		if (!ret)
			ret = r.error;
		rstream_close(&r);
	}
	return ret;
}
