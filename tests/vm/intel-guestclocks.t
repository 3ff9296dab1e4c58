#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# guestclocks.t on an Intel host: five trace clocks at once, a TSC that is written, no kvmclock.

RIG_OPTIONS="--cpu intel --vcpus 2 --timeout 900" exec sh "$(dirname "$0")/guestclocks.t"
