/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * net_link.c: which received packet is which sent one.
 *
 * Nothing in a packet tells it, unless headers were recorded (net_id.c), but a queue keeps their
 * order. At a moment when nothing is on its way, or behind a packet whose header tells it, both
 * sides begin anew; what lies between two such places was sent and received there. If it is as
 * many, of the same lengths, these are pairs. If not, something was lost (QEMU, for one, drops what
 * the guest does not listen to) or came from elsewhere. Then one side is part of the other, in
 * order, and only those are pairs that are so however the one is laid upon the other. Where
 * something is always on its way, only lengths can tell: what was received is laid upon what was
 * sent.
 *
 * A lost packet and one of its length from elsewhere may be taken for each other, and nothing shows
 * it. So what order proves is reported late. If by then, or up to a second before, packets were
 * seen to be lost and others to come from elsewhere, it is no proof; nor is what holds only if one
 * of these did not happen, if that one was seen. How many were on their way when the captures
 * began, or after events were lost, is not known: it may be as many as were lost since.
 *
 * Nor does anything tell which device of the guest is the other end of a tap. If there are several,
 * each may belong to each, until all but one have contradicted themselves.
 */
#include "net.h"

#define FIFO_MAX   65536u
#define QUEUES_MAX 16384u
#define QUEUES_VM  1024u /* no guest can take them all from the others */
#define TRIAL	   128u
#define DOUBT	   256u /* so many are not reported yet */
#define SPARE	   8u	/* from elsewhere, that might have come in place of those on their way */
#define UNLINKED   1024u /* kept until it is known where they may go */
#define ETH_HEADER 14
#define VLAN_TAG   4
#define WRONG_MIN \
	3 /* contradictions that rule a pair of devices out, and times those of the other */
#define WRONG_MORE 8

/* ---- queues ---- */

static struct net_half *fifo_push(struct net_fifo *f)
{
	if (f->next - f->first == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 64;
		struct net_half *h;

		if (cap > FIFO_MAX)
			return NULL;
		h = xcalloc(cap, sizeof(*h));
		for (uint64_t n = f->first; n < f->next; n++)
			h[n & (cap - 1)] = *net_fifo_at(f, n);
		free(f->h);
		f->h = h;
		f->cap = cap;
	}
	return net_fifo_at(f, f->next++);
}

static struct net_queue *queue_of(const struct lat *l, uint32_t i)
{
	return &l->net->queue[i];
}

static void link_restart(struct lat *l, struct net_link *k)
{
	k->proven = k->told = queue_of(l, k->sender)->q.next;
	k->proven_at = k->told_at = queue_of(l, k->receiver)->q.next;
	k->start = NET_UNKNOWN;
	k->broken = false;
	k->compared = k->trial = 0;
}

/* Not by vCPU: which one gets a packet is not known when it is sent. */
static void net_count(const struct lat *l, uint64_t count[2], const struct net_queue *q, uint64_t n)
{
	if (lat_wanted(l, (int64_t)q->vm, l->o.vcpu))
		count[q->out] += n;
}

void net_dropped(struct lat *l, uint32_t dev, bool out)
{
	const struct net_dev *d = &l->net->dev[dev];

	if (d->vm ? lat_wanted(l, (int64_t)d->vm - 1, l->o.vcpu) : l->o.vm < 0)
		l->net->dropped[out] += d->end;
}

