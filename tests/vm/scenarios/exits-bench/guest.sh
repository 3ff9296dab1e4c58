# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# No guest of its own: the VM that is measured is tests/vm/tinyvm.c.

. "$VM_LIB/guest.sh"
finish
