# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Robs a guest's vCPUs in known ways while a program of known name runs on one, and both sides are recorded.
# First the VMM is stopped for STOP_MS; then a thief of known name takes both CPUs for a while.

. "$VM_LIB/host.sh"

STOP_MS=500
need_kvmft
note "the host runs, its guest boots"
guest_start vm1
guest_wait_up vm1
flag_wait guest-ready
cat >/tmp/thief <<'END'
#!/bin/sh
while :; do :; done
END
chmod +x /tmp/thief
"$KVMFT" record -o /tmp/host --vm vm1 -e default -e sched:sched_switch -e sched:sched_wakeup 2>/tmp/record.err &
recorder=$!
recording()
{
	[ -r /tmp/host/meta ] && grep -q '^vcpu ' /tmp/host/meta
}
wait_until 30 recording || die "the host's recording did not start: $(cat /tmp/record.err)"
flag_set host-recording
flag_wait victim-runs
sleep 1
note "the VMM is stopped for $STOP_MS ms"
kill -STOP "$(guest_pid vm1)"
usleep $((STOP_MS * 1000))
kill -CONT "$(guest_pid vm1)"
sleep 1
note "a thief takes the CPUs"
for cpu in 0 1; do
	nice -n -20 taskset -c $cpu timeout 1 /tmp/thief &
done
sleep 2
flag_set enough
flag_wait guest-recorded 120
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
fact stop_ms "$STOP_MS"
tar -cf "$RESULTS/host.tar" -C /tmp host
flag_set host-done
check "guest: all well" guest_wait_done vm1
finish
