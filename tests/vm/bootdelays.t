#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft boot` of 20 boots that are delayed, in five ways and four rounds: of the five parts, that grew most, beside boots
# that are not delayed, where the delay was planted, and it has all of it. (Of any part, not always: a busy machine takes
# the CPU from the emulated ones for seconds.)

. "$(dirname "$0")/tap.sh"

rig bootdelays --timeout 900

if ! command -v python3 >/dev/null; then
	skip "delays" "python3 is not installed"
	finish
fi
sed -n 's/^\([a-z]*[0-9]\)=\([a-z]* [0-9]*\)$/\1 \2/p' "$rig/facts-host" >"$tmp/planted"
while read -r name _; do
	"$kvmft" boot --until 'kvm_pio/port == 0x80 && val == 0x42/' --format json "$rig/$name" >"$tmp/$name.json" 2>"$err"
	ok "$name: read" test -s "$tmp/$name.json"
done <"$tmp/planted"
python3 - "$tmp" >"$tmp/table" <<'END'
import collections, json, sys
PARTS = {"sleep": ("exec", "vmm", "asleep"), "fill": ("first-entry", "page-fault", "userfaultfd"),
         "disk": ("first-disk", "disk", "halted"), "cold": ("first-entry", "page-fault", "file"),
         "limit": ("first-entry", "throttled", "")}
boots, usual = {}, collections.Counter()
for line in open(sys.argv[1] + "/planted"):
    name, kind, ms = line.split()
    d = json.load(open(f"{sys.argv[1]}/{name}.json"))
    parts = {(r["phase"], r["part"], r["name"]): (r["time_ns"] or 0) / 1e6 for r in d["rows"]
             if r["part"] and r["part"] != "function"}
    boots[name] = kind, int(ms), parts
    told = d["known_ns"] * 100 / d["wall_ns"]
    print(f"{name}: wall {d['wall_ns'] / 1e6:.0f} ms, told {told:.1f} %" + (" LITTLE" if told < 95 else ""))
    if kind == "plain":
        for part, time in parts.items():
            usual[part] = max(usual[part], time)
found = of = 0
for name, (kind, ms, parts) in boots.items():
    if kind == "plain":
        continue
    grown = sorted(((time - usual[part], part, time, [k for k, p in PARTS.items() if p[:2] == part[:2] and p[2] in part[2]])
                    for part, time in parts.items()), reverse=True)
    by, part, time, of_kind = next(g for g in grown if g[3])
    right = of_kind == [kind] and time >= ms * 0.95
    of += 1
    found += right
    print(f"{name}: planted {ms} ms, most has grown {' / '.join(part)}, to {time:.0f} ms, by {by:.0f}" + ("" if right else ": WRONG"))
    if grown[0][3] != of_kind:
        print(f"    more than that {' / '.join(grown[0][1])}, to {grown[0][2]:.0f} ms, by {grown[0][0]:.0f}")
print(f"found {found} of {of}")
END
sed 's/^/# /' "$tmp/table"
of=$(grep -vc ' plain ' "$tmp/planted")
is "$(tail -n 1 "$tmp/table")" "found $of of $of" "each delay is in its part"
is "$(grep -c LITTLE "$tmp/table")" 0 "95 % of the time is told"
finish
