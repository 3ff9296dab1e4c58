#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `kvmft report` beside its peers, on one real host: what `perf kvm stat` recorded and reports, and
# what `trace-cmd` recorded and prints.

. "$(dirname "$0")/tap.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
rig report --timeout 200

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

# ---- perf's own events, given to kvmft: its table to the last digit ----

# Names of exits to their numbers, by the format that the rig's kernel has.
sed -n '/^name: kvm_exit$/,/^print fmt/p' "$rig/beside-perf/formats" | tr '{' '\n' | awk '
	/^ *-?(0x)?[0-9a-f]+( \+ [0-9]+)?, "/ {
		split($0, q, "\""); if (q[2] == "read_cr0") svm = 1
		if (svm) { v = q[1]; gsub(/[ ,]/, "", v); print q[2] "\t" v }
	}' >"$tmp/names"
perf script -i "$rig/perf.data" --ns -F tid,cpu,time,event,trace 2>/dev/null | awk -v names="$tmp/names" '
	BEGIN { while ((getline line <names) > 0) { split(line, a, "\t"); num[a[1]] = a[2] } }
	function hex(s) { return s ~ /^0x/ ? s : "0x" s }
	{
		tid = $1; cpu = substr($2, 2) + 0; ts = $3; sub(/:$/, "", ts); sub(/\./, "", ts); sub(/^0+/, "", ts)
		ev = $4; sub(/^kvm:/, "", ev); sub(/:$/, "", ev)
		rest = $0; sub(/^.*kvm:[a-z_]+: */, "", rest); n = split(rest, w, " ")
		line = cpu " " ts " " tid " " ev
		if (ev == "kvm_entry") { sub(/,/, "", w[2]); print line " vcpu_id=" w[2] }
		if (ev == "kvm_exit") {
			name = rest; sub(/^.*reason /, "", name); sub(/ rip .*/, "", name)
			v = num[name]; if (split(v, s, "+") == 2) v = 64 + s[2] # 0x040 + vector
			print line " exit_reason=" v " isa=2"
		}
		if (ev == "kvm_mmio") print line " type=" (w[2] == "write" ? 2 : w[2] == "read" ? 1 : 0) " gpa=" \
			hex(w[w[3] == "gpa" ? 4 : 6])
		if (ev == "kvm_pio") print line " rw=" (w[1] == "pio_write") " port=" hex(w[3])
		if (ev == "kvm_msr") print line " write=" (w[1] == "msr_write") " ecx=" hex(w[2])
	}' >"$tmp/perf.txt"
ok "perf's events can be written down" "$mkcap" --capture "$tmp/fromperf" "$tmp/perf.txt"
for event in vmexit mmio ioport msr; do
	ok "$event: perf's events give perf's table" sh -c "test -s '$tmp/perf.$event'"
	is "$(kvmft_table -i "$tmp/fromperf" --event "$event")" "$(cat "$tmp/perf.$event")" "... in every column"
done

# ---- trace-cmd's file ----

# One line each: thread, CPU, time, event, fields.
trace-cmd report -N -t "$rig/trace.dat" 2>/dev/null |
	sed -nE 's/^ *.*-([0-9]+) +\[([0-9]+)\] *([0-9]+): ([a-z_0-9]+): +(.*)$/\1 \2 \3 \4 \5/p' |
	sed 's/ *$//' >"$tmp/trace-cmd"
"$kvmft" merge -q --clock host-tsc "$rig/trace.dat" |
	sed -nE 's/^host .*-([0-9]+) +\[([0-9]+)\] +([0-9]+)  [a-z_0-9]+:([a-z_0-9]+): (.*)$/\1 \2 \3 \4 \5/p' |
	sed 's/ *$//' >"$tmp/kvmft"
is "$(wc -l <"$tmp/kvmft")" "$(wc -l <"$tmp/trace-cmd")" "as many events as trace-cmd report prints"
ok "... more than 5000" test "$(wc -l <"$tmp/kvmft")" -gt 5000
# libtraceevent 1.7 prints two events wrong: a restart of kvm_userspace_exit, and a negative tsc_shift.
known='kvm_userspace_exit reason (KVM_EXIT_|restart)|kvm_pvclock_update'
grep -vE "$known" "$tmp/trace-cmd" >"$tmp/a"
grep -vE "$known" "$tmp/kvmft" >"$tmp/b"
ok "... one by one the same, in every field" diff "$tmp/a" "$tmp/b"
khz=$(sed -nE 's/^tsc .*khz=([0-9]+).*/\1/p' "$rig/beside-trace-cmd/meta" | head -n 1)
for event in vmexit mmio ioport msr hypercall cpuid page-fault inject; do
	is "$(kvmft_rows -i "$rig/trace.dat" --tsc-khz "$khz" --event "$event" | cut -d, -f 1,2)" \
		"$(kvmft_rows -i "$rig/beside-trace-cmd" --event "$event" | cut -d, -f 1,2)" \
		"$event: the same counts from trace-cmd's file and kvmft's"
done

# ---- where the time went ----

run "$kvmft" report -i "$rig/beside-trace-cmd" --split --percentiles
status_is 0 "report --split"
sed 's/^/# /' "$out"
split=$("$kvmft" report -i "$rig/beside-trace-cmd" --split --per all --format csv 2>/dev/null |
	awk -F, '$3 == "hlt" { print ($14 + $15 + $16 + $12 > 0 && $14 + $15 > 0.5 * $11) }')
is "$split" 1 "most of the time of HLT is spent halted"
run "$kvmft" report -i "$rig/beside-trace-cmd" --vm vm1 --per vcpu
out_has '^Analyze events for VM vm1, all VCPUs:$' "--vm vm1"
out_has '^Analyze events for VM vm1, VCPU 1:$' "--per vcpu"
sums_of beside-perf sched "$rig/beside-perf"
sums_of beside-trace-cmd irq,sched,timer "$rig/beside-trace-cmd"
finish
