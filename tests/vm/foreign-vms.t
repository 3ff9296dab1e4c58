#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Pairs of many seconds: of one VM; of two on one host; of one that writes its TSC, is reset, is restarted; of
# one that begins and ends while the host is recorded.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/foreign.sh"
. "$(dirname "$0")/foreign_kvmft.sh"

rig foreign --host-cpus 3 --env "FOREIGN=plain twovms unrecorded" --timeout 600

opens plain host 7 50000
opens plain guest 7 5000
vcpu_threads plain host vm1
hides plain host vm1
hides plain guest vm1
aligned plain host guest vm1
understood plain host guest "irq sched io timer" vm1
for file in host vm1 vm2; do
	opens twovms $file 7 5000
	hides twovms $file vm1
	hides twovms $file vm2
done
vcpu_threads twovms host vm1 vm2
aligned twovms host vm1 vm1
aligned twovms host vm2 vm2
understood twovms host vm1 "irq sched io timer" vm1
understood twovms host vm2 "irq sched io timer" vm2
run "$kvmft" merge "$rig/twovms/host.dat" "$rig/twovms/vm1.dat" "$rig/twovms/vm2.dat"
status_is "$status" "twovms: both at once"
is "$(grep -cE 'alignment of .* 0 outside' "$err")" 2 "... are aligned"
run "$kvmft" merge "$rig/twovms/host.dat" "$rig/twovms/vm1.dat=pid:$(pair_fact twovms vm2_pid)"
status_is 4 "twovms: the other VM's, by hand"
opens unrecorded host 7 10000
opens unrecorded guest 7 2000
vcpu_threads unrecorded host vm1 vm2
aligned unrecorded host guest vm1
understood unrecorded host guest "irq sched io timer" vm1
strangers "$rig"/*/

rig foreign --env "FOREIGN=tscwrite tscwrite_told reset restart comego" --timeout 700

for pair in tscwrite tscwrite-told; do
	opens $pair host 7 10000
	opens $pair guest 7 2000
	vcpu_threads $pair host vm1_before
	aligned $pair host guest vm1_before vm1_after
	understood $pair host guest sched vm1_before vm1_after
done
for vm in vm1_before vm1_after; do
	hides tscwrite host $vm
	hides tscwrite guest $vm
done
report_of tscwrite-told host
is "$(grep -c 'kvm_write_tsc_offset:.* vcpu=0 ' "$report")" 1 "tscwrite-told: the host's file has the write"
for pair in reset restart; do
	opens $pair host 7 10000
	vcpu_threads $pair host vm1_first vm1_second
	for life in first second; do
		opens $pair $life 7 2000
		hides $pair host vm1_$life
		hides $pair $life vm1_$life
		aligned $pair host $life vm1_$life
		understood $pair host $life sched vm1_$life
	done
	run "$kvmft" merge "$rig/$pair/host.dat" "$rig/$pair/first.dat" "$rig/$pair/second.dat"
	status_is "$status" "$pair: both lives at once"
	is "$(grep -cE 'alignment of .* 0 outside' "$err")" 2 "... are aligned"
done
opens comego host 7 10000
opens comego guest 7 2000
vcpu_threads comego host vm3
hides comego host vm3
hides comego guest vm3
aligned comego host guest vm3
understood comego host guest sched vm3
strangers "$rig"/*/
finish
