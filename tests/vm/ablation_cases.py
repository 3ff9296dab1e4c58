#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Asks `kvmft latency` again, of captures from which events were taken out, what it said of each of their cases.
#
#   ablation_cases.py KVMFT ABLATE ANALYSIS HOST [GUEST]
#
# What it says of the whole captures is taken for right: other tests compare it with what was planted. A case is told
# from others by its table, its vCPU, and when it begins or ends. It is wrong if a stage differs by more than 2 % of the
# case, if its cause or kind is another one, or if there was no such case; what is said to be unknown is not. Prints a
# line for each ablation: "ANALYSIS without WHAT: same N not-known N wrong N", then some that are wrong. Exit 1: more
# than 1 % of an ablation are wrong.

import collections
import json
import shutil
import subprocess
import sys
import tempfile

kvmft, ablate, analysis, host, *guest = sys.argv[1:]
UNKNOWN = (None, "", "none", "unknown", "(unknown)", "not_recorded")
EVENTS = {
    # Without kvmmmu, a fault that KVM tries twice is two stalls.
    "mem": ["kmem", "block", "filemap", "writeback", "kprobes", "vmscan", "kvm:kvm_unmap_hva_range"],
    "io": ["block", "exceptions", "raw_syscalls", "sched:sched_waking", "kvm:kvm_mmio", "kvm:kvm_fast_mmio"],
    "net": ["net:net_dev_queue", "syscalls", "sched:sched_waking", "skb:consume_skb", "kvm:kvm_mmio"],
}
COMMON = ["sched:sched_switch", "sched:sched_wakeup", "kvm:kvm_userspace_exit", "kvm:kvm_vcpu_wakeup", "kvm:kvm_inj_virq",
          "kvm:kvm_apic_accept_irq", "kvm:kvm_msi_set_irq", "irq"]


def run(options, source, target):
    if options and source:
        shutil.copytree(source, target)
        subprocess.run([ablate, *options, target], check=True, stdout=subprocess.DEVNULL)
        return target
    return source


def cases(*captures):
    ran = subprocess.run([kvmft, "latency", analysis, "-q", "-C", "0", "--worst", "20000", "--format", "json", *captures],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if ran.returncode not in (0, 3, 4):
        sys.exit("latency %s: exit %d" % (analysis, ran.returncode))
    doc = json.loads(ran.stdout) if ran.stdout else {}
    return [(name, c) for name, t in doc.items() if isinstance(t, dict) for c in t.get("worst", [])]


def key(name, c, end):
    return name, c["vm"], c["vcpu"], c["end_host_tsc" if end else "begin_host_tsc"]


def kind(name, c):
    return c["what"].split(",")[0] if name.startswith("mem") else None


def differs(name, c, whole):
    for stage, ns in c["stages_ns"].items():
        if ns is not None and abs(ns - (whole["stages_ns"].get(stage) or 0)) > whole["total_ns"] / 50:
            return "%s %d, not %s" % (stage, ns, whole["stages_ns"].get(stage))
    for have, want in ((c["cause"], whole["cause"]), (kind(name, c), kind(name, whole))):
        # Without its first or last part, most of a case may be another one's.
        if have not in UNKNOWN and have != want and not have.startswith("(not") and \
                not (want in UNKNOWN and c["total_ns"] < whole["total_ns"]):
            return "%s, not %s" % (have, want)
    return None


def main():
    whole, least = collections.defaultdict(list), {}
    n, bad = 0, 0
    for name, c in cases(host, *guest):
        least[name] = min(c["total_ns"], least.get(name, c["total_ns"]))  # shorter ones may be left out
        whole[key(name, c, False)].append(c)
        whole[key(name, c, True)].append(c)
        n += 1
    ablations = [(e, ["--drop", e], side) for side in ("host", "guest") if guest or side == "host"
                 for e in COMMON + EVENTS.get(analysis, []) if side == "host" or not e.startswith("kvm")]
    ablations += [("1,000 events", ["--holes", "1000"], "host"), ("all but kvm_entry, kvm_exit",
                  ["--keep", "kvm:kvm_entry", "--keep", "kvm:kvm_exit"], "host")]
    # Of interrupts and timers the end is another one then, and what they count is.
    ablations += [] if analysis in ("irq", "timer") else [("", [], "")]
    for what, options, side in ablations:
        with tempfile.TemporaryDirectory() as tmp:
            captures = [run(options if side == "host" else [], host, tmp + "/host")]
            if side:
                captures += [run(options if side == "guest" else [], g, tmp + "/guest") for g in guest]
            found = cases(*captures)
        wrong = []
        for name, c in found:
            near = whole[key(name, c, False)] + whole[key(name, c, True)]
            why = [differs(name, c, w) for w in near] or ["there was none"]
            if all(why) and not (name == "mem" and "(unknown)" in c["what"]) and (near or c["total_ns"] > least.get(name, 0)):
                wrong.append("%s %s at %d: %s" % (name, c["what"], c["begin_host_tsc"], why[0]))
        print("%s without %s: same %d not-known %d wrong %d" %
              (analysis, "%s of the %s" % (what, side) if side else "the guest", len(found) - len(wrong),
               max(0, n - len(found)), len(wrong)))
        bad += len(wrong) * 100 > n
        for line in wrong[:3]:
            print("#    " + line)
        sys.stdout.flush()
    sys.exit(bad > 0)


main()
