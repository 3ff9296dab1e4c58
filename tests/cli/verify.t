#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# `kvmft verify` with pairs of captures that tests/tools/genpair makes: right, wrong in every way,
# scaled, with hundreds of vCPUs, with offsets that change, without metadata. (Real pairs are in
# tests/vm.)

. "$(dirname "$0")/lib.sh"

genpair=${KVMFT_TOOLS:-$top/build/tests/tools}/genpair
offset=-900000000000

# pair NAME OPTION...: captures in $tmp/NAME/host and guest.
pair()
{
	mkdir -p "$tmp/$1"
	name=$1
	shift
	by=$genpair
	case " $* " in
	*" --vcpus 32 "* | *" --vcpus 256 "*) by=$makers/genpair ;;
	esac
	"$by" --host "$tmp/$name/host" --guest "$tmp/$name/guest" "$@" || echo "# genpair failed: $*"
}

# verify NAME OPTION...
verify()
{
	name=$1
	shift
	run "$kvmft" verify "$@" "$tmp/$name/host" "$tmp/$name/guest"
}

# number KEY: the first one in the JSON, which is that of the first guest.
number()
{
	grep -oE "\"$1\":-?[0-9]+" "$out" | head -n 1 | sed 's/.*://'
}

# ---- a right pair ----

pair plain
verify plain
status_is 0 "a right pair: exit 0"
out_has '^syn: aligned within 1500 cycles \(0\.750 us\)$' "... the verdict has the bound"
out_has 'all [0-9]+ guest events .* lie in the [0-9]+ entry\.\.exit windows' "... and what it rests on"
out_has 'moved by more than -1500 cycles .* or \+1500 cycles' "... both sides"
out_has '^  vCPU 1 +[0-9]+ +0 +0 ' "... per vCPU"
out_has '^  from 0\.1[0-9]+ s +[0-9]+ +0 +0 ' "... over time"
verify plain --clock host-tsc
status_is 0 "--clock host-tsc"
out_has '^  [0-9]{6,} +[0-9]+ +0 +0 ' "... has that over time"
verify plain --clock realtime
out_has '^  2026-11-2[0-9] [0-9]{2}:[0-9]{2}:39\.5[0-9]+ +[0-9]+ +0 +0 ' "--clock realtime: by the time of day"
out_has 'drift .*between -[0-9]+ and \+[0-9]+ parts' "... drift is bounded"
out_has '^  tsc_deadline +[1-9][0-9]* +0 +0 +\+' "... pairs by value, none reversed"
is "$(wc -c <"$err" | tr -d ' ')" 0 "... nothing on stderr"

verify plain --format json
status_is 0 "JSON"
is "$(number earliest_cycles) $(number latest_cycles) $(number outside)" "-1500 1500 0" "... the same numbers"
if command -v python3 >/dev/null; then
	ok "... is a document" python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
g = d["guests"][0]
assert d["complete"] and g["verdict"] == "aligned" and g["solution"] is None
assert sum(v["checked"] for v in g["vcpus"]) == g["checked"] == g["events"]
assert sum(s["checked"] for s in g["slices"]) == g["checked"]
assert g["pairs"][0]["kind"] == "tsc_deadline" and g["pairs"][0]["min_cycles"] > 0' "$out"
else
	skip "... is a document" "no python3"
fi

verify plain --format csv
status_is 0 "CSV"
is "$(awk -F, '{ print NF }' "$out" | sort -u)" 21 "... all rows have the columns of the header"
is "$(awk -F, '$4 == "all" { print $6 + $7 "," $9 "," $11 }' "$out")" \
	"$(awk -F, '$4 == "vcpu" { n += $6 + $7 } END { print n }' "$out"),-1500,1500" "... the vCPUs are the whole, and the slack"
is "$(awk -F, '$4 == "slice" { n += $6 + $7 } $4 == "all" { all = $6 + $7 } END { print n - all }' "$out")" 0 \
	"... so are the slices"
out_has '^syn,.*,aligned,pairs,tsc_deadline,,,,,,,,[1-9][0-9]*,0,0,[0-9]+,' "... pairs"

# The guest knows the events, but has none: nothing is said to lack its pair.
for side in host guest; do
	"${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap" --capture "$tmp/one-$side" "$top/tests/golden/latency-$side.txt"
done
run "$kvmft" verify "$tmp/one-host" "$tmp/one-guest=one"
out_has 'no pairs by value: record kvm:kvm_msr on the host and msr:\* in the guest' "MSRs of the host alone: the remedy"
is "$(grep -c unpaired "$out")" 0 "... and no table"

# ---- a VM that is known by its threads alone ----

cp -r "$tmp/plain/host" "$tmp/bare"
sed -i '/^vm /d; /^vcpu /d' "$tmp/bare/meta"
run "$kvmft" verify --tsc-offset 5 "$tmp/bare" "$tmp/plain/guest=tids:4001,4002"
status_is 1 "a VM without facts, misaligned"
is "$(wc -c <"$err" | tr -d ' ')" 0 "... and nothing on stderr"
run "$kvmft" verify "$tmp/bare" "$tmp/plain/guest=4999"
status_is 1 "... there is no other"
err_has "no VM '4999' in" "... is reported"
err_one_line "... no other"

# ---- wrong offsets ----

