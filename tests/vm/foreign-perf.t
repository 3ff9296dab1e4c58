#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# perf.data of a host beside trace-cmd's files of it and of its guest, with perf's own answers.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/foreign.sh"
. "$(dirname "$0")/foreign_kvmft.sh"

if ! command -v perf >/dev/null; then
	skip "perf.data of a host" "perf is not installed"
	finish
fi
rig foreign --env "FOREIGN=perf" --timeout 600

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
	# Its first events come before all of them are on.
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
finish
