#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# blame.t on an Intel host of one CPU, with guests of one vCPU; see README.md.

RIG_OPTIONS="--cpu intel --host-cpus 1 --vcpus 1 --timeout 3600" exec sh "$(dirname "$0")/blame.t"
