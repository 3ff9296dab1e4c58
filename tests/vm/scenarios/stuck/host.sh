# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Guests that hang in every way there is, and `kvmft stuck`, which must say why within 5 s: small VMs
# with planted code, and real guests. STUCK (from --env) chooses among the steps_... below; default: all
# that this CPU has. ENGINE is kvmft stuck's --engine for all of them. With RECORD=DURATION each is recorded,
# too, for that long; `planted` has their names and classes. All that is in stuck.tar.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

need_kvmft
# In memory: a program is read from 9p again each time it is started.
cp "$KVMFT" /tmp/kvmft
tools=$(dirname "$KVMFT")
KVMFT=/tmp/kvmft
dir=/tmp/stuck
mkdir $dir
cd $dir || die "no $dir"
# How long to watch a guest that keeps the CPU busy: Bochs needs half a minute for a second of that.
busy=
case $RIG_CPU in
arm64)
	vm_for=$tools/tinyvm64
	code_at=ffffffc0800000 steps="spin halt deaf64 mmio vmm starved guest off"
	# b .; wfi, b -4; str x3, [x19], b -4
	irqchip='' spin=14000000 halt=d503207f17ffffff mmio=f900026317ffffff mmio_at=0x10000000
	;;
*)
	tinyvm_make /tmp/tinyvm
	vm_for="/tmp/tinyvm --ms 600000 --long"
	code_at=ffffffff810010
	steps="spin nosyms halt deaf deaf_spin lost port cost shared killed mmio msr cpuid no_page vmm vmm_spin vmm_d
		throttled starved healthy guest panic off"
	# jmp .; cli, hlt; mov %al, 0x20000, jmp -9
	irqchip=--irqchip spin=ebfe halt=faf4 mmio=88042500000200ebf7 mmio_at=0x20000
	# The host gets no interrupts while a guest runs that began with interrupts off: sti.
	[ "$RIG_CPU" != intel ] || busy="--duration 1" spin=fbebfe \
		steps="spin halt deaf lost port msr no_page vmm vmm_d starved healthy guest off"
	;;
esac
# For the small VMs.
cat >symbols <<-EOT
	${code_at}00 T planted
	${code_at}10 T behind
EOT
tracefs_state >/tmp/state.before
# Start the program once: reading it from a slow disk must not count as its time.
"$KVMFT" stuck >/dev/null 2>&1

# once NAME SEL [OPTION]...: kvmft stuck, its answer in NAME.out; $took is how long it took, in 1/100 s
once()
{
	name=$1
	shift
	begin=$(uptime_cs)
	"$KVMFT" stuck --vm "$@" ${ENGINE:+--engine "$ENGINE"} >"$name.out" 2>"$name.err"
	echo $? >"$name.rc"
	took=$(($(uptime_cs) - begin))
}

# asks NAME SEL [OPTION]...: kvmft stuck, its answer as text in NAME.out, within 5 s. What it does besides looking takes
# as long as the outer machine's load makes it: where it was late, looking for 0.2 s only shows how long that is.
asks()
{
	once "$@"
	note "$name: answered after $took/100 s"
	fact "took_$(echo "$name" | tr - _)" "$took"
	all=$took besides=0 asked=$name sel=$2
	if [ "$all" -gt 500 ]; then
		shift
		once "$asked.short" "$@" --duration 0.2
		besides=$((took - 20)) name=$asked
		note "... of which some $besides/100 s are for more than looking"
	fi
	sed 's/^/# /' "$name.out" "$name.err"
	check "$name: answered" same "$(cat "$name.rc")" 0
	check "$name: within 5 s, or what this machine takes more" test "$all" -le $((500 + 2 * besides))
}

# records NAME CLASS: with RECORD, the VM asked for last is recorded, for what stuck -i says of that
records()
{
	[ -n "${RECORD:-}" ] || return 0
	check "$1: recorded" "$KVMFT" record -q -o "$1.rec" -d "$RECORD"
	echo "$1 $2 $sel" >>planted
}

# shellcheck disable=SC2086 # options
asks_busy()
{
	asks "$@" $busy
}

