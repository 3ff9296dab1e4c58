#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# clocks.t on an Intel host: guest-offset, and one moment on both sides.

RIG_OPTIONS="--cpu intel --vcpus 2 --timeout 500" exec sh "$(dirname "$0")/clocks.t"
