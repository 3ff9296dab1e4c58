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
#include "kvmft/util.h"

/*
 * The clocks, the edges between them, and the way from one clock to another.
 */

static const char *const clock_names[CLK_NR] = {
	[CLK_HOST_TSC] = "host-tsc",
	[CLK_GUEST_TSC] = "guest-tsc",
	[CLK_KVMCLOCK] = "kvmclock",
	[CLK_GUEST_LOCAL] = "guest-local",
	[CLK_GUEST_GLOBAL] = "guest-global",
	[CLK_GUEST_PERF] = "guest-perf",
	[CLK_GUEST_MONO] = "guest-mono",
	[CLK_GUEST_MONO_RAW] = "guest-mono_raw",
	[CLK_GUEST_BOOT] = "guest-boot",
	[CLK_GUEST_REALTIME] = "guest-realtime",
	[CLK_HOST_LOCAL] = "host-local",
	[CLK_HOST_GLOBAL] = "host-global",
	[CLK_HOST_PERF] = "host-perf",
	[CLK_HOST_MONO] = "host-mono",
	[CLK_HOST_MONO_RAW] = "host-mono_raw",
	[CLK_HOST_BOOT] = "host-boot",
	[CLK_HOST_REALTIME] = "host-realtime",
};

/* Texts shared by several edges; each completes "no WHAT: ". */
#define SAMPLES_REMEDY	"record with kvmft, which samples this clock along with the TSC"
#define OFFSET_REMEDY	"run `kvmft guest-offset` in the guest and pass --sched-offset"
#define KERNEL_REMEDY	"run `kvmft guest-offset` in the guest and pass --kernel-sched-offset, " \
			"or record with the clock local or x86-tsc"

static const struct clock_edge_info edges[CLOCK_EDGE_NR] = {
	[CLOCK_EDGE_TSC_MAP] = { CLK_HOST_TSC, CLK_GUEST_TSC, "TSC offset",
		"record on the host as root with debugfs mounted, or pass --tsc-offset "
		"(and --tsc-ratio if the guest's TSC is scaled)" },
	[CLOCK_EDGE_EPOCHS] = { CLK_HOST_TSC, CLK_GUEST_TSC, "TSC offset history",
		"record on the host with kvm:kvm_write_tsc_offset" },
	[CLOCK_EDGE_PVCLOCK] = { CLK_GUEST_TSC, CLK_KVMCLOCK, "pvclock record",
		"run `kvmft guest-offset` in the guest and pass --pvclock, or record the guest "
		"with the clock x86-tsc, which needs none" },
	[CLOCK_EDGE_EPOCH_PV] = { CLK_GUEST_TSC, CLK_KVMCLOCK, "pvclock record history",
		"record on the host with kvm:kvm_pvclock_update" },
	[CLOCK_EDGE_EPOCH_KVMCLOCK] = { CLK_HOST_TSC, CLK_KVMCLOCK, "pvclock record history",
		"record on the host with kvm:kvm_pvclock_update" },
	[CLOCK_EDGE_SCHED] = { CLK_KVMCLOCK, CLK_GUEST_LOCAL, "kvm_sched_clock_offset",
		OFFSET_REMEDY },
	[CLOCK_EDGE_GUEST_CYC2NS] = { CLK_GUEST_TSC, CLK_GUEST_LOCAL,
		"sched_clock line of the guest's TSC",
		"record the guest with kvmft, which samples its clock, or pass --sched-line" },
	[CLOCK_EDGE_GUEST_LOCAL_PIECES] = { CLK_GUEST_TSC, CLK_GUEST_LOCAL,
		"samples of the guest's local clock", SAMPLES_REMEDY },
	[CLOCK_EDGE_GUEST_GLOBAL] = { CLK_GUEST_LOCAL, CLK_GUEST_GLOBAL, "__sched_clock_offset",
		KERNEL_REMEDY },
	[CLOCK_EDGE_GUEST_PERF] = { CLK_GUEST_LOCAL, CLK_GUEST_PERF, "__sched_clock_offset",
		KERNEL_REMEDY },
	[CLOCK_EDGE_GUEST_GLOBAL_PIECES] = { CLK_GUEST_TSC, CLK_GUEST_GLOBAL,
		"samples of the guest's global clock", SAMPLES_REMEDY },
	[CLOCK_EDGE_GUEST_PERF_PIECES] = { CLK_GUEST_TSC, CLK_GUEST_PERF,
		"samples of the guest's perf clock", SAMPLES_REMEDY },
	[CLOCK_EDGE_GUEST_RAW] = { CLK_GUEST_TSC, CLK_GUEST_MONO_RAW,
		"CLOCK_MONOTONIC_RAW line of the guest",
		"record the guest with kvmft, or pass --mono-raw" },
	[CLOCK_EDGE_GUEST_RAW_KVM] = { CLK_KVMCLOCK, CLK_GUEST_MONO_RAW,
		"CLOCK_MONOTONIC_RAW line of the guest over kvm-clock",
		"record the guest with kvmft, or pass --mono-raw" },
	[CLOCK_EDGE_GUEST_RAW_PIECES] = { CLK_GUEST_TSC, CLK_GUEST_MONO_RAW,
		"samples of the guest's CLOCK_MONOTONIC_RAW", SAMPLES_REMEDY },
	[CLOCK_EDGE_GUEST_MONO] = { CLK_GUEST_TSC, CLK_GUEST_MONO,
		"samples of the guest's CLOCK_MONOTONIC", SAMPLES_REMEDY },
	[CLOCK_EDGE_GUEST_BOOT] = { CLK_GUEST_TSC, CLK_GUEST_BOOT,
		"samples of the guest's CLOCK_BOOTTIME", SAMPLES_REMEDY },
	[CLOCK_EDGE_GUEST_REALTIME] = { CLK_GUEST_TSC, CLK_GUEST_REALTIME,
		"samples of the guest's CLOCK_REALTIME", SAMPLES_REMEDY },
	[CLOCK_EDGE_HOST_CYC2NS] = { CLK_HOST_TSC, CLK_HOST_LOCAL,
		"sched_clock line of the host's TSC",
		"record the host with kvmft, which samples its clock, or pass --sched-line" },
	[CLOCK_EDGE_HOST_LOCAL_PIECES] = { CLK_HOST_TSC, CLK_HOST_LOCAL,
		"samples of the host's local clock", SAMPLES_REMEDY },
	[CLOCK_EDGE_HOST_GLOBAL] = { CLK_HOST_LOCAL, CLK_HOST_GLOBAL,
		"__sched_clock_offset of the host", SAMPLES_REMEDY },
	[CLOCK_EDGE_HOST_PERF] = { CLK_HOST_LOCAL, CLK_HOST_PERF,
		"__sched_clock_offset of the host", SAMPLES_REMEDY },
	[CLOCK_EDGE_HOST_GLOBAL_PIECES] = { CLK_HOST_TSC, CLK_HOST_GLOBAL,
		"samples of the host's global clock", SAMPLES_REMEDY },
	[CLOCK_EDGE_HOST_PERF_PIECES] = { CLK_HOST_TSC, CLK_HOST_PERF,
		"samples of the host's perf clock", SAMPLES_REMEDY },
	[CLOCK_EDGE_HOST_RAW] = { CLK_HOST_TSC, CLK_HOST_MONO_RAW,
		"CLOCK_MONOTONIC_RAW line of the host",
		"record the host with kvmft, or pass --mono-raw" },
	[CLOCK_EDGE_HOST_RAW_PIECES] = { CLK_HOST_TSC, CLK_HOST_MONO_RAW,
		"samples of the host's CLOCK_MONOTONIC_RAW", SAMPLES_REMEDY },
	[CLOCK_EDGE_HOST_MONO] = { CLK_HOST_TSC, CLK_HOST_MONO,
		"samples of the host's CLOCK_MONOTONIC", SAMPLES_REMEDY },
	[CLOCK_EDGE_HOST_BOOT] = { CLK_HOST_TSC, CLK_HOST_BOOT,
		"samples of the host's CLOCK_BOOTTIME", SAMPLES_REMEDY },
	[CLOCK_EDGE_HOST_REALTIME] = { CLK_HOST_TSC, CLK_HOST_REALTIME,
		"samples of the host's CLOCK_REALTIME", SAMPLES_REMEDY },
};

