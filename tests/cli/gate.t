#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft diff` as a gate, on built recordings of a host under load: of 40 pairs with nothing changed no limit fails, and
# 5 % more exits per operation are found in each of 20. Real recordings take an emulated machine for itself.

. "$(dirname "$0")/lib.sh"

mkcap=$makers/mkcap
equal=${GATE_PAIRS:-40}

# serve NAME SEED MORE: 3 s of a vCPU that serves requests. 16 to 24 exits for each (I/O when it is done), 40 for one in
# fifty, and MORE times as many exits besides. Others want its CPU in bursts: then exits take two to nine times as long,
# host interrupts come four times as often, it is preempted, and so serves fewer requests; how busy they are differs from
# recording to recording by a quarter, and requests come faster and slower over seconds.
serve()
{
	awk -v seed="$2" -v more="$3" '
		function later(mean) { return -log(1 - rand()) * mean }
		function exit_for(reason, mean) {
			if (now >= shift) {
				busy = !busy
				shift = now + later(busy ? 40e6 * load : 60e6)
			}
			if (now >= end)
				exit
			printf "0 %.0f 101 kvm_exit exit_reason=%d isa=1 vcpu_id=0\n", now, reason
			now += 600 + later(mean) * (busy ? 2 + 7 * rand() : 1)
			if (busy && rand() < 0.002)
				now += later(4e6)
			printf "0 %.0f 101 kvm_entry vcpu_id=0\n", now
			now += 300 + later(2500)
			while (tick < now - 1000) {
				tick += later(busy ? 1e6 : 4e6)
				if (reason != 1)
					exit_for(1, 1500)
			}
		}
		BEGIN {
			srand(seed)
			print "meta begin tsc=1000000000\nmeta stop tsc=4000000000\nmeta vm id=100-12 pid=100 fd=12 name=vm1"
			print "meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=0 tsc=1\n0 1000001000 101 kvm_entry vcpu_id=0"
			now = tick = shift = 1e9 + 2000
			end = 3.999e9
			load = 0.75 + rand() / 2
			for (;;) {
				n = rand() < 0.02 ? 40 : 16 + int(3 * rand()) + int(3 * rand()) + int(3 * rand()) + int(3 * rand())
				due += n * more
				for (i = 1; i < n; i++)
					exit_for(rand() < 0.3 ? 48 : 32, 2500)
				for (; due >= 1; due--)
					exit_for(10, 1500)
				exit_for(30, 9000)
				exit_for(12, 900e3 * (1.6 + sin(now / 7e8 + seed)))
			}
		}' >"$tmp/text"
	"$mkcap" --capture "$tmp/$1" "$tmp/text" || echo "# $1: not compiled"
}

# judge BEFORE AFTER [OPTION]...: of exits per request in $verdict and $error; how many of the five limits fail in $any
judge()
{
	before=$1 after=$2
	shift 2
	run "$kvmft" diff --vm vm1 --op 'kvm_exit/exit_reason==30/' --fail-if 'exits/op > +1 %' --fail-if 'exits/s > +2 %' \
		--fail-if 'exits mean > +20 %' --fail-if 'hlt p99 > +30 %' --fail-if 'guest share < -20 %' --format json "$@" \
		"$tmp/$before" "$tmp/$after"
	jq -r '"# " + (.limits | map("\(.verdict) \(.before // 0 | tostring[:7]) \(.after // 0 | tostring[:7]) +-\(
		(.error_ppm // 0) / 10000 | tostring[:5]) %") | join("; "))' "$out" | sed "s/^#/# $before $after:/"
	verdict=$(jq -r '.limits[0].verdict' "$out")
	any=$(jq -r '[.limits[] | select(.verdict == "fail")] | length' "$out")
	error=$(jq -r '.limits[0].error_ppm' "$out")
}

# served NUMBER: of a recording with nothing changed
served() { [ -d "$tmp/equal$1" ] || serve "equal$1" "$1" 0; }
served 1
served 2
# What part of all exits are those of requests? The rest come with time.
judge equal1 equal2
more=$(jq -r '.limits[0].before' "$out" | awk '{ printf "%.4f", 0.05 * $1 / (20 * 0.98 + 40 * 0.02) }')

pass=0 told=0 shown=0 failed=0 found=0
for i in $(seq $equal); do
	# Neighbours, and such as are half of all apart.
	[ $((i % 2)) = 1 ] && before=$i after=$((i + 1)) || before=$((i / 2)) after=$((i / 2 + equal / 2))
	served $before
	served $after
	judge "equal$before" "equal$after"
	failed=$((failed + any))
	[ "$verdict" != pass ] || pass=$((pass + 1))
	[ "$verdict" != pass ] && [ "$verdict" != "cannot tell" ] || told=$((told + 1))
	[ "$error" -ge 40000 ] || shown=$((shown + 1))
	[ $((i % 2)) = 0 ] || continue
	served $i
	serve "more$i" $((1000 + i)) "$more"
	judge "equal$i" "more$i"
	[ "$verdict" != fail ] || found=$((found + 1))
done
is "$failed $told" "0 $equal" "$equal pairs with nothing changed, five limits each: none fails ($pass surely pass per operation)"
is "$shown" "$equal" "... in each of them 5 % more per operation would have been found"
is "$found" $((equal / 2)) "... and was in each of $((equal / 2)) ($more of the requests' own)"

# More recordings of a side, and the smallest change.
judge equal1 equal2
one=$error
judge "equal1,$tmp/equal3,$tmp/equal5" "equal2,$tmp/equal4,$tmp/equal6"
ok "three recordings of a side tell more than one (+-$error, +-$one millionths)" test "$error" -lt "$one"
run "$kvmft" diff --op 'kvm_exit/exit_reason==30/' --fail-if 'exits/op > +1 %' "$tmp/equal1" "$tmp/equal2"
from=$(sed -nE 's/.*would fail from \+([0-9.]+) % on.*/\1/p' "$out")
for part in 1.5:fail 0.2:no; do
	rm -rf "$tmp/planted"
	serve planted 2 "$(awk -v m="$from" -v part="${part%:*}" -v of="$more" 'BEGIN { printf "%.4f", m * part / 5 * of }')"
	judge equal1 planted
	[ "$verdict" = fail ] || verdict=no
	is "$verdict" "${part#*:}" "fails with ${part%:*} times what is said to be the smallest change that would have shown (+$from %)"
done
finish
