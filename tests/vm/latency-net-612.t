#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# latency-net.t on Linux 6.12.

RIG_OPTIONS="--kernel 6.12" RIG_TIMEOUT=700 exec sh "$(dirname "$0")/latency-net.t"
