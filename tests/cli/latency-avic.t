#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Interrupts that AVIC delivers: doorbells, IPIs that it leaves to KVM, the IOMMU's log; what inhibits it; pages that are
# fetched while the guest goes on; windows of pause loops. Built of the kernel's formats, with times known to the ns: no
# machine with AVIC was recorded.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

cat >"$tmp/base.txt" <<'END'
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta vcpu vm=100-12 id=1 tid=102 offset=0 ratio=0 frac=48
meta task tid=100 tgid=100 comm=qemu
meta task tid=101 tgid=100 comm=CPU%200/KVM
meta task tid=102 tgid=100 comm=CPU%201/KVM
meta task tid=900 tgid=900 comm=irq/26-AMD-Vi
recorded kvm_userspace_exit kvm_mmio kvm_inj_virq kvm_apic_ipi kvm_set_irq
0   1000 101 kvm_entry vcpu_id=0
1   1000 102 kvm_entry vcpu_id=1
# a message to a vCPU that runs: 100 to its APIC, 60 to the doorbell, 140 to the handler
2   2000 100 kvm_msi_set_irq address=0xfee00000 data=0x30
2   2100 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x30
2   2110 100 kvm_apicv_accept_irq apicid=0 dm=0 tm=0 vec=0x30
2   2160 100 kvm_avic_doorbell vcpuid=0 apicid=0
# an IPI to one that halts: the CPU cannot tell it, and KVM looks for it; 200 without a CPU
1   3000 102 kvm_exit exit_reason=0x78 isa=2
1   3100 102 sched:sched_switch prev_pid=102 prev_state=1 next_pid=0
0   4000 101 kvm_exit exit_reason=0x401 isa=2
0   4010 101 kvm_avic_incomplete_ipi vcpu=0 icrh=1 icrl=0xfb id=1 index=1
0   4060 101 kvm_avic_kick_vcpu_slowpath icrh=1 icrl=0xfb index=1
0   4080 101 kvm_apicv_accept_irq apicid=1 dm=0 tm=0 vec=0xfb
0   4100 101 sched:sched_wakeup pid=102 target_cpu=1
0   4200 101 kvm_entry vcpu_id=0
1   4300   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=102
1   4400 102 kvm_vcpu_wakeup ns=1400 waited=1 valid=1
1   4500 102 kvm_entry vcpu_id=1
# the IOMMU has one for it while it halts
1   5000 102 kvm_exit exit_reason=0x78 isa=2
1   5100 102 sched:sched_switch prev_pid=102 prev_state=1 next_pid=0
3   6000 900 kvm_avic_ga_log vmid=7 vcpuid=1
3   6050 900 sched:sched_wakeup pid=102 target_cpu=1
1   6100   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=102
1   6150 102 kvm_vcpu_wakeup ns=1100 waited=1 valid=1
1   6200 102 kvm_entry vcpu_id=1
# a doorbell that nothing was posted before, and an end of interrupt that AVIC leaves to KVM
3   7100 900 kvm_avic_doorbell vcpuid=0 apicid=0
0   7200 101 kvm_exit exit_reason=0x402 isa=2
0   7210 101 kvm_avic_unaccelerated_access vcpu=0 offset=0xb0 ft=1 rw=1 vec=0x30
0   7300 101 kvm_entry vcpu_id=0
# inhibited for 500, by IRQWIN: what is accepted then is injected
0   7400 101 kvm_exit exit_reason=0x60 isa=2
0   7420 101 kvm_apicv_inhibit_changed reason=8 set=1 inhibits=0x100
2   7500 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x31
0   7600 101 kvm_inj_virq vector=0x31 soft=0 reinjected=0
0   7650 101 kvm_entry vcpu_id=0
# ... but one, which is pending when it is over
2   7700 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x32
0   7900 101 kvm_exit exit_reason=0x64 isa=2
0   7920 101 kvm_apicv_inhibit_changed reason=8 set=0 inhibits=0
0   7950 101 kvm_entry vcpu_id=0
0   9000 101 kvm_exit exit_reason=0x60 isa=2
1   9000 102 kvm_exit exit_reason=0x60 isa=2
END
cat >"$tmp/guest.txt" <<'END'
0   1100  77 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
1   1100  78 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
0   2300  77 irq:irq_handler_entry irq=30
0   2350  77 irq:irq_handler_exit irq=30
1   4600  78 irq_vectors:call_function_single_entry vector=0xfb
1   4650  78 irq_vectors:call_function_single_exit vector=0xfb
1   6300  78 irq:irq_handler_entry irq=40
1   6380  78 irq:irq_handler_exit irq=40
# an IPI from CPU to CPU, of which the host saw nothing
0   7000  77 irq_vectors:call_function_single_entry vector=0xfb
0   7050  77 irq_vectors:call_function_single_exit vector=0xfb
0   7700  77 irq:irq_handler_entry irq=31
0   7750  77 irq:irq_handler_exit irq=31
0   8000  77 irq:irq_handler_entry irq=32
0   8050  77 irq:irq_handler_exit irq=32
0   8900  77 irq:irq_handler_entry irq=39
0   8950  77 irq:irq_handler_exit irq=39
1   8900  78 irq_vectors:call_function_single_entry vector=0xfb
1   8950  78 irq_vectors:call_function_single_exit vector=0xfb
END
printf 'meta side name=guest\nmeta cpu n=0 apicid=0\nmeta cpu n=1 apicid=1\nmeta task tid=77 tgid=77 comm=victim\n' >"$tmp/guest.meta"
{ cat "$tmp/guest.meta"; sed '/^meta/d' "$tmp/guest.txt"; } >"$tmp/guest.all"
"$mkcap" --capture "$tmp/guest" "$tmp/guest.all"
# built NAME [SED]: the host, edited
built() { sed "${2:-}" "$tmp/base.txt" >"$tmp/$1.txt" && "$mkcap" --capture "$tmp/$1" "$tmp/$1.txt"; }
# stages ROW: "STAGE NS;" of the last run, without those of no time
stages()
{
	awk -v row="$1 " 'index($0, row) == 1 { on = 1; print substr($0, length(row)); next }
		on && /^ /  { print; next }
		{ on = 0 }' "$out" | awk '$1 != "cause:" && $5 > 0 { print $1, $5 * 1000 }' | tr '\n' ';'
}
# counted TEXT: it is among the counters of the last run, which may be on several lines
counted() { tr '\n' ' ' <"$out" | tr -s ' ' | grep -qF "; $1"; }
ok "the host is compiled" built host
run "$kvmft" latency irq --all --worst 0 -q "$tmp/host" "$tmp/guest=one"
status_is 0 "latency irq"
is "$(stages 'MSI irq 30')" "total 300;raise 100;notify 60;guest 140;handler 50;" "a doorbell is the notification"
is "$(stages 'IPI 251 call_function_single')" "total 590;raise 70;deliver 220;off-cpu 200;guest 100;handler 50;" \
	"an IPI that the CPU could not deliver: from that on"
