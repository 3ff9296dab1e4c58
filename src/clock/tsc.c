/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tsc.c: TSC offsetting and scaling: host cycles to guest cycles and back, nested maps. */

#include "kvmft/clock.h"
#include "wide.h"

/* The SVM TSC ratio MSR has 8 integer and 32 fractional bits. */
#define SVM_RATIO_MAX	0xffffffffffULL

int tsc_map_check(const struct tsc_map *m)
{
	switch (m->frac) {
	case TSC_FRAC_NONE: return m->ratio <= 1 ? 0 : -EINVAL;
	case TSC_FRAC_SVM: return m->ratio <= SVM_RATIO_MAX ? 0 : -ERANGE;
	case TSC_FRAC_VMX: return 0;
	}
	return -EINVAL;
}

bool tsc_map_unscaled(const struct tsc_map *m)
{
	return m->ratio == 0 || m->frac >= 64 || m->ratio == 1ULL << m->frac;
}

bool tsc_map_equal(const struct tsc_map *a, const struct tsc_map *b)
{
	if (a->offset != b->offset)
		return false;
	if (tsc_map_unscaled(a) || tsc_map_unscaled(b))
		return tsc_map_unscaled(a) && tsc_map_unscaled(b);
	return a->ratio == b->ratio && a->frac == b->frac;
}

uint64_t tsc_to_guest(const struct tsc_map *m, uint64_t host)
{
	if (tsc_map_unscaled(m))
		return m->offset + host;
	return m->offset + (uint64_t)(((u128)host * m->ratio) >> m->frac);
}

int tsc_to_host(const struct tsc_map *m, uint64_t guest, uint64_t *lo, uint64_t *hi)
{
	uint64_t x = guest - m->offset;
	u128 first, end;

	if (tsc_map_unscaled(m)) {
		*lo = *hi = x;
		return 0;
	}
	first = wide_div_ceil((u128)x << m->frac, m->ratio);
	end = wide_div_ceil(((u128)x + 1) << m->frac, m->ratio);
	return wide_store_range((s128)first, (s128)end, lo, hi);
}

uint64_t tsc_cycles_to_ns(uint64_t cycles, uint64_t khz)
{
	if (cycles < UINT64_MAX / 1000000u) /* hours of it: no division of 128 bits */
		return cycles * 1000000u / khz;
	return (uint64_t)((unsigned __int128)cycles * 1000000u / khz);
}

int64_t tsc_span_ns(int64_t cycles, uint64_t khz)
{
	uint64_t ns = khz ? tsc_cycles_to_ns(clock_size(cycles), khz) : 0;

	return (int64_t)(cycles < 0 ? 0 - ns : ns);
}

bool clock_trace_is_ns(const char *name)
{
	static const char *const ns[] = { "local",    "global", "perf", "mono",
					  "mono_raw", "boot",	"tai",	"realtime",
					  "unknown" /* of text, and of perf */ };

	for (size_t i = 0; i < ARRAY_SIZE(ns); i++)
		if (!strcmp(ns[i], name))
			return true;
	return false;
}

/* ---- clock parameters given by hand: numbers between commas ---- */

#define PVCLOCK_FORM "TSC,SYSTEM_TIME,MUL,SHIFT[,FLAGS]"

int params_numbers(const char *option, const char *text, const char *form, int min, int max,
		   uint64_t *v, struct kvmft_err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	char *word = copy, *comma;
	int n = 0;

	if (!copy)
		return err_set(err, ENOMEM, "out of memory");
	for (; word && n < max; word = comma ? comma + 1 : NULL) {
		comma = strchr(word, ',');
		if (comma)
			*comma = 0;
		if (parse_bits64(word, &v[n]))
			return err_usage(err,
					 "option --%s: '%s' is not a 64-bit number; it must be %s",
					 option, word, form);
		n++;
	}
	if (n < min || word)
		return err_usage(err, "option --%s: '%s' is not %s", option, text, form);
	return n;
}

