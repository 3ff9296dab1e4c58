#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# No answer claims more than what was recorded: made captures from which the events that would tell are missing, or
# which contradict what one would conclude.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

# host: a capture of VM one, vCPU 0, thread 101, with the events of standard input
host()
{
	rm -rf "$tmp/host"
	{
		echo 'meta vm id=100-12 pid=100 fd=12 name=one'
		echo 'meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48'
		cat
	} >"$tmp/host.txt"
	ok "${1:-the capture is compiled}" "$mkcap" --capture "$tmp/host" "$tmp/host.txt"
}

# ---- one meaning of a sleep: TASK_IDLE is one, in 4.14 and later and before; preempted is none ----

for state in 1:sleep 0x80:sleep 0x402:sleep 0x100:robbed 0:robbed; do
	host "prev_state ${state%:*}" <<-END
		0   1000 101 kvm_entry vcpu_id=0
		0   2000 101 kvm_exit exit_reason=10 isa=1
		0   2100 101 sched:sched_switch prev_pid=101 prev_state=${state%:*} next_pid=0
		0   2800   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
		0   3000 101 kvm_entry vcpu_id=0
		0   4000 101 kvm_exit exit_reason=10 isa=1
		recorded sched:sched_wakeup kvm_userspace_exit kvm_vcpu_wakeup
	END
	run "$kvmft" latency sched -q --format json "$tmp/host"
	stolen=$(grep -o '"vcpus".*' "$out" | grep -o '"preempted":[0-9]*')
	run "$kvmft" report --split --format csv "$tmp/host"
	case ${state#*:} in
	sleep) is "$stolen $(tail -n 1 "$out" | cut -d , -f 15,17)" '"preempted":0 0.700,0.000' "... asleep" ;;
	*) is "$stolen $(tail -n 1 "$out" | cut -d , -f 15,17)" '"preempted":700 0.000,0.700' "... robbed" ;;
	esac
done

# ---- kvm_entry and kvm_exit alone, the commonest recording ----

# blame [OPTION...]: the longest spike of the host
blame()
{
	run "$kvmft" blame -q --top 1 "$@" "$tmp/host"
}

# A window that begins on one CPU and ends on another is a gap; an exit that does so left its CPU.
host <<-'END'
	0   1000 101 kvm_entry vcpu_id=0
	0   2000 101 kvm_exit exit_reason=1 isa=1
	1  90000 101 kvm_entry vcpu_id=0
	1  91000 101 kvm_exit exit_reason=12 isa=1
	1  95000 101 kvm_entry vcpu_id=0
	0 900000 101 kvm_exit exit_reason=10 isa=1
	0 901000 101 kvm_entry vcpu_id=0
END
blame
out_has '^   unknown: ' "an interrupt's exit that ends on another CPU: nobody is named"
out_has 'its thread left its CPU, not recorded: KVM, the scheduler or the VMM' "... the candidates are"
out_has 'kvmft record -e default -e sched:sched_switch' "... and how to record what would tell"
blame --format json
out_has '"sure":false.*"needs":."host sched:sched_switch","host kvm:kvm_userspace_exit".' "... in JSON, too"

# ---- a vCPU that was woken, and whose CPU sleeps on ----

host <<-'END'
	0     1000 101 kvm_entry vcpu_id=0
	0     2000 101 kvm_exit exit_reason=12 isa=1
	0     2100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
	0     2200   0 power:cpu_idle state=2 cpu_id=0
	0    50000   0 sched:sched_wakeup pid=101 target_cpu=0
	0 40050000   0 power:cpu_idle state=0xffffffff cpu_id=0
	0 40050100   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
	0 40050200 101 kvm_entry vcpu_id=0
	0 40060000 101 kvm_exit exit_reason=10 isa=1
END
blame
out_has '^1. 40.*ms .*stall' "it is a spike, without a guest"
out_has 'halt-wake: woken, its CPU 0 took long to leave idle state 2' "... and why"

