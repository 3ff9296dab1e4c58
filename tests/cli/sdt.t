#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# Markers of programs, live: `record --sdt` with a program of our own (tests/cli/sdtprog.c), and
# `record -e marker` with what it writes to trace_marker.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

prog=$tmp/sdtprog

need_uprobes()
{
	trap vmlib_cleanup EXIT
	trap 'exit 1' INT TERM
	why=
	[ -d "$tracefs/instances" ] || tracefs=/sys/kernel/debug/tracing
	if [ "$(id -u)" != 0 ]; then
		why="needs root"
	elif [ ! -d "$tracefs/instances" ]; then
		why="tracefs is not mounted"
	elif [ ! -f "$tracefs/uprobe_events" ]; then
		why="this kernel has no uprobe events"
	elif ! grep -q x86-tsc "$tracefs/trace_clock"; then
		why="no x86-tsc trace clock"
	elif ! echo '#include <sys/sdt.h>' | "${CC:-cc}" -E -x c - >/dev/null 2>&1; then
		why="no sys/sdt.h (package systemtap-sdt-dev)"
	elif ! "${CC:-cc}" -O2 -o "$prog" "$top/tests/cli/sdtprog.c" 2>"$tmp/cc.log"; then
		ok "the program can be built" false
		sed 's/^/# /' "$tmp/cc.log"
		finish
	fi
	if [ -n "$why" ]; then
		skip "sdt" "$why"
		finish
	fi
}

# Probes of kvmft processes that this shell started, or that nobody has any more.
our_probes()
{
	sed -n 's/^p[^:]*:\(kvmft_\([0-9]*\)_[^ ]*\).*/\2 \1/p' "$tracefs/uprobe_events" | while read -r pid name; do
		if [ ! -d "/proc/$pid" ] || [ "$(awk '{ print $4 }' "/proc/$pid/stat" 2>/dev/null)" = $$ ]; then
			echo "$name"
		fi
	done
}

all_gone()
{
	is "$(our_probes)" "" "$1: no probe left"
	nothing_left "$1"
}

# lines PATTERN FILE: how many
lines()
{
	grep -cE -- "$1" "$2"
}

# between FILE WORD: the stamps of time line $out, in TSC, lie between the TSCs that FILE tells with WORD.
# shellcheck disable=SC2317 # called by ok
between()
{
	awk -v word="$2" 'NR == FNR { if ($1 == word) { lo[++n] = $2; hi[n] = $3 }; next }
		{ match($0, /\] +[0-9]+ /); t = substr($0, RSTART + 1, RLENGTH - 1) + 0; i++
		  if (t < lo[i] + 0 || t > hi[i] + 0) { print "# " t " is not in " lo[i] " to " hi[i]; bad = 1 } }
		END { exit bad || i != n || !n }' "$1" "$tmp/stamps"
}

need_uprobes

# ---- all markers of a command ----

run timeout 300 "$kvmft" record --as host -e none --sdt "$prog:demo:*" --sdt "$prog:demo:name,arg1:string" \
	-o "$tmp/all" -- "$prog" 4
status_is 0 "markers of a command"
cp "$out" "$tmp/said"
out_has '^guard 1$' "... its guard is counted up"
all_gone "success"
run "$kvmft" merge --clock host-tsc "$tmp/all"
status_is 0 "the capture can be read"
values='arg1=-3 arg2=200 arg3=-300 arg4=60000 arg5=-70000 arg6=4000000000 arg7=-5000000000 arg8=1234605616436508552'
is "$(lines " sdt_demo:numbers: \\([0-9a-f]+\\) $values\$" "$out")" 4 "integers of all sizes and signs"
is "$(sed -n 's/.* sdt_demo:name: ([0-9a-f]*) //p' "$out" | tr '\n' ';')" \
	'arg1="even" arg2=0 arg3=42;arg1="odd one" arg2=1 arg3=42;arg1="even" arg2=2 arg3=42;arg1="odd one" arg2=3 arg3=42;' \
	"strings, numbers, constants"
is "$(sed -n 's/.* sdt_demo:guarded: ([0-9a-f]*) //p' "$out" | tr '\n' ' ')" "arg1=0 arg1=1 arg1=2 arg1=3 " \
	"a marker with a guard"
is "$(sed -n 's/.* sdt_demo:twice: ([0-9a-f]*) //p' "$out" | tr '\n' ' ')" \
	"arg1=0 arg1=1000 arg1=1 arg1=1001 arg1=2 arg1=1002 arg1=3 arg1=1003 " "a marker in two places is one event"
