# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Records the host while the guest records itself, with block I/O and rdmsr 0x11 in the guest. Leaves the
# captures host.tar and guest-vm1.tar in $RESULTS, and proves that kvmft left nothing changed in the host's
# kernel. WORK_ROUNDS (from --env) says how long the guest works; with STACKS=1 both record stacks.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

need_kvmft
note "the host runs, its guest boots"
"$KVMFT" check >/tmp/check 2>&1
check "host: check finds all that it needs" same "$?" 0
check "host: ... as a host, with module, events, debugfs and TSC clock" same "$(awk '
	/^as a host \(from what this machine is/ { n++ }
	/^(kvm-events|debugfs-kvm|x86-tsc|tracefs|pid-namespace) +ok / { n++ }
	/^kvm-module +ok +kvm: loaded/ { n++ }
	/^kvm-vendor-module +ok .*kvm_(amd|intel): loaded/ { n++ }
	END { print n + 0 }' /tmp/check)" 8
grep -E ' (LACKING|absent|unknown) ' /tmp/check | sed 's/^/# /'
guest_start vm1 --env "WORK_ROUNDS=${WORK_ROUNDS:-6}" --env "STACKS=${STACKS:-}"
tracefs_state >/tmp/state.before
guest_wait_up vm1
note "the guest runs"
flag_wait guest-ready

# Ends by SIGTERM, as a user's Ctrl-C would end it.
"$KVMFT" record ${STACKS:+--stacks 'kvm_exit,sched_switch/prev_comm ~ "CPU*"/'} -o /tmp/host 2>/tmp/record.err &
recorder=$!
recording()
{
	[ -r /tmp/host/meta ] && grep -q '^begin ' /tmp/host/meta
}
wait_until 30 recording || die "the host's recording did not start: $(cat /tmp/record.err)"
flag_set host-recording
note "both record: the guest does block I/O and reads an MSR"
flag_wait guest-recorded 120
note "recorded, collecting"
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
check "host: capture is marked complete" grep -q '^end reason=signal' /tmp/host/meta
tracefs_state >/tmp/state.after
check "host: tracefs is as it was" diff /tmp/state.before /tmp/state.after
tar -cf "$RESULTS/host.tar" -C /tmp host
fact guest_uuid "$(guest_uuid vm1)"
fact tsc_offset "$(guest_tsc_offset vm1 0)"
flag_set host-done
check "guest: all well" guest_wait_done vm1
finish
