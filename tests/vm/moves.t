#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# What `kvmft latency mem` says of a guest that QEMU's balloon takes memory from, and that moves: to another QEMU of its
# host with pre-copy, to a third one with post-copy, and to another host. The guest timed each of its writes.

. "$(dirname "$0")/tap.sh"

rig moves --timeout 300
if ! command -v python3 >/dev/null; then
	skip "moves against the guest's times" "python3 is not installed"
	finish
fi
ok "stalls, rounds and blackouts are what the guest and QEMU saw" python3 "$(dirname "$0")/moves_truth.py" "$kvmft" "$rig"
grep -q '^postcopy ram' "$rig/second.migrate" ||
	skip "post-copy" "the machine was so busy that QEMU was done before it was told to"
run "$kvmft" latency mem --by move -q "$rig/host"
sed -n '/^mem-move/,$s/^/# /p' "$out"

rig moves --env MOVES=precopy --env MOVES_RING=1024
ok "likewise with a ring of written pages, which is full now and then" python3 "$(dirname "$0")/moves_truth.py" "$kvmft" "$rig"

# With other programs that want the hosts' CPUs, too.
rig moves --env MOVES=away --env MOVES_BUSY=2
cp -r "$rig" "$tmp/away"
gone=$(date +%s)
rig moves --env MOVES=home --env MOVES_BUSY=2 --env "MOVES_STATE=/.outer$tmp/away/state"
came=$(stat -c %Y "$rig/home.bin")
ok "from one host to another: stalls and the blackout in its TSC are what the guest saw" \
	python3 "$(dirname "$0")/moves_truth.py" "$kvmft" "$rig" "$tmp/away"
run "$kvmft" latency mem --host "$rig/host" --by move --format json --worst 0 -q "$tmp/away/host"
status_is 0 "... linked by its TSC"
ok "... and the blackout by the hosts' clocks" python3 -c '
import json, sys
doc, gone, came = sys.argv[1:]
rows = {g["name"]: g["stages"]["total"] for g in json.load(open(doc))["mem-move"]["groups"]}
own = rows["of it in its TSC, vCPU 0"]["total_ns"]
# Clocks of the day begin at a whole second in such a machine.
day = rows["blackout, vCPU 0"]["total_ns"] / 1e9
assert day > own / 1e9 and abs(day - (int(came) - int(gone))) < 20, (day, came, gone)
assert rows["round 1"]["count"] > 4000 and rows["then mapped first"]["count"] > 4000, rows' "$out" "$gone" "$came"
finish
