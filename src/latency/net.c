/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * net.c: packets between a host and its guests, through a tap and virtio-net: what either kernel
 * saw of them, and who reads what was received.
 *
 * Within one kernel the address of a packet (skbaddr) tells it, from one event to the next, until
 * its memory is freed. A tap is known by who takes packets from it or puts them into it, in the
 * context of a task: a thread of a VMM, or vhost's; a device of the guest by its NAPI.
 */

#include "net.h"

/*
 * ---- which thread reads a packet that a kernel received, and in which system call ----
 *
 * It is the one that frees it or copies it, in another context than the one that received it; or
 * that was woken while the kernel was busy with it.
 */

#define ETH_HEADER	   14
#define IP_HEADER	   20

/* NULL: no thread. */
static struct net_task *net_task_of(struct lat *l, size_t side, int32_t tid)
{
	struct net_side *s = &l->net->side[side];
	struct net_task *t = tid > 0 ? xu64map_elem(&s->task_at, (uint32_t)tid, &s->task,
						    &s->task_cap, sizeof(*t))
				     : NULL;

	if (t && t->gen != s->gen)
		*t = (struct net_task){ .gen = s->gen };
	return t;
}

/* ---- the end of what was received ---- */

static void skb_half_over(struct lat *l, struct net_half *h, const struct net_ref *ref)
{
	h->ended = true;
	net_tell(l, &l->net->queue[ref->queue - 1]);
}

/* The task goes on to another packet, or is back from its system call, at t; 0: unseen. */
static void reading_over(struct lat *l, struct net_task *task, uint64_t t)
{
	struct net_ref ref = task->reads;
	struct net_half *h = net_half_of(l, &ref);

	task->reads.queue = 0;
	if (!h || !h->reading)
		return;
	h->reading = false;
	h->t[NP_BACK] = t;
	skb_half_over(l, h, &ref);
}

static void read_by(struct lat *l, struct net_half *h, const struct net_ref *ref,
		    const struct lat_in *in)
{
	struct net_task *t = net_task_of(l, net_side_of(in), in->i->tid);
	uint64_t came = MAX(h->t[NP_TAKEN], h->t[NP_NAPI]);

	h->t[NP_END] = in->t;
	h->end = NET_READ;
	h->tid = in->i->tid;
	/* A task that was awake was not woken by the packet. */
	if (t && t->woken > came) {
		h->t[NP_WOKEN] = t->woken;
		h->t[NP_RUN] = t->ran > t->woken ? t->ran : 0;
	}
	if (!t || !t->call || t->sends) {
		skb_half_over(l, h, ref);
		return;
	}
	h->t[NP_ASK] = t->call > MAX(came, h->t[NP_RUN]) ? t->call : 0;
	reading_over(l, t, 0);
	t->reads = *ref;
	h->reading = true;
}

/* A received packet ended; in NULL: unseen. */
static void net_ended(struct lat *l, struct net_skb *k, const struct lat_in *in, enum net_end end)
{
	struct net_half *h = net_half_of(l, &k->ref);

	if (!h || h->ended || h->reading)
		return;
	if (in && end == NET_READ) {
		read_by(l, h, &k->ref, in);
		return;
	}
	if (in) {
		h->t[NP_END] = in->t;
		h->end = end;
	}
	if (!(h->woke))
		skb_half_over(l, h, &k->ref);
}

/* Whether a task took it, in another context than the one that received it. */
static bool net_is_reader(const struct net_skb *k, const struct lat_in *in)
{
	return k->ref.queue && net_context(in) > 0 && net_context(in) != k->context;
}

/* ---- tasks ---- */

static struct net_busy *net_busy_at(struct lat *l, const struct lat_in *in)
{
	return &l->net->side[net_side_of(in)].busy[in->i->cpu % NET_CPUS];
}

static void net_busy_over(struct lat *l, const struct lat_in *in)
{
	*net_busy_at(l, in) = (struct net_busy){ 0 };
}

static void task_lets_go(struct lat *l, struct net_task *t)
{
	struct net_ref ref = t->by;
	struct net_half *h = net_half_of(l, &ref);

	t->by.queue = 0;
	if (!h || !h->woke || h->ended || h->reading)
		return;
	h->woke = false;
	if (h->t[NP_END])
		skb_half_over(l, h, &ref);
}

static void task_has(struct lat *l, struct net_task *t, const struct net_ref *ref, uint32_t len,
		     bool woken)
{
	struct net_half *h = net_half_of(l, ref);

	if (!h || h->ended)
		return;
	task_lets_go(l, t);
	t->by = *ref;
	t->by_len = len;
	t->by_woken = woken;
	h->woke = true;
}

/* The kernel handles a packet; if it got several at once, nothing shows which one. */
static void net_busy_with(struct lat *l, const struct net_skb *k, const struct lat_in *in)
{
	struct net_busy *b = net_busy_at(l, in);
	bool same = b->cpu == in->i->cpu && b->context == k->context;
	bool other = b->ref.queue && (b->ref.queue != k->ref.queue || b->ref.n != k->ref.n);

	*b = (struct net_busy){ .ref = k->ref,
				.cpu = in->i->cpu, .len = k->len, .context = k->context,
				.several = same && (b->several || other) };
}

/*
 * Sockets that are given a copy of a packet (raw ones: ping's) have it at another address: its
 * reader is the task that was woken meanwhile, and reads one of that length next.
 */
