#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# --from and --to: a window shows exactly the lines of the whole time line whose times lie in it,
# whatever the clock, and reads little more than them.

. "$(dirname "$0")/lib.sh"

gen=${KVMFT_TOOLS:-$top/build/tests/tools}/gen
"$gen" --capture "$tmp/cap" --trace-dat "$tmp/dat" --events 60000 --cpus 3 >"$tmp/ok.log" 2>&1
is "$?" 0 "a capture of three CPUs is made"

# within FROM TO FILE: lines whose time (digits and a dot, behind "]") is in FROM..TO
within()
{
	awk -v from="$1" -v to="$2" '{
		match($0, /\][ ]*[0-9.]+/)
		t = substr($0, RSTART + 1, RLENGTH - 1) + 0
		if (t >= from && t <= to) print
	}' "$3"
}

"$kvmft" merge -q "$tmp/cap" >"$tmp/all"
"$kvmft" merge -q --clock host-tsc "$tmp/cap" >"$tmp/cycles"
is "$(wc -l <"$tmp/all")" "$(wc -l <"$tmp/cycles")" "both clocks show all events"
for w in "0.01 0.02" "0 0.000009" "0.0300001 0.03001" "0.05 1000"; do
	from=${w% *}
	to=${w#* }
	run "$kvmft" merge -q --from "$from" --to "$to" "$tmp/cap"
	within "$from" "$to" "$tmp/all" >"$tmp/want"
	ok "from $from to $to: $(wc -l <"$tmp/want") lines" cmp "$out" "$tmp/want"
done
run "$kvmft" merge -q --from 30ms --to 31ms "$tmp/cap"
within 0.03 0.031 "$tmp/all" >"$tmp/want"
ok "milliseconds" cmp "$out" "$tmp/want"
run "$kvmft" merge -q --clock host-tsc --from 21000000 --to 24000000 "$tmp/cap"
within 21000000 24000000 "$tmp/cycles" >"$tmp/want"
ok "a window in cycles" cmp "$out" "$tmp/want"
run "$kvmft" merge -q --clock host-tsc --from 21000000 --to 24000000 "$tmp/dat"
ok "... of a trace.dat" cmp "$out" "$tmp/want"
# The edges themselves belong to the window.
edge=$(sed -n '5000{s/.*\] *\([0-9.]*\) .*/\1/;p}' "$tmp/all")
run "$kvmft" merge -q --from "$edge" --to "$edge" "$tmp/cap"
within "$edge" "$edge" "$tmp/all" >"$tmp/want"
ok "one moment ($edge)" cmp "$out" "$tmp/want"
out_has "$edge" "... with its event"

run "$kvmft" merge --from 0.01 --to 0.02 "$tmp/cap"
err_has "host: $(within 0.01 0.02 "$tmp/all" | wc -l) events, 0 lost" "the summary counts what is shown"
# Of a capture whose counters tell how many events there were.
cp -r "$tmp/cap" "$tmp/counted"
n=$(wc -l <"$tmp/all" | tr -d ' ')
sed -i "/^stats /d; s/^end /stats when=begin cpu=0 entries=0 overrun=0 commit_overrun=0 dropped=0 read=0\nstats when=end cpu=0 entries=0 overrun=0 commit_overrun=0 dropped=0 read=$n\n&/" "$tmp/counted/meta"
run "$kvmft" merge "$tmp/counted"
status_is 0 "a capture with counters is complete"
run "$kvmft" merge --from 0.01 --to 0.02 "$tmp/counted"
status_is 0 "... and so is a part of it: what is not shown is not lost"
err_has "host: $(within 0.01 0.02 "$tmp/all" | wc -l) events, 0 lost" "... as the summary says"
run "$kvmft" export -q --from 0.01 --until 0.02 -i "$tmp/counted" -o "$tmp/counted.dat"
status_is 0 "... exported, too"
sed -i "s/\(when=end .*read=\).*/\1$((n + 5))/" "$tmp/counted/meta"
run "$kvmft" merge "$tmp/counted"
err_has 'host: [0-9]+ events, 5 lost' "what its files lack is lost"

# ---- what cannot be ----
run "$kvmft" merge --from 0.02 --to 0.01 "$tmp/cap"
status_is 2 "an end before the beginning is refused"
err_has "before --from" "... which is reported"
run "$kvmft" merge --from soon "$tmp/cap"
status_is 2 "no time: refused"
run "$kvmft" merge --clock host-tsc --to 1.5 "$tmp/cap"
status_is 2 "cycles have no fraction"
run "$kvmft" merge --from 1000 "$tmp/cap"
status_is 1 "a window without events fails"
err_has "no events in that time" "... and says why"

# ---- how much is read ----
# reads BYTES... of the data files, by strace, when it is there
bytes()
{
	strace -f -e trace=pread64 -o "$tmp/trace" "$kvmft" merge -q "$@" >/dev/null 2>&1
	awk -F '= ' '/pread64/ { n += $NF } END { print n + 0 }' "$tmp/trace"
}
if strace -V >/dev/null 2>&1; then
	whole=$(bytes "$tmp/dat")
	some=$(bytes --from 61000000 --to 61200000 "$tmp/dat")
	ok "a small window reads little ($some of $whole bytes)" test $((some * 4)) -lt "$whole"
	ok "... and the whole reads the whole" test "$whole" -gt 2000000
else
	skip "a small window reads little" "strace is not installed"
fi

# ---- a window between an entry and an exit ----

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
"$mkcap" --capture "$tmp/host" "$top/tests/golden/latency-host.txt"
"$mkcap" --capture "$tmp/guest" "$top/tests/golden/latency-guest.txt"
run "$kvmft" merge --clock host-tsc --from 2 --to 3 "$tmp/host" "$tmp/guest=one"
err_has 'cannot tell: no guest event that was read lies between an entry and an exit .* in all\)$' \
	"an alignment that it has too little for: of what was read"
run "$kvmft" merge "$tmp/host" "$tmp/guest=one"
err_has 'alignment of one: [1-9][0-9]* guest events checked' "... and all is enough"

# ---- a time of day, whatever clock the rows have ----

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
for side in host guest; do
	ok "$side is compiled" "$mkcap" --capture "$tmp/$side" "$top/tests/golden/latency-$side.txt"
done
# Readings from 13:48:35 UTC on, at 1 GHz; the recording has 17 us.
awk '/^end / {
	for (i = 0; i < 4; i++)
		printf "time tsc=%d width=2 mono_raw=%d mono=%d boot=%d real=%d000000000\n", i * 1000000000 + 1, i * 1000000000,
			i * 1000000000, i * 1000000000, 1795787315 + i
} { print }' "$tmp/host/meta" >"$tmp/meta"
cp -R "$tmp/host" "$tmp/dated"
cp "$tmp/meta" "$tmp/dated/meta"
cd "$tmp" || exit 1
export TZ=UTC
"$kvmft" merge -q dated guest >all
while read -r what from to; do
	run "$kvmft" merge -q ${from:+--from="$(echo "$from" | tr _ ' ')"} ${to:+--to="$(echo "$to" | tr _ ' ')"} dated guest
	status_is 0 "merge: $what"
	is "$(cat "$out")" "$(cat all)" "... the whole recording"
