/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_latency_net.c: which received packet is which sent one. Queues of a
 * guest are made up at random, with packets that are lost, come from elsewhere, or are given to a
 * busy device again, in all mixtures; none may be taken for another one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define net_measured measured_here
#include "../../src/latency/net_link.c"

#define LINKS	 4 /* two queues, both ways */
#define CHANNEL	 4096
#define TAP	 0
#define ETH	 1
#define PACKETS	 600
#define MIXTURES 1000

/* One in so many; 0: none. */
struct mixture {
	uint32_t lose, foreign, again, cut;
	bool busy; /* something is always on its way */
	bool ids;
	unsigned int lengths; /* so many different ones */
};

struct packet {
	uint32_t number; /* 0: from elsewhere */
	uint32_t len;
	bool cut; /* its sending was forgotten while it was on its way */
	struct net_ident ident;
};

/* One way through one queue. */
struct way {
	struct net_queue *s, *g;
	struct packet channel[CHANNEL];
	unsigned int first, next;
	uint64_t over; /* of what was sent, up to here: received, or lost */
	uint64_t lost; /* ... not in the channel, behind what is */
};

struct model {
	struct lat l;
	struct lat_net m;
	struct way way[LINKS];
	uint64_t random, now, numbered;
	uint32_t sent, paired, wrong;
	bool both; /* kinds of trouble were shown */
	struct mixture mix;
};

/* splitmix64 */
static uint64_t draw(struct model *m, uint64_t below)
{
	uint64_t z = m->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % below;
}

static bool happens(struct model *m, uint32_t one_in)
{
	return one_in && !draw(m, one_in);
}

void measured_here(struct lat *l, const struct net_queue *from,
		  const struct net_queue *to, const struct net_half *s, const struct net_half *g)
{
	struct model *model = (struct model *)((char *)l - offsetof(struct model, l));

	assert_true(from->sent && !to->sent && from->out == to->out && from->vm == to->vm);
	model->paired++;
	model->wrong += s->vcpu != (uint32_t)g->tid;
}

/* ---- packets ---- */

/* Of those whose sending is not known no other one may have the number while they are on their way. */
static bool taken(const struct way *w, const struct net_ident *ident)
{
	for (unsigned int i = w->first; i < w->next; i++)
		if (w->channel[i % CHANNEL].cut && w->channel[i % CHANNEL].ident.id == ident->id)
			return true;
	return false;
}

/*
 * Of a flow that numbers its packets, of one that does not, of one with few numbers (not from
 * elsewhere), or not IPv4.
 */
static void identify(struct model *m, const struct way *w, struct packet *p)
{
	uint64_t flow = m->mix.ids ? draw(m, p->number ? 4 : 3) : 0, number = 0;

	if (!flow)
		return;
	if (flow == 1)
		number = ++m->numbered;
	else if (flow == 3)
		number = 1 + draw(m, 40);
	p->ident = (struct net_ident){ .id = flow << 56 | number << 24 | (uint64_t)p->len << 1 | 1,
				       .flow = (uint32_t)flow,
				       .strong = number };
	if (number && taken(w, &p->ident))
		p->ident = (struct net_ident){ 0 };
}

static struct packet packet(struct model *m, const struct way *w, bool foreign)
{
	static const uint32_t lengths[] = { 98, 1514, 66, 65226 };
	struct packet p = { .len = lengths[draw(m, m->mix.lengths)] };

	p.number = foreign ? 0 : ++m->sent;
	identify(m, w, &p);
	return p;
}

static void enters(struct way *w, const struct packet *p)
{
	assert_in_range(w->next - w->first, 0, CHANNEL - 1);
	w->channel[w->next++ % CHANNEL] = *p;
}

static struct net_ref add(struct model *m, struct net_queue *q, const struct packet *p)
{
	struct net_half h = { .len = p->len - (q->sent ? 0 : ETH_HEADER),
			      .vcpu = p->number,
			      .tid = (int32_t)p->number,
			      .ident = p->ident };
	struct net_ref ref;

