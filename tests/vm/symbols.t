#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Names for the addresses in a host's events, of a guest that was recorded with --symbols: all of them are what the
# guest's own kallsyms says, whichever way the symbols come.

. "$(dirname "$0")/tap.sh"

truth=$top/tests/vm/symbols_truth.py

# say WHAT: one number of the last check
say() { sed -n "s/.*\<$1=\([0-9]*\).*/\1/p" "$tmp/said"; }

rig symbols --vcpus 1 ${SYMBOLS_RIG:---kaslr} --timeout 400
gzip -dc "$rig/kallsyms.gz" >"$tmp/kallsyms"
bytes=$(fact symbols_bytes)
echo "# $(fact kallsyms_bytes) bytes of kallsyms, $bytes in the capture; _text $(fact text)"
ok "the symbols take less than 2 MB" test "$bytes" -lt 2000000
"$kvmft" receive -q -o "$tmp/stream" <"$rig/guest.stream" 2>/dev/null
is "$?" 0 "a stream with symbols is received"
ok "... and has the same, except what was loaded since" test -s "$tmp/stream/symbols"

"$kvmft" merge -q --format json "$rig/host" "$rig/guest" >"$tmp/merge.json" 2>"$tmp/merge.err"
rc=$?
ok "merge: $(wc -l <"$tmp/merge.json") lines (status $rc)" test "$rc" = 0 -o "$rc" = 3
python3 "$truth" check "$tmp/kallsyms" "$tmp/merge.json" >"$tmp/said"
sed 's/^/# /' "$tmp/said"
is "$(say wrong)" 0 "no address is called wrongly"
ok "... most of $(say rips) have a name" test "$(say named)" -gt $(($(say rips) / 2))
ok "... and programs are named" test "$(say user)" -gt 0

# The port that was read, and CPUID of a program.
"$kvmft" report --by rip --format csv "$rig/host" "$rig/guest" >"$tmp/rip.csv" 2>"$tmp/rip.err"
"$kvmft" report --by rip --top 12 "$rig/host" "$rig/guest" 2>/dev/null | sed 's/^/# /'
io=io
on_intel && io=io_instruction
# rip FUNCTION REASON: samples of that row
rip()
{
	awk -F , -v f="$1" -v r="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		$at["function"] == f && tolower($at["event"]) == r { n += $at["samples"] } END { print n + 0 }' "$tmp/rip.csv"
}
n=$(python3 "$truth" count "$tmp/kallsyms" "$tmp/merge.json" read_port $io)
ok "read_port: $n exits" test "$n" -gt 20
# What is open when the recording ends is no sample.
ok "... and so says report: $(rip read_port $io)" test $((n - $(rip read_port $io))) -ge 0 -a $((n - $(rip read_port $io))) -le 1
n=$(python3 "$truth" count "$tmp/kallsyms" "$tmp/merge.json" user cpuid)
ok "CPUID in a program: $n exits" test "$n" -gt 20
ok "... and so says report: $(rip user cpuid)" test $((n - $(rip user cpuid))) -ge 0 -a $((n - $(rip user cpuid))) -le 1

# The same by files, and by a vmlinux whose slide is found.
sed 's/"rip_symbol"/\n&/' "$tmp/merge.json" | grep '^"rip_symbol"' >"$tmp/want"
by()
{
	"$kvmft" merge -q --format json "$@" "$rig/host" 2>"$tmp/merge.err" | sed 's/"rip_symbol"/\n&/' |
		grep '^"rip_symbol"' >"$tmp/got"
}
by --guest-kallsyms "$tmp/kallsyms"
cmp -s "$tmp/want" "$tmp/got" || diff "$tmp/want" "$tmp/got" | head -n 5 | sed 's/^/# /'
ok "--guest-kallsyms says the same" test -s "$tmp/got" -a "$(diff "$tmp/want" "$tmp/got" | grep -c '^<')" -eq 0
by --guest-kallsyms "vm1=$rig/guest"
ok "... and a capture in its place" cmp "$tmp/want" "$tmp/got"
python3 "$truth" elf "$tmp/kallsyms" 0x1000000 "$tmp/vmlinux"
run "$kvmft" merge -q --guest-vmlinux "$tmp/vmlinux" "$rig/host"
is "$rc" 4 "a vmlinux alone: how far it was moved is not known"
err_has 'guest-kaslr' "... which is reported"
by --guest-vmlinux "$tmp/vmlinux" --guest-kaslr 0x1000000
ok "... with it, functions are as before" test "$(diff "$tmp/want" "$tmp/got" | grep '^[<>]' | grep -vc '\[\|null')" -eq 0
by --guest-vmlinux "$tmp/vmlinux" --guest-kallsyms "$rig/guest"
ok "... or with the guest's capture, which has it, and modules as well" cmp "$tmp/want" "$tmp/got"
"$kvmft" merge -q --format json --guest-modules "$rig/modules" "$rig/host" >"$tmp/modules.json" 2>/dev/null
ok "modules alone: $(grep -c '"rip_symbol":"\[' "$tmp/modules.json") addresses" \
	grep -q '"rip_symbol":"\[[a-z]' "$tmp/modules.json"

"$kvmft" merge -q "$rig/host" "$rig/guest" 2>/dev/null | grep 'read_port' | head -n 3 | sed 's/^/# /'
finish
