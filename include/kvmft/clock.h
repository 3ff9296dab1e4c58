/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clock.h: integer arithmetic between the clocks of a KVM host and its guests (x86).
 *
 * Pure functions: no I/O, no state, no allocation.  Cycles are uint64_t, nanoseconds are
 * uint64_t, products are formed in 128 bits, and nothing here ever goes through a double.
 *
 * Every clock maps to its neighbour by a monotone step function, so one target value may be read
 * by several source values, by one, or by none.  The inverses therefore return a range [lo, hi]:
 *
 *	lo	the first source value whose image is >= the requested value
 *	hi	the last source value whose image is <= the requested value
 *	hi + 1 == lo	no source value reads it; lo is the first one after it
 *
 * Errors are negative errno values, named at each function; on error no output is written.  Unless
 * said otherwise -ERANGE means that the exact result does not fit in 64 unsigned bits (before zero
 * or past the end): the stamp belongs to another machine, epoch or clock.
 */
#pragma once

#include "kvmft/util.h"

/* One simultaneous reading of clocks, ns: all within [tsc, tsc + width] cycles. */
struct clock_bracket {
	uint64_t tsc, width;
	uint64_t mono_raw, mono, boot, real;
};

/* ---- guest TSC: offset and scaling (tsc.c) ---------------------------------------------- */

enum {
	TSC_FRAC_NONE = 0,		/* no fixed point: ratio must be 0 or 1 */
	TSC_FRAC_SVM = 32,		/* AMD: 8.32 */
	TSC_FRAC_VMX = 48,		/* Intel: 16.48 */
};

/*
 * How the hardware derives a vCPU's TSC: guest = offset + ((host * ratio) >> frac), modulo 2^64.
 * @offset: two's complement; debugfs prints it as a signed number.
 * @ratio:  0 and 1 << frac both mean "not scaled".
 */
struct tsc_map {
	uint64_t offset;
	uint64_t ratio;
	uint8_t frac;
};

/*
 * Is @m something KVM can have programmed?  0, or -EINVAL: frac other than 0, 32, 48, or frac 0
 * with a ratio other than 0 and 1; -ERANGE: ratio over the 40 bits AMD hardware has (frac 32).
 * The conversions below rely on it: call it once on anything read from a file.
 */
int tsc_map_check(const struct tsc_map *m);

/* True if @m does not scale (the offset may still be non-zero). */
bool tsc_map_unscaled(const struct tsc_map *m);

/* True if both maps give the same guest TSC for every host TSC. */
bool tsc_map_equal(const struct tsc_map *a, const struct tsc_map *b);

/*
 * Guest TSC at host TSC @host; both in cycles, floor of the scaled part, then wrapping addition.
 * Exactly what the hardware computes (kernel: kvm_scale_tsc() and kvm_read_l1_tsc() in
 * arch/x86/kvm/x86.c).  @m must have passed tsc_map_check().
 */
uint64_t tsc_to_guest(const struct tsc_map *m, uint64_t host);

/*
 * Host TSCs at which a guest reads @guest, as [*lo, *hi] (see the top of this file; *lo is never 0
 * when the range is empty).  x = guest - offset (wrapping), lo = ceil((x << frac) / ratio),
 * hi = ceil(((x + 1) << frac) / ratio) - 1, cut at 2^64 - 1.  With a ratio over one, a host TSC so
 * large that host * ratio >> frac wraps is not considered.
 * 0, or -ERANGE: lo lies above 2^64 - 1, no host TSC can have been read as @guest.
 */
int tsc_to_host(const struct tsc_map *m, uint64_t guest, uint64_t *lo, uint64_t *hi);

/* Cycles of a TSC in ns, rounded down; khz must not be 0. */
uint64_t tsc_cycles_to_ns(uint64_t cycles, uint64_t khz);
/* Of a signed number of them; 0 if khz is. */
int64_t tsc_span_ns(int64_t cycles, uint64_t khz);
/* Without its sign; a file may say anything. */
static inline uint64_t clock_size(int64_t v)
{
	return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}
