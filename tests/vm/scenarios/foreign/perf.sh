# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # pair is set by pair_begin
#
# Steps of scenario foreign: perf beside trace-cmd on the host.

# perf_begin NAME ARGUMENT...: perf in the background, until it has its events; its PID in $perf.
perf_begin()
{
	perf_log=/tmp/$1.log
	shift
	perf "$@" >"$perf_log" 2>&1 </dev/null &
	perf=$!
	wait_until 180 perf_counts || die "perf $* does not begin: $(cat "$perf_log")"
	sleep 1
}

perf_counts()
{
	for perf_fd in /proc/"$perf"/fd/*; do
		case $(readlink "$perf_fd") in
		*perf_event*) return 0 ;;
		esac
	done
	return 1
}

# perf_of NAME ARGUMENT...: while the guest works, into NAME.data.
perf_of()
{
	perf_name=$1
	shift
	perf_begin "$perf_name" "$@" -o "/tmp/$perf_name.data"
	in_guest vm1 "work 4"
	done_in_guest vm1
	kill -INT $perf
	wait $perf
	note "perf $*: exit status $?"
	sed 's/^/# /' "/tmp/$perf_name.log"
	mv "/tmp/$perf_name.data" "$RESULTS/$pair/"
}

# perf by itself in five ways, one after the other, during one recording of host and guest by
# trace-cmd: entries and exits are in both, which ties perf's clocks to the TSC.
step_perf()
{
	vm1_needed
	pair_begin perf
	pair_vm vm1
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin perf $EVENTS'
	done_in_guest vm1
	clocks_fact begin
	record_begin perf -e kvm:kvm_entry -e kvm:kvm_exit
	perf_of kvmstat kvm stat record -a
	perf_of kvmstat-pid kvm stat record -p "$(guest_pid vm1)"
	perf_of all record -e 'kvm:*' -a
	perf_of mono record -e 'kvm:*' -a -k mono
	perf_of raw record -e 'kvm:*' -a -k CLOCK_MONOTONIC_RAW
	record_end perf perf/host.dat
	clocks_fact end
	in_guest vm1 "record_end perf perf/guest.dat"
	done_in_guest vm1
	pair_same_offsets vm1
}

# Both VMs of the host in one perf.data; one of them is recorded.
step_perf_twovms()
{
	guest_needed vm2 --mem 768
	vm1_needed
	pair_begin perf-twovms
	pair_vm vm1
	pair_vm vm2
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin perf-twovms $EVENTS'
	done_in_guest vm1
	perf_begin twovms record -e 'kvm:*' -a -o /tmp/twovms.data
	in_guest vm1 "work 4"
	in_guest vm2 "work 4"
	done_in_guest vm1
	done_in_guest vm2
	kill -INT $perf
	wait $perf
	note "perf record: exit status $?"
	mv /tmp/twovms.data "$RESULTS/perf-twovms/"
	in_guest vm1 "record_end perf-twovms perf-twovms/guest.dat"
	done_in_guest vm1
	pair_same_offsets vm1
	pair_same_offsets vm2
}
