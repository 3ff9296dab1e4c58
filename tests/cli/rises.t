#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# What is recorded less of is not concluded more of: in captures of threads that move between CPUs events are lost, in
# the middle, at a CPU's beginning, at its end, and no count, sum or maximum of report and latency rises by it.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
if ! command -v python3 >/dev/null; then
	skip "events that are lost" "python3 is not installed"
	finish
fi
rises="$top/tests/cli/rises.py"
for seed in 1 2; do
	python3 "$rises" make $seed >"$tmp/made.txt"
	ok "threads that move, $seed" "$tools/mkcap" --capture "$tmp/made" "$tmp/made.txt"
	# Each figure takes several runs of a program: the one that is not sanitized.
	python3 "$rises" "$tools" "${KVMFT_PLAIN:-$kvmft}" "$tmp" "$tmp/made" >"$tmp/got"
	is "$(grep -c '^lost: ' "$tmp/got")" 16 "... with events lost in 16 ways"
	is "$(sed -n 's/.*left: //p' "$tmp/got" | awk '$1 > 50' | wc -l)" 16 "... some are left each time"
	is "$(grep '^rose' "$tmp/got" | head -5)" "" "... nothing rises"
	rm -r "$tmp/made"
done

finish
