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
# By samples beside the TSC: no constant of this guest leads to its trace clock.
"$KVMFT" record -q -o /tmp/vm2local --clock local -- sh -c 'rdmsr 0x11; rdmsr 0x11' >/dev/null
check "vm2: record --clock local exits 0" same "$?" 0
flag_set vm2-recorded
tar -cf "$RESULTS/vm2.tar" -C /tmp vm2 vm2local
finish
