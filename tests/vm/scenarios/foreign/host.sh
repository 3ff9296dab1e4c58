# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Host and guests recorded by other tools than kvmft, each by hand: pairs with nothing known of each other.
# FOREIGN=STEP... chooses what; each leaves a folder of captures with the truth beside them in `facts`.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../foreign-functions.sh"

HOST_EVENTS="-e kvm -e sched -e irq"
# Nothing that tells of TSC offsets, and few enough to see a guest boot.
BARE_EVENTS="-e kvm:kvm_entry -e kvm:kvm_exit -e kvm:kvm_inj_virq -e sched:sched_switch -e sched:sched_wakeup"
# trace-cmd's agent listens on a socket of the VM's.
vm1_devices=
case " ${FOREIGN:-}" in
*" agent"*)
	modprobe vhost_vsock
	vm1_devices="-device vhost-vsock-pci,guest-cid=3"
	;;
esac
hostname debian

# Without TSC_ADJUST the guest's kernel does not notice, and undo, that its TSC was written. It may reset.
vm1_start()
{
	guest_start vm1 --mem 768 --qemu-args "-cpu host,-tsc-adjust -action reboot=reset $vm1_devices" \
		--env "TRACE_CMD=$TRACE_CMD"
}

vm1_needed()
{
	[ -e "$GUEST_RUN/vm1" ] || vm1_start
	guest_needed vm1
}

# pair_of_vm1 NAME [OPTION...]: trace-cmd on the host with those options, and on the guest. It works
# $rounds rounds and is recorded with $guest_options more.
rounds=12
guest_options=
pair_of_vm1()
{
	vm1_needed
	pair_begin "$1"
	shift
	pair_vm vm1
	record_begin "$pair" "$@"
	in_guest vm1 "recorded_work $pair $rounds $pair/guest.dat $guest_options"
	done_in_guest vm1
	record_end "$pair" "$pair/host.dat"
	pair_same_offsets vm1
}

# shellcheck disable=SC2086 # a list
step_plain()
{
	pair_of_vm1 plain $HOST_EVENTS
}

# Nothing but KVM's own events tells of threads.
step_kvmonly()
{
	rounds=6 pair_of_vm1 kvmonly -e kvm
}

# A stack behind each event, and the kernel remembers whose threads they are; no file of trace-cmd's
# has the latter.
step_stacks()
{
	rounds=3 pair_of_vm1 stacks -T -O record-tgid -e kvm:kvm_entry -e kvm:kvm_exit -e sched:sched_switch
}

# shellcheck disable=SC2086 # a list
step_v6()
{
	rounds=3 guest_options="--file-version 6" pair_of_vm1 v6 --file-version 6 $HOST_EVENTS
}

# The guest's perf has no conversion where its clock is kvm-clock, so only the host's file has one.
# shellcheck disable=SC2086 # a list
step_tsc2nsec()
{
	rounds=6 pair_of_vm1 tsc2nsec --tsc2nsec $HOST_EVENTS
}

# perf_begin NAME ARGUMENT...: perf in the background, until it has its events; its PID in $perf.
perf_begin()
{
	perf_log=/tmp/$1.log
	shift
	perf "$@" >"$perf_log" 2>&1 </dev/null &
	perf=$!
	wait_until 180 perf_counts || die "perf $* does not begin: $(cat "$perf_log")"
	sleep 1
}

perf_counts()
{
	ls -l /proc/$perf/fd 2>/dev/null | grep -q perf_event
}

# perf_of NAME ARGUMENT...: while the guest works, into NAME.data.
perf_of()
{
	perf_name=$1
	shift
	perf_begin "$perf_name" "$@" -o "/tmp/$perf_name.data"
	in_guest vm1 "work 4"
	done_in_guest vm1
	kill -INT $perf
	wait $perf
	note "perf $*: exit status $?"
	sed 's/^/# /' "/tmp/$perf_name.log"
	mv "/tmp/$perf_name.data" "$RESULTS/$pair/"
}

