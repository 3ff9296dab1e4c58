#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Plain `kvmft record` on a host and in its guest is all that report --split, latency, blame and diff need to know when
# vCPUs had a CPU; the switches of other threads are not in it.

. "$(dirname "$0")/tap.sh"

rig default --timeout 300

# complete NAME ARGUMENT...: says what it knows, and names no event of the scheduler that should have been recorded
complete()
{
	name=$1
	shift
	run "$plain" "$@"
	status_is 0 "$name"
	is "$(cat "$out" "$err" | grep -cE 'record.*sched[:_]')" 0 "... without a note to record the scheduler"
}

for n in 1 2; do
	complete "report --split" report --split "$rig/host$n"
	out_has '^ +all .*[1-9][0-9.]*%$' "... time was stolen"
	complete "latency" latency irq,sched,timer --all --worst 0 --format csv -q "$rig/host$n" "$rig/guest$n"
	got=$(awk -F, '/thief-/ { n += $11 } END { printf "%.0f\n", n }' "$out")
	want=$(fact "thief${n}_sum_us")
	echo "# the thief was busy for $want us, found $got"
	# With what others had after it, before the vCPU got its CPU back.
	ok "... the thief of known times is found" test "$((got * 10))" -ge "$((want * 7))"
	complete "blame" blame -q --what stall --top 1000 "$rig/host$n" "$rig/guest$n"
	out_has 'host-task: thief-[0-9]+, perhaps others$' "... names it"
	# Which threads the filter lets through, any newer ones besides.
	run "$plain" merge -q "$rig/host$n"
	for id in $(fact strangers); do
		is "$(grep ' sched:sched_switch: ' "$out" | grep -cE "prev_pid=($id .*next_pid=0|0 .*next_pid=$id) ")" 0 \
			"... none of thread $id and nobody, although there were $(fact "switches$n") of such threads"
	done
	ok "... but of vCPU 0" test "$(grep -c " sched:sched_switch: .*_pid=$(fact vcpu0) " "$out")" -gt 50
	ok "... and of idle CPUs" grep -q ' power:cpu_idle: ' "$out"
done
ok "a VM that came when many threads had: its switches" \
	test "$(grep -c " sched:sched_switch: .*_pid=$(fact late) " "$out")" -ge 50
complete "diff" diff "$rig/host1" "$rig/host2"
finish
