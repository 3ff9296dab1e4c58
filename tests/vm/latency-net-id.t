#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft latency net` of numbered packets whose headers were recorded on both sides (record -e net-id): none is taken for
# another one, and each has the addresses and ports that it was sent with.

. "$(dirname "$0")/latency_net.sh"

net_rig 400 --env "NET_EVENTS_HOST=-e default -e net-id" \
	--env "NET_EVENTS_GUEST=-e default -e net-id"
net=0
for vm in qemu vhost; do
	net=$((net + 1))
	analysed
	for phase in rate burst slow; do
		for way in "in net-rx 1 2 7000" "out net-tx 2 1 7001"; do
			# shellcheck disable=SC2086 # WAY TABLE FROM TO PORT
			set -- $way
			holds "$vm: $phase, $1: each packet has its own addresses and ports" numbers "$tmp/$vm.json" "$2" \
				"$rig/$vm-$phase-$1.sent" "$rig/$vm-$phase-$1.received" "$offset" 95 \
				", udp 10\\.77\\.$net\\.$3:[0-9]+ > 10\\.77\\.$net\\.$4:$5\$"
		done
	done
done
finish
