# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A guest that sleeps, reads from a disk, hands a byte from CPU to CPU and gets packets, one after the other and then
# all at once, while both sides are recorded: what its halts waited for. Its disk is a null_blk device of the host, its
# NIC is served by vhost. Leaves host.tar and guest-vm1.tar in $RESULTS.

. "$VM_LIB/host.sh"

need_kvmft
ip=/usr/sbin/ip # iproute2's
modprobe null_blk nr_devices=1 gb=1 memory_backed=1 irqmode=2 completion_nsec=1000000 || die "no null_blk"
for module in tun vhost_net; do
	modprobe "$module" || die "no module $module"
done
"$ip" tuntap add dev tap1 mode tap && "$ip" addr add 10.9.0.1/24 dev tap1 && "$ip" link set tap1 up || die "no tap"
guest_start vm1 --qemu-args "-drive if=none,id=slow,file=/dev/nullb0,format=raw,cache=none \
-device virtio-blk-pci,drive=slow,serial=slow -netdev tap,id=n,ifname=tap1,script=no,downscript=no,vhost=on \
-device virtio-net-pci,netdev=n"
guest_wait_up vm1
flag_wait guest-ready
probe=
[ "$RIG_CPU" != amd ] || probe=--guest-processes
# shellcheck disable=SC2086 # lists
"$KVMFT" record $probe -b 32M -o /tmp/host ${WAITS_EVENTS_HOST:--e default -e io -e net} 2>/tmp/record.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "the recording did not start: $(cat /tmp/record.err)"
flag_set host-recording
flag_wait guest-recorded 200
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
tar -cf "$RESULTS/host.tar" -C /tmp host
check "guest: all well" guest_wait_done vm1
finish
