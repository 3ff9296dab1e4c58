# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Work of many kinds: doorbells and interrupts of virtio, ports, MSRs, CPUID, sleep.

. "$VM_LIB/guest.sh"

cat >/tmp/work.sh <<'END'
for i in 0 1; do
	dd if=/dev/vda of=/dev/null bs=64k count=6 skip=$((i * 8)) iflag=direct 2>/dev/null
	dd if=/dev/zero of=/dev/vda bs=4k count=4 seek=$((i * 4)) oflag=direct 2>/dev/null
	rdmsr -p 0 0x11 >/dev/null
	rdmsr -p 1 0x11 >/dev/null
	busybox devmem 0xfed000f0 >/dev/null # HPET, which a guest on kvm-clock leaves alone
	dd if=/dev/port of=/dev/null bs=1 skip=113 count=8 2>/dev/null # the clock's registers
	sleep 0.1
done
END
flag_set guest-ready
for n in 1 2; do
	flag_wait "go$n"
	sh /tmp/work.sh
	flag_set "guest-worked$n"
done
flag_wait go3
"$KVMFT" record -o /tmp/guest -- sh /tmp/work.sh 2>/tmp/record.err
check "guest: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
flag_set guest-worked3
tar -cf "$RESULTS/guest.tar" -C /tmp guest
flag_wait go4
sh /tmp/work.sh
flag_set guest-worked4
flag_wait host-done
pass "the guest worked"
finish
