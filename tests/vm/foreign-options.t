#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# As foreign.t with other kernels, and with other options of trace-cmd.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/foreign.sh"
. "$(dirname "$0")/foreign_kvmft.sh"

rig foreign --kernel 6.12 --env "FOREIGN=plain kvmonly stacks v6 tsc2nsec lossy" --timeout 700

for pair in plain kvmonly stacks v6 tsc2nsec; do
	version=7
	[ "$pair" != v6 ] || version=6
	opens "$pair" host "$version" 10000
	opens "$pair" guest "$version" 2000
	vcpu_threads "$pair" host vm1
	hides "$pair" host vm1
	hides "$pair" guest vm1
	aligned "$pair" host guest vm1
	analyses="irq sched io timer"
	[ "$pair" != stacks ] || analyses=sched
	understood "$pair" host guest "$analyses" vm1
done
trace-cmd dump --options -i "$rig/tsc2nsec/host.dat" >"$tmp/options"
ok "tsc2nsec: the host's file has the length of a cycle" grep -q 'Option TSC2NSEC' "$tmp/options"
opens lossy host 7 5000
ok "lossy: the host's file reports losses" grep -q 'EVENTS DROPPED' "$report"
vcpu_threads lossy host vm1
opens lossy guest 7 2000
understood lossy host guest "" vm1
report_of kvmonly host
is "$(grep -cE ': (sched|irq|softirq)_' "$report")" 0 "kvmonly: nothing but KVM's events"
strangers "$rig"/*/
finish