/* What was sent or received before it was known that these may belong together counts, too. */
static void links_add(struct lat *l, uint32_t at)
{
	for (uint32_t i = 0; i < l->net->queue_at.n; i++) {
		struct net_queue *q = queue_of(l, at), *o = queue_of(l, i);
		struct net_queue *s = q->sent ? q : o, *g = q->sent ? o : q;
		struct {
			uint64_t vm;
			uint32_t tap, dev;
		} id = { s->vm, (s->out ? g : s)->dev, (s->out ? s : g)->dev };
		struct net_link *k;
		struct net_pair *pair;

		if (o->vm != q->vm || o->out != q->out || o->sent == q->sent ||
		    o->number != q->number || !l->net->dev[o->dev].end ||
		    s->nlink >= NET_LINKS || g->nlink >= NET_LINKS)
			continue;
		pair = xu64map_elem(&l->net->pair_at, hash_bytes(&l->net->key, &id, sizeof(id)),
				    &l->net->pair, &l->net->pair_cap, sizeof(*pair));
		k = xarray_grow(&l->net->link, l->net->nlink, &l->net->link_cap, sizeof(*k));
		if (!s->nlink)
			net_count(l, l->net->sent, s, s->q.next - s->q.first);
		s->link[s->nlink++] = g->link[g->nlink++] = (uint32_t)l->net->nlink++;
		*k = (struct net_link){ .sender = q->sent ? at : i, .receiver = q->sent ? i : at,
					.pair = (uint32_t)(pair - l->net->pair) };
		k->proven = k->told = s->q.first;
		k->proven_at = k->told_at = g->q.first;
		if (s->q.first || g->q.first) /* not from the beginning of both captures */
			k->start = NET_LOST;
	}
}

void net_dev_ends(struct lat *l, uint32_t dev)
{
	if (l->net->dev[dev].end)
		return;
	l->net->dev[dev].end = true;
	for (uint32_t i = 0; i < l->net->queue_at.n; i++)
		if (queue_of(l, i)->dev == dev)
			links_add(l, i);
}

struct net_queue *net_queue_get(struct lat *l, size_t vm, uint32_t dev, uint32_t number, bool out,
				bool sent)
{
	struct lat_net *m = l->net;
	uint64_t key = (uint64_t)vm << 44 ^ (uint64_t)dev << 16 ^ (number & 0x3fffu) << 2 ^
		       (uint64_t)out << 1 ^ (uint64_t)sent,
		 at;
	struct net_queue *q;

	if (u64map_get(&m->queue_at, key, &at))
		return &m->queue[at];
	if (m->queue_at.n >= QUEUES_MAX || m->side[vm + 1].nqueue >= QUEUES_VM) {
		if (lat_wanted(l, (int64_t)vm, l->o.vcpu))
			m->sent[out] += sent;
		return NULL;
	}
	at = m->queue_at.n;
	q = xu64map_elem(&m->queue_at, key, &m->queue, &m->queue_cap, sizeof(*q));
	m->side[vm + 1].nqueue++;
	if (!m->dev[dev].vm)
		m->dev[dev].vm = vm + 1;
	q->vm = vm;
	q->dev = dev;
	q->number = number;
	q->out = out;
	q->sent = sent;
	if (m->dev[dev].end)
		links_add(l, (uint32_t)at);
	return q;
}

struct net_half *net_half_of(const struct lat *l, const struct net_ref *ref)
{
	const struct net_queue *q;

	if (!ref->queue)
		return NULL;
	q = queue_of(l, ref->queue - 1);
	return q->gen == ref->gen && ref->n >= q->q.first && ref->n < q->q.next
		       ? net_fifo_at(&q->q, ref->n)
		       : NULL;
}

/* ---- links ---- */

static bool ruled_out(const struct lat *l, const struct net_link *o, uint64_t mine)
{
	uint64_t wrong = l->net->pair[o->pair].wrong;

	return wrong >= WRONG_MIN && wrong > mine * WRONG_MORE;
}

/* Whether each end of the link can only belong to the other. */
static bool is_it(const struct lat *l, const struct net_link *k)
{
	const struct net_queue *s = queue_of(l, k->sender), *g = queue_of(l, k->receiver);
	uint64_t mine;

	if (s->nlink == 1 && g->nlink == 1)
		return true;
	mine = l->net->pair[k->pair].wrong;
	for (uint32_t i = 0; i < s->nlink; i++)
		if (&l->net->link[s->link[i]] != k &&
		    !ruled_out(l, &l->net->link[s->link[i]], mine))
			return false;
	for (uint32_t i = 0; i < g->nlink; i++)
		if (&l->net->link[g->link[i]] != k &&
		    !ruled_out(l, &l->net->link[g->link[i]], mine))
			return false;
	return true;
}

