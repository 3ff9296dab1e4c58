/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_clock_chain.c - names, ways, missing links, and conversions along whole chains */
#include "clock_vectors.h"

#include "kvmft/clock.h"

/* One plausible host and guest: what each clock follows by, if it is all constants. */
struct constants {
	struct clock_link link[CLK_NR];
};

static const struct clock_sample samples[2] = {
	{ 6000000000000, 6000000000100, 5000000000, false },
	{ 6002500000000, 6002500000100, 6000000000, false },
};

static void fill(struct constants *x)
{
	struct clock_link kernel = { CLOCK_WAY_LATER, CLK_GUEST_LOCAL,
				     .later = 0xfffffffffcc60c03 };

	*x = (struct constants){ .link = {
		[CLK_GUEST_TSC] = { CLOCK_WAY_MAP, CLK_HOST_TSC,
			.map = { 0 - 4949202418480ULL, 227682669269131ULL, 48 } },
		[CLK_KVMCLOCK] = { CLOCK_WAY_RECORD, CLK_GUEST_TSC,
			.pv = { .tsc_timestamp = 1000000000, .system_time = 5000000000,
				.mul = 3308725546U, .shift = -1 } },
		[CLK_GUEST_LOCAL] = { CLOCK_WAY_LATER, CLK_KVMCLOCK, .later = 0 - 4000000000ULL },
		[CLK_GUEST_GLOBAL] = kernel,
		[CLK_GUEST_PERF] = kernel,
		[CLK_GUEST_MONO_RAW] = { CLOCK_WAY_RAW, CLK_GUEST_TSC,
			.raw = { .last = 4000000000, .mult = 6710886, .shift = 24,
				 .nsec = 1564114262735413, .base = 3000000000 } },
		[CLK_HOST_LOCAL] = { CLOCK_WAY_CYC2NS, CLK_HOST_TSC,
			.line = { 27370606, 827181386, 31 } },
		[CLK_HOST_GLOBAL] = { CLOCK_WAY_LATER, CLK_HOST_LOCAL, .later = 12345 },
		[CLK_HOST_PERF] = { CLOCK_WAY_LATER, CLK_HOST_LOCAL, .later = 12345 },
		[CLK_HOST_MONO_RAW] = { CLOCK_WAY_RAW, CLK_HOST_TSC,
			.raw = { .last = 6000000000000, .mult = 6462355, .shift = 24,
				 .nsec = 15641142627354139, .base = 407116000000000 } },
	} };
	for (int i = CLK_GUEST_MONO; i < CLK_NR; i++)
		if (!x->link[i].way) {
			x->link[i].way = CLOCK_WAY_PIECES;
			x->link[i].over = i < CLK_HOST_LOCAL ? CLK_GUEST_TSC : CLK_HOST_TSC;
			assert_int_equal(clock_pieces_init(&x->link[i].pieces, samples, 2, 2500000,
							   0), 0);
		}
}

static void set(struct clock_chain *c, enum clock_id id, const struct constants *x)
{
	assert_int_equal(clock_chain_set(c, id, &x->link[id]), 0);
	assert_true(c->link[id].way);
}

static void set_constants(struct clock_chain *c, const struct constants *x)
{
	memset(c, 0, sizeof(*c));
	for (int i = CLK_GUEST_TSC; i < CLK_NR; i++)
		if (x->link[i].way != CLOCK_WAY_PIECES)
			set(c, (enum clock_id)i, x);
}

static int convert(const struct clock_chain *c, enum clock_id from, enum clock_id to, uint64_t v,
		   uint64_t *lo, uint64_t *hi)
{
	struct clock_route route;
	int ret = clock_route_find(c, from, to, &route, NULL);

	return ret ?: clock_route_convert(&route, v, lo, hi);
}

/* ---- names ---- */

