#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What `kvmft latency io` says that a VMM's threads waited for: nothing much, memory that was swapped out, a lock.

. "$(dirname "$0")/tap.sh"

rig iowait --timeout 400

for phase in quiet swapped locked; do
	run "$kvmft" latency io --format json --worst 0 -q "$rig/$phase" "$rig/guest-$phase"
	status_is 0 "$phase: latency io"
	sums "... the parts are the whole"
	cp "$out" "$tmp/$phase.json"
done
if ! command -v python3 >/dev/null; then
	skip "waits where they were made" "python3 is not installed"
	finish
fi
cat >"$tmp/told.py" <<'END'
import json
import sys
folder, what, faults, swap_ns = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
NAMES = ("vmm-cpu", "vmm-fault", "vmm-lock", "vmm-disk", "vmm-sleep")
told = {}
for phase in ("quiet", "swapped", "locked"):
    doc = json.load(open(f"{folder}/{phase}.json"))["io"]
    stages = doc["groups"][0]["stages"]
    told[phase] = {s: (stages[s]["count"], stages[s]["total_ns"] / 1e6) for s in stages}
    print(phase, told[phase], doc["counts"])
    assert sum(told[phase].get(s, (0, 0))[1] for s in NAMES) <= told[phase]["host"][1], phase
    counts = doc["counts"]
    # Where begin or end is not known, nothing in between is.
    untold = counts["what the VMM's threads waited for is not told"] - counts["without a doorbell of their own"]
    assert (untold - counts["without a known interrupt"]) * 50 <= counts["completed"], (phase, untold)
quiet, planted = (told[p].get(f"vmm-{what}", (0, 0)) for p in ("quiet", "locked" if what == "lock" else "swapped"))
if what == "lock":
    assert planted[0] >= 50 and planted[1] > 50 + 5 * quiet[1], (quiet, planted)
else:
    # Some find what one before them has asked for already.
    assert planted[1] * 1e6 >= faults * swap_ns / 2 and not quiet[0], (quiet, planted, faults)
END
faults=$(fact faults_swapped)
ok "waits for a lock are told where they were made" python3 "$tmp/told.py" "$tmp" lock "$faults" "$(fact swap_ns)"
if [ "$faults" -ge 20 ]; then
	ok "waits for memory likewise ($faults faults that had to read)" \
		python3 "$tmp/told.py" "$tmp" fault "$faults" "$(fact swap_ns)"
else
	skip "waits for memory" "the VMM found its memory in place ($faults faults had to read)"
fi
finish
