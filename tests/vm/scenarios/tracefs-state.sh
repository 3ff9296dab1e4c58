# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

# Every control file of tracefs with its content, and all instances: what a tracer must leave as it
# found it. Files that count, or that show events, change by themselves and are left out.
tracefs_state()
{
	(
		cd /sys/kernel/tracing || exit 1
		ls instances
		cat kprobe_events uprobe_events 2>/dev/null
		find . -type f -perm -u+w \
			! -name trace ! -name 'trace_pipe*' ! -name 'trace_marker*' ! -name snapshot \
			! -name 'snapshot_raw' ! -name hist ! -name hist_debug ! -path './instances/*' \
			! -name free_buffer ! -name printk_formats ! -name error_log ! -name saved_cmdlines \
			! -name set_event_notrace_pid ! -name 'format' ! -name id |
			sort | while read -r f; do
			printf '%s: ' "$f"
			timeout 2 head -c 4096 "$f" 2>/dev/null | tr '\n' ' '
			echo
		done
	)
}
