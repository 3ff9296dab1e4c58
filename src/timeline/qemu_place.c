/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_place.c: a trace whose times are in a clock that nobody read: which anchors of both sides
 * are the same thing, and from these pairs the earliest and latest time of each event.
 *
 * Anchors of one kind that are about the same thing are a lane. A stretch of a lane is recognised
 * on the other side by the distances between its anchors: up to a common factor, the rate, they are
 * the same there and, unless it is as regular as a clock, nowhere else. From there on both sides
 * are followed in time, in all lanes.
 *
 * Each pair bounds the time of one event from one side or both; what is known about the rate
 * carries the bounds to the others. If two pairs contradict each other, both are left out, and if
 * these become many, nothing is trusted.
 */
#include "qemu_source.h"
#include "kvmft/events.h"

#define LEAST	    12	 /* anchors of a stretch, ... */
#define MOST	    48	 /* ... no more than that, ... */
#define STRETCHES   16	 /* ... and so many of a lane */
#define MAX_LANES   64	 /* of one side */
#define CLOSE_SHIFT 7	 /* distances differ by this part of the stretch, 2^-n, on average */
#define ELSEWHERE   4	 /* anywhere else they differ by this much more */
#define DRIFT_SHIFT 10	 /* accuracy of a rate from one stretch */
#define SAMPLE	    1024 /* this many of a lane decide whether to look at all of it */
#define WORK	    (1u << 26)
#define LANE_LEAST  8		 /* pairs of a lane */
#define WIDER	    8		 /* lanes are searched this many times */
#define RATE_LEAST  (1ull << 30) /* 0.25 and 16 GHz, cycles per ns << 32 */
#define RATE_MOST   (1ull << 36)
#define KHZ_SHIFT   9 /* a known frequency, and NTP: within 2^-n */

#define SAMPLES	    4096 /* the number of samples that it is reduced to, at most */
#define DROP_SHIFT  6	 /* 2^-n of all pairs may contradict others */
#define ROUNDS	    64
#define MIN_BOTH    8 /* bounds of either side */

typedef __int128 s128;

#define KVM_RUN	       0xae80
#define KVM_SIGNAL_MSI 0x4020aea5
#define QANCHOR_MAX    (1u << 20) /* of one side; the rest is not needed */

/*
 * Anchors: what both the kernel's trace of a host and QEMU's trace of itself show.
 *
 * The labels on both sides need not be equal for anchors that belong together: an address on one
 * side is a queue on the other. So they are hashes, and only show that two anchors of one side are
 * about the same thing.
 */

enum qanchor_kind {
	QANCHOR_BELL,  /* the guest writes to an ioeventfd; QEMU handles the queue later */
	QANCHOR_IRQ,   /* QEMU raises an interrupt: first QEMU traces it, then KVM */
	QANCHOR_EXIT,  /* a vCPU came back to QEMU, by reason */
	QANCHOR_RUN,   /* ... and is about to be run again */
	QANCHOR_WRITE, /* QEMU handles a write to a port or to memory */
	QANCHOR_READ,  /* ... or a read */
	QANCHOR_PRINT, /* a marker that QEMU wrote itself */
	QANCHOR_KINDS,
};

struct qanchor {
	uint64_t at;	 /* host: TSC of the event; QEMU: ns */
	uint64_t lo, hi; /* host: QEMU's event was between them, TSC; 0, UINT64_MAX: no bound */
	uint64_t label;	 /* what it is about: only compared for equality */
	uint32_t seq;	 /* QEMU: keeps the order of the file among equals */
	uint8_t kind;
};

/* Zero-initialised. */
struct qanchors {
	struct qanchor *v;
	size_t n, cap;
	bool prints;	      /* host: markers are among them */
	uint64_t unit;	      /* QEMU: resolution of its times, ns */
	uint64_t first, last; /* host: TSC of its first and its last event of any kind */
};

static uint64_t hash_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

static uint64_t mix_text(uint64_t hash, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = hash_mix(hash, (uint8_t)s[i]);
	return hash;
}

COMPARE(by_lane, struct qanchor,
	ORDER(x->kind, y->kind) ?: ORDER(x->label, y->label) ?: ORDER(x->at, y->at)
		?: ORDER(x->seq, y->seq));

static void anchor_add(struct qanchors *a, const struct qanchor *v)
{
	xarray_add(&a->v, &a->n, &a->cap, v, sizeof(*v));
}

/* ---- the host ---- */

/* They are of use if they have their first `need` fields. */
static const struct {
	enum event_role role;
	size_t need;
} host_events[] = {
	{ EV_ENTRY, 0 }, { EV_EXIT, 0 }, { EV_USER_EXIT, 2 }, { EV_MMIO, 2 },  { EV_FAST_MMIO, 1 },
	{ EV_PIO, 2 },	 { EV_MSI, 2 },	 { EV_SET_IRQ, 2 },   { EV_PRINT, 0 },
};

#define MAX_WAITING 8 /* anchors of a vCPU whose end has not come yet */