/* Drops halves that every link of the queue has done with. */
static void link_trim(struct lat *l, struct net_queue *q)
{
	uint64_t need = q->q.next;

	for (uint32_t i = 0; i < q->nlink; i++) {
		const struct net_link *k = &l->net->link[q->link[i]];

		need = MIN(need, q->sent ? k->told : k->told_at);
	}
	q->q.first = MAX(q->q.first, need);
}

/* It shows now that packets of these devices are lost, or come from elsewhere (what). */
static void link_shown(struct lat *l, const struct net_link *k, unsigned int what)
{
	struct net_pair *p = &l->net->pair[k->pair];

	for (unsigned int i = 0; i < ARRAY_SIZE(p->until); i++)
		if (what & 1u << i)
			p->until[i] = l->now + l->net->doubt;
	if (p->until[0] > l->now && p->until[1] > l->now)
		p->both = l->now + l->net->doubt;
}

/* Reports what is proved; whole: also the last pairs, else later events may refute them. */
static void link_tell(struct lat *l, struct net_link *k, bool whole)
{
	struct net_queue *s = queue_of(l, k->sender), *g = queue_of(l, k->receiver);
	uint64_t end = whole ? k->proven : MIN(k->proven, s->q.next - MIN(s->q.next, DOUBT));
	const struct net_pair *p = &l->net->pair[k->pair];

	if (k->told >= end || !is_it(l, k))
		return;
	while (k->told < end) {
		const struct net_half *from = net_fifo_at(&s->q, k->told), *to;
		uint64_t t = from->t[NP_START];

		if (from->alone) {
			k->told++;
			continue;
		}
		to = net_fifo_at(&g->q, k->told_at);
		if (!to->alone && !to->ended && !whole)
			break;
		k->told_at++;
		if (to->alone)
			continue;
		k->told++;
		/* Pairs that order proved may be others, by what was seen since, or before. */
		if (!from->sure && (t < p->both || (from->unless & NET_LOSS && t < p->until[0]) ||
				    (from->unless & NET_FOREIGN && t < p->until[1])))
			continue;
		net_count(l, l->net->measured, s, 1);
		net_measured(l, s, g, from, to);
	}
	for (uint32_t i = 0; i < s->nlink; i++)
		if (l->net->link[s->link[i]].told < k->told)
			link_restart(l, &l->net->link[s->link[i]]);
	link_trim(l, s);
	link_trim(l, g);
}

/* The frame that a tap is given has a VLAN's tag beside it, and the guest's has it in it. */
static bool same_packet(const struct net_half *s, const struct net_half *g)
{
	if (s->ident.id && g->ident.id && s->ident.id != g->ident.id)
		return false;
	return s->len == g->len + ETH_HEADER || s->len + VLAN_TAG == g->len + ETH_HEADER;
}

/* Halves from number a up to b. */
struct run {
	const struct net_fifo *f;
	uint64_t a, b;
	bool sent;
};

/* Lays a part upon the whole, each half as early, or late, as it can be. False: it is no part. */
static bool run_lay(const struct run *whole, const struct run *part, bool late, uint64_t *is)
{
	uint64_t n = part->b - part->a, left = whole->b - whole->a;

	for (uint64_t j = 0; j < n; j++) {
		const struct net_half *p =
			net_fifo_at(part->f, late ? part->b - 1 - j : part->a + j);
		const struct net_half *w;
		uint64_t i;

		do {
			if (!left)
				return false;
			i = late ? whole->a + left - 1 : whole->b - left;
			left--;
			w = net_fifo_at(whole->f, i);
		} while (!(whole->sent ? same_packet(w, p) : same_packet(p, w)));
		is[late ? n - 1 - j : j] = i;
	}
	return true;
}

static void set_alone(const struct run *r)
{
	for (uint64_t i = r->a; i < r->b; i++)
		net_fifo_at(r->f, i)->alone = true;
}

/* Takes back what is not reported: halves before `to` stay unpaired, later ones are open again. */
static void take_back(const struct run *r, uint64_t to)
{
	for (uint64_t i = r->a; i < r->b; i++)
		net_fifo_at(r->f, i)->alone = i < to;
}

