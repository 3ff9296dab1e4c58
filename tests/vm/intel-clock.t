#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# clock.t on an Intel host, which scales TSCs and has one CPU: all of it, and a host that is suspended.

RIG_OPTIONS="--cpu intel --vcpus 2 --timeout 6000 --env CLOCK_HEALTHY=6" exec sh "$(dirname "$0")/clock.t"
