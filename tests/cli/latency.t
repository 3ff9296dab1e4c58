#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `kvmft latency` with a host and a guest that are compiled from tests/golden/latency-*.txt, where every time
# is known to the ns: tests/golden/latency.out was worked out by hand.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden

for side in host guest; do
	ok "$side is compiled" "$mkcap" --capture "$tmp/$side" "$golden/latency-$side.txt"
done
run "$kvmft" latency all --format csv "$tmp/host" "$tmp/guest=one"
status_is 0 "all analyses, options behind the operand"
ok "... every stage as worked out by hand" diff "$golden/latency.out" "$out"
err_has "0 outside" "... the alignment is told"

# ---- what is counted adds up ----

# value FILE KEY: the number behind "KEY": in the table that $table names.
run "$kvmft" latency irq,io,timer,sched --format json -q "$tmp/host" "$tmp/guest=one"
status_is 0 "as JSON"
cat >"$tmp/sums.py" <<'END'
import json, sys
doc = json.load(open(sys.argv[1]))
irq, io, timer = (doc[k]["counts"] for k in ("irq", "io", "timer"))
assert irq["accepted"] == irq["measured"] + irq["never injected"] + irq["injected, handler not seen"] + \
    irq["outside the guest's capture"] + irq["cut by lost events"] + irq["open at the end"], irq
assert io["issued"] == io["completed"] + io["ambiguous: left out"] + io["cut by lost events"] + io["open at the end"], io
assert timer["armed"] == timer["fired"] + timer["cancelled"] + timer["set anew before they fired"] + \
    timer["not to be placed"] + timer["cut by lost events"] + timer["open at the end"], timer
for v in doc["vcpus"]:
    parts = ("unknown", "guest", "kernel", "vmm", "halted", "waiting", "preempted")
    assert v["wall_cycles"] == sum(v[p] for p in parts), v
assert not sys.argv[2:] or irq["cut by lost events"] + io["cut by lost events"] > 0
END
if command -v python3 >/dev/null; then
	ok "... the parts are the whole" python3 "$tmp/sums.py" "$out"
else
	skip "the parts are the whole" "python3 is not installed"
fi

# ---- text ----

run "$kvmft" latency io --worst 1 --context 2 "$tmp/host" "$tmp/guest=one"
status_is 0 "one of the worst"
out_has "^1\. 6\.6 us: 254,0 write sector 2048 \+ 8, one; on the host" "... is named with its cause"
out_has "block:block_rq_issue" "... begins with the issue"
out_has "kvm:kvm_msi_set_irq" "... and goes over the host"
run "$kvmft" latency irq --than 1us --worst 5 "$tmp/host" "$tmp/guest=one"
is "$(grep -c '^[0-9]\. ' "$out")" 1 "--than leaves the shorter ones out"
run "$kvmft" latency sched --vcpu 7 "$tmp/host" "$tmp/guest=one"
out_has "^intervals 0" "--vcpu: nothing of the others"

# ---- with less ----

run "$kvmft" latency irq,timer,sched --format csv "$tmp/host"
status_is 0 "the host alone"
out_has '^irq,"one","MSI 38",total,1,1\.000' "... interrupts to the entry"
out_has '^timer,"one","deadline of vCPU 0",total,1,1\.000' "... timers to the entry"
out_has '^sched,"one","\(not known\)",total,2' "... and the guest's tasks are not known"
run "$kvmft" latency io "$tmp/host"
status_is 1 "io of the host alone"
err_has "needs a capture of the guest" "... is told"
err_one_line "io of the host alone"
grep -v "sched:" "$golden/latency-host.txt" >"$tmp/nosched.txt"
"$mkcap" --capture "$tmp/nosched" "$tmp/nosched.txt"
run "$kvmft" latency sched -q "$tmp/nosched" "$tmp/guest=one"
status_is 0 "a host without sched events"
out_has "note: the host capture has no sched:sched_switch" "... is told"
grep -v "apic_accept" "$golden/latency-host.txt" >"$tmp/noaccept.txt"
"$mkcap" --capture "$tmp/noaccept" "$tmp/noaccept.txt"
run "$kvmft" latency irq "$tmp/noaccept" "$tmp/guest=one"
status_is 1 "a host without kvm_apic_accept_irq"
err_has "no kvm:kvm_apic_accept_irq" "... is told"
sed '/^0   3000/a 0 gap 5' "$golden/latency-host.txt" >"$tmp/gap.txt"
"$mkcap" --capture "$tmp/gap" "$tmp/gap.txt"
run "$kvmft" latency all --format json -q "$tmp/gap" "$tmp/guest=one"
status_is 3 "a host with lost events"
if command -v python3 >/dev/null; then
	ok "... what the gap cut is counted, and the parts are the whole" python3 "$tmp/sums.py" "$out" cut
else
	skip "what the gap cut is counted" "python3 is not installed"
fi
run "$kvmft" latency nonsense "$tmp/host"
status_is 2 "an analysis that there is not"
run "$kvmft" latency irq --format xml "$tmp/host"
status_is 2 "a format that there is not"
finish
