# SPDX-License-Identifier: GPL-2.0-or-later
#
# The rows of `kvmft exits --latency`, computed again from events in the order of their stamps: count, sum in ns and
# buckets by reason. The events of one thread are in order, so rows of exits are exact. A wake-up comes from another
# CPU: if it is very close to the entry of its vCPU, a program or trigger may see the two in another order than that
# of their stamps, so two observers may count such a pair differently.
import json

WAKE, HALT = "(wake-up to entry)", "(halt to wake-up)"


class Rows(dict):
    def __init__(self):
        super().__init__()
        self.out, self.woken = {}, {}

    def add(self, reason, ns):
        row = self.setdefault(reason, [0, 0, {}])
        bucket = 1
        while bucket < ns:
            bucket *= 2
        row[0] += 1
        row[1] += ns
        row[2][bucket] = row[2].get(bucket, 0) + 1

    def exit(self, tid, t, reason):
        self.out[tid] = (t, reason)

    def entry(self, tid, t):
        if tid in self.out:
            begin, reason = self.out.pop(tid)
            self.add(reason, t - begin)
        if tid in self.woken:
            self.add(WAKE, t - self.woken.pop(tid))

    def waking(self, tid, t):
        self.woken[tid] = t


def of_json(path):
    """The rows that `kvmft exits --latency --format json` printed."""
    rows = {}
    for e in json.load(open(path, encoding="utf-8"))["exits"]:
        rows[e["reason"]] = [e["timed"], e["total_ns"], {int(k): v for k, v in dict(e["buckets_ns"]).items()}]
        assert sum(rows[e["reason"]][2].values()) == e["timed"], e
    return rows


def same_counts(one, other):
    for reason in sorted(set(one) | set(other)):
        a, b = (rows.get(reason, [0])[0] for rows in (one, other))
        if a != b:
            print(f"{reason}: {a} and {b}")
        assert abs(a - b) <= (2 + b // 200 if reason == WAKE else 0), reason
