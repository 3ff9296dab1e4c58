# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Runs the commands that host.sh gives by in_guest, one after the other, also across reboots.

. "$VM_LIB/guest.sh"
. "$SCENARIO_DIR/../foreign-functions.sh"

EVENTS="-e sched -e irq -e irq_vectors -e timer -e block"
# Enabling an event patches the kernel, which may break an emulated machine that is busy.
FEW_EVENTS="-e sched:sched_switch -e sched:sched_waking -e irq:irq_handler_entry -e irq_vectors:local_timer_entry
	-e irq_vectors:local_timer_exit -e irq_vectors:reschedule_entry -e timer:hrtimer_expire_entry -e block:block_rq_issue
	-e block:block_rq_complete"

SMALL_EVENTS="-e sched:sched_switch -e irq_vectors:local_timer_entry -e irq_vectors:reschedule_entry"

# work ROUNDS: disk, MSR, forks on each CPU, timers; then nothing for a second, then a busy loop.
work()
{
	i=0
	while [ $i -lt "$1" ]; do
		dd if="$GUEST_DISK" of=/dev/null bs=4k count=4 skip=$((i * 4)) iflag=direct 2>/dev/null
		dd if=/dev/zero of="$GUEST_DISK" bs=4k count=2 seek=$((i * 4)) oflag=direct 2>/dev/null
		rdmsr -p $((i % 2)) 0x11 >/dev/null
		taskset -c $((i % 2)) true
		sleep 0.03
		i=$((i + 1))
	done
	sleep 1
	while [ $i -lt $(($1 + 4000)) ]; do
		i=$((i + 1))
	done
}

# little_work: of each kind once.
little_work()
{
	dd if="$GUEST_DISK" of=/dev/null bs=4k count=2 iflag=direct 2>/dev/null
	rdmsr -p 0 0x11 >/dev/null
	rdmsr -p 1 0x11 >/dev/null
	sleep 0.05
}

# recorded_work NAME ROUNDS FILE [OPTION...]
recorded_work()
{
	rw_name=$1
	rw_rounds=$2
	rw_file=$3
	shift 3
	# shellcheck disable=SC2086 # a list
	record_begin "$rw_name" ${events:-$EVENTS} "$@"
	sleep 0.5
	work "$rw_rounds"
	record_end "$rw_name" "$rw_file"
}

# write_tsc VCPU CYCLES: moves its TSC ahead by about so many.
write_tsc()
{
	wrmsr -p "$1" 0x10 $(($(printf '%d' "0x$(rdmsr -p "$1" 0x10)") + $2))
}

# spin_until FLAG: on all CPUs.
spin_until()
{
	while :; do :; done &
	spinner=$!
	i=0
	until [ $((i % 20000)) -eq 0 ] && flag_test "$1"; do
		i=$((i + 1))
	done
	kill $spinner
}

agent_needed()
{
	[ -z "${agent:-}" ] || return 0
	modprobe vmw_vsock_virtio_transport
	stdbuf -oL "$TRACE_CMD" agent --notimeout >/tmp/agent.log 2>&1 </dev/null &
	agent=$!
	wait_until 60 grep -q listening /tmp/agent.log || die "no agent: $(cat /tmp/agent.log)"
}

# An ordinary host name, not the VM's.
hostname debian
number=1
while flag_test "$RIG_NAME-did-$number"; do
	number=$((number + 1))
done
flag_set "$RIG_NAME-ready"
while :; do
	flag_wait "$RIG_NAME-do-$number" 900
	command=$(flag_get "$RIG_NAME-do-$number")
	[ "$command" != end ] || break
	note "$(uptime_cs) cs: $command"
	eval "$command"
	flag_set "$RIG_NAME-did-$number" "$?"
	number=$((number + 1))
done
[ -z "${agent:-}" ] || kill "$agent"
pass "$RIG_NAME did what it was told"
finish
