# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

recording()
{
	[ -r "/tmp/$1/meta" ] && grep -q '^begin ' "/tmp/$1/meta"
}

# start NAME CLOCK EVENT...: begins a recording, adds its process to $pids, its name to $made.
start()
{
	name=$1
	clock=$2
	shift 2
	"$KVMFT" record -o "/tmp/$name" --clock "$clock" "$@" 2>"/tmp/$name.err" &
	pids="$pids $!"
	made="$made $name"
	wait_until 240 recording "$name" || die "$name: $(cat "/tmp/$name.err")"
}

stop()
{
	# shellcheck disable=SC2086 # a list
	kill -TERM $pids
	for pid in $pids; do
		wait "$pid"
		check "$RIG_NAME: a recorder exits 0" same "$?" 0
	done
	pids=
	sed 's/^/# /' /tmp/*.err
}

# All vCPUs switch tasks, take interrupts, and read an MSR that the host serves.
work()
{
	i=0
	while [ $i -lt 12 ]; do
		rdmsr -p $((i % RIG_CPUS)) 0x11 >/dev/null
		dd if=/dev/vda of=/dev/null bs=4k count=2 skip=$((i * 2)) iflag=direct 2>/dev/null
		sleep 0.05
		i=$((i + 1))
	done
}

# record NAME CLOCK: records events that are close to entries and exits. Each additional event
# delays the recording by a second.
record()
{
	start "$1" "$2" -e sched:sched_switch -e irq_vectors:local_timer_entry -e irq_vectors:local_timer_exit \
		-e irq_vectors:reschedule_entry -e msr:write_msr -e msr:read_msr
}

RIG_CPUS=$(grep -c '^processor' /proc/cpuinfo)
pids=
made=
boot=first
! flag_test "$RIG_NAME-first" || boot=second
note "$RIG_NAME: $boot boot, $RIG_CPUS CPUs, clocksource $(clocksource)"
flag_set "$RIG_NAME-ready"
flag_wait host-recording 500
# The same work through two trace clocks.
record "$RIG_NAME${boot}tsc" x86-tsc
[ "$boot" = second ] || record "$RIG_NAME${boot}local" local
note "$RIG_NAME: records after $(uptime_cs) cs"
work
stop
note "$RIG_NAME: recorded after $(uptime_cs) cs"
if [ "$RIG_NAME $boot" = "vm1 first" ]; then
	flag_set vm1-first
	flag_wait offsets-read 400
	# About a minute ahead, more than the time between reading and writing on a busy machine.
	start vm1jump x86-tsc -e 'msr:*' -e sched:sched_switch
	rdmsr -p 0 0x11 >/dev/null
	wrmsr -p 0 0x10 $(($(printf '%d' "0x$(rdmsr -p 0 0x10)") + 150000000000))
	rdmsr -p 0 0x11 >/dev/null
	rdmsr -p 1 0x11 >/dev/null
	sleep 0.3
	stop
fi
# shellcheck disable=SC2086 # a list
tar -cf "$RESULTS/$RIG_NAME$boot.tar" -C /tmp $made
if [ "$RIG_NAME $boot" = "vm1 first" ]; then
	cp "$RESULTS/guest-vm1.log" "$RESULTS/guest-vm1-first.log"
	flag_set first-failed "$FAILED"
	sync
	echo b >/proc/sysrq-trigger
	sleep 60
	die "did not reboot"
fi
[ "$boot" = first ] || check "vm1: all well before the reboot" same "$(flag_get first-failed)" 0
flag_set "$RIG_NAME-$boot"
flag_wait host-done 600
finish
