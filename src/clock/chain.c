/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * chain.c: carries a value from clock to clock.
 *
 * A link maps one value to a range, either way.  A range goes over it by its two ends, since every
 * clock is monotone.
 */
#include "kvmft/clock.h"

#include "wide.h"

/* Texts shared by several clocks. */
#define SAMPLED		"record with kvmft, which samples this clock along with the TSC"
#define SAMPLES(clock)	"samples of the " clock, SAMPLED
#define HOST_KERNEL	"__sched_clock_offset of the host", SAMPLED
#define GUEST_KERNEL                                                                      \
	"__sched_clock_offset",                                                           \
		"run `kvmft guest-offset` in the guest and pass --kernel-sched-offset, " \
		"or record with the clock local or x86-tsc"

/* What each usually follows from, and what is missing if that is not known. */
static const struct {
	const char *name;
	enum clock_id over;
	struct clock_missing missing;
} clocks[CLK_NR] = {
	[CLK_HOST_TSC] = { "host-tsc", CLK_HOST_TSC, { NULL, NULL } },
	[CLK_GUEST_TSC] = { "guest-tsc", CLK_HOST_TSC, { "TSC offset",
		"record on the host as root with debugfs mounted, or pass --tsc-offset (and --tsc-ratio "
		"if the guest's TSC is scaled)" } },
	[CLK_KVMCLOCK] = { "kvmclock", CLK_GUEST_TSC, { "pvclock record",
		"run `kvmft guest-offset` in the guest and pass --pvclock, or record the guest with the "
		"clock x86-tsc, which needs none" } },
	[CLK_GUEST_LOCAL] = { "guest-local", CLK_KVMCLOCK, { "kvm_sched_clock_offset",
		"run `kvmft guest-offset` in the guest and pass --sched-offset" } },
	[CLK_GUEST_GLOBAL] = { "guest-global", CLK_GUEST_LOCAL, { GUEST_KERNEL } },
	[CLK_GUEST_PERF] = { "guest-perf", CLK_GUEST_LOCAL, { GUEST_KERNEL } },
	[CLK_GUEST_MONO] = { "guest-mono", CLK_GUEST_TSC, { SAMPLES("guest's CLOCK_MONOTONIC") } },
	[CLK_GUEST_MONO_RAW] = { "guest-mono_raw",
				 CLK_GUEST_TSC,
				 { "CLOCK_MONOTONIC_RAW line of the guest",
				   "record the guest with kvmft, or pass --mono-raw" } },
	[CLK_GUEST_BOOT] = { "guest-boot", CLK_GUEST_TSC, { SAMPLES("guest's CLOCK_BOOTTIME") } },
	[CLK_GUEST_REALTIME] = { "guest-realtime",
				 CLK_GUEST_TSC,
				 { SAMPLES("guest's CLOCK_REALTIME") } },
	[CLK_HOST_LOCAL] = { "host-local",
			     CLK_HOST_TSC,
			     { "sched_clock line of the host's TSC",
			       "record the host with kvmft, which samples its clock" } },
	[CLK_HOST_GLOBAL] = { "host-global", CLK_HOST_LOCAL, { HOST_KERNEL } },
	[CLK_HOST_PERF] = { "host-perf", CLK_HOST_LOCAL, { HOST_KERNEL } },
	[CLK_HOST_MONO] = { "host-mono", CLK_HOST_TSC, { SAMPLES("host's CLOCK_MONOTONIC") } },
	[CLK_HOST_MONO_RAW] = { "host-mono_raw",
				CLK_HOST_TSC,
				{ "CLOCK_MONOTONIC_RAW line of the host",
				  "record the host with kvmft, or pass --mono-raw" } },
	[CLK_HOST_BOOT] = { "host-boot", CLK_HOST_TSC, { SAMPLES("host's CLOCK_BOOTTIME") } },
	[CLK_HOST_REALTIME] = { "host-realtime",
				CLK_HOST_TSC,
				{ SAMPLES("host's CLOCK_REALTIME") } },
};

const char *clock_name(enum clock_id id)
{
	return (unsigned int)id < CLK_NR ? clocks[id].name : NULL;
}

bool clock_in_cycles(enum clock_id id)
{
	return id == CLK_HOST_TSC || id == CLK_GUEST_TSC;
}

bool clock_is_guest(enum clock_id id)
{
	return id >= CLK_GUEST_TSC && id <= CLK_GUEST_REALTIME;
}

int clock_by_name(const char *name, enum clock_side side, enum clock_id *id)
{
	int host = -1, guest = -1;

	if (!strcmp(name, "x86-tsc"))
		name = "tsc";
	for (int i = 0; i < CLK_NR; i++) {
		const char *bare = strchr(clocks[i].name, '-');

		if (!strcmp(clocks[i].name, name)) {
			*id = (enum clock_id)i;
			return 0;
		}
		if (bare && !strcmp(bare + 1, name))
			*(clock_is_guest((enum clock_id)i) ? &guest : &host) = i;
	}
	if (host < 0 || guest < 0)
		return -ENOENT;
	if (side == CLOCK_SIDE_ANY)
		return -ENOTUNIQ;
	*id = (enum clock_id)(side == CLOCK_SIDE_HOST ? host : guest);
	return 0;
}

