# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Makes a guest late in ten ways, each of them many times, while both sides are recorded. What was done, and when,
# goes to the file `truth`, which only the test reads.

. "$VM_LIB/host.sh"

MS=50
TIMES=12
tools=$(dirname "$KVMFT")/tests/tools
truth=/tmp/truth
need_kvmft
# Nothing but the vCPU and what is planted there runs on CPU 1.
taskset -p 1 $$ >/dev/null
[ -x "$tools/plant" ] || die "no $tools/plant: make tests"
modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=$((MS * 1000000)) submit_queues=1 ||
	die "this kernel has no null_blk"
echo 0 >/sys/block/nullb0/queue/read_ahead_kb
mkdir -p /tmp/cgroup
mount -t cgroup2 none /tmp/cgroup
echo +cpu >/tmp/cgroup/cgroup.subtree_control
mkdir /tmp/cgroup/slow

note "the host runs, its guest boots"
# With asynchronous page faults the guest would go on with another task.
RIG_GUEST_CPU="$RIG_GUEST_CPU,-kvm-asyncpf,-kvm-asyncpf-int"
guest_start vm1 --env "MS=$MS" --env "TIMES=$TIMES" --qemu-args "-drive if=virtio,file=/dev/nullb0,format=raw,cache=none \
-object memory-backend-file,id=slow,size=64M,mem-path=/dev/nullb0,share=on -device ivshmem-plain,memdev=slow"
guest_wait_up vm1
vmm=$(guest_pid vm1)
# vCPU 0 is alone on CPU 1.
taskset -a -p 1 "$vmm" >/dev/null
taskset -p 2 "$(guest_tid vm1 0)" >/dev/null

"$KVMFT" record -o /tmp/host -b 16M -e default -e sched:sched_switch -e sched:sched_wakeup \
	-e sched:sched_wakeup_new -e block:block_rq_issue -e block:block_rq_complete 2>/tmp/host.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "recording did not start: $(cat /tmp/host.err)"
flag_wait victim 120
sleep 1

now() { cut -d ' ' -f 1 /proc/uptime; }
# phase NAME CAUSE THAN_MS OPTION...: what begins now is of that cause, and so long at least; more options of blame.
phase()
{
	sleep 0.3
	phase="$*"
	begin=$(now)
	note "$1"
}
phase_end()
{
	# shellcheck disable=SC2086 # words of the line
	set -- $phase
	name=$1 cause=$2 than=$3
	shift 3
	echo "$name $cause $begin $(now) $than $*" >>"$truth"
	sleep 0.3
}

phase thief host-task 25 --vcpu 0 --what stall
"$tools/rob" busy thief 1 $MS $TIMES >/dev/null || fail "rob busy"
phase_end
phase stop stopped 25 --vcpu 0 --what stall
"$tools/rob" stop "$vmm" $MS $TIMES >/dev/null || fail "rob stop"
phase_end
echo "20000 100000" >/tmp/cgroup/slow/cpu.max
phase throttled throttled 25 --vcpu 0 --what stall
echo "$vmm" >/tmp/cgroup/slow/cgroup.procs
sleep 1.5
echo "$vmm" >/tmp/cgroup/cgroup.procs
phase_end
phase sched guest-sched 25 --vcpu 0 --what ready
flag_set sched
flag_wait sched-done 120
phase_end
taskset -p 2 "$(guest_tid vm1 1)" >/dev/null
flag_set sibling
sleep 0.5
phase sibling sibling 3 --what stall
sleep 2
phase_end
taskset -p 1 "$(guest_tid vm1 1)" >/dev/null
flag_set sibling-done
flag_wait quiet 60

phase irqsoff guest-irqs-off 25 --vcpu 0 --what irq,timer
flag_set irqsoff
flag_wait irqsoff-done 120
phase_end
guest_monitor vm1 block_set_io_throttle virtio0 0 0 0 0 0 8 >/dev/null
phase write vmm 25 --what io
flag_set write
flag_wait write-done 120
phase_end
phase disk disk 25 --what io
flag_set disk
flag_wait disk-done 120
phase_end
phase touch page-fault 25 --vcpu 0 --what stall
flag_set touch
flag_wait touch-done 120
phase_end
flag_set port
flag_wait port-runs
phase port vmm 100 --vcpu 0 --what stall
for _ in $(seq $TIMES); do
	guest_monitor vm1 pmemsave 0 268435456 '"/dev/null"' >>/tmp/monitor.log
	sleep 0.1
done
phase_end
flag_set port-done
phase marker guest-sleep 50 --from-marker begin --to-marker end
flag_set marker
flag_wait marker-done 120
phase_end
phase idle none 25
sleep 2
phase_end
flag_set idle-done
flag_wait guest-done 60
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/host.err
tar -cf "$RESULTS/host.tar" -C /tmp host
carry $truth
carry /tmp/monitor.log
fact times $TIMES
flag_set host-done
check "guest: all well" guest_wait_done vm1
finish
