#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# report.t on an Intel host: the tables of perf and of trace-cmd of the same run.

RIG_OPTIONS="--cpu intel --vcpus 2 --timeout 500" exec sh "$(dirname "$0")/report.t"
