#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# `kvmft record` on this machine: refused outputs, all ways to end, what it leaves behind. Only KVM
# events are recorded, while a VM of our own (tests/vm/tinyvm.c) runs.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording record
umask 022

# refused NAME PATTERN ARGUMENT...: exit 1, one line, no trace of it in the kernel.
refused()
{
	name=$1
	pattern=$2
	shift 2
	run "$kvmft" record --as host "$@"
	status_is "${refusal:-1}" "$name"
	err_has "$pattern" "... is reported"
	err_one_line "$name"
	nothing_left "$name"
}

# short ARGUMENT...: a recording of a VM that does little.
short()
{
	run timeout 300 "$kvmft" record --as host -e 'kvm:*' "$@" -- "$tinyvm" --iterations 100
}

# ---- a plain recording ----

short -o "$tmp/a"
status_is 0 "recording while a command runs"
err_has "^kvmft: $tmp/a: [1-9][0-9]* events, .*, 0 lost \(command\)" "... says what it got"
out_has '^vcpu 0 io=100 mmio=100 hlt=100' "... the command ran, its output is untouched"
nothing_left "success"
is "$(stat -c %a "$tmp/a")" 700 "capture is its owner's"
is "$(find "$tmp/a" -type f ! -perm 600 | wc -l | tr -d ' ')" 0 "... and all files in it"
is "$(find "$tmp/a" ! -type f ! -type d | wc -l | tr -d ' ')" 0 "... which are plain files"
is "$(head -n 1 "$tmp/a/meta")" "kvmft-capture version=1" "meta begins with its version"
is "$(tail -n 1 "$tmp/a/meta" | cut -d ' ' -f 1,2)" "end reason=command" "... and ends with the reason"
is "$(sed -n "s/^end .* clocksource=//p" "$tmp/a/meta")" "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)" \
	"... and the clocksource then"
is "$(sum_stats "$tmp/a" read)" "$(told_events)" "the reported number of events is what was read from the ring"
tid=$(vcpu_tid)
run "$kvmft" merge "$tmp/a"
status_is 0 "capture can be read"
# Another VM may run on this machine: only the lines of our vCPU's thread count.
is "$(grep -c "tinyvm-$tid .*kvm:kvm_pio: pio_write at 0x80 " "$out")" 100 "... and has each of 100 port writes"
is "$(wc -l <"$out" | tr -d ' ')" "$(sum_stats "$tmp/a" read)" "... a line for each event read"
(
	umask 277
	short -q -o "$tmp/umask"
	exit "$rc"
)
is "$?" 0 "a strange umask does no harm"
short -q -o "$tmp/quiet"
is "$(wc -c <"$err" | tr -d ' ')" 0 "--quiet is silent"
# The machine's role does not depend on whether a VM runs, and is reported first.
run timeout 300 "$kvmft" record -e 'kvm:*' -d 100ms --force -o "$tmp/role"
without=$(sed -n 's/^side name=\([a-z]*\) from=machine$/\1/p' "$tmp/role/meta")
err_has '^kvmft: recording as a (host|guest|host and guest): this machine is ' "the role is reported"
run timeout 300 "$kvmft" record -e 'kvm:*' --force -o "$tmp/role" -- "$tinyvm" --iterations 10
is "$(sed -n 's/^side name=\([a-z]*\) from=machine$/\1/p' "$tmp/role/meta")" "$without" \
	"... and is the same ($without) while a VM runs"
run timeout 300 "$kvmft" record --as host -q -e 'kvm:*' -d 100ms --force -o "$tmp/role"
is "$(grep '^side ' "$tmp/role/meta")" "side name=host from=option" "... or what was asked for"
run timeout 300 "$kvmft" record --as host -q -e 'kvm:*' -o "$tmp/filter/" -- true
status_is 1 "a / behind the name of a capture that is not there"
err_has "$tmp/filter/: no such directory: .*without the / at its end it is a new capture" "... says what it means"
run timeout 300 "$kvmft" record --as host -q -e 'kvm:*' -o "$tmp/filter" -e 'kvm:kvm_pio/port == 0x80/' \
	-e 'kvm:kvm_mmio/gpa == 1/' -- "$tinyvm" --iterations 100
