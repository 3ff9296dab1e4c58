# SPDX-License-Identifier: GPL-2.0-or-later
"""sql_questions.py KVMFT PAGE DB NUMBER HOST GUEST...

Puts question NUMBER of kvmft-sql(7) to a database with sqlite3, and compares the answer with what
the command for it says of the captures that the database was made from. LIMIT is taken out of the
question, so that all rows are compared.
"""
import csv
import io
import json
import re
import subprocess
import sys

kvmft, page, db, number, captures = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:]


def question():
    text = open(page, encoding="utf-8").read()
    blocks = re.findall(r"^\.Ss (\d+)\. .*?\n\.Bd -literal\n(.*?;)\n", text, re.M | re.S)
    return {int(n): sql.replace("\\e", "\\") for n, sql in blocks}[number]


def ask(sql):
    got = subprocess.run(["sqlite3", "-json", db, sql], stdout=subprocess.PIPE, check=True).stdout
    return [list(row.values()) for row in json.loads(got or b"[]")]


def run(*args):
    got = subprocess.run([kvmft, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if got.returncode not in (0, 3):
        raise SystemExit(f"{args}: {got.stderr.decode()}")
    return got.stdout.decode()


def table(*args):
    return list(csv.DictReader(io.StringIO(run(*args, "--format", "csv"))))


def ns(row, name):
    """A time, ns or cycles, as an integer."""
    if not row.get(name + "_us", "0"):
        return 0  # never measured
    if name + "_us" in row:
        whole, part = row[name + "_us"].split(".")
        return int(whole) * 1000 + int(part)
    return int(row[name + "_cycles"] or 0)


def near(got, want, rows):
    """Sums of rounded times: half a ns for each row, and the report's own rounding."""
    if got is None and not want:
        return None  # not recorded
    if abs(got - want) > rows / 2 + 1:
        raise SystemExit(f"{got} is not {want}")
    return want


def report(*more):
    return [r for r in table("report", "-i", captures[0], *more)]


def reasons(rows):
    want = {r["event"]: r for r in report("--per", "all")}
    return [[n, int(want[n]["samples"]), ns(want[n], "min"), ns(want[n], "max"),
             near(t, ns(want[n], "total"), count)] for n, count, _, _, t in rows], len(want)


def vcpus(rows):
    sums = {}
    for r in report("--per", "vcpu"):
        if r["vcpu"]:
            s = sums.setdefault((r["vm"], int(r["vcpu"])), [0, 0])
            s[0] += int(r["samples"])
            s[1] += ns(r, "total")
    return [[vm, v, sums[vm, v][0], near(t, sums[vm, v][1], n + 99)] for vm, v, n, t in rows], len(sums)


def halts(rows):
    want = [r for r in report("--per", "all", "--split") if r["event"] == "hlt"]
    if not want:
        return [[None] * 4], 1
    n = int(want[0]["samples"])
    return [[near(t, ns(want[0], part), n)
             for t, part in zip(rows[0], ("kernel", "poll", "blocked", "total"))]], 1


def irqs():
    return [r for r in table("latency", "irq", *captures) if r["table"] == "irq"]


def interrupts(rows):
    want = {r["name"]: r for r in irqs() if r["stage"] == "total"}
    return [[n, int(want[n]["count"]), ns(want[n], "sum"), ns(want[n], "max")] for n, _, _, _ in rows], len(want)


def stages(rows):
    sums = {}
    for r in irqs():
        if r["stage"] not in ("total", "counted"):
            sums[r["stage"]] = sums.get(r["stage"], 0) + ns(r, "sum")
    return [[s, sums[s]] for s, _ in rows], len(sums)


def spikes():
    """One row for each: the table has one for each part."""
    seen = {}
    for r in table("blame", "--top", "1000", *captures):
        seen.setdefault((r["what"], r["of"], r["vcpu"], r["begin_host_tsc"], r["end_host_tsc"]), r)
    return list(seen.values())


def worst(rows):
    want = sorted([r["what"], r["of"], ns(r, "length"), r["cause"]] for r in spikes())
    if sorted(rows) != want:
        raise SystemExit(f"{sorted(rows)[:5]} is not {want[:5]}")
    return rows, len(want)


def causes(rows):
    sums = {}
    for r in spikes():
        s = sums.setdefault(r["cause"], [0, 0])
        s[0] += 1
        s[1] += ns(r, "length")
    return [[c, *sums[c]] for c, _, _ in rows], len(sums)


def trust(_rows):
    guests = json.loads(run("verify", "--format", "json", *captures))["guests"]
    return [[g["vm"], g["inside"], g["outside"], -g["earliest_cycles"], g["latest_cycles"]] for g in guests], len(guests)


def events():
    return [json.loads(line) for line in run("merge", "--format", "json", *captures).splitlines()]


def losses(_rows):
    lines = events()
    want = []
    for i, s in enumerate(lines[0]["sources"]):
        own = [e for e in lines if e.get("side") == s["side"] and
               (s["side"] == "host" or e.get("vm") == s["name"])]
        n = sum(e["kind"] == "event" for e in own)
        lost = sum(e["lost"] for e in own if e["kind"] == "gap")
        want.append([s["name"], n + lost, n, lost, 1])
    return want, len(want)


def during(rows):
    names = {"host": "host"}
    if not rows:
        return [], 0
    first, last = rows[0][0], rows[-1][0]
    want = [[e["t"], names.get(e["side"], e["vm"]), e["event"]] for e in events()
            if e["kind"] == "event" and not e.get("unplaced") and first <= e["t"] <= last]
    return want, len(want)


def main():
    check = [reasons, vcpus, halts, interrupts, stages, worst, causes, trust, losses, during][number - 1]
    sql = re.sub(r" LIMIT 3\b", "", question())
    got = ask(sql)
    want, n = check(got)
    if number in (1, 2, 3): # sums are near: see near()
        got = [g[:-1] if number < 3 else want[i] for i, g in enumerate(got)]
        want = [w[:-1] if number < 3 else w for w in want]
    if got != want or len(got) != n:
        print(f"{sql}\ngot  {len(got)}: {got[:5]}\nwant {n}: {want[:5]}")
        return 1
    print(len(got))
    return 0


sys.exit(main())
