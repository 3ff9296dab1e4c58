/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prove.h: kvmft put to the test on this machine: a tiny guest of its own, whose clock is known, is
 * recorded and aligned as any other.
 */
#pragma once

#include "kvmft/proof.h"

struct prove_vm {
	bool scaled;	 /* it was given a TSC of another rate */
	bool moved;	 /* arm64: it is the first one with another offset of its counter */
	uint64_t stamps; /* that its guest took */
	struct align align;
	enum align_kind verdict;
	/* TSC offsets that KVM told, and those of the recording that are the same to the cycle */
	unsigned int offsets, offsets_right;
	uint64_t bound; /* cycles; arm64: what the one found may be off; 0 = none found */
	bool ratio_right; /* scaled: the recorded one gives the rate that was asked for */
	uint64_t khz;
};

struct prove_event {
	char name[64];
	uint64_t count;
};

struct prove {
	struct prove_vm vm[2];
	size_t nvm;
	uint64_t host_khz;
	uint64_t events, lost; /* of the host's recording */
	bool lost_unknown;
	/* an exit for cpuid, on arm64 hvc, in ns, not recorded and recorded; 0 = unknown */
	uint64_t bare_ns, traced_ns;
	/* from an interrupt for a halted vCPU to its next instruction, ns */
	uint64_t wakes, wake_median, wake_p99, wake_max;
	struct prove_event *event; /* by name */
	size_t nevent, event_cap;
};

/* Fills the new directory dir with host, guest0 and maybe guest1; NULL: kept nowhere. */
int prove_run(const char *dir, struct prove *p, note_fn *note, struct kvmft_err *err) __must_check;
void prove_free(struct prove *p);
