#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# An arm64 host, emulated: a small VM of known exits beside the kernel's own text and perf's table, then a
# guest that is aligned by its events alone, with the guest's own counter as the witness.
#
# arm64-nvhe.t is the same on another CPU, arm64-hosts.t with another kernel and two vCPUs.

. "$(dirname "$0")/tap.sh"

rig arm64 --cpu "${ARM64_CPU:-arm64}" --timeout 500
khz=$(fact counter_khz)

# ---- what the kernel's own text says ----

# events: of each entry, exit and MMIO on stdin its stamp in us and its text.
events()
{
	sed -nE 's/^.* ([0-9]+\.[0-9]+):? +(kvm:)?(kvm_(entry|exit|mmio): .*)$/\1 \3/p'
}

# as_text CAPTURE: each of its entries, exits and MMIO is in the kernel's text, in that order and within
# 1 s: two rings stamp one event one after the other, and a busy machine emulates slowly. The text
# began before and ended after.
as_text()
{
	run "$kvmft" merge -q --clock mono_raw "$rig/$1"
	status_is 0 "$1: merge --clock mono_raw"
	events <"$out" >"$tmp/mine"
	events <"$rig/ref-$1.txt" >"$tmp/theirs"
	is "$(awk '
		{ t = $1; sub(/^[^ ]* /, "") }
		NR == FNR { at[NR] = t; text[NR] = $0; n = NR; next }
		{
			for (k = i + 1; k <= n && (text[k] != $0 || at[k] < t - 1); k++)
				;
			if (k <= n && at[k] < t + 1) {
				i = k
				found++
			}
			all++
		}
		END { print (all > 1000 && found == all) ? "all" : found + 0 " of " all + 0 }' \
		"$tmp/theirs" "$tmp/mine")" all "$1: entries, exits and MMIO are as in the kernel's text, at their times"
}

as_text tiny
as_text host

# rows: "NAME COUNT" of the last report in CSV.
rows()
{
	awk -F , 'NR > 1 { print $3, $4 }' "$out" | LC_ALL=C sort
}

run "$kvmft" report -i "$rig/tiny" --format csv
status_is 0 "tiny: report"
is "$(rows | grep -E 'HVC64|SYS64|IABT|DABT' | tr '\n' ' ')" \
	"TRAP:DABT_LOW 299 TRAP:HVC64 300 TRAP:IABT_LOW 1 TRAP:SYS64 300 " \
	"tiny: its hypercalls, registers and stores, of which the last one ended it"
run "$kvmft" report -i "$rig/tiny" --format csv --event mmio
is "$(rows)" "0x10000000:W 299" "tiny: stores by address"
run "$kvmft" merge -q "$rig/tiny"
is "$(grep -c 'kvm:kvm_hvc_arm64: ' "$out") $(grep -c 'kvm:kvm_sys_access: ' "$out")" "300 300" \
	"tiny: the reason of each exit is recorded"

# ---- perf's table of its own file ----

# table: name, samples, least, most, mean of each row of perf's layout.
table()
{
	sed -nE 's/^ *(TRAP:)?([A-Za-z0-9_]+) +([0-9]+) .* ([0-9.]+us) +([0-9.]+us) +([0-9.]+us) .*/\2 \3 \4 \5 \6/p' |
		LC_ALL=C sort
}

table <"$rig/perf.txt" >"$tmp/perf"
run "$kvmft" report -i "$rig/perf.data" --semantics perf
status_is 0 "report of an arm64 perf.data"
ok "perf has a table" test -s "$tmp/perf"
is "$(table <"$out")" "$(cat "$tmp/perf")" "--semantics perf: the same to the last digit"

# ---- live ----

for text in exits-kernel exits-user; do
	is "$(awk '/ TRAP:(HVC64|SYS64|DABT_LOW) / && $4 > 100 && $NF ~ /:0$/ { n++ } END { print n + 0 }' "$rig/$text.txt")" 3 \
		"$text: reasons and the vCPU"
done
is "$(awk '$3 + 0 >= 0 && $3 + 0 < 60 && /kvm:kvm_exit: / { n++ } END { print n + 0 }' "$rig/trace.txt")" 3 \
	"trace: seconds since the start"
ok "trace: the time of the day" grep -q " $(date -u -d "@$(cat "$rig/date")" +%Y-%m-%d) .*kvm_exit: " "$rig/trace-realtime.txt"

