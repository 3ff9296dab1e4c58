/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prove.h: the guest that a machine's KVM is tried with, and what it knows of itself. */
#pragma once

#include "kvmft/prove.h"

#define TRUTH_VMS    2u
#define TRUTH_VCPUS  2u
#define TRUTH_STAMPS 27000u /* whole rounds */
#define TRUTH_KICKS  8000u

/* What the guest did before it read its TSC; it goes through all of them, again and again. */
enum truth_step {
#ifdef __aarch64__
	TRUTH_BEGIN, TRUTH_ID, TRUTH_HVC, TRUTH_MMIO, TRUTH_HALT,
#else
	TRUTH_BEGIN, TRUTH_CPUID, TRUTH_MSR, TRUTH_PIO, TRUTH_MMIO, TRUTH_HALT,
#endif
	TRUTH_STEPS
};

struct truth_vcpu {
	uint64_t n, stamp[TRUTH_STAMPS]; /* guest TSC: step i % TRUTH_STEPS */
	/* TSC offset as KVM says, from the beginning and after the change; if has_offset */
	bool has_offset, changed;
	uint64_t before; /* stamps before the change, of a vCPU that halts */
	uint64_t offset[2];
};

/* Shared with the process that runs the guest. TSC: cycles of the host's. */
struct truth {
	struct truth_vm {
		uint32_t vcpus; /* 0: there is no such VM */
		int fd;
		uint64_t khz; /* of its TSC */
		/* arm64: what all its vCPUs' counters are ahead of the host's is from here on */
		uint64_t offset, offset_width;
		struct truth_vcpu vcpu[TRUTH_VCPUS];
	} vm[TRUTH_VMS]; /* the second has a TSC of another rate; arm64: is the first, later */
	uint64_t host_khz;
	uint64_t bare, traced; /* cycles of an exit, the best of some; 0 = unknown */
	uint64_t kicks,
		kick[TRUTH_KICKS]; /* when the halted vCPU 0 of the first VM got an interrupt */
	struct kvmft_err err;
	int ret;
};

/*
 * The process of the guest: makes the VMs, writes a byte to `ready`, reads one from `go`, runs
 * them, and does the same again before they end. 0, or -errno with t->err.
 */
int prove_guest(struct truth *t, int ready, int go);