status_is 0 "filters"
tid=$(vcpu_tid)
run "$kvmft" merge "$tmp/filter"
status_is 0 "... nothing is missing"
is "$(grep -c "tinyvm-$tid .*kvm:kvm_pio:" "$out") $(grep -c "tinyvm-$tid .*kvm:kvm_mmio:" "$out")" "100 0" "... are applied"

# ---- VMs that come and go ----

# came FILE [AT]: the VM that printed these lines is in the capture, with a thread for each of its vCPUs.
came()
{
	# shellcheck disable=SC2046 # words
	set -- $(head -n 1 "$1")
	grep -q "^vm id=$2-$4 pid=$2 fd=$4 .*vmm=tinyvm" "$cap/meta" || return 1
	vmid=$2-$4
	shift 5
	for t; do
		grep -q "^vcpu vm=$vmid id=[0-9]* tid=$t offset=.* tsc=[0-9]*$" "$cap/meta" &&
			grep -q "^task tid=$t tgid=${vmid%-*} " "$cap/meta" || return 1
	done
}
cap=$tmp/come
cat >"$tmp/come.sh" <<EOF
"$tinyvm" --ms 600 --vcpus 2 --name late >"$tmp/come1" &
sleep 0.2
"$tinyvm" --ms 300 --vcpus 3 --stride 2 >"$tmp/come2"
wait
"$tinyvm" --iterations 1 >"$tmp/come3"
EOF
run timeout 300 "$kvmft" record --as host -q -e 'kvm:kvm_entry' -o "$cap" -- sh "$tmp/come.sh"
status_is 0 "VMs that come and go"
ok "... one beside another: process, vCPUs, threads, tasks" came "$tmp/come1"
ok "... its name" grep -q '^vm id=.* name=late vmm=tinyvm' "$cap/meta"
ok "... and the other one, whose ids have gaps" came "$tmp/come2"
# shellcheck disable=SC2046
set -- $(head -n 1 "$tmp/come3")
ok "... one that lived for a moment" grep -q "^vm id=$2-$4 pid=$2 fd=$4" "$cap/meta"
ok "... their offsets were read while it recorded" awk '
	{ tsc = $NF; sub("tsc=", "", tsc) }
	$1 == "begin" { begin = tsc }
	$1 == "stop" { stop = tsc }
	$1 == "vcpu" && $2 ~ /^vm='"$vmid"'$/ && tsc > begin + 0 && !stop { n++ }
	END { exit n < 3 }' "$cap/meta"

# A VM that has only begun: its vCPU's thread is known when it runs.
cap=$tmp/paused
mkfifo "$tmp/go"
"$tinyvm" --wait --ms 600 <"$tmp/go" >"$tmp/paused.out" &
vm=$!
exec 7>"$tmp/go"
wait_for_line "$tmp/paused.out"
"$kvmft" record --as host -q -e 'kvm:kvm_entry' -d 1500ms -o "$cap" &
recorder=$!
wait_for_line "$cap/meta"
sleep 0.2
echo >&7
exec 7>&-
wait "$recorder"
wait "$vm"
ok "a VM that had not run yet: its thread, as soon as it does" came "$tmp/paused.out"

# ---- who ends it ----

# ended_by NAME REASON: the last recording was ended so, and is whole.
ended_by()
{
	is "$(tail -n 1 "$cap/meta" | cut -d ' ' -f 1,2)" "end reason=$2" "$1: reason"
	run "$kvmft" merge "$cap"
	status_is 0 "$1: capture can be read"
	nothing_left "$1"
}

for signal in INT TERM HUP QUIT; do
	cap=$tmp/sig-$signal
	start_recording "$cap"
	kill -"$signal" "$recorder"
	wait "$recorder"
	is "$?" 0 "SIG$signal ends it with 0"
	ended_by "SIG$signal" signal