static void test_names(void **state)
{
	enum clock_id id;
	int i, k;

	(void)state;
	for (i = 0; i < CLK_NR; i++) {
		assert_non_null(clock_name((enum clock_id)i));
		assert_int_equal(clock_by_name(clock_name((enum clock_id)i), CLOCK_SIDE_ANY, &id), 0);
		assert_int_equal(id, i);
		for (k = 0; k < i; k++)
			assert_string_not_equal(clock_name((enum clock_id)i),
						clock_name((enum clock_id)k));
	}
	assert_null(clock_name(CLK_NR));
	assert_int_equal(clock_by_name("local", CLOCK_SIDE_ANY, &id), -ENOTUNIQ);
	assert_int_equal(clock_by_name("local", CLOCK_SIDE_GUEST, &id), 0);
	assert_int_equal(id, CLK_GUEST_LOCAL);
	assert_int_equal(clock_by_name("mono_raw", CLOCK_SIDE_HOST, &id), 0);
	assert_int_equal(id, CLK_HOST_MONO_RAW);
	assert_int_equal(clock_by_name("x86-tsc", CLOCK_SIDE_GUEST, &id), 0);
	assert_int_equal(id, CLK_GUEST_TSC);
	assert_int_equal(clock_by_name("kvmclock", CLOCK_SIDE_HOST, &id), 0);
	assert_int_equal(id, CLK_KVMCLOCK);
	assert_int_equal(clock_by_name("guest-kvmclock", CLOCK_SIDE_ANY, &id), -ENOENT);
	assert_int_equal(clock_by_name("tai", CLOCK_SIDE_HOST, &id), -ENOENT);
	assert_int_equal(clock_by_name("", CLOCK_SIDE_HOST, &id), -ENOENT);
	assert_int_equal(clock_by_name("guest-", CLOCK_SIDE_HOST, &id), -ENOENT);
	assert_true(clock_in_cycles(CLK_GUEST_TSC) && !clock_in_cycles(CLK_KVMCLOCK));
	assert_true(clock_is_guest(CLK_KVMCLOCK) && !clock_is_guest(CLK_HOST_LOCAL));
}

/* ---- ways ---- */

static void test_all_connected(void **state)
{
	struct clock_chain c;
	struct constants x;
	struct clock_route r;
	enum clock_id missing;
	unsigned int taught;

	(void)state;
	fill(&x);
	for (int a = 0; a < CLK_NR; a++) {
		for (int b = 0; b < CLK_NR; b++) {
			memset(&c, 0, sizeof(c));
			/* learning what is missing, one link after the other, leads to a way */
			for (taught = 0; clock_route_find(&c, (enum clock_id)a, (enum clock_id)b,
							  &r, &missing) == -ENOLINK; taught++) {
				assert_false(c.link[missing].way);
				assert_non_null(clock_missing(&c, missing).what);
				assert_non_null(clock_missing(&c, missing).remedy);
				set(&c, missing, &x);
			}
			assert_int_equal(r.n, taught);
			assert_true((a == b) == (taught == 0));
		}
	}
	assert_int_equal(clock_route_find(&c, CLK_NR, CLK_HOST_TSC, &r, NULL), -EINVAL);
	assert_int_equal(clock_route_find(&c, CLK_HOST_TSC, CLK_NR, &r, NULL), -EINVAL);
}

