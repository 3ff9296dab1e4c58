/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_clock_graph.c - names, ways, missing edges, and conversions along whole chains */
#include "clock_vectors.h"

#include "kvmft/clockgraph.h"

/* One plausible host and guest, everything known as constants, epochs left out. */
static void ctx_fill(struct clock_ctx *x)
{
	memset(x, 0, sizeof(*x));
	x->map = (struct tsc_map){ 0 - 4949202418480ULL, 227682669269131ULL, 48 };
	x->pv = (struct pvclock){ .tsc_timestamp = 1000000000, .system_time = 5000000000,
				  .mul = 3308725546U, .shift = -1 };
	x->sched = (struct sched_offsets){ 4000000000, 0xfffffffffcc60c03 };
	x->host_cyc2ns = (struct cyc2ns){ 27370606, 827181386, 31 };
	x->host_raw = (struct mono_raw){ .last = 6000000000000, .mult = 6462355, .shift = 24,
					 .nsec = 15641142627354139, .base = 407116000000000 };
	x->guest_raw = (struct mono_raw){ .last = 4000000000, .mult = 6710886, .shift = 24,
					  .nsec = 1564114262735413, .base = 3000000000 };
	x->host_kernel_offset = 12345;
}

static void set(struct clock_ctx *x, enum clock_edge e)
{
	assert_int_equal(clock_ctx_set(x, e), 0);
	assert_true(x->known >> e & 1);
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
}

static void test_edges_described(void **state)
{
	int e;

	(void)state;
	for (e = 0; e < CLOCK_EDGE_NR; e++) {
		const struct clock_edge_info *i = clock_edge_info((enum clock_edge)e);

		assert_non_null(i);
		assert_non_null(i->what);
		assert_non_null(i->remedy);
		assert_true(i->from != i->to);
		assert_true(i->to != CLK_HOST_TSC);
	}
	assert_null(clock_edge_info(CLOCK_EDGE_NR));
}

/* ---- ways ---- */

