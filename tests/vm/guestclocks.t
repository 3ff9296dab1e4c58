#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# The same moments through five trace clocks of a guest; a TSC written while recording; a guest
# whose sched_clock is the TSC.

. "$(dirname "$0")/tap.sh"

rig guestclocks --timeout 450

# stamps FILE: kvmclock ns of the guest's rdmsr events, one per line.
stamps()
{
	awk 'function is_time(s) { return s ~ /^[0-9]+[.][0-9]+[?]?$/ }
	/msr:read_msr: 11, / {
		for (i = 3; i <= NF; i++)
			if (is_time($i)) { sub(/[.]/, "", $i); print $i; break }
	}' "$1"
}

merge_clock()
{
	run "$kvmft" merge --clock kvmclock "$rig/host" "$rig/$1=vm1"
	status_is 0 "$1: merge"
	err_has "alignment of vm1: [1-9][0-9]* guest events checked, 0 outside" "$1: no event outside"
	stamps "$out" >"$tmp/$1.ns"
}

for clock in tsc1 local tsc2 global tsc3 perf tsc4 mono_raw tsc5; do
	merge_clock "$clock"
	is "$(wc -l <"$tmp/$clock.ns" | tr -d ' ')" 10 "$clock: all ten events"
	grep -h alignment "$err" | sed 's/^/# /'
done

# between BEFORE CLOCK AFTER SLACK: each stamp of CLOCK lies between the TSC readings around it, give
# or take SLACK ns, and at best it is within 2 us of their middle (a probe takes about 10 us under
# emulation, so the middle is the best guess of when CLOCK was read).
between()
{
	paste "$tmp/$1.ns" "$tmp/$2.ns" "$tmp/$3.ns" | awk -v name="$2" -v slack="$4" '
		function abs(x) { return x < 0 ? -x : x }
		{
			if ($2 < $1 - slack || $2 > $3 + slack) out++
			d = abs($2 - ($1 + $3) / 2)
			if (NR == 1 || d < best) best = d
			if (NR == 1 || $3 - $1 < width) width = $3 - $1
		}
		END {
			printf "%s: %d outside, best %d ns from the middle, narrowest %d ns\n", name, out, best, width
			exit !(NR == 10 && !out && best <= 2000 + slack)
		}' >"$tmp/between"
	result $? "$2 agrees with the TSC: between the readings around it, within 2 us at best"
	sed 's/^/# /' "$tmp/between"
}

between tsc1 local tsc2 0
between tsc2 global tsc3 0
between tsc3 perf tsc4 0
# By the kernel's own line, so as exact as the others.
between tsc4 mono_raw tsc5 0

run "$kvmft" merge --clock host-tsc "$rig/host" "$rig/jump=vm1"
status_is 0 "TSC written: merge"
err_has "checked, 0 outside" "TSC written: no event outside before and after"
sed 's/^/# /' "$err"
out_has 'kvm:kvm_write_tsc_offset: vcpu=0' "TSC written: the host saw it"
is "$(awk '/kvm_write_tsc_offset: vcpu=0 / { w = NR } /^vm1 .*read_msr: 11/ { if (w) after++; else before++ }
	END { print (before > 0 && after > 0) }' "$out")" 1 "TSC written: events of both epochs"

run "$kvmft" merge "$rig/host" "$rig/vm2=vm2"
status_is 0 "without kvmclock: merge"
err_has "alignment of vm2: [1-9][0-9]* guest events checked, 0 outside" "without kvmclock: no event outside"
for clock in local mono_raw; do
	run "$kvmft" merge "$rig/host" "$rig/vm2$clock=vm2"
	status_is 0 "without kvmclock, trace clock $clock: merge"
	err_has "alignment of vm2: [1-9][0-9]* guest events checked, 0 outside" "... no event outside"
	sed 's/^/# /' "$err"
done

# The kernel's own line of mono_raw was read and fits, on the TSC and on kvmclock; convert is exact with it.
for capture in host:tsc vm2:tsc tsc1:kvm-clock; do
	ok "mono_raw: line of ${capture%:*}, on ${capture#*:}" \
		grep -qE "^raw .* clocksource=${capture#*:} source=(vvar|kprobe)" "$rig/${capture%:*}/meta"
done
sed -n 's/^time tsc=\([0-9]*\) width=\([0-9]*\) mono_raw=\([0-9]*\).*/\1 \2 \3/p' "$rig/host/meta" |
	head -n 3 >"$tmp/brackets"
while read -r tsc width raw; do
	run "$kvmft" convert --from host-tsc --to host-mono_raw --range -i "$rig/host" "$tsc" $((tsc + width))
	is "$(awk -v raw="$raw" 'NR == 1 { first = $1; exact = $1 == $2 } { last = $2 }
		END { print exact, first <= raw && raw <= last }' "$out")" "1 1" \
		"mono_raw: what clock_gettime() said at TSC $tsc lies on the line"
done <"$tmp/brackets"
run "$kvmft" merge "$rig/host" "$rig/jump=vm1" "$rig/vm2=vm2"
status_is 0 "two guests on one time line"
err_has "alignment of vm1: .* 0 outside" "two guests: vm1 aligned"
err_has "alignment of vm2: .* 0 outside" "two guests: vm2 aligned"
sums_of "a TSC that is written" irq,sched,timer "$rig/host" "$rig/jump=vm1"
sums_of "without kvmclock" all "$rig/host" "$rig/vm2=vm2"
finish
