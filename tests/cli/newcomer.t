#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# The first hour of somebody who knows perf and trace-cmd: what they type, right or nearly so, and what they see:
# exit codes, words, and whole screens of three widths.

. "$(dirname "$0")/lib.sh"

golden=$top/tests/golden
mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
here=$(cd "$(dirname "$0")" && pwd)
for name in latency-host latency-guest report-access; do
	ok "$name is compiled" "$mkcap" --capture "$tmp/${name#*-}" "$golden/$name.txt"
done
cd "$tmp" || exit 1

# ---- which side is this? ----

run "$kvmft" check
out_has '^as an? (host|guest|host and guest) \(from what this machine is' "check without --host or --guest: by the machine"
side=$(sed -n 's/^as an* \([a-z ]*\) (from what.*/\1/p' "$out")
# A VM that lives does not change it, nor one that is gone.
if "${CC:-cc}" -O1 -pthread -o tinyvm "$top/tests/vm/tinyvm.c" 2>cc.log && ./tinyvm --iterations 1 >/dev/null 2>&1; then
	./tinyvm --ms 20000 >/dev/null 2>&1 &
	vm=$!
	sleep 0.3
	run "$kvmft" check
	kill "$vm"
	wait "$vm" 2>/dev/null
	out_has "^as an? $side \\(from what this machine is" "... also while a VM lives"
else
	skip "... also while a VM lives" "no VM can be run here"
fi

# ---- -q: no remarks, of whatever command ----

