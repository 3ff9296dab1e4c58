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
 * Of a khz whose tsc_khz_inverse() is known, for where it is done by the million: multiplications
 * instead of a division.
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

/*
 * Which TSC map and which pvclock record a vCPU had at a given moment.
 *
 * A vCPU's TSC offset changes when the guest or user space writes its TSC, and its pvclock record
 * when KVM takes a new snapshot. struct epoch_vm replays those events, in host-TSC order, into one
 * list of epochs per vCPU. Converting from the host picks the epoch by time. Converting to the host
 * tries every epoch and accepts only a result inside the epoch that produced it; if there is none,
 * or more than one, that is reported, never guessed.
 *
 * All stamps are host TSC cycles unless they are called guest (cycles) or ns (kvmclock).
 */

/* Outcome of a conversion; the first three have stored a value, the others have not. */
enum epoch_result {
	EPOCH_EXACT,	    /* one epoch, its constants observed */
	EPOCH_BORROWED,	    /* pvclock record seen only later; an unseen change is possible */
	EPOCH_DOUBTFUL,	    /* lost events, or a ratio unknown or changed, put it in doubt */
	EPOCH_AMBIGUOUS,    /* two or more places on the host are possible */
	EPOCH_NONE,	    /* no epoch produces it */
	EPOCH_BEFORE_FIRST, /* before the first epoch known */
	EPOCH_NO_MAP,	    /* nothing known about this vCPU */
	EPOCH_NO_RECORD,    /* no pvclock record known for that time */
	EPOCH_RANGE,	    /* the arithmetic has no answer (before the clock's zero, ...) */
	EPOCH_NR_RESULTS,
};

/* True if the conversion stored a value. */
static inline bool epoch_result_usable(enum epoch_result r)
{
	return r <= EPOCH_DOUBTFUL;
}

/* What was noticed about a vCPU while its epochs were built; a bit set. */
enum epoch_note {
	EPOCH_NOTE_READ_MISMATCH = 1 << 0, /* first event's previous is not what debugfs said */
	EPOCH_NOTE_CHAIN_BROKEN = 1 << 1,  /* an event's previous is not the last one's next */
	EPOCH_NOTE_LOST_EVENTS = 1 << 2,   /* a later read differs from the last event */
	/* ratio at the end differs; no record says since when */
	EPOCH_NOTE_RATIO_CHANGED = 1 << 3,
	EPOCH_NOTE_RATIO_UNKNOWN = 1 << 4, /* no debugfs value yet: "not scaled" is assumed */
};

/*
 * In force from @from until the next epoch's from.  The last one has no end, except that no
 * conversion towards the host looks further than 2^60 cycles into it.
 */
struct epoch {
	uint64_t from;
	struct tsc_map map;
	struct pvclock pv;
	bool has_map; /* only an epoch at the head of the list may lack it */
	bool has_pv;
	bool doubtful;
};

/* One vCPU.  Read freely; changed only by the functions below. */
struct epoch_vcpu {
	uint32_t id;	    /* KVM's vcpu_id: the APIC id, with gaps; not an index */
	unsigned int notes; /* enum epoch_note */
	struct epoch *v;
	size_t n, room;
	uint64_t read_at;     /* debugfs was read at this host TSC ... */
	uint64_t read_offset; /* ... and said this; to be compared while read_pending */
	bool has_read;
	bool read_pending;
	bool has_write;	     /* a kvm_write_tsc_offset was seen */
};

/*
 * Epochs of all vCPUs, for 25 MB: a file may claim thousands of vCPUs, and a guest make records
 * without end. Then its kvmclock is unknown from there on, and others' are what they were.
 */
#define EPOCH_ANNOUNCED_MAX (1u << 18)

/* One VM: vCPUs sorted by id.  Pointers to vCPUs stay valid until epoch_vm_free(). */
struct epoch_vm {
	struct epoch_vcpu **vcpus;
	size_t n, room;
	uint64_t khz;	     /* of the host's TSC, set by who makes it; 0: not known */
	uint64_t watch_from; /* offset events are recorded since this host TSC */
	uint64_t last_event; /* host TSC of the newest event fed */
	struct pvclock pv;	     /* the VM-wide record, if has_pv, ... */
	uint64_t pv_from;	     /* ... seen first at this host TSC */
	bool has_pv;
	uint64_t announced; /* records, times vCPUs; beyond EPOCH_ANNOUNCED_MAX none is kept */
};

/*
 * A new empty VM; free with epoch_vm_free(). @watch_from: host TSC from which on
 * kvm_write_tsc_offset was being recorded; what debugfs said later then holds from there on unless
 * an event says otherwise. 0 if the start does not matter.
 */
struct epoch_vm *epoch_vm_new(uint64_t watch_from);

/* Accepts NULL and a VM that any failing function below has left behind. */
void epoch_vm_free(struct epoch_vm *vm);

/* The vCPU with that id, or NULL.  Borrowed. */
const struct epoch_vcpu *epoch_vm_find(const struct epoch_vm *vm, uint32_t id);

/*
 * The same, or the VM's first vCPU where there is none of that id, or none was requested (-1).
 * NULL: the VM is NULL or has none.
 */
const struct epoch_vcpu *epoch_vm_or_first(const struct epoch_vm *vm, int64_t id);

/* Is the map of that vCPU known, at any time?  @vm may be NULL. */
bool epoch_vm_has_map(const struct epoch_vm *vm, uint32_t id);

/*
 * The map of the first vCPU whose first map is known: vCPUs share the ratio. NULL if there is none.
 */
