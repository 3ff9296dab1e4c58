# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Host and guests recorded by other tools than kvmft, each by hand: pairs with nothing known of each other.
# FOREIGN=STEP... chooses what; each leaves a folder of captures with the truth beside them in `facts`.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../foreign-functions.sh"

HOST_EVENTS="-e kvm -e sched -e irq"
hostname debian

# pair_of_vm1 NAME [OPTION...]: trace-cmd on the host with those options, and on the guest.
pair_of_vm1()
{
	guest_needed vm1
	pair_begin "$1"
	shift
	pair_vm vm1
	record_begin "$pair" "$@"
	in_guest vm1 "recorded_work $pair 12 $pair/guest.dat"
	done_in_guest vm1
	record_end "$pair" "$pair/host.dat"
	pair_same_offsets vm1
}

step_plain()
{
	# shellcheck disable=SC2086 # a list
	pair_of_vm1 plain $HOST_EVENTS
}

# Two VMs, the threads of one of them without names; both are recorded before the host is, one for longer.
step_twovms()
{
	[ -e "$GUEST_RUN/vm1" ] || guest_start vm1 --mem 768
	guest_needed vm2 --mem 768 --qemu-args "-name debug-threads=off"
	guest_needed vm1
	pair_begin twovms
	pair_vm vm1
	pair_vm vm2
	# shellcheck disable=SC2016 # for the guest
	in_guest vm2 'record_begin twovms $EVENTS'
	done_in_guest vm2
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin twovms $EVENTS'
	done_in_guest vm1
	# shellcheck disable=SC2086 # a list
	record_begin twovms $HOST_EVENTS
	in_guest vm1 "work 12; record_end twovms twovms/vm1.dat"
	in_guest vm2 "work 12"
	done_in_guest vm2
	done_in_guest vm1
	record_end twovms twovms/host.dat
	in_guest vm2 "work 2; record_end twovms twovms/vm2.dat"
	done_in_guest vm2
	pair_same_offsets vm1
	pair_same_offsets vm2
}

# Two VMs, one of which nobody recorded, and which has little to do.
step_unrecorded()
{
	guest_needed vm2 --mem 768
	# shellcheck disable=SC2086 # a list
	pair_of_vm1 unrecorded $HOST_EVENTS
	pair_vm vm2
}

for step in ${FOREIGN:-plain}; do
	"step_$step"
done
for name in "$GUEST_RUN"/*; do
	! guest_running "${name##*/}" || guest_end "${name##*/}"
done
fact seconds_cs "$(uptime_cs)"
finish
