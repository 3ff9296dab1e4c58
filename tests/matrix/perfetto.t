#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What Perfetto's own trace processor finds in a trace: all events with their times, states of threads as
# kvmft latency has them, no errors; and the questions of contrib/perfetto. There is no package of it: it is
# $TRACE_PROCESSOR, or trace_processor_shell in PATH or in $KVMFT_CACHE.

. "$(dirname "$0")/../cli/lib.sh"

here=$(cd "$(dirname "$0")" && pwd)
golden=$top/tests/golden
tools=${KVMFT_TOOLS:-$top/build/tests/tools}
cache=${KVMFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvmft}
processor=${TRACE_PROCESSOR:-$(PATH=$PATH:$cache command -v trace_processor_shell)}
if [ -z "$processor" ]; then
	skip "trace processor reads the traces" "no trace_processor_shell in PATH or $cache, and TRACE_PROCESSOR is not set"
	finish
fi

# ask TRACE SQL...: the answer, CSV without its heads, to $tmp/answer.
ask()
{
	trace=$1
	shift
	printf '%s\n' "$@" >"$tmp/query.sql"
	ask_file "$trace" "$tmp/query.sql"
}

ask_file()
{
	"$processor" query -f "$2" "$1" >"$tmp/answer.all" 2>"$tmp/processor.err" ||
		sed 's/^/# /' "$tmp/processor.err"
	sed -e 1d -e '/^$/d' "$tmp/answer.all" >"$tmp/answer"
}

# same NAME HOW KVMFT.json [MORE]: the last answer is kvmft's own.
same()
{
	ok "$1: $2 as kvmft has them" python3 "$here/perfetto_answers.py" "$2" "$3" "$tmp/answer" ${4:+"$4"}
	echo "# $1: $(head -n 5 "$tmp/ok.log" | tr '\n' ' ')"
}

# The first one, or with max for min the last.
host_events="SELECT min(ts) FROM ftrace_event AS e JOIN cpu USING (ucpu) LEFT JOIN machine AS m ON m.id = cpu.machine_id
	WHERE m.name = 'host'"

# answers NAME TRACE: what kvmft finds in the captures $tmp/blame.json and $tmp/latency.json are of.
answers()
{
	ask "$2" "SELECT s.ts - ($host_events) AS since, s.dur, s.name FROM slice AS s JOIN track AS t ON t.id = s.track_id
		JOIN track AS vm ON vm.id = t.parent_id WHERE vm.name GLOB 'vCPUs of *' AND t.name = 'spikes';"
	same "$1" spikes "$tmp/blame.json" \
		"$(grep -o '"side":"host".*"t":[0-9]*' "$tmp/merge.json" | sed 's/.*://' | sort -n | head -n 1)"
	ask "$2" "INCLUDE PERFETTO MODULE sched.time_in_state;
		SELECT substr(vm.name, 10) AS vm, CAST(substr(t.name, 6) AS INT) AS vcpu, tid, sum(s.time_in_state) +
		coalesce((SELECT 1 + ($(echo "$host_events" | sed s/min/max/)) - o.ts FROM thread_state AS o WHERE o.utid = s.utid
		AND o.state IN ('R', 'R+') AND o.dur = -1), 0) AS ns
		FROM track AS t JOIN track AS vm ON vm.id = t.parent_id
		JOIN thread ON thread.machine_id = 0 AND thread.tid = CAST(substr(t.name, instr(t.name, 'thread ') + 7) AS INT)
		JOIN sched_time_in_state_for_thread AS s USING (utid)
		WHERE vm.name GLOB 'vCPUs of *' AND t.name GLOB 'vCPU *, thread *' AND s.state IN ('R', 'R+') GROUP BY 1, 2, 3;"
	same "$1, sched.time_in_state" sched "$tmp/latency.json" "$tmp/merge.json"
	ask "$2" "INCLUDE PERFETTO MODULE linux.irqs;
		SELECT m.name, how, count(), sum(s.dur) FROM (SELECT id, dur, 'hard' AS how FROM linux_hard_irqs UNION ALL
		SELECT id, dur, 'soft' FROM linux_soft_irqs) AS s JOIN slice USING (id) JOIN track AS t ON t.id = slice.track_id
		LEFT JOIN machine AS m ON m.id = t.machine_id WHERE s.dur >= 0 GROUP BY 1, 2;"
	same "$1, linux.irqs" irqs "$tmp/merge.json"
}

# unfollowed MERGE.json: where only the switches of some threads were recorded, the one that leaves a CPU is not always
# the one that came; Perfetto counts that.
unfollowed()
{
	perl -ne 'next unless /"side":"(\w+)","vm":("[^"]*"|null),"cpu":(\d+).*"sched:sched_switch".*"prev_pid":(\d+).*"next_pid":(\d+)/;
		$cpu = $1 eq "host" ? $3 : "$2 $3";
		$n++ if defined $ran{$cpu} && $ran{$cpu} != $4;
		$ran{$cpu} = $5;
		END { print "\"mismatched_sched_switch_tids\",$n\n" if $n }' "$1"
}

