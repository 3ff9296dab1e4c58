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
	"$KVMFT" exits -V --latency --engine $engine --format json >/tmp/$engine.json 2>/tmp/$engine.err &
	eval "$engine=\$!"
	wait_until 60 grep -qs counts /tmp/$engine.err || die "exits $engine: $(cat /tmp/$engine.err)"
done
"$KVMFT" exits --latency -I 5 --format openmetrics -o /tmp/metrics.txt 2>/tmp/metrics.err &
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
guest_wait_done vm1
sleep 1
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
carry /tmp/metrics.txt
carry /tmp/top.txt
tar -cf "$RESULTS/host.tar" -C /tmp host
finish
