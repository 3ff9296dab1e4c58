# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Numbered packets between the host and guests, whose NICs are served by QEMU and by vhost, and what ping says of the
# way there and back, while both sides are recorded. Numbered ones are among others: UDP of like sizes, ICMP, ARP. Guests
# nic and nicq (with NICs for the host, see latency-net-nic.t) are behind a bridge and a NIC of the host, whose other end is
# a NIC in a network namespace of the host; guest mq has two queues, and TCP connections both ways, guest seg has them
# without GSO.

. "$VM_LIB/host.sh"
. ./both.sh

need_kvmft
udpnum=$(dirname "$KVMFT")/tests/tools/udpnum
ip=/usr/sbin/ip # iproute2's
[ -x "$udpnum" ] || die "no $udpnum: make test-tools"
DELAY_MS=30
nic_modules=
case ${NET_GUESTS:-} in
*nic*) nic_modules="bridge e1000e virtio_net" ;;
esac
for module in tun vhost_net sch_netem $nic_modules; do
	modprobe "$module" || die "no module $module"
done

# record_begin NAME, record_end NAME
record_begin()
{
	# shellcheck disable=SC2086 # a list
	"$KVMFT" record -o "/tmp/$1" -b 16M ${NET_EVENTS_HOST:--e default -e net} 2>"/tmp/$1.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/$1/meta" ||
		die "recording $1 did not start: $(cat "/tmp/$1.err")"
}
record_end()
{
	kill -TERM "$recorder"
	wait "$recorder"
	check "host: $1: record exits 0" same "$?" 0
	sed 's/^/# /' "/tmp/$1.err"
	tar -cf "$RESULTS/$1.tar" -C /tmp "$1"
}

# packets NAME COUNT HZ BURST SIZE: both ways. Behind a NIC only their sizes tell them from noise.
packets()
{
	other=$5
	case $vm in
	nic*) other=1300 ;;
	esac
	flag_set "$vm-$1-noise" "$other"
	flag_set "$vm-$1-in" "$2"
	flag_wait "$vm-$1-in-ready"
	noise_begin "$subnet.2" 7005 "$other"
	$outside "$udpnum" send "$subnet.2" 7000 "$2" "$3" "$4" "$5" >"/tmp/$vm-$1-in.sent"
	check "host: $vm: $1 packets are sent" same "$?" 0
	noise_end
	carry "/tmp/$vm-$1-in.sent"
	flag_wait "$vm-$1-in-done"
	$outside "$udpnum" recv 7001 "$2" >"/tmp/$vm-$1-out.received" 2>"/tmp/$vm-$1.err" &
	receiver=$!
	wait_until 10 grep -qs ready "/tmp/$vm-$1.err" || die "udpnum recv: $(cat "/tmp/$vm-$1.err")"
	noise_begin "$subnet.2" 7005 "$other" forget
	flag_set "$vm-$1-out" "$2 $3 $4 $5"
	wait "$receiver"
	check "host: $vm: $1 packets are received" same "$?" 0
	noise_end
	carry "/tmp/$vm-$1-out.received"
}

# pings NAME: both ways, one after the other; when that was, by the TSC.
pings()
{
	# What the guest does not listen to is dropped by QEMU; with nothing proved before, the next one is not paired.
	[ "$1" = own ] || $outside busybox ping -c 2 -i 0.2 "$subnet.2" >/dev/null 2>&1
	fact "$vm-$1-in-begin" "$("$udpnum" tsc)"
	pings_send "$1" "$subnet.2" "$vm-$1-in.ping"
	check "host: $vm: $1: the guest answers ping" same "$?" 0
	fact "$vm-$1-in-end" "$("$udpnum" tsc)"
	flag_set "$vm-$1-ping"
	flag_wait "$vm-$1-pinged"
	fact "$vm-$1-out-end" "$("$udpnum" tsc)"
}

# streams NAME COUNT HZ SIZE: TCP, both ways.
streams()
{
	flag_set "$vm-$1-in"
	flag_wait "$vm-$1-in-ready"
	"$udpnum" stream "$subnet.2" 7002 "$2" "$3" "$4" >"/tmp/$vm-$1-in.sent"
	check "host: $vm: $1 is sent" same "$?" 0
	carry "/tmp/$vm-$1-in.sent"
	flag_wait "$vm-$1-in-done"
	"$udpnum" sink 7003 >"/tmp/$vm-$1-out.received" 2>"/tmp/$vm-$1.err" &
	receiver=$!
	wait_until 10 grep -qs ready "/tmp/$vm-$1.err" || die "udpnum sink: $(cat "/tmp/$vm-$1.err")"
	flag_set "$vm-$1-out" "$2 $3 $4"
	wait "$receiver"
	check "host: $vm: $1 is received" same "$?" 0
	carry "/tmp/$vm-$1-out.received"
}

