# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

T=/sys/kernel/tracing

# The constants by hand: a probe on a function that runs often, in an instance of its own, with the
# kernel's variables as arguments.
by_hand()
{
	mkdir "$T/instances/hand"
	echo "p:hand/hand try_to_wake_up kvm=@kvm_sched_clock_offset:x64 kernel=@__sched_clock_offset:x64" \
		"version=@hv_clock_boot:u32 tsc=@hv_clock_boot+8:u64 system=@hv_clock_boot+16:u64" \
		"mul=@hv_clock_boot+24:u32 shift=@hv_clock_boot+28:s8 flags=@hv_clock_boot+29:u8" \
		>>"$T/kprobe_events"
	echo 1 >"$T/instances/hand/events/hand/hand/enable"
	sleep 0.2
	echo 0 >"$T/instances/hand/events/hand/hand/enable"
	grep -m 1 ' kvm=' "$T/instances/hand/trace" | tr ' ' '\n' | sed -n 's/^\([a-z]*=.*\)/hand_\1/p' >/tmp/hand
	rmdir "$T/instances/hand"
	echo "-:hand/hand" >>"$T/kprobe_events"
}

"$KVMFT" guest-offset >/tmp/offsets 2>/tmp/offsets.err
check "guest: guest-offset exits 0" same "$?" 0
sed 's/^/# /' /tmp/offsets /tmp/offsets.err
by_hand
. /tmp/offsets
. /tmp/hand
# shellcheck disable=SC2154 # the two files set them
{
	check "guest: from a kprobe" same "$source" kprobe
	check "guest: kvm_sched_clock_offset as by hand" same \
		"$(printf 0x%x "$kvm_sched_clock_offset")" "$hand_kvm"
	check "guest: sched_clock_offset as by hand" same \
		"$(printf 0x%x "$sched_clock_offset")" "$hand_kernel"
	check "guest: record as by hand" same \
		"$pvclock_cpu0_version,$pvclock" "$hand_version,$hand_tsc,$hand_system,$hand_mul,$hand_shift,$hand_flags"
	check "guest: a record per CPU" same "$pvclock_count" "$RIG_VCPUS"
	check "guest: offset_local" same "$offset_local" "$kvm_sched_clock_offset"
	check "guest: offset_perf" same "$offset_perf" "$((kvm_sched_clock_offset - sched_clock_offset))"
	check "guest: kvm_sched_clock_offset as in the log" same "$kvm_sched_clock_offset" \
		"$(dmesg | sed -n 's/.*kvm-clock: using sched offset of \([0-9]*\) cycles.*/\1/p')"
	check "guest: sched_clock_offset as in the log" same "$sched_clock_offset" \
		"$(dmesg | sed -n 's/.*Marking stable (.*, \([-0-9]*\))$/\1/p')"
}
check "guest: probes are gone" same "$(cat "$T/kprobe_events")" ""

"$KVMFT" record --as guest -q -o /tmp/guest -e msr:read_msr -- true
check "guest: record exits 0" same "$?" 0
tar -cf "$RESULTS/guest.tar" -C /tmp guest offsets
flag_set guest-captured
flag_wait host-tracing

"$KVMFT" trace -e 'msr:read_msr/msr==0x11/' --clock perf \
	--clock-offset "$("$KVMFT" guest-offset --clock perf)" -N "$ROUNDS" -d 600s >/tmp/trace-guest-kvmclock &
by_perf=$!
"$KVMFT" trace -e 'msr:read_msr/msr==0x11/' --tsc -N "$ROUNDS" -d 600s >/tmp/trace-guest-tsc &
by_tsc=$!
tracing()
{
	[ "$(cat "$T"/instances/kvmft.*/events/msr/read_msr/enable 2>/dev/null | grep -c 1)" = 2 ]
}
wait_until 300 tracing || die "guest: kvmft trace did not start"
i=0
while [ $i -lt "$ROUNDS" ]; do
	rdmsr -p 0 0x11 >/dev/null
	i=$((i + 1))
done
wait "$by_perf"
check "guest: trace --clock perf exits 0" same "$?" 0
wait "$by_tsc"
check "guest: trace --tsc exits 0" same "$?" 0
tar -cf "$RESULTS/guest-traces.tar" -C /tmp trace-guest-kvmclock trace-guest-tsc
flag_set guest-traced
flag_wait host-done
finish
