#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# intel-latency-access.t with Linux 6.12, which has DAMON, and whose multi-gen LRU asks KVM as well.

RIG_OPTIONS="--cpu intel --host-cpus 1 --host-cmdline kvm_intel.eptad=0 --kernel 6.12 --env MEM_PHASES=access,mglru,damon" \
	RIG_TIMEOUT=900 exec sh "$(dirname "$0")/latency-mem.t"