# Where not all switches were recorded, who had its CPU before it had it not for all of the wait: the CPU was as late.
host "not all switches" <<-'END'
	0     1000 101 kvm_entry vcpu_id=0
	0     2000 101 kvm_exit exit_reason=12 isa=1
	0     2100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
	0     2200   0 power:cpu_idle state=2 cpu_id=0
	0    50000   0 sched:sched_wakeup pid=101 target_cpu=0
	0    50100   0 power:cpu_idle state=0xffffffff cpu_id=0
	0 40050100  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
	0 40050200 101 kvm_entry vcpu_id=0
	0 40060000 101 kvm_exit exit_reason=10 isa=1
	recorded kvm_userspace_exit kvm_vcpu_wakeup irq_vectors:local_timer_entry irq_vectors:local_timer_exit irq:softirq_entry irq:softirq_exit
END
sed -i '/ name=sched_switch$/s/$/ filter=x/' "$tmp/host/meta"
blame --format json
out_has '"cause":"host-task".*"sure":false.*"needs":."host sched:sched_switch".' "a thread that may have had it for less is not sure"

# A CPU that was offline does not mean that.
host "a CPU that was offline" <<-'END'
	meta task tid=20 tgid=20 comm=migration/0
	0      100  77 sched:sched_switch prev_pid=77 prev_state=0 next_pid=20
	0      500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
	0     1000 101 kvm_entry vcpu_id=0
	0     2000 101 kvm_exit exit_reason=12 isa=1
	0     2100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
	0     2200   0 power:cpu_idle state=2 cpu_id=0
	0    50000   0 sched:sched_wakeup pid=101 target_cpu=0
	0    50100   0 power:cpu_idle state=0xffffffff cpu_id=0
	0 40000100   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=55
	0 40050100  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=101
	0 40050200 101 kvm_entry vcpu_id=0
	0 40060000 101 kvm_exit exit_reason=10 isa=1
	recorded kvm_userspace_exit kvm_vcpu_wakeup irq_vectors:local_timer_entry irq_vectors:local_timer_exit irq:softirq_entry irq:softirq_exit
END
blame
out_has '40.*ms *99 %  halt-wake: woken, its CPU 0 took long to leave idle state 2$' "it left idle late, whoever ran for 50 us then"

# ---- who wants an idle CPU and does not get it is at a limit, also while others have that CPU ----

# One ran before that and one between, 30 ms each, longer than it was idle; who ran last may have been in its way.
robbed()
{
	at=$((85000000 + $3)) cpu=${4:+1}
	cpu=${cpu:-0}
	host "$1" <<-END
		meta task tid=55 tgid=55 comm=kworker
		0      100  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=101
		0     1000 101 kvm_entry vcpu_id=0
		0     2000 101 kvm_exit exit_reason=1 isa=1
		0     2100 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
		0 30000000  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=$2
		0 50000000   $2 sched:sched_switch prev_pid=$2 prev_state=0 next_pid=55
		0 80000000  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=$2
		0 85000000   $2 sched:sched_switch prev_pid=$2 prev_state=0 next_pid=55
		0 $at  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=${4:-101}
		${4:+1 $at 66 sched:sched_switch prev_pid=66 prev_state=1 next_pid=101}
		$cpu $((at + 100)) 101 kvm_entry vcpu_id=0
		$cpu $((at + 10000)) 101 kvm_exit exit_reason=10 isa=1
		recorded kvm_userspace_exit kvm_vcpu_wakeup sched:sched_wakeup irq_vectors:local_timer_entry irq_vectors:local_timer_exit irq:softirq_entry irq:softirq_exit
	END
	run "$kvmft" blame -q --top 1 --format json "$tmp/host"
}
robbed "idle twice" 0 10000000
out_has '"cause":"throttled".*"sure":true' "a limit, whatever ran meanwhile"
out_has '"cause":"throttled","[^}]*"time_ns":84997900.*"cause":"host-task",[^}]*"time_ns":10000000' "... since it lost its CPU until that idled last"
robbed "idle twice, then not for long" 0 90000000
out_has '"cause":"host-task".*"sure":false' "... after that the limit may have gone on: not sure"
robbed "idle twice, then on another CPU" 0 10000000 77
out_has '"cause":"unknown".*"name":"it lost its CPU, and got another one later","time_ns":65000000' \
	"... who gets another CPU may have waited for that one since the old one idled"
