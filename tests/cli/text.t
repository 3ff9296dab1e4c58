#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Traces as text: what a recording's own text, trace-cmd's and perf's give is what the recording gives; every form of
# a line that people post; and text that means no good.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
mkcap=$tools/mkcap
golden=$top/tests/golden

# ---- a recording and its text ----

# Of a VM the text has no name, and of its kernel nothing.
plain() { sed -E 's/tids:[0-9,]+|\<vm1\>/VM/g; /^# kernel|whose entry was on another CPU/d; s/ +/ /g' "$1"; }

# same NAME RECORDING TEXT COMMAND...: the same table, of both.
same()
{
	sa_name=$1 sa_of=$2 sa_text=$3
	shift 3
	"$kvmft" "$@" "$sa_of" 2>"$err" >"$tmp/want"
	plain "$tmp/want" >"$tmp/want.plain"
	run "$kvmft" "$@" "$sa_text"
	plain "$out" >"$tmp/have.plain"
	ok "$sa_name: $*" cmp "$tmp/want.plain" "$tmp/have.plain"
	ok "... there is one" test -s "$tmp/have.plain"
}

# counts FILE: reasons and samples of a report; their order is that of times, which may be of whole us.
counts() { awk '$3 ~ /%$/ { print $1, $2 } $4 ~ /%$/ { print $1, $2, $3 }' "$1" | sort; }

for f in basic split access nested loss; do
	expect=0
	[ $f != loss ] || expect=3
	ok "$f" "$mkcap" --trace-dat "$tmp/$f.dat" "$golden/report-$f.txt"
	"$kvmft" merge "$tmp/$f.dat" >"$tmp/$f.txt" 2>"$err"
	same "$f, merge's text" "$tmp/$f.dat" "$tmp/$f.txt" report --per all --split
	run "$kvmft" merge "$tmp/$f.txt"
	ok "... the same lines again" cmp "$tmp/$f.txt" "$out"
	run "$kvmft" export -q --to trace.dat -i "$tmp/$f.txt" -o "$tmp/$f.again"
	status_is $expect "... to a trace.dat"
	run "$kvmft" merge "$tmp/$f.again"
	ok "... and back" cmp "$tmp/$f.txt" "$out"
done

if command -v trace-cmd >/dev/null; then
	raw=-R
	if trace-cmd report -R "$golden/foreign/pair/host.dat" 2>/dev/null | grep -q '\]-0x[0-9a-f]*:'; then
		raw=
		skip "trace-cmd report -R" "this one prints a number and the time as one: which is which cannot be told"
	fi
	for o in "" -N $raw; do
		for f in basic nested access; do
			# shellcheck disable=SC2086 # may be none
			trace-cmd report $o -t "$tmp/$f.dat" >"$tmp/tc.txt" 2>/dev/null
			same "$f, trace-cmd report $o -t" "$tmp/$f.dat" "$tmp/tc.txt" report --per all
			# shellcheck disable=SC2086
			trace-cmd report $o "$tmp/$f.dat" >"$tmp/tc.txt" 2>/dev/null
			run "$kvmft" report --per all "$tmp/tc.txt"
			err_has 'its times are in steps of 1 us: shorter ones are not known' "... without -t: says how exact"
			counts "$out" >"$tmp/have"
			"$kvmft" report --per all "$tmp/$f.dat" 2>/dev/null >"$tmp/want"
			counts "$tmp/want" >"$tmp/want.counts"
			ok "... the same counts" cmp "$tmp/want.counts" "$tmp/have"
			ok "... there are some" test "$(wc -l <"$tmp/have")" -gt 3
		done
	done
	host=$golden/foreign/pair/host.dat
	guest=$golden/foreign/pair/guest.dat
	for o in "" $raw; do
		# shellcheck disable=SC2086
		trace-cmd report $o "$host" >"$tmp/host.txt" 2>/dev/null
		# shellcheck disable=SC2086
		trace-cmd report $o "$guest" >"$tmp/guest.txt" 2>/dev/null
		same "a host that runs two vCPUs, trace-cmd report $o" "$host" "$tmp/host.txt" report --per all
		same "... " "$host" "$tmp/host.txt" report --event msr --per all
		same "... " "$host" "$tmp/host.txt" blame
		same "... " "$host" "$tmp/host.txt" latency sched
	done
	# trace-cmd 3.3: flags, without a blank before a time of 12 digits.
	trace_cmd_report "$host" 2>/dev/null | sed -E 's/(\[[0-9]+\]) *([0-9]+: )/\1 d..2.\2/' >"$tmp/flags.txt"
	same "flags before the time" "$host" "$tmp/flags.txt" report --per all
	same "... " "$host" "$tmp/flags.txt" blame
	"$kvmft" verify "$host" "$guest" 2>/dev/null >"$tmp/want"
	run "$kvmft" verify "$tmp/host.txt" "$tmp/guest.txt"
	status_is 0 "a pair of texts in the TSC is aligned"
	ok "... as the recordings are" cmp "$tmp/want" "$out"
	err_has "host.txt: its times grow as a TSC's do, and are read as x86-tsc" "... says how they are read"
	trace-cmd report -t "$golden/foreign/agent/host.dat" >"$tmp/host.ns" 2>/dev/null
	trace-cmd report -t "$golden/foreign/agent/host-vm1.dat" >"$tmp/guest.ns" 2>/dev/null
	run "$kvmft" verify "$tmp/host.ns" "$tmp/guest.ns"
	status_is 0 "a pair of texts in ns is aligned by its events"
	out_has 'all 5847 guest events .* lie in' "... all of them"
	out_has 'all others leave more events outside: unique' "... in one way alone"
	bounds() { sed -n 's/.*any from \(-*[0-9]*\) to \(-*[0-9]*\) .*/\1 \2/p' "$out"; }
	bounds >"$tmp/bounds"
	trace-cmd report "$golden/foreign/agent/host.dat" >"$tmp/host.us" 2>/dev/null
	trace-cmd report "$golden/foreign/agent/host-vm1.dat" >"$tmp/guest.us" 2>/dev/null
	run "$kvmft" verify "$tmp/host.us" "$tmp/guest.us"
	status_is 0 "... and in us"
	bounds >>"$tmp/bounds"
	ok "... within bounds that have those in them" awk 'NR == 1 { lo = $1; hi = $2 }
		END { exit !(NR == 2 && $1 <= lo - 1000 && $2 >= hi + 1000) }' "$tmp/bounds"
	run "$kvmft" verify "$host" "$tmp/guest.txt"
	ok "a guest's text beside a host's file" cmp "$tmp/want" "$out"
	# One side in ns, the other in cycles: the TSC's frequency says how they run. As if it were 2400.123 MHz.
	for f in host guest; do
		without_flags <"$tmp/$f.txt" | awk 'match($0, /\] *[0-9]+:/) { t = substr($0, RSTART + 1, RLENGTH - 2)
			ns = int(t * 1000000 / 2400123) + 5000000000
			printf "%s %d.%09d%s\n", substr($0, 1, RSTART), ns / 1000000000, ns % 1000000000,
				substr($0, RSTART + RLENGTH - 1) }' >"$tmp/$f.ns"
	done
	for f in "$tmp/host.ns $guest" "$host $tmp/guest.ns"; do
		run "$kvmft" verify --tsc-khz 2400123 "${f% *}" "${f#* }"
		status_is 0 "ns beside cycles: ${f##*/}"
		out_has 'all 1129 guest events .* lie in' "... all fit"
		out_has 'clock offset .* TSC ratio .*: unique|all others leave more events outside: unique' "... in one way alone"
		out_has 'drift of the guest.s clock .* between -[0-9]+ and \+[0-9]+ parts' "... within this drift"
		err_has 'clock offset [-0-9]+ \+-(42[0-9]{3} cycles \()?17.7[0-9]* us' "... within these bounds, on the host's clock"
		run "$kvmft" verify "${f% *}" "${f#* }"
		status_is 4 "... without the frequency: cannot tell"
		err_has 'counts cycles, .* ns, and how fast that TSC runs is not known: give it with --tsc-khz: .*; or record' "... what would help"
		run "$kvmft" merge --tsc-khz 2400000 "${f% *}" "${f#* }"
		status_is 4 "... with a wrong one: no merge"
	done
	run "$kvmft" verify --tsc-khz 2400000 "$host" "$tmp/guest.ns"
	out_has 'the rate is wrong: guest times drift by' "... verify says by how much"
	run "$kvmft" blame --tsc-khz 2400123 "$host" "$tmp/guest.ns"
	is "$(grep -c 'symbols' "$err")" 0 "... a text has no symbols"
