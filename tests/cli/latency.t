#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `kvmft latency` with a host and a guest that are compiled from tests/golden/latency-*.txt, where every time
# is known to the ns: tests/golden/latency.out was worked out by hand.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden
here=$(dirname "$0")

for side in host guest; do
	ok "$side is compiled" "$mkcap" --capture "$tmp/$side" "$golden/latency-$side.txt"
done
run "$kvmft" latency all --format csv "$tmp/host" "$tmp/guest=one"
status_is 0 "all analyses, options behind the operand"
ok "... every stage as worked out by hand" diff "$golden/latency.out" "$out"
err_has "0 outside" "... the alignment is told"

# ---- what is counted adds up ----

# sums NAME [cut]: what was counted in the JSON of the last run adds up.
sums()
{
	if command -v python3 >/dev/null; then
		name=$1
		shift
		ok "$name" python3 "$here/latency_sums.py" "$out" "$@"
	else
		skip "$1" "python3 is not installed"
	fi
}

run "$kvmft" latency irq,io,timer,sched --format json -q "$tmp/host" "$tmp/guest=one"
status_is 0 "as JSON"
sums "... the parts are the whole"

# ---- text ----

run "$kvmft" latency io --worst 1 --context 2 "$tmp/host" "$tmp/guest=one"
status_is 0 "one of the worst"
out_has "^1\. 6\.6 us: 254,0 write sector 2048 \+ 8, one; on the host" "... is named with its cause"
out_has "block:block_rq_issue" "... begins with the issue"
out_has "kvm:kvm_msi_set_irq" "... and goes over the host"
run "$kvmft" latency irq --than 1us --worst 5 "$tmp/host" "$tmp/guest=one"
is "$(grep -c '^[0-9]\. ' "$out")" 1 "--than leaves the shorter ones out"
run "$kvmft" latency sched --vcpu 7 "$tmp/host" "$tmp/guest=one"
out_has "^intervals 0" "--vcpu: nothing of the others"

# ---- with less ----

run "$kvmft" latency irq,timer,sched --format csv "$tmp/host"
status_is 0 "the host alone"
out_has '^irq,"one","MSI 38",total,1,1\.000' "... interrupts to the entry"
out_has '^timer,"one","deadline of vCPU 0",total,1,1\.000' "... timers to the entry"
out_has '^sched,"one","\(not known\)",total,2' "... and the guest's tasks are not known"
run "$kvmft" latency io "$tmp/host"
status_is 1 "io of the host alone"
err_has "needs a capture of the guest" "... is told"
err_one_line "io of the host alone"
grep -v "sched:" "$golden/latency-host.txt" >"$tmp/nosched.txt"
"$mkcap" --capture "$tmp/nosched" "$tmp/nosched.txt"
run "$kvmft" latency sched -q "$tmp/nosched" "$tmp/guest=one"
status_is 0 "a host without sched events"
out_has "note: the host capture has no sched:sched_switch" "... is told"
grep -v "apic_accept" "$golden/latency-host.txt" >"$tmp/noaccept.txt"
"$mkcap" --capture "$tmp/noaccept" "$tmp/noaccept.txt"
run "$kvmft" latency irq "$tmp/noaccept" "$tmp/guest=one"
status_is 1 "a host without kvm_apic_accept_irq"
err_has "no kvm:kvm_apic_accept_irq" "... is told"
sed '/^0   3000/a 0 gap 5' "$golden/latency-host.txt" >"$tmp/gap.txt"
"$mkcap" --capture "$tmp/gap" "$tmp/gap.txt"
run "$kvmft" latency all --format json -q "$tmp/gap" "$tmp/guest=one"
status_is 3 "a host with lost events"
sums "... what the gap cut is counted, and the parts are the whole" cut

# ---- handlers that the guest does not tell of ----

