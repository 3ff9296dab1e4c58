#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# merge --follow and trace --guest of real recordings, and what is left when they end in any way.
# Captures that grow without a kernel: follow.t.

# With a /dev/shm of its own: what a killed trace leaves there is removed by any `record --guest` that begins, as those
# of a test beside this one.
if [ -z "${OWN_SHM:-}" ] && unshare -m true 2>/dev/null; then
	OWN_SHM=1 exec unshare -m sh -c 'mount -t tmpfs -o mode=1777 none /dev/shm && exec sh "$0"' "$0"
fi

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

# comes PATTERN FILE: such a line, at last.
comes()
{
	tries=0
	until grep -q "$1" "$2" || [ $tries -ge 150 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
}

# ---- real recordings ----

need_recording "following real recordings"
"$tinyvm" --vcpus 2 --pause 1000 --ms 120000 --name t1 >"$tmp/vm.txt" &
vm=$!
wait_for_line "$tmp/vm.txt"

# recorded OPTION...: what is followed of a recording of 2 s.
recorded()
{
	rm -rf "$tmp/h"
	"$kvmft" record --as host -q -e kvm:kvm_pio -d 2s --flush 200ms -o "$tmp/h" "$@" &
	recorder=$!
	i=0
	while [ ! -s "$tmp/h/meta" ] && [ $i -lt 50 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	timeout 300 "$kvmft" merge --follow "$tmp/h" >"$out" 2>"$err"
	rc=$?
	wait "$recorder"
	recorder=
}

recorded
status_is 0 "a recording is followed"
"$kvmft" merge -q "$tmp/h" 2>/dev/null | sed 's/<\.\.\.>-/-/; s/^\([^ ]*\) [^ ]*-\([0-9]*\)/\1 \2/; s/  */ /g' >"$tmp/want.1"
sed 's/<\.\.\.>-/-/; s/^\([^ ]*\) [^ ]*-\([0-9]*\)/\1 \2/; s/  */ /g' "$out" >"$tmp/got.1"
ok "... its lines, but for names that are known at the end" cmp "$tmp/want.1" "$tmp/got.1"
"$tinyvm" --vcpus 2 --pause 50 --ms 60000 >/dev/null &
fast=$!
recorded --rotate 64K --keep 2
kill $fast
wait $fast 2>/dev/null
status_is 3 "segments go before they can be shown"
# If all that is missing came before the first line, there is no place between two to show.
first=$(sed -n '1s/.*\] *\([0-9]*\)[.].*/\1/p' "$out")
if [ "${first:-0}" -ge 1 ] && ! grep -qE "LOST ([0-9]+ )?EVENTS" "$out"; then
	err_has "host: [0-9]+ events, [1-9][0-9]* (or more )?lost" "... what is missing before the first line is told at the end"
else
	out_has "LOST ([0-9]+ )?EVENTS" "... where events are missing is shown"
fi
shown=$(sed -n 's/^kvmft: host: \([0-9]*\) events, .*/\1/p' "$err")
lost=$(sed -n 's/^kvmft: host: [0-9]* events, \([0-9]*\) lost.*/\1/p' "$err")
made=$(awk '/^stats when=end/ { for (i = 1; i <= NF; i++) if (sub("^read=", "", $i)) n += $i }
	END { print n }' "$tmp/h/meta")
if grep -q 'or more' "$err"; then
	ok "... the first had gone before it began: 'or more'" test "$shown" -lt "$made"
else
	is $((shown + lost)) "$made" "... shown and lost are all that were made"
fi

# ---- trace --guest ----

PATH=$tmp/bin:$PATH
mkdir "$tmp/bin"
ln -s "$kvmft" "$tmp/bin/kvmft"
mem()
{
	ls -d /dev/shm/kvmft.* /run/kvmft.*.*.0 2>/dev/null
}
before=$(mem)
run timeout 300 "$kvmft" trace -e kvm:kvm_pio --guest t1=/usr/bin/env --guest-options '--as guest' \
	--guest-options '-e kvm:kvm_mmio' -d 2s
status_is 0 "trace --guest"
ok "... lines of the host" grep -q '^host .* kvm:kvm_pio: ' "$out"
ok "... and of the guest" grep -q '^t1 .* \[v[01]\] .* kvm:kvm_mmio: ' "$out"
# With a '?' stands what has no place, as the host's recording had not begun.
sed -nE 's/^[^[]*\[v?[0-9]+\] +([0-9.]+) .*/\1/p' "$out" >"$tmp/placed"
ok "... most of which have a place in time" test "$(wc -l <"$tmp/placed")" -gt $(($(wc -l <"$out") / 2))
back=$(awk '$1 < last { n++ } { last = $1 + 0 } END { print n + 0 }' "$tmp/placed")
late=$(sed -n 's/.*: \([0-9]*\) events came late.*/\1/p' "$err" | awk '{ n += $1 } END { print n + 0 }')
ok "... in order of time but for what came late ($back, $late)" test "$back" -le "$late"
ok "... as many as the summary says" test "$(wc -l <"$out")" = \
	"$(awk '/ events, / { n += $3 } END { print n }' "$err")"
is "$(mem)" "$before" "... nothing is left in memory"
run timeout 300 "$kvmft" trace -e kvm:kvm_pio --guest t1=/usr/bin/env --guest-options '--as guest' \
	--guest-options '-e kvm:kvm_mmio' --tsc --format json -N 20
status_is 0 "trace --guest, an end by count"
is "$(grep -c '"kind":"event"' "$out")" 20 "... of 20 events"
out_has '"clock":"host-tsc"' "... in TSC"
timeout 300 "$kvmft" trace -e kvm:kvm_pio --guest t1=/usr/bin/env --guest-options '--as guest' \
	--guest-options '-e kvm:kvm_mmio' 2>"$err" | head -n 5 >"$out"
is "$(wc -l <"$out" | tr -d ' ')" 5 "a reader that has seen enough ends it"
is "$(mem)" "$before" "... nothing is left in memory"
is "$(our_instances)" "" "... and no instance"

: >"$out"
"$kvmft" trace -e kvm:kvm_pio --guest t1=/usr/bin/env --guest-options '--as guest' --guest-options '-e kvm:kvm_mmio' >"$out" 2>"$err" &
job=$!
comes . "$out"
kill -TERM $job
kill -INT $job
wait $job
rc=$?
status_is 3 "a second signal"
err_has "a second signal ended this before all was shown" "... is named as the reason"
is "$(mem)" "$before" "... nothing is left in memory"
# What it had started outlives it, and goes on to write.
: >"$out"
timeout 300 "$kvmft" trace -e kvm:kvm_pio --guest t1=/usr/bin/env --guest-options '--as guest' \
	--guest-options '-e kvm:kvm_mmio' >"$out" 2>"$tmp/killed.err" &
job=$!
comes . "$out"
tracer=$(pgrep -P $job)
family=$(pgrep -P "$tracer" | tr '\n' ' ')
kill -KILL "$tracer"
wait $job
# running PID...: those that are no zombies
running() { ps -o stat= -p "$*" | grep -v Z; }
tries=0
# shellcheck disable=SC2086 # a list
while running $family >/dev/null && [ $tries -lt 200 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
# shellcheck disable=SC2086
is "${family:+some}$(running $family)" some "what a killed one had started ends"
ok "a killed one leaves its session" test -d "$(echo "/dev/shm/kvmft.$tracer".*)"
run "$kvmft" reset -n
out_has "^session /dev/shm/kvmft\.$tracer\." "... which reset names"
out_has "^would remove .* and 1 session" "... and counts"
run "$kvmft" reset
out_has "^session /dev/shm/kvmft\.$tracer\." "... and removes"
out_has "^removed .* and 1 session" "... and counts"
is "$(mem)" "$before" "... nothing is left"
# One that nobody made: its process cannot be.
mkdir -p /dev/shm/kvmft.2147483647.1.0/mine
: >/dev/shm/kvmft.2147483647.1.0/mine/file
run "$kvmft" reset
out_has "^session /dev/shm/kvmft.2147483647.1.0: left, as something in it is no capture" "reset leaves what is no capture, and says so"
out_has "^removed .* and 0 session" "... and does not count it"
ok "... with all that is in it" test -f /dev/shm/kvmft.2147483647.1.0/mine/file
rm -rf /dev/shm/kvmft.2147483647.1.0
run timeout 300 "$kvmft" trace -e kvm:kvm_pio --guest t1=/usr/bin/env --guest-options '--as guest' -N 0 -d 3s
status_is 2 "trace --guest with a count of nothing"
err_has "^kvmft trace: option --count: must be" "... speaks in its own name"
is "$(grep -c 'kvmft merge\|/dev/shm\|/run/' "$err")" 0 "... and no command or place that was not given"
# The VM goes on while all that records it is stopped.
descendants()
{
	for child in $(pgrep -P "$1"); do
		echo "$child"
		descendants "$child"
	done
}

"$tinyvm" --vcpus 2 --pause 100 --ms 60000 >/dev/null &
fast=$!
timeout 300 "$kvmft" trace -e kvm:kvm_pio -b 8K --guest t1=/usr/bin/env --guest-options '--as guest' \
	--guest-options '-e kvm:kvm_mmio' -d 4s >"$out" 2>"$err" &
tracer=$!
wait_until grep -q kvm_pio "$out"
# shellcheck disable=SC2046 # pids
kill -STOP $(descendants $tracer)
ran=$(awk '{ print $14 + $15 }' "/proc/$fast/stat")
n=0
while [ $(($(awk '{ print $14 + $15 }' "/proc/$fast/stat") - ran)) -lt 50 ] && [ $n -lt 300 ]; do
	sleep 0.1
	n=$((n + 1))
done
# shellcheck disable=SC2046
kill -CONT $(descendants $tracer)
wait $tracer
kill $fast
wait $fast 2>/dev/null
err_has '^kvmft: host: [0-9]+ events, .* [1-9][0-9]* lost' "trace --guest, the host's ring is too small"
is "$(grep -c '/dev/shm\|/run/' "$err")" 0 "... and its recorder names no place, either"
# Their old contents must not be taken for new ones.
: >"$out"
: >"$err"
timeout 300 "$kvmft" trace -e kvm:kvm_pio --guest t1=/usr/bin/env --guest-options '--as guest' \
	--guest-options '-e kvm:kvm_mmio' >"$out" 2>"$err" &
job=$!
comes '^t1' "$out"
rm -r "/dev/shm/kvmft.$(pgrep -P $job)".*/t1
comes 'left out from now on' "$err"
: >"$out"
comes '^host' "$out"
kill -INT $job
wait $job
rc=$?
status_is 3 "trace --guest, a guest's capture goes"
err_has "^kvmft: t1: cannot open the capture: .*: left out from now on" "... the side is named"
is "$(grep -c 'kvmft merge\|/dev/shm\|/run/' "$err")" 0 "... and no place that was not given"
ok "... the host goes on" grep -q '^host' "$out"
is "$(mem)" "$before" "... nothing is left in memory"
run timeout 300 "$kvmft" trace -e kvm:kvm_pio -b 100G --guest t1=/usr/bin/env -d 1s
status_is 1 "trace --guest, a ring larger than memory allows"
err_has "at most -b [0-9]+K$" "... names the largest size, and no option that trace lacks"
others=
for name in t2 t3; do
	"$tinyvm" --pause 1000 --ms 20000 --name $name >"$tmp/$name.txt" &
	others="$others $!"
	wait_for_line "$tmp/$name.txt"
done
run timeout 300 "$kvmft" trace -e kvm:kvm_pio --guest other=/usr/bin/env --guest-options '--as guest' \
	--guest-options '-e kvm:kvm_mmio' -d 1s
# shellcheck disable=SC2086 # a list
kill $others
# shellcheck disable=SC2086
wait $others 2>/dev/null
status_is 4 "trace --guest, a guest that may be of several VMs"
err_has 'name its VM: of what `kvmft record --guest` writes, by kvmft merge HOST GUEST=SEL\. VMs there: ' \
	"... is named where that can be done"
run timeout 300 "$kvmft" trace -e kvm:kvm_pio --guest t1=false
status_is 1 "a guest that cannot be reached"
err_has "t1: " "... is named"
is "$(mem)" "$before" "... nothing is left"
is "$(tracefs_state)" "$state_before" "the kernel's own settings are as before"

finish