/* A thread that runs a vCPU, or raises interrupts. */
struct host_thread {
	uint64_t exit, user; /* kvm_exit, kvm_userspace_exit since the last entry; 0: none */
	uint64_t msi;	     /* its last one */
	uint64_t printed;    /* its last marker, ... */
	size_t print;	     /* ... and the index + 1 of that anchor */
	size_t waiting[MAX_WAITING], nwaiting; /* indices of anchors */
	uint64_t gaps; /* how many there had been */
};

struct host_side {
	struct qanchors *out;
	int64_t vm;
	struct u64map by_tid;
	struct host_thread *t;
	size_t tcap;
	uint64_t gaps;
};

/* An anchor of a vCPU that ends when the thread enters its guest again. */
static void host_waits(struct host_side *h, struct host_thread *t, const struct qanchor *v)
{
	if (t->nwaiting == MAX_WAITING)
		return;
	t->waiting[t->nwaiting++] = h->out->n;
	anchor_add(h->out, v);
}

/* Writes are traced before they are handled, reads after. */
static void host_access(struct host_side *h, struct host_thread *t, struct qanchor *a,
		       uint64_t where, bool write)
{
	a->label = hash_mix(write, where);
	if (write) {
		a->kind = QANCHOR_WRITE;
		a->lo = a->at;
		host_waits(h, t, a);
		return;
	}
	if (!t->user)
		return; /* served by the kernel */
	a->kind = QANCHOR_READ;
	a->lo = t->user;
	a->hi = a->at;
	anchor_add(h->out, a);
}

static void host_vcpu_event(struct host_side *h, struct host_thread *t, struct qanchor *a,
			   enum event_role e, int32_t tid, const uint64_t f[2])
{
	switch (e) {
	case EV_ENTRY: /*
 * Settles what waits: an access that did not reach QEMU was handled by the kernel. A doorbell
 * always is, and other accesses may be.
 */
		for (size_t i = 0; i < t->nwaiting; i++) {
			struct qanchor *qanchor = &h->out->v[t->waiting[i]];

			if (!t->user) {
				qanchor->kind = QANCHOR_BELL;
				continue;
			}
			qanchor->hi = a->at;
			qanchor->at = qanchor->kind == QANCHOR_RUN ? a->at : qanchor->at;
		}
		t->exit = t->user = 0;
		t->nwaiting = 0;
		return;
	case EV_EXIT:
		t->exit = a->at;
		t->user = t->nwaiting = 0; /* nothing is known about an exit whose entry was lost */
		return;
	case EV_USER_EXIT:
		t->user = a->lo = a->at;
		a->kind = QANCHOR_RUN;
		a->label = (uint32_t)tid;
		host_waits(h, t, a);
		a->kind = QANCHOR_EXIT;
		a->label = hash_mix((uint32_t)tid, f[0]);
		if ((int32_t)f[1] >= 0)
			host_waits(h, t, a);
		return;
	case EV_MMIO:
		if (f[0])
			host_access(h, t, a, f[1], f[0] == 2);
		return;
	case EV_PIO: host_access(h, t, a, f[1], f[0]); return;
	default: /* a doorbell */
		*a = (struct qanchor){ .at = a->at,
				       .lo = a->at,
				       .hi = a->hi,
				       .kind = QANCHOR_BELL,
				       .label = hash_mix(true, f[0]) };
		anchor_add(h->out, a);
		return;
	}
}

static void host_event(struct host_side *h, const struct tl_item *i, size_t at)
{
	enum event_role e = host_events[at].role;
	struct qanchor a = { .at = i->host, .hi = UINT64_MAX };
	struct host_thread *t;
	uint64_t f[2] = { 0 };

	for (size_t k = 0; k < host_events[at].need; k++)
		if (!fmt_u64(&event_type_of(i->ev)->f[k], i->rec, &f[k]))
			return;
	if (h->out->n + 2 > QANCHOR_MAX)
		return;
	t = xu64map_elem(&h->by_tid, (uint32_t)i->tid, &h->t, &h->tcap, sizeof(*t));
	if (t->gaps != h->gaps) /* events may have been lost: nothing follows from earlier ones */
		*t = (struct host_thread){ .gaps = h->gaps };
	if (e == EV_PRINT) {
		const struct fmt_field *buf = &event_type_of(i->ev)->f[0];
		struct fmt_value text;
		size_t n = 0;

		/*
		 * QEMU's back ends are called one after the other, in unknown order: its event is
		 * after the thread's previous marker and before its next one.
		 */
		fmt_value(buf, i->rec, &text);
		if (text.kind != FMT_STRING)
			return;
		while (n < text.len && text.p[n] && text.p[n] != ' ' && text.p[n] != '\n')
			n++;
		if (t->print)
			h->out->v[t->print - 1].hi = a.at;
		h->out->prints = true;
		a.kind = QANCHOR_PRINT;
		a.label = mix_text(0, (const char *)text.p, n);
		a.lo = t->printed;
		t->printed = a.at;
		t->print = h->out->n + 1;
		anchor_add(h->out, &a);
		return;
	}
	if (e == EV_MSI || e == EV_SET_IRQ) {
		/*
		 * A thread raises one after the other: this one came after the previous one was
		 * raised.
		 */
		a.kind = QANCHOR_IRQ;
		a.label = hash_mix(hash_mix(hash_mix((uint32_t)i->tid, e), f[0]), f[1]);
		a.hi = a.at;
		a.lo = e == EV_MSI ? t->msi : 0;
		t->msi = a.at;
		anchor_add(h->out, &a);
		return;
	}
	if (h->vm >= 0 && i->vm != h->vm)
		return;
	host_vcpu_event(h, t, &a, e, i->tid, f);
}

