/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * runs.h: when each vCPU thread of a host may have been in its guest: stretches of host time from
 * kvm_entry to what ended it. If host events were lost, or two exits follow each other without an
 * entry, the guest may have run.
 *
 * Memory is bounded: beyond RUNS_MAX stretches, those with a short gap between them are joined,
 * which can only claim "may have run" where it did not.
 */
#pragma once

#include "kvmft/hostmap.h"
#include "kvmft/vcpu_turn.h"

#define RUNS_MAX (1u << 22)

struct vcpu_run {
	uint64_t from, to; /* host TSC, both included */
};

/* In time order, disjoint. */
struct run_list {
	struct vcpu_run *v;
	size_t n, cap;
};

/*
 * Appends the part of [from, to] that is later than the others; it is joined with the last if the
 * gap between is shorter than min_gap. Whether there is one more.
 */
bool run_list_add(struct run_list *l, uint64_t from, uint64_t to, uint64_t min_gap);
/* The number of the first that ends at or after that time; n if there is none. */
size_t run_list_at(const struct run_list *l, uint64_t host);
/* Joins those that are separated by less than min_gap. */
void run_list_join(struct run_list *l, uint64_t min_gap);

struct run_thread {
	struct run_list list;
	/* While collecting: its guest may run since then, or the time of its last exit. */
	struct vcpu_turn turn;
	uint64_t since;
};

struct runs {
	struct run_thread *t;
	size_t tcap;
	struct u64map by_tid;	/* tid → index into t */
	struct u64map deadline; /* see runs_deadline() */
	size_t ndeadline;
	uint64_t total, min_gap;
};

/* Of all vCPU threads of the map. *out is freed with runs_free(). -errno with err. */
int runs_collect(struct hostmap *map, struct runs **out, struct kvmft_err *err) __must_check;
/* The runs of a thread; NULL if it has none. */
const struct run_list *runs_of(const struct runs *r, int32_t tid);
/*
 * When the host handled this thread's write of that value to IA32_TSC_DEADLINE; 0: it did not, or
 * more than once.
 */
uint64_t runs_deadline(const struct runs *r, int32_t tid, uint64_t value);
void runs_free(struct runs *r);
