/* SPDX-License-Identifier: GPL-2.0-or-later */
/* convert_params.c: the clock parameters of `kvmft convert` given as options. */
#include "convert_ctx.h"
#include "kvmft/pairing.h"
#include "kvmft/clock.h"

/*
 * The edges of the graph from an epoch list of a capture must not be used any more, because the
 * user gave other numbers.
 */
static void forget(struct convert_ctx *c, uint32_t edges)
{
	c->clock.known &= ~edges;
}

#define BIT(e) (1u << CLOCK_EDGE_##e)

int convert_params_map(const struct convert_params *p, struct tsc_map *map, bool *given,
		       struct kvmft_err *err)
{
	int ret = pairing_parse_map(&p->tsc_offset, p->tsc_ratio, map, given, err);

	if (!ret && p->tsc_ratio && !p->tsc_offset.set)
		return err_usage(err, "option --tsc-ratio: it needs --tsc-offset beside it");
	return ret;
}

/* ---- kvmclock ---- */

static int apply_pvclock(struct convert_ctx *c, struct kvmft_err *err)
{
	int ret = c->p->pvclock ? params_pvclock(c->p->pvclock, &c->clock.pv, err) : 0;

	if (ret || !c->p->pvclock)
		return ret;
	if (clock_ctx_set(&c->clock, CLOCK_EDGE_PVCLOCK))
		return err_usage(err, "option --pvclock: '%s' is not a record of KVM", c->p->pvclock);
	forget(c, BIT(EPOCH_PV) | BIT(EPOCH_KVMCLOCK));
	return 0;
}

/* ---- trace clocks of the guest ---- */

static bool is_trace_clock(enum clock_id id)
{
	return id == CLK_GUEST_LOCAL || id == CLK_GUEST_GLOBAL || id == CLK_GUEST_PERF;
}

static int set_sched(struct convert_ctx *c, uint64_t kvm, uint64_t kernel, struct kvmft_err *err)
{
	c->clock.no_kvmclock = false;
	c->clock.sched = (struct sched_offsets){ kvm, kernel };
	if (clock_ctx_set(&c->clock, CLOCK_EDGE_SCHED) ||
	    clock_ctx_set(&c->clock, CLOCK_EDGE_GUEST_GLOBAL) ||
	    clock_ctx_set(&c->clock, CLOCK_EDGE_GUEST_PERF))
		return err_set(err, EINVAL, "cannot use the sched_clock offsets");
	forget(c, BIT(GUEST_LOCAL_PIECES));
	return 0;
}

/*
 * --sched-offset alone is kvmclock minus one trace clock, whichever of the three is converted: it
 * is entered as kvm_sched_clock_offset of a kernel whose other offset is 0. The ways that this
 * would invent (from local to perf) are refused.
 */
static int apply_one_offset(struct convert_ctx *c, struct kvmft_err *err)
{
	if (!is_trace_clock(c->from) && !is_trace_clock(c->to))
		return 0;
	if (is_trace_clock(c->from) && is_trace_clock(c->to))
		return err_usage(err,
				 "option --sched-offset: it does not relate %s to %s; give "
				 "--kernel-sched-offset K,S",
				 clock_name(c->from), clock_name(c->to));
	return set_sched(c, c->p->sched_offset.v, 0, err);
}

static int apply_sched(struct convert_ctx *c, struct kvmft_err *err)
{
	const struct convert_params *p = c->p;
	uint64_t v[PARAMS_MAX_NUMBERS];
	int n;

	if (!p->kernel_sched)
		return p->sched_offset.set ? apply_one_offset(c, err) : 0;
	n = params_numbers("kernel-sched-offset", p->kernel_sched,
			  "KVM_SCHED_CLOCK_OFFSET,SCHED_CLOCK_OFFSET", 1, 2, v, err);
	if (n < 0)
		return n;
	if (n == 2 && p->sched_offset.set)
		return err_usage(
			err, "options --sched-offset and --kernel-sched-offset K,S exclude each "
			     "other");
	if (n == 1 && !p->sched_offset.set)
		return err_usage(err,
				 "option --kernel-sched-offset: '%s' is not K,S, and there is no "
				 "--sched-offset with K",
				 p->kernel_sched);
	return n == 2 ? set_sched(c, v[0], v[1], err) :
			set_sched(c, p->sched_offset.v, v[0], err);
}

