#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A real host and a real guest, recorded at the same time, merged and checked.

. "$(dirname "$0")/tap.sh"

rig align --timeout 150

merge()
{
	run "$kvmft" merge "$@" "$rig/host" "$rig/guest"
}

# count PATTERN: lines of the time line that match.
count_lines()
{
	grep -cE "$1" "$out"
}

merge
status_is 0 "merge exits 0"
cp "$out" "$tmp/timeline"
err_has '^kvmft: host: [1-9][0-9]* events, 0 lost' "host has events and lost none"
err_has '^kvmft: vm1: [1-9][0-9]* events, 0 lost' "guest has events and lost none"
err_has 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside' "no guest event outside"
sed 's/^/# /' "$err"
is "$(awk '$1 == "host" { h++ } $1 == "vm1" { g++ } END { print (h > 1000 && g > 1000) }' "$out")" 1 \
	"more than 1000 lines of each side"

# TIME is the first word that is a number with a decimal point.
is_time='function is_time(s) { return s ~ /^[0-9]+[.][0-9]+[?]?$/ }
'
is "$(awk "$is_time"'{ n = 0; for (i = 3; i <= NF; i++) if (is_time($i)) { t = $i + 0; n = 1; break }
	if (!n || t < last) bad++; last = t } END { print (NR ? bad + 0 : "no lines") }' "$out")" 0 "lines are in order of time"

# The host serves the guest's rdmsr 0x11, then the guest has its value: this order, and close.
is "$(awk "$is_time"'/kvm:kvm_msr: msr_read 11 / { for (i = 3; i <= NF; i++) if (is_time($i)) t = $i; h++ }
	/msr:read_msr: 11, / { for (i = 3; i <= NF; i++) if (is_time($i)) g = $i;
		n++; if (!t || g <= t || g - t >= 0.005) bad++; t = 0 }
	END { print ((h == n && n > 0) ? bad + 0 : "host " h " guest " n) }' "$out")" 0 \
	"each rdmsr: host before guest by less than 5 ms"

is "$(count_lines 'block:block_rq_issue')" "$(count_lines 'block:block_rq_complete')" \
	"every block request issued was completed"

merge --clock host-tsc
status_is 0 "merge in host TSC"
merge --clock guest-tsc
status_is 0 "merge in guest TSC"
merge --clock kvmclock
status_is 0 "merge in kvmclock"

offset=$(fact tsc_offset)
merge --tsc-offset "$offset"
err_has ', 0 outside' "the offset of debugfs given by hand: none outside"
for error in 150000 -150000; do
	merge --tsc-offset $((offset + error))
	err_has 'MISALIGNED' "an offset wrong by $error cycles is detected"
done

# The slack, and what it is worth: beyond it every error is found, and the offset is in the data.
verify()
{
	run "$kvmft" verify "$@" "$rig/host" "$rig/guest"
}
verify
status_is 0 "verify: aligned"
out_has '^vm1: aligned within [0-9]+ cycles' "verify: says how well"
out_has '^  (tsc_deadline|icr|rdmsr_0x11) +[1-9][0-9]* +0 ' "verify: pairs by value, none reversed"
sed 's/^/# /' "$out"
early=$(sed -n 's/.*moved by more than -\([0-9]*\) cycles.*/\1/p' "$out")
late=$(sed -n 's/.*moved by more than .* or +\([0-9]*\) cycles.*/\1/p' "$out")
ok "verify: less than 100 us either way" test "${early:-999999}" -lt 250000 -a "${late:-999999}" -lt 250000
for error in $((early + 500)) -$((late + 500)); do
	verify --tsc-offset $((offset + error))
	status_is 1 "verify: an error of $error cycles is found"
	out_has 'the one used is wrong by about' "verify: and by how much it is wrong"
done
verify --solve
status_is 0 "verify --solve: aligned"
found=$(sed -n 's/.*solved: TSC offset \(-\{0,1\}[0-9]*\);.*/\1/p' "$out")
ok "verify --solve: debugfs' offset, within the slack ($((found - offset)) cycles)" \
	test $((found - offset)) -le $((early + late)) -a $((offset - found)) -le $((early + late))
out_has 'outside: unique' "verify --solve: no other offset would do"

run "$kvmft" merge "$rig/host" "$rig/guest=vm1"
status_is 0 "VM named"
run "$kvmft" merge "$rig/host" "$rig/guest=nosuch"
status_is 1 "VM that does not exist"
err_has 'vm1' "... and the candidates are listed"
run "$kvmft" merge "$rig/guest" "$rig/host"
status_is 1 "host and guest mixed up"

# ---- the pair in the formats of other tools ----

run "$kvmft" merge -q --format json "$rig/host" "$rig/guest"
status_is 0 "merge as JSON"
is "$(grep -c '"kind":"event"' "$out")" "$(grep -vc ' EPOCH ' "$tmp/timeline")" "... has all events"
run "$kvmft" export -q -i "$rig/host" -o "$tmp/pair.dat" "$rig/guest"
status_is 0 "export as a pair of trace.dat"
run "$kvmft" merge --tsc-offset 0 "$tmp/pair.dat" "$tmp/pair-vm1.dat=vm1"
err_has 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside' "... which aligns like the captures"
if command -v trace-cmd >/dev/null; then
	trace-cmd report -t -i "$tmp/pair.dat" -i "$tmp/pair-vm1.dat" >"$tmp/both" 2>"$tmp/both.err"
	is "$? $(cat "$tmp/both.err")" "0 " "trace-cmd reads the pair without a word"
	is "$(($(wc -l <"$tmp/both") - 2))" "$(grep -vc ' EPOCH ' "$tmp/timeline")" "... with all events"
	run "$kvmft" export -q --time-shift -i "$rig/host" -o "$tmp/shift.dat" "$rig/guest"
	status_is 0 "export with TIME_SHIFT"
	trace-cmd report -t "$tmp/pair-vm1.dat" >"$tmp/a" 2>&1
	trace-cmd report -t "$tmp/shift-vm1.dat" >"$tmp/b" 2>&1
	ok "... trace-cmd shifts to the same times" cmp "$tmp/a" "$tmp/b"
else
	skip "trace-cmd reads the pair" "no trace-cmd"
fi
run "$kvmft" export -q -i "$rig/host" --to perfetto -o "$tmp/pair.pf" "$rig/guest"
status_is 0 "export for Perfetto"
if command -v protoc >/dev/null; then
	protoc --decode=Trace -I "$top/tests/data" perfetto.proto <"$tmp/pair.pf" 2>"$tmp/protoc.err" |
		perl "$top/tests/cli/perfetto.pl" >"$out" 2>&1
	is "$(cat "$tmp/protoc.err")" "" "... protoc reads it"
	out_has '^bad in all: 0$' "... all of it makes sense"
	out_has "^arrows from a vCPU to a guest's CPU: [1-9][0-9][0-9]" "... interrupts are arrows into the guest"
	out_has '^track guest vm1 / tasks / ' "... the guest's tasks have tracks"
else
	skip "Perfetto" "no protoc"
fi

sums_of "the pair" all "$rig/host" "$rig/guest"
sums_of "the host alone" irq,sched,timer "$rig/host"

# Text of the captures is the same in both builds.
ok "plain build prints the same" sh -c "'$plain' merge -q '$rig/host' '$rig/guest' | cmp - '$tmp/timeline'"
finish
