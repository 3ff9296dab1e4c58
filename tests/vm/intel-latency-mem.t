#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# latency-mem.t on an Intel host, where an exit takes as long as its instructions. PML is off, so that a dirty log
# makes stalls that can be measured.

RIG_OPTIONS="--cpu intel --host-cpus 1 --host-cmdline kvm_intel.pml=0" RIG_TIMEOUT=900 exec sh "$(dirname "$0")/latency-mem.t"
