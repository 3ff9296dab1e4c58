#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft latency`: what crosses the beginning or the end of a recording, or an end of interrupt, is not
# measured but counted, in all analyses and forms. Stamps are ns; each capture is a few events, in which a reader
# can see what is right.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden
here=$(dirname "$0")

# capture SIDE NAME: one with the facts of the golden ones, and the events of standard input.
capture()
{
	{ sed -n '/^meta/p' "$golden/latency-$1.txt" && cat; } >"$tmp/$2.txt"
	rm -rf "${tmp:?}/$2"
	"$mkcap" --capture "$tmp/$2" "$tmp/$2.txt"
}

# told KIND HOST GUEST COUNTS NAME: the text has this line of what was counted; the JSON adds up; so says the CSV.
told()
{
	run "$kvmft" latency "$1" --all --worst 2 --context 0 -q "$tmp/$2" "$tmp/$3=one"
	is "$(grep -E "^(accepted|armed|issued|intervals) " "$out")" "$4" "$5"
	run "$kvmft" latency "$1" --all --format json -q "$tmp/$2" "$tmp/$3=one"
	if command -v python3 >/dev/null; then
		ok "... the parts are the whole" python3 "$here/latency_sums.py" "$out"
	else
		skip "... the parts are the whole" "python3 is not installed"
	fi
	run "$kvmft" latency "$1" --all --format csv -q "$tmp/$2" "$tmp/$3=one"
	echo "$4" | sed 's/; */\n/g' | while read -r line; do
		grep -qF "$1,\"\",\"${line% *}\",counted,${line##* }," "$out" || echo "$line"
	done >"$tmp/missing"
	is "$(cat "$tmp/missing")" "" "... and so says the CSV"
}

# ---- the guest's recording begins between an injection and the handler of another one ----

capture host early-host <<'END'
0   1000 101 kvm_exit exit_reason=1 isa=1
1   1900 100 kvm_msi_set_irq address=0xfee00000 data=0x26
1   1950 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
0   2000 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0   2100 101 kvm_entry vcpu_id=0
0   9700 101 kvm_exit exit_reason=1 isa=1
1   9710 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
0   9750 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0   9760 101 kvm_entry vcpu_id=0
0   9900 101 kvm_exit exit_reason=1 isa=1
END
capture guest early-guest <<'END'
0   9000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0   9500  77 irq:irq_handler_entry irq=30 common_flags=9
0   9600  77 irq:irq_handler_exit irq=30 common_flags=9
0   9800  77 irq:irq_handler_entry irq=30 common_flags=9
0   9850  77 irq:irq_handler_exit irq=30 common_flags=9
END
told irq early-host early-guest \
	"accepted 2; measured 1; outside the guest's capture 1; handlers without an interrupt of the host 1" \
	"what went in before the guest recorded is not of its first handler"

# ---- an interrupt that ended, and a handler that comes later ----

# ended NAME COUNTS SINCE HOST GUEST: the first one is measured; of the second nothing but its EOI is seen; then the
# host's and the guest's events; at 8500 a handler of which the host knows nothing.
ended()
{
	capture host ended-host <<END
0   1000 101 kvm_exit exit_reason=1 isa=1
1   1900 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
0   2000 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0   2100 101 kvm_entry vcpu_id=0
0   2800 101 kvm_exit exit_reason=32 isa=1
1   2900 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
0   3000 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0   3100 101 kvm_entry vcpu_id=0
0   3200 101 kvm_exit exit_reason=32 isa=1
0   3210 101 kvm_eoi apicid=0 vector=0x26
0   3300 101 kvm_entry vcpu_id=0
$3
0   9900 101 kvm_exit exit_reason=1 isa=1
END
	capture guest ended-guest <<END
0   1100   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0   2150  77 irq:irq_handler_entry irq=30 common_flags=9
0   2250  77 irq:irq_handler_exit irq=30 common_flags=9
$4
0   8500  77 irq:irq_handler_entry irq=30 common_flags=9
0   8600  77 irq:irq_handler_exit irq=30 common_flags=9
END
	told irq ended-host ended-guest "$2" "$1"
}
stray="handlers without an interrupt of the host 1"
ended "an end of interrupt, and the vCPU halts: no later handler is its own" \
	"accepted 2; measured 1; ended (EOI) before a handler was seen 1; $stray" \
	"0   4000 101 kvm_exit exit_reason=12 isa=1
