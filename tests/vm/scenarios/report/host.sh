#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Records a working guest with kvmft and perf kvm stat, with kvmft and trace-cmd, then with perf and kvmft in clocks
# other than the TSC while the guest records itself, and one of two CPUs with trace-cmd. The guest is stopped while recorders start and end, so that all must
# have the same exits. Leaves the recordings in $RESULTS.

. "$VM_LIB/host.sh"

need_kvmft
guest_start vm1 --cmdline iomem=relaxed
guest_wait_up vm1
flag_wait guest-ready

# start NAME COMMAND...: a recorder, whose command says that it records and ends when told; $started is its pid.
start()
{
	name=$1
	shift
	"$@" sh -c "echo >/tmp/$name.ready; while [ ! -e /tmp/stop ]; do sleep 0.1; done" \
		>"/tmp/$name.log" 2>&1 &
	started=$!
	wait_until 60 ready || die "$name does not record: $(tail -n 3 "/tmp/$name.log")"
}
ready()
{
	[ -e "/tmp/$name.ready" ]
}

# work N: lets the guest do its work of that number, and the recorders end.
work()
{
	note "both record"
	guest_monitor vm1 cont >/dev/null
	flag_set "go$1"
	flag_wait "guest-worked$1" 120
	guest_monitor vm1 stop >/dev/null
	sleep 0.3
	: >/tmp/stop
}

# perf's stamps are taken by its own handler of an event, so nothing else may delay it: both record the same
# few events.
guest_monitor vm1 stop >/dev/null
start perf perf kvm stat record -a -o /tmp/perf.data --
perf=$started
start kvmft "$KVMFT" record -o /tmp/beside-perf -b 8M -e kvm:kvm_entry -e kvm:kvm_exit -e kvm:kvm_mmio \
	-e kvm:kvm_pio -e kvm:kvm_msr --
work 1
wait "$started"
check "kvmft record beside perf exits 0" same "$?" 0
sed 's/^/# /' /tmp/kvmft.log
wait "$perf"
check "perf kvm stat record exits 0" same "$?" 0

rm /tmp/stop /tmp/*.ready
start trace-cmd trace-cmd record -q -b 8192 -C x86-tsc -o /tmp/trace.dat -e kvm
tracecmd=$started
start kvmft "$KVMFT" record -o /tmp/beside-trace-cmd -b 8M -e 'kvm:*' -e sched:sched_switch -e sched:sched_wakeup --
work 2
wait "$started"
check "kvmft record beside trace-cmd exits 0" same "$?" 0
sed 's/^/# /' /tmp/kvmft.log
wait "$tracecmd"
check "trace-cmd record exits 0" same "$?" 0

rm /tmp/stop /tmp/*.ready
fact vm1_pid "$(guest_pid vm1)"
fact vm1_offset "$(guest_tsc_offset vm1)"
start pair perf record -q -e 'kvm:*' -a -o /tmp/pair.data --
pids=$started
for clock in local perf mono_raw mono; do
	start "host-$clock" "$KVMFT" record -o "/tmp/host-$clock" -b 8M --clock "$clock" -e kvm:kvm_entry \
		-e kvm:kvm_exit --
	pids="$pids $started"
done
work 3
for pid in $pids; do
	wait "$pid"
	check "a recorder beside the guest's exits 0" same "$?" 0
done
sed 's/^/# /' /tmp/pair.log /tmp/host-*.log

rm /tmp/stop /tmp/*.ready
start masked trace-cmd record -q -b 8192 -C x86-tsc -M 1 -o /tmp/masked.dat -e kvm -e sched:sched_switch \
	-e sched:sched_wakeup
work 4
wait "$started"
check "trace-cmd record -M exits 0" same "$?" 0

note "recorded, collecting"
guest_monitor vm1 cont >/dev/null
flag_set host-done
tar -cf "$RESULTS/report.tar" -C /tmp beside-perf beside-trace-cmd trace.dat masked.dat perf.data pair.data \
	host-local host-perf host-mono_raw host-mono
check "guest: all well" guest_wait_done vm1
finish