static void test_all_connected(void **state)
{
	static const enum clock_edge usual[] = {
		CLOCK_EDGE_TSC_MAP, CLOCK_EDGE_PVCLOCK, CLOCK_EDGE_SCHED, CLOCK_EDGE_GUEST_GLOBAL,
		CLOCK_EDGE_GUEST_PERF, CLOCK_EDGE_GUEST_RAW, CLOCK_EDGE_HOST_CYC2NS,
		CLOCK_EDGE_HOST_GLOBAL, CLOCK_EDGE_HOST_PERF, CLOCK_EDGE_HOST_RAW,
		CLOCK_EDGE_GUEST_MONO, CLOCK_EDGE_GUEST_BOOT, CLOCK_EDGE_GUEST_REALTIME,
		CLOCK_EDGE_HOST_MONO, CLOCK_EDGE_HOST_BOOT, CLOCK_EDGE_HOST_REALTIME,
	};
	static const struct clock_sample samples[2] = {
		{ 6000000000000, 6000000000100, 5000000000, false },
		{ 6002500000000, 6002500000100, 6000000000, false },
	};
	struct clock_ctx x;
	struct clock_route r;
	enum clock_edge missing;
	unsigned int taught;
	int a, b;
	size_t i;

	(void)state;
	for (a = 0; a < CLK_NR; a++) {
		for (b = 0; b < CLK_NR; b++) {
			ctx_fill(&x);
			for (i = CLK_GUEST_LOCAL; i < CLK_NR; i++)
				assert_int_equal(clock_pieces_init(&x.pieces[i], samples, 2, 2500000,
								   0), 0);
			/* learning what is missing, one edge after the other, leads to a way */
			for (taught = 0; clock_route_find(&x, (enum clock_id)a, (enum clock_id)b,
							  &r, &missing) == -ENOLINK; taught++) {
				assert_false(clock_ctx_has(&x, missing));
				for (i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
					if (usual[i] == missing)
						break;
				assert_true(i < sizeof(usual) / sizeof(usual[0]));
				set(&x, missing);
			}
			assert_int_equal(r.n, taught);
			assert_true((a == b) == (taught == 0));
		}
	}
	assert_int_equal(clock_route_find(&x, CLK_NR, CLK_HOST_TSC, &r, NULL), -EINVAL);
	assert_int_equal(clock_route_find(&x, CLK_HOST_TSC, CLK_NR, &r, NULL), -EINVAL);
}

static void test_missing_named(void **state)
{
	struct clock_route r;
	enum clock_edge m;
	struct clock_ctx x;

	(void)state;
	ctx_fill(&x);
	assert_int_equal(clock_route_find(&x, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), -ENOLINK);
	assert_int_equal(m, CLOCK_EDGE_SCHED);
	set(&x, CLOCK_EDGE_SCHED);
	assert_int_equal(clock_route_find(&x, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), -ENOLINK);
	assert_int_equal(m, CLOCK_EDGE_PVCLOCK);
	assert_string_equal(clock_edge_info(m)->what, "pvclock record");
	set(&x, CLOCK_EDGE_PVCLOCK);
	assert_int_equal(clock_route_find(&x, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, NULL), -ENOLINK);
	assert_int_equal(clock_route_find(&x, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), -ENOLINK);
	assert_int_equal(m, CLOCK_EDGE_TSC_MAP);
	set(&x, CLOCK_EDGE_TSC_MAP);
	assert_int_equal(clock_route_find(&x, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), 0);
	assert_int_equal(r.n, 3);
	/* a guest without kvmclock goes another way, and the offset is of no use to it */
	x.no_kvmclock = true;
	assert_false(clock_ctx_has(&x, CLOCK_EDGE_SCHED));
	assert_int_equal(clock_route_find(&x, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), -ENOLINK);
	assert_int_equal(m, CLOCK_EDGE_GUEST_CYC2NS);
	x.guest_cyc2ns = x.host_cyc2ns;
	set(&x, CLOCK_EDGE_GUEST_CYC2NS);
	assert_int_equal(clock_route_find(&x, CLK_GUEST_LOCAL, CLK_HOST_TSC, &r, &m), 0);
	assert_int_equal(r.n, 2);
	x.no_kvmclock = false;
	assert_false(clock_ctx_has(&x, CLOCK_EDGE_GUEST_CYC2NS));
	assert_false(clock_ctx_has(&x, (enum clock_edge)200));
}

static void test_set_checks(void **state)
{
	static const enum clock_edge all_refused[] = {
		CLOCK_EDGE_PVCLOCK, CLOCK_EDGE_GUEST_CYC2NS, CLOCK_EDGE_HOST_CYC2NS,
		CLOCK_EDGE_GUEST_RAW, CLOCK_EDGE_HOST_RAW, CLOCK_EDGE_GUEST_RAW_KVM,
		CLOCK_EDGE_EPOCHS, CLOCK_EDGE_EPOCH_PV, CLOCK_EDGE_EPOCH_KVMCLOCK,
		CLOCK_EDGE_GUEST_MONO, CLOCK_EDGE_HOST_REALTIME, CLOCK_EDGE_GUEST_LOCAL_PIECES,
		CLOCK_EDGE_HOST_RAW_PIECES, CLOCK_EDGE_NR,
	};
	struct clock_ctx x;
	size_t i;

	(void)state;
	memset(&x, 0, sizeof(x));
	for (i = 0; i < sizeof(all_refused) / sizeof(all_refused[0]); i++)
		assert_int_equal(clock_ctx_set(&x, all_refused[i]), -EINVAL);
	x.map.frac = 33;
	assert_int_equal(clock_ctx_set(&x, CLOCK_EDGE_TSC_MAP), -EINVAL);
	x.pv.mul = 1;
	x.pv.shift = 40;
	assert_int_equal(clock_ctx_set(&x, CLOCK_EDGE_PVCLOCK), -EDOM);
	assert_int_equal(x.known, 0);
}

/* ---- conversions ---- */

static void chain(const struct vector *v)
{
	struct clock_ctx x;
	uint64_t lo = 0, hi = 0;

	memset(&x, 0, sizeof(x));
	x.sched.kvm = v->in[1];
	x.pv = (struct pvclock){ .tsc_timestamp = v->in[2], .system_time = v->in[3],
				 .mul = (uint32_t)v->in[4], .shift = (int8_t)(int64_t)v->in[5] };
	x.map = (struct tsc_map){ v->in[6], v->in[7], (uint8_t)v->in[8] };
	set(&x, CLOCK_EDGE_TSC_MAP);
	set(&x, CLOCK_EDGE_PVCLOCK);
	set(&x, CLOCK_EDGE_SCHED);
	assert_true(clock_convert(&x, CLK_GUEST_LOCAL, CLK_GUEST_TSC, v->in[0], &lo, &hi, NULL) >= 0);
	vector_expect(v, "guest TSC", lo, v->out[0]);
	assert_true(clock_convert(&x, CLK_GUEST_LOCAL, CLK_HOST_TSC, v->in[0], &lo, &hi, NULL) >= 0);
	vector_expect(v, "host TSC", lo, v->out[1]);
	assert_true(lo <= hi);
}

static void test_vectors(void **state)
{
	(void)state;
	assert_int_equal(vectors_each("chain", chain), 54);
}

static void set_constants(struct clock_ctx *x)
{
	set(x, CLOCK_EDGE_TSC_MAP);
	set(x, CLOCK_EDGE_PVCLOCK);
	set(x, CLOCK_EDGE_SCHED);
	set(x, CLOCK_EDGE_GUEST_GLOBAL);
	set(x, CLOCK_EDGE_GUEST_PERF);
	set(x, CLOCK_EDGE_GUEST_RAW);
	set(x, CLOCK_EDGE_HOST_CYC2NS);
	set(x, CLOCK_EDGE_HOST_GLOBAL);
	set(x, CLOCK_EDGE_HOST_PERF);
	set(x, CLOCK_EDGE_HOST_RAW);
}

/* What a host cycle reads on any clock, taken back, is a range around that cycle; all of it reads
 * that value again, and one cycle beside it does not. */
static void round_trips(const struct clock_ctx *x, enum clock_id clk, uint64_t seed)
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
	struct clock_ctx x;
	size_t i, k;

	(void)state;
	for (k = 0; k < sizeof(ratios) / sizeof(ratios[0]); k++) {
		ctx_fill(&x);
		x.map.ratio = ratios[k];
		set_constants(&x);
		for (i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++)
			round_trips(&x, clocks[i], 40 + i);
	}
}