robbed "never idle" 66 10000000
out_has '"cause":"host-task".*"sure":true' "... and without idling there is none"

# ---- an exit that KVM does not leave for long: an interrupt may have come, if these were not recorded ----

for irqs in "" "irq_vectors:local_timer_entry irq_vectors:local_timer_exit irq:softirq_entry irq:softirq_exit" \
	"irq_vectors:local_timer_entry irq:softirq_entry"; do
	for ms in 3 30; do
		host "an MSR, $ms ms${irqs:+, interrupts recorded: $irqs}" <<-END
			0     1000 101 kvm_entry vcpu_id=0
			0     2000 101 kvm_exit exit_reason=32 isa=1
			0 ${ms}000000 101 kvm_entry vcpu_id=0
			0 ${ms}100000 101 kvm_exit exit_reason=10 isa=1
			recorded kvm_userspace_exit kvm_vcpu_wakeup sched:sched_switch sched:sched_wakeup $irqs
		END
		blame
		case $ms$irqs in
		30 | 30*entry) out_has 'unknown: not recorded: KVM or an interrupt of the host$' "... or an interrupt"
			out_has "record -e default -e 'irq_vectors:\*' -e irq:softirq_entry -e irq:softirq_exit" "... what to record" ;;
		*) out_has 'exit-kernel: MSR_WRITE$' "... is KVM's" ;;
		esac
	done
done

# ---- handlers of the host, of which one end is not recorded: they do not go on for ever ----

cat >"$tmp/handlers" <<'END'
0     1000 101 kvm_entry vcpu_id=0
0     2000 101 kvm_exit exit_reason=30 isa=1
0     2100 101 kvm_userspace_exit reason=2 errno=0
0     3000 101 irq:irq_handler_entry irq=4 name=uart
0     4000 101 irq:irq_handler_exit irq=4
0     4500 101 irq_vectors:reschedule_entry vector=253
0     4600 101 irq_vectors:reschedule_exit vector=253
0     5000 101 irq_vectors:local_timer_entry vector=236
0     6000 101 irq_vectors:local_timer_exit vector=236
0     7000 101 irq:softirq_entry vec=1
0     8000 101 irq:softirq_exit vec=1
0 30000000 101 kvm_entry vcpu_id=0
0 30100000 101 kvm_exit exit_reason=10 isa=1
recorded kvm_vcpu_wakeup sched:sched_switch sched:sched_wakeup
END
for lacks in irq_handler_exit local_timer_exit softirq_exit; do
	grep -v "$lacks" "$tmp/handlers" >"$tmp/fewer"
	host "a handler without $lacks" <"$tmp/fewer"
	blame
	out_has '^   exit-user: the VMM took long to handle an exit, on a CPU, 99 %' "... is the VMM's"
done

# ---- a line that was raised, or came down, long before its thread slept and sent a message ----

for lacks in "" kvm_msi_set_irq; do
	host "an interrupt${lacks:+, no $lacks}" <<-END
		1      900 100 kvm_set_irq gsi=8 level=1 irq_source_id=0
		1      950 100 sched:sched_switch prev_pid=100 prev_state=1 next_pid=0
		0     1000 101 kvm_entry vcpu_id=0
		1  2000000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=100
		1  2000500 100 kvm_set_irq gsi=8 level=0 irq_source_id=0
		$([ "$lacks" ] || echo 1 9000000 100 kvm_msi_set_irq address=0xfee00000 data=0x30)
		1  9000100 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x30
		0  9000200 101 kvm_exit exit_reason=1 isa=1
		0  9000300 101 kvm_inj_virq vector=0x30 soft=0 reinjected=0
		0  9000400 101 kvm_entry vcpu_id=0
		recorded kvm_apic_ipi
	END
	run "$kvmft" latency irq -q --format csv "$tmp/host"
	is "$(grep '^irq,.*,total,' "$out" | cut -d , -f 3,6)" "$([ "$lacks" ] && echo '"48",0.300' || echo '"MSI 48",0.400')" \
		"... began with the message"