0   4400 101 kvm_entry vcpu_id=0" ""
ended "... and the vCPU takes another interrupt" \
	"accepted 3; measured 2; ended (EOI) before a handler was seen 1; $stray" \
	"0   4000 101 kvm_exit exit_reason=1 isa=1
1   4100 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x41
0   4200 101 kvm_inj_virq vector=0x41 soft=0 reinjected=0
0   4300 101 kvm_entry vcpu_id=0" \
	"0   4350  77 irq:irq_handler_entry irq=31 common_flags=9
0   4360  77 irq:irq_handler_exit irq=31 common_flags=9"
ended "... and the guest has interrupts on" \
	"accepted 2; measured 1; ended (EOI) before a handler was seen 1; $stray" \
	"" "0   4000  77 timer:hrtimer_cancel hrtimer=0x10"
ended "... and the guest switches tasks" \
	"accepted 2; measured 1; ended (EOI) before a handler was seen 1; $stray" \
	"" "0   4000  77 sched:sched_switch prev_pid=77 prev_state=0 next_pid=78 common_flags=1"
ended "... and the guest is left and entered many times" \
	"accepted 2; measured 1; ended (EOI) before a handler was seen 1; $stray" \
	"$(for i in 1 2 3 4 5; do
		echo "0 4${i}00 101 kvm_exit exit_reason=1 isa=1"
		echo "0 4${i}50 101 kvm_entry vcpu_id=0"
	done)" ""
ended "... and its handler, which comes behind it, is its own" \
	"accepted 2; measured 2; $stray" \
	"" "0   3350  77 irq:irq_handler_entry irq=30 common_flags=9
0   3450  77 irq:irq_handler_exit irq=30 common_flags=9"

# ---- an injection that is past, without an end of interrupt ----

sed '/kvm_eoi/d; /^0   9900/i 0   4000 101 kvm_exit exit_reason=12 isa=1\n0   4400 101 kvm_entry vcpu_id=0' "$tmp/ended-host.txt" >"$tmp/past-host.txt"
"$mkcap" --capture "$tmp/past-host" "$tmp/past-host.txt"
sed '/^0   3[34]50/d' "$tmp/ended-guest.txt" >"$tmp/past-guest.txt"
"$mkcap" --capture "$tmp/past-guest" "$tmp/past-guest.txt"
told irq past-host past-guest "accepted 2; measured 1; injected, handler not seen 1; $stray" \
	"an interrupt without EOI events, and the vCPU halts"

# ---- the host's recording begins, and ends, while things are on their way ----

