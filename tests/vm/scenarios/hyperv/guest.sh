# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

fact hypervisor "$(dmesg | sed -n 's/.*Hypervisor detected: //p')"
fact clockevent "$(cat /sys/devices/system/clockevents/clockevent0/current_device)"
"$KVMFT" record --as guest -o /tmp/guest 2>/tmp/guest.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/guest/meta || die "recording did not start: $(cat /tmp/guest.err)"
flag_set guest-ready
flag_wait go-default
taskset -c 0 "$(dirname "$KVMFT")/tests/tools/ticker" 5000 &
ticker=$!
for n in 1 2 3 4 5 6 7 8; do
	taskset -c 1 sh -c 'taskset -c 0 sh -c : & taskset -c 1 sh -c : ; wait'
done
flag_wait recorded-default 200
kill -TERM "$recorder"
wait "$recorder"
check "guest: record exits 0" same "$?" 0
tar -cf "$RESULTS/guest.tar" -C /tmp guest
flag_wait recorded-lean 200
kill "$ticker"
finish
