#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft report` beside its peers, on one real host: what `perf kvm stat` recorded and reports, and
# what `trace-cmd` recorded and prints.

. "$(dirname "$0")/tap.sh"

rig report --timeout 240

# name samples total_us of each row of kvmft's CSV
kvmft_rows()
{
	"$kvmft" report --format csv --per all "$@" 2>/dev/null |
		awk -F, 'NR > 1 { print $3 "," $4 "," $11 }' | LC_ALL=C sort
}

# The columns of such a table, without blanks: name,samples,samples%,time%,min,max,avg,stderr
columns()
{
	sed -nE 's/^ *(.*[^ ]) +([0-9]+) +([0-9.]+)% +([0-9.]+)% +([0-9.]+)us +([0-9.]+)us +([0-9.]+)us \( \+- *([0-9.]+)% \)$/\1,\2,\3,\4,\5,\6,\7,\8/p' |
		LC_ALL=C sort
}

# perf_table EVENT: rows of perf's report, which goes to stderr.
perf_table()
{
	perf kvm -i "$rig/perf.data" stat report --event "$1" 2>&1 | columns
}

kvmft_table()
{
	"$kvmft" report --semantics perf --per all "$@" 2>/dev/null | columns
}

# ---- two recordings of the same exits ----

for event in vmexit mmio ioport msr; do
	perf_table "$event" >"$tmp/perf.$event"
	is "$(kvmft_table -i "$rig/beside-perf" --event "$event" | cut -d, -f 1,2)" "$(cut -d, -f 1,2 "$tmp/perf.$event")" \
		"$event: as many of each as perf counts"
done
ok "there are some hundred exits" test "$(awk -F, '{ n += $2 } END { print n + 0 }' "$tmp/perf.vmexit")" -gt 300
run "$kvmft" report -i "$rig/beside-perf" --semantics perf
sed 's/^/# /' "$out"
total=$(awk -F, '{ t += $2 * $7 } END { printf "%d", t }' "$tmp/perf.vmexit")
own=$(sed -nE 's/^Total Samples:[0-9]+, Total events handled time:([0-9]+)\..*/\1/p' "$out" | head -n 1)
echo "# all exits took $total us by perf, $own us by kvmft"
ok "... and the time is the same within 2 %" test "$(((own - total) * 100 / total))" -le 2 -a \
	"$(((total - own) * 100 / total))" -le 2

# ---- perf's own files, given to kvmft: its tables to the last digit ----

# same_tables FILE NAME
same_tables()
{
	for event in vmexit mmio ioport msr; do
		perf kvm -i "$1" stat report --event "$event" 2>&1 | columns >"$tmp/want"
		ok "$2, $event: perf has a table" test -s "$tmp/want"
		is "$(kvmft_table -i "$1" --event "$event")" "$(cat "$tmp/want")" "... and kvmft the same, in every column"
	done
	# perf 6.1 shows 0.00 for the minimum of a single vCPU.
	perf kvm -i "$1" stat report --event vmexit --vcpu 1 2>&1 | columns | cut -d, -f 1-4,6- >"$tmp/want"
	ok "$2, vCPU 1: perf has a table" test -s "$tmp/want"
	is "$(kvmft_table -i "$1" --vcpu 1 | cut -d, -f 1-4,6-)" "$(cat "$tmp/want")" "... and kvmft the same"
}

same_tables "$rig/perf.data" "perf kvm stat record"
same_tables "$rig/pair.data" "perf record -e kvm:*"
# Time, CPU, thread, event; of the same nanosecond on two CPUs, either may come first.
perf script -i "$rig/pair.data" --ns -F tid,cpu,time,event 2>/dev/null |
	awk '{ sub(/\[0*/, "[", $2); sub(/\[\]/, "[0]", $2); print $3, $2, $1, $4 }' >"$tmp/want"
"$kvmft" export -q -i "$rig/pair.data" --to text 2>/dev/null |
	sed -nE 's/^host .*-([0-9]+) +(\[[0-9]+\]) +([0-9.]+)  ([a-z]+:[a-z_0-9]+:) .*$/\3: \2 \1 \4/p' >"$tmp/have"
ok "as many events as perf script prints" test "$(wc -l <"$tmp/want")" -gt 3000
ok "... in the order of time" sort -s -c -k1,1n "$tmp/have"
sort -s -k1,1n -k2,2 "$tmp/want" >"$tmp/want.sorted"
sort -s -k1,1n -k2,2 "$tmp/have" >"$tmp/have.sorted"
ok "... one by one the same" diff "$tmp/want.sorted" "$tmp/have.sorted"

# ---- ... and as hosts of a pair, as are captures in other clocks than the TSC ----