grep ' sdt_demo:numbers: ' "$out" >"$tmp/stamps"
ok "each between the TSCs that the program read" between "$tmp/said" numbers
run "$kvmft" merge --format json "$tmp/all"
out_has '"event":"sdt_demo:name","fields":\{"__probe_ip":"0x[0-9a-f]+","arg1":"odd one","arg2":1,"arg3":42\}' "JSON"
run "$kvmft" merge --event 'sdt_demo:gu*/arg1 > 1/' "$tmp/all"
is "$(lines ' sdt_demo:guarded: ' "$out") $(lines . "$out")" "2 2" "picked by name and value"
is "$(sed -n 's/^sdt sys=sdt_demo name=twice \(.*\) binary=[^ ]* \(.*\)/\1 \2/p' "$tmp/all/meta")" \
	"provider=demo marker=twice places=2" "the capture knows the marker"
run "$kvmft" export -i "$tmp/all" --to trace.dat -o "$tmp/all.dat"
status_is 0 "export to trace.dat"
run "$kvmft" merge "$tmp/all.dat"
is "$(lines ' sdt_demo:name: \([0-9a-f]+\) arg1="odd one" arg2=' "$out")" 2 "... keeps names and values"

# ---- a marker of QEMU, whose declaration lies beside the program ----

echo 'visit_file(void *v, const char *path, int n) "v %p path %s n %d"' >"$tmp/trace-events-all"
run timeout 300 "$kvmft" record --as host -q -e none --sdt "$prog:qemu" -o "$tmp/qemu" -- "$prog" 2
status_is 0 "markers of a program that says it is QEMU"
run "$kvmft" merge "$tmp/qemu"
is "$(sed -n 's/.* sdt_qemu:visit_file: ([0-9a-f]*) arg1=0x[0-9a-f]* //p' "$out" | tr '\n' ';')" \
	'arg2="even" arg3=-2;arg2="odd one" arg3=-1;' "... have texts where the declaration has"
run "$kvmft" qemu sdt "$prog:qemu:visit*,arg2:hex"
out_has 'qemu:visit_file +1  yes +arg1:x64 arg2:x64 arg3:s32$' "... unless something else is asked for"
rm "$tmp/trace-events-all"

# ---- filters, paths with blanks and colons ----

cp "$prog" "$tmp/my prog:v1"
run timeout 300 "$kvmft" record --as host -q -e none --sdt "$tmp/my prog:v1:demo:t*,arg1:hex/arg1 >= 1001/" \
	-o "$tmp/filter" -- "$tmp/my prog:v1" 3
status_is 0 "a path with a blank and a colon, a type and a filter"
run "$kvmft" merge "$tmp/filter"
is "$(sed -n 's/.* sdt_demo:twice: ([0-9a-f]*) //p' "$out" | tr '\n' ' ')" "arg1=0x3e9 arg1=0x3ea " "... obeyed"
all_gone "filter"

# ---- a program that runs; its guard goes up and down ----

start_program()
{
	"$prog" --wait >"$tmp/wait" 2>&1 &
	vm=$!
	n=0
	while ! grep -q '^guard' "$tmp/wait" && [ $n -lt 200 ]; do
		sleep 0.05
		n=$((n + 1))
	done
}

# start_recorder CAPTURE [OPTION...]: returns when the program has seen its guard.
start_recorder()
{
	"$kvmft" record --as host -q -e none --sdt "$prog:demo:waiting" -o "$@" 2>"$tmp/recorder.err" &
	recorder=$!
	wait_for_guard 1
}

# The last that the program said is this.
wait_for_guard()
{
	n=0
	while [ "$(tail -n 1 "$tmp/wait")" != "guard $1" ] && [ $n -lt 200 ]; do
		sleep 0.05
		n=$((n + 1))
	done
	is "$(tail -n 1 "$tmp/wait")" "guard $1" "${2:-the guard is $1}"
}

start_program
wait_for_guard 0 "a program that is not recorded"
start_recorder "$tmp/term" -p "$vm"
sleep 0.2
kill -TERM "$recorder"
wait "$recorder"
is "$?" 0 "SIGTERM ends it"
recorder=
wait_for_guard 0 "... and the guard is 0 again"
all_gone "SIGTERM"
run "$kvmft" merge "$tmp/term"
out_has "^host sdtprog-$vm .* sdt_demo:waiting: \\([0-9a-f]+\\) arg1=[0-9]+\$" "... what it did is in the capture"

