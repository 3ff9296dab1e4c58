#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: every check
#
# The clocks of a real guest: kvmft guest-offset says in it what the host's KVM gave it, and kvmft
# trace shows the same time for one moment on both sides.

. "$(dirname "$0")/tap.sh"

rig clocks --timeout 240

# The guest's record of CPU 0 is, field by field, one that the host recorded for vCPU 0.
guest_record()
{
	sed -n 's/^pvclock_cpu0_//p' "$rig/offsets"
}

host_records()
{
	"$kvmft" merge -q "$rig/host" 2>/dev/null | sed -nE 's/.*kvm:kvm_pvclock_update: vcpu_id 0, pvclock \{ version ([0-9]+), tsc_timestamp (0x[0-9a-f]+), system_time (0x[0-9a-f]+), tsc_to_system_mul (0x[0-9a-f]+), tsc_shift (-?[0-9]+), flags (0x[0-9a-f]+) \}.*/\1 \2 \3 \4 \5 \6/p' |
		while read -r version tsc system mul shift flags; do
			printf 'version=%d tsc_timestamp=%d system_time=%d tsc_to_system_mul=%d tsc_shift=%d flags=%d\n' \
				"$version" "$tsc" "$system" "$mul" "$shift" "$flags"
		done
}

ok "the guest says its record" test "$(guest_record | wc -l)" = 6
host_records >"$tmp/records"
ok "the host recorded records of vCPU 0" test -s "$tmp/records"
ok "one of them is the guest's, field by field" \
	grep -xF "$(guest_record | tr '\n' ' ' | sed 's/ $//')" "$tmp/records"
sed 's/^/# /' "$tmp/records"

# moments FILE: times without the point, so ns or cycles, one per line.
moments()
{
	sed -nE 's/^.*\] +([0-9.]+)  (kvm:kvm_msr|msr:read_msr): .*/\1/p' "$1" | tr -d .
}

# Each rdmsr: the host serves it, then the guest has its value. LIMIT in units of the clock, for the
# quickest one: an emulated machine may be delayed at any of them, but a wrong conversion shows in
# all.
agree()
{
	moments "$rig/trace-host-$1" >"$tmp/host"
	moments "$rig/trace-guest-$1" >"$tmp/guest"
	is "$(wc -l <"$tmp/host" | tr -d ' ') $(wc -l <"$tmp/guest" | tr -d ' ')" "4 4" "$1: four rdmsr on both sides"
	paste "$tmp/host" "$tmp/guest" | awk -v limit="$2" '{ d = $2 - $1; printf "# host before guest by %d\n", d
		if (d <= 0) bad++
		if (NR == 1 || d < best) best = d } END { exit bad > 0 || NR == 0 || best >= limit }' >"$tmp/agree"
	result $? "$1: host before guest, at best by less than $2"
	cat "$tmp/agree"
}

agree kvmclock 5000000
khz=$(sed -n 's/^tsc khz=\([0-9]*\).*/\1/p' "$rig/host/meta")
agree tsc "$((khz * 5))"
finish
