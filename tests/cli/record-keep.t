#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# What becomes of captures that were there before: one that replaces them and fails, is killed, or is
# cut short costs none of them; the last one that is whole always stays.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording record-keep
"$tinyvm" --pause 50 --ms 200000 >/dev/null 2>&1 &
vm=$!
dir=$tmp/store
mkdir -m 700 "$dir" "$tmp/cwd"

record()
{
	run timeout 300 "$kvmft" record --as host -q -e kvm:kvm_exit "$@"
}

# A recorder that cannot start: its files may not grow.
failing()
{
	run prlimit --fsize=100 timeout 300 "$kvmft" record --as host -q -e kvm:kvm_exit "$@"
}

# live CAPTURE ARGUMENT...: starts a recorder and waits until it has its name; it is $recorder.
live()
{
	cap=$1
	shift
	inode=$(stat -c %i "$cap" 2>/dev/null)
	"$kvmft" record --as host -q -e 'kvm:*' "$@" 2>"$err" &
	recorder=$!
	n=0
	while [ "$(stat -c %i "$cap" 2>/dev/null)" = "$inode" ] && [ $n -lt 400 ]; do
		sleep 0.02
		n=$((n + 1))
	done
}

killed()
{
	kill -KILL "$recorder"
	wait "$recorder" 2>/dev/null
	recorder=
	n=0
	while [ -n "$(our_instances)" ] && [ $n -lt 200 ]; do
		sleep 0.05
		n=$((n + 1))
	done
}

ids()
{
	(cd "$1" && for d in * .[!.]*; do
		[ ! -d "$d" ] || echo "$d $(stat -c %i "$d")"
	done)
}

is_whole()
{
	tail -n 1 "$1/meta" | grep -q '^end '
}

# ---- --keep ----

record -o "$dir/" -d 20ms
good=$(ids "$dir")
is "$(echo "$good" | wc -l)" 1 "a capture is there"
record -o "$dir/" --keep 1 -d 1ms --min-free 1000000G
status_is 1 "--keep 1, and no room above --min-free"
is "$(ids "$dir")" "$good" "... the old one is there"
if command -v prlimit >/dev/null; then
	failing -o "$dir/" --keep 1 -d 1ms
	is "$([ "$rc" != 0 ] && echo yes)" yes "a recorder that cannot start: exit $rc"
	is "$(ids "$dir")" "$good" "... leaves the old one only"
else
	skip "a recorder that cannot start" "prlimit is not installed"
fi
"$kvmft" record --as host -q -e kvm:kvm_exit -o "$dir/" --keep 1 2>"$err" &
recorder=$!
n=0
while [ "$(find "$dir" -mindepth 1 -maxdepth 1 -name 'kvmft-*' | wc -l)" != 2 ] && [ $n -lt 400 ]; do
	sleep 0.02
	n=$((n + 1))
done
is "$(ids "$dir" | grep -c "^$good\$")" 1 "while the new one is made the old one stays"
killed
is "$(ids "$dir" | grep -c "^$good\$")" 1 "... and when its recorder is killed"
is "$(ids "$dir" | wc -l)" 2 "... beside what there is of the new one"
record -o "$dir/" --keep 1 -d 20ms
status_is 0 "one that is complete"
is "$(ids "$dir" | wc -l)" 1 "... takes the place of all"
ok "... and is whole" is_whole "$dir"/kvmft-*

# Room for the new one, of a small disk, by the old ones that would go anyway, but not by the last whole one.
mkdir "$tmp/small"
if mount -t tmpfs -o size=4M,mode=700 kvmft-test "$tmp/small" 2>/dev/null; then
	mounted=$tmp/small
	record -o "$tmp/small/" -d 20ms
	first=$(ids "$tmp/small")
	head -c 1500000 /dev/zero >"$(echo "$tmp"/small/kvmft-*)/ballast"
	sleep 1
	record -o "$tmp/small/" -d 20ms
	second=$(ids "$tmp/small" | grep -v "^$first\$")
	head -c 1000000 /dev/zero >"$tmp/small/${second% *}/ballast"
	record -o "$tmp/small/" --keep 2 --max-size 2M --min-free 100K -d 20ms
	status_is 0 "a small disk"
	is "$(ids "$tmp/small" | grep -c "^$first\$")" 0 "... the oldest gave its room"
	is "$(ids "$tmp/small" | grep -c "^$second\$")" 1 "... the other one stays"
	third=$(ids "$tmp/small" | grep -v "^$second\$")
	sed -i '$d' "$tmp/small/${third% *}/meta"
	record -o "$tmp/small/" --keep 1 --min-free 3500K -d 20ms
	status_is 1 "room only where the last whole one is"
	is "$(ids "$tmp/small" | grep -c "^$second\$")" 1 "... which stays"
	umount "$tmp/small" && mounted=
else
	skip "a small disk" "a tmpfs cannot be mounted here"
fi

# ---- --force ----

cap=$tmp/cap
record -o "$cap" -d 20ms
good=$(stat -c %i "$cap")
if command -v prlimit >/dev/null; then
	failing --force -o "$cap" -d 1ms
	is "$([ "$rc" != 0 ] && echo yes)" yes "--force, cannot start: exit $rc"
	is "$(stat -c %i "$cap") $(find "$tmp" -maxdepth 1 -name '*cap*' | wc -l)" "$good 1" "... nothing has changed"
