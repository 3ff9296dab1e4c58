#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `kvmft latency net` of numbered packets whose headers were recorded on both sides (record -e net-id): none is taken for
# another one, and each has the addresses and ports that it was sent with.

. "$(dirname "$0")/tap.sh"

rig net --timeout "${RIG_TIMEOUT:-400}" --env "NET_EVENTS_HOST=-e default -e net-id" \
	--env "NET_EVENTS_GUEST=-e default -e net-id"
if ! command -v python3 >/dev/null; then
	skip "packets against their numbers" "python3 is not installed"
	finish
fi
py="$(dirname "$0")/latency_net.py"
net=0
for vm in qemu vhost; do
	net=$((net + 1))
	offset=$(sed -n 's/^vcpu .* offset=\([-0-9]*\).*/\1/p' "$rig/$vm-host/meta" | head -n 1)
	run "$kvmft" latency net --format json --worst 10000 --context 0 -q "$rig/$vm-host" "$rig/$vm"
	status_is 0 "$vm: latency net"
	cp "$out" "$tmp/$vm.json"
	sums "... what was counted adds up"
	for phase in rate burst slow; do
		for way in "in net-rx 1 2 7000" "out net-tx 2 1 7001"; do
			# shellcheck disable=SC2086 # WAY TABLE FROM TO PORT
			set -- $way
			ok "$vm: $phase, $1: each packet has its own addresses and ports" python3 "$py" numbers "$tmp/$vm.json" $2 \
				"$rig/$vm-$phase-$1.sent" "$rig/$vm-$phase-$1.received" "$offset" 95 \
				", udp 10\\.77\\.$net\\.$3:[0-9]+ > 10\\.77\\.$net\\.$4:$5\$"
			sed 's/^/# /' "$tmp/ok.log"
		done
	done
done
finish