done

# ---- an interrupt for a vCPU in its guest, which was slow to leave, and then less long in the VMM ----

for lacks in "" kvm_userspace_exit; do
	host "an interrupt${lacks:+, no $lacks}" <<-END
		0   500  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=101
		0  1000 101 kvm_entry vcpu_id=0
		1  2000  55 kvm_msi_set_irq address=0xfee00000 data=0x30
		1  2100  55 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x30
		0 80000 101 kvm_exit exit_reason=1 isa=1
		$([ "$lacks" ] || echo 0 80100 101 kvm_userspace_exit reason=10 errno=0)
		0 99000 101 kvm_inj_virq vector=0x30 soft=0 reinjected=0
		0 99100 101 kvm_entry vcpu_id=0
		0 99200 101 kvm_exit exit_reason=10 isa=1
		recorded sched:sched_wakeup kvm_vcpu_wakeup
	END
	run "$kvmft" latency irq -q --format json "$tmp/host"
	is "$(grep -o '"cause":"[a-z_]*"' "$out" | sort -u)" '"cause":"kick"' "... the kick"
done

# ---- report: parts of an exit, and windows that cannot be ----

# split FORMAT: report --split of the host
split()
{
	run "$kvmft" report --split --format "$1" -i "$tmp/host"
}

# One window ends on another CPU (9 s), one in lost events; an exit whose entry is on another CPU; a halt.
host <<-'END'
	0       1000 101 kvm_entry vcpu_id=0
	0       2000 101 kvm_exit exit_reason=12 isa=1
	0      10000 101 kvm_entry vcpu_id=0
	1 9000000000 101 kvm_exit exit_reason=30 isa=1
	1 9000001000 101 kvm_entry vcpu_id=0
	1 9000002000 101 kvm_exit exit_reason=30 isa=1
	0 9000009000 101 kvm_entry vcpu_id=0
	0 gap 7
	0 9500000000 101 kvm_exit exit_reason=12 isa=1
	0 9500001000 101 kvm_entry vcpu_id=0
END
split text
out_has '^Guest run time:2.00us in 2 entries' "windows that end on another CPU, or in a hole, are none"
out_has '^# 2 entries whose exit was on another CPU, or came after lost events' "... and are counted"
out_has '^# 1 exits whose entry was on another CPU: their threads were off their CPU' "so are exits that moved"
out_has '^ *HLT .* [?] .*100.00% not recorded: blocked or waiting$' "without sched_switch a halt is not the kernel's"
out_has '^ *IO_INSTRUCTION .* [?] .*100.00% not recorded: KVM, the scheduler or the VMM$' "... nor is another exit"
is "$(grep -c 'kvmft record -e default' "$out")" 1 "... one note says how to record what would tell"
split json
out_has '"cut_windows":2,"moved_exits":1' "in JSON, too: windows"
out_has '"needs":."host sched:sched_switch","host sched:sched_wakeup","host kvm:kvm_userspace_exit"' "... what is needed"
out_has '"event":"HLT".*"kernel_ns":null.*"unknown_ns":[0-9]*,"may_be":"not recorded: blocked or waiting"' "... parts"
split csv
out_has 'HLT,.*,,,,,,,[0-9.]*,not recorded: blocked or waiting$' "in CSV, too"
err_has '2 entries whose exit was on another CPU' "... with the notes beside it"
run "$kvmft" latency sched -q --format json "$tmp/host"
is "$(grep -o '"guest":[0-9]*' "$out")" '"guest":2000' "latency: the guest ran in whole windows alone"
split openmetrics
out_has 'exit_part_seconds{vm="one",.*part="unknown"}' "in OpenMetrics, too"
is "$(grep -c 'part_seconds{.*part="kernel"' "$out")" 0 "... no part that is not known"
run "$kvmft" report --split --event vmexit --vcpu 0 --format csv -i "$tmp/host"
out_has '^one,0,HLT,.*,,,,,,,' "of one vCPU, too"

