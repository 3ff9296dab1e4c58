/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * convert.c: carries a value along a route of the clock graph.
 *
 * Each edge has a function for either direction that maps one value to a range.  A range goes
 * through an edge by its two ends, since every edge is monotone.  Widening by an edge's error
 * happens on its ns side.
 */
#include "kvmft/clockgraph.h"
#include "wide.h"

typedef int (*edge_fn)(const struct clock_ctx *ctx, enum clock_id clk, uint64_t v, uint64_t *lo,
		       uint64_t *hi);

/* An edge found exactly one value. */
static int single(int err, uint64_t *lo, uint64_t *hi)
{
	if (!err)
		*hi = *lo;
	return err;
}

/* An edge found a preimage: empty means that the value never was read. */
static int preimage(int err, uint64_t *lo, uint64_t *hi)
{
	if (err || *hi >= *lo)
		return err;
	*hi = *lo;
	return CLOCK_FLAG_SKIPPED;
}

/* Signed constant between two ns clocks; no stamp is before the zero of either. */
static int shifted(uint64_t v, uint64_t constant, bool subtract, uint64_t *lo, uint64_t *hi)
{
	s128 c = (int64_t)constant;

	return single(wide_store((s128)v + (subtract ? -c : c), lo), lo, hi);
}

static int from_epoch(enum epoch_result r)
{
	switch (r) {
	case EPOCH_EXACT:
		return 0;
	case EPOCH_BORROWED:
		return CLOCK_FLAG_BORROWED;
	case EPOCH_DOUBTFUL:
		return CLOCK_FLAG_DOUBTFUL;
	case EPOCH_AMBIGUOUS:
		return -ENOTUNIQ;
	case EPOCH_RANGE:
		return -ERANGE;
	case EPOCH_NONE:
	case EPOCH_BEFORE_FIRST:
	case EPOCH_NO_MAP:
	case EPOCH_NO_RECORD:
	case EPOCH_NR_RESULTS:
		break;
	}
	return -ENODATA;
}

/* As single(), for the results of epochs. */
static int single_epoch(enum epoch_result r, uint64_t *lo, uint64_t *hi)
{
	if (epoch_result_usable(r))
		*hi = *lo;
	return from_epoch(r);
}

/* Only some of them need to know which clock is meant. */
#define EDGE_FN(name) static int name(const struct clock_ctx *ctx, \
				      __attribute__((unused)) enum clock_id clk, uint64_t v, \
				      uint64_t *lo, uint64_t *hi)

EDGE_FN(map_fwd)
{
	*lo = *hi = tsc_to_guest(&ctx->map, v);
	return 0;
}

EDGE_FN(map_back)
{
	return preimage(tsc_to_host(&ctx->map, v, lo, hi), lo, hi);
}

EDGE_FN(epochs_fwd)
{
	return single_epoch(epoch_host_to_guest(ctx->epochs, v, lo), lo, hi);
}

EDGE_FN(epochs_back)
{
	return from_epoch(epoch_guest_to_host(ctx->epochs, v, lo, hi));
}

EDGE_FN(pvclock_fwd)
{
	return single(pvclock_to_ns(&ctx->pv, v, lo), lo, hi);
}

EDGE_FN(pvclock_back)
{
	return preimage(pvclock_to_tsc_range(&ctx->pv, v, lo, hi), lo, hi);
}

EDGE_FN(epoch_pv_fwd)
{
	return single_epoch(epoch_guest_to_kvmclock(ctx->epochs, v, lo), lo, hi);
}

EDGE_FN(epoch_pv_back)
{
	return from_epoch(epoch_kvmclock_to_guest(ctx->epochs, v, lo, hi));
}

EDGE_FN(epoch_kvmclock_fwd)
{
	return single_epoch(epoch_host_to_kvmclock(ctx->epochs, v, lo), lo, hi);
}

EDGE_FN(epoch_kvmclock_back)
{
	return from_epoch(epoch_kvmclock_to_host(ctx->epochs, v, lo, hi));
}

EDGE_FN(sched_fwd)
{
	return shifted(v, ctx->sched.kvm, true, lo, hi);
}

EDGE_FN(sched_back)
{
	return shifted(v, ctx->sched.kvm, false, lo, hi);
}

