# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Functions for guest.sh, which runs in a KVM guest (L2). Started with `. "$VM_LIB/guest.sh"`.

. "$VM_LIB/common.sh"

# The disk of this guest: 64 MiB, in the host's tmpfs.
export GUEST_DISK=/dev/vda
