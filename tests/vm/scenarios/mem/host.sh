# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Takes memory from small VMs whose guests time each touch of it, in all ways that memvm knows, while the host is
# recorded. memvm.out has what the guests measured; their VMMs' PIDs are in it.

. "$VM_LIB/host.sh"

need_kvmft
phases="touch read cow dirty madvise access split mmio"
memvm_make /tmp/memvm
# Huge pages are to be split when the guest writes, not when the dirty log begins.
echo N >/sys/module/kvm/parameters/eager_page_split 2>/dev/null && note "no eager page split"

# lack TEXT: which phases are left out, and why; the test says so.
lack()
{
	echo "$1" >>/tmp/lacks
}

# An Intel host has these of busybox alone.
for tool in mkswap swapon swapoff; do
	command -v $tool >/dev/null || eval "$tool() { busybox $tool \"\$@\"; }"
done
: >/tmp/lacks
if modprobe null_blk nr_devices=2 gb=1 memory_backed=1 2>/dev/null && mkswap /dev/nullb0 >/tmp/swap.log 2>&1; then
	phases="$phases swap"
else
	lack "swap: no block device for it"
fi
if modprobe zram num_devices=1 2>/dev/null && echo 256M >/sys/block/zram0/disksize &&
	mkswap /dev/zram0 >/tmp/swap.log 2>&1; then
	phases="$phases zram"
else
	lack "zram: there is none"
fi
new_disk()
{
	if command -v mkfs.ext4 >/dev/null; then
		modprobe ext4 2>/dev/null && mkfs.ext4 -q "$1" && mount -t ext4 "$1" /tmp/disk
	else
		busybox mke2fs "$1" >/dev/null && mount -t ext2 "$1" /tmp/disk
	fi 2>/tmp/mkfs.log
}

mkdir -p /tmp/disk
if [ -b /dev/nullb1 ] && new_disk /dev/nullb1; then
	phases="$phases file writeback"
else
	lack "file, writeback: no file system on a block device"
fi
if echo 'p:handle_userfault handle_userfault' >>/sys/kernel/tracing/kprobe_events; then
	phases="$phases uffd"
else
	lack "uffd: no kprobes"
fi
echo 'p:hugetlb_fault hugetlb_fault' >>/sys/kernel/tracing/kprobe_events
if grep -q 'always\|madvise' /sys/kernel/mm/transparent_hugepage/enabled; then
	phases="$phases huge"
	if echo force >/sys/module/kvm/parameters/nx_huge_pages 2>/dev/null; then
		phases="$phases nx"
		echo 1 >/sys/module/kvm/parameters/nx_huge_pages_recovery_ratio
		echo 500 >/sys/module/kvm/parameters/nx_huge_pages_recovery_period_ms
		echo off >/sys/module/kvm/parameters/nx_huge_pages
	else
		lack "nx: KVM has no nx_huge_pages"
	fi
else
	lack "huge, nx: no huge pages"
fi
if echo 16 >/proc/sys/vm/nr_hugepages && [ "$(cat /proc/sys/vm/nr_hugepages)" = 16 ]; then
	phases="$phases hugetlb"
else
	lack "hugetlb: no memory for huge pages"
fi
if [ -e /sys/kernel/mm/ksm/run ]; then
	phases="$phases ksm"
else
	lack "ksm: there is none"
fi
if [ -d /sys/devices/system/node/node1 ]; then
	phases="$phases mbind"
else
	lack "mbind: no second node of memory"
fi
if [ -e /sys/kernel/mm/lru_gen/enabled ] && [ -e /sys/kernel/debug/lru_gen ]; then
	phases="$phases mglru"
else
	lack "mglru: the kernel has no multi-gen LRU"
fi
if [ -d /sys/kernel/mm/damon/admin ]; then
	phases="$phases damon"
else
	lack "damon: the kernel has none"
fi
# What was not asked for is not lacking; what was has to be there.
[ -z "${MEM_PHASES:-}" ] || : >/tmp/lacks
phases=$(echo "${MEM_PHASES:-$phases}" | tr , " ")
# Otherwise the host unmaps pages to see where they are used.
echo 0 >/proc/sys/kernel/numa_balancing 2>/dev/null
export MEMVM_FILE=/tmp/disk/memory

# 1 in 1,000 must be seen; but the thread that fills pages takes 2 ms for each.
pages()
{
	case $1 in
	uffd) echo 512 ;;
	*) [ "$RIG_CPU" = intel ] && echo 1024 || echo 4096 ;;
	esac
}

before()
{
	case $1 in
	swap) swapon /dev/nullb0 ;;
	zram) swapon /dev/zram0 ;;
	nx) echo force >/sys/module/kvm/parameters/nx_huge_pages ;;
	ksm)
		echo 4000 >/sys/kernel/mm/ksm/pages_to_scan
		echo 1 >/sys/kernel/mm/ksm/run
		;;
	esac
}

after()
{
	case $1 in
	swap) swapoff /dev/nullb0 ;;
	zram) swapoff /dev/zram0 ;;
	nx) echo off >/sys/module/kvm/parameters/nx_huge_pages ;;
	mglru) echo 0 >/sys/kernel/mm/lru_gen/enabled ;;
	ksm) echo 0 >/sys/kernel/mm/ksm/run ;;
	esac
}

mkdir /tmp/stamps
"$KVMFT" record -o /tmp/host -b 16M -e default -e mem 2>/tmp/host.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "recording did not start: $(cat /tmp/host.err)"
for phase in $phases; do
	echo "phase $phase" >>/tmp/memvm.out
	before $phase
	timeout 120 /tmp/memvm --pages "$(pages "$phase")" --stamps "/tmp/stamps/$phase" "$phase" >>/tmp/memvm.out \
		2>/tmp/memvm.err
	check "host: memvm $phase" same "$?" 0
	sed 's/^/# /' /tmp/memvm.err
	after $phase
done
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/host.err
tar -cf "$RESULTS/host.tar" -C /tmp host
carry /tmp/memvm.out
tar -cf "$RESULTS/stamps.tar" -C /tmp stamps
carry /tmp/lacks
finish
