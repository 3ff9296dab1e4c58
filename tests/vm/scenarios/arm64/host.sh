# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# An arm64 host (--cpu arm64) with a small VM of known exits, then with a guest that records itself.
# Leaves tiny.tar, host.tar and guest-vm1.tar, what the kernel's own text says of the same times
# (ref-tiny.txt, ref-host.txt), perf's file and table of the small VM (perf.data, perf.txt), what kvmft
# printed, and what this machine makes of the captures (read-*.txt).

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

need_kvmft
tools=$(dirname "$KVMFT")
rounds=${ROUNDS:-300}

# ref_start NAME, ref_stop NAME: records the kernel's own text of all KVM events in between.
ref_start()
{
	ref=/sys/kernel/tracing/instances/ref-$1
	mkdir "$ref"
	echo mono_raw >"$ref/trace_clock"
	echo 8192 >"$ref/buffer_size_kb"
	echo 1 >"$ref/events/kvm/enable"
}

ref_stop()
{
	echo 0 >"$ref/tracing_on"
	cat "$ref/trace" >"$RESULTS/ref-$1.txt"
	rmdir "$ref"
}

tiny_running()
{
	[ -n "$(find /sys/kernel/debug/kvm -name "$1-*")" ]
}

# ---- what the machine has ----

fact cpu "$(dmesg | sed -n 's/.*kvm \[1\]: \(.*\) mode initialized successfully/\1/p')"
fact counter_khz "$(dmesg | sed -n 's/.*arch_timer: .* running at \([0-9]*\)\.\([0-9]\)\([0-9]\)MHz.*/\1\2\30/p')"
"$KVMFT" check >/tmp/check 2>&1
check "check finds all that it needs" same "$?" 0
check "... as a host, with KVM, its events, debugfs and a clock" same "$(awk '
	/^as a host \(from what this machine is/ { n++ }
	/^(kvm-device|kvm-events|debugfs-kvm|mono_raw|tsc|tracefs|pid-namespace) +ok / { n++ }
	/^kvm-module +ok +kvm: built in/ { n++ }
	END { print n + 0 }' /tmp/check)" 9
check "... and asks for nothing of an x86" same "$(grep -ciE 'x86|intel|amd|msr' /tmp/check)" 0
grep -E ' (LACKING|absent|unknown) ' /tmp/check | sed 's/^/# /'

# ---- a VM of known exits ----

tracefs_state >/tmp/state.before
ref_start tiny
"$KVMFT" record -o /tmp/tiny -- "$tools/tinyvm64" "$rounds" >/tmp/tiny.out 2>/tmp/record.err
check "record of the small VM exits 0" same "$?" 0
ref_stop tiny
sed 's/^/# /' /tmp/record.err
check "it did its rounds" same "$(cut -d ' ' -f 2 /tmp/tiny.out)" "$rounds"
tracefs_state >/tmp/state.after
check "tracefs is as it was" diff /tmp/state.before /tmp/state.after
tar -cf "$RESULTS/tiny.tar" -C /tmp tiny
perf kvm stat record -o /tmp/perf.data "$tools/tinyvm64" "$rounds" >/dev/null 2>&1
check "perf kvm stat record" test -s /tmp/perf.data
carry /tmp/perf.data
perf kvm -i /tmp/perf.data stat report >"$RESULTS/perf.txt" 2>&1

"$tools/tinyvm64" 100000000 >/dev/null &
tiny=$!
wait_until 10 tiny_running "$tiny"
"$KVMFT" list >"$RESULTS/list-tiny.txt" 2>&1
check "list" same "$?" 0
"$KVMFT" exits 1 >"$RESULTS/exits-kernel.txt" 2>&1
check "exits, counted by the kernel" same "$?" 0
"$KVMFT" exits --engine user --time 1 >"$RESULTS/exits-user.txt" 2>&1
check "exits, by recorded events" same "$?" 0
date +%s >"$RESULTS/date"
"$KVMFT" trace -e kvm:kvm_exit -N 3 >"$RESULTS/trace.txt" 2>&1
check "trace" same "$?" 0
"$KVMFT" trace -e kvm:kvm_exit --clock realtime -N 3 >"$RESULTS/trace-realtime.txt" 2>&1
check "trace --clock realtime" same "$?" 0
kill "$tiny"

# ---- a guest that records itself ----

guest_start vm1 --env "WORK_ROUNDS=${WORK_ROUNDS:-6}" --qemu-args "-device virtio-rng-device"
guest_wait_up vm1
flag_wait guest-ready
"$KVMFT" list >"$RESULTS/list-vm1.txt" 2>&1
check "list: the guest's vCPU and its thread" grep -q "^ *0 *$(guest_tid vm1 0) *thread-name" "$RESULTS/list-vm1.txt"
ref_start host
"$KVMFT" record -o /tmp/host -e default -e sched:sched_switch -e sched:sched_wakeup 2>/tmp/record.err &
recorder=$!
recording()
{
	[ -r /tmp/host/meta ] && grep -q '^begin ' /tmp/host/meta
}
wait_until 30 recording || die "the host's recording did not start: $(cat /tmp/record.err)"
flag_set host-recording
note "both record: the guest does block I/O and stores its counter"
flag_wait guest-recorded 120
kill -TERM "$recorder"
wait "$recorder"
check "record of the host exits 0" same "$?" 0
ref_stop host
sed 's/^/# /' /tmp/record.err
tar -cf "$RESULTS/host.tar" -C /tmp host
flag_set host-done
check "guest: all well" guest_wait_done vm1

# ---- read here, to be compared with what another machine makes of them ----

tar -xf "$RESULTS/guest-vm1.tar" -C /tmp
(cd /tmp && "$KVMFT" merge host guest) >"$RESULTS/read-merge.txt" 2>"$RESULTS/read-merge.err"
check "merge, on this machine" same "$?" 0
"$KVMFT" report -i /tmp/host --per vcpu >"$RESULTS/read-report.txt" 2>&1
check "report, on this machine" same "$?" 0
finish