/* Edges that replace another one; no message asks for them. */
#define BIT(e)	(1U << CLOCK_EDGE_##e)
#define STAND_INS (BIT(EPOCHS) | BIT(EPOCH_PV) | BIT(EPOCH_KVMCLOCK) | BIT(GUEST_LOCAL_PIECES) | \
		   BIT(GUEST_RAW_KVM) | BIT(GUEST_RAW_PIECES) | BIT(HOST_LOCAL_PIECES) | \
		   BIT(HOST_RAW_PIECES) | BIT(GUEST_GLOBAL_PIECES) | BIT(GUEST_PERF_PIECES) | \
		   BIT(HOST_GLOBAL_PIECES) | BIT(HOST_PERF_PIECES))

_Static_assert(CLOCK_EDGE_NR <= 32, "struct clock_ctx.known holds one bit per edge");

const char *clock_name(enum clock_id id)
{
	return (unsigned int)id < CLK_NR ? clock_names[id] : NULL;
}

bool clock_in_cycles(enum clock_id id)
{
	return id == CLK_HOST_TSC || id == CLK_GUEST_TSC;
}

bool clock_trace_is_ns(const char *name)
{
	static const char *const ns[] = { "local",    "global", "perf", "mono",
					  "mono_raw", "boot",	"tai",	"realtime",
					  "unknown" /* of text, and of perf */ };

	for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++)
		if (!strcmp(ns[i], name))
			return true;
	return false;
}

/* Is @full the name @name with the prefix @prefix? */
static bool prefixed(const char *full, const char *prefix, const char *name)
{
	size_t n = strlen(prefix);

	return !strncmp(full, prefix, n) && !strcmp(full + n, name);
}