fi
live "$cap" --force -o "$cap"
ok "--force: the old one stays until then" test "$(stat -c %i "$cap.replaced")" = "$good"
killed
ok "... and when the recorder is killed" test "$(stat -c %i "$cap.replaced")" = "$good" -a -f "$cap/meta"
partial=$(stat -c %i "$cap")
live "$cap" --force -o "$cap"
ours=$(stat -c %i "$cap")
run timeout 300 "$kvmft" record --as host -q --force -o "$cap" -d 20ms
status_is 1 "--force: a capture that another one still records"
err_has "cap is being recorded by another kvmft: end that first, or choose another name" "... is not replaced"
is "$(stat -c %i "$cap")" "$ours" "... nor moved"
kill -TERM "$recorder"
wait "$recorder"
is "$?" 0 "... another one is complete"
recorder=
is "$(stat -c %i "$cap.replaced") $(find "$tmp" -maxdepth 1 -inum "$partial" | wc -l)" "$good 0" \
	"... and only what it replaced is gone"
rm -rf "$cap" "$cap.replaced"
if mount -t tmpfs -o size=3M,mode=700 kvmft-test "$tmp/small" 2>/dev/null; then
	mounted=$tmp/small
	record -o "$tmp/small/c" -d 20ms
	good=$(stat -c %i "$tmp/small/c")
	run timeout 300 "$kvmft" record --as host -q -e 'kvm:*' --min-free 0 --force -o "$tmp/small/c" -- "$tinyvm" --ms 20000
	status_is 3 "a disk that is full half-way"
	err_has "the old capture is kept as $tmp/small/c.replaced\$" "... is reported"
	is "$(stat -c %i "$tmp/small/c.replaced")" "$good" "... and so it is"
	umount "$tmp/small" && mounted=
fi

# ---- kvmft.data ----

cd "$tmp/cwd" || exit 1
record -d 20ms
good=$(stat -c %i kvmft.data)
if command -v prlimit >/dev/null; then
	failing -d 1ms
	failing -d 1ms
	is "$(ids .)" "kvmft.data $good" "kvmft.data: two that cannot start change nothing"
fi
live kvmft.data
killed
is "$(stat -c %i kvmft.data.old)" "$good" "... one that is killed moved it to kvmft.data.old"
partial=$(stat -c %i kvmft.data)
live kvmft.data
killed
is "$(stat -c %i kvmft.data.old) $(stat -c %i kvmft.data.cut)" "$good $partial" \
	"... a second one does not replace it: the last whole one"
record -d 20ms
status_is 0 "... one that is complete"
is "$(stat -c %i kvmft.data.old)" "$good" "... does not with what was cut short"
whole=$(stat -c %i kvmft.data)
record -d 20ms
is "$(stat -c %i kvmft.data.old)" "$whole" "... the next one does, with a whole one"
mkdir precious
rm -rf kvmft.data.old
mv precious kvmft.data.old
before=$(ids .)
record -d 20ms
status_is 1 "something else is kvmft.data.old"
err_has "kvmft.data.old exists and is not a kvmft capture: it is not touched" "... is reported"
is "$(ids .)" "$before" "... and nothing has changed"
cd / || exit 1

# ---- --keep ----

if command -v strace >/dev/null && strace -f -qq -o /dev/null true 2>/dev/null; then
	cap=$tmp/segments
	ASAN_OPTIONS=detect_leaks=0 run timeout 300 strace -f -qq -o /dev/null -P "$cap" -e trace=mkdirat \
		-e inject=mkdirat:error=ENOSPC:when=1+ \
		"$kvmft" record --as host -q -e 'kvm:*' -b 1M -d 3 --rotate 64K --keep 1 -o "$cap"
	is "$([ "$rc" != 0 ] && echo yes)" yes "a segment that cannot be made: exit $rc"
	# Which one it is depends on when the capture took its name, which is what strace goes by.
	is "$(find "$cap" -mindepth 1 -maxdepth 1 -name 'seg*' | wc -l | tr -d ' ') $([ "$(data_size "$cap")" -gt 0 ] && echo full)" \
		"1 full" "... does not cost the one before"
else
	skip "a segment that cannot be made" "strace is not installed, or may not trace"
fi
# The first write into the second segment of a flight recorder fails.
if command -v strace >/dev/null && strace -f -qq -o /dev/null true 2>/dev/null; then
	cap=$tmp/flight
	ASAN_OPTIONS=detect_leaks=0 timeout 300 strace -f -qq -o /dev/null -P "$cap/seg000002/cpu0" -P "$cap/seg000002/cpu1" \
		-e trace=splice,write -e inject=splice,write:error=EIO:when=1+ \
		"$kvmft" record --as host -q -e 'kvm:*' -b 256K --flight-recorder --keep 1 -d 4 -o "$cap" 2>"$err" &
	strace=$!
	for i in 1 2; do
		n=0
		while ! grep -q "^begin" "$cap/meta" 2>/dev/null && [ $n -lt 400 ]; do
			sleep 0.05
			n=$((n + 1))
		done
		sleep 0.3
		for p in $(cat "/proc/$strace/task/$strace/children" 2>/dev/null); do
			for q in "$p" $(cat "/proc/$p/task/$p/children" 2>/dev/null); do
				[ "$(cat "/proc/$q/comm" 2>/dev/null)" != kvmft ] || kill -USR1 "$q" 2>/dev/null
			done
		done
	done
	wait $strace
	is "$([ $? != 0 ] && echo yes)" yes "a flight recorder that cannot write a second time"
	ok "... keeps what it wrote the first time" test "$(find "$cap/seg000001" -name 'cpu*' -size +0 | wc -l)" -gt 0
else
	skip "a flight recorder that cannot write" "strace is not installed, or may not trace"
fi
nothing_left "after all this"
finish
