#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# Unattended recordings: names, lock, retention, silence, duration, and the examples of
# contrib/cron and contrib/systemd.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording cron
dir=$tmp/store
mkdir -m 700 "$dir"

# As cron does: no terminal, no input, little environment.
cron()
{
	run env -i PATH=/usr/bin:/bin timeout 300 "$kvmft" record --as host -e kvm:kvm_exit -o "$dir/" "$@"
}

stored()
{
	find "$dir" -mindepth 1 -maxdepth 1 -name 'kvmft-*' | sed 's,.*/,,' | LC_ALL=C sort
}

# ---- names ----

cron -d 20ms
status_is 0 "a recording"
is "$(cat "$out" "$err")" "" "... prints nothing"
name=$(stored)
is "$(echo "$name" | sed 's/[0-9]/9/g')" "kvmft-99999999T999999Z" "... and is named by its time"
then=$(date -u -d "$(echo "$name" | sed -E 's/kvmft-(....)(..)(..)T(..)(..)(..)Z/\1-\2-\3 \4:\5:\6/')" +%s)
is "$([ $(($(date +%s) - then)) -le 10 ] && echo yes)" yes "... which is now, in UTC"
is "$(tail -n 1 "$dir/$name/meta" | cut -d ' ' -f 1,2)" "end reason=duration" "... and complete"
run env TZ=Pacific/Kiritimati "$kvmft" record --as host -q -e kvm:kvm_exit -o "$dir//" -d 20ms
status_is 0 "in another time zone"
is "$(stored | wc -l | tr -d ' ')" 2 "... there are two"
newest=$(stored | tail -n 1)
is "$(echo "$newest" | cut -c 1-14)" "$(date -u +kvmft-%Y%m%d)" "... in UTC too"

# The clock was set back meanwhile: a capture is not older than those that existed before it.
for year in 2197 2198; do cp -r "$dir/$newest" "$dir/kvmft-${year}0101T000000Z"; done
cron -d 20ms --keep 2
status_is 0 "the clock was set back"
is "$(stored | grep -c kvmft-21) $(stored | wc -l | tr -d " ")" "0 2" "... what is named after the future is removed first"

# ---- overlap ----

"$kvmft" record --as host -q -e kvm:kvm_exit -o "$dir/" -d 20s 2>"$tmp/first.err" &
recorder=$!
n=0
while [ "$(stored | wc -l)" -lt 3 ] && [ $n -lt 200 ]; do
	sleep 0.05
	n=$((n + 1))
done
cron -d 20ms
status_is 1 "while another one records: exit 1"
err_has "another kvmft still records into $dir: nothing was recorded" "... is reported"
err_one_line "overlap"
is "$(stored | wc -l | tr -d ' ')" 3 "... and nothing was made"
kill -KILL "$recorder"
wait "$recorder" 2>/dev/null
recorder=
cron -d 20ms
status_is 0 "the lock of a killed one is gone"
is "$(cat "$out" "$err")" "" "... and nothing is printed"
"$kvmft" reset >/dev/null

# The command does not inherit the lock.
cron -q -- sh -c 'sleep 30 >/dev/null 2>&1 & echo $! >'"$tmp/sleeper"
cron -d 20ms
status_is 0 "what the command leaves running does not hold the lock"
kill "$(cat "$tmp/sleeper")" 2>/dev/null

# ---- retention ----

mkdir "$dir/kvmft-20200101T000000Z" "$dir/kvmft-other"
echo precious >"$dir/kvmft-20200101T000000Z/file"
kept=$(stored | grep -v '2020\|other' | tail -n 1)
mv "$dir/$(stored | grep 'Z' | sed -n 2p)" "$dir/keep-me"
cron --keep 2 -d 20ms
status_is 0 "--keep 2"
is "$(stored | grep -cv '2020\|other')" 2 "... leaves two with the new one"
ok "... one of them the newest before" test -d "$dir/$kept"
ok "... only captures are removed" test -f "$dir/kvmft-20200101T000000Z/file" -a -d "$dir/kvmft-other"
ok "... nor one of another name" test -f "$dir/keep-me/meta"
rm -rf "$dir/kvmft-20200101T000000Z" "$dir/kvmft-other"
for i in 1 2 3; do
	cron --keep 2 -d 1ms