# The timer's interrupt twice more, of which the last is seen.
sed '/^0  17000/,$d' "$golden/latency-host.txt" >"$tmp/again.txt"
cat >>"$tmp/again.txt" <<'END'
0  17000 101 kvm_exit exit_reason=1 isa=1
0  17010 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xec
0  17020 101 kvm_inj_virq vector=0xec soft=0 reinjected=0
0  17100 101 kvm_entry vcpu_id=0
0  17150 101 kvm_exit exit_reason=1 isa=1
0  17200 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xec
0  17300 101 kvm_inj_virq vector=0xec soft=0 reinjected=0
0  17400 101 kvm_entry vcpu_id=0
0  18000 101 kvm_exit exit_reason=1 isa=1
END
"$mkcap" --capture "$tmp/again" "$tmp/again.txt"
grep -v irq_vectors "$golden/latency-guest.txt" >"$tmp/novec.txt"
"$mkcap" --capture "$tmp/novec" "$tmp/novec.txt"
run "$kvmft" latency irq --format json --worst 0 -q "$tmp/again" "$tmp/novec=one"
out_has '"of vectors that the guest did not trace":2' "a vector without events in the guest is not lost"
out_has 'no handler events of these vectors: 236 \(2\)' "... and is named"
sums "... the parts are the whole"
sed '/^0  17500/i 0 17450 0 irq_vectors:local_timer_entry vector=236' "$golden/latency-guest.txt" >"$tmp/late.txt"
"$mkcap" --capture "$tmp/late" "$tmp/late.txt"
run "$kvmft" latency irq --format json --worst 0 -q "$tmp/again" "$tmp/late=one"
out_has '"injected, handler not seen":1' "a handler that is missing between others is not seen"
sums "... the parts are the whole"

# ---- every analysis in every format, with a guest and without ----

forms()
{
	with=$1
	shift
	for kind in irq sched io timer; do
		for format in text json csv html; do
			what="$kind as $format, $with"
			rm -f "$tmp/form"
			run "$kvmft" latency $kind --format $format -q -o "$tmp/form" "$@"
			if [ $kind = io ] && [ $# = 1 ]; then
				is "$rc $(test -e "$tmp/form" && echo made)" "1 " "$what: refused, and nothing is made"
				continue
			fi
			status_is 0 "$what"
			case $format in
			text) ok "... has a table" grep -qE '^(Interrupt|Guest task|Device|Timer) +Stage +Count' "$tmp/form" ;;
			json) ok "... is one document" grep -q "^{\"$kind\":{.*}\$" "$tmp/form" ;;
			csv) ok "... has rows of 11 columns" sh -c "sed 's/,\(\"[^\",]*\),\([^\",]*\",\)/,\1;\2/' '$tmp/form' |
				awk -F , '/^$kind,/ { n++ } NF != 11 { bad++ } END { exit bad || !n }'" ;;
			html) ok "... is whole" sh -c "tail -n 1 '$tmp/form' | grep -q '</html>'" ;;
			esac
		done
	done
}
forms "both sides" "$tmp/host" "$tmp/guest=one"
forms "the host alone" "$tmp/host"
"$(dirname "$mkcap")/genpair" --host "$tmp/pair-host" --guest "$tmp/pair-guest" --vcpus 3 --jump 3000000 --ms 20
run "$kvmft" latency sched --format json -q "$tmp/pair-host" "$tmp/pair-guest"
status_is 0 "captures of genpair"
sums "... the parts are the whole"

# ---- anything in any order ----

# Events of all kinds at random, and gaps: nothing may be counted twice, or not at all.
for seed in 1 2 3 4 5; do
	for side in host guest; do
		sed -n '/^meta/p' "$golden/latency-$side.txt" >"$tmp/any-$side.txt"
		awk -v seed="$seed" -v side="$side" -f "$here/latency_any.awk" >>"$tmp/any-$side.txt"
		rm -rf "$tmp/any-$side"
		"$mkcap" --capture "$tmp/any-$side" "$tmp/any-$side.txt"
	done
	run "$kvmft" latency all --format json --worst 2 -q --force -o "$tmp/any.json" "$tmp/any-host" "$tmp/any-guest=one"
	cp "$tmp/any.json" "$out"
	sums "random events $seed: the parts are the whole" cut
	run "$kvmft" latency irq,sched,timer --format json -q "$tmp/any-host"
	sums "... of the host alone, too" cut
done

run "$kvmft" latency nonsense "$tmp/host"
status_is 2 "an analysis that there is not"
run "$kvmft" latency irq --format xml "$tmp/host"
status_is 2 "a format that there is not"
finish
