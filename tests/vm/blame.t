#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What `kvmft blame` says of a guest that was made late in ten ways: of each the right cause, for as many spikes as
# were planted. An emulated host is late for reasons of its own, which are true ones; so a spike of another cause is
# wrong only where it is as long as what was planted.

. "$(dirname "$0")/tap.sh"

rig blame --timeout 440
times=$(fact times)
all=0
right=0
wrong=0

# spikes: of the CSV of the last run, a line for each: cause, length in us, sure
spikes()
{
	sed 's/"[^"]*"/X/g' "$out" | awk -F , 'NR > 1 && !seen[$6 "," $1]++ { print $9, int($8), $11 }'
}

# sums: parts of a spike that do not sum to its length, in the JSON of the last run
sums()
{
	python3 - "$out" <<'END'
import json, sys
bad = [s for s in json.load(open(sys.argv[1]))["spikes"]
       if abs(sum(p["time_ns"] for p in s["parts"]) - s["length_ns"]) > len(s["parts"])]
print(len(bad))
END
}

while read -r name cause from to than more; do
	# shellcheck disable=SC2086 # options
	run "$kvmft" blame -q --clock boot --from "$from" --to "$to" --than "${than}ms" --top 1000 --format csv $more \
		"$rig/host" "$rig/guest"
	if [ "$cause" = none ]; then
		is "$(spikes | wc -l)" 0 "a quiet guest: nothing is blamed"
		continue
	fi
	status_is 0 "$name"
	spikes | sort | uniq -c -w 14 | sed "s/^/# $name: /"
	n=$(spikes | grep -c "^$cause ")
	# Two VMs on one CPU take turns, and how often is up to the scheduler.
	ok "... $n of $times or more are of $cause" test "$n" -ge $((times * 5 / 6))
	# Of those that are as long as a delay that was planted.
	long=$(spikes | awk -v than="$than" '$2 >= than * 1600' | wc -l)
	good=$(spikes | awk -v than="$than" -v cause="$cause" '$2 >= than * 1600 && $1 == cause' | wc -l)
	all=$((all + long))
	right=$((right + good))
	# shellcheck disable=SC2086 # options
	run "$kvmft" blame -q --clock boot --from "$from" --to "$to" --than "${than}ms" --top 1000 --format json $more \
		"$rig/host" "$rig/guest"
	is "$(sums)" 0 "... the parts of each sum to it"
done <"$rig/truth"
wrong=$((all - right))
echo "# $all spikes as long as the planted ones, $right of the planted cause, $wrong of another one"
ok "$right of $all have the planted cause" test $((right * 100)) -ge $((all * 95))
run "$kvmft" blame -q --from-marker begin --to-marker end --format csv "$rig/host" "$rig/guest"
is "$(spikes | wc -l)" 10 "--top is ten"
finish