/* local_clock() and sched_clock_cpu() add __sched_clock_offset to sched_clock(), on either side */
static uint64_t kernel_offset(const struct clock_ctx *ctx, enum clock_id clk)
{
	return clk == CLK_HOST_GLOBAL || clk == CLK_HOST_PERF ? ctx->host_kernel_offset :
								ctx->sched.kernel;
}

EDGE_FN(kernel_fwd)
{
	return shifted(v, kernel_offset(ctx, clk), false, lo, hi);
}

EDGE_FN(kernel_back)
{
	return shifted(v, kernel_offset(ctx, clk), true, lo, hi);
}

static const struct cyc2ns *cyc2ns_of(const struct clock_ctx *ctx, enum clock_id clk)
{
	return clk == CLK_HOST_LOCAL ? &ctx->host_cyc2ns : &ctx->guest_cyc2ns;
}

EDGE_FN(cyc2ns_fwd)
{
	const struct cyc2ns *c = cyc2ns_of(ctx, clk);

	return shifted(cyc2ns_to_ns(c, v) - c->offset, c->offset, false, lo, hi);
}

EDGE_FN(cyc2ns_back)
{
	const struct cyc2ns *c = cyc2ns_of(ctx, clk);
	int err = shifted(v, c->offset, true, lo, hi);	/* only to refuse times before TSC zero */

	return err ?: preimage(cyc2ns_to_tsc_range(c, v, lo, hi), lo, hi);
}

static const struct mono_raw *raw_of(const struct clock_ctx *ctx, enum clock_id clk)
{
	return clk == CLK_HOST_MONO_RAW ? &ctx->host_raw : &ctx->guest_raw;
}

EDGE_FN(raw_fwd)
{
	return single(mono_raw_to_ns(raw_of(ctx, clk), v, lo), lo, hi);
}

EDGE_FN(raw_back)
{
	return preimage(mono_raw_to_cyc_range(raw_of(ctx, clk), v, lo, hi), lo, hi);
}

EDGE_FN(pieces_fwd)
{
	int ret = clock_pieces_to_ns(&ctx->pieces[clk], v, lo, hi);

	return ret > 0 ? CLOCK_FLAG_EXTRAPOLATED : ret;
}

EDGE_FN(pieces_back)
{
	int ret = clock_pieces_to_tsc(&ctx->pieces[clk], v, lo, hi);

	return ret > 0 ? CLOCK_FLAG_EXTRAPOLATED : ret;
}

#define PIECES	{ pieces_fwd, pieces_back }

static const struct {
	edge_fn fwd, back;
} edge_fns[CLOCK_EDGE_NR] = {
	[CLOCK_EDGE_TSC_MAP] = { map_fwd, map_back },
	[CLOCK_EDGE_EPOCHS] = { epochs_fwd, epochs_back },
	[CLOCK_EDGE_PVCLOCK] = { pvclock_fwd, pvclock_back },
	[CLOCK_EDGE_EPOCH_PV] = { epoch_pv_fwd, epoch_pv_back },
	[CLOCK_EDGE_EPOCH_KVMCLOCK] = { epoch_kvmclock_fwd, epoch_kvmclock_back },
	[CLOCK_EDGE_SCHED] = { sched_fwd, sched_back },
	[CLOCK_EDGE_GUEST_CYC2NS] = { cyc2ns_fwd, cyc2ns_back },
	[CLOCK_EDGE_GUEST_LOCAL_PIECES] = PIECES,
	[CLOCK_EDGE_GUEST_GLOBAL] = { kernel_fwd, kernel_back },
	[CLOCK_EDGE_GUEST_PERF] = { kernel_fwd, kernel_back },
	[CLOCK_EDGE_GUEST_GLOBAL_PIECES] = PIECES,
	[CLOCK_EDGE_GUEST_PERF_PIECES] = PIECES,
	[CLOCK_EDGE_GUEST_RAW] = { raw_fwd, raw_back },
	[CLOCK_EDGE_GUEST_RAW_KVM] = { raw_fwd, raw_back },
	[CLOCK_EDGE_GUEST_RAW_PIECES] = PIECES,
	[CLOCK_EDGE_GUEST_MONO] = PIECES,
	[CLOCK_EDGE_GUEST_BOOT] = PIECES,
	[CLOCK_EDGE_GUEST_REALTIME] = PIECES,
	[CLOCK_EDGE_HOST_CYC2NS] = { cyc2ns_fwd, cyc2ns_back },
	[CLOCK_EDGE_HOST_LOCAL_PIECES] = PIECES,
	[CLOCK_EDGE_HOST_GLOBAL] = { kernel_fwd, kernel_back },
	[CLOCK_EDGE_HOST_PERF] = { kernel_fwd, kernel_back },
	[CLOCK_EDGE_HOST_GLOBAL_PIECES] = PIECES,
	[CLOCK_EDGE_HOST_PERF_PIECES] = PIECES,
	[CLOCK_EDGE_HOST_RAW] = { raw_fwd, raw_back },
	[CLOCK_EDGE_HOST_RAW_PIECES] = PIECES,
	[CLOCK_EDGE_HOST_MONO] = PIECES,
	[CLOCK_EDGE_HOST_BOOT] = PIECES,
	[CLOCK_EDGE_HOST_REALTIME] = PIECES,
};