# An offset that was found, and a guest that was guessed, are told; a lost event is, with -q too.
cp "$golden"/foreign/pair/*.dat .
for what in "verify --solve --tsc-khz 2000000 host.dat guest.dat" "clock --tsc-khz 2000000 host.dat guest.dat" \
	"convert --from guest-tsc --to host-tsc -i host.dat -i guest.dat 1000000000" "stuck -i host"; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" $what
	if grep -q zstd "$err"; then
		skip "$what -q" "$(head -n 1 "$err")"
		continue
	fi
	err_has "." "${what%% *} remarks something"
	# shellcheck disable=SC2086
	run "$kvmft" ${what%% *} -q ${what#* }
	is "$(cat "$err")" "" "... with -q nothing"
done

# ---- what is typed first ----

run "$kvmft" report help
status_is 0 "report help, as perf has it"
out_has "^kvmft report: " "... is help"
"${mkcap%mkcap}genpair" --host day --guest day.guest --ms 5 --vcpus 1 >/dev/null 2>&1
sed -i 's/^end reason=generated/& tsc=1000005000000/' day/meta
for what in "merge --from @1900000000" "blame --at @1900000000" "report --from @1900000000" "latency all --to @9"; do
	run "$kvmft" ${what%% --*} ${what##"${what%% --*} "} day
	status_is 1 "$what, which is not in the recording"
	err_has "@[0-9]+ is not in day, which is of [0-9-]+ [0-9:.]+ to [0-9-]+ [0-9:.]+$" "... and when that is"
done
run "$kvmft" merge -q --from @9 --to @1900000000 day
status_is 0 "merge from long before to long after"

mkdir here
ln -s ../day here/kvmft.data
for what in blame merge "latency irq" verify boot; do
	run sh -c "cd here && \"$kvmft\" $what"
	status_is 2 "$what of nothing"
	err_has '; kvmft.data is here$' "... says that there is a recording"
	rm here/kvmft.data
	run sh -c "cd here && \"$kvmft\" $what"
	is "$(grep -c 'is here' "$err")" 0 "... where there is none it does not"
	ln -s ../day here/kvmft.data
done

# ---- a slip of the finger is no result ----

run "$kvmft" merge -e kvm_exti host guest=one
status_is 1 "merge -e kvm_exti"
err_has "kvm_exit" "... did you mean kvm_exit"
run "$kvmft" merge -q -e kvm_exti host guest=one
status_is 1 "... with -q, too"
err_has "kvm_exit" "... which does not hide it"
run "$kvmft" merge -q -e 'kvm_exit/exit_raeson==12/' host guest=one
status_is 1 "-e with a misspelt field"
err_has "exit_reason" "... did you mean exit_reason"
run "$kvmft" merge -e 'kvm_exti,kvm_entry' host guest=one
status_is 0 "one of two"
err_has "kvm_exti" "... the other is named"
run "$kvmft" exitss
status_is 2 "exitss"
err_has "did you mean exits" "... did you mean exits"
run "$kvmft" verify host host
err_has "kvmft merge host" "verify HOST HOST names what does that"

# ---- captures as operands, and the format by the name of the file ----

run "$kvmft" export -o first.dat host
status_is 0 "export HOST: no -i is needed"
run "$kvmft" export -i host -o second.dat
ok "... and the file is that of -i" cmp first.dat second.dat
run "$kvmft" export -o first.json host guest=one
run "$kvmft" export -i host --to json -o second.json guest=one
ok "export -o OUT.json is JSON" cmp first.json second.json
run "$kvmft" merge -o first.html host guest=one
is "$(head -n 1 first.html)" "<!DOCTYPE html>" "merge -o OUT.html is a page"
run "$kvmft" merge --format text -o text.html host guest=one
status_is 2 "... which --format must not contradict"
err_has 'text.html is named as html, and text was asked for' "... and why"
run "$kvmft" stuck host
status_is 0 "stuck HOST: no -i is needed"
cp "$out" stuck.out
run "$kvmft" stuck -i host
ok "... and says the same" cmp "$out" stuck.out
run "$kvmft" stuck guest=one
status_is 2 "stuck GUEST=SEL alone"
run "$kvmft" stuck vm1
status_is 2 "stuck NAME"
err_has "there is no recording 'vm1'; a VM is chosen with --vm" "... what a VM is named with"
run "$kvmft" exits vm1
err_has "'vm1' is not a duration .*; a VM is chosen with --vm" "... of exits, too"
run "$kvmft" exits --domain vm1
err_has 'there is no option --domain: --vm SEL' "... as of virsh"
cp -r host no-vm
for cpu in no-vm/seg000000/cpu*; do
	: >"$cpu"
done
run "$kvmft" blame no-vm
status_is 4 "blame where no VM ran: it cannot be told"
err_has 'no entry of a vCPU was found: no VM ran, or ' "... why"
{
	printf 'event kvm kvm_entry 302 u32:vcpu_id\nevent kvm kvm_exit 303 u32:exit_reason u64:guest_rip u32:isa\n'
	grep -vE '^[^#].* kvm_(entry|exit|inj_virq)( |$)' "$golden/latency-host.txt"
} >pvm.txt
"$mkcap" --capture pvm pvm.txt
run "$kvmft" blame pvm
status_is 4 "... nor where KVM raises no entry, as PVM"
err_has 'kvm_entry and kvm_exit were not recorded' "... why"

# ---- windows ----

run "$kvmft" merge --from 10us host guest=one
status_is 0 "merge --from"
ok "... at most one line is from before" test "$(grep -c ' before ' "$out")" -le 1
run "$kvmft" latency irq --from 7500ns host guest=one
status_is 0 "latency --from"
out_has 'the longest 820 ns' "... measures that"
run "$kvmft" merge --clock guest-tsc host guest=one
ok "no time of another century" sh -c "! grep -qE '1844674[0-9]{13}' '$out'"

# ---- perf's ways ----

run "$kvmft" report -i access -e ioport
status_is 0 "report -e"
out_has '^# .*above perf.*--semantics perf' "sums that differ from perf's: why, and how to get those"
run "$kvmft" report -i access -e ioport --semantics perf
ok "... and then no message" sh -c "! grep -q 'above perf' '$out'"
for key in sample time percent_sample percent_time; do
	run "$kvmft" report -i access -k "$key"
	status_is 0 "-k $key"
done
run "$kvmft" report -i host -v 0
status_is 0 "-v: a vCPU"
run "$kvmft" convert --tsc-offset -1000 --from host-tsc --to guest-tsc 5000 --range
first=$rc
run "$kvmft" convert 5000 --range --to guest-tsc --from host-tsc --tsc-offset -1000
is "$rc" "$first" "convert's options before or behind its value"

# ---- a trace of QEMU alone ----

run "$kvmft" merge --qemu "$golden/qemu-log.log" --qemu "$golden/qemu-events.txt:events"
status_is 0 "merge --qemu FILE, no host at hand"
ok "... its events" test "$(grep -c . "$out")" -gt 3
run "$kvmft" merge --clock mono --qemu "$golden/qemu-log.log" --qemu "$golden/qemu-events.txt:events"
status_is 2 "... not by a clock that is not in the trace"
err_has "are of the clock realtime" "... which is reported"

# ---- what changed? where did it come from? ----

run "$kvmft" diff host host
status_is 4 "diff of 20 us: too short"
err_has "cannot tell: host is only" "... and why"
run "$kvmft" merge --format folded host guest=one
status_is 4 "merge --format folded, without stacks"
err_has "record --stacks" "... how to get some"
run "$kvmft" blame -q --what irq --than 1us host guest=one
out_has '^1\. 1\.1 us  irq MSI irq 30, one vCPU 0, at ' "blame names the vCPU of an interrupt once"
run "$kvmft" report --by rip host
out_has '^HLT leads by time: sorted without idle' "report --by rip: also without idle"
is "$(awk '$1 == "0x0" { print $2 }' "$out" | tail -n 1)" HLT "... the halt is last"
run "$kvmft" report -i host --by stack
status_is 4 "report --by stack"
err_has "record --stacks" "report --by stack, without stacks: how to get some"

run "$kvmft" latency host
status_is 2 "latency HOST"
err_has "kvmft latency all host" "... what to measure comes first"
run "$kvmft" exits host
err_has "a recording is for kvmft report" "exits HOST: what reads a recording"

# ---- on a terminal ----

if ! command -v python3 >/dev/null; then
	skip "screens" "python3 is not installed"
	finish
fi

# terminal COLUMNS KEYS COMMAND...: what it shows is in $out.
terminal()
{
	columns=$1
	keys=$2
	shift 2
	run env TERM=xterm python3 "$here/terminal.py" "$columns" 24 "$keys" "$@"
}

# screen NAME COMMAND...: as in tests/golden/screen-NAME-WIDTH.out; KVMFT_BLESS=1 writes these anew.
screen()
{
	shown=$1
	shift
	for width in ${widths:-80 120 200}; do
		want=$golden/screen-$shown-$width.out
		terminal $width "" "$@"
		status_is ${want_status:-0} "$shown on a terminal of $width columns"
		is "$(sed 's/\x1b\[[0-9;]*m//g' "$out" | awk -v w=$width 'length > w' | head -n 3)" "" "... which are enough"
		[ -z "${KVMFT_BLESS:-}" ] || cp "$out" "$want"
		ok "... as in ${want##*/}" diff "$want" "$out"
	done
}
screen merge "$kvmft" merge -q --to 9us host guest=one
screen report "$kvmft" report -i access
screen latency "$kvmft" latency irq -q -C 2 host guest=one
screen verify "$kvmft" verify host guest=one
# What is not a table that grows with the terminal: at 80x24.
widths=80
screen help "$kvmft" help
ok "... in 24 lines" test "$(wc -l <"$out")" -le 24
screen help-record "$kvmft" help record
screen blame "$kvmft" blame -q host guest=one
want_status=4
screen clock "$kvmft" clock host
want_status=0
terminal 80 "" "$kvmft"
status_is 2 "kvmft alone"
ok "... is help" diff "$golden/screen-help-80.out" "$out"
terminal 80 "" "$kvmft" list
is "$(awk 'length > 80' "$out" | head -n 3)" "" "list fits 80 columns"