/*
 * The same of a khz below 2^44, whose tsc_khz_inverse() is known, for where it is done by the
 * million: multiplications instead of a division.
 */
static inline uint64_t tsc_khz_inverse(uint64_t khz)
{
	return UINT64_MAX / khz;
}

/* v / khz: the high half of the product is that, or one less. */
static inline uint64_t tsc_khz_divide(uint64_t v, uint64_t khz, uint64_t inverse)
{
	uint64_t q = (uint64_t)((unsigned __int128)v * inverse >> 64);

	return q + (v - q * khz >= khz);
}

static inline uint64_t tsc_cycles_to_ns_by(uint64_t cycles, uint64_t khz, uint64_t inverse)
{
	uint64_t ms = tsc_khz_divide(cycles, khz, inverse);

	return ms * 1000000u + tsc_khz_divide((cycles - ms * khz) * 1000000u, khz, inverse);
}
/* ---- kvmclock: guest TSC <-> nanoseconds (pvclock.c) ------------------------------------ */

enum {
	PVCLOCK_TSC_STABLE = 1 << 0,	/* master clock: one body for all vCPUs, no clamping */
	PVCLOCK_GUEST_STOPPED = 1 << 1,	/* the VM was paused; cleared by the guest */
};

/* The record shared by KVM and its guest (kernel: struct pvclock_vcpu_time_info). */
struct pvclock {
	uint64_t tsc_timestamp;		/* guest TSC, cycles */
	uint64_t system_time;		/* kvmclock at tsc_timestamp, ns */
	uint32_t version;		/* odd while being written */
	uint32_t mul;			/* tsc_to_system_mul */
	int8_t shift;			/* tsc_shift */
	uint8_t flags;
};

/* That of a CPU of the guest. */
struct cpu_pvclock {
	uint32_t cpu;
	struct pvclock pv;
};

/*
 * May @pv be used?  0, or, the first that applies:
 *	-ENODATA   version 0: the guest never registered a record
 *	-EAGAIN    version odd: caught while being written, read it again
 *	-EINVAL    mul 0
 *	-EDOM      shift outside -31..31
 */
int pvclock_check(const struct pvclock *pv);

/* The same without a look at the version: for records given by hand. */
int pvclock_check_body(const struct pvclock *pv);

/*
 * Same timestamp, system time, mul and shift?  Then @b is only a re-announcement of @a: KVM raises
 * the version and may set GUEST_STOPPED without changing the clock.
 */
bool pvclock_same_body(const struct pvclock *a, const struct pvclock *b);

/*
 * kvmclock ns at guest TSC @tsc.  With d = |tsc - tsc_timestamp|, shifted by shift and multiplied
 * by mul >> 32 with floor: system_time + scale(d), or - scale(d) before the timestamp
 * (kernel: __pvclock_read_cycles() and pvclock_scale_delta(); the kernel code itself wraps for
 * stamps before the record).
 * 0; -ERANGE (also if d >= 2^63, half the range of the TSC: not a stamp of this guest);
 * -EOVERFLOW: shift > 0 and d << shift does not fit in 64 bits; -EINVAL, -EDOM as pvclock_check().
 */
int pvclock_to_ns(const struct pvclock *pv, uint64_t tsc, uint64_t *ns);

/*
 * All guest TSCs at which kvmclock is @ns (see the top of this file).  With shift <= 0 there are
 * some for every ns; with shift > 0 some ns are skipped.  Errors as pvclock_to_ns().
 */
int pvclock_to_tsc_range(const struct pvclock *pv, uint64_t ns, uint64_t *lo, uint64_t *hi);

/*
 * mul and shift KVM computes for a guest TSC of @khz kHz (kernel: kvm_get_time_scale() in
 * arch/x86/kvm/x86.c with scaled_hz 10^9).  0, or -EINVAL: khz 0.
 */
int pvclock_params_from_khz(uint32_t khz, uint32_t *mul, int8_t *shift);

