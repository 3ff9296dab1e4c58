#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records its own
#
# Nothing goes on for ever: started with signals ignored, and beside files, sockets and processes that never answer.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording ends
. "$(dirname "$0")/sideslib.sh"

# ignoring SIGNAL,... COMMAND...
# shellcheck disable=SC2016 # for perl
ignoring() { exec perl -e '$SIG{$_} = "IGNORE" for split /,/, shift; exec @ARGV' "$@"; }
# unread COMMAND...: its standard output is a full pipe
# shellcheck disable=SC2016 # for perl
unread()
{
	exec perl -MFcntl -e '$^F = 9; pipe(R, W); fcntl(W, F_SETFL, O_NONBLOCK); 1 while syswrite(W, "x" x 4096);
		1 while syswrite(W, "x"); fcntl(W, F_SETFL, 0); open(STDOUT, ">&", \*W); exec @ARGV' "$@"
}
# unheard COMMAND...: its standard error is one that somebody could read, and does not
mkfifo "$tmp/full"
exec 7<>"$tmp/full"
perl -MFcntl -e 'open(W, ">&=7"); fcntl(W, F_SETFL, O_NONBLOCK | O_RDWR); 1 while syswrite(W, "x" x 4096);
	1 while syswrite(W, "x")'
unheard() { exec "$@" 2>"$tmp/full" 7<&-; }
alive() { kill -0 "$1" 2>/dev/null; }
has_child() { pgrep -P "$1" >/dev/null; }
gone() { ! alive "$1"; }
# ends PID NAME: soon
ends()
{
	n=0
	while alive "$1" && [ $n -lt 1200 ]; do
		sleep 0.1
		n=$((n + 1))
	done
	ok "$2" gone "$1"
	kill -KILL "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}
ends_well()
{
	recorder=$1
	ends "$@"
	is "$?" 0 "... with exit status 0"
}
record="$kvmft record --as host -q -e kvm:kvm_exit"

# ---- signals that were ignored before ----

# shellcheck disable=SC2086 # words
(ignoring CHLD $record -o "$tmp/child" -- true) 2>"$err" &
ends_well $! "the end of a command is noticed with SIGCHLD ignored"
# shellcheck disable=SC2086 # words
(ignoring CHLD,TERM,PIPE $record -d 200ms -o "$session" --guest "g1=$guest" --guest-options "$opts") 2>"$err" &
ends_well $! "... and that of a guest"
# shellcheck disable=SC2086 # words
(ignoring HUP $record -o "$tmp/nohup") &
recorder=$!
wait_until grep -qs '^begin ' "$tmp/nohup/meta"
kill -HUP "$recorder"
sleep 0.3
ok "with nohup a recording outlives SIGHUP" alive "$recorder"
kill -TERM "$recorder"
ends "$recorder" "... and ends by SIGTERM"
mkfifo "$tmp/fifo"
(ignoring TERM "$kvmft" receive -q -o "$tmp/received" <"$tmp/fifo") 2>"$err" &
recorder=$!
exec 8>"$tmp/fifo"
wait_until has_child $recorder
kill -TERM "$recorder"
ends "$recorder" "receive with SIGTERM ignored before ends by it"
exec 8>&-

# ---- every signal that can end a process: what it made goes ----

has_instance() { ls -d "$tracefs/instances/kvmft.$1".* >/dev/null 2>&1; }
begun_or_gone() { has_instance "$1" || ! kill -0 "$1" 2>/dev/null; }
pids=
# by SIGNAL COMMAND...: at once, with the others
by()
{
	sig=$1
	shift
	"$@" >/dev/null 2>"$tmp/by$sig.err" </dev/null &
	pids="$pids $!/$sig"
}
"$tinyvm" --ms 600000 --pause 200 >"$tmp/vm.out" &
vm=$!
wait_until test -s "$tmp/vm.out"
for sig in USR1 USR2 ALRM VTALRM; do
	by $sig "$kvmft" trace -p "$vm" -e kvm:kvm_pio
done
for sig in USR1 PROF IO PWR; do
	by $sig "$kvmft" exits -p "$vm" 60
done
for sig in ALRM 16 XCPU; do # 16: STKFLT
	by $sig "$kvmft" stuck --vm "$vm" --duration 60
done
for sig in HUP ALRM RTMIN RTMAX; do
	by $sig "$kvmft" record --as host -q -e kvm:kvm_pio -o "$tmp/by$sig"
done
died=
for p in $pids; do
	wait_until begun_or_gone "${p%/*}"
	has_instance "${p%/*}" || died="$died $p:never"
	kill -"${p#*/}" "${p%/*}"
done
for p in $pids; do
	wait "${p%/*}"
	[ $? -le 3 ] || died="$died $p"
	! has_instance "${p%/*}" || died="$died $p:left"
done
is "$died" "" "trace, exits, stuck and record end in order by whichever signal"
is "$(grep -l '^end reason=signal' "$tmp"/by*/meta | wc -l)" 4 "... and recordings are whole"
nothing_left "signals"
# A timer that whoever started it had set.
run timeout 300 perl -e 'alarm 2; exec @ARGV' "$kvmft" trace -p "$vm" -e kvm:kvm_pio
status_is 0 "... by a timer, too"
nothing_left "a timer"
# It sends SIGTERM to its child, and at once to all of the group; so does systemd to all of a unit.
# It had to be watching by then.
for seconds in 3 60; do
	run timeout --preserve-status $seconds "$kvmft" clock --watch --vm "$vm"
	grep -q 'before all sides recorded' "$err" || break
done
ok "timeout: what watches ends in order (exit $rc)" test "$rc" = 0 -o "$rc" = 1 -o "$rc" = 4
is "$(grep -c signal "$err")" 0 "... without a word of a signal"
nothing_left_soon "timeout"
kill -KILL $vm
wait $vm 2>/dev/null
vm=

# ---- what never comes ----

mkfifo "$tmp/fifo2"
"$kvmft" receive -q -o "$tmp/taken" <"$tmp/fifo2" 2>"$err" &
recorder=$!
exec 8>"$tmp/fifo2"
wait_until has_child $recorder
mkdir "$tmp/taken"
: >"$tmp/taken/file"
$record -o - >&8 2>"$tmp/sender.err" &
sender=$!
ends "$recorder" "receive whose name was taken meanwhile ends before its sender"
err_has 'taken exists' "... and says why"
exec 8>&-
ends "$sender" "... which notices"

"$kvmft" record --as host -q -e kvm:kvm_exit -o "$session.1" --push="$tmp/fifo" --guest "g1=env" 2>"$err" &
recorder=$!
wait $recorder
is "$?" 1 "--push=FIFO"
err_has "push=.*fifo: is not a static program" "... which is not read"

# Its only client is not served, and a second one cannot even wait.
# shellcheck disable=SC2016 # for perl
perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, sockaddr_un($ARGV[0])); listen($s, 0);
	socket(my $c, AF_UNIX, SOCK_STREAM, 0); connect($c, sockaddr_un($ARGV[0])); rename $ARGV[0], $ARGV[1]; sleep 60' \
	"$tmp/ga.tmp" "$tmp/ga.sock" &
