/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * convert_ctx.h: where `kvmft convert` gets its clock parameters from: captures, this machine, and
 * the user's options, which take precedence.
 */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/pairing.h"
#include "kvmft/hostmap.h"
#include "kvmft/vm.h"

/* The VMs of this machine, read before the sandbox, which hides other processes. */
struct convert_live {
	struct vm_list *list;
	int ret; /* of vm_scan(), and its err */
	struct kvmft_err err;
};

/* The options as parsed; texts are borrowed from argv. */
struct convert_params {
	const char *input, *guest, *vm;
	bool solve;
	struct opt_u64 vcpu, tsc_offset, sched_offset, tsc_khz;
	const char *tsc_ratio, *pvclock, *kernel_sched;
	struct str_list mono_raw, cyc2ns;
	struct convert_live live;
};

struct convert_ctx {
	const struct convert_params *p;
	enum clock_id from, to;
	struct clock_chain clock;
	char vm[64]; /* label of the VM, "" when it has none */
	struct capture *host, *guest;
	struct fmt *fmt, *guest_fmt;
	struct hostmap *map;
	struct match match; /* the guest's VM */
	struct cap_pieces sample[2]; /* of from and to: what their links borrow */
};

/*
 * Opens the captures that p names and fills c->clock with everything known that is of use between
 * the two clocks. c must not move until convert_ctx_close(), which is due after a failure, too. 0
 * or -errno with err. Unknown parameters are no failure: clock_route_find() says what is missing.
 */
int convert_ctx_open(struct convert_ctx *c, const struct convert_params *p, enum clock_id from,
		     enum clock_id to, struct kvmft_err *err) __must_check;
void convert_ctx_close(struct convert_ctx *c);

/*
 * Looks for the VMs that run here if p may need one; before the sandbox. The caller frees
 * p->live.list.
 */
void convert_live_scan(struct convert_params *p);
