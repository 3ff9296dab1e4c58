# SPDX-License-Identifier: GPL-2.0-or-later
#
# Writes a capture of any events that latency knows, in any order: awk -v seed=N -v side=host|guest [-v n=EVENTS]
# What matters is that nothing here makes sense.
# Numbers of its own: rand() is another one in each awk.
function pick(n) { state = (state * 69069 + 1) % 4294967296; return int(state / 65536) % n }
function vector() { return pick(4) ? 0x30 + pick(3) : 0xec }
function timer() { return 16 * pick(5) }
function sector() { return 8 * pick(6) }
function host(cpu, t,    k)
{
	k = pick(17)
	if (k < 3) print cpu, t, 101 + pick(2), "kvm_entry vcpu_id=0"
	else if (k < 6) print cpu, t, 101, "kvm_exit exit_reason=" (pick(2) ? 12 : 1), "isa=1"
	else if (k == 6) print cpu, t, 100, "kvm_msi_set_irq address=0xfee00000 data=0x30"
	else if (k < 9) print cpu, t, 100 + pick(2), "kvm_apic_accept_irq apicid=" pick(2), "dm=0 tm=0 vec=" vector()
	else if (k < 11) print cpu, t, 101, "kvm_inj_virq vector=" vector(), "soft=" (pick(9) == 0), "reinjected=0"
	else if (k == 11) print cpu, t, 101, "kvm_msr write=1 ecx=0x6e0 data=" (pick(5) ? t + pick(900) : 0), "exception=0"
	else if (k == 12) print cpu, t, 101, "kvm_fast_mmio gpa=0xfebf3000"
	else if (k == 13) print cpu, t, 55, "sched:sched_wakeup pid=101 target_cpu=" pick(2)
	else if (k == 14) print cpu, t, 101, "sched:sched_switch prev_pid=101 prev_state=" pick(2), "next_pid=55"
	else if (k == 15) print cpu, t, 100, "kvm_apicv_accept_irq apicid=" pick(2), "dm=0 tm=0 vec=" vector()
	else print cpu, t, 55, "sched:sched_switch prev_pid=55 prev_state=0 next_pid=" 100 + pick(2)
}
function guest(cpu, t,    k)
{
	k = pick(12)
	if (k < 2) print cpu, t, 77, "block:block_rq_issue dev=0xfe00000 sector=" sector(), "nr_sector=8 bytes=4096"
	else if (k < 4) print cpu, t, 77, "block:block_rq_complete dev=0xfe00000 sector=" sector(), "nr_sector=8"
	else if (k == 4) print cpu, t, 77, "irq:irq_handler_entry irq=" 30 + pick(3)
	else if (k == 5) print cpu, t, 77, "irq:irq_handler_exit irq=" 30 + pick(3)
	else if (k == 6) print cpu, t, 77, "irq_vectors:local_timer_entry vector=236"
	else if (k == 7) print cpu, t, 77, "irq_vectors:local_timer_exit vector=236"
	else if (k == 8) print cpu, t, 77, "timer:hrtimer_start hrtimer=" timer(), "function=0xaa expires=" t + 1000000 + pick(900)
	else if (k == 9) print cpu, t, 77, "timer:hrtimer_cancel hrtimer=" timer()
	else if (k == 10) print cpu, t, 77, "timer:hrtimer_expire_entry hrtimer=" timer(), "now=" t + 1000000 - pick(50), "function=0xaa"
	else print cpu, t, 77, "sched:sched_switch prev_pid=77 prev_state=0 next_pid=" 77 * pick(2)
}
BEGIN {
	if (side == "guest") {
		print "meta time tsc=0 width=0 mono_raw=1000000 mono=1000000 boot=1000000 real=1608130130000000000"
		print "meta time tsc=1000000000 width=0 mono_raw=1001000000 mono=1001000000 boot=1001000000 real=1608130131000000000"
	}
	state = seed * 2 + (side == "guest")
	t = 1000
	for (i = 0; i < (n ? n : 3000); i++) {
		t += 1 + pick(60)
		if (side == "host" && i % 1000 == 999)
			print 0, "gap", 1 + pick(9)
		if (side == "host")
			host(pick(2), t)
		else
			guest(0, t)
	}
}
