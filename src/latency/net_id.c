/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * net_id.c: what tells one packet from another: the first words of its IP header, if they were
 * recorded (record -e net-id).
 *
 * They are the same on both sides. Where they differ, two are not the same packet. Where they
 * agree, they may still be two of the same flow: only the number that IPv4 gives each packet of a
 * flow (unless it is 0) tells those from each other, and only as long as no other one with the same
 * number is on its way.
 */
#include "net.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define ETH_HEADER 14
#define FLOWS_MAX  (1u << 20)
#define HEAD4	   24 /* bytes that are recorded: of IPv4, with the ports if it has no options */
#define HEAD6	   44

/* ---- flows ---- */

struct net_flow {
	uint8_t from[16], to[16];
	uint8_t version, protocol, ports; /* ports: there are some */
	uint8_t spare;
	uint16_t port[2];
};

static void name_end(char *buf, size_t size, const struct net_flow *f, bool to)
{
	bool six = f->version == 6;
	char address[INET6_ADDRSTRLEN];

	inet_ntop(six ? AF_INET6 : AF_INET, to ? f->to : f->from, address, sizeof(address));
	if (f->ports)
		snprintf(buf, size, six ? "[%s]:%u" : "%s:%u", address, f->port[to]);
	else
		snprintf(buf, size, "%s", address);
}

void net_flow_name(const struct lat_net *m, uint32_t flow, char *buf, size_t size)
{
	static const struct {
		uint8_t number;
		const char *name;
	} names[] = { { IPPROTO_TCP, "tcp" },	 { IPPROTO_UDP, "udp" },
		      { IPPROTO_ICMP, "icmp" },	 { IPPROTO_ICMPV6, "icmp6" },
		      { IPPROTO_SCTP, "sctp" },	 { IPPROTO_ESP, "esp" } };
	const struct net_flow *f = flow ? &m->flow[flow - 1] : NULL;
	char a[64], b[64], protocol[16];

	*buf = '\0';
	if (!f)
		return;
	snprintf(protocol, sizeof(protocol), "protocol %u", f->protocol);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].number == f->protocol)
			snprintf(protocol, sizeof(protocol), "%s", names[i].name);
	name_end(a, sizeof(a), f, false);
	name_end(b, sizeof(b), f, true);
	snprintf(buf, size, "%s %s > %s", protocol, a, b);
}

/* before: bytes of the packet before its IP header. All zero if it tells nothing. */
static struct net_ident ident_of(struct lat *l, const struct lat_in *in, uint32_t before)
{
	const struct fmt_field *head = &event_type_of(in->i->ev)->f[3];
	const uint8_t *b = in->i->rec->data + head->off;
	size_t n = MIN(head->size, HEAD6);
	struct net_ident ident = { 0 };
	bool v6 = n == HEAD6;
	struct lat_net *m = l->net;
	struct net_flow f = { 0 }, *to = NULL;
	uint64_t key;

	/* What is not in the packet's first piece of memory was not read. */
	if (n < HEAD4 || head->is_dynamic || head->off + n > in->i->rec->len ||
	    in->f[1] < in->f[2] || in->f[1] - in->f[2] < before + n || b[0] >> 4 != (v6 ? 6 : 4))
		return ident;
	f.version = b[0] >> 4;
	f.protocol = b[v6 ? 6 : 9];
	memcpy(f.from, b + (v6 ? 8 : 12), v6 ? 16 : 4);
	memcpy(f.to, b + (v6 ? 24 : 16), v6 ? 16 : 4);
	if (v6 || (b[0] == 0x45 && !(b[6] & 0x1f) && !b[7]))
		f.ports = f.protocol == IPPROTO_TCP || f.protocol == IPPROTO_UDP ||
			  f.protocol == IPPROTO_SCTP;
	for (unsigned int i = v6 ? 40 : 20, k = 0; k < 2 && f.ports; i += 2, k++)
		f.port[k] = (uint16_t)(b[i] << 8 | b[i + 1]);
	ident.strong = !v6 && (b[4] || b[5]);
	ident.id = hash_bytes(&m->key, b, n) | 1;
	/* Number + 1 of the flow; 0: too many. */
	key = hash_bytes(&m->key, &f, sizeof(f));
	if (m->flow_at.n < FLOWS_MAX || u64map_get(&m->flow_at, key, NULL))
		to = xu64map_elem(&m->flow_at, key, &m->flow, &m->flow_cap, sizeof(*to));
	if (to) {
		*to = f;
		ident.flow = (uint32_t)(to - m->flow) + 1;
	}
	return ident;
}

