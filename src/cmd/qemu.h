/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu.h: the commands of `kvmft qemu`, one per file. A new one is a descriptor called "qemu NAME",
 * a line here and a line in qemu.c; its options are described in a subsection of
 * man/kvmft-qemu.1 called "kvmft qemu NAME".
 */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/qemu.h"

extern const struct cmd cmd_qemu_events;
extern const struct cmd cmd_qemu_set;
extern const struct cmd cmd_qemu_trace_file;
extern const struct cmd cmd_qemu_sdt;
extern const struct cmd cmd_qemu_formats;

/* Prints notes, which end each with '\n', on stderr. */
void qemu_print_notes(const struct sbuf *notes);
