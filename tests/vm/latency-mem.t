#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# What `kvmft latency mem` says of guests that timed each access to their memory: as many stalls as the guest had
# slow accesses, of the kind that was made, and as long in sum, apart from one world switch each.

. "$(dirname "$0")/tap.sh"

# Two nodes of memory, between which pages can be moved.
rig mem --timeout "${RIG_TIMEOUT:-300}" --vcpus 1 --host-cmdline numa=fake=2
if ! command -v python3 >/dev/null; then
	skip "stalls against the guests' times" "python3 is not installed"
	finish
fi

# kind PHASE: what its stalls are, besides the first touches that come before
kind()
{
	case $1 in
	touch | huge | hugetlb) echo "first touch" ;;
	read) echo "mapped first" ;;
	cow | ksm) echo "copy-on-write" ;;
	dirty) echo "dirty log" ;;
	madvise | mbind) echo "refault, VMM" ;;
	swap) echo "swap-in|refault, VMM" ;; # what the host still had in its swap cache is not read
	access | mglru | damon) echo "access log" ;;
	split) echo "dirty log|huge page split" ;;
	uffd) echo "userfaultfd" ;;
	zram) echo "swap-in" ;;
	nx) echo "NX huge page" ;;
	file) echo "file read" ;;
	writeback) echo "writeback" ;;
	esac
}

while read -r why; do
	skip "stalls of some kinds" "$why"
done <"$rig/lacks"
run "$kvmft" merge -q -e kvm:kvm_exit,kvm:kvm_entry,kvm:kvm_write_tsc_offset --clock host-tsc --format json "$rig/host"
status_is 0 "exits and entries"
mv "$out" "$tmp/merged"
for phase in $(sed -n 's/^phase //p' "$rig/memvm.out"); do
	awk -v phase="$phase" '/^phase / { on = $2 == phase } on' "$rig/memvm.out" >"$tmp/guest"
	pid=$(sed -n 's/^pid \([0-9]*\) vm-fd \([0-9]*\)/\1-\2/p' "$tmp/guest")
	grep "\"pid\":${pid%-*}," "$tmp/merged" >"$tmp/turns"
	run "$kvmft" latency mem --vm "$pid" --by gpa --grain 1G --format json --worst 0 -q "$rig/host"
	status_is 0 "$phase: latency mem"
	ok "... its stalls and the guest's times agree" python3 "$(dirname "$0")/latency_mem.py" \
		"$phase" "$(kind "$phase")" "$tmp/guest" "$rig/stamps/$phase" "$out" "$tmp/turns" "$rig/host/meta"
	sums "... the parts are the whole"
done
run "$kvmft" latency mem -q "$rig/host"
sed 's/^/# /' "$out"
out_has "^  .* measured" "all of them"
run "$kvmft" latency mem --format json -q "$rig/host"
ok "... no kind is missing, but for one in 1,000" python3 -c '
import json, sys
counts = json.load(open(sys.argv[1]))["mem"]["counts"]
assert counts["measured"] and counts["unknown"] * 1000 <= counts["measured"], counts' "$out"
ablated mem "$rig/host"
finish
