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

finish
