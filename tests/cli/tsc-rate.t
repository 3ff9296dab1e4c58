#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# How fast the host's TSC runs, where its capture does not say it: from what its events and its guests tell, from
# --tsc-khz, or not at all: then times are cycles. The TSC of these captures has 2.5 GHz, but for the golden ones.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden

# unsaid NAME: what standard input tells, without a frequency.
unsaid()
{
	cat >"$tmp/$1.txt"
	rm -rf "${tmp:?}/$1"
	"$mkcap" --capture "$tmp/$1" "$tmp/$1.txt"
	sed -i '/^tsc /d' "$tmp/$1/meta"
}

# rate NAME WANT [HOW]: what the report's JSON says of the frequency: KHZ SOURCE MIN MAX
rate()
{
	run "$kvmft" report --format json -i "$tmp/$1"
	is "$(sed -n 's/.*"tsc_khz":\([0-9nul]*\),"tsc_khz_source":\("[^"]*"\|null\),"tsc_khz_min":\([0-9nul]*\),"tsc_khz_max":\([0-9nul]*\),.*/\1 \2 \3 \4/p' "$out")" \
		"$2" "$3"
}
unknown="null null null null"
vm="meta vm id=100-12 pid=100 fd=12 name=one
meta task tid=101 tgid=100 comm=vcpu"
vcpu="meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48"

# ---- waits ----

# A wait of 100,001,000 ns from 1,002,500 to 251,005,000: asleep from 1,010,000 to 251,000,000.
wait='0   1000000 101 kvm_exit exit_reason=12 isa=1
0   1010000 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
1 251000000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
1 251007500 101 kvm_vcpu_wakeup ns=100001000 waited=1 valid=1
1 251010000 101 kvm_entry vcpu_id=0'
unsaid waits <<END
$vm
$wait
END
rate waits '2499962 "kvm_vcpu_wakeup" 2499876 2500049' "a wait of 100 ms, and the thread moves"
err_has "the TSC runs at 2499962 kHz, by kvm_vcpu_wakeup: 2499876 to 2500049, so times are accurate to 35 parts per million" \
	"... is reported, with its accuracy"
run "$kvmft" report -i "$tmp/waits"
out_has '^# times are by a TSC of 2499962 kHz, known by kvm_vcpu_wakeup to be 2499876 to 2500049$' "... and beside the table"
unsaid waits-svm <<END
$vm
$(echo "$wait" | sed 's/exit_reason=12 isa=1/exit_reason=0x78 isa=2/')
END
rate waits-svm '2499962 "kvm_vcpu_wakeup" 2499876 2500049' "hlt of SVM"

# Many sub-buffers of each CPU are without any event that shows it, and it is in the last one of the last CPU.
unsaid late <<END
$vm
$(awk 'BEGIN { for (i = 0; i < 9000; i++) printf "%d %7d 7 kvm:kvm_fpu load=%d\n", i % 3, 1000 + i * 100, i % 2 }')
$wait
END
rate late '2499962 "kvm_vcpu_wakeup" 2499876 2500049' "the only event that tells it is the last one"

# refused NAME SED...: the same wait is no measure where something else may have happened.
refused()
{
	unsaid refused <<END
$vm
$(echo "$wait" | sed "$2")
1 252000000 101 kvm_exit exit_reason=1 isa=1
1 252000100 101 kvm_entry vcpu_id=0
END
	rate refused "$unknown" "no measure: $1"
}
refused "the exit was not a HLT" 's/exit_reason=12/exit_reason=1/'
refused "events were lost in between" '3i 0 gap 7\n0 100000000 55 kvm_cpuid function=1'
refused "events were lost of another CPU" '3i 2 500000 55 kvm_cpuid function=1\n2 gap 7\n2 100000000 55 kvm_cpuid function=1'
refused "it was in user space since" '2i 0 1005000 101 kvm_userspace_exit reason=0 errno=4'
refused "it was entered since" '2i 0 1005000 101 kvm_entry vcpu_id=0'
refused "it did not sleep, but lost its CPU" 's/prev_state=1/prev_state=0/'
refused "a wait of no time" 's/ns=100001000/ns=0/'
refused "a wait as long as its sleep cannot be" 's/ns=100001000/ns=99000/'
# 10 us asleep, 3 us around: 30 %
unsaid short <<END
$vm
0   1000000 101 kvm_exit exit_reason=12 isa=1
0   1005000 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
0   1030000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
0   1032500 101 kvm_vcpu_wakeup ns=12000 waited=1 valid=1
0   1040000 101 kvm_entry vcpu_id=0
END
rate short "$unknown" "a short wait is of no use"

