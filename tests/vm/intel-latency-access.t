#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# latency-mem.t on an Intel host that does not let its CPU note which pages are used: KVM finds it out by stalls.

RIG_OPTIONS="--cpu intel --host-cpus 1 --host-cmdline kvm_intel.eptad=0 --env MEM_PHASES=access,mglru" RIG_TIMEOUT=900 \
	exec sh "$(dirname "$0")/latency-mem.t"
