#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# diff.t on an Intel host: 20 pairs of recordings that are the same, timer slack, halt polling, -overcommit cpu-pm.

DIFF_EQUAL=40 DIFF_TIMEOUT=2400 RIG_OPTIONS="--cpu intel" exec sh "$(dirname "$0")/diff.t"
