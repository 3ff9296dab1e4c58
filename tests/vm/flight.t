#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft record --flight-recorder --trigger exit-longer=...` in the emulated host, whose kernel has
# hist triggers.

. "$(dirname "$0")/tap.sh"

rig flight --timeout 200
sums_of "what was written out" sched "$rig/late"
finish
