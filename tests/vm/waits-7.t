#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# waits.t on hosts with Linux 7.

RIG_OPTIONS="--kernel 7" exec sh "$(dirname "$0")/waits.t"