done <<'END'
minute 13:48
second 13:48:35 13:48:35
date 2026-11-27_13:48:35 2026-11-27T13:48
zone 14:48:35+01:00 08:18:35-05:30
zone_Z 2026-11-27T13:48:35Z 13:48:35Z
zone_without_colon 15:48+02 15:48+0200
epoch @1795787315 @1795787315.5
before 09:00
after 13:48:34.99 23:00
END
run "$kvmft" merge -q --from 13:48:35.000005 --to 13:48:35.000008 dated guest
cp "$out" part
run "$kvmft" merge -q --from 0.000005001 --to 0.000008001 dated guest
is "$(cat part)" "$(cat "$out")" "a fraction is that very time"
ok "... of which there are rows" test "$(wc -l <part)" -gt 3
for wrong in 13:48:35.1234567890 2026-11-27 13 13:48:35x 13:48+25:00 13:48+1 @x 2026-13-01T10:00; do
	run "$kvmft" merge -q --from "$wrong:" dated guest
	status_is 2 "'$wrong:' is no time"
done
run "$kvmft" merge --from 13:48 host guest
status_is 4 "a time of day without readings of it"
err_has "option --from: .*host has no readings of realtime against the TSC \(kvmft record takes them\): give the time as the rows show it" \
	"... is refused, with the remedy"
