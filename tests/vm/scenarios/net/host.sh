# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Numbered packets between the host and two guests, whose NICs are served by QEMU and by vhost, and what ping says
# of the way there and back, while both sides are recorded.

. "$VM_LIB/host.sh"

need_kvmft
udpnum=$(dirname "$KVMFT")/tests/tools/udpnum
tc=/usr/sbin/tc # iproute2's
[ -x "$udpnum" ] || die "no $udpnum: make test-tools"
DELAY_MS=30
for module in tun vhost_net sch_netem; do
	modprobe $module || die "no module $module"
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

# packets NAME COUNT HZ BURST SIZE: both ways.
packets()
{
	flag_set "$vm-$1-in" "$2"
	flag_wait "$vm-$1-in-ready"
	"$udpnum" send "$subnet.2" 7000 "$2" "$3" "$4" "$5" >"/tmp/$vm-$1-in.sent"
	check "host: $vm: $1 packets are sent" same "$?" 0
	carry "/tmp/$vm-$1-in.sent"
	flag_wait "$vm-$1-in-done"
	"$udpnum" recv 7001 "$2" >"/tmp/$vm-$1-out.received" 2>"/tmp/$vm-$1.err" &
	receiver=$!
	wait_until 10 grep -qs ready "/tmp/$vm-$1.err" || die "udpnum recv: $(cat "/tmp/$vm-$1.err")"
	flag_set "$vm-$1-out" "$2 $3 $4 $5"
	wait "$receiver"
	check "host: $vm: $1 packets are received" same "$?" 0
	carry "/tmp/$vm-$1-out.received"
}

# pings NAME: both ways, one after the other; when that was, by the TSC.
pings()
{
	fact "$vm-$1-in-begin" "$("$udpnum" tsc)"
	busybox ping -c 30 -i 0.2 "$subnet.2" >"$RESULTS/$vm-$1-in.ping" 2>&1
	check "host: $vm: $1: the guest answers ping" same "$?" 0
	fact "$vm-$1-in-end" "$("$udpnum" tsc)"
	flag_set "$vm-$1-ping"
	flag_wait "$vm-$1-pinged"
	fact "$vm-$1-out-end" "$("$udpnum" tsc)"
}

# guest NAME NET vhost=on|off: everything with one guest.
guest()
{
	vm=$1
	subnet=10.77.$2
	guest_start "$vm" --env "NET=$subnet" --qemu-args "-netdev tap,id=n0,ifname=tap$2,script=no,downscript=no,$3 \
-device virtio-net-pci,netdev=n0,romfile="
	guest_wait_up "$vm"
	ip addr add "$subnet.1/24" dev "tap$2"
	ip link set "tap$2" up
	flag_wait "$vm-ready"
	# Who has which address is asked now, and then known.
	busybox ping -c 3 "$subnet.2" >/dev/null 2>&1
	record_begin "$vm-host"
	flag_set "$vm-records"
	flag_wait "$vm-recorded"
	pings plain
	"$tc" qdisc replace dev "tap$2" root netem delay ${DELAY_MS}ms || die "no netem"
	pings delayed
	"$tc" qdisc del dev "tap$2" root
	packets rate 800 4000 1 0
	packets burst 800 4000 32 200
	packets slow 100 50 1 200
	flag_set "$vm-end"
	flag_wait "$vm-done"
	record_end "$vm-host"
	flag_set "$vm-over"
	check "guest: $vm: all well" guest_wait_done "$vm"
}

fact delay_ms "$DELAY_MS"
guest qemu 1 vhost=off
guest vhost 2 vhost=on
finish
