/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu.h: the commands of `kvmft qemu`, one per file. A new one is a descriptor called "qemu NAME",
 * a line here and a line in qemu.c; its options are described in a subsection of
 * man/kvmft-qemu.1 called "kvmft qemu NAME".
 */
#ifndef KVMFT_CMD_QEMU_H
#define KVMFT_CMD_QEMU_H

#include "kvmft/cli.h"
#include "kvmft/monitor.h"

extern const struct cmd cmd_qemu_events;
extern const struct cmd cmd_qemu_set;
extern const struct cmd cmd_qemu_trace_file;
extern const struct cmd cmd_qemu_sdt;
extern const struct cmd cmd_qemu_formats;

/* ---- qemu_target.c: which QEMU, and a connection to it ---- */

/* What options say: at most one of vm, qmp and hmp. */
struct qemu_target {
	const char *vm, *qmp, *hmp;
	struct opt_u64 timeout;
};

/* The options of a command whose struct st has a struct qemu_target called member. */
#define QEMU_TARGET_OPTIONS(st, member)                                                            \
	OPTION(0, "vm", OPT_STR, st, member.vm, "SEL",                                             \
	       "the QEMU of this VM: UUID, name, PID or PID-FD (default: the only one)"),          \
	OPTION(0, "qmp", OPT_STR, st, member.qmp, "SOCKET", "speak QMP to this socket"),           \
	OPTION(0, "hmp", OPT_STR, st, member.hmp, "SOCKET",                                        \
	       "speak HMP, the monitor for people, to this socket"),                               \
	OPTION(0, "timeout", OPT_DURATION, st, member.timeout, "DURATION",                         \
	       "wait so long for each answer of QEMU (default: 5s)")

struct qemu {
	struct monitor *m;
	uint32_t pid; /* 0 = unknown */
	char *name;   /* of the VM; NULL = unknown */
};

int qemu_open(const struct qemu_target *t, struct qemu *q, struct kvmft_err *err) __must_check;
void qemu_close(struct qemu *q);

/* ---- qemu_switch.c: switching, for `set` and for `record --qemu` ---- */

/*
 * Looks whether QEMU can do what s says. -ENOENT for an event that it does not know, -ENOTSUP for
 * one that is to be switched on and was compiled out; what is worth a word is added to notes, a
 * line each.
 */
int qemu_check(const struct mon_events *events, const struct mon_switches *s, struct sbuf *notes,
	       struct kvmft_err *err) __must_check;
/* Does what one of them says, to the events that QEMU has. */
int qemu_apply(struct monitor *m, const struct mon_events *events, const struct mon_switch *s,
	       struct kvmft_err *err) __must_check;
/*
 * Switches events back whose state in now is not that of before; those that only one of them knows
 * are left alone. All are tried; the first failure is returned.
 */
int qemu_restore(struct monitor *m, const struct mon_events *before, const struct mon_events *now,
		 struct kvmft_err *err) __must_check;
/* The nearest name of an event, or NULL. */
const char *qemu_nearest(const struct mon_events *events, const char *name);
/* Prints notes, which end each with '\n', on stderr. */
void qemu_print_notes(const struct sbuf *notes);

/* ---- qemu_left.c: what to switch off when the one who switched it on was killed ---- */

/* Adds the line of a QEMU; lines "on EVENT" follow. */
void qemu_left_add(struct sbuf *text, const struct qemu *q, const struct qemu_target *t);
/* Keeps text under the name of this process, until qemu_left_done(). */
int qemu_left_write(const struct sbuf *text, struct kvmft_err *err) __must_check;
void qemu_left_done(void);
/*
 * Switches off what processes that are gone have left on; each answer of a QEMU may take timeout_ns.
 * Adds a line to out for each QEMU, with the names of the events. dry_run only looks. 0, or the first
 * failure with err set: then the file stays, to be tried again.
 */
int qemu_left_sweep(bool dry_run, uint64_t timeout_ns, struct sbuf *out,
		    struct kvmft_err *err) __must_check;

#endif