vm=$!
wait_until test -S "$tmp/ga.sock"
"$kvmft" record --as host -q -e kvm:kvm_exit -o "$session.2" --push --guest "g1=qga:$tmp/ga.sock" 2>"$err" &
recorder=$!
wait_until has_child $recorder
sleep 0.5
copier=$(pgrep -P $recorder)
kill -INT $recorder
ends $recorder "an agent's socket that takes no connection: Ctrl-C"
ok "... ends the process that tried, too" gone "$copier"
kill -KILL $vm
wait $vm 2>/dev/null

# ---- processes of its own that are stopped ----

begin_sides --guest "g1=$guest" --guest-options "$opts"
copier=$(ps -o pid= -o comm= --ppid "$recorder" | sed -n 's/^ *\([0-9]*\) kvmft$/\1/p' | head -n 1)
kill -STOP "$copier"
kill -INT "$recorder"
wait_until grep -q 'which records the host, to end' "$err"
ok "the stopped recorder of the host is waited for" alive "$recorder"
kill -INT "$recorder"
ends "$recorder" "... until a second signal"
ok "... kills it" gone "$copier"
recorder=
nothing_left_soon "... which"

# ---- what the kernel refuses ----

# fails SYSCALL ERROR MESSAGE: at the first call, and nothing is left
fails()
{
	rm -rf "$session"
	ASAN_OPTIONS=detect_leaks=0 run timeout 300 strace -qq -o /dev/null -e trace="$1" -e inject="$1:error=$2:when=1" \
		"$kvmft" record --as host -q -e kvm:kvm_exit -o "$session" -d 100ms --guest "g1=$guest" --guest-options "$opts"
	status_is 1 "the first $1 of a session fails"
	err_has "$3" "... which is reported"
	ok "... and nothing is left" test ! -e "$session"
}
if command -v strace >/dev/null && strace -f -qq -o /dev/null true 2>/dev/null; then
	fails signalfd4 EMFILE 'cannot wait for signals: Too many open files'
	fails mkdirat EROFS 'cannot make directory .*/run: Read-only file system'
else
	skip "what the kernel refuses" "strace is not installed, or may not trace"
fi

# ---- what is shown, and not read ----

"$tinyvm" --ms 20000 --pause 200 >/dev/null &
vm=$!
rm -rf "$session"
(unread "$kvmft" record --as host -e "kvm:*$ours" -o "$session" --flight-recorder -b 1M --guest "g1=$guest" \
	--guest-options "$opts -b 1M" --blame=--help 2>"$err" </dev/null) &
recorder=$!
wait_until all_live "$session"
sleep 0.3
kill -USR1 $recorder
wait_until pgrep -P $recorder -x exe >/dev/null
kill -INT $recorder
wait_until grep -q '^end ' "$session/host/meta"
sleep 0.5
ok "what --blame prints is waited for" alive $recorder
kill -INT $recorder
ends $recorder "... until Ctrl-C"
wait $recorder
is $? 3 "... with exit 3"
err_has "a second signal ended this before all was shown" "... which says so"
(unread "$kvmft" stuck --duration 0.2 2>"$err") &
recorder=$!
wait_until grep -q '^1 0x1 ' "/proc/$recorder/syscall" # write(1
ok "stuck waits for the reader of its result" alive $recorder
kill -TERM $recorder
ends $recorder "... until SIGTERM"

(unheard "$kvmft" record --as host -e "kvm:*$ours" -o "$tmp/unheard" -- "$tinyvm" --iterations 10) &
recorder=$!
wait_until grep -q '^end ' "$tmp/unheard/meta"
sleep 0.5
ok "record waits for the reader of its messages" alive $recorder
kill -INT $recorder
ends $recorder "... until Ctrl-C"
kill -KILL $vm
wait $vm 2>/dev/null
vm=

nothing_left_soon "ends"
recorder=
finish
