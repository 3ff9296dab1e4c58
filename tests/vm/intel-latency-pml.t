#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# latency-mem.t on an Intel host whose CPU writes the dirty log (PML): there are stalls when that is full, and
# no others.

RIG_OPTIONS="--cpu intel --host-cpus 1 --env MEM_PHASES=dirty" RIG_TIMEOUT=900 \
	exec sh "$(dirname "$0")/latency-mem.t"