COMPARE_BY(by_time, struct qanchor, .at);

/* Those in the map's host capture, of VM number vm or (-1) of all; by time. 0 or -errno. */
static int qanchors_host(struct hostmap *map, int64_t vm, struct qanchors *out,
			 struct kvmft_err *err)
{
	struct host_side h = { .out = out, .vm = vm };
	const struct tl_item *item;
	struct timeline *t;
	int ret;
	size_t n;

	out->first = UINT64_MAX;
	ret = tl_new(map, &t, err);
	ret = ret ?: tl_start(t, err);
	if (!ret)
		while ((ret = tl_next(t, &item)) > 0) {
			size_t e = 0;

			h.gaps += item->kind != TL_EVENT;
			if (item->kind != TL_EVENT)
				continue;
			h.out->first = MIN(h.out->first, item->host);
			h.out->last = item->host;
			while (e < ARRAY_SIZE(host_events) &&
			       host_events[e].role != event_role_of(item->ev))
				e++;
			if (e < ARRAY_SIZE(host_events))
				host_event(&h, item, e);
		}
	tl_free(t);
	/* Drops anchors whose end never came. */
	n = 0;
	for (size_t i = 0; i < h.out->n; i++) {
		const struct qanchor *a = &h.out->v[i];

		if (a->hi != UINT64_MAX || a->kind == QANCHOR_BELL)
			h.out->v[n++] = *a;
	}
	h.out->n = n;
	array_sort(h.out->v, n, by_time);
	u64map_free(&h.by_tid);
	free(h.t);
	return ret < 0 ? ret : 0;
}

/* ---- QEMU ---- */

static const struct {
	const char *name;
	enum qanchor_kind kind;
	/* Only this argument says what it is about; NULL: all of them. raw: its number. */
	const char *about;
	uint32_t raw;
	uint64_t ioctl; /* its argument "type" must have this value; 0: it has none */
} qemu_events[] = {
	{ "virtio_queue_notify", QANCHOR_BELL, NULL, 0, 0 },
	{ "virtio_notify", QANCHOR_IRQ, NULL, 0, 0 },
	{ "virtio_notify_irqfd", QANCHOR_IRQ, NULL, 0, 0 },
	{ "kvm_vm_ioctl", QANCHOR_IRQ, "type", 0, KVM_SIGNAL_MSI },
	{ "kvm_run_exit", QANCHOR_EXIT, NULL, 0, 0 },
	{ "kvm_vcpu_ioctl", QANCHOR_RUN, "cpu_index", 0, KVM_RUN },
	{ "memory_region_ops_write", QANCHOR_WRITE, "addr", 2, 0 },
	{ "memory_region_ops_read", QANCHOR_READ, "addr", 2, 0 },
};

/*
 * An argument by name, or by number if it is not declared; of a text the number after its name, as
 * in "addr 0x70 value".
 */
static bool qemu_arg(const struct qtrace_item *i, const char *name, uint32_t raw, uint64_t *value)
{
	const size_t len = strlen(name);
	char number[24];

	for (size_t k = 0; i->has_args && k < i->ev->nargs; k++)
		if (!strcmp(i->ev->arg[k].name, name)) {
			*value = i->arg[k].num;
			return true;
		}
	for (size_t at = 0; !i->has_args && i->text && at + len + 1 < i->text_len; at++) {
		if ((at && i->text[at - 1] != ' ') || memcmp(i->text + at, name, len) ||
		    i->text[at + len] != ' ')
			continue;
		at += len + 1;
		snprintf(number, sizeof(number), "%.*s", (int)MIN(i->text_len - at, sizeof(number)),
			 i->text + at);
		*value = strtoull(number, NULL, 0);
		return number[0] >= '0' && number[0] <= '9';
	}
	if (i->has_args || i->text || raw >= i->nraw)
		return false;
	*value = i->raw[raw];
	return true;
}

static bool qemu_known(const struct qtrace_item *i, struct qanchor *a)
{
	uint64_t type;

	for (size_t e = 0; e < ARRAY_SIZE(qemu_events); e++) {
		if (strlen(qemu_events[e].name) != i->name_len ||
		    memcmp(qemu_events[e].name, i->name, i->name_len))
			continue;
		/* The argument "type" has number 0 in events of VMs and 1 in those of vCPUs. */
		if (qemu_events[e].ioctl &&
		    (!qemu_arg(i, "type", qemu_events[e].kind == QANCHOR_RUN, &type) ||
		     type != qemu_events[e].ioctl))
			return false;
		a->kind = (uint8_t)qemu_events[e].kind;
		if (!qemu_events[e].about) {
			uint64_t hash = 0;

			if (i->has_args)
				for (size_t k = 0; k < i->ev->nargs; k++)
					hash = i->arg[k].s
						       ? mix_text(hash, i->arg[k].s, i->arg[k].len)
						       : hash_mix(hash, i->arg[k].num);
			else if (i->text)
				hash = mix_text(hash, i->text, i->text_len);
			else
				for (uint32_t k = 0; k < i->nraw; k++)
					hash = hash_mix(hash, i->raw[k]);
			a->label = hash;
		} else if (!qemu_arg(i, qemu_events[e].about, qemu_events[e].raw, &a->label)) {
			return false;
		}
		a->label = hash_mix(hash_mix(a->label, e), (uint32_t)i->tid);
		return true;
	}
	return false;
}