# The slack is 1500 either way: up to there the windows cannot tell, beyond it they must.
pair bare --no-debugfs
for error in -1500 1499; do
	verify bare --tsc-offset $((offset + error))
	status_is 0 "an error of $error cycles is within the bound"
	verify plain --tsc-offset $((offset + error))
	status_is 1 "... but not where the host recorded the offset"
	out_has '^syn: misaligned: the windows hold, but the TSC offset is not the one' "... is reported"
	out_has "recorded TSC offset $offset: by that, .* moved by [+]?$error cycles" "... by how much"
done
verify plain --tsc-offset $offset
status_is 0 "the offset that the host recorded, given by hand"
for error in -1501 1501 -40000 40000 2000000 -100000000; do
	verify plain --tsc-offset $((offset + error))
	status_is 1 "an error of $error cycles is found"
	out_has '^syn: misaligned: [0-9]+ of [0-9]+ guest events lie outside' "... is reported"
	wrong=$(sed -n 's/.*is wrong by about \([+-][0-9]*\) cycles.*/\1/p' "$out")
	diff=$((${wrong:-999999999} - error))
	ok "... by about as much ($wrong)" test $diff -ge -1500 -a $diff -le 1500
done
verify plain --tsc-offset $((offset + 900000000000))
status_is 1 "an offset that moves everything out of the host's time"
out_has 'placed outside of the time that the host recorded' "... is reported"
out_has "the data ask for TSC offset $offset" "... with the right one"

# ---- --solve ----

# solved NAME WANT OPTION...: the offset found is WANT, give or take the slack.
solved()
{
	name=$1
	want=$2
	shift 2
	verify "$name" --solve "$@"
	status_is 0 "$name: solved"
	found=$(sed -n 's/.*solved: TSC offset \(-\{0,1\}[0-9]*\).*/\1/p' "$out")
	diff=$((${found:-0} - want))
	ok "$name: the true offset, within the slack ($diff)" test $diff -ge -1500 -a $diff -le 1500
	out_has 'outside: unique' "$name: and no other"
}

solved plain $offset
pair blind --no-debugfs
verify blind
status_is 0 "captures without the offset: found from the events"
out_has 'solved: TSC offset' "... is reported"
err_has 'TSC offset -[0-9]* [+]-[0-9]* cycles .*, found in [0-9]* events' "... on stderr, too, with its bound"
solved blind $offset
for seed in 2 3 4; do
	pair "seed$seed" --seed $seed --no-debugfs --vcpus 1 --ms 60
	solved "seed$seed" $offset
done
pair positive --offset 123456789012345 --no-debugfs
solved positive 123456789012345

# Stamps of another clock, which lies on a line over the TSC: 5000 behind it.
pair raw --no-debugfs
sed -i 's/clock=x86-tsc/clock=mono_raw/; s/mono_raw=1 /mono_raw=99999995050 /
	/^ring /a raw last=5000 mult=8388608 shift=23 nsec=0 base=0 clocksource=tsc' "$tmp/raw/guest/meta"
solved raw $((offset + 5000))
sed -i '/^raw /d' "$tmp/raw/guest/meta"
verify raw --solve
status_is 4 "... without that line nothing is solved"

# A tick fits nearly as well a tick earlier or later: the longer the recording, the more such offsets there are.
pair idle --idle --ms 3000 --vcpus 1 --no-debugfs
solved idle $offset

# 2100 MHz guest on a host of 2596.146 MHz, both vendors' fixed point.
pair svm --ratio 3474161823 --frac 32
verify svm
status_is 0 "scaled, 32 fraction bits: aligned"
out_has 'aligned within 1[45][0-9][0-9] cycles' "... with the same bound"
solved svm $offset
pair vmx --ratio 227682669269131 --frac 48 --no-debugfs
verify vmx --tsc-offset $offset --tsc-ratio 227682669269131/48
status_is 0 "scaled, 48 fraction bits, given by hand: aligned"
solved vmx $offset --tsc-ratio 227682669269131/48
verify vmx --tsc-offset $offset
status_is 1 "... not without the ratio"
# Host and guest say their frequencies, and those the ratio.
verify vmx --solve
status_is 0 "... which is found"
out_has 'solved: TSC offset -[0-9]*, TSC ratio [0-9]*/(32|48)' "... which is reported"
verify vmx --solve --tsc-ratio 281474976710656/48
ok "... not solved with another (exit $rc)" test "$rc" = 1 -o "$rc" = 4

# ---- pairs of trace.dat, which know nothing of offsets ----

for side in host guest; do
	"$kvmft" export -q --force -i "$tmp/svm/$side" -o "$tmp/$side.dat"
done
run "$kvmft" verify --tsc-offset $offset --tsc-ratio 3474161823/32 "$tmp/host.dat" "$tmp/guest.dat=syn"
status_is 0 "trace.dat: aligned with --tsc-offset and --tsc-ratio"
out_has '^  vCPU 1 +[1-9][0-9]{3} +0 +0 ' "... all events of it"
run "$kvmft" verify --tsc-offset $((offset + 20000)) --tsc-ratio 3474161823/32 "$tmp/host.dat" "$tmp/guest.dat=syn"
status_is 1 "trace.dat: misaligned with another offset"
run "$kvmft" verify "$tmp/host.dat" "$tmp/guest.dat=syn"
status_is 0 "trace.dat: both files say their frequencies"
err_has 'TSC ratio' "... so the ratio is found"
run "$kvmft" verify --tsc-ratio 281474976710656/48 "$tmp/host.dat" "$tmp/guest.dat=syn"
status_is 4 "... with another ratio there is no answer"
run "$kvmft" verify --solve --tsc-ratio 3474161823/32 "$tmp/host.dat" "$tmp/guest.dat=syn"
status_is 0 "trace.dat: solved"
found=$(sed -n 's/.*solved: TSC offset \(-\{0,1\}[0-9]*\).*/\1/p' "$out")
diff=$((${found:-0} - offset))
ok "... the true offset, within the slack ($diff)" test $diff -ge -1500 -a $diff -le 1500
"$kvmft" export -q -i "$tmp/plain/host" -o "$tmp/pair.dat" "$tmp/plain/guest"
run "$kvmft" verify --tsc-offset 0 "$tmp/pair.dat" "$tmp/pair-syn.dat=syn"
status_is 0 "a pair of one export is on the host's clock"