static void net_task_woken(struct lat *l, const struct lat_in *in)
{
	struct net_task *t = net_task_of(l, net_side_of(in), (int32_t)in->f[0]);
	const struct net_busy *b = net_busy_at(l, in);

	if (!t)
		return;
	t->woken = in->t;
	if (in->kind != EV_WAKING || b->cpu != in->i->cpu || b->context != net_context(in) ||
	    b->several)
		return;
	task_has(l, t, &b->ref, b->len, true);
}

/* Or it was awake, and has sent one of that length, and no other such one came. */
static bool reads_raw(const struct net_task *t)
{
	return t->call && !t->sends && t->fd + 1 == t->raw;
}

/* The packet is passed to the stack. A raw socket that waits for its like may be given a copy. */
static void net_raw_gets(struct lat *l, const struct net_skb *k, const struct lat_in *in)
{
	struct net_side *s = &l->net->side[net_side_of(in)];

	for (uint32_t i = 0; i < MIN(s->nraw, NET_RAW); i++) {
		struct net_task *t = net_task_of(l, net_side_of(in), s->raw[i]);

		if (!t || !t->raw || t->expect != k->len || t->came > 1)
			continue;
		t->came++;
		if (t->by.queue && t->by_woken)
			continue;
		if (t->came == 1)
			task_has(l, t, &k->ref, k->len, false);
		else
			task_lets_go(l, t);
	}
}

/* The packet is longer than what sendto() was given by the headers that raw sockets of IPv4 add. */
static void raw_sends(struct lat *l, struct net_task *t, const struct lat_in *in)
{
	struct net_side *s = &l->net->side[net_side_of(in)];
	uint32_t i = 0;

	if (!t->len || in->f[1] != (uint64_t)t->len + IP_HEADER + ETH_HEADER)
		return;
	if (t->raw != t->fd + 1 || t->expect != t->len + IP_HEADER)
		t->came = 2; /* not known, until it waits */
	t->raw = t->fd + 1;
	t->expect = t->len + IP_HEADER;
	while (i < MIN(s->nraw, NET_RAW) && s->raw[i] != in->i->tid)
		i++;
	if (i == MIN(s->nraw, NET_RAW))
		s->raw[s->nraw++ % NET_RAW] = in->i->tid;
}

/* A packet that is not known was copied to a program: it may be the copy of one that is. */
static void net_task_switch(struct lat *l, const struct lat_in *in)
{
	struct net_task *prev = net_task_of(l, net_side_of(in), (int32_t)in->f[0]), *next;

	if (prev && prev->by.queue && event_task_sleeps(in->f[1]))
		task_lets_go(l, prev);
	if (prev && in->f[1] == EVENT_TASK_INTERRUPTIBLE && reads_raw(prev))
		prev->came = 0; /* it waits for the first */
	next = net_task_of(l, net_side_of(in), (int32_t)in->f[2]);
	if (next)
		next->ran = in->t;
	net_busy_over(l, in);
}

/* ---- system calls ---- */

/* A system call to send or to receive begins, or ends. */
static void net_called(struct lat *l, const struct lat_in *in)
{
	struct net_task *t = net_task_of(l, net_side_of(in), in->i->tid);

	if (!t)
		return;
	reading_over(l, t, in->kind == EV_CALL_END ? in->t : 0);
	t->call = in->kind == EV_CALL_END ? 0 : in->t;
	t->sends = in->kind == EV_CALL_SEND;
	t->sent = false;
	t->fd = (uint32_t)in->f[0];
	t->len = t->sends ? (uint32_t)in->f[1] : 0;
}

/* When the call that sends the packet began, if this is its first; a bridge had it before, too. */
static uint64_t net_call_of(struct lat *l, const struct net_skb *was, const struct lat_in *in)
{
	struct net_task *t =
		lat_in_interrupt(in) ? NULL : net_task_of(l, net_side_of(in), in->i->tid);

	if (!t || !t->call || !t->sends ||
	    (t->sent && (was->state != SKB_SENT || was->call != t->call)))
		return 0;
	if (!t->sent)
		raw_sends(l, t, in);
	t->sent = true;
	return t->call;
}

#define SKBS_MAX       (1u << 20) /* addresses of one kernel */
#define SOFTIRQ_NET_RX 3
#define NETDEV_TX_BUSY 0x10
#define ETH_HEADER     14
#define VLAN_TAG       4
#define RING_BUFFER    1500
#define DOUBT_MS       1000u
#define KHZ_MAX	       5000000u

void lat_net_new(struct lat *l)
{
	l->net = xcalloc(1, sizeof(*l->net));
	hash_key_init(&l->net->key);
	l->net->doubt = DOUBT_MS * (l->khz ?: KHZ_MAX);
	l->net->side = xcalloc(l->map->nvm + 1, sizeof(*l->net->side));
}

void lat_net_free(struct lat *l)
{
	struct lat_net *m = l->net;

	if (!m)
		return;
	for (size_t i = 0; m->side && i <= l->map->nvm; i++) {
		u64map_free(&m->side[i].at);
		u64map_free(&m->side[i].task_at);
		free(m->side[i].skb);
		free(m->side[i].task);
	}
	net_links_free(m);
	u64map_free(&m->dev_at);
	u64map_free(&m->vcpu_at);
	free(m->side);
	u64map_free(&m->flow_at);
	free(m->flow);
	free(m->dev);
	free(m->vcpu);
	free(m);
}

