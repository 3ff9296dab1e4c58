/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clockgraph.h: from any clock of a host or guest to any other.
 *
 * Clocks are nodes; the conversions of clock.h and epoch.h are edges between them.  A struct
 * clock_ctx holds the parameters that are known, clock_route_find() finds the way once, and
 * clock_route_convert() then goes it for each value.  What is not known has a name: the missing
 * edge, with a text that says how to get it.
 *
 * All ways lead through the TSC, or through kvmclock inside of a guest; two clocks that merely
 * tick at nearly the same rate are never connected.
 */
#ifndef KVMFT_CLOCKGRAPH_H
#define KVMFT_CLOCKGRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "kvmft/clock.h"
#include "kvmft/epoch.h"

/* TSCs count cycles, all others ns. */
enum clock_id {
	CLK_HOST_TSC,
	CLK_GUEST_TSC,
	CLK_KVMCLOCK,
	CLK_GUEST_LOCAL,
	CLK_GUEST_GLOBAL,
	CLK_GUEST_PERF,
	CLK_GUEST_MONO,
	CLK_GUEST_MONO_RAW,
	CLK_GUEST_BOOT,
	CLK_GUEST_REALTIME,
	CLK_HOST_LOCAL,
	CLK_HOST_GLOBAL,
	CLK_HOST_PERF,
	CLK_HOST_MONO,
	CLK_HOST_MONO_RAW,
	CLK_HOST_BOOT,
	CLK_HOST_REALTIME,
	CLK_NR,
};

enum clock_side { CLOCK_SIDE_ANY, CLOCK_SIDE_HOST, CLOCK_SIDE_GUEST };

/* "host-tsc", "guest-tsc", "kvmclock", "guest-local", "host-mono_raw", ...; NULL outside. */
const char *clock_name(enum clock_id id);

/* Does the clock count TSC cycles rather than ns? */
bool clock_in_cycles(enum clock_id id);

/*
 * The clock called @name.  A name without prefix that exists on both sides ("local", "mono_raw",
 * "tsc", and the kernel's spelling "x86-tsc") needs a @side.
 * 0; -ENOENT: no such clock; -ENOTUNIQ: on both sides and CLOCK_SIDE_ANY was given.
 */
int clock_by_name(const char *name, enum clock_side side, enum clock_id *id);

/*
 * Does this trace clock, as the kernel names it, count ns? Not so x86-tsc, counter, uptime and
 * unknown ones. (perf has realtime, too.)
 */
bool clock_trace_is_ns(const char *name);

/* One kind of knowledge each.  The first clock named is the nearer one to the TSC. */
enum clock_edge {
	CLOCK_EDGE_TSC_MAP,		/* host-tsc - guest-tsc: .map */
	CLOCK_EDGE_EPOCHS,		/* host-tsc - guest-tsc: .epochs */
	CLOCK_EDGE_PVCLOCK,		/* guest-tsc - kvmclock: .pv */
	CLOCK_EDGE_EPOCH_PV,		/* guest-tsc - kvmclock: .epochs */
	CLOCK_EDGE_EPOCH_KVMCLOCK,	/* host-tsc - kvmclock: .epochs */
	CLOCK_EDGE_SCHED,		/* kvmclock - guest-local: .sched.kvm */
	CLOCK_EDGE_GUEST_CYC2NS,	/* guest-tsc - guest-local: .guest_cyc2ns (no-kvmclock) */
	CLOCK_EDGE_GUEST_LOCAL_PIECES,	/* guest-tsc - guest-local: .pieces[CLK_GUEST_LOCAL] */
	CLOCK_EDGE_GUEST_GLOBAL,	/* guest-local - guest-global: .sched.kernel */
	CLOCK_EDGE_GUEST_PERF,		/* guest-local - guest-perf: .sched.kernel */
	CLOCK_EDGE_GUEST_GLOBAL_PIECES, /* guest-tsc - guest-global: .pieces[CLK_GUEST_GLOBAL] */
	CLOCK_EDGE_GUEST_PERF_PIECES,	/* guest-tsc - guest-perf: .pieces[CLK_GUEST_PERF] */
	CLOCK_EDGE_GUEST_RAW,		/* guest-tsc - guest-mono_raw: .guest_raw */
	CLOCK_EDGE_GUEST_RAW_KVM, /* kvmclock - guest-mono_raw: .guest_raw, clocksource kvm-clock */
	CLOCK_EDGE_GUEST_RAW_PIECES, /* guest-tsc - guest-mono_raw: .pieces[] */
	CLOCK_EDGE_GUEST_MONO,	     /* guest-tsc - guest-mono: .pieces[] */
	CLOCK_EDGE_GUEST_BOOT,
	CLOCK_EDGE_GUEST_REALTIME,
	CLOCK_EDGE_HOST_CYC2NS,	       /* host-tsc - host-local: .host_cyc2ns */
	CLOCK_EDGE_HOST_LOCAL_PIECES,  /* host-tsc - host-local: .pieces[CLK_HOST_LOCAL] */
	CLOCK_EDGE_HOST_GLOBAL,	       /* host-local - host-global: .host_kernel_offset */
	CLOCK_EDGE_HOST_PERF,	       /* host-local - host-perf: .host_kernel_offset */
	CLOCK_EDGE_HOST_GLOBAL_PIECES, /* host-tsc - host-global: .pieces[CLK_HOST_GLOBAL] */
	CLOCK_EDGE_HOST_PERF_PIECES,   /* host-tsc - host-perf: .pieces[CLK_HOST_PERF] */
	CLOCK_EDGE_HOST_RAW,	       /* host-tsc - host-mono_raw: .host_raw */
	CLOCK_EDGE_HOST_RAW_PIECES,    /* host-tsc - host-mono_raw: .pieces[] */
	CLOCK_EDGE_HOST_MONO,	       /* host-tsc - host-mono: .pieces[] */
	CLOCK_EDGE_HOST_BOOT,
	CLOCK_EDGE_HOST_REALTIME,
	CLOCK_EDGE_NR,
};