/* ---- pairs of anchors ---- */

struct qpair {
	uint64_t at;	 /* of QEMU's, ns */
	uint64_t lo, hi; /* when it happened, TSC; 0, UINT64_MAX: no bound */
};

/* Zero-initialised. */
struct qpairs {
	struct qpair *v; /* by at */
	size_t n, cap;
	uint64_t rate; /* TSC cycles per ns << 32, about */
};

COMPARE_BY(by_at, struct qpair, .at);

/* ---- which anchors are the same ---- */

struct lane {
	const struct qanchor *v;
	size_t n;
};

struct side {
	struct lane lane[MAX_LANES];
	size_t n;
};

/* Where a stretch was found, and what follows from it. */
struct model {
	uint64_t t0, h0, rate; /* a point of the line, cycles per ns << 32 */
	uint64_t tol;	       /* anything this close, in cycles, is the same */
	struct qpair *knot;    /* pairs of one lane: lo is the host's time */
	size_t n, cap;
};

struct match {
	struct side q, h;
	uint64_t khz, work;
	struct model m;
	struct qpairs *out;
};

/* ---- lanes ---- */

COMPARE(longer_lane, struct lane, ORDER(y->n, x->n) ?: ORDER(x->v, y->v));

static void lane_keep(struct side *s, const struct lane *l)
{
	if (l->n < LANE_LEAST)
		return;
	if (s->n < MAX_LANES) {
		s->lane[s->n++] = *l;
	} else {
		array_sort(s->lane, s->n, longer_lane);
		if (s->lane[s->n - 1].n < l->n)
			s->lane[s->n - 1] = *l;
	}
}

static void lanes_init(struct side *s, struct qanchors *a)
{
	struct lane l = { 0 };

	if (a->n) /* by kind, by label, by time */
		array_sort(a->v, a->n, by_lane);
	for (size_t i = 0; i < a->n; i++) {
		if (i && a->v[i].kind == a->v[i - 1].kind && a->v[i].label == a->v[i - 1].label) {
			l.n++;
			continue;
		}
		lane_keep(s, &l);
		l = (struct lane){ .v = &a->v[i], .n = 1 };
	}
	lane_keep(s, &l);
	array_sort(s->lane, s->n, longer_lane);
}

/*
 * Markers have the same name on both sides. A queue is also handled by the vCPU's own thread, which
 * leaves the kernel for that.
 */
static bool may_be_same(const struct lane *q, const struct lane *h)
{
	if (q->v->kind == QANCHOR_PRINT)
		return h->v->kind == QANCHOR_PRINT && q->v->label == h->v->label;
	return q->v->kind == h->v->kind ||
	       (q->v->kind == QANCHOR_BELL && h->v->kind == QANCHOR_WRITE);
}

/* ---- a stretch ---- */

struct found {
	size_t at;
	uint64_t part, next; /* 2^-32 of the stretch: least difference, and the next best */
	uint64_t largest, rate;
};

/*
 * Looks for n anchors from q on in all of the other side's lane: by the sum of the differences of
 * distances, in cycles, and the largest of them.
 */
static bool stretch_find(struct match *m, const struct qanchor *q, size_t n, const struct lane *h,
			 struct found *f)
{
	uint64_t t = q[n - 1].at - q->at;
	uint64_t nominal = (uint64_t)(((s128)m->khz << 32) / 1000000), off = nominal >> KHZ_SHIFT;

	*f = (struct found){ .part = 1ull << 31, .next = 1ull << 31 };
	for (size_t i = 0; i + n <= h->n && t && t >> 40 == 0 && m->work < WORK; i++) {
		uint64_t d = h->v[i + n - 1].at - h->v[i].at, rate, most, sum = 0, part,
			 largest = 0;

		m->work++;
		rate = d >> 40 ? 0 : (uint64_t)(((s128)d << 32) / t);
		if (!rate || rate < (m->khz ? nominal - off : RATE_LEAST) ||
		    rate > (m->khz ? nominal + off : RATE_MOST))
			continue;
		most = (uint64_t)((s128)d * f->next >> 32) * n;
		for (size_t k = 1; k + 1 < n && sum <= most; k++) {
			s128 expect = (s128)(q[k].at - q->at) * d / t;
			s128 apart = (s128)(h->v[i + k].at - h->v[i].at) - expect;
			uint64_t size = (uint64_t)(apart < 0 ? -apart : apart);

			largest = MAX(largest, size);
			sum += MIN(size, UINT64_MAX - sum);
		}
		m->work += n / 4;
		part = (uint64_t)(((s128)(sum / n) << 32) / d);
		if (part < f->part)
			*f = (struct found){ .at = i,
					     .part = part,
					     .next = f->part,
					     .largest = largest,
					     .rate = rate };
		else
			f->next = MIN(f->next, part);
	}
	return f->part < 1ull << (32 - CLOSE_SHIFT) && f->next / ELSEWHERE > f->part;
}