done
cap=$tmp/duration
run timeout 300 "$kvmft" record --as host -e 'kvm:*' -d 300ms -o "$cap" -- "$tinyvm" --ms 20000
status_is 0 "duration ends it, and the command"
ended_by duration duration
cap=$tmp/nocmd
run timeout 300 "$kvmft" record --as host -e 'kvm:*' -d 0.1 -o "$cap"
status_is 0 "duration without a command"
is "$(tail -n 1 "$cap/meta" | cut -d ' ' -f 1,2)" "end reason=duration" "... reason"
cap=$tmp/nosuch
run timeout 300 "$kvmft" record --as host -e 'kvm:*' -o "$cap" -- /nonexistent/command
status_is 1 "command that does not exist"
err_has 'cannot run /nonexistent/command: No such file' "... is reported"
err_one_line "command that does not exist"
nothing_left "command that does not exist"
cap=$tmp/fails
run timeout 300 "$kvmft" record --as host -q -e 'kvm:*' -o "$cap" -- sh -c 'exit 7'
status_is 0 "command that fails: it was recorded"
is "$(cat "$err")" "kvmft: sh ended with exit status 7" "... is reported"

# What the ring took, of all events, as a share of a CPU; less than a thousandth is not worth a line.
cap=$tmp/cost
run timeout 300 "$kvmft" record --as host -e kvm:kvm_exit -e marker -o "$cap" -- perl -e '
	open my $f, ">", shift or exit; syswrite $f, "x" for 1 .. 20000' "$tracefs/trace_marker"
status_is 0 "many markers"
is "$(sed -n 's/^kvmft: this ring took at most [1-9][0-9]* ns for each event: in all \([0-9.]*\) % of a CPU$/\1/p' "$err")" \
	"$(awk -v n="$(sed -nE 's/.*: ([0-9]+) events, .*/\1/p' "$err")" '
		$1 != "clock" { next }
		{ for (i = 2; i <= NF; i++) { split($i, kv, "="); v[kv[1]] = kv[2] } }
		!width { width = v["width"] }
		v["name"] == "perf" { if (begin) cycles = v["tsc"] - begin; begin = v["tsc"] }
		END { if (cycles) share = int(width * n / (int(cycles / 1000) + 1))
			if (share) printf "%d.%d", share / 10, share % 10 }' "$cap/meta")" "... the ring's share of a CPU"

# Three clocks, each read beside the TSC at the beginning and at the end; how fast they run is the machine's.
# What the three rates then differ by is what the readings are wrong by, and the log, where it gave a constant.
is "$(awk '$1 == "clock" {
		for (i = 2; i <= NF; i++) { split($i, kv, "="); v[kv[1]] = kv[2] }
		c = v["name"]
		n[c]++
		tsc[c, n[c]] = v["tsc"]; ns[c, n[c]] = v["ns"]
		if (v["width"] + 0 > width) width = v["width"] + 0
	}
	END {
		rate = (ns["local", 2] - ns["local", 1]) / (tsc["local", 2] - tsc["local", 1])
		for (c in n) {
			off = ns[c, 1] + (tsc[c, 2] - tsc[c, 1]) * rate - ns[c, 2]
			bad = bad || n[c] != 2 || off > 3 * width * rate + 10 || off < -3 * width * rate - 10
			found = found " " n[c]
		}
		print bad + 0 found
	}' "$cap/meta")" "0 2 2 2" "clocks local, global and perf: two readings each, on parallel lines"

cap=$tmp/max
run timeout 300 "$kvmft" record --as host -e 'kvm:*' --max-size 1M -o "$cap" -- "$tinyvm" --ms 20000
status_is 3 "--max-size: exit 3, events did not fit"
is "$(tail -n 1 "$cap/meta" | cut -d ' ' -f 1,2)" "end reason=max-size" "... reason"
size=$(data_size "$cap")
subbuf=$(sed -n 's/^ring .* subbuf=\([0-9]*\).*/\1/p' "$cap/meta")
is "$([ "$size" -le 1048576 ] && [ "$size" -ge $((1048576 - $(nproc --all) * subbuf)) ] && echo yes)" yes \
	"... $size bytes: the budget within one sub-buffer per CPU"
nothing_left "--max-size"
run "$kvmft" merge "$cap"
status_is 3 "... the capture says that events are missing"
cap=$tmp/free
run timeout 300 "$kvmft" record --as host -e 'kvm:*' --min-free 999999G -o "$cap" -- "$tinyvm" --ms 20000
status_is 1 "--min-free beyond the disk" # record-limits.t fills one
ok "... makes no capture" test ! -e "$cap"
nothing_left "--min-free"

# ---- killed ----

# watcher_of PID: the process that cleans up after that recorder.
watcher_of()
{
	for stat in /proc/[0-9]*/stat; do
		awk -v p="$1" '$2 == "(kvmft-watch)" && $4 == p { print $1 }' "$stat" 2>/dev/null
	done
}

