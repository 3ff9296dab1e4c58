#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# arm64.t with another kernel, and a guest of two vCPUs.

RIG_OPTIONS="--kernel 6.12 --vcpus 2" exec sh "$(dirname "$0")/arm64.t"
