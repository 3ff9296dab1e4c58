#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# What `kvmft latency io` says that a VMM's threads waited for, and how often they faulted: nothing much, memory that was
# swapped out or packed, a disk, a lock. The kernel counted the same by itself; latency_io.py prints both.

. "$(dirname "$0")/tap.sh"

rig iowait --timeout 400

for phase in quiet swapped packed cold locked; do
	run "$kvmft" latency io --format json --worst 0 -q "$rig/$phase" "$rig/guest-$phase"
	status_is 0 "$phase: latency io"
	sums "... the parts are the whole"
	cp "$out" "$tmp/$phase.json"
done
if ! command -v python3 >/dev/null; then
	skip "waits where they were made" "python3 is not installed"
	finish
fi

# told CHECK NAME: with the numbers of all phases, once, or if it fails.
told()
{
	if python3 "$top/tests/vm/latency_io.py" "$rig" "$tmp" "$1" >"$tmp/told" 2>&1; then
		result 0 "$2"
		[ "$1" != sound ] || sed 's/^/# /' "$tmp/told"
	else
		result 1 "$2"
		sed 's/^/# /' "$tmp/told"
	fi
}

told sound "each read is measured; a VMM that has what it needs waits for nothing else"
told swapped "memory on a slow swap device: faults and the wait for it are the kernel's"
told packed "memory in zram: faults that nobody sleeps for are counted"
told cold "a disk that is not cached: the wait for it is the kernel's"
told locked "waits for a lock are reported where they were made"
for phase in swapped cold locked; do
	ablated io "$rig/$phase" "$rig/guest-$phase"
done
finish
