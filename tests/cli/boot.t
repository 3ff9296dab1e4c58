#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft boot`: a made capture of a boot whose every ns is known: phases, the events that begin them, parts; the same
# with events taken away, of a state that was loaded, and two beside each other.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
if ! command -v python3 >/dev/null; then
	skip "kvmft boot" "python3 is not installed"
	finish
fi

# capture NAME: of the events of standard input.
capture()
{
	rm -rf "${tmp:?}/$1"
	{
		printf '%s\n' 'meta vm id=100-12 pid=100 fd=12 name=one' 'meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48' \
			'meta task tid=100 tgid=100 comm=vmm' 'meta task tid=101 tgid=100 comm=vcpu' \
			'event sched sched_process_exec 7001 s32:pid' 'event syscalls sys_enter_ioctl 7002 u64:cmd' \
			'recorded kvm_apic_accept_irq kvm_userspace_exit kvm_mmio kvm_fast_mmio kvm_vcpu_wakeup sched:sched_switch' \
			'recorded sched:sched_wakeup irq:softirq_entry irq:softirq_exit irq_vectors:local_timer_entry irq_vectors:local_timer_exit'
		cat
	} >"$tmp/$1.txt"
	ok "$1 is compiled" "$mkcap" --capture "$tmp/$1" "$tmp/$1.txt"
}

entry() { echo "0 $1 101 kvm_entry vcpu_id=0 rip=$2 immediate_exit=0"; }
exit_at() { echo "0 $1 101 kvm_exit exit_reason=$2 guest_rip=$3 isa=1 info1=0 info2=0 intr_info=0 error_code=0 vcpu_id=0"; }
# port TIME RW PORT SIZE VALUE: an access, in 100 ns in KVM, with 900 ns of the guest at that RIP after it.
port()
{
	exit_at "$1" 30 "${6:-0xf1234}"
	echo "0 $(($1 + 50)) 101 kvm_pio rw=$2 port=$3 size=$4 count=1 val=$5"
	entry $(($1 + 100)) "${6:-0xf1234}"
}

{
	echo "0 500 100 sched:sched_process_exec pid=100" # a shell's
	echo "0 1000 100 sched:sched_process_exec pid=100"
	echo "0 2000 100 sched:sched_switch prev_pid=100 prev_state=1 next_pid=0"
	echo "0 5000 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=100"
	echo "0 6000 100 syscalls:sys_enter_ioctl cmd=0xae01"
	echo "0 7000 100 syscalls:sys_enter_ioctl cmd=0x4020ae46"
	echo "0 8000 100 sched:sched_switch prev_pid=100 prev_state=2 next_pid=101"
	entry 10000 0xfff0
	# firmware: a disk, whose class is 1, and its BAR of 4 KiB
	port 11000 1 0xcf8 4 0x80001808
	port 12000 0 0xcfc 4 0x01000000
	port 13000 1 0xcf8 4 0x80001814
	port 14000 1 0xcfc 4 0xffffffff
	port 15000 0 0xcfc 4 0xfffff000
	port 16000 1 0xcfc 4 0xfe000000
	exit_at 17000 32 0x1000
	echo "0 17050 101 kvm_msr write=1 ecx=0xc0000080 data=0x100 exception=0"
	entry 17100 0x1000
	exit_at 20000 10 0xffffffff81000010
	entry 20200 0xffffffff81000010
	# not the disk's
	exit_at 21000 48 0xffffffff81000020
	echo "0 21050 101 kvm_mmio type=2 len=4 gpa=0xfe001000 val=0"
	entry 21100 0xffffffff81000020
	echo "0 21500 100 kvm_msi_set_irq address=0xfee00000 data=33"
	exit_at 25000 10 0x400123
	entry 25100 0x400123
	exit_at 26000 48 0xffffffff81000020
	echo "0 26050 101 kvm_mmio type=2 len=4 gpa=0xfe000010 val=0"
	entry 26100 0xffffffff81000020
	exit_at 27000 12 0xffffffff81000030
	echo "0 27000 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0"
	echo "0 30000 100 kvm_msi_set_irq address=0xfee00000 data=33"
	echo "0 30000 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=33"
	echo "0 30000 100 sched:sched_wakeup pid=101 target_cpu=0"
	echo "0 30000 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101"
	entry 30100 0xffffffff81000030
	exit_at 31000 12 0xffffffff81000030
	echo "0 31000 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0"
	echo "0 33000 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=236"
	echo "0 33000 100 sched:sched_wakeup pid=101 target_cpu=0"
	echo "0 33000 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101"
	entry 33100 0xffffffff81000030
	port 34000 1 0x3f8 1 0x6f 0xffffffff81000040
	port 35000 1 0x3f8 1 0x6b 0xffffffff81000040
	port 36000 1 0x80 1 0x42 0xffffffff81000040
	exit_at 40000 10 0xffffffff81000010
} >"$tmp/events"