capture host part-host <<'END'
# accepted before it began; the same vector again is measured
0   1000 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0   1100 101 kvm_entry vcpu_id=0
# a deadline, and its interrupt
0   1400 101 kvm_exit exit_reason=32 isa=1
0   1410 101 kvm_msr write=1 ecx=0x6e0 data=1450 exception=0
0   1460 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xec
0   1470 101 kvm_inj_virq vector=0xec soft=0 reinjected=0
0   1480 101 kvm_entry vcpu_id=0
0   2000 101 kvm_exit exit_reason=1 isa=1
0   2010 101 kvm_msr write=1 ecx=0x6e0 data=2500 exception=0
1   2100 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
0   2200 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0   2300 101 kvm_entry vcpu_id=0
# a doorbell at 2450; the timer fires, and the recording ends before its handler begins
0   2450 101 kvm_exit exit_reason=48 isa=1
0   2460 101 kvm_fast_mmio gpa=0xfebf3000
0   2510 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xec
0   2600 101 kvm_inj_virq vector=0xec soft=0 reinjected=0
0   2700 101 kvm_entry vcpu_id=0
END
capture guest part-guest <<'END'
0    400   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0    500  77 block:block_rq_issue dev=0xfe00000 sector=512 nr_sector=8 bytes=4096
0   1150  77 irq:irq_handler_entry irq=30 common_flags=9
0   1250  77 irq:irq_handler_exit irq=30 common_flags=9
0   1300  77 block:block_rq_complete dev=0xfe00000 sector=512 nr_sector=8
0   1350  77 block:block_rq_issue dev=0xfe00000 sector=2048 nr_sector=8 bytes=4096
0   1500  77 irq_vectors:local_timer_entry vector=236 common_flags=9
0   1510  77 irq_vectors:local_timer_exit vector=236 common_flags=9
0   1600  77 block:block_rq_complete dev=0xfe00000 sector=2048 nr_sector=8
0   2350  77 irq:irq_handler_entry irq=30 common_flags=9
0   2400  77 irq:irq_handler_exit irq=30 common_flags=9
0   2420  77 block:block_rq_issue dev=0xfe00000 sector=1024 nr_sector=8 bytes=4096
0   9500  77 irq_vectors:local_timer_entry vector=236 common_flags=9
0   9600  77 irq_vectors:local_timer_exit vector=236 common_flags=9
0   9700  77 irq:irq_handler_entry irq=30 common_flags=9
0   9800  77 block:block_rq_complete dev=0xfe00000 sector=1024 nr_sector=8
0   9900  77 irq:irq_handler_exit irq=30 common_flags=9
END
told irq part-host part-guest \
	"accepted 4; measured 2; begun before the host's capture 1; open at the end 1" \
	"interrupts that the host saw part of"
told timer part-host part-guest "armed 2; fired 2; measured 1; fired, handler not seen 1" \
	"a timer whose handler begins behind the end of the host's capture"
told io part-host part-guest "issued 3; completed 1; without a doorbell of their own 1; without a known interrupt 1; outside the host's capture 2; with unknown waits of the VMM's threads 1" \
	"requests from before the host's capture began, and until after it ended"

# ---- high-resolution timers: due before the host recorded, expired after it ----

capture host hrt-host <<'END'
0   1000 101 kvm_entry vcpu_id=0
0   1900 101 kvm_exit exit_reason=1 isa=1
0   1910 101 kvm_msr write=1 ecx=0x6e0 data=0 exception=0
0   1920 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x30
0   2000 101 kvm_entry vcpu_id=0
END
capture guest hrt-guest <<'END'
meta time tsc=0 width=0 mono_raw=1000000 mono=1000000 boot=1000000 real=1608130130000000000
meta time tsc=1000000 width=0 mono_raw=2000000 mono=2000000 boot=2000000 real=1608130130001000000
0    500  77 timer:hrtimer_start hrtimer=0x10 function=0xaa expires=1000900
0    600  77 timer:hrtimer_start hrtimer=0x20 function=0xbb expires=1001500
0    700  77 timer:hrtimer_start hrtimer=0x30 function=0xcc expires=1001950
0   1100  77 timer:hrtimer_expire_entry hrtimer=0x10 now=1001050 function=0xaa
0   1600  77 timer:hrtimer_expire_entry hrtimer=0x20 now=1001550 function=0xbb
0   9000  77 timer:hrtimer_expire_entry hrtimer=0x30 now=1008950 function=0xcc
END
run "$kvmft" latency timer --all --format json -q "$tmp/hrt-host" "$tmp/hrt-guest=one"
out_has '"started":3,"expired":1,.*"outside_host":2' "timers that the host saw part of"
ok "... the parts are the whole" python3 "$here/latency_sums.py" "$out"

# ---- the task that stolen time hit is not known before the guest was recorded, nor after it ----

capture host stolen-host <<'END'
0    100 101 kvm_entry vcpu_id=0
0    200 101 kvm_exit exit_reason=1 isa=1
0    210 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0    250  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
0   1000 101 kvm_entry vcpu_id=0
0   2000 101 kvm_exit exit_reason=1 isa=1
0   2100 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0   2200  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
0   2300 101 kvm_entry vcpu_id=0
0   7000 101 kvm_exit exit_reason=1 isa=1
0   7100 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0   7400  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
0   7500 101 kvm_entry vcpu_id=0
END
capture guest stolen-guest <<'END'
0   1100   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0   2400  77 irq:softirq_raise vec=1
END
told sched stolen-host stolen-guest "intervals 3; outside the guest's capture 2" "stolen time outside the guest's capture"
run "$kvmft" latency sched --all -q "$tmp/stolen-host" "$tmp/stolen-guest=one"
out_has '^  most of it: \(outside its capture\) 77 %, victim-77 22 %' "... is said so"
is "$(sed -n '/^Guest task/,$ s/^\([^ -].*[^ ]\) *total .*/\1/p' "$out" | head -n 1)" "(outside its capture)" \
	"... and has its place by what it is, not behind all others"

