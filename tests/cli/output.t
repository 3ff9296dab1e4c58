#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# -o of the commands that read captures: what was read is never written over, what had the name stays
# until the new file is finished, and nothing else is left when a command fails or is killed.

. "$(dirname "$0")/lib.sh"

plain=${KVMFT_PLAIN:-$kvmft}
umask 022
pair()
{
	"$KVMFT_TOOLS/genpair" --host "$1/host" --guest "$1/guest" --ms "$2" --vcpus 2 >"$tmp/gen.log" 2>&1 &&
		"$KVMFT_TOOLS/gen" --trace-dat "$1/host.in" --events 5000 >"$tmp/gen.log" 2>&1
}
mkdir "$tmp/in" "$tmp/out"
if ! pair "$tmp/in" 20; then
	ok "captures can be made" false
	sed 's/^/# /' "$tmp/gen.log"
	finish
fi
host=$tmp/in/host
guest=$tmp/in/guest
# A log of QEMU, and its declarations.
echo 'virtio_notify(void *vdev, void *vq) "vdev %p vq %p"' >"$tmp/in/events"
echo '100@1.000000:virtio_notify vdev 0x1 vq 0x2' >"$tmp/in/qemu.log"
ln -s host.in "$tmp/in/link.in"
ln "$tmp/in/host.in" "$tmp/in/hard.in"
ln -s "$host" "$tmp/in/hostlink"
sum()
{
	(cd "$1" && find . -type f -exec cksum {} + | sort -k3 && find . | sort)
}
before=$(sum "$tmp/in")

# ---- its own input ----

# kept NAME ARGUMENT...: refused, and the input is as it was.
kept()
{
	name=$1
	shift
	run "$kvmft" "$@"
	status_is 1 "$name: refused"
	err_has "which is being read: choose another name|is not a plain file" "... with its message"
	err_one_line "$name"
	is "$(sum "$tmp/in")" "$before" "... and the input is as it was"
}

file=$(cd "$host" && find . -name 'cpu[0-9]*' -type f | sort | head -n 1)
for out_name in host.in hard.in link.in ../in/host.in; do
	kept "merge --force, OUT is $out_name" merge --tsc-khz 2000000 --force -o "$tmp/in/$out_name" "$tmp/in/host.in"
	kept "export --force, OUT is $out_name" export --force -i "$tmp/in/host.in" -o "$tmp/in/$out_name"
done
kept "export --to json, OUT is the input" export \
	--tsc-khz 2000000 --force --to json -i "$tmp/in/host.in" -o "$tmp/in/host.in"
kept "OUT is the input through a link" merge --tsc-khz 2000000 --force -o "$tmp/in/host.in" "$tmp/in/link.in"
for part in meta formats "$file" new seg000000/new; do
	kept "OUT is $part of the host" merge --force -o "$host/$part" "$host" "$guest"
	kept "OUT is $part of the guest" merge --force -o "$guest/$part" "$host" "$guest"
	kept "export: OUT is $part of the host" export --force -i "$host" -o "$host/$part"
done
kept "OUT is in the host through a link" merge --force -o "$host/meta" "$tmp/in/hostlink"
kept "export of a guest" export --force -i "$host" -o "$guest/x.dat" "$guest"
kept "latency" latency --force -o "$host/meta" all "$host" "$guest"
kept "latency, html" latency --force --format html -o "$guest/meta" all "$host" "$guest"
kept "a trace of QEMU" merge --force --qemu "$tmp/in/qemu.log" -o "$tmp/in/qemu.log" "$host"
kept "its declarations" merge --force --qemu "$tmp/in/qemu.log" --qemu "$tmp/in/events:events" \
	-o "$tmp/in/events" "$host"
# The file of a guest has the name of the guest's capture.
vm=$("$kvmft" merge -q "$host" "$guest" | awk '$1 != "host" { print $1; exit }')
"$kvmft" export -q -i "$guest" -o "$tmp/in/p-$vm.dat" 2>"$err"
before=$(sum "$tmp/in")
kept "a guest's file is its input" export --force -q --tsc-offset 0 -i "$host" -o "$tmp/in/p.dat" "$tmp/in/p-$vm.dat=$vm"
run "$kvmft" merge --force -q -o "$tmp/out/meta" "$host"
status_is 0 "a file of the same name elsewhere is fine"