# A NIC on a bridge without an address; who talks to the guest is at its other end.
bridge_make()
{
	for at in /sys/class/net/*/device; do
		dev=$(basename "$(dirname "$at")")
		case $(basename "$(readlink "$at/driver")") in
		e1000e) near=$dev ;;
		virtio_net) far=$dev ;;
		esac
	done
	[ -n "${near:-}${far:-}" ] || die "the host lacks its two NICs"
	"$ip" link add br0 type bridge || die "no bridge"
	"$ip" netns add outside || die "no network namespace"
	"$ip" link set "$far" netns outside || die "$far stays here"
	"$ip" link set "$near" master br0
	"$ip" link set "$near" up
	"$ip" link set br0 up
	"$ip" -n outside link set "$far" up
}
# bridged TAP
bridged()
{
	[ -e /sys/class/net/br0 ] || bridge_make
	outside="$ip netns exec outside"
	"$ip" link set "$1" master br0
	"$ip" link set "$1" up
	"$ip" -n outside addr add "$subnet.1/24" dev "$far"
}

# guest NAME NET TAP DEVICE PINGS PACKETS STREAMS: everything with one guest; options of -netdev tap and -device.
guest()
{
	vm=$1
	subnet=10.77.$2
	outside=
	guest_start "$vm" --env "NET=$subnet" --env "PINGS=$5" --env "PACKETS=$6" --env "STREAMS=$7" --qemu-args \
		"-netdev tap,id=n0,ifname=tap$2,script=no,downscript=no,$3 -device virtio-net-pci,netdev=n0,romfile=,mac=52:54:00:77:00:0$2$4"
	guest_wait_up "$vm"
	case $vm in
	nic*) bridged "tap$2" ;;
	*)
		"$ip" addr add "$subnet.1/24" dev "tap$2"
		"$ip" link set "tap$2" up
		"$ip" route replace "$subnet.0/24" dev "tap$2" rto_min 5s
		;;
	esac
	flag_wait "$vm-ready"
	# Who has which address is asked now, and then known.
	$outside busybox ping -c 3 "$subnet.2" >/dev/null 2>&1
	record_begin "$vm-host"
	flag_set "$vm-records"
	flag_wait "$vm-recorded"
	for phase in $5; do
		[ "$phase" != delayed ] || "$tc" qdisc replace dev "tap$2" root netem delay ${DELAY_MS}ms || die "no netem"
		pings "$phase"
		[ "$phase" != delayed ] || "$tc" qdisc del dev "tap$2" root
	done
	for phase in $6; do
		case $phase in
		rate) packets rate 800 4000 1 0 ;;
		burst) packets burst 800 4000 32 200 ;;
		slow) packets slow 100 50 1 200 ;;
		esac
	done
	for phase in $7; do
		case $phase in
		paced) streams paced 300 100 0 ;;
		bulk) streams bulk 300 0 60000 ;;
		few) streams few 40 0 60000 ;;
		esac
	done
	flag_set "$vm-end"
	flag_wait "$vm-done"
	dd if="/run/vm/$vm/disk.raw" of="$RESULTS/$vm-guest.tar" bs=256000 count="$(flag_get "$vm-done")" 2>/dev/null
	record_end "$vm-host"
	flag_set "$vm-over"
	check "guest: $vm: all well" guest_wait_done "$vm"
}

fact delay_ms "$DELAY_MS"
echo 0 >/proc/sys/net/ipv4/icmp_ratelimit
no_gso=,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off
# A slow machine sends little twice: what is sent twice has no place of its own in the connection. Newer kernels refuse more
# than 300.
for one in early_retrans=0 recovery=0 reordering=300; do
	echo "${one#*=}" >"/proc/sys/net/ipv4/tcp_${one%%=*}"
done
for one in ${NET_GUESTS:-qemu vhost}; do
	case $one in
	qemu) guest qemu 1 vhost=off "" "own plain delayed" "rate burst slow" "" ;;
	vhost) guest vhost 2 vhost=on "" "own plain delayed" "rate burst slow" "" ;;
	nic) guest nic 3 vhost=on "" "" "rate burst slow" "" ;;
	nicq) guest nicq 5 vhost=off "" "" "rate burst slow" "" ;;
	mq) guest mq 4 queues=2,vhost=on ,mq=on,vectors=6 "" "rate burst" "paced bulk" ;;
	seg) guest seg 6 vhost=off "$no_gso" "" "" few ;;
	esac
done
finish