/* ---- from there on ---- */

static uint64_t from_line(uint64_t t0, uint64_t h0, uint64_t rate, uint64_t t)
{
	s128 h = (s128)h0 + (((s128)t - (s128)t0) * (s128)rate >> 32);

	return h < 0 ? 0 : h > INT64_MAX ? INT64_MAX : (uint64_t)h;
}

static uint64_t times_apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The anchor nearest to host TSC `host`, with no other near it; NULL: none. */
static const struct qanchor *nearest_anchor(const struct lane *h, uint64_t host, uint64_t tol)
{
	size_t at = COUNT_BEFORE(i, h->n, h->v[i].at < host);
	const struct qanchor *a;

	if (at &&
	    (at == h->n || times_apart(h->v[at - 1].at, host) < times_apart(h->v[at].at, host)))
		at--;
	a = &h->v[at];
	if (times_apart(a->at, host) > tol || (at && times_apart(a[-1].at, host) <= 2 * tol) ||
	    (at + 1 < h->n && times_apart(a[1].at, host) <= 2 * tol))
		return NULL;
	return a;
}

/* Follows a lane one way from QEMU's anchor number i; the rate improves with the distance. */
static void match_follow(struct match *x, const struct lane *q, const struct lane *h, size_t i,
			 int way)
{
	struct model *m = &x->m;
	uint64_t t = m->t0, host = m->h0, rate = m->rate;

	for (; i < q->n; i += (size_t)way) {
		uint64_t expect = from_line(t, host, rate, q->v[i].at);
		uint64_t tol = m->tol + (times_apart(expect, host) >> DRIFT_SHIFT);
		const struct qanchor *a = nearest_anchor(h, expect, tol);

		if (!a)
			continue;
		t = q->v[i].at;
		host = a->at;
		xarray_add(&m->knot, &m->n, &m->cap, &(struct qpair){ .at = t, .lo = host },
				sizeof(*m->knot));
		if (times_apart(t, m->t0) && times_apart(host, m->h0) >> DRIFT_SHIFT > m->tol)
			rate = (uint64_t)(((s128)times_apart(host, m->h0) << 32) /
					  times_apart(t, m->t0));
	}
}

static bool model_init(struct match *x, const struct lane *q, size_t first, size_t n,
		       const struct lane *h, const struct found *f)
{
	struct model *m = &x->m;

	m->n = 0;
	m->rate = f->rate;
	m->t0 = q->v[first].at;
	m->h0 = h->v[f->at].at;
	m->tol = 2 * f->largest + 16;
	x->work += q->n;
	match_follow(x, q, h, first, 1);
	match_follow(x, q, h, first - 1, -1);
	if (m->n < n / 2)
		return false;
	array_sort(m->knot, m->n, by_at);
	if (m->knot[m->n - 1].at > m->knot->at)
		m->rate = (uint64_t)(((s128)(m->knot[m->n - 1].lo - m->knot->lo) << 32) /
				     (m->knot[m->n - 1].at - m->knot->at));
	return times_apart(m->rate, f->rate) < f->rate >> 4;
}

static uint64_t model_at(const struct model *m, uint64_t t)
{
	size_t n = COUNT_BEFORE(i, m->n, m->knot[i].at <= t);
	const struct qpair *a = &m->knot[n ? n - 1 : 0], *b = a + 1;

	if (!n || n == m->n)
		return from_line(a->at, a->lo, m->rate, t);
	return b->lo < a->lo
		       ? a->lo
		       : a->lo + (uint64_t)((s128)(b->lo - a->lo) * (t - a->at) / (b->at - a->at));
}

/*
 * Finds what is within tol of its place, with nothing else near it, for every step'th of the lane.
 * False: most of those that stand alone are nowhere.
 */
static bool lane_within(const struct match *x, const struct lane *q, const struct lane *h,
			uint64_t tol, size_t step, size_t *sure)
{
	size_t n = 0, may = 0;

	for (size_t i = 0; i < q->n; i += step) {
		uint64_t host = model_at(&x->m, q->v[i].at);
		const struct qanchor *a;

		sure[i] = 0;
		if (host < h->v->at || host > h->v[h->n - 1].at)
			continue;
		/* It must be clearly apart from its neighbours. */
		if ((i && host - model_at(&x->m, q->v[i - 1].at) <= 2 * tol) ||
		    (i + 1 < q->n && model_at(&x->m, q->v[i + 1].at) - host <= 2 * tol))
			continue;
		may++;
		a = nearest_anchor(h, host, tol);
		if (a) {
			sure[i] = (size_t)(a - h->v) + 1;
			n++;
		}
	}
	return n >= LANE_LEAST && n >= may - may / 4;
}

