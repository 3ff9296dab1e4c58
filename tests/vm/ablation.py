#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Asks blame again, of captures from which events were taken out, what delays were due to that were planted.
#
#   ablation.py KVMFT ABLATE blame RIG...
#
# RIG is what the scenario blame left: host, guest, truth, spins. An answer is right if it is the planted cause (or if it
# says that this took most of the delay, as in blame_truth.py), not known if it is unknown or lost or there is none, and
# wrong otherwise. Where no times of planting are known, the emulated host may have been as late for another reason: an
# answer that is one exit is right, too, if the events show that exit (see one_exit). Prints a line for each ablation:
# "NAME right N not-known N wrong N sure-and-wrong N", then what was wrong, or right without having been planted.
# Exit 1: more than 1 % of an ablation are wrong, or one that is sure.

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

WHOLE = "nothing"
UNKNOWN = ("unknown", "lost")
# Name, arguments of ablate for the host, ... for the guest; None: without that capture.
ABLATIONS = [
    (WHOLE, [], []),
    ("sched_switch", ["--drop", "sched:sched_switch"], []),
    ("sched_switch, both", ["--drop", "sched:sched_switch"], ["--drop", "sched:sched_switch"]),
    ("sched_wakeup", ["--drop", "sched:sched_wakeup"], []),
    ("sched_wakeup, both", ["--drop", "sched:sched_wakeup"], ["--drop", "sched:sched_wakeup"]),
    ("kvm_userspace_exit", ["--drop", "kvm:kvm_userspace_exit"], []),
    ("kvm_vcpu_wakeup", ["--drop", "kvm:kvm_vcpu_wakeup"], []),
    ("injections", ["--drop", "kvm:kvm_inj_virq", "--drop", "kvm:kvm_apic_accept_irq"], []),
    ("interrupts", ["--drop", "irq", "--drop", "irq_vectors"], ["--drop", "irq", "--drop", "irq_vectors"]),
    ("ends of handlers", *[["--drop", "irq:irq_handler_exit", "--drop", "irq:softirq_exit", "--drop",
                            "irq_vectors:local_timer_exit"]] * 2),
    ("the guest", [], None),
    ("all but kvm_entry, kvm_exit", ["--keep", "kvm:kvm_entry", "--keep", "kvm:kvm_exit"], []),
    ("... and the guest", ["--keep", "kvm:kvm_entry", "--keep", "kvm:kvm_exit"], None),
    ("1,000 holes of the host", ["--holes", "1000"], []),
    ("1,000 holes of the guest", [], ["--holes", "1000"]),
]


def ablated(ablate, source, options, target):
    if options is None:
        return None
    if not options:
        return source
    shutil.copytree(source, target)
    subprocess.run([ablate, *options, target], check=True, stdout=subprocess.DEVNULL)
    return target


def spikes(kvmft, phase, host, guest):
    _, _, begin, end, than, *more = phase
    command = [kvmft, "blame", "-q", "--clock", "boot", "--from", begin, "--to", end, "--than", than + "ms"]
    command += ["--top", "1000", "--format", "json", *more, host] + ([guest] if guest else [])
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if ran.returncode not in (0, 1, 3, 4):
        sys.exit("%s: exit %d" % (" ".join(command), ran.returncode))
    return json.loads(ran.stdout)["spikes"] if ran.stdout else []


# What is judged, with how long the delay was in ns: what covers most of each that was planted at a known time; or else
# what is as long as a planted one.
def judged(phase, planted, found):
    name, _, _, _, than, *_ = phase
    times = [t[1:] for t in planted if t[0] == name]
    if not times:
        return [(s, min(s["length_ns"], float(than) * 2e6), 0) for s in found if s["length_ns"] >= float(than) * 1.6e6]
    picked = []
    for at, length, *least in times:
        best, most = None, length / 2
        for s in found:
            common = min(s["time_ns"] + s["length_ns"], at + length) - max(s["time_ns"], at)
            if common > most:
                best, most = s, common
        if best:
            picked.append((best, least[0] if least else length, at))
    return picked