# gone COMMAND...: false within a second.
gone()
{
	n=0
	while "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 20 ] || return 1
		sleep 0.05
	done
}

# Nobody may have collected the dead here: a zombie does not run.
runs()
{
	grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"
}

instance_there()
{
	[ -n "$(our_instances)" ]
}

killed_capture()
{
	run "$kvmft" merge "$cap"
	is "$([ "$rc" = 0 ] || [ "$rc" = 3 ] && echo yes)" yes "capture of a killed recorder can be read"
	is "$([ "$(wc -l <"$out")" -gt 0 ] && echo yes)" yes "... and has events"
	err_has 'recording was cut short' "... and is reported as cut short"
}

cap=$tmp/killed
start_recording "$cap" -b 1M
sleep 0.5
watcher=$(watcher_of "$recorder")
ok "a watcher runs beside the recorder" test -n "$watcher"
kill -KILL "$recorder"
wait "$recorder" 2>/dev/null
ok "SIGKILL: the instance is gone within a second" gone instance_there
ok "... and so is the watcher" gone runs "$watcher"
kill "$vm" 2>/dev/null
wait "$vm" 2>/dev/null
killed_capture

cap=$tmp/killed-both
start_recording "$cap" -b 1M
sleep 0.5
watcher=$(watcher_of "$recorder")
kill -KILL "$watcher" "$recorder"
wait "$recorder" 2>/dev/null
kill "$vm" 2>/dev/null
wait "$vm" 2>/dev/null
is "$(our_instances | wc -l | tr -d ' ')" 1 "SIGKILL of both leaves the instance"
is "$(cat "$tracefs"/instances/kvmft."$recorder".*.0/tracing_on)" 0 "... where the kernel has stopped tracing"
run "$kvmft" reset --dry-run
is "$(awk 'length > 80' "$out")" "" "reset: 80 columns"
status_is 0 "reset --dry-run"
out_has "^instance kvmft\.$recorder\.[0-9]+\.[0-9]+$" "... names it"
is "$(our_instances | wc -l | tr -d ' ')" 1 "... leaves it"
run "$kvmft" reset
status_is 0 "reset"
out_has "^instance kvmft\.$recorder\.[0-9]+\.[0-9]+: removed$" "... removes it"
is "$(our_instances | wc -l | tr -d ' ')" 0 "... it is gone"
killed_capture

# Several sweep at once: what another one has just removed is no error.
for n in 0 1 2 3 4 5; do
	mkdir "$tracefs/instances/kvmft.4194302.1.$n"
done
for n in 1 2 3 4; do
	"$kvmft" reset >/dev/null 2>"$tmp/reset$n.err" &
	eval "reset$n=\$!"
done
# shellcheck disable=SC2154 # reset1 to reset4, by eval
for n in "$reset1" "$reset2" "$reset3" "$reset4"; do
	wait "$n" || echo "exit $?" >>"$tmp/reset1.err"
done
is "$(cat "$tmp"/reset?.err) $(our_instances | wc -l | tr -d ' ')" " 0" "reset by four at once: all is gone, and no error"

cap=$tmp/killed-watcher
start_recording "$cap"
watcher=$(watcher_of "$recorder")
kill -KILL "$watcher"
kill "$recorder"
wait "$recorder"
is "$?" 0 "a recorder whose watcher was killed ends well"
nothing_left "killed watcher"
kill "$vm" 2>/dev/null
wait "$vm" 2>/dev/null

# ---- outputs that are refused ----