static void test_missing_named(void **state)
{
	const struct clock_link line = { CLOCK_WAY_CYC2NS, CLK_GUEST_TSC,
					 .line = { 27370606, 827181386, 31 } };
	struct clock_chain c = { 0 };
	struct clock_route r;
	struct constants x;
	enum clock_id m;

	(void)state;
	fill(&x);
	assert_int_equal(clock_route_find(&c, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), -ENOLINK);
	assert_int_equal(m, CLK_GUEST_LOCAL);
	assert_string_equal(clock_missing(&c, m).what, "kvm_sched_clock_offset");
	set(&c, m, &x);
	assert_int_equal(clock_route_find(&c, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), -ENOLINK);
	assert_int_equal(m, CLK_KVMCLOCK);
	assert_string_equal(clock_missing(&c, m).what, "pvclock record");
	set(&c, m, &x);
	assert_int_equal(clock_route_find(&c, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, NULL), -ENOLINK);
	assert_int_equal(clock_route_find(&c, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), -ENOLINK);
	assert_int_equal(m, CLK_GUEST_TSC);
	/* the other way round, what is missing first is another one */
	assert_int_equal(clock_route_find(&c, CLK_HOST_LOCAL, CLK_GUEST_LOCAL, &r, &m), -ENOLINK);
	assert_int_equal(m, CLK_HOST_LOCAL);
	set(&c, CLK_GUEST_TSC, &x);
	assert_int_equal(clock_route_find(&c, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), 0);
	assert_int_equal(r.n, 3);
	/* a guest without kvmclock goes another way */
	memset(&c, 0, sizeof(c));
	c.no_kvmclock = true;
	set(&c, CLK_GUEST_TSC, &x);
	assert_int_equal(clock_route_find(&c, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), -ENOLINK);
	assert_int_equal(m, CLK_GUEST_LOCAL);
	assert_string_equal(clock_missing(&c, m).what, "sched_clock line of the guest's TSC");
	assert_int_equal(clock_chain_set(&c, CLK_GUEST_LOCAL, &line), 0);
	assert_int_equal(clock_route_find(&c, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), 0);
	assert_int_equal(r.n, 2);
}

static void test_set_checks(void **state)
{
	struct clock_chain c = { 0 }, none = { 0 };
	struct clock_link l = { .way = CLOCK_WAY_UNKNOWN };

	(void)state;
	assert_int_equal(clock_chain_set(&c, CLK_GUEST_TSC, &l), -EINVAL);
	for (int way = CLOCK_WAY_EPOCHS; way <= CLOCK_WAY_PIECES; way++) {
		l.way = (enum clock_way)way; /* nothing filled in */
		if (way != CLOCK_WAY_LATER)
			assert_int_equal(clock_chain_set(&c, CLK_GUEST_MONO_RAW, &l), -EINVAL);
	}
	l = (struct clock_link){ CLOCK_WAY_MAP, CLK_HOST_TSC, .map = { 0, 0, 33 } };
	assert_int_equal(clock_chain_set(&c, CLK_GUEST_TSC, &l), -EINVAL);
	l.map.frac = 48;
	assert_int_equal(clock_chain_set(&c, CLK_NR, &l), -EINVAL);
	assert_int_equal(clock_chain_set(&c, CLK_HOST_TSC, &l), -EINVAL);
	l.over = CLK_GUEST_LOCAL; /* which follows from this one */
	assert_int_equal(clock_chain_set(&c, CLK_KVMCLOCK, &l), -EINVAL);
	l = (struct clock_link){ CLOCK_WAY_RECORD, CLK_GUEST_TSC, .pv = { .mul = 1, .shift = 40 } };
	assert_int_equal(clock_chain_set(&c, CLK_KVMCLOCK, &l), -EDOM);
	assert_memory_equal(&c, &none, sizeof(c));
}

/* ---- conversions ---- */

static void chain(const struct vector *v)
{
	const struct constants x = { .link = {
		[CLK_GUEST_LOCAL] = { CLOCK_WAY_LATER, CLK_KVMCLOCK, .later = 0 - v->in[1] },
		[CLK_KVMCLOCK] = { CLOCK_WAY_RECORD, CLK_GUEST_TSC,
			.pv = { .tsc_timestamp = v->in[2], .system_time = v->in[3],
				.mul = (uint32_t)v->in[4], .shift = (int8_t)(int64_t)v->in[5] } },
		[CLK_GUEST_TSC] = { CLOCK_WAY_MAP, CLK_HOST_TSC,
			.map = { v->in[6], v->in[7], (uint8_t)v->in[8] } },
	} };
	struct clock_chain c = { 0 };
	uint64_t lo = 0, hi = 0;

	for (int i = CLK_GUEST_TSC; i <= CLK_GUEST_LOCAL; i++)
		set(&c, (enum clock_id)i, &x);
	assert_true(convert(&c, CLK_GUEST_LOCAL, CLK_GUEST_TSC, v->in[0], &lo, &hi) >= 0);
	vector_expect(v, "guest TSC", lo, v->out[0]);
	assert_true(convert(&c, CLK_GUEST_LOCAL, CLK_HOST_TSC, v->in[0], &lo, &hi) >= 0);
	vector_expect(v, "host TSC", lo, v->out[1]);
	assert_true(lo <= hi);
}

