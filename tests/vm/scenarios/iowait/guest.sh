# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

ioreads=$(dirname "$KVMFT")/tests/tools/ioreads

# disk_of SERIAL
disk_of()
{
	for disk in /sys/block/vd*; do
		[ "$(cat "$disk/serial")" != "$1" ] || echo "/dev/${disk##*/}"
	done
}

# reads NAME DISK COUNT BYTES: the host is told before where the memory is that is read into.
reads()
{
	name=$1
	flag_wait "$name" 120
	"$KVMFT" record -o "/tmp/guest-$name" 2>"/tmp/$name.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/guest-$name/meta" || die "recording did not start: $(cat "/tmp/$name.err")"
	mkfifo "/tmp/go-$name"
	"$ioreads" "$(disk_of "$2")" "$3" "$4" 65536 "/tmp/pages-$name" <"/tmp/go-$name" >"/tmp/reads-$name" &
	reader=$!
	exec 9>"/tmp/go-$name"
	wait_until 60 test -s "/tmp/pages-$name" || die "nothing to read into"
	sleep 0.5
	carry "/tmp/pages-$name"
	flag_set "$name-ready"
	flag_wait "$name-go"
	exec 9>&-
	wait "$reader"
	check "guest: $name: the disk was read" same "$?" 0
	flag_set "$name-read"
	kill -TERM "$recorder"
	wait "$recorder"
	check "guest: $name: record exits 0" same "$?" 0
	sed 's/^/# /' "/tmp/$name.err"
	carry "/tmp/reads-$name"
	tar -cf "$RESULTS/guest-$name.tar" -C /tmp "guest-$name"
	flag_set "$name-done"
}

flag_set guest-ready
reads quiet main 200 16384
reads swapped main 200 16384
reads packed main 200 16384
reads cold cold 200 16384
reads locked busy 1000 4096
flag_wait host-done
finish
