#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# What halts waited for, by `report --waits` of the host alone, against the handlers that the guest itself recorded: of a
# guest that sleeps, reads from a disk, hands a byte from CPU to CPU and gets packets. On a busy machine it hardly halts.

. "$(dirname "$0")/tap.sh"

rig waits --timeout 600
run "$kvmft" report --waits --format json --top 100000 "$rig/host"
status_is 0 "by the host alone"
cp "$out" "$tmp/waits.json"
run "$kvmft" merge --format json --clock host-tsc "$rig/host" "$rig/guest"
status_is 0 "the truth"
cp "$out" "$tmp/merged.json"
if ! command -v python3 >/dev/null; then
	skip "what halts waited for" "python3 is not installed"
	finish
fi
python3 "$top/tests/vm/waits_truth.py" "$tmp/waits.json" "$tmp/merged.json" >"$tmp/table"
sed 's/^/# /' "$tmp/table"
value() { sed -n "s/.*\\b$1=\\([0-9]*\\).*/\\1/p" "$tmp/table"; }
ok "more than 30 halts ($(value judged))" test "$(value judged)" -gt 30
ok "98 % of those with a cause have the right one ($(value right) right, $(value wrong) wrong)" \
	test $(($(value wrong) * 98)) -le $(($(value right) * 2))
ok "90 % have a cause ($(value unnamed) have none)" test $(($(value unnamed) * 10)) -le "$(value judged)"
run "$kvmft" report --format csv -i "$rig/host"
is "$(awk -F, 'tolower($3) == "hlt" { print $4; exit }' "$out")" \
	"$(sed -n 's/.*"counts":{"waits":\([0-9]*\),.*/\1/p' "$tmp/waits.json")" "all halts are there"
finish