# ---- a thread that gives up a CPU which it never got: how long it waited for that is not known ----

capture host unseen-host <<'END'
0    100 101 kvm_entry vcpu_id=0
0    200 101 kvm_exit exit_reason=1 isa=1
0    210 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=55
0    300  55 sched:sched_wakeup pid=101 target_cpu=0
0   5300 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=55
0   6300  55 sched:sched_wakeup pid=101 target_cpu=0
0   6400  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
0   6500 101 kvm_entry vcpu_id=0
END
told sched unseen-host stolen-guest "intervals 1; outside the guest's capture 1; cut by lost events 1" \
	"a switch that was not recorded ends a wait at a time that is not known"
run "$kvmft" latency sched --all --format csv -q "$tmp/unseen-host"
out_has '^sched,.*,total,1,0\.100,' "... and the next one is as long as it was"

# ---- posted: nine accepts of one vector while its handler cannot begin ----

capture host apicv-host <<END
0   1000 101 kvm_entry vcpu_id=0
1   1500 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
1   1510 100 kvm_apicv_accept_irq apicid=0 dm=0 tm=0 vec=0x26
0   1800 101 kvm_exit exit_reason=1 isa=1
0   1900 101 kvm_entry vcpu_id=0
$(for i in 1 2 3 4 5 6 7 8 9; do
	echo "1 2${i}00 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26"
	echo "1 2${i}10 100 kvm_apicv_accept_irq apicid=0 dm=0 tm=0 vec=0x26"
	echo "0 2${i}20 101 kvm_exit exit_reason=1 isa=1"
	echo "0 2${i}50 101 kvm_entry vcpu_id=0"
done)
0   4000 101 kvm_exit exit_reason=12 isa=1
END
capture guest apicv-guest <<'END'
0   1100   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0   1550  77 irq:irq_handler_entry irq=30 common_flags=9
0   3000  77 irq:irq_handler_exit irq=30 common_flags=9
0   3100  77 irq:irq_handler_entry irq=30 common_flags=9
0   3200  77 irq:irq_handler_exit irq=30 common_flags=9
END
told irq apicv-host apicv-guest "accepted 2; measured 2; coalesced 8; posted 2" \
	"posted interrupts of which the handler has not begun are one"
out_has '^irq,"one","irq 30",total,2,0\.050,0\.525,.*,1\.000,1\.050,' "... which took as long as from the first of them"
run "$kvmft" latency irq --all --format csv -q "$tmp/apicv-host"
out_has '^irq,"","never injected",counted,0,' "posted into a guest that runs, of the host alone: it took them"

# ---- a VM ends within the recording: what follows is no time of its vCPU ----

for state in 16 32; do
	capture host ended-host <<END
0   1000 101 kvm_entry vcpu_id=0
0   3000 101 kvm_exit exit_reason=1 isa=1
0   3300 101 kvm_userspace_exit reason=10 errno=-4
0   4000 101 sched:sched_switch prev_pid=101 prev_state=$state next_pid=7
0   9000   7 sched:sched_switch prev_pid=7 prev_state=0 next_pid=8
END
	run "$kvmft" latency sched --format openmetrics "$tmp/ended-host"
	is "$(sed -n 's/^kvmft_vcpu_seconds{.*state="\([a-z]*\)"} \(.*[1-9].*\)/\1 \2/p' "$out" | tr '\n' ' ')" \
		"unknown 0.000005000 guest 0.000002000 kernel 0.000000300 vmm 0.000000700 " \
		"a vCPU's thread that has ended (state $state) is in no state"
done

finish