/*
 * Later on one clock is never earlier on another, whichever two: neither the first nor the last
 * possible value steps back. Neighbours and distant values.
 */
static void monotone(const struct clock_ctx *x, enum clock_id a, enum clock_id b, uint64_t seed)
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
	struct clock_ctx x;

	(void)state;
	for (size_t k = 0; k < sizeof(ratios) / sizeof(ratios[0]); k++) {
		ctx_fill(&x);
		x.map.ratio = ratios[k];
		set_constants(&x);
		for (int a = 0; a < CLK_NR; a++)
			for (int b = 0; b < CLK_NR; b++) {
				struct clock_route way;

				if (!clock_route_find(&x, CLK_HOST_TSC, (enum clock_id)a, &way, NULL) &&
				    !clock_route_find(&x, CLK_HOST_TSC, (enum clock_id)b, &way, NULL))
					monotone(&x, (enum clock_id)a, (enum clock_id)b,
						 (uint64_t)(a * CLK_NR + b + 1));
			}
	}
}

static void test_skipped(void **state)
{
	struct clock_ctx x;
	uint64_t lo, hi;

	(void)state;
	ctx_fill(&x);
	x.map = (struct tsc_map){ 0, 5ULL << 47, 48 };	/* guest = 2.5 * host */
	set(&x, CLOCK_EDGE_TSC_MAP);
	assert_int_equal(clock_convert(&x, CLK_GUEST_TSC, CLK_HOST_TSC, 5, &lo, &hi, NULL), 0);
	assert_true(lo == 2 && hi == 2);
	assert_int_equal(clock_convert(&x, CLK_GUEST_TSC, CLK_HOST_TSC, 6, &lo, &hi, NULL),
			 CLOCK_FLAG_SKIPPED);
	assert_true(lo == 3 && hi == 3);
	assert_int_equal(clock_convert(&x, CLK_GUEST_TSC, CLK_HOST_TSC, 7, &lo, &hi, NULL), 0);
	assert_true(lo == 3 && hi == 3);
	assert_int_equal(clock_convert(&x, CLK_HOST_TSC, CLK_HOST_TSC, 9, &lo, &hi, NULL), 0);
	assert_true(lo == 9 && hi == 9);
}