else
	skip "trace-cmd report" "trace-cmd is not installed"
fi

if command -v perf >/dev/null; then
	for f in basic access; do
		ok "$f.perf" "$tools/perfdata" "$tmp/$f.dat" "$tmp/$f.perf" kvm_entry kvm_exit kvm_mmio kvm_pio kvm_msr
		perf script --ns -i "$tmp/$f.perf" >"$tmp/perf.txt" 2>/dev/null
		same "$f, perf script" "$tmp/$f.perf" "$tmp/perf.txt" report --per all
		perf script --ns -F tid,cpu,time,event,trace -i "$tmp/$f.perf" >"$tmp/perf.txt" 2>/dev/null
		same "... without comm" "$tmp/$f.perf" "$tmp/perf.txt" report --per all
	done
else
	skip "perf script" "perf is not installed"
fi

# ---- every recording that the tests have, and its text ----

# What was late, or a part of it, and |, and how long. A text does not say what was recorded and never came, of which
# kernel, and how the TSC goes: what follows from that is unknown then.
late()
{
	"$kvmft" blame --top 1000 --what irq,stall,wakeup,ready "$1" 2>"$err" | awk '
		/^#/ { exit }
		{ gsub(/ +/, " "); sub(/, perhaps others/, "") }
		sub(/^[0-9]+\. /, "") {
			sub(/, [^ ]+ vCPU/, ", vCPU"); long = $1 " " $2; sub(/^[^ ]+ [^ ]+ /, "")
			at = $0; print at "|" long; next
		}
		/ % / && !/unknown|others$/ { long = $1 " " $2; sub(/^ ?[^ ]+ [^ ]+ [0-9]+ % /, ""); print at " = " $0 "|" long }'
}

# near WANT HAVE: what HAVE has that WANT has not; a tenth is what rounding takes.
near()
{
	awk -F '|' 'NR == FNR { want[$1] = $2; next }
		{ split(want[$1], w, " "); split($2, h, " "); d = w[1] - h[1] }
		w[2] != h[2] || d > 0.1001 || d < -0.1001' "$1" "$2"
}

# totals FILE ANALYSES: of what, how often and how long at most, |
totals()
{
	"$kvmft" latency "$2" -q --format csv "$1" 2>"$err" |
		awk -F '"' '/,total,/ { split($5, f, ","); print $1 $4 "|" f[3] "|" f[8] }' | sort
}

# read_back NAME RECORDING TEXT
read_back()
{
	late "$2" >"$tmp/want"
	late "$3" >"$tmp/have"
	near "$tmp/want" "$tmp/have" >"$tmp/more"
	grep -v ' = ' "$tmp/want" >"$tmp/want.late"
	near "$tmp/have" "$tmp/want.late" >>"$tmp/more"
	is "$(cat "$tmp/more")" "" "$1: the same was late, and no cause is another one"
	for c in "report --per all" "report --per all --event mmio" "report --per all --event msr"; do
		for f in "$2" "$3"; do
			# shellcheck disable=SC2086 # words
			"$kvmft" $c "$f" 2>"$err" | plain /dev/stdin | sed -E '/^#/d; s/(handled time:[0-9]+)\..*/\1/' >"$tmp/have"
			[ "$f" != "$2" ] || mv "$tmp/have" "$tmp/want"
		done
		ok "... $c" cmp "$tmp/want" "$tmp/have"
	done
	totals "$2" sched,irq,io >"$tmp/want"
	totals "$3" sched,irq,io >"$tmp/have"
	# of two moments, each to the ns
	is "$(paste -d '|' "$tmp/want" "$tmp/have" | awk -F '|' '$1 != $4 || $2 != $5 || ($3 - $6) ^ 2 > 5e-6')" "" \
		"... latency"
	cat "$tmp/have" >>"$tmp/measured"
	totals "$2" mem >"$tmp/want"
	totals "$3" mem >"$tmp/have"
	is "$(awk -F '|' 'NR == FNR { n[$1] += $2; next } $1 !~ /unknown/ && (n[$1] -= $2) < 0' "$tmp/want" "$tmp/have")" "" \
		"... and no other reason to wait for memory"
	cat "$tmp/have" >>"$tmp/measured"
	"$kvmft" merge -q "$3" 2>"$err" >"$tmp/want"
	"$kvmft" export -q --to trace.dat -i "$3" -o "$tmp/again.dat" 2>"$err"
	"$kvmft" merge -q "$tmp/again.dat" 2>"$err" >"$tmp/have"
	ok "... a trace.dat of it has the same lines" cmp "$tmp/want" "$tmp/have"
	ok "... there are some" test -s "$tmp/have"
	rm -f "$tmp/again.dat"
}

# printed CAPTURE: what mkcap's own events have is printed.
printed()
{
	grep -rlx 'print fmt: ""' "$1/events" | while read -r pr_file; do
		awk -F '[ ;]' '/field:u[0-9]+ / { s = s " " $2 "=0x%llx"; a = a ", REC->" $2 }
			/^print fmt/ { $0 = "print fmt: \"" substr(s, 2) "\"" a } { print }' "$pr_file" >"$tmp/format"
		cat "$tmp/format" >"$pr_file"
	done
}

for f in "$golden"/report-*.txt "$golden"/latency-*.txt "$golden"/vmx-*.txt "$golden"/qemu-host.txt; do
	name=${f##*/}
	case ${name%.txt} in report-2012 | report-arm64) continue ;; esac # their formats print no fields
	"$mkcap" --capture "$tmp/back" "$f"
	printed "$tmp/back"
	"$kvmft" merge "$tmp/back" >"$tmp/back.txt" 2>"$err"
	read_back "$name" "$tmp/back" "$tmp/back.txt"
	# perf script has no line for losses here
	grep -q ' LOST ' "$tmp/back.txt" || {
		sed -nE 's/^[^ ]+ +(.*)-([0-9]+) +\[v?([0-9]+)\] +([0-9]+\.[0-9]+)  +([a-z_]+:[a-z_0-9]+: )/ \1 \2 [00\3] \4: \5/p' \
			"$tmp/back.txt" >"$tmp/back.perf"
		read_back "... in perf script's form" "$tmp/back" "$tmp/back.perf"
	}
	rm -r "$tmp/back"
done
for dat in "$golden"/foreign/*/*.dat; do
	"$kvmft" merge "$dat" >"$tmp/back.txt" 2>"$err"
	read_back "${dat#"$golden"/}" "$dat" "$tmp/back.txt"
	case $dat in */agent/host-vm1.dat) continue ;; esac # trace-cmd shows its times by the host's clock
	command -v trace-cmd >/dev/null || continue
	trace-cmd report -t "$dat" >"$tmp/back.txt" 2>/dev/null
	! grep -q '^cpus=[1-9]' "$tmp/back.txt" || read_back "... by trace-cmd" "$dat" "$tmp/back.txt"
done
if command -v perf >/dev/null; then
	for dat in "$golden"/foreign/*/*.dat; do
		"$kvmft" merge "$dat" 2>"$err" | sed -nE 's/.*  ([a-z_]+:[a-z_]+): .*/\1/p' | sort -u >"$tmp/events"
		# shellcheck disable=SC2046 # words
		ok "${dat#"$golden"/} as of perf" "$tools/perfdata" --vcpus 100 "$dat" "$tmp/back.perf" $(cat "$tmp/events")
		perf script --ns -i "$tmp/back.perf" >"$tmp/back.txt" 2>/dev/null
		read_back "... perf script" "$tmp/back.perf" "$tmp/back.txt"
	done