int params_pvclock(const char *text, struct pvclock *pv, struct kvmft_err *err)
{
	uint64_t v[PARAMS_MAX_NUMBERS] = { [4] = PVCLOCK_TSC_STABLE };
	int n = params_numbers("pvclock", text, PVCLOCK_FORM, 4, 5, v, err);

	if (n < 0)
		return n;
	if (!v[2] || v[2] > UINT32_MAX || (int64_t)v[3] < -31 || (int64_t)v[3] > 31 ||
	    v[4] > UINT8_MAX)
		return err_usage(
			err,
			"option --pvclock: '%s' is not a record of KVM: MUL is 1 to 2^32 - 1, SHIFT "
			"is -31 to 31, FLAGS has 8 bits",
			text);
	*pv = (struct pvclock){
		.tsc_timestamp = v[0], .system_time = v[1], .version = 2, .mul = (uint32_t)v[2],
		.shift = (int8_t)(int64_t)v[3], .flags = (uint8_t)v[4],
	};
	return 0;
}

/*
 * Clocks that are one straight line over a counter: CLOCK_MONOTONIC_RAW over the
 * clocksource, and sched_clock() of a machine whose TSC it is (cyc2ns).
 */

int mono_raw_check(const struct mono_raw *r)
{
	return r->mult && r->shift <= 32 ? 0 : -EINVAL;
}

int mono_raw_to_ns(const struct mono_raw *r, uint64_t cyc, uint64_t *ns)
{
	s128 d = (s128)cyc - (s128)r->last;
	s128 shifted = d * (s128)r->mult + (s128)r->nsec;

	/* a right shift of a negative value is a floor in gcc and clang, which is what we want */
	return wide_store((s128)r->base + (shifted >> r->shift), ns);
}

/* Smallest cycle, as an unbounded integer, with mono_raw >= ns. */
static s128 first_cyc(const struct mono_raw *r, s128 ns)
{
	s128 shifted = (ns - (s128)r->base) * ((s128)1 << r->shift) - (s128)r->nsec;

	return (s128)r->last + wide_sdiv_ceil(shifted, (s128)r->mult);
}

int mono_raw_to_cyc_range(const struct mono_raw *r, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	return wide_store_range(first_cyc(r, (s128)ns), first_cyc(r, (s128)ns + 1), lo, hi);
}

bool mono_raw_fits(const struct mono_raw *r, uint64_t cyc_lo, uint64_t cyc_hi, uint64_t ns)
{
	uint64_t first, last;

	if (mono_raw_check(r) || mono_raw_to_ns(r, cyc_lo, &first) ||
	    mono_raw_to_ns(r, cyc_hi, &last))
		return false;
	/* 1 ns: old kernels cut the fraction off at each tick */
	return (s128)ns >= (s128)first - 1 && (s128)ns <= (s128)last + 1;
}

int cyc2ns_check(const struct cyc2ns *c)
{
	return c->mult && c->shift <= 32 ? 0 : -EINVAL;
}

uint64_t cyc2ns_to_ns(const struct cyc2ns *c, uint64_t tsc)
{
	return c->offset + (uint64_t)(((u128)tsc * c->mult) >> c->shift);
}

int cyc2ns_to_tsc_range(const struct cyc2ns *c, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	u128 k = ns - c->offset;
	u128 first = wide_div_ceil(k << c->shift, c->mult);
	u128 end = wide_div_ceil((k + 1) << c->shift, c->mult);

	return wide_store_range((s128)first, (s128)end, lo, hi);
}

/* ---- kvmclock: the record a guest shares with KVM, forward and exactly backward ---- */

#define NSEC_PER_SEC	1000000000ULL

int pvclock_check_body(const struct pvclock *pv)
{
	if (!pv->mul)
		return -EINVAL;
	return pv->shift < -31 || pv->shift > 31 ? -EDOM : 0;
}

int pvclock_check(const struct pvclock *pv)
{
	if (!pv->version)
		return -ENODATA;
	if (pv->version & 1)
		return -EAGAIN;
	return pvclock_check_body(pv);
}