set -- -d 0.1 -e kvm:kvm_exit
mkdir "$tmp/exists"
echo precious >"$tmp/exists/file"
refused "output is a directory" "exists" "$@" -o "$tmp/exists"
refused "... even with --force" "is not a kvmft capture: it is not touched" "$@" --force -o "$tmp/exists"
is "$(cat "$tmp/exists/file")" precious "... it is untouched"
echo precious >"$tmp/file"
refused "output is a file" "exists" "$@" -o "$tmp/file"
refused "... even with --force" "is not a kvmft capture" "$@" --force -o "$tmp/file"
is "$(cat "$tmp/file")" precious "... it is untouched"
mkfifo "$tmp/fifo"
refused "output is a FIFO" "exists" "$@" -o "$tmp/fifo"
refused "... even with --force" "is not a kvmft capture" "$@" --force -o "$tmp/fifo"
ok "... it is still there" test -p "$tmp/fifo"
mkdir "$tmp/elsewhere"
ln -s "$tmp/elsewhere" "$tmp/link"
refused "output is a symbolic link" "exists" "$@" -o "$tmp/link"
refused "... even with --force" "is not a kvmft capture" "$@" --force -o "$tmp/link"
ln -s "$tmp/nowhere" "$tmp/dangling"
refused "output is a dangling link" "exists" "$@" -o "$tmp/dangling"
ok "... nothing was made through it" test ! -e "$tmp/nowhere"
refused "parent is a symbolic link" "is a symbolic link: name the real directory" "$@" -o "$tmp/link/c"
is "$(find "$tmp/elsewhere" -mindepth 1 | wc -l | tr -d ' ')" 0 "... nothing was made there"
mkdir -m 777 "$tmp/open"
refused "parent is writable for all" "writable by others and not sticky" "$@" -o "$tmp/open/c"
is "$(find "$tmp/open" -mindepth 1 | wc -l | tr -d ' ')" 0 "... nothing was made there"
chmod 1777 "$tmp/open"
short -q -o "$tmp/open/c"
status_is 0 "a sticky parent will do"
refused "parent does not exist" "cannot open directory .*No such file" "$@" -o "$tmp/no/such/c"
refused "parent is a file" "cannot open directory .*Not a directory" "$@" -o "$tmp/file/c"
refused "no name" "cannot be the name of a capture" "$@" -o ""
refused "name is .." "cannot be the name of a capture" "$@" -o "$tmp/.."

before=$(cd "$tmp/a" && find . -type f -exec cksum {} + | LC_ALL=C sort)
refused "output is a capture" "exists: choose another name or use --force" "$@" -o "$tmp/a"
is "$(cd "$tmp/a" && find . -type f -exec cksum {} + | LC_ALL=C sort)" "$before" "... it is untouched"
# A capture with a link inside: what it points to must survive its replacement.
ln -s "$tmp/exists" "$tmp/a/link"
short -q --force -o "$tmp/a"
status_is 0 "--force replaces a capture"
ok "... wholly" test ! -e "$tmp/a/link"
is "$(cat "$tmp/exists/file")" precious "... and nothing that a link in it points to"

# ---- the default events: when threads of VMs have a CPU ----

# within ID: does the filter of sched_switch let that thread through?
within()
{
	sed -n 's/%20/ /g; s/%3d/=/g; s/^event .*name=sched_switch .*filter=//p' "$cap/meta" |
		grep -oE 'next_pid >= [0-9]+ && next_pid <= [0-9]+' |
		awk -v id="$1" 'id + 0 >= $3 + 0 && id + 0 <= $7 + 0 { found = 1 } END { exit !found }'
}
# switches ID...: how many from or to one of these threads
switches()
{
	"$kvmft" merge -q "$cap" | awk -v ids=" $* " '
		/ sched:sched_switch: / { match($0, /prev_pid=[0-9]+/); a = substr($0, RSTART + 9, RLENGTH - 9)
			match($0, /next_pid=[0-9]+/); b = substr($0, RSTART + 9, RLENGTH - 9)
			n += index(ids, " " a " ") || index(ids, " " b " ") }
		END { print n + 0 }'
}
cap=$tmp/switches
# Its id is far from those of the VM, or the filter's ranges may take it in.
sh -c 'while :; do sleep 0.01; done' &
stranger=$!
perl -e 'for (1..400) { exit if !(my $p = fork); waitpid $p, 0 }'
"$tinyvm" --ms 20000 --vcpus 2 --pause 1000 >"$tmp/vm.out" &
vm=$!
wait_for_line "$tmp/vm.out"
# shellcheck disable=SC2046 # words
set -- $(sed -n '1s/.* tids //p' "$tmp/vm.out")
run timeout 300 "$kvmft" record --as host -q -o "$cap" -- "$tinyvm" --iterations 20 --pause 1000
status_is 0 "the default events"
late=$(vcpu_tid)
is "$(grep -cE '^event .* name=sched_(switch|wakeup) .*filter=.*pid' "$cap/meta")" 2 "... have switches and wake-ups, with a filter"
ok "... and idle CPUs" grep -q '^event .* sys=power name=cpu_idle ' "$cap/meta"
ok "... for the vCPUs' threads" test "$(switches "$1")" -gt 10 -a "$(switches "$2")" -gt 10
ok "... and those that come later" test "$(switches "$late")" -gt 10
for id in "$1" "$2" "$late"; do
	ok "... by the filter: $id" within "$id"
