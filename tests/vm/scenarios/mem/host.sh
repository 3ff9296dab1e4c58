# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Takes memory from small VMs whose guests time each touch of it, in all ways that memvm knows, while the host is
# recorded. memvm.out has what the guests measured; their VMMs' PIDs are in it.

. "$VM_LIB/host.sh"

need_kvmft
phases="touch read cow dirty madvise split mmio"
memvm_make /tmp/memvm
# Huge pages are to become small ones when the guest writes, and not when their log begins.
echo N >/sys/module/kvm/parameters/eager_page_split 2>/dev/null && note "no eager page split"
if modprobe null_blk nr_devices=1 gb=1 memory_backed=1 2>/dev/null && mkswap /dev/nullb0 >/tmp/swap.log 2>&1 &&
	swapon /dev/nullb0; then
	phases="$phases swap"
else
	note "no swap here"
fi
if echo 'p:handle_userfault handle_userfault' >>/sys/kernel/tracing/kprobe_events; then
	phases="$phases uffd"
else
	note "no kprobes here"
fi
if grep -q 'always\|madvise' /sys/kernel/mm/transparent_hugepage/enabled; then
	phases="$phases huge"
fi

"$KVMFT" record -o /tmp/host -b 16M -e default -e mem 2>/tmp/host.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "recording did not start: $(cat /tmp/host.err)"
for phase in $phases; do
	echo "phase $phase" >>/tmp/memvm.out
	timeout 120 /tmp/memvm $phase >>/tmp/memvm.out 2>/tmp/memvm.err
	check "host: memvm $phase" same "$?" 0
	sed 's/^/# /' /tmp/memvm.err
done
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/host.err
tar -cf "$RESULTS/host.tar" -C /tmp host
carry /tmp/memvm.out
finish
