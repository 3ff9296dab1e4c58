#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# kvmft guest-offset: numbers that agree with each other and with the kernel log. What a kprobe
# reads is proved in tests/vm/clocks.t.

. "$(dirname "$0")/lib.sh"

run "$kvmft" guest-offset --clock sundial
status_is 2 "unknown clock"
run "$kvmft" guest-offset operand
status_is 2 "operand"

run "$kvmft" guest-offset
first=$rc
if ! dmesg 2>/dev/null | grep -q 'Hypervisor detected: KVM'; then
	if [ "$first" = 0 ]; then
		skip "no KVM guest" "a KVM guest whose kernel log is gone"
	else
		status_is 4 "on a machine that is not a KVM guest"
		err_one_line "... one line"
		err_has 'no KVM guest|not a KVM guest|cannot tell|no-kvmclock' "... says why"
	fi
	finish
fi

log_kvm=$(dmesg | sed -n 's/.*kvm-clock: using sched offset of \([0-9]*\) cycles.*/\1/p' | tail -n 1)
log_kernel=$(dmesg | sed -n 's/.*sched_clock: Marking stable (.*)->([-0-9]*, \([-0-9]*\)).*/\1/p' | tail -n 1)
if [ -z "$log_kvm" ] || [ -z "$log_kernel" ]; then
	skip "values of the kernel log" "the log has lost its first lines"
	finish
fi
status_is 0 "in a KVM guest"
is "$(grep -vcE "^[a-z][a-z0-9_]*=[-a-z0-9,]*\$" "$out")" 0 "only NAME=VALUE lines"
# shellcheck disable=SC2154 # eval sets them
{
	eval "$(cat "$out")"
	is "$kvm_sched_clock_offset" "$log_kvm" "kvm_sched_clock_offset as in the log"
	is "$sched_clock_offset" "$log_kernel" "sched_clock_offset as in the log"
	is "$offset_local" "$log_kvm" "offset_local"
	is "$offset_perf" "$((log_kvm - log_kernel))" "offset_perf"
	is "$offset_global" "$offset_perf" "offset_global"
	out_has '^source=(kprobe|dmesg)$' "source is named"
}
for clock in local global perf; do
	run "$kvmft" guest-offset --clock $clock
	status_is 0 "--clock $clock"
	eval "want=\$offset_$clock"
	# shellcheck disable=SC2154
	is "$(cat "$out")" "$(printf '0x%x' "$want")" "... is the same in hex"
done

# A kernel log that may not be read is not the same as one without the lines.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && [ "$(cat /proc/sys/kernel/dmesg_restrict)" = 1 ]; then
	chmod 711 "$tmp"
	cp "$kvmft" "$tmp/kvmft"
	chmod 755 "$tmp/kvmft"
	run setpriv --reuid 65534 --regid 65534 --clear-groups "$tmp/kvmft" guest-offset
	status_is 4 "without rights"
	err_has 'cannot read the kernel log: .*run as root' "... says that the log cannot be read"
	err_one_line "... one line"
else
	skip "without rights" "not root, no setpriv, or everybody may read the kernel log"
fi
finish