/* ---- what there is ---- */

/* The packet at that address, all zero if nothing is known of it; NULL: there are too many. */
static struct net_skb *skb_at(struct lat *l, size_t side, uint64_t address)
{
	struct net_side *s = &l->net->side[side];
	struct net_skb *k;

	if (s->at.n >= SKBS_MAX && !u64map_get(&s->at, address, NULL))
		return NULL;
	k = xu64map_elem(&s->at, address, &s->skb, &s->cap, sizeof(*k));
	if (k->gen != s->gen)
		*k = (struct net_skb){ .gen = s->gen };
	return k;
}

/* The same, but NULL if nothing is known of it. */
static struct net_skb *skb_known(struct lat *l, const struct lat_in *in)
{
	struct net_side *s = &l->net->side[net_side_of(in)];
	uint64_t at;

	if (!u64map_get(&s->at, in->f[0], &at) || s->skb[at].gen != s->gen ||
	    s->skb[at].state == SKB_NONE)
		return NULL;
	return &s->skb[at];
}

/* Its memory is reused, for another packet or for something unknown. */
static void skb_over(struct lat *l, struct net_skb *k)
{
	if (k->state != SKB_SENT)
		net_ended(l, k, NULL, NET_IN_STACK);
	*k = (struct net_skb){ .gen = k->gen };
}

/* The device that the event names. */
static uint32_t dev_of(struct lat *l, const struct lat_in *in)
{
	struct lat_net *m = l->net;
	struct {
		uint64_t side;
		char name[16];
	} id = { .side = net_side_of(in) };
	uint32_t *last = &m->side[id.side].dev;
	struct net_dev *d;
	uint64_t key;

	lat_decode_text(l->dec[in->i->src->index], in, id.name, sizeof(id.name));
	if (*last < m->dev_at.n && m->dev[*last].side == id.side &&
	    !strcmp(m->dev[*last].name, id.name))
		return *last;
	memset(id.name + strlen(id.name), 0, sizeof(id.name) - strlen(id.name));
	key = hash_bytes(&m->key, &id, sizeof(id));
	d = xu64map_elem(&m->dev_at, key, &m->dev, &m->dev_cap, sizeof(*d));
	if (!d->name[0]) {
		memcpy(d->name, id.name, sizeof(d->name));
		d->side = id.side;
	}
	return *last = (uint32_t)(d - m->dev);
}

static struct net_vcpu *net_vcpu_of(struct lat *l, const struct lat_vcpu *v)
{
	struct lat_net *m = l->net;
	uint32_t gen = m->side[0].gen + m->side[v->vm + 1].gen;
	struct net_vcpu *c = xu64map_elem(&m->vcpu_at, (uint64_t)v->vm << 32 | v->id, &m->vcpu,
					  &m->vcpu_cap, sizeof(*c));

	if (c->gen != gen)
		*c = (struct net_vcpu){ .gen = gen };
	return c;
}

/* The VM that the thread of an event works for, if it is the thread that made it; -1: none. */
static int64_t vm_at_work(const struct lat *l, const struct lat_in *in)
{
	if (lat_in_interrupt(in))
		return -1;
	return in->i->vm >= 0 ? in->i->vm : hostmap_task_vm(l->map, in->i->tid);
}

/* Whether both sides are recorded: what one of them cannot have seen is not waited for. */
static bool both_recorded(const struct lat *l, size_t vm, uint64_t t)
{
	const struct lat_guest *g = &l->guest[vm];

	return l->begun && g->src && g->begun && t <= l->stop && t <= g->stop;
}

/* ---- sent ---- */

/* On the CPU that received it, in the same context, before a device is polled again. */
static bool at_once(const struct lat *l, const struct net_skb *k, const struct lat_in *in)
{
	return k->cpu == in->i->cpu && k->context == net_context(in) &&
	       (in->i->src->guest || k->epoch == l->net->epoch[in->i->cpu % NET_CPUS]);
}

/* Whether it is what a device of this kernel received a moment ago, and passed on at once. */
static bool passed_on(const struct lat *l, const struct net_skb *k, const struct lat_in *in,
		      uint32_t dev)
{
	return k->state == SKB_IN && k->dev != dev && at_once(l, k, in) &&
	       k->len + ETH_HEADER == in->f[1];
}

static void skb_queued(struct lat *l, const struct lat_in *in)
{
	struct net_skb *k = skb_at(l, net_side_of(in), in->f[0]);
	uint32_t dev = dev_of(l, in);
	struct net_skb was;

	if (!k)
		return;
	was = *k;
	was.call = net_call_of(l, k, in);
	if (!passed_on(l, &was, in, dev)) {
		skb_over(l, k);
		was = (struct net_skb){ .call = was.call };
	}
	*k = (struct net_skb){ .gen = l->net->side[net_side_of(in)].gen,
			       .state = SKB_QUEUED, .dev = dev, .queued = in->t,
			       .first = was.first, .call = was.call,
			       .ref = was.ref };
}

static struct net_half sent_half(const struct net_skb *k, const struct lat_in *in)
{
	struct net_half h = { .len = k->len, .vcpu = (uint32_t)in->i->vcpu, .ident = k->ident };

	h.t[NP_CALL] = k->call;
	h.t[NP_FIRST] = k->first;
	h.t[NP_QUEUE] = k->queued;
	h.t[NP_START] = k->start;
	return h;
}