# perf by itself in four ways, one after the other, during one recording of host and guest by
# trace-cmd: entries and exits are in both, which ties perf's clocks to the TSC.
step_perf()
{
	vm1_needed
	pair_begin perf
	pair_vm vm1
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin perf $EVENTS'
	done_in_guest vm1
	record_begin perf -e kvm:kvm_entry -e kvm:kvm_exit
	perf_of kvmstat kvm stat record -a
	perf_of kvmstat-pid kvm stat record -p "$(guest_pid vm1)"
	perf_of all record -e 'kvm:*' -a
	perf_of mono record -e 'kvm:*' -a -k mono
	perf_of raw record -e 'kvm:*' -a -k CLOCK_MONOTONIC_RAW
	record_end perf perf/host.dat
	in_guest vm1 "record_end perf perf/guest.dat"
	done_in_guest vm1
	pair_same_offsets vm1
}

# Two VMs, the threads of one of them without names; both are recorded before the host is, one for longer.
step_twovms()
{
	[ -e "$GUEST_RUN/vm1" ] || vm1_start
	guest_needed vm2 --mem 768 --qemu-args "-name debug-threads=off"
	vm1_needed
	pair_begin twovms
	pair_vm vm1
	pair_vm vm2
	# shellcheck disable=SC2016 # for the guest
	in_guest vm2 'record_begin twovms $EVENTS'
	done_in_guest vm2
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin twovms $EVENTS'
	done_in_guest vm1
	# shellcheck disable=SC2086 # a list
	record_begin twovms $HOST_EVENTS
	in_guest vm1 "work 12; record_end twovms twovms/vm1.dat"
	in_guest vm2 "work 12"
	done_in_guest vm2
	done_in_guest vm1
	record_end twovms twovms/host.dat
	in_guest vm2 "work 2; record_end twovms twovms/vm2.dat"
	done_in_guest vm2
	pair_same_offsets vm1
	pair_same_offsets vm2
}

# Two VMs, one of which nobody recorded, and which has little to do.
step_unrecorded()
{
	guest_needed vm2 --mem 768
	# shellcheck disable=SC2086 # a list
	pair_of_vm1 unrecorded $HOST_EVENTS
	pair_vm vm2
}

# The guest writes the TSC of one vCPU, which the host's file tells by nothing but the time of exits.
# Thirty times as far as the slack of a boot.
step_tscwrite()
{
	vm1_needed
	pair_begin tscwrite
	pair_vm vm1 vm1_before
	record_begin tscwrite $BARE_EVENTS
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin tscwrite $FEW_EVENTS; work 5; write_tsc 1 150000000000; work 5
		record_end tscwrite tscwrite/guest.dat'
	done_in_guest vm1
	record_end tscwrite tscwrite/host.dat
	pair_vm vm1 vm1_after
}

# The same on the other vCPU, by two seconds, with all of KVM's events.
step_tscwrite_told()
{
	vm1_needed
	pair_begin tscwrite-told
	pair_vm vm1 vm1_before
	record_begin tscwrite-told -e kvm
	# shellcheck disable=SC2016 # for the guest
	in_guest vm1 'record_begin tscwrite-told $FEW_EVENTS; work 3; write_tsc 0 5000000000; work 3
		record_end tscwrite-told tscwrite-told/guest.dat'
	done_in_guest vm1
	record_end tscwrite-told tscwrite-told/host.dat
	pair_vm vm1 vm1_after
}

# two_lives PAIR RESTART: vm1 recorded before and after the command RESTART, during one recording of
# the host.
two_lives()
{
	vm1_needed
	pair_begin "$1"
	pair_vm vm1 vm1_first
	record_begin "$1" $BARE_EVENTS
	in_guest vm1 "events=\$FEW_EVENTS; recorded_work $1 5 $1/first.dat"
	done_in_guest vm1
	pair_same_offsets vm1 vm1_first
	flag_clear vm1-ready
	"$2"
	vm1_needed
	pair_vm vm1 vm1_second
	in_guest vm1 "events=\$FEW_EVENTS; recorded_work $1 5 $1/second.dat"
	done_in_guest vm1
	pair_same_offsets vm1 vm1_second
	record_end "$1" "$1/host.dat"
}

step_reset()
{
	two_lives reset vm1_reset
}

vm1_reset()
{
	rm "$RESULTS/.rig/vm1.up"
	guest_monitor vm1 system_reset
}

step_restart()
{
	two_lives restart vm1_restart
}