# Do the events tell that most of a spike was one exit, which the kernel handled on its CPU, or that one interrupt of the
# host took a third of it? They are read as merge prints them, without any analysis: a page fault has its event in it,
# nothing has one of user space, and what other tasks ran meanwhile does not count.
def one_exit(kvmft, s, host):
    begin, end = s["time_ns"] / 1e9, (s["time_ns"] + s["length_ns"]) / 1e9
    ran = subprocess.run([kvmft, "merge", "-q", "--clock", "boot", "--from", "%.9f" % (begin - 0.01), "--to",
                          "%.9f" % (end + 0.01), host], stdout=subprocess.PIPE, check=True, encoding="utf-8")
    thread = "CPU %d/KVM" % s["vcpu"]
    exited, left, away, has, irqs = None, None, 0, set(), {}
    for task, cpu, at, event, text in re.findall(r"^host (.*)-\d+ +\[(\d+)\] +(\d+\.\d+)  (\w+:\w+): (.*)", ran.stdout,
                                                 re.M):
        at = min(max(float(at), begin), end)
        if event.startswith("irq_vectors:") and event.endswith("_entry"):
            irqs[cpu] = at
        elif event.startswith("irq_vectors:") and cpu in irqs and at - irqs.pop(cpu) > (end - begin) / 3:
            if s["cause"] == "host-irq" and task == thread:
                return True
        if event == "sched:sched_switch" and task == thread:
            left = at
        elif event == "sched:sched_switch" and "next_comm=%s " % thread in text and left:
            away, left = away + at - left, None
        elif task == thread and event == "kvm:kvm_exit":
            exited, away, has = at, 0, set()
        elif task == thread and event == "kvm:kvm_entry":
            if exited and at - exited - away > (end - begin) / 2 and "kvm:kvm_userspace_exit" not in has:
                return s["cause"] == "exit-kernel" or s["cause"] == "page-fault" and "kvm:kvm_page_fault" in has
            exited = None
        elif task == thread:
            has.add(event)
    return False


# Returns when the delays were of which that was right: what is asked of other recordings.
def ask(kvmft, phase, planted, host, guest, count, bad):
    cause, right = phase[1].split("/"), []
    answers = judged(phase, planted, spikes(kvmft, phase, host, guest))
    for s, length, at in answers:
        if s["cause"] in cause or sum(p["time_ns"] for p in s["parts"] if p["cause"] in cause) >= 0.9 * length:
            count["right"] += 1
            right.append((phase[0], s["time_ns"], s["length_ns"], length))
        elif s["cause"] in UNKNOWN or at and sum(p["time_ns"] for p in s["parts"] if p["cause"] in UNKNOWN) >= 0.9 * length:
            count["not-known"] += 1
        elif s["time_ns"] < at - length / 5:
            continue  # it began before what was planted
        else:
            # (a planted delay may be on top of an interrupt)
            shown = (s["cause"] == "host-irq" or not any(t[0] == phase[0] for t in planted)) and one_exit(kvmft, s, host)
            count["right" if shown else "wrong"] += 1
            count["sure-and-wrong"] += s["sure"] and not shown
            bad.append("%s%s at %.6f, %s, %s%s: %s" % ("right, as events show: " if shown else "", phase[0], s["time_ns"] / 1e9,
                       s["what"], s["cause"], " SURE" if s["sure"] else "", [(p["cause"], p["name"], p["time_ns"] // 1000) for p in s["parts"][:3]]))
    return len(answers), right


def main():
    kvmft, ablate, _, *rigs = sys.argv[1:]
    expected, failed = {}, False
    for name, of_host, of_guest in ABLATIONS:
        if name != WHOLE and os.environ.get("ONLY", name) not in name:
            continue
        count, bad = dict.fromkeys(("right", "not-known", "wrong", "sure-and-wrong"), 0), []
        with tempfile.TemporaryDirectory() as tmp:
            for n, rig in enumerate(rigs):
                host = ablated(ablate, rig + "/host", of_host, "%s/host%d" % (tmp, n))
                guest = ablated(ablate, rig + "/guest", of_guest, "%s/guest%d" % (tmp, n))
                with open(rig + "/spins", encoding="utf-8") as f:
                    planted = [(p, float(at) * 1e9, float(ms) * 1e6) for p, at, ms in map(str.split, f)]
                with open(rig + "/truth", encoding="utf-8") as f:
                    phases = [line.split() for line in f]
                for phase in phases:
                    if phase[1] == "none" or phase[0] == "timerlat":
                        continue
                    # An emulated host is late for reasons of its own, too: only what is right in the whole recording
                    # is asked again. What is not found any more is not known.
                    truth = planted if name == WHOLE else expected[n, phase[0]]
                    seen, right = ask(kvmft, phase, truth, host, guest, count, bad) if truth or name == WHOLE else (0, [])
                    if name == WHOLE:
                        expected[n, phase[0]] = right
                    else:
                        count["not-known"] += len(truth) - seen
        print("%-28s" % name, *("%s %d" % kv for kv in count.items()))
        for line in bad[: 200 if os.environ.get("WRONG") else 8]:
            print("#    " + line)
        sys.stdout.flush()
        asked = count["right"] + count["not-known"] + count["wrong"]
        failed |= count["sure-and-wrong"] > 0 or count["wrong"] * 100 > asked
    sys.exit(failed)


main()
