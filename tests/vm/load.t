#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# A host under load: how long vCPUs wanted a CPU and had none, by `kvmft latency sched`, against what its kernel counted of
# their threads; and `kvmft diff` as a gate: of 40 equal pairs none fails, and 5 % more exits per operation are found each
# time. gate.t of tests/cli does that with built recordings, which are longer.

. "$(dirname "$0")/tap.sh"

pairs=${LOAD_PAIRS:-40}
rig load --timeout 900 --env "LOAD_PAIRS=$pairs"
run "$kvmft" latency sched --format json --worst 0 "$rig/host"
status_is 0 "latency sched"
total() { jq "[.$1.groups[].stages.total.total_ns] | add" "$out"; }
sched=$(total sched) kernel=$(fact run_delay)
echo "# ns: $kernel by the kernel, $sched by latency sched; $(jq -c .sched.counts "$out")"
off=$(((sched - kernel) * 10000 / kernel))
ok "all that vCPUs waited, within 1 % of the kernel's (run_delay): $off of 10,000 off" test "$off" -ge -100 -a "$off" -le 100

# judge BEFORE AFTER: of exits for each port that is written to
judge()
{
	run "$kvmft" diff --op kvm_pio --fail-if 'exits/op > +2 %' --format json "$rig/$1" "$rig/$2"
	verdict=$(jq -r '.limits[0].verdict' "$out")
	echo "# $1 $2: exit $rc, $(jq -c '.limits[0] | [.verdict, .before, .after, .error_ppm]' "$out")"
}
failed=0 passed=0 found=0
for i in $(seq "$pairs"); do
	judge "equal$i" "equal$((i % pairs + 1))"
	[ "$verdict" != fail ] || failed=$((failed + 1))
	[ "$verdict" != pass ] || passed=$((passed + 1))
	[ $((i % 2)) = 0 ] || continue
	judge "equal$i" "more$i"
	[ "$verdict" != fail ] || found=$((found + 1))
done
is "$failed" 0 "$pairs equal pairs: none fails ($passed surely pass)"
is "$found" $((pairs / 2)) "5 % more exits per operation fail, each of $((pairs / 2)) times"
finish