static void test_errors_widen(void **state)
{
	uint64_t lo, hi, v, unused;
	struct clock_ctx x;

	(void)state;
	ctx_fill(&x);
	set(&x, CLOCK_EDGE_HOST_CYC2NS);
	assert_int_equal(clock_convert(&x, CLK_HOST_TSC, CLK_HOST_LOCAL, 1ULL << 42, &v, &unused,
				       NULL), 0);
	x.err_ns[CLOCK_EDGE_HOST_CYC2NS] = 100;
	assert_int_equal(clock_convert(&x, CLK_HOST_TSC, CLK_HOST_LOCAL, 1ULL << 42, &lo, &hi,
				       NULL), 0);
	assert_int_equal(lo, v - 100);
	assert_int_equal(hi, v + 100);
	assert_int_equal(clock_convert(&x, CLK_HOST_LOCAL, CLK_HOST_TSC, v, &lo, &hi, NULL), 0);
	assert_in_range(hi - lo, 2 * 259, 2 * 260 + 3);	/* 2.596 cycles a ns */
	assert_in_range(1ULL << 42, lo, hi);
	x.err_ns[CLOCK_EDGE_HOST_CYC2NS] = UINT64_MAX;
	assert_int_equal(clock_convert(&x, CLK_HOST_TSC, CLK_HOST_LOCAL, 5, &lo, &hi, NULL), 0);
	assert_true(lo == 0 && hi == UINT64_MAX);
}

static void test_before_zero(void **state)
{
	struct clock_ctx x;
	uint64_t lo = 1, hi = 2;

	(void)state;
	ctx_fill(&x);
	set_constants(&x);
	/* host time before the guest existed */
	assert_int_equal(clock_convert(&x, CLK_HOST_TSC, CLK_KVMCLOCK, 1000, &lo, &hi, NULL),
			 -ERANGE);
	assert_int_equal(clock_convert(&x, CLK_KVMCLOCK, CLK_GUEST_LOCAL, 3999999999, &lo, &hi,
				       NULL), -ERANGE);
	assert_int_equal(clock_convert(&x, CLK_GUEST_LOCAL, CLK_GUEST_PERF, 5, &lo, &hi, NULL),
			 -ERANGE);
	assert_int_equal(clock_convert(&x, CLK_HOST_LOCAL, CLK_HOST_TSC, 27370605, &lo, &hi, NULL),
			 -ERANGE);
	assert_true(lo == 1 && hi == 2);
	assert_int_equal(clock_convert(&x, CLK_HOST_LOCAL, CLK_HOST_TSC, 27370606, &lo, &hi, NULL),
			 0);
	assert_int_equal(lo, 0);
	/* a slow TSC, where the wrapped difference would still fit */
	x.host_cyc2ns = (struct cyc2ns){ 1000, UINT32_MAX, 31 };
	assert_int_equal(clock_convert(&x, CLK_HOST_LOCAL, CLK_HOST_TSC, 999, &lo, &hi, NULL),
			 -ERANGE);
}

