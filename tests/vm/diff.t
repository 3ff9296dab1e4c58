#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What `kvmft diff` says of recordings of a steady guest where one thing was changed; and, in intel-diff.t, of 20
# pairs that are equal. Time is made of instructions there; QEMU's emulated machine is as fast as others leave it,
# so that two recordings are equal only where nothing else runs.

. "$(dirname "$0")/tap.sh"

recordings=${DIFF_EQUAL:-2}
rig diff --timeout "${DIFF_TIMEOUT:-560}" --env "DIFF_EQUAL=$recordings"

# changed A B: "NAME,MEASURE +" or "-" of each row beyond noise
changed()
{
	run "$kvmft" diff "$rig/$1" "$rig/$2" --format csv
	awk -F, 'NR > 1 { print $2 "," $3, ($6 > $5 ? "+" : "-") }' "$out"
}

# leads TEXT ROW NUMBER: a row that fits is among so many first ones.
leads()
{
	at=$(changed "$last" "$what" | grep -nEi "^($2)\$" | head -n 1 | cut -d : -f 1)
	ok "$what: $1 (row ${at:-none}, to be among the first $3)" test "${at:-1000}" -le "$3"
}

# shown NAME: as people see it
shown()
{
	what=$1
	run "$kvmft" diff "$rig/$last" "$rig/$what"
	status_is 0 "$what: exit 0"
	sed 's/^/# /' "$out"
}

# ---- two by two the same ----

last=equal$recordings
pairs=0
alarms=0
for i in $(seq 1 2 "$recordings"); do
	next=$((i + 1))
	run "$kvmft" diff "$rig/equal$i" "$rig/equal$next"
	pairs=$((pairs + 1))
	if [ "$rc" = 0 ] && grep -q '^no difference beyond noise$' "$out"; then
		continue
	fi
	alarms=$((alarms + 1))
	sed "s/^/# equal$i, equal$next: /" "$out" "$err"
done
if on_intel; then
	ok "of $pairs pairs that are the same $alarms differ" test $((alarms * 20)) -le $pairs
fi

# ---- one thing changed ----
#
# Of 80 to 90 rows. Some stand before the one that names the cause: vCPUs that poll take the emulator's one CPU from
# those that would run, so that timers are late, which is no less true.

if on_intel; then
	shown cpupm
	leads "guests halt without an exit" "HLT,rate -" 3
	finish
	exit
fi
shown poll
out_has '^differs kvm\.halt_poll_ns: 0, then 10000000$' "poll: the parameter is told"
leads "vCPUs poll" "exits: polling,share \\+" 12
leads "... instead of sleeping" "exits: asleep,share -" 16
shown slack
leads "timers fall together" "timer total,rate -" 12
leads "... and guests halt less often" "hlt,rate -" 12
leads "... for longer" "hlt,(mean|p50) \\+" 6
shown xapic
leads "the APIC is memory, which exits for it" "npf,rate \\+" 16
finish
