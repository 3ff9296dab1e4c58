#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: every check
#
# A real host and a real guest, recorded at the same time, merged and checked.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/align.sh"

rig align --timeout 150
# 100 us: QEMU's TCG is not faster.
align_proof 250000

run "$kvmft" merge "$rig/host" "$rig/guest=vm1"
status_is 0 "VM named"
run "$kvmft" merge "$rig/host" "$rig/guest=nosuch"
status_is 1 "VM that does not exist"
err_has 'vm1' "... and the candidates are listed"
run "$kvmft" merge "$rig/guest" "$rig/host"
status_is 1 "host and guest mixed up"

# ---- the pair in the formats of other tools ----

run "$kvmft" merge -q --format json "$rig/host" "$rig/guest"
status_is 0 "merge as JSON"
is "$(grep -c '"kind":"event"' "$out")" "$(grep -vc ' EPOCH ' "$tmp/timeline")" "... has all events"
run "$kvmft" export -q -i "$rig/host" -o "$tmp/pair.dat" "$rig/guest"
status_is 0 "export as a pair of trace.dat"
run "$kvmft" merge --tsc-offset 0 "$tmp/pair.dat" "$tmp/pair-vm1.dat=vm1"
err_has 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside' "... which aligns like the captures"
if command -v trace-cmd >/dev/null; then
	trace-cmd report -t -i "$tmp/pair.dat" -i "$tmp/pair-vm1.dat" >"$tmp/both" 2>"$tmp/both.err"
	is "$? $(cat "$tmp/both.err")" "0 " "trace-cmd reads the pair without a word"
	is "$(($(wc -l <"$tmp/both") - 2))" "$(grep -vc ' EPOCH ' "$tmp/timeline")" "... with all events"
	run "$kvmft" export -q --clock guest-tsc -i "$rig/host" -o "$tmp/shift.dat" "$rig/guest"
	status_is 0 "export with TIME_SHIFT"
	trace-cmd report -t "$tmp/pair-vm1.dat" >"$tmp/a" 2>&1
	trace-cmd report -t "$tmp/shift-vm1.dat" >"$tmp/b" 2>&1
	ok "... trace-cmd shifts to the same times" cmp "$tmp/a" "$tmp/b"
else
	skip "trace-cmd reads the pair" "no trace-cmd"
fi
run "$kvmft" export -q -i "$rig/host" -o "$tmp/pair.pftrace" "$rig/guest"
status_is 0 "export for Perfetto"
if command -v protoc >/dev/null; then
	protoc --decode=Trace -I "$top/tests/data" perfetto.proto <"$tmp/pair.pftrace" 2>"$tmp/protoc.err" |
		perl "$top/tests/cli/perfetto.pl" >"$out" 2>&1
	is "$(cat "$tmp/protoc.err")" "" "... protoc reads it"
	out_has '^bad in all: 0$' "... all of it makes sense"
	out_has "^arrows from a vCPU to a guest's CPU: [1-9][0-9][0-9]" "... interrupts are arrows into the guest"
	out_has '^events of vm1: sched_switch [1-9]' "... the guest's scheduler events are native"
else
	skip "Perfetto" "no protoc"
fi

sums_of "the pair" all "$rig/host" "$rig/guest"
sums_of "the host alone" irq,sched,timer "$rig/host"

# Text of the captures is the same in both builds.
ok "plain build prints the same" sh -c "'$plain' merge -q '$rig/host' '$rig/guest' | cmp - '$tmp/timeline'"
finish