# The exit alone, of a host without sched events: one bound.
unsaid most <<END
$vm
$(echo "$wait" | grep -v sched:)
END
rate most "$unknown" "without sched_switch a wait gives one bound only"
err_has "its events do not show it \\(it is at most 2500049 kHz\\): times are in cycles" "... which is reported"

# ---- timers: a clock read at 402,000 and 1,000,402,000 ns, between the interrupt's beginning and the event ----

timers='0    900000 1 kvm_cpuid function=1
0   1000000 1 irq_vectors:local_timer_entry vector=236 common_flags=9
0   1010000 1 timer:hrtimer_expire_entry hrtimer=0x10 function=0xaa now=402000 common_flags=9
0   1020000 1 irq_vectors:local_timer_exit vector=236 common_flags=9
0 2501000000 1 irq_vectors:local_timer_entry vector=236 common_flags=9
0 2501010000 1 timer:hrtimer_expire_entry hrtimer=0x10 function=0xaa now=1000402000 common_flags=9'
exits='1   1000000 101 kvm_exit exit_reason=1 isa=1
1   1000100 101 kvm_entry vcpu_id=0'
# timed NAME WANT SED: the host's timers, changed
timed()
{
	unsaid timed <<END
$vm
$(echo "$timers" | sed "$3")
$exits
END
	rate timed "$2" "$1"
}
timed "timers of the host" '2500000 "hrtimer_expire_entry" 2499990 2500010' ''
timed "... from what the CPU did before in a task, without the interrupt's event" \
	'2499930 "hrtimer_expire_entry" 2499750 2500110' '5i 0 2500760000 1 kvm_cpuid function=1
/local_timer/d'
timed "no measure: nothing was before" "$unknown" '/local_timer/d; /kvm_cpuid/d'
timed "no measure: another timer" "$unknown" '6s/0x10/0x20/'
timed "no measure: a clock that went back" "$unknown" '6s/now=1000402000/now=300000/'
timed "no measure: events were lost" "$unknown" '6i 0 gap 3'
timed "no measure: three readings that contradict each other" "$unknown" \
	'$a 0 5001000000 1 irq_vectors:local_timer_entry vector=236 common_flags=9\n0 5001010000 1 timer:hrtimer_expire_entry hrtimer=0x10 function=0xaa now=1500402000 common_flags=9'

# ---- kvm_pvclock_update ----

pvclock="0 900000 101 kvm_pvclock_update vcpu_id=0 version=2 tsc_timestamp=5 system_time=5 flags=1"
unsaid pv <<END
$vm
$vcpu
$pvclock tsc_to_system_mul=3435973836 tsc_shift=-1
0   1000000 101 kvm_exit exit_reason=1 isa=1
0   1000100 101 kvm_entry vcpu_id=0
END
rate pv '2500000 "kvm_pvclock_update" 2500000 2500000' "a guest's pvclock record"
unsaid pv-scaled <<END
$vm
$(echo "$vcpu" | sed 's/ratio=0/ratio=225179981368524/')
$pvclock tsc_to_system_mul=2147484721 tsc_shift=0
0   1000000 101 kvm_exit exit_reason=1 isa=1
0   1000100 101 kvm_entry vcpu_id=0
END
rate pv-scaled '2500000 "kvm_pvclock_update" 2499999 2500001' "... of a guest whose TSC is scaled to 2 GHz"
unsaid pv-alone <<END
$vm
$pvclock tsc_to_system_mul=3435973836 tsc_shift=-1
$wait
END
rate pv-alone "2500000 \"kvm_pvclock_update, if that guest's TSC is not scaled\" 2500000 2500000" \
	"... perhaps scaled, but the waits agree"
sed 's/tsc_to_system_mul=3435973836 tsc_shift=-1/tsc_to_system_mul=2147483648 tsc_shift=0/' "$tmp/pv-alone.txt" |
	unsaid pv-against
rate pv-against '2499962 "kvm_vcpu_wakeup" 2499876 2500049' "... and the waits do not"
sed 's/tsc_to_system_mul=3435973836/tsc_to_system_mul=0/' "$tmp/pv.txt" | unsaid pv-zero
rate pv-zero "$unknown" "a record that KVM cannot have made"

