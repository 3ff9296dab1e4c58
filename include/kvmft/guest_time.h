/* SPDX-License-Identifier: GPL-2.0-or-later */
/* guest_time.h: from a guest's trace clock to host TSC. */
#ifndef KVMFT_GUEST_TIME_H
#define KVMFT_GUEST_TIME_H

#include "kvmft/epoch.h"

#include "kvmft/own_tsc.h"

struct guest_time {
	bool kvmclock;	/* stamps + offset are kvmclock ns; else by the guest's own TSC */
	int64_t offset; /* ns to add to get kvmclock */
	struct own_tsc own;
	/*
	 * When it was, roughly: guest TSC near_guest was host TSC near_host, by both wall clocks.
	 */
	bool has_near;
	uint64_t near_guest, near_host;
};

/* -ENOTSUP with err: what is missing and how to get it. */
int guest_time_init(struct guest_time *g, const struct capture *cap, struct kvmft_err *err)
	__must_check;
/*
 * After a reboot the guest's TSC repeats values. Which of several host times is meant can then be
 * told from the wall clocks that both captures read beside their TSC, even if these agree only
 * roughly.
 */
void guest_time_anchor(struct guest_time *g, const struct capture *cap, const struct capture *host);
void guest_time_free(struct guest_time *g); /* NULL is fine; g itself is the caller's */
/*
 * after: host TSC of the previous event on the same CPU, 0 if there is none. If the epochs leave a
 * choice, it is the next one after that.
 */
enum epoch_result guest_time_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
				     uint64_t after, uint64_t ts, uint64_t *lo, uint64_t *hi);
/* The same of all stamps around ts as a line; false: there is none. See epoch_guest_line(). */
bool guest_time_line(const struct guest_time *g, const struct epoch_vcpu *v, uint64_t ts,
		     struct epoch_line *line);
/* For a guest TSC, whatever the capture's trace clock. */
enum epoch_result guest_time_tsc_to_host(const struct guest_time *g, const struct epoch_vcpu *v,
					 uint64_t ts, uint64_t *lo, uint64_t *hi);

#endif
