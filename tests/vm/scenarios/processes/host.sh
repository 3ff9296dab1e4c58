# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Which processes a guest ran, seen from the host (record --guest-processes) while the guest records itself. Leaves
# host.tar, guest-vm1.tar and guest-vm1.usage, what the guest's kernel counted for each process, in $RESULTS.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

need_kvmft
guest_start vm1
guest_wait_up vm1
flag_wait guest-ready

probes()
{
	wc -l </sys/kernel/tracing/kprobe_events | tr -d ' '
}

recording()
{
	[ -r "$1/meta" ] && grep -q '^begin ' "$1/meta"
}

tracefs_state >/tmp/state.before
"$KVMFT" record --guest-processes -b 32M -o /tmp/host 2>/tmp/record.err &
recorder=$!
wait_until 30 recording /tmp/host || die "the host's recording did not start: $(cat /tmp/record.err)"
check "host: one probe" same "$(probes)" 1
flag_set host-recording
flag_wait guest-recorded 200
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
tracefs_state >/tmp/state.after
check "host: tracefs is as it was" diff /tmp/state.before /tmp/state.after
tar -cf "$RESULTS/host.tar" -C /tmp host

# Killed with its helper, it leaves the probe to `kvmft reset`.
"$KVMFT" record --guest-processes -o /tmp/killed 2>/tmp/killed.err &
recorder=$!
wait_until 30 recording /tmp/killed || die "no second recording: $(cat /tmp/killed.err)"
watch=$(pgrep -P "$recorder" kvmft-watch)
kill -KILL "$watch" "$recorder"
wait "$recorder" 2>/dev/null
check "host: killed, it leaves its probe" same "$(probes)" 1
"$KVMFT" reset >/tmp/reset.out 2>&1
check "host: kvmft reset exits 0" same "$?" 0
tracefs_state >/tmp/state.after
check "host: ... and removes it" diff /tmp/state.before /tmp/state.after
flag_set host-done
check "guest: all well" guest_wait_done vm1
finish
