/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * net_link.c: which packet that was received is which of those that were sent.
 *
 * Nothing in a packet tells it, unless headers were recorded (net_id.c). But a queue keeps their
 * order and loses none, so one number is all that lacks: how many of those received were sent
 * before the first that was seen. It is at least as many as were received more than sent, at any
 * time; and at most what follows from packets that must have arrived: of the guest's when it frees
 * their memory, of the host's when they were in the ring before the guest polled it until it was
 * empty. Where both bounds meet, all pairs are proved up to the last moment at which nothing was on
 * its way: a packet that was lost or came from elsewhere would have parted the bounds. While more
 * is on its way, what was sent later may have come in its place, and only lengths can prove more.
 * After a contradiction it begins anew at such a moment.
 *
 * Lengths must agree, too. Where they do not, or the bounds cross, something was lost: QEMU, for
 * one, drops what the guest does not listen to. What arrived is then part of what was sent, in
 * order, and only those are pairs that are so in whatever way the two are laid upon each other.
 *
 * Which device of the guest a tap is the other end of is not told either. Where there are several,
 * each could be with each, until all but one have contradicted themselves.
 */
#include "net.h"

#include <errno.h>
#include <string.h>

#define FIFO_MAX   65536u
#define QUEUES_MAX 16384u
#define QUEUES_VM  1024u /* of which no guest can take them all from others */
#define TRIAL	   128u
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
		struct net_half *h = cap <= FIFO_MAX ? calloc(cap, sizeof(*h)) : NULL;

		if (!h)
			return NULL;
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
	k->from = k->compared = k->proven = k->told = queue_of(l, k->sender)->q.next;
	k->at = k->told_at = queue_of(l, k->receiver)->q.next;
	k->fixed = k->broken = k->lost = false;
	k->trial = 0;
	k->lo = 0;
	k->hi = INT64_MAX;
}

/* Not by vCPU: which one gets a packet is not told when it is sent. */
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
static int link_add(struct lat *l, uint32_t sender, uint32_t receiver)
{
	struct net_queue *s = queue_of(l, sender), *g = queue_of(l, receiver);
	struct {
		uint64_t vm;
		uint32_t tap, dev;
	} id = { s->vm, (s->out ? g : s)->dev, (s->out ? s : g)->dev };
	struct net_link *k;
	uint64_t *wrong;

	if (s->nlink >= NET_LINKS || g->nlink >= NET_LINKS)
		return 0;
	wrong = u64map_elem(&l->net->wrong_at, hash_bytes(&l->net->key, &id, sizeof(id)),
			    &l->net->wrong, &l->net->wrong_cap, sizeof(*wrong));
	if (!wrong)
		return -ENOMEM;
	k = array_grow(&l->net->link, l->net->nlink, &l->net->link_cap, sizeof(*k));
	if (!k)
		return -ENOMEM;
	if (!s->nlink)
		net_count(l, l->net->sent, s, s->q.next - s->q.first);
	s->link[s->nlink++] = g->link[g->nlink++] = (uint32_t)l->net->nlink++;
	*k = (struct net_link){ .sender = sender,
				.receiver = receiver,
				.hi = INT64_MAX,
				.pair = (uint32_t)(wrong - l->net->wrong) };
	k->from = k->compared = k->proven = k->told = s->q.first;
	k->at = k->told_at = g->q.first;
	k->lo = MAX((int64_t)(g->q.next - k->at) - (int64_t)(s->q.next - k->from), 0);
	k->lost = s->q.first || g->q.first; /* not from the beginning of both captures */
	return 0;
}

static int links_add(struct lat *l, uint32_t at)
{
	int ret = 0;

	for (uint32_t i = 0; i < l->net->queue_at.n && !ret; i++) {
		const struct net_queue *q = queue_of(l, at), *o = queue_of(l, i);

		if (o->vm == q->vm && o->out == q->out && o->sent != q->sent &&
		    o->number == q->number && l->net->dev[o->dev].end)
			ret = link_add(l, q->sent ? at : i, q->sent ? i : at);
	}
	return ret;
}