static void test_vectors(void **state)
{
	(void)state;
	assert_int_equal(vectors_each("chain", chain), 54);
}

/* What a host cycle reads on any clock, taken back, is a range around that cycle; all of it reads
 * that value again, and one cycle beside it does not. */
static void round_trips(const struct clock_chain *x, enum clock_id clk, uint64_t seed)
{
	uint64_t v, hi, lo, last, again, unused;
	struct clock_route to, from;
	int k;

	assert_int_equal(clock_route_find(x, CLK_HOST_TSC, clk, &to, NULL), 0);
	assert_int_equal(clock_route_find(x, clk, CLK_HOST_TSC, &from, NULL), 0);
	for (k = 0; k < 3000; k++) {
		uint64_t host = 6200000000000 + (prng(&seed) >> 22);

		assert_int_equal(clock_route_convert(&to, host, &v, &hi), 0);
		assert_int_equal(v, hi);
		assert_int_equal(clock_route_convert(&from, v, &lo, &last), 0);
		assert_in_range(host, lo, last);
		assert_int_equal(clock_route_convert(&to, lo, &again, &unused), 0);
		assert_int_equal(again, v);
		assert_int_equal(clock_route_convert(&to, last, &again, &unused), 0);
		assert_int_equal(again, v);
		assert_int_equal(clock_route_convert(&to, lo - 1, &again, &unused), 0);
		assert_true(again < v);
		assert_int_equal(clock_route_convert(&to, last + 1, &again, &unused), 0);
		assert_true(again > v);
	}
}

static void test_round_trip(void **state)
{
	/* scaled down, not at all, up, and up so far that most guest cycles are never read */
	static const uint64_t ratios[] = { 227682669269131, 0, 347976254708315, 5ULL << 47 };
	static const enum clock_id clocks[] = {
		CLK_HOST_TSC, CLK_GUEST_TSC, CLK_KVMCLOCK, CLK_GUEST_LOCAL, CLK_GUEST_GLOBAL,
		CLK_GUEST_PERF, CLK_GUEST_MONO_RAW, CLK_HOST_LOCAL, CLK_HOST_GLOBAL, CLK_HOST_PERF,
		CLK_HOST_MONO_RAW,
	};
	struct constants x;
	struct clock_chain c;
	size_t i, k;

	(void)state;
	fill(&x);
	for (k = 0; k < sizeof(ratios) / sizeof(ratios[0]); k++) {
		x.link[CLK_GUEST_TSC].map.ratio = ratios[k];
		set_constants(&c, &x);
		for (i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++)
			round_trips(&c, clocks[i], 40 + i);
	}
}

/*
 * Later on one clock is never earlier on another, whichever two: neither the first nor the last
 * possible value steps back. Neighbours and distant values.
 */
static void monotone(const struct clock_chain *x, enum clock_id a, enum clock_id b, uint64_t seed)
{
	struct clock_route to, way;
	uint64_t lo, hi, lo2, hi2, v, unused;

	assert_int_equal(clock_route_find(x, CLK_HOST_TSC, a, &to, NULL), 0);
	assert_int_equal(clock_route_find(x, a, b, &way, NULL), 0);
	for (int k = 0; k < 300; k++) {
		uint64_t step = k & 1 ? prng(&seed) >> 60 : prng(&seed) >> 30;

		assert_int_equal(clock_route_convert(&to, 6200000000000 + (prng(&seed) >> 22), &v,
						     &unused), 0);
		assert_true(clock_route_convert(&way, v, &lo, &hi) >= 0);
		assert_true(clock_route_convert(&way, v + step, &lo2, &hi2) >= 0);
		assert_true(lo <= hi && lo2 <= hi2);
		assert_true(lo <= lo2 && hi <= hi2);
	}
}