/*
 * What each event of a lane is, if two lanes mostly fit: those of the first lane happened some time
 * before or after their counterparts, those of others at another distance.
 */
static bool lane_sure(const struct match *x, const struct lane *q, const struct lane *h,
		      size_t *sure)
{
	uint64_t tol = x->m.tol;

	for (int i = 0; i < WIDER; i++, tol *= 2) {
		size_t last;

		if (!lane_within(x, q, h, tol, 1 + q->n / SAMPLE, sure) ||
		    !lane_within(x, q, h, tol, 1, sure))
			continue;
		/*
		 * sure[i]: number + 1 in h of what number i of q is, 0: unknown. Between two that
		 * are sure, with equal numbers on both sides, they correspond one to one.
		 */
		last = SIZE_MAX;
		for (size_t j = 0; j < q->n; j++) {
			if (!sure[j])
				continue;
			for (size_t k = last + 1;
			     last != SIZE_MAX && k < j && sure[j] - sure[last] == j - last; k++)
				sure[k] = sure[last] + (k - last);
			last = j;
		}
		return true;
	}
	return false;
}

/*
 * Pairs of a lane. If several of the host's lanes fit it, like those of queues that are always used
 * together, the right one is unknown: what all of them allow holds.
 */
static void lane_pairs(struct match *x, const struct lane *q)
{
	_cleanup_free_ size_t *sure = xcalloc(q->n, sizeof(*sure));
	_cleanup_free_ struct qanchor *all = xcalloc(q->n, sizeof(*all));

	for (size_t i = 0; i < q->n; i++)
		all[i].lo = UINT64_MAX;
	for (size_t k = 0; k < x->h.n; k++) {
		const struct lane *h = &x->h.lane[k];

		if (!may_be_same(q, h) || !lane_sure(x, q, h, sure))
			continue;
		for (size_t i = 0; i < q->n; i++) {
			if (!sure[i])
				continue;
			all[i].lo = MIN(all[i].lo, h->v[sure[i] - 1].lo);
			all[i].hi = MAX(all[i].hi, h->v[sure[i] - 1].hi);
		}
	}
	for (size_t i = 0; i < q->n; i++)
		if (all[i].lo <= all[i].hi)
			xarray_add(&x->out->v, &x->out->n, &x->out->cap,
					&(struct qpair){ q->v[i].at, all[i].lo, all[i].hi },
					sizeof(*x->out->v));
}

/* ---- the search ---- */

/* Until a stretch leads to pairs. */
static bool try_lanes(struct match *x, const struct lane *q, const struct lane *h)
{
	size_t n = MAX(MIN(MIN(q->n, h->n) / 2, (size_t)MOST), (size_t)LEAST);
	struct found f;

	for (size_t i = 0; i < STRETCHES && q->n >= n && h->n >= n; i++) {
		size_t first = (q->n - n) * i / (STRETCHES - 1);

		if (!stretch_find(x, &q->v[first], n, h, &f) ||
		    !model_init(x, q, first, n, h, &f))
			continue;
		x->out->n = 0;
		x->out->rate = x->m.rate;
		for (size_t k = 0; k < x->q.n; k++)
			lane_pairs(x, &x->q.lane[k]);
		if (x->out->n < LEAST)
			continue;
		array_sort(x->out->v, x->out->n, by_at);
		return true;
	}
	return false;
}

/*
 * khz: of the host's TSC, 0 = unknown. Anchors of both sides are sorted. False: nothing fits, or
 * more than one thing does: then *why is a line of text.
 */
static bool anchors_match(struct qanchors *q, struct qanchors *h, uint64_t khz, struct qpairs *out,
			  const char **why)
{
	_cleanup_free_ struct match *x = xcalloc(1, sizeof(*x));
	bool found = false;

	x->khz = khz;
	x->out = out;
	lanes_init(&x->q, q);
	lanes_init(&x->h, h);
	for (size_t i = 0; i < x->q.n && !found; i++)
		for (size_t k = 0; k < x->h.n && !found; k++)
			found = may_be_same(&x->q.lane[i], &x->h.lane[k]) &&
				try_lanes(x, &x->q.lane[i], &x->h.lane[k]);
	*why = !x->q.n || !x->h.n ? "too few events that both sides show"
	       : x->work >= WORK
		       ? "the search ended at its limit of work"
		       : "what both sides show does not fit, or fits at more than one time";
	free(x->m.knot);
	return found;
}

/* ---- from pairs to times ---- */

/* How the rate may change: of a steered clock, and at most by NTP for others. */
static const uint64_t drift_ppb[] = { 20000, 600000 };

struct bounds {
	struct qpair *v;
	size_t n, dropped;
	uint64_t slow, fast; /* cycles per ns << 32 */
	struct {
		size_t from, hi_from; /* the pair that gives a bound */
		uint64_t lo, hi;      /* of this pair; 0, UINT64_MAX: none */
		bool out;
	} * at;
};