vm1_restart()
{
	guest_kill vm1
	guest_forget vm1
	vm1_start
}

# QEMU is the command that trace-cmd runs: the VM has begun and ended when the recording ends.
step_comego()
{
	[ ! -e "$GUEST_RUN/vm1" ] || guest_end vm1
	pair_begin comego
	GUEST_WRAP="$TRACE_CMD record -C x86-tsc -o /tmp/comego.dat $BARE_EVENTS"
	guest_start vm3 --mem 768
	GUEST_WRAP=
	tracer=$(guest_pid vm3)
	wait_until 120 vm3_runs || die "trace-cmd does not start QEMU: $(cat "$RESULTS/qemu-vm3.log")"
	guest_needed vm3
	pair_vm vm3
	in_guest vm3 "events=\$FEW_EVENTS; recorded_work comego 8 comego/guest.dat"
	done_in_guest vm3
	guest_end vm3
	wait "$tracer"
	check "host: comego: the recorder exits 0" same "$?" 0
	mv /tmp/comego.dat "$RESULTS/comego/host.dat" || die "no comego.dat"
}

# The child of trace-cmd that is QEMU becomes the guest's PID.
vm3_runs()
{
	for child in $(cat /proc/"$tracer"/task/"$tracer"/children); do
		case $(readlink /proc/"$child"/exe) in
		*qemu*)
			echo "$child" >"$GUEST_RUN/vm3/pid"
			return 0
			;;
		esac
	done
	return 1
}

# agent_of_vm1 PAIR PROTOCOL COMMAND [OPTION...]: both levels by one trace-cmd on the host, through its agent in
# the guest, while the guest runs the command. Without --notimeout it gives up when the emulated guest needs
# more than 5 s to pack its symbols, and goes on with half a file. It finds the VM's PID by who wakes whom
# when it connects, which fails where the vCPU happens to be awake: then it takes another protocol to
# synchronize clocks, and is started again here.
agent_of_vm1()
{
	vm1_needed
	pair_begin "$1"
	agent_protocol=$2
	agent_work=$3
	shift 3
	pair_vm vm1 vm1_before
	in_guest vm1 "agent_needed"
	done_in_guest vm1
	agent_tries=0
	agent_record "$@"
	until grep -q "Negotiated $agent_protocol time sync" "/tmp/$pair.log"; do
		tool_end "$pair"
		agent_tries=$((agent_tries + 1))
		[ $agent_tries -lt 5 ] || die "trace-cmd never synchronizes by $agent_protocol: $(cat "/tmp/$pair.log")"
		note "$(cat "/tmp/$pair.log")"
		agent_record "$@"
	done
	in_guest vm1 "$agent_work"
	done_in_guest vm1
	tool_end "$pair"
	pair_vm vm1 vm1_after
	mv /tmp/"$pair"/* "$RESULTS/$pair/" || die "no files of trace-cmd's"
}

# agent_record OPTION...
agent_record()
{
	rm -rf "/tmp/$pair"
	mkdir "/tmp/$pair"
	# shellcheck disable=SC2086 # a list
	tool_begin "$pair" "$TRACE_CMD" record --notimeout -o "/tmp/$pair/host.dat" "$@" $BARE_EVENTS \
		-A vm1@3:823 -e sched -e irq -e irq_vectors
}

# The user says nothing of clocks: trace-cmd takes the TSC of both, and notes how long a cycle is.
step_agent()
{
	agent_of_vm1 agent kvm "work 8"
}

# Four times a second it looks for another offset, and there is one.
step_agent_tscwrite()
{
	agent_of_vm1 agent-tscwrite kvm "work 6; write_tsc 1 150000000000; work 6" -C x86-tsc --tsync-interval 250
}

step_agent_v6()
{
	agent_of_vm1 agent-v6 kvm "work 4" --file-version 6
}

# Not the TSC: trace-cmd exchanges markers, and the offset is what they average to.
step_agent_ptp()
{
	agent_of_vm1 agent-ptp ptp "work 8" -C local --tsync-interval 500
}

for step in ${FOREIGN:-plain}; do
	"step_$step"
done
for name in "$GUEST_RUN"/*; do
	! guest_running "${name##*/}" || guest_end "${name##*/}"
done
fact seconds_cs "$(uptime_cs)"
finish