# ---- guests, readings, TSC2NSEC ----

capture() { "$mkcap" --capture "$tmp/$2" "$golden/latency-$1.txt"; }
capture host host
capture guest guest
grep -v 'sched_switch\|kvm_vcpu_wakeup' "$golden/latency-host.txt" | unsaid none
cp -r "$tmp/guest" "$tmp/mute"
sed -i '/^tsc /d' "$tmp/mute/meta"
run "$kvmft" verify --format json "$tmp/none" "$tmp/guest=one"
out_has '"tsc_khz":1000000,"tsc_khz_source":"capture of a guest"' "the frequency of a guest's capture"
cp -r "$tmp/mute" "$tmp/record"
echo "pvclock cpu=0 version=2 tsc_timestamp=5 system_time=5 mul=3435973836 shift=-1 flags=1" >>"$tmp/record/meta"
run "$kvmft" latency irq --all --format json -q "$tmp/none" "$tmp/record=one"
out_has '"tsc_khz":2500000,"tsc_khz_source":"capture of a guest"' "the pvclock record of a guest's capture"
{
	sed -n '/^meta/p' "$golden/latency-guest.txt"
	echo "$timers" | grep -v kvm_cpuid
} | unsaid ticks
"$kvmft" merge --format json "$tmp/none" "$tmp/ticks=one" >"$out" 2>"$err"
out_has '"tsc_khz":2500000,"tsc_khz_source":"hrtimer_expire_entry of a guest","tsc_khz_min":2499990,"tsc_khz_max":2500010' \
	"timers of a guest"
cp -r "$tmp/none" "$tmp/read"
cat >>"$tmp/read/meta" <<'END'
time tsc=1000 width=100 mono_raw=1000 mono=1000 boot=1000 real=1608130130000000000
time tsc=2500001000 width=100 mono_raw=1000001000 mono=1000001000 boot=1000001000 real=1608130131000000000
END
rate read '2500000 "readings of CLOCK_MONOTONIC_RAW" 2499998 2500002' "readings of a clock beside the TSC"
run "$kvmft" export -i "$tmp/host" -q -o "$tmp/host.dat"
rate host.dat '1000000 "TSC2NSEC" 1000000 1000000' "a trace.dat with TSC2NSEC"
run "$kvmft" report --format json -i "$tmp/host.dat" --tsc-khz 500000
out_has '"tsc_khz":500000,"tsc_khz_source":"--tsc-khz"' "... and what is given goes before it"
run "$kvmft" export -i "$tmp/waits" -q -o "$tmp/waits.dat"
rate waits.dat '2499962 "kvm_vcpu_wakeup" 2499876 2500049' "export makes no fact of what was measured"

# ---- without any: cycles, and every command says so ----

