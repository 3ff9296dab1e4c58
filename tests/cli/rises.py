# SPDX-License-Identifier: GPL-2.0-or-later
"""rises.py: no count, sum or maximum may rise when events are lost.

  rises.py make SEED                            text for mkcap: vCPU threads that move between two CPUs
  rises.py TOOLS KVMFT WORK CAPTURE...          each capture as it is, and with events lost in several ways

A line is printed for each way, and one for each figure that rose: what was recorded less of is not concluded more of.
"""
import json
import os
import random
import re
import shutil
import subprocess
import sys


def make(seed):
    """Two vCPUs and a thief on two CPUs: exits, halts, waits, and moves by sched_switch and sched_wakeup."""
    r = random.Random(seed)
    now = 1_000_000
    cpus = {0: 0, 1: 0}  # thread that runs there
    tids = (901, 902, 55)
    state = {t: "ready" for t in tids}  # or running, halted
    guest = {901: False, 902: False}
    out = [
        "meta vm id=900-1 pid=900 fd=1 name=one",
        "meta vcpu vm=900-1 id=0 tid=901 offset=0 ratio=0 frac=48",
        "meta vcpu vm=900-1 id=1 tid=902 offset=0 ratio=0 frac=48",
        "meta task tid=900 tgid=900 comm=qemu",
        "meta task tid=901 tgid=900 comm=CPU%200/KVM",
        "meta task tid=902 tgid=900 comm=CPU%201/KVM",
        "meta task tid=55 tgid=55 comm=thief",
        "recorded kvm_apic_accept_irq kvm_userspace_exit kvm_mmio kvm_vcpu_wakeup kvm_inj_virq kvm_msr",
        "recorded sched:sched_switch sched:sched_wakeup",
    ]

    def put(cpu, tid, text):
        nonlocal now
        now += r.randint(200, 3000)
        out.append(f"{cpu} {now} {tid} {text}")

    def switch(cpu, to, how):
        put(cpu, cpus[cpu], f"sched:sched_switch prev_pid={cpus[cpu]} prev_state={how} next_pid={to}")
        if cpus[cpu]:
            state[cpus[cpu]] = "halted" if how else "ready"
        cpus[cpu] = to
        if to:
            state[to] = "running"

    for _ in range(4000):
        cpu = r.randint(0, 1)
        tid = cpus[cpu]
        vcpu = tid - 901
        ready = [t for t in tids if state[t] == "ready"]
        halted = [t for t in tids if state[t] == "halted"]
        now += r.choice((0, 0, 5_000, 50_000, 400_000))
        if halted and r.random() < 0.4:
            t = r.choice(halted)
            put(cpu, tid, f"sched:sched_wakeup pid={t} target_cpu={r.randint(0, 1)}")
            state[t] = "ready"
        elif tid == 0:
            if ready:
                switch(cpu, r.choice(ready), 0)
        elif tid == 55:
            if r.random() < 0.5:
                switch(cpu, r.choice(ready or [0]), r.randint(0, 1))
        elif guest[tid]:
            reason = r.choice((1, 10, 12, 30, 48))
            put(cpu, tid, f"kvm_exit exit_reason={reason} isa=1 guest_rip=4096 vcpu_id={vcpu}")
            guest[tid] = False
            if reason == 12:
                switch(cpu, r.choice(ready or [0]), 1)
            elif reason == 30:
                put(cpu, tid, "kvm_userspace_exit reason=2")
        elif ready and r.random() < 0.2:
            switch(cpu, r.choice(ready), 0)
        else:
            put(cpu, tid, f"kvm_entry vcpu_id={vcpu} rip=4096")
            guest[tid] = True
    print("\n".join(out))


