/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qemu.c: `kvmft qemu`, the group of commands for QEMU's own trace events. */
#include "qemu.h"
#include "cmds.h"

void qemu_print_notes(const struct sbuf *notes)
{
	const char *p = notes->s;

	while (p && *p) {
		size_t n = strcspn(p, "\n");

		cli_note("%.*s", (int)n, p);
		p += n + !!p[n];
	}
}

static const struct cmd *const qemu_verbs[] = {
	&cmd_qemu_events, &cmd_qemu_set,     &cmd_qemu_trace_file,
	&cmd_qemu_sdt,	  &cmd_qemu_formats, NULL,
};

static const struct opt qemu_options[] = {
	OPT_END,
};

const struct cmd cmd_qemu = {
	.name = "qemu",
	.summary = "QEMU's own trace events: control and formats",
	.args = "COMMAND ...",
	.description =
		"QEMU has trace events of its own, in its devices and block layers. These commands show and\n"
		"switch them in a running QEMU through its monitor.\n"
		"`kvmft help qemu COMMAND` has the options of each.",
	.opts = qemu_options,
	.options_first = true,
	.verbs = qemu_verbs,
	.min_args = 1,
	.max_args = -1,
};
