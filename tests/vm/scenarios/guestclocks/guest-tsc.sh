# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

note "clocksource $(clocksource)"
check "vm2: kvmclock is not in use" sh -c '! dmesg | grep -q "kvm-clock: using sched offset"'
"$KVMFT" record -o /tmp/vm2 -- sh -c 'rdmsr 0x11; rdmsr 0x11; dd if=/dev/vda of=/dev/null bs=64k count=4 iflag=direct' \
	2>/tmp/vm2.err >/dev/null
check "vm2: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/vm2.err
check "vm2: the capture says that sched_clock is the TSC" grep -q '^sched .*is_tsc=1' /tmp/vm2/meta
# local is converted by samples taken with the TSC, because no constant of this guest leads to it; mono_raw by
# its line.
for clock in local mono_raw; do
	"$KVMFT" record -q -o "/tmp/vm2$clock" --clock "$clock" -- sh -c 'rdmsr 0x11; rdmsr 0x11' >/dev/null
	check "vm2: record --clock $clock exits 0" same "$?" 0
done
flag_set vm2-recorded
tar -cf "$RESULTS/vm2.tar" -C /tmp vm2 vm2local vm2mono_raw
# If it ended before the host's recorder, it would be missing in that recorder's last list of VMs.
flag_wait host-done 400
finish
