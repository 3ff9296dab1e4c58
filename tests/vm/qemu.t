#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Trace events of QEMU during a capture: each line of its log lies where the request was at that time, between
# what host and guest recorded of it.

. "$(dirname "$0")/tap.sh"

TZ=UTC
export TZ
rig qemu

run "$kvmft" merge "$rig/host" "$rig/guest" --qemu "$rig/qemu.log:log:vm1"
status_is 0 "host, guest and QEMU's log are merged"
sed 's/^/# /' "$err"
err_has "placed by CLOCK_REALTIME, off by at most" "a bound is stated"
out_has 'kvm:kvm_(fast_)?mmio: .* device=(virtio|ioeventfd)' "... a doorbell has the name of its device"
bound=$(sed -n 's/.*placed by CLOCK_REALTIME, off by at most [0-9]* cycles (\([0-9.]*\) us).*/\1/p' "$err")
if perl "$top/tests/vm/qemu_order.pl" "${bound:-0}" "$(fact reads)" <"$out" >"$tmp/order" 2>&1; then
	result 0 "each request: issued, doorbell, QEMU's stages, interrupt, completed, in this order"
else
	result 1 "each request: issued, doorbell, QEMU's stages, interrupt, completed, in this order"
fi
sed 's/^/# /' "$tmp/order"
sums_of "the pair" all "$rig/host" "$rig/guest"
finish
