# SPDX-License-Identifier: GPL-2.0-or-later
#
# gaps.py: what a guest timed by its TSC against the exits and entries that its host recorded, for the scripts of
# stalls for memory.
#
# A gap is longer than its stall by a world switch: from the guest's instruction to kvm_exit, and from kvm_entry to
# its next instruction, there are no events. The shortest exits show how long that takes: the guest makes one after
# each slow touch. An emulated machine may lose its CPU in the middle of a gap.
import bisect
import statistics

STALLS = ("npf", "ept_violation", "ept_misconfig", "pml_full")
PERCENT = 5


class Turns:
    """Exits of a vCPU, each until the next entry: [exit, entry, reason], in cycles of the host."""

    def __init__(self):
        self.all, self.begins = [], []

    def exit(self, t, reason):
        self.all.append([t, None, reason.lower()])

    def entry(self, t):
        if self.all and self.all[-1][1] is None:
            self.all[-1][1] = t

    def done(self):
        self.all = [e for e in self.all if e[1]]
        self.begins = [e[0] for e in self.all]

    def between(self, a, b):
        return self.all[bisect.bisect_left(self.begins, a):bisect.bisect_right(self.begins, b)]


class Gap:
    """What a touch took, in cycles: its stall from the first exit for it to the last entry, and what else there was."""

    def __init__(self, turns, begin, end):
        inside = turns.between(begin, end)
        own = [e for e in inside if e[2] in STALLS]
        self.length = end - begin
        self.stalls = len(own)
        self.least = sum(e[1] - e[0] for e in own)  # if what the guest did between two was no part of a stall
        self.stall = own[-1][1] - own[0][0] if own else 0
        others = [e for e in inside if not own or e[1] < own[0][0] or e[0] > own[-1][1]]
        self.others = sum(e[1] - e[0] for e in others)
        self.switches = len(others) + bool(own)
        self.rest = self.length - self.stall - self.others
        self.free = None  # the exit after it


def agree(name, gaps, free, khz):
    """
    Whether gaps with stalls are as long as these and the world switches around them, whose cost the gaps of `free`,
    which have none, show. Gaps in which the machine lost its CPU are left out of the sum: there must be as many of one
    kind as of the other, because a stall does not take the CPU away.
    """
    each = [g.rest / g.switches for g in free if g.switches]
    limit = 2 * statistics.median(each)
    kept = [e for e in each if e <= limit]
    normal = statistics.mean(kept)
    held = [g for g in gaps if g.rest > limit * g.switches]
    wait = sum(g.rest - g.switches * normal for g in held)
    off = sum(g.rest - g.switches * normal for g in gaps if g.rest <= limit * g.switches)
    stall = sum(g.stall for g in gaps)
    share = 1 - len(kept) / len(each)
    print(f"{name}: {sum(g.length for g in gaps) / khz:.3f} ms in {len(gaps)} gaps = {stall / khz:.3f} ms of stalls, "
          f"{normal * 1e3 / khz:.2f} us each of switches, {sum(g.others for g in gaps) / khz:.3f} ms of other exits, "
          f"{off / khz:+.3f} ms ({100 * off / stall:+.2f} %); held up in {len(held)}, for {wait / khz:.3f} ms "
          f"({100 * len(held) / len(gaps):.1f} %; {100 * share:.1f} % of {len(each)} exits alone)")
    # With too few gaps, the sum says nothing.
    return len(gaps) < 100 or (abs(off) * 100 <= PERCENT * stall and
                               len(held) <= (2 * share + 0.02) * len(gaps) and 2 * len(held) <= len(gaps))
