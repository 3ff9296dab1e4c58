#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# stuck.t on an arm64 host.

RIG_OPTIONS="--cpu arm64" exec sh "$(dirname "$0")/stuck.t"