# says NAME CLASS [PATTERN]: of the only vCPU; the pattern is matched against all of its lines joined.
says()
{
	check "$1: the class is $2" grep -q "vCPU 0, thread [0-9]*: $2\$" "$1.out"
	[ $# -lt 3 ] || check "$1: ... $3" sh -c "tr -s '\n ' ' ' <'$1.out' | grep -qE '$3'"
	records "$1" "$2"
}

# small NAME [OPTION]...: a small VM; its PID in $vm. $before: a command that starts it.
before=
# shellcheck disable=SC2086 # commands with options
small()
{
	name=$1
	shift
	$before $vm_for "$@" >"$name.vm" 2>&1 &
	vm=$!
	wait_until 30 grep -qs '^pid ' "$name.vm" || die "$name: no VM: $(cat "$name.vm")"
	sleep 0.5
}

ends()
{
	kill -KILL "$vm"
	wait "$vm" 2>/dev/null
}

# ---- planted code ----

step_spin()
{
	small spin --code $spin
	asks_busy spin "$vm" --guest-kallsyms symbols
	says spin spinning 'at planted\+0x[01]/0x10: .* [RP](IP|C)s \((9[0-9]|100)'
	kill -STOP "$vm"
	asks stop "$vm"
	says stop stopped "kill -CONT $vm"
	ends
}

step_nosyms()
{
	small nosyms --code $spin
	asks nosyms "$vm" --duration 1
	says nosyms spinning 'at 0xffffffff81001000: .* in that page'
	ends
}

step_halt()
{
	# shellcheck disable=SC2086 # or none
	small halt $irqchip --code $halt
	asks halt "$vm" --guest-kallsyms symbols
	says halt halted 'did nothing for [123].* none came, and it set no timer; KVM has no timers armed to wake a guest'
	ends
}

# Interrupts arrive while it has them off: halted, and in a loop.
step_deaf()
{
	small deaf --msi --code faf4
	asks deaf "$vm"
	says deaf halted 'interrupts came \(most: vector 0x40, last .*(ago|now)\) and none woke it: it has them off'
	ends
}

step_deaf_spin()
{
	small deaf-spin --msi --code faebfe
	asks deaf-spin "$vm" --guest-kallsyms symbols
	says deaf-spin spinning 'at planted\+0x1/0x10: .*interrupts come and it takes none: it has them off'
	ends
}

# One is pending from the start: a WFI does not wait then, and is no exit.
step_deaf64()
{
	small deaf --irq --code $halt
	asks deaf "$vm" --guest-kallsyms symbols
	says deaf spinning 'at planted\+0x[04]/0x10: .* PCs'
	ends
}

# The interrupt that it waits for is lost: it looks the same from outside.
step_lost()
{
	small lost-irq --irqchip --code fbf4ebfd
	asks lost-irq "$vm"
	says lost-irq halted 'none came'
	ends
}

step_port()
{
	small port --code e480ebfc
	asks_busy port "$vm" --guest-kallsyms symbols
	says port exit-loop '[0-9]+/s: [^ ]+ at planted\+0x[02]/0x10, in from port 0x80'
	ends
}

step_cost()
{
	small cost --code e480ebfc
	"$KVMFT" stuck --vm "$vm" ${ENGINE:+--engine "$ENGINE"} --format json >port.json 2>/dev/null &
	pid=$!
	sleep 2
	read -r cpu rest <"/proc/$pid/schedstat"
	wait $pid
	note "cost of a loop on a port: $cpu ns of CPU time in 2 s ($rest)"
	fact cost_ns "$cpu"
	ends
}

# engine NAME: watches all VMs; sets, for the last one, $class, $rips (how many were seen) and $counted
# (whether its exits were).
engine()
{
	begin=$(uptime_cs)
	"$KVMFT" stuck --engine "$1" --format json >"shared-$1.json" 2>"shared-$1.err"
	set -- "$1" $? "$(sed -n "s/.*\"pid\":$vm,.*\"class\":\"\([a-z-]*\)\".*\"rips\":\([0-9]*\),.*\"counted\":\([a-z]*\),.*/\1 \2 \3/p" "shared-$1.json")"
	note "shared, $1: $(($(uptime_cs) - begin))/100 s, $(sed -n 's/.*\("events":[0-9]*,"lost":[0-9]*\).*/\1/p' "shared-$1.json"): $3 $(cat "shared-$1.err")"
	check "shared, $1: exit status" same "$2" 0
	events=$(sed -n 's/.*"events":\([0-9]*\),.*/\1/p' "shared-$1.json")
	lost=$(sed -n 's/.*"lost":\([0-9]*\),.*/\1/p' "shared-$1.json")
	# shellcheck disable=SC2034 # class is for the reader
	read -r class rips counted <<-EOT
		$3
	EOT
}

# One spins, on a CPU that it shares with two that exit all the time.
step_shared()
{
	small busy1 --code e480ebfc
	busy_vms=$vm
	small busy2 --code e480ebfc
	busy_vms="$busy_vms $vm"
	small quiet --code $spin
	engine ring
	check "shared, ring: nothing is counted" same "$counted" false
	engine auto
	# It decides by what is lost in the first quarter.
	if [ "$lost" -gt $((events * 2)) ] || [ "$counted" = true ]; then
		# How many, compared with the ring's, is a matter of how long each was on a CPU.
		check "shared, auto: its exits are counted, $rips" same "$class $counted" "spinning true"
	else
		skip "shared, auto" "the ring lost $lost events, and $events were read"
	fi
	engine hist
	check "shared, hist: all are counted" same "$class $counted" "spinning true"
	for pid in $busy_vms; do
		kill -KILL "$pid"
		wait "$pid" 2>/dev/null
	done
	ends
}