# A pair with TIME_SHIFT, as trace-cmd makes them, has all that is needed: the host's file names the guest's.
"$kvmft" export -q --clock guest-tsc -i "$tmp/plain/host" -o "$tmp/shift.dat" "$tmp/plain/guest"
run "$kvmft" verify "$tmp/shift.dat" "$tmp/shift-syn.dat"
status_is 0 "a pair with TIME_SHIFT: aligned without any option"
"$kvmft" merge -q --clock host-tsc --side guest "$tmp/shift.dat" "$tmp/shift-syn.dat" | awk '{ print $4, $5 }' >"$tmp/got"
"$kvmft" merge -q --clock host-tsc --side guest "$tmp/plain/host" "$tmp/plain/guest" | awk '{ print $4, $5 }' >"$tmp/want"
ok "... to the same cycle as the captures" sh -c "test -s '$tmp/want' && cmp '$tmp/want' '$tmp/got'"
run "$kvmft" verify --tsc-offset 5 "$tmp/shift.dat" "$tmp/shift-syn.dat"
status_is 1 "... an offset by hand goes before what the file says"
run "$kvmft" verify --solve "$tmp/shift.dat" "$tmp/shift-syn.dat"
status_is 0 "... --solve as well"
# A TSC that was written meanwhile: the events of the host do not tell it, the samples do.
pair moved --jump 3000000
pair unseen --jump 3000000 --hidden
"$kvmft" export -q --clock guest-tsc -i "$tmp/moved/host" -o "$tmp/moved.dat" "$tmp/moved/guest"
"$kvmft" export -q -i "$tmp/unseen/host" -o "$tmp/unseen.dat"
run "$kvmft" verify "$tmp/unseen.dat" "$tmp/moved-syn.dat"
status_is 0 "TIME_SHIFT with two offsets of a vCPU"
cp -r "$tmp/plain/host" "$tmp/other"
sed -i 's/^begin tsc=.*/begin tsc=999999999999/' "$tmp/other/meta"
"$kvmft" export -q -i "$tmp/other" -o "$tmp/other.dat"
run "$kvmft" verify "$tmp/other.dat" "$tmp/shift-syn.dat=syn"
status_is 0 "TIME_SHIFT onto another host's clock is not used"
out_has 'solved: TSC offset' "... the events are"

# ---- size, gaps in ids ----

pair big --vcpus 256 --id-step 2 --cpus 32 --ms 20
verify big
status_is 0 "256 vCPUs with every other id"
out_has '^  vCPU 510 ' "... up to the last"

# 512 streams on one time line: all in order. Memory is that of the streams, not of the files.
pair wide --vcpus 256 --cpus 256 --ms 10
run "$kvmft" merge --clock host-tsc "$tmp/wide/host" "$tmp/wide/guest"
status_is 0 "merge of 256 CPUs and 256 vCPUs"
is "$(awk '{ for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+[?]?$/ && length($i) > 8) {
	if ($i ~ /[?]/ || $i + 0 < last) bad++; last = $i + 0; n++; break } } END { print (n > 50000), NR - n, bad + 0 }' "$out")" \
	"1 0 0" "... no line out of order"
for ms in 40 400; do
	pair "ms$ms" --vcpus 32 --cpus 32 --ms $ms
	kb=$("${genpair%genpair}cpu" "${KVMFT_PLAIN:-$kvmft}" merge -q "$tmp/ms$ms/host" "$tmp/ms$ms/guest" | cut -d ' ' -f 2)
	echo "# merge of 64 streams, $(du -sk "$tmp/ms$ms" | cut -f 1) KB: $kb KB of memory"
	rss="${rss:-} ${kb:-0}"
done
# shellcheck disable=SC2086 # two numbers
ok "merge of 64 streams: memory has a limit however much data there is ($rss KB)" \
	sh -c 'test "$1" -gt 0 -a "$1" -lt 16384 -a "$2" -lt 16384' - $rss
pair gaps --vcpus 3 --id-step 7 --no-debugfs
solved gaps $offset

# ---- offsets that change, rates ----

pair jump --jump 3000000
verify jump
status_is 0 "TSC of one vCPU written, with its event: aligned"
pair hidden --jump 3000000 --hidden
verify hidden --tsc-offset $offset
status_is 1 "the same without the event"
out_has 'only vCPU 0 of 2 is affected.* from 0\.10[0-9]+ s .*the offset changed' "... which vCPU, and since when"