run "$kvmft" report -i "$tmp/none"
status_is 0 "report without a frequency"
out_has 'Samples% +Time% +Min cycles +Max cycles +Avg cycles' "... has cycles"
err_has 'does not say its TSC frequency, and its events do not show it: times are in cycles; give it with --tsc-khz' "... and says so"
run "$kvmft" report -i "$tmp/none" --percentiles --split --format csv
is "$(head -n 1 "$out")" "vm,vcpu,event,samples,samples_pct,time_pct,min_cycles,max_cycles,avg_cycles,stderr_pct,total_cycles,p50_cycles,p90_cycles,p99_cycles,kernel_cycles,user_cycles,poll_cycles,blocked_cycles,runnable_cycles,preempted_cycles" "... in the names of the columns"
out_has '^one,,HLT,2,25.00,63.81,1700,5000,3350,' "... which are right"
run "$kvmft" report -i "$tmp/none" --format json
out_has '"unit":"cycles".*"total_cycles":' "... in the JSON"
run "$kvmft" report -i "$tmp/none" --from 1
status_is 4 "report --from needs one"
err_has "give it with --tsc-khz" "... and names the remedy"
err_one_line "report --from"
run "$kvmft" latency irq --all "$tmp/none" "$tmp/mute=one"
status_is 0 "latency without a frequency"
out_has '^Interrupt +Stage +Count +Sum Mcyc +Min cyc +Avg cyc' "... has cycles"
out_has '^note: times are in CYCLES' "... and says so"
run "$kvmft" latency irq --all --format csv "$tmp/none" "$tmp/mute=one"
out_has '^table,vm,name,stage,count,min_cycles,avg_cycles,' "... in the names of the columns"
out_has '^irq,"one","MSI irq 30",total,1,1050,1050,' "... which are right"
run "$kvmft" latency irq --all --format json "$tmp/none" "$tmp/mute=one"
out_has '"unit":"cycles".*"p50_cycles":1050.*"stages_cycles":' "... in the JSON"
run "$kvmft" latency irq --all --than 1us "$tmp/none" "$tmp/mute=one"
status_is 4 "latency --than needs one"
err_one_line "latency --than"
run "$kvmft" verify "$tmp/none" "$tmp/mute=one"
status_is 0 "verify without a frequency"
out_has 'earliest cyc +latest cyc' "... has cycles"
run "$kvmft" merge "$tmp/none" "$tmp/mute=one"
status_is 0 "merge without a frequency"
out_has '^one .* 8050  irq:irq_handler_entry' "... has cycles"
err_has 'times are in cycles; give it with --tsc-khz' "... and says so"
run "$kvmft" merge --from 8050 --to 8100 -q "$tmp/none" "$tmp/mute=one"
is "$(wc -l <"$out" | tr -d ' ')" 1 "... which --from and --to take, too"
run "$kvmft" merge --clock ns "$tmp/none" "$tmp/mute=one"
status_is 4 "--clock ns needs one"
err_has 'give it with --tsc-khz' "... and names the remedy"
run "$kvmft" merge --format json -q "$tmp/none" "$tmp/mute=one"
out_has '"clock":"host-tsc","unit":"cycles","khz":null' "json lines have cycles"
for command in "merge --format perfetto $tmp/none $tmp/mute=one" "export --to perfetto -i $tmp/none $tmp/mute=one"; do
	# shellcheck disable=SC2086
	run "$kvmft" $command
	status_is 0 "${command%% *}: perfetto without a frequency"
	ok "... says in the trace that a ns is a cycle" grep -aq "1 ns IS 1 CYCLE here" "$out"
	err_has "what the trace calls a ns is a cycle" "... and beside it"
done
run "$kvmft" merge --format perfetto --clock host-tsc "$tmp/none" "$tmp/mute=one"
status_is 2 "... but not when cycles are asked for"
run "$kvmft" merge --format html -q -o "$tmp/none.html" "$tmp/none" "$tmp/mute=one"
ok "the page says it" sh -c "sed -n 's/.*id=\"data\">//; s/<.*//; /^[A-Za-z0-9+\/=]*\$/p' '$tmp/none.html' |
	base64 -d 2>/dev/null | grep -aq 'times are in CYCLES'"

# ---- --tsc-khz is the same everywhere ----

for command in report latency verify merge export convert; do
	run "$kvmft" help $command
	grep -e '--tsc-khz KHZ  ' "$out" | tr -s ' ' >>"$tmp/help"
	run "$kvmft" $command --tsc-khz 0 irq
	is "$rc" 2 "$command --tsc-khz 0 is wrong use"
done
is "$(sort -u "$tmp/help" | wc -l | tr -d ' ')" 1 "its help is one"
run "$kvmft" report -i "$tmp/none" --tsc-khz 500000 --format csv --per all
out_has '^one,.*HLT,2,.*,3.400,10.000,6.700,' "report takes it"
run "$kvmft" latency irq --all -q --tsc-khz 500000 --format csv "$tmp/none" "$tmp/mute=one"
out_has '^irq,"one","MSI irq 30",total,1,2.100,' "latency takes it"
run "$kvmft" verify --tsc-khz 500000 "$tmp/none" "$tmp/mute=one"
out_has '0.740 us' "verify takes it"
for command in "merge --clock ns $tmp/none" "export --to text -i $tmp/none"; do
	# shellcheck disable=SC2086
	run "$kvmft" ${command%% *} --tsc-khz 500000 -q ${command#* }
	out_has '^host .* 0.000016000  kvm:kvm_entry' "${command%% *} takes it"
done
run "$kvmft" export -i "$tmp/none" -q --tsc-khz 2000000 -o "$tmp/given.dat"
rate given.dat '2000000 "TSC2NSEC" 2000000 2000000' "... and writes it into a trace.dat"
for khz in 2500000 2000000; do
	run "$kvmft" convert --from host-tsc --to host-mono -i "$tmp/read" --tsc-khz $khz 1250001000
	cat "$out" >>"$tmp/converted"
done
is "$(sort -u "$tmp/converted" | wc -l | tr -d ' ')" 2 "convert takes it"
finish
