# SPDX-License-Identifier: GPL-2.0-or-later
#
# Checks that what `kvmft latency --format json` counted adds up: latency_sums.py FILE [cut]
#
#   irq     matched + unmatched = injected or posted
#   io      matched + left out = issued
#   timer   every deadline came to some end
#   vCPUs   the parts of their time are the whole, the same for all of a host
#
# With "cut", some chains must have been cut by lost events.
import json
import sys

WHOLE = {
    "irq": ("accepted", (
        "measured", "never injected", "injected, handler not seen",
        "of vectors that the guest did not trace", "outside the guest's capture",
        "cut by lost events", "open at the end")),
    "io": ("issued", ("completed", "ambiguous: left out", "cut by lost events", "open at the end")),
    "timer": ("armed", (
        "fired", "cancelled", "set anew before they fired", "not to be placed",
        "cut by lost events", "open at the end")),
}
# Stages that follow each other: their sum is the total, but for what is cut off of each ns.
STAGES = {
    "irq": ("raise", "deliver", "masked", "off-cpu", "enter", "guest"),
    "timer": ("expire", "deliver", "masked", "enter", "guest"),
}
STATES = ("unknown", "guest", "kernel", "vmm", "halted", "waiting", "preempted")

with open(sys.argv[1], encoding="utf-8") as f:
    doc = json.load(f)
cut = 0
checked = 0
for table, (whole, parts) in WHOLE.items():
    if table not in doc:
        continue
    counts = doc[table]["counts"]
    assert counts[whole] == sum(counts[p] for p in parts), (table, counts)
    cut += counts["cut by lost events"]
    checked += counts[whole]
    # What is in the tables is no more than what was measured.
    rows = sum(g["stages"]["total"]["count"] for g in doc[table]["groups"])
    assert rows <= counts[parts[0]], (table, rows, counts)
    for g in doc[table]["groups"]:
        total = g["stages"]["total"]
        summed = sum(g["stages"][s]["total_ns"] for s in STAGES.get(table, ()) if s in g["stages"])
        assert table not in STAGES or abs(total["total_ns"] - summed) <= 6 * total["count"], (summed, g)
vcpus = doc.get("vcpus", [])
walls = {v["wall_cycles"] for v in vcpus} - {0}
for v in vcpus:
    assert v["wall_cycles"] == sum(v[s] for s in STATES), v
assert len(walls) <= 1, walls
assert len(sys.argv) < 3 or cut > 0, "nothing was cut"
print(f"{checked} chains, {len(vcpus)} vCPUs: all parts are the whole")
