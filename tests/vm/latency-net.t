#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# What `kvmft latency net` says of packets that were numbered, and of pings, between a host and guests whose NICs are
# served by QEMU and by vhost: none is taken for another one, and their times are those that ping shows.

. "$(dirname "$0")/latency_net.sh"

net_rig 600

for vm in qemu vhost; do
	analysed
	for phase in rate burst slow; do
		for way in in out; do
			table=net-rx
			[ $way = in ] || table=net-tx
			holds "$vm: $phase, $way: no packet is taken for another one" numbers "$tmp/$vm.json" $table \
				"$rig/$vm-$phase-$way.sent" "$rig/$vm-$phase-$way.received" "$offset" 95
		done
	done
	run "$kvmft" merge -q --clock host-tsc -e syscalls:sys_enter_sendto -e syscalls:sys_exit_recvfrom \
		"$rig/$vm-host" "$rig/$vm"
	cp "$out" "$tmp/$vm.timeline"
	for phase in plain "delayed $(fact delay_ms)"; do
		# shellcheck disable=SC2086 # PHASE [MS]
		set -- $phase
		holds "$vm: ping, $1, to the guest: its time is in the stages" ping "$tmp/$vm.json" net-rx \
			"$rig/$vm-$1-in.ping" "$(fact "$vm-$1-in-begin")" "$(fact "$vm-$1-in-end")" "$khz" 98 \
			"$rig/$vm-own-in.ping" "$tmp/$vm.timeline" ${2:+"$2"}
		holds "... from it" ping "$tmp/$vm.json" net-tx \
			"$rig/$vm-$1-out.ping" "$(fact "$vm-$1-in-end")" "$(fact "$vm-$1-out-end")" "$khz" 98 \
			"$rig/$vm-own-out.ping" "$tmp/$vm.timeline" ${2:+"$2"}
	done
	run "$kvmft" latency net -q "$rig/$vm-host" "$rig/$vm"
	sed 's/^/# /' "$out"
done
for vm in qemu vhost; do
	ablated net "$rig/$vm-host" "$rig/$vm"
done
finish