/* A device of the guest sends: it is before us what happens to it on the host. */
static void guest_sends(struct lat *l, struct lat_vcpu *v, struct net_skb *k,
			const struct lat_in *in)
{
	struct net_vcpu *c = net_vcpu_of(l, v);
	struct net_half h = sent_half(k, in);
	struct net_queue *q;

	h.t[NP_FIRST] = 0;
	c->sends.queue = 0;
	k->ref.queue = 0;
	if (!both_recorded(l, v->vm, in->t))
		return;
	q = net_queue_get(l, v->vm, k->dev, k->queue, true, true);
	if (q)
		net_add(l, q, &h, &k->ref);
	c->sends = k->ref;
}

static void xmit_started(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct net_skb *k = skb_at(l, net_side_of(in), in->f[0]);
	uint32_t dev = dev_of(l, in);

	if (!k)
		return;
	if ((k->state == SKB_QUEUED && k->dev == dev) || passed_on(l, k, in, dev)) {
		net_ended(l, k, in, NET_FORWARDED);
	} else {
		skb_over(l, k);
		k->gen = l->net->side[net_side_of(in)].gen;
	}
	k->state = SKB_SENT;
	k->dev = dev;
	k->start = in->t;
	k->len = (uint32_t)in->f[1];
	k->queue = (uint32_t)in->f[2];
	k->ref.queue = 0;
	k->ident = (struct net_ident){ 0 };
	if (v)
		guest_sends(l, v, k, in);
	net_id_seen(l, k, in);
}

/* A vCPU writes to a device while its guest sends: for all that it sent since the last time. */
void lat_net_doorbell(struct lat *l, struct lat_vcpu *v)
{
	struct net_vcpu *c = net_vcpu_of(l, v);
	struct net_queue *q;

	if (!net_half_of(l, &c->sends))
		return;
	q = &l->net->queue[c->sends.queue - 1];
	for (uint64_t n = MAX(q->rung, q->q.first); n < q->q.next; n++)
		net_fifo_at(&q->q, n)->t[NP_BELL] = v->exit;
	q->rung = q->q.next;
}

/* ---- received ---- */

/* A thread of the VMM, or vhost's, hands over to the host what its guest sent. */
static void tap_got(struct lat *l, struct net_skb *k, const struct lat_in *in, size_t vm)
{
	struct net_half h = { .len = (uint32_t)in->f[1], .tid = in->i->tid };
	uint32_t number = in->kind == EV_NET_ENTRY && in->f[2] ? (uint32_t)in->f[2] - 1 : 0;
	struct net_queue *q;

	net_dev_ends(l, k->dev);
	if (!both_recorded(l, vm, in->t))
		return;
	q = net_queue_get(l, vm, k->dev, number, true, false);
	if (!q)
		return;
	h.t[NP_RAN] = lat_worker_since(l, in->i->tid);
	h.t[NP_TAKEN] = in->t;
	q->vhost = !strncmp(tl_comm(in->i->src, in->i->tid), "vhost-", 6);
	net_add(l, q, &h, &k->ref);
}

static void guest_got(struct lat *l, struct lat_vcpu *v, struct net_skb *k, const struct lat_in *in)
{
	struct net_half h = { .len = (uint32_t)in->f[1], .vcpu = v->id };
	struct net_vcpu *c = net_vcpu_of(l, v);
	uint32_t number = in->kind != EV_NET_RECEIVE && in->f[2] ? (uint32_t)in->f[2] - 1 : 0;
	struct net_queue *q;

	c->polled++;
	if (!both_recorded(l, v->vm, in->t))
		return;
	q = net_queue_get(l, v->vm, k->dev, number, false, false);
	if (!q)
		return;
	h.t[NP_SOURCE] = c->source;
	h.t[NP_HANDLER] = c->handler;
	h.t[NP_NAPI] = in->t;
	if (in->kind == EV_NET_RECEIVE)
		h.t[NP_STACK] = in->t;
	c->queue = (uint32_t)(q - l->net->queue) + 1;
	net_add(l, q, &h, &k->ref);
}

static void net_received(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct net_skb *k = skb_at(l, net_side_of(in), in->f[0]);
	uint32_t dev = dev_of(l, in);
	struct net_half *h;
	int64_t vm = -1;

	if (!k)
		return;
	l->net->dev[dev].early |= in->kind != EV_NET_RECEIVE;
	if (k->state == SKB_IN && k->dev == dev && in->kind == EV_NET_RECEIVE && !k->stacked) {
		k->stacked = true;
		k->len = (uint32_t)in->f[1]; /* others may have been merged into it */
		h = v ? net_half_of(l, &k->ref) : NULL;
		if (h && !k->up)
			h->t[NP_STACK] = in->t;
		net_busy_with(l, k, in);
		if (!(k->up))
			net_raw_gets(l, k, in);
		return;
	}
	/* A bridge or VLAN device has it from a device below, which received it a moment ago. */
	if (k->state == SKB_IN && k->stacked && k->dev != dev && in->kind != EV_GRO &&
	    at_once(l, k, in) && (k->len == in->f[1] || k->len == in->f[1] + VLAN_TAG)) {
		k->up = true;
		k->stacked = in->kind == EV_NET_RECEIVE;
		k->dev = dev;
		net_busy_with(l, k, in);
		return;
	}
	/* Who passes it on is a device of this kernel's own. */
	if (!v && k->state != SKB_SENT && k->state != SKB_QUEUED)
		vm = vm_at_work(l, in);
	skb_over(l, k);
	*k = (struct net_skb){ .gen = l->net->side[net_side_of(in)].gen,
			       .state = SKB_IN, .dev = dev,
			       .stacked = in->kind == EV_NET_RECEIVE, .first = in->t,
			       .len = (uint32_t)in->f[1], .cpu = in->i->cpu,
			       .context = net_context(in),
			       .epoch = l->net->epoch[in->i->cpu % NET_CPUS] };
	if (in->kind == EV_NET_RECEIVE && l->net->dev[dev].early)
		return;
	if (v)
		guest_got(l, v, k, in);
	else if (vm >= 0)
		tap_got(l, k, in, (size_t)vm);
	net_id_seen(l, k, in);
	/* What is not merged is passed to the stack at once. */
	if (in->kind != EV_GRO)
		net_busy_with(l, k, in);
	if (in->kind == EV_NET_RECEIVE)
		net_raw_gets(l, k, in);
}

