# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

# One request at a time.
read_disk()
{
	dd if="$GUEST_DISK" of=/dev/null bs=4k count="$READS" iflag=direct 2>/dev/null
}

flag_set guest-ready
for turn in first second; do
	flag_wait "$turn"
	read_disk
	flag_set "$turn-done"
done
flag_wait recorded
"$KVMFT" record -o /tmp/guest -e block:block_rq_issue -e block:block_rq_complete 2>/tmp/guest.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/guest/meta || die "recording: $(cat /tmp/guest.err)"
read_disk
kill -TERM "$recorder"
wait "$recorder"
check "guest: record exits 0" same "$?" 0
tar -cf "$RESULTS/guest.tar" -C /tmp guest
flag_set recorded-done
flag_wait third
read_disk
flag_set third-done
flag_wait host-done
finish