is "$(stages 'GA log irq 40')" "total 300;deliver 150;off-cpu 50;guest 100;handler 80;" "... one of the IOMMU: from its log on"
out_has '^accepted 5; measured 5; ' "none of them is lost"
for n in 'posted 4' 'handlers without an interrupt of the host 3' 'doorbells of AVIC 1' 'doorbells without their interrupt 1' \
	"from the IOMMU's log 1" 'IPIs that AVIC left to KVM 1' 'accesses to the APIC that AVIC left to KVM 1' \
	'accepted while APICv was inhibited 2'; do
	ok "counted: $n" counted "$n"
done
out_has '^one: APICv was inhibited for 500 ns, by IRQWIN \(times: 1\)$' "why AVIC was inhibited, and for how long"
run "$kvmft" latency irq --format json -q "$tmp/host" "$tmp/guest=one"
is "$(jq -c '.apicv_inhibited[0] | [.vm, .by, .times, .total_ns, .still, .since_host_tsc]' "$out")" \
	'["one","IRQWIN",1,500,false,7420]' "... as JSON"

# ---- what is not there is not told ----

built norings '/kvm_avic_doorbell/d'
run "$kvmft" latency irq --all --worst 0 -q "$tmp/norings" "$tmp/guest=one"
is "$(stages 'MSI irq 30')" "total 300;raise 100;notify 10;guest 190;handler 50;" "without doorbells: until it was posted"
built nolog '/kvm_avic_ga_log/d'
run "$kvmft" latency irq --all --worst 0 -q "$tmp/nolog" "$tmp/guest=one"
out_has '^accepted 4; measured 4; ' "without the IOMMU's log its interrupts are not the host's"
built still '/inhibits=0$/d'
run "$kvmft" latency irq --all --worst 0 -q "$tmp/still"
out_has '^one: APICv was inhibited for 1\.6 us, by IRQWIN \(times: 1\); it still is, by IRQWIN, since 0\.000007$' \
	"what still inhibits it: since when"
