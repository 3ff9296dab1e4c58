# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

# A script is called by its own name in the kernel.
cat >/tmp/victim <<'END'
#!/bin/sh
while :; do :; done
END
chmod +x /tmp/victim

# record_begin NAME, record_end NAME: a capture of this guest while the host has one.
record_begin()
{
	"$KVMFT" record -o "/tmp/$1" 2>"/tmp/$1.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/$1/meta" || die "recording $1 did not start: $(cat "/tmp/$1.err")"
}
record_end()
{
	kill -TERM "$recorder"
	wait "$recorder"
	check "guest: $1: record exits 0" same "$?" 0
	sed 's/^/# /' "/tmp/$1.err"
	tar -cf "$RESULTS/guest-$1.tar" -C /tmp "$1"
}

flag_set guest-ready
flag_wait pinned
record_begin guest1
taskset -c 0 /tmp/victim &
victim=$!
flag_set victim-runs
flag_wait robbed 120
kill "$victim"
record_end guest1
flag_set guest1-done

flag_wait slow-disk
record_begin guest2
flag_set guest2-records
flag_wait host2-records
dd if=/dev/zero of=/dev/vda bs=4k count=25 oflag=direct 2>/dev/null
flag_set reads
until flag_test slow-done; do
	dd if=/dev/vda of=/dev/null bs=4k count=200 iflag=direct 2>/dev/null
done
off=$(taskset -c 1 "$(dirname "$KVMFT")/tests/tools/spin" "$IRQS_OFF_MS" 10)
check "guest: interrupts were off" same "$?" 0
note "spin: $off"
fact off_sum_us "$(expr "$off" : 'sum_us=\([0-9]*\)')"
fact off_longest_us "$(expr "$off" : '.*longest_us=\([0-9]*\)')"
record_end guest2
flag_set guest2-done
flag_wait host-done
finish
