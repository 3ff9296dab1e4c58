# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Makes a guest late in many ways, each of them many times, while both sides are recorded. What was done, and when,
# goes to the file `truth`, which only the test reads. PLANTS names the ways: the functions plant_* here. With one vCPU
# (--vcpus 1) another VM is `sibling`, and there is no `lock`: whoever waits for one needs a CPU of its own. With one CPU
# of the host (--host-cpus 1) there is no `storm`, whose sender would take the vCPU's time itself, and no `offline`. In
# Bochs a guest dies when it asks such a device of QEMU for its size, so on intel none has memory to touch.

. "$VM_LIB/host.sh"

MS=${MS:-100}
THAN=$((MS / 2))
TIMES=${TIMES:-12}
PLANTS=${PLANTS:-thief stop throttled sched sibling irqsoff write disk touch port marker idle}
# Which interrupts and softirqs the host serves.
HOST_EVENTS=${HOST_EVENTS--e irq:softirq_entry -e irq:softirq_exit -e irq_vectors:*}
tools=$(dirname "$KVMFT")/tests/tools
truth=/tmp/truth
need_kvmft
# Nothing but the vCPU and what is planted there runs on CPU 1, if there is one.
[ "$(nproc)" -gt 1 ] && cpu=1 mask=2 || cpu=0 mask=1
taskset -p 1 $$ >/dev/null
[ -x "$tools/plant" ] || die "no $tools/plant: make tests"
modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=$((MS * 1000000)) submit_queues=1 ||
	die "this kernel has no null_blk"
echo 0 >/sys/block/nullb0/queue/read_ahead_kb
mkdir -p /tmp/cgroup
mount -t cgroup2 none /tmp/cgroup
echo +cpu +io >/tmp/cgroup/cgroup.subtree_control
mkdir /tmp/cgroup/slow /tmp/cgroup/slowio
truncate -s 64M /dev/shm/taken

note "the host runs, its guest boots"
# With asynchronous page faults the guest would go on with another task. It is made late: a lockup is no damage.
RIG_GUEST_CPU="$RIG_GUEST_CPU,-kvm-asyncpf,-kvm-asyncpf-int"
memory="-object memory-backend-file,id=slow,size=64M,mem-path=/dev/nullb0,share=on -device ivshmem-plain,memdev=slow \
-object memory-backend-file,id=taken,size=64M,mem-path=/dev/shm/taken,share=on -device ivshmem-plain,memdev=taken"
[ "$RIG_CPU" != intel ] || memory=
guest_start vm1 --cmdline nosoftlockup --env "MS=$MS" --env "TIMES=$TIMES" --env "EVENTS=${GUEST_EVENTS:-}" \
	--qemu-args "-drive if=virtio,file=/dev/nullb0,format=raw,cache=none $memory"
guest_wait_up vm1
vmm=$(guest_pid vm1)
vcpu0=$(guest_tid vm1 0)
[ "$RIG_VCPUS" = 1 ] || vcpu1=$(guest_tid vm1 1)
taskset -a -p 1 "$vmm" >/dev/null
taskset -p $mask "$vcpu0" >/dev/null

# shellcheck disable=SC2086 # options
"$KVMFT" record -o /tmp/host -b 16M -e default -e sched:sched_switch -e sched:sched_wakeup \
	-e sched:sched_wakeup_new -e block:block_rq_issue -e block:block_rq_complete $HOST_EVENTS 2>/tmp/host.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "recording did not start: $(cat /tmp/host.err)"
flag_wait guest-records 120

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

