# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Pairs of recordings of one guest: with a setting that costs it something, and with another in its place; and some
# of a guest whom nothing costs much. Polling in vain, ticks, xAPIC, moves and small pages are in built captures only: KVM
# stops to poll after a few long halts, a guest without its APIC's timer hung, one without x2APIC used it little, and
# a busy emulator moved a vCPU 5 times a second where it was told to 200 times.

. "$VM_LIB/host.sh"

need_kvmft
n=0

# take NAME WORK [OPTION...]: the guest does that while it is recorded, for 6 s or with these options.
take()
{
	name=$1 work=$2
	shift 2
	[ $# -gt 0 ] || set -- -d 6s
	n=$((n + 1))
	flag_set "$guest-work$n" "$work"
	flag_wait "$guest-begun$n" 300
	sleep 1
	"$KVMFT" record -o "/tmp/$name" "$@" 2>"/tmp/$name.err" ||
		fail "record $name: $(cat "/tmp/$name.err")"
	[ "$name" != serial.ill ] || "$KVMFT" advise -d 6s --format json >"$RESULTS/live.json" || fail "advise live"
	flag_set "$guest-done$n"
	tar -cf "$RESULTS/$name.tar" -C /tmp "$name"
	rm -rf "/tmp/${name:?}"
	note "$name: done"
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
truncate -s 64M /tmp/old.raw
guest vm1 --qemu-args "-device isa-serial,chardev=extra -chardev null,id=extra \
-drive if=none,id=old,file=/tmp/old.raw,format=raw -device ide-hd,drive=old"
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
take vmm-device.ill "reads /dev/sda"
take vmm-device.mended "reads /dev/vda"
# Somebody asks again and again how much memory changes.
while guest_monitor vm1 "calc_dirty_rate -b 1" >/dev/null; do
	sleep 1.2
done &
asks=$!
take dirty-log.ill dirty -e default -e mem -d 20s
kill $asks
sleep 2
take dirty-log.mended dirty -e default -e mem -d 20s
guest_kill vm1
pass "$(ls "$RESULTS"/*.tar | wc -l) recordings"
finish