	m->l.now = m->now += 1 + draw(m, 40);
	h.t[q->sent ? NP_START : NP_NAPI] = m->now;
	if (q->sent)
		h.t[NP_TAKEN] = h.t[NP_START];
	net_add(&m->l, q, &h, &ref);
	net_identified(&m->l, &ref);
	return ref;
}

static void sends(struct model *m, struct way *w)
{
	static const unsigned int batch[] = { 1, 1, 2, 3, 8 };

	for (uint64_t n = batch[draw(m, ARRAY_SIZE(batch))]; n; n--) {
		struct packet p;
		struct net_ref ref;

		if (happens(m, m->mix.foreign)) {
			p = packet(m, w, true);
			enters(w, &p);
		}
		p = packet(m, w, false);
		ref = add(m, w->s, &p);
		if (happens(m, m->mix.again)) {
			net_unsent(&m->l, &ref);
			ref = add(m, w->s, &p);
		}
		if (happens(m, m->mix.lose))
			p.len = 0;
		enters(w, &p);
	}
}

/* Some of what is on its way arrives. */
static void arrives(struct model *m, struct way *w)
{
	unsigned int left = w->next - w->first;
	unsigned int n = (unsigned int[]){ 0, 1, left, left }[draw(m, 4)];

	n = MIN(n, m->mix.busy && left ? left - 1 : left);
	for (; n; n--) {
		const struct packet *p = &w->channel[w->first++ % CHANNEL];
		struct net_ref ref;
		struct net_half *h;

		w->over += p->number > 0;
		if (!p->len)
			continue;
		ref = add(m, w->g, p);
		h = net_half_of(&m->l, &ref);
		if (h)
			h->ended = true;
		net_tell(&m->l, w->g);
	}
}

/* ... and the sender is told: each of the guest's is freed, of the host's it is known of all. */
static void told(struct model *m, struct way *w)
{
	net_arrived(&m->l, w->s, w->over);
}

/* ---- mixtures ---- */

static void begin(struct model *m, uint64_t seed, const struct mixture *mix)
{
	memset(m, 0, sizeof(*m));
	m->random = seed;
	m->now = 1000;
	m->mix = *mix;
	m->l.net = &m->m;
	m->m.doubt = 1000000000;
	m->l.o.vm = m->l.o.vcpu = -1;
	m->m.side = calloc(2, sizeof(*m->m.side));
	m->m.dev = calloc(2, sizeof(*m->m.dev));
	assert_non_null(m->m.side);
	assert_non_null(m->m.dev);
	net_dev_ends(&m->l, TAP);
	net_dev_ends(&m->l, ETH);
	for (unsigned int again = 0; again < 2; again++) /* they move while more are made */
		for (unsigned int i = 0; i < LINKS; i++) {
			struct way *w = &m->way[i];
			bool out = i & 1;

			w->s = net_queue_get(&m->l, 0, out ? ETH : TAP, i / 2, out, true);
			w->g = net_queue_get(&m->l, 0, out ? TAP : ETH, i / 2, out, false);
			assert_true(w->s && w->g);
		}
}

static void end(struct model *m)
{
	net_finish(&m->l);
	assert_int_equal(m->paired, m->m.measured[0] + m->m.measured[1]);
	assert_int_equal(m->sent, m->m.sent[0] + m->m.sent[1]);
	assert_in_range(m->paired + m->m.cut[0] + m->m.cut[1] + m->m.open[0] + m->m.open[1], 0,
			m->sent);
	m->both = m->m.pair_at.n && m->m.pair[0].both;
	net_links_free(&m->m);
	free(m->m.side);
	free(m->m.dev);
}

/* Events were lost. */
static void loses_events(struct model *m)
{
	net_cut(&m->l, 0);
	for (struct way *w = m->way; w < m->way + LINKS; w++)
		for (unsigned int i = w->first; i < w->next; i++)
			w->channel[i % CHANNEL].cut = true;
}

