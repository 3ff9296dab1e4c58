#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# `kvmft record -o -`: a real VM's events through pipes, sockets and files; readers that are slow,
# stop, or go away. What was produced is what was sent and what was lost.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording stream
cap=$tmp/cap

# record_to_stdout OPTION...: into a pipe; what follows reads it. Status and words in files.
recorded()
{
	rm -f "$tmp/rec.rc"
	timeout 300 "$kvmft" record --as host -e 'kvm:*' -o - "$@" 2>"$tmp/rec.err" </dev/null
	echo $? >"$tmp/rec.rc"
}

# The recorder's words and status become those of the last run.
look_at_recorder()
{
	cp "$tmp/rec.err" "$err"
	: >"$out"
	rc=$(cat "$tmp/rec.rc")
}

# What the kernel counted is what was told, and what can be read.
adds_up()
{
	told=$(told_events)
	lost=$(sed -n 's/^kvmft: .* events, .*, \([0-9]*\) lost .*/\1/p' "$err")
	ok "$1: there are events" test "${told:-0}" -gt "$3"
	counted=$(($(sum_stats "$cap" read) + $(sum_stats "$cap" entries) + $(sum_stats "$cap" overrun) + $(sum_stats "$cap" dropped)))
	is "$((told + lost))" "$counted" "... sent and lost are what the kernel counted"
	run "$kvmft" merge "$cap"
	status_is "$2" "... the capture can be read"
	is "$(grep -cv ' LOST ' "$out")" "$told" "... and has the events that were sent"
}

# ---- a reader that keeps up ----

recorded -- "$tinyvm" --iterations 3000 | "$kvmft" receive -q -o "$cap" 2>"$tmp/recv.err"
is "$?" 0 "record -o - | receive"
look_at_recorder
status_is 0 "... the recorder"
is "$(cat "$tmp/recv.err")" "" "... nothing to say"
adds_up "... a pipe" 0 8000
ok "... COMMAND's output is not in the stream" grep -q '^vcpu 0 io=3000' "$tmp/rec.err"
is "$(tail -n 1 "$cap/meta" | cut -d ' ' -f 1,2)" "end reason=command" "... all is there"
nothing_left "a pipe"

rm -rf "$cap"
recorded -- "$tinyvm" --iterations 1000 >"$tmp/file"
look_at_recorder
status_is 0 "into a file"
"$kvmft" receive -q -o "$cap" <"$tmp/file"
is "$?" 0 "... which is received later"
look_at_recorder
adds_up "... a file" 0 2500