# Without kvm_userspace_exit alone, kernel and user are not told apart, nor whose sleep that is which is no halt's.
host <<-'END'
	0   1000 101 kvm_entry vcpu_id=0
	0   2000 101 kvm_exit exit_reason=30 isa=1
	0   2100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=55
	0   2400  55 sched:sched_wakeup pid=101
	0   2500  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
	0   2600 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
	0   2800  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
	0   3000 101 kvm_entry vcpu_id=0
	0   4000 101 kvm_exit exit_reason=12 isa=1
	0   4100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
	0   4800   0 sched:sched_wakeup pid=101
	0   4800   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
	0   4900 101 kvm_vcpu_wakeup ns=800 waited=1 valid=1
	0   5000 101 kvm_entry vcpu_id=0
	recorded kvm_halt_poll_ns
END
split csv
out_has '^one,,IO_INSTRUCTION,.*,1.000,,,0.000,,0.100,0.200,0.700,not recorded: KVM or the VMM$' "no kvm_userspace_exit"
out_has '^one,,HLT,.*,1.000,,,0.100,0.700,0.000,0.000,0.200,not recorded: KVM or the VMM$' "... in a halt"
# Without sched_wakeup a sleep in the VMM may have been over long before it got its CPU.
host <<-'END'
	0   1000 101 kvm_entry vcpu_id=0
	0   2000 101 kvm_exit exit_reason=30 isa=1
	0   2050 101 kvm_userspace_exit reason=2
	0   2100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=55
	0   2800  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
	0   2900 101 kvm_pio rw=1 port=0x60 size=1 count=1 val=0
	0   3000 101 kvm_entry vcpu_id=0
END
split csv
out_has '^one,,IO_INSTRUCTION,.*,1.000,0.150,,[^,]*,,,0.000,0.850,not recorded: ' "no sched_wakeup"
# A thread that was seen to leave its CPU while its late exit was to come has moved: that is no gap.
host <<-'END'
	0   1000 101 kvm_entry vcpu_id=0
	0   2000 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
	1   2500  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
	1   3000 101 kvm_exit exit_reason=0x60 isa=2
	1   3100 101 kvm_entry vcpu_id=0
	recorded sched:sched_wakeup kvm_userspace_exit kvm_vcpu_wakeup
END
split text
out_has '^Guest run time:1.50us in 1 entries' "a thread that is seen to move within a window"

# An exit while another CPU's events were lost, or all of its are missing: its thread may have been there, and back, unless
# its switches say that it stayed, or it is too short (the second one).
for lost in gap missing; do
	for of in nothing:1 left:1 stayed:2; do
		host "$lost, ${of%:*}" <<-END
			0   1000 101 kvm_entry vcpu_id=0
			1   1500  55 kvm_fpu load=1
			0   2000 101 kvm_exit exit_reason=30 isa=1
			$([ ${of%:*} != left ] || echo '0   2100 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55')
			$([ $lost = missing ] || echo '1 gap 7')
			1  80000  55 kvm_fpu load=1
			$([ ${of%:*} != left ] || echo '0  89000  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101')
			0  90000 101 kvm_entry vcpu_id=0
			0 100000 101 kvm_exit exit_reason=30 isa=1
			0 100001 101 kvm_entry vcpu_id=0
			$([ ${of%:*} = nothing ] || echo 'recorded sched:sched_switch')
		END
		[ $lost = gap ] || echo 'stats when=end cpu=2 entries=0 overrun=0 commit_overrun=0 dropped=0 read=9 subbufs=1' >>"$tmp/host/meta"
		for split in '' --split; do
			# shellcheck disable=SC2086 # an option
			run "$kvmft" report $split --format csv -i "$tmp/host"
			is "$(sed -n 2p "$out" | cut -d , -f 4)" "${of#*:}" "... pairs${split:+, $split}"
		done
	done