fi

for kind in sched irq io mem; do
	ok "$kind was compared" grep -q "^$kind" "$tmp/measured"
done

# ---- what merge prints beside events ----

for gap in "NOT RECORDED on this CPU while the ring was written out, within 1 us" "DAMAGED: sub-buffer 3 of this CPU is \
unusable, its rest is left out" "PERHAPS NOT RECORDED on this CPU: the recording was cut short, within 1 us"; do
	cat >"$tmp/beside.txt" <<-E
		host a-1 [0] 1.000000001  kvm:kvm_exit: vcpu 0 reason msr rip 0x1 info1 0x0 info2 0x0
		host -   [-] 1.000000001  EPOCH of the clock of vCPU 0 of vm1: TSC offset -1, pvclock record 6
		host -   [-] 1.000000001  2 EPOCHS of vCPUs' clocks began, the last of this one: TSC offset -1
		host a-1 [0] 1.000000002  kvm:kvm_entry: vcpu 0, rip 0x1
		host a-1 [0] 1.000000010  kvm:kvm_exit: vcpu 0 reason msr rip 0x1 info1 0x0 info2 0x0
		host -   [0] 1.000000020  $gap
		host a-1 [0] 1.000002000  kvm:kvm_entry: vcpu 0, rip 0x1
	E
	run "$kvmft" merge -q "$tmp/beside.txt"
	is "$(sed 's/\(LOST EVENTS\).*/\1/' "$out" | grep -v LOST)" "$(grep kvm: "$tmp/beside.txt")" "a text with its clocks' epochs: events"
	is "$(grep -c LOST "$out")" 1 "... ${gap%% of*}: is a loss"
	run "$kvmft" report "$tmp/beside.txt"
	out_has 'msr +1 +100.00% +100.00% +0.00us +0.00us' "... over which nothing is measured"
done
printf 'host a-1 [0] 1.00000000%s\n' '1  kvm:kvm_entry: vcpu 0' '1  ftrace:kernel_stack: inner <- outer [kvm] <- 0x77' \
	>"$tmp/beside.txt"
run "$kvmft" merge -q "$tmp/beside.txt"
ok "a stack as merge prints it is printed again" cmp "$tmp/beside.txt" "$out"

# ---- numbers of any length, and what only looks like one ----

# Lines of many kinds, each with a number more or less in a name, and then with longer ones.
awk 'BEGIN { for (k = 0; k < 600; k++) for (i = 0; i < 2; i++) printf("x-1 [000] 1.%06d: sched_switch: prev_comm=%c%c " \
	"prev_pid=%d prev_prio=120 prev_state=S ==> next_comm=%s%c%c next_pid=%d next_prio=%d\n", 2 * k + i, 97 + k % 26, 97 + k / 26,
	3 + i * 40, k % 2 ? "w/0:0" : "w", 97 + k % 26, 97 + k / 26, 7 + i * 1000, 120 - i * 100) }' >"$tmp/kinds.txt"
run "$kvmft" merge --format json "$tmp/kinds.txt"
status_is 0 "many kinds of lines of one event"
is "$(grep -oE '"prev_pid":[0-9]*|"next_(pid|prio)":[0-9]*' "$out" | sort | uniq -c | tr -s ' \n' ' ')" \
	' 600 "next_pid":1007 600 "next_pid":7 600 "next_prio":120 600 "next_prio":20 600 "prev_pid":3 600 "prev_pid":43 ' \
	"... each read by its own numbers"

for n in $(seq 17); do
	hex=$(printf '%s' fEdCa0987654321bF | cut -c "1-$n")
	echo " x-1 [000] d..2. 1.0000$((n + 10)): kvm_mmio: mmio write len $n gpa 0x$hex val 0x${hex}g"
	echo " x-1 [000] d..2. 1.0000$((n + 10))5: kvm_hypercall: nr 0x$n a0 0xa0$n, a1 ${hex#f}"
done >"$tmp/numbers.txt"
run "$kvmft" merge --format json "$tmp/numbers.txt"
for n in $(seq 16); do
	hex=$(printf '%s' fEdCa0987654321bF | cut -c "1-$n")
	printf '"len":%u,"gpa":%u,"text"\n' "$n" "0x$hex"
	[ "$n" -gt 9 ] || printf '"nr":%u,"a0":%u,\n' "0x$n" "0xa0$n"
done >"$tmp/numbers"
is "$(grep -cFf "$tmp/numbers" "$out")" 25 "hex of 1 to 16 digits, and no value where a word goes on"
file_has "$out" '"len":17,"text"' "... nor of 17 digits"
for n in 'entry: vcpu 4294967295, rip 0x1' 'entry: vcpu 4294967296, rip 0x2' 'cpuid: func 3 idx 0 rax 0 rbx db5 rcx c0ffee0' \
	'cpuid: func 4 idx 0 rax 1 rbx 0 rcx a1f2000'; do
	echo " x-1 [000] d..2. 1.000001: kvm_$n"
done >"$tmp/bits.txt"
run "$kvmft" merge --format json "$tmp/bits.txt"
out_has '"fields":{"vcpu_id":4294967295,"rip":1,' "a vCPU's number has 32 bits"
out_has '"fields":{"rip":2,' "... and is none if there are more"
out_has '"rbx":3509,"rcx":202374880,' "hex that begins with a letter"
out_has '"rbx":0,"rcx":169811968,' "... in a line that is like the one before"
printf ' x-1 [000] d..2. 1.000001: kvm_userspace_exit: reason%s\n' " KVM_EXIT_IO (2)" "" >"$tmp/none.txt"
run "$kvmft" merge --format json "$tmp/none.txt"
out_has '"fields":{"text":"reason"}' "what a line lacks is not 0"

# ---- what blame needs ----

cat >"$tmp/idle.txt" <<-E
	# tracer: nop
	#
	 CPU 0/KVM-900     [002] d..2.  5000.000080: kvm_exit: vcpu 0 reason HLT rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0
	 CPU 0/KVM-900     [002] d..2.  5000.000082: sched_switch: prev_comm=CPU 0/KVM prev_pid=900 prev_prio=120 prev_state=S ==> next_comm=swapper/2 next_pid=0 next_prio=120
	    <idle>-0       [002] d..2.  5000.000083: cpu_idle: state=2 cpu_id=2
	    <idle>-0       [002] dNh2.  5000.030000: sched_wakeup: comm=CPU 0/KVM pid=900 prio=120 target_cpu=002
	    <idle>-0       [002] d..2.  5000.070000: cpu_idle: state=4294967295 cpu_id=2
	    <idle>-0       [002] d..2.  5000.070001: sched_switch: prev_comm=swapper/2 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid=900 next_prio=120
	 CPU 0/KVM-900     [002] d..2.  5000.070002: kvm_entry: vcpu 0, rip 0x1000
	 CPU 0/KVM-900     [002] d..2.  5000.070003: kvm_exit: vcpu 0 reason HLT rip 0x1000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0
	 CPU 0/KVM-900     [002] d..2.  5000.070004: kvm_entry: vcpu 0, rip 0x1000
E
sed -E 's/^/> /; s/ vcpu 0 reason/ reason/; s/^(.*reason) (.*)$/\1\n> \2/' "$tmp/idle.txt" >"$tmp/mail.txt"
gzip -c "$tmp/idle.txt" >"$tmp/idle.txt.gz"
for f in idle.txt mail.txt idle.txt.gz; do
	run "$kvmft" blame --top 1 "$tmp/$f"
	status_is 0 "$f: blame"
	out_has '^1\. 40 ms .* at 5000.030000' "... the 40 ms"
	out_has 'its CPU 2 took long to leave idle state 2' "... and what had the vCPU's CPU"
	run "$kvmft" latency sched --format json "$tmp/$f"
	out_has '"max_ns":4000[01]000,' "... latency"
