#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# latency-mem.t on an Intel host whose CPU does not set accessed bits: KVM finds out by stalls which pages are
# used.

RIG_OPTIONS="--cpu intel --host-cpus 1 --host-cmdline kvm_intel.eptad=0 --env MEM_PHASES=access,mglru" RIG_TIMEOUT=900 \
	exec sh "$(dirname "$0")/latency-mem.t"
