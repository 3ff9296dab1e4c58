#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What kvmft report --waits says of each halt from the host alone, against the handlers that the guest recorded.

    waits_truth.py WAITS.json MERGED.json

WAITS.json: report --waits --format json --top 100000 HOST; MERGED.json: merge --format json --clock host-tsc HOST GUEST.
Prints a table by truth, and as the last line "judged=N right=N wrong=N unnamed=N first=N": of the halts after which the
guest handled an interrupt before it halted again, how many were said right (it was among those handled then), wrong, or
only by number; and of those right, for how many it was the first one handled. What halts in another task than the idle
one waits for a lock: another vCPU that gives that up may have ended it as well, and makes no interrupt.
"""
import bisect
import collections
import json
import re
import sys


def truth_of(event, fields):
    name = event.split(":")[1].removesuffix("_entry")
    if event.startswith("irq_vectors:"):
        return "timer" if name == "local_timer" else "another vCPU"
    device = fields.get("name", "?")
    if "-req." in device:
        return "disk"
    return "net" if re.search(r"-(input|output)", device) else device


def main():
    handled = collections.defaultdict(list)
    halts = collections.defaultdict(list)
    switches = collections.defaultdict(lambda: [(0, 0)])
    first = {}
    for line in open(sys.argv[2]):
        e = json.loads(line)
        if e.get("kind") != "event" or e["vcpu"] is None or e["t"] is None:
            continue
        if e["side"] == "guest":
            first.setdefault("begin", e["t"])
            first["end"] = e["t"]
            if e["event"] == "sched:sched_switch":
                switches[e["vcpu"]].append((e["t"], e["fields"]["next_pid"]))
            if e["event"].endswith("_entry") and e["event"].startswith(("irq_vectors:", "irq:irq_handler")):
                handled[e["vcpu"]].append((e["t"], truth_of(e["event"], e["fields"])))
        elif e["event"] == "kvm:kvm_exit" and e["fields"]["exit_reason"] in ("hlt", "HLT", "0x78", "12", 120, 12):
            halts[e["vcpu"]].append(e["t"])
    table = collections.Counter()
    judged = right = wrong = unnamed = at_once = 0
    for wait in json.load(open(sys.argv[1]))["wait"]["worst"]:
        begin, end, vcpu = wait["begin_host_tsc"], wait["end_host_tsc"], wait["vcpu"]
        if begin < first["begin"] or end > first["end"]:
            continue
        at = bisect.bisect_left(halts[vcpu], end)
        until = halts[vcpu][at] if at < len(halts[vcpu]) else first["end"]
        times = handled[vcpu]
        k = bisect.bisect_left(times, (end, ""))
        after = []
        while k < len(times) and times[k][0] < until:
            after.append(times[k][1])
            k += 1
        if switches[vcpu][bisect.bisect_left(switches[vcpu], (begin, 0)) - 1][1]:
            after.append("another vCPU")
        if not after:
            table["(none handled)", re.sub(r"^vCPU \d+ for ", "", wait["what"])] += 1
            continue
        said = re.sub(r"^vCPU \d+ for ", "", wait["what"])
        judged += 1
        table[after[0], said] += 1
        if said in after:
            right += 1
            at_once += said == after[0]
        elif said.startswith("interrupt ") or said == "unknown":
            unnamed += 1
        else:
            wrong += 1
    for (truth, said), n in sorted(table.items()):
        print(f"{truth:<24} said: {said:<34} {n}")
    print(f"judged={judged} right={right} wrong={wrong} unnamed={unnamed} first={at_once}")


main()
