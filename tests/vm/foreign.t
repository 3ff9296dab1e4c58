#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: every check
#
# Two files of trace-cmd's, of a host and of its guest, made by hand: all that kvmft knows of the VM is what
# they hold. These are short; those of foreign-*.t last many seconds.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/foreign.sh"
. "$(dirname "$0")/foreign_kvmft.sh"

rig foreign --env "FOREIGN=small"

least=500
opens small host 7 2000
opens small guest 7 1000
vcpu_threads small host vm1_before
hides small host vm1_before
hides small guest vm1_before
aligned small host guest vm1_before vm1_after
understood small host guest sched vm1_before vm1_after
finish
