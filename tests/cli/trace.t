#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# kvmft trace, live, on KVM events of a small VM of our own: nobody else's.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

# ---- what needs no tracefs ----

run "$kvmft" trace
status_is 2 "without -e"
err_one_line "without -e"
err_has 'give -e EVENT.*kvm:kvm_exit' "... says what to give"
run "$kvmft" trace -e kvm:kvm_pio -N 0
status_is 2 "count 0"
run "$kvmft" trace -e kvm:kvm_pio -d soon
status_is 2 "no duration"

need_recording "live tracing"

run "$kvmft" trace -e kvm:kvm_pio --tsc --clock mono_raw
status_is 2 "two clocks"
run "$kvmft" trace -e kvm:kvm_pio --pvclock 1,2,3,0
status_is 2 "pvclock record without --kvmclock"
run "$kvmft" trace -e kvm:kvm_pio --clock sundial
status_is 4 "trace clock that does not exist"
err_has 'x86-tsc|local' "... and those that do are listed"
run "$kvmft" trace -e kvm:kvm_pioo
status_is 4 "event that does not exist"
err_has 'kvm_pio' "... and a near one is named"
run "$kvmft" trace -e kvm:kvm_pio -p nobody
status_is 2 "no process id"

# ---- a VM that loops until its stdin is closed, then some more ----

mkfifo "$tmp/go"

# vm_start [OPTION]...: a VM that waits; its PID in $vm.
vm_start()
{
	rm -f "$tmp/vm.out"
	"$tinyvm" --wait "$@" <"$tmp/go" >"$tmp/vm.out" 2>&1 &
	vm=$!
	exec 9>"$tmp/go"
	tries=0
	until grep -qs '^pid ' "$tmp/vm.out" || [ $tries -ge 100 ]; do
		sleep 0.05
		tries=$((tries + 1))
	done
}

vm_go()
{
	exec 9>&-
}

vm_end()
{
	vm_go
	wait "$vm"
	vm=
}

# Does the trace of $recorder record?
live_begun() { [ "$(cat "$tracefs/instances/kvmft.$recorder."*/tracing_on 2>/dev/null)" = 1 ]; }

# live ARGUMENT...: kvmft trace while the VM runs.
live()
{
	"$kvmft" trace -p "$vm" "$@" >"$out" 2>"$err" 9>&- </dev/null &
	recorder=$!
	wait_until live_begun
	# Of a VM whose clock is requested it reads debugfs after that.
	sleep 0.5
	vm_go
	wait "$recorder"
	rc=$?
}

# Times are the number before the two blanks in front of the event.
stamps()
{
	sed -nE 's/^.*\] +([0-9.]+)  kvm:.*/\1/p' "$1"
}

unordered()
{
	stamps "$1" | tr -d . | awk 'length($1) < length(last) || (length($1) == length(last) && $1 "" < last "") { n++ }
		{ last = $1 } END { print n + 0 }'
}

vm_start --ms 500
live -e 'kvm:*' -N 10
status_is 0 "-N 10 exits 0"
is "$(wc -l <"$out" | tr -d ' ')" 10 "... exactly 10 lines"
is "$(stamps "$out" | wc -l | tr -d ' ')" 10 "... all are events with a time"
is "$(grep -cE '^tinyvm-[0-9]+ +\[[0-9]+\] +[0-9]+\.[0-9]{9}  kvm:[a-z_]+: ' "$out")" 10 \
	"... of the VM's threads, in the form that the manual shows"
is "$(unordered "$out")" 0 "... in order"
sed 's/^/# /' "$out" | head -n 3
vm_end

vm_start --ms 500 --vcpus 2
live -e kvm:kvm_pio -e kvm:kvm_mmio --tsc -d 1500ms
status_is 0 "-d with two vCPUs exits 0"
vm_end
pio=$(grep -c 'kvm:kvm_pio: ' "$out")
is "$pio" "$(awk '/^vcpu/ { split($3, a, "="); n += a[2] } END { print n }' "$tmp/vm.out")" \
	"... every pio of the VM is there"