/* Description of an edge, for messages: "no WHAT for VM x: REMEDY". */
struct clock_edge_info {
	enum clock_id from, to;
	const char *what;		/* "pvclock record" */
	const char *remedy;		/* where to get it */
};

/* Never NULL for an edge of the enum, NULL outside. */
const struct clock_edge_info *clock_edge_info(enum clock_edge edge);

/*
 * What is known about one host and one vCPU of one guest.  Zero it, fill in what there is and
 * name that with clock_ctx_set(); the rest is not looked at.
 */
struct clock_ctx {
	uint32_t known;			/* bit set of enum clock_edge */
	bool no_kvmclock;		/* the guest's sched_clock is its TSC, not kvmclock */
	struct tsc_map map;
	const struct epoch_vcpu *epochs;	/* borrowed */
	struct pvclock pv;
	struct sched_offsets sched;
	struct cyc2ns guest_cyc2ns, host_cyc2ns;
	struct mono_raw guest_raw, host_raw;
	uint64_t host_kernel_offset;	/* the host's __sched_clock_offset, ns, signed */
	struct clock_pieces pieces[CLK_NR];	/* by the clock they describe */
	uint64_t err_ns[CLOCK_EDGE_NR];	/* error of an edge's constants: widens every result */
};

/*
 * The parameters of @edge are filled in: check them and use them from now on.
 * 0; -EINVAL: no such edge, or no epochs or pieces were filled in; -ENODATA: the epochs hold no
 * pvclock record (CLOCK_EDGE_EPOCH_PV, _EPOCH_KVMCLOCK); or the error of the _check() function of
 * that parameter (pvclock_check_body() for the record).
 * With epochs, set all three of their edges: host-tsc to kvmclock then uses the record in force at
 * that host time, which the detour over the guest TSC would have to find again.
 */
int clock_ctx_set(struct clock_ctx *ctx, enum clock_edge edge);

/* Is @edge known and of use, given no_kvmclock? */
bool clock_ctx_has(const struct clock_ctx *ctx, enum clock_edge edge);

enum { CLOCK_ROUTE_MAX = 8 };

/* A way through the graph.  Borrows its ctx, whose parameters (not edges) may still change. */
struct clock_route {
	const struct clock_ctx *ctx;
	unsigned int n;
	struct clock_hop {
		uint8_t edge;
		bool reverse;		/* from the edge's second clock to its first */
	} hop[CLOCK_ROUTE_MAX];
};

/*
 * Find the shortest way over the edges known; of equally short ones that with the edges named
 * first in the enum.  A clock to itself is an empty way.
 * 0; -EINVAL: no such clock; -ENOLINK: not connected, *missing (may be NULL) is the first edge to
 * be learned on the usual way.
 */
int clock_route_find(const struct clock_ctx *ctx, enum clock_id from, enum clock_id to,
		     struct clock_route *route, enum clock_edge *missing);

/* Ways in which a conversion that worked may be less than exact; a bit set. */
enum clock_flag {
	CLOCK_FLAG_SKIPPED = 1 << 0,	/* never read by a clock on the way; took the next tick */
	CLOCK_FLAG_EXTRAPOLATED = 1 << 1,	/* outside of the samples of a piecewise map */
	CLOCK_FLAG_BORROWED = 1 << 2,	/* EPOCH_BORROWED */
	CLOCK_FLAG_DOUBTFUL = 1 << 3,	/* EPOCH_DOUBTFUL */
};

/*
 * Convert @value: the true result lies in [*lo, *hi], lo <= hi.  Returns a bit set of enum
 * clock_flag, or: -ENOTUNIQ: several results are possible; -ENODATA: no epoch, record or sample
 * covers it; -ERANGE: outside of a clock on the way; -EOVERFLOW: too far from the pvclock record.
 * A guest TSC from before the guest (host-tsc converted backwards past zero) wraps like the
 * hardware's subtraction would; every clock behind it then answers -ERANGE.
 */
int clock_route_convert(const struct clock_route *route, uint64_t value, uint64_t *lo,
			uint64_t *hi);

/* Both at once, for a single value: errors of both. */
int clock_convert(const struct clock_ctx *ctx, enum clock_id from, enum clock_id to,
		  uint64_t value, uint64_t *lo, uint64_t *hi, enum clock_edge *missing);

#endif
