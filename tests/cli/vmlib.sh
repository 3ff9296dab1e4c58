# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # variables of lib.sh
#
# For the .t files that record on this machine: a small VM to record, and a look at tracefs. Source
# it after lib.sh; need_recording and need_tracefs end the test as skipped where that is not possible.

tinyvm=$tmp/tinyvm
tracefs=/sys/kernel/tracing
mounted=
recorder=
vm=

# Only processes and mounts of this test.
vmlib_cleanup()
{
	for p in $recorder $vm; do
		kill -KILL "$p" 2>/dev/null
	done
	[ -z "$mounted" ] || umount "$mounted"
	rm -rf "$tmp"
}

# need_tracefs NAME: sets $tracefs, for a test that runs no VM.
need_tracefs()
{
	trap vmlib_cleanup EXIT
	trap 'exit 1' INT TERM
	why=
	[ -d "$tracefs/instances" ] || tracefs=/sys/kernel/debug/tracing
	if [ "$(id -u)" != 0 ]; then
		why="needs root"
	elif [ ! -d "$tracefs/instances" ]; then
		why="tracefs is not mounted"
	fi
	can_or_skip "$1"
}

# can_or_skip NAME: ends the test if $why is not empty.
can_or_skip()
{
	if [ -n "$why" ]; then
		skip "$1" "$why"
		finish
	fi
	state_before=$(tracefs_state)
}

# need_recording NAME: the same, and builds $tinyvm.
need_recording()
{
	need_tracefs "$1"
	if [ ! -c /dev/kvm ]; then
		why="no /dev/kvm"
	elif [ ! -d "$tracefs/events/kvm/kvm_exit" ]; then
		why="no kvm events"
	elif ! grep -q x86-tsc "$tracefs/trace_clock"; then
		why="no x86-tsc trace clock"
	elif ! "${CC:-cc}" -O1 -pthread -o "$tinyvm" "$top/tests/vm/tinyvm.c" 2>"$tmp/cc.log"; then
		ok "tinyvm can be built" false
		sed 's/^/# /' "$tmp/cc.log"
		finish
	elif ! "$tinyvm" --iterations 1 >/dev/null 2>"$tmp/tinyvm.log"; then
		why="no VM can be run: $(head -n 1 "$tmp/tinyvm.log")"
	fi
	can_or_skip "$1"
}

# first COMMAND...: for a VM in the background whose rate must not depend on what else a busy machine does. Where
# the scheduler groups sessions (autogroup), it is the nice value of the group that counts.
first()
{
	# shellcheck disable=SC2016 # for that shell
	exec setsid sh -c '{ echo -10 >/proc/self/autogroup; } 2>/dev/null; exec nice -n -40 "$@"' sh "$@"
}

# What kvmft must never change, but its own instances.
tracefs_state()
{
	for f in trace_clock tracing_on buffer_size_kb buffer_percent set_event set_event_pid \
		tracing_cpumask current_tracer set_ftrace_filter kprobe_events uprobe_events; do
		if [ -r "$tracefs/$f" ]; then
			echo "$f: $(cat "$tracefs/$f" 2>/dev/null)"
		fi
	done
	# Only options: events/enable differs while another test records.
	for f in "$tracefs"/options/*; do
		echo "$f: $(cat "$f")"
	done
}

# Instances of kvmft processes that this shell started, or that nobody has any more: other tests may
# record at the same time.
our_instances()
{
	for i in "$tracefs"/instances/kvmft.*; do
		[ -d "$i" ] || continue
		pid=${i##*/kvmft.}
		pid=${pid%%.*}
		if [ ! -d "/proc/$pid" ] || [ "$(awk '{ print $4 }' "/proc/$pid/stat" 2>/dev/null)" = $$ ]; then
			echo "${i##*/}"
		fi
	done
}

nothing_left()
{
	is "$(our_instances)" "" "$1: nothing left in tracefs"
}

# The same after at most 20 s: recorders that are no children of this shell, or were killed, here or by a test that
# runs beside this one, take a moment. What the last look saw counts: at the next there may be another's.
nothing_left_soon()
{
	n=0
	while left=$(our_instances) && [ -n "$left" ] && [ $n -lt 200 ]; do
		sleep 0.1
		n=$((n + 1))
	done
	is "$left" "" "$1: nothing left in tracefs"
}

# start_recording CAPTURE [OPTION...]: $vm runs and $recorder records it.
start_recording()
{
	${on_cpu:+taskset -c "$on_cpu"} "$tinyvm" --ms 20000 --pause 200 >/dev/null 2>&1 &
	vm=$!
	"$kvmft" record --as host -q -e 'kvm:*' -o "$@" 2>"$tmp/recorder.err" &
	recorder=$!
	n=0
	while ! grep -q '^vm ' "$1/meta" 2>/dev/null && [ $n -lt 200 ]; do
		sleep 0.05
		n=$((n + 1))
	done
	# something must have happened
	sleep 0.2
}

# sum_stats CAPTURE COUNTER: of all CPUs at the end.
sum_stats()
{
	sed -n "s/^stats when=end .* $2=\([0-9]*\).*/\1/p" "$1/meta" | awk '{ n += $1 } END { print n + 0 }'
}

# Events as the last recording's summary says.
told_events()
{
	sed -n 's/^kvmft: .*: \([0-9]*\) events, .*/\1/p' "$err"
}

data_size()
{
	find "$1" -name 'cpu[0-9]*' -type f -exec stat -c %s {} + | awk '{ n += $1 } END { print n + 0 }'
}

# Thread of the VM's first vCPU: what tinyvm said in the last run.
vcpu_tid()
{
	sed -n 's/^pid .* tids \([0-9]*\).*/\1/p' "$out"
}

# wait_for_line FILE: until something was written to it.
wait_for_line()
{
	n=0
	while [ ! -s "$1" ] && [ $n -lt 200 ]; do
		sleep 0.05
		n=$((n + 1))
	done
}