done
is "$(stored | wc -l | tr -d ' ')" 2 "... each time"
cron --keep 1 -d 1ms
is "$(stored | wc -l | tr -d ' ')" 1 "--keep 1: only the new one"

# ---- wrong use ----

# wrong NAME PATTERN ARGUMENT...
wrong()
{
	name=$1
	pattern=$2
	shift 2
	run "$kvmft" record --as host "$@"
	status_is 2 "$name"
	err_has "$pattern" "... is reported"
}
mkdir "$tmp/capture" && : >"$tmp/capture/meta"
wrong "-o DIR/ of a capture" "capture is a capture; -o .*/capture --force replaces it" -o "$tmp/capture/"
wrong "--keep alone" "needs -o DIR/" --keep 2
wrong "--keep 0" "must be at least 1" -o "$dir/" --keep 0
before=$(ls "$dir")
run "$kvmft" record --as host -o "$dir/" -e kvm:kvm_exit -d 1ms --min-free 1000000G
status_is 1 "a disk with less room than --min-free"
err_has 'nothing was recorded: .* are free where .* is, which leaves no room above --min-free' "... is reported"
is "$(ls "$dir")" "$before" "... and no capture is made"
run "$kvmft" record --as host -o "$tmp/noroom" -e kvm:kvm_exit -d 1ms --min-free 1000000G
status_is 1 "... with -o as well"
run "$kvmft" record --as host -o "$tmp/nowhere/" -e kvm:kvm_exit -d 1ms
status_is 1 "a directory that is not there"
err_has "$tmp/nowhere/: no such directory: mkdir -p makes it" "... is reported"
err_one_line "a directory that is not there"
nothing_left "a directory that is not there"

# ---- something is wrong: one line ----

mkdir "$tmp/small"
if mount -t tmpfs -o size=64k,mode=700 kvmft-test "$tmp/small" 2>/dev/null; then
	mounted=$tmp/small
	run "$kvmft" record --as host -e kvm:kvm_exit -o "$tmp/small/" -d 20ms
	while [ "$rc" = 0 ] && [ "$(find "$tmp/small" | wc -l)" -lt 500 ]; do
		run "$kvmft" record --as host -e kvm:kvm_exit -o "$tmp/small/" -d 20ms
	done
	# 1 before anything was recorded, 3 after: where the disk is full first differs.
	ok "full disk (exit $rc)" test "$rc" = 1 -o "$rc" = 3
	err_has '^kvmft record: .*No space left on device' "... is reported"
	err_one_line "full disk"
	nothing_left "full disk"
	# Without inodes, bytes may be free: a directory, a file, a segment, a file of data.
	for used in 2 3 4 5; do
		umount "$tmp/small" && mounted=
		mount -t tmpfs -o size=1m,mode=700,nr_inodes=$used kvmft-test "$tmp/small" && mounted=$tmp/small
		run "$kvmft" record --as host -e kvm:kvm_exit -o "$tmp/small/cap" -d 1ms
		status_is 1 "a disk with $used inodes"
		err_has '^kvmft record: .*: No space left on device: its file system has no inodes left \(df -i\)' "... is told"
		err_one_line "a disk with $used inodes"
	done
	umount "$tmp/small" && mounted=
else
	skip "full disk" "a tmpfs cannot be mounted here"
fi
# Loss is a fault, too. A tiny ring that cannot be emptied fast enough: exit 3 has a line, 0 has none.
run env -i PATH=/usr/bin:/bin timeout 300 "$kvmft" record --as host -e 'kvm:*' -b 4K -o "$dir/" -- \
	"$tinyvm" --iterations 20000
