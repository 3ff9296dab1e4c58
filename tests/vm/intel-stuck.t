#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# stuck.t on an Intel host, with the hangs that do not take minutes there.

RIG_OPTIONS="--cpu intel --timeout 2400" exec sh "$(dirname "$0")/stuck.t"
