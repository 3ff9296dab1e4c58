# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Smoke test of the rig itself: a host with the interfaces kvmft needs, a guest on kvm-clock.

. "$VM_LIB/host.sh"

check "host: /dev/kvm" test -c /dev/kvm
check "host: kvm tracepoints" test -d /sys/kernel/tracing/events/kvm/kvm_exit
check "host: kprobe_events" test -w /sys/kernel/tracing/kprobe_events
check "host: clocksource is tsc" same "$(clocksource)" tsc
check "host: modprobe finds the kernel's modules" modprobe -n virtio_net
fact uptime_before_guest_cs "$(uptime_cs)"

guest_start vm1
guest_wait_up vm1
fact uptime_guest_up_cs "$(uptime_cs)"

flag_wait guest-ready
vcpu=0
while [ "$vcpu" -lt "$RIG_VCPUS" ]; do
	check "host: thread of vCPU $vcpu" guest_tid vm1 "$vcpu"
	check "host: tsc-offset of vCPU $vcpu" guest_tsc_offset vm1 "$vcpu"
	fact "tsc_offset_$vcpu" "$(guest_tsc_offset vm1 "$vcpu")"
	vcpu=$((vcpu + 1))
done
check "host: monitor answers" same "$(guest_monitor vm1 info status)" "VM status: running"
fact tsc_khz "$(tsc_khz)"
fact kernel "$(uname -r)"
fact guest_pid "$(guest_pid vm1)"
flag_set host-done
check "guest: all well" guest_wait_done vm1
fact uptime_end_cs "$(uptime_cs)"
finish