const struct tsc_map *epoch_vm_first_map(const struct epoch_vm *vm);

/*
 * Feeding.  Events in the order of their host TSC; all return 0, or -EINVAL for an event
 * older than the newest one fed.  On error nothing has changed but the notes of that vCPU.  A
 * new vCPU id makes a new vCPU, even then.
 */

/*
 * debugfs said @map when it was read at host TSC @at (not an event: any @at will do).  Feed it
 * before the first kvm_write_tsc_offset of that vCPU, whatever the stamp of that event: events
 * older than @at are then understood as having led to what was read.
 * -EINVAL: a value or an offset event was fed for this vCPU already; or as tsc_map_check().
 */
int epoch_vm_read(struct epoch_vm *vm, uint32_t id, uint64_t at, const struct tsc_map *map);

/*
 * Tracepoint kvm_write_tsc_offset at @host: L1 offset @prev became @next.  The ratio stays.
 * @prev is checked against what is known: see EPOCH_NOTE_READ_MISMATCH and _CHAIN_BROKEN; the
 * epoch it contradicts becomes doubtful.  With another offset the record of this vCPU ends too:
 * KVM announces a new one before the guest runs again.  A first write with @prev 0, of a vCPU of
 * which nothing older is known, makes it: it has no time before @host (kvm_arch_vcpu_create() in
 * arch/x86/kvm/x86.c leaves the offset 0 and then sets it).
 * A software KVM (PVM) prints offsets it never applies: do not feed them.
 */
int epoch_vm_write_offset(struct epoch_vm *vm, uint32_t id, uint64_t host, uint64_t prev,
			  uint64_t next);

/* Tracepoint kvm_update_master_clock: a new snapshot.  Records stay until announced. */
int epoch_vm_master_clock(struct epoch_vm *vm, uint64_t host, bool use_master_clock);

/*
 * Tracepoint kvm_pvclock_update, or a record read in the guest at @host.  With TSC_STABLE set it
 * counts for every vCPU of the VM, else for this one.  A re-announcement makes no epoch.
 * Also an error of pvclock_check() (nothing changed).
 */
int epoch_vm_pvclock(struct epoch_vm *vm, uint32_t id, uint64_t host, const struct pvclock *pv);

/*
 * debugfs said @offset, read again at @at: an epoch that says otherwise is doubtful, and so are
 * those after it with the same offset.
 */
void epoch_vm_check_read(struct epoch_vm *vm, uint32_t id, uint64_t at, uint64_t offset);

/*
 * debugfs said @map at the end of the capture; feed it last.  Differences are noted: another
 * offset makes the last epoch doubtful, another ratio all of them, unless the pvclock records say
 * since when it is in force: they are made for the frequency of the guest's TSC.  Where no initial
 * value was fed it serves as one.  Returns a bit set of the enum epoch_note found now (0: all
 * well), or an error of tsc_map_check().
 */
int epoch_vm_check_end(struct epoch_vm *vm, uint32_t id, const struct tsc_map *map);

/* Conversions; @c as found by epoch_vm_find(), NULL gives EPOCH_NO_MAP. */

/* Index of the epoch in force at @host, or -1 before the first. */
long epoch_index(const struct epoch_vcpu *c, uint64_t host);

/* Guest TSC at host TSC @host: exact. */
enum epoch_result epoch_host_to_guest(const struct epoch_vcpu *c, uint64_t host, uint64_t *guest);

/*
 * Host TSCs at which the guest read @guest: [*lo, *hi], never empty; if no host cycle reads the
 * value, it is the first one after it.
 */
enum epoch_result epoch_guest_to_host(const struct epoch_vcpu *c, uint64_t guest, uint64_t *lo,
				      uint64_t *hi);

/* Guest TSCs @from .. @from + @len - 1 are host TSCs + @offset; @len 0: none. */
struct epoch_line {
	uint64_t from, len, offset;
};

/*
 * What epoch_guest_to_host() says of all guest TSCs around @guest as a line, for which no epoch has
 * to be looked up. False: @guest has no host TSC, or several, or a TSC that is scaled.
 */
bool epoch_guest_line(const struct epoch_vcpu *c, uint64_t guest, struct epoch_line *line);

/* kvmclock ns at host TSC @host, by the map and the record in force: exact. */
enum epoch_result epoch_host_to_kvmclock(const struct epoch_vcpu *c, uint64_t host, uint64_t *ns);

/* Host TSCs at which kvmclock read @ns: [*lo, *hi] as for epoch_guest_to_host(). */
enum epoch_result epoch_kvmclock_to_host(const struct epoch_vcpu *c, uint64_t ns, uint64_t *lo,
					 uint64_t *hi);

/*
 * The same between guest TSC and kvmclock; the epoch is the one the value belongs to on the host,
 * under the same rule of exactly one.  A guest TSC has one kvmclock.
 */
enum epoch_result epoch_guest_to_kvmclock(const struct epoch_vcpu *c, uint64_t guest, uint64_t *ns);
enum epoch_result epoch_kvmclock_to_guest(const struct epoch_vcpu *c, uint64_t ns, uint64_t *lo,
					  uint64_t *hi);

/*
 * From any clock of a host or guest to any other.
 *
 * Each clock follows from one that is nearer to the host's TSC, by what its link says: so the way
 * between two clocks is up from the one to what both share, and down to the other.  Nothing else
 * converts: two clocks that merely tick at nearly the same rate are never linked.  A link that is
 * not known has a name, with a text that says how to get it.
 */

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
