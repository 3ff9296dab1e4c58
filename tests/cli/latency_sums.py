# SPDX-License-Identifier: GPL-2.0-or-later
#
# Checks that what `kvmft latency --format json` counted adds up: latency_sums.py FILE [cut]
#
#   irq     matched + unmatched = injected or posted
#   io      matched + left out = issued
#   timer   every deadline came to some end
#   hrtimer every timer that was started, likewise
#   mem     measured + cut + open = stalls
#   net     measured + not paired + cut + open = sent
#   vCPUs   the parts of their time are the whole, the same for all of a host
#
# With "cut", some chains must have been cut by lost events.
import json
import sys

NET = ("measured", "not_paired", "cut", "open")
WHOLE = {
    "irq": ("accepted", (
        "measured", "never_injected", "no_handler",
        "ended", "untraced",
        "outside_guest", "vcpu_unknown", "begun_before",
        "cut", "open")),
    "io": ("issued", (
        "completed", "ambiguous", "outside_host", "cut",
        "open")),
    "timer": ("armed", (
        "fired", "cancelled", "set_anew", "not_placed",
        "cut", "open")),
    "mem": ("stalls", ("measured", "cut", "open")),
    "net-rx": ("sent", NET),
    "net-tx": ("sent", NET),
    "hrtimer": ("started", (
        "expired", "cancelled", "restarted", "cut", "open",
        "not_placed", "outside_host")),
}
FIRED = ("fired", ("measured", "no_handler"))
# Stages that follow each other: where all of them are always known, their sum is the whole, but for
# what is cut off of each ns.
TIMER = ("total", ("expire", "deliver", "masked", "enter", "guest"))
STAGES = {
    "irq": (("total", ("raise", "deliver", "masked", "off-cpu", "enter", "guest")),),
    "timer": (TIMER,),
    "hrtimer": (TIMER,),
    "mem": (("total", ("kernel", "asleep", "off-cpu", "vmm", "again")),),
    "io": (("total", ("submit", "host", "deliver", "complete")), ("host", ("take", "block", "notify"))),
}
# These are left out where there is no guest, and are then no part of the whole.
OPTIONAL = {"guest", "vmm", "asleep", "off-cpu", "again"}
STATES = ("unknown", "guest", "kernel", "vmm", "halted", "waiting", "preempted")

with open(sys.argv[1], encoding="utf-8") as f:
    doc = json.load(f)
cut = 0
checked = 0
summed_up = 0
for table, (whole, parts) in WHOLE.items():
    if table not in doc:
        continue
    counts = doc[table]["counts"]
    assert counts[whole] == sum(counts[p] for p in parts), (table, counts)
    if table == "timer":
        assert counts[FIRED[0]] == sum(counts[p] for p in FIRED[1]), (table, counts)
    cut += counts["cut"]
    checked += counts[whole]
    # What was measured is in the tables.
    rows = sum(g["stages"]["total"]["count"] for g in doc[table]["groups"])
    assert rows == counts["measured" if table == "timer" else parts[0]], (table, rows, counts)
    for g in doc[table]["groups"]:
        for whole, parts in STAGES.get(table, ()):
            have = [g["stages"][p] for p in parts if p in g["stages"]]
            if len(have) < len(parts) and {p for p in parts if p not in g["stages"]} - OPTIONAL:
                continue
            total = g["stages"][whole]
            if any(h["count"] != total["count"] for h in have):
                continue
            summed = sum(h["total_ns"] for h in have)
            assert abs(total["total_ns"] - summed) <= 6 * total["count"], (whole, summed, g)
            summed_up += 1
for table, whole in (("sched", "intervals"), ("stealer", "slices")):
    if table in doc:
        rows = sum(g["stages"]["total"]["count"] for g in doc[table]["groups"])
        assert rows == doc[table]["counts"][whole], (table, rows, doc[table]["counts"])
vcpus = doc.get("vcpus", [])
walls = {v["wall_cycles"] for v in vcpus} - {0}
for v in vcpus:
    assert v["wall_cycles"] == sum(v[s] or 0 for s in STATES), v
assert len(walls) <= 1, walls
assert len(sys.argv) < 3 or cut > 0, "nothing was cut"
print(f"{checked} chains, {summed_up} times in stages, {len(vcpus)} vCPUs: all parts are the whole")