lines=$(wc -l <"$err" | tr -d ' ')
is "$([ "$rc" = 0 ] && [ "$lines" = 0 ] || { [ "$rc" = 3 ] && [ "$lines" -gt 0 ]; } && echo yes)" yes \
	"a ring of 4K: exit $rc, $lines lines"
[ "$rc" != 3 ] || err_has ' [1-9][0-9]* lost \(command\)' "... their number is reported"

# ---- duration ----

# begin to stop, in ms, of the newest capture: the length does not depend on set-up. The median of
# three: a busy machine may hold back one.
: >"$tmp/off"
for i in 1 2 3; do
	cron -d 300ms --keep 1
	awk '/^tsc khz=/ { sub("khz=", "", $2); khz = $2 }
		/^begin tsc=/ { sub("tsc=", "", $2); b = $2 }
		/^stop tsc=/ { sub("tsc=", "", $2); e = $2 }
		END { ms = khz ? (e - b) / khz : -1; d = ms - 300; if (d < 0) d = -d; printf "%d\n", d }' \
		"$dir/$(stored | tail -n 1)/meta" >>"$tmp/off"
done
median=$(sort -n "$tmp/off" | sed -n 2p)
is "$([ "$median" -le 150 ] && echo yes)" yes "-d 300ms lasts 300 ms, off by $(sort -n "$tmp/off" | tr '\n' ' ')ms"

# ---- the examples ----

line=$(grep -E '^[^#].* root kvmft record' "$top/contrib/cron/kvmft")
is "$(echo "$line" | wc -l | tr -d ' ')" 1 "contrib/cron has a line"
args=$(echo "$line" | sed 's/.* root kvmft //; s,/var/lib/kvmft,'"$dir"',; s/-d 20s/-d 20ms/; s/--min-free 1G//')
# shellcheck disable=SC2086 # words
run env -i PATH=/usr/bin:/bin timeout 300 "$kvmft" ${args%%record*}record --as host ${args#*record}
status_is 0 "... that works"
is "$(cat "$out" "$err")" "" "... silently"
unit=$top/contrib/systemd/kvmft-record.service
exec_start=$(sed -n 's/^ExecStart=//p' "$unit")
args=$(echo "$exec_start" | sed 's/^[^ ]*//; s,/var/lib/kvmft,'"$dir"',; s/-d 20s/-d 20ms/; s/--min-free 1G//; s/ record / record --as host /')
caps=$(sed -n 's/^CapabilityBoundingSet=//p' "$unit" | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g')
if command -v setpriv >/dev/null; then
	# With the capabilities of the unit, and a file system that is read-only as it says.
	have=$(setpriv --dump | sed -n 's/^Capability bounding set: //p')
	some=-all
	for c in $(echo "$caps" | tr ',' ' '); do
		case ,$have, in
		*,"${c#+}",*) some=$some,$c ;;
		esac
	done
	# shellcheck disable=SC2086 # words
	run unshare -m sh -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro / && exec "$@"' "$dir" \
		setpriv --no-new-privs --bounding-set "$some" --inh-caps -all \
		env -i PATH=/usr/bin:/bin "$kvmft" $args
	status_is 0 "contrib/systemd: the command works with the privileges of the unit ($some)"
	is "$(cat "$out" "$err")" "" "... silently"
else
	skip "contrib/systemd: privileges" "setpriv is not installed"
fi
if command -v systemd-analyze >/dev/null; then
	mkdir "$tmp/units"
	sed "s,^ExecStart=[^ ]*,ExecStart=$(command -v true)," "$unit" >"$tmp/units/kvmft-record.service"
	cp "$top/contrib/systemd/kvmft-record.timer" "$tmp/units"
	run systemd-analyze verify --man=no "$tmp/units/kvmft-record.service" "$tmp/units/kvmft-record.timer"
	status_is 0 "systemd-analyze verify"
	is "$(grep -c kvmft "$err")" 0 "... has nothing to say about them"
else
	skip "systemd-analyze verify" "systemd-analyze is not installed"
fi
is "$(tracefs_state)" "$state_before" "tracefs is as it was before all this"
finish