built before 's/reason=8 set=1 inhibits=0x100/reason=8 set=1 inhibits=0x180/; s/inhibits=0$/inhibits=0x80/'
run "$kvmft" latency irq --all --worst 0 -q "$tmp/before"
out_has '^one: APICv was inhibited for 8 us, by NESTED, IRQWIN \(times: 1\); it still is, by NESTED, since before 0\.000001$' \
	"... others from before the recording"
# a second VM: whose the log's number is, the thread that was woken for it shows
built two '/^meta vcpu.*id=1/a meta vm id=200-12 pid=200 fd=12 name=two\nmeta vcpu vm=200-12 id=1 tid=201 offset=0 ratio=0 frac=48
	/kvm_avic_doorbell vcpuid=0 apicid=0$/{/ 900 /i 2   6900 201 kvm_entry vcpu_id=1
	}
	/^1   9000/i 1   8000 102 kvm_exit exit_reason=0x78 isa=2\n1   8400 102 kvm_vcpu_wakeup ns=400 waited=1 valid=1\n1   8500 102 kvm_entry vcpu_id=1
	/^3   7100/a 3   8100 900 kvm_avic_ga_log vmid=7 vcpuid=1'
run "$kvmft" latency irq --all --worst 0 -q --vm one "$tmp/two"
for n in "from the IOMMU's log 1" "entries of the IOMMU's log for an unknown vCPU 1"; do
	ok "of two VMs, the first shows which: $n" counted "$n"
done
# the host alone: to the doorbell, or the entry
run "$kvmft" latency irq --all --worst 0 -q "$tmp/host"
is "$(stages 'MSI 48')" "total 160;raise 100;notify 60;" "without a guest: to the doorbell"
is "$(stages 'GA log')" "total 200;deliver 150;off-cpu 50;" "... to the entry"
out_has '^accepted 5; measured 5; ' "... and none is lost"

# what is posted again before its vCPU enters its guest is there once
again='2   7930 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x33\n2   7931 100 kvm_apicv_accept_irq apicid=0 dm=0 tm=0 vec=0x33'
built again "/^0   7950/i $again\n$(printf %s "$again" | sed 's/793/794/g')"
run "$kvmft" latency irq --all --format json -q "$tmp/again"
is "$(jq -c '.irq.counts | [.coalesced, .never_injected]' "$out")" "[1,0]" "one that is posted twice while its vCPU is out: coalesced"

# ---- pages that are fetched while the guest goes on ----

cat >"$tmp/async.txt" <<'END'
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta task tid=101 tgid=100 comm=CPU%200/KVM
recorded sched:sched_switch sched:sched_wakeup kvm_userspace_exit kvm_mmio kvm_fast_mmio kvm_apic_accept_irq kvm_vcpu_wakeup
0   1000 101 kvm_entry vcpu_id=0
0   2000 101 kvm_exit exit_reason=0x400 isa=2
0   2010 101 kvm_page_fault vcpu_id=0 fault_address=0x5000000 error_code=6
0   2020 101 kvm_try_async_get_page gva=0x5000000 gfn=0x5000
0   2030 101 kvm_async_pf_not_present token=0x1000 gva=0x5000000
0   2100 101 kvm_entry vcpu_id=0
0   9000 101 kvm_exit exit_reason=0x60 isa=2
0   9030 101 kvm_async_pf_ready token=0x1000 gva=0x5000000
0   9040 101 kvm_async_pf_ready token=0x2000 gva=0x6000000
0   9100 101 kvm_entry vcpu_id=0
0   9500 101 kvm_exit exit_reason=0x60 isa=2
END
async() { sed "$2" "$tmp/async.txt" >"$tmp/$1.txt" && "$mkcap" --capture "$tmp/$1" "$tmp/$1.txt"; }
async pages ''
run "$kvmft" latency mem --all --worst 0 -q "$tmp/pages"
is "$(stages 'fetched meanwhile')" "total 100;kernel 100;told 7000;" "a page that the guest was told of: until it was there"
ok "... counted, and those without a beginning" counted \
	"async page faults that the guest was told of 1; ... and of which the beginning or the end was not seen 1"