/*
 * TSC frequency in kHz as a guest derives it from the record, floor (kernel: pvclock_tsc_khz()).
 * Can be a few kHz below what KVM used.  0; -EINVAL: mul 0; -EDOM: shift outside -31..31.
 */
int pvclock_khz(uint32_t mul, int8_t shift, uint64_t *khz);

/* ---- sched_clock: trace clocks local, perf, global (tsc.c) ---------------------------- */

/*
 * Constants of a guest whose sched_clock is kvmclock, both ns and signed in two's complement:
 * @kvm:    kvm_sched_clock_offset
 * @kernel: __sched_clock_offset (what local_clock() adds to sched_clock())
 * kvmclock of a stamp, wrapping: local: stamp + kvm; perf and global: stamp + kvm - kernel
 * (kernel: kvm_sched_clock_read() in arch/x86/kernel/kvmclock.c, sched_clock_cpu() in
 * kernel/sched/clock.c).
 */
struct sched_offsets {
	uint64_t kvm;
	uint64_t kernel;
};

/*
 * sched_clock of bare metal, or of a guest booted with no-kvmclock.
 * @offset: ns, per CPU, wrapping; not readable from outside.
 */
struct cyc2ns {
	uint64_t offset;
	uint32_t mult;
	uint8_t shift;
};

/* 0, or -EINVAL: mult 0 or shift over 32. */
int cyc2ns_check(const struct cyc2ns *c);

/*
 * sched_clock ns at @tsc cycles: offset + floor(tsc * mult >> shift), modulo 2^64
 * (kernel: cycles_2_ns()).  @c must have passed cyc2ns_check(), here and below.
 */
uint64_t cyc2ns_to_ns(const struct cyc2ns *c, uint64_t tsc);

/* All TSCs with sched_clock @ns (see the top of this file).  0 or -ERANGE. */
int cyc2ns_to_tsc_range(const struct cyc2ns *c, uint64_t ns, uint64_t *lo, uint64_t *hi);

/* ---- CLOCK_MONOTONIC_RAW (tsc.c) -------------------------------------------------------- */

/*
 * One published read base of the kernel (struct tk_read_base): ns = base +
 * floor(((cyc - last) * mult + nsec) / 2^shift).  Between suspends and clocksource changes every
 * record gives the same line, so one converts the whole trace (kernels from 5.10 on).
 * @last: clocksource cycles: TSC, or kvmclock ns if the clocksource is kvm-clock.
 * @nsec: in ns << shift.  @base: ns.
 */
struct mono_raw {
	uint64_t last;
	uint64_t nsec;
	uint64_t base;
	uint32_t mult;
	uint8_t shift;
};

/* 0, or -EINVAL: mult 0 or shift over 32. */
int mono_raw_check(const struct mono_raw *r);

/* mono_raw ns at @cyc, before or after last, floor.  0 or -ERANGE.  @r checked, as below. */
int mono_raw_to_ns(const struct mono_raw *r, uint64_t cyc, uint64_t *ns);

/* All cycles with mono_raw @ns (see the top of this file).  0 or -ERANGE. */
int mono_raw_to_cyc_range(const struct mono_raw *r, uint64_t ns, uint64_t *lo, uint64_t *hi);

/*
 * Can the clock have read @ns, give or take 1, at a cycle within [@cyc_lo, @cyc_hi]?  The test of a
 * line against a bracketed reading.  False also for a line that mono_raw_check() refuses.
 */
bool mono_raw_fits(const struct mono_raw *r, uint64_t cyc_lo, uint64_t cyc_hi, uint64_t ns);

/* ---- clocks steered by NTP: mono, boot, realtime (pieces.c) ----------------------------- */

/*
 * One bracketed sample: the clock read @ns somewhere between two rdtsc.  Its place is the middle
 * of the bracket, rounded down.
 * @step: set by clock_pieces_mark_steps(): the clock was set between this sample and the next.
 */
struct clock_sample {
	uint64_t tsc_before;		/* cycles */
	uint64_t tsc_after;		/* cycles, >= tsc_before */
	uint64_t ns;
	bool step;
};

