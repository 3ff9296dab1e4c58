# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

# The workload: direct I/O that must reach the host, and the old wall-clock MSR, which the guest
# reads for no other reason, so that one value on both sides names the same moment.
cat >/tmp/work.sh <<'END'
i=0
while [ $i -lt "$WORK_ROUNDS" ]; do
	dd if=/dev/vda of=/dev/null bs=64k count=8 skip=$((i * 8)) iflag=direct 2>/dev/null
	dd if=/dev/zero of=/dev/vda bs=4k count=2 seek=$((i * 2)) oflag=direct 2>/dev/null
	rdmsr -p 0 0x11
	i=$((i + 1))
done
END
"$KVMFT" check >/tmp/check 2>&1
check "guest: check finds all that it needs" same "$?" 0
check "guest: ... as a guest of KVM" same "$(grep -cE \
	'^as a guest \(from what this machine is|^guest-events +ok|^hypervisor +ok .*KVMKVMKVM' /tmp/check)" 3
grep -E ' (LACKING|absent|unknown) ' /tmp/check | sed 's/^/# /'
tracefs_state >/tmp/state.before
flag_set guest-ready
flag_wait host-recording
"$KVMFT" record ${STACKS:+--stacks block_rq_issue} -o /tmp/guest -- sh /tmp/work.sh 2>/tmp/record.err >/dev/null
status=$?
flag_set guest-recorded
check "guest: record exits 0" same "$status" 0
sed 's/^/# /' /tmp/record.err
tracefs_state >/tmp/state.after
check "guest: tracefs is as it was" diff /tmp/state.before /tmp/state.after
# One file: 9p takes a good part of a second for each.
tar -cf "$RESULTS/guest-vm1.tar" -C /tmp guest
flag_wait host-done
finish