async gap 's/^0   9000/0   gap 3\n&/'
run "$kvmft" latency mem --all --format csv -q "$tmp/gap"
out_has '^mem,"","... and of which the beginning or the end was not seen",counted,2,' \
	"one from before lost events has no time, and is counted once"
async lost 's/^0   9000/0   gap 3\n&/; /pf_ready token=0x1000/d'
run "$kvmft" latency mem --all --format csv -q "$tmp/lost"
out_has '^mem,"","... and of which the beginning or the end was not seen",counted,2,' "... also if its end is lost"
async unready '/kvm_async_pf_ready/d'
run "$kvmft" latency mem --all --format json -q "$tmp/unready"
is "$(jq -c '.mem.not_recorded.told' "$out")" '["host kvm:kvm_async_pf_not_present, kvm_async_pf_ready"]' \
	"without the event that it is there: not recorded"
is "$(jq '[.mem.groups[].stages.told // empty] | length' "$out")" 0 "... and no time"
# The guest's task sleeps for it, from one event of its own to another.
cat >"$tmp/wait.txt" <<'END'
0   1100  77 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0   1200  77 irq:softirq_raise vec=1
0   2200  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0
0   9150   0 sched:sched_wakeup pid=77 target_cpu=0
0   9160   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0   9200  77 irq:softirq_raise vec=2
END
{ cat "$tmp/guest.meta"; cat "$tmp/wait.txt"; } >"$tmp/wait.all"
"$mkcap" --capture "$tmp/wait" "$tmp/wait.all"
spans='--from-event irq:softirq_raise/vec==1/ --to-event irq:softirq_raise/vec==2/'
run "$kvmft" blame $spans --format json -q "$tmp/pages" "$tmp/wait=one"
is "$(jq -c '.spikes[0].parts[0] | [.cause, .name, .time_ns]' "$out")" '["page-fault","its page is fetched meanwhile",6830]' \
	"blame: its task sleeps because of the host"
run "$kvmft" blame $spans --format json -q "$tmp/unready" "$tmp/wait=one"
is "$(jq -r '.spikes[0].parts[0] | .name' "$out")" "not recorded: memory or a sleep" "... which is not told without that event"

# ---- windows of pause loops ----

cat >"$tmp/ple.txt" <<'END'
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta task tid=101 tgid=100 comm=CPU%200/KVM
recorded sched:sched_switch sched:sched_wakeup kvm_userspace_exit kvm_mmio kvm_fast_mmio kvm_apic_accept_irq kvm_vcpu_wakeup
recorded irq:softirq_entry irq_vectors:local_timer_entry
0   1000 101 kvm_entry vcpu_id=0
0   2000 101 kvm_exit exit_reason=0x77 isa=2
0   2010 101 kvm_ple_window_update vcpu_id=0 new=6000 old=3000
0 900000 101 kvm_entry vcpu_id=0
0 901000 101 kvm_exit exit_reason=0x60 isa=2
END
"$mkcap" --capture "$tmp/ple" "$tmp/ple.txt"
run "$kvmft" blame --format json -q --than 0 "$tmp/ple"
is "$(jq -c '.spikes[0].parts[0] | [.cause, .name]' "$out")" '["lock-holder","pause, its window from 3000 to 6000"]' \
	"blame: the window of a pause loop stands beside it"
finish