int net_dev_ends(struct lat *l, uint32_t dev)
{
	int ret = 0;

	if (l->net->dev[dev].end)
		return 0;
	l->net->dev[dev].end = true;
	for (uint32_t i = 0; i < l->net->queue_at.n && !ret; i++)
		if (queue_of(l, i)->dev == dev)
			ret = links_add(l, i);
	return ret;
}

int net_queue_get(struct lat *l, size_t vm, uint32_t dev, uint32_t number, bool out, bool sent,
		  struct net_queue **q)
{
	struct lat_net *m = l->net;
	uint64_t key = (uint64_t)vm << 44 ^ (uint64_t)dev << 16 ^ (number & 0x3fffu) << 2 ^
		       (uint64_t)out << 1 ^ (uint64_t)sent,
		 at;

	*q = NULL;
	if (u64map_get(&m->queue_at, key, &at)) {
		*q = &m->queue[at];
		return 0;
	}
	if (m->queue_at.n >= QUEUES_MAX || m->side[vm + 1].nqueue >= QUEUES_VM) {
		if (lat_wanted(l, (int64_t)vm, l->o.vcpu))
			m->sent[out] += sent;
		return 0;
	}
	at = m->queue_at.n;
	*q = u64map_elem(&m->queue_at, key, &m->queue, &m->queue_cap, sizeof(**q));
	if (!*q)
		return -ENOMEM;
	m->side[vm + 1].nqueue++;
	if (!m->dev[dev].vm)
		m->dev[dev].vm = vm + 1;
	(*q)->vm = vm;
	(*q)->dev = dev;
	(*q)->number = number;
	(*q)->out = out;
	(*q)->sent = sent;
	return m->dev[dev].end ? links_add(l, (uint32_t)at) : 0;
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

static bool known(const struct net_link *k)
{
	return k->lo == k->hi;
}

/* What is the other end of number n of the sender. */
static uint64_t other_end(const struct net_link *k, uint64_t n)
{
	return k->at + (n - k->from) + (uint64_t)k->lo;
}

static bool ruled_out(const struct lat *l, const struct net_link *o, uint64_t mine)
{
	uint64_t wrong = l->net->wrong[o->pair];

	return wrong >= WRONG_MIN && wrong > mine * WRONG_MORE;
}

/* Whether nothing else can be the other end of either. */
static bool is_it(const struct lat *l, const struct net_link *k)
{
	const struct net_queue *s = queue_of(l, k->sender), *g = queue_of(l, k->receiver);
	uint64_t mine;

	if (s->nlink == 1 && g->nlink == 1)
		return true;
	mine = l->net->wrong[k->pair];
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

/* Nobody needs what is before the earliest that a link of the queue has not done with. */
static void trim(struct lat *l, struct net_queue *q)
{
	uint64_t need = q->q.next;

	for (uint32_t i = 0; i < q->nlink; i++) {
		const struct net_link *k = &l->net->link[q->link[i]];

		need = MIN(need, q->sent ? k->told : k->told_at);
	}
	q->q.first = MAX(q->q.first, need);
}

static int tell(struct lat *l, struct net_link *k, bool whole)
{
	struct net_queue *s = queue_of(l, k->sender), *g = queue_of(l, k->receiver);
	int ret = 0;

	if (k->told >= k->proven || !is_it(l, k))
		return 0;
	while (!ret && k->told < k->proven) {
		const struct net_half *from = net_fifo_at(&s->q, k->told), *to;

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
		net_count(l, l->net->measured, s, 1);
		ret = net_measured(l, s, g, from, to);
		k->told++;
	}
	for (uint32_t i = 0; i < s->nlink; i++)
		if (l->net->link[s->link[i]].told < k->told)
			link_restart(l, &l->net->link[s->link[i]]);
	trim(l, s);
	trim(l, g);
	return ret;
}

static int contradicted(struct lat *l, struct net_link *k)
{
	int ret = known(k) ? tell(l, k, true) : 0;

	l->net->wrong[k->pair]++;
	link_restart(l, k);
	k->lost = true;
	trim(l, queue_of(l, k->sender));
	trim(l, queue_of(l, k->receiver));
	return ret;
}

/* The frame that a tap is given has a VLAN's tag beside it, and the guest's has it in it. */
static bool same_length(const struct net_half *s, const struct net_half *g)
{
	if (s->ident.id && g->ident.id && s->ident.id != g->ident.id)
		return false;
	return s->len == g->len + ETH_HEADER || s->len + VLAN_TAG == g->len + ETH_HEADER;
}

/*
 * Lays what was received from number b on upon what was sent from a on, each as early as it can be;
 * late: as late. False: it is no part of it.
 */
static bool lay(const struct net_fifo *s, const struct net_fifo *g, uint64_t a, uint64_t b,
		bool late, uint64_t *is)
{
	uint64_t n = g->next - b, left = s->next - a;

	for (uint64_t j = 0; j < n; j++) {
		const struct net_half *to = net_fifo_at(g, late ? g->next - 1 - j : b + j);
		uint64_t i;

		do {
			if (!left)
				return false;
			i = late ? a + left - 1 : s->next - left;
			left--;
		} while (!same_length(net_fifo_at(s, i), to));
		is[late ? n - 1 - j : j] = i;
	}
	return true;
}

/*
 * What was received is part of what was sent; which one each is, is proved where all ways to lay it
 * on agree. If nothing is on its way (whole), the rest stays alone. Else there may be more to come,
 * and things go on behind the last one that is proved: with a packet that is unlike its neighbours
 * no other way is left for all before it.
 */
static int recover(struct lat *l, struct net_link *k, bool whole)
{
	const struct net_fifo *s = &queue_of(l, k->sender)->q, *g = &queue_of(l, k->receiver)->q;
	uint64_t b = other_end(k, k->proven), n = g->next - b, *is = calloc(2 * n + 1, sizeof(*is));
	bool found =
		is && lay(s, g, k->proven, b, false, is) && lay(s, g, k->proven, b, true, is + n);
	uint64_t last = found || whole ? n : 0, next = s->next;

	if (!is)
		return -ENOMEM;
	while (!whole && last && is[last - 1] != is[n + last - 1])
		last--;
	if (!whole)
		next = last ? is[last - 1] + 1 : k->proven;
	for (uint64_t i = k->proven; i < next; i++)
		net_fifo_at(s, i)->alone = true;
	for (uint64_t j = 0; j < last; j++) {
		bool pair = found && is[j] == is[n + j];

		net_fifo_at(g, b + j)->alone = !pair;
		if (pair)
			net_fifo_at(s, is[j])->alone = false;
	}
	free(is);
	if (!found && !whole)
		return contradicted(l, k);
	k->trial = last ? TRIAL + (n - last) * 3 / 2 : 2 * n; /* each is looked at a few times */
	if (!last && !whole)
		return 0;
	k->broken = false;
	k->from = k->compared = k->proven = next;
	k->at = b + last;
	k->lo = k->hi = 0;
	return tell(l, k, false);
}

static void breaks(struct lat *l, struct net_link *k)
{
	l->net->wrong[k->pair] += !k->broken;
	k->broken = true;
}

/* After a bound changed; the bounds meet. */
static int settle(struct lat *l, struct net_link *k)
{
	const struct net_fifo *s = &queue_of(l, k->sender)->q, *g = &queue_of(l, k->receiver)->q;

	if (!k->fixed) {
		k->told_at = k->at + (uint64_t)k->lo; /* of the first ones no sending was seen */
		k->fixed = true;
	}
	for (; !k->broken && k->compared < s->next && other_end(k, k->compared) < g->next;
	     k->compared++)
		if (!same_length(net_fifo_at(s, k->compared),
				 net_fifo_at(g, other_end(k, k->compared))))
			breaks(l, k);
	/* As many as were sent may have arrived with one from elsewhere among them: no proof. */
	if (g->next - other_end(k, k->proven) >= MAX(k->trial, TRIAL))
		return recover(l, k, false);
	return k->broken ? 0 : tell(l, k, false);
}

/* All that was sent has arrived, and what arrives from now on is sent from now on. */
static void begins(struct lat *l, struct net_link *k)
{
	link_restart(l, k);
	k->hi = 0;
	k->fixed = true;
	trim(l, queue_of(l, k->sender));
	trim(l, queue_of(l, k->receiver));
}

/* ---- what headers tell ---- */

/* Number i of what was sent is number n of what was received, and begins the link anew. */
static int begins_with(struct lat *l, struct net_link *k, uint64_t i, uint64_t n)
{
	if (i < k->told || n < k->told_at)
		return 0;
	*k = (struct net_link){ .sender = k->sender,
				.receiver = k->receiver,
				.from = i,
				.at = n,
				.compared = i + 1,
				.proven = i + 1,
				.told = i,
				.told_at = n,
				.fixed = true,
				.pair = k->pair };
	return tell(l, k, false);
}

/*
 * The same, with something lost before them, or from elsewhere: of what came between, nothing is
 * proved.
 */
static int pairs_up_to(struct lat *l, struct net_link *k, uint64_t i, uint64_t n)
{
	const struct net_fifo *s = &queue_of(l, k->sender)->q, *g = &queue_of(l, k->receiver)->q;
	uint64_t a = k->proven, b = other_end(k, a);

	if (i < a || n < b)
		return begins_with(l, k, i, n);
	for (uint64_t j = a; j <= i; j++)
		net_fifo_at(s, j)->alone = j < i;
	for (uint64_t j = b; j <= n; j++)
		net_fifo_at(g, j)->alone = j < n;
	breaks(l, k);
	k->broken = false;
	k->from = k->compared = k->proven = i + 1;
	k->at = n + 1;
	k->lo = k->hi = 0;
	k->trial = 0;
	return tell(l, k, false);
}

/* Numbers i and n are the same packet, for sure. */
static int is_same(struct lat *l, struct net_link *k, uint64_t i, uint64_t n)
{
	int64_t skew = (int64_t)(n - k->at) - (int64_t)(i - k->from);
	int ret = 0;

	if (k->lost || i < k->from || n < k->at)
		return begins_with(l, k, i, n);
	if (!known(k)) {
		if (skew < k->lo || skew > k->hi)
			return begins_with(l, k, i, n);
		k->lo = k->hi = skew;
		ret = settle(l, k);
	}
	if (ret || !known(k) || k->lost)
		return ret;
	if (k->broken || other_end(k, i) != n)
		return pairs_up_to(l, k, i, n);
	k->proven = MAX(k->proven, MIN(i + 1, k->compared));
	return tell(l, k, false);
}

/* Number n of what was received is not what order says it is. */
static void refute(struct lat *l, struct net_link *k, uint64_t n)
{
	const struct net_fifo *s = &queue_of(l, k->sender)->q, *g = &queue_of(l, k->receiver)->q;
	uint64_t i = k->from + (n - k->at) - (uint64_t)k->lo;

	if (!known(k) || k->lost || n < k->at + (uint64_t)k->lo || i < k->told ||
	    i >= k->compared || n < k->told_at || same_length(net_fifo_at(s, i), net_fifo_at(g, n)))
		return;
	breaks(l, k);
	k->proven = MAX(k->told, MIN(k->proven, i));
}

/* That packet went through this link, and so through none of the others of either end. */
static void others_wrong(struct lat *l, const struct net_link *k)
{
	const struct net_queue *end[] = { queue_of(l, k->sender), queue_of(l, k->receiver) };

	for (size_t e = 0; e < 2 && !is_it(l, k); e++)
		for (uint32_t i = 0; i < end[e]->nlink; i++) {
			const struct net_link *o = &l->net->link[end[e]->link[i]];

			l->net->wrong[o->pair] += o->pair != k->pair;
		}
}

int net_identified(struct lat *l, const struct net_ref *ref)
{
	struct net_half *h = net_half_of(l, ref);
	struct net_queue *q = queue_of(l, ref->queue - 1);
	struct net_link *is = NULL;
	uint64_t i = 0;
	unsigned int found = 0;

	if (!h || !h->ident.id)
		return 0;
	if (q->sent)
		return net_index_add(q, ref->n);
	q->named |= h->ident.strong;
	for (uint32_t n = 0; n < q->nlink; n++) {
		struct net_link *k = &l->net->link[q->link[n]];
		uint64_t at;
		const struct net_half *s = NULL;

		refute(l, k, ref->n);
		if (h->ident.strong)
			s = net_index_find(queue_of(l, k->sender), h->ident.id, &at);
		if (!s)
			continue;
		found += s->twin || !same_length(s, h) ? 2 : 1;
		is = k;
		i = at;
	}
	if (found != 1)
		return 0;
	others_wrong(l, is);
	return is_same(l, is, i, ref->n);
}

/* ---- what happens ---- */

static int forget(struct lat *l, struct net_queue *q)
{
	q->gen++;
	q->q.first = q->q.next;
	q->rung = q->q.next;
	q->npublished = 0;
	for (uint32_t i = 0; i < q->nlink; i++)
		link_restart(l, &l->net->link[q->link[i]]);
	return 0;
}

int net_add(struct lat *l, struct net_queue *q, const struct net_half *h, struct net_ref *ref)
{
	struct net_half *slot = fifo_push(&q->q);
	int ret = 0;

	if (!slot && q->q.next - q->q.first < FIFO_MAX)
		return -ENOMEM;
	if (!slot) { /* too many that nothing is proved of */
		forget(l, q);
		slot = fifo_push(&q->q);
	}
	*slot = *h;
	*ref = (struct net_ref){ (uint32_t)(q - l->net->queue) + 1, q->gen, q->q.next - 1 };
	net_count(l, l->net->sent, q, q->sent && q->nlink);
	for (uint32_t i = 0; i < q->nlink && !q->sent && !ret; i++) {
		struct net_link *k = &l->net->link[q->link[i]];
		const struct net_fifo *s = &queue_of(l, k->sender)->q;

		int64_t least = (int64_t)(q->q.next - k->at) - (int64_t)(s->next - k->from);

		if (k->lost)
			continue;
		k->lo = known(k) ? k->lo : MAX(k->lo, least);
		if (least > k->lo && q->named) /* its header will tell where things go on */
			breaks(l, k);
		else if (least > k->lo || k->lo > k->hi)
			ret = contradicted(l, k);
		else if (known(k))
			ret = settle(l, k);
	}
	if (!q->nlink && q->q.next - q->q.first > UNLINKED)
		q->q.first++;
	return ret;
}

/* ... to that link. */
static int arrived(struct lat *l, struct net_link *k, uint64_t n)
{
	const struct net_fifo *s = &queue_of(l, k->sender)->q, *g = &queue_of(l, k->receiver)->q;
	int64_t most = (int64_t)(g->next - k->at) - (int64_t)(n - k->from);
	int ret = 0;

	if (n <= k->from || k->lost)
		return 0;
	k->hi = known(k) ? k->hi : MIN(k->hi, most);
	if (k->lo > k->hi)
		ret = contradicted(l, k);
	else if (known(k))
		ret = settle(l, k);
	if (ret || !known(k) || n <= k->from || k->lost)
		return ret;
	if (most < k->lo)
		breaks(l, k);
	/* If more was sent, some of it may have arrived in place of what was lost. */
	if (n != s->next)
		return 0;
	if (k->broken)
		return is_it(l, k) ? recover(l, k, true) : contradicted(l, k);
	if (most == k->lo)
		k->proven = MAX(k->proven, n);
	return 0;
}

int net_arrived(struct lat *l, struct net_queue *q, uint64_t n)
{
	int ret = 0;

	for (uint32_t i = 0; i < q->nlink && !ret; i++) {
		struct net_link *k = &l->net->link[q->link[i]];

		if (k->lost && n == q->q.next)
			begins(l, k);
		ret = arrived(l, k, n);
		if (!ret && k->lost && n == q->q.next)
			begins(l, k);
	}
	return ret;
}

int net_unsent(struct lat *l, const struct net_ref *ref)
{
	struct net_queue *q = net_half_of(l, ref) ? queue_of(l, ref->queue - 1) : NULL;

	if (!q)
		return 0;
	if (ref->n + 1 != q->q.next)
		return forget(l, q);
	net_index_drop(q, ref->n);
	q->q.next--;
	net_count(l, l->net->sent, q, 0 - (uint64_t)(q->nlink > 0));
	for (uint32_t i = 0; i < q->nlink; i++) {
		struct net_link *k = &l->net->link[q->link[i]];

		if (MAX(k->told, k->from) > q->q.next || MAX(k->compared, k->proven) > q->q.next)
			link_restart(l, k);
	}
	return 0;
}

int net_tell(struct lat *l, struct net_queue *q)
{
	int ret = 0;

	for (uint32_t i = 0; i < q->nlink && !ret; i++)
		ret = tell(l, &l->net->link[q->link[i]], false);
	return ret;
}

static int tell_whole(struct lat *l, int64_t vm)
{
	int ret = 0;

	for (size_t i = 0; i < l->net->nlink && !ret; i++) {
		struct net_link *k = &l->net->link[i];

		if (vm >= 0 && queue_of(l, k->sender)->vm != (size_t)vm)
			continue;
		if (known(k) && queue_of(l, k->receiver)->q.next > other_end(k, k->proven))
			ret = recover(l, k, false);
		if (!ret)
			ret = tell(l, k, true);
	}
	return ret;
}

int net_cut(struct lat *l, int64_t vm)
{
	int ret = tell_whole(l, vm);

	for (size_t i = 0; i < l->net->queue_at.n && !ret; i++) {
		struct net_queue *q = queue_of(l, (uint32_t)i);

		if (vm >= 0 && q->vm != (size_t)vm)
			continue;
		if (q->sent && q->nlink)
			net_count(l, l->net->cut, q, q->q.next - q->q.first);
		ret = forget(l, q);
	}
	return ret;
}

/* What was proved before, and did not arrive since. */
static uint64_t on_its_way(const struct lat *l, const struct net_link *k)
{
	const struct net_fifo *s = &queue_of(l, k->sender)->q, *g = &queue_of(l, k->receiver)->q;
	uint64_t next = known(k) ? other_end(k, s->next) : 0;

	return next > g->next && is_it(l, k) ? MIN(next - g->next, s->next - k->told) : 0;
}

int net_finish(struct lat *l)
{
	int ret = tell_whole(l, -1);

	for (size_t i = 0; i < l->net->nlink && !ret; i++) {
		const struct net_link *k = &l->net->link[i];

		net_count(l, l->net->open, queue_of(l, k->sender), on_its_way(l, k));
	}
	return ret;
}

void net_links_free(struct lat_net *m)
{
	for (size_t i = 0; i < m->queue_at.n; i++) {
		free(m->queue[i].q.h);
		free(m->queue[i].bucket);
	}
	free(m->queue);
	free(m->link);
	free(m->wrong);
	u64map_free(&m->wrong_at);
	u64map_free(&m->queue_at);
}
