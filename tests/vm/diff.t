#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# What `kvmft diff` says of recordings of a steady guest where one thing was changed: which group of rows is first,
# second, third. intel-diff.t also compares 20 pairs without a change: there time is counted in instructions. QEMU's
# emulated machine slows down when others use the CPU, so that two recordings are equal only where nothing else runs.

. "$(dirname "$0")/tap.sh"

recordings=${DIFF_EQUAL:-2}
rig diff --timeout "${DIFF_TIMEOUT:-700}" --env "DIFF_EQUAL=$recordings"

# A recording begins with a search for VMs, which keeps an emulated CPU busy for a while.
from="--from 800ms"

# changed A B: "GROUP NAME,MEASURE +" or "-" of each row beyond noise; GROUP is a number, 1 is the first
changed()
{
	# shellcheck disable=SC2086 # an option and its value
	run "$kvmft" diff $from "$rig/$1" "$rig/$2" --format csv
	awk -F, 'NR > 1 { group += $12; print group, $2 "," $3, ($6 > $5 ? "+" : "-") }' "$out"
}

# leads TEXT ROW NUMBER: a row that matches is in one of the first NUMBER groups. Other groups do not count if they are
# of halts, whose length on a busy machine is anything.
leads()
{
	at=$(changed "$last" "$what" | tr '[:upper:]' '[:lower:]' |
		row="^($(echo "$2" | tr '[:upper:]' '[:lower:]'))\$" awk '
		$2 " " $3 ~ ENVIRON["row"] { print n + ($1 != group); exit }
		$1 != group && $2 !~ /^hlt,/ { n++; group = $1 }')
	ok "$what: $1 (group ${at:-none}, to be among the first $3)" test "${at:-1000}" -le "$3"
}

# shown NAME: prints the result as a user sees it
shown()
{
	what=$1
	# shellcheck disable=SC2086
	run "$kvmft" diff $from "$rig/$last" "$rig/$what"
	status_is 0 "$what: exit 0"
	sed 's/^/# /' "$out"
}

# ---- pairs without a change ----

last=equal$recordings
pairs=0
alarms=0
for i in $(seq 1 2 "$recordings"); do
	next=$((i + 1))
	# shellcheck disable=SC2086
	run "$kvmft" diff $from "$rig/equal$i" "$rig/equal$next"
	pairs=$((pairs + 1))
	if [ "$rc" = 0 ] && grep -q '^no difference beyond noise$' "$out"; then
		continue
	fi
	alarms=$((alarms + 1))
	sed "s/^/# equal$i, equal$next: /" "$out" "$err"
done
if on_intel; then
	ok "of $pairs pairs without a change $alarms are said to differ" test $((alarms * 20)) -le $pairs
fi

# ---- one thing changed ----

# Groups, not rows: a group has all rows of one exit reason. QEMU's machine is noisy, and the time that vCPUs lose
# to that is a group of its own.
first=1
on_intel || first=3
shown slack
leads "the guest halts for longer" "hlt,(mean|p50) \\+" $first
# shellcheck disable=SC2086
ablated diff "$rig/$last" "$rig/slack" $from
shown poll
out_has '^differs kvm\.halt_poll_ns: 0, then 1(00)?0000000$' "poll: the parameter is reported"
leads "vCPUs poll" "hlt,polling \\+" 1
if on_intel; then
	leads "... instead of sleeping" "hlt,asleep -" 1
	shown cpupm
	leads "guests halt without an exit" "HLT,rate -" 2
	finish
fi
# How much there is to sleep depends on the machine; how much of it is polled does not.
# shellcheck disable=SC2086
run "$kvmft" diff $from "$rig/$last" "$rig/poll" --all --format csv
shares=$(awk -F, '$2 == "hlt" { before[$3] = $5; after[$3] = $6 }
	function share(of) { return 100 * of["polling"] / (of["polling"] + of["asleep"]) }
	END { printf "%d %d\n", share(before), share(after) }' "$out")
ok "poll: ... instead of sleeping (% of that: ${shares% *}, then ${shares#* })" \
	test "${shares% *}" -lt 20 -a "${shares#* }" -gt 60
# These exits take less time than a busy machine takes from the vCPUs: not the first groups, but they are told, and
# more of the exits are for the APIC.
shown xapic
leads "interrupts between vCPUs are hypercalls" "hypercall,rate \\+" 1000
# shellcheck disable=SC2086
run "$kvmft" diff $from "$rig/$last" "$rig/xapic" --all --format csv
shares=$(awk -F, '$3 == "rate" && $2 ~ /^(hlt|msr|cpuid|npf|hypercall)$/ {
		before[$2] = $5; after[$2] = $6; all_before += $5; all_after += $6 }
	END { printf "%d %d\n", 1000 * before["npf"] / all_before, 1000 * after["npf"] / all_after }' "$out")
ok "xapic: the APIC is memory, which exits for it (of 1000 exits: ${shares% *}, then ${shares#* })" \
	test "${shares#* }" -gt $((${shares% *} * 2))
finish
