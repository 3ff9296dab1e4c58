# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

flag_wait "$RIG_NAME-go"
"$KVMFT" record -q -e sched:sched_switch -e irq_vectors:local_timer_entry -o "/tmp/$RIG_NAME" -- \
	sh -c 'i=0; while [ $i -lt 20 ]; do dd if=/dev/vda of=/dev/null bs=4k count=4 2>/dev/null; i=$((i + 1)); done'
check "guest: record exits 0" same "$?" 0
tar -cf "$RESULTS/$RIG_NAME.tar" -C /tmp "$RIG_NAME"
finish
