# SPDX-License-Identifier: GPL-2.0-or-later
#
# Compares what a trace processor answers, as CSV, with kvmft's own answer of the same captures; prints how many are
# the same, or those that are not.
#
#   python3 perfetto_answers.py spikes BLAME.json ANSWER.csv	ns from the host's first event, ns, cause
#   python3 perfetto_answers.py sched LATENCY.json ANSWER.csv	vm, vcpu, thread, ns without a CPU that it could have used
#   python3 perfetto_answers.py irqs MERGE.json ANSWER.csv	machine, hard or soft, number, ns
import csv, json, sys

kind, own, answer = sys.argv[1:4]
rows = [r for r in csv.reader(open(answer)) if r]


def spikes():
    base = int(sys.argv[4])
    got = sorted((int(ts), int(dur), cause) for ts, dur, cause in rows)
    want = sorted((s["time_ns"] - base, s["length_ns"], s["cause"]) for s in json.load(open(own))["spikes"])
    if len(got) == len(want):
        far = [(g, w) for g, w in zip(got, want) if abs(g[0] - w[0]) > 1 or abs(g[1] - w[1]) > 1 or g[2] != w[2]]
        return len(got), far
    return 0, [("number", len(got), len(want))]


# A trace processor takes a thread that sleeps, or was not seen yet, for runnable from its sched_waking on, and never by a
# sched_wakeup alone; kvmft one that was seen from its sched_wakeup. By thread, how much more that is, in MERGE.json.
def between_wakings(path):
    by, waking, wakeup, seen, last = {}, {}, {}, set(), 0
    for line in open(path):
        e = json.loads(line)
        if e["kind"] != "event" or e["side"] != "host":
            continue
        last = e["t"]
        if not e["event"].startswith("sched:"):
            continue
        name, f = e["event"][6:], e["fields"]
        if name == "sched_waking":
            waking.setdefault(f["pid"], e["t"])
        elif name == "sched_wakeup":
            wakeup.setdefault(f["pid"], e["t"])
        elif name == "sched_switch":
            for at in waking, wakeup:  # of one that runs
                at.pop(f["prev_pid"], None)
            seen.add(f["prev_pid"])
            tid = f["next_pid"]
            begin, ready = waking.pop(tid, None), wakeup.pop(tid, None)
            if tid not in seen:
                by[tid] = e["t"] - begin if begin is not None else 0
            elif ready is not None:
                by[tid] = by.get(tid, 0) + (ready - begin if begin is not None else ready - e["t"])
            seen.add(tid)
    for tid in waking.keys() & seen:  # they still wait when the recording ends
        by[tid] = by.get(tid, 0) + wakeup.get(tid, last + 1) - waking[tid]
    return by


def sched():
    own_doc, more = json.load(open(own)), between_wakings(sys.argv[4])
    khz = own_doc["tsc_khz"]
    got = {(vm, int(vcpu)): (int(tid), int(ns)) for vm, vcpu, tid, ns in rows}
    bad, same = [], 0
    for v in own_doc["vcpus"]:
        tid, have = got.get((v["vm"], v["vcpu"]), (0, 0))
        want = (v["waiting"] + v["preempted"]) * 1e6 / khz + more.get(tid, 0)
        # A ns for each of the slices that both add up, and there are thousands.
        if abs(have - want) > max(500, want / 1e5):
            bad.append((v["vm"], v["vcpu"], tid, have, want))
        same += 1
    return same, bad


def irqs():
    got = {(machine, how): (int(n), int(ns)) for machine, how, n, ns in rows}
    want, begun = {}, {}
    for line in open(own):
        e = json.loads(line)
        if e["kind"] != "event":
            continue
        name = e["event"].split(":")[1]
        how = {"irq_handler": "hard", "local_timer": "hard", "softirq": "soft"}.get(name.rsplit("_", 1)[0])
        if not how or not name.endswith(("_entry", "_exit")):
            continue
        at = (e["vm"] if e["side"] == "guest" else "host", how)
        if name.endswith("_entry"):
            begun[at + (e["cpu"], name[:5])] = e["t"]
        elif at + (e["cpu"], name[:5]) in begun:
            n, ns = want.get(at, (0, 0))
            want[at] = n + 1, ns + e["t"] - begun.pop(at + (e["cpu"], name[:5]))
    bad = [(k, got.get(k), want.get(k)) for k in got.keys() | want.keys()
           if got.get(k, (0, 0))[0] != want.get(k, (0, 0))[0]
           or abs(got.get(k, (0, 0))[1] - want.get(k, (0, 0))[1]) > got.get(k, (0, 0))[0]]
    return sum(n for n, ns in want.values()), bad


n, bad = {"spikes": spikes, "sched": sched, "irqs": irqs}[kind]()
print(f"{n} {kind}", *[f"not the same: {b}" for b in bad[:10]], sep="\n")
sys.exit(bool(bad))