/* Halves whose place is the same however the part is laid are pairs. */
static void pair_up(const struct run *whole, const struct run *part, const uint64_t *early,
		    const uint64_t *late, unsigned int unless)
{
	for (uint64_t j = 0; j < part->b - part->a; j++) {
		struct net_half *w = net_fifo_at(whole->f, early[j]),
				*p = net_fifo_at(part->f, part->a + j);

		if (early[j] != late[j])
			continue;
		w->alone = p->alone = false;
		w->unless = p->unless = (uint8_t)unless;
	}
}

static void link_breaks(struct lat *l, struct net_link *k)
{
	l->net->pair[k->pair].wrong += !k->broken;
	k->broken = true;
}

static bool link_begins(const struct net_link *k)
{
	return k->start == NET_FIRM || k->start == NET_SUPPOSED;
}

/* How many sent, and received, packets are not proved yet. */
static uint64_t sent_of(const struct lat *l, const struct net_link *k)
{
	return queue_of(l, k->sender)->q.next - k->proven;
}
static uint64_t got_of(const struct lat *l, const struct net_link *k)
{
	return queue_of(l, k->receiver)->q.next - k->proven_at;
}

/* Checks whether what came can be the first of what was sent. */
static void link_compare(struct lat *l, struct net_link *k)
{
	const struct net_fifo *s = &queue_of(l, k->sender)->q, *g = &queue_of(l, k->receiver)->q;
	uint64_t n = MIN(sent_of(l, k), got_of(l, k));

	for (; !k->broken && k->compared < n; k->compared++)
		if (!same_packet(net_fifo_at(s, k->proven + k->compared),
				 net_fifo_at(g, k->proven_at + k->compared)))
			link_breaks(l, k);
}

/* Begins anew from here: what was sent, and received, before has nothing to do with the rest. */
static void goes_on(struct lat *l, struct net_link *k, uint64_t i, uint64_t n, enum net_start start)
{
	struct net_queue *s = queue_of(l, k->sender);

	if (start != NET_LOST && start != NET_UNKNOWN && is_it(l, k))
		s->past = MAX(s->past, i);
	k->proven = i;
	k->proven_at = n;
	k->compared = 0;
	k->trial = 0;
	k->broken = false;
	k->start = start;
}

/* Nothing is known of the packets on their way, until none is. */
static void link_contradicted(struct lat *l, struct net_link *k)
{
	struct net_queue *s = queue_of(l, k->sender), *g = queue_of(l, k->receiver);

	l->net->pair[k->pair].wrong++;
	if (is_it(l, k)) {
		set_alone(&(struct run){ &s->q, k->proven, s->q.next, true });
		set_alone(&(struct run){ &g->q, k->proven_at, g->q.next, false });
		goes_on(l, k, s->q.next, g->q.next, NET_LOST);
		link_tell(l, k, false);
		return;
	}
	link_restart(l, k);
	k->start = NET_LOST;
	link_trim(l, s);
	link_trim(l, g);
}

/* Up to number i of what was sent and n of what was received, both sides are complete. */
static void link_closes(struct lat *l, struct net_link *k, uint64_t i, uint64_t n)
{
	struct run s = { &queue_of(l, k->sender)->q, k->proven, i, true };
	struct run g = { &queue_of(l, k->receiver)->q, k->proven_at, n, false };
	bool equal = i - s.a == n - g.a && k->compared >= i - s.a && !k->broken;

	if ((k->start == NET_SUPPOSED || k->start == NET_UNKNOWN) && equal) {
		for (uint64_t j = s.a; j < s.b; j++)
			net_fifo_at(s.f, j)->unless = NET_LOSS;
	} else if (!link_begins(k)) {
		if (is_it(l, k)) {
			set_alone(&s);
			set_alone(&g);
		} else {
			k->told = i;
			k->told_at = n;
		}
	} else if (!equal) {
		uint64_t ns = s.b - s.a, ng = g.b - g.a;
		bool firm = k->start == NET_FIRM;
		_cleanup_free_ uint64_t *is = xcalloc(2 * MAX(ns, ng) + 1, sizeof(*is));

		if (!is_it(l, k)) {
			link_contradicted(l, k);
			return;
		}
		link_breaks(l, k);
		/* They begin and end together, but differ: something was lost, or is foreign. */
		set_alone(&s);
		set_alone(&g);
		if (ng <= ns && run_lay(&s, &g, false, is) && run_lay(&s, &g, true, is + ng)) {
			link_shown(l, k, NET_LOSS);
			if (firm)
				pair_up(&s, &g, is, is + ng, NET_FOREIGN);
		} else if (firm && ns <= ng && run_lay(&g, &s, false, is) &&
			   run_lay(&g, &s, true, is + ns)) {
			link_shown(l, k, NET_FOREIGN);
			pair_up(&g, &s, is, is + ns, NET_LOSS);
		} else if (firm) {
			link_shown(l, k, NET_LOSS | NET_FOREIGN);
		}
	}
	goes_on(l, k, i, n, NET_FIRM);
	link_tell(l, k, false);
}

