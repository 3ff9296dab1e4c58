#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What kvmft report --by process says of a guest's processes from its host, against the guest's own sched_switch.

    processes_truth.py NAMED.json TRUTH.json PERCENT

Prints a table, by name: the CPU time that each side knows, and of the exits that both know, which part of those that the
host gives to that name is its own (precision), and which part of its own the host gives to it (recall). The last
line is "cpu_wrong=N outside=N exits_right=PERCENT judged=N rate=N": how many names with 50 ms or more are off by more than
PERCENT, of those with one address space, or outside of their bounds; and the exits for a second of the guest.
"""
import collections
import json
import sys

STEADY = "alpha beta threads half tenth sleeper reader memory".split()
KNOWN = STEADY + "forks execs ping pong".split()


def main():
    named, truth = (json.load(open(path)) for path in sys.argv[1:3])
    percent = float(sys.argv[3])
    own = collections.defaultdict(lambda: [0, 0])
    for row in truth["rows"]:
        name = row["name"] or "?"
        own[name][0] += row["cpu_ns"]
        own[name][1] += row["exits"]
    seen = collections.defaultdict(lambda: [0, 0, 0, 0, 0])
    judged = agree = 0
    for row in named["rows"]:
        name = row["name"] or ("idle" if row["process"] == "(idle)" else "?")
        for i, key in enumerate(("cpu_ns", "at_least_ns", "at_most_ns", "judged", "agree")):
            seen[name][i] += row[key] or 0
        judged += row["judged"]
        agree += row["agree"]
    wrong = outside = 0
    print(f"{'name':<10} {'own ms':>9} {'host ms':>9} {'off':>7} {'least':>9} {'most':>9} {'precision':>9} {'recall':>7}")
    for name in KNOWN:
        cpu, exits = own[name]
        got, least, most, of, right = seen[name]
        if cpu < 50e6:
            continue
        off = (got - cpu) * 100 / cpu
        wrong += name in STEADY and abs(off) > percent
        outside += not least <= cpu <= most
        print(f"{name:<10} {cpu / 1e6:9.1f} {got / 1e6:9.1f} {off:+6.1f}% {least / 1e6:9.1f} {most / 1e6:9.1f}"
              f" {right * 100 / max(of, 1):8.1f}% {right * 100 / max(exits, 1):6.1f}%")
    rate = judged * 1e9 / max(sum(cpu for cpu, _ in own.values()), 1)
    print(f"cpu_wrong={wrong} outside={outside} exits_right={agree * 100 / max(judged, 1):.1f} judged={judged} rate={rate:.0f}")


main()
