# SPDX-License-Identifier: GPL-2.0-or-later
#
# exits_latency.py MERGED JSON: the lines of `kvmft merge --format json`, paired here once more, against what
# `kvmft exits --latency --format json` printed of the same guest.
import json
import sys

from exits_rows import HALT, WAKE, Rows, of_json, same_counts

want = Rows()
for line in open(sys.argv[1], encoding="utf-8"):
    e = json.loads(line)
    if e["kind"] != "event":
        continue
    name, tid, t = e["event"], e["pid"], e["t"]
    if name == "kvm:kvm_exit":
        want.exit(tid, t, e["reason"])
    elif name == "kvm:kvm_entry":
        want.entry(tid, t)
    elif name == "kvm:kvm_vcpu_wakeup":
        want.add(HALT, e["fields"]["ns"])
    elif name == "sched:sched_waking":
        want.waking(e["fields"]["pid"], t)
have = of_json(sys.argv[2])
assert WAKE in have and HALT in have, have.keys()
same_counts(have, want)


def moved(one, other):
    """By how many buckets one has to be moved to become the other, all together."""
    ahead = steps = 0
    for bit in range(64):
        ahead += one.get(1 << bit, 0) - other.get(1 << bit, 0)
        steps += abs(ahead)
    return steps


steps = events = 0
for reason, (n, total, buckets) in sorted(have.items()):
    _, ns, other = want[reason]
    by = moved(buckets, other)
    print(f"{reason}: {n}, sum {100 * (total - ns) / ns:+.2f} %, moved by {by / n:.2f} buckets")
    if reason == HALT:
        assert total == ns and not by
        continue
    steps += by
    events += n
    assert n < 100 or by <= n, reason
# The recorders take their stamps one after the other: one takes ten us in an emulated machine, and between two that may
# lose its CPU for as long as the outer one likes. So a few times are very different, and with them the sums, which are
# compared where the stamps are the same (exits_stamps.py); but a clock of another rate would move all.
assert steps <= events / 4, (steps, events)
