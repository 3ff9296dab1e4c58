#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# kvmft exits on a host: both engines and perf kvm stat count the same exits of the same VM, in one
# run; every mode shows what it should; VMs that come and go; nothing is left in the kernel.

. "$(dirname "$0")/tap.sh"

rig exits --timeout 280
d=$rig/exits
io=io hlt=hlt msr=msr
! on_intel || io=IO_INSTRUCTION hlt=HLT msr=MSR_WRITE

# rows FILE: "TID REASON COUNT TIMED", sorted, of a JSON table.
rows()
{
	sed 's/{"pid"/\n&/g' "$d/$1.out" |
		sed -nE 's/.*"tid":([0-9]+),.*"reason":"([^"]*)",.*"count":([0-9]+)(,"timed":([0-9]+))?.*/\1 \2 \3 \5/p' |
		sed 's/ $//' | LC_ALL=C sort
}

# by_reason COLUMN: of rows on stdin, "REASON SUM", sorted.
by_reason()
{
	awk -v c="$1" '{ n[$2] += $c } END { for (r in n) print r, n[r] }' | LC_ALL=C sort
}

# ---- the same VM, counted by three ----

rows kernel >"$tmp/kernel"
rows user >"$tmp/user"
ok "the kernel's engine has rows" test "$(wc -l <"$tmp/kernel")" -ge 6
is "$(cat "$tmp/user")" "$(cat "$tmp/kernel")" "both engines: same counts, same number of times"
cut -d ' ' -f 1-3 "$tmp/kernel" >"$tmp/counts"
is "$(rows kernel-counts)" "$(cat "$tmp/counts")" "... and in an instance without times (kernel)"
is "$(rows user-counts)" "$(cat "$tmp/counts")" "... and in an instance without times (user)"
is "$(awk '$2 == "'$io'" { print $3 }' "$tmp/kernel" | sort -u)" 300 "each vCPU's out instructions: as the VM counted"
is "$(awk '$2 == "'$hlt'" { print $3 - $4 }' "$tmp/kernel" | sort -u)" 1 \
	"the last hlt of each is counted, and not timed: no entry followed"
sed -nE 's/^ *([A-Za-z_]+) +([0-9]+) +[0-9.]+% .*/\1 \2/p' "$d/perf.out" | LC_ALL=C sort >"$tmp/perf"
ok "perf kvm stat has rows" test "$(wc -l <"$tmp/perf")" -ge 3
is "$(by_reason 4 <"$tmp/kernel")" "$(cat "$tmp/perf")" "perf kvm stat counts the same pairs"
sed 's/^/# perf: /' "$tmp/perf"
is "$(sed -n 's/.*"lost":\([0-9]*\).*/\1/p' "$d/kernel.out" "$d/user.out" | sort -u)" 0 "nothing was lost"
# Both measure the same times, each with its own stamps.
total()
{
	sed 's/{"pid"/\n&/g' "$d/$1.out" | sed -nE 's/.*"total_ns":([0-9]+).*/\1/p' |
		awk '{ n += $1 } END { print n + 0 }'
}
ok "times agree within a quarter" awk -v a="$(total kernel)" -v b="$(total user)" \
	'BEGIN { exit !(a > 0 && a < 1.25 * b && b < 1.25 * a) }'
echo "# total: kernel $(total kernel) ns, user $(total user) ns"
file_has "$d/kernel.err" 'the kernel counts: hist triggers in kvmft' "--engine says which: 1"
file_has "$d/user.err" 'kvmft counts: events recorded in kvmft' "--engine says which: 2"
file_has "$d/kernel.err" 'the VM ended' "it ends with the VM"

# ---- one that came and went ----

short=$(sed -n 's/^pid \([0-9]*\) .*/\1/p' "$d/comes.out")
file_has "$d/all.out" "^$short +[0-9]+ +$io +100 +$short-[0-9]+:0 \(ended\)\$" "a short VM: PID, vCPU, all exits, ended"
file_has "$d/all.err" "VM $short-[0-9]+ started" "... its start is reported"
file_has "$d/all.err" "VM $short-[0-9]+ ended" "... and its end"

# ---- modes ----

# mode NAME STATUS HEADER
mode()
{
	is "$(cat "$d/$1.rc")" "$2" "$1: exit status"
	is "$(head -n 1 "$d/$1.out" | tr -s ' ')" "$3" "$1: columns"
	[ "$2" = 0 ] || return
	# COUNT is the number after the reason.
	is "$(awk -v c="$(echo "$3" | tr ' ' '\n' | grep -n '^COUNT$' | cut -d : -f 1)" \
		'NR > 1 { if (last != "" && $c > last) bad++; last = $c; n++ }
		END { print (n ? bad + 0 : "no rows") }' "$d/$1.out")" 0 "$1: most exits first"
}
pid=$(fact pid)
tid0=$(fact tid0)
tid1=$(fact tid1)
mode everything 0 "PID TID KVM_EXIT_REASON COUNT VM:VCPU"
file_has "$d/everything.out" "^$pid +$tid0 +$msr +[0-9]+ +vm1:0\$" "... rows have PID, TID, VM and vCPU"
mode pid 0 "KVM_EXIT_REASON COUNT"
is "$(awk 'NR > 1 { print $1 }' "$d/pid.out" | sort | uniq -d)" "" "... each reason once"
mode vcpu 0 "KVM_EXIT_REASON COUNT"
mode threads 0 "TID KVM_EXIT_REASON COUNT VM:VCPU"
is "$(awk 'NR > 1 { print $1, $NF }' "$d/threads.out" | sort -u | tr '\n' ' ')" \
	"$(printf '%s\n' "$tid0 vm1:0" "$tid1 vm1:1" | sort | tr '\n' ' ')" "... both vCPUs, no other thread"
