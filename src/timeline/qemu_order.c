/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_order.c: anchors of a trace without any times.
 *
 * What a thread of QEMU traces is in its file in the order in which KVM saw it, one for one. So the
 * whole sequence is moved along the host's until everything fits: an interrupt that the host shows
 * again must be that of the same queue. If there are many changes between queues, it fits in one
 * place or none.
 *
 * Doorbells are rung by vCPUs and handled in another order, but those of one queue are not: they
 * are counted from the interrupts on.
 */
#include "qemu_match.h"

#define CHANGES 16	     /* different labels among the anchors, at least */
#define WORK	(1ull << 28) /* steps of a search */
#define LABELS	4096	     /* that are told apart */
#define LANE_LEAST 8

/* Consecutive anchors of one kind, and of one thread. */
struct row {
	const struct qanchor **v;
	uint32_t *label;   /* small numbers */
	uint32_t *changes; /* so many before it, from the first one on */
	size_t n, nlabel;
};

struct order {
	struct row q, h;
	uint64_t work;
	uint32_t *as, *when; /* host's label: QEMU's, and the try that found it */
	uint32_t tries;
	struct qpairs *out;
	size_t irqs; /* of them, for doorbells */
};

static void row_free(struct row *r)
{
	free(r->v);
	free(r->label);
	free(r->changes);
	*r = (struct row){ 0 };
}

static int row_fill(struct row *r, const struct qanchors *a, uint8_t kind, int32_t tid)
{
	struct u64map labels = { 0 };
	uint64_t label;
	int ret = 0;

	r->v = calloc(a->n + 1, sizeof(*r->v));
	r->label = calloc(a->n + 1, sizeof(*r->label));
	r->changes = calloc(a->n + 1, sizeof(*r->changes));
	if (!r->v || !r->label || !r->changes)
		return -ENOMEM;
	for (size_t i = 0; i < a->n && !ret; i++) {
		if (a->v[i].kind != kind || a->v[i].tid != tid)
			continue;
		if (!u64map_get(&labels, a->v[i].label, &label)) {
			label = MIN(r->nlabel, (size_t)LABELS - 1);
			ret = u64map_put(&labels, a->v[i].label, label);
			r->nlabel = label + 1;
		}
		r->label[r->n] = (uint32_t)label;
		if (r->n)
			r->changes[r->n] =
				r->changes[r->n - 1] + (r->label[r->n] != r->label[r->n - 1]);
		r->v[r->n++] = &a->v[i];
	}
	u64map_free(&labels);
	return ret;
}

/* count of them from q and from h on: does each host label correspond to one of QEMU's? */
static bool row_fits(struct order *o, size_t q, size_t h, size_t count)
{
	o->tries++;
	for (size_t i = 0; i < count; i++) {
		uint32_t mine = o->q.label[q + i], other = o->h.label[h + i];

		o->work++;
		if (o->when[other] != o->tries) {
			o->when[other] = o->tries;
			o->as[other] = mine;
		} else if (o->as[other] != mine) {
			return false;
		}
	}
	return true;
}

static uint32_t changes(const struct row *r, size_t from, size_t count)
{
	return r->changes[from + count - 1] - r->changes[from];
}

/*
 * All places of the host's row along QEMU's. Returns how many fit, up to 2; the first: *q and *h
 * correspond, and so do count of them.
 */
static int row_places(struct order *o, size_t *q, size_t *h, size_t *count)
{
	int found = 0;

	for (size_t move = 1; move < o->q.n + o->h.n && found < 2 && o->work < WORK; move++) {
		size_t qi = move > o->h.n ? move - o->h.n : 0,
		       hi = move > o->h.n ? 0 : o->h.n - move;
		size_t n = MIN(o->q.n - qi, o->h.n - hi);

		o->work++;
		if (changes(&o->q, qi, n) < CHANGES || changes(&o->h, hi, n) < CHANGES ||
		    !row_fits(o, qi, hi, n))
			continue;
		if (!found++) {
			*q = qi;
			*h = hi;
			*count = n;
		}
	}
	return found;
}

/* 1: it fits at one place, and its pairs were added; 0; -E2BIG: at several; -ENOMEM. */
static int try_row(struct order *o)
{
	size_t q = 0, h = 0, count = 0;
	int ret = o->q.n && o->h.n ? row_places(o, &q, &h, &count) : 0;

	if (ret != 1 || o->work >= WORK)
		return ret > 1 ? -E2BIG : 0;
	for (size_t i = 0; i < count && ret > 0; i++)
		if (qpairs_add(o->out, o->q.v[q + i]->seq, o->h.v[h + i]))
			ret = -ENOMEM;
	return ret;
}

/* ---- doorbells ---- */

/* The host times between which event number seq was, by the pairs of interrupts; false: unknown. */
static bool between(const struct qpairs *p, size_t n, uint64_t seq, uint64_t *lo, uint64_t *hi)
{
	size_t a = COUNT_BEFORE(i, n, p->v[i].at < seq);

	if (!a || a == n || p->v[a].hi == UINT64_MAX || p->v[a - 1].hi == UINT64_MAX)
		return false;
	*lo = p->v[a - 1].lo;
	*hi = p->v[a].hi;
	return true;
}

struct bells {
	const struct qanchor *q, *h;
	size_t nq, nh;
};

/*
 * The host's bells from number `move` on as those of QEMU's events: none may ring after it was
 * handled, and most ring when the previous one had been.
 */
