# SPDX-License-Identifier: GPL-2.0-or-later
#
# latency_mem.py PHASE KIND GUEST STAMPS JSON TURNS META: what a guest of memvm timed (its lines and its stamps) against
# the JSON of `kvmft latency mem --by gpa --grain 1G` of its VM. TURNS: exits, entries and the TSC offset of the VM
# as `kvmft merge --clock host-tsc --format json` has them, which tell in which of the guest's gaps a stall was.
import json
import re
import struct
import sys

sys.dont_write_bytecode = True
from gaps import Gap, Turns, agree  # noqa: E402

phase, kind, guest, stamps, doc, merged, meta = sys.argv[1:]
HIGH = "0x40000000-0x7fffffff"

facts = open(meta, encoding="utf-8").read()
khz = int(re.search(r"^tsc khz=(\d+)", facts, re.M).group(1))
lines = open(guest, encoding="utf-8").read()
turns = Turns()
for line in open(merged, encoding="utf-8"):
    e = json.loads(line)
    if e["event"] == "kvm:kvm_write_tsc_offset":
        offset = e["fields"]["next_tsc_offset"] - (1 << 64)
    elif e["event"] == "kvm:kvm_exit":
        turns.exit(e["t"], e["reason"])
    else:
        turns.entry(e["t"])
turns.done()


def unwrap(base, low):
    return base + (low - base & 0xffffffff)


def us(cycles):
    return cycles * 1e3 / khz


data = open(stamps, "rb").read()
at = failed = all_touches = longer = count = silent = total = 0
for name, touched, over in re.findall(r"^(\w+) touched (\d+) over (\d+) ", lines, re.M):
    touched = int(touched)
    gaps, free = [], []
    for _ in range(touched):
        low, high, *four = struct.unpack_from("<6I", data, at)
        at += 24
        t = [low | high << 32]
        for part in four:
            t.append(unwrap(t[-1], part))
        t = [x - offset for x in t]
        gaps.append(Gap(turns, t[1], t[2]))
        free.append(Gap(turns, t[3], t[4]))
    if name == "exit" or name == phase == "mmio":
        assert int(over) == touched and all(g.switches for g in gaps), name
        continue
    all_touches += touched
    longer += int(over)
    had = [g for g in gaps if g.stalls]
    count += len(had)
    total += sum(g.stall for g in had)
    silent += sum(not g.stalls for g in sorted(gaps, key=lambda g: -g.length)[:int(over)])
    if not had:
        continue
    failed += not agree(f"{phase}, {name}", had, free, khz)
assert at == len(data)

with open(doc, encoding="utf-8") as f:
    mem = json.load(f)
group = [g for g in mem["mem-gpa"]["groups"] if g["name"] == HIGH]
assert len(group) == 1, [g["name"] for g in mem["mem-gpa"]["groups"]]
host = group[0]["stages"]["total"]
causes = group[0]["causes"]
# Intel's page-modification log fills up now and then, and gives no address.
for g in (g for g in mem["mem-gpa"]["groups"] if g["name"] == "(not known)"):
    host = {k: host[k] + g["stages"]["total"][k] for k in ("count", "total_ns")}
    causes = {k: causes.get(k, 0) + g["causes"].get(k, 0) for k in set(causes) | set(g["causes"])}
causes = {mem["mem-gpa"]["words"].get(k, k): n for k, n in causes.items()}
print(f"{phase}: {longer} touches took long, {silent} of them without a stall; {count} stalls were in a gap, "
      f"{total / khz:.3f} ms; kvmft {host['count']}, {host['total_ns'] / 1e6:.3f} ms; {causes}")
assert not failed, "sums differ"
assert abs(host["count"] - count) * 1000 <= all_touches, "counts differ"
assert abs(host["count"] - longer + silent) * 1000 <= all_touches, "counts differ from what took long"
# The time of each stall is in whole ns.
slack = abs(host["count"] - count) * us(max(e[1] - e[0] for e in turns.all)) * 1e3
assert abs(host["total_ns"] - us(total) * 1e3) <= 2 * count + slack, "sums differ from those of exits"
if phase == "mmio":
    assert mem["mem"]["counts"]["device"] >= all_touches
elif kind == "access log":
    # Where the CPU notes accesses itself, nothing has to wait.
    over = sum(int(n) for n in re.findall(rf"^{phase} touched \d+ over (\d+) ", lines, re.M))
    want = max(over - silent, 0)
    assert abs(causes.get(kind, 0) - want) * 1000 <= all_touches, (want, causes)
    # What asks KVM and, unlike MADV_PAGEOUT of 6.12 and aging of 6.1, not only the VMM's own tables.
    asks = {"6.1": ["access"], "6.12": ["mglru", "damon"]}
    kernel = re.search(r"uname=Linux%20(\d+\.\d+)\.", facts).group(1)
    if "name=eptad value=N" not in facts:
        assert want == 0, want
    elif kernel in asks:
        assert (want > 0) == (phase in asks[kernel]), (kernel, phase, want)
elif kind == "first touch":
    assert causes.get(kind) == host["count"], causes
else:
    # A log goes on until it is switched off, so a last pass has some as well. Intel's own log of pages has none.
    want = sum(int(n) for n in re.findall(rf"^{phase} touched \d+ over (\d+) ", lines, re.M))
    assert sum(causes.get(k, 0) for k in kind.split("|")) >= (want - silent) * 0.999, (want, causes)
# ksmd or an interrupt in the middle of a stall may hide its reason.
assert causes.get("unknown", 0) * 1000 <= all_touches, causes
