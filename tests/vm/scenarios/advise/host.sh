# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Pairs of recordings of one guest: with a setting that costs it something, and with another in its place; and some
# of a guest whom nothing costs much. Polling in vain, ticks, xAPIC and what memory needs are in built captures only:
# KVM stops to poll after a few long halts, a guest without its APIC's timer hung, and one without x2APIC used it
# little.

. "$VM_LIB/host.sh"

need_kvmft
n=0

# take NAME WORK: the guest does that while it is recorded.
take()
{
	n=$((n + 1))
	flag_set "$guest-work$n" "$2"
	flag_wait "$guest-begun$n" 300
	sleep 1
	"$KVMFT" record -o "/tmp/$1" -d "${ADVISE_TIME:-6s}" 2>"/tmp/$1.err" || fail "record $1: $(cat "/tmp/$1.err")"
	[ "$1" != serial.ill ] || "$KVMFT" advise -d "${ADVISE_TIME:-6s}" --format json >"$RESULTS/live.json" || fail "advise live"
	flag_set "$guest-done$n"
	tar -cf "$RESULTS/$1.tar" -C /tmp "$1"
	rm -rf "/tmp/${1:?}"
	note "$1: done"
}

# guest NAME [OPTION VALUE]...: its vCPU has a CPU of its own
guest()
{
	guest=$1
	n=0
	guest_start "$@" --vcpus 1
	guest_wait_up "$1"
	for tid in "/proc/$(guest_pid "$1")"/task/*; do
		taskset -p 1 "${tid##*/}" >/dev/null
	done
	vcpu=$(guest_tid "$1" 0)
	taskset -p 2 "$vcpu" >/dev/null
	sleep 2
}

echo 0 >/sys/module/kvm/parameters/halt_poll_ns
guest vm1 --qemu-args "-device isa-serial,chardev=extra -chardev null,id=extra"
take healthy1 idle
take clock-reads.ill "clock hpet"
take clock-reads.mended "clock kvm-clock"
take healthy2 spin
take healthy3 "clock kvm-clock"
take healthy4 "serial /dev/null"
take healthy5 disk
take serial.ill "serial /dev/ttyS1"
take serial.mended "serial /dev/null"
taskset 2 sh -c 'while :; do :; done' &
thief=$!
take crowded.ill spin
kill $thief
take crowded.mended spin
mkdir -p /sys/fs/cgroup
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/vm1
guest_pid vm1 >/sys/fs/cgroup/vm1/cgroup.procs
echo 50000 100000 >/sys/fs/cgroup/vm1/cpu.max
take throttled.ill spin
echo max 100000 >/sys/fs/cgroup/vm1/cpu.max
take throttled.mended spin
for tid in "/proc/$(guest_pid vm1)"/task/*; do
	taskset -p 2 "${tid##*/}" >/dev/null
done
take emulator-shares.ill "clock kvm-clock"
for tid in "/proc/$(guest_pid vm1)"/task/*; do
	[ "${tid##*/}" = "$vcpu" ] || taskset -p 1 "${tid##*/}" >/dev/null
done
take emulator-shares.mended "clock kvm-clock"
guest_kill vm1
pass "$(ls "$RESULTS"/*.tar | wc -l) recordings"
finish
