/* SPDX-License-Identifier: GPL-2.0-or-later */
/* runs.c: one ordered walk over a host capture; per vCPU thread its turns. */
#include "kvmft/timeline.h"
#include "kvmft/vcpu_turn.h"

#define MAX_DEADLINES (1u << 18)

/* ---- lists ---- */

bool run_list_add(struct run_list *l, uint64_t from, uint64_t to, uint64_t min_gap)
{
	struct vcpu_run *last = l->n ? &l->v[l->n - 1] : NULL, *slot;

	if (to < from || (last && to <= last->to))
		return false;
	if (last && (from <= last->to || from - last->to < min_gap)) {
		last->to = to;
		return false;
	}
	slot = xarray_grow(&l->v, l->n, &l->cap, sizeof(*slot));
	*slot = (struct vcpu_run){ .from = from, .to = to };
	l->n++;
	return true;
}

void run_list_join(struct run_list *l, uint64_t min_gap)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (n && l->v[i].from - l->v[n - 1].to < min_gap)
			l->v[n - 1].to = l->v[i].to;
		else
			l->v[n++] = l->v[i];
	}
	l->n = n;
}

COMPARE(by_from, struct vcpu_run, ORDER(x->from, y->from) ?: ORDER(x->to, y->to));

void run_list_sort(struct run_list *l)
{
	size_t n = l->n, in_order = 1;

	while (in_order < n && l->v[in_order - 1].to < l->v[in_order].from)
		in_order++;
	if (in_order >= n) /* as of one thread */
		return;
	array_sort(l->v, n, by_from);
	l->n = 0;
	for (size_t i = 0; i < n; i++)
		run_list_add(l, l->v[i].from, l->v[i].to, 0);
}

size_t run_list_at(const struct run_list *l, uint64_t host)
{
	return COUNT_BEFORE(i, l->n, l->v[i].to < host);
}

/* ---- the walk ---- */

struct collect {
	struct runs *r;
	uint64_t blind_until, gaps; /* host events were lost up to here; so often */
};

static void add_run(struct runs *r, struct run_list *l, uint64_t from, uint64_t to)
{
	r->total += run_list_add(l, from, to, r->min_gap);
	/* Half as many, over all threads. */
	for (bool many = r->total >= RUNS_MAX; many; many = r->total > RUNS_MAX / 2) {
		r->min_gap = r->min_gap ? r->min_gap * 2 : 1024;
		r->total = 0;
		for (size_t i = 0; i < r->by_tid.n; i++) {
			run_list_join(&r->t[i].list, r->min_gap);
			r->total += r->t[i].list.n;
		}
	}
}

static uint64_t deadline_key(int32_t tid, uint64_t value)
{
	return value * 0x9e3779b97f4a7c15ull + (uint32_t)tid;
}

static void collect_turn(struct runs *r, struct run_thread *t, const struct tl_item *i,
			 enum turn_event e)
{
	uint64_t late = i->host + i->width + i->around; /* a host's clock may not be exact */
	bool known = t->turn.state != TURN_UNKNOWN;
	uint64_t since = t->since;

	switch (vcpu_turn_step(&t->turn, e)) {
	case TURN_SAME:
	case TURN_AGAIN: return;
	case TURN_BEGAN: t->since = i->host - MIN(i->host, i->around); return;
	default: t->since = late;
	}
	if (known)
		add_run(r, &t->list, since, late);
}

static void collect_item(void *collect, const struct tl_item *i)
{
	struct collect *c = collect;
	enum msr_pair kind;
	struct run_thread *t;
	enum turn_event e;
	uint64_t value;

	if (i->kind == TL_GAP || i->kind == TL_DAMAGE) {
		/*
		 * Host events were lost: from the last thing known on, every guest may have run,
		 * until the gap has ended and the thread is seen again. What other CPUs show
		 * meanwhile does not say where it was on this one.
		 */
		c->blind_until = MAX(c->blind_until, i->host + i->width);
		c->gaps++;
	}
	if (i->kind != TL_EVENT || i->vcpu < 0 || !i->ev || i->marker)
		return;
	if (msr_pair_match(false, i->ev, i->rec, &kind, &value) && kind == MSR_PAIR_DEADLINE) {
		/* Each is written once; one that is written again belongs to nobody (time 0). */
		uint64_t key = deadline_key(i->tid, value);
		bool again = u64map_get(&c->r->deadline, key, NULL);

		if (again || c->r->ndeadline++ < MAX_DEADLINES) /* it only helps */
			(void)!u64map_put(&c->r->deadline, key, again ? 0 : i->host);
	}
	e = turn_event_of(i->ev);
	if (e == TURN_OTHER)
		return;
	t = xu64map_elem(&c->r->by_tid, (uint32_t)i->tid, &c->r->t, &c->r->tcap, sizeof(*t));
	if (t->gaps != c->gaps && t->turn.state != TURN_UNKNOWN)
		t->turn = (struct vcpu_turn){ .state = TURN_IN_GUEST };
	t->gaps = c->gaps;
	if (!c->blind_until || i->host > c->blind_until)
		collect_turn(c->r, t, i, e);
}

int runs_collect(struct hostmap *map, struct runs **out, struct kvmft_err *err)
{
	struct collect c = { .r = xcalloc(1, sizeof(*c.r)) };
	struct timeline *t;
	int ret;

	*out = c.r;
	ret = tl_new(map, &t, err);
	ret = ret ?: tl_start(t, err);
	ret = ret ?: tl_walk(t, TL_FEED(collect_item, &c)) ?: tl_error(t);
	tl_free(t);
	if (ret && !err->text[0])
		err_set(err, -ret, "cannot read the host capture %s: %s", map->cap->path,
			strerror(-ret));
	return ret;
}

const struct run_list *runs_of(const struct runs *r, int32_t tid)
{
	uint64_t at;

	return u64map_get(&r->by_tid, (uint32_t)tid, &at) ? &r->t[at].list : NULL;
}

uint64_t runs_deadline(const struct runs *r, int32_t tid, uint64_t value)
{
	uint64_t host;

	return u64map_get(&r->deadline, deadline_key(tid, value), &host) ? host : 0;
}

void runs_free(struct runs *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->by_tid.n; i++)
		free(r->t[i].list.v);
	free(r->t);
	u64map_free(&r->by_tid);
	u64map_free(&r->deadline);
	free(r);
}
