# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Guests that hang in every way there is, and `kvmft stuck`, which has to say how within 5 s: small VMs
# with planted code, and real guests. What it said is in stuck.tar.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

need_kvmft
dir=/tmp/stuck
mkdir $dir
cd $dir || die "no $dir"
tinyvm_make /tmp/tinyvm
tracefs_state >/tmp/state.before
# What a program takes to be read over 9p for the first time is not its own.
"$KVMFT" stuck >/dev/null 2>&1

# For the small VMs: their code is at 0x1000.
cat >symbols <<-'EOF'
	0000000000001000 T planted
	0000000000001010 T behind
EOF

# asks NAME SEL [OPTION]...: kvmft stuck, its answer as text in NAME.out, and how long it took.
asks()
{
	name=$1
	sel=$2
	shift 2
	begin=$(uptime_cs)
	"$KVMFT" stuck --vm "$sel" "$@" >"$name.out" 2>"$name.err"
	echo $? >"$name.rc"
	took=$(($(uptime_cs) - begin))
	sed 's/^/# /' "$name.out" "$name.err"
	note "$name: answered after $took/100 s"
	fact "took_$(echo "$name" | tr - _)" "$took"
	check "$name: answered" same "$(cat "$name.rc")" 0
	check "$name: within 5 s" test "$took" -le 500
}

# says NAME CLASS [PATTERN]: of the only vCPU; the pattern is looked for in all of its lines as one.
says()
{
	check "$1: the class is $2" grep -q "vCPU 0, thread [0-9]*: $2\$" "$1.out"
	[ $# -lt 3 ] || check "$1: ... $3" sh -c "tr -s '\n ' ' ' <'$1.out' | grep -qE '$3'"
}

# small NAME OPTION...: a small VM; its PID in $vm.
small()
{
	name=$1
	shift
	"$@" >"$name.vm" 2>&1 &
	vm=$!
	wait_until 30 grep -qs '^pid ' "$name.vm" || die "$name: no VM: $(cat "$name.vm")"
	sleep 0.5
}

ends()
{
	kill -KILL "$vm"
	wait "$vm" 2>/dev/null
}

vm_for="/tmp/tinyvm --ms 600000"

# ---- planted code ----

# shellcheck disable=SC2086 # a command and its options, here and below
small spin $vm_for --code ebfe
asks spin "$vm" --guest-kallsyms symbols
says spin spinning 'at planted\+0x0/0x10: .* RIPs \((9[0-9]|100)'
asks nosyms "$vm" --seconds 1
says nosyms spinning 'at 0x1000: .* in that page'
kill -STOP "$vm"
asks stop "$vm"
says stop stopped "kill -CONT $vm"
ends

# shellcheck disable=SC2086
small cli-hlt $vm_for --irqchip --code faf4
asks cli-hlt "$vm" --guest-kallsyms symbols
says cli-hlt halted 'did nothing for [23].* none came'
ends

# Interrupts come, and it has them off: halted, and in a loop.
# shellcheck disable=SC2086
small deaf $vm_for --msi --code faf4
asks deaf "$vm"
says deaf halted 'interrupts came \(most: vector 0x40, last .* ago\) and none woke it: it has them off'
ends
# shellcheck disable=SC2086
small deaf-spin $vm_for --msi --code faebfe
asks deaf-spin "$vm" --guest-kallsyms symbols
says deaf-spin spinning 'at planted\+0x1/0x10: .*interrupts come and it takes none: it has them off'
ends

# The interrupt that it waits for is lost: from outside the same.
# shellcheck disable=SC2086
small lost-irq $vm_for --irqchip --code fbf4ebfd
asks lost-irq "$vm"
says lost-irq halted 'none came'
ends

# shellcheck disable=SC2086
small port $vm_for --code e480ebfc
asks port "$vm" --guest-kallsyms symbols
says port exit-loop '[0-9]+/s: [^ ]+ at planted\+0x[02]/0x10, in from port 0x80'
"$KVMFT" stuck --vm "$vm" --format json >port.json 2>/dev/null &
pid=$!
sleep 2
read -r cpu rest <"/proc/$pid/schedstat"
wait $pid
note "cost of a loop on a port: $cpu ns of CPU time in 2 s ($rest)"
fact cost_ns "$cpu"
ends

# shellcheck disable=SC2086
small mmio $vm_for --code b800208ed8a20000ebfb
asks mmio "$vm" --guest-kallsyms symbols
says mmio exit-loop 'at planted\+0x[58]/0x10, write to MMIO 0x20000'
ends

# shellcheck disable=SC2086
small no-page $vm_for --no-page --code a00080ebfb
asks no-page "$vm"
says no-page blocked 'asleep in handle_userfault, called by KVM_RUN, state [DS]'
ends

# The VMM sleeps over the port that its guest wants.
# shellcheck disable=SC2086
small vmm $vm_for --pause-io 600000000 --code e680ebfc
asks vmm "$vm"
says vmm vmm 'asleep in .*nanosleep.*KVM_RUN had returned IO: out to port 0x80'
ends

# ---- the host does not let it run ----

cg=/sys/fs/cgroup
mountpoint -q $cg || mount -t cgroup2 none $cg
echo +cpu >$cg/cgroup.subtree_control
if mkdir $cg/slow && echo "1000 200000" >$cg/slow/cpu.max; then
	# shellcheck disable=SC2086
	small throttled $vm_for --code ebfe
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
else
	skip throttled "no CPU controller of cgroups here"
fi

# shellcheck disable=SC2086
small starved chrt -i 0 taskset -c 0 $vm_for --code ebfe
taskset -c 0 sh -c 'while :; do :; done' &
hog=$!
asks starved "$vm"
says starved starved 'could run .* and got [0-9.]+ % of a CPU'
kill $hog
ends

# ---- real guests ----

guest_start vm1 --vcpus 1 --mem 512
guest_wait_up vm1
flag_wait ready-vm1
# From here on in memory: 9p is slow.
cp "$RESULTS/kallsyms-vm1" .
asks healthy vm1 --seconds 2 --guest-kallsyms kallsyms-vm1
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
flag_set hang-vm1 panic
flag_wait hangs-vm1
wait_until 60 grep -qs 'end Kernel panic' "$RESULTS/console-vm1.log" || note "no panic seen on the console"
asks panic vm1 --seconds 2 --guest-kallsyms kallsyms-vm1
says panic spinning 'at (delay_|panic|__const_udelay|__delay|read_tsc)[a-z_]*\+0x'
guest_kill vm1
# The rig looks for panics in consoles, and this one was asked for.
mv "$RESULTS/console-vm1.log" "$RESULTS/panic-vm1.log"

guest_start vm2 --vcpus 1 --mem 512
guest_wait_up vm2
flag_wait ready-vm2
cp "$RESULTS/kallsyms-vm2" .
flag_set hang-vm2 halt
flag_wait hangs-vm2
sleep 5
asks halt vm2 --seconds 2 --guest-kallsyms kallsyms-vm2
says halt halted
guest_kill vm2

tracefs_state >/tmp/state.after
check "tracefs is as it was" diff /tmp/state.before /tmp/state.after
rm -f kallsyms-vm*
tar -cf "$RESULTS/stuck.tar" -C /tmp stuck
finish