# ---- a command that fails leaves the old file, and nothing else ----

# What a killed one leaves, its watcher removes a moment later.
left()
{
	n=0
	while [ "$(ls -A "$tmp/out" | wc -l)" != 1 ] && [ $n -lt 500 ]; do
		sleep 0.01
		n=$((n + 1))
	done
	is "$(cat "$tmp/out/old")" "precious" "$1: the old file is there"
	is "$(ls -A "$tmp/out")" "old" "... and no other"
}

rm -f "$tmp/out"/*
echo precious >"$tmp/out/old"
run "$kvmft" merge --force -o "$tmp/out/old" "$tmp/none"
status_is 1 "input missing"
left "input missing"
run "$kvmft" merge --force --from 1h -o "$tmp/out/old" "$host"
status_is 1 "no events in that time"
left "no events in that time"
run "$kvmft" export --force --until 0 -i "$host" -o "$tmp/out/old"
status_is 1 "export: no events in that time"
left "export: no events in that time"
run "$kvmft" export --force --clock ns -i "$host" -o "$tmp/out/old"
status_is 2 "wrong usage"
left "wrong usage"
run sh -c "ulimit -f 8; exec \"\$@\"" sh "$kvmft" merge --force -o "$tmp/out/old" "$host"
is "$([ "$rc" != 0 ] && echo yes)" yes "a file that may not grow: exit $rc"
left "a file that may not grow"
# Killed while it writes: a FIFO as --qemu would be refused, so a capture that takes a while, and a
# priority that leaves the CPU to those who kill.
"$makers/gen" --capture "$tmp/long" --events 3000000 --cpus 2 >"$tmp/gen.log" 2>&1
# killed_merge SIGNAL: the status of a merge that was killed while it wrote.
killed_merge()
{
	echo precious >"$tmp/out/old"
	# A shell starts it with SIGINT ignored.
	nice -n 15 env --default-signal=INT "$kvmft" merge --force -o "$tmp/out/old" "$tmp/long" 2>"$err" &
	merge=$!
	n=0
	# It has no name until it is complete, where the file system has such files.
	until find "/proc/$merge/fd" -lname "$tmp/out/*" 2>/dev/null | grep -q . || [ $n -ge 500 ]; do
		sleep 0.01
		n=$((n + 1))
	done
	kill -"$1" $merge
	wait $merge 2>/dev/null
}

for sig in INT TERM KILL; do
	# On a machine with much else to do it may be complete before it is seen to write: once more.
	tries=0
	while killed_merge $sig && [ $tries -lt 20 ]; do
		tries=$((tries + 1))
	done
	ok "merge is killed while it writes" test $tries -lt 20
	left "killed (SIG$sig)"
done
rm -rf "$tmp/long"

# ---- and one that succeeds replaces it ----

run "$kvmft" merge --force -q -o "$tmp/out/old" "$host"
status_is 0 "--force"
is "$(ls -A "$tmp/out")" "old" "... one file"
"$kvmft" merge -q "$host" >"$tmp/want"
ok "... with the time line" cmp "$tmp/out/old" "$tmp/want"
is "$(stat -c %a "$tmp/out/old")" 600 "... for its owner"
ln -s "$tmp/victim" "$tmp/out/link"
run "$kvmft" merge --force -q -o "$tmp/out/link" "$host"
status_is 1 "a link is not replaced"
err_has "is not a plain file" "... which is reported"
ok "... nor is what it leads to" test ! -e "$tmp/victim" -a -L "$tmp/out/link"
mkfifo "$tmp/out/fifo"
for thing in fifo . ..; do
	run "$kvmft" merge --force -q -o "$tmp/out/$thing" "$host"
	status_is 1 "OUT is $thing"
	err_one_line "OUT is $thing"
done
run "$kvmft" merge --force -q -o /dev/null "$host"
status_is 1 "OUT is a device"
err_has "is not a plain file \(-o - is standard output" "... is reported, with the remedy"
ok "... which is there" test -c /dev/null
rm -f "$tmp/out"/*
run "$kvmft" export -i "$host" -o "$tmp/out/pair.dat" "$guest"
status_is 0 "export with a guest"
is "$(ls -A "$tmp/out" | tr '\n' ' ')" "pair-$vm.dat pair.dat " "... makes two files"
err_has "^kvmft: $vm: $tmp/out/pair-$vm.dat\$" "... and reports the second"
rm "$tmp/out/pair.dat"
run "$kvmft" export -i "$host" -o "$tmp/out/pair.dat" "$guest"
status_is 1 "the guest's exists"
err_has "pair-$vm.dat: File exists .use --force" "... is reported"
ok "... and the host's is not made" test ! -e "$tmp/out/pair.dat"
mkdir "$tmp/out/new-$vm.dat"
run "$kvmft" export --force -i "$host" -o "$tmp/out/new.dat" "$guest"
status_is 1 "the guest's is a directory"
err_has "cannot replace $tmp/out/new-$vm.dat: it is not a plain file" "... is reported"
rmdir "$tmp/out/new-$vm.dat"
run "$kvmft" export --force -q -i "$host" -o "$tmp/out/pair.dat" "$guest"
status_is 0 "... --force"

# With closed descriptors, no message is written into the file that would have their number.
"$kvmft" merge -q -o "$tmp/whole" "$host" "$guest"
for closed in '>&-' '2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
	rm -f "$tmp/out"/*
	sh -c "'$kvmft' merge -o '$tmp/out/new' '$host' '$guest' $closed" >"$out" 2>"$err"
	is "$?" 0 "merge -o $closed"
	ok "... the file is as ever" cmp "$tmp/out/new" "$tmp/whole"
done

# "-" is no file.
rm -f "$tmp/out"/*
run sh -c "cd '$tmp/out' && exec '$kvmft' merge -o - '$host' '$guest'"
status_is 0 "merge -o -"
ok "... writes to standard output" cmp "$out" "$tmp/whole"
run sh -c "cd '$tmp/out' && exec '$kvmft' export -q -i '$host' --to json -o -"
ok "... export, too" grep -q '^{"kind":"timeline"' "$out"
run sh -c "cd '$tmp/out' && exec '$kvmft' export -q -i '$host' --to sqlite -o -"
status_is 2 "export --to sqlite -o -"
err_has "^kvmft export: --to sqlite needs a file: -o OUT$" "... is told so"
is "$(ls -A "$tmp/out")" "" "... and there is no file \"-\""

# Where files may not grow, that is an error with a message, as on a full disk.
rm -f "$tmp/out"/*
run sh -c "ulimit -f 8; exec '$plain' merge -o '$tmp/out/new' '$host' '$guest'"
status_is 1 "a limit of the size of files"
err_has "cannot write $tmp/out/new: File too large" "... is reported"
is "$(ls -A "$tmp/out")" "" "... and nothing is left"

# The process that would name the file is killed: that is no reader who has seen enough.
"$makers/gen" --capture "$tmp/long" --events 500000 --cpus 2 >"$tmp/gen.log" 2>&1
# It is looked for while merge, which takes a tenth of a second, stands still.
namer_killed()
{
	rm -f "$tmp/out"/*
	"$kvmft" merge -q -o "$tmp/out/new" "$tmp/long" 2>"$err" &
	merger=$!
	n=0
	until kill -STOP $merger && pgrep -P $merger kvmft-output >"$tmp/namer"; do
		kill -CONT $merger
		n=$((n + 1))
		[ ! -e "$tmp/out/new" ] && [ $n -lt 1000 ] || break
	done
	[ ! -s "$tmp/namer" ] || {
		readlink "/proc/$(cat "$tmp/namer")/fd/"[0-9]* | sed "s,$tmp/,,; s/:.*//; s,/[#.].*,/FILE," | sort | uniq -c | tr -s ' \n' ' ' >"$tmp/holds"
		kill -KILL "$(cat "$tmp/namer")"
	}
	kill -CONT $merger
	wait $merger
	rc=$?
	[ ! -e "$tmp/out/new" ]
}
tries=0
until namer_killed || [ $tries -eq 20 ]; do
	tries=$((tries + 1))
done
is "$rc" 1 "kvmft-output is killed: exit 1"
err_has "^kvmft merge: cannot create $tmp/out/new: kvmft-output, which names it, was killed$" "... is reported"
is "$(ls -A "$tmp/out")" "" "... and nothing is left"
if [ "$(id -u)" = 0 ]; then
	is "$(cat "$tmp/holds")" " 3 /dev/null 1 out 1 out/FILE 2 pipe " "... it had nothing open but two pipes, the folder and the file"
else
	skip "what it had open" "needs root"
fi
finish
