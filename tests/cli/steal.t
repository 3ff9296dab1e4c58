#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# kvmft exits --steal: two VMs and a program on one CPU take it from each other. What is counted of whom, from events given
# one by one: tests/unit/test_exits_steal.c.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

for with in --time --latency --top -a '--per vm' '--engine user' '--map-size 200'; do
	# shellcheck disable=SC2086 # an option and its value
	run "$kvmft" exits --steal -p 1 $with
	status_is 2 "--steal with $with"
	err_has "option --steal counts no exits: not with .*${with%% *}" "... is wrong"
	err_one_line "--steal with $with"
done

need_recording "who takes the CPU"
if ! command -v taskset >/dev/null || ! command -v python3 >/dev/null; then
	skip "who takes the CPU" "needs taskset and python3"
	finish
fi

# steal ARGUMENT...: $recorder counts in the background; returns when the kernel lets events of vCPUs through.
steal()
{
	"$kvmft" exits --steal "$@" >"$out" 2>"$err" </dev/null &
	recorder=$!
	n=0
	until grep -qs '>=' "$tracefs/instances/kvmft.$recorder".*/events/sched/sched_wakeup/filter; do
		[ $n -lt 600 ] && kill -0 $recorder || break
		sleep 0.05
		n=$((n + 1))
	done
}

# steal_ends: as by Ctrl-C.
steal_ends()
{
	kill -INT $recorder
	wait $recorder
	rc=$?
	recorder=
}

# delay PID TID: how long it has waited for a CPU, in ns
delay()
{
	cut -d ' ' -f 2 "/proc/$1/task/$2/schedstat"
}

echo 'int main(void) { for (;;) { } }' >"$tmp/spin.c"
ok "a program that computes" "${CC:-cc}" -O0 -o "$tmp/kvmft-spinner" "$tmp/spin.c"
cpu=$(awk '/^Cpus_allowed_list/ { n = split($2, a, /[-,]/); print a[n] }' /proc/self/status)
taskset -c "$cpu" "$tinyvm" --ms 3600000 --code ebfe >"$tmp/a.out" 2>&1 &
a=$!
taskset -c "$cpu" "$tinyvm" --ms 3600000 --code ebfe >"$tmp/b.out" 2>&1 &
b=$!
taskset -c "$cpu" "$tmp/kvmft-spinner" &
spinner=$!
vm="$a $b $spinner"
wait_for_line "$tmp/a.out"
wait_for_line "$tmp/b.out"
at=$(awk '{ print $6 }' "$tmp/a.out")
bt=$(awk '{ print $6 }' "$tmp/b.out")

# stopped: none of them waits for a CPU any more
stopped()
{
	# shellcheck disable=SC2086 # a list
	kill -STOP $vm
	n=0
	while cat "/proc/$a/task/$at/stat" "/proc/$b/task/$bt/stat" | grep -qv ') T ' && [ $n -lt 200 ]; do
		sleep 0.05
		n=$((n + 1))
	done
}

stopped
a0=$(delay "$a" "$at") b0=$(delay "$b" "$bt")
steal --format json
# shellcheck disable=SC2086 # a list
kill -CONT $vm
n=0
while [ $n -lt 600 ] && { [ $(($(delay "$a" "$at") - a0)) -lt 1500000000 ] || [ $(($(delay "$b" "$bt") - b0)) -lt 1500000000 ]; }; do
	sleep 0.1
	n=$((n + 1))
done
stopped
a1=$(delay "$a" "$at") b1=$(delay "$b" "$bt")
steal_ends
sed 's/^/# /' "$err"
ok "it ends in order" test "$rc" = 0 -o "$rc" = 3
nothing_left "--steal"
# Each loses to the other and to the program; what it waited is what the kernel says. Of threads nothing is known before
# their first switch, and some machines hide switches of some threads: then it says that these are lower bounds.
cat >"$tmp/look.py" <<'EOF'
import json, sys
doc = json.load(open(sys.argv[1]))
for pid, other, delay in zip(sys.argv[2::3], sys.argv[3::3], map(int, sys.argv[4::3])):
    rows = [r for r in doc["steal"] if r["vm"].startswith(pid + "-")]
    waited = sum(r["taken_ns"] for r in rows if r["waited"])
    print(f"VM {pid}: waited {waited}, run_delay {delay}, {waited / delay:.4f}; lower bound: {doc['lower_bound']}")
    named = {(r["kind"], r["by"]) for r in rows}
    assert ("task", "kvmft-spinner") in named, named
    assert any(k == "vm" and by.startswith(other + "-") for k, by in named if by), named
    assert waited <= delay * 1.01 + 2e6
    assert waited >= delay * (0.5 if doc["lower_bound"] else 0.85)
EOF
cp "$out" "$tmp/doc.json"
run python3 "$tmp/look.py" "$tmp/doc.json" "$a" "$b" $((a1 - a0)) "$b" "$a" $((b1 - b0))
sed 's/^/# /' "$out" "$err"
status_is 0 "each loses to the other and to a program, in sum what the kernel counts"

# ---- one VM alone, by intervals ----