# guest_asks COMMAND: tells the guest to do it, in its shell; guest_did: waits until that was done.
asked=0
guest_asks()
{
	asked=$((asked + 1))
	flag_set "ask-$asked" "$1"
}
guest_did() { flag_wait "did-$asked" 180; }
in_guest() { guest_asks "$1"; guest_did; }
victim() { in_guest 'taskset -c 0 /tmp/victim & victim=$!'; }
victim_ends() { in_guest 'kill $victim'; }
# guest_runs WORDS: plant does that on vCPU 0, until guest_stops.
guest_runs() { in_guest "taskset -c 0 \"\$tools/plant\" $1 & runs=\$!"; }
guest_stops() { in_guest 'kill $runs'; }
# `spins` has when a tool did it: phase, begin in seconds, ms, and `guest` if that is the guest's clock.
planted() { sed -n "s/^at \(.*\)/${phase%% *} \1 $((${SPIN_MS:-$MS})) ${2:-}/p" "$1" >>/tmp/spins; }
# spin TRACEPOINT TID [CPU]: whoever that is spins there, MS long. rob WORDS: as that says, on the host.
spin() { tool spin ${SPIN_MS:-$MS} $TIMES "$@"; }
rob() { tool rob "$@" $MS $TIMES; }
# two_cpus PLANT: has the host a CPU beside the vCPU's? has_memory PLANT: has the guest memory that is mapped late?
two_cpus() { [ $cpu != 0 ] || { skip "$1" "the host has one CPU" && return 1; }; }
has_memory() { [ -n "$memory" ] || { skip "$1" "not in Bochs" && return 1; }; }
tool()
{
	tool=$1
	shift
	"$tools/$tool" "$@" >/tmp/tool.out 2>&1 || fail "$tool $*: $(tail -n 3 /tmp/tool.out)"
	planted /tmp/tool.out
}
# guest_tool COMMAND: one of them in the guest.
guest_tool()
{
	in_guest "$1 >\"\$RESULTS/tool.out\" 2>&1"
	planted "$RESULTS/tool.out" guest
}

# ---- vCPU 0 is busy, and the host is in its way ----

plant_thief()
{
	victim
	phase thief host-task $THAN --vcpu 0 --what stall
	rob busy thief $cpu
	phase_end
	victim_ends
}
plant_stop()
{
	victim
	phase stop stopped $THAN --vcpu 0 --what stall
	rob stop "$vmm"
	phase_end
	victim_ends
}
throttled_enough() { [ "$(sed -n 's/^nr_throttled //p' /tmp/cgroup/slow/cpu.stat)" -ge $((TIMES * 5 / 4)) ]; }
plant_throttled()
{
	victim
	echo "20000 100000" >/tmp/cgroup/slow/cpu.max
	phase throttled throttled $THAN --vcpu 0 --what stall
	echo "$vmm" >/tmp/cgroup/slow/cgroup.procs
	wait_until 30 throttled_enough
	echo "$vmm" >/tmp/cgroup/cgroup.procs
	phase_end
	victim_ends
}
# Both have long turns, longer than what an emulated CPU loses on a busy machine.
plant_sibling()
{
	victim
	slice=$(ls /sys/kernel/debug/sched/min_granularity_ns /sys/kernel/debug/sched/base_slice_ns 2>/dev/null)
	short=$(cat "$slice")
	echo 24000000 >"$slice"
	if [ "$RIG_VCPUS" = 1 ]; then
		# All of that VM is on one CPU, and busy: it boots, and does not halt.
		GUEST_WRAP="taskset $mask"
		guest_start vm2 --mem 256 --cmdline idle=poll
		wait_until 30 guest_tid vm2 0 >/dev/null || die "vm2 has no vCPU"
		sleep 1
		phase sibling host-task 12 --vm vm1 --what stall
	else
		taskset -p 2 "$vcpu1" >/dev/null
		in_guest 'taskset -c 1 /tmp/other & other=$!'
		phase sibling sibling 12 --what stall
	fi
	sleep $((TIMES / 4))
	phase_end
	echo "$short" >"$slice"
	if [ "$RIG_VCPUS" = 1 ]; then
		guest_kill vm2
	else
		taskset -p 1 "$vcpu1" >/dev/null
		in_guest 'kill $other'
	fi
	victim_ends
}
plant_hardirq()
{
	victim
	phase hardirq host-irq $THAN --vcpu 0
	spin local_timer_entry "$vcpu0"
	phase_end
	victim_ends
}
plant_softirq()
{
	victim
	phase softirq host-irq $THAN --vcpu 0
	spin softirq_entry "$vcpu0"
	phase_end
	victim_ends
}
# Many short interrupts and softirqs: a program takes many times as long. A flood must outlast what is left of the work
# that it meets, and the next one: in a shorter one both may be less late than is asked for.
plant_storm()
{
	two_cpus storm || return
	echo 2 >/sys/class/net/lo/queues/rx-0/rps_cpus
	echo 50 >/proc/sys/net/core/netdev_max_backlog
	renice -n -20 -p "$(pgrep -x ksoftirqd/1)" >/dev/null
	guest_runs "work $((MS / 2)) 10000 \"\$marker\""
	sleep 2
	phase storm host-irq $((MS * 2)) --from-event 'print/buf~"*begin*"/' --to-event 'print/buf~"*end*"/'
	SPIN_MS=$((MS * 8))
	tool plant flood $SPIN_MS $TIMES
	SPIN_MS=
	phase_end
	guest_stops
}
# A CPU of the host goes: its stopper thread, before which nothing runs, takes long to move what was there.
plant_offline()
{
	two_cpus offline || return
	victim
	phase offline migrated $THAN --vcpu 0 --what stall
	spin sched_migrate_task "$(pgrep -x migration/1)" &
	spins=$!
	while kill -0 $spins 2>/dev/null; do
		echo 0 >/sys/devices/system/cpu/cpu1/online
		sleep 0.2
		echo 1 >/sys/devices/system/cpu/cpu1/online
		taskset -p 2 "$vcpu0" >/dev/null
		sleep 0.3
	done
	phase_end
	victim_ends
}

