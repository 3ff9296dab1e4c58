# SPDX-License-Identifier: GPL-2.0-or-later
#
# exits_latency.py MERGED JSON: the lines of `kvmft merge --format json`, paired anew, against what
# `kvmft exits --latency --format json` printed of the same guest.
import json
import sys

WAKE, HALT = "(wake-up to entry)", "(halt to wake-up)"
want = {}


def add(reason, ns):
    x = want.setdefault(reason, [0, 0, {}])
    bucket = 1
    while bucket < ns:
        bucket *= 2
    x[0] += 1
    x[1] += ns
    x[2][bucket] = x[2].get(bucket, 0) + 1


out = {}
woken = {}
for line in open(sys.argv[1], encoding="utf-8"):
    e = json.loads(line)
    if e["kind"] != "event":
        continue
    name, tid, t = e["event"], e["pid"], e["t"]
    if name == "kvm:kvm_exit":
        out[tid] = (t, e["reason"])
    elif name == "kvm:kvm_entry":
        if tid in out:
            begin, reason = out.pop(tid)
            add(reason, t - begin)
        if tid in woken:
            add(WAKE, t - woken.pop(tid))
    elif name == "kvm:kvm_vcpu_wakeup":
        add(HALT, e["fields"]["ns"])
    elif name == "sched:sched_waking":
        woken[e["fields"]["pid"]] = t
have = {}
for e in json.load(open(sys.argv[2], encoding="utf-8"))["exits"]:
    have[e["reason"]] = (e["timed"], e["total_ns"], dict(e["buckets_ns"]))
    assert sum(have[e["reason"]][2].values()) == e["timed"], e
assert WAKE in have and HALT in have, have.keys()
assert {k: v[0] for k, v in have.items()} == {k: v[0] for k, v in want.items()}, (have, want)
for reason, (n, total, buckets) in sorted(have.items()):
    _, ns, other = want[reason]
    moved = sum(abs(buckets.get(k, 0) - other.get(k, 0)) for k in set(buckets) | set(other)) // 2
    print(f"{reason}: {n}, sum {100 * (total - ns) / ns:+.2f} %, {moved} in another bucket")
    if reason == HALT:
        assert total == ns and not moved
    # Each recorder takes its stamp in its turn, and one turn takes ten us in an emulated machine,
    # and it may pause between two.
    assert abs(total - ns) <= ns / 50 + n * 20000 + 50000000, reason
    assert moved <= n / 4 + 2, reason
