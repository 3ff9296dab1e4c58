# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

procs=/tmp/procs
cp "$(dirname "$KVMFT")/tests/tools/procs" $procs || die "no tests/tools/procs: make test-tools"
modprobe virtio_net || die "no module virtio_net"
disk=$(grep -lx slow /sys/block/vd*/serial | cut -d / -f 4)
[ -n "$disk" ] || die "no disk named slow"
nic=$(basename /sys/class/net/e*)
ip addr add 10.9.0.2/24 dev "$nic"
ip link set "$nic" up
check "guest: the host answers" busybox ping -c 2 10.9.0.1
cat >/tmp/work <<END
$procs sleeper none & all=\$!
$procs reader /dev/$disk & all="\$all \$!"
$procs handoff none & all="\$all \$!"
busybox ping -q -i 0.03 10.9.0.1 >/dev/null & all="\$all \$!"
sleep ${WAITS_SECONDS:-6}
kill \$all
END
flag_set guest-ready
flag_wait host-recording
"$KVMFT" record -b 16M -o /tmp/guest -- sh /tmp/work 2>/tmp/record.err
status=$?
flag_set guest-recorded
check "guest: record exits 0" same "$status" 0
sed 's/^/# /' /tmp/record.err
tar -cf "$RESULTS/guest-vm1.tar" -C /tmp guest
finish