start_recorder "$tmp/kill"
kill -KILL "$recorder"
wait "$recorder" 2>/dev/null
recorder=
wait_for_guard 0 "killed: its watcher cleans up"
n=0
while [ -n "$(our_probes)$(our_instances)" ] && [ $n -lt 100 ]; do
	sleep 0.1
	n=$((n + 1))
done
all_gone "watcher"

start_recorder "$tmp/kill2"
# Asleep, neither of the two can clean up after the other.
watcher=$(grep -lsx 'kvmft-watch' /proc/[0-9]*/comm | cut -d / -f 3 | while read -r p; do
	[ "$(awk '{ print $4 }' "/proc/$p/stat" 2>/dev/null)" = "$recorder" ] && echo "$p"
done)
ok "the watcher is found" [ -n "$watcher" ]
kill -STOP "$recorder"
kill -KILL "$watcher"
kill -KILL "$recorder"
wait "$recorder" 2>/dev/null
ok "both killed: probes are left" [ -n "$(our_probes)" ]
run "$kvmft" reset --dry-run
out_has "^probe kvmft_${recorder}_[0-9]*/waiting_0\$" "reset --dry-run shows them"
run "$kvmft" reset
ok "reset removes them" [ -z "$(our_probes)" ]
recorder=
wait_for_guard 0 "... and the guard is 0 again"
all_gone "reset"
kill "$vm"
wait "$vm" 2>/dev/null
vm=

# ---- what is refused ----

refused()
{
	name=$1
	want=$2
	pattern=$3
	shift 3
	run "$kvmft" record --as host -e none -o "$tmp/refused" "$@"
	status_is "$want" "$name"
	err_has "$pattern" "... is reported"
	err_one_line "$name"
	ok "... and nothing made" [ ! -e "$tmp/refused" ]
	all_gone "$name"
}

refused "no such marker" 1 'no marker demo:x\*; there are demo:' --sdt "$prog:demo:x*"
refused "no markers" 1 'no SDT markers in it' --sdt "$(command -v sleep)"
refused "a second one that is wrong" 1 'absent: cannot open' --sdt "$prog" --sdt "$tmp/absent"

run "$kvmft" record --as host -e none -o "$tmp/refused" --sdt "$prog:demo:name/nonsense == 1/"
status_is 1 "a filter that the kernel refuses"
err_has ":name_0: the kernel refuses filter .nonsense" "... is reported"
all_gone "a filter that the kernel refuses"

# ---- trace_marker, private ----

# Lines are looked at as they were written: a QEMU's declarations would make events of them.
echo 'none_of_them(void) ""' >"$tmp/none-of-them"
on_before=$(cat "$tracefs/tracing_on")
for fs in /sys/kernel/tracing /sys/kernel/debug/tracing; do
	[ -f "$fs/trace_marker" ] || continue
	name=$(echo "$fs" | tr / _)
	run timeout 300 "$kvmft" record --as host -q -e marker -o "$tmp/m$name" -- \
		env TRACEFS="$fs" "$prog" --marker 5
	status_is 0 "$fs: a command's markers"
	cp "$out" "$tmp/said"
	pid=$(sed -n 's/^pid //p' "$tmp/said")
	run "$kvmft" merge --qemu "$tmp/none-of-them:events" --clock host-tsc "$tmp/m$name"
	status_is 0 "... can be read"
	grep ' ftrace:print: ' "$out" >"$tmp/stamps"
	is "$(sed 's/.*ftrace:print: //' "$tmp/stamps" | tr '\n' ';')" \
		"$(for i in 0 1 2 3 4; do printf 'virtio_notify vdev 0x%x vq %d;' "$pid" "$i"; done)" "... are all there"
	ok "... each between the TSCs that the program read" between "$tmp/said" marker
	is "$(lines "^host sdtprog-$pid " "$tmp/stamps")" 5 "... of the right thread"
	is "$(grep -c "$(printf 'vdev 0x%x ' "$pid")" "$tracefs/trace")" 0 "... nothing went to the main trace"
	nothing_left "$fs"
