#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# No answer claims more than what was recorded: made captures from which the events that would tell are missing, or
# which contradict what one would conclude.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

# host: a capture of VM one, vCPU 0, thread 101, with the events of standard input
host()
{
	rm -rf "$tmp/host"
	{
		echo 'meta vm id=100-12 pid=100 fd=12 name=one'
		echo 'meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48'
		cat
	} >"$tmp/host.txt"
	ok "${1:-the capture is compiled}" "$mkcap" --capture "$tmp/host" "$tmp/host.txt"
}

# ---- one meaning of a sleep: TASK_IDLE is one, in 4.14 and later and before; preempted is none ----

for state in 1:sleep 0x80:sleep 0x402:sleep 0x100:robbed 0:robbed; do
	host "prev_state ${state%:*}" <<-END
		0   1000 101 kvm_entry vcpu_id=0
		0   2000 101 kvm_exit exit_reason=10 isa=1
		0   2100 101 sched:sched_switch prev_pid=101 prev_state=${state%:*} next_pid=0
		0   2800   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
		0   3000 101 kvm_entry vcpu_id=0
		0   4000 101 kvm_exit exit_reason=10 isa=1
		recorded sched:sched_wakeup kvm_userspace_exit kvm_vcpu_wakeup
	END
	run "$kvmft" latency sched -q --format json "$tmp/host"
	stolen=$(grep -o '"vcpus".*' "$out" | grep -o '"preempted":[0-9]*')
	run "$kvmft" report --split --format csv "$tmp/host"
	case ${state#*:} in
	sleep) is "$stolen $(tail -n 1 "$out" | cut -d , -f 15,17)" '"preempted":0 0.700,0.000' "... asleep" ;;
	*) is "$stolen $(tail -n 1 "$out" | cut -d , -f 15,17)" '"preempted":700 0.000,0.700' "... robbed" ;;
	esac
done

# ---- kvm_entry and kvm_exit alone, the commonest recording ----

# blame [OPTION...]: the longest spike of the host
blame()
{
	run "$kvmft" blame -q --top 1 "$@" "$tmp/host"
}

# A window that begins on one CPU and ends on another is a gap; an exit that does so left its CPU.
host <<-'END'
	0   1000 101 kvm_entry vcpu_id=0
	0   2000 101 kvm_exit exit_reason=1 isa=1
	1  90000 101 kvm_entry vcpu_id=0
	1  91000 101 kvm_exit exit_reason=12 isa=1
	1  95000 101 kvm_entry vcpu_id=0
	0 900000 101 kvm_exit exit_reason=10 isa=1
	0 901000 101 kvm_entry vcpu_id=0
END
blame
out_has '^   unknown: ' "an interrupt's exit that ends on another CPU: nobody is named"
out_has 'its thread left its CPU, not recorded: KVM, the scheduler or the VMM' "... the candidates are"
out_has 'kvmft record -e default -e sched:sched_switch' "... and how to record what would tell"
blame --format json
out_has '"sure":false.*"needs":."host sched:sched_switch","host kvm:kvm_userspace_exit".' "... in JSON, too"

# ---- a vCPU that was woken, and whose CPU sleeps on ----

host <<-'END'
	0     1000 101 kvm_entry vcpu_id=0
	0     2000 101 kvm_exit exit_reason=12 isa=1
	0     2100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
	0     2200   0 power:cpu_idle state=2 cpu_id=0
	0    50000   0 sched:sched_wakeup pid=101 target_cpu=0
	0 40050000   0 power:cpu_idle state=0xffffffff cpu_id=0
	0 40050100   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
	0 40050200 101 kvm_entry vcpu_id=0
	0 40060000 101 kvm_exit exit_reason=10 isa=1
END
blame
out_has '^1. 40.*ms .*stall' "it is a spike, without a guest"
out_has 'halt-wake: woken, its CPU 0 took long to leave idle state 2' "... and why"

finish