# Only the events show the change: it is noticed, and the offset after it is not guessed.
changed()
{
	pair "$@"
	run "$kvmft" verify --solve "$tmp/$1/host" "$tmp/$1/guest"
	status_is 4 "$1: a hidden write of the TSC: cannot tell"
	out_has '^syn: cannot tell' "... said"
	out_has "$why" "... why"
}
why='vCPU 0: no offset found: '
changed hidden --jump 3000000 --hidden
out_has 'one may have changed meanwhile: record the host with kvmft' "... and what helps"
why='vCPU 0: no offset found: it seems to have changed meanwhile'
changed far --jump 900000000000 --hidden --no-debugfs
run "$kvmft" merge "$tmp/far/host" "$tmp/far/guest"
status_is 4 "... merge refuses"
why='no offset found: no offset puts'
changed alone --jump 50000000 --hidden --vcpus 1

pair drift --drift 20000
verify drift
status_is 1 "a clock that runs 20 ppm fast"
out_has 'the rate is wrong: guest times drift by \+[0-9]+ to \+[0-9]+ parts' "... is reported"
low=$(sed -n 's/.*drift by +\([0-9]*\) to.*/\1/p' "$out")
high=$(sed -n 's/.*drift by .* to +\([0-9]*\) parts.*/\1/p' "$out")
ok "... with bounds around it ($low..$high)" test "${low:-99999}" -le 20000 -a "${high:-0}" -ge 20000

# After a reboot the guest's TSC has values again that it had before.
pair reboot --reboot "$tmp/second" --ms 100
for boot in "$tmp/reboot/guest" "$tmp/second"; do
	run "$kvmft" verify "$tmp/reboot/host" "$boot"
	status_is 0 "a guest that was rebooted: $(basename "$boot") boot is aligned"
	out_has '^  all +[1-9][0-9]{3} +0 +0 ' "... all its events, although stamps repeat"
done

# Both boots on one time line: each is a side of its own.
run "$kvmft" verify "$tmp/reboot/host" "$tmp/reboot/guest" "$tmp/second"
status_is 0 "both boots at once"
out_has '^syn#1: aligned within 15[0-9][0-9] cycles' "... the first one"
out_has '^syn#2: aligned within 15[0-9][0-9] cycles' "... and the second one"
# Its vCPUs were reset one after the other, and so have offsets of their own.
run "$kvmft" verify --solve "$tmp/reboot/host" "$tmp/second"
status_is 0 "vCPUs with different offsets: solved"
for vcpu in 0 1; do
	want=$("$kvmft" merge -q --format json "$tmp/reboot/host" "$tmp/second" 2>/dev/null |
		grep '"kind":"epoch"' | grep "\"vcpu\":$vcpu," | tail -n 1 | sed 's/.*"tsc_offset":\(-*[0-9]*\).*/\1/')
	found=$(sed -n "s/^  vCPU $vcpu: solved: TSC offset \(-*[0-9]*\) .*outside: unique/\1/p" "$out")
	diff=$((${found:-0} - ${want:-1}))
	ok "... vCPU $vcpu: within the slack ($diff)" test $diff -ge -1600 -a $diff -le 1600
done
run "$kvmft" verify --tsc-offset $offset "$tmp/reboot/host" "$tmp/second"
status_is 1 "... and without: misaligned"
out_has '^  vCPU 1: the data ask for TSC offset -[0-9]+: the one used is wrong by about \+[0-9]+ cycles' "... by how much, per vCPU"

# order SIDE: its lines, and how many of them are out of order or of unknown time.
order()
{
	awk -v side="$1" '$1 ~ side { for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+[?]?$/ && length($i) > 8) {
		if ($i ~ /[?]/ || $i + 0 < last) bad++; last = $i + 0; n++; break } }
		END { print (n > 1000), bad + 0 }' "$out"
}
run "$kvmft" merge --clock host-tsc "$tmp/reboot/host" "$tmp/reboot/guest" "$tmp/second"
status_is 0 "... merge"
is "$(order .)" "1 0" "... no line out of order"
ok "... boots that follow each other are no twins" sh -c "! grep -q 'at the same time' '$err'"
is "$(order '^syn#1') $(order '^syn#2')" "1 0 1 0" "... nor of either boot"
is "$(awk '$1 == "syn#2" && !first { first = NR } $1 == "syn#1" { last = NR } END { print (first > 0 && last - first < NR / 20) }' \
	"$out")" 1 "... the second boot comes after the first"
err_has 'alignment of syn#2: [1-9][0-9]* guest events checked, 0 outside' "... both are checked"
cp -r "$tmp/second" "$tmp/twin"
run "$kvmft" merge -q "$tmp/reboot/host" "$tmp/reboot/guest" "$tmp/second" "$tmp/twin"
is "$(cat "$err")" "kvmft: $tmp/second and $tmp/twin say that they are the same VM at the same time (syn#2, syn#3): \
unless two recordings ran in it, one is a copy or of another VM, which $tmp/twin=SEL names" "... a copy is, and both are named"
run "$kvmft" merge -q --side syn#2 --format json "$tmp/reboot/host" "$tmp/reboot/guest" "$tmp/second"
is "$(grep -c '"kind":"event","side":"guest","vm":"syn","source":2,' "$out") $(grep -c '"source":1,' "$out")" \
	"$(grep -c '"kind":"event"' "$out") 0" "... --side NAME#N is one capture, JSON says which"

# A TSC that was written before: the wall clocks read the time of the first events, so that later ones seem to be of
# the second boot. The event before on that CPU knows better.
pair written --jump 2000000000000 --reboot "$tmp/second-written" --ms 100
for boot in "$tmp/written/guest" "$tmp/second-written"; do
	run "$kvmft" verify "$tmp/written/host" "$boot"
	status_is 0 "a TSC written, and rebooted: $(basename "$boot") is aligned"
	out_has '^  all +[1-9][0-9]{3} +0 +0 ' "... all its events"
