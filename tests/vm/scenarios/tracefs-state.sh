# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

# The control files of tracefs with their content, and all instances and probes: what a tracer must
# leave as it found it. Files that count, or that show events, change by themselves and are left
# out; of the event systems that kvmft does not use, the summary per system (enable) is enough.
# The kernel itself expands the top-level ring when the first event of all is enabled, in whichever
# instance: the note "(expanded: N)" goes then, and is left out too.
# Few processes, because each costs tens of milliseconds under emulation.
tracefs_state()
{
	(
		cd /sys/kernel/tracing || exit 1
		ls instances
		find . -maxdepth 1 -type f -perm -u+w \
			! -name trace ! -name 'trace_pipe*' ! -name 'trace_marker*' \
			! -name 'snapshot*' ! -name free_buffer ! -name error_log -print0 |
			xargs -0 grep -s ''
		grep -s '' events/enable events/*/enable events/*/filter
		for sys in kvm kvmmmu sched irq irq_vectors timer block msr kprobes; do
			[ ! -d "events/$sys" ] || grep -s '' "events/$sys"/*/enable \
				"events/$sys"/*/filter "events/$sys"/*/trigger
		done
		find options -type f -print0 | xargs -0 grep -s ''
	) | sed 's/ (expanded: [0-9]*)//'
}