def figures(kvmft, path):
    out = {}

    def answer(*args):
        r = subprocess.run([kvmft, *args, "--format", "json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           encoding="utf-8", check=False)
        if r.returncode not in (0, 3, 4):
            sys.exit(f"{' '.join(args)}: exit {r.returncode}: {r.stderr}")
        return json.loads(r.stdout) if r.stdout.startswith("{") else {}

    def add(key, value, most=False):
        out[key] = max(out.get(key, 0), value) if most else out.get(key, 0) + value

    for event in ("vmexit", "ioport", "userspace"):
        for section in answer("report", "--event", event, "--per", "vcpu").get("sections", []):
            for row in section["rows"]:
                key = f"report {event} vCPU {section['vcpu']} {row['event']}"
                add(key + " samples", row["samples"])
                add(key + " sum", row.get("total_ns") or 0)
                add(key + " max", row.get("max_ns") or 0, True)
    for section in answer("report", "--split").get("sections", []):
        for row in section["rows"]:
            for name, value in row.items():
                if name.endswith("_ns") and isinstance(value, int) and not name.startswith(("avg", "min", "mean")):
                    add(f"split {row['event']} {name}", value)
    for args in (("latency", "sched"), ("latency", "irq"), ("report", "--waits")):
        found = answer(*args)
        for table in found.values():
            if not isinstance(table, dict):
                continue
            for group in table.get("groups", []):
                for stage, s in group["stages"].items():
                    key = f"{' '.join(args)} {group['name']} {stage}"
                    # What is not known of one case moves that to a group of its own.
                    if "unknown" not in group["name"] and "not known" not in group["name"]:
                        add(key + " count", s["count"])
                        add(key + " sum", s["total_ns"])
                        add(key + " max", s["max_ns"], True)
                    add(f"{' '.join(args)} {stage} longest", s["max_ns"], True)
        for v in found.get("vcpus", []):
            for name in ("guest", "kernel", "vmm", "halted", "waiting", "preempted"):
                add(f"{' '.join(args)} vCPU {v['vcpu']} {name}", v[name])
    return out


def cut(path, cpu, part, head):
    """Only the beginning or the end of a CPU's events is there, as of a killed recorder or removed segments."""
    name = f"{path}/seg000000/cpu{cpu}"
    with open(name, "rb") as f:
        data = f.read()
    pages = len(data) // 4096
    at = pages * part // 100 * 4096
    with open(name, "wb") as f:
        f.write(data[at:] if head else data[:at])
    if head:
        os.rename(f"{path}/seg000000", f"{path}/seg000001")
        return
    with open(f"{path}/meta", encoding="utf-8") as f:
        meta = f.read()
    with open(f"{path}/meta", "w", encoding="utf-8") as f:
        f.write(re.sub(r"(?m)^(stats when=end|stop |end ).*\n", "", meta))


def main():
    tools, kvmft, work = sys.argv[1:4]
    for capture in sys.argv[4:]:
        whole = figures(kvmft, capture)
        with open(f"{capture}/seg000000/cpu0", "rb") as f:
            data = f.read()
        first = int.from_bytes(data[:8], "little")
        last = int.from_bytes(data[-4096:][:8], "little")
        at = [str(first + (last - first) * n // 10) for n in range(11)]
        ways = [["--cpu", cpu, "--from", at[a], "--to", at[b]] for cpu in "01" for a, b in ((0, 4), (3, 5), (6, 10))]
        ways += [["--cpu", "1", "--from", "0", "--to", at[5]], ["--cpu", "0", "--from", at[7]], ["--from", at[4], "--to", at[6]]]
        ways += [["--holes", "40", "--seed", str(n)] for n in range(1, 4)]
        ways += [[1, 50, True], [0, 30, True], [1, 60, False], [0, 80, False]]
        for way in ways:
            path = f"{work}/lost"
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(capture, path)
            if isinstance(way[0], int):
                cut(path, *way)
            else:
                subprocess.run([f"{tools}/ablate", *way, path], check=True, stdout=subprocess.DEVNULL)
            got = figures(kvmft, path)
            rose = [(k, whole.get(k, 0), v) for k, v in got.items() if v > whole.get(k, 0)]
            kept = sum(v for k, v in got.items() if k.startswith("report vmexit") and k.endswith("samples"))
            print("lost:", *way, "exits that are left:", kept)
            for key, before, after in rose:
                print(f"rose: {key}: {before} -> {after}")


if sys.argv[1] == "make":
    make(int(sys.argv[2]))
else:
    main()
