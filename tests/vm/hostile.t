#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# A host that is no friend, with a guest that runs: CPUs that go and come, a clock that is set by hours, a disk that fails
# to write, a recorder that was taken over. The rig's kernels begin without Landlock; once more with theirs.

. "$(dirname "$0")/tap.sh"

rig hostile --timeout 600
rig hostile --env HOSTILE=landlock --host-cmdline lsm=landlock,capability --timeout 300
finish
