#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# kvmft stuck on a host: planted hangs: each is found, with its class and place, within 5 s, by either engine.
#
# intel-stuck.t and arm64-stuck.t are the same on other CPUs.

. "$(dirname "$0")/tap.sh"

runs=
case " ${RIG_OPTIONS:-} " in
*" --cpu arm64"*) record= ;;
*" --cpu intel "*) record=500ms runs="--env RUNS=8 --env RUN_SECONDS=0.3" ;;
*) record=1s ;;
esac
# shellcheck disable=SC2086 # options
rig stuck --timeout 1200 --host-cpus 1 --vcpus 1 --env "RECORD=$record" $runs
# What stuck -i says of these recordings, and of what is left when events are taken out.
if [ -n "$record" ] && command -v python3 >/dev/null; then
	python3 "$top/tests/vm/ablation_stuck.py" "$plain" "$(dirname "$plain")/tests/tools/ablate" "$rig/stuck" >"$tmp/ablated"
	is "$?" 0 "stuck -i, also without some events: what was planted, or not known; nothing is sure and wrong"
	sed 's/^\([^#]\)/# \1/' "$tmp/ablated"
	is "$(sed -n 's/^stuck without nothing: .* wrong \([0-9]*\) .*/\1/p' "$tmp/ablated")" 0 "... right in the whole recordings, or not known"
elif [ -n "$record" ]; then
	skip "stuck -i without some events" "python3 is not installed"
fi
# A guest that exits as fast as it can; emulated, everything takes ten times as long.
cost=$(fact cost_ns)
[ -z "$cost" ] || echo "# CPU time of 2 s: $cost ns"
# The same where the kernel counts exits, and the ring has none.
case " ${RIG_OPTIONS:-} " in
*" --cpu arm64"*) skip "--engine hist" "kvm_exit of arm64 has no exit_reason and guest_rip" ;;
*" --cpu intel "*) rig stuck --timeout 900 --host-cpus 1 --vcpus 1 --env ENGINE=hist --env "STUCK=spin port halt msr guest" ;;
*) rig stuck --timeout 900 --host-cpus 1 --vcpus 1 --env ENGINE=hist ;;
esac
finish
