#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# blame.t on an Intel host, with guests of one vCPU: two CPUs that run a vCPU each do not live long in Bochs.

RIG_OPTIONS="--cpu intel --host-cpus 2 --host-cmdline kvm_intel.enable_apicv=0 --timeout 3000" exec sh "$(dirname "$0")/blame.t"