bool pvclock_same_body(const struct pvclock *a, const struct pvclock *b)
{
	return a->tsc_timestamp == b->tsc_timestamp && a->system_time == b->system_time &&
	       a->mul == b->mul && a->shift == b->shift;
}

/* May a stamp @d cycles from the record be converted with it? */
static int check_distance(const struct pvclock *pv, u128 d)
{
	if (d >> 63)
		return -ERANGE;
	return pv->shift > 0 && d >> (64 - pv->shift) ? -EOVERFLOW : 0;
}

int pvclock_to_ns(const struct pvclock *pv, uint64_t tsc, uint64_t *ns)
{
	bool before = tsc < pv->tsc_timestamp;
	uint64_t d = before ? pv->tsc_timestamp - tsc : tsc - pv->tsc_timestamp;
	s128 scaled;
	int err = pvclock_check_body(pv);

	err = err ?: check_distance(pv, d);
	if (err)
		return err;
	d = pv->shift < 0 ? d >> -pv->shift : d << pv->shift;
	scaled = (s128)(((u128)d * pv->mul) >> 32);
	return wide_store((s128)pv->system_time + (before ? -scaled : scaled), ns);
}

/*
 * Smallest d with scale(d) >= k. Two steps, because the kernel shifts first and so drops bits
 * before it multiplies. k < 2^65, hence below 2^97 before and 2^128 after the shift; results past
 * 2^64 are useless, so they are cut there and stay far from the sign bit.
 */
static s128 least_delta(const struct pvclock *pv, u128 k)
{
	u128 x = wide_div_ceil(k << 32, pv->mul);

	if (pv->shift > 0)
		return (s128)wide_div_ceil(x, (u128)1 << pv->shift);
	if (x >> 64)
		x = (u128)1 << 64;
	return (s128)(x << -pv->shift);
}

/* Smallest guest TSC, as an unbounded integer, with kvmclock >= ns; 0 or the errors of clock.h. */
static int first_tsc(const struct pvclock *pv, u128 ns, s128 *tsc)
{
	s128 d;
	int err;

	if (ns > pv->system_time)
		d = least_delta(pv, ns - pv->system_time);
	else
		d = 1 - least_delta(pv, pv->system_time - ns + 1);
	err = check_distance(pv, (u128)(d < 0 ? -d : d));
	if (!err)
		*tsc = (s128)pv->tsc_timestamp + d;
	return err;
}

int pvclock_to_tsc_range(const struct pvclock *pv, uint64_t ns, uint64_t *lo, uint64_t *hi)
{
	s128 first, end;
	int err = pvclock_check_body(pv);

	err = err ?: first_tsc(pv, ns, &first);
	err = err ?: first_tsc(pv, (u128)ns + 1, &end);
	return err ?: wide_store_range(first, end, lo, hi);
}

int pvclock_params_from_khz(uint32_t khz, uint32_t *mul, int8_t *shift)
{
	uint64_t scaled = NSEC_PER_SEC;
	uint64_t tps = (uint64_t)khz * 1000;
	uint32_t tps32;
	int sh = 0;

	if (!khz)
		return -EINVAL;
	while (tps > 2 * NSEC_PER_SEC || tps >> 32) {
		tps >>= 1;
		sh--;
	}
	tps32 = (uint32_t)tps;
	while (tps32 <= scaled || scaled >> 32) {
		if (scaled >> 32 || tps32 >> 31)
			scaled >>= 1;
		else
			tps32 <<= 1;
		sh++;
	}
	*mul = (uint32_t)((scaled << 32) / tps32);
	*shift = (int8_t)sh;
	return 0;
}

int pvclock_khz(uint32_t mul, int8_t shift, uint64_t *khz)
{
	uint64_t v;

	if (!mul)
		return -EINVAL;
	if (shift < -31 || shift > 31)
		return -EDOM;
	v = (1000000ULL << 32) / mul;
	return wide_store(shift < 0 ? (s128)v << -shift : (s128)v >> shift, khz);
}
