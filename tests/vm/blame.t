#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# What `kvmft blame` says of a guest that was made late in more than twenty ways, on two boots: the right cause for
# each way, and as many spikes as were planted. An emulated host is late for reasons of its own, too, and these are
# true. So spikes are judged by the times when delays were planted, if these are known, or else by their lengths.
# intel-blame.t is the same on an Intel host of one CPU; see README.md.

. "$(dirname "$0")/tap.sh"

truth=$top/tests/vm/blame_truth.py
all=0 right=0 wrong=0

# sums: how many spikes in the JSON of the last run have parts that do not sum to their length
sums()
{
	python3 - "$out" <<'END'
import json, sys
bad = [s for s in json.load(open(sys.argv[1]))["spikes"]
       if abs(sum(p["time_ns"] for p in s["parts"]) - s["length_ns"]) > len(s["parts"])]
print(len(bad))
END
}

# placed: delays that were planted by a guest's clock get the host's: each of the guest's markers "boot SECONDS" is at
# that moment, or a little later.
placed()
{
	"$kvmft" merge -q --clock boot --event ftrace:print "$rig/host" "$rig/guest" |
		sed -n 's/.* \([0-9]*\.[0-9]*\)  ftrace:print: .*boot \([0-9]*\.[0-9]*\)$/\1 \2/p' >"$tmp/boots"
	ok "the guest's clock is known" test -s "$tmp/boots"
	awk 'NR == FNR { d = $1 - $2; if (NR == 1 || d < least) least = d; next }
		$4 == "guest" { $2 = sprintf("%.6f", $2 + least) } { print $1, $2, $3 }' "$tmp/boots" "$rig/spins" >"$tmp/spins"
	python3 "$truth" turns "$kvmft" "$rig" >>"$tmp/spins"
	is $? 0 "whose turn it was is known, and what touched memory"
	cp "$tmp/spins" "$rig/spins"
}

# judge NAME CAUSE THAN: judges what the last run, in JSON, says of a phase; sets good, bad, other. The threshold is half
# of what was planted.
judge()
{
	python3 "$truth" "$rig/spins" "$1" "$2" "$(($3 * 2))" "$out" >"$tmp/judged"
	sed "s/^/# $1: /" "$tmp/judged"
	good=$(sed -n 's/.* right \([0-9]*\) .*/\1/p' "$tmp/judged")
	bad=$(sed -n 's/.* wrong \([0-9]*\) .*/\1/p' "$tmp/judged")
	other=$(sed -n 's/.* unknown \([0-9]*\) .*/\1/p' "$tmp/judged")
}

# phases: judges all phases of the last rig
phases()
{
	placed
	times=$(fact times)
	while read -r name cause from to than more; do
		guest=$rig/guest
		[ "$name" != timerlat ] || guest=$rig/timerlat.dat
		set -- "$kvmft" blame -q --clock boot --from "$from" --to "$to" --than "${than}ms" --top 1000
		# shellcheck disable=SC2086 # options
		run "$@" --format json $more "$rig/host" "$guest"
		judge "$name" "$cause" "$than"
		if [ "$cause" = none ]; then
			# ... but the emulated host, whose CPU may be given to something else outside.
			is "$(jq -r '.spikes[] | select(.cause | test("^(host-|halt-wake$)") | not) | .cause' <"$out")" "" \
				"a quiet guest: nothing of it or of KVM is blamed"
			continue
		fi
		status_is 0 "$name"
		is "$(sums)" 0 "... the parts of each sum to it"
		# Two VMs on one CPU take turns, and how often is up to the scheduler; all other delays are planted
		# one by one.
		ok "... $good of $times or more are of $cause" test "$good" -ge $((times * 5 / 6))
		all=$((all + good + bad + other)) right=$((right + good)) wrong=$((wrong + bad))
	done <"$rig/truth"
}

# Bochs needs half a minute for a second in which a guest is busy; but there is hardly anything late but what is planted.
few=
! on_intel || few='--env MS=40 --env TIMES=5'
# shellcheck disable=SC2086 # options
rig blame --timeout 1200 $few
phases
run "$kvmft" blame -q --from-event 'print/buf~"*begin*"/' --to-event 'print/buf~"*end*"/' --format json "$rig/host" "$rig/guest"
# On Intel there are five.
is "$(grep -o '"what":' "$out" | wc -l)" "$([ -n "$few" ] && echo 5 || echo 10)" "--top is ten"
first=$tmp/first
mv "$rig" "$first"
# shellcheck disable=SC2086 # options
rig blame --timeout 1200 $few \
	--env "PLANTS=hardirq softirq storm lock cpuid user wake latetimer gsoftirq hole swap offline idle"
phases
# The same of recordings that lack events: the right cause, or none.
ablated blame "$first" "$rig"
is "$(grep -c 'sure-and-wrong 0$' "$tmp/ablated")" 15 "... each is asked"
ablated split "$first/host"
if [ -n "${TRACERS_KERNEL:-}" ]; then
	rig blame --timeout 1200 --guest-kernel "$TRACERS_KERNEL" --env "PLANTS=noise timerlat idle" \
		--env "GUEST_EVENTS=osnoise:*"
	phases
else
	skip "what a guest's osnoise and timerlat tracers measure" "no kernel of Debian has them: TRACERS_KERNEL=TREE"
fi
echo "# $all spikes of what was planted: $right have its cause, $wrong another one, $((all - right - wrong)) none"
ok "98 % have the planted cause" test $((right * 100)) -ge $((all * 98))
ok "... and 1 % another one at most" test $((wrong * 100)) -le "$all"
finish