# Where the names leave no room, they have lines of their own; what is said below is folded.
terminal 70 "" env NO_COLOR=1 "$kvmft" latency all --all -q --worst 0 host guest=one
out_has '^  Stage +Count +Sum ms +Min us +Avg us +p50 us +p99 us +Max us$' "latency --all: all columns are there"
out_has '^MSI irq 30$' "... below the names"
terminal 200 "" env NO_COLOR=1 "$kvmft" latency all --all -q --worst 0 host guest=one
out_has '^MSI irq 30 +total ' "... beside them where there is room"

# What is asked for is never what is cut.
terminal 80 "" env NO_COLOR=1 "$kvmft" verify --tsc-offset 2000000000 host guest=one
out_has '^one: cannot tell: ' "verify, with an offset that nothing fits"
is "$(grep '>$' "$out")" "" "... nothing is cut"
for by in "" "--by rip"; do
	# shellcheck disable=SC2086 # two words
	terminal 60 "" env NO_COLOR=1 "$kvmft" report -i access --percentiles $by
	is "$(grep '>$' "$out")" "" "report --percentiles $by: nothing is cut"
	is "$(grep -cE '^(Code)? *VM-EXIT +p50 +p90 +p99$' "$out")" 1 "... percentiles are a table below the other"
	# shellcheck disable=SC2086
	terminal 120 "" env NO_COLOR=1 "$kvmft" report -i access --percentiles $by
	is "$(grep -cE 'Samples%.* +p50 +p90 +p99$' "$out")" 1 "... beside it where there is room"
done

terminal 80 "" "$kvmft" check
is "$(awk 'length > 80' "$out" | head -n 3)" "" "check fits 80 columns"
out_has '^tracefs ' "... and is there"

terminal 80 "" "$kvmft" merge -q --to 9us --wide host guest=one
ok "--wide: lines as long as they are" test "$(awk 'length > 100' "$out" | wc -l)" -gt 0
terminal 80 "" env NO_COLOR=1 "$kvmft" merge -q host guest=one
ok "NO_COLOR" sh -c "! grep -q '$(printf '\033')' '$out'"
terminal 80 "" "$kvmft" merge -q --color never host guest=one
ok "--color never" sh -c "! grep -q '$(printf '\033')' '$out'"
run "$kvmft" merge -q --color always host guest=one
ok "--color always, into a pipe" grep -q "$(printf '\033')\\[" "$out"
run "$kvmft" merge -q host guest=one
ok "... not of itself" sh -c "! grep -q '$(printf '\033')' '$out'"
ok "... nor is anything cut" test "$(awk 'length > 100' "$out" | wc -l)" -gt 0

