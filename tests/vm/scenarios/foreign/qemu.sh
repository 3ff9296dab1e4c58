# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # pair is set by pair_begin
#
# Steps of scenario foreign: trace events of the guest's QEMU beside trace-cmd on both levels.

# qemu_pair PAIR GUEST OPTIONS: both levels, and trace events of this guest's QEMU.
qemu_pair()
{
	[ ! -e "$GUEST_RUN/vm1" ] || guest_gone vm1 || guest_end vm1
	guest_start "$2" --mem 768 --qemu-args "$3"
	guest_needed "$2"
	pair_begin "$1"
	pair_vm "$2" vm1
	clocks_fact begin
	# shellcheck disable=SC2086 # a list
	record_begin "$1" $HOST_EVENTS
	in_guest "$2" "events=\$FEW_EVENTS; recorded_work $1 6 $1/guest.dat"
	done_in_guest "$2"
	record_end "$1" "$1/host.dat"
	clocks_fact end
	pair_same_offsets "$2" vm1
	guest_end "$2"
}

# Debian's QEMU, whose only back end is a log; each line with the time of day and thread.
step_qemulog()
{
	qemu_pair qemulog vm4 "-msg timestamp=on -D /tmp/qemulog -trace virtio_*"
	mv /tmp/qemulog "$RESULTS/qemulog/qemu.log"
}

# Lines without any time.
step_qemubare()
{
	qemu_pair qemubare vm5 "-D /tmp/qemubare -trace virtio_*"
	mv /tmp/qemubare "$RESULTS/qemubare/qemu.log"
}

# A QEMU that also writes a simple file, QEMU_TRACE.
step_qemusimple()
{
	GUEST_QEMU="$QEMU_TRACE/bin/qemu-system-x86_64 -L /usr/share/seabios -L /usr/share/qemu"
	qemu_pair qemusimple vm6 "-D /tmp/qemusimple-log -trace virtio_* -trace kvm_run_exit -trace file=/tmp/qemusimple"
	GUEST_QEMU=qemu-system-x86_64
	mv /tmp/qemusimple "$RESULTS/qemusimple/simple"
	mv /tmp/qemusimple-log "$RESULTS/qemusimple/qemu.log"
}
