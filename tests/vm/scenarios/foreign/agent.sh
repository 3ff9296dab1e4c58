# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # pair is set by pair_begin
#
# Steps of scenario foreign: trace-cmd records both levels itself, through its agent in the guest.

# agent_of_vm1 PAIR PROTOCOL COMMAND [OPTION...]: both levels by one trace-cmd on the host, through its agent in
# the guest, while the guest runs the command. Without --notimeout it gives up when the emulated guest needs
# more than 5 s to pack its symbols, and goes on with half a file.
#
# trace-cmd finds the VM's PID by who wakes whom when it connects: itself the vhost worker, that one a thread that
# then makes a kvm_exit. A vCPU that is awake is kicked and not woken, and the PID is not found: so the guest
# sleeps meanwhile, and where trace-cmd then falls back to another protocol it is started again.
agent_of_vm1()
{
	agent_begin "$1" vm1_before
	agent_protocol=$2
	agent_work=$3
	shift 3
	in_guest vm1 "until flag_test $pair-go; do sleep 1; done; $agent_work"
	agent_tries=0
	agent_record "$@"
	until grep -q "Negotiated $agent_protocol time sync" "/tmp/$pair.log"; do
		tool_end "$pair"
		agent_tries=$((agent_tries + 1))
		[ $agent_tries -lt 8 ] || die "trace-cmd never synchronizes by $agent_protocol: $(cat "/tmp/$pair.log")"
		agent_record "$@"
	done
	note "$pair: synchronizes by $agent_protocol after $agent_tries other attempts"
	flag_set "$pair-go"
	agent_end
}

# agent_begin PAIR VM
agent_begin()
{
	vm1_needed
	pair_begin "$1"
	pair_vm vm1 "$2"
	in_guest vm1 agent_needed
	done_in_guest vm1
}

# agent_record OPTION...
agent_record()
{
	rm -rf "/tmp/$pair"
	mkdir "/tmp/$pair"
	# shellcheck disable=SC2086 # a list
	tool_begin "$pair" "$TRACE_CMD" record --notimeout -o "/tmp/$pair/host.dat" "$@" $BARE_EVENTS \
		-A vm1@3:823 -e sched:sched_switch -e sched:sched_waking -e irq -e irq_vectors:local_timer_entry \
		-e irq_vectors:local_timer_exit -e irq_vectors:reschedule_entry
}

agent_end()
{
	done_in_guest vm1
	tool_end "$pair"
	pair_vm vm1 vm1_after
	mv /tmp/"$pair"/* "$RESULTS/$pair/" || die "no files of trace-cmd's"
}

# The user chooses no clock: trace-cmd takes the TSC of both, and notes how long a cycle is.
step_agent()
{
	agent_of_vm1 agent kvm "work 8"
}

# It looks for a changed offset four times a second, and here it changes.
step_agent_tscwrite()
{
	agent_of_vm1 agent-tscwrite kvm "work 6; write_tsc 1 150000000000; work 6" --tsync-interval 250
}

step_agent_v6()
{
	agent_of_vm1 agent-v6 kvm "work 4" --file-version 6
}

# Not the TSC: trace-cmd exchanges markers, and the offset is what they average to.
step_agent_ptp()
{
	agent_of_vm1 agent-ptp ptp "work 8" -C local --tsync-interval 500
}

# The guest is awake while trace-cmd connects and the clock was chosen by hand: the files lack threads and
# offsets, without a message.
step_agent_blind()
{
	agent_begin agent-blind vm1_before
	in_guest vm1 "spin_until agent-blind-go; work 8"
	agent_record -C x86-tsc
	flag_set agent-blind-go
	agent_end
}