ok "... and mmio" grep -q 'kvm:kvm_mmio: ' "$out"
is "$(sed -nE 's/^tinyvm-([0-9]+) .*/\1/p' "$out" | sort -u | wc -l | tr -d ' ')" 2 "... of both vCPUs"
is "$(stamps "$out" | grep -cvE '^[0-9]+$')" 0 "... in whole cycles"
is "$(unordered "$out")" 0 "... in order over CPUs"
is "$(cat "$err")" "" "... nothing on stderr"

# The same moment in another clock: the instance's stamp plus N, wrapping.
now_raw=$(perl -e 'require "syscall.ph"; my $t = pack("qq", 0, 0);
	syscall(&SYS_clock_gettime, 4, $t); my ($s, $n) = unpack("qq", $t); print $s' 2>/dev/null)
vm_start --ms 200
live -e kvm:kvm_pio --clock mono_raw -N 5
status_is 0 "--clock mono_raw"
is "$(unordered "$out")" 0 "... in order"
if [ -n "$now_raw" ]; then
	got=$(stamps "$out" | head -n 1)
	ok "... is CLOCK_MONOTONIC_RAW" test $((${got%.*} - now_raw)) -ge 0 -a $((${got%.*} - now_raw)) -le 20
else
	skip "... is CLOCK_MONOTONIC_RAW" "perl cannot read it here"
fi
vm_end
vm_start --ms 200
live -e kvm:kvm_pio --clock mono_raw --clock-offset 0xffffffffffffffff -N 1
status_is 0 "--clock-offset in hex, -1"
vm_end
vm_start --ms 200
before=$(date +%s)
live -e kvm:kvm_pio --clock realtime -N 3
status_is 0 "--clock realtime"
shown=$(sed -nE '1s/.*\] ([0-9]{4}-[0-9-]+ [0-9:]+)\.[0-9]{9}  kvm:kvm_pio.*/\1/p' "$out")
late=$(($(date -d "$shown" +%s) - before))
ok "... is the time of the day ($shown)" test "$late" -ge 0 -a "$late" -le 20
vm_end
vm_start --ms 200
live -e kvm:kvm_pio --long -N 3
status_is 0 "--long"
shown=$(sed -nE '1s/^([0-9]{4}-[0-9-]+ [0-9:]+)\.[0-9]{9} .*\] [.bdD][.npN][.hsHzZ][.1-9a-f] +[0-9]+\.[0-9]{9}  kvm:kvm_pio.*/\1/p' "$out")
late=$(($(date -d "$shown" +%s) - before))
ok "... is the context, and the time of the day ($shown)" test "$late" -ge 0 -a "$late" -le 60
vm_end
vm_start --ms 200
live -e kvm:kvm_pio --clock perf -N 1
perf=$(stamps "$out")
vm_end
vm_start --ms 200
live -e kvm:kvm_pio --clock-offset 5000000000000 -N 1
ok "--clock-offset without a clock is added to that of perf" awk -v perf="$perf" -v got="$(stamps "$out")" '
	BEGIN { exit !(perf && got - perf >= 5000 && got - perf < 5060) }'
vm_end

# ---- filters ----

vm_start --ms 200
live -e 'kvm:kvm_pio/port==0x80/' -N 3
status_is 0 "filter that fits"
is "$(grep -c 'at 0x80 ' "$out")" 3 "... gives what it says"
vm_end
vm_start --ms 200
live -e 'kvm:kvm_pio/port==0x81/' -d 800ms
status_is 0 "filter that fits nothing"
is "$(cat "$out")" "" "... gives nothing"
vm_end
run "$kvmft" trace -e 'kvm:kvm_pio/prot==0x80/' -d 1
status_is 1 "filter with an unknown field"
err_has 'prot==0x80' "... is quoted"
err_has '^ *\^' "... with the kernel's caret"
err_has 'not found|[Ff]ield|ERROR|parse_error' "... and the kernel's reason"

# ---- ends ----

vm_start --ms 1500
live_reader()
{
	"$kvmft" trace -p "$vm" -e kvm:kvm_pio 2>"$err" 9>&- | head -n 3 >"$out"
}
(exec 9>&- && live_reader) &
reader=$!
sleep 1
vm_go
wait $reader
is "$(wc -l <"$out" | tr -d ' ')" 3 "reader that goes away: it got its lines"
is "$(cat "$err")" "" "... nothing on stderr"
vm_end

vm_start --ms 200
"$kvmft" trace -p "$vm" -e kvm:kvm_pio >"$out" 2>"$err" 9>&- </dev/null &
recorder=$!
wait_until live_begun
vm_end
sleep 0.3
kill -INT $recorder
wait $recorder
rc=$?
status_is 0 "SIGINT ends it with 0"
is "$(grep -c 'kvm:kvm_pio: ' "$out")" "$(sed -n 's/.* io=\([0-9]*\) .*/\1/p' "$tmp/vm.out")" \
	"... after all that happened was printed"

# Nobody reads the pipe: a signal is obeyed all the same.
mkfifo "$tmp/pipe"
vm_start --ms 1000
exec 8<>"$tmp/pipe"
"$kvmft" trace -p "$vm" -e 'kvm:*' >"$tmp/pipe" 2>"$err" 8>&- 9>&- </dev/null &
recorder=$!
wait_until live_begun
vm_end
kill -TERM $recorder
ended() { ! kill -0 $recorder 2>/dev/null; }
ok "SIGTERM ends it while its reader sleeps" wait_until ended
kill -9 $recorder 2>/dev/null
wait $recorder
exec 8>&-

# A ring that is far too small: the loss is a line of its own, and the exit status.
vm_start --ms 800 --vcpus 2
live -e 'kvm:*' -b 4K -d 2s
if grep -q 'events were lost' "$err"; then
	out_has '^- +\[0*[01]\] +[0-9.]+  LOST ([0-9]+ )?EVENTS of this CPU' "lost events are a line"
	is "$(grep -c DAMAGED "$out")" 0 "... and nothing is damaged"
	status_is 3 "lost events: exit 3"
	err_has 'events were lost' "... and stderr says how many"
	is "$(unordered "$out")" 0 "... order holds"
else
	skip "lost events" "this machine was fast enough for the smallest ring"
fi
vm_end

# ---- kvmclock of a VM that has none ----

vm_start --ms 500
vm_fd=$(sed -n 's/.* vm-fd \([0-9]*\) .*/\1/p' "$tmp/vm.out")
if [ -d "/sys/kernel/debug/kvm/$vm-$vm_fd" ]; then
	run "$kvmft" trace -e kvm:kvm_pio --kvmclock "$vm-$vm_fd" -d 1500ms
	status_is 1 "no pvclock record comes"
	err_has 'waiting for .*kvm_pvclock_update.* 1 s so far' "... it says what it waits for, and how long"
	err_has 'guest-offset.* or a capture made there' "... how not to wait, and why nothing was traced"
	run "$kvmft" trace -e kvm:kvm_pio --kvmclock nosuch -N 1
	status_is 1 "a VM that does not exist"
	err_has "$vm-$vm_fd" "... and the candidates are listed"
	run "$kvmft" trace -e kvm:kvm_pio --kvmclock "$vm" --pvclock 1,2,3
	status_is 2 "pvclock record that is too short"
	run "$kvmft" trace -e kvm:kvm_pio --kvmclock "$vm" --pvclock 1,2,0,0
	status_is 2 "pvclock record without a rate"
	live -e kvm:kvm_pio --kvmclock "$vm" --pvclock 0,1000000000000,2147483648,0 -N 5
	status_is 0 "a record given by hand"
	is "$(unordered "$out")" 0 "... in order"
	out_has ' [0-9]{4,}\.[0-9]{9}  kvm:kvm_pio' "... not before its system time"
	vm_end
	"$tinyvm" --ms 60000 --pause 100 >/dev/null &
	ends=$!
	sleep 0.3
	timeout 300 "$kvmft" trace -e kvm:kvm_pio --kvmclock "$ends" -N 1 >"$out" 2>"$err" &
	waits=$!
	n=0
	while ! grep -q 'waiting for' "$err" && [ $n -lt 300 ]; do
		sleep 0.1
		n=$((n + 1))
	done
	kill $ends
	wait $waits
	rc=$?
	wait $ends 2>/dev/null
	status_is 1 "a VM that ends meanwhile is not waited for"
	err_has "ended before it got a pvclock record" "... is reported"
else
	skip "kvmclock" "debugfs shows no directory of the VM"
	vm_end
fi

nothing_left "after all"
is "$(tracefs_state)" "$state_before" "tracefs is as it was"
finish
