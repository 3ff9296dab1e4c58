# SPDX-License-Identifier: GPL-2.0-or-later
#
# latency_mem.py PHASE KIND GUEST JSON EXITS PERCENT META: what a guest timed (lines of memvm) against the JSON of
# `kvmft latency mem --by gpa --grain 1G` and the CSV of `kvmft report` of its VM.
import csv
import json
import re
import sys

phase, kind, guest, doc, exits, percent, meta = sys.argv[1:]
HIGH = "0x40000000-0x7fffffff"

khz = None
with open(meta, encoding="utf-8") as f:
    for line in f:
        m = re.search(r"\btsc_khz=(\d+)", line) or re.search(r"\bkhz=(\d+)", line)
        if m and line.startswith("tsc "):
            khz = int(m.group(1))
count = cycles = want = all_touches = 0
for line in open(guest, encoding="utf-8"):
    m = re.match(r"(\w+) touched (\d+) over (\d+) sum (\d+) total", line)
    if not m:
        continue
    name, touched, over, cyc = m.group(1), *map(int, m.groups()[1:])
    if name == "exit":
        free = (touched, cyc)
    elif name == phase == "mmio":
        mmio = touched
    else:
        count += over
        all_touches += touched
        cycles += cyc
        want += over if name == phase else 0
with open(exits, encoding="utf-8", newline="") as f:
    invd = [r for r in csv.DictReader(f) if any(v and v.lower() == "invd" for v in r.values())]
assert len(invd) == 1, "no invd in the report"
total = next(float(v) for k, v in invd[0].items() if k in ("total_us", "sum_us", "time_us"))
n = next(int(v) for k, v in invd[0].items() if k in ("samples", "count", "exits"))
assert n == free[0], (n, free)
beside = free[1] / khz * 1e6 / n - total * 1e3 / n

with open(doc, encoding="utf-8") as f:
    mem = json.load(f)
group = [g for g in mem["mem-gpa"]["groups"] if g["name"] == HIGH]
assert len(group) == 1, [g["name"] for g in mem["mem-gpa"]["groups"]]
host = group[0]["stages"]["total"]
causes = group[0]["causes"]
# Intel's log of pages is full now and then, and tells no address.
for g in (g for g in mem["mem-gpa"]["groups"] if g["name"] == "(not known)"):
    host = {k: host[k] + g["stages"]["total"][k] for k in ("count", "total_ns")}
    causes = {k: causes.get(k, 0) + g["causes"].get(k, 0) for k in set(causes) | set(g["causes"])}
gaps = cycles / khz * 1e6
rest = gaps - count * beside
print(f"{phase}: guest {count} touches, {gaps / 1e6:.3f} ms; kvmft {host['count']} stalls, {host['total_ns'] / 1e6:.3f} ms; "
      f"beside {beside / 1e3:.1f} us each: {100 * (rest - host['total_ns']) / host['total_ns']:+.1f} %; {causes}")
# The host's interrupts are exits, too, which a guest cannot tell from stalls.
assert abs(host["count"] - count) * 1000 <= all_touches, "counts differ"
if phase == "mmio":
    assert mem["mem"]["counts"]["accesses to devices: no stalls"] >= mmio
elif kind == "first touch":
    assert causes.get(kind) == host["count"], causes
else:
    # A log goes on until it is switched off, so a last pass has some as well. Intel's own log of pages has none.
    assert sum(causes.get(k, 0) for k in kind.split("|")) >= want * 0.999, (want, causes)
# What ksmd or an interrupt does in the midst of it may hide the reason of one.
assert causes.get("not told", 0) * 1000 <= all_touches, causes
if float(percent):
    assert abs(rest - host["total_ns"]) * 100 <= float(percent) * host["total_ns"], "sums differ"
else:
    assert host["total_ns"] <= gaps, "stalls are longer than what the guest saw"
