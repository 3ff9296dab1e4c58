# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # pair is set by pair_begin
#
# Steps of scenario foreign: captures of less than a second, without the kernel's symbols, which are most of such a
# file. For fixtures.

SMALL_HOST="-e kvm:kvm_entry -e kvm:kvm_exit -e kvm:kvm_msr -e sched:sched_switch"

# hide_symbols: from now on, on the host and in vm1.
hide_symbols()
{
	[ -z "${hidden:-}" ] || return 0
	vm1_needed
	mount --bind /dev/null /proc/kallsyms
	in_guest vm1 "mount --bind /dev/null /proc/kallsyms"
	done_in_guest vm1
	hidden=1
}

# small_pair PAIR COMMAND [OPTION...]: the guest is recorded for longer than the host, and does the command.
small_pair()
{
	hide_symbols
	pair_begin "$1"
	small_work=$2
	shift 2
	pair_vm vm1 vm1_before
	in_guest vm1 "record_begin $pair \$SMALL_EVENTS $*"
	done_in_guest vm1
	# Buffers that hold all of it, however late the recorder gets a CPU: where the ring overwrote events, nothing in the
	# file says between which.
	# shellcheck disable=SC2086 # a list
	record_begin "$pair" -b 16384 $SMALL_HOST "$@"
	in_guest vm1 "$small_work"
	done_in_guest vm1
	record_end "$pair" "$pair/host.dat"
	in_guest vm1 "record_end $pair $pair/guest.dat"
	done_in_guest vm1
	pair_vm vm1 vm1_after
}

step_small()
{
	small_pair small little_work
	pair_same_offsets vm1 vm1_before
}

step_small_v6()
{
	small_pair small-v6 little_work --file-version 6
	pair_same_offsets vm1 vm1_before
}

step_small_tscwrite()
{
	small_pair small-tscwrite "little_work; write_tsc 1 150000000000; little_work"
}

step_small_agent()
{
	hide_symbols
	BARE_EVENTS="-e kvm:kvm_entry -e kvm:kvm_exit"
	agent_of_vm1 small-agent kvm little_work
}

step_small_perf()
{
	hide_symbols
	pair_begin small-perf
	pair_vm vm1
	clocks_fact begin
	in_guest vm1 "little_work; little_work"
	perf kvm stat record -p "$(guest_pid vm1)" -o /tmp/small-perf.data sleep 0.3 >/tmp/small-perf.log 2>&1
	check "small-perf: perf exits 0" same "$?" 0
	done_in_guest vm1
	clocks_fact end
	mv /tmp/small-perf.data "$RESULTS/small-perf/"
}
