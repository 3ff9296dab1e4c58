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
# Each alone, so that the CPUs halt for it, and all at once.
cat >/tmp/work <<END
for set in sleeper reader handoff ping "sleeper reader handoff ping"; do
	all=
	for one in \$set; do
		case \$one in
		ping) busybox ping -q -i 0.03 10.9.0.1 >/dev/null & ;;
		*) $procs \$one /dev/$disk & ;;
		esac
		all="\$all \$!"
	done
	sleep ${WAITS_SECONDS:-4}
	kill \$all
	wait
done
END
flag_set guest-ready
flag_wait host-recording
"$KVMFT" record -b 8M -o /tmp/guest -- sh /tmp/work 2>/tmp/record.err
status=$?
flag_set guest-recorded
check "guest: record exits 0" same "$status" 0
sed 's/^/# /' /tmp/record.err
tar -cf "$RESULTS/guest-vm1.tar" -C /tmp guest
finish