rm -rf "$cap"
perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die;
	if (!fork) { close $a; open(STDIN, "<&", $b); exec @ARGV[0 .. 4] }
	close $b; open(STDOUT, ">&", $a); close $a; exec @ARGV[5 .. $#ARGV]' \
	"$kvmft" receive -q -o "$cap" \
	"$kvmft" record --as host -e 'kvm:*' -o - -- "$tinyvm" --iterations 1000 2>"$err"
is "$?" 0 "through a socket"
i=0
while ! grep -q '^end' "$cap/meta" && [ $i -lt 100 ]; do
	sleep 0.1
	i=$((i + 1))
done
adds_up "... a socket" 0 2500

# Segments begin, and the first are gone, where the reader wants that.
rm -rf "$cap"
recorded -d 3s --rotate 1s -- "$tinyvm" --ms 4000 | "$kvmft" receive -q --keep 2 -o "$cap"
is "$?" 0 "--rotate into receive --keep 2"
is "$(find "$cap" -name 'seg*' | wc -l | tr -d ' ')" 2 "... two are left"
run "$kvmft" merge "$cap"
status_is 0 "... and can be read"
ok "... with events" test "$(wc -l <"$out")" -gt 1000

# The flight recorder's ring, when the trigger fires and at the end.
rm -rf "$cap"
recorded --flight-recorder -b 1M -- "$tinyvm" --iterations 2000 | "$kvmft" receive -q -o "$cap"
is "$?" 0 "--flight-recorder"
ok "... its segment is of the ring" grep -q '^segment n=0 why=end' "$cap/meta"
run "$kvmft" merge "$cap"
ok "... its ring came" test "$(wc -l <"$out")" -gt 1000

# ---- a reader that does not ----

# 0.4 MB/s, where 50 times that comes, or twice on a very busy machine: rings overflow, the VM does not wait for it.
slowly() { perl -e 'while (sysread(STDIN, my $b, 65536)) { syswrite(STDOUT, $b); select(undef, undef, undef, 0.15) }'; }
rm -rf "$cap"
recorded -b 256K -- "$tinyvm" --iterations 20000 | slowly | "$kvmft" receive -q -o "$cap"
is "$?" 3 "a reader that is slow: what came is incomplete"
look_at_recorder
status_is 3 "... the recorder says so"
err_has '^kvmft: CPU [0-9]+ lost [0-9]+ of [0-9]+ events \([0-9]+ found the ring full' "... and counts"
err_has '; the output took [0-9]+ % of the time, up to [0-9]+ ms at once: it is too slow\)$' "... names the reader as the reason"
err_has '^kvmft: to lose fewer: a larger ring \(--buffer-size\), or fewer events' "... and what helps"
with=$(sed -n 's/^vcpu 0 io=\([0-9]*\).*/\1/p' "$err")
adds_up "... a slow reader" 3 1000
is "$with" 20000 "... the VM went on, to its end"
nothing_left "a slow reader"

# One that takes nothing: the recorder says what it waits for, and Ctrl-C ends that.
mkfifo "$tmp/fifo"
perl -e "sleep 100" <"$tmp/fifo" &
sleeper=$!
"$kvmft" record --as host -e 'kvm:*' -b 256K -o - -- "$tinyvm" --iterations 20000 >"$tmp/fifo" 2>"$err" &
recorder=$!
i=0
while ! grep -q 'waiting for the reader' "$err" && [ $i -lt 300 ]; do
	sleep 0.1
	i=$((i + 1))
done
err_has 'waiting for the reader of standard output' "a reader that takes nothing is reported"
ok "... the recorder is patient" kill -0 "$recorder"
kill -INT "$recorder"
wait "$recorder"
is "$?" 3 "... until it is told to stop"
recorder=
err_has 'given up: not all was sent' "... which it says"
kill "$sleeper"
nothing_left "a reader that takes nothing"

# One that goes away.
rm -rf "$cap"
recorded -- "$tinyvm" --ms 20000 | head -c 500000 >"$tmp/part"
look_at_recorder
status_is 3 "a reader that goes away ends it"
err_has 'reader of standard output went away' "... is reported"
nothing_left "a reader that goes away"
"$kvmft" receive -q -o "$cap" <"$tmp/part" 2>"$err"
is "$?" 3 "... what it took is a capture"
run "$kvmft" merge -q "$cap"
status_is 3 "... that can be read"
ok "... with events" test "$(wc -l <"$out")" -gt 1000

# The recorder is killed: the receiver has all that was sent.
rm -rf "$cap"
"$kvmft" receive -q -o "$cap" <"$tmp/fifo" 2>"$err" &
vm=$!
"$kvmft" record --as host -q -e 'kvm:*' -o - -- "$tinyvm" --ms 20000 >"$tmp/fifo" 2>"$tmp/rec.err" &
recorder=$!
i=0
while [ "$(data_size "$cap")" -lt 200000 ] && [ $i -lt 200 ]; do
	sleep 0.1
	i=$((i + 1))
done
kill -KILL "$recorder"
wait "$vm"
is "$?" 3 "the recorder is killed: the receiver ends"
wait "$recorder" 2>/dev/null
recorder=
vm=
err_has 'cut at byte' "... and says so"
run "$kvmft" merge -q "$cap"
status_is 3 "... what came can be read"
i=0
while [ -n "$(our_instances)" ] && [ $i -lt 50 ]; do
	sleep 0.1
	i=$((i + 1))
done
nothing_left "a recorder that was killed"

# ---- what makes no sense ----

refused()
{
	run "$kvmft" record -o - "$@"
	status_is 2 "-o - $1"
	err_has "$1" "... names it"
}
refused --min-free 1G
refused --stacks all
refused --keep 3 --rotate 1s
refused --sync
if command -v python3 >/dev/null; then
	python3 "$top/tests/cli/terminal.py" 80 24 "" "$kvmft" record -o - >"$tmp/tty" 2>&1
	ok "a terminal is no reader" grep -q 'is a terminal' "$tmp/tty"
else
	skip "a terminal is no reader" "python3 is not installed"
fi
finish
