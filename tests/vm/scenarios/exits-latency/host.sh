# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A guest from its boot to its end: exits --latency with both engines, and a recording, of all of it.

. "$VM_LIB/host.sh"

need_kvmft
"$KVMFT" record -o /tmp/host -b 32M -e kvm:kvm_entry -e kvm:kvm_exit -e kvm:kvm_vcpu_wakeup -e sched:sched_waking \
	2>/tmp/host.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "recording did not start: $(cat /tmp/host.err)"
for engine in kernel user; do
	"$KVMFT" exits --latency --engine $engine --format json >/tmp/$engine.json 2>/tmp/$engine.err &
	eval "$engine=\$!"
	wait_until 60 grep -qs counts /tmp/$engine.err || die "exits $engine: $(cat /tmp/$engine.err)"
done
# Beside the kernel's counters the events are recorded, with the same stamps; beside kvmft's counters the kernel
# makes sums.
instance()
{
	echo "/sys/kernel/tracing/instances/$(sed -n 's/.* in \(kvmft[^, ]*\),.*/\1/p' "$1")"
}

beside=$(instance /tmp/kernel.err)
echo 16384 >"$beside/buffer_size_kb"
mkdir /tmp/stamps
for event in kvm/kvm_exit kvm/kvm_entry kvm/kvm_vcpu_wakeup sched/sched_waking; do
	cp "$beside/events/$event/format" "/tmp/stamps/${event#*/}.format"
	echo 1 >"$beside/events/$event/enable"
done
read_by_us=$(instance /tmp/user.err)
clock=clock=$(sed 's/.*\[\(.*\)\].*/\1/' "$read_by_us/trace_clock")
echo 'told int pid; unsigned int reason; u64 lat' >>/sys/kernel/tracing/synthetic_events
sums="hist:keys=reason:vals=hitcount,lat"
exits="hist:keys=common_pid:ts0=common_timestamp,r0=exit_reason:$clock"
entries="hist:keys=common_pid:lat=common_timestamp-\$ts0,r=\$r0:$clock:onmatch(kvm.kvm_exit).trace(told,common_pid,\$r,\$lat)"
check "host: triggers of our own beside" sh -c 'echo "$2" >"$1/synthetic/told/trigger" && echo "$3" >"$1/kvm/kvm_exit/trigger" &&
	echo "$4" >"$1/kvm/kvm_entry/trigger"' sh "$read_by_us/events" "$sums" "$exits" "$entries"
"$KVMFT" exits --latency --engine kernel -I 5 --format openmetrics -o /tmp/metrics.txt 2>/tmp/metrics.err &
metrics=$!
check "host: a synthetic event for exits and one for wake-ups, of each" same \
	"$(wait_until 30 test -s /sys/kernel/tracing/synthetic_events
	sleep 1
	grep -c kvmft_ /sys/kernel/tracing/synthetic_events)" 4
guest_start vm1
guest_wait_up vm1
"$KVMFT" exits --latency --top 2 >/tmp/top.txt 2>&1
check "host: the table" same "$?" 0
sed 's/^/# /' /tmp/top.txt
# While the VM runs: nothing is kept of a VM that has ended.
check "host: metrics" wait_until 60 grep -qs kvm_halt_seconds_bucket /tmp/metrics.txt
carry /tmp/metrics.txt
guest_wait_done vm1
sleep 1
cat "$read_by_us/events/synthetic/told/hist" >/tmp/told.hist
for event in "kvm/kvm_entry $entries" "kvm/kvm_exit $exits" "synthetic/told $sums"; do
	echo "!${event#* }" >"$read_by_us/events/${event%% *}/trigger"
done
echo '!told int pid; unsigned int reason; u64 lat' >>/sys/kernel/tracing/synthetic_events
for cpu in "$beside"/per_cpu/cpu*; do
	timeout 3 cat "$cpu/trace_pipe_raw" >"/tmp/stamps/raw.${cpu##*/cpu}"
done
# shellcheck disable=SC2154 # by eval
kill -INT "$kernel" "$user" "$metrics" "$recorder"
for one in $kernel $user $metrics $recorder; do
	wait "$one"
	check "host: $one exits 0" same "$?" 0
done
check "host: no synthetic event is left" same "$(grep -c kvmft_ /sys/kernel/tracing/synthetic_events)" 0
cat /tmp/*.err | sed 's/^/# /'
carry /tmp/kernel.json
carry /tmp/user.json
carry /tmp/top.txt
carry /tmp/told.hist
tar -cf "$RESULTS/stamps.tar" -C /tmp stamps
tar -cf "$RESULTS/host.tar" -C /tmp host
finish
