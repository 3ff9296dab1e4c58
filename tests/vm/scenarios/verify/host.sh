# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Two guests at once, one on kvm-clock and one on the TSC, each recorded in two trace clocks at the
# same time; the first has a TSC written and is rebooted, all during one recording of the host.

. "$VM_LIB/host.sh"

need_kvmft
# Without TSC_ADJUST the guest's kernel does not notice, and undo, that its TSC was written. The rig
# says -no-reboot; this guest may.
guest_start vm1 --vcpus 2 --qemu-args "-cpu $RIG_GUEST_CPU,-tsc-adjust -action reboot=reset"
guest_start vm2 --vcpus 4 --cmdline "no-kvmclock tsc=reliable tsc_early_khz=$(tsc_khz)"
flag_wait vm1-ready 400
flag_wait vm2-ready 400
note "guests are up after $(uptime_cs) cs"
# Only events that prove the alignment: a guest that boots makes a million events of other kinds.
# Interrupts show an exit sooner than kvm_exit does.
"$KVMFT" record -o /tmp/host -b 8M -e kvm:kvm_entry -e kvm:kvm_exit -e kvm:kvm_msr \
	-e irq_vectors:local_timer_entry -e irq_vectors:reschedule_entry 2>/tmp/record.err &
recorder=$!
recording()
{
	[ -r /tmp/host/meta ] && grep -q '^vcpu ' /tmp/host/meta
}
wait_until 240 recording || die "the host's recording did not start: $(cat /tmp/record.err)"
flag_set host-recording
note "the host records after $(uptime_cs) cs, both guests record"
flag_wait vm1-first 400
flag_wait vm2-first 400
fact vm1_offset "$(guest_tsc_offset vm1 0)"
fact vm2_offset "$(guest_tsc_offset vm2 0)"
flag_set offsets-read
note "vm1 writes a TSC and reboots after $(uptime_cs) cs"
flag_wait vm1-second 500
note "recorded after $(uptime_cs) cs"
fact vm1_offset2 "$(guest_tsc_offset vm1 0)"
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
tar -cf "$RESULTS/host.tar" -C /tmp host
flag_set host-done
check "vm1: all well" guest_wait_done vm1
check "vm2: all well" guest_wait_done vm2
finish