# rows OPTION... CAPTURE...: of each row "PHASE [PART]: [AT] TIME[,AFTER] NAME".
rows()
{
	run "$kvmft" boot --format json "$@"
	python3 - "$out" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
for r in d["rows"]:
    print(r["phase"], r["part"] or "*", r["at_ns"] if r["part"] is None else "",
          ",".join(str(r[k]) for k in ("time_ns", "time_after_ns") if k == "time_ns" or "wall_after_ns" in d), r["name"] or "-")
print("wall", d["wall_ns"], "known", d["known_ns"], "needs", " ".join(d["needs"]) or "-")
END
}

capture boot <"$tmp/events"
printf '%s\n' 'ffffffff81000000 T cpuid_here' 'ffffffff81000020 T write_disk' 'ffffffff81000030 T idle' 'ffffffff81000040 T out' \
	'ffffffff81000050 T end' >"$tmp/kallsyms"
rows --until 'kvm_pio/port == 0x80/' --guest-kallsyms "$tmp/kallsyms" "$tmp/boot" >"$tmp/got"
cat >"$tmp/want" <<'END'
exec * 0 5000 sched_process_exec
exec vmm  2000 on its CPU
exec vmm  3000 asleep
create-vm * 5000 1000 ioctl KVM_CREATE_VM
create-vm vmm  1000 on its CPU
memory * 6000 3000 ioctl KVM_SET_USER_MEMORY_REGION
memory vmm  1000 on its CPU
memory disk  2000 the VMM, asleep without taking signals: for a disk or a lock
first-entry * 9000 7050 kvm_entry at 0xfff0
first-entry guest-code  6400 -
first-entry exit-kernel  600 IO_INSTRUCTION
first-entry exit-kernel  50 MSR_WRITE
kernel * 16050 7950 kvm_msr sets EFER.LME, no port of firmware until 0xffffffff81000010
kernel guest-code  7600 -
kernel exit-kernel  200 CPUID
kernel exit-kernel  100 EPT_VIOLATION
kernel exit-kernel  50 MSR_WRITE
kernel function  200 cpuid_here
kernel function  100 write_disk
user * 24000 1000 kvm_exit at 0x400123, at the latest
user guest-code  900 -
user exit-kernel  100 CPUID
user function  100 write_disk
first-disk * 25000 10050 before its interrupt, a write at 0xfe000010
first-disk disk  3000 halted, until its interrupt
first-disk guest-sleep  2200 halted
first-disk guest-code  4500 -
first-disk exit-kernel  250 IO_INSTRUCTION
first-disk exit-kernel  100 EPT_VIOLATION
first-disk function  200 out
marker * 35050 0 kvm_pio
first-packet * None None not seen: a packet in a thread of the VM (recorded by -e boot)
wall 35050 known 35050 needs -
END
ok "each phase, with its evidence and its parts, to the ns" diff "$tmp/want" "$tmp/got"
is "$(awk '$2 == "*" && $4 ~ /^[0-9]/ { a += $4 } $2 != "*" && $2 != "function" && $1 != "wall" { for (i = 3; i <= NF; i++)
	if ($i ~ /^[0-9]+$/) { b += $i; break } } END { print a, b }' "$tmp/got")" "35050 35050" "... the parts sum to the phases"
status_is 0 "... its status"

rows --until text=ok "$tmp/boot" >"$tmp/got"
is "$(grep ^marker "$tmp/got")" "marker * 34050 0 kvm_pio, the end of that text, port 0x3f8" "--until text="
rows --until text=ko "$tmp/boot" >"$tmp/got"
is "$(grep -E '^(marker|end)' "$tmp/got")" "end * 39000 0 the last event of its vCPUs
marker * None None it did not come" "... that the guest does not write"

# without RE PHASE WANT TEXT: how the phase begins when events that match are not there.
without()
{
	grep -vE "$1" "$tmp/events" >"$tmp/fewer"
	capture less <"$tmp/fewer"
	rows "$tmp/less" >"$tmp/got"
	is "$(sed -n "s/^$2 \\* \\([^ ]*\\) [^ ]* /\\1 /p" "$tmp/got")" "$3" "$4"
}
# lost FROM TO: those events are lost, from one time to before another.
lost()
{
	awk -v a="$1" -v b="$2" '$2 >= a && $2 < b { if (!said++) print "0 gap 1"; next } { print }' "$tmp/events" >"$tmp/fewer"
	capture less <"$tmp/fewer"
	rows "$tmp/less" >"$tmp/got"
}
lost 5000 6000
is "$(sed -n '/^memory/q; p' "$tmp/got")" "exec * 0 5000 sched_process_exec
exec lost  4000 events of the VMM's threads
exec vmm  1000 on its CPU
create-vm * 5000 1000 ioctl KVM_CREATE_VM, at the latest
create-vm unknown  1000 not recorded: the VMM's sched_switch" "what the VMM did is not known over lost events, and after them"
lost 10000 20200
is "$(grep -E '^(first-entry|kernel) \*' "$tmp/got")" \
	"first-entry * 19200 0 kvm_entry at 0xffffffff81000010, at the latest