# What a killed one leaves, reset removes.
step_killed()
{
	small killed --code e480ebfc
	"$KVMFT" stuck --vm "$vm" --engine hist --duration 30 >/dev/null 2>&1 &
	pid=$!
	wait_until 20 sh -c 'grep -qs guest_rip /sys/kernel/tracing/instances/kvmft.*/events/kvm/kvm_exit/trigger' ||
		fail "killed: no trigger"
	kill -KILL $pid
	wait $pid 2>/dev/null
	check "killed: reset" "$KVMFT" reset
	tracefs_state >/tmp/state.killed
	check "killed: nothing is left" diff /tmp/state.before /tmp/state.killed
	ends
}

step_mmio()
{
	small mmio --code $mmio
	asks_busy mmio "$vm" --guest-kallsyms symbols
	says mmio exit-loop "at planted\+0x[0-8]/0x10, write to MMIO $mmio_at"
	ends
}

# mov $0x1b, %ecx, rdmsr, jmp -4
step_msr()
{
	small msr --code b91b0000000f32ebfc
	asks_busy msr "$vm" --guest-kallsyms symbols
	says msr exit-loop 'at planted\+0x[57]/0x10, read of MSR 0x1b'
	ends
}

# Exits that KVM handles by itself, without a device.
step_cpuid()
{
	small cpuid --code 0fa2ebfc
	asks_busy cpuid "$vm" --guest-kallsyms symbols
	says cpuid exit-loop '/s: (cpuid|CPUID) at planted\+0x[02]/0x10, [0-9]'
	ends
}

step_no_page()
{
	small no-page --no-page --code 8a042500c00000ebf7
	asks no-page "$vm"
	says no-page blocked 'asleep in handle_userfault, called by KVM_RUN, state [DS]'
	ends
}

# The VMM sleeps while it emulates a device.
step_vmm()
{
	case $RIG_CPU in
	arm64)
		small vmm --pause-io 600 --code $mmio
		wanted='MMIO: write to MMIO 0x10000000'
		;;
	*)
		small vmm --pause-io 600000000 --code e680ebfc
		wanted='IO: out to port 0x80'
		;;
	esac
	asks vmm "$vm"
	says vmm vmm "asleep in .*nanosleep.*KVM_RUN had returned $wanted"
	ends
}

# It loops there.
step_vmm_spin()
{
	small vmm-spin --spin-io --code e680ebfc
	asks_busy vmm-spin "$vm"
	says vmm-spin vmm 'the VMM computes, outside of KVM_RUN; KVM_RUN had returned IO: out to port 0x80'
	ends
}

# It waits there in state D for a child that does not end.
step_vmm_d()
{
	small vmm-d --vfork-io --code e680ebfc
	asks vmm-d "$vm"
	says vmm-d blocked 'asleep in [a-z_]+, called by vfork, state D'
	ends
}

# ---- the host does not let it run ----

step_throttled()
{
	cg=/sys/fs/cgroup
	mountpoint -q $cg || mount -t cgroup2 none $cg
	echo +cpu >$cg/cgroup.subtree_control
	if ! { mkdir $cg/slow && echo "1000 200000" >$cg/slow/cpu.max; }; then
		skip throttled "no CPU controller of cgroups here"
		return
	fi
	small throttled --code $spin
	echo "$vm" >$cg/slow/cgroup.procs
	asks throttled "$vm"
	says throttled throttled '/sys/fs/cgroup/slow was throttled [0-9]+ times'
	echo 1 >$cg/slow/cgroup.freeze
	wait_until 30 grep -q 'frozen 1' $cg/slow/cgroup.events || note "it does not freeze"
	asks frozen "$vm"
	says frozen stopped 'its cgroup is frozen'
	echo 0 >$cg/slow/cgroup.freeze
	ends
	sleep 0.5
	rmdir $cg/slow
}

step_starved()
{
	before="nice -n 19 taskset -c 0"
	small starved --code $spin
	before=
	taskset -c 0 sh -c 'while :; do :; done' &
	hog=$!
	asks_busy starved "$vm"
	says starved starved 'could run .* and got [0-9.]+ % of a CPU'
	kill $hog
	ends
}

# ---- real guests ----

