# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A guest's constants by kvmft guest-offset, by hand and by the host; rdmsr seen live on both sides.
# Leaves host.tar (recorded from before the guest's boot), guest.tar, and the output of kvmft trace
# as trace-host-* and trace-guest-*.

. "$VM_LIB/host.sh"

need_kvmft
ROUNDS=4

# From before the guest exists, whose first pvclock record is written while it boots, until the end:
# enabling a tracepoint patches the kernel, which may break an emulated one while a guest runs.
"$KVMFT" record --as host -o /tmp/host -e kvm:kvm_pvclock_update -e 'kvm:kvm_msr/ecx==0x11/' 2>/tmp/record.err &
recorder=$!
recording()
{
	[ -r /tmp/host/meta ] && grep -q '^begin ' /tmp/host/meta
}
wait_until 60 recording || die "the host's recording did not start: $(cat /tmp/record.err)"
guest_start vm1 --env "ROUNDS=$ROUNDS"
guest_wait_up vm1
flag_wait guest-captured
tar -xf "$RESULTS/guest.tar" -C /tmp

# trace_start NAME ARGUMENT...: kvmft trace of the guest's rdmsr; its PID in $tracer.
trace_start()
{
	name=$1
	shift
	"$KVMFT" trace -e 'kvm:kvm_msr/ecx==0x11/' -N "$ROUNDS" -d 600s "$@" \
		>"/tmp/trace-host-$name" 2>"/tmp/trace-host-$name.err" &
	tracer=$!
}

tracing()
{
	[ "$(cat /sys/kernel/tracing/instances/kvmft.*/events/kvm/kvm_msr/enable 2>/dev/null | grep -c 1)" = 3 ]
}

trace_start kvmclock --kvmclock vm1 --pvclock /tmp/guest
by_kvmclock=$tracer
# As the manual does it without --kvmclock: cycles, plus the offset that debugfs shows.
trace_start tsc --vm vm1 --tsc --clock-offset "$(guest_tsc_offset vm1 0)"
by_tsc=$tracer
wait_until 120 tracing || die "host: kvmft trace did not start: $(cat /tmp/trace-host-*.err)"
flag_set host-tracing
flag_wait guest-traced
wait "$by_kvmclock"
check "host: trace --kvmclock exits 0" same "$?" 0
wait "$by_tsc"
check "host: trace --tsc exits 0" same "$?" 0
check "host: nothing on their stderr" same "$(cat /tmp/trace-host-*.err)" ""
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
tar -cf "$RESULTS/host.tar" -C /tmp host
check "host: no instance is left" same "$(ls /sys/kernel/tracing/instances)" ""
for name in kvmclock tsc; do
	carry "/tmp/trace-host-$name"
done
flag_set host-done
check "guest: all well" guest_wait_done vm1
finish
