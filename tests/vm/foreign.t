#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Two files of trace-cmd's, of a host and of its guest, made by hand: kvmft knows nothing of the VM but what
# they hold.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/foreign.sh"

rig foreign --env "FOREIGN=plain"

opens plain host 7 50000
opens plain guest 7 5000
vcpu_threads plain host vm1
hides plain host vm1
hides plain guest vm1
aligned plain host guest vm1
finish
