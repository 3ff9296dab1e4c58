# SPDX-License-Identifier: GPL-2.0-or-later
#
# moves_truth.py DIR KVMFT: what a guest of touchos found while it moved twice, against `kvmft latency mem`. Its log in
# the last VMM has all of it. A stretch of the log is a stall if the host has an exit for a fault in it.
import bisect
import json
import re
import struct
import subprocess
import sys

where, kvmft = sys.argv[1:]
NO_WRITE = 1 << 31
facts = dict(line.strip().split("=", 1) for line in open(f"{where}/facts-host", encoding="utf-8"))
NAMES = [n for n in ("first", "second", "third") if f"pid_{n}" in facts]
meta = open(f"{where}/host/meta", encoding="utf-8").read()
khz = int(re.search(r"^tsc khz=(\d+)", meta, re.M).group(1))


def run(*args):
    return subprocess.run([kvmft, *args], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


class Vm:
    def __init__(self, name):
        self.name, self.pid = name, facts[f"pid_{name}"]
        self.id = re.search(rf"^vm id=({self.pid}-\d+) ", meta, re.M).group(1)
        self.tid = int(re.search(rf"^vcpu vm={self.id} id=0 tid=(\d+)", meta, re.M).group(1))
        self.offset = int(facts[f"offset_{name}"])
        self.faults, self.exits, self.entries, self.full = [], [], [], 0
        mem = json.loads(run("latency", "mem", "-q", "--vm", self.id, "--by", "gpa,move", "--worst", "0",
                             "--format", "json", f"{where}/host"))
        self.group = next(g for g in mem["mem-gpa"]["groups"] if g["name"] == "0x4000000-0x7ffffff")
        self.kinds = {g["name"]: g["stages"] for g in mem["mem"]["groups"]}
        self.moves = {g["name"]: g["stages"]["total"] for g in mem["mem-move"]["groups"]}

    def host(self, guest):
        return guest - self.offset


vms = [Vm(n) for n in NAMES]
by_tid = {v.tid: v for v in vms}
merged = subprocess.Popen([kvmft, "merge", "-q", "--clock", "host-tsc", "--format", "json", f"{where}/host"],
                          stdout=subprocess.PIPE, encoding="utf-8")
for line in merged.stdout:
    if '"event":"kvm:kvm_' not in line:
        continue
    e = json.loads(line)
    v = by_tid.get(e["pid"])
    if v is None:
        continue
    if e["event"] == "kvm:kvm_exit":
        v.exits.append(e["t"])
    elif e["event"] == "kvm:kvm_entry":
        v.entries.append(e["t"])
    elif e["event"] == "kvm:kvm_page_fault":
        v.faults.append(e["t"])
    elif e["event"] == "kvm:kvm_userspace_exit":
        v.full += e["fields"]["reason"] == 31  # KVM_EXIT_DIRTY_RING_FULL
assert merged.wait() == 0
data = open(f"{where}/{'postcopy' if 'third' in NAMES else 'precopy'}.bin", "rb").read()
magic, n, dropped, limit, passes = struct.unpack_from("<5I", data)
assert magic == 0x746f7563 and not dropped, (magic, dropped)
log = [struct.unpack_from("<IIQ", data, 32 + 16 * i) for i in range(n)]
# The guest's TSC at which it left each of them.
left = [v.exits[-1] + v.offset for v in vms]
failed = []
stalls = {v: [0, 0] for v in vms}
blackouts = []
for page, cycles, begin in log:
    a, b = (next((i for i, t in enumerate(left) if at < t), len(vms) - 1) for at in (begin, begin + cycles))
    if a != b:
        blackouts.append((vms[a], vms[b], begin, begin + cycles))
    if page & NO_WRITE or a != b:
        continue
    v = vms[a]
    at = bisect.bisect_left(v.faults, v.host(begin))
    if at < len(v.faults) and v.faults[at] <= v.host(begin + cycles):
        stalls[v][0] += 1
        stalls[v][1] += cycles
for v in vms:
    count, total = stalls[v][0], stalls[v][1] / khz * 1e6
    have = v.group["stages"]["total"]
    print(f"{v.name}: guest {count} stalls, {total / 1e6:.3f} ms; kvmft {have['count']}, {have['total_ns'] / 1e6:.3f} ms, "
          f"{(total - have['total_ns']) / max(count, 1) / 1e3:.1f} us beside each; {v.group['causes']}")
    # One may be of a move itself. Who empties a full ring protects its last page, too, which then stalls again.
    if not -max(count // 1000, 1) <= have["count"] - count <= max(count // 1000, 1) + v.full:
        failed.append(f"{v.name}: counts differ")
    if not 0 <= total - have["total_ns"] <= count * 120000:
        failed.append(f"{v.name}: sums differ by more than what an exit takes beside")
    if v.group["causes"].get("not told", 0) > (count // 1000 if v.full else 0):
        failed.append(f"{v.name}: not told")
writing = sum(v.entries[-1] - v.entries[0] for v in vms) / khz * 1e3
period = writing / passes
if len(blackouts) != len(vms) - 1:
    failed.append(f"{len(blackouts)} stretches reach over a move")
for a, b, begin, end in blackouts:
    gone, come = a.host(begin), b.host(end)
    # The write that it moved in may have had to wait for its page there.
    there = sum(b.entries[bisect.bisect_left(b.entries, t)] - t for t in b.exits if t < come)
    us = (come - gone - there) / khz * 1e3
    have = b.moves["blackout, vCPU 0"]["total_ns"] / 1e3
    print(f"{a.name} to {b.name}: guest ran nowhere for at most {us / 1e3:.3f} ms, and waited "
          f"{there / khz:.3f} ms in the same write; kvmft {have / 1e3:.3f} ms; "
          f"a pass takes {period:.0f} us")
    if not 0 <= us - have <= period or not gone <= a.exits[-1] <= b.entries[0] <= come:
        failed.append(f"{a.name}: blackout")
for v, beside in zip(vms[:-1], (2, 1)):
    syncs = int(re.search(r"dirty sync count: (\d+)", open(f"{where}/{v.name}.migrate", encoding="utf-8").read()).group(1))
    rounds = [m for m in v.moves if m.startswith("round ")]
    print(f"{v.name}: {syncs} times the log was read, {len(rounds)} rounds, "
          f"{sum(v.moves[m]['count'] for m in rounds)} stalls in them")
    # A ring is emptied whenever it is full: the VMM goes round by round, and KVM does not.
    if v.full:
        told = v.kinds["dirty log"]["vmm"]["count"]
        print(f"{v.name}: the ring was full {v.full} times; {told} stalls of the dirty log went to the VMM")
        if not v.full <= told <= v.full * 1.5 + 10:
            failed.append(f"{v.name}: full rings")
        continue
    # When it is read first nothing was written yet, and (without post-copy) for the last time nothing runs.
    if len(rounds) != syncs - beside:
        failed.append(f"{v.name}: rounds")
    if sum(v.moves[m]["count"] for m in rounds) < len(rounds) * 100:
        failed.append(f"{v.name}: rounds without stalls")
if "third" in NAMES and vms[0].group["causes"].get("refault, VMM", 0) < 4096:
    failed.append("balloon")
if "third" in NAMES and "userfaultfd" not in vms[2].group["causes"]:
    failed.append("post-copy")
assert not failed, failed