done
is "$(cat "$tracefs/tracing_on")" "$on_before" "the main trace's switch stays as it was"
# A root that is no mount point, as of a chroot: / cannot be made private there.
mkdir "$tmp/root"
# shellcheck disable=SC2016 # the inner shell's
run timeout 60 unshare -m sh -c '
	for d in /bin /lib /lib64 /usr /proc /dev /sys "$1" "${2%/*}" /run; do
		[ ! -d "$d" ] || { mkdir -p "$1/root$d" && mount --rbind "$d" "$1/root$d"; } || exit 99
	done
	root=$1 kvmft=$2
	shift 2
	exec chroot "$root/root" "$kvmft" "$@"' sh "$tmp" "$(realpath "$kvmft")" record --as host -q -e marker \
	-o "$tmp/mroot" -- env TRACEFS="$tracefs" "$prog" --marker 5
status_is 0 "a command's markers, where the root is no mount point"
run "$kvmft" merge --qemu "$tmp/none-of-them:events" "$tmp/mroot"
is "$(lines ' ftrace:print: virtio_notify vdev 0x[0-9a-f]+ vq [0-4]$' "$out")" 5 "... are all there"
ln -s "$prog" "$tmp/qemu-system-test"
run timeout 300 "$kvmft" record --as host -q -e none -o "$tmp/mq" -- env TRACEFS="$tracefs" "$prog" --marker 0
is "$(lines '^marker ' "$tmp/mq/meta")" 0 "other commands keep their trace_marker"
run timeout 300 "$kvmft" record --as host -q -e none -o "$tmp/mqemu" -- "$tmp/qemu-system-test" --marker 2
status_is 0 "a QEMU has one of its own without asking"
run "$kvmft" merge --qemu "$tmp/none-of-them:events" "$tmp/mqemu"
is "$(lines ' ftrace:print: virtio_notify vdev 0x[0-9a-f]+ vq [01]$' "$out")" 2 "... whose lines are there"
run timeout 300 "$kvmft" record --as host -q -e none -o "$tmp/mwrapped" -- env A=b "$tmp/qemu-system-test" --marker 1
run "$kvmft" merge --qemu "$tmp/none-of-them:events" "$tmp/mwrapped"
is "$(lines ' ftrace:print: virtio_notify vdev 0x[0-9a-f]+ vq 0$' "$out")" 1 "... also when another program starts it"
# A child that lives on writes after the end: refused, and the capture's numbers agree.
run timeout 300 "$kvmft" record --as host -e marker -d 500ms -o "$tmp/mlong" -- "$prog" --marker 100000
status_is 0 "a command that writes until the end"
told=$(told_events)
run "$kvmft" merge --qemu "$tmp/none-of-them:events" "$tmp/mlong"
status_is 0 "... can be read"
# Events of other VMs, which date a change of a guest's clock, are recorded too.
is "$(lines . "$out")" "$told" "... has as many as reported"
ok "... most of them markers" [ "$(lines ' ftrace:print: ' "$out")" -gt $((told / 2)) ]
run "$kvmft" record --as host --flight-recorder --trigger sched:sched_switch -e marker -o "$tmp/refused"
status_is 2 "-e marker with --trigger"

# ---- trace_marker, everybody's ----

if [ -f "$tracefs/options/copy_trace_marker" ]; then
	TRACEFS=$tracefs "$prog" --marker 40 50 >"$tmp/said" &
	vm=$!
	run timeout 300 "$kvmft" record --as host -q -e marker -d 1 -o "$tmp/copy"
	status_is 0 "markers of a program that runs"
	wait "$vm"
	pid=$vm
	vm=
	run "$kvmft" merge --qemu "$tmp/none-of-them:events" --clock host-tsc "$tmp/copy"
	status_is 0 "... can be read"
	# Others may write to the main trace as well.
	grep "ftrace:print: virtio_notify vdev $(printf '0x%x' "$pid") " "$out" >"$tmp/stamps"
	ok "... some of them are there" [ -s "$tmp/stamps" ]
	first=$(sed -n '1s/.* vq //p' "$tmp/stamps")
	found=$(wc -l <"$tmp/stamps")
	grep "^marker" "$tmp/said" | sed -n "$((first + 1)),$((first + found))p" >"$tmp/said.part"
	ok "... each between the TSCs that the program read" between "$tmp/said.part" marker
	is "$(lines '^refused' "$tmp/said")" "$([ "$on_before" = 1 ] && echo 0 || echo 40)" \
		"... and the program could write all the time"
	nothing_left "copies"
else
	run "$kvmft" record --as host -e marker -d 1 -o "$tmp/refused"
	status_is 4 "a kernel without copy_trace_marker is reported"
	err_has 'kvmft record -e default -e marker -- COMMAND' "... with what to do"
fi

finish
