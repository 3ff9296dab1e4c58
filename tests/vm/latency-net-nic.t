#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# What `kvmft latency net` says of numbered packets that come through a NIC of the host and a bridge, and of those and
# TCP connections through a NIC with two queues, or without GSO: none is taken for another one.

. "$(dirname "$0")/latency_net.sh"

nics="-netdev hubport,id=near,hubid=0 -device e1000e,netdev=near,romfile="
nics="$nics -netdev hubport,id=far,hubid=0 -device virtio-net-pci,netdev=far,romfile="
again="-e default -e net -e tcp:tcp_retransmit_skb"
net_rig 900 --env "NET_EVENTS_HOST=$again" --env "NET_EVENTS_GUEST=$again" --env "NET_GUESTS=nic nicq mq seg" --host-qemu "$nics"

# both MODE PHASE WHAT [ARGUMENTS...]: of a guest, both ways
both()
{
	mode=$1 phase=$2 what=$3
	shift 3
	for way in in out; do
		table=net-rx
		[ $way = in ] || table=net-tx
		holds "$vm: $phase, $way: $what" "$mode" "$tmp/$vm.json" $table "$rig/$vm-$phase-$way.sent" \
			"$rig/$vm-$phase-$way.received" "$offset" "$@"
	done
}

for vm in nic nicq mq seg; do
	analysed
	run "$kvmft" merge -q --clock host-tsc -e net:net_dev_queue -e net:net_dev_start_xmit \
		-e tcp:tcp_retransmit_skb "$rig/$vm-host" "$rig/$vm"
	cp "$out" "$tmp/$vm.timeline"
	case $vm in
	nic*)
		for phase in rate burst slow; do
			both forwarded "$phase" "through a NIC and a bridge" 95
		done
		;;
	mq)
		both numbers rate "two queues" 95
		both numbers burst "two queues" 95
		both stream paced "TCP" "$khz" 95 "$tmp/$vm.timeline"
		both stream bulk "TCP" "$khz" 95 "$tmp/$vm.timeline"
		;;
	seg) both stream few "TCP without GSO" "$khz" 95 "$tmp/$vm.timeline" ;;
	esac
	run "$kvmft" latency net -q "$rig/$vm-host" "$rig/$vm"
	sed 's/^/# /' "$out"
done
finish
