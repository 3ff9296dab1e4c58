# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Records the host while the guest records itself, with block I/O and rdmsr 0x11 in the guest.
# Leaves captures `host` and `guest-vm1` in $RESULTS, and proves that the host's kernel is as it
# was before.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

need_kvmft
tracefs_state >/tmp/state.before
guest_start vm1
guest_wait_up vm1
flag_wait guest-ready

# Ends by SIGTERM, as a user's Ctrl-C would end it.
"$KVMFT" record -o /tmp/host 2>/tmp/record.err &
recorder=$!
wait_until 20 grep -q '^vcpu ' /tmp/host/meta || die "the host's recording did not start: $(cat /tmp/record.err)"
flag_set host-recording
flag_wait guest-recorded 120
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
check "host: capture is marked complete" grep -q '^end reason=signal' /tmp/host/meta
tracefs_state >/tmp/state.after
check "host: tracefs is as it was" diff /tmp/state.before /tmp/state.after
carry /tmp/host host
fact guest_pid "$(guest_pid vm1)"
fact guest_uuid "$(guest_uuid vm1)"
fact tsc_offset "$(guest_tsc_offset vm1 0)"
flag_set host-done
check "guest: all well" guest_wait_done vm1
finish
