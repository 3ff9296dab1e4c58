#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Asks `kvmft stuck -i` of recordings of guests that hang, or are busy and healthy, also without some of their events.
#
#   ablation_stuck.py KVMFT ABLATE DIR
#
# DIR has a file `planted`, with a line for each: NAME CLASS VM; NAME.rec is its recording, and CLASS is what stuck said of
# it live, or "healthy". An answer is right if it is that class, or for a healthy one that it makes progress; not known if
# it is unknown, or in-guest (nobody saw where); and else wrong. Prints a line for each ablation: "stuck without WHAT: right
# N not-known N wrong N sure-and-wrong N", then what was wrong. Exit 1: more than 1 % in all, or one that is sure. ONLY="WHAT|WHAT..."
# in the environment: only these.

import json
import os
import shutil
import subprocess
import sys
import tempfile

kvmft, ablate, planted = sys.argv[1:]
ABLATIONS = [("nothing", [])] + [(e, ["--drop", e]) for e in (
    "sched:sched_switch", "sched:sched_wakeup", "kvm:kvm_userspace_exit", "kvm:kvm_vcpu_wakeup", "kvm:kvm_inj_virq",
    "kvm:kvm_apic_accept_irq", "kvm:kvm_eoi", "kvm:kvm_msr", "kvm:kvm_pio", "kvm:kvm_mmio", "kvm:kvm_page_fault",
    "kvm:kvm_entry")]
ABLATIONS += [("injections", ["--drop", "kvm:kvm_inj_virq", "--drop", "kvm:kvm_apic_accept_irq"]),
              ("interrupts", [a for e in ("inj_virq", "apic_accept_irq", "eoi", "pv_eoi", "msr") for a in ("--drop", "kvm:kvm_" + e)]),
              ("all but kvm_entry, kvm_exit", ["--keep", "kvm:kvm_entry", "--keep", "kvm:kvm_exit"])]
ABLATIONS += [("%d holes" % n, ["--holes", str(n)]) for n in (5, 20, 100, 1000)]


def ask(capture, vm):
    ran = subprocess.run([kvmft, "stuck", "-i", capture, "--vm", vm, "--format", "json"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, check=False)
    if ran.returncode not in (0, 3, 4):
        sys.exit("stuck -i %s: exit %d" % (capture, ran.returncode))
    vcpus = [c for v in json.loads(ran.stdout)["vms"] for c in v["vcpus"]] if ran.stdout else []
    return vcpus[0] if vcpus else {"class": "unknown", "sure": False, "why": ""}


def main():
    with open(planted + "/planted", encoding="utf-8") as f:
        cases = [line.split() for line in f]
    asked, bad, sure = 0, 0, 0
    only = os.environ.get("ONLY", "").split("|")
    for what, options in ABLATIONS:
        if only[0] and what not in only:
            continue
        count, wrong = dict.fromkeys(("right", "not-known", "wrong", "sure-and-wrong"), 0), []
        for name, truth, vm in cases:
            capture = "%s/%s.rec" % (planted, name)
            with tempfile.TemporaryDirectory() as tmp:
                if options:
                    capture = shutil.copytree(capture, tmp + "/rec")
                    subprocess.run([ablate, *options, capture], check=True, stdout=subprocess.DEVNULL)
                said = ask(capture, vm)
            if said["class"] in (("running", "idle") if truth == "healthy" else (truth,)):
                count["right"] += 1
            elif said["class"] in ("unknown", "in-guest"):
                count["not-known"] += 1
            else:
                count["wrong"] += 1
                count["sure-and-wrong"] += said["sure"]
                wrong.append("%s: %s%s: %s" % (name, said["class"], " SURE" if said["sure"] else "", said["why"]))
        print("stuck without %s: %s" % (what, " ".join("%s %d" % kv for kv in count.items())))
        for line in wrong[: 200 if os.environ.get("WRONG") else 8]:
            print("#    " + line)
        sys.stdout.flush()
        asked += len(cases)
        bad += count["wrong"]
        sure += count["sure-and-wrong"]
    sys.exit(sure > 0 or bad * 100 > asked)


main()