done
for args in "$tmp/written/guest $tmp/second-written" "$tmp/second-written $tmp/written/guest"; do
	# shellcheck disable=SC2086 # two names
	run "$kvmft" merge --clock host-tsc "$tmp/written/host" $args
	status_is 0 "... both boots, merge"
	is "$(order .)" "1 0" "... no line out of order"
	is "$(grep '^syn#' "$out" | grep -vc ' EPOCH ')" "$(sed -nE 's/.* ([0-9]+) guest events checked, 0 outside.*/\1/p' "$err" |
		awk '{ n += $1 } END { print n }')" "... and every event of both is inside"
done

# What stands before the first known epoch has the place of the first event that has one.
pair unplaced --ms 50
awk '/^begin tsc=/ { print "begin tsc=1000040000000"; next } 1' "$tmp/unplaced/host/meta" >"$tmp/meta" &&
	cp "$tmp/meta" "$tmp/unplaced/host/meta"
run "$kvmft" merge --clock host-tsc --side guest "$tmp/unplaced/host" "$tmp/unplaced/guest"
is "$(awk 'function time(i) { for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+[?]?$/ && length($i) > 8) return $i }
	{ t = time() } t ~ /[?]/ { u++; if (t + 0 < 1000040000000) bad++; next }
	{ n++ } END { print (u > 100), (n > 100), bad + 0 }' "$out")" "1 1 0" \
	"unplaced stamps are where the first placed one is"

# A guest that moved: each host's windows hold the events that happened on it; the other ones are not
# checked. All the guest's TSC goes on.
pair moved --migrate "$tmp/host2" --ratio 3474161823 --frac 32
for host in "$tmp/moved/host" "$tmp/host2"; do
	run "$kvmft" verify "$host" "$tmp/moved/guest"
	status_is 0 "a guest that was migrated: aligned with $(basename "$host")"
	out_has '^  all +[1-9][0-9]{3} +0 +[1-9][0-9]{3} ' "... about half of its events"
done

# Both hosts on one time line, linked by the guest's TSC, which went on.
both()
{
	cmd=$1
	shift
	run "$kvmft" "$cmd" --host "$tmp/host2" "$@" "$tmp/moved/host" "$tmp/moved/guest"
}
both verify
status_is 0 "both hosts: aligned"
out_has '^syn: aligned within 1[45][0-9][0-9] cycles' "... with the same bound"
out_has '^  all +[1-9][0-9]{3} +0 +0 ' "... all events checked"
out_has '^  on host#1 +[1-9][0-9]{3} +0 +0 ' "... a part on the first host"
out_has '^  on host#2 +[1-9][0-9]{3} +0 +0 ' "... and one on the second"
both verify --format json
is "$(grep -oE '"host":"host#[12]"' "$out" | tr -d '\n')" '"host":"host#1""host":"host#2"' "... in JSON as well"
both merge
status_is 0 "both hosts: merge"
is "$(awk '{ for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+[.][0-9]+[?]?$/) { if ($i ~ /[?]/ || $i + 0 < last) bad++
	last = $i + 0; n++; break } } END { print (n > 2000), bad + 0 }' "$out")" "1 0" "... in order"
is "$(awk '$1 == "host#2" && !first { first = NR } $1 == "host#1" { last = NR } END { print (first > 0 && last - first < 50) }' \
	"$out")" 1 "... the second host's events follow the first one's"
both merge --clock guest-tsc --side guest
stamps=$(awk '{ for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+$/ && length($i) > 8) { print $i; break } }' "$out" | cksum)
run "$kvmft" merge --clock guest-tsc --side guest "$tmp/moved/host" "$tmp/moved/guest"
is "$(awk '{ for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+$/ && length($i) > 8) { print $i; break } }' "$out" | cksum)" "$stamps" \
	"... in guest TSC, the guest's stamps"
TZ=UTC both merge --clock realtime --side host
status_is 0 "... in realtime, by each host's own readings"
is "$(awk '{ split($0, a, / 2026-[0-9-]* /); split(a[2], t, " "); if (!a[2] || t[1] < last) bad++; last = t[1]; n++ }
	END { print (n > 1000), bad + 0 }' "$out")" "1 0" "... in order"
for clock in host-tsc mono boot; do
	both merge --clock $clock
	status_is 2 "--clock $clock of two hosts"
	err_has 'of two hosts are unrelated: use guest-tsc' "... why not, and what else"
done
both verify --solve
status_is 2 "--solve with two hosts: wrong usage"
run "$kvmft" merge --host "$tmp/host2" "$tmp/moved/host"
status_is 2 "two hosts without a guest: wrong usage"
cp -r "$tmp/moved/host" "$tmp/hosttwo"
sed -i 's/^vm .*/&\nvm id=77-7 pid=77 fd=7 name=two vmm=test/' "$tmp/hosttwo/meta"
cp -r "$tmp/moved/guest" "$tmp/guesttwo"
run "$kvmft" merge --host "$tmp/host2" "$tmp/hosttwo" "$tmp/moved/guest=syn" "$tmp/guesttwo=two"
status_is 2 "two hosts with guests of two VMs: wrong usage"
err_has 'the TSC of one guest links both hosts: give the captures of syn and those of two in separate runs' "... why, and what else"
sed -i 's/uuid=6b766d66[^ ]*/uuid=00000000-0000-0000-0000-000000000000/' "$tmp/host2/meta"
both merge
status_is 1 "the second host does not know the VM"
err_has 'has no VM with the UUID or name of syn' "... is reported"

