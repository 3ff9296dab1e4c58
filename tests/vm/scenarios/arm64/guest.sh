# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

# QEMU's machine has nothing at this address: each store is an exit.
nowhere=0x0c000000
tools=$(dirname "$KVMFT")

# The workload: direct I/O that must reach the host, sleeps, the counter, told to the host, and random numbers of a
# device whose interrupt is a line of the GIC.
cat >/tmp/work.sh <<END
i=0
while [ \$i -lt $WORK_ROUNDS ]; do
	dd if=$GUEST_DISK of=/dev/null bs=64k count=8 skip=\$((i * 8)) iflag=direct 2>/dev/null
	dd if=/dev/zero of=$GUEST_DISK bs=4k count=2 seek=\$((i * 2)) oflag=direct 2>/dev/null
	$tools/cntvct $nowhere 20
	dd if=/dev/hwrng of=/dev/null bs=16 count=2 2>/dev/null
	sleep 0.02
	i=\$((i + 1))
done
END
"$KVMFT" check >/tmp/check 2>&1
check "guest: check finds all that it needs" same "$?" 0
check "guest: ... as a guest" same "$(grep -cE '^as a guest \(from what this machine is|^(guest-events|mono_raw) +ok' /tmp/check)" 3
modprobe virtio_mmio
modprobe virtio-rng
check "guest: a device with a line of the GIC" test -c /dev/hwrng
flag_set guest-ready
flag_wait host-recording
"$KVMFT" record -o /tmp/guest -- sh /tmp/work.sh 2>/tmp/record.err >/dev/null
status=$?
flag_set guest-recorded
check "guest: record exits 0" same "$status" 0
sed 's/^/# /' /tmp/record.err
# One file: 9p takes a good part of a second for each.
tar -cf "$RESULTS/guest-vm1.tar" -C /tmp guest
flag_wait host-done
finish