/* One more is in the ring, in so many buffers as it may take. False: it may be full. */
static bool queue_loads(struct net_queue *q, uint32_t len)
{
	q->load = MIN(q->load + 1 + len / RING_BUFFER, NET_LOAD);
	return q->load < NET_LOAD;
}

/* The guest polled a queue; with less than it might have taken, until it was empty. */
static void napi_polled(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct net_vcpu *c = net_vcpu_of(l, v);
	uint32_t dev = dev_of(l, in);
	const struct net_queue *to;
	uint64_t begin;

	net_busy_over(l, in);
	to = c->queue && c->polled && c->polled == in->f[1] && in->f[1] < in->f[2]
		     ? &l->net->queue[c->queue - 1]
		     : NULL;
	begin = c->begin;
	c->begin = in->t;
	c->polled = c->queue = 0;
	net_dev_ends(l, dev);
	for (uint32_t i = 0; to && i < to->nlink; i++) {
		struct net_queue *from = &l->net->queue[l->net->link[to->link[i]].sender];
		uint64_t n = 0;

		/* How many were in the ring when the poll began. */
		for (uint64_t p = from->npublished; p && from->npublished - p < NET_PUBLISHED; p--)
			if (from->published[(p - 1) % NET_PUBLISHED].t <= begin) {
				n = from->published[(p - 1) % NET_PUBLISHED].n;
				break;
			}
		from->load = 0;
		for (uint64_t k = MAX(n, from->q.first); k < from->q.next; k++)
			if (!queue_loads(from, net_fifo_at(&from->q, k)->len))
				break;
		net_arrived(l, from, n);
	}
}

/* ---- freed ---- */

/* The thread takes from that tap, from now on; what others take need not be looked at. */
static void task_takes(struct lat *l, struct net_task *task, int32_t tid, struct net_queue *q)
{
	struct net_task *was = q->taker != tid ? net_task_of(l, 0, q->taker) : NULL;
	uint32_t self = (uint32_t)(q - l->net->queue) + 1;

	if (q->taker == tid)
		return;
	for (uint32_t *at = was ? &was->takes : NULL; at && *at;
	     at = &l->net->queue[*at - 1].also) {
		if (*at != self)
			continue;
		*at = q->also;
		break;
	}
	q->taker = tid;
	q->also = task->takes;
	task->takes = self;
}

static void skb_freed(struct lat *l, const struct lat_in *in)
{
	bool guest = in->i->src->guest, sent, drop = in->kind == EV_SKB_DROP;
	struct net_skb *k = skb_known(l, in);

	if (!k)
		return;
	sent = k->state == SKB_SENT;
	if (k->state == SKB_IN) {
		struct net_busy *b = net_busy_at(l, in);

		/* What was received is done: by its reader, or the kernel that was busy with it. */
		if (b->ref.queue == k->ref.queue && b->ref.n == k->ref.n)
			b->ref.queue = 0;
		if (in->kind == EV_SKB_FREE && net_is_reader(k, in))
			net_ended(l, k, in, NET_READ);
		else
			net_ended(l, k, k->context == net_context(in) ? in : NULL, NET_IN_STACK);
	} else if (drop) {
		net_dropped(l, k->dev, guest);
		if (sent && guest)
			net_unsent(l, &k->ref);
	} else if (sent && guest && net_half_of(l, &k->ref)) {
		net_arrived(l, &l->net->queue[k->ref.queue - 1], k->ref.n + 1);
	}
	k->state = SKB_NONE;
}

