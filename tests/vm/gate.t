#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft diff` as a gate, on a real recording of a host under load, cut into stretches: of 40 pairs with nothing changed no
# limit fails, and 5 % more exits per operation are found in each of 20. tests/cli/gate.t does so with built recordings.
# GATE_CAPTURES is a folder that scenario gate left, unpacked, in the place of a new run.

. "$(dirname "$0")/tap.sh"

pairs=40
op=kvm:kvm_pio/port==0x5a0/
if [ -n "${GATE_CAPTURES:-}" ]; then
	rig=$GATE_CAPTURES
else
	rig gate --timeout 2400
fi
if ! command -v jq >/dev/null; then
	skip "a gate" "jq is not installed"
	finish
fi

# Each operation says which stretch it is in; each third has more exits.
"$kvmft" merge --format json -e "$op" "$rig/long" 2>"$tmp/err" |
	jq -r 'select(.kind == "event") | "\(.t) \(.fields.val)"' |
	awk '{ if (!($2 in first)) { first[$2] = $1; order[++n] = $2 } last[$2] = $1; ops[$2]++ }
		END { for (i = 1; i <= n; i++) printf "%.9f %.9f %d\n", first[order[i]] / 1e9, last[order[i]] / 1e9, ops[order[i]] }' \
		>"$tmp/stretches"
equal=0 more=0
while read -r from until ops; do
	if [ $(((equal + more) % 3)) = 2 ]; then
		more=$((more + 1))
		name=more$more
	else
		equal=$((equal + 1))
		name=equal$equal
	fi
	"$kvmft" export "$rig/long" -q -o "$tmp/$name" --from "$from" --until "$until" || echo "# $name was not cut"
	echo "# $name: $ops operations from $from to $until s"
done <"$tmp/stretches"
is "$equal $more" "$pairs $((pairs / 2))" "stretches of either kind"

# judge BEFORE AFTER [OPTION]...: how many limits fail in $any; of exits per operation $verdict, $change and $error in
# millionths
judge()
{
	before=$1 after=$2
	shift 2
	run "$kvmft" diff --op "$op" --fail-if 'exits/op > +2 %' --fail-if 'cpuid/op > +2 %' \
		--fail-if 'exits mean > +50 %' --fail-if 'guest share < -50 %' --format json "$@" "$before" "$after"
	jq -r '"# " + (.limits | map("\(.verdict) \(.before // 0 | tostring[:7]) \(.after // 0 | tostring[:7]) +-\(
		(.error_ppm // 0) / 10000 | tostring[:5]) % \(.why // "")") | join("; "))' "$out" |
		sed "s,^#,# $(basename "$before") $(basename "$after"):,"
	any=$(jq -r '[.limits[] | select(.verdict == "fail")] | length' "$out")
	verdict=$(jq -r '.limits[0].verdict' "$out")
	error=$(jq -r '.limits[0].error_ppm // 1000000' "$out")
	change=$(jq -r '.limits[0] | ((.after // 0) / (.before // 1) - 1) * 1000000 | round' "$out")
}

# several KIND NUMBER: four recordings as a side
several()
{
	echo "$tmp/$1$2,$tmp/$1$(($2 + 1)),$tmp/$1$(($2 + 2)),$tmp/$1$(($2 + 3))"
}

failed=0 told=0 found=0 planted=0
for i in $(seq "$pairs"); do
	# Neighbours, and such as are half of all apart.
	[ $((i % 2)) = 1 ] && before=$i after=$((i + 1)) || before=$((i / 2)) after=$((i / 2 + pairs / 2))
	judge "$tmp/equal$before" "$tmp/equal$after"
	failed=$((failed + any))
	[ "$verdict" != pass ] || told=$((told + 1))
	[ $((i % 2)) = 0 ] || continue
	judge "$tmp/equal$i" "$tmp/more$((i / 2))"
	planted=$((planted + change))
	[ "$verdict" != fail ] || found=$((found + 1))
done
is "$failed" 0 "$pairs pairs with nothing changed: none of four limits fails ($told surely pass per operation)"
is "$found" $((pairs / 2)) "$((planted / (pairs / 2))) millionths more per operation are found in each of $((pairs / 2))"

# More recordings of a side tell more; one that is too short cannot, and says from which change on it could.
judge "$tmp/equal1" "$tmp/equal5"
one=$error
failed=0 found=0
for i in $(seq 1 4 $((pairs - 7))); do
	judge "$(several equal "$i")" "$(several equal $((i + 4)))"
	failed=$((failed + any))
	[ "$i" != 1 ] || four=$error
	judge "$(several equal "$i")" "$(several more $(((i + 1) / 2)))"
	[ "$verdict" != fail ] || found=$((found + 1))
done
ok "four recordings of a side tell more than one (+-$four, +-$one millionths)" test "$four" -lt "$one"
is "$failed $found" "0 9" "... nine such pairs: none fails, and the planted is found"
run "$kvmft" diff --op "$op" --fail-if 'exits/op > +2 %' --to 600ms "$tmp/equal1" "$tmp/equal2"
status_is 4 "0.6 s of each"
out_has '^CANNOT TELL .*exits/op > \+2 %: .*\(it would fail from \+[0-9.]+ % on\)$' "... cannot tell, and from which change on it would fail"
finish
