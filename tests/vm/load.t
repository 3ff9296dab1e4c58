#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# A host under load: how long vCPUs wanted a CPU and had none, by `kvmft latency sched`, against what its kernel counted of
# their threads.

. "$(dirname "$0")/tap.sh"

rig load --timeout 300
run "$kvmft" latency sched --format json --worst 0 "$rig/host"
status_is 0 "latency sched"
total() { jq "[.$1.groups[].stages.total.total_ns] | add" "$out"; }
sched=$(total sched) kernel=$(fact run_delay)
echo "# ns: $kernel by the kernel, $sched by latency sched; $(jq -c .sched.counts "$out")"
off=$(((sched - kernel) * 10000 / kernel))
ok "all that vCPUs waited, within 1 % of the kernel's (run_delay): $off of 10,000 off" test "$off" -ge -100 -a "$off" -le 100
finish