/* Its bytes were copied to a program. */
static void skb_copied(struct lat *l, const struct lat_in *in)
{
	struct net_skb *k = skb_known(l, in);
	int64_t vm;
	struct net_half taken;
	struct net_task *task;
	struct net_ref ref;
	struct net_queue *q;

	if (!k) {
		struct net_task *t =
			lat_in_interrupt(in) ? NULL : net_task_of(l, net_side_of(in), in->i->tid);
		struct net_half *h = t && t->by_len == in->f[1] ? net_half_of(l, &t->by) : NULL;

		if (!h || h->ended || !h->woke || h->reading || (!t->by_woken && !reads_raw(t)))
			return;
		if (t->came == 1 && in->f[1] == t->expect)
			t->came = 0;
		read_by(l, h, &t->by, in);
		return;
	}
	if (k->state == SKB_IN && net_is_reader(k, in)) {
		net_ended(l, k, in, NET_READ);
		return;
	}
	vm = k->state == SKB_SENT && !in->i->src->guest ? vm_at_work(l, in) : -1;
	if (vm < 0)
		return;
	k->state = SKB_NONE;
	/* A thread of the VMM, or vhost's, took it from the tap: it is the guest's from here on. */
	taken = sent_half(k, in);
	task = net_task_of(l, 0, in->i->tid);
	if (!task)
		return;
	net_dev_ends(l, k->dev);
	if (!both_recorded(l, (size_t)vm, in->t))
		return;
	q = net_queue_get(l, (size_t)vm, k->dev, k->queue, false, true);
	if (!q)
		return;
	taken.t[NP_RAN] = lat_worker_since(l, in->i->tid);
	taken.t[NP_TAKEN] = in->t;
	task_takes(l, task, in->i->tid, q);
	(void)queue_loads(q, k->len);
	q->vhost = !strncmp(tl_comm(in->i->src, in->i->tid), "vhost-", 6);
	net_add(l, q, &taken, &ref);
	if (taken.ident.id)
		net_identified(l, &ref);
}

/* ---- the walk ---- */

/* What the thread took from taps is in its guests' rings. */
static void ring_published(struct lat *l, int32_t tid, uint64_t t)
{
	const struct net_task *task = net_task_of(l, 0, tid);

	for (uint32_t at = task ? task->takes : 0; at; at = l->net->queue[at - 1].also) {
		struct net_queue *q = &l->net->queue[at - 1];
		uint64_t last =
			q->npublished ? q->published[(q->npublished - 1) % NET_PUBLISHED].n : 0;
		/* QEMU, unlike vhost, keeps one that it took if the ring is full. */
		uint64_t n = q->q.next - (!q->vhost && q->load >= NET_LOAD);

		if (q->npublished && last == n)
			continue;
		q->published[q->npublished % NET_PUBLISHED].t = t;
		q->published[q->npublished++ % NET_PUBLISHED].n = n;
	}
}

static void net_common(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	switch (in->kind) {
	case EV_NET_QUEUE: skb_queued(l, in); break;
	case EV_NET_START: xmit_started(l, v, in); break;
	case EV_NET_ENTRY:
	case EV_NET_RECEIVE:
	case EV_GRO: net_received(l, v, in); break;
	case EV_SKB_FREE:
	case EV_SKB_DROP: skb_freed(l, in); break;
	case EV_SKB_COPY: skb_copied(l, in); break;
	case EV_NET_HEAD: net_id_event(l, skb_known(l, in), in); break;
	case EV_CALL_SEND:
	case EV_CALL_RECEIVE:
	case EV_CALL_END: net_called(l, in); break;
	case EV_WAKING:
	case EV_WAKEUP: net_task_woken(l, in); break;
	default: break;
	}
}

void lat_net_host(struct lat *l, const struct lat_in *in)
{
	if (in->i->src->index) /* of another host, whose addresses are others */
		return;
	switch (in->kind) {
	case EV_NAPI_POLL:
		l->net->epoch[in->i->cpu % NET_CPUS]++;
		net_busy_over(l, in);
		return;
	case EV_MSI:
	case EV_SET_IRQ: ring_published(l, in->i->tid, in->t); return;
	case EV_SWITCH:
		if (event_task_sleeps(in->f[1]))
			ring_published(l, (int32_t)in->f[0], in->t);
		net_task_switch(l, in);
		return;
	default: net_common(l, NULL, in); return;
	}
}

void lat_net_guest(struct lat *l, struct lat_vcpu *v, const struct lat_in *in)
{
	struct net_vcpu *c;

	if (in->i->unplaced)
		return;
	switch (in->kind) {
	case EV_SOFTIRQ_ENTRY:
	case EV_SOFTIRQ_RAISE:
		if (in->f[0] != SOFTIRQ_NET_RX)
			return;
		c = net_vcpu_of(l, v);
		if (in->kind == EV_SOFTIRQ_ENTRY) {
			c->begin = in->t;
			c->polled = c->queue = 0;
		} else if (v->running.open) { /* by the handler of an interrupt */
			c->source = v->running.t_source;
			c->handler = v->running.t_handler;
		}
		return;
	case EV_NAPI_POLL: napi_polled(l, v, in); return;
	case EV_NET_XMIT: {
		struct net_skb *k = skb_known(l, in);

		/* The device was busy: the same packet comes again. */
		c = net_vcpu_of(l, v);
		c->sends.queue = 0;
		if (in->f[1] != NETDEV_TX_BUSY || !k || k->state != SKB_SENT)
			return;
		k->state = SKB_QUEUED;
		net_unsent(l, &k->ref);
		return;
	}
	case EV_SWITCH: net_task_switch(l, in); return;
	default: net_common(l, v, in); return;
	}
}

void lat_net_forget(struct lat *l, int64_t vm)
{
	struct net_side *side;

	if (!l->net)
		return;
	side = &l->net->side[vm < 0 ? 0 : vm + 1];
	side->gen++;
	memset(side->busy, 0, sizeof(side->busy));
	memset(side->told, 0, sizeof(side->told));
	for (size_t i = 0; vm < 0 && i < l->net->queue_at.n; i++)
		l->net->queue[i].taker = 0;
	net_cut(l, vm);
}