/*
 * What was received is part of what was sent, and there may be more to come: continues behind the
 * last pair that is proved. A packet unlike its neighbours leaves only one way to pair all before
 * it.
 */
static void link_recover(struct lat *l, struct net_link *k)
{
	struct run s = { &queue_of(l, k->sender)->q, k->proven, 0, true };
	struct run g = { &queue_of(l, k->receiver)->q, k->proven_at, 0, false };
	uint64_t all = got_of(l, k), head = k->start == NET_SUPPOSED ? MIN(all, SPARE) : 0;
	_cleanup_free_ uint64_t *late = xcalloc(2 * all + 1, sizeof(*late));
	uint64_t n = all - MIN(all, SPARE), last = n, *early = late + all;
	bool found;

	s.b = s.f->next;
	g.b = g.f->next;
	found = run_lay(&s, &g, false, early);
	g.a += head;
	found = found && run_lay(&s, &g, false, early + head);
	g.a -= head;
	g.b -= all - n;
	found = found && run_lay(&s, &g, true, late);
	while (last > head && early[last - 1] != late[last - 1])
		last--;
	k->trial = 2 * all; /* each is looked at a few times */
	if (!found) {
		link_shown(l, k, NET_FOREIGN);
		link_contradicted(l, k);
		return;
	}
	if (last > head) {
		if (late[last - 1] + 1 - s.a != last)
			link_shown(l, k, NET_LOSS);
		s.b = late[last - 1] + 1;
		g.b = g.a + last;
		set_alone(&s);
		set_alone(&g);
		g.b = g.a + head;
		pair_up(&s, &g, early, late, NET_LOSS | NET_FOREIGN);
		g.a += head;
		g.b = g.a + (last - head);
		pair_up(&s, &g, early + head, late + head, NET_FOREIGN);
		goes_on(l, k, s.b, g.b, NET_FIRM);
		k->trial = TRIAL + (n - last) * 3 / 2;
	}
	if (last > head)
		link_tell(l, k, false);
}

/* After one more came, or is known to have come. */
static void link_settle(struct lat *l, struct net_link *k)
{
	if (!link_begins(k))
		return;
	link_compare(l, k);
	/* If as many arrived as were sent, one from elsewhere may be among them: no proof. */
	if (got_of(l, k) >= MAX(k->trial, TRIAL) && is_it(l, k))
		link_recover(l, k);
}

/* ---- what headers tell ---- */

/* Numbers i and n are the same packet, for sure. */
static void is_same(struct lat *l, struct net_link *k, uint64_t i, uint64_t n)
{
	struct net_queue *s = queue_of(l, k->sender), *g = queue_of(l, k->receiver);

	if (!is_it(l, k) || i < MAX(k->told, s->cut) || n < k->told_at)
		return;
	if (i < k->proven || n < k->proven_at) { /* not what was proved */
		if (i < k->proven && !net_fifo_at(&s->q, i)->alone)
			link_shown(l, k, NET_LOSS | NET_FOREIGN);
		take_back(&(struct run){ &s->q, k->told, s->q.next, true }, i);
		take_back(&(struct run){ &g->q, k->told_at, g->q.next, false }, n);
	} else {
		link_compare(l, k);
		link_closes(l, k, i, n);
	}
	net_fifo_at(&s->q, i)->alone = net_fifo_at(&g->q, n)->alone = false;
	net_fifo_at(&s->q, i)->sure = true;
	goes_on(l, k, i + 1, n + 1, NET_FIRM);
	link_tell(l, k, false);
}