static void test_monotone(void **state)
{
	static const uint64_t ratios[] = { 227682669269131, 0, 5ULL << 47 };
	struct constants x;
	struct clock_chain c;

	(void)state;
	fill(&x);
	for (size_t k = 0; k < sizeof(ratios) / sizeof(ratios[0]); k++) {
		x.link[CLK_GUEST_TSC].map.ratio = ratios[k];
		set_constants(&c, &x);
		for (int a = 0; a < CLK_NR; a++)
			for (int b = 0; b < CLK_NR; b++) {
				struct clock_route way;

				if (!clock_route_find(&c, CLK_HOST_TSC, (enum clock_id)a, &way, NULL) &&
				    !clock_route_find(&c, CLK_HOST_TSC, (enum clock_id)b, &way, NULL))
					monotone(&c, (enum clock_id)a, (enum clock_id)b,
						 (uint64_t)(a * CLK_NR + b + 1));
			}
	}
}

static void test_skipped(void **state)
{
	const struct clock_link l = { CLOCK_WAY_MAP, CLK_HOST_TSC,
				      .map = { 0, 5ULL << 47, 48 } }; /* guest = 2.5 * host */
	struct clock_chain c = { 0 };
	uint64_t lo, hi;

	(void)state;
	assert_int_equal(clock_chain_set(&c, CLK_GUEST_TSC, &l), 0);
	assert_int_equal(convert(&c, CLK_GUEST_TSC, CLK_HOST_TSC, 5, &lo, &hi), 0);
	assert_true(lo == 2 && hi == 2);
	assert_int_equal(convert(&c, CLK_GUEST_TSC, CLK_HOST_TSC, 6, &lo, &hi), CLOCK_FLAG_SKIPPED);
	assert_true(lo == 3 && hi == 3);
	assert_int_equal(convert(&c, CLK_GUEST_TSC, CLK_HOST_TSC, 7, &lo, &hi), 0);
	assert_true(lo == 3 && hi == 3);
	assert_int_equal(convert(&c, CLK_HOST_TSC, CLK_HOST_TSC, 9, &lo, &hi), 0);
	assert_true(lo == 9 && hi == 9);
}

static void test_before_zero(void **state)
{
	struct constants x;
	struct clock_chain c;
	uint64_t lo = 1, hi = 2;

	(void)state;
	fill(&x);
	set_constants(&c, &x);
	/* host time before the guest existed */
	assert_int_equal(convert(&c, CLK_HOST_TSC, CLK_KVMCLOCK, 1000, &lo, &hi), -ERANGE);
	assert_int_equal(convert(&c, CLK_KVMCLOCK, CLK_GUEST_LOCAL, 3999999999, &lo, &hi), -ERANGE);
	assert_int_equal(convert(&c, CLK_GUEST_LOCAL, CLK_GUEST_PERF, 5, &lo, &hi), -ERANGE);
	assert_int_equal(convert(&c, CLK_HOST_LOCAL, CLK_HOST_TSC, 27370605, &lo, &hi), -ERANGE);
	assert_true(lo == 1 && hi == 2);
	assert_int_equal(convert(&c, CLK_HOST_LOCAL, CLK_HOST_TSC, 27370606, &lo, &hi), 0);
	assert_int_equal(lo, 0);
	/* a slow TSC, where the wrapped difference would still fit */
	c.link[CLK_HOST_LOCAL].line = (struct cyc2ns){ 1000, UINT32_MAX, 31 };
	assert_int_equal(convert(&c, CLK_HOST_LOCAL, CLK_HOST_TSC, 999, &lo, &hi), -ERANGE);
}

