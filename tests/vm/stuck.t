#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# kvmft stuck on a host: planted hangs, each told by its class, and where, within 5 s.

. "$(dirname "$0")/tap.sh"

rig stuck --timeout 400 --host-cpus 1 --vcpus 1
# Of a guest that exits as fast as it can; emulated, everything takes ten times as long.
echo "# CPU time of 2 s: $(fact cost_ns) ns"
finish
