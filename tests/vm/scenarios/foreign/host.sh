# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # pair is set by pair_begin
#
# Host and guests recorded by other tools than kvmft, each by hand: pairs that know nothing of each other.
# FOREIGN=STEP... chooses; each step leaves a folder of captures, with the truth in its file `facts`.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../foreign-functions.sh"

HOST_EVENTS="-e kvm -e sched -e irq"
# Nothing that shows TSC offsets, and few enough to see a guest boot.
BARE_EVENTS="-e kvm:kvm_entry -e kvm:kvm_exit -e kvm:kvm_inj_virq -e sched:sched_switch -e sched:sched_wakeup"
# trace-cmd's agent listens on a socket of the VM's.
vm1_devices=
case ${FOREIGN:-} in
*agent*)
	modprobe vhost_vsock
	vm1_devices="-device vhost-vsock-pci,guest-cid=3"
	;;
esac
hostname debian

# Without TSC_ADJUST the guest's kernel does not notice, and undo, that its TSC was written. It may reset.
vm1_start()
{
	guest_start vm1 --mem 768 --qemu-args "-cpu host,-tsc-adjust -action reboot=reset $vm1_devices" \
		--env "TRACE_CMD=$TRACE_CMD"
}

vm1_needed()
{
	[ -e "$GUEST_RUN/vm1" ] || vm1_start
	guest_needed vm1
}

# pair_of_vm1 NAME [OPTION...]: trace-cmd on the host with those options, and on the guest. The
# guest works $rounds rounds and is recorded with $guest_options as well.
rounds=12
guest_options=
pair_of_vm1()
{
	vm1_needed
	pair_begin "$1"
	shift
	pair_vm vm1
	record_begin "$pair" "$@"
	in_guest vm1 "recorded_work $pair $rounds $pair/guest.dat $guest_options"
	done_in_guest vm1
	record_end "$pair" "$pair/host.dat"
	pair_same_offsets vm1
}

# shellcheck disable=SC2086 # a list
step_plain()
{
	pair_of_vm1 plain $HOST_EVENTS
}

# Only KVM's own events show threads.
step_kvmonly()
{
	rounds=6 pair_of_vm1 kvmonly -e kvm
}

# A stack behind each event, and the kernel remembers whose threads they are; no file of trace-cmd's
# has the latter.
step_stacks()
{
	rounds=3 pair_of_vm1 stacks -T -O record-tgid -e kvm:kvm_entry -e kvm:kvm_exit -e sched:sched_switch
}

# shellcheck disable=SC2086 # a list
step_v6()
{
	rounds=3 guest_options="--file-version 6" pair_of_vm1 v6 --file-version 6 $HOST_EVENTS
}

# The guest's perf has no conversion where its clock is kvm-clock, so only the host's file has one.
# shellcheck disable=SC2086 # a list
step_tsc2nsec()
{
	rounds=6 pair_of_vm1 tsc2nsec --tsc2nsec $HOST_EVENTS
}

# The recorders on the host have no CPU for a second, and buffers of a few pages: its file says where events are
# lost.
step_lossy()
{
	vm1_needed
	pair_begin lossy
	pair_vm vm1
	# shellcheck disable=SC2086 # a list
	record_begin lossy -b 64 $HOST_EVENTS
	in_guest vm1 "recorded_work lossy 6 lossy/guest.dat"
	sleep 8
	children=$(cat /proc/"$recorder"/task/"$recorder"/children)
	# shellcheck disable=SC2086 # a list
	kill -STOP $children
	sleep 1
	# shellcheck disable=SC2086 # a list
	kill -CONT $children
	done_in_guest vm1
	record_end lossy lossy/host.dat
	pair_same_offsets vm1
}

# clocks_fact NAME: notes the host's clocks and TSC of this moment.
clocks_fact()
{
	[ -x /tmp/clocks ] || cc -O1 -o /tmp/clocks "$SCENARIO_DIR/clocks.c" || die "cannot build clocks.c"
	pair_fact "clocks_$1" "$(/tmp/clocks)"
}

# Two VMs, the threads of one of them without names; both are recorded before the host is, one for longer.
step_twovms()
{
	[ -e "$GUEST_RUN/vm1" ] || vm1_start
	guest_needed vm2 --mem 768 --qemu-args "-name debug-threads=off"
	vm1_needed
	pair_begin twovms
	pair_vm vm1
	pair_vm vm2
	# shellcheck disable=SC2016 # for the guest
	in_guest vm2 'record_begin twovms $FEW_EVENTS'
	done_in_guest vm2
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin twovms $FEW_EVENTS'
	done_in_guest vm1
	# shellcheck disable=SC2086 # a list
	record_begin twovms $HOST_EVENTS
	in_guest vm1 "work 8; record_end twovms twovms/vm1.dat"
	in_guest vm2 "work 8"
	done_in_guest vm2
	done_in_guest vm1
	record_end twovms twovms/host.dat
	in_guest vm2 "work 2; record_end twovms twovms/vm2.dat"
	done_in_guest vm2
	pair_same_offsets vm1
	pair_same_offsets vm2
}

# Two VMs: one is not recorded, and has little to do.
step_unrecorded()
{
	guest_needed vm2 --mem 768
	# shellcheck disable=SC2086 # a list
	rounds=6 pair_of_vm1 unrecorded $HOST_EVENTS
	pair_vm vm2
}

. "$SCENARIO_DIR/lives.sh"
. "$SCENARIO_DIR/agent.sh"
. "$SCENARIO_DIR/perf.sh"
. "$SCENARIO_DIR/qemu.sh"
. "$SCENARIO_DIR/small.sh"

for step in ${FOREIGN:-plain}; do
	"step_$step"
done
for name in "$GUEST_RUN"/*; do
	guest_gone "${name##*/}" || guest_end "${name##*/}"
done
fact seconds_cs "$(uptime_cs)"
finish
