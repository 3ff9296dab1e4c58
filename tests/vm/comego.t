#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft record` of a host on which VMs start and end meanwhile, in the emulated host.

. "$(dirname "$0")/tap.sh"

rig comego --timeout 400
finish
