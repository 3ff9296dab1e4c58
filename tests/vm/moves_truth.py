# SPDX-License-Identifier: GPL-2.0-or-later
#
# moves_truth.py KVMFT DIR [FROM]: what a guest of touchos found while it moved, against `kvmft latency mem`. Its log in
# the last VMM has all of it. A write is a stall if the host has an exit for a fault in it. FROM: the folder of the host
# that the guest came from.
#
# A stretch that reaches over a move is the blackout, and what the guest did before and after it in the same stretch:
# it ran, for a pass of its loop at most, and it had exits, which are recorded. An emulated host may lose its own CPU
# while its guest runs, which nothing records: no longer than anywhere else in the log.
import json
import re
import struct
import subprocess
import sys
from collections import Counter

sys.dont_write_bytecode = True
from gaps import Gap, Turns, agree  # noqa: E402

kvmft, where = sys.argv[1:3]
FROM = sys.argv[3] if len(sys.argv) > 3 else None
NO_WRITE, SWITCH = 1 << 31, 1 << 30
RANGE = (0x4000000, 0x8000000)
failed = []


def must(holds, what):
    if not holds:
        failed.append(what)


def run(*args):
    return subprocess.run([kvmft, *args], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def latency(*args):
    doc = json.loads(run("latency", "mem", "-q", "--worst", "0", "--format", "json", *args))
    return {t: {g["name"]: g for g in doc[t]["groups"]} for t in doc if t.startswith("mem")}


class Host:
    """A host that was recorded: the VMs of one guest that it had, one after the other."""

    def __init__(self, folder):
        self.capture = f"{folder}/host"
        with open(f"{folder}/facts-host", encoding="utf-8") as f:
            facts = dict(line.strip().split("=", 1) for line in f)
        with open(f"{self.capture}/meta", encoding="utf-8") as f:
            meta = f.read()
        self.khz = int(re.search(r"^tsc khz=(\d+)", meta, re.M).group(1))
        names = [n for n in ("first", "second", "third", "home") if f"pid_{n}" in facts]
        self.vms = [Vm(self, n, facts, meta) for n in names]
        self.walk()

    def walk(self):
        by_tid = {v.tid: v for v in self.vms}
        merged = subprocess.Popen([kvmft, "merge", "-q", "-e", "kvm:kvm_exit,kvm:kvm_entry,kvm:kvm_page_fault,"
                                   "kvm:kvm_userspace_exit", "--clock", "host-tsc", "--format", "json", self.capture],
                                  stdout=subprocess.PIPE, encoding="utf-8")
        for line in merged.stdout:
            e = json.loads(line)
            v = by_tid.get(e.get("pid"))
            if v is None:
                continue
            if e["event"] == "kvm:kvm_exit":
                v.turns.exit(e["t"], e["reason"])
                v.left = e["t"]
            elif e["event"] == "kvm:kvm_entry":
                v.turns.entry(e["t"])
                v.came = v.came or e["t"]
            elif e["event"] == "kvm:kvm_page_fault":
                at = int(e["fields"]["fault_address"], 16)
                v.faults[at >> 12] += 1
                if not RANGE[0] <= at < RANGE[1]:
                    v.turns.all[-1][2] = "a page that is not one of them"
            else:
                v.full += e["fields"]["reason"] == 31  # KVM_EXIT_DIRTY_RING_FULL
                v.kicked += e["fields"]["errno"] == -4  # EINTR
        assert merged.wait() == 0
        for v in self.vms:
            v.turns.done()


class Vm:
    def __init__(self, host, name, facts, meta):
        self.host, self.name, self.pid = host, name, facts[f"pid_{name}"]
        self.id = re.search(rf"^vm id=({self.pid}-\d+) ", meta, re.M).group(1)
        self.tid = int(re.search(rf"^vcpu vm={self.id} id=0 tid=(\d+)", meta, re.M).group(1))
        self.offset = int(facts[f"offset_{name}"])
        self.turns, self.full, self.kicked, self.came, self.left = Turns(), 0, 0, None, None
        self.faults = Counter()
        self.writes, self.passes = [], [[]]

    def gap(self, begin, end):
        return Gap(self.turns, begin - self.offset, end - self.offset)

    def guest(self, t):
        return t + self.offset


def log_of(path):
    with open(path, "rb") as f:
        data = f.read()
    magic, n, dropped, _, passes = struct.unpack_from("<5I", data)
    assert magic == 0x746f7563 and not dropped, (magic, dropped)
    return [struct.unpack_from("<IIQ", data, 32 + 16 * i) for i in range(n)], passes


def sort(log, vms):
    """Of each VM its writes that are stalls; returns stretches over a move, and the longest rest of another."""
    over, longest, write = [], 0, None
    ends = [v.guest(v.left) for v in vms]
    for page, cycles, begin in log:
        at, to = (next((i for i, t in enumerate(ends[:-1]) if x < t), len(vms) - 1) for x in (begin, begin + cycles))
        v = vms[at]
        if at != to:
            over.append((v, vms[to], begin, begin + cycles))
            continue
        gap = v.gap(begin, begin + cycles)
        longest = max(longest, gap.rest)
        if page & SWITCH and write:
            write.free = gap
        write = None
        if page & (NO_WRITE | SWITCH) or not gap.stalls:
            continue
        write, gap.page = gap, page
        v.writes.append(gap)
    return over, longest


def parts_of(v, balloon):
    """What the guest wrote to: all for the first time, then what the balloon had, then what a log watched."""
    if not balloon or v.name != "first":
        return {v.name: v.writes}
    begins = [i for i, g in enumerate(v.writes) if not i or g.page < v.writes[i - 1].page]
    return {"first, first touch": v.writes[:begins[1]], "first, balloon": v.writes[begins[1]:begins[2]],
            "first, dirty log": v.writes[begins[2]:]}


def stalls(v, over, balloon):
    """Those of the guest's writes, against the exits and against kvmft."""
    khz = v.host.khz
    parts = parts_of(v, balloon)
    for part, gaps in parts.items():
        free = [g.free for g in gaps if g.free and not g.free.stalls]
        must(agree(part, gaps, free, khz), f"{part}: sums differ")
    # The stretch that it moved in may have had to wait for a page on both sides.
    moved = [Gap(v.turns, begin - v.offset, v.left - 1) for a, _, begin, _ in over if a is v]
    moved += [Gap(v.turns, v.came, end - v.offset) for _, b, _, end in over if b is v]
    all_ = v.writes + [g for g in moved if g.stalls]
    groups = latency("--vm", v.id, "--by", "gpa", v.host.capture)["mem-gpa"]
    have = groups[f"{RANGE[0]:#x}-{RANGE[1] - 1:#x}"]
    causes, told = have["causes"], have["stages"]["total"]
    # A write that had to wait twice counts as one stall or two.
    counts = len(all_), sum(g.stalls for g in all_)
    totals = sum(g.least for g in all_) / khz * 1e6, sum(g.stall for g in all_) / khz * 1e6
    print(f"{v.name}: guest {counts[0]} to {counts[1]} stalls, of {totals[0] / 1e6:.3f} to {totals[1] / 1e6:.3f} ms by "
          f"exits; kvmft {told['count']}, {told['total_ns'] / 1e6:.3f} ms; {causes}")
    # Emptying a full ring protects its last page as well, which then stalls again.
    few = counts[0] // 1000
    must(counts[0] - few <= told["count"] <= counts[1] + few + v.full, f"{v.name}: counts differ")
    must(totals[0] * 0.999 <= told["total_ns"] + told["count"] and told["total_ns"] <= totals[1] * 1.001,
         f"{v.name}: sums differ from those of exits")
    must(causes.get("unknown", 0) <= (few if v.full else 0), f"{v.name}: not told")
    if len(parts) > 1:
        must(len(parts["first, balloon"]) == causes.get("refault_vmm") == 4096, "balloon")


def blackout(a, b, begin, end, longest, period):
    khz = a.host.khz  # the first one's, also where they differ
    gone, come = begin - a.offset, end - b.offset
    # What the guest waited for on both sides has exits; the rest of the time it ran, or believed so.
    waited = sum(e[1] - e[0] for e in a.turns.between(gone, a.left) if e[0] < a.left)
    waited += sum(min(e[1], come) - e[0] for e in b.turns.between(b.came, come))
    beside = a.left - gone + come - b.came
    if a.host is b.host:
        row = latency("--vm", b.id, "--by", "move", b.host.capture)["mem-move"]["blackout, vCPU 0"]
        exact = (b.came - a.left) / khz * 1e6
    else:
        row = latency("--by", "move", "--host", b.host.capture, a.host.capture)["mem-move"]["of it in its TSC, vCPU 0"]
        exact = (b.guest(b.came) - a.guest(a.left)) / khz * 1e6
    have = row["stages"]["total"]["total_ns"]
    print(f"{a.name} to {b.name}: blackout {exact / 1e6:.6f} ms by exit and entry; kvmft {have / 1e6:.6f} ms; in the same "
          f"stretch the guest waited {waited / khz:.3f} ms and ran {(beside - waited) / khz:.3f} ms; a pass takes "
          f"{period / khz:.3f} ms, and the machine lost its CPU for up to {longest / khz:.3f} ms")
    must(gone <= a.left and b.came <= come, f"{a.name}: the guest ran during the blackout")
    must(abs(exact - have) <= 1, f"{a.name}: blackout")
    must(beside - waited <= period + longest, f"{a.name}: the guest's stretch is longer")


def rounds(v):
    """
    Its rounds. QEMU says when it clears what it read of the log, and from which page on; the first time all pages are
    in it. Those that the guest writes whenever it runs are in it, too, unless all that was read is from between the reading
    and the clearing of the one before: then no page was protected for a second time, and it is one round. Whether one was
    the guest's next write to it tells; its very first one may be another fault.
    """
    moves = latency("--vm", v.id, "--by", "move", v.host.capture)
    # A ring is emptied whenever it is full: the VMM goes round by round, and KVM does not.
    if v.full:
        told = moves["mem"]["dirty log"]["stages"]["vmm"]["count"]
        print(f"{v.name}: the ring was full {v.full} times, kicked {v.kicked}; {told} stalls of the dirty log went to the VMM")
        # A stall may also be when the VMM kicks the vCPU out, to collect the rings.
        must(v.full <= told <= v.full + v.kicked, f"{v.name}: full rings")
        return
    with open(f"{where}/qemu-{v.name}.log", encoding="utf-8", errors="replace") as f:
        ran, stopped, _ = f.read().partition("(finish-migrate)")
    clears = [int(p, 16) for p in re.findall(r"migration_bitmap_clear_dirty rb pc.ram .* page (\S+)", ran)]
    told = 1 + clears[1:].count(min(clears[1:]))
    counts = [g["stages"]["total"]["count"] for m, g in moves["mem-move"].items() if m.startswith("round ")]
    print(f"{v.name}: the log was cleared {len(clears)} times while the guest ran, {told} times with its own pages; "
          f"{len(counts)} rounds, {sum(counts)} stalls in them")
    again = v.faults[min(clears[1:])] - 1
    must(stopped and 2 <= len(counts) and again <= len(counts) <= told, f"{v.name}: rounds")
    must(sum(counts) >= len(counts) * 100, f"{v.name}: rounds without stalls")


def main():
    hosts = [Host(f) for f in ([FROM] if FROM else []) + [where]]
    vms = [v for h in hosts for v in h.vms]
    last = {"second": "precopy", "third": "postcopy", "home": "home"}[vms[-1].name]
    log, passes = log_of(f"{where}/{last}.bin")
    over, longest = sort(log, vms)
    period = sum(v.left - v.came for v in vms) / passes
    must(len(over) == len(vms) - 1, f"{len(over)} stretches reach over a move")
    for v in vms:
        stalls(v, over, last == "postcopy")
    for move in over:
        blackout(*move, longest, period)
    if last == "home":
        return
    # A busy machine may be done with pre-copy before QEMU is told to go on with post-copy.
    with open(f"{where}/{vms[-2].name}.migrate", encoding="utf-8") as f:
        late = last == "postcopy" and "postcopy ram" not in f.read()
    for v in vms[:-1]:
        rounds(v)
    if last == "postcopy" and not late:
        kinds = latency("--vm", vms[2].id, vms[2].host.capture)["mem"]
        must("userfaultfd" in kinds, "post-copy")


main()
assert not failed, failed