/* Both clocksources a guest can have for mono_raw, and samples that a line takes the place of. */
static void test_raw(void **state)
{
	const struct clock_link over = { CLOCK_WAY_RAW, CLK_KVMCLOCK,
		.raw = { .last = 1000, .mult = 8388608, .shift = 23, .base = 77 } };
	struct clock_link l = { CLOCK_WAY_PIECES, CLK_HOST_TSC, .later = 0 };
	struct clock_chain c = { 0 };
	struct constants x;
	uint64_t lo, hi;

	(void)state;
	fill(&x);
	assert_int_equal(clock_chain_set(&c, CLK_GUEST_MONO_RAW, &over), 0);
	assert_int_equal(convert(&c, CLK_KVMCLOCK, CLK_GUEST_MONO_RAW, 1500, &lo, &hi), 0);
	assert_int_equal(lo, 577);
	assert_int_equal(convert(&c, CLK_GUEST_MONO_RAW, CLK_KVMCLOCK, 577, &lo, &hi), 0);
	assert_true(lo == 1500 && hi == 1500);
	l.pieces = x.link[CLK_HOST_MONO].pieces;
	assert_int_equal(clock_chain_set(&c, CLK_HOST_MONO_RAW, &l), 0);
	assert_int_equal(convert(&c, CLK_HOST_TSC, CLK_HOST_MONO_RAW, 6001250000050, &lo, &hi), 0);
	assert_in_range(5500000000, lo, hi);
	assert_int_equal(convert(&c, CLK_HOST_TSC, CLK_HOST_MONO_RAW, 6003000000000, &lo, &hi),
			 CLOCK_FLAG_EXTRAPOLATED);
	assert_int_equal(convert(&c, CLK_HOST_MONO_RAW, CLK_HOST_TSC, 7000000000, &lo, &hi),
			 CLOCK_FLAG_EXTRAPOLATED);
	set(&c, CLK_HOST_MONO_RAW, &x);
	assert_int_equal(convert(&c, CLK_HOST_TSC, CLK_HOST_MONO_RAW, 6003000000000, &lo, &hi), 0);
	assert_int_equal(lo, hi);
}

static void test_epochs(void **state)
{
	struct pvclock pv = { .version = 2, .tsc_timestamp = 1000000, .system_time = 5000,
			      .mul = 1U << 31, .flags = PVCLOCK_TSC_STABLE };
	struct epoch_vm *vm = epoch_vm_new(1000000);
	struct clock_link l = { CLOCK_WAY_EPOCHS, CLK_HOST_TSC, .epochs = NULL };
	struct tsc_map m = { 0, 0, 0 };
	struct clock_chain c = { 0 };
	struct clock_route r;
	uint64_t lo, hi;

	(void)state;
	assert_non_null(vm);
	assert_int_equal(epoch_vm_read(vm, 4, 1000000, &m), 0);
	l.epochs = epoch_vm_find(vm, 4);
	assert_int_equal(clock_chain_set(&c, CLK_GUEST_TSC, &l), 0);
	l.over = CLK_GUEST_TSC;
	assert_int_equal(clock_chain_set(&c, CLK_GUEST_LOCAL, &l), -EINVAL);
	assert_int_equal(clock_chain_set(&c, CLK_KVMCLOCK, &l), -ENODATA);
	assert_int_equal(epoch_vm_pvclock(vm, 4, 1500000, &pv), 0);
	assert_int_equal(clock_chain_set(&c, CLK_KVMCLOCK, &l), 0);
	l = (struct clock_link){ CLOCK_WAY_LATER, CLK_KVMCLOCK, .later = 0 - 1000ULL };
	assert_int_equal(clock_chain_set(&c, CLK_GUEST_LOCAL, &l), 0);
	assert_int_equal(epoch_vm_write_offset(vm, 4, 3000000, 0, 0 - 1000000ULL), 0);
	assert_int_equal(clock_route_find(&c, CLK_HOST_TSC, CLK_GUEST_LOCAL, &r, NULL), 0);
	assert_int_equal(r.n, 2);
	assert_true(r.hop[0].two);
	assert_int_equal(clock_route_convert(&r, 2000000, &lo, &hi), 0);
	assert_int_equal(lo, 504000);
	assert_int_equal(clock_route_convert(&r, 1400000, &lo, &hi), CLOCK_FLAG_BORROWED);
	assert_int_equal(lo, 204000);
	assert_int_equal(clock_route_convert(&r, 999999, &lo, &hi), -ENODATA);
	assert_int_equal(convert(&c, CLK_GUEST_TSC, CLK_HOST_TSC, 1999999, &lo, &hi), 0);
	assert_true(lo == 1999999 && hi == 1999999);
	assert_int_equal(convert(&c, CLK_GUEST_TSC, CLK_HOST_TSC, 2000000, &lo, &hi), -ENOTUNIQ);
	assert_int_equal(convert(&c, CLK_GUEST_TSC, CLK_KVMCLOCK, 1600000, &lo, &hi), 0);
	assert_int_equal(lo, 305000);
	assert_int_equal(convert(&c, CLK_GUEST_LOCAL, CLK_GUEST_TSC, 304000, &lo, &hi), 0);
	assert_true(lo == 1600000 && hi == 1600001);
	/* and back at once: the second offset puts that time before its own */
	assert_int_equal(clock_route_find(&c, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, NULL), 0);
	assert_true(r.n == 2 && r.hop[1].two && !r.hop[1].down);
	assert_int_equal(clock_route_convert(&r, 304000, &lo, &hi), 0);
	assert_true(lo == 1600000 && hi == 1600001);
	m.offset = 5;
	assert_int_equal(epoch_vm_check_end(vm, 4, &m), EPOCH_NOTE_LOST_EVENTS);
	assert_int_equal(convert(&c, CLK_HOST_TSC, CLK_GUEST_TSC, 3000000, &lo, &hi),
			 CLOCK_FLAG_DOUBTFUL);
	assert_int_equal(lo, 2000000);
	epoch_vm_free(vm);
}