# ---- what cannot be told ----

cp -r "$tmp/plain" "$tmp/noentry"
sed -i '/ name=kvm_entry/d' "$tmp/noentry/host/meta"
verify noentry
status_is 4 "no kvm_entry on the host: exit 4"
out_has 'record the host with -e kvm:kvm_entry' "... and what to record"
cp -r "$tmp/plain" "$tmp/empty"
rm -r "$tmp/empty/guest/seg000000"
verify empty
status_is 4 "no events of the guest: exit 4"
cp -r "$tmp/plain" "$tmp/noend"
sed -i '$d' "$tmp/noend/host/meta"
verify noend
status_is 3 "aligned, but a capture was cut short: exit 3"
out_has '^syn: aligned' "... it is aligned"
err_has 'cut short' "... what is missing is named"
run "$kvmft" verify "$tmp/plain/host"
status_is 2 "without a guest: wrong usage"
run "$kvmft" verify "$tmp/plain/host" "$tmp/nothing"
status_is 1 "no such guest capture"
err_one_line "no such guest capture"
run "$kvmft" verify --format xml "$tmp/plain/host" "$tmp/plain/guest"
status_is 2 "no such format"

# merge prints the same proof.
run "$kvmft" merge "$tmp/plain/host" "$tmp/plain/guest"
err_has 'alignment of syn: [0-9]+ guest events checked, 0 outside .*; slack -1500 cycles .* / \+1500 cycles' \
	"merge: its line says the same"

# ---- a guest that was recorded before its host ----

# The pvclock record that it read then still holds when the host begins to tell, at 4000: kvmclock is 70000 ns at TSC 1000.
mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
{
	grep '^meta' "$top/tests/golden/latency-host.txt"
	echo "0 5000 101 kvm_entry vcpu_id=0"
	echo "0 9000 101 kvm_exit exit_reason=1 isa=1"
} >"$tmp/late.txt"
# early NAME STAMP: a guest with one event
early()
{
	{
		grep '^meta' "$top/tests/golden/latency-guest.txt"
		echo "meta time tsc=2000 width=0 mono_raw=1 mono=1 boot=1 real=1"
		echo "meta sched kvm_sched_clock_offset=0 kernel_sched_clock_offset=0 is_tsc=0 source=kprobe"
		echo "meta pvclock cpu=0 version=6 tsc_timestamp=1000 system_time=70000 mul=2147483648 shift=1 flags=1"
		echo "0 $2 77 irq:irq_handler_entry irq=30"
	} >"$tmp/$1.txt"
	"$mkcap" --capture "$tmp/$1" "$tmp/$1.txt"
}
"$mkcap" --capture "$tmp/late" "$tmp/late.txt"
sed -i 's/^begin tsc=0$/begin tsc=4000/' "$tmp/late/meta"
early tsc 6000
early local 75500
sed -i 's/^ring clock=x86-tsc/ring clock=local/' "$tmp/local/meta"
run "$kvmft" merge -q --clock kvmclock "$tmp/late" "$tmp/tsc=one"
is "$(awk '{ printf "%s ", $1 ~ /host/ ? $5 : $4 }' "$out")" "0.000074000 0.000075000 0.000078000 " "kvmclock: all have times"
run "$kvmft" merge -q --clock host-tsc "$tmp/late" "$tmp/local=one"
is "$(awk '$1 == "one" { print $4 }' "$out")" 6500 "... and an event in the guest's local clock has its place"
run "$kvmft" verify "$tmp/late" "$tmp/local=one"
out_has '^one: aligned' "... it is aligned"
cp -R "$tmp/late" "$tmp/nowhere"
sed -i -E 's/^(vcpu .* offset=)[0-9-]+/\19000000000000000000/' "$tmp/nowhere/meta"
run "$kvmft" merge "$tmp/nowhere" "$tmp/local=one"
status_is 4 "a recorded offset by which no event in the local clock has a place, and which no event can replace"
err_has '^kvmft merge: one: none of its events has a place: the recorded TSC offset is not the guest.s, or it is of another time' \
	"... which is said"
# Nor does any other command succeed as if it had seen that guest.
"$mkcap" --capture "$tmp/also" "$tmp/late.txt"
sed -i 's/^begin tsc=0$/begin tsc=4000/' "$tmp/also/meta"
sed -i -E 's/^(vcpu .* offset=)[0-9-]+/\1-50000/' "$tmp/also/meta"
run "$kvmft" merge "$tmp/also" "$tmp/local=one"
status_is 4 "... by which all are after the host's recording"
err_has '^kvmft merge: one: none of its events has a place in the time that the host recorded: ' "... which is said"
for what in blame "latency all" stuck clock verify "export --to json" "export --to sqlite" diff; do
	set -- "$tmp/nowhere" "$tmp/local=one"
	case $what in
	stuck) set -- -i "$@" ;;
	export*) set -- -i "$1" -o "$tmp/nowhere-out.$$" --force "$2" ;;
	diff) set -- "$1,$2" "$1,$2" ;;
	esac
	# shellcheck disable=SC2086 # words
	run "$kvmft" $what "$@"
	status_is 4 "$what of it"
	[ "${what#verify}" ] || continue
	err_has 'one: none of its events has a place: the recorded TSC offset' "... says so, too"