done
gzip -c "$tmp/idle.txt" | "$kvmft" merge - >"$out" 2>"$err"
is "$(wc -l <"$out")" 9 "packed, through a pipe"
"$kvmft" merge "$tmp/basic.dat" >"$tmp/want" 2>"$err"
gzip -c "$tmp/basic.dat" >"$tmp/dat.gz"
run "$kvmft" merge "$tmp/dat.gz"
ok "a packed trace.dat" cmp "$tmp/want" "$out"
for f in basic.dat dat.gz; do
	"$kvmft" merge - <"$tmp/$f" >"$out" 2>"$err"
	ok "$f as standard input" cmp "$tmp/want" "$out"
	# shellcheck disable=SC2002 # for the pipe
	cat "$tmp/$f" | "$kvmft" merge - >"$out" 2>"$err"
	ok "... and through a pipe" cmp "$tmp/want" "$out"
done
"$kvmft" stuck -i - <"$tmp/idle.txt" >"$out" 2>"$err"
out_has 'vCPU 0, thread 900: ' "stuck, from a file as standard input"
run "$kvmft" diff "$tmp/idle.txt" "$tmp/mail.txt"
err_has 'too short|only .* long|cannot tell' "diff reads both"

# ---- forms ----

# form NAME STATUS: of the text on standard input, merge's lines without their side.
form()
{
	cat >"$tmp/form.txt"
	run "$kvmft" merge "$tmp/form.txt"
	status_is "$2" "$1"
	sed -E 's/^host +//' "$out" >"$tmp/lines"
}
line() { file_has "$tmp/lines" "$1" "... $2"; }

form "flags of seven characters, 5, 4 and none" 0 <<-E
	 qemu-kvm-12    [000] d..h2.1  1.000001: kvm_entry: vcpu 0
	 qemu-kvm-12    [000] d..2.  1.000002: kvm_exit: reason HLT rip 0x1 info 0 0
	 qemu-kvm-12    [000] d..2  1.000003: kvm_entry: vcpu 0
	 qemu-kvm-12    [000] 1.000004: kvm_exit: reason EPT_VIOLATION rip 0x1 info 0 0
E
is "$(grep -c '^qemu-kvm-12 ' "$tmp/lines")" 4 "... all lines"
err_has 'its kvm_exit lines do not name the vCPU' "... says what is missing"
is "$(grep -c 'name the vCPU' "$err")" 1 "... once"

form "the head says what was overwritten, lines what was lost" 3 <<-E
	# entries-in-buffer/entries-written: 2/9   #P:4
	 a-1     [001] .....  1.000001: kvm_entry: vcpu 0
	CPU:1 [LOST 12 EVENTS]
	 a-1     [001] .....  1.000009: kvm_entry: vcpu 0
E
line 'LOST 12 EVENTS of this CPU within 8 us' "12 lost"
err_has '7 events were overwritten before its first one' "... 7 overwritten"
# Each CPU's ring was overwritten up to a moment of its own: a vCPU may have run on another one until then.
exit='reason EPT_VIOLATION rip 0x1000 info 0 0'
for mark in '#' '##### CPU 1 buffer started ####' '# entries-in-buffer/entries-written: 6/9   #P:2'; do
	cat >"$tmp/started.txt" <<-E
		 a-1     [000] .....  1.000001: kvm_entry: vcpu 0, rip 0x1000
		 a-1     [000] .....  1.000002: kvm_exit: $exit
		$mark
		 a-1     [001] .....  1.800200: kvm_entry: vcpu 0, rip 0x1000
		 a-1     [001] .....  1.800300: kvm_exit: $exit
		 a-1     [000] .....  1.900200: kvm_entry: vcpu 0, rip 0x1000
		 a-1     [000] .....  1.900300: kvm_exit: reason HLT rip 0x1000 info 0 0
	E
	run "$kvmft" report --format json "$tmp/started.txt"
	out_has "\"max_ns\":$([ "$mark" = '#' ] && echo 800198000 || echo 99900000)," "$mark: the longest exit that is known"
	run "$kvmft" merge "$tmp/started.txt"
	is "$(grep -c '\[1\] *1.000001000 *NOT RECORDED .* overwritten, within 800.2 ms' "$out")" \
		"$([ "$mark" = '#' ] && echo 0 || echo 1)" "$mark: ... and why"
done
cat >"$tmp/over.txt" <<-E
	# entries-in-buffer/entries-written: 4/1004   #P:1
	 a-1     [000] .....  1.000001: kvm_entry: vcpu 0, rip 0x1000
	 a-1     [000] .....  1.000009: kvm_exit: reason HLT rip 0x1000 info 0 0
	 a-1     [000] .....  1.000900: kvm_entry: vcpu 0, rip 0x1000
	 a-1     [000] .....  1.000950: kvm_exit: reason HLT rip 0x1000 info 0 0
E
for command in report "merge -q" "blame -q" "latency -q sched" "stuck -i"; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" $command "$tmp/over.txt"
	status_is 3 "$command: what was overwritten is missing"
	err_has '1000 events were overwritten before its first one' "... and how much"
done

form "a mail as it was sent: lines that = joins, bytes in hex, blanks that do not break" 0 <<-E
	Content-Transfer-Encoding: quoted-printable

	> vcpu=3D0 is meant=20

	a-1=C2=A0 [001]=C2=A0=C2=A0 1.000001: kvm_entry: vcpu =
	0
	=C2=A0a-1=C2=A0 [001]=C2=A0 1.000003: kvm_exit: reason EP=
	T_VIOLATION rip 0x1000 info 582 0
	 a-1 [001] 1.000004: kvm_msr: msr_write 830 =3D 0x44400
	 a-1 [001] 1.000005: kvm_entry: vcpu 0
E
line '^a-1 +\[1\] 1.000001000  kvm:kvm_entry: vcpu 0$' "blanks"
line 'kvm_exit: reason EPT_VIOLATION rip' "a word in two lines"
line 'kvm_msr: msr_write 830 = 0x44400' "bytes"
is "$(wc -l <"$tmp/lines")" 4 "... all lines"
run "$kvmft" report "$tmp/form.txt"
out_has '^EPT_VIOLATION +1 ' "... and its exit"
form "no mail, if somebody has executed a file of that name" 0 <<-E
	 CPU-101 [000] d..1. 1.000100: kvm_entry: vcpu 0, rip 0x1000
	 e-999 [001] d..1. 1.000400: sched_process_exec: filename=/tmp/Content-Transfer-Encoding: quoted-printable pid=999 old_pid=999
	 e-999 [001] d..1. 1.000500: sched_process_exec: filename=/tmp/x=0A CPU-101 [000] d..1. 1.000600: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0=0A#x pid=999 old_pid=999
	 CPU-101 [000] d..1. 1.000700: kvm_exit: vcpu 0 reason npf rip 0x1000 info1 0x0 info2 0x0
E
is "$(wc -l <"$tmp/lines") $(grep -c '^e-999 ' "$tmp/lines")" "4 2" "... and its name is one"

printf 'a-1\302\240 [001]\302\240\302\240 1.000001: kvm_entry: vcpu\302\2400\n' >"$tmp/nbsp"
form "blanks that do not break, copied from a mail" 0 <"$tmp/nbsp"
line '^a-1 +\[1\] 1.000001000  kvm:kvm_entry: vcpu  0$' "the event"

