#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft latency mem` of a guest that moves, with hosts that are compiled from tests/golden/latency-move.txt.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
text=$top/tests/golden/latency-move.txt

# moves: VM, name, count and sum in us of the rows of the move in the CSV of the last run, in their order
moves()
{
	awk -F, '$1 == "mem-move" && /,total,/ { gsub(/"/, ""); n = NF - 4
		print $2 "|" (/blackout|TSC/ ? $3 "," $4 : $3) "|" $(n - 6) "|" $n }' "$out"
}

"$mkcap" --capture "$tmp/host" "$text"
run "$kvmft" latency mem --format csv -q "$tmp/host"
status_is 0 "both VMMs on one host"
is "$(moves)" "100-12|round 1|1|0.100
100-12|round 2|1|0.200
200-12|blackout, vCPU 0|1|10.000
200-12|blackout, vCPU 1|1|9.600
200-12|then userfaultfd|1|0.300" "rounds, from the last exit to the first entry, and what then had to come"
run "$kvmft" latency mem -q "$tmp/host"
out_has "^  10 us at .* blackout, vCPU 0, 200-12" "as text: when it was"
is "$(awk 'length > 80 && !/^note: /' "$out" | wc -l)" 0 "... within 80 columns"
run "$kvmft" latency mem --by task --format csv -q "$tmp/host"
is "$(moves)" "" "--by without it"

# A guest that was started anew has a TSC that began anew.
sed 's/offset=-9500/offset=-14000/' "$text" >"$tmp/anew.txt"
"$mkcap" --capture "$tmp/anew" "$tmp/anew.txt"
run "$kvmft" latency mem --format csv -q "$tmp/anew"
is "$(moves | grep -c 'blackout\|then')" 0 "started anew is not moved"
sed 's/^meta vm id=200-12.*/meta vm id=200-12 pid=200 fd=12 name=two/' "$text" >"$tmp/two.txt"
"$mkcap" --capture "$tmp/two" "$tmp/two.txt"
run "$kvmft" latency mem --format csv -q "$tmp/two"
is "$(moves | grep -c 'blackout\|then')" 0 "another guest is not moved"

# ---- two hosts ----

grep -v '^[012].* 20[012] \|=20[012]\|^meta task tid=20' "$text" >"$tmp/first.txt"
echo 'meta time tsc=4000 width=0 mono_raw=1 mono=1 boot=1 real=1700000000000000000' >>"$tmp/first.txt"
{
	grep -v '^[012].* 10[012] \|=10[012]\|^meta task tid=10' "$text"
	# 1 ms later, by the clock of the day
	echo 'meta time tsc=14000 width=0 mono_raw=1 mono=1 boot=1 real=1700000000001000000'
} | sed 's/offset=-9500/offset=-9300/' >"$tmp/second.txt"
"$mkcap" --capture "$tmp/first" "$tmp/first.txt"
"$mkcap" --capture "$tmp/second" "$tmp/second.txt"
run "$kvmft" latency mem --host "$tmp/second" --format csv -q "$tmp/first"
status_is 0 "two hosts"
is "$(moves | sed 's/^[^|]*|//')" "round 1|1|0.100
round 2|1|0.200
of it in its TSC, vCPU 0|1|0.700
blackout, vCPU 0|1|1000.000
of it in its TSC, vCPU 1|1|0.300
blackout, vCPU 1|1|999.600
then userfaultfd|1|0.300" "... linked by the guest's TSC, which stood still; the blackout is by their clocks"
run "$kvmft" latency mem,irq --host "$tmp/second" "$tmp/first"
status_is 2 "--host is of mem alone"
err_has "of mem alone" "... is reported"
run "$kvmft" latency mem --host "$tmp/second" -q "$tmp/host"
status_is 2 "--host, and the host has two VMs"
err_has "which VM moved" "... is reported"
finish
