#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# latency-mem.t on an Intel host, where an exit takes what its instructions take.

RIG_OPTIONS="--cpu intel --host-cpus 1" RIG_TIMEOUT=900 MEM_PERCENT=5 exec sh "$(dirname "$0")/latency-mem.t"