static uint64_t rate_cycles(uint64_t rate, uint64_t ns)
{
	s128 c = (s128)rate * ns >> 32;

	return c > INT64_MAX / 2 ? INT64_MAX / 2 : (uint64_t)c;
}

/* The best lower and upper bound at pair i from earlier pairs, and from later ones. */
static void bound_one(struct bounds *b, size_t i, size_t before, bool forward)
{
	uint64_t d = 0, lo = 0, hi = UINT64_MAX;

	if (before < b->n) {
		d = forward ? b->v[i].at - b->v[before].at : b->v[before].at - b->v[i].at;
		if (b->at[before].lo)
			lo = forward ? b->at[before].lo + rate_cycles(b->slow, d)
				     : b->at[before].lo -
					       MIN(b->at[before].lo, rate_cycles(b->fast, d));
		if (b->at[before].hi != UINT64_MAX)
			hi = forward ? b->at[before].hi + rate_cycles(b->fast, d)
				     : b->at[before].hi -
					       MIN(b->at[before].hi, rate_cycles(b->slow, d));
	}
	if (before < b->n && lo > b->at[i].lo) {
		b->at[i].lo = lo;
		b->at[i].from = b->at[before].from;
	}
	if (before < b->n && hi < b->at[i].hi) {
		b->at[i].hi = hi;
		b->at[i].hi_from = b->at[before].hi_from;
	}
}

/* Leaves out pairs that contradict each other, until none do. False: they are too many. */
static bool bounds_agree(struct bounds *b)
{
	bool again = true;

	b->dropped = 0;
	for (size_t i = 0; i < b->n; i++)
		b->at[i].out = false;
	for (int round = 0; round < ROUNDS && again; round++) {
		size_t last;

		again = false;
		last = SIZE_MAX;
		for (size_t i = 0; i < b->n; i++) {
			b->at[i].lo = b->at[i].out ? 0 : b->v[i].lo;
			b->at[i].hi = b->at[i].out ? UINT64_MAX : b->v[i].hi;
			b->at[i].from = b->at[i].hi_from = i;
			bound_one(b, i, last, true);
			last = i;
		}
		last = SIZE_MAX;
		for (size_t i = b->n; i--; last = i)
			bound_one(b, i, last, false);
		for (size_t i = 0; i < b->n; i++) {
			if (b->at[i].lo <= b->at[i].hi || b->at[b->at[i].from].out ||
			    b->at[b->at[i].hi_from].out)
				continue;
			b->at[b->at[i].from].out = b->at[b->at[i].hi_from].out = again = true;
			b->dropped += 2;
		}
	}
	for (size_t i = 0; i < b->n; i++)
		again |= b->at[i].lo > b->at[i].hi;
	return !again && b->dropped <= b->n >> DROP_SHIFT;
}

static bool has_both(const struct bounds *b, size_t i)
{
	return b->at[i].lo && b->at[i].hi != UINT64_MAX;
}

/*
 * The rate over the whole time, as the bounds at both ends allow it; *error is its own plus what
 * the clock may change besides.
 */
static uint64_t rate_of(const struct bounds *b, uint64_t rate, uint64_t ppb, uint64_t *error)
{
	size_t i = 0, k = b->n - 1;
	uint64_t wide, d;

	while (i < k && !has_both(b, i))
		i++;
	while (k > i && !has_both(b, k))
		k--;
	*error = rate >> 6;
	if (i == k || b->at[k].lo <= b->at[i].hi)
		return rate;
	d = b->v[k].at - b->v[i].at;
	wide = b->at[i].hi - b->at[i].lo + (b->at[k].hi - b->at[k].lo);
	if (!d || wide >> 40 || d >> 60)
		return rate;
	*error = MIN(*error, (uint64_t)(((s128)wide << 31) / d) +
				     (uint64_t)((s128)rate * ppb / 1000000000));
	return (uint64_t)(((s128)(b->at[k].lo + (b->at[k].hi - b->at[k].lo) / 2 - b->at[i].lo -
				  (b->at[i].hi - b->at[i].lo) / 2)
			   << 32) /
			  d);
}

static void clock_add_sample(struct qplace *p, uint64_t ns, uint64_t lo, uint64_t hi)
{
	if (!p->n || lo > p->v[p->n - 1].tsc_after)
		p->v[p->n++] = (struct clock_sample){ .tsc_before = lo, .tsc_after = hi, .ns = ns };
}

/*
 * What the bounds at pair i say about the beginning or the end of the host's recording, which is
 * not between pairs.
 */
static void add_edge(struct qplace *p, const struct bounds *b, size_t i, bool end)
{
	uint64_t far = end ? p->last - MIN(p->last, b->at[i].lo)
			   : b->at[i].hi - MIN(b->at[i].hi, p->first),
		 ns, lo, hi;

	if (far >> 56)
		return;
	ns = (uint64_t)(((s128)far << 32) / (s128)b->slow) + 1;
	lo = end ? b->at[i].lo + rate_cycles(b->slow, ns)
		 : b->at[i].lo - MIN(b->at[i].lo, rate_cycles(b->fast, ns));
	hi = end ? b->at[i].hi + rate_cycles(b->fast, ns)
		 : b->at[i].hi - MIN(b->at[i].hi, rate_cycles(b->slow, ns));
	if (end)
		clock_add_sample(p, b->v[i].at + ns, lo, hi);
	else if (b->v[i].at > ns && lo)
		clock_add_sample(p, b->v[i].at - ns, lo, hi);
}