void lat_net_finish(struct lat *l)
{
	if (l->net)
		net_finish(l);
	for (unsigned int out = 0; l->net && out < 2; out++) {
		uint64_t *count = l->table[out ? LAT_T_NET_TX : LAT_T_NET_RX].count;

		count[NET_SENT] = l->net->sent[out];
		count[NET_MEASURED] = l->net->measured[out];
		count[NET_CUT] = l->net->cut[out];
		count[NET_OPEN] = l->net->open[out];
		count[NET_DROPPED] = l->net->dropped[out];
		count[NET_UNPAIRED] =
			count[NET_SENT] - count[NET_MEASURED] - count[NET_CUT] - count[NET_OPEN];
	}
}

/* ---- the tables: packets to and from the guest, by the devices at both ends ---- */

/* Stages of packets to the guest, and from it: after the total, in the order of the way. */
enum {
	RX_TOTAL, RX_SEND, RX_FORWARD, RX_QDISC, RX_WAKE, RX_TAKE, RX_NOTIFY, RX_DELIVER,
	RX_NAPI, RX_STACK, RX_RUN, RX_ASK, RX_READ,
	RX_RETURN
};
enum {
	TX_TOTAL, TX_SEND, TX_QDISC, TX_DOORBELL, TX_WAKE, TX_TAKE, TX_STACK, TX_RUN,
	TX_ASK, TX_READ, TX_RETURN,
	TX_FORWARD
};

const struct lat_desc lat_desc_net_rx = {
	.name = "net-rx",
	.kind = LAT_NET,
	.title = "packets to the guest, and where their time went",
	.key = "From, to",
	.stage = { "total", "send", "forward", "qdisc", "wake", "take", "notify", "deliver",
		   "napi", "stack", "run", "ask", "read", "return" },
	.stage_help = {
		"from where the host first had it until a task of the guest, or its kernel, was done with it",
		"in the system call of the host's task that sent it, up to the queue of the tap",
		"from the host's NIC, or another device, to the tap",
		"in the tap's queueing discipline",
		"in the tap, until the thread of vhost or the VMM that takes it had a CPU",
		"until that thread took it",
		"until the interrupt's source",
		"until the interrupt's handler in the guest",
		"until the guest's NAPI had it",
		"in the guest's network stack, up to the wake-up of the task that reads",
		"until that task had a CPU",
		"until its system call to receive, if it came for it later",
		"until it read the packet",
		"until it was back from that call",
	},
	.parts = (1u << (RX_RETURN + 1)) - 2,
	.crosses = 1u << RX_TOTAL | 1u << RX_DELIVER | 1u << RX_NAPI,
	.cause_is_stage = true,
	.cause = (const char *const[LAT_CAUSES]){ "", "host_call: in the host's system call",
		   "host_before_tap: on the host before the tap", "tap_queue: in the tap's queue",
		   "vmm_no_cpu: the VMM's thread had no CPU",
		   "vmm_take: the VMM was late to take it",
		   "vmm_notify: the VMM was late to notify", "interrupt: interrupt delivery",
		   "guest_poll: the guest was late to poll", "guest_stack: in the guest's stack",
		   "task_no_cpu: the guest's task had no CPU",
		   "task_ask: the guest's task was late to ask for it",
		   "task_read: the guest's task was late to read",
		   "task_return: the guest's task was late to return" },
	.count = { "sent", "measured", "not_paired: not paired, as order and number prove nothing",
		   "cut: cut by lost events", "open: open at the end", "dropped" },
};

const struct lat_desc lat_desc_net_tx = {
	.name = "net-tx",
	.kind = LAT_NET,
	.title = "packets from the guest, and where their time went",
	.key = "From, to",
	.stage = { "total", "send", "qdisc", "doorbell", "wake", "take", "stack", "run", "ask",
		   "read", "return", "forward" },
	.stage_help = {
		"from where the guest sent it until a task of the host read it or a device sent it",
		"in the system call of the guest's task that sent it, up to the queue of its device",
		"in the queueing discipline of the guest's device",
		"until the exit of the doorbell's write",
		"until the thread of vhost or the VMM that takes it had a CPU",
		"until that thread handed it to the host",
		"in the host's network stack, up to the wake-up of the task that reads",
		"until that task had a CPU",
		"until its system call to receive, if it came for it later",
		"until it read the packet",
		"until it was back from that call",
		"... or until another device of the host sent it",
	},
	.parts = (1u << (TX_FORWARD + 1)) - 2,
	.crosses = 1u << TX_TOTAL | 1u << TX_DOORBELL | 1u << TX_TAKE,
	.cause_is_stage = true,
	.cause = (const char *const[LAT_CAUSES]){ "", "guest_call: in the guest's system call",
		   "device_queue: in the queue of the guest's device",
		   "guest_before: in the guest before the doorbell",
		   "vmm_no_cpu: the VMM's thread had no CPU",
		   "vmm_take: the VMM was late to take it", "host_stack: in the host's stack",
		   "task_no_cpu: the host's task had no CPU",
		   "task_ask: the host's task was late to ask for it",
		   "task_read: the host's task was late to read",
		   "task_return: the host's task was late to return",
		   "host_after_tap: on the host behind the tap" },
	.count = { "sent", "measured", "not_paired: not paired, as order and number prove nothing",
		   "cut: cut by lost events", "open: open at the end", "dropped" },
};

