#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# latency-net.t on an Intel host.

RIG_OPTIONS="--cpu intel --host-cpus 1" RIG_TIMEOUT=900 exec sh "$(dirname "$0")/latency-net.t"