static bool bells_fit(const struct bells *b, const struct qpairs *p, size_t n, size_t move)
{
	uint64_t before = UINT64_MAX, lo, hi;
	size_t known = 0, idle = 0;

	for (size_t i = 0; i < b->nq; i++) {
		if (!between(p, n, b->q[i].seq, &lo, &hi)) {
			before = UINT64_MAX;
			continue;
		}
		if (move + i >= b->nh || b->h[move + i].at > hi)
			return false;
		known += before != UINT64_MAX;
		idle += before != UINT64_MAX && b->h[move + i].at > before;
		before = hi;
	}
	return known >= LANE_LEAST && idle >= known - known / 4;
}

/* Leaves out QEMU's events that are not between interrupts; the host's first may be any. */
static int bells_pairs(struct order *o, struct bells *b)
{
	size_t n = o->irqs, fits = 0, at = 0;
	uint64_t lo, hi;

	while (b->nq && !between(o->out, n, b->q->seq, &lo, &hi)) {
		b->q++;
		b->nq--;
	}
	while (b->nq && !between(o->out, n, b->q[b->nq - 1].seq, &lo, &hi))
		b->nq--;
	for (size_t move = 0; b->nq && move + b->nq <= b->nh && o->work < WORK; move++) {
		o->work += b->nq;
		if (!bells_fit(b, o->out, n, move))
			continue;
		fits++;
		at = move;
	}
	for (size_t i = 0; i < b->nq && fits == 1; i++)
		if (qpairs_add(o->out, b->q[i].seq, &b->h[at + i]))
			return -ENOMEM;
	return 0;
}

/* The next lane of bells from number i on, and where it ends. */
static size_t next_lane(const struct qanchors *a, size_t *i)
{
	size_t end;

	while (*i < a->n && a->v[*i].kind != QANCHOR_BELL)
		++*i;
	for (end = *i;
	     end < a->n && a->v[end].kind == QANCHOR_BELL && a->v[end].label == a->v[*i].label;
	     end++)
		;
	return end;
}

/* Starting from the interrupts, which are all pairs so far. */
static int add_bells(struct order *o, struct qanchors *q, struct qanchors *h)
{
	size_t i, k, qend, hend;
	int ret = 0;

	o->irqs = o->out->n;
	qanchors_sort_lanes(q);
	qanchors_sort_lanes(h);
	for (i = 0; (qend = next_lane(q, &i)) > i && !ret; i = qend)
		for (k = 0; (hend = next_lane(h, &k)) > k && !ret; k = hend) {
			struct bells b = { &q->v[i], &h->v[k], qend - i, hend - k };

			ret = bells_pairs(o, &b);
		}
	qpairs_sort(o->out);
	return ret;
}

/* ---- both ---- */

static int try_kind(struct order *o, const struct qanchors *q, const struct qanchors *h,
		    uint8_t kind, int32_t tid)
{
	int ret = row_fill(&o->q, q, kind, 0);

	ret = ret ?: row_fill(&o->h, h, kind, tid);
	ret = ret ?: try_row(o);
	row_free(&o->q);
	row_free(&o->h);
	return ret;
}

/* Interrupts of each thread that raises some. One of these threads is QEMU's. */
static int try_irqs(struct order *o, const struct qanchors *q, const struct qanchors *h)
{
	_cleanup_(u64map_free) struct u64map seen = { 0 };
	int ret = 0, found = 0;

	for (size_t i = 0; i < h->n && (ret >= 0 || ret == -E2BIG) && found < 2; i++) {
		int32_t tid = h->v[i].tid;

		if (h->v[i].kind != QANCHOR_IRQ || u64map_get(&seen, (uint32_t)tid, NULL))
			continue;
		ret = u64map_put(&seen, (uint32_t)tid, 1);
		ret = ret ?: try_kind(o, q, h, QANCHOR_IRQ, tid);
		found += ret > 0 ? 1 : ret == -E2BIG ? 2 : 0;
	}
	return found > 1 ? -E2BIG : ret < 0 ? ret : found;
}

static int order_all(struct order *o, struct qanchors *q, struct qanchors *h)
{
	static const uint8_t served[] = { QANCHOR_EXIT, QANCHOR_WRITE, QANCHOR_READ };
	int ret = try_irqs(o, q, h), more;

	if (ret > 0) {
		ret = add_bells(o, q, h);
		return ret ?: 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(served) && (ret >= 0 || ret == -E2BIG); i++) {
		more = try_kind(o, q, h, served[i], 0);
		ret = more == -ENOMEM || more > 0 ? more : ret > 0 ? ret : MIN(ret, more);
	}
	qpairs_sort(o->out);
	return ret;
}

int qmatch_order(struct qanchors *q, struct qanchors *h, struct qpairs *out, const char **why)
{
	struct order o = { .out = out,
			   .as = calloc(LABELS, sizeof(*o.as)),
			   .when = calloc(LABELS, sizeof(*o.when)) };
	int ret = o.as && o.when ? order_all(&o, q, h) : -ENOMEM;

	*why = ret == -E2BIG	? "by their order alone its events fit at more than one time" :
	       o.work >= WORK	? "the search ended at its limit of work" :
				  "nothing that both sides show tells where its lines belong";
	free(o.as);
	free(o.when);
	return ret == -E2BIG ? 0 : ret;
}
