#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# latency-mem.t on an Intel host whose dirty log is that of its CPU: stalls when that is full, and no others.

RIG_OPTIONS="--cpu intel --host-cpus 1 --env MEM_PHASES=dirty" RIG_TIMEOUT=900 \
	exec sh "$(dirname "$0")/latency-mem.t"
