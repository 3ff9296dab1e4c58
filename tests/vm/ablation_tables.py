#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Asks `kvmft report --split`, or `kvmft diff`, again, of captures from which events were taken out.
#
#   ablation_tables.py KVMFT ABLATE split HOST
#   ablation_tables.py KVMFT ABLATE diff HOST HOST [OPTION]...
#
# What is said of the whole captures is taken for right. split: a column is wrong if its share of its row's time differs
# by more than 2 %. diff: a row beyond noise is wrong if it goes the other way in the whole, or is not there; how far
# beyond it must be depends on how many rows there are. What is empty or unknown, or not beyond noise any more, is not
# known. Prints a line for each ablation: "split without WHAT: right N not-known N wrong N", then what was wrong. Exit 1:
# more than 1 % of an ablation are wrong.

import csv
import os
import shutil
import subprocess
import sys
import tempfile

kvmft, ablate, command, *operands = sys.argv[1:]
COLUMNS = ("kernel_us", "user_us", "poll_us", "blocked_us", "runnable_us", "preempted_us")
ABLATIONS = [(e, ["--drop", e]) for e in (
    "sched:sched_switch", "sched:sched_wakeup", "kvm:kvm_userspace_exit", "kvm:kvm_vcpu_wakeup", "kvm:kvm_inj_virq",
    "kvm:kvm_apic_accept_irq", "kvm:kvm_mmio", "kvm:kvm_msr", "power:cpu_idle", "irq", "irq_vectors")]
ABLATIONS += [("sched_switch, sched_wakeup", ["--drop", "sched:sched_switch", "--drop", "sched:sched_wakeup"]),
              ("all but kvm_entry, kvm_exit", ["--keep", "kvm:kvm_entry", "--keep", "kvm:kvm_exit"]),
              ("holes", ["--holes", None])]


def table(*arguments):
    ran = subprocess.run([kvmft, *arguments, "--format", "csv"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         check=False, encoding="utf-8")
    if ran.returncode not in (0, 3, 4):
        sys.exit("%s: exit %d" % (" ".join(arguments), ran.returncode))
    return list(csv.DictReader(ran.stdout.splitlines()))


# Each answer by what it is of.
def answers(captures, *more):
    if command == "split":
        return {(r["vm"], r["event"], c): (float(r[c]) / float(r["total_us"]), float(r["total_us"]))
                for r in table("report", "--split", *captures) for c in COLUMNS if r[c] != "" and float(r["total_us"])}
    rows = table("diff", *captures, *operands[2:], *more)
    return {(r["name"], r["measure"]): float(r["after"]) > float(r["before"]) for r in rows if r["before"] and r["after"]}


def size(capture):
    return sum(os.path.getsize(d + "/" + f) for d, _, files in os.walk(capture) for f in files)


def differs(found, whole):
    if command == "split":
        return whole is None or abs(found[0] - whole[0]) > 0.02
    return found != whole


def main():
    whole = answers(operands[:2] if command == "diff" else operands)
    every = answers(operands[:2], "--all") if command == "diff" else whole
    bad = 0
    for what, options in ABLATIONS:
        with tempfile.TemporaryDirectory() as tmp:
            captures = []
            for n, capture in enumerate(operands[:2] if command == "diff" else operands):
                captures.append(shutil.copytree(capture, "%s/%d" % (tmp, n)))
                holes = str(min(1000, size(capture) // 60000))
                subprocess.run([ablate, *[o or holes for o in options], captures[-1]], check=True, stdout=subprocess.DEVNULL)
            found = answers(captures)
        # Of a row that has lost more of its time than that, nothing is known.
        if command == "split":
            found = {k: v for k, v in found.items() if k not in whole or v[1] > 0.98 * whole[k][1]}
        wrong = ["%s: %s, not %s" % (" ".join(k), v, every.get(k)) for k, v in found.items() if differs(v, every.get(k))]
        print("%s without %s: right %d not-known %d wrong %d" %
              (command, what, len(found) - len(wrong), len(set(whole) - set(found)), len(wrong)))
        for line in wrong[:5]:
            print("#    " + line)
        sys.stdout.flush()
        bad += len(wrong) * 100 > max(len(whole), 1)
    sys.exit(bad > 0)


main()