done

# ---- a CPU of which nothing is there, though it had events: whatever left the others may have run on it ----

for gone in host guest; do
	host "$gone, a CPU is gone" <<-END
		0   1000 101 kvm_entry vcpu_id=0
		0   2000 101 kvm_exit exit_reason=1 isa=1
		0   2010 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
		0   2500  55 kvm_fpu load=1
		0 9000000  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
		0 9001000 101 kvm_entry vcpu_id=0
		0 9002000 101 kvm_exit exit_reason=1 isa=1
		recorded sched:sched_wakeup kvm_userspace_exit kvm_vcpu_wakeup irq:softirq_entry irq:softirq_exit irq_vectors:local_timer_entry irq_vectors:local_timer_exit
		meta task tid=55 tgid=55 comm=thief
	END
	{
		echo 'meta side name=guest'
		echo 'recorded sched:sched_switch irq:softirq_entry irq:softirq_exit'
		echo '0    1100 78 sched:sched_wakeup pid=79 target_cpu=0'
		echo '0 9001100 78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=79'
	} >"$tmp/guest.txt"
	rm -rf "$tmp/guest"
	ok "... and its guest" "$mkcap" --capture "$tmp/guest" "$tmp/guest.txt"
	run "$kvmft" blame -q --format json "$tmp/host" "$tmp/guest=one"
	status_is 0 "... complete: exit 0"
	out_has '"cause":"host-task",.*"sure":true' "... and sure"
	out_has '"what":"wakeup"' "... and a task that waited"
	echo 'stats when=end cpu=1 entries=0 overrun=0 commit_overrun=0 dropped=0 read=9 subbufs=1' >>"$tmp/$gone/meta"
	run "$kvmft" blame -q --format json "$tmp/host" "$tmp/guest=one"
	status_is 3 "... without CPU 1 of the $gone: exit 3"
	if [ "$gone" = host ]; then
		is "$(grep -cE '"sure":true|"cause":"[^lu]' "$out")" 0 "... no cause is named"
	else
		is "$(grep -c '"what":"wakeup"' "$out")" 0 "... no wait of a task is found"
	fi
done

# A trace.dat of some CPUs only (trace-cmd record -M) does not say so, but threads were woken on the others. Without wakeups
# a CPU without events may have been offline, or not recorded; where none was woken there, it was offline.
# A filter (-P) leaves out all events of other threads, so of these it says nothing sure.
for target in 1:lost:false:55 1:host-task:false:77 0:host-task:true:55 none:host-task:false:; do
	woken=${target##*:} target=${target%:*}
	host "an empty CPU of a trace.dat, thread $woken woken on ${target%%:*}" <<-END
		0    1000 101 kvm_entry vcpu_id=0
		0    2000 101 kvm_exit exit_reason=1 isa=1
		0    2010 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
		0 2500 55 kvm_set_irq gsi=1 level=1
		$([ ${target%%:*} = none ] || for i in $(seq 1100); do echo '0 2500 55 sched:sched_wakeup pid=55 target_cpu=0'; done)
		$([ ${target%%:*} = none ] || printf '0 2500 55 sched:sched_wakeup pid=%s target_cpu=%s\n' $woken ${target%%:*} $woken ${target%%:*})
		0 9000000  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
		0 9001000 101 kvm_entry vcpu_id=0
		0 9002000 101 kvm_exit exit_reason=1 isa=1
		0 9003000 101 kvm_entry vcpu_id=0
		recorded kvm_userspace_exit kvm_vcpu_wakeup irq:softirq_entry irq:softirq_exit irq_vectors:local_timer_entry irq_vectors:local_timer_exit
	END
	: >"$tmp/host/seg000000/cpu1"
	rm -f "$tmp/some.dat"
	ok "... as trace.dat" "$kvmft" export -q -i "$tmp/host" -o "$tmp/some.dat"
	run "$kvmft" blame --top 1 --format json "$tmp/some.dat"
	out_has "\"cause\":\"$(echo $target | cut -d : -f 2)\",.*\"sure\":${target##*:}" "... blame"
	case $target in
	*:false) run "$kvmft" blame --top 1 "$tmp/some.dat" && out_has 'all CPUs: one has no events' "... and what would make it sure" ;;
	esac
	case $target in
	1:lost:*) status_is 3 "... exit 3" && err_has 'CPU 1 was not recorded' "... and why" ;;
	*) status_is 0 "... exit 0" ;;
	esac
