#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# kvmft stuck on a host: planted hangs: each is found, with its class and place, within 5 s, by either engine.
#
# intel-stuck.t and arm64-stuck.t are the same on other CPUs.

. "$(dirname "$0")/tap.sh"

rig stuck --timeout 1200 --host-cpus 1 --vcpus 1 --env RECORD=1s
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
