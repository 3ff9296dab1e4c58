#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Judges what blame says of delays that were planted at known times.
#
#   blame_truth.py SPINS PHASE CAUSE MS SPIKES.json
#   blame_truth.py turns KVMFT RIG
#
# SPINS has a line for each delay: phase, begin in seconds, length in ms. The spike that covers most of it is judged,
# if that is at least half of it: an emulated host is also late for reasons of its own, at other times, or just before
# or after. So it is right if the delay is its cause, or if it says that the delay took most of its own length; what is
# not, and began a fifth of the delay or more before it, is not due to it: then nobody saw the delay. If SPINS does not
# know the phase, every spike is judged that is at least 0.8 * MS long: as long as what was planted. Prints
# "planted N right N wrong N unknown N unseen N", and what was wrong.
#
# turns: two vCPUs on one CPU take turns, and how long is up to the scheduler. So its own events say when: prints such lines
# for the phase `sibling` of what the scenario left in RIG, one for each time that a vCPU's thread could run while another's
# had its CPU. And for `hole`, one for each of the guest's spans of which a third or more went by in exits for memory: how
# much memory is touched in a span depends on what else the emulator does.

import json
import re
import subprocess
import sys


def events(kvmft, begin, end, *more):
    ran = subprocess.run([kvmft, "merge", "-q", "--clock", "boot", "--from", begin, "--to", end, *more],
                         stdout=subprocess.PIPE, check=True, encoding="utf-8")
    return re.findall(r"^(\S+) +(.*)-\d+ +\[(\w+)\] +(\d+\.\d+)  (\w+:\w+): (.*)", ran.stdout, re.M)


def siblings(kvmft, rig, begin, end, than):
    out, on, had = {}, {}, {}  # when a thread lost its CPU, who has a CPU since when, how long others had it
    for _, _, cpu, at, _, text in events(kvmft, begin, end, "--event", "sched:sched_switch", rig + "/host"):
        prev, state, comm, pid = re.match(r"prev_comm=.* prev_pid=(\d+) .*prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) ",
                                          text).groups()
        at = float(at)
        who, since = on.get(cpu, ("", at))
        on[cpu] = comm, at
        for p in out:
            if out[p][0] == cpu and re.match(r"CPU \d+/KVM$", who):
                had[p] += at - max(since, out[p][1])
        if pid in out:
            begin = out.pop(pid)[1]
            if had[pid] >= 0.9 * (at - begin) >= float(than) * 0.9e-3:
                yield begin, at
        if state.startswith("R"):
            out[prev], had[prev] = (cpu, at), 0


def holes(kvmft, rig, begin, end, _):
    span, left, took = None, None, 0
    for side, task, _, at, event, text in events(kvmft, begin, end, rig + "/host", rig + "/guest"):
        at = float(at)
        if event == "ftrace:print" and side != "host" and " begin" in " " + text.split(": ")[-1]:
            span, took = at, 0
        elif event == "ftrace:print" and side != "host" and span and " end" in " " + text.split(": ")[-1]:
            if took > (at - span) / 3:
                yield span, at
            span = None
        elif side == "host" and task == "CPU 0/KVM" and event == "kvm:kvm_exit":
            left = at if re.search(r"reason (npf|EPT_VIOLATION) ", text) else None
        elif side == "host" and task == "CPU 0/KVM" and event == "kvm:kvm_entry" and left:
            took, left = took + at - left, None


def turns(kvmft, rig):
    for name, _, begin, end, than, *_ in (line.split() for line in open(rig + "/truth", encoding="utf-8")):
        for began, ended in {"sibling": siblings, "hole": holes}.get(name, lambda *_: ())(kvmft, rig, begin, end, than):
            print(name, "%.6f" % began, "%.3f" % ((ended - began) * 1e3))


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
        elif best["time_ns"] < begin - length / 5 and planted:
            count["unseen"] += 1
        else:
            count["wrong"] += 1
            print("# at %.6f: %s: %s" % (begin / 1e9, best["cause"], best["parts"][:3]))
    print("planted", len(judged), *("%s %d" % kv for kv in count.items()))


if sys.argv[1] == "turns":
    turns(*sys.argv[2:])
else:
    main()