# boots NAME: boots $guest, until it waits to be told how to hang.
guest=
boots()
{
	guest=$1
	guest_start "$1" --vcpus 1 --mem 512
	guest_wait_up "$1"
	flag_wait "ready-$1"
	# From here on in memory: 9p is slow.
	cp "$RESULTS/kallsyms-$1" .
}

# hangs HOW
hangs()
{
	flag_set "hang-$guest" "$1"
	flag_wait "hangs-$guest"
}

# A busy guest of each kind, asked RUNS times: no answer may be an alarm.
step_healthy()
{
	guest_start busy --vcpus 1 --mem 512 \
		--qemu-args "-netdev user,id=n0 -device virtio-net-pci,netdev=n0,romfile="
	guest_wait_up busy
	flag_wait ready-busy
	cp "$RESULTS/kallsyms-busy" .
	for kind in user kernel disk network timers; do
		flag_set work-busy "$kind"
		flag_wait works-busy
		flag_clear works-busy
		: >healthy.all
		# Every second time without names: pages are judged, not functions.
		for n in $(seq "${RUNS:-20}"); do
			names="--guest-kallsyms kallsyms-busy"
			[ $((n % 2)) = 0 ] || names=
			# shellcheck disable=SC2086 # options
			"$KVMFT" stuck --vm busy --duration "${RUN_SECONDS:-0.5}" ${ENGINE:+--engine "$ENGINE"} $names >one.out 2>&1
			sed -n 's/^  vCPU 0.*: //p' one.out >>healthy.all
			grep -qE 'vCPU 0.*: (running|idle|in-guest)$' one.out || sed 's/^/# /' one.out
		done
		sed 's/^/# /' one.out
		verdicts=$(sort healthy.all | uniq -c | awk '{ printf "%s %s, ", $1, $2 }')
		note "verdicts, $kind: $verdicts"
		fact "verdicts_$kind" "$(echo "$verdicts" | tr -d ' ,')"
		check "$kind: each was answered" same "$(wc -l <healthy.all)" "${RUNS:-20}"
		check "$kind: no alarm" sh -c '! grep -vE "^(running|idle|in-guest)\$" healthy.all'
		sel=busy
		records "busy-$kind" healthy
	done
	flag_set work-busy none
	flag_wait works-busy
	guest_kill busy
}

# Otherwise it makes progress, and there must be no alarm.
# shellcheck disable=SC2086 # or none
step_guest()
{
	boots vm1
	asks healthy vm1 --duration 2 --guest-kallsyms kallsyms-vm1
	check "healthy: it gets on" sh -c "head -n 1 healthy.out | grep -q ': running\$'"
	check "healthy: the class" grep -qE 'vCPU 0.*: (running|idle)$' healthy.out
	guest_monitor vm1 stop >/dev/null
	asks paused vm1
	says paused paused
	guest_monitor vm1 cont >/dev/null
	kill -STOP "$(guest_pid vm1)"
	asks qemu-stop vm1
	says qemu-stop stopped
	kill -CONT "$(guest_pid vm1)"
	asks again vm1
	check "again: it gets on" sh -c "head -n 1 again.out | grep -q ': running\$'"
	# Another VM is halted: the events of guests' timers do not say whose they are.
	small beside $irqchip --code $halt
	asks beside "$vm"
	says beside halted 'none came, and it set no timer; KVM has (no|[0-9]+) timers? armed to wake a guest'
	ends
}

# Of the guest before, if there is one.
step_panic()
{
	[ -n "$guest" ] || boots vm1
	hangs panic
	wait_until 60 grep -qs 'end Kernel panic' "$RESULTS/console-$guest.log" || note "no panic seen on the console"
	asks panic "$guest" --duration 2 --guest-kallsyms "kallsyms-$guest"
	says panic spinning 'at (__?delay|delay_|panic|__const_udelay|__timer_delay|read_tsc|arch_counter)[a-z_]*\+0x'
	guest_kill "$guest"
	# The rig looks for panics in consoles, and this one was asked for.
	mv "$RESULTS/console-$guest.log" "$RESULTS/panic-$guest.log"
	guest=
}

# The previous guest's, if there is one.
step_off()
{
	[ -n "$guest" ] || boots vm2
	hangs halt
	sleep 5
	asks off "$guest" --duration 2 --guest-kallsyms "kallsyms-$guest"
	case $RIG_CPU in
	arm64) says off spinning 'at machine_halt\+0x' ;;
	*) says off halted ;;
	esac
	guest_kill "$guest"
}

for step in ${STUCK:-$steps}; do
	"step_$step"
done
tracefs_state >/tmp/state.after
check "tracefs is as it was" diff /tmp/state.before /tmp/state.after
rm -f kallsyms-*
tar -cf "$RESULTS/stuck.tar" -C /tmp stuck
finish