/* ---- CLOCK_MONOTONIC_RAW ---- */

const char *const convert_clocksources[] = { "tsc", "kvm-clock", NULL };

/* The kernel registers kvm-clock with a rate of exactly 1; a TSC has that only at 1 GHz. */
static bool over_kvmclock(const struct convert_ctx *c, const struct mono_raw *r)
{
	if (c->p->clocksource >= 0)
		return c->p->clocksource == 1;
	if (c->guest && c->guest->clocksource)
		return !strcmp(c->guest->clocksource, "kvm-clock");
	return r->mult == 1ull << r->shift;
}

static int apply_raw_text(struct convert_ctx *c, const char *text, enum clock_id id,
			  struct kvmft_err *err)
{
	bool guest = id == CLK_GUEST_MONO_RAW;
	struct mono_raw *r = guest ? &c->clock.guest_raw : &c->clock.host_raw;
	enum clock_edge edge = CLOCK_EDGE_HOST_RAW;
	uint64_t v[PARAMS_MAX_NUMBERS];
	int n = params_numbers("mono-raw", text, "LAST,MULT,SHIFT,NSEC,BASE", 5, 5, v, err);

	if (n < 0)
		return n;
	if (v[1] > UINT32_MAX || v[2] > 32)
		return err_usage(err, "option --mono-raw: '%s': MULT has 32 bits, SHIFT is 0 to 32",
				 text);
	*r = (struct mono_raw){
		.last = v[0],
		.mult = (uint32_t)v[1],
		.shift = (uint8_t)v[2],
		.nsec = v[3],
		.base = v[4],
	};
	if (guest)
		edge = over_kvmclock(c, r) ? CLOCK_EDGE_GUEST_RAW_KVM : CLOCK_EDGE_GUEST_RAW;
	if (clock_ctx_set(&c->clock, edge))
		return err_usage(err, "option --mono-raw: '%s': MULT is 0", text);
	forget(c, guest ? BIT(GUEST_RAW_PIECES) : BIT(HOST_RAW_PIECES));
	return 0;
}

/* Given once, it is about the mono_raw being converted; given twice, about --from, then --to. */
static int apply_raw(struct convert_ctx *c, struct kvmft_err *err)
{
	const struct str_list *l = &c->p->mono_raw;
	enum clock_id ends[2];
	size_t n = 0;
	int ret = 0;

	if (!l->n)
		return 0;
	if (c->from == CLK_GUEST_MONO_RAW || c->from == CLK_HOST_MONO_RAW)
		ends[n++] = c->from;
	if (c->to != c->from && (c->to == CLK_GUEST_MONO_RAW || c->to == CLK_HOST_MONO_RAW))
		ends[n++] = c->to;
	if (l->n > n)
		return err_usage(err, "option --mono-raw: given %s, but %s", n ? "twice" : "here",
				 n ? "only one mono_raw is converted" : "no mono_raw is converted");
	if (l->n < n && !c->host && !c->guest)
		return err_usage(err, "option --mono-raw: give it twice, for --from and for --to");
	for (size_t i = 0; i < l->n && !ret; i++)
		ret = apply_raw_text(c, l->v[i], ends[i], err);
	return ret;
}

/* ---- sched_clock of a TSC: MULT,SHIFT,OFFSET ---- */

static bool is_cyc2ns_clock(enum clock_id id)
{
	return is_trace_clock(id) || id == CLK_HOST_LOCAL || id == CLK_HOST_GLOBAL ||
	       id == CLK_HOST_PERF;
}

