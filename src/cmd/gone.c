/* SPDX-License-Identifier: GPL-2.0-or-later */
/* gone.c: options that there were, in any command, and what does the same. */
#include "kvmft/cli.h"

const struct opt_gone kvmft_gone[] = {
	{ NULL, "allow-lost", "exit status 3 says that only events were lost" },
	{ NULL, "clocksource", "what --mono-raw's LAST counts is seen from its MULT, or in --guest-capture" },
	{ NULL, "cpus", "taskset -c LIST kvmft record ..." },
	{ "trace", "delay", "0.5 s are waited for events of other sides" },
	{ NULL, "force", "> OUT replaces a file" },
	{ NULL, "hmp", "--monitor SOCKET" },
	{ NULL, "instance", "trace-cmd and KernelShark show the top-level buffer as well" },
	{ NULL, "keep-captures", "--keep N" },
	{ NULL, "load-modules", "modprobe kvm_intel, kvm_amd or, in a guest, msr" },
	{ NULL, "no-pager", "KVMFT_PAGER=cat kvmft ..." },
	{ NULL, "output", "> OUT" },
	{ NULL, "overwrite", "--flight-recorder keeps the newest events" },
	{ NULL, "qmp", "--monitor SOCKET" },
	{ "snapshot", "quiet", "> /dev/null" },
	{ "trace", "side", "kvmft trace ... | grep, or kvmft record and kvmft merge --side" },
	{ NULL, "subbuf", "sub-buffers are as long as those of the input" },
	{ "trace", "tsc-khz", "kvmft record, and kvmft merge --tsc-khz" },
	{ "trace", "tsc-offset", "kvmft record, and kvmft merge --tsc-offset" },
	{ "trace", "tsc-ratio", "kvmft record, and kvmft merge --tsc-ratio" },
	{ NULL, NULL, NULL },
};
