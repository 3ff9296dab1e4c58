#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# record --before: the ring of a flight recorder reaches back as far as requested, or it is reported that it does not.

# The word `record` in the arguments of a script makes no session of what it starts.
[ "$1" = record ] || exec sh "$0" record

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording "a flight recorder's ring"
run "$kvmft" record --as host --before 1s -e kvm:kvm_pio -d 50ms -o "$tmp/implied"
is "$(grep -c ' flight=1' "$tmp/implied/meta")" 1 "--before makes a flight recorder"
run "$kvmft" record --as host --flight-recorder --before 0s -o "$tmp/no"
status_is 2 "nothing asked for"
run "$kvmft" record --as host --flight-recorder --before 2s --clock counter -e kvm:kvm_pio -o "$tmp/no"
status_is 4 "a clock without a rate"
err_has "not counter$" "... is named"

if [ -z "$(find "$tracefs/instances" -maxdepth 1 -name 'kvmft.*')" ]; then
	run "$kvmft" snapshot
	status_is 1 "kvmft snapshot without a recorder"
	err_has 'no flight recorder of kvmft is running here' "... is reported"
else
	skip "kvmft snapshot without a recorder" "others record here"
fi
flight()
{
	first "$kvmft" record -q --as host "$2" -e kvm:kvm_pio -b 64K -o "$tmp/$1" 2>"$tmp/$1.err" &
}
flight one --flight-recorder
one=$!
flight two --before=100ms
two=$!
both_begun() { grep -qs '^begin ' "$tmp/one/meta" && grep -qs '^begin ' "$tmp/two/meta"; }
wait_until both_begun
sleep 0.5
run "$kvmft" snapshot
status_is 2 "two flight recorders: which one?"
err_has "several flight recorders.* $one \(" "... one is listed"
err_has " $two \(kvmft record -q --as host --before=100ms" "... the other, too, which --before makes one, by how it was called, wherever it lies"
is "$(cat "$tmp/one/meta" "$tmp/two/meta" | grep -c '^fired ')" 0 "... none was told"
run "$kvmft" snapshot $two
status_is 0 "one by its process id"
written() { grep -q '^fired why=signal' "$tmp/two/meta"; }
wait_until written
ok "... is" written
is "$(grep -c '^fired ' "$tmp/one/meta")" 0 "... and not the other"
run "$kvmft" snapshot 1
status_is 1 "no recorder has that process id"
kill -INT $one $two
wait $one $two

# At a steady rate, whatever else the machine does: the ring that one recording needs must be right for the next.
first "$tinyvm" --vcpus 2 --pause 40 --ms 600000 --name t1 >"$tmp/vm.txt" &
vm=$!
sleep 0.3

# held CAPTURE: ms that the last segment reached back.
held() { sed -n 's/^segment .*held=\([0-9]*\)......$/\1/p' "$1/meta" | tail -n 1; }
# ms from the first event of each CPU, the latest of them, to when the ring was written out: a VM may not run before that.
reach()
{
	# Millions of lines: neither with a sanitizer nor with sed.
	"${KVMFT_PLAIN:-$top/build/kvmft}" merge -q --clock host-tsc "$1" 2>/dev/null | LC_ALL=C awk \
		-v end="$(sed -n 's/^segment .*tsc=\([0-9]*\).*/\1/p' "$1/meta" | tail -n 1)" \
		-v khz="$(sed -n 's/^tsc khz=\([0-9]*\).*/\1/p' "$1/meta")" '
		{ i = index($0, "["); n = index($0, "] "); cpu = substr($0, i, n - i) }
		!(cpu in first) { first[cpu] = substr($0, n + 1, 24) + 0 }
		END { for (c in first) if (first[c] > m) m = first[c]; print int((end - m) / khz) }'
}

# More than fits into a ring of 8M. Beside it, recorders with rings of their own.
"$kvmft" record --as host --flight-recorder --before 3s -e 'kvm:*' -d 10s -o "$tmp/grown" 2>"$tmp/grown.err" &
recorder=$!

run "$kvmft" record --as host --flight-recorder --before 2s -b 128K -e kvm:kvm_pio -d 5s -o "$tmp/short"
status_is 3 "a ring of a size that was asked for"
err_has 'the ring reaches back 0\.[0-9] s, --before asks for 2\.0 s and a second more: -b [0-9]+M would do' "... is not touched, and the message says what would do"
ok "... how far it reached is in the capture" test "$(held "$tmp/short")" -lt 2000
remedy=$(sed -n 's/.*: \(-b [0-9]*M\) would do.*/\1/p' "$err")
# shellcheck disable=SC2086 # two words
run "$kvmft" record --as host --flight-recorder --before 2s $remedy -e kvm:kvm_pio -d 5s -o "$tmp/remedy"
status_is 0 "the size that was recommended will do ($remedy)"

wait "$recorder"
grown=$?
recorder=
# The VM has priority on every CPU; it pauses while its events are read.
kill -STOP "$vm"
ok "... two seconds" test "$(reach "$tmp/remedy")" -ge 2000
rc=$grown
cp "$tmp/grown.err" "$err"
status_is 0 "a ring that turns fast"
err_has 'the ring grows from [0-9]+ to [0-9]+ KiB on each CPU, for --before' "... grows"
ok "... until it reaches back that far ($(held "$tmp/grown") ms, or is not full)" test "$(held "$tmp/grown" | sed 's/^$/9999/')" -ge 3000
grown=$(reach "$tmp/grown")
ok "... in what was written, too ($grown ms)" test "$grown" -ge 3000
kill -KILL "$vm"
# From here on its rate does not matter.
first "$tinyvm" --vcpus 2 --pause 1000 --ms 600000 --name t1 >"$tmp/vm.txt" &
vm=$!

