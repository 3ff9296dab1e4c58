# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# No guest of its own: kvmft makes its own.

. "$VM_LIB/guest.sh"
finish