void net_identified(struct lat *l, const struct net_ref *ref)
{
	struct net_half *h = net_half_of(l, ref);
	struct net_queue *q = queue_of(l, ref->queue - 1);
	struct net_link *is = NULL;
	uint64_t i = 0;
	unsigned int found = 0;

	if (!h || !h->ident.id)
		return;
	if (q->sent) {
		net_index_add(q, ref->n);
		return;
	}
	for (uint32_t n = 0; n < q->nlink; n++) {
		struct net_link *k = &l->net->link[q->link[n]];
		uint64_t at;
		const struct net_half *s = NULL;
		const struct net_fifo *fifo = &queue_of(l, k->sender)->q;
		const struct net_fifo *g = &queue_of(l, k->receiver)->q;
		uint64_t nth = ref->n - k->proven_at;

		/* Number n of what was received is not the packet that order says. */
		if (ref->n >= k->proven_at && nth < k->compared &&
		    !same_packet(net_fifo_at(fifo, k->proven + nth), net_fifo_at(g, ref->n))) {
			k->compared = nth;
			link_breaks(l, k);
		}
		if (h->ident.strong)
			s = net_index_find(queue_of(l, k->sender), h->ident.id, &at);
		if (!s)
			continue;
		found += s->twin || !same_packet(s, h) ? 2 : 1;
		is = k;
		i = at;
	}
	if (found != 1)
		return;
	/* It went through this link, and so through no other link of either end. */
	for (int e = 0; e < 2 && !is_it(l, is); e++) {
		const struct net_queue *end = queue_of(l, e ? is->receiver : is->sender);

		for (uint32_t n = 0; n < end->nlink; n++) {
			const struct net_link *o = &l->net->link[end->link[n]];

			l->net->pair[o->pair].wrong += o->pair != is->pair;
		}
	}
	is_same(l, is, i, ref->n);
}

/* ---- what happens ---- */

/* Nothing more can be found out about its halves. */
static void link_unknown(struct net_queue *q)
{
	q->gen++;
	q->rung = q->q.next;
	q->npublished = 0;
}

static void queue_forget(struct lat *l, struct net_queue *q)
{
	link_unknown(q);
	q->q.first = q->q.next;
	for (uint32_t i = 0; i < q->nlink; i++)
		link_restart(l, &l->net->link[q->link[i]]);
}

void net_add(struct lat *l, struct net_queue *q, const struct net_half *h, struct net_ref *ref)
{
	struct net_half *slot = fifo_push(&q->q);

	if (!slot) { /* too many that are not proved */
		queue_forget(l, q);
		slot = fifo_push(&q->q);
	}
	*slot = *h;
	*ref = (struct net_ref){ (uint32_t)(q - l->net->queue) + 1, q->gen, q->q.next - 1 };
	net_count(l, l->net->sent, q, q->sent && q->nlink);
	/* One more packet was received at the end of a link. */
	for (uint32_t i = 0; i < q->nlink && !q->sent; i++) {
		struct net_link *k = &l->net->link[q->link[i]];

		if (!link_begins(k))
			continue;
		if (got_of(l, k) > sent_of(l, k)) {
			link_shown(l, k, NET_FOREIGN);
			if (k->start == NET_SUPPOSED || !is_it(l, k)) {
				link_contradicted(l, k);
				continue;
			}
			link_breaks(l, k);
		}
		link_settle(l, k);
	}
	if (!q->nlink && q->q.next - q->q.first > UNLINKED)
		q->q.first++;
}

