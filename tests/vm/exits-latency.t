#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Distributions of `kvmft exits --latency`, kept by the kernel and by kvmft, against a recording of the same guest.

. "$(dirname "$0")/tap.sh"

rig exits-latency --timeout 300 --vcpus 1
if ! command -v python3 >/dev/null; then
	skip "the engines against the recording" "python3 is not installed"
	finish
fi
run "$kvmft" merge -q --format json "$rig/host"
status_is 0 "the recording"
for engine in kernel user; do
	ok "$engine: counts are the recording's, and times but for when a stamp is taken" \
		python3 "$(dirname "$0")/exits_latency.py" "$out" "$rig/$engine.json"
done
ok "kernel: equal to what the kernel recorded with the same stamps: counts, sums and buckets" \
	python3 "$(dirname "$0")/exits_stamps.py" "$rig/kernel.json" "$rig/stamps"
ok "user: ... to what the kernel made with the same stamps" \
	python3 "$(dirname "$0")/exits_stamps.py" "$rig/user.json" "$rig/told.hist"
ok "kernel and user have the same counts" python3 -c '
import sys
sys.path.insert(0, sys.argv[1])
from exits_rows import of_json, same_counts
same_counts(*map(of_json, sys.argv[2:]))' "$(dirname "$0")" "$rig/kernel.json" "$rig/user.json"
ok "histograms as OpenMetrics: cumulative, and their last bucket is their count" python3 -c '
import re, sys
bucket, last = {}, {}
for line in open(sys.argv[1]):
    m = re.match(r"(kvm_\w+)_bucket\{(.*?),?le=\"([^\"]+)\"\} (\d+)$", line)
    if m:
        key = (m.group(1), m.group(2).rstrip(","))
        assert int(m.group(4)) >= bucket.get(key, 0), line
        bucket[key] = int(m.group(4))
        last[key] = m.group(3)
    m = re.match(r"(kvm_\w+)_count\{(.*)\} (\d+)$", line)
    if m:
        key = (m.group(1), m.group(2))
        assert bucket[key] == int(m.group(3)) and last[key] == "+Inf", line
assert {k[0] for k in bucket} == {"kvm_exit_duration_seconds", "kvm_wakeup_to_entry_seconds", "kvm_halt_seconds"}, bucket
assert open(sys.argv[1]).read().endswith("# EOF\n")' "$rig/metrics.txt"
finish
