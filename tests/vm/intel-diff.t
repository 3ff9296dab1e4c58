#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# diff.t on an Intel host: with -overcommit cpu-pm, and two recordings that are the same.

DIFF_EQUAL=2 DIFF_TIMEOUT=900 RIG_OPTIONS="--cpu intel" exec sh "$(dirname "$0")/diff.t"
