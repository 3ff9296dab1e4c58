# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"
. ./both.sh

udpnum=$(dirname "$KVMFT")/tests/tools/udpnum
modprobe virtio_net || die "no module virtio_net"
nic=$(basename /sys/class/net/e*)
ip addr add "$NET.2/24" dev "$nic"
ip link set "$nic" up
/usr/sbin/ip route replace "$NET.0/24" dev "$nic" rto_min 5s
for one in early_retrans=0 recovery=0 reordering=300; do
	echo "${one#*=}" >"/proc/sys/net/ipv4/tcp_${one%%=*}"
done
echo 0 >/proc/sys/net/ipv4/icmp_ratelimit
flag_set "$RIG_NAME-ready"
flag_wait "$RIG_NAME-records"
# shellcheck disable=SC2086 # a list
"$KVMFT" record -o "/tmp/$RIG_NAME" -b 16M ${NET_EVENTS_GUEST:--e default -e net} 2>/tmp/record.err &
recorder=$!
wait_until 60 grep -qs '^begin ' "/tmp/$RIG_NAME/meta" || die "recording did not start: $(cat /tmp/record.err)"
flag_set "$RIG_NAME-recorded"
for phase in $PINGS; do
	flag_wait "$RIG_NAME-$phase-ping"
	pings_send "$phase" "$NET.1" "$RIG_NAME-$phase-out.ping"
	check "guest: $phase: the host answers ping" same "$?" 0
	flag_set "$RIG_NAME-$phase-pinged"
done

for phase in $PACKETS; do
	flag_wait "$RIG_NAME-$phase-in"
	"$udpnum" recv 7000 "$(flag_get "$RIG_NAME-$phase-in")" >/tmp/received 2>"/tmp/$phase.err" &
	receiver=$!
	wait_until 10 grep -qs ready "/tmp/$phase.err" || die "udpnum recv: $(cat "/tmp/$phase.err")"
	noise_begin "$NET.1" 7005 "$(flag_get "$RIG_NAME-$phase-noise")" forget
	flag_set "$RIG_NAME-$phase-in-ready"
	wait "$receiver"
	check "guest: $phase packets are received" same "$?" 0
	noise_end
	carry /tmp/received "$RIG_NAME-$phase-in.received"
	flag_set "$RIG_NAME-$phase-in-done"
	flag_wait "$RIG_NAME-$phase-out"
	# shellcheck disable=SC2046 # COUNT HZ BURST SIZE
	set -- $(flag_get "$RIG_NAME-$phase-out")
	noise_begin "$NET.1" 7005 "$(flag_get "$RIG_NAME-$phase-noise")"
	"$udpnum" send "$NET.1" 7001 "$@" >/tmp/sent
	check "guest: $phase packets are sent" same "$?" 0
	noise_end
	carry /tmp/sent "$RIG_NAME-$phase-out.sent"
done
for phase in $STREAMS; do
	flag_wait "$RIG_NAME-$phase-in"
	"$udpnum" sink 7002 >/tmp/received 2>"/tmp/$phase.err" &
	receiver=$!
	wait_until 10 grep -qs ready "/tmp/$phase.err" || die "udpnum sink: $(cat "/tmp/$phase.err")"
	flag_set "$RIG_NAME-$phase-in-ready"
	wait "$receiver"
	check "guest: $phase is received" same "$?" 0
	carry /tmp/received "$RIG_NAME-$phase-in.received"
	flag_set "$RIG_NAME-$phase-in-done"
	flag_wait "$RIG_NAME-$phase-out"
	# shellcheck disable=SC2046 # COUNT HZ SIZE
	set -- $(flag_get "$RIG_NAME-$phase-out")
	"$udpnum" stream "$NET.1" 7003 "$@" >/tmp/sent
	check "guest: $phase is sent" same "$?" 0
	carry /tmp/sent "$RIG_NAME-$phase-out.sent"
done
flag_wait "$RIG_NAME-end"
kill -TERM "$recorder"
wait "$recorder"
check "guest: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
# By the disk: over 9p Linux 6.12 writes a page at a time, 80 KB in a second.
tar -cf /tmp/guest.tar -C /tmp "$RIG_NAME"
dd if=/tmp/guest.tar of="$GUEST_DISK" bs=256000 conv=fsync 2>/dev/null
flag_set "$RIG_NAME-done" $(($(wc -c </tmp/guest.tar) / 256000))
flag_wait "$RIG_NAME-over"
finish
