#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# A small part of what tests/vm/blame.t asks of real guests: made captures of delays with a known cause, and what blame
# says of them when events are taken out. It is right, or does not know; nothing is sure and wrong.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
command -v python3 >/dev/null || {
	skip "events taken out" "python3 is not installed"
	finish
}
mkdir "$tmp/rig" || exit

# plant NAME CAUSE MS: it begins now, at $t; the events follow, with times from there on, in us
plant()
{
	echo "$1 $2 $(seconds $((t - 2000000))) $(seconds $((t + 9000000))) 1" >>"$tmp/rig/truth"
	echo "$1 $(seconds $t) $3" >>"$tmp/rig/spins"
	awk -v t="$t" '{ $2 = sprintf("%.0f", t + $2 * 1000); print }'
}
seconds() { awk -v ns="$1" 'BEGIN { printf "%.9f", ns / 1e9 }'; }

t=20000000
{
	cat <<-'END'
		meta vm id=100-12 pid=100 fd=12 name=one
		meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
		meta task tid=100 tgid=100 comm=qemu
		meta task tid=101 tgid=100 comm=CPU%200/KVM
		meta task tid=55 tgid=55 comm=thief
		meta time tsc=0 width=0 mono_raw=0 mono=0 boot=0 real=1700000000000000000
		meta time tsc=900000000 width=0 mono_raw=900000000 mono=900000000 boot=900000000 real=1700000000900000000
		recorded kvm_apic_accept_irq kvm_userspace_exit kvm_mmio kvm_vcpu_wakeup kvm_inj_virq kvm_msr
		recorded irq:irq_handler_entry irq:softirq_entry irq:softirq_exit irq_vectors:local_timer_entry irq_vectors:local_timer_exit
		recorded sched:sched_switch sched:sched_wakeup block:block_rq_issue block:block_rq_complete
		0 1000000 101 kvm_entry vcpu_id=0
	END
	plant task host-task 4 <<-'END'
		0    0 101 kvm_exit exit_reason=1 isa=1
		0    1 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
		0 3999  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
		0 4000 101 kvm_entry vcpu_id=0
	END
	t=$((t + 20000000))
	plant user exit-user 4 <<-'END'
		0    0 101 kvm_exit exit_reason=30 isa=1
		0    1 101 kvm_userspace_exit reason=2
		0 3998 101 kvm_pio rw=1 port=0x60 size=1 count=1 val=0
		0 4000 101 kvm_entry vcpu_id=0
	END
	t=$((t + 20000000))
	plant kernel exit-kernel 4 <<-'END'
		0    0 101 kvm_exit exit_reason=10 isa=1
		0 4000 101 kvm_entry vcpu_id=0
	END
	t=$((t + 20000000))
	plant vmm vmm 4 <<-'END'
		0    0 101 kvm_exit exit_reason=30 isa=1
		0    1 101 kvm_userspace_exit reason=2
		0    2 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
		1 3980 100 sched:sched_wakeup pid=101 target_cpu=0
		0 3990   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
		0 3998 101 kvm_pio rw=1 port=0x60 size=1 count=1 val=0
		0 4000 101 kvm_entry vcpu_id=0
	END
	t=$((t + 20000000))
	plant wake halt-wake 4 <<-'END'
		0 -1000 101 kvm_exit exit_reason=12 isa=1
		0 -990 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
		1    0 100 sched:sched_wakeup pid=101 target_cpu=0
		0 3990   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
		0 3995 101 kvm_vcpu_wakeup ns=4980000 waited=1 valid=1
		0 4000 101 kvm_entry vcpu_id=0
	END
	t=$((t + 20000000))
	plant masked guest-irqs-off 4 <<-'END'
		0 -1000 101 kvm_exit exit_reason=32 isa=1
		0  -990 101 kvm_msr write=1 ecx=0x6e0 data=120000000
		0  -980 101 kvm_entry vcpu_id=0
		0     5 101 kvm_exit exit_reason=1 isa=1
		0     6 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xec
		0     9 101 kvm_entry vcpu_id=0
		0  3990 101 kvm_exit exit_reason=7 isa=1
		0  3991 101 kvm_inj_virq vector=0xec soft=0 reinjected=0
		0  3992 101 kvm_entry vcpu_id=0
	END
	t=$((t + 20000000))
	plant request vmm 4 <<-'END'
		0    0 101 kvm_exit exit_reason=48 isa=1
		0    1 101 kvm_fast_mmio gpa=0xfebf3000
		0    2 101 kvm_entry vcpu_id=0
		0   10 101 kvm_exit exit_reason=12 isa=1
		0   11 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
		1 3900 100 kvm_msi_set_irq address=0xfee00000 data=0x26
		1 3901 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
		1 3902 100 sched:sched_wakeup pid=101 target_cpu=0
		0 3905   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
		0 3906 101 kvm_vcpu_wakeup ns=3890000 waited=1 valid=1
		0 3907 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
		0 3908 101 kvm_entry vcpu_id=0
		0 9000 101 kvm_exit exit_reason=1 isa=1
	END
} >"$tmp/host.txt"
{
	cat <<-'END'
		meta side name=guest
		meta cpu n=0 apicid=0
		meta task tid=78 tgid=78 comm=hog
		recorded sched:sched_switch sched:sched_wakeup irq:softirq_entry irq:softirq_exit
	END
	for ms in 2 3 4 5 6 7; do
		echo "0 ${ms}000000 78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=0"
		echo "0 ${ms}500000  0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78"
	done
	cat <<-'END'
		0 124000000 78 irq_vectors:local_timer_entry vector=0xec
		0 124010000 78 irq_vectors:local_timer_exit vector=0xec
		0 139999000 78 block:block_rq_issue dev=0xfe00000 sector=2048 nr_sector=8 bytes=4096
		0 143920000 78 irq:irq_handler_entry irq=38
		0 143925000 78 block:block_rq_complete dev=0xfe00000 sector=2048 nr_sector=8
		0 143930000 78 irq:irq_handler_exit irq=38
	END
} >"$tmp/guest.txt"
for side in host guest; do
	ok "the $side's capture is compiled" "$tools/mkcap" --capture "$tmp/rig/$side" "$tmp/$side.txt"
