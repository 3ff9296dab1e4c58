#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# A Linux guest that takes KVM for Hyper-V: its timers, IPIs and hypercalls, and the profiles of kvmft record.

. "$(dirname "$0")/tap.sh"

rig hyperv --timeout 300

echo "# hypervisor: $(fact hypervisor); timer: $(fact clockevent)"
run "$plain" merge "$rig/host-default" "$rig/guest"
err_has ' 0 outside' "the guest lies on the host's line"
run "$plain" report --event msr "$rig/host-default"
out_has '0x400000b[01]:W HV_X64_MSR_STIMER0_CO' "writes to its timer have a name"
run "$plain" report --event hypercall "$rig/host-default"
out_has 'hv:0x[0-9a-f]+ HvCall' "and so have its hypercalls"

# field TABLE ROW COLUMN: of the CSV of the last run
field() { awk -F, -v row="$2" -v col="$3" '$1 == "'"$1"'" && index($3, row) && $4 == "total" { n += $col } END { print n + 0 }' "$out"; }
run "$plain" latency timer,irq --all --format csv -q "$rig/host-default"
status_is 0 "latency of the host alone"
n=$(field timer "Hyper-V timer 0" 5)
echo "# $n synthetic timers measured; IPIs $(field irq IPI 5), stimer interrupts $(field irq stimer 5)"
ok "hundreds of synthetic timers are measured" test "$n" -ge 200
ok "... and their interrupts have that source" test "$(field irq stimer 5)" -ge "$((n * 9 / 10))"
ok "IPIs by hypercall are measured" test "$(field irq IPI 5)" -ge 1
run "$plain" latency timer --format json -q "$rig/host-default"
for profile in default lean; do
	echo "# $profile: $(grep 'an exit took' "$rig/$profile.err")"
	ok "$profile: what it cost is printed" grep -qE 'an exit took [0-9.]+ events and [0-9]+ bytes, and this ring at most [0-9]+\b.* in all [0-9.]+ % of a CPU' \
		"$rig/$profile.err"
done
bytes() { sed -n 's/.* events and \([0-9]*\) bytes.*/\1/p' "$rig/$1.err"; }
ok "a lean recording has at most 60 % of the bytes" test "$(($(bytes lean) * 10))" -le "$(($(bytes default) * 6))"
ok "... and an exit at most 130 bytes" test "$(bytes lean)" -le 130

# ---- stalls, without anything in the guest ----

run "$plain" blame --what stall --than 0 --top 1000 --format json -q "$rig/host-default"
status_is 0 "blame of the host alone"
n=$(jq '[.spikes[] | select(.of | test("in the handler of vector"))] | length' "$out")
echo "# $n of $(jq '.spikes | length' "$out") stalls are in the handler of an interrupt"
ok "some stalls are in the handler of an interrupt, and not all" test "$n" -ge 1 -a "$n" -lt "$(jq '.spikes | length' "$out")"

finish