/*
 * Like --sched-offset, the numbers are about the one clock being converted, with its
 * __sched_clock_offset included: they are entered as local of a kernel whose other offset is 0.
 */
static int apply_cyc2ns_text(struct convert_ctx *c, const char *text, enum clock_id id,
			     struct kvmft_err *err)
{
	bool guest = convert_is_guest(id);
	struct cyc2ns *p = guest ? &c->clock.guest_cyc2ns : &c->clock.host_cyc2ns;
	uint64_t v[PARAMS_MAX_NUMBERS];
	int n = params_numbers("sched-line", text, "MULT,SHIFT,OFFSET", 3, 3, v, err);

	if (n < 0)
		return n;
	if (!v[0] || v[0] > UINT32_MAX || v[1] > 32)
		return err_usage(
			err, "option --sched-line: '%s': MULT is 1 to 2^32 - 1, SHIFT is 0 to 32",
			text);
	*p = (struct cyc2ns){ .mult = (uint32_t)v[0], .shift = (uint8_t)v[1], .offset = v[2] };
	if (guest) {
		c->clock.no_kvmclock = true;
		c->clock.sched.kernel = 0;
		forget(c,
		       BIT(GUEST_LOCAL_PIECES) | BIT(GUEST_GLOBAL_PIECES) | BIT(GUEST_PERF_PIECES));
	}
	c->clock.host_kernel_offset = 0;
	if (clock_ctx_set(&c->clock, guest ? CLOCK_EDGE_GUEST_CYC2NS : CLOCK_EDGE_HOST_CYC2NS) ||
	    clock_ctx_set(&c->clock, guest ? CLOCK_EDGE_GUEST_GLOBAL : CLOCK_EDGE_HOST_GLOBAL) ||
	    clock_ctx_set(&c->clock, guest ? CLOCK_EDGE_GUEST_PERF : CLOCK_EDGE_HOST_PERF))
		return err_set(err, EINVAL, "cannot use --sched-line");
	return 0;
}

static int apply_cyc2ns(struct convert_ctx *c, struct kvmft_err *err)
{
	const struct str_list *l = &c->p->cyc2ns;
	bool from = is_cyc2ns_clock(c->from), to = is_cyc2ns_clock(c->to);
	enum clock_id first = from ? c->from : c->to;
	int ret;

	if (!l->n)
		return 0;
	if (!from && !to)
		return err_usage(
			err,
			"option --sched-line: neither %s nor %s is a local, global or perf clock",
			clock_name(c->from), clock_name(c->to));
	if (from && to && convert_is_guest(c->from) == convert_is_guest(c->to))
		return err_usage(err, "option --sched-line: it does not relate %s to %s",
				 clock_name(c->from), clock_name(c->to));
	if (l->n > 1u + (from && to))
		return err_usage(err, "option --sched-line: given %zu times for %d clock%s", l->n,
				 1 + (from && to), from && to ? "s" : "");
	/* One for two clocks: the guest's is usually kvmclock, and has its own parameters. */
	if (l->n == 1 && from && to)
		first = convert_is_guest(c->from) ? c->to : c->from;
	ret = apply_cyc2ns_text(c, l->v[0], first, err);
	return ret || l->n == 1 ? ret : apply_cyc2ns_text(c, l->v[1], c->to, err);
}

int convert_params_apply(struct convert_ctx *c, struct kvmft_err *err)
{
	struct tsc_map map;
	bool given;
	int ret = convert_params_map(c->p, &map, &given, err);

	if (!ret && given && !c->map) {
		c->clock.map = map;
		ret = clock_ctx_set(&c->clock, CLOCK_EDGE_TSC_MAP);
	}
	ret = ret ?: apply_pvclock(c, err);
	ret = ret ?: apply_sched(c, err);
	ret = ret ?: apply_cyc2ns(c, err);
	return ret ?: apply_raw(c, err);
}
