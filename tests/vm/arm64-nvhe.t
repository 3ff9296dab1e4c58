#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# arm64.t on a CPU without VHE, whose counter has 62.5 MHz.

ARM64_CPU=arm64-nvhe exec sh "$(dirname "$0")/arm64.t"