done
# A guest that lies about its clock is silent about itself alone: its capture is of another time, or in a clock that
# leads nowhere. What is said of the other VM is what is said beside one that does not lie.
golden=$top/tests/golden
awk '{ print } /^(meta|[0-9])/ { gsub(/id=1/, "id=11"); gsub(/id=55/, "id=155"); gsub(/vm=1/, "vm=11"); sub(/name=one/, "name=two") }
	/^meta/ { print } /^[0-9]/ { $1 += 2; $3 = 1 $3; print }' "$golden/latency-host.txt" >"$tmp/both.txt"
ok "a host of two VMs" "$mkcap" --capture "$tmp/both" "$tmp/both.txt"
ok "... the guest of one" "$mkcap" --capture "$tmp/one" "$golden/latency-guest.txt"
for of in sound apart nowhere; do
	awk -v by="$([ $of = sound ] || echo 2000000000)" '/^[0-9]/ { $2 += by } { print }' "$golden/latency-guest.txt" >"$tmp/$of.txt"
	"$mkcap" --capture "$tmp/$of" "$tmp/$of.txt"
	[ $of != nowhere ] || cp "$tmp/local/meta" "$tmp/nowhere/meta"
	for what in "blame -q --budget 1us --vm one" "latency -q all --worst 0 --format csv"; do
		# shellcheck disable=SC2086 # words
		run "$kvmft" $what "$tmp/both" "$tmp/one=one" "$tmp/$of=two"
		case $of:$what in
		*:blame*) status_is 1 "$what beside a guest that is $of: over the budget" ;;
		sound:*) status_is 0 "$what beside a guest that is $of" ;;
		*) status_is 3 "$what beside a guest that is $of" ;;
		esac
		[ $of = sound ] || err_has '^kvmft: two: none of its events has a place' "... which is said"
		[ "${what#blame}" = "$what" ] || is "$(grep -c 'the stamps of two' "$out")" 0 "... of whom --vm one says nothing"
		grep one "$out" >"$tmp/$of.${what%% *}"
		ok "... and the other is told of as before" cmp "$tmp/sound.${what%% *}" "$tmp/$of.${what%% *}"
	done
done
# Whatever else it says of itself, in a session it is left out alone; named by hand it is an error.
mkdir "$tmp/s"
cp -R "$tmp/both" "$tmp/s/host"
cp -R "$tmp/one" "$tmp/s/one"
printf 'kvmft-session version=1\nside name=host dir=host role=host\nside name=one dir=one role=guest vm=one\nside name=two dir=two role=guest vm=two\n' \
	>"$tmp/s/session"
for of in side=host version=2 endian=big clock=frob arch=vax begin=x; do
	rm -rf "$tmp/s/two"
	cp -R "$tmp/sound" "$tmp/s/two"
	case $of in
	side=*) set -- 's/^side name=.*/side name=host/' 'is the capture of a host, not of a guest' ;;
	begin=*) set -- '1s/^kvmft-/x/' 'not a kvmft capture' ;;
	version=*) set -- "s/version=1$/$of/" 'format version 2' ;;
	*) set -- "s/\(${of%=*}\)=[^ ]*/$of/" 'clock|big-endian|recorded on vax' ;;
	esac
	sed -i "$1" "$tmp/s/two/meta"
	for what in "blame -q --budget 1us --vm one" "latency -q all --worst 0 --format csv"; do
		# shellcheck disable=SC2086 # words
		run "$kvmft" $what "$tmp/s"
		case $what in
		blame*) status_is 1 "$what beside a guest that says $of: over the budget" ;;
		*) status_is 3 "$what beside a guest that says $of" ;;
		esac
		err_has "^kvmft: .*s/two.*($2).*; the other guests are shown without this one" "... which is said"
		grep one "$out" >"$tmp/now"
		ok "... and the other is told of as before" cmp "$tmp/sound.${what%% *}" "$tmp/now"
		# shellcheck disable=SC2086 # words
		run "$kvmft" $what "$tmp/both" "$tmp/one=one" "$tmp/s/two=two"
		ok "... by hand it is an error" test "$rc" = 1 -o "$rc" = 4
		ok "... and nothing else" test ! -s "$out"
	done
	case $of in
	version=* | endian=* | begin=*) run "$kvmft" report --by rip -i "$tmp/s" && status_is 3 "report --by rip beside it" ;;
	esac
done
# ... or that it is another VM. Whom the session names is believed; else nobody knows who lies.
n=00000000-0000-0000-0000-00000000000
rm -rf "$tmp/s/two"
cp -R "$tmp/sound" "$tmp/s/two"
cp -R "$tmp/sound" "$tmp/s/three"
sed -i "s/name=one/& uuid=${n}1/; s/name=two/& uuid=${n}2/" "$tmp/s/host/meta"
sed -i "s/^machine /&uuid=${n}1 /" "$tmp/s/one/meta" "$tmp/s/two/meta"
sed -i "s/^machine /&uuid=${n}2 /" "$tmp/s/three/meta"
for sides in "one=one two" "two one=one" "one two three"; do
	{
		printf 'kvmft-session version=1\nside name=host dir=host role=host\n'
		for g in $sides; do
			echo "side name=${g%=*} dir=${g%=*} role=guest$(echo "$g" | sed -n 's/.*=/ vm=/p')"
		done
	} >"$tmp/s/session"
	run "$kvmft" latency -q all --worst 0 --format csv "$tmp/s"
	status_is 3 "guests that say that they are the same VM: $sides"
	err_has 's/two says that it is the same VM as .*s/one, one; .*s/two=SEL names its own; the other guests are shown without' "... which is said"
	case $sides in
	*three) grep two "$out" >"$tmp/now"; sed 's/one/two/' "$tmp/sound.latency" >"$tmp/wanted" ;;
	*) grep one "$out" >"$tmp/now"; cp "$tmp/sound.latency" "$tmp/wanted" ;;
	esac
	ok "... and another is told of as before" cmp "$tmp/wanted" "$tmp/now"
