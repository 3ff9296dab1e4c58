# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

# reads NAME DISK TIMES OPTIONS of dd
reads()
{
	flag_wait "$1" 120
	"$KVMFT" record -o "/tmp/guest-$1" 2>"/tmp/$1.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/guest-$1/meta" || die "recording did not start: $(cat "/tmp/$1.err")"
	name=$1 disk=$2 times=$3
	shift 3
	for _ in $(seq "$times"); do
		dd if="$disk" of=/dev/null "$@" 2>/dev/null
	done
	kill -TERM "$recorder"
	wait "$recorder"
	check "guest: $name: record exits 0" same "$?" 0
	sed 's/^/# /' "/tmp/$name.err"
	tar -cf "$RESULTS/guest-$name.tar" -C /tmp "guest-$name"
	flag_set "$name-done"
}

flag_set guest-ready
reads quiet /dev/vdb 20 bs=64k count=10 iflag=direct
dd if=/dev/zero of=/tmp/fill bs=1M count=150 2>/dev/null
rm /tmp/fill
flag_set freed
reads swapped /dev/vdb 1 bs=64k count=400
reads locked /dev/vda 60 bs=4k count=10 iflag=direct
flag_wait host-done
finish