void net_arrived(struct lat *l, struct net_queue *q, uint64_t n)
{
	for (uint32_t i = 0; i < q->nlink; i++) {
		struct net_link *k = &l->net->link[q->link[i]];
		uint64_t sent = n - k->proven, got = got_of(l, k);

		/* What was sent up to number n, on this link. */
		if (n == queue_of(l, k->sender)->q.next) {
			link_compare(l, k);
			link_closes(l, k, n, queue_of(l, k->receiver)->q.next);
			continue;
		}
		if (n <= k->proven || k->start == NET_LOST)
			continue;
		if (got < sent) {
			link_shown(l, k, NET_LOSS);
			if (!is_it(l, k)) {
				link_contradicted(l, k);
				continue;
			}
			if (k->start == NET_UNKNOWN)
				k->start = NET_SUPPOSED;
			link_breaks(l, k);
		} else if (got == sent && k->start == NET_UNKNOWN) {
			k->start = NET_SUPPOSED;
		}
		link_settle(l, k);
	}
}

void net_unsent(struct lat *l, const struct net_ref *ref)
{
	struct net_queue *q = net_half_of(l, ref) ? queue_of(l, ref->queue - 1) : NULL;

	if (!q)
		return;
	if (ref->n + 1 != q->q.next) {
		queue_forget(l, q);
		return;
	}
	net_index_drop(q, ref->n);
	q->q.next--;
	net_count(l, l->net->sent, q, 0 - (uint64_t)(q->nlink > 0));
	for (uint32_t i = 0; i < q->nlink; i++) {
		struct net_link *k = &l->net->link[q->link[i]];

		if (MAX(k->told, k->proven) + k->compared > q->q.next)
			link_restart(l, k);
	}
}

void net_tell(struct lat *l, struct net_queue *q)
{
	for (uint32_t i = 0; i < q->nlink; i++)
		link_tell(l, &l->net->link[q->link[i]], false);
}

/* Nothing more will arrive: proves what can be proved. */
static void recover_all(struct lat *l, int64_t vm)
{
	for (size_t i = 0; i < l->net->nlink; i++) {
		struct net_link *k = &l->net->link[i];

		if (vm >= 0 && queue_of(l, k->sender)->vm != (size_t)vm)
			continue;
		if (link_begins(k) && got_of(l, k) && is_it(l, k))
			link_recover(l, k);
	}
}

void net_cut(struct lat *l, int64_t vm)
{
	recover_all(l, vm);
	for (size_t i = 0; i < l->net->queue_at.n; i++) {
		struct net_queue *q = queue_of(l, (uint32_t)i);
		struct net_link *k = NULL; /* that is known to be the queue's */

		for (uint32_t n = 0; n < q->nlink && !k; n++)
			if (is_it(l, &l->net->link[q->link[n]]))
				k = &l->net->link[q->link[n]];
		if (vm >= 0 && q->vm != (size_t)vm)
			continue;
		/* What is proved stays; the rest is counted as cut by lost events. */
		if (k && q->sent) {
			struct net_queue *s = queue_of(l, k->sender), *g = queue_of(l, k->receiver);

			net_count(l, l->net->cut, s, s->q.next - k->proven);
			s->cut = s->q.next;
			set_alone(&(struct run){ &s->q, k->proven, s->q.next, true });
			set_alone(&(struct run){ &g->q, k->proven_at, g->q.next, false });
			for (uint64_t n = k->told_at; n < g->q.next; n++)
				net_fifo_at(&g->q, n)->ended = true;
			goes_on(l, k, s->q.next, g->q.next, NET_UNKNOWN);
			link_tell(l, k, false);
		}
		if (k) {
			link_unknown(q);
			continue;
		}
		if (q->sent && q->nlink)
			net_count(l, l->net->cut, q, q->q.next - q->q.first);
		queue_forget(l, q);
	}
}

void net_finish(struct lat *l)
{
	recover_all(l, -1);
	for (size_t i = 0; i < l->net->nlink; i++) {
		struct net_link *k = &l->net->link[i];

		link_tell(l, k, true);
		if (link_begins(k) && is_it(l, k) && sent_of(l, k) > got_of(l, k))
			net_count(l, l->net->open, queue_of(l, k->sender),
				  sent_of(l, k) - got_of(l, k));
	}
}

void net_links_free(struct lat_net *m)
{
	for (size_t i = 0; i < m->queue_at.n; i++) {
		free(m->queue[i].q.h);
		free(m->queue[i].bucket);
	}
	free(m->queue);
	free(m->link);
	free(m->pair);
	u64map_free(&m->pair_at);
	u64map_free(&m->queue_at);
}