done
rm -rf "$tmp/s/one" "$tmp/s/three"
printf 'kvmft-session version=1\nside name=host dir=host role=host\nside name=one dir=one role=guest\nside name=two dir=two role=guest\n' >"$tmp/s/session"
sed -i '1s/^/x/' "$tmp/s/two/meta"
run "$kvmft" latency -q all "$tmp/s"
status_is 1 "a session whose only guest cannot be read"
# Without what a command needs; and with more kvmclock records than are kept, of vCPUs that are claimed.
cp -R "$tmp/sound" "$tmp/less"
sed -i 's/name=sched_switch/name=none/' "$tmp/less/meta"
run "$kvmft" report --by task --vm one --format csv "$tmp/both" "$tmp/one=one" "$tmp/sound=two"
status_is 0 "report --by task"
mv "$out" "$tmp/tasks"
run "$kvmft" report --by task --vm one --format csv "$tmp/both" "$tmp/one=one" "$tmp/less=two"
status_is 3 "report --by task beside a guest without sched_switch"
err_has 'less: not recorded: sched_switch' "... which is said"
ok "... and the other is told of as before" cmp "$tmp/tasks" "$out"
cp -R "$tmp/both" "$tmp/many"
awk '{ print } /^vcpu vm=1100-12 id=0/ { for (i = 1; i < 700; i++) print "vcpu vm=1100-12 id=" i " tid=" 5000 + i " offset=0 ratio=0 frac=48" }' \
	"$tmp/both/meta" >"$tmp/many/meta"
cp -R "$tmp/sound" "$tmp/clocks"
awk '/^end/ { for (i = 1; i < 500; i++) print "pvclock cpu=0 version=" 2 * i " tsc_timestamp=" i * 100 " system_time=" i * 100 " mul=2147483648 shift=1 flags=1" }
	{ print }' "$tmp/sound/meta" >"$tmp/clocks/meta"
run "$kvmft" merge -q "$tmp/many" "$tmp/one=one" "$tmp/clocks=two"
status_is 3 "more kvmclock records than are kept"
err_has '^kvmft: two: more kvmclock records than are kept: from there on none is known' "... which is said"
# A guest whose TSC is not KVM's: what debugfs says is not its offset. It is found as if nothing had been said.
n=0
for ratio in 0/0 300000000000000/48 5153960755/32; do
	case $ratio in
	0/0) set -- ;;
	*) set -- --ratio "${ratio%/*}" --frac "${ratio#*/}" ;;
	esac
	rm -rf "$tmp/right" "$tmp/theirs"
	"${mkcap%mkcap}genpair" --host "$tmp/right" --guest "$tmp/theirs" --ms 40 --seed $((7 + n)) "$@"
	for what in merge verify; do
		"$kvmft" $what --solve "$tmp/right" "$tmp/theirs" >"$tmp/want.$what" 2>"$tmp/want.err"
	done
	asked="merge verify"
	if [ "$ratio" = 0/0 ]; then # blame has no --solve: a recording that has no offset; that of a ratio would have none either
		asked="$asked blame"
		cp -R "$tmp/right" "$tmp/absent"
		sed -i -E 's/^(vcpu .*) offset=[0-9-]+/\1/' "$tmp/absent/meta"
		"$kvmft" blame "$tmp/absent" "$tmp/theirs" >"$tmp/want.blame" 2>"$tmp/want.err"
	fi
	for offset in 0 77 -899000000000 9000000000000000000; do
		n=$((n + 1))
		rm -rf "$tmp/bogus"
		cp -R "$tmp/right" "$tmp/bogus"
		sed -i -E "s/^(vcpu .* offset=)[0-9-]+/\\1$offset/" "$tmp/bogus/meta"
		for what in $asked; do
			run "$kvmft" $what "$tmp/bogus" "$tmp/theirs"
			status_is 0 "ratio $ratio, recorded offset $offset: $what"
			err_has "theirs: the recorded TSC offset is not the guest's: " "... which is said"
			# shellcheck disable=SC2016 # of that shell
			ok "... its answer is what --solve has, or no offset at all, to the byte" sh -c 'test -s "$1" && cmp "$1" "$2"' sh "$out" "$tmp/want.$what"
		done
	done
done
"$kvmft" merge "$tmp/right" "$tmp/theirs" >"$out" 2>"$err"
is "$(grep -c 'recorded TSC offset' "$err")" 0 "one that fits is used"
run "$kvmft" verify "$tmp/bogus" "$tmp/theirs"
status_is 0 "verify proves the one that is found"
out_has "^  solved: TSC offset -?[0-9]+" "... which it shows"
err_has "theirs: the recorded TSC offset is not the guest's: " "... with why"
run "$kvmft" verify "$tmp/nosuch"
status_is 1 "one operand that is not there"
err_has "cannot open .*/nosuch: No such file" "... which is what is wrong with it"
finish
