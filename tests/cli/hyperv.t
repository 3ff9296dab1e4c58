#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Guests that use what KVM has of Hyper-V: names, sources of interrupts and synthetic timers, in a recording whose times
# are known to the ns.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

cat >"$tmp/host.txt" <<'END'
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta vcpu vm=100-12 id=1 tid=102 offset=0 ratio=0 frac=48
meta task tid=101 tgid=100 comm=CPU%200/KVM
meta task tid=102 tgid=100 comm=CPU%201/KVM
0   1000 101 kvm_entry vcpu_id=0
1   1000 102 kvm_entry vcpu_id=1
# a read of the reference counter, a flush of the TLB
0   1500 101 kvm_exit exit_reason=31 isa=1
0   1510 101 kvm_msr write=0 ecx=0x40000020 data=77 exception=0
0   1600 101 kvm_entry vcpu_id=0
0   1700 101 kvm_exit exit_reason=18 isa=1
0   1710 101 kvm_hv_hypercall code=2 fast=1
0   1800 101 kvm_entry vcpu_id=0
# timer 0 is set 10,000 ns ahead at 2000, then the guest halts; it is accepted 500 ns late, and 100 later it goes in
0   1900 101 kvm_exit exit_reason=32 isa=1
0   1910 101 kvm_msr write=1 ecx=0x400000b1 data=1000100 exception=0
0   2000 101 kvm_hv_stimer_start_one_shot vcpu_id=0 timer_index=0 time_now=1000000 count=1000100
0   2100 101 kvm_entry vcpu_id=0
0   2200 101 kvm_exit exit_reason=12 isa=1
0  12400 101 kvm_vcpu_wakeup ns=10200 waited=1 valid=1
0  12500 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xed
0  12510 101 kvm_hv_stimer_expiration vcpu_id=0 timer_index=0 direct=1 msg_send_result=0
0  12550 101 kvm_inj_virq vector=0xed soft=0 reinjected=0
0  12600 101 kvm_entry vcpu_id=0
# an IPI to vCPU 1, by a hypercall
0  13000 101 kvm_exit exit_reason=18 isa=1
0  13010 101 kvm_hv_hypercall code=0xb fast=1
0  13020 101 kvm_hv_send_ipi vector=0x30 processor_mask=2
0  13050 101 kvm_apic_accept_irq apicid=1 dm=0 tm=0 vec=0x30
1  13100 102 kvm_exit exit_reason=1 isa=1
1  13150 102 kvm_inj_virq vector=0x30 soft=0 reinjected=0
1  13220 102 kvm_entry vcpu_id=1
0  13300 101 kvm_entry vcpu_id=0
# timer 1 sends a message of the SynIC, 200 ns late; timer 0 is set, set anew, and then no longer followed
0  14000 101 kvm_exit exit_reason=32 isa=1
0  14005 101 kvm_hv_stimer_start_one_shot vcpu_id=0 timer_index=0 time_now=1000120 count=1000820
0  14010 101 kvm_hv_stimer_start_one_shot vcpu_id=0 timer_index=0 time_now=1000120 count=1000920
0  14020 101 kvm_hv_stimer_start_periodic vcpu_id=0 timer_index=1 time_now=1000120 exp_time=1000130
0  14100 101 kvm_entry vcpu_id=0
0  15100 101 kvm_exit exit_reason=1 isa=1
0  15220 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xf3
0  15230 101 kvm_hv_synic_set_irq vcpu_id=0 sint=2 vector=0xf3 ret=1
0  15240 101 kvm_hv_stimer_expiration vcpu_id=0 timer_index=1 direct=0 msg_send_result=0
0  15300 101 kvm_inj_virq vector=0xf3 soft=0 reinjected=0
0  15400 101 kvm_entry vcpu_id=0
# a message of a device, and a timer that nobody saw set
0  16000 101 kvm_exit exit_reason=1 isa=1
0  16100 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x41
0  16110 101 kvm_hv_synic_set_irq vcpu_id=0 sint=3 vector=0x41 ret=1
0  16120 101 kvm_hv_stimer_expiration vcpu_id=0 timer_index=3 direct=0 msg_send_result=-11
0  16200 101 kvm_inj_virq vector=0x41 soft=0 reinjected=0
0  16300 101 kvm_entry vcpu_id=0
0  17000 101 kvm_exit exit_reason=1 isa=1
0  17100 101 kvm_entry vcpu_id=0
1  17000 102 kvm_exit exit_reason=1 isa=1
1  17100 102 kvm_entry vcpu_id=1
END
ok "the host is compiled" "$mkcap" --capture "$tmp/host" "$tmp/host.txt"

# ---- names ----