done

# ---- a request whose doorbell is not known: the VMM or its disk may have had it, whatever its vCPU did ----

for bell in known unknown; do
	host "a request, its doorbell $bell" <<-END
		0   1000 101 kvm_entry vcpu_id=0
		0  20000 101 kvm_exit exit_reason=48 isa=1
		$([ $bell = unknown ] || echo '0  20100 101 kvm_fast_mmio gpa=0xfebf3000')
		0  21000 101 kvm_entry vcpu_id=0
		0  30000 101 kvm_exit exit_reason=1 isa=1
		0  30010 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
		0 5000000  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
		0 5000100 101 kvm_entry vcpu_id=0
		0 5500000 101 kvm_exit exit_reason=1 isa=1
		0 5500100 100 kvm_msi_set_irq address=0xfee00000 data=0x26
		0 5500200 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
		0 5500300 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
		0 5500400 101 kvm_entry vcpu_id=0
		0 5990000 101 kvm_exit exit_reason=1 isa=1
		recorded sched:sched_wakeup kvm_userspace_exit kvm_vcpu_wakeup irq:softirq_entry irq:softirq_exit irq_vectors:local_timer_entry irq_vectors:local_timer_exit
		recorded block:block_rq_issue block:block_rq_complete $([ $bell = unknown ] || echo kvm_mmio)
		meta task tid=55 tgid=55 comm=thief
	END
	{
		echo 'meta side name=guest'
		echo 'recorded sched:sched_switch sched:sched_wakeup irq:softirq_entry irq:softirq_exit'
		echo '0   15000 78 block:block_rq_issue dev=0xfe00000 sector=2048 nr_sector=8 bytes=4096'
		echo '0 5500500 78 irq:irq_handler_entry irq=38'
		echo '0 5500600 78 block:block_rq_complete dev=0xfe00000 sector=2048 nr_sector=8'
		echo '0 5500700 78 irq:irq_handler_exit irq=38'
	} >"$tmp/guest.txt"
	rm -rf "$tmp/guest"
	ok "... and its guest" "$mkcap" --capture "$tmp/guest" "$tmp/guest.txt"
	run "$kvmft" blame -q --what io --format json "$tmp/host" "$tmp/guest=one"
	status_is 0 "... exit 0"
	case $bell in
	known) out_has '"cause":"vmm"' "... the VMM had it" ;;
	*)
		out_has '"cause":"unknown",.*"sure":false,.*the VMM, the host.s disk' "... not known, and who it may have been"
		out_has '"needs":\["host kvm:kvm_mmio, kvm:kvm_fast_mmio"' "... and what would tell"
		;;
	esac
done

# ---- lost events of the host hide nothing of what the guest runs ----

host "a host's loss, in a guest's softirq" <<-END
	0     1000 101 kvm_entry vcpu_id=0
	0    10000 101 kvm_exit exit_reason=10 isa=1
	0    11000 101 kvm_entry vcpu_id=0
	0  1000000 101 kvm_exit exit_reason=10 isa=1
	0  gap 10
	0  1100000 101 kvm_entry vcpu_id=0
	0 40100000 101 kvm_exit exit_reason=10 isa=1
	recorded sched:sched_switch sched:sched_wakeup kvm_userspace_exit kvm_vcpu_wakeup irq:softirq_entry irq:softirq_exit irq_vectors:local_timer_entry irq_vectors:local_timer_exit