/* ---- one link ---- */

/* A value was found, or a preimage: empty means that the value never was read. */
static int hop_found(int err, uint64_t *lo, uint64_t *hi)
{
	if (err || *hi >= *lo)
		return err;
	*hi = *lo;
	return CLOCK_FLAG_SKIPPED;
}

/* Signed constant between two ns clocks; no stamp is before the zero of either. */
static int hop_later(uint64_t v, s128 constant, uint64_t *lo, uint64_t *hi)
{
	int err = wide_store((s128)v + constant, lo);

	if (!err)
		*hi = *lo;
	return err;
}

int clock_link_down(const struct clock_link *l, uint64_t v, uint64_t *lo, uint64_t *hi)
{
	uint64_t ns = v;
	int ret = 0;

	switch (l->way) {
	case CLOCK_WAY_PIECES:
		ret = clock_pieces_to_ns(&l->pieces, v, lo, hi);
		return ret > 0 ? CLOCK_FLAG_EXTRAPOLATED : ret;
	case CLOCK_WAY_LATER: return hop_later(v, (int64_t)l->later, lo, hi);
	case CLOCK_WAY_CYC2NS:
		return hop_later(cyc2ns_to_ns(&l->line, v) - l->line.offset,
				 (int64_t)l->line.offset, lo, hi);
	case CLOCK_WAY_MAP: ns = tsc_to_guest(&l->map, v); break;
	case CLOCK_WAY_RECORD: ret = pvclock_to_ns(&l->pv, v, &ns); break;
	case CLOCK_WAY_RAW: ret = mono_raw_to_ns(&l->raw, v, &ns); break;
	case CLOCK_WAY_SAME: break;
	case CLOCK_WAY_UNKNOWN:
	case CLOCK_WAY_EPOCHS: ret = -EINVAL; break;
	}
	if (!ret)
		*lo = *hi = ns;
	return ret;
}

int clock_link_up(const struct clock_link *l, uint64_t v, uint64_t *lo, uint64_t *hi)
{
	int ret;

	switch (l->way) {
	case CLOCK_WAY_PIECES:
		ret = clock_pieces_to_tsc(&l->pieces, v, lo, hi);
		return ret > 0 ? CLOCK_FLAG_EXTRAPOLATED : ret;
	case CLOCK_WAY_LATER: return hop_later(v, -(s128)(int64_t)l->later, lo, hi);
	case CLOCK_WAY_CYC2NS: /* no time is before TSC zero */
		ret = hop_later(v, -(s128)(int64_t)l->line.offset, lo, hi);
		return ret ?: hop_found(cyc2ns_to_tsc_range(&l->line, v, lo, hi), lo, hi);
	case CLOCK_WAY_MAP: return hop_found(tsc_to_host(&l->map, v, lo, hi), lo, hi);
	case CLOCK_WAY_RECORD: return hop_found(pvclock_to_tsc_range(&l->pv, v, lo, hi), lo, hi);
	case CLOCK_WAY_RAW: return hop_found(mono_raw_to_cyc_range(&l->raw, v, lo, hi), lo, hi);
	case CLOCK_WAY_SAME: return hop_later(v, 0, lo, hi);
	case CLOCK_WAY_UNKNOWN:
	case CLOCK_WAY_EPOCHS: break;
	}
	return -EINVAL;
}

static int from_epoch(enum epoch_result r)
{
	switch (r) {
	case EPOCH_EXACT: return 0;
	case EPOCH_BORROWED: return CLOCK_FLAG_BORROWED;
	case EPOCH_DOUBTFUL: return CLOCK_FLAG_DOUBTFUL;
	case EPOCH_AMBIGUOUS: return -ENOTUNIQ;
	case EPOCH_RANGE: return -ERANGE;
	default: return -ENODATA;
	}
}

/* One value over the link of a hop, which may be by epochs. */
static int hop_value(const struct clock_chain *c, struct clock_hop hop, uint64_t v, uint64_t *lo,
		     uint64_t *hi)
{
	const struct clock_link *l = &c->link[hop.id];
	bool tsc = hop.id == CLK_GUEST_TSC;
	enum epoch_result r;

	if (l->way != CLOCK_WAY_EPOCHS)
		return hop.down ? clock_link_down(l, v, lo, hi) : clock_link_up(l, v, lo, hi);
	if (!hop.down)
		return from_epoch(tsc	    ? epoch_guest_to_host(l->epochs, v, lo, hi)
				  : hop.two ? epoch_kvmclock_to_host(l->epochs, v, lo, hi)
					    : epoch_kvmclock_to_guest(l->epochs, v, lo, hi));
	r = tsc	      ? epoch_host_to_guest(l->epochs, v, lo)
	    : hop.two ? epoch_host_to_kvmclock(l->epochs, v, lo)
		      : epoch_guest_to_kvmclock(l->epochs, v, lo);
	if (epoch_result_usable(r))
		*hi = *lo;
	return from_epoch(r);
}

