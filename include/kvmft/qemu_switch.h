/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_switch.h: switching the trace events of a running QEMU: which QEMU, switching, and what to
 * switch back if the kvmft that switched it was killed.
 */
#pragma once

#include "kvmft/monitor.h"

/* ---- which QEMU, and a connection to it ---- */

/* What options say: at most one of vm and monitor, a socket. */
struct qemu_target {
	const char *vm, *monitor;
	struct opt_u64 timeout;
};

struct qemu {
	struct monitor *m;
	uint32_t pid; /* 0 = unknown */
	char *name;   /* of the VM; NULL = unknown */
};

int qemu_open(const struct qemu_target *t, struct qemu *q, struct kvmft_err *err) __must_check;
void qemu_close(struct qemu *q);

/* ---- switch.c: switching, for `set` and for `record --qemu` ---- */

/*
 * Checks whether QEMU can do what s says. -ENOENT for an event that it does not know, -ENOTSUP for
 * one to be switched on that was compiled out; anything worth mentioning is added to notes, one per
 * line.
 */
int qemu_check(const struct mon_events *events, const struct mon_switches *s, struct sbuf *notes,
	       struct kvmft_err *err) __must_check;
/* Does what s says to the events that QEMU has. */
int qemu_apply(struct monitor *m, const struct mon_events *events, const struct mon_switch *s,
	       struct kvmft_err *err) __must_check;
/*
 * Switches back the events whose state in now differs from that in before; those that only one of
 * them has are left alone. All are tried; the first failure is returned.
 */
int qemu_restore(struct monitor *m, const struct mon_events *before, const struct mon_events *now,
		 struct kvmft_err *err) __must_check;

/* ---- what to switch off if the kvmft that switched it on was killed ---- */

/*
 * Opens our directory of these notes, which only we can write to; make: create it if it is missing.
 * A descriptor that the caller owns, or -errno.
 */
int qemu_left_place(bool make);
/* Adds the line of a QEMU; lines "on EVENT" follow. */
void qemu_left_add(struct sbuf *text, const struct qemu *q, const struct qemu_target *t);
/* Keeps text under the name of this process, until qemu_left_done(). */
int qemu_left_write(const struct sbuf *text, struct kvmft_err *err) __must_check;
void qemu_left_done(void);
/*
 * Switches off what processes that are gone left on; each answer of a QEMU may take timeout_ns.
 * Adds a line to out for each QEMU, with the names of the events. dry_run only looks. 0, or the
 * first failure with err set: then the file stays, to be tried again.
 */
int qemu_left_sweep(bool dry_run, uint64_t timeout_ns, struct sbuf *out,
		    struct kvmft_err *err) __must_check;