/* The stage that ends at a point; that of NP_END depends on how it ended. */
static const uint8_t stage_rx[NP_POINTS] = {
	[NP_QUEUE] = RX_FORWARD, [NP_START] = RX_QDISC,	  [NP_RAN] = RX_WAKE,
	[NP_TAKEN] = RX_TAKE,	 [NP_SOURCE] = RX_NOTIFY, [NP_HANDLER] = RX_DELIVER,
	[NP_NAPI] = RX_NAPI,	 [NP_STACK] = RX_STACK,	  [NP_WOKEN] = RX_STACK,
	[NP_RUN] = RX_RUN,	 [NP_ASK] = RX_ASK,	  [NP_END] = RX_READ,
	[NP_BACK] = RX_RETURN,
};
static const uint8_t stage_tx[NP_POINTS] = {
	[NP_START] = TX_QDISC, [NP_BELL] = TX_DOORBELL, [NP_RAN] = TX_WAKE,
	[NP_TAKEN] = TX_TAKE,  [NP_WOKEN] = TX_STACK,	[NP_RUN] = TX_RUN,
	[NP_ASK] = TX_ASK,     [NP_END] = TX_READ,	[NP_BACK] = TX_RETURN,
};

static uint8_t stage_of(bool out, unsigned int point, enum net_end end)
{
	if (point != NP_END || end == NET_READ)
		return out ? stage_tx[point] : stage_rx[point];
	if (!out)
		return RX_STACK;
	return end == NET_FORWARDED ? TX_FORWARD : TX_STACK;
}

/*
 * From point to point. What happened before the point behind it, or after one ahead that every
 * packet passes, was not for this packet: a thread that ran already, a poll that went on.
 */
static void net_stages(struct lat *l, bool out, const struct net_half *s, const struct net_half *g,
		       struct lat_case *k)
{
	uint64_t t[NP_POINTS], last = 0, must = 0;
	uint64_t time[LAT_STAGES] = { 0 };

	for (unsigned int p = 0; p < NP_POINTS; p++)
		t[p] = s->t[p] ? s->t[p] : g->t[p];
	for (unsigned int p = NP_POINTS; p--;) {
		bool always = p == NP_START || p == NP_TAKEN || p == NP_NAPI;

		if (t[p] && always)
			must = t[p];
		else if (must && t[p] > must)
			t[p] = 0;
	}
	for (unsigned int p = 0; p < NP_POINTS; p++) {
		uint8_t stage = p == NP_QUEUE && s->t[NP_CALL] ? (out ? TX_SEND : RX_SEND)
							       : stage_of(out, p, g->end);

		if (!t[p] || t[p] < last)
			continue;
		if (!last)
			k->begin = t[p];
		else
			time[stage] += t[p] - last;
		k->known |= last ? 1u << stage : 0;
		last = t[p];
	}
	k->end = last;
	for (unsigned int i = 1; i < LAT_STAGES; i++)
		k->stage_time[i] = lat_span(l, time[i]);
	k->time = lat_span(l, k->end - k->begin);
	for (unsigned int i = 1; i < LAT_STAGES; i++)
		if (k->stage_time[i] > k->time / 2)
			k->cause = i;
}

static void name_queue(char *buf, size_t size, const struct lat_net *m, const struct net_queue *q)
{
	if (q->number)
		snprintf(buf, size, "%.15s.%u", m->dev[q->dev].name, q->number);
	else
		snprintf(buf, size, "%s", m->dev[q->dev].name);
}

void net_measured(struct lat *l, const struct net_queue *from, const struct net_queue *to,
		  const struct net_half *s, const struct net_half *g)
{
	enum lat_table_id id = from->out ? LAT_T_NET_TX : LAT_T_NET_RX;
	struct lat_case k = {
		.vm = (int64_t)from->vm, .vcpu = from->out ? s->vcpu : g->vcpu,
	};
	struct lat_group *group;
	char a[32], b[32], way[LAT_NAME];

	if (!lat_wanted(l, k.vm, k.vcpu))
		return;
	group = lat_group_get(
		l, id, k.vm,
		(uint64_t)(from - l->net->queue) << 16 | (uint64_t)(to - l->net->queue), &k.group);
	if (!group->name[0] || group->others) {
		name_queue(a, sizeof(a), l->net, from);
		name_queue(b, sizeof(b), l->net, to);
		snprintf(group->name, sizeof(group->name), "%.22s > %.22s%s", a, b,
			 (from->out ? to : from)->vhost ? ", vhost" : "");
	}
	net_stages(l, from->out, s, g, &k);
	snprintf(way, sizeof(way), "%s", group->name);
	if (lat_case_told(l, id, k.time)) {
		const struct tl_source *src = from->out ? tl_source(l->t, 0) : l->guest[k.vm].src;
		size_t n = (size_t)snprintf(k.what, sizeof(k.what), "%.32s, %u bytes", way, s->len);
		char flow[LAT_WHAT / 2 + 16];

		if (g->end == NET_READ)
			n += (size_t)snprintf(k.what + n, sizeof(k.what) - n, ", by %.15s-%d",
					      tl_comm(src, g->tid), g->tid);
		net_flow_name(l->net, s->ident.flow, flow, sizeof(flow));
		if (*flow)
			snprintf(k.what + n, sizeof(k.what) - n, ", %s", flow);
	}
	lat_case_add(l, id, group, &k);
}
