#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Two guests at once, with 2 and 4 vCPUs, on kvm-clock and on the TSC, each recorded in its TSC and in
# its local clock at the same time; one has a TSC written and is rebooted: all during one recording of
# the host. All of it is aligned, errors are found, and offsets are found in the data.

. "$(dirname "$0")/tap.sh"

rig verify --host-cpus 3 --timeout 600

h=$rig/host
captures="vm1firsttsc vm1firstlocal vm1secondtsc vm1jump vm2firsttsc vm2firstlocal"

# Each by itself.
for capture in $captures; do
	run "$kvmft" merge --side guest "$h" "$rig/$capture"
	status_is 0 "$capture: merge"
	err_has 'alignment of vm[12]: [1-9][0-9]{2,} guest events checked, 0 outside' "$capture: none outside"
	grep alignment "$err" | sed 's/^/# /'
done

# All on one time line: three captures of vm1 before its reboot, one after it, and vm2.
# shellcheck disable=SC2046 # names made here
run "$kvmft" merge $(for capture in host $captures; do echo "$rig/$capture"; done)
status_is 0 "all at once: merge"
for side in vm1#1 vm1#2 vm1#3 vm1#4 vm2#1 vm2#2; do
	err_has "alignment of $side: [1-9][0-9]{2,} guest events checked, 0 outside" "all at once: $side, none outside"
done
is "$(awk '{ for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+[.][0-9]+[?]?$/) { if ($i + 0 < last) bad++
	last = $i + 0; n++; break } } END { print (n > 10000), bad + 0 }' "$out")" "1 0" "all at once: no line out of order"
is "$(awk '$1 == "vm1#3" && !first { first = NR } $1 ~ /^vm1#[124]$/ { last = NR } END { print (first > last && last > 0) }' \
	"$out")" 1 "all at once: the second boot comes after all of the first"
is "$(grep -c ' EPOCH .*TSC offset' "$out" | awk '{ print ($1 >= 8) }')" 1 "all at once: epochs of the write and the reboot are lines"

for capture in $captures; do
	sums_of "$capture" all "$h" "$rig/$capture"
done

# Errors: whatever is more than the slack is found by the windows, and all else, 20 us to either side
# included, by the offset that the host recorded.
khz=$(sed -n 's/^tsc khz=\([0-9]*\).*/\1/p' "$h/meta")
us20=$((khz * 20 / 1000))
wrong_and_solved()
{
	run "$kvmft" verify "$h" "$rig/$1"
	status_is 0 "$1: verify"
	early=$(sed -n 's/.*moved by more than -\([0-9]*\) cycles.*/\1/p' "$out")
	late=$(sed -n 's/.*moved by more than .* or +\([0-9]*\) cycles.*/\1/p' "$out")
	echo "# slack of $1: -${early:-none} +${late:-none} cycles; 20 us are $us20"
	ok "$1: the slack is less than 100 us" test $((${early:-999999} + ${late:-999999})) -lt $((us20 * 10))
	for error in $early -$late; do
		run "$kvmft" verify --tsc-offset $(($2 + error)) "$h" "$rig/$1"
		status_is 1 "$1: an error of $error cycles contradicts what the host recorded"
		out_has ': misaligned: the windows hold, but' "$1: ... and nothing else"
	done
	for error in $((early + 1)) -$((late + 1)); do
		run "$kvmft" verify --tsc-offset $(($2 + error)) "$h" "$rig/$1"
		status_is 1 "$1: one of $error cycles does"
	done
	for error in $us20 -$us20; do
		run "$kvmft" verify --tsc-offset $(($2 + error)) "$h" "$rig/$1"
		status_is 1 "$1: an error of $error cycles is found"
	done
	run "$kvmft" verify --solve "$h" "$rig/$1"
	status_is 0 "$1: solved"
	found=$(sed -n 's/.*solved: TSC offset \(-\{0,1\}[0-9]*\).*/\1/p' "$out" | head -n 1)
	diff=$((${found:-0} - $2))
	ok "$1: the true offset, within the slack ($diff cycles)" test $diff -le $((early + late)) -a $((-diff)) -le $((early + late))
	out_has 'outside: unique' "$1: and no other"
}

wrong_and_solved vm1firsttsc "$(fact vm1_offset)"
wrong_and_solved vm1secondtsc "$(fact vm1_offset2)"
wrong_and_solved vm2firsttsc "$(fact vm2_offset)"

run "$kvmft" merge --clock host-tsc "$h" "$rig/vm1jump"
is "$(awk '/kvm_write_tsc_offset: vcpu=0 / { w = NR } /^vm1 .*\[v0\]/ && !/EPOCH/ { if (w) after++; else before++ }
	END { print (before > 10 && after > 10) }' "$out")" 1 "TSC written: events of vCPU 0 before and after"

# Where no event shows the write, the others do: vCPU 0 has one offset before it and another one after.
run "$kvmft" verify --solve "$h" "$rig/vm1jump"
status_is 0 "TSC written: solved in parts"
out_has '^  vCPU 0: its TSC offset changed$' "... is reported"
is "$(sed -n 's/^  vCPU 0: solved: TSC offset \(-*[0-9]*\), from .*/\1/p' "$out" |
	awk -v first="$(fact vm1_offset)" '{ d = $1 - first } NR == 1 { ok = d > -250000 && d < 250000 }
	NR == 2 { ok = ok && d > 1e9 } END { print NR, ok + 0 }')" "2 1" "... the first part has debugfs' offset, the second one a later one"

# A pair of trace.dat without kvmft's facts: verify with what a user of trace-cmd has at hand.
run "$kvmft" export -q -i "$h" -o "$tmp/pair.dat" "$rig/vm2firsttsc"
status_is 0 "export as a pair of trace.dat"
run "$kvmft" verify --tsc-offset 0 "$tmp/pair.dat" "$tmp/pair-vm2.dat=vm2"
status_is 0 "... verify: aligned"
run "$kvmft" verify --tsc-offset $((us20 * 10)) "$tmp/pair.dat" "$tmp/pair-vm2.dat=vm2"
status_is 1 "... and not with another offset"
finish