done
ok "... not for others" eval '! within "$stranger"'
run "$kvmft" merge -q "$cap"
is "$(grep ' sched:sched_switch: ' "$out" | grep -cE "prev_pid=($stranger .*next_pid=0|0 .*next_pid=$stranger) ")" 0 \
	"... not even between one of them and nobody"
# Named by hand: of all threads, or with another filter; of some processes.
for events in "-e default -e sched:sched_switch" "-e default,sched:sched_switch" "-e default -e io" "-p $vm"; do
	rm -rf "$cap"
	# shellcheck disable=SC2086 # words
	run timeout 300 "$kvmft" record --as host -q -o "$cap" -d 200ms $events
	is "$(grep '^event .* name=sched_switch ' "$cap/meta" | grep -c filter)" 0 "$events: no filter"
	is "$(grep -c '^ring .* pids=' "$cap/meta")" "$(case $events in -p*) echo 1 ;; *) echo 0 ;; esac)" "... which is noted"
done
rm -rf "$cap"
run timeout 300 "$kvmft" record --as host -q -o "$cap" -d 200ms -e default -e 'sched:sched_switch/prev_pid == 0/'
ok "... or that which was asked for" grep -q '^event .*name=sched_switch .*filter=prev_pid%20%3d%3d%200$' "$cap/meta"
rm -rf "$cap"
run timeout 300 "$kvmft" record --as host -q -o "$cap" -d 200ms -e 'kvm:*'
is "$(grep -c '^event .* sys=\(sched\|power\) ' "$cap/meta")" 0 "... and none without the default events"
kill "$vm" "$stranger"
wait "$vm"
vm=

# ---- the default name ----

mkdir "$tmp/cwd"
in_cwd()
{
	(cd "$tmp/cwd" && exec timeout 300 "$kvmft" record --as host -q "$@" -e 'kvm:*' -- "$tinyvm" --iterations 5)
}
run in_cwd
status_is 0 "without -o"
ok "... is kvmft.data" test -f "$tmp/cwd/kvmft.data/meta"
first=$(cksum <"$tmp/cwd/kvmft.data/meta")
run in_cwd
status_is 0 "... again"
is "$(cksum <"$tmp/cwd/kvmft.data.old/meta")" "$first" "... the old one is kvmft.data.old"
run in_cwd
status_is 0 "... a third time"
rm -rf "$tmp/cwd/kvmft.data"
echo precious >"$tmp/cwd/kvmft.data"
run in_cwd
status_is 1 "... but never over something else"
is "$(cat "$tmp/cwd/kvmft.data")" precious "... which is untouched"

# ---- what the kernel does not have ----

set -- -o "$tmp/none"
# What this kernel has not is what the machine lacks.
refusal=4
refused "unknown event" "kvm:kvm_exti.*kvm_exit" "$@" -e kvm:kvm_exti
refused "unknown system" "nosuchsystem" "$@" -e nosuchsystem:x
refusal=
run "$kvmft" record --as host "$@" -e 'kvm:kvm_exit/no_such_field == 1/'
status_is 1 "filter that the kernel rejects"
err_has 'kvm:kvm_exit: the kernel refuses filter' "... is reported"
err_has 'no_such_field == 1' "... with the kernel's text"
err_has '^ *\^' "... and its caret"
nothing_left "filter that the kernel rejects"
run "$kvmft" record --as host "$@" -e 'kvm:kvm_exit/vcpu_id ==/'
status_is 1 "filter that is cut"
err_has '^ *\^' "... shows the caret"
nothing_left "filter that is cut"
run "$kvmft" record --as host "$@" -e kvm:kvm_exit --clock sundial
is "$([ "$rc" = 1 ] || [ "$rc" = 4 ] && echo yes)" yes "clock that does not exist (exit $rc)"
err_has "sundial.*x86-tsc" "... is reported, with those that work"
nothing_left "clock that does not exist"
refused "ring larger than memory allows" "more than 5 % of the available memory: at most -b [0-9]+K" \
	"$@" -e kvm:kvm_exit -b 100G
