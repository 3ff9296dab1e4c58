/* SPDX-License-Identifier: GPL-2.0-or-later */
/* gone.c: options that there were, in any command, and what does the same. */
#include "kvmft/cli.h"

const struct opt_gone kvmft_gone[] = {
	{ NULL, "allow-lost", "exit status 3 says that only events were lost", 0 },
	{ NULL, "clocksource", "what --mono-raw's LAST counts is seen from its MULT, or in --guest-capture", 0 },
	{ NULL, "cpus", "taskset -c LIST kvmft record ...", 0 },
	{ "trace", "delay", "0.5 s are waited for events of other sides", 0 },
	{ NULL, "force", "> OUT replaces a file", 0 },
	{ NULL, "hmp", "--monitor SOCKET", 0 },
	{ NULL, "instance", "trace-cmd and KernelShark show the top-level buffer as well", 0 },
	{ NULL, "keep-captures", "--keep N", 0 },
	{ NULL, "load-modules", "modprobe kvm_intel, kvm_amd or, in a guest, msr", 0 },
	{ NULL, "no-pager", "KVMFT_PAGER=cat kvmft ...", 0 },
	{ NULL, "output", "> OUT", 'o' },
	{ NULL, "overwrite", "--flight-recorder keeps the newest events", 0 },
	{ NULL, "qmp", "--monitor SOCKET", 0 },
	{ "snapshot", "quiet", "> /dev/null", 'q' },
	{ "trace", "side", "kvmft trace ... | grep, or kvmft record and kvmft merge --side", 0 },
	{ NULL, "subbuf", "sub-buffers are as long as those of the input", 0 },
	{ "trace", "tsc-khz", "kvmft record, and kvmft merge --tsc-khz", 0 },
	{ "trace", "tsc-offset", "kvmft record, and kvmft merge --tsc-offset", 0 },
	{ "trace", "tsc-ratio", "kvmft record, and kvmft merge --tsc-ratio", 0 },
	{ NULL, NULL, NULL, 0 },
};