int clock_by_name(const char *name, enum clock_side side, enum clock_id *id)
{
	int host = -1, guest = -1, i;

	if (!strcmp(name, "x86-tsc"))
		name = "tsc";
	for (i = 0; i < CLK_NR; i++) {
		if (!strcmp(clock_names[i], name)) {
			*id = (enum clock_id)i;
			return 0;
		}
		if (prefixed(clock_names[i], "host-", name))
			host = i;
		if (prefixed(clock_names[i], "guest-", name))
			guest = i;
	}
	if (host < 0 || guest < 0)
		return -ENOENT;
	if (side == CLOCK_SIDE_ANY)
		return -ENOTUNIQ;
	*id = (enum clock_id)(side == CLOCK_SIDE_HOST ? host : guest);
	return 0;
}

const struct clock_edge_info *clock_edge_info(enum clock_edge edge)
{
	return (unsigned int)edge < CLOCK_EDGE_NR ? &edges[edge] : NULL;
}

/* Edges that do not fit this kind of guest, whether known or not. */
static uint32_t ruled_out(const struct clock_ctx *ctx)
{
	return ctx->no_kvmclock ? BIT(SCHED) : BIT(GUEST_CYC2NS);
}

bool clock_ctx_has(const struct clock_ctx *ctx, enum clock_edge edge)
{
	return (unsigned int)edge < CLOCK_EDGE_NR &&
	       ((ctx->known & ~ruled_out(ctx)) >> edge & 1);
}

/*
 * Breadth first from @from over the edges in @usable; route->n is 0 and the result -ENOLINK if @to
 * is out of reach.  Edges are tried in table order, which is the order of preference.
 */
static int search(uint32_t usable, enum clock_id from, enum clock_id to,
		  struct clock_route *route)
{
	struct clock_hop via[CLK_NR];
	enum clock_id prev[CLK_NR], queue[CLK_NR], at;
	bool seen[CLK_NR] = { false };
	unsigned int head = 0, tail = 0, n = 0, e;

	route->n = 0;
	seen[from] = true;
	queue[tail++] = from;
	while (head < tail && !seen[to]) {
		at = queue[head++];
		for (e = 0; e < CLOCK_EDGE_NR; e++) {
			bool reverse = edges[e].to == at;
			enum clock_id next = reverse ? edges[e].from : edges[e].to;

			if (!(usable >> e & 1) || (!reverse && edges[e].from != at) || seen[next])
				continue;
			seen[next] = true;
			prev[next] = at;
			via[next] = (struct clock_hop){ (uint8_t)e, reverse };
			queue[tail++] = next;
		}
	}
	if (!seen[to])
		return -ENOLINK;
	for (at = to; at != from; at = prev[at])
		n++;
	if (n > CLOCK_ROUTE_MAX)
		return -ENOLINK;
	route->n = n;
	for (at = to; at != from; at = prev[at])
		route->hop[--n] = via[at];
	return 0;
}

/* Edges that need not be learned, because a known one links the same two clocks. */
static uint32_t replaced(uint32_t known)
{
	uint32_t set = 0;
	unsigned int i, k;

	for (i = 0; i < CLOCK_EDGE_NR; i++) {
		const struct clock_edge_info *e = clock_edge_info((enum clock_edge)i);

		for (k = 0; k < CLOCK_EDGE_NR; k++) {
			const struct clock_edge_info *o = clock_edge_info((enum clock_edge)k);

			if ((known >> k & 1) && k != i && o->from == e->from && o->to == e->to)
				set |= 1u << i;
		}
	}
	return set & ~known;
}

/* First unknown edge on the usual way. */
static enum clock_edge first_missing(const struct clock_ctx *ctx, enum clock_id from,
				     enum clock_id to)
{
	uint32_t known = ctx->known & ~ruled_out(ctx);
	/* what is known counts, whatever its kind: only the rest of the way has to be learned */
	uint32_t usable = (~(uint32_t)STAND_INS & ~ruled_out(ctx) & ~replaced(known)) | known;
	struct clock_route usual;
	unsigned int i;

	if (!search(usable, from, to, &usual))
		for (i = 0; i < usual.n; i++)
			if (!(known >> usual.hop[i].edge & 1))
				return (enum clock_edge)usual.hop[i].edge;
	return CLOCK_EDGE_TSC_MAP;	/* not reached: the usual edges connect all clocks */
}

int clock_route_find(const struct clock_ctx *ctx, enum clock_id from, enum clock_id to,
		     struct clock_route *route, enum clock_edge *missing)
{
	int err;

	if ((unsigned int)from >= CLK_NR || (unsigned int)to >= CLK_NR)
		return -EINVAL;
	route->ctx = ctx;
	err = search(ctx->known & ~ruled_out(ctx), from, to, route);
	if (err && missing)
		*missing = first_missing(ctx, from, to);
	return err;
}

int clock_convert(const struct clock_ctx *ctx, enum clock_id from, enum clock_id to,
		  uint64_t value, uint64_t *lo, uint64_t *hi, enum clock_edge *missing)
{
	struct clock_route route;
	int err = clock_route_find(ctx, from, to, &route, missing);

	return err ?: clock_route_convert(&route, value, lo, hi);
}

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
