#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft boot` of guests recorded from the exec of their VMM on: three delays that were planted are in the phase and the
# part where they belong, and 95 % of the time is in some part that is known; so it is with two vCPUs, and where a saved
# state is loaded.

. "$(dirname "$0")/tap.sh"

rig bootphases --timeout 1500

if ! command -v python3 >/dev/null; then
	skip "phases" "python3 is not installed"
	finish
fi

# ms NAME PHASE PART [TEXT]: of that part of a boot, or of a phase with PART ''.
ms()
{
	python3 - "$tmp/$1.json" "$2" "$3" "${4:-}" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
print(sum(r["time_ns"] or 0 for r in d["rows"] if (r["phase"], r["part"] or "") == (sys.argv[2], sys.argv[3])
          and sys.argv[4] in r["name"]) // 1000000)
END
}

for guest in plain sleep disk limit two restore; do
	"$kvmft" boot --until 'kvm_pio/port == 0x80 && val == 0x42/' --format json "$rig/$guest" >"$tmp/$guest.json" 2>"$tmp/err"
	ok "$guest: read" test -s "$tmp/$guest.json"
	python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(d["known_ns"] * 1000 // d["wall_ns"])' \
		"$tmp/$guest.json" >"$tmp/told"
	ok "$guest: 95 % of the time is told ($(cat "$tmp/told") of 1000)" test "$(cat "$tmp/told")" -ge 950
done
slept=$(ms sleep exec vmm asleep)
ok "a VMM that sleeps 15 s before it makes its VM: $slept ms" test "$slept" -ge 15000 -a "$slept" -le 20000
ok "... which it does not otherwise" test "$(ms plain exec vmm asleep)" -lt 5000
waited=$(ms disk first-disk disk)
ok "a disk of 2 KiB a second: $waited ms, not $(ms plain first-disk disk)" test "$waited" -ge $((4 * $(ms plain first-disk disk) + 4000))
throttled=$(ms limit kernel throttled) kernel=$(ms limit kernel '')
ok "a limit of 30 %: $throttled ms of $kernel ms" test $((throttled * 100)) -ge $((kernel * 50))
ok "... which nothing else has" test "$(ms plain kernel throttled)" -lt 500
"$kvmft" boot --until 'kvm_pio/port == 0x80 && val == 0x42/' "$rig/restore" >"$out"
out_has 'restore \(of a state that was loaded\)' "a state that was loaded"
is "$(awk '/^[a-z]/ && $1 != "restore" { printf "%s ", $1 }' "$out")" \
	"exec create-vm memory first-entry marker first-disk first-packet " "... from its first entry on to the marker"
finish
