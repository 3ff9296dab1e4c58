#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Judges what blame says of delays that were planted at known times.
#
#   blame_truth.py SPINS PHASE CAUSE MS SPIKES.json
#
# SPINS has a line for each delay: phase, begin in seconds, length in ms. The spike that covers most of it is judged,
# if that is at least half of it: an emulated host is also late for reasons of its own, at other times, or just before
# or after. So it is right if the delay is its cause, or if it says that the delay took most of its own length. If SPINS
# does not know the phase, every spike is judged that is at least 0.8 * MS long: as long as what was planted. Prints
# "planted N right N wrong N unknown N unseen N", and what was wrong.

import json
import sys


def main():
    path, phase, cause, least, spikes = sys.argv[1:]
    cause = cause.split("/")
    planted = [line.split() for line in open(path, encoding="utf-8")]
    planted = [(float(at) * 1e9, float(ms) * 1e6) for name, at, ms in planted if name == phase]
    found = json.load(open(spikes, encoding="utf-8"))["spikes"]
    count = dict.fromkeys(("right", "wrong", "unknown", "unseen"), 0)
    judged = [(s["time_ns"], float(least) * 1e6, s) for s in found if s["length_ns"] >= float(least) * 0.8e6]
    if planted:
        judged = []
    for begin, length in planted:
        best, most = None, length / 2
        for s in found:
            from_, to = s["time_ns"], s["time_ns"] + s["length_ns"]
            common = min(to, begin + length) - max(from_, begin)
            if common > most:
                best, most = s, common
        judged.append((begin, length, best))
    for begin, length, best in judged:
        if not best:
            count["unseen"] += 1
        elif best["cause"] in cause or sum(
            p["time_ns"] for p in best["parts"] if p["cause"] in cause
        ) >= 0.9 * length:
            count["right"] += 1
        elif best["cause"] in ("unknown", "lost"):
            count["unknown"] += 1
        else:
            count["wrong"] += 1
            print("# at %.6f: %s: %s" % (begin / 1e9, best["cause"], best["parts"][:3]))
    print("planted", len(judged), *("%s %d" % kv for kv in count.items()))


main()
