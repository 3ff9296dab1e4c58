#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
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

exits='1   1000000 101 kvm_exit exit_reason=1 isa=1
1   1000100 101 kvm_entry vcpu_id=0'

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
$exits
END
rate pv-alone "2500000 \"kvm_pvclock_update, if that guest's TSC is not scaled\" 2500000 2500000" \
	"... perhaps scaled, which is said"
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
# A guest that lies is believed neither against another one nor against the host's events.
cp -r "$tmp/guest" "$tmp/liar"
sed -i 's/^tsc khz=1000000/tsc khz=77000/' "$tmp/liar/meta"
for order in "guest=one $tmp/liar=one" "liar=one $tmp/guest=one"; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" latency irq --all --format json -q "$tmp/none" "$tmp"/$order
	out_has '"tsc_khz":null' "guests that contradict each other: neither is believed"
done
run "$kvmft" verify --format json "$tmp/pv" "$tmp/liar=one"
out_has '"tsc_khz":2500000,"tsc_khz_source":"kvm_pvclock_update"' "the host's own events go before a guest's word"
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

# ---- without any: cycles, and every command says so ----

run "$kvmft" report -i "$tmp/none"
status_is 0 "report without a frequency"
out_has 'Samples% +Time% +Min cycles +Max cycles +Avg cycles' "... has cycles"
err_has 'does not say its TSC frequency, and its events do not show it: times are in cycles; give it with --tsc-khz' "... and says so"
run "$kvmft" report -i "$tmp/none" --percentiles --split --format csv
is "$(head -n 1 "$out")" "vm,vcpu,event,samples,samples_pct,time_pct,min_cycles,max_cycles,avg_cycles,stderr_pct,total_cycles,p50_cycles,p90_cycles,p99_cycles,kernel_cycles,user_cycles,poll_cycles,blocked_cycles,runnable_cycles,preempted_cycles,unknown_cycles,may_be" "... in the names of the columns"
out_has '^one,,HLT,2,25.00,63.81,1700,5000,3350,' "... which are right"
run "$kvmft" report -i "$tmp/none" --format json
out_has '"unit":"cycles".*"total_cycles":' "... in the JSON"
run "$kvmft" report -i "$tmp/none" --from 1 --per all --format csv
status_is 0 "report --from without a frequency: in cycles"
cp "$out" "$tmp/whole"
run "$kvmft" report -i "$tmp/none" --per all --format csv
is "$(cat "$out")" "$(cat "$tmp/whole")" "... all of it since the first cycle"
run "$kvmft" report -i "$tmp/none" --from 1s
status_is 2 "report --from of a time needs one"
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
	run "$kvmft" help $command --all
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