# shellcheck disable=SC2086 # a list
kill -CONT $vm
run "$kvmft" exits --steal -p "$a" -I 500ms -N 3 --format json
ok "-p, -I and -N" test "$rc" = 0 -o "$rc" = 3
is "$(grep -c '"target":"PID '"$a"'"' "$out")" 3 "... three tables"
ok "... of that VM" grep -q "\"vm\":\"$a-" "$out"
ok "... alone" sh -c "! grep -q '\"vm\":\"$b-' '$out'"
ok "... which loses to the other" grep -q "\"by_vm\":\"$b-" "$out"

umask 022
run "$kvmft" exits --steal --format openmetrics -o "$tmp/steal.prom" 1
is "$(tail -n 1 "$tmp/steal.prom")" "# EOF" "openmetrics: whole"
ok "... counts what they take from each other" awk -v a="vm=\"$a-" -v b="by_vm=\"$b-" '
	/^kvm_cpu_taken_seconds_total{/ && index($0, a) && index($0, b) && /kind="vm"/ && $2 > 0 { n++ } END { exit n != 1 }' \
	"$tmp/steal.prom"

# ---- a limit of its cgroup: what the kernel counts of it ----

throttled()
{
	awk '$1 == "throttled_usec" { print $2 * 1000 } $1 == "throttled_time" { print $2 }' "$group/cpu.stat"
}

for g in /sys/fs/cgroup/cpu /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup; do
	group=$g/kvmft-steal.$$
	mkdir "$group" 2>/dev/null || continue
	if [ -e "$group/cpu.max" ]; then
		echo 10000 100000 >"$group/cpu.max"
		break
	elif [ -e "$group/cpu.cfs_quota_us" ]; then
		echo 10000 >"$group/cpu.cfs_quota_us"
		break
	fi
	rmdir "$group"
	group=
done
if [ -n "$group" ] && [ -d "$group" ]; then
	trap 'vmlib_cleanup; n=0; while [ -d "$group" ] && ! rmdir "$group" 2>/dev/null && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done' EXIT
	echo "$a" >"$group/cgroup.procs"
	before=$(throttled)
	steal -p "$a" --format csv
	from=$(throttled)
	n=0
	while [ $(($(throttled) - from)) -lt 300000000 ] && [ $n -lt 600 ]; do
		sleep 0.1
		n=$((n + 1))
	done
	least=$(throttled)
	steal_ends
	most=$(throttled)
	echo "# $(grep throttled "$out"); $((least - from)) to $((most - before)) ns"
	ok "a limit: how long it held the VM" awk -F , -v least="$least" -v most="$most" -v from="$from" -v before="$before" '
		$6 == "throttled" && $9 == 0 && $NF * 1000 >= least - from && $NF * 1000 <= most - before { n++ }
		END { exit n != 1 }' "$out"
else
	skip "a limit of a cgroup" "no cgroup can be made here"
fi

# ---- whose threads are not known: nothing of them is counted, and that is said of each VM, once ----

names=$(cd /sys/kernel/debug/kvm && ls -d "$a"-* "$b"-*)
is "$(echo "$names" | wc -l | tr -d ' ')" 2 "debugfs has both VMs"
# untold DIRECTORIES [OPTION...]: in debugfs are only these
untold()
{
	# shellcheck disable=SC2016 # of the inner shell
	run unshare -m sh -c 'mount -t tmpfs none /sys/kernel/debug/kvm || exit 99
		for vm in $1; do mkdir -p "/sys/kernel/debug/kvm/$vm/vcpu0" || exit 99; done; shift; exec "$@"' - "$1" \
		"$kvmft" exits --steal -I 100ms -N 3 --format csv $2
	status_is 0 "debugfs has ${1:-nothing} and no threads; $2"
	for name in $names; do
		grep -c "what is taken from VM $name is not counted: the threads of its vCPUs are not known" "$err"
	done | tr -d '\n' >"$tmp/told"
	is "$(cat "$tmp/told")" "$3" "... what is taken from whom is said not to be counted"
}
# Older kernels have no thread in a vCPU's directory; a VM whose number another one had has no directory.
untold "$names" "" 11
untold "" "" 11
untold "" "-p $a" 10

# ---- events are lost: it does not read while the ring runs over, with switches on a CPU where a vCPU may run ----

# shellcheck disable=SC2086 # a list
kill -KILL $vm
"$tinyvm" --ms 3600000 --pause 1000 >"$tmp/c.out" 2>&1 &
vm=$!
wait_for_line "$tmp/c.out"
steal --format json
kill -STOP $recorder
ok "a program that switches" "${CC:-cc}" -O2 -o "$tmp/switches" "$top/tests/bench/switches.c"
kb=$(cat "$tracefs/instances/kvmft.$recorder".*/buffer_size_kb)
# Two switches a turn, of 72 bytes and more each.
ok "... on the first CPU" sh -c "echo | '$tmp/switches' $((kb * 9))"
kill -CONT $recorder
steal_ends
status_is 3 "events were lost"
err_has 'events are missing: what was taken meanwhile is not in the figures' "... says so"
out_has '"lost":[1-9]' "... how many"
out_has '"lower_bound":true' "... and that the figures are lower bounds"
nothing_left "after all"
is "$(tracefs_state)" "$state_before" "tracefs is as it was"
finish