cp -R dated set
awk '/^time / && ++n > 1 { sub(/real=17957873/, "real=17957883") } { print }' dated/meta >set/meta
run "$kvmft" merge -q --from 13:00 set guest
status_is 0 "the time of day was set meanwhile: what was before all"
run "$kvmft" merge -q --from 13:48:36.5 set guest
status_is 2 "... a time that is not known"
err_has "option --from: 13:48:36.5 is outside of what set knows of realtime" "... is not called wrong"
run "$kvmft" report dated
cp "$out" all
run "$kvmft" report --from 13:48:35 --to 13:48:35 dated
is "$(grep -v '^#' "$out")" "$(grep -v '^#' all)" "report: the second of all"
run "$kvmft" report --from 13:48:35.00001 dated
cp "$out" part
run "$kvmft" report --from 0.000010001 dated
is "$(cat part)" "$(cat "$out")" "... a fraction"
for clock in host-tsc realtime; do
	# As merge shows that event and the next but one, in that clock.
	"$kvmft" merge -q --clock $clock --from 13:48:35.000005 --to 13:48:35.000008 dated |
		sed 's/.*\] *\(20..-..-.. \)\{0,1\}\([0-9:.]*\)  .*/\1\2/' >rows
	run "$kvmft" report --clock $clock --from "$(head -n 1 rows)" --to "$(tail -n 1 rows)" dated
	cp "$out" all
	run "$kvmft" report --from 13:48:35.000005 --to 13:48:35.000008 dated
	is "$(cat all)" "$(cat "$out")" "... times as merge --clock $clock shows them ($(head -n 1 rows))"
	run "$kvmft" diff --clock $clock --from "$(head -n 1 rows)" dated dated
	err_has "dated is only 0.000 s long" "... of diff, too"
done
run "$kvmft" report --clock kvmclock --from 1 dated
status_is 2 "... of a clock that it has not"
cp -R dated no-rate
sed -i '/^tsc /d; /^time /d' no-rate/meta
run "$kvmft" report --clock ns --from 1 no-rate
status_is 4 "... or that is not known there"
run "$kvmft" report --clock realtime --from 13:48:35 host
status_is 4 "... or of which there are no readings"
run "$kvmft" blame -q dated guest
cp "$out" all
run "$kvmft" blame -q --at 13:48:35 dated guest
is "$(cat "$out")" "$(cat all)" "blame --at a whole second: all that was late in it, the longest first"
run "$kvmft" blame -q --at 13:48:35.000017 dated guest
is "$(sed -n 's/^1\. .* at //p' "$out")" 0.000017000 "... a fraction: what is nearest"
run "$kvmft" merge -q --long --side guest dated guest
is "$(awk '{ print $1, $2, $3, $6 }' "$out" | sed -n '1p;$p')" "2026-11-27 13:48:35.000001098 one ....
2026-11-27 13:48:35.000017498 one ...." "merge --long: time of day and context"
run "$kvmft" merge -q --long dated guest
cp "$out" long.txt
run "$kvmft" merge -q long.txt
cp "$out" part
"$kvmft" merge -q dated guest >short.txt
run "$kvmft" merge -q short.txt
is "$(cat part)" "$(cat "$out")" "... which is read as text, too"
run "$kvmft" merge -q --long --side guest host guest
is "$(awk '{ print $1, $4 }' "$out" | head -n 1)" "one ...." "... without readings of it: context alone"
run "$kvmft" merge -q --long --format json dated guest
out_has '"context":"\.\.\.\.","realtime":1795787315000000998,' "... in JSON"
run "$kvmft" merge -q --long --format html dated guest
status_is 2 "... not on a page"
run "$kvmft" latency -q --clock realtime irq dated guest
out_has '^  1\.1 us at 2026-11-27 13:48:35\.00000[0-9] MSI irq 30' "latency --clock realtime"
run "$kvmft" latency -q --from 13:48:35 irq dated guest
cp "$out" part
run "$kvmft" latency -q irq dated guest
is "$(cat part)" "$(cat "$out")" "... from a time of day"

finish