/* ---- the chain ---- */

static int check_epochs(enum clock_id id, const struct epoch_vcpu *v)
{
	if (!v || (id != CLK_GUEST_TSC && id != CLK_KVMCLOCK))
		return -EINVAL;
	for (size_t i = 0; i < v->n; i++)
		if (id == CLK_GUEST_TSC || v->v[i].has_pv)
			return 0;
	return id == CLK_GUEST_TSC ? 0 : -ENODATA;
}

static int check_link(enum clock_id id, const struct clock_link *l)
{
	switch (l->way) {
	case CLOCK_WAY_MAP: return tsc_map_check(&l->map);
	case CLOCK_WAY_EPOCHS: return check_epochs(id, l->epochs);
	case CLOCK_WAY_RECORD: return pvclock_check_body(&l->pv);
	case CLOCK_WAY_CYC2NS: return cyc2ns_check(&l->line);
	case CLOCK_WAY_RAW: return mono_raw_check(&l->raw);
	case CLOCK_WAY_PIECES: return l->pieces.v && l->pieces.n >= 2 ? 0 : -EINVAL;
	case CLOCK_WAY_SAME:
	case CLOCK_WAY_LATER: return 0;
	case CLOCK_WAY_UNKNOWN: break;
	}
	return -EINVAL;
}

int clock_chain_set(struct clock_chain *c, enum clock_id id, const struct clock_link *l)
{
	int err = (unsigned int)id < CLK_NR && l->over < id ? check_link(id, l) : -EINVAL;

	if (!err)
		c->link[id] = *l;
	return err;
}

/* A guest whose sched_clock is its TSC: nothing leads from there to kvmclock. */
static bool tsc_local(const struct clock_chain *c, enum clock_id id)
{
	return id == CLK_GUEST_LOCAL && c->no_kvmclock;
}

struct clock_missing clock_missing(const struct clock_chain *c, enum clock_id id)
{
	return tsc_local(c, id)
		       ? (struct clock_missing){ "sched_clock line of the guest's TSC",
						 "record the guest with kvmft, which samples its clock" }
		       : clocks[id].missing;
}

/* The clocks from one up to the host's TSC; how many. */
static unsigned int climb(const struct clock_chain *c, enum clock_id at, enum clock_id *path)
{
	unsigned int n = 0;

	for (path[n++] = at; at != CLK_HOST_TSC; path[n++] = at)
		at = c->link[at].way	? c->link[at].over
		     : tsc_local(c, at) ? CLK_GUEST_TSC
					: clocks[at].over;
	return n;
}

static int add_hop(struct clock_route *r, enum clock_id id, bool down, enum clock_id *missing)
{
	const struct clock_link *l = r->chain->link;
	struct clock_hop *last = r->n ? &r->hop[r->n - 1] : NULL;

	if (!l[id].way) {
		if (missing)
			*missing = id;
		return -ENOLINK;
	}
	if (last && l[id].way == CLOCK_WAY_EPOCHS && l[last->id].way == CLOCK_WAY_EPOCHS)
		*last = (struct clock_hop){ CLK_KVMCLOCK, down, true };
	else
		r->hop[r->n++] = (struct clock_hop){ (uint8_t)id, down, false };
	return 0;
}

int clock_route_find(const struct clock_chain *c, enum clock_id from, enum clock_id to,
		     struct clock_route *route, enum clock_id *missing)
{
	enum clock_id up[CLK_NR], down[CLK_NR];
	unsigned int nup, ndown;
	int ret = 0;

	if ((unsigned int)from >= CLK_NR || (unsigned int)to >= CLK_NR)
		return -EINVAL;
	*route = (struct clock_route){ .chain = c };
	nup = climb(c, from, up);
	ndown = climb(c, to, down);
	for (; nup && ndown && up[nup - 1] == down[ndown - 1]; nup--)
		ndown--;
	for (unsigned int i = 0; i < nup && !ret; i++)
		ret = add_hop(route, up[i], false, missing);
	while (ndown && !ret)
		ret = add_hop(route, down[--ndown], true, missing);
	return ret;
}

/* Carry the range [*lo, *hi] over one link. */
static int hop_cross(const struct clock_chain *c, struct clock_hop hop, uint64_t *lo, uint64_t *hi)
{
	uint64_t first, last, end;
	int a = hop_value(c, hop, *lo, &first, &last), b = 0;

	if (a < 0)
		return a;
	if (*hi != *lo) {
		b = hop_value(c, hop, *hi, &end, &last);
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
	return a | b;
}

int clock_route_convert(const struct clock_route *route, uint64_t value, uint64_t *lo, uint64_t *hi)
{
	uint64_t a = value, b = value;
	int flags = 0, ret;

	for (unsigned int i = 0; i < route->n; i++) {
		ret = hop_cross(route->chain, route->hop[i], &a, &b);
		if (ret < 0)
			return ret;
		flags |= ret;
	}
	*lo = a;
	*hi = b;
	return flags;
}