/* Any constants that clock_chain_set() accepts, any value: no undefined behaviour, lo <= hi. */
static void test_hostile(void **state)
{
	uint64_t seed = 50, lo, hi;
	int worked = 0;

	(void)state;
	for (int k = 0; k < 400; k++) {
		struct clock_chain c = { .no_kvmclock = prng(&seed) & 1 };
		struct constants x;

		fill(&x);
		x.link[CLK_GUEST_TSC].map = (struct tsc_map){ prng_any(&seed), prng_any(&seed),
							      k % 2 ? 48 : 32 };
		x.link[CLK_KVMCLOCK].pv = (struct pvclock){
			.tsc_timestamp = prng_any(&seed), .system_time = prng_any(&seed),
			.mul = (uint32_t)prng(&seed),
			.shift = (int8_t)(int)(prng(&seed) % 256 - 128) };
		for (int i = CLK_GUEST_LOCAL; i < CLK_NR; i++)
			switch (x.link[i].way) {
			case CLOCK_WAY_LATER: x.link[i].later = prng(&seed); break;
			case CLOCK_WAY_CYC2NS:
				x.link[i].line = (struct cyc2ns){ prng(&seed),
					(uint32_t)prng_any(&seed), (uint8_t)(prng(&seed) % 40) };
				break;
			case CLOCK_WAY_RAW:
				x.link[i].raw = (struct mono_raw){ prng(&seed), prng(&seed),
					prng(&seed), (uint32_t)prng_any(&seed),
					(uint8_t)(prng(&seed) % 40) };
				break;
			default: break;
			}
		for (int i = CLK_GUEST_TSC; i < CLK_NR; i++)
			clock_chain_set(&c, (enum clock_id)i, &x.link[i]);
		for (int a = 0; a < CLK_NR; a++) {
			for (int b = 0; b < CLK_NR; b++) {
				int ret = convert(&c, (enum clock_id)a, (enum clock_id)b,
						  prng_any(&seed), &lo, &hi);

				if (ret < 0)
					continue;
				worked++;
				assert_true(lo <= hi);
			}
		}
	}
	assert_true(worked > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_all_connected),
		cmocka_unit_test(test_missing_named),
		cmocka_unit_test(test_set_checks),
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_monotone),
		cmocka_unit_test(test_skipped),
		cmocka_unit_test(test_before_zero),
		cmocka_unit_test(test_raw),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests_name("clock chain", tests, NULL, NULL);
}