/* ---- from the probe's event to the packet ---- */

static struct net_told *told_at(struct lat *l, const struct lat_in *in)
{
	size_t side = in->i->src->guest ? (size_t)in->i->vm + 1 : 0;
	struct net_told *t = &l->net->side[side].told[in->i->cpu % NET_CPUS];

	if (t->cpu != in->i->cpu)
		*t = (struct net_told){ .cpu = in->i->cpu };
	return t;
}

static void skb_identified(struct lat *l, struct net_skb *k, const struct net_ident *ident)
{
	struct net_half *h = net_half_of(l, &k->ref);

	k->ident = *ident;
	if (!h || h->len != k->len)
		return;
	h->ident = *ident;
	net_identified(l, &k->ref);
}

/* The probe's event comes right behind that of the packet, or, if that one has a filter, before. */
void net_id_event(struct lat *l, struct net_skb *k, const struct lat_in *in)
{
	struct net_told *t = told_at(l, in);
	bool behind = t->seen && t->address == in->f[0] && k && k->len == in->f[1];
	bool sent = behind ? k->state == SKB_SENT : false;
	struct net_ident ident = ident_of(l, in, sent ? ETH_HEADER : 0);

	*t = (struct net_told){ .cpu = t->cpu };
	if (behind) {
		if (ident.id)
			skb_identified(l, k, &ident);
		return;
	}
	t->address = in->f[0];
	t->len = (uint32_t)in->f[1];
	t->ident = ident;
}

void net_id_seen(struct lat *l, struct net_skb *k, const struct lat_in *in)
{
	struct net_told *t = told_at(l, in);
	struct net_ident ident = { 0 };
	bool before = t->ident.id && t->address == in->f[0] && t->len == k->len;

	if (before)
		ident = t->ident;
	*t = (struct net_told){ .cpu = t->cpu, .address = in->f[0], .seen = !before };
	if (before)
		skb_identified(l, k, &ident);
}

/* ---- what was sent, by identity ---- */

#define BUCKETS 1024u

static uint64_t *flow_bucket_of(struct net_queue *q, uint64_t id)
{
	return &q->bucket[id >> 1 & (BUCKETS - 1)];
}

static struct net_half *in_bucket(const struct net_queue *q, uint64_t at)
{
	return at > MAX(q->q.first, q->past) && at <= q->q.next ? net_fifo_at(&q->q, at - 1) : NULL;
}

void net_index_add(struct net_queue *q, uint64_t n)
{
	struct net_half *h = net_fifo_at(&q->q, n), *o;
	uint64_t *b;

	q->bucket = q->bucket ?: xcalloc(BUCKETS, sizeof(*q->bucket));
	b = flow_bucket_of(q, h->ident.id);
	for (uint64_t at = *b; (o = in_bucket(q, at)); at = o->chain)
		if (o->ident.id == h->ident.id)
			o->twin = h->twin = true;
	h->chain = *b;
	*b = n + 1;
}

void net_index_drop(struct net_queue *q, uint64_t n)
{
	const struct net_half *h = net_fifo_at(&q->q, n);

	if (h->ident.id && q->bucket && *flow_bucket_of(q, h->ident.id) == n + 1)
		*flow_bucket_of(q, h->ident.id) = h->chain;
}

struct net_half *net_index_find(struct net_queue *q, uint64_t id, uint64_t *n)
{
	struct net_half *h;

	for (uint64_t at = q->bucket ? *flow_bucket_of(q, id) : 0; (h = in_bucket(q, at));
	     at = h->chain) {
		*n = at - 1;
		if (h->ident.id == id)
			return h;
	}
	return NULL;
}