run "$kvmft" report --event msr "$tmp/host"
out_has '0x40000020:R HV_X64_MSR_TIME_REF_COUNT  *1 ' "an MSR of Hyper-V has its name"
run "$kvmft" report --event hypercall "$tmp/host"
out_has 'hv:0x2 HvCallFlushVirtualAddressSpace  *1 ' "a hypercall of Hyper-V has its name"
out_has 'hv:0xb HvCallSendSyntheticClusterIpi  *1 ' "another one"

# ---- timers ----

# total NAME: the mean of the total of a row of the last run, in us
total() { sed -n "s/^[a-z]*,\"one\",\"$1\",total,1,\([0-9.]*\),.*/\1/p" "$out"; }

run "$kvmft" latency timer --format csv -q "$tmp/host"
is "$(total 'Hyper-V timer 0 of vCPU 0')" 0.600 "a synthetic timer: from when it was due to the entry"
is "$(total 'Hyper-V timer 1 of vCPU 0')" 0.380 "a periodic one, which sends a message"
run "$kvmft" latency timer -q "$tmp/host"
out_has 'armed 4; fired 2; set anew before they fired 1; not placed 1; measured 2' "what was set anew is counted"
run "$kvmft" latency timer --format json -q "$tmp/host"
out_has '"expire"' "... as JSON"

sed '/stimer_start/d' "$tmp/host.txt" >"$tmp/unset.txt"
"$mkcap" --capture "$tmp/unset" "$tmp/unset.txt"
run "$kvmft" latency timer --format csv -q "$tmp/unset"
is "$(grep -c 'Hyper-V timer' "$out")" 0 "without the event that sets it, none is measured"

# ---- sources of interrupts ----

run "$kvmft" latency irq --format csv -q "$tmp/host"
is "$(total 'IPI 48')" 0.200 "an IPI by hypercall: from that to the entry"
is "$(total 'stimer 237')" 0.100 "the interrupt of a synthetic timer"
is "$(total 'stimer 243')" 0.180 "... whose message the SynIC has brought"
is "$(total 'SynIC 65')" 0.200 "a message of a device"

# ---- the host's part of an ISR, without anything in the guest ----

# A timer's interrupt goes in at 12600; before its end, another thread has the vCPU's CPU for 3 ms. Then one of 2 ms, past it.
{
	sed '/^0  13000/,$d' "$tmp/host.txt"
	cat <<'END'
0   12700 101 kvm_exit exit_reason=1 isa=1
0   12800 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0 3012800  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
0 3012900 101 kvm_entry vcpu_id=0
0 3020000 101 kvm_exit exit_reason=1 isa=1
0 3020010 101 kvm_pv_eoi apicid=0 vector=0xed
0 3020100 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0 5020100  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
0 5020200 101 kvm_entry vcpu_id=0
0 5030000 101 kvm_exit exit_reason=1 isa=1
END
} >"$tmp/isr.txt"
sed -i '1i recorded kvm_userspace_exit kvm_mmio kvm_fast_mmio\nmeta task tid=55 tgid=55 comm=thief' "$tmp/isr.txt"
"$mkcap" --capture "$tmp/isr" "$tmp/isr.txt"
run "$kvmft" blame --what stall --format json -q "$tmp/isr"
is "$(jq -c '.spikes[:2][] | [.of, .length_ns, .cause]' "$out" | tr '\n' ' ')" \
	'["vCPU 0, in the handler of vector 237",3000200,"host-task"] ["vCPU 0",2000200,"host-task"] ' \
	"a stall within an ISR is one, and one after its end is not"
for left in kvm_inj_virq kvm_pv_eoi; do
	sed "/$left/d" "$tmp/isr.txt" >"$tmp/untold.txt"
	"$mkcap" --capture "$tmp/untold" "$tmp/untold.txt"
	run "$kvmft" blame --what stall --format json -q "$tmp/untold"
	is "$(jq -r '.spikes[].of' "$out" | sort -u)" "vCPU 0" "without $left nothing is said of a handler"
done
# A vCPU that has halted since is in none, wherever the end of that one is.
{
	sed '/^0 3020000/,$d' "$tmp/isr.txt"
	cat <<'END'
0 3020000 101 kvm_exit exit_reason=12 isa=1
0 3021000 101 kvm_entry vcpu_id=0
0 3022000 101 kvm_exit exit_reason=1 isa=1
0 3022100 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0 5020100  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
0 5020200 101 kvm_entry vcpu_id=0
0 5030000 101 kvm_exit exit_reason=1 isa=1
0 5030010 101 kvm_pv_eoi apicid=0 vector=0xed
END
} >"$tmp/halted.txt"
"$mkcap" --capture "$tmp/halted" "$tmp/halted.txt"
run "$kvmft" blame --what stall --format json -q "$tmp/halted"
is "$(jq -c '[.spikes[:2][].of]' "$out")" '["vCPU 0, in the handler of vector 237","vCPU 0"]' "one that has halted since is in none"

finish
