# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Boots of a small VMM that are delayed, each in one place: it sleeps, its disk is slow, its memory comes by a userfaultfd,
# its cgroup has a limit, the file that is its memory is not in the page cache. Leaves NAME.tar of each, and those of
# boots as they are. Facts: NAME=KIND MS.
#
#   ROUNDS=4   how many of each, with other delays

. "$VM_LIB/host.sh"

need_kvmft
small_make bootvm /tmp/bootvm
modprobe null_blk nr_devices=0 || die "no null_blk"
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || die "no configfs"
mkdir -p /tmp/cgroup
mount -t cgroup2 none /tmp/cgroup || die "no cgroup2"
echo +cpu >/tmp/cgroup/cgroup.subtree_control
mkdir /tmp/cgroup/slow
echo 'p:handle_userfault handle_userfault' >>/sys/kernel/tracing/kprobe_events || die "no kprobe"

# disk NAME MS: a block device that takes so long, in $disk.
disk()
{
	item=/sys/kernel/config/nullb/$1
	mkdir "$item"
	for set in memory_backed=1 irqmode=2 size=16 "completion_nsec=$(($2 * 1000000))" power=1; do
		echo "${set#*=}" >"$item/${set%%=*}" || die "$1: $set"
	done
	disk=/dev/$1
	[ -b "$disk" ] || disk=/dev/nullb$(cat "$item/index")
	[ -b "$disk" ] || die "no $disk"
	echo 0 >"/sys/block/${disk#/dev/}/queue/read_ahead_kb"
}

# Becomes a VMM in that cgroup.
cat >/tmp/limited <<'END'
echo $$ >/tmp/cgroup/slow/cgroup.procs
exec "$@"
END

# boot NAME KIND MS COMMAND...
boot()
{
	name=$1
	fact "$1" "$2 $3"
	shift 3
	echo 3 >/proc/sys/vm/drop_caches
	"$KVMFT" record -q -b 8M -e default -e mem -e boot -o "/tmp/$name" -- "$@" 2>/tmp/log
	check "$name: recorded" same "$?" 0
	sed 's/^/# /' /tmp/log
	carry "/tmp/$name"
	rm -rf "/tmp/${name:?}"
}

disk fast 1
fast=$disk
for round in $(seq "${ROUNDS:-4}"); do
	ms=$((150 + 50 * round))
	boot "plain$round" plain 0 /tmp/bootvm "$fast"
	boot "sleep$round" sleep $((ms * 16)) /tmp/bootvm "$fast" --sleep $((ms * 16))
	boot "fill$round" fill $((ms * 16)) /tmp/bootvm "$fast" --fill $ms
	disk "slow$round" $((ms * 4))
	boot "disk$round" disk $((ms * 16)) /tmp/bootvm "$disk"
	disk "cold$round" $ms
	boot "cold$round" cold $((ms * 16)) /tmp/bootvm "$fast" --memory "$disk"
	echo "$((ms * 50)) 100000" >/tmp/cgroup/slow/cpu.max
	boot "limit$round" limit 1000 sh /tmp/limited /tmp/bootvm "$fast"
done
# Other scenarios may follow in this host.
echo '-:handle_userfault' >>/sys/kernel/tracing/kprobe_events
for item in /sys/kernel/config/nullb/*/; do
	echo 0 >"$item/power"
	rmdir "$item"
done
rmmod null_blk
finish