# A window of the report is that of the time line: the last exit of each vCPU may have no entry after it.
run "$kvmft" merge -q --from 3s --to 4s "$rig/host"
exits=$(grep -c 'kvm:kvm_exit: ' "$out")
run "$kvmft" report -i "$rig/host" --from 3s --to 4s --format csv
samples=$(rows | awk '{ n += $2 } END { print n + 0 }')
ok "report --from, --to: $samples of the $exits exits then" test "$exits" -gt 0 -a "$samples" -le "$exits" \
	-a $((exits - samples)) -le "$(grep -c '^vcpu .* at=end' "$rig/host/meta")"

# ---- the counter ----

is "$(sed -n 's/^tsc khz=\([0-9]*\) source=cntfrq_el0 clocksource=arch_sys_counter .*/\1/p' "$rig/host/meta")" "$khz" \
	"the counter's rate, as the kernel has it"
for side in host guest; do
	ok "$side: the line of mono_raw over the counter" grep -q '^raw last=.* source=vvar$' "$rig/$side/meta"
done
# Both ends of each bracket lie on either side of that line, or the line would be wrong.
is "$(awk '
	function get(name,   i) {
		for (i = 2; i <= NF; i++)
			if (index($i, name "=") == 1)
				return substr($i, length(name) + 2) + 0
	}
	$1 == "raw" { last = get("last"); mult = get("mult"); div = 2 ^ get("shift"); nsec = get("nsec"); base = get("base") }
	$1 == "time" {
		lo = base + int(((get("tsc") - last) * mult + nsec) / div)
		hi = base + int(((get("tsc") + get("width") - last) * mult + nsec) / div)
		n++
		bad += get("mono_raw") < lo - 1 || get("mono_raw") > hi + 1
	}
	END { print (n >= 2 ? bad + 0 : "no brackets") }' "$rig/host/meta")" 0 "host: all its brackets lie on the line"

# ---- the guest, by its events alone ----

run "$kvmft" verify --solve "$rig/host" "$rig/guest"
status_is 0 "verify --solve: aligned"
sed 's/^/# /' "$out"
out_has 'outside: unique' "verify --solve: no other offset would do"
offset=$(sed -n 's/.*solved: TSC offset \(-\{0,1\}[0-9]*\)[;,].*/\1/p' "$out")
low=$(sed -n 's/.*; any from \(-\{0,1\}[0-9]*\) to .*/\1/p' "$out")
high=$(sed -n 's/.*; any from .* to \(-\{0,1\}[0-9]*\) leaves .*/\1/p' "$out")
ok "... within 300 us ($(((high - low) / 2)) cycles)" test $(((high - low) / 2)) -lt $((khz * 3 / 10))

run "$kvmft" merge "$rig/host" "$rig/guest"
status_is 0 "merge"
cp "$out" "$tmp/timeline"
cp "$err" "$tmp/timeline.err"
err_has 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside' "no guest event outside"
err_has 'the TSC offset was found in the events: guest times may be off by [0-9]* cycles' "... and the bound is given"
is "$(awk '$1 == "host" { h++ } $1 == "vm1" { g++ } END { print (h > 1000 && g > 1000) }' "$out")" 1 \
	"more than 1000 lines of each side"
run "$kvmft" merge -q --clock guest-tsc "$rig/host" "$rig/guest"
status_is 0 "merge in the guest's counter"
run "$kvmft" merge --clock kvmclock "$rig/host" "$rig/guest"
status_is 4 "merge in kvmclock, which arm64 does not have"
for error in $(((high - low) / 2 + khz / 10)) -$(((high - low) / 2 + khz / 10)); do
	run "$kvmft" merge --tsc-offset "$((offset + error))" "$rig/host" "$rig/guest"
	err_has MISALIGNED "an offset wrong by $error cycles is detected"
done

# The witness: each store of the guest's counter is an exit, with the value in the host's event. The guest
# read it before the exit, and after the entry, unless it was interrupted between the instructions that read and
# store it: then the value is older than what the others say of that entry, and is not counted.
run "$kvmft" merge -q --clock host-tsc "$rig/host"
awk '
	function hex(s,   i, v) {
		for (i = 3; i <= length(s); i++)
			v = v * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
		return v
	}
	{ for (i = 3; i < NF; i++) if ($(i + 1) ~ /^kvm:/) { t = $i; ev = $(i + 1); break } }
	ev == "kvm:kvm_entry:" { entry = t }
	ev == "kvm:kvm_exit:" { end = t }
	ev == "kvm:kvm_mmio:" && / gpa 0xc000000 / {
		v = hex($NF)
		if (!n || v - end > low) low = v - end
		since[n++] = v - entry
	}
	END {
		for (i = 0; i < n; i++)
			if (since[i] >= low && (!fresh++ || since[i] < high)) high = since[i]
		printf "%d %.0f %.0f\n", fresh, low, high
	}' "$out" >"$tmp/witness"
