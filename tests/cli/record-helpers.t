#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records its own
#
# `kvmft record` beside helpers that are killed or do not answer, and a command that does not end.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording record-helpers

# helper_of RECORDER NAME: its process id
helper_of()
{
	grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | xargs grep -sl "$2" | cut -d / -f 3
}

# begun CAPTURE: it is live, after at most 10 s
begun()
{
	n=0
	while ! grep -q '^begin ' "$1/meta" 2>/dev/null && [ $n -lt 200 ]; do
		sleep 0.05
		n=$((n + 1))
	done
}

"$kvmft" record --as host -q -e kvm:kvm_exit -d 1s -o "$tmp/stubborn" -- \
	sh -c 'trap "" TERM; echo $$ >"$1"; for i in $(seq 60); do sleep 1; done' sh "$tmp/stubborn.pid" >"$tmp/stubborn.err" 2>&1 &
stubborn=$!
"$kvmft" record --as host -q -e kvm:kvm_exit -p $$ -d 3s -o "$tmp/stopped" 2>"$tmp/stopped.err" &
stopped=$!
"$kvmft" record --as host -q -e kvm:kvm_exit -p $$ -d 3s -o "$tmp/blind" 2>"$tmp/blind.err" &
blind=$!
mkdir "$tmp/bin"
ln -s "$kvmft" "$tmp/bin/kvmft"
"$kvmft" record --as host -q -e kvm:kvm_exit -o "$tmp/run" --guest "g1=/usr/bin/env PATH=$tmp/bin:$PATH" \
	--guest-options '--as guest -q -e kvm:kvm_exit' 2>"$tmp/run.err" &
session=$!
mkfifo "$tmp/fifo"
"$kvmft" receive -q -o "$tmp/received" <"$tmp/fifo" 2>"$tmp/received.err" &
receiver=$!
exec 8>"$tmp/fifo"
begun "$tmp/stopped"
begun "$tmp/blind"
silent="$(helper_of $stopped kvmft-look) $(helper_of $stopped kvmft-watch)"
n=0
while ! grep -q '^start ' "$tmp/run/session" 2>/dev/null && [ $n -lt 200 ]; do
	sleep 0.05
	n=$((n + 1))
done
for p in $receiver $session; do
	silent="$silent $(helper_of $p kvmft-store)"
done
# shellcheck disable=SC2086 # words
kill -STOP $silent
kill -KILL "$(helper_of $blind kvmft-look)"
wait $blind
is "$?" 3 "kvmft-look is killed: the recording goes on, but may lack VMs"
is "$(sed 's/process [0-9]*/process N/' "$tmp/blind.err" | head -n 1)" \
	"kvmft: kvmft-look (process N) was killed: VMs and threads that appear from now on are not known" "... which is said once"
is "$(tail -n 1 "$tmp/blind/meta" | cut -d ' ' -f 1,2)" "end reason=duration" "... to its end"

n=0
while ! grep -q 'waiting for' "$tmp/stopped.err" && [ $n -lt 300 ]; do
	sleep 0.1
	n=$((n + 1))
done
# shellcheck disable=SC2086 # words
kill -CONT $silent
wait $stopped
is "$?" 3 "kvmft-look and kvmft-watch are stopped"
is "$(sed 's/process [0-9]*/process N/' "$tmp/stopped.err" | grep -v ' lost (duration)$')" \
	"kvmft: kvmft-look (process N) does not answer: VMs and threads that appear from now on are not known
kvmft: waiting for kvmft-watch (process N) to end; another signal leaves it alone" "... the recording ends, and says what it waits for"
exec 8>&-
wait $receiver
is "$(sed 's/process [0-9]*/process N/' "$tmp/received.err" | head -n 1)" \
	"kvmft: process N, which stores the stream, does not answer: is it stopped?" "so is what stores a stream"
wait_for_line "$tmp/run.err"
kill -INT $session
wait $session
is "$?" 0 "... and the same of a session"
# On a busy machine it may seem so once more.
is "$(sed 's/process [0-9]*/process N/' "$tmp/run.err" | head -n 2)" \
	"kvmft: g1: process N, which stores its stream, does not answer: is it stopped?
kvmft: g1: is back" "... which says so as well"
wait $stubborn
is "$?" 0 "a command that goes on after SIGTERM"
is "$(sed 's/process [0-9]*/process N/' "$tmp/stubborn.err")" \
	"kvmft: sh (process N) goes on after SIGTERM: the recording ends without it" "... is not waited for, for ever"
kill -KILL "$(cat "$tmp/stubborn.pid")"
nothing_left_soon "helpers that do not answer"
is "$(tracefs_state)" "$state_before" "tracefs is as it was before all this"
finish