static void run(struct model *m, uint64_t seed, const struct mixture *mix)
{
	begin(m, seed, mix);
	while (m->sent < PACKETS)
		for (unsigned int i = 0; i < LINKS; i++) {
			struct way *w = &m->way[i];
			uint64_t step = draw(m, 5);

			if (step < 2 && w->next - w->first < 12)
				sends(m, w);
			else if (step < 4)
				arrives(m, w);
			else
				told(m, w);
			if (happens(m, mix->cut))
				loses_events(m);
		}
	for (unsigned int i = 0; i < LINKS * 20; i++) {
		arrives(m, &m->way[i % LINKS]);
		told(m, &m->way[i % LINKS]);
	}
	end(m);
}

static void test_nothing_lost(void **state __unused_arg)
{
	struct mixture mix = { .lengths = 1 };
	struct model m;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		mix.ids = seed & 1;
		mix.again = seed & 2 ? 30 : 0;
		mix.lengths = 1 + seed % 4;
		run(&m, seed, &mix);
		assert_int_equal(m.wrong, 0);
		assert_in_range(m.paired, m.sent - 8, m.sent);
	}
}

/* What became of MIXTURES of one sort. */
struct sum {
	uint64_t sent, paired, wrong;
	unsigned int bad; /* mixtures with pairs that are wrong, though both kinds of trouble were shown */
};

/* seed: of the first; both: packets are lost and others come from elsewhere, not one of these. */
static struct sum mixtures(uint64_t seed, bool ids, bool both)
{
	struct sum sum = { 0 };
	struct model m = { 0 };

	for (uint64_t end = seed + MIXTURES; seed < end; seed++) {
		struct mixture mix;

		m.random = seed;
		mix = (struct mixture){ .lose = 8 + (uint32_t)draw(&m, 50),
					.foreign = 8 + (uint32_t)draw(&m, 50),
					.again = draw(&m, 2) ? 30 : 0,
					.cut = draw(&m, 4) ? 0 : 500,
					.busy = draw(&m, 3) == 0,
					.ids = ids,
					.lengths = 1 + (unsigned int)draw(&m, 4) };
		if (!both)
			*(draw(&m, 2) ? &mix.lose : &mix.foreign) = 0;
		run(&m, seed << 32, &mix);
		sum.sent += m.sent;
		sum.paired += m.paired;
		sum.wrong += m.wrong;
		sum.bad += m.wrong && m.both;
		if (m.wrong)
			print_message("seed %llu: %u of %u are wrong\n", (unsigned long long)seed,
				      m.wrong, m.paired);
	}
	print_message("%llu sent, %llu paired, %llu wrong\n", (unsigned long long)sum.sent,
		      (unsigned long long)sum.paired, (unsigned long long)sum.wrong);
	return sum;
}

static void test_one_kind(void **state __unused_arg)
{
	struct sum sum = mixtures(1, false, false);

	assert_int_equal(sum.wrong, 0);
	assert_true(sum.paired * 3 > sum.sent);
	sum = mixtures(1, true, false);
	assert_int_equal(sum.wrong, 0);
	assert_true(sum.paired * 10 > sum.sent * 9);
}

static void test_both_kinds(void **state __unused_arg)
{
	struct sum sum = mixtures(1, true, true);

	assert_int_equal(sum.wrong, 0);
	assert_true(sum.paired * 5 > sum.sent * 2);
	/* Without headers one that is lost may hide one from elsewhere until more of them show. */
	sum = mixtures(1, false, true);
	assert_int_equal(sum.bad, 0);
	assert_true(sum.wrong * 10000 <= sum.sent);
}

/* Other ones each time. */
static void test_random(void **state __unused_arg)
{
	struct timespec now;
	struct sum sum;
	uint64_t seed;

	assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
	seed = (uint64_t)now.tv_sec << 20;
	print_message("seeds from %llu\n", (unsigned long long)seed);
	sum = mixtures(seed, true, true);
	assert_int_equal(sum.bad, 0);
	assert_true(sum.wrong * 10000 <= sum.sent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_lost),
		cmocka_unit_test(test_one_kind),
		cmocka_unit_test(test_both_kinds),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
