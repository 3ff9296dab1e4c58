# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

for _ in $(seq 20); do
	sleep 0.05
done
dd if=/dev/zero of=/tmp/zeros bs=1M count=20 2>/dev/null
check "guest: done" true
finish