/* The closest bounds of each part of the time become samples, as long as they are in order. */
static void take_samples(struct qplace *p, const struct bounds *b)
{
	uint64_t span = b->v[b->n - 1].at - b->v->at;
	size_t i = 0, last = SIZE_MAX;

	p->v = xcalloc(SAMPLES + 2, sizeof(*p->v));
	for (uint64_t part = 0; part < SAMPLES; part++) {
		uint64_t end = b->v->at + (uint64_t)((s128)span * (part + 1) / SAMPLES);
		size_t best = SIZE_MAX;

		for (; i < b->n && b->v[i].at <= end; i++)
			if (has_both(b, i) &&
			    (best == SIZE_MAX ||
			     b->at[i].hi - b->at[i].lo < b->at[best].hi - b->at[best].lo))
				best = i;
		if (best == SIZE_MAX)
			continue;
		if (last == SIZE_MAX)
			add_edge(p, b, best, false);
		last = best;
		clock_add_sample(p, b->v[best].at, b->at[best].lo, b->at[best].hi);
	}
	if (last != SIZE_MAX)
		add_edge(p, b, last, true);
}

/* unit: resolution of QEMU's times, ns: the event was later by up to that. */
static void place_timed(struct qplace *p, struct qpairs *pairs, uint64_t unit)
{
	struct bounds b = { .v = pairs->v, .n = pairs->n };
	struct clock_pieces try;
	bool found = false;

	b.at = xcalloc(b.n, sizeof(*b.at));
	for (size_t i = 0; i < pairs->n; i++)
		pairs->v[i].lo -= MIN(pairs->v[i].lo, rate_cycles(pairs->rate, unit));
	for (size_t i = 0; i < ARRAY_SIZE(drift_ppb) && !found; i++) {
		uint64_t rate = pairs->rate, error = rate >> 6;

		p->slew_ppb = (uint32_t)(2 * drift_ppb[i]);
		found = true;
		for (int k = 0; k < 6 && found;
		     k++) { /* with ever better rates, as the bounds get closer */
			uint64_t by =
				MAX(error, (uint64_t)((s128)rate * drift_ppb[i] / 1000000000));

			b.slow = rate - by;
			b.fast = rate + by;
			found = bounds_agree(&b);
			rate = found ? rate_of(&b, rate, drift_ppb[i], &error) : rate;
		}
	}
	if (found)
		take_samples(p, &b);
	p->khz = (uint32_t)MIN((uint64_t)((s128)pairs->rate * 1000000 >> 32), (uint64_t)UINT32_MAX);
	if (found && !clock_pieces_init(&try, p->v, p->n, p->khz, p->slew_ppb))
		p->pairs = b.n - b.dropped;
	else
		p->why = "what both sides show contradicts itself";
	free(b.at);
}

int qplace_find(struct qplace *p, struct hostmap *map, int64_t vm, struct qtrace *trace,
		struct kvmft_err *err)
{
	struct qanchors q = { 0 }, h = { 0 };
	struct qpairs pairs = { 0 };
	int ret = qanchors_host(map, vm, &h, err);

	ret = ret ?: qtrace_rewind(trace);
	/*
	 * Those in QEMU's trace from its current position that have a time, in the order of the
	 * file. prints: events of any name, for the host's markers. 0 or -errno.
	 */
	if (!ret) {
		struct qtrace_item i;
		struct qanchor a;

		while (q.n + 2 <= QANCHOR_MAX && (ret = qtrace_next(trace, &i)) > 0) {
			if (i.kind != QTRACE_EVENT || i.clock == QTRACE_NO_CLOCK)
				continue;
			a = (struct qanchor){ .at = i.ns, .seq = (uint32_t)q.n };
			q.unit = MAX(q.unit, i.unit);
			if (qemu_known(&i, &a))
				anchor_add(&q, &a);
			a.kind = QANCHOR_PRINT;
			a.label = mix_text(0, i.name, i.name_len);
			if (h.prints)
				anchor_add(&q, &a);
		}
		ret = MIN(ret, 0);
	}
	p->first = h.first;
	p->last = h.last;
	if (!ret && anchors_match(&q, &h, map->cap->tsc_khz, &pairs, &p->why)) {
		size_t lo = 0, hi = 0;

		for (size_t i = 0; i < pairs.n; i++) {
			lo += pairs.v[i].lo != 0;
			hi += pairs.v[i].hi != UINT64_MAX;
		}
		if (lo >= MIN_BOTH && hi >= MIN_BOTH)
			place_timed(p, &pairs, q.unit);
		else
			p->why = "what both sides show bounds its time from one side only";
	}
	free(pairs.v);
	free(q.v);
	free(h.v);
	return ret;
}

void qplace_free(struct qplace *p)
{
	free(p->v);
	*p = (struct qplace){ 0 };
}