kernel * 19200 4800 kvm_exit at 0xffffffff81000010, at the latest" "a first entry that is lost"
run "$kvmft" boot "$tmp/less"
is "$(grep -c 'that was loaded' "$out")" 0 "... is no state that was loaded"

lacks='None not recorded: kvm_pio and kvm_mmio: `kvmft record -e default`'
without 'kvm_pio ' first-disk "$lacks" "no kvm_pio"
without 'kvm_mmio ' first-disk "$lacks" "no kvm_mmio"
run "$kvmft" boot "$tmp/less"
out_has '^  guest-sleep .* halted, perhaps for a disk' "... so a halt may be for one"
how='None not seen: `kvmft record -e default -e mem -e boot -- VMM...`'
without process_exec exec "$how" "no exec"
without 0xae01 create-vm "$how" "no KVM_CREATE_VM"
without 0x4020ae46 memory "$how" "no KVM_SET_USER_MEMORY_REGION"
without 'kvm_msr ' kernel "19000 kvm_exit at 0xffffffff81000010, at the latest" "no kvm_msr"
without 0x01000000 first-disk "None not seen: a request to a disk, by its PCI class (recorded by -e default)" "no class of PCI"
without 'kvm_msi_set_irq|vec=33' first-disk "None not seen: a request to a disk, by its PCI class (recorded by -e default)" "no interrupt"
without 0x400123 user "None not seen: an exit with a RIP of a program (recorded by -e default)" "no program was seen"
grep -vE 'process_exec|ioctl' "$tmp/events" | sed 's/rip=0xfff0/rip=0xffffffff81000000/' >"$tmp/fewer"
capture less <"$tmp/fewer"
run "$kvmft" boot "$tmp/less"
status_is 4 "a VM that ran before"
err_has 'no VM begins in this recording: record it from before its VMM starts, with .kvmft record -e default -e mem -e boot' "... and how to record it"

# A state that was loaded begins in its kernel.
sed 's/rip=0xfff0/rip=0xffffffff81000000/' "$tmp/events" >"$tmp/fewer"
capture loaded <"$tmp/fewer"
run "$kvmft" boot "$tmp/loaded"
out_has 'one \(of a state that was loaded\)' "a state that was loaded"
is "$(grep -cE '^(kernel|user)' "$out")" 0 "... does not boot its kernel"
out_has '^first-disk' "... but has a first request"
grep -v 'port=0xcf' "$tmp/fewer" >"$tmp/really"
capture really <"$tmp/really"
run "$kvmft" boot --format csv "$tmp/really"
out_has 'first-disk,.*cannot tell: the guest had found its disks before its state was saved' \
	"... if the guest looks for its disks again: this one did so before"
out_has ',guest-sleep,.*halted, perhaps for a disk' "... so a halt may be for one"

# Two beside each other: the second one's disk is slower by 1000.
awk '{ if ($2 >= 30000) $2 += 1000; print }' "$tmp/events" >"$tmp/fewer"
capture slow <"$tmp/fewer"
rows --until 'kvm_pio/port == 0x80/' "$tmp/boot" "$tmp/slow" >"$tmp/got"
is "$(grep '^first-disk disk' "$tmp/got")" "first-disk disk  3000,4000 halted, until its interrupt" "a slow disk, beside the other"
is "$(grep -cE '^(exec|create-vm|memory|first-entry|kernel|user) .* ([0-9]+),\2 ' "$tmp/got")" \
	"$(grep -cE '^(exec|create-vm|memory|first-entry|kernel|user) ' "$tmp/got")" "... and all before is equal"

run "$kvmft" boot --format csv "$tmp/boot"
is "$(head -n 1 "$out")" "vm,phase,part,at_us,time_us,at_after_us,time_after_us,exits,exits_after,name" "CSV"
run "$kvmft" boot "$tmp/boot"
out_has 'one, 0.039 ms, of which 100.0 % are known' "text"
out_has '^first-disk  *0.025 .* before its interrupt, a write at 0xfe000010' "... phases"
run "$kvmft" boot --until 'nosuch/' "$tmp/boot"
status_is 1 "an event that is none"
run "$kvmft" boot --until text= "$tmp/boot"
status_is 2 "no text"
finish