# checked NAME TRACE: what is so of every trace; the time line is $tmp/merge.json.
checked()
{
	ask "$2" "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value != 0;"
	is "$(cat "$tmp/answer")" "$(unfollowed "$tmp/merge.json")" "$1: no errors, nothing lost"
	ask "$2" "SELECT m.name, e.name, ts FROM ftrace_event AS e JOIN cpu USING (ucpu)
		LEFT JOIN machine AS m ON m.id = cpu.machine_id;"
	ok "$1: all events of merge, at their times" perl "$here/perfetto.pl" "$tmp/merge.json" "$tmp/answer"
	echo "# $1: $(cat "$tmp/ok.log")"
	ask "$2" "SELECT count() FROM slice AS s JOIN track AS t ON t.id = s.track_id JOIN track AS vm ON vm.id = t.parent_id
		WHERE vm.name GLOB 'vCPUs of *' AND t.name GLOB 'vCPU *' AND s.depth = 0 AND s.name != 'guest' AND s.name NOT GLOB '[a-z]*:*' AND s.name NOT GLOB 'EPOCH:*'
			AND s.name NOT IN ('blocked', 'preempted', 'waiting for a CPU');"
	is "$(cat "$tmp/answer")" "$(grep -c '"side":"host".*"event":"kvm:kvm_exit"' "$tmp/merge.json")" \
		"$1: a slice for each exit"
	ask "$2" "SELECT count() FROM sched;"
	is "$(cat "$tmp/answer")" "$(grep -c '"event":"sched:sched_switch"' "$tmp/merge.json")" \
		"$1: a row of sched for each sched_switch"
	ask_file "$2" "$top/contrib/perfetto/exits.sql"
	is "$(awk -F, '{ n += $4 } END { print n + 0 }' "$tmp/answer")" \
		"$(grep -c '"side":"host".*"event":"kvm:kvm_exit"' "$tmp/merge.json")" "$1: exits.sql has all exits"
}

# both NAME OPTIONS HOST GUEST
both()
{
	which=$1
	shift
	"$kvmft" merge -q --format json "$@" >"$tmp/merge.json" 2>"$err"
	"$kvmft" blame -q --top 200 --format json "$@" >"$tmp/blame.json" 2>"$err" || echo '{"spikes":[]}' >"$tmp/blame.json"
	"$kvmft" latency sched --all -q --format json "$@" >"$tmp/latency.json" 2>"$err" ||
		echo '{"tsc_khz":1,"vcpus":[]}' >"$tmp/latency.json"
	run "$kvmft" merge -q --force --format perfetto -o "$tmp/one.pftrace" "$@"
	status_is 0 "$which: written"
	checked "$which" "$tmp/one.pftrace"
	answers "$which" "$tmp/one.pftrace"
}

# ---- files of trace-cmd ----

both "trace-cmd record -A" "$golden/foreign/agent/host.dat" "$golden/foreign/agent/host-vm1.dat"
ask "$tmp/one.pftrace" "SELECT name FROM machine ORDER BY raw_id;"
is "$(tr -d '"' <"$tmp/answer" | tr '\n' ' ')" "host vm1 " "... its machines"

pair="--tsc-khz 2595000 $golden/foreign/pair/host.dat $golden/foreign/pair/guest.dat"
# shellcheck disable=SC2086 # options and files
both "a pair" $pair

# Time that vCPUs wanted a CPU and had none: by the states of their threads, and by kvmft.
ask "$tmp/one.pftrace" "SELECT sum(dur) FROM thread_state JOIN thread USING (utid)
	WHERE machine_id = 0 AND state IN ('R', 'R+') AND tid IN (228, 232);"
# shellcheck disable=SC2086
"$kvmft" latency sched --all -q --format json $pair >"$tmp/latency.json" 2>"$err"
cycles=$(grep -o '"waiting":[0-9]*,"preempted":[0-9]*' "$tmp/latency.json" | tr -c '0-9\n' ' ' |
	awk '{ n += $1 + $2 } END { printf "%d\n", n }')
ok "states of vCPU threads: $(cat "$tmp/answer") ns off their CPUs, kvmft latency has $cycles cycles" \
	awk -v ns="$(cat "$tmp/answer")" -v c="${cycles:-0}" 'BEGIN { d = ns - c / 2.595; exit !(c > 0 && d < 500 && d > -500) }'
ask_file "$tmp/one.pftrace" "$top/contrib/perfetto/stolen.sql"
stolen=$(awk -F, '{ n += $5 } END { printf "%d\n", n }' "$tmp/answer")
total=$(sed 's/"stealer".*//' "$tmp/latency.json" | grep -o '"total":{[^}]*"total_ns":[0-9]*' | sed 's/.*://' |
	awk '{ n += $1 } END { printf "%d\n", n }')
ok "stolen.sql: ${stolen:-0} ns of the guest's tasks, kvmft latency sched has ${total:-0}" \
	awk -v a="${stolen:-0}" -v b="${total:-0}" 'BEGIN { d = a - b; exit !(b > 0 && d < 1000 && d > -1000) }'
