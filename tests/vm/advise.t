#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# kvmft advise of a real host: of each pair it speaks of the first recording only, and what it foretold is what diff then
# finds; healthy guests get no advice.

. "$(dirname "$0")/tap.sh"

rig advise --timeout 1500

# ids NAME: what it says
ids()
{
	"$kvmft" advise --format json "$rig/$1" 2>"$err" >"$out"
	rc=$?
	jq -r '.vms[0].advice[].id' "$out" | tr '\n' ' '
}
for i in 1 2 3 4 5; do
	is "$(ids "healthy$i")" "" "a healthy guest, $i"
	sed 's/^/# /' "$out"
done
for pair in clock-reads serial crowded throttled emulator-shares vmm-device; do
	case " $(ids $pair.ill)" in
	*" $pair "*) pass=0 ;;
	*) pass=1 ;;
	esac
	result $pass "$pair: it speaks of it"
	jq -c '.vms[0].advice[] | [.id, .permille, .saves_least, .saves_most, .count]' "$out" | sed 's/^/# /'
	case " $(ids $pair.mended)" in
	*" $pair "*) pass=1 ;;
	*) pass=0 ;;
	esac
	result $pass "$pair: not when it is mended"
	run "$kvmft" diff --predict $pair "$rig/$pair.ill" "$rig/$pair.mended"
	ok "$pair: what was foretold is not contradicted (exit $rc)" test "$rc" = 0 -o "$rc" = 4
	sed 's/^/# /' "$out" "$err"
	sed -nE 's/.* saves ([0-9.]+) to ([0-9.]+) .* take (-?[0-9.]+) to (-?[0-9.]+) .*/\1 \2 \3 \4/p' "$out" |
		awk '{ told = $1 + $2; got = $3 + $4; printf "# the middle of what was found is %+.0f %% of the foretold one\n", (got - told) * 100 / told }'
done
# How much a fault for the log costs varies much on a busy emulator: it may not be sure.
for side in ill mended; do
	"$kvmft" advise --format json "$rig/dirty-log.$side" 2>"$err" | jq -c '.vms[0] | [.advice[].id, .not_sure[]]' >"$out"
	sed "s/^/# dirty-log.$side: /" "$out"
	is "$(grep -c '"dirty-log"' "$out")" "$([ $side = ill ] && echo 1 || echo 0)" "dirty-log: $side"
done
is "$(jq -r '.vms[0].advice[].id' "$rig/live.json")" serial "of this host, now: the serial port"
finish
