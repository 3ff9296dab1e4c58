# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Trace events of the guest's QEMU, switched through its monitor, for a capture or by hand, while the guest reads
# from its disk: what is enabled when, and what the log has.

. "$VM_LIB/host.sh"

READS=40
need_kvmft
guest_start vm1 --vcpus 1 --env "READS=$READS" --qemu-args "-msg timestamp=on -D /tmp/qemu.log \
	-trace kvm_set_ioeventfd_mmio"
guest_wait_up vm1
flag_wait guest-ready

# states: names of the events that are enabled.
states()
{
	"$KVMFT" qemu events --vm vm1 --format csv | sed -n 's/,enabled.*//p' | tr '\n' ' '
}

# reads FLAG: how many requests the log has seen, after the guest has read.
reads()
{
	flag_set "$1"
	flag_wait "$1-done"
	grep -c ':virtio_blk_handle_read ' /tmp/qemu.log
}

# ---- by hand ----

printf '# all of virtio-blk but what it says of requests that are merged\nvirtio_blk_*\n-virtio_blk_submit*\n' >/tmp/events
check "set: a file, and a name behind it" "$KVMFT" qemu set --vm vm1 events=/tmp/events virtio_blk_req_complete off
check "... which count in their order" sh -c "! echo '$(states)' | grep -E 'virtio_blk_(submit|req_complete)' &&
	echo '$(states)' | grep virtio_blk_handle_read"
first=$(reads first)
check "... the log has the guest's $READS reads: $first" test "$first" -ge "$READS"
check "set: off by wildcards" "$KVMFT" qemu set --vm vm1 'virtio_*' off 'kvm_*' off
check "... nothing is on" same "$(states)" ""
check "... the log gets nothing more" same "$(reads second)" "$first"

# ---- for a capture ----

check "set: another user's file" "$KVMFT" qemu set --vm vm1 vm_state_notify on
before=$(states)
"$KVMFT" record -o /tmp/host --vm vm1 -e kvm:kvm_exit -e kvm:kvm_entry -e kvm:kvm_mmio -e kvm:kvm_fast_mmio \
	-e kvm:kvm_msi_set_irq -e kvm:kvm_set_irq --qemu default 2>/tmp/host.err &
recorder=$!
wait_until 60 grep -qs 'events of QEMU .* are on' /tmp/host.err || die "recording: $(cat /tmp/host.err)"
check "record: the default events are on" sh -c "echo '$(states)' | grep virtio_notify_irqfd"
flag_set recorded
flag_wait recorded-done
kill -TERM "$recorder"
wait "$recorder"
check "... it ends well" same "$?" 0
sed 's/^/# /' /tmp/host.err
check "... and states are as before" same "$(states)" "$before"
n=$(grep -c ':virtio_blk_handle_read ' /tmp/qemu.log)
check "... the log has the guest's reads of that time" test $((n - first)) -ge "$READS"
check "... and gets nothing more" same "$(reads third)" "$n"

# A recorder that is killed: its helper switches back.
"$KVMFT" record -q -o /tmp/killed --vm vm1 -e kvm:kvm_exit --qemu 'virtio_*' 2>/tmp/killed.err &
recorder=$!
wait_until 60 grep -qs '^qemu_on ' /tmp/killed/meta || die "recording: $(cat /tmp/killed.err)"
kill -KILL "$recorder"
as_before()
{
	[ "$(states)" = "$before" ]
}
check "a recorder that is killed: states as before" wait_until 30 as_before

flag_set host-done
check "guest: all well" guest_wait_done vm1
tar -cf "$RESULTS/host.tar" -C /tmp host
carry /tmp/qemu.log
fact reads "$READS"
finish
