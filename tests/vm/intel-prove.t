#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# prove.t on an Intel host, which scales the second guest's TSC.

RIG_OPTIONS="--cpu intel --host-mem 768" exec sh "$(dirname "$0")/prove.t"
