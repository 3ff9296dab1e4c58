/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clockchain.h: from any clock of a host or guest to any other.
 *
 * Each clock follows from one that is nearer to the host's TSC, by what its link says: so the way
 * between two clocks is up from the one to what both share, and down to the other.  Nothing else
 * converts: two clocks that merely tick at nearly the same rate are never linked.  A link that is
 * not known has a name, with a text that says how to get it.
 */
#pragma once

#include "kvmft/clock.h"
#include "kvmft/epoch.h"

/* TSCs count cycles, all others ns.  Each follows from an earlier one. */
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
	CLK_HOST_LOCAL, /* from here on in the order of the guest's */
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

/* Does the clock exist only within a guest?  kvmclock does. */
bool clock_is_guest(enum clock_id id);

/*
 * The clock called @name.  A name without prefix that exists on both sides ("local", "mono_raw",
 * "tsc", and the kernel's spelling "x86-tsc") needs a @side.
 * 0; -ENOENT: no such clock; -ENOTUNIQ: on both sides and CLOCK_SIDE_ANY was given.
 */
int clock_by_name(const char *name, enum clock_side side, enum clock_id *id);

enum clock_way {
	CLOCK_WAY_UNKNOWN,
	CLOCK_WAY_SAME,	  /* it is that clock */
	CLOCK_WAY_MAP,	  /* .map: a guest's TSC over the host's */
	CLOCK_WAY_EPOCHS, /* .epochs: the same; or kvmclock over the guest's TSC */
	CLOCK_WAY_RECORD, /* .pv: kvmclock over the guest's TSC */
	CLOCK_WAY_LATER,  /* .later ns, signed */
	CLOCK_WAY_CYC2NS,
	CLOCK_WAY_RAW,
	CLOCK_WAY_PIECES,
};

/* How a clock follows from another one, @over. */
struct clock_link {
	enum clock_way way;
	enum clock_id over;
	union {
		struct tsc_map map;
		const struct epoch_vcpu *epochs; /* borrowed */
		struct pvclock pv;
		uint64_t later;
		struct cyc2ns line;
		struct mono_raw raw;
		struct clock_pieces pieces;
	};
};

/* Ways in which a conversion that worked may be less than exact; a bit set. */
enum clock_flag {
	CLOCK_FLAG_SKIPPED = 1 << 0,	  /* never read by a clock on the way; took the next tick */
	CLOCK_FLAG_EXTRAPOLATED = 1 << 1, /* outside of the samples of a piecewise map */
	CLOCK_FLAG_BORROWED = 1 << 2,	  /* EPOCH_BORROWED */
	CLOCK_FLAG_DOUBTFUL = 1 << 3,	  /* EPOCH_DOUBTFUL */
};

/*
 * One value over one link but CLOCK_WAY_EPOCHS: what the clock shows at @v of the one that it is
 * over, and back.  [*lo, *hi], never empty.  A set of enum clock_flag, or an error as of
 * clock_route_convert().
 */
int clock_link_down(const struct clock_link *l, uint64_t v, uint64_t *lo, uint64_t *hi);
int clock_link_up(const struct clock_link *l, uint64_t v, uint64_t *lo, uint64_t *hi);

/* What is known about one host and one vCPU of one guest. */
struct clock_chain {
	bool no_kvmclock; /* the guest's sched_clock is its TSC, not kvmclock */
	struct clock_link link[CLK_NR];
};

/*
 * From now on @id follows by @l, whatever was known before.  0; or -EINVAL or another error of the
 * _check() function of its parameters (pvclock_check_body() for a record); -ENODATA: the epochs
 * hold no pvclock record.
 * Where the guest's TSC and kvmclock both follow by epochs, the way between the host's TSC and
 * kvmclock uses the record in force at that host time.
 */
int clock_chain_set(struct clock_chain *c, enum clock_id id, const struct clock_link *l);

enum { CLOCK_ROUTE_MAX = 6 };

/* A way between two clocks.  Borrows the chain, whose parameters may still change. */
struct clock_route {
	const struct clock_chain *chain;
	unsigned int n;
	struct clock_hop {
		uint8_t id; /* the clock whose link it is */
		bool down;  /* to that clock */
		bool two;   /* kvmclock and the guest's TSC, both by epochs */
	} hop[CLOCK_ROUTE_MAX];
};

/*
 * 0; -EINVAL: no such clock; -ENOLINK: not connected, *missing (may be NULL) is the first clock on
 * the way whose link is not known.
 */
int clock_route_find(const struct clock_chain *c, enum clock_id from, enum clock_id to,
		     struct clock_route *route, enum clock_id *missing);

/* For messages: "no WHAT: REMEDY". */
struct clock_missing {
	const char *what, *remedy;
};
struct clock_missing clock_missing(const struct clock_chain *c, enum clock_id id);

/*
 * Convert @value: the true result lies in [*lo, *hi], lo <= hi.  Returns a bit set of enum
 * clock_flag, or: -ENOTUNIQ: several results are possible; -ENODATA: no epoch, record or sample
 * covers it; -ERANGE: outside of a clock on the way; -EOVERFLOW: too far from the pvclock record.
 * A guest TSC from before the guest (host-tsc converted backwards past zero) wraps like the
 * hardware's subtraction would; every clock behind it then answers -ERANGE.
 */
int clock_route_convert(const struct clock_route *route, uint64_t value, uint64_t *lo,
			uint64_t *hi);