read -r told least most <"$tmp/witness"
echo "# the guest told its counter $told times: the offset is from $least to $most; solved: $low to $high"
ok "the guest reported its counter" test "$told" -ge 100
ok "... its offset is known" test "$least" -le "$most"
ok "... and within what was solved" test "$least" -le "$high" -a "$most" -ge "$low"
ok "... whose middle is within the stated error" test $((offset - most)) -le $(((high - low) / 2)) \
	-a $((least - offset)) -le $(((high - low) / 2))

# ---- latency ----

run "$kvmft" latency io -q --worst 0 "$rig/host" "$rig/guest"
status_is 0 "latency io"
out_has '^issued 60; completed 60' "... all requests"
run "$kvmft" latency sched -q --worst 0 "$rig/host" "$rig/guest"
status_is 0 "latency sched"
out_has '^intervals [1-9]' "... vCPUs that waited for a CPU"

# Timers, from the first time that the GIC had the line up to the handler, as a script counts them in the time line.
run "$kvmft" merge -q --clock host-tsc "$rig/host" "$rig/guest"
awk -v khz="$khz" '
	function stamp(   i) {
		for (i = 3; i < NF; i++)
			if ($i ~ /^[0-9]+$/ && $(i + 1) ~ /^(kvm|irq):/)
				return $i + 0
	}
	function vcpu(before, behind) {
		match($0, before "[0-9]+" behind)
		return substr($0, RSTART, RLENGTH) ~ /1/
	}
	/^vm1 / && !begun++ { split("", up) }
	/ kvm:vgic_update_irq_pending: .* IRQ 27, / {
		v = vcpu("VCPU: ", ",")
		if ($NF == 0)
			delete up[v]
		else if (!(v in up))
			up[v] = stamp()
	}
	/ irq:irq_handler_entry: .* name=arch_timer/ {
		v = vcpu("[[]v", "[]]")
		if (v in up) {
			n++
			sum += stamp() - up[v]
			delete up[v]
		}
	}
	END { printf "%d %.0f\n", n, sum / khz }' "$out" >"$tmp/timers"
handlers=$(grep -c 'irq:irq_handler_entry: .* name=arch_timer' "$out")
run "$kvmft" latency irq -q --worst 0 --format csv "$rig/host" "$rig/guest"
status_is 0 "latency irq"
grep -E ',(total|counted),' "$out" | sed 's/^/# /'
is "$(awk -F , '$4 == "total" && $3 ~ / arch_timer"$/ { printf "%d %.0f\n", $5, $11 / 1000 }' "$out")" \
	"$(cat "$tmp/timers")" "... timers: as many as a script finds in the time line, and as late (ms)"
ok "... each handler of the guest's is a timer's of the host ($handlers)" \
	test "$(($(cut -d ' ' -f 1 "$tmp/timers") * 20))" -ge $((handlers * 19)) -a "$handlers" -gt 50
raised=$(awk -F , '$4 == "raise" && $3 ~ /"line irq [0-9]+ virtio[0-9]+"/ { n += $5 } END { print n + 0 }' "$out")
ok "... a device's, whose line the VMM raised ($raised)" test "$raised" -gt 0
sums_of "the pair" irq,io,sched "$rig/host" "$rig/guest"
run "$kvmft" latency irq -q --worst 0 "$rig/host" "$rig/guest"
is "$(grep -c '^note: <:' "$out")" "$(sed '/^Interrupt/,/^$/!d' "$out" | grep -c '[a-z]< ' | sed 's/[1-9].*/1/')" \
	"... the mark < is explained where it is"
run "$kvmft" latency timer "$rig/host" "$rig/guest"
status_is 4 "latency timer"
err_has "no event has its deadlines" "... says what it lacks"

run "$kvmft" blame -q "$rig/host" "$rig/guest"
status_is 0 "blame"
out_has '^1[.] .*, vm1 vCPU [0-9]+, at ' "... what was slow"

# ---- what that machine made of its captures is what this one does ----

(cd "$rig" && "$plain" merge host guest) >"$tmp/read" 2>"$tmp/read.err"
ok "the arm64 build prints the same time line" cmp "$tmp/read" "$rig/read-merge.txt"
ok "... and says the same" cmp "$tmp/read.err" "$rig/read-merge.err"
"$plain" report -i "$rig/host" --per vcpu >"$tmp/read" 2>&1
ok "... and the same report" cmp "$tmp/read" "$rig/read-report.txt"
finish
