#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# exits.t on an Intel host.

RIG_OPTIONS="--cpu intel --vcpus 2 --timeout 600" exec sh "$(dirname "$0")/exits.t"