form "a page in Markdown, of a kernel of 2010" 0 <<-E
	\`\`\`
	kvm-5664  [000] 11906.220181: kvm_exit: reason apic_access rip 0xc011518c
	kvm-5664  [000] 11906.220184: kvm_entry: vcpu 0
	\`\`\`
	and then
E
line 'kvm_entry: vcpu 0$' "what follows is none of the event"
run "$kvmft" report "$tmp/form.txt"
out_has '^ *APIC_ACCESS +1 ' "... an exit in small letters"

form "an access without time and thread" 0 <<-E
	vcpu_match_mmio: gpa 0xd0000000 Read GPA
	kvm_mmio: mmio read len 4 gpa 0xd0000000 val 0x74726976
E
is "$(wc -l <"$tmp/lines")" 2 "... both lines"
run "$kvmft" report "$tmp/form.txt"
out_has '^ *0xd0000000:R +1 ' "... is counted"
form "ports alone, one line cut" 3 <<-E
	a-1 [006] 1.000001: kvm_pio: pio_read  at 0x3fd size 1 val 0x60
	a-1 [006] 1.000002: kvm_pio: pio_read  at 0x3f8 ...
E
run "$kvmft" report "$tmp/form.txt"
out_has '^ *0x3fd:PIN +1 ' "... count"

printf ' a-1 [001] ..... 1.000001: kvm_entry: vcpu 0\n a-1 [001] ..... 1.000009: kvm_entry: vcpu 1' >"$tmp/in"
run "$kvmft" merge "$tmp/in"
status_is 3 "the last line is cut"
err_has 'its last line has no end: it may be cut, and wrong' "... which is said"

form "perf script: blanks in names, periods, chains of callers" 0 <<-E
	 CPU 0/KVM 60250 [003] 1234.567890:          1 kvm:kvm_exit: reason EXIT_NPF rip 0x1000 info 4 fee000b0
		ffffffff81051234 kvm_foo+0x14 ([kernel.kallsyms])

	 CPU 0/KVM 60249/60250 [003] 1234.567895: kvm:kvm_entry: vcpu 0, rip 0x1000
E
line '^CPU 0/KVM-60250 \[3\] 1234.567890000  kvm:kvm_exit: .*kvm_foo' "its callers"
line '^CPU 0/KVM-60250 \[3\] 1234.567895000  kvm:kvm_entry: ' "process and thread"
run "$kvmft" report "$tmp/form.txt"
out_has ' npf +1 ' "... the reason, by the name that trace-cmd has"

form "a date before the thread, flags before the CPU" 0 <<-E
	2021-12-12 16:11:10.214139            a b 206966 .N.. [017] 100.408994: kvm:kvm_exit: reason HLT rip 0x1 info 0 0
	2021-12-12 16:11:10.214203            <...> 206966 d... [017] 100.412981: kvm:kvm_entry: vcpu 20
E
line '^a b-206966 +\[17\] 100.412981000  kvm:kvm_entry' "the thread"

form "no time, three characters of flags" 0 <<-E
	 CPU 0/KVM-82557 [002] ... kvm_entry: vcpu 0, rip 0x1
E
line '^CPU 0/KVM-82557 \[2\] 1  kvm:kvm_entry' "the event"

form "neither threads nor vCPUs: exits alone" 0 <<-E
	foo  7.000001: kvm:kvm_exit: reason HLT rip 0x1 info 0 0
	foo  7.000002: kvm:kvm_exit: reason HLT rip 0x1 info 0 0
	foo  7.000003: kvm:kvm_exit: reason IO_INSTRUCTION rip 0x1 info 0 0
E
run "$kvmft" report "$tmp/form.txt"
status_is 0 "... report"
out_has 'HLT +2 +66.67% +- ' "... counts them, without times"

form "faults and an entry, no exit" 0 <<-E
	 a-1 [007] .....  4.000001: kvm_page_fault: vcpu 0 rip 0x0 address 0x0000000000001234 error_code 0x10
	 a-1 [007] d....  4.000002: kvm_entry: vcpu 0, rip 0x0
E
run "$kvmft" report "$tmp/form.txt"
status_is 0 "... report"
out_has '0x1000 +1 +100.00% +- ' "... counts the fault, without a time"

form "CPUs alone; no times" 0 <<-E
	>   CPU 3: kvm_entry: vcpu 0, rip 0x1 intr_info 0x80000b0e error_code 0x00000000
	>   CPU 3: kvm_foo: MSR 38f: host 1 guest 2
	>   CPU 4: nothing: of KVM
E
line '\[3\] 1  kvm:kvm_entry' "the CPU"
is "$(wc -l <"$tmp/lines")" 2 "... what is none of KVM's"

form "what somebody has put in by hand, and commented out" 0 <<-E
	 # qemu-system-x86-123 [000] .... 1.000001: kvm_entry: vcpu 0 rip 0x1
	 # qemu-system-x86-123 [000] .... 1.000002: <hack>: set DR6 = 0xffff0ff1
	 # qemu-system-x86-123 [000] .... 1.000003: kvm_entry: vcpu 0 rip 0x1
E
line '^qemu-system-x86-123 +\[0\] 1.000002000  text:line: <hack>: set DR6' "the line, and its thread"
is "$(wc -l <"$tmp/lines")" 3 "... all lines"

form "ftrace's system calls, markers, stacks, functions" 0 <<-E
	 a-1     [001] .....  1.000001: sys_ioctl(fd: a, cmd: ae80, arg: 0)
	 a-1     [001] .....  1.000002: sys_ioctl -> 0x0
	 a-1     [001] .....  1.000003: tracing_mark_write: hello: world
	 a-1     [001] .....  1.000004: <stack trace>
	 => kvm_vcpu_ioctl
	 a-1     [001] .....  1.000005: kvm_vcpu_load <-vcpu_load
E
line 'syscalls:sys_enter_ioctl: sys_ioctl\(fd: a' "enter"
line 'syscalls:sys_exit_ioctl: sys_ioctl -> 0x0' "exit"
line 'ftrace:print: hello: world' "marker"
line '<stack trace> => kvm_vcpu_ioctl' "stack"
line 'kvm_vcpu_load <-vcpu_load' "function"

form "no thread: by the vCPU" 0 <<-E
	[000]   3.000001: kvm_entry: vcpu 7, rip 0x1
	[000]   3.000011: kvm_exit: vcpu 7 reason HLT rip 0x1 info1 0x0 info2 0x0
	[000]   3.000014: kvm_entry: vcpu 7, rip 0x1
E
run "$kvmft" report "$tmp/form.txt"
out_has 'HLT +1 .* 3.00us' "... its exit"
err_has 'lines have no thread' "... says so"
form "... of two VMs" 3 <<-E
	[000]   3.000001: kvm_entry: vcpu 0, rip 0x1
	[001]   3.000002: kvm_entry: vcpu 0, rip 0x1
E
err_has 'are of several VMs: times are wrong' "... says so"

form "neither time nor thread nor CPU" 0 <<-E
	Hello, this is what I get:
	kvm_exit: reason EPT_VIOLATION rip 0x1000 info 181 0
	kvm_entry: vcpu 0
E
err_has 'no times: its lines are numbered' "... says so"
line '2  kvm:kvm_entry: vcpu 0' "numbers"

# What is shorter than the text's times tell is no conclusion.
form "exits within a microsecond" 0 <<-E
	 CPU 0/KVM-900 [002] 50.000080: kvm_entry: vcpu 0, rip 0x1
	 CPU 0/KVM-900 [002] 50.000090: kvm_exit: vcpu 0 reason MSR_WRITE rip 0x1 info1 0x0 info2 0x0
	 CPU 0/KVM-900 [002] 50.000090: kvm_entry: vcpu 0, rip 0x1
	 CPU 0/KVM-900 [002] 50.000100: kvm_exit: vcpu 0 reason MSR_WRITE rip 0x1 info1 0x0 info2 0x0
	 CPU 0/KVM-900 [002] 50.000101: kvm_entry: vcpu 0, rip 0x1
E
run "$kvmft" report "$tmp/form.txt"
out_has '^MSR_WRITE +2 .* <1.00us +1.00us +<1.50us ' "... are less than one, or about one"
out_has '^# times are right within 1 us' "... and how right, below"
run "$kvmft" report --format json "$tmp/form.txt"
out_has '"resolution_ns":1000,.*"min_ns":null,"max_ns":1000,"avg_ns":null,' "... no numbers for programs"
run "$kvmft" blame "$tmp/form.txt"
err_has 'nothing was late' "... nor is one of them a spike"
# ... nor when it has become a trace.dat
run "$kvmft" export -q --to trace.dat -i "$tmp/form.txt" -o "$tmp/grain.dat"
run "$kvmft" report "$tmp/grain.dat"
out_has '^MSR_WRITE +2 .* <1.00us +1.00us +<1.50us ' "as a trace.dat: less than one, or about one"
out_has '^# times are right within 1 us' "... and how right, below"
run "$kvmft" blame "$tmp/grain.dat"
err_has 'nothing was late' "... no spike"
sed 's/000101/000112/' "$tmp/form.txt" >"$tmp/slow.txt"
run "$kvmft" blame "$tmp/slow.txt"
out_has '^1\. 12 us ' "... a longer one is"
sed -E 's/([0-9]{6}):/\1000:/' "$tmp/form.txt" >"$tmp/ns.txt"
run "$kvmft" report "$tmp/ns.txt"
out_has '^MSR_WRITE +2 .* 0.00us +1.00us +0.50us ' "... with ns all of it is told"
is "$(grep -c 'times are right within' "$out")" 0 "... and not how right"

# ---- names of tasks, which anybody may choose ----

# named STYLE NAME: a task of that name, thread 555 of CPU 1, runs, is woken, and sleeps.
named()
{
	awk -v style="$1" -v c="$2" 'BEGIN {
		text[1] = style == "plugin" ? "a:0 [120] R ==> " c ":555 [120]" : "prev_comm=a prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=" c " next_pid=555 next_prio=120"
		text[2] = style == "plugin" ? c ":555 [120] CPU:001" : "comm=" c " pid=555 prio=120 target_cpu=001"
		text[3] = style == "plugin" ? c ":555 [120] S ==> " c ":556 [120]" : "prev_comm=" c " prev_pid=555 prev_prio=120 prev_state=S ==> next_comm=" c " next_pid=556 next_prio=120"
		for (i = 1; i <= 3; i++) {
			who = i == 1 ? "a" : c
			pid = i == 1 ? 0 : 555
			name = i == 2 ? "sched_wakeup" : "sched_switch"
			if (style == "perf") printf "%16s %5d [001] 5.00000%d: sched:%s: %s\n", who, pid, i, name, text[i]
			else if (style == "kvmft") printf "host %s-%d [1]  5.00000%d000  sched:%s: %s\n", who, pid, i, name, text[i]
			else printf "%16s-%-5d %s [001] d..2. 5.00000%d: %s: %s\n", who, pid, style == "tgid" ? "(   550)" : "", i, name, text[i]
		}
	}'
}

# of_text: threads of its events
of_text()
{
	"$kvmft" merge -q --format json "$1" 2>"$err" | sed -n 's/.*"pid":\([-0-9]*\),.*"event":"sched:\([a-z_]*\)"/\1 \2/p' |
		grep -oE '^[-0-9]+ [a-z_]+|"[a-z_]*pid":[-0-9]+' | tr '\n' ' '
}

for style in ftrace tgid plugin perf kvmft; do
	named $style x >"$tmp/x.txt"
	of_text "$tmp/x.txt" >"$tmp/of-x"
	is "$(cat "$tmp/of-x")" \
		'0 sched_switch "prev_pid":0 "next_pid":555 555 sched_wakeup "pid":555 555 sched_switch "prev_pid":555 "next_pid":556 ' \
		"$style: the threads of a task"
	for name in 'x prev_pid=1000' 'x next_pid=1000' 'x pid=1000' 'comm=x pid=1000' '==> next_pid=10' 'R ==> x:9 [1' 'x:9 [120]' \
		'q-9 [000]' 'q 9 [000] 1:' '[0]' '( 9) [000]' 'q-9 [0] 1.5 a:b' 'a: [0]' '1.1: kvm_exit:' 'CPU:0 [1 EVENTS' 'x: y' 'x d..1' 'a 1.5: b'; do
		named $style "$name" >"$tmp/name.txt"
		is "$(of_text "$tmp/name.txt")" "$(cat "$tmp/of-x")" "... whose name is '$name'"
	done
done

# Of many names, with as many kinds of lines; blanks in front of a text, more than a line that is remembered has.
for blanks in 1 5000; do
	awk -v blanks=$blanks -v want="$tmp/want" 'function name() { k = x % 31; return sprintf("%c%c%s", 97 + k % 26, 97 + int(k / 9), substr("/1:2/3:4/5", 1, k % 6 * 2)) }
		BEGIN { x = 1; for (i = 0; i < 4000; i++) { x = x * 16807 % 2147483647; a = i ? b : name(); p = i ? q : x % 3000; x = x * 16807 % 2147483647; b = name(); q = x % 3000
			printf "%16s-%-5d [001] d..2. 5.%06d: sched_switch:%*sprev_comm=%s prev_pid=%d prev_prio=%d prev_state=S ==> next_comm=%s next_pid=%d next_prio=120\n", a, p, i, i % 9 ? 1 : blanks, "", a, p, x % 7 ? 120 : 5, b, q
			printf "%d sched_switch \"prev_pid\":%d \"next_pid\":%d ", p, p, q >want } }' >"$tmp/name.txt"
	is "$(of_text "$tmp/name.txt" | cksum)" "$(cksum <"$tmp/want")" "31 names, $blanks blanks: their threads"
done

cat >"$tmp/wait.txt" <<-E
	 CPU 0/KVM-900 [002] 1.000090: kvm_entry: vcpu 0, rip 0x1
	 CPU 0/KVM-900 [002] 1.000090: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0
	 CPU 0/KVM-900 [002] 1.000091: sched_switch: prev_comm=CPU 0/KVM prev_pid=900 prev_prio=120 prev_state=S ==> next_comm=a next_pid=1 next_prio=120
	 a-1 [002] 1.000101: sched_wakeup: comm=CPU 0/KVM pid=900 prio=120 target_cpu=002
	 CPU 0/KVM-900 [002] 1.000101: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid=900 next_prio=120
	 CPU 0/KVM-900 [002] 1.000102: kvm_entry: vcpu 0, rip 0x1
E
run "$kvmft" export -q --to trace.dat -i "$tmp/wait.txt" -o "$tmp/wait.dat"
for f in wait.txt wait.dat; do
	run "$kvmft" latency sched -q "$tmp/$f"
	out_has 'half up to <1 us, 99 % up to <1 us' "latency of $f: less than a microsecond"
	run "$kvmft" latency sched -q --format csv "$tmp/$f"
	out_has '^sched,"tids:900",.*,total,1,,,,,,,' "... no numbers for programs"
done

form "counts that are no TSC" 0 <<-E
	 a-1     [001] .....  100: kvm_entry: vcpu 0
	 a-1     [001] .....  101: kvm_entry: vcpu 0
E
err_has 'the trace clock counter is no time' "... a counter"

form "a hypervisor's remote buffer" 0 <<-E
	[000]   123.456789: hyp_enter
	[001]   123.456801: selftest id=12
E
line '\[1\] 123.456801000  text:selftest: id=12' "its events"

form "the latency format" 0 <<-E
	 qemu-kvm-1234    1d.h2.    12us : kvm_entry: vcpu 0
	 qemu-kvm-1234    1d.h2.   120us!: kvm_exit: reason HLT rip 0x1 info 0 0
E
line '\[1\] 0.000120000  kvm:kvm_exit' "CPU and time"

form "a merge of two sides" 3 <<-E
	guest foo-2  [v0] 5.000000002  sched:sched_wakeup: comm=a pid=3 prio=1 target_cpu=000
	host  qemu-1 [1]  5.000000003  kvm:kvm_entry: vcpu 0, rip 0x0
	host  -      [1]  5.000000004  LOST 5 EVENTS of this CPU within 1 us
	host  qemu-1 [1]  5.000000005? kvm:kvm_entry: vcpu 0, rip 0x0
E
is "$(wc -l <"$tmp/lines")" 3 "... the host's"
err_has '1 lines are of other machines' "... the guest's are named"

form "names of exits" 0 <<-E
	 a-1 [0] 1.000001: kvm_exit: vcpu 0 reason EPT_VIOLATION rip 0x1 info1 0x0 info2 0x0
	 a-1 [0] 1.000002: kvm_exit: vcpu 0 reason INVALID_STATE FAILED_VMENTRY rip 0x1 info1 0x0 info2 0x0
	 a-1 [0] 1.000003: kvm_entry: vcpu 0, rip 0x1
	 b-2 [1] 1.000003: kvm_exit: vcpu 1 reason npf rip 0x1 info1 0x0 info2 0x0
	 b-2 [1] 1.000004: kvm_exit: vcpu 1 reason EXIT_IOIO rip 0x1 info1 0x0 info2 0x0
	 b-2 [1] 1.000005: kvm_entry: vcpu 1, rip 0x1
	 B:    b-2 [1] 1.000006: kvm_exit: vcpu 1 reason EXIT_EXCP_GP rip 0x1 info1 0x0 info2 0x0
	 b-2 [1] 1.000007: kvm_entry: vcpu 1, rip 0x1
E
is "$(wc -l <"$tmp/lines")" 8 "... one that is remarked on, too"
run "$kvmft" report "$tmp/form.txt"
for reason in EPT_VIOLATION INVALID_STATE npf io 'GP excp'; do
	out_has "(^| )$reason +1 " "... $reason"
done
form "... of arm64" 0 <<-E
	 a-1 [0] 1.000001: kvm_entry: PC: 0xffff800008012345
	 a-1 [0] 1.000002: kvm_exit: TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0xffff800008012345
	 a-1 [0] 1.000003: kvm_entry: PC: 0xffff800008012345
	 a-1 [0] 1.000004: kvm_exit: IRQ: HSR_EC: 0x0024 (DABT_LOW), PC: 0xffff800008012345
	 a-1 [0] 1.000105: kvm_entry: PC: 0xffff800008012345
E
sed 's/TRAP/HVC/; s/0xffff8000/0x/; s/(DABT_LOW)/(DABT)/' "$tmp/form.txt" >"$tmp/arm32.txt"
for f in arm32 form; do
	run "$kvmft" report "$tmp/$f.txt"
	out_has 'TRAP:DABT_LOW +1 ' "... a trap, $f"
	out_has ' IRQ +1 ' "... an interrupt"
done
run "$kvmft" blame --top 1 "$tmp/form.txt"
out_has '^1\. 101 us  stall, tids:1 vCPU 1, ' "... a thread whose name has no number is a vCPU of its own"

printf 'First:\n%s\n%s\n\nAnd %s:\n%s\n%s\n' ' 1.000001: kvm_entry: vcpu 0, rip 0x1' \
	' 1.000004: kvm_exit: vcpu 0 reason msr rip 0x1 info1 0x1 info2 0x0' later \
	' 1.900005: kvm_entry: vcpu 0, rip 0x1' \
	' 1.900008: kvm_exit: vcpu 0 reason hlt rip 0x1 info1 0x1 info2 0x0' >"$tmp/near.txt"
sed 's/ 1.9/ 701.9/' "$tmp/near.txt" >"$tmp/far.txt"
sed 's/^And .*/.../' "$tmp/near.txt" >"$tmp/dots.txt"
{ cat "$tmp/near.txt"; echo ...; } >"$tmp/end.txt"
for f in near:0:'msr +1 .* 900001.00us' end:0:'msr +1 .* 900001.00us' far:3 dots:3; do
	run "$kvmft" merge -q "$tmp/${f%%:*}.txt"
	is "$(grep -c 'LOST EVENTS of this CPU, their number is unknown' "$out")" "$(echo "$f" | grep -c :3)" \
		"an excerpt behind another, ${f%%:*}: whether lines were left out"
	case $f in *:3) continue ;; esac
	echo ' 1.900009: kvm_entry: vcpu 0, rip 0x1' >>"$tmp/${f%%:*}.txt"
	run "$kvmft" report "$tmp/${f%%:*}.txt"
	out_has "${f##*:}" "... or are paired"
done

form "excerpts, the later one first" 3 <<-E
	 a-1 [0] 1.000021: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0
	 a-1 [0] 1.000025: kvm_entry: vcpu 0, rip 0x1
	...
	 a-1 [0] 1.000001: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0
	 a-1 [0] 1.000004: kvm_entry: vcpu 0, rip 0x1
E
is "$(sed 's/.*\] //; s/ .*//' "$tmp/lines" | tr '\n' ' ')" "1.000001000 1.000004000 1.000021000 1.000025000 " "... are put in order"
err_has '1 lines are of earlier times than those before them: put in order' "... says so"
run "$kvmft" report "$tmp/form.txt"
out_has 'HLT +2 +100.00% +100.00% +3.00us +4.00us' "... and measured"
form "... of two moments" 3 <<-E
	 a-1 [0] 21.000021: kvm_entry: vcpu 0, rip 0x1
	 a-1 [0] 21.000025: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0
	 a-1 [0] 1.000001: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0
	 a-1 [0] 1.000004: kvm_entry: vcpu 0, rip 0x1
	 a-1 [0] 1.000009: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0
E
is "$(grep -n 'LOST EVENTS of this CPU, their number is unknown' "$tmp/lines" | cut -d: -f1)" 4 "... between which lines are missing"
run "$kvmft" report "$tmp/form.txt"
out_has 'HLT +1 +100.00% +100.00% +3.00us +3.00us' "... so that nothing is paired"
for t in 1 21 11 31; do
	echo " a-1 [0] $t.000001: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0"
	echo " a-1 [0] $t.000004: kvm_entry: vcpu 0, rip 0x1"
done >"$tmp/four.txt"
form "... one that belongs between two others" 3 <"$tmp/four.txt"
is "$(sed '/LOST/d; s/.*\] *//; s/ .*//' "$tmp/lines" | tr '\n' ' ')" "1.000001000 1.000004000 11.000001000 11.000004000 21.000001000 \
21.000004000 31.000001000 31.000004000 " "... is put there"
awk 'BEGIN { for (i = 0; i < 60; i++) printf(" a-1 [0] 1.%06d: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0\n", 3 * i) }' >"$tmp/one.txt"
{ cat "$tmp/one.txt"; sed 's/a-1/b-2/; s/: kvm/1&/' "$tmp/one.txt"; } >"$tmp/form.txt"
run "$kvmft" report "$tmp/form.txt"
status_is 1 "two recordings in one text, of the same time: of CPUs that cannot do both at once nothing is said"
err_has 'these are two recordings, or one twice; give each by itself' "... says so"
err_one_line "... on one line"
{ sed -n '31,60p' "$tmp/one.txt"; sed -n '1,30p' "$tmp/one.txt"; } >"$tmp/form.txt"
run "$kvmft" report "$tmp/form.txt"
out_has 'HLT +60 ' "... but two halves of one are read"
sed -n 31,33p "$tmp/one.txt" >>"$tmp/form.txt"
run "$kvmft" report "$tmp/form.txt"
status_is 1 "... and lines that are there twice are not counted twice"
ok "a text" "$tools/gen" --capture "$tmp/cut.cap" --events 300 --cpus 2
"$kvmft" merge -q "$tmp/cut.cap" | sed '/LOST/d; s/\(\.[0-9]\{6\}\)[0-9]* /\1 /' >"$tmp/whole.txt"
for cuts in "30 90 150" "20 100 250"; do
	# shellcheck disable=SC2086 # a list
	set -- $cuts
	# parts 1, 3, 2 and 4
	awk -v a="$1" -v b="$2" -v c="$3" '{ n = 1 + (NR > a) + (NR > b) + (NR > c); part[n] = part[n] $0 "\n" }
		END { printf "%s%s%s%s", part[1], part[3], part[2], part[4] }' "$tmp/whole.txt" >"$tmp/shuffled.txt"
	for c in merge "report -i" "latency all" blame; do
		# shellcheck disable=SC2086 # two words
		"$kvmft" $c "$tmp/whole.txt" >"$tmp/whole.out" 2>/dev/null
		# shellcheck disable=SC2086
		run "$kvmft" $c "$tmp/shuffled.txt"
		status_is 3 "excerpts of less than a second in another order, $cuts, $c"
		ok "... give what the whole gives" cmp "$tmp/whole.out" "$out"
		ok "... which is something" test -s "$out"
	done
done

# ---- hostile ----

# hostile NAME PATTERN: the text on standard input is read, or refused, and the reason told.
hostile()
{
	cat >"$tmp/hostile"
	run "$kvmft" merge "$tmp/hostile"
	ok "$1: ends ($rc)" test "$rc" -le 4
	err_has "$2" "... says why"
}

good=' a-1 [0] 1.000001: kvm_entry: vcpu 0'
{ echo "$good"; printf ' a-1 [0] 1.0000\0002: kvm_entry: \033[31mvcpu 0\n'; } >"$tmp/in"
hostile "NUL and escapes" 'host: 1 events' <"$tmp/in"
echo '# en.  1.000001: kvm_exit: vcpu 0 reason npf rip 0x1 info1 0x0 info2 0x0' >"$tmp/in"
hostile "a remark's mark before what may be flags" 'host: 1 events' <"$tmp/in"
printf '%s\n' "$good" ' a-1 [0] 1.000002: .: x' ' a-1 [0] 1.000003: ..: x' >"$tmp/in"
hostile "events called . and .., which are lines alone" 'host: 3 events' <"$tmp/in"
{ echo "$good"; head -c 3000000 /dev/zero | tr '\0' x; } >"$tmp/in"
hostile "an endless line" 'a line of more than 65536 bytes' <"$tmp/in"
printf '%s\n' "$good" ' a-1 [18446744073709551616] 1.000002: kvm_entry: vcpu 0' ' a-1 [4294967295] 1.000002: kvm_entry: vcpu 0' >"$tmp/in"
hostile "2^64 CPUs" '1 lines are of more CPUs or events than can be' <"$tmp/in"
printf '%s\n' "$good" ' a-1 [0] 99999999999999999999.000002: kvm_entry: vcpu 0' \
	' a--5 [0] 1.000003: kvm_entry: vcpu 99999999999999999999' ' a-99999999999 [0] 1.000004: kvm_entry: vcpu -1' >"$tmp/in"
hostile "huge and negative numbers" 'host: ' <"$tmp/in"
printf '%s\n' "$good" "kvm_exit: $(head -c 5000 /dev/zero | tr '\0' y)" >"$tmp/in"
hostile "a long text" '1 lines are too long, and cut' <"$tmp/in"
head -c 60 "$tmp/idle.txt.gz" >"$tmp/in"
hostile "a packed file that is cut" 'gzip, and neither .*, or cut|packed data are damaged, or cut' <"$tmp/in"
{ gzip -c "$tmp/idle.txt"; echo rest; } >"$tmp/in"
hostile "rubbish behind packed data" 'packed data are damaged, or cut' <"$tmp/in"
{ echo "$good"; head -c 100000000 /dev/zero; } | gzip -1c >"$tmp/bomb.gz"
hostile "a bomb" 'a line of more than 65536 bytes' <"$tmp/bomb.gz"
awk 'BEGIN { for (i = 0; i < 9000; i++) print " a-" i " [" i "] 1." sprintf("%06d", i) ": e" i ": x" }' >"$tmp/in"
hostile "as many CPUs and events as lines" '[0-9]{4} lines are of more CPUs or events than can be' <"$tmp/in"
# Each time is before the one before it.
awk 'BEGIN { for (i = 0; i < 120000; i++) printf " a-1 [000] 5000.%06d: kvm_exit: vcpu 0 reason HLT rip 0x1\n", 999999 - i }' >"$tmp/back.txt"
# shellcheck disable=SC3045 # dash and bash have it
(ulimit -v 300000; "${KVMFT_PLAIN:-$top/build/kvmft}" report "$tmp/back.txt" >"$out" 2>"$err")
out_has 'HLT +120000 ' "times that go back take no more memory than others"

# ---- a file's text is read again when it is printed; that of a pipe is kept ----

awk 'BEGIN {
	for (i = 0; i < 30000; i++) {
		cpu = i % 7 == 0 ? 100 + i % 97 : i % 4
		line = sprintf(" CPU %d/KVM-%d [%03d] %d.%06d: kvm_exit: vcpu %d reason %s rip 0x%x info %x 0", cpu, 100 + cpu, cpu,
			       50 + i / 1000, i % 1000 + (i % 50 == 9 ? -9 : 0), cpu, i % 3 ? "EXIT_NPF" : "EXIT_HLT", i * 77, i)
		if (i % 11 == 3)
			line = "> " line
		if (i % 13 == 4) # wrapped
			sub(/ rip/, "\n rip", line)
		if (i % 17 == 5)
			sub(/EXIT_HLT/, "EXIT_\001HLT", line)
		printf "%s%s\n", line, i % 5 == 2 ? "\r" : ""
	}
}' | tr '\001' '\000' >"$tmp/again.txt"
for how in "merge -q" "export --to trace.dat -o $tmp/again.dat -i"; do
	# shellcheck disable=SC2086 # several words
	rm -f "$tmp/again.dat" && "$kvmft" $how - <"$tmp/again.txt" >"$out" 2>"$err"
	[ "$how" = "merge -q" ] || mv "$tmp/again.dat" "$out"
	cp "$out" "$tmp/of-file"
	# shellcheck disable=SC2002,SC2086 # a pipe is what is tried
	cat "$tmp/again.txt" | "$kvmft" $how - >"$out" 2>"$err"
	[ "$how" = "merge -q" ] || mv "$tmp/again.dat" "$out"
	ok "${how%% *} of a file is that of a pipe" cmp "$tmp/of-file" "$out"
done
{ read -r _ && "$kvmft" merge -q -; } <"$tmp/again.txt" >"$tmp/of-file" 2>"$err"
tail -n +2 "$tmp/again.txt" | "$kvmft" merge -q - >"$out" 2>"$err"
ok "... and from its second line on" cmp "$tmp/of-file" "$out"
is "$(wc -l <"$out")" 29999 "... which is all lines but one"
mkfifo "$tmp/slow"
"$kvmft" merge -q "$tmp/again.txt" >"$tmp/slow" 2>"$err" &
reader=$!
{ read -r _; : >"$tmp/again.txt"; cat; } <"$tmp/slow" >"$out"
wait "$reader"
status=$?
is "$status" 3 "a file that becomes shorter while it is printed is incomplete"
err_has 'host: cannot be read further: Input/output error$' "... which is said"
printf 'Dear all,\nnothing here: is a trace.\n' >"$tmp/in"
hostile "a letter" 'neither a capture directory nor a trace.dat, perf.data or trace as text' <"$tmp/in"
# A writer that goes on: the first Ctrl-C may have been for it, the second is for us.
mkfifo "$tmp/endless"
sleep 60 >"$tmp/endless" &
writer=$!
"$kvmft" merge - <"$tmp/endless" >"$out" 2>"$err" &
reader=$!
while kill -0 "$writer" && kill -INT "$reader"; do
	sleep 0.1
done 2>/dev/null
wait "$reader"
is "$?" 130 "a pipe whose writer does not end: a second Ctrl-C ends the reader"
kill "$writer" 2>/dev/null
wait "$writer" 2>/dev/null
printf 'nothing\n' | "$kvmft" merge - >"$out" 2>"$err"
err_has '^kvmft merge: -: neither a capture directory nor a trace.dat' "nor through a pipe"
finish