/* Both clocksources a guest can have for mono_raw, and the choice between a line and samples. */
static void test_guest_raw(void **state)
{
	static const struct clock_sample samples[2] = {
		{ 6000000000000, 6000000000000, 5000000000, false },
		{ 6002500000000, 6002500000000, 6000000000, false },
	};
	struct clock_route r;
	struct clock_ctx x;
	uint64_t lo, hi;

	(void)state;
	ctx_fill(&x);
	x.guest_raw = (struct mono_raw){ .last = 1000, .mult = 8388608, .shift = 23, .base = 77 };
	set(&x, CLOCK_EDGE_GUEST_RAW_KVM);
	assert_int_equal(clock_convert(&x, CLK_KVMCLOCK, CLK_GUEST_MONO_RAW, 1500, &lo, &hi, NULL), 0);
	assert_int_equal(lo, 577);
	assert_int_equal(clock_convert(&x, CLK_GUEST_MONO_RAW, CLK_KVMCLOCK, 577, &lo, &hi, NULL), 0);
	assert_true(lo == 1500 && hi == 1500);
	assert_int_equal(clock_pieces_init(&x.pieces[CLK_HOST_MONO_RAW], samples, 2, 2500000, 0), 0);
	set(&x, CLOCK_EDGE_HOST_RAW_PIECES);
	assert_int_equal(clock_convert(&x, CLK_HOST_TSC, CLK_HOST_MONO_RAW, 6001250000000, &lo, &hi,
				       NULL), 0);
	assert_in_range(5500000000, lo, hi);
	assert_int_equal(clock_convert(&x, CLK_HOST_TSC, CLK_HOST_MONO_RAW, 6003000000000, &lo, &hi,
				       NULL), CLOCK_FLAG_EXTRAPOLATED);
	assert_int_equal(clock_convert(&x, CLK_HOST_MONO_RAW, CLK_HOST_TSC, 7000000000, &lo, &hi,
				       NULL), CLOCK_FLAG_EXTRAPOLATED);
	set(&x, CLOCK_EDGE_HOST_RAW);	/* exact, so preferred */
	assert_int_equal(clock_route_find(&x, CLK_HOST_TSC, CLK_HOST_MONO_RAW, &r, NULL), 0);
	assert_int_equal(r.hop[0].edge, CLOCK_EDGE_HOST_RAW);
}

static void test_epochs(void **state)
{
	struct pvclock pv = { .version = 2, .tsc_timestamp = 1000000, .system_time = 5000,
			      .mul = 1U << 31, .flags = PVCLOCK_TSC_STABLE };
	struct epoch_vm *vm = epoch_vm_new(1000000);
	struct tsc_map m = { 0, 0, 0 };
	struct clock_route r;
	struct clock_ctx x;
	uint64_t lo, hi;

	(void)state;
	assert_non_null(vm);
	assert_int_equal(epoch_vm_read(vm, 4, 1000000, &m), 0);
	ctx_fill(&x);
	x.epochs = epoch_vm_find(vm, 4);
	set(&x, CLOCK_EDGE_EPOCHS);
	assert_int_equal(clock_ctx_set(&x, CLOCK_EDGE_EPOCH_KVMCLOCK), -ENODATA);
	assert_int_equal(epoch_vm_pvclock(vm, 4, 1500000, &pv), 0);
	set(&x, CLOCK_EDGE_EPOCH_PV);
	set(&x, CLOCK_EDGE_EPOCH_KVMCLOCK);
	set(&x, CLOCK_EDGE_SCHED);
	x.sched.kvm = 1000;
	assert_int_equal(epoch_vm_write_offset(vm, 4, 3000000, 0, 0 - 1000000ULL), 0);
	assert_int_equal(clock_route_find(&x, CLK_HOST_TSC, CLK_GUEST_LOCAL, &r, NULL), 0);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.hop[0].edge, CLOCK_EDGE_EPOCH_KVMCLOCK);
	assert_int_equal(clock_route_convert(&r, 2000000, &lo, &hi), 0);
	assert_int_equal(lo, 504000);
	assert_int_equal(clock_route_convert(&r, 1400000, &lo, &hi), CLOCK_FLAG_BORROWED);
	assert_int_equal(lo, 204000);
	assert_int_equal(clock_route_convert(&r, 999999, &lo, &hi), -ENODATA);
	assert_int_equal(clock_convert(&x, CLK_GUEST_TSC, CLK_HOST_TSC, 1999999, &lo, &hi, NULL), 0);
	assert_true(lo == 1999999 && hi == 1999999);
	assert_int_equal(clock_convert(&x, CLK_GUEST_TSC, CLK_HOST_TSC, 2000000, &lo, &hi, NULL),
			 -ENOTUNIQ);
	assert_int_equal(clock_convert(&x, CLK_GUEST_TSC, CLK_KVMCLOCK, 1600000, &lo, &hi, NULL), 0);
	assert_int_equal(lo, 305000);
	assert_int_equal(clock_convert(&x, CLK_GUEST_LOCAL, CLK_GUEST_TSC, 304000, &lo, &hi, NULL), 0);
	assert_true(lo == 1600000 && hi == 1600001);
	m.offset = 5;
	assert_int_equal(epoch_vm_check_end(vm, 4, &m), EPOCH_NOTE_LOST_EVENTS);
	assert_int_equal(clock_convert(&x, CLK_HOST_TSC, CLK_GUEST_TSC, 3000000, &lo, &hi, NULL),
			 CLOCK_FLAG_DOUBTFUL);
	assert_int_equal(lo, 2000000);
	epoch_vm_free(vm);
}

