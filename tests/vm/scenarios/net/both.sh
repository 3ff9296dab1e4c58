# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # $udpnum
#
# What the host and its guests both do.

tc=/usr/sbin/tc # iproute2's
outside=

# pings_send PHASE ADDRESS FILE. In phase "own" it is this machine itself that answers, so late that ping sleeps, too: what
# ping shows beyond its system calls is its own.
pings_send()
{
	if [ "$1" = own ]; then
		modprobe sch_netem && "$tc" qdisc replace dev lo root netem delay 2ms || die "no netem for lo"
		set -- own 127.0.0.1 "$3"
	fi
	$outside busybox ping -c 30 -i 0.2 "$2" >"$RESULTS/$3" 2>&1
	pings_status=$?
	[ "$1" != own ] || "$tc" qdisc del dev lo root
	return $pings_status
}

# noise_begin ADDRESS PORT SIZE [forget], noise_end: other packets, those that answer them, ARP if it is to be forgotten
# who has the address, and pings
noise_begin()
{
	# shellcheck disable=SC2086 # a command, an option
	$outside "$udpnum" noise "$1" "$2" 200 "$3" ${4:-} &
	noise=$!
	$outside busybox ping -q -i 0.1 "$1" >/dev/null 2>&1 &
	noise="$noise $!"
}
noise_end()
{
	# shellcheck disable=SC2086 # a list
	kill $noise
	# shellcheck disable=SC2086
	wait $noise
	:
}
