#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# perf.data of a host, compared with trace-cmd's files of the same host and guest and with perf's own output.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/foreign.sh"
. "$(dirname "$0")/foreign_kvmft.sh"

if ! command -v perf >/dev/null; then
	skip "perf.data of a host" "perf is not installed"
	finish
fi
rig foreign --host-cpus 3 --env "FOREIGN=perf perf_twovms" --timeout 700

opens perf host 7 10000
opens perf guest 7 5000
vcpu_threads perf host vm1
aligned perf host guest vm1
understood perf host guest sched vm1

# exits FILE: TID and RIP of each kvm_exit, of what perf or trace-cmd printed.
exits()
{
	sed -nE 's/^.*(-| )([0-9]+) +\[[0-9]+\] *[0-9.]+: +(kvm:)?kvm_exit: .* rip 0x([0-9a-f]+) .*/\2 \4/p' "$1"
}

report_of perf guest
exits "$report" >"$tmp/exits" # of the guest: none
is "$(wc -l <"$tmp/exits")" 0 "the guest itself has no exits"
report_of perf host
exits "$report" >"$tmp/exits"
for data in kvmstat kvmstat-pid all mono raw; do
	perf script -i "$rig/perf/$data.data" --show-lost-events >"$tmp/script" 2>"$tmp/script.err"
	is "$(grep -c PERF_RECORD_LOST "$tmp/script")" 0 "$data: perf lost nothing"
	# Its first events come before all events are enabled.
	exits "$tmp/script" | sed 1,50d >"$tmp/exits.perf"
	exits=$(wc -l <"$tmp/exits.perf")
	ok "$data: perf has $exits exits" test "$exits" -gt 500
	for vcpu in 0 1; do
		tid=$(pair_fact perf vm1_vcpu${vcpu}_tid)
		ok "... those of vCPU $vcpu that trace-cmd has, in the same order, and no other between them" perl -e '
			my $tid = shift;
			my ($all, $some) = map { local @ARGV = $_; join "", grep { /^$tid / } <> } @ARGV;
			exit !$some || index($all, "\n" . $some) < 0' "$tid" "$tmp/exits" "$tmp/exits.perf"
	done
	for event in vmexit mmio msr; do
		perf kvm -i "$rig/perf/$data.data" stat report --event $event >"$tmp/stat" 2>&1
		ok "... perf reports its $event" grep -qE '^Total Samples:[1-9]' "$tmp/stat"
	done
done

# ---- one perf.data of two VMs, one of which was recorded ----

pair=perf-twovms
h=$rig/$pair/twovms.data
g=$rig/$pair/guest.dat
vm1=pid:$(pair_fact $pair vm1_pid)
vm2=pid:$(pair_fact $pair vm2_pid)
perf script -i "$h" -F tid,event 2>/dev/null | sed -n 's/^ *\([0-9]*\) .*kvm:kvm_entry: *$/\1/p' | sort | uniq -c |
	awk '$1 > 100 { print $2 }' | sort >"$tmp/ran"
is "$(cat "$tmp/ran")" "$(sed -n 's/^vm[12]_vcpu[01]_tid=//p' "$rig/$pair/facts" | sort)" "$pair: both VMs ran"
run "$kvmft" merge --format json "$h" "$g"
status_is 0 "$pair: merge, no option"
err_has "guest.dat: $vm1 .*: all [1-9][0-9]* events fit" "... the right VM, and why"
err_has "^kvmft: alignment of $vm1: [1-9][0-9]* guest events checked, 0 outside" "... aligned"
found "... its threads and TSC offsets" vm1
run "$kvmft" verify "$h" "$g"
status_is 0 "... verify"
for analysis in irq timer; do
	sums_of "$pair" $analysis "$h" "$g"
done
run "$kvmft" merge --format json "$h" "$g=$vm1"
status_is 0 "... its VM named by hand"
found "... is the same" vm1
run "$kvmft" merge "$h" "$g=$vm2"
status_is 4 "... the other VM named by hand"
is "$(wc -c <"$out")" 0 "... nothing is printed"
run "$kvmft" merge "$h" "$rig/perf/guest.dat"
status_is 4 "... what the guest recorded at another time: refused"
is "$(wc -c <"$out")" 0 "... nothing is printed"
selectors=$(sed -n 's/.*VMs there: //p' "$err" | grep -oE '(pid|tids):[0-9,]*[0-9]' | sort)
is "$selectors" "$(printf '%s\n' "$vm1" "$vm2" | sort)" "... with both VMs to choose from"
for selector in $selectors; do
	run "$kvmft" report -i "$h" --vm "$selector" --format csv
	status_is 0 "... $selector: a VM to report"
	run "$kvmft" merge "$h" "$g=$selector"
	ok "... and to merge: exit $rc" test "$rc" = "$([ "$selector" = "$vm1" ] && echo 0 || echo 4)"
done
finish
