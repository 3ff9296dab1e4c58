#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What `kvmft latency mem` says of a guest that QEMU's balloon takes memory from, and that moves: to another QEMU of its
# host with pre-copy, to a third one with post-copy, and to another host. The guest timed each of its writes.

. "$(dirname "$0")/tap.sh"

rig moves --timeout 300
if ! command -v python3 >/dev/null; then
	skip "moves against the guest's times" "python3 is not installed"
	finish
fi
ok "stalls, rounds and blackouts are what the guest and QEMU saw" python3 "$(dirname "$0")/moves_truth.py" "$rig" "$kvmft"
run "$kvmft" latency mem --by move -q "$rig/host"
sed -n '/^mem-move/,$s/^/# /p' "$out"

rig moves --env MOVES=precopy --env MOVES_RING=1024
ok "likewise with a ring of written pages, which is full now and then" python3 "$(dirname "$0")/moves_truth.py" "$rig" "$kvmft"

rig moves --env MOVES=away
cp -r "$rig" "$tmp/away"
gone=$(date +%s)
rig moves --env MOVES=home --env "MOVES_STATE=/.outer$tmp/away/state"
came=$(stat -c %Y "$rig/home.bin")
run "$kvmft" latency mem --host "$rig/host" --by move --format json --worst 0 -q "$tmp/away/host"
status_is 0 "from one host to another"
ok "... linked by its TSC, and the blackout by the hosts' clocks" python3 -c '
import json, re, struct, sys
doc, away, home, gone, came = sys.argv[1:]
rows = {g["name"]: g["stages"]["total"] for g in json.load(open(doc))["mem-move"]["groups"]}
khz = int(re.search(r"^tsc khz=(\d+)", open(f"{away}/host/meta").read(), re.M).group(1))
log = open(f"{home}/home.bin", "rb").read()
n, = struct.unpack_from("<I", log, 4)
longest = {struct.unpack_from("<II", log, 32 + 16 * i)[1] for i in range(n)}
own = rows["of it in its TSC, vCPU 0"]["total_ns"]
# Of the guest: a stretch that is as long, but for one exit and entry.
print(rows)
assert any(0 <= c / khz * 1e6 - own < 1e6 for c in longest), (own, sorted(longest)[-5:])
# Clocks of the day begin at a whole second in such a machine.
day = rows["blackout, vCPU 0"]["total_ns"] / 1e9
assert day > own / 1e9 and abs(day - (int(came) - int(gone))) < 20, (day, came, gone)
assert rows["round 1"]["count"] > 4000 and rows["then mapped first"]["count"] > 4000, rows' \
	"$out" "$tmp/away" "$rig" "$gone" "$came"
finish