/* Any constants that clock_ctx_set() accepts, any value: no undefined behaviour, lo <= hi. */
static void test_hostile(void **state)
{
	uint64_t seed = 50, lo, hi;
	int k, a, b, e, worked = 0;

	(void)state;
	for (k = 0; k < 400; k++) {
		struct clock_ctx x;

		memset(&x, 0, sizeof(x));
		x.map = (struct tsc_map){ prng_any(&seed), prng_any(&seed), k % 2 ? 48 : 32 };
		x.pv = (struct pvclock){ .tsc_timestamp = prng_any(&seed),
					 .system_time = prng_any(&seed), .mul = (uint32_t)prng(&seed),
					 .shift = (int8_t)(int)(prng(&seed) % 256 - 128) };
		x.sched = (struct sched_offsets){ prng(&seed), prng(&seed) };
		x.host_cyc2ns = (struct cyc2ns){ prng(&seed), (uint32_t)prng_any(&seed),
						 (uint8_t)(prng(&seed) % 40) };
		x.host_raw = (struct mono_raw){ prng(&seed), prng(&seed), prng(&seed),
						(uint32_t)prng_any(&seed), (uint8_t)(prng(&seed) % 40) };
		x.guest_raw = x.host_raw;
		x.guest_cyc2ns = x.host_cyc2ns;
		x.host_kernel_offset = prng(&seed);
		x.no_kvmclock = prng(&seed) & 1;
		for (e = 0; e < CLOCK_EDGE_NR; e++) {
			clock_ctx_set(&x, (enum clock_edge)e);
			x.err_ns[e] = prng(&seed) % 4 ? 0 : prng_any(&seed);
		}
		for (a = 0; a < CLK_NR; a++) {
			for (b = 0; b < CLK_NR; b++) {
				int ret = clock_convert(&x, (enum clock_id)a, (enum clock_id)b,
							prng_any(&seed), &lo, &hi, NULL);

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
		cmocka_unit_test(test_edges_described),
		cmocka_unit_test(test_all_connected),
		cmocka_unit_test(test_missing_named),
		cmocka_unit_test(test_set_checks),
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_monotone),
		cmocka_unit_test(test_skipped),
		cmocka_unit_test(test_errors_widen),
		cmocka_unit_test(test_before_zero),
		cmocka_unit_test(test_guest_raw),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests_name("clock graph", tests, NULL, NULL);
}