for module in sched.latency sched.states sched.time_in_state linux.irqs linux.block_io linux.threads \
	linux.cpu.utilization.thread; do
	ask "$tmp/one.pftrace" "INCLUDE PERFETTO MODULE $module; SELECT 'loaded';"
	is "$(cat "$tmp/answer")" '"loaded"' "module $module"
done

# ---- interrupts, block requests ----

for side in host guest; do
	"$tools/mkcap" --capture "$tmp/$side" "$golden/latency-$side.txt" >"$tmp/mkcap.log" 2>&1
done
both "interrupts" "$tmp/host" "$tmp/guest"
ask_file "$tmp/one.pftrace" "$top/contrib/perfetto/interrupts.sql"
is "$(sort "$tmp/answer" | tr '\n' ' ')" '"one","irq 30",1,950,950,950 "one","local_timer",1,820,820,820 ' \
	"interrupts.sql has both, from their acceptance"

# A vCPU's thread that sleeps before it was ever in its guest has had no exit.
{
	sed '/^0 *1000 /,$d' "$golden/latency-host.txt"
	echo "0 500 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=55"
	echo "0 600 55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=101"
	sed -n '/^0 *1000 /,$p' "$golden/latency-host.txt"
} >"$tmp/slept.txt"
"$tools/mkcap" --capture "$tmp/slept" "$tmp/slept.txt" >"$tmp/mkcap.log" 2>&1
both "asleep before the first entry" "$tmp/slept" "$tmp/guest"

# ---- beginnings without their ends, more than slices may nest ----

begins()
{
	echo "event net napi_gro_receive_entry 19006 u64:skbaddr u32:len u16:queue_mapping word:name"
	echo "event raw_syscalls sys_enter 19007 s64:id"
	echo "event workqueue workqueue_execute_start 19008 u64:work u64:function"
	cat "$golden/latency-guest.txt"
	awk 'BEGIN {
		for (t = 18000; t < 19800; t += 3) {
			print 0, t, "77 net:napi_gro_receive_entry skbaddr=1 len=60 queue_mapping=1 name=eth0"
			print 0, t + 1, "77 raw_syscalls:sys_enter id=1"
			print 0, t + 2, "77 workqueue:workqueue_execute_start work=1 function=2"
		}
	}'
}
begins >"$tmp/begins.txt"
"$tools/mkcap" --capture "$tmp/begins" "$tmp/begins.txt" >"$tmp/mkcap.log" 2>&1
both "without ends" "$tmp/host" "$tmp/begins"
ask "$tmp/one.pftrace" "SELECT count() FROM slice WHERE name = 'sys_write';"
is "$(cat "$tmp/answer")" 0 "... system calls whose returns were not recorded are no slices"

# The same where they were requested, and none came.
ends='event net napi_gro_receive_exit 19009 s32:ret
event raw_syscalls sys_exit 19010 s64:id s64:ret
event workqueue workqueue_execute_end 19011 u64:work u64:function
recorded net:napi_gro_receive_exit raw_syscalls:sys_exit workqueue:workqueue_execute_end'
{
	echo "$ends"
	begins
} >"$tmp/begins.txt"
"$tools/mkcap" --capture "$tmp/awaited" "$tmp/begins.txt" >"$tmp/mkcap.log" 2>&1
both "ends that never came" "$tmp/host" "$tmp/awaited"

# They came, but threads end within a call, and others get their numbers.
{
	echo "$ends"
	begins | grep -v ' 77 [nrw]'
	awk 'BEGIN {
		for (t = 18000; t < 18600; t += 3) {
			print 0, t, 500 + t % 5, "raw_syscalls:sys_enter id=1"
			print 0, t + 1, 500 + t % 5, "raw_syscalls:sys_exit id=1 ret=0"
			if (t % 50 == 0)
				print 0, t + 2, 500 + t % 5, "raw_syscalls:sys_enter id=231"
		}
	}'
} >"$tmp/ends.txt"
"$tools/mkcap" --capture "$tmp/ends" "$tmp/ends.txt" >"$tmp/mkcap.log" 2>&1
both "threads that end" "$tmp/host" "$tmp/ends"
ask "$tmp/one.pftrace" "SELECT count() FROM slice WHERE name IN ('sys_write', 'sys_exit_group') OR name GLOB 'sys_[0-9]*';"
is "$(cat "$tmp/answer")" 204 "... each call is a slice"

# ---- generated: windows that are exact ----

"$tools/genpair" --host "$tmp/ghost" --guest "$tmp/gguest" --ms 30 --vcpus 2 >"$tmp/gen.log" 2>&1
both "generated" "$tmp/ghost" "$tmp/gguest"

# ---- any others: a session, or a host and its guests, in each line ----

while read -r captures; do
	# shellcheck disable=SC2086 # names without blanks
	[ -z "$captures" ] || both "$captures" $captures
done <<END
$KVMFT_PERFETTO_CAPTURES
END
finish