run "$kvmft" verify --tsc-offset "$(fact vm1_offset)" "$rig/pair.data" "$rig/guest=$(fact vm1_pid)"
status_is 0 "perf.data and the guest's own capture: aligned"
sed 's/^/# /' "$out"
run "$kvmft" verify --tsc-offset "$(($(fact vm1_offset) + 10000000))" "$rig/pair.data" "$rig/guest=$(fact vm1_pid)"
status_is 1 "... with an offset that is some ms wrong: misaligned"
for clock in local perf mono_raw mono; do
	run "$kvmft" verify "$rig/host-$clock" "$rig/guest"
	status_is 0 "a host in clock $clock: aligned"
	sed 's/^/# /; 1,3!d' "$out"
done

# ---- trace-cmd's file ----

# A line for each event: thread, CPU, time, event, fields.
trace-cmd report -N -t "$rig/trace.dat" 2>/dev/null |
	sed -nE 's/^ *.*-([0-9]+) +\[0*([0-9]+)\] *([0-9]+): ([a-z_0-9]+): +(.*)$/\1 \2 \3 \4 \5/p' |
	sed 's/ *$//' >"$tmp/trace-cmd"
"$kvmft" merge -q --clock host-tsc "$rig/trace.dat" |
	sed -nE 's/^host .*-([0-9]+) +\[([0-9]+)\] +([0-9]+)  [a-z_0-9]+:([a-z_0-9]+): (.*)$/\1 \2 \3 \4 \5/p' |
	sed 's/ *$//' >"$tmp/kvmft"
is "$(wc -l <"$tmp/kvmft")" "$(wc -l <"$tmp/trace-cmd")" "as many events as trace-cmd report prints"
ok "... more than 5000" test "$(wc -l <"$tmp/kvmft")" -gt 5000
# libtraceevent 1.7 prints some events wrong: a restart of kvm_userspace_exit, a negative tsc_shift, a host's clock, and
# a timer that was early as late, for it compares without a sign.
known='kvm_userspace_exit reason (KVM_EXIT_|restart)|kvm_pvclock_update|kvm_track_tsc|kvm_update_master_clock'
known="$known|kvm_wait_lapic_expire .*delta -"
grep -vE "$known" "$tmp/trace-cmd" >"$tmp/a"
grep -vE "$known" "$tmp/kvmft" >"$tmp/b"
ok "... one by one the same, in every field" diff "$tmp/a" "$tmp/b"
khz=$(sed -nE 's/^tsc .*khz=([0-9]+).*/\1/p' "$rig/beside-trace-cmd/meta" | head -n 1)
for event in vmexit mmio ioport msr hypercall cpuid page-fault inject; do
	is "$(kvmft_rows -i "$rig/trace.dat" --tsc-khz "$khz" --event "$event" | cut -d, -f 1,2)" \
		"$(kvmft_rows -i "$rig/beside-trace-cmd" --event "$event" | cut -d, -f 1,2)" \
		"$event: the same counts from trace-cmd's file and kvmft's"
done

# ---- trace-cmd record -M: nothing in the file says that a CPU was left out ----

is "$(trace-cmd report -N "$rig/masked.dat" 2>/dev/null | grep -c ' \[001\] ')" 0 "of CPU 1 there is nothing"
for command in blame merge "report -i" "stuck -i"; do
	# shellcheck disable=SC2086 # one word or two
	run "$kvmft" $command "$rig/masked.dat"
	status_is 3 "$command of one CPU: exit 3"
	err_has 'CPU 1 was not recorded, though threads were woken there' "... and why"
done
run "$kvmft" blame --than 1ms --top 1000 --format json "$rig/masked.dat"
is "$(jq '[.spikes[] | select(.sure)] | length' <"$out")" 0 "blame: nothing is sure"
echo "# of $(jq '.spikes | length' <"$out") spikes: $(jq -r '.spikes[].cause' <"$out" | sort | uniq -c | tr -s ' \n' ' ')"

# ---- where the time went ----

run "$kvmft" report -i "$rig/beside-trace-cmd" --split --percentiles
status_is 0 "report --split"
sed 's/^/# /' "$out"
split=$("$kvmft" report -i "$rig/beside-trace-cmd" --split --per all --format csv 2>/dev/null |
	awk -F, 'tolower($3) == "hlt" { print ($14 + $15 + $16 + $12 > 0 && $14 + $15 > 0.5 * $11) }')
is "$split" 1 "most of the time of HLT is spent halted"
run "$kvmft" report -i "$rig/beside-trace-cmd" --vm vm1 --per vcpu
out_has '^Analyze events for VM vm1, all VCPUs:$' "--vm vm1"
out_has '^Analyze events for VM vm1, VCPU 1:$' "--per vcpu"
sums_of beside-perf sched "$rig/beside-perf"
sums_of beside-trace-cmd irq,sched,timer "$rig/beside-trace-cmd"
finish
