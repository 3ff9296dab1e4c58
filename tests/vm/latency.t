#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What `kvmft latency` says of a guest whose vCPUs were robbed in known ways.

. "$(dirname "$0")/tap.sh"

rig latency --timeout 200

latency()
{
	run "$kvmft" latency "$@" -q "$rig/host" "$rig/guest"
}

latency sched --format csv
status_is 0 "sched"
sed 's/^/# /' "$out"
# max of the total stage of rows that match, in whole ms
max_ms()
{
	awk -F , -v name="$1" '$4 == "total" && $0 ~ name { if ($10 / 1000 > max) max = $10 / 1000 } END { printf "%d\n", max }' "$out"
}
stop=$(fact stop_ms)
longest=$(max_ms '^sched,"vm1","victim-')
ok "the longest time that was stolen of the victim is the $stop ms of the stop ($longest)" \
	test "$longest" -ge $((stop * 95 / 100)) -a "$longest" -le $((stop * 150 / 100))
# sum of the totals, in ms, and the name of the greatest
heads()
{
	awk -F , -v table="$1" '$1 == table && $4 == "total" { sum[$3] += $5 * $7 / 1000 }
		END { for (n in sum) if (sum[n] > most) { most = sum[n]; name = n } print name }' "$out" | tr -d '"'
}
is "$(heads sched | sed 's/-[0-9]*$//')" victim "the victim heads the table of those that were hit"
ok "the thief is in the table of those that ran instead" grep -q '^stealer,"host","thief-' "$out"
thief=$(awk -F , '$1 == "stealer" && /"thief-/ && $4 == "total" { ms += $5 * $7 / 1000 } END { printf "%d\n", ms }' "$out")
ok "... with at least 300 ms of its second ($thief)" test "$thief" -ge 300

latency all --format json --worst 0
status_is 0 "all"
if command -v python3 >/dev/null; then
	ok "the parts are the whole" python3 -c '
import json, sys
doc = json.load(open(sys.argv[1]))
irq, io, timer = (doc[k]["counts"] for k in ("irq", "io", "timer"))
assert irq["accepted"] == sum(irq[k] for k in ("measured", "never injected", "injected, handler not seen",
    "outside the guest'"'"'s capture", "cut by lost events", "open at the end")), irq
assert timer["armed"] == sum(timer[k] for k in ("fired", "cancelled", "set anew before they fired",
    "not to be placed", "cut by lost events", "open at the end")), timer
assert doc["vcpus"]
for v in doc["vcpus"]:
    assert v["wall_cycles"] == sum(v[k] for k in ("unknown", "guest", "kernel", "vmm", "halted", "waiting", "preempted")), v
' "$out"
else
	skip "the parts are the whole" "python3 is not installed"
fi
finish
