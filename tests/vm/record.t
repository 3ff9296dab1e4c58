#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft record` while CPUs come and go, in the emulated host: its kernel has no 64K sub-buffers.

. "$(dirname "$0")/tap.sh"

rig hotplug --timeout 150
finish
