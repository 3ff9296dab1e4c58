#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# latency.t on an Intel host, and what blame says of the delays that are planted there.

RIG_OPTIONS="--cpu intel --host-cpus 2 --vcpus 2 --host-cmdline kvm_intel.enable_apicv=0 --timeout 900" exec sh "$(dirname "$0")/latency.t"