err_has 'at most -b [0-9]+K, or --force' "... with what overrides it"
refused "... even with --force" "three quarters of the available memory" \
	"$@" -e kvm:kvm_exit -b 100G --force
"$tinyvm" --ms 20000 --pause 1000 >"$tmp/vm.out" &
vm=$!
wait_for_line "$tmp/vm.out"
refused "VM that does not exist" "nosuchvm.*$vm-" "$@" -e kvm:kvm_exit --vm nosuchvm
kill "$vm"
wait "$vm" 2>/dev/null
vm=
refused "process that does not exist" "no process 2147483646" "$@" -e kvm:kvm_exit -p 2147483646
run "$kvmft" record --as host "$@" -e kvm:kvm_exit -p 0
status_is 2 "process 0"
run "$kvmft" record --as host "$@" -e kvm:kvm_exit -p x
status_is 2 "process x"
ok "no capture was made by any of these" test ! -e "$tmp/none"

# ---- a full disk ----

mkdir "$tmp/small"
if mount -t tmpfs -o size=1M,mode=700 kvmft-test "$tmp/small" 2>/dev/null; then
	mounted=$tmp/small
	cap=$tmp/small/c
	run timeout 300 "$kvmft" record --as host -e 'kvm:*' --min-free 0 -o "$cap" -- "$tinyvm" --ms 20000
	status_is 3 "full disk"
	err_has 'cannot write the data of CPU [0-9]+: No space left on device; what was written before can be read' \
		"... is reported"
	is "$(tail -n 1 "$cap/meta" | cut -d ' ' -f 1,2)" "end reason=error" "... meta is whole"
	nothing_left "full disk"
	run "$kvmft" merge "$cap"
	status_is 3 "... what was written can be read"
	is "$([ "$(wc -l <"$out")" -gt 100 ] && echo yes)" yes "... and has events"
	is "$(($(data_size "$cap") % subbuf))" 0 "... in whole sub-buffers"
	rm -rf "$cap"
	dd if=/dev/zero of="$tmp/small/fill" bs=4k 2>/dev/null
	refused "disk that was full before" "No space left on device" -e kvm:kvm_exit -d 0.1 -o "$cap"
	umount "$tmp/small" && mounted=
else
	skip "full disk" "a tmpfs cannot be mounted here"
fi

# ---- events that leave KVM's out ----

off="of KVM's events only those of clocks are recorded: -e default adds the rest"
for asked in "host -e timer:timer_start" "guest -e timer:timer_start" "host -e timer:timer_start -e kvm:kvm_exit" \
	"host -e timer:timer_start -e default" "host -e timer:timer_start -q"; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" record --as $asked -p $$ -o "$tmp/off" -d 100ms
	is "$(grep -c "^kvmft: $off$" "$err")" "$([ "$asked" != "host -e timer:timer_start" ]; echo $?)" "--as $asked: said if they are"
	rm -rf "$tmp/off"
done

# ---- not root ----

if command -v setpriv >/dev/null; then
	# A place that the other user can reach, with a copy of the program.
	user=$(mktemp -d)
	cp "$kvmft" "$user/kvmft"
	chmod 755 "$user" "$user/kvmft"
	mkdir -m 777 "$user/out"
	run setpriv --reuid 65534 --regid 65534 --clear-groups "$user/kvmft" record -o "$user/out/c" -d 0.1
	status_is 4 "not root"
	err_has 'root|[Pp]ermission' "... is reported"
	err_one_line "not root"
	is "$(find "$user/out" -mindepth 1 | wc -l | tr -d ' ')" 0 "... nothing was made"
	run setpriv --reuid 65534 --regid 65534 --clear-groups "$user/kvmft" reset
	status_is 4 "reset by another than root"
	run setpriv --reuid 65534 --regid 65534 --clear-groups "$user/kvmft" merge "$tmp/a"
	status_is 1 "merge of a capture that is not one's own"
	err_has 'Permission denied' "... is reported"
	rm -rf "$user"
else
	skip "not root" "setpriv is not installed"
fi
is "$(tracefs_state)" "$state_before" "tracefs is as it was before all this"
finish
