/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * net_read.c: which thread reads a packet that a kernel received, and in which system call. It is
 * the one that frees it or copies it, in another context than the one that received it; or that was
 * woken while the kernel was busy with it.
 */
#include "net.h"

#define ETH_HEADER	   14
#define IP_HEADER	   20

struct net_task *net_task_of(struct lat *l, size_t side, int32_t tid)
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

static void skb_over(struct lat *l, struct net_half *h, const struct net_ref *ref)
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
	skb_over(l, h, &ref);
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
		skb_over(l, h, ref);
		return;
	}
	h->t[NP_ASK] = t->call > MAX(came, h->t[NP_RUN]) ? t->call : 0;
	reading_over(l, t, 0);
	t->reads = *ref;
	h->reading = true;
}

void net_ended(struct lat *l, struct net_skb *k, const struct lat_in *in, enum net_end end)
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
		skb_over(l, h, &k->ref);
}

bool net_is_reader(const struct net_skb *k, const struct lat_in *in)
{
	return k->ref.queue && net_context(in) > 0 && net_context(in) != k->context;
}

/* ---- tasks ---- */

struct net_busy *net_busy_at(struct lat *l, const struct lat_in *in)
{
	return &l->net->side[net_side_of(in)].busy[in->i->cpu % NET_CPUS];
}

void net_busy_over(struct lat *l, const struct lat_in *in)
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
		skb_over(l, h, &ref);
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
void net_busy_with(struct lat *l, const struct net_skb *k, const struct lat_in *in)
{
	struct net_busy *b = net_busy_at(l, in);
	bool same = b->cpu == in->i->cpu && b->context == k->context;
	bool other = b->ref.queue && (b->ref.queue != k->ref.queue || b->ref.n != k->ref.n);

	*b = (struct net_busy){ .ref = k->ref,
				.cpu = in->i->cpu,
				.len = k->len,
				.context = k->context,
				.several = same && (b->several || other) };
}

/*
 * Sockets that are given a copy of a packet (raw ones: ping's) have it at another address: its
 * reader is the task that was woken meanwhile, and reads one of that length next.
 */
void net_task_woken(struct lat *l, const struct lat_in *in)
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

void net_reads_copy(struct lat *l, const struct lat_in *in)
{
	struct net_task *t =
		lat_in_interrupt(in) ? NULL : net_task_of(l, net_side_of(in), in->i->tid);
	struct net_half *h = t && t->by_len == in->f[1] ? net_half_of(l, &t->by) : NULL;

	if (!h || h->ended || !h->woke || h->reading)
		return;
	if (!t->by_woken && !reads_raw(t))
		return;
	if (t->came == 1 && in->f[1] == t->expect)
		t->came = 0;
	read_by(l, h, &t->by, in);
}

void net_raw_gets(struct lat *l, const struct net_skb *k, const struct lat_in *in)
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

void net_task_switch(struct lat *l, const struct lat_in *in)
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

void net_called(struct lat *l, const struct lat_in *in)
{
	struct net_task *t = net_task_of(l, net_side_of(in), in->i->tid);

	if (t)
		reading_over(l, t, in->kind == EV_CALL_END ? in->t : 0);
	if (!t)
		return;
	t->call = in->kind == EV_CALL_END ? 0 : in->t;
	t->sends = in->kind == EV_CALL_SEND;
	t->sent = false;
	t->fd = (uint32_t)in->f[0];
	t->len = t->sends ? (uint32_t)in->f[1] : 0;
}

uint64_t net_call_of(struct lat *l, const struct net_skb *was, const struct lat_in *in)
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
