#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# clock.t on an Intel host, which scales TSCs: some of what clockvm plants, and a host that is suspended.

RIG_OPTIONS="--cpu intel --timeout 2400 --env CLOCK_FAULTS=none,skew:-1000000,paused:-412331,clock:64213000000,stop:2000000000,khz:300000 \
--env CLOCK_LOST=0 --env CLOCK_QEMU=0 --env CLOCK_LINUX=0" exec sh "$(dirname "$0")/clock.t"