done
python3 "$top/tests/vm/ablation.py" "$kvmft" "$tools/ablate" blame "$tmp/rig" >"$tmp/table"
is "$?" 0 "each is asked again, without events"
sed 's/^\([^#]\)/# \1/' "$tmp/table"
is "$(sed -n 's/^nothing  *//p' "$tmp/table")" "right 7 not-known 0 wrong 0 sure-and-wrong 0" "all are found in the whole"
is "$(grep -c ' wrong 0 sure-and-wrong 0$' "$tmp/table")" 15 "... nothing is wrong, whatever is taken out"
right()
{
	sed -n "s/^$1  *right \([0-9]*\) .*/\1/p" "$tmp/table"
}
is "$(right sched_switch) $(right sched_wakeup) $(right kvm_userspace_exit) $(right interrupts) $(right 'the guest')" "2 5 4 5 5" \
	"... and what does not need it is right"

# Two that stay in one page of their kernel: one works, one does not. So do two that exit all the time at one place.
mkdir "$tmp/stuck" || exit
# stays NAME CLASS WORKS EXITS: with interrupts if WORKS; EXITS: for writes to a device, or because the host wants it
stays()
{
	{
		printf '%s\n' "meta vm id=100-12 pid=100 fd=12 name=one" "meta vcpu vm=100-12 id=0 tid=101 offset=0 tsc=1" \
			"meta task tid=101 tgid=100 comm=CPU%200/KVM" "recorded kvm_inj_virq kvm_apicv_accept_irq kvm_eoi kvm_fast_mmio"
		awk -v works="$3" -v exits="$4" 'BEGIN { for (t = 1000000; n < 400; t += 2000000) {
			print 0, t, "101 kvm_entry vcpu_id=0"
			print 0, t + 1990000, "101 kvm_exit exit_reason=" (exits ? 48 : 1) " guest_rip=0xffffffff81050000 isa=1 vcpu_id=0"
			if (exits)
				print 0, t + 1991000, "101 kvm_fast_mmio gpa=0xfebf3000"
			if (works && n % 4 == 0)
				print 0, t + 1995000, "101 kvm_inj_virq vector=0x26"
			n++ } }'
	} >"$tmp/stays.txt"
	ok "$1: the capture is compiled" "$tools/mkcap" --capture "$tmp/stuck/$1.rec" "$tmp/stays.txt"
	echo "$1 $2 one" >>"$tmp/stuck/planted"
}
stays spins spinning 0 0
stays computes healthy 1 0
stays loops exit-loop 0 1
stays drives healthy 1 1
ONLY="nothing|kvm:kvm_inj_virq|kvm:kvm_eoi|all but kvm_entry, kvm_exit|5 holes" \
	python3 "$top/tests/vm/ablation_stuck.py" "$kvmft" "$tools/ablate" "$tmp/stuck" >"$tmp/table"
is "$?" 0 "stuck -i is asked again, without events"
sed 's/^\([^#]\)/# \1/' "$tmp/table"
is "$(sed -n 's/^stuck without nothing: //p' "$tmp/table")" "right 4 not-known 0 wrong 0 sure-and-wrong 0" "all are right in the whole"
is "$(grep -c ' wrong 0 sure-and-wrong 0$' "$tmp/table")" 5 "... nothing is wrong, whatever is taken out"
finish
