/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guest_clock.h: what a guest knows about its own clock, read inside the guest.
 *
 * With these numbers the ns trace clocks of a guest become kvmclock, and kvmclock becomes guest TSC
 * (include/kvmft/clock.h), without perf_event_open and without the host's help.
 */
#pragma once

#include "kvmft/kclock.h"
#include "kvmft/clock.h"

#define KGUEST_MAX_PVCLOCK 64 /* records of the kernel's static array; CPUs above are elsewhere */

struct kguest_clock {
	bool kvm_guest;	     /* the hypervisor says that it is KVM */
	bool sched_known;    /* sched_is_tsc below is certain */
	bool sched_is_tsc;   /* no kvmclock in use: sched_clock() is the TSC */
	bool has_kvm_offset; /* kvm_sched_clock_offset, ns */
	int64_t kvm_offset;
	const char *kvm_source; /* "kprobe" or "dmesg"; static text */
	bool has_kernel_offset; /* __sched_clock_offset, ns */
	int64_t kernel_offset;
	const char *kernel_source;
	struct cpu_pvclock pv[KGUEST_MAX_PVCLOCK];
	size_t npv;
	bool has_raw; /* read, not yet checked: see mono_raw_learn() */
	struct kmono_raw raw;
	char why[256]; /* why kprobes could not be used; "" if they could */
};

/*
 * Fills *g from kernel variables through one kprobe, or from the boot log if that is not possible.
 * What was found is in the flags. t is borrowed.
 */
void kguest_clock_read(struct ktracefs *t, struct kguest_clock *g);

/* ---- the line of this machine's CLOCK_MONOTONIC_RAW, read and checked ---- */

struct mono_raw_line {
	struct mono_raw raw;
	bool over_kvmclock; /* its cycles are kvmclock ns, not TSC cycles */
	char source[48];    /* "vvar", "kprobe tk_core" */
};

/*
 * Reads what the kernel shows to each process, or else uses what g (NULL: not a guest) has read, or
 * else reads the kernel's timekeeper; accepts it only if it agrees with clock_gettime() now.
 * -ENODATA with err: not available, or it does not agree. t is borrowed.
 */
int mono_raw_learn(struct ktracefs *t, const char *clocksource, const struct kguest_clock *g,
		   struct mono_raw_line *m, struct kvmft_err *err) __must_check;