/*
 * A map through samples in TSC order; filled by clock_pieces_init(), read-only afterwards.
 * @v:        the samples, borrowed
 * @tsc_khz:  nominal rate, used inside an interval with a step
 * @slew_ppb: largest change of rate expected within one interval, parts per 10^9; widens the
 *            results by interval * slew / 4 between samples, by distance * slew outside of them.
 *            0: count the brackets only.
 * @stepped:  some interval has a step
 */
struct clock_pieces {
	const struct clock_sample *v;
	size_t n;
	uint32_t tsc_khz;
	uint32_t slew_ppb;
	bool stepped;
};

/*
 * Set .step of the samples @v[@n]: true where the clock moved by something other than the TSC says
 * at @tsc_khz, tolerating @ppm (NTP: 500, plus the error of tsc_khz) and both brackets.  The last
 * sample's flag is cleared.  *largest (may be NULL): the step of largest magnitude, ns, saturating;
 * 0 if there is none.  Returns the number of steps (cut at INT_MAX), or -EINVAL: tsc_khz 0.
 */
int clock_pieces_mark_steps(struct clock_sample *v, size_t n, uint32_t tsc_khz, uint32_t ppm,
			    int64_t *largest);

/*
 * Fill @p; it borrows @v, which must not change afterwards.
 * 0; -EINVAL: under two samples, an inverted bracket, or tsc_khz 0; -EDOM: brackets overlap or are
 * out of order, an interval or the clock's movement in it reaches 2^62, or the clock does not move
 * forward, or by more than 2^20 ns a cycle, in an interval that is not marked as a step.
 */
int clock_pieces_init(struct clock_pieces *p, const struct clock_sample *v, size_t n,
		      uint32_t tsc_khz, uint32_t slew_ppb);

/*
 * Clock ns at @tsc as [*lo, *hi]: linear between neighbours, widened by the wider bracket of both
 * ends (half of it, as ns, rounded up), by slew_ppb and by the one ns a reading truncates.  In an
 * interval with a step the range spans "still before" and "already after" it.
 * 0: inside the samples; 1: outside, extrapolated with the rate of the nearest interval, the bound
 * growing with the distance; -ERANGE (also 2^62 cycles or more away).
 */
int clock_pieces_to_ns(const struct clock_pieces *p, uint64_t tsc, uint64_t *lo, uint64_t *hi);

/*
 * TSC range in which the clock can have read @ns, with the same bounds; a step widens it to its
 * whole interval.  0 or 1 as above; -ENOTUNIQ: the clock was set back and may have read @ns in two
 * separate places; -ENODATA: no interval contains it (possible only beside steps); -ERANGE.
 */
int clock_pieces_to_tsc(const struct clock_pieces *p, uint64_t ns, uint64_t *lo, uint64_t *hi);

/* Whether @tsc is between two samples between which the clock was set: two lines are possible. */
bool clock_pieces_was_set(const struct clock_pieces *p, uint64_t tsc);

/*
 * Does this trace clock, as the kernel names it, count ns? Not so x86-tsc, counter, uptime and
 * unknown ones. (perf has realtime, too.)
 */
bool clock_trace_is_ns(const char *name);

/* ---- parameters given by hand, as several commands take them ---- */

#define PARAMS_MAX_NUMBERS 5

/*
 * "N,N,..." of min to max (at most PARAMS_MAX_NUMBERS) 64-bit numbers into v; returns how many
 * there were. form is what a message says was expected. -EINVAL: usage; -ENOMEM.
 */
int params_numbers(const char *option, const char *text, const char *form, int min, int max,
		   uint64_t *v, struct kvmft_err *err) __must_check;

/* --pvclock TSC,SYSTEM_TIME,MUL,SHIFT[,FLAGS]; without FLAGS the record is PVCLOCK_TSC_STABLE. */
int params_pvclock(const char *text, struct pvclock *pv, struct kvmft_err *err) __must_check;