END
for end in 40050000 1050000; do # in the softirq until the end, or left meanwhile
	cat >"$tmp/guest.txt" <<-END
		meta side name=guest
		meta task tid=60 tgid=60 comm=waits
		0     5000 50 sched:sched_switch prev_pid=60 prev_state=1 next_pid=50
		0    12000 50 irq:softirq_entry vec=1
		0    13000 50 sched:sched_wakeup pid=60 target_cpu=0
		0     $end 50 irq:softirq_exit vec=1
		0 40060000 50 sched:sched_switch prev_pid=50 prev_state=0 next_pid=60
		recorded irq:irq_handler_entry irq:irq_handler_exit
	END
	rm -rf "$tmp/guest"
	ok "... and its guest" "$mkcap" --capture "$tmp/guest" "$tmp/guest.txt"
	run "$kvmft" blame -q --what wakeup "$tmp/host" "$tmp/guest=one"
	case $end in
	4*) out_has '^   guest-handler: the guest served interrupts or softirqs, 99 % .not sure.$' "... it is in that before and after" ;;
	*) out_has '^   guest-sched: the guest had not switched to the task yet, 97 % .not sure.$' "... it is not in that any more" ;;
	esac
done

# ---- ... and those of a guest nothing of what its host does ----

host "a guest's loss, in an interrupt of its host" <<-END
	meta vcpu vm=100-12 id=1 tid=102 offset=0 ratio=0 frac=48
	0   1000 101 kvm_entry vcpu_id=0
	1   1000 102 kvm_entry vcpu_id=1
	0   2000 101 kvm_exit exit_reason=1 isa=1
	0   2010 101 irq:irq_handler_entry irq=17
	0  90000 101 irq:irq_handler_exit irq=17 ret=1
	0  91000 101 kvm_entry vcpu_id=0
	0  95000 101 kvm_exit exit_reason=1 isa=1
	1  95000 102 kvm_exit exit_reason=1 isa=1
	recorded sched:sched_switch sched:sched_wakeup kvm_userspace_exit irq:softirq_entry irq:softirq_exit irq_vectors:local_timer_entry irq_vectors:local_timer_exit
END
cat >"$tmp/guest.txt" <<-END
	meta side name=guest
	1  5000 50 irq:softirq_entry vec=1
	1  gap 4
	1 50000 50 irq:softirq_exit vec=1
END
rm -rf "$tmp/guest"
ok "... and its guest" "$mkcap" --capture "$tmp/guest" "$tmp/guest.txt"
run "$kvmft" blame -q --what stall --format json "$tmp/host" "$tmp/guest=one"
out_has '"cause":"host-irq","name":"interrupt 17","time_ns":87990' "... it was in that all the while"

# ---- a guest's file that was put on its host's time: its deadlines are of another clock, and long over when they are set ----

host "deadlines of another clock" <<-END
	0 5000000000 101 kvm_entry vcpu_id=0
	0 5000001000 101 kvm_exit exit_reason=32 isa=1
	0 5000001100 101 kvm_msr write=1 ecx=0x6e0 data=4000000
	0 5000001200 101 kvm_entry vcpu_id=0
	0 5004000000 101 kvm_exit exit_reason=1 isa=1
	0 5004000100 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xec
	0 5004000200 101 kvm_entry vcpu_id=0
	0 5005000000 101 kvm_exit exit_reason=1 isa=1
	recorded sched:sched_switch sched:sched_wakeup kvm_userspace_exit kvm_vcpu_wakeup
END
run "$kvmft" blame -q --format json "$tmp/host"
is "$(grep -c '"what":"timer"' "$out")" 0 "... its timer was not late"
out_has 'timer is left out: the guest sets its timer by its TSC' "... and it is said why"

finish
