# SPDX-License-Identifier: GPL-2.0-or-later
#
# Compares what `kvmft latency io` says that a VMM's threads waited for with what the kernel itself counted of them:
# latency_io.py RIG JSONS CHECK. RIG is the results of scenario iowait, JSONS has PHASE.json for each of its phases.
import json
import re
import sys

rig, jsons, check = sys.argv[1:]
facts = dict(line.rstrip().split("=", 1) for line in open(f"{rig}/facts-host", encoding="utf-8"))
PARTS = ("vmm-cpu", "vmm-fault", "vmm-lock", "vmm-disk", "vmm-sleep")
UNTOLD = "vmm_wait_unknown"


def counted(path):
    """By thread: faults, those that read, ms of sleep for I/O, how often, ms without a CPU; "all", "disk"; vCPUs' lines"""
    lines = [line.split() for line in open(path, encoding="utf-8")]
    vcpus = {n[1] for n in lines if n[0] == "vcpu"}
    return {n[1] if n[0] in ("vcpu", "thread") else n[0]: [float(x) for x in n[1 + (n[0] in ("vcpu", "thread")):]]
            for n in lines}, vcpus


class Phase:
    def __init__(self, name):
        doc = json.load(open(f"{jsons}/{name}.json", encoding="utf-8"))["io"]
        reads = next(g for g in doc["groups"] if g["name"].endswith(" read"))
        before, _ = counted(f"{rig}/before-{name}")
        after, vcpus = counted(f"{rig}/after-{name}")
        self.name = name
        self.counts = doc["counts"]
        self.ms = {s: v["total_ns"] / 1e6 for s, v in reads["stages"].items()}
        self.n = {s: v["count"] for s, v in reads["stages"].items()}
        self.faults = self.counts["vmm_faults"]
        self.reads = [[int(x) for x in line.split()] for line in open(f"{rig}/reads-{name}", encoding="utf-8")]

        def gained(who, at):
            return after[who][at] - (before[who][at] if who in before else 0)

        threads = [t for t in after if t not in vcpus and t.isdigit()]
        self.true_faults = sum(gained("all", i) - sum(gained(v, i) for v in vcpus) for i in (0, 1))
        self.true_reading = gained("all", 1) - sum(gained(v, 1) for v in vcpus)
        self.io_ms = sum(gained(t, 2) for t in threads)
        self.io_count = sum(gained(t, 3) for t in threads)
        self.disk_reads = gained("disk", 0)
        print(f"{name}: kvmft: ms {({s: round(v, 1) for s, v in self.ms.items()})}, requests {self.n}")
        print(f"{name}: kvmft: {({k: v for k, v in self.counts.items() if v})}")
        print(f"{name}: kernel: {self.true_faults:.0f} faults, {self.true_reading:.0f} of them read; {self.io_ms:.1f} ms "
              f"asleep for I/O in {self.io_count:.0f}; {self.disk_reads:.0f} reads of the cold disk")

    def wait(self, stage):
        return self.ms.get(f"vmm-{stage}", 0)

    def sound(self):
        assert self.n["total"] == len(self.reads), "as many requests as the guest's program made"
        assert self.counts["completed"] == self.counts["issued"]
        assert sum(self.ms.get(s, 0) for s in PARTS) <= self.ms["host"] + 1e-3, "the parts are no more than the whole"
        assert self.counts[UNTOLD] * 50 <= self.counts["completed"], "hardly any is unknown"


def near(got, want, what, share=0.05):
    assert want * (1 - share) <= got <= want * (1 + share), f"{what}: {got}, and the kernel says {want}"


phases = {name: Phase(name) for name in ("quiet", "swapped", "packed", "cold", "locked")}
quiet, swapped, packed, cold, locked = phases.values()
if check == "sound":
    for phase in phases.values():
        phase.sound()
    assert all(quiet.wait(w) <= quiet.ms["host"] / 50 for w in ("fault", "disk", "sleep")), "nothing was planted"
    assert quiet.faults <= 40
elif check == "swapped":
    assert swapped.true_reading >= 400, "the memory was to be on the swap device"
    near(swapped.faults, swapped.true_faults, "faults")
    near(swapped.wait("fault"), swapped.io_ms, "ms")
    assert swapped.wait("fault") * 1e6 >= swapped.true_reading * int(facts["slow_ns"]), "each read takes its time"
    assert swapped.wait("disk") <= swapped.io_ms / 50
elif check == "packed":
    assert packed.true_reading >= 400, "the memory was to be packed"
    near(packed.faults, packed.true_faults, "faults")
    assert packed.wait("fault") <= packed.io_ms * 1.05 and packed.wait("disk") <= packed.ms["host"] / 50
elif check == "cold":
    assert cold.disk_reads >= len(cold.reads), "the cache was to be empty"
    near(cold.wait("disk"), cold.io_ms, "ms")
    assert cold.wait("fault") <= cold.io_ms / 50 and cold.wait("sleep") <= cold.io_ms / 50
elif check == "locked":
    assert locked.wait("lock") > 100 + 5 * quiet.wait("lock"), "somebody held the lock"
    assert locked.wait("lock") * 1e3 <= int(facts["held_us"]), "... and no longer than that"
else:
    sys.exit(f"no check {check}")