# begun CAPTURE...: do they record? And a moment longer, so that there are events.
begun() { [ "$(cat "$@" 2>/dev/null | grep -c '^begin ')" = $# ]; }
has_begun()
{
	wait_until begun "$@"
	sleep 0.3
}

# Two at once. No events here: an empty ring makes no segment, however often it is requested. And while a ring is
# written out it is off: no pair of events spans that.
"$kvmft" record --as host --flight-recorder -b 128K -e kvm:kvm_pio -p $$ -o "$tmp/still" 2>"$err" &
still=$!
"$kvmft" record --as host -q --flight-recorder -b 128K -e kvm:kvm_pio -o "$tmp/twice" &
twice=$!
recorder="$still $twice"
has_begun "$tmp/still/meta" "$tmp/twice/meta"
asked() { [ "$(grep -c 'no segment written' "$err") $(grep -c '^segment ' "$tmp/twice/meta")" = "$i $i" ]; }
for i in 1 2; do
	kill -USR1 "$still" "$twice"
	wait_until asked
	sleep 0.3
done
kill -INT "$still" "$twice"
wait "$still"
is "$?" 0 "a ring without events"
is "$(grep -c 'still: no segment written, the rings are empty .signal.$' "$err")" 2 "... says so each time"
is "$(grep -c 'segment [0-9]* written' "$err") $(grep -c '^segment ' "$tmp/still/meta")" "0 0" "... and writes no segment"
wait "$twice"
is "$?" 0 "a ring that is written out three times"
recorder=
run "$kvmft" merge "$tmp/twice"
status_is 0 "... is no loss"
# Both vCPUs may have been on one CPU for a while: a CPU without events before a pause reports none.
find "$tmp/twice" -path '*/seg*/cpu*' -size +0 >"$tmp/parts"
cpus=$(sed 's/.*cpu//' "$tmp/parts" | sort -u | wc -l)
pauses=$(($(wc -l <"$tmp/parts") - cpus))
ok "... in three parts" test "$pauses" -ge 2
is "$(grep -c 'NOT RECORDED on this CPU while the ring was written out, within [0-9.]* [num]*s$' "$out")" \
	"$pauses" "... pauses are reported for each CPU with events on both sides"

# A marker of a program as trigger, here and on another side: written to the machine's own file where the kernel
# copies markers, else to the one that the recorder named.
mark()
{
	file=$tracefs/trace_marker
	[ -e "$tracefs/options/copy_trace_marker" ] || file=$(sed -n 's/.* written to \(.*\)$/\1/p' "$err")
	echo "$1" >"$file"
}
"$kvmft" record --as host --flight-recorder --trigger marker=slow -b 128K -e kvm:kvm_pio -o "$tmp/marked" \
	>"$out" 2>"$err" &
recorder=$!
has_begun "$tmp/marked/meta"
mark "kvmft test: another thing"
sleep 0.5
mark "kvmft test: slow request 4711"
fired() { grep -q "$@"; }
wait_until fired ' (trigger)$' "$err"
sleep 0.5
kill -INT "$recorder"
wait "$recorder"
rc=$?
recorder=
status_is 0 "a marker as trigger"
is "$(sed -n 's/^fired \(why=[a-z]*\) .* text=/\1 /p' "$tmp/marked/meta")" "why=trigger kvmft%20test:%20slow%20request%204711" \
	"... the one with that text, once"
is "$(grep -c ' (trigger)$' "$err")" 1 "... wrote out the ring"
mkdir "$tmp/bin"
ln -s "$kvmft" "$tmp/bin/kvmft"
PATH=$tmp/bin:$PATH "$kvmft" record -o "$tmp/both" --flight-recorder -b 128K -e kvm:kvm_pio --guest t1=env \
	--guest-options '-e kvm:kvm_mmio' --guest-options "--as guest -b 128K --trigger marker=slow" >"$out" 2>"$err" &
recorder=$!
has_begun "$tmp/both/host/meta" "$tmp/both/t1/meta"
mark "kvmft test: slow request 4712"
wait_until fired '^segment .*why=control' "$tmp/both/host/meta"
kill -INT "$recorder"
wait "$recorder"
rc=$?
recorder=
status_is 0 "a marker in a guest"
fired=$(sed -n 's/^fired why=trigger tsc=\([0-9]*\) text=kvmft%20test:%20slow%20request%204712$/\1/p' "$tmp/both/t1/meta")
stopped=$(sed -n 's/^segment .*why=control .*stopped=\([0-9]*\).*/\1/p' "$tmp/both/host/meta" | head -n 1)
khz=$(sed -n 's/^tsc khz=\([0-9]*\).*/\1/p' "$tmp/both/host/meta")
ok "... stops the host's ring" test "${stopped:-0}" -gt "${fired:-0}"
echo "# $(((stopped - fired) / khz)) ms later"
ok "... soon" test $(((stopped - fired) / khz)) -lt 5000
is "$(our_instances)" "" "nothing is left"
finish
