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
for reason, (n, total, buckets) in sorted(have.items()):
    _, ns, other = want[reason]
    moved = sum(abs(buckets.get(k, 0) - other.get(k, 0)) for k in set(buckets) | set(other)) // 2
    print(f"{reason}: {n}, sum {100 * (total - ns) / ns:+.2f} %, {moved} in another bucket")
    if reason == HALT:
        assert total == ns and not moved
    # The recorders take their stamps one after the other: one takes ten us in an emulated machine,
    # which may also pause between two.
    assert abs(total - ns) <= ns / 50 + n * 20000 + 50000000, reason
    assert moved <= n / 4 + 2, reason