mode tid 0 "KVM_EXIT_REASON COUNT"
mode tids 0 "TIDS KVM_EXIT_REASON COUNT VM:VCPU"
is "$(awk 'NR > 1 { print $1 }' "$d/tids.out" | sort -u | tr '\n' ' ')" \
	"$(printf '%s\n' "$tid0" "$tid1" | sort | tr '\n' ' ')" "... of both threads"
mode vm 0 "KVM_EXIT_REASON COUNT TOTAL(us) AVG(us) MAX(us)"
mode vm-user 0 "KVM_EXIT_REASON COUNT TOTAL(us) AVG(us) MAX(us)"
# No exit lasts longer than the measurement; AVG is between 0 and MAX.
for name in vm vm-user; do
	is "$(awk 'NR > 1 && $3 != "-" && ($5 > 60e6 || $4 > $5 || $5 > $3) { bad++ } END { print bad + 0 }' \
		"$d/$name.out")" 0 "$name: average <= maximum <= total, none absurd"
	sed 's/^/# /' "$d/$name.out"
done
is "$(cat "$d/no-vcpu.rc")" 1 "a vCPU that is not there"
file_has "$d/no-vcpu.err" "PID $pid has no vCPU 4; it has 0-1" "... and those that are"
is "$(cat "$d/no-vcpu-thread.rc")" 1 "a thread that runs no vCPU"
file_has "$d/no-vcpu-thread.err" "TID $pid .* runs no vCPU; those of PID $pid run in.* $tid0" "... and those that do"

# ---- intervals, files, terminal ----

is "$(grep -c '^time,' "$d/interval.out")" 1 "--interval, CSV: one header"
is "$(awk -F , 'NR > 1 { print $1 }' "$d/interval.out" | sort -u | wc -l | tr -d ' ')" 3 "... -n 3: three tables"
is "$(awk -F , 'NR > 1 && ($2 < 0.3 || $2 > 5)' "$d/interval.out")" "" "... of about half a second each"
is "$(cat "$d/metrics.rc")" 0 "--format openmetrics -o FILE"
is "$(tail -n 1 "$d/kvm.prom")" "# EOF" "... the file is whole"
# Each line a comment or a sample of a metric that was declared, each series once.
is "$(awk '/^# TYPE / { type[$3] = $4; next } /^#/ { next }
	{ name = $1; sub(/{.*/, "", name); base = name; sub(/_total$/, "", base); n++
	  if (!(base in type) || (type[base] == "counter") != (name != base)) bad = bad " " name
	  key = $0; sub(/ [^ ]*$/, "", key); if (seen[key]++) bad = bad " twice:" key
	  if ($NF !~ /^[0-9.]+$/) bad = bad " value:" $NF }
	END { print (n > 8 ? bad : "few lines") }' "$d/kvm.prom")" "" "... and well-formed"
file_has "$d/kvm.prom" "kvm_exits_total\{vm=\"$pid-[0-9]+\",name=\"vm1\",.*vcpu=\"0\",reason=\"$hlt\"\} [1-9]" \
	"... with counters by VM, vCPU and reason"
is "$(grep -c KVM_EXIT_REASON "$d/top.out")" 2 "--top without a terminal: plain tables"
ok "... without escape sequences" sh -c "! grep -q '$(printf '\033')' '$d/top.out'"
is "$(cat "$d/terminal.rc")" 0 "--top on a terminal, ended by q"
file_has "$d/terminal.out" "$(printf '\033')\\[\\?1049h" "... takes the other screen"
file_has "$d/terminal.out" 'kvmft exits: all threads, 1 VM, [0-9]+ exits/s, counted by the kernel' "... with a head line"
file_has "$d/terminal.out" "$(printf '\033')\\[\\?1049l" "... and gives it back"
# Counts and times begin at the same moment, except for an exit in progress then; no other vCPU is included.
rows latency >"$tmp/latency"
ok "--latency of a guest that runs already: no more times than exits" \
	awk '$4 != "" && $4 > $3 + 1 { bad = 1; print "# " $0 } END { exit bad || NR < 6 }' "$tmp/latency"
for name in latency-vcpu latency-vcpu-user; do
	is "$(sed 's/{"reason"/\n&/g' "$d/$name.out" | sed -nE 's/.*"reason":"(hlt|HLT|\(halt).*"timed":([0-9]+).*/\1 \2/p' | LC_ALL=C sort |
		awk '{ print $1; n[NR] = $2 } END { print (n[1] <= n[2] + 2 ? "no more" : n[1] " of " n[2]) }' | tr '\n' ' ')" \
		"(halt $hlt no more " "$name: only halts of that vCPU"
done
file_has "$d/latency-vcpu.out" '"reason":"\(halt to wake-up\)","code":null,"count":null,.*"max_ns":null' \
	"... of which the kernel keeps no maximum"
file_has "$d/reset.out" 'instance kvmft.*: removed' "a killed one: reset removes the instance with its triggers"
file_has "$d/reset.out" 'synthetic event kvmft_.*: removed' "... and the synthetic event"
finish
