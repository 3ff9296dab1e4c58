# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Reads of a port by the kernel (drivers/char/mem.c), and CPUID in a program.

. "$VM_LIB/guest.sh"

tools=$(dirname "$KVMFT")/tests/tools
[ -x "$tools/plant" ] || die "no $tools/plant: make tests"
cat /proc/kallsyms >/tmp/kallsyms
cat /proc/modules >/tmp/modules
flag_wait host-records 120
cat >/tmp/load <<END
#!/bin/sh
"$tools/plant" port 400
"$tools/ticker" 2000 &
sleep 1
kill \$!
dd if="$GUEST_DISK" of=/dev/null bs=64k count=20 iflag=direct 2>/dev/null
END
chmod +x /tmp/load
check "recorded with symbols" "$KVMFT" record --symbols -b 16M -o /tmp/guest -- /tmp/load
"$KVMFT" record --symbols -b 1M -e none -e sched:sched_process_exec -o - -- true >/tmp/guest.stream
check "a stream with symbols" test -s /tmp/guest.stream
check "no other user can read them" same "$(stat -c %a /tmp/guest/symbols)" 600
fact symbols_bytes "$(stat -c %s /tmp/guest/symbols)"
fact kallsyms_bytes "$(wc -c </tmp/kallsyms)"
fact text "0x$(sed -n 's/ T _text$//p' /tmp/kallsyms)"
tar -C /tmp -cf /tmp/guest.tar guest
carry /tmp/guest.tar
carry /tmp/guest.stream
carry /tmp/modules
gzip -c /tmp/kallsyms >/tmp/kallsyms.gz
carry /tmp/kallsyms.gz
finish