# Messages are folded on a terminal, also in a pager there, but not what is quoted; nowhere else.
grep -v 'sched_' "$golden/latency-host.txt" >nosched.txt
"$mkcap" --capture nosched nosched.txt
for pager in "" "cat -u"; do
	terminal 80 "" env "KVMFT_PAGER=$pager" "$kvmft" latency sched,io nosched
	ok "a message on a terminal is folded ($pager)" grep -qx 'kvmft: io is left out: needs a capture of the guest: record it, with' "$out"
	is "$(grep '^ *kvmft: \|^       ' "$out" | awk 'length > 80' | wc -l | tr -d ' ')" 0 "... into 80 columns"
	out_has '^ .*\(`kvmft record` in the guest' "... and what is quoted stays whole"
done
# The kernel's mark of what is wrong in a filter stays below it.
if [ -w /sys/kernel/tracing/instances ] && [ -d /sys/kernel/tracing/events/sched ]; then
	exec 8>"$turn"
	flock -w 900 8
	terminal 80 "" "$kvmft" trace -N 1 -e sched:sched_switch/prev_pit==0/
	flock -u 8
	exec 8>&-
	out_has '^ +Command: prev_pit==0$' "... and lines of the kernel are as it wrote them"
else
	skip "... and lines of the kernel are as it wrote them" "no tracefs"
fi
run "$kvmft" latency sched,io nosched
err_has 'io is left out: needs a capture of the guest: .*has them\)$' "... and nowhere else"

# A pager that tells that it was one, and ends before it has seen all.
cat >pager <<'END'
#!/bin/sh
echo "LESS=$LESS"
head -n 3
END
chmod +x pager
terminal 80 "" env "KVMFT_PAGER=$tmp/pager" "$kvmft" merge -q host guest=one
status_is 0 "through KVMFT_PAGER, which has seen enough"
is "$(wc -l <"$out" | tr -d ' ')" 4 "... what it shows"
out_has '^LESS=FRXS$' "... long lines go on to the right"
for what in "help record" "latency -h" "report help" "check --guest" \
	"qemu list-formats $golden/qemu-events.txt"; do
	if [ "$what" = "check --guest" ] && [ "$(id -u)" != 0 ]; then
		skip "$what, through a pager" "needs root, who lacks nothing"
		continue
	fi
	# shellcheck disable=SC2086 # words
	terminal 80 "" env "KVMFT_PAGER=$tmp/pager" "$kvmft" $what
	status_is 0 "$what, through a pager"
	is "$(wc -l <"$out" | tr -d ' ')" 4 "... what it shows"
done
# As a table, too; what fits a screen needs none.
terminal 80 "" env "KVMFT_PAGER=sed s/^/paged:/" "$kvmft" check --format csv
out_has '^paged:side,' "check's table"
terminal 80 "" env "KVMFT_PAGER=sed s/^/paged:/" "$kvmft" help
is "$(grep -c "^paged" "$out")" 0 "... but not help"
terminal 80 "" env "KVMFT_PAGER=$tmp/pager" "$kvmft" report --wide -i access
out_has '^LESS=FRX$' "... or are broken, with --wide"
terminal 80 "" env KVMFT_PAGER=cat "$kvmft" report -i access
ok "no pager is wanted" sh -c "! grep -q '^LESS' '$out'"
terminal 80 "" env "KVMFT_PAGER=$tmp/pager" "$kvmft" report -i nosuch
status_is 1 "an error goes through it as well"
out_has "nosuch" "... and is seen"
terminal 80 "" env "KVMFT_PAGER=$tmp/nosuch -x" "$kvmft" report access
out_has "EPT_MISCONFIG" "a pager that does not exist: no pager"
run env "KVMFT_PAGER=$tmp/pager" "$kvmft" report -i access
ok "no pager into a pipe" sh -c "! grep -q '^LESS' '$out'"
if command -v less >/dev/null; then
	terminal 80 q env -u KVMFT_PAGER -u PAGER "$kvmft" merge host guest=one
	status_is 0 "less, left with q"
	out_has 'kvm_entry' "... shows the time line"
	ok "... which waited for it" sh -c "! grep -q 'alignment of one' '$out'"
else
	skip "less" "less is not installed"
fi
finish