static bool any_record(const struct epoch_vcpu *c)
{
	size_t i;

	for (i = 0; i < c->n; i++)
		if (c->v[i].has_pv)
			return true;
	return false;
}

static int check_edge(const struct clock_ctx *ctx, enum clock_edge edge)
{
	enum clock_id clk = clock_edge_info(edge)->to;

	if (edge_fns[edge].fwd == pieces_fwd)
		return ctx->pieces[clk].v && ctx->pieces[clk].n >= 2 ? 0 : -EINVAL;
	if (edge_fns[edge].fwd == raw_fwd)
		return mono_raw_check(raw_of(ctx, clk));
	if (edge_fns[edge].fwd == cyc2ns_fwd)
		return cyc2ns_check(cyc2ns_of(ctx, clk));
	if (edge == CLOCK_EDGE_TSC_MAP)
		return tsc_map_check(&ctx->map);
	if (edge == CLOCK_EDGE_PVCLOCK)
		return pvclock_check_body(&ctx->pv);
	if (edge == CLOCK_EDGE_EPOCHS)
		return ctx->epochs ? 0 : -EINVAL;
	if (edge == CLOCK_EDGE_EPOCH_PV || edge == CLOCK_EDGE_EPOCH_KVMCLOCK)
		return !ctx->epochs ? -EINVAL : any_record(ctx->epochs) ? 0 : -ENODATA;
	return 0;
}

int clock_ctx_set(struct clock_ctx *ctx, enum clock_edge edge)
{
	int err = clock_edge_info(edge) ? check_edge(ctx, edge) : -EINVAL;

	if (!err)
		ctx->known |= 1U << edge;
	return err;
}

static void widen(uint64_t err, uint64_t *lo, uint64_t *hi)
{
	*lo = *lo > err ? *lo - err : 0;
	*hi = *hi < UINT64_MAX - err ? *hi + err : UINT64_MAX;
}

/* Carry the range [*lo, *hi] over one edge. */
static int cross(const struct clock_ctx *ctx, struct clock_hop hop, uint64_t *lo, uint64_t *hi)
{
	edge_fn fn = hop.reverse ? edge_fns[hop.edge].back : edge_fns[hop.edge].fwd;
	enum clock_id clk = clock_edge_info((enum clock_edge)hop.edge)->to;
	uint64_t err = ctx->err_ns[hop.edge];
	uint64_t first, last, end;
	int a, b = 0;

	if (err && hop.reverse)
		widen(err, lo, hi);
	a = fn(ctx, clk, *lo, &first, &last);
	if (a < 0)
		return a;
	if (*hi != *lo) {
		b = fn(ctx, clk, *hi, &end, &last);
		if (b < 0)
			return b;
		/* the last value inside of the range is the one before that next tick */
		if ((b & CLOCK_FLAG_SKIPPED) && end > first) {
			last = end - 1;
			b &= ~CLOCK_FLAG_SKIPPED;
		}
		if (!(b & CLOCK_FLAG_SKIPPED))
			a &= ~CLOCK_FLAG_SKIPPED;
		if (last < first)
			return -ERANGE;
	}
	*lo = first;
	*hi = last;
	if (err && !hop.reverse)
		widen(err, lo, hi);
	return a | b;
}

int clock_route_convert(const struct clock_route *route, uint64_t value, uint64_t *lo,
			uint64_t *hi)
{
	uint64_t a = value, b = value;
	unsigned int i;
	int flags = 0, ret;

	for (i = 0; i < route->n; i++) {
		ret = cross(route->ctx, route->hop[i], &a, &b);
		if (ret < 0)
			return ret;
		flags |= ret;
	}
	*lo = a;
	*hi = b;
	return flags;
}
