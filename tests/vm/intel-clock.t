#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# clock.t on an Intel host: what clockvm plants, without the Linux guest and QEMU's other guests.

RIG_OPTIONS="--cpu intel --timeout 2400 --env CLOCK_LOST=0 --env CLOCK_QEMU=0 --env CLOCK_LINUX=0" exec sh "$(dirname "$0")/clock.t"
