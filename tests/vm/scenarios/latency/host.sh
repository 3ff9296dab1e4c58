# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Delays a guest in known ways and for known times while both sides are recorded: its VMM is stopped, its CPU is
# taken by a thief, its disk is throttled, the VMM's thread has no CPU, the guest has interrupts off.

. "$VM_LIB/host.sh"

MS=50
# So few that the guest's time between two writes, which the throttle counts as well, hardly matters.
WRITES_PER_SEC=8
rob=$(dirname "$KVMFT")/tests/tools/rob
need_kvmft
[ -x "$rob" ] || die "no $rob: make tests"
note "the host runs, its guest boots"
# Its VMM logs the events that it is told to trace, with time stamps.
guest_start vm1 --env "IRQS_OFF_MS=$MS" --qemu-args "-msg timestamp=on -D /tmp/qemu.trace"
guest_wait_up vm1
flag_wait guest-ready

# record_begin NAME [OPTIONS]
record_begin()
{
	name=$1
	shift
	"$KVMFT" record -o "/tmp/$name" "$@" -e default -e sched:sched_switch -e sched:sched_wakeup \
		2>"/tmp/$name.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/$name/meta" ||
		die "recording $name did not start: $(cat "/tmp/$name.err")"
}
record_end()
{
	kill -TERM "$recorder"
	wait "$recorder"
	check "host: $1: record exits 0" same "$?" 0
	sed 's/^/# /' "/tmp/$1.err"
	tar -cf "$RESULTS/$1.tar" -C /tmp "$1"
}
# take FACT ARGUMENTS: takes CPU time, and notes how much.
take()
{
	name=$1
	shift
	took=$("$rob" "$@") || die "rob $* failed"
	note "rob $*: $took"
	fact "${name}_sum_us" "$(expr "$took" : 'sum_us=\([0-9]*\)')"
	fact "${name}_longest_us" "$(expr "$took" : '.*longest_us=\([0-9]*\)')"
}

# vCPU 0, where the victim runs, is alone on CPU 1.
vmm=$(guest_pid vm1)
taskset -a -p 1 "$vmm" >/dev/null
taskset -p 2 "$(guest_tid vm1 0)" >/dev/null
flag_set pinned
flag_wait victim-runs
# Of all threads: who ran instead is known.
record_begin host1
sleep 1
note "the VMM is stopped"
take stop stop "$vmm" $MS 5
sleep 1
note "a thief takes the victim's CPU"
take thief busy thief 1 $MS 16
record_end host1
flag_set robbed
flag_wait guest1-done 120

# Both vCPUs on CPU 1; the VMM's own thread, and those that it makes, on CPU 0.
for vcpu in 0 1; do
	taskset -p 2 "$(guest_tid vm1 $vcpu)" >/dev/null
done
guest_monitor vm1 trace-event 'virtio_blk_*' on >/dev/null
guest_monitor vm1 block_set_io_throttle virtio0 0 0 0 0 0 $WRITES_PER_SEC >/dev/null
flag_set slow-disk
flag_wait guest2-records
record_begin host2 --vm vm1
flag_set host2-records
note "the guest writes to a disk of $WRITES_PER_SEC writes a second"
flag_wait reads 120
note "the guest reads, and the VMM's thread has no CPU"
take vmm busy bully 0 $MS 10
note "the guest has interrupts off"
flag_set slow-done
flag_wait guest2-done 120
record_end host2
fact ms "$MS"
fact write_us $((1000000 / WRITES_PER_SEC))
flag_set host-done
check "guest: all well" guest_wait_done vm1
carry /tmp/qemu.trace
finish
