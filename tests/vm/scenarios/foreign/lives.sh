# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # pair is set by pair_begin
#
# Steps of scenario foreign: VMs that write their TSC, are reset or restarted, come and go.

# The guest writes the TSC of one vCPU, which in the host's file shows only in the times of exits.
step_tscwrite()
{
	vm1_needed
	pair_begin tscwrite
	pair_vm vm1 vm1_before
	record_begin tscwrite $BARE_EVENTS
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin tscwrite $FEW_EVENTS; work 5; write_tsc 1 150000000000'
	done_in_guest vm1
	in_guest vm1 "work 5; record_end tscwrite tscwrite/guest.dat"
	done_in_guest vm1
	record_end tscwrite tscwrite/host.dat
	pair_vm vm1 vm1_after
}

# The same on the other vCPU, by two seconds, with all of KVM's events.
step_tscwrite_told()
{
	vm1_needed
	pair_begin tscwrite-told
	pair_vm vm1 vm1_before
	record_begin tscwrite-told -e kvm
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin tscwrite-told $FEW_EVENTS; work 3; write_tsc 0 5000000000'
	done_in_guest vm1
	in_guest vm1 "work 3; record_end tscwrite-told tscwrite-told/guest.dat"
	done_in_guest vm1
	record_end tscwrite-told tscwrite-told/host.dat
	pair_vm vm1 vm1_after
}

# two_lives PAIR RESTART: vm1 recorded before and after the command RESTART, during one recording of
# the host.
two_lives()
{
	vm1_needed
	pair_begin "$1"
	pair_vm vm1 vm1_first
	record_begin "$1" $BARE_EVENTS
	in_guest vm1 "events=\$FEW_EVENTS; recorded_work $1 5 $1/first.dat"
	done_in_guest vm1
	pair_same_offsets vm1 vm1_first
	flag_clear vm1-ready
	"$2"
	vm1_needed
	pair_vm vm1 vm1_second
	in_guest vm1 "events=\$FEW_EVENTS; recorded_work $1 5 $1/second.dat"
	done_in_guest vm1
	pair_same_offsets vm1 vm1_second
	record_end "$1" "$1/host.dat"
}

step_reset()
{
	two_lives reset vm1_reset
}

vm1_reset()
{
	rm "$RESULTS/.rig/vm1.up"
	guest_monitor vm1 system_reset
}

step_restart()
{
	two_lives restart vm1_restart
}

vm1_restart()
{
	guest_kill vm1
	guest_forget vm1
	vm1_start
}

# QEMU is the command that trace-cmd runs: the VM has begun and ended when the recording ends.
step_comego()
{
	[ ! -e "$GUEST_RUN/vm1" ] || guest_end vm1
	pair_begin comego
	GUEST_WRAP="$TRACE_CMD record -C x86-tsc -o /tmp/comego.dat $BARE_EVENTS"
	guest_start vm3 --mem 768
	GUEST_WRAP=
	tracer=$(guest_pid vm3)
	wait_until 120 vm3_runs || die "trace-cmd does not start QEMU: $(cat "$RESULTS/qemu-vm3.log")"
	guest_needed vm3
	pair_vm vm3
	in_guest vm3 "events=\$FEW_EVENTS; recorded_work comego 8 comego/guest.dat"
	done_in_guest vm3
	guest_end vm3
	wait "$tracer"
	check "host: comego: the recorder exits 0" same "$?" 0
	mv /tmp/comego.dat "$RESULTS/comego/host.dat" || die "no comego.dat"
}

# The child of trace-cmd that is QEMU becomes the guest's PID.
vm3_runs()
{
	for child in $(cat /proc/"$tracer"/task/"$tracer"/children); do
		case $(readlink /proc/"$child"/exe) in
		*qemu*)
			echo "$child" >"$GUEST_RUN/vm3/pid"
			return 0
			;;
		esac
	done
	return 1
}