# ---- vCPU 0 needs something of the host ----

plant_cpuid()
{
	guest_runs 'cpuid 600000'
	phase cpuid exit-kernel $THAN --vcpu 0 --what stall
	spin kvm_cpuid "$vcpu0"
	phase_end
	guest_stops
}
plant_user()
{
	guest_runs 'port 600000'
	phase user exit-user $THAN --vcpu 0 --what stall
	spin kvm_userspace_exit "$vcpu0"
	phase_end
	guest_stops
}
plant_port()
{
	guest_runs 'port 600000'
	phase port vmm $MS --vcpu 0 --what stall
	# As much memory as is saved in two times MS or more, but not in twenty. The monitor's own time is long where
	# processes are slow: the file's folder knows when it was made, and the file when it was last written.
	mkdir /tmp/saved
	: >/tmp/saved.now
	read -r up _ </proc/uptime
	bytes=$((MS * 268435)) times=0
	while [ $times -lt $TIMES ]; do
		rm -f /tmp/saved/it
		guest_monitor vm1 pmemsave 0 $bytes '"/tmp/saved/it"' >>/tmp/monitor.log
		took=$(/usr/bin/stat -c %.9Y /tmp/saved.now /tmp/saved /tmp/saved/it | awk -v up="$up" '{ t[NR] = $1 }
			END { printf "%.3f %d", t[2] - t[1] + up, (t[3] - t[2]) * 1000 }')
		if [ "${took#* }" -lt $((MS * 2)) ] && [ $bytes -lt 500000000 ]; then
			bytes=$((bytes * 2))
			continue
		fi
		echo "port $took" >>/tmp/spins
		times=$((times + 1))
		[ "${took#* }" -lt $((MS * 20)) ] || bytes=$((bytes / 2))
	done
	rm -r /tmp/saved
	phase_end
	guest_stops
}
# Both vCPUs read what a lock of their kernel guards, vCPU 1 nearly always; with it, it leaves the guest for long.
plant_lock()
{
	if [ "$RIG_VCPUS" = 1 ]; then
		skip "lock" "a lock of a guest's kernel is waited for on another vCPU"
		return
	fi
	in_guest 'taskset -c 1 "$tools/plant" read /sys/bus/pci/devices/0000:00:00.0/config 600000 0 & reads=$!
		taskset -c 0 "$tools/plant" read /sys/bus/pci/devices/0000:00:00.0/config 600000 5 & more=$!'
	# A lock's waiter spins for 100 ms here before it halts: PAUSE is slow in this emulator.
	phase lock lock-holder 120 --vcpu 0 --what timer,irq
	SPIN_MS=240
	spin kvm_pio "$vcpu1"
	SPIN_MS=
	phase_end
	in_guest 'kill $reads $more'
}
plant_touch()
{
	has_memory touch || return
	phase touch page-fault $THAN --from-event 'print/buf~"*begin*"/' --to-event 'print/buf~"*end*"/'
	in_guest 'taskset -c 0 "$tools/plant" touch "$shared" "$TIMES" "$MS" 0 "$marker"'
	phase_end
}
# Memory that was there, and is taken away: once as madvise and balloons do, once to a slow swap.
plant_hole()
{
	has_memory hole || return
	phase hole page-fault $THAN --from-event 'print/buf~"*begin*"/' --to-event 'print/buf~"*end*"/'
	for _ in 1 2 3; do
		fallocate -p -o 0 -l 64M /dev/shm/taken
		in_guest 'taskset -c 0 "$tools/plant" touch "$taken" 4 "$MS" "$MS" "$marker"'
	done
	phase_end
}
plant_swap()
{
	has_memory swap || return
	nullb=/sys/kernel/config/nullb/slowswap
	swap=/dev/slowswap
	mount -t configfs none /sys/kernel/config
	mkdir -p $nullb && echo 128 >$nullb/size && echo 1 >$nullb/memory_backed && echo 0 >$nullb/queue_mode &&
		echo 0 >$nullb/irqmode && echo 1 >$nullb/power && echo 0 >/proc/sys/vm/page-cluster ||
		die "no memory-backed null_blk"
	# It writes at once, so that pages are gone when pageout ends.
	# Before Linux 5.18 it has a number for its name.
	wait_until 5 [ -b $swap ] || swap=/dev/nullb$(cat $nullb/index)
	mkswap $swap >/tmp/swap.log 2>&1 && swapon $swap || die "no swap: $(cat /tmp/swap.log)"
	in_guest 'taskset -c 0 "$tools/plant" touch "$taken" "$TIMES" 1 0 "$marker"'
	# Pages that a CPU has just got are in a list of its own, which only that CPU empties.
	taskset $mask "$tools/plant" pageout "$vmm" /dev/shm/taken || fail "plant pageout"
	echo "$(cat "/sys/block/${swap#/dev/}/dev") riops=4" >/tmp/cgroup/slowio/io.max || fail "no limit of reads"
	echo "$vmm" >/tmp/cgroup/slowio/cgroup.procs
	phase swap page-fault $THAN --from-event 'print/buf~"*begin*"/' --to-event 'print/buf~"*end*"/'
	in_guest 'taskset -c 0 "$tools/plant" touch "$taken" "$TIMES" 10 0 "$marker"'
	phase_end
	echo "$vmm" >/tmp/cgroup/cgroup.procs
}
# 250 ms from one to the next, of which the guest itself takes some.
plant_write()
{
	guest_monitor vm1 block_set_io_throttle virtio0 0 0 0 0 0 4 >/dev/null
	phase write vmm $THAN --what io
	in_guest 'dd if=/dev/zero of=/dev/vda bs=4k count="$TIMES" oflag=direct 2>/dev/null'
	phase_end
}
plant_disk()
{
	phase disk disk $THAN --what io
	in_guest 'dd if=/dev/vdb of=/dev/null bs=4k count="$TIMES" iflag=direct'
	phase_end
}

# ---- vCPU 0 sleeps, and is late ----

plant_wake()
{
	guest_runs 'nap 600000 10'
	phase wake halt-wake $THAN --vcpu 0
	spin kvm_vcpu_wakeup "$vcpu0"
	phase_end
	guest_stops
}
plant_latetimer()
{
	guest_runs 'nap 600000 5'
	# Where the timer fired on the other CPU, it woke the vCPU in time, and its CPU left idle late.
	phase latetimer host-timer/halt-wake $THAN --vcpu 0 --what timer,hrtimer
	spin cpu_idle 0 $cpu
	phase_end
	guest_stops
}

# ---- the guest's own ----

plant_sched()
{
	victim
	phase sched guest-sched $THAN --vcpu 0 --what ready
	guest_tool '"$tools/rob" busy hog 0 "$MS" "$TIMES"'
	phase_end
	victim_ends
}
plant_irqsoff()
{
	phase irqsoff guest-irqs-off $THAN --vcpu 0 --what irq,timer
	guest_tool 'taskset -c 0 "$tools/spin" "$MS" "$TIMES"'
	phase_end
}
plant_gsoftirq()
{
	victim
	guest_runs 'nap 600000 5'
	phase gsoftirq guest-handler $THAN --vcpu 0 --what wakeup
	guest_tool '"$tools/spin" "$MS" "$TIMES" softirq_entry $victim'
	phase_end
	guest_stops
	victim_ends
}
# A program tells its own deadline.
plant_marker()
{
	phase marker guest-sleep 50 --from-event 'print/buf~"*begin*"/' --to-event 'print/buf~"*end*"/'
	in_guest 'for i in $(seq "$TIMES"); do
		taskset -c 0 "$tools/plant" mark "$marker" "begin of $i"
		sleep 0.1
		taskset -c 0 "$tools/plant" mark "$marker" "end of $i"
	done'
	phase_end
}
plant_idle()
{
	phase idle none $THAN
	sleep 2
	phase_end
}

# ---- a kernel with tracers of latency (Debian's have none: --guest-kernel) measures it itself ----

# Its thread never sleeps on vCPU 0.
plant_noise()
{
	in_guest 'echo 0 >/sys/kernel/tracing/osnoise/cpus && mkdir /sys/kernel/tracing/instances/noise &&
		echo osnoise >/sys/kernel/tracing/instances/noise/current_tracer'
	phase noise host-task $THAN --vcpu 0 --what noise
	rob busy thief $cpu
	phase_end
	in_guest 'echo nop >/sys/kernel/tracing/instances/noise/current_tracer &&
		rmdir /sys/kernel/tracing/instances/noise'
}
# Recorded by trace-cmd: before Linux 6.15 its samples are no events.
plant_timerlat()
{
	guest_asks 'echo 0 >/sys/kernel/tracing/osnoise/cpus &&
		trace-cmd record -o "$RESULTS/timerlat.dat" -C x86-tsc -b 16384 -p timerlat \
			-e sched:sched_switch -e sched:sched_wakeup -e irq -e irq_vectors -e timer -- \
			sh -c "touch $RESULTS/timerlat-runs; while [ ! -e $RESULTS/timerlat-ends ]; do sleep 0.2; done"'
	wait_until 60 [ -e "$RESULTS/timerlat-runs" ] || die "trace-cmd does not record"
	phase timerlat host-task $THAN --vcpu 0 --what timerlat
	rob busy thief $cpu
	phase_end
	touch "$RESULTS/timerlat-ends"
	guest_did
}

sleep 1
in_guest '"$tools/plant" clock "$marker"'
for plant in $PLANTS; do
	"plant_$plant"
done
guest_asks end
flag_wait guest-done 60
kill -TERM "$recorder"
wait "$recorder"
check "host: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/host.err
tar -cf "$RESULTS/host.tar" -C /tmp host
carry $truth
: >>/tmp/spins
carry /tmp/spins
fact times $TIMES
flag_set host-done
check "guest: all well" guest_wait_done vm1
finish
