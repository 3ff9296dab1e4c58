#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# prove.t on an arm64 host, where no event and no file tells the offset of a guest's counter.

RIG_OPTIONS="--cpu arm64 --host-cpus 2" exec sh "$(dirname "$0")/prove.t"
