# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# One guest records the same events with five trace clocks at once, then has the TSC of one vCPU
# written while it records; a second guest runs without kvmclock. All while the host records.

. "$VM_LIB/host.sh"

need_kvmft
# Without TSC_ADJUST the guest's kernel does not notice, and undo, that its TSC was written.
guest_start vm1 --qemu-args "-cpu $RIG_GUEST_CPU,-tsc-adjust"
guest_wait_up vm1
flag_wait vm1-ready
"$KVMFT" record -o /tmp/host 2>/tmp/record.err &
recorder=$!
recording()
{
	[ -r /tmp/host/meta ] && grep -q '^begin ' /tmp/host/meta
}
wait_until 30 recording || die "the host's recording did not start: $(cat /tmp/record.err)"
flag_set host-recording
note "the host records, vm1 records with five clocks"
flag_wait vm1-recorded 300

# sched_clock of this one is the TSC itself.
note "vm2, without kvmclock"
guest_start vm2 --vcpus 1 --script guest-tsc.sh \
	--cmdline "no-kvmclock tsc=reliable tsc_early_khz=$(tsc_khz)"
guest_wait_up vm2 # one that hangs in QEMU's TCG is noticed here, and the rig started again
flag_wait vm2-recorded 300
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
tar -cf "$RESULTS/host.tar" -C /tmp host
flag_set host-done
check "vm1: all well" guest_wait_done vm1
check "vm2: all well" guest_wait_done vm2
finish
