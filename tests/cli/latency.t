#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
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
run "$kvmft" latency all --all --format csv "$tmp/host" "$tmp/guest=one"
status_is 0 "all analyses, options behind the operand"
ok "... every stage as worked out by hand" diff "$golden/latency.out" "$out"
err_has "0 outside" "... the alignment is reported"

sed '/2200 101 kvm_entry/a 0 2300 101 kvm_exit exit_reason=48 isa=1\n0 2450 101 kvm_entry vcpu_id=0' \
	"$golden/latency-host.txt" >"$tmp/fault.txt"
"$mkcap" --capture "$tmp/fault" "$tmp/fault.txt"
run "$kvmft" latency io --format csv -q "$tmp/fault" "$tmp/guest=one"
out_has '^io,"one",.*,faults,1,0\.150' "a page fault within a request; the doorbell is none"

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

run "$kvmft" latency irq,io,timer,sched --all --format json -q "$tmp/host" "$tmp/guest=one"
status_is 0 "as JSON"
sums "... the parts are the whole"

# ---- from any event to any other ----

# event ARGS...: count, time in us and events of each row, or the line that says why there is none.
event() { run "$kvmft" latency -q --format csv "$@" "$tmp/host" "$tmp/guest=one"; }
total() { sed -n "s/^$1,\"one\",.*,total,[0-9]*,\([0-9.]*\),.*/\1/p" "$out"; }
event io && is "$(total io)" 6.620 "io: from the issue to the completion"
for key in --key=sector --key=sector=sector ""; do
	event $key --from-event block:block_rq_issue --to-event 'block_rq_complete/nr_sector==8/'
	is "$(total event)" 6.620 "... the same between these two events, ${key:-without a key}"
done
event --from-event kvm_msi_set_irq --to-event irq_handler_entry
is "$(total event)" 1.050 "from the host's MSI to the guest's handler"
run "$kvmft" latency -q --from-event kvm_msi_set_irq --to-event irq_handler_entry "$tmp/host" "$tmp/guest=one"
out_has '^note: ~: times that span host and guest may be off' "... is off by the alignment"
event --from-event kvm_entry --to-event kvm_entry
is "$(grep -c '^event,.*,total,' "$out")" 1 "from one entry to the next: an end may be a beginning"
event --key=irq=vector --from-event irq_handler_entry --to-event local_timer_entry
status_is 4 "no two with the same value"
err_has 'nothing could be measured. event: .*ends without a beginning 1' "... is counted"
for lacks in "nosuch:--to-event=nosuch:no event named nosuch" "kvm_exit/nofield==1/:--to-event=kvm_exit/nofield==1/:kvm_exit has no field nofield" \
	"a key:--key=nofield --to-event=kvm_exit:kvm_entry has no field nofield"; do
	want=${lacks##*:} args=${lacks#*:}
	# shellcheck disable=SC2086 # options
	event --from-event kvm_entry ${args%:*}
	status_is 4 "${lacks%%:*}, which no capture has"
	err_has "$want" "... is named"
done
run "$kvmft" latency --from-event kvm_entry "$tmp/host"
status_is 2 "one event alone"
run "$kvmft" latency irq --from-event kvm_entry --to-event kvm_exit
status_is 2 "no HOST"
sed '/block_rq_issue/a 0 gap 3' "$golden/latency-guest.txt" >"$tmp/gap.txt"
"$mkcap" --capture "$tmp/gap" "$tmp/gap.txt"
run "$kvmft" latency --from-event block_rq_issue --to-event block_rq_complete "$tmp/host" "$tmp/gap=one"
err_has 'nothing could be measured. event: .*cut by lost events 1' "what is cut by lost events is no time"
# A time of 3 ms, with 300 others begun meanwhile, and whatever another guest says or loses.
{
	printf 'meta vm id=%s-12 pid=%s fd=12 name=%s\n' 100 100 one 200 200 two
	printf 'meta vcpu vm=%s-12 id=0 tid=%s offset=0 ratio=0 frac=48\n' 100 101 200 201
	printf '%s kvm_entry vcpu_id=0\n' "0 1000 101" "1 1000 201"
	printf '%s kvm_exit exit_reason=1 isa=1\n' "0 9000000 101" "1 9000000 201"
} >"$tmp/two-host.txt"
# requests TID NAME FROM TO TIME: of these sectors
requests() { seq "$3" "$4" | sed "s/.*/0 $5 $1 block:block_rq_$2 dev=1 sector=& nr_sector=8/"; }
{ requests 77 issue 7 7 2000 && requests 78 issue 1001 1300 2500 && requests 77 complete 7 7 3002000; } >"$tmp/two-one.txt"
{ requests 78 issue 2001 2300 2600 && requests 79 complete 7 7 2700; } >"$tmp/two-says.txt"
{ requests 78 issue 8 8 2600 && echo 0 gap 3 && requests 79 complete 9 9 2700; } >"$tmp/two-loses.txt"
for side in host one says loses; do
	[ $side = host ] || sed -i '1i meta side name=guest\nmeta cpu n=0 apicid=0' "$tmp/two-$side.txt"
	"$mkcap" --capture "$tmp/two-$side" "$tmp/two-$side.txt"
done
for two in says loses; do
	for args in "--key=sector" "" "--key=sector --vm one" "--vm one"; do
		# shellcheck disable=SC2086 # options
		run "$kvmft" latency -q --format csv --from-event block_rq_issue --to-event block_rq_complete $args \
			"$tmp/two-host" "$tmp/two-one=one" "$tmp/two-$two=two"
		is "$(sed -n 's/^event,"one",.*,total,1,\([0-9.]*\),.*/\1/p' "$out")" 3000.000 "300 more are begun, another guest $two what it likes: $args"
	done
done

# ---- text ----

run "$kvmft" latency io --all --worst 1 --context 2 "$tmp/host" "$tmp/guest=one"
status_is 0 "one of the worst"
out_has "^1\. 6\.6 us: 254,0 write sector 2048 \+ 8, one; on the host" "... is named with its cause"
out_has "^  1 measured: half up to 6.6 us, 99 % up to 6.6 us, the longest 6.6 us" "... the answer comes first"
out_has "^  where the time went: host 75 %, deliver 15 %, submit 7 %, complete 1 %" "... with its stages"
out_has "block:block_rq_issue" "... begins with the issue"
out_has "kvm:kvm_msi_set_irq" "... and goes over the host"
for kind in "irq 1" "io 0" "timer 1" "io,timer 1" "io@--all 1"; do
	# shellcheck disable=SC2046 # options
	run "$kvmft" latency -q $(echo "${kind% *}" | tr @ ' ') "$tmp/host" "$tmp/guest=one"
	is "$(grep -cE '[a-z0-9] *~' "$out" | sed 's/[1-9].*/1/')$(grep -c '^note: ~:' "$out")" "${kind#* }${kind#* }" \
		"${kind% *}: the mark ~ is explained where it is"
done
run "$kvmft" latency irq --all --than 1us --worst 5 "$tmp/host" "$tmp/guest=one"
is "$(grep -c '^[0-9]\. ' "$out")" 1 "--than leaves the shorter ones out"
run "$kvmft" latency irq --all --to 9us "$tmp/host" "$tmp/guest=one"
out_has "^  1 measured: .* the longest 1\.1 us" "--to: only what came before"
run "$kvmft" latency irq --all --from 7500ns "$tmp/host" "$tmp/guest=one"
out_has "^  1 measured: .* the longest 820 ns" "--from: only what came after"
run "$kvmft" latency irq --all --from 7500ns --to 9us "$tmp/host" "$tmp/guest=one"
status_is 4 "... an interrupt that came before is not measured from its middle"
run "$kvmft" latency irq --all --from 1s "$tmp/host" "$tmp/guest=one"
err_has "no such events in that time" "... and no events are said to be missing"
run "$kvmft" latency sched --all --vcpu 7 "$tmp/host" "$tmp/guest=one"
status_is 1 "--vcpu that does not exist"
err_has "no such events of the vCPU that --vcpu names" "... is reported"

# ---- with less ----

run "$kvmft" latency irq,timer,sched --all --format csv "$tmp/host"
status_is 0 "the host alone"
out_has '^irq,"one","MSI 38",total,1,1\.000' "... interrupts to the entry"
out_has '^timer,"one","deadline of vCPU 0",total,1,1\.000' "... timers to the entry"
out_has '^sched,"one","\(guest not recorded\)",total,2' "... and the guest's tasks are not known"
run "$kvmft" latency io --all "$tmp/host"
status_is 4 "io of the host alone"
err_has "needs a capture of the guest" "... is reported"
err_one_line "io of the host alone"
run "$kvmft" latency all --all --worst 0 "$tmp/host"
status_is 0 "all of the host alone"
err_has "^kvmft: io is left out: needs a capture of the guest" "... what cannot be answered is left out"
out_has "^note: io is left out: needs a capture of the guest" "... which the result says, too"
is "$(grep -cE '^(irq|sched|timer|io): ' "$out")" 3 "... and the others are answered"
run "$kvmft" latency io,irq --all --worst 0 "$tmp/host"
status_is 3 "io by name, and irq, of the host alone"
out_has "^irq: " "... irq is answered"
grep -v "block:" "$golden/latency-guest.txt" >"$tmp/noblock.txt"
"$mkcap" --capture "$tmp/noblock" "$tmp/noblock.txt"
run "$kvmft" latency irq,timer "$tmp/host" "$tmp/noblock=one"
ok "into a pipe no line is broken, for grep" grep -qE '^.{81,}' "$out"
run "$kvmft" latency all --all --format json "$tmp/host" "$tmp/noblock=one"
status_is 0 "all of a guest without block events"
err_has "io is left out: the guest capture has no block:block_rq_issue" "... io is left out"
run "$kvmft" latency all --all --format json -q "$tmp/host" "$tmp/noblock=one"
is "$(cat "$err")" "" "... -q is quiet about that"
out_has '"notes":.*"io is left out: the guest capture has no block:block_rq_issue' "... as the document says"
sums "... the parts are the whole"
run "$kvmft" latency io --all "$tmp/host" "$tmp/noblock=one"
status_is 4 "io alone of that"
err_has "io: the guest capture has no block:block_rq_issue" "... is reported"
echo 'recorded block:block_rq_issue block:block_rq_complete' >>"$tmp/noblock.txt"
"$mkcap" --capture "$tmp/idle" "$tmp/noblock.txt"
run "$kvmft" latency io --all -q "$tmp/host" "$tmp/idle=one"
status_is 4 "io of a guest that had no request"
err_has "nothing to measure: the captures hold no block requests$" "... is reported"
grep -v "sched:" "$golden/latency-host.txt" >"$tmp/nosched.txt"
"$mkcap" --capture "$tmp/nosched" "$tmp/nosched.txt"
run "$kvmft" latency sched --all -q "$tmp/nosched" "$tmp/guest=one"
status_is 0 "a host without sched events"
out_has "note: what was not recorded would be shown by .kvmft record .*-e sched:sched_switch -e sched:sched_wakeup. on the host" \
	"... is reported, with a remedy"
is "$(grep -c '^note: .*record' "$out")" 1 "... in one note"
is "$(awk '$1 == "one" { print $5, $8, $9 }' "$out")" "? ? ?" "... the states that it would tell are not told"
run "$kvmft" latency irq --all -q "$tmp/nosched" "$tmp/guest=one"
out_has "^  where the time went: .*not recorded [0-9]* %" "... nor are stages"
out_has "^  off-cpu   not recorded: host sched:sched_switch, host sched:sched_wakeup$" "... which the list of these says"
is "$(grep -cE '(deliver|off-cpu|guest) +[0-9]|vCPU busy|kick' "$out")" 0 "... and nothing claims them"
run "$kvmft" latency irq,sched --all --format json -q "$tmp/nosched" "$tmp/guest=one"
out_has '"not_recorded":."wake":.*"off-cpu":."host sched:sched_switch","host sched:sched_wakeup".' "... in JSON: stages"
out_has '"needs":."host sched:sched_switch","host sched:sched_wakeup"' "... what is needed"
out_has '"halted":null,"waiting":null,"preempted":null' "... states"
sums "... the parts are the whole"
run "$kvmft" latency irq --all --format csv -q "$tmp/nosched" "$tmp/guest=one"
is "$(grep -c '^irq,"","off-cpu",not recorded,,' "$out") $(awk -F, '/,not recorded,/ && NF != 15 { bad++ } END { print bad + 0 }' "$out")" \
	"1 0" "... in CSV"
run "$kvmft" latency sched --all --format openmetrics -q "$tmp/nosched" "$tmp/guest=one"
is "$(grep -c 'state="\(kernel\|waiting\|preempted\)"' "$out")" 0 "... in OpenMetrics"
grep -v "apic_accept" "$golden/latency-host.txt" >"$tmp/noaccept.txt"
"$mkcap" --capture "$tmp/noaccept" "$tmp/noaccept.txt"
run "$kvmft" latency irq --all "$tmp/noaccept" "$tmp/guest=one"
status_is 4 "a host without kvm_apic_accept_irq"
err_has "no kvm:kvm_apic_accept_irq" "... is reported"
grep -vE "apic_accept|inj_virq" "$golden/latency-host.txt" >"$tmp/noinject.txt"
"$mkcap" --capture "$tmp/noinject" "$tmp/noinject.txt"
run "$kvmft" latency io --all --worst 0 -q "$tmp/noinject" "$tmp/guest=one"
out_has "^  where the time went: submit 7 %, not recorded 92 %" "... what of io's time was then not recorded"
sed '/^0   3000/a 0 gap 5' "$golden/latency-host.txt" >"$tmp/gap.txt"
"$mkcap" --capture "$tmp/gap" "$tmp/gap.txt"
run "$kvmft" latency all --all --format json -q "$tmp/gap" "$tmp/guest=one"
status_is 3 "a host with lost events"
sums "... what the gap cut is counted, and the parts are the whole" cut

# ---- who ran instead, where the host was recorded for the VM's threads only ----

# 55 runs and is seen to end; 55 runs, and 66 is the last; 66 is the last of those that ran before a wake-up.
{
	sed -n '/^meta/p' "$golden/latency-host.txt"
	cat <<'END'
meta task tid=66 tgid=66 comm=other
0   1000 101 kvm_entry vcpu_id=0
0   2000 101 kvm_exit exit_reason=1 isa=1
0   2000 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0   2400  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
0   2500 101 kvm_entry vcpu_id=0
0   3000 101 kvm_exit exit_reason=1 isa=1
0   3000 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0   3700  66 sched:sched_switch prev_pid=66 prev_state=0 next_pid=101
0   3800 101 kvm_entry vcpu_id=0
0   4000 101 kvm_exit exit_reason=12 isa=1
0   4100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=55
0   5000  66 sched:sched_wakeup pid=101 target_cpu=0
0   5300  66 sched:sched_switch prev_pid=66 prev_state=0 next_pid=101
0   5400 101 kvm_entry vcpu_id=0
END
} >"$tmp/some.txt"
"$mkcap" --capture "$tmp/some" "$tmp/some.txt"
run "$kvmft" latency sched --all --worst 0 -q "$tmp/some"
status_is 0 "a host of which some switches were not recorded"
out_has "^thief-55 +total +1 .* 0\.400\$" "... one that ran to the end has its time"
out_has "^thief-55 \.\.\. other-66 +total +1 .* 0\.700\$" "... of several the first and the last are named"
out_has "^\.\.\. other-66 +total +1 .* 0\.300\$" "... or the last, where nobody knows who was first"
out_has "^slices 3; of unknown tasks 0; of several tasks, .* 2\$" "... they are counted"
out_has "^note: the host's switches between threads of no VM are not all recorded \(.kvmft record -e default -e sched:sched_switch. has all\): " \
	"... which is reported, with what records them"
sed -i '/ name=sched_switch$/s/$/ filter=x/' "$tmp/some/meta"
run "$kvmft" latency sched --all --worst 0 -q "$tmp/some"
out_has "^thief-55 \.\.\. +total +1 .* 0\.400\$" "... with a filter others may have followed the first, who is also the last"
out_has "^\.\.\. other-66 +total +1 .* 0\.300\$" "... and who left the CPU is the last"
# CPU 1 was off for a while: its last switch is not traced.
{
	sed '/2500/q' "$tmp/some.txt"
	cat <<'END'
1   2600  66 sched:sched_switch prev_pid=66 prev_state=0 next_pid=55
1   3600   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=66
END
} >"$tmp/off.txt"
"$mkcap" --capture "$tmp/off" "$tmp/off.txt"
run "$kvmft" latency sched --all --worst 0 -q "$tmp/off"
out_has "^thief-55 +total +1 .* 0\.400\$" "a switch that is missing where no vCPU waits for a CPU"
is "$(grep -c "were not recorded" "$out")" 0 "... is not reported"

# ---- posted, accepted again, injected again ----

{
	sed -n '/^meta/p' "$golden/latency-host.txt"
	cat <<'END'
0   1000 101 kvm_entry vcpu_id=0
# posted into the guest while it runs: it never leaves
1   2000 100 kvm_msi_set_irq address=0xfee00000 data=0x30
1   2100 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x30
1   2110 100 kvm_apicv_accept_irq apicid=0 dm=0 tm=0 vec=0x30
# posted while it is halted: it takes it at the entry
0   3000 101 kvm_exit exit_reason=12 isa=1
1   3100 100 kvm_msi_set_irq address=0xfee00000 data=0x30
1   3150 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x30
1   3160 100 kvm_apicv_accept_irq apicid=0 dm=0 tm=0 vec=0x30
0   3400 101 kvm_vcpu_wakeup ns=300 waited=1 valid=1
0   3500 101 kvm_entry vcpu_id=0
# accepted three times until it is injected, twice
0   4000 101 kvm_exit exit_reason=1 isa=1
1   4100 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x31
1   4200 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x31
1   4300 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x31
0   4400 101 kvm_inj_virq vector=0x31 soft=0 reinjected=0
0   4450 101 kvm_entry vcpu_id=0
0   4460 101 kvm_exit exit_reason=48 isa=1
0   4500 101 kvm_inj_virq vector=0x31 soft=0 reinjected=1
0   4600 101 kvm_entry vcpu_id=0
0   9000 101 kvm_exit exit_reason=1 isa=1
recorded sched:sched_switch sched:sched_wakeup kvm_userspace_exit
END
} >"$tmp/posted.txt"
{
	sed -n '/^meta/p' "$golden/latency-guest.txt"
	cat <<'END'
0   1100  77 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0   2200  77 irq:irq_handler_entry irq=30
0   2250  77 irq:irq_handler_exit irq=30
0   3550  77 irq:irq_handler_entry irq=30
0   3580  77 irq:irq_handler_exit irq=30
0   4700  77 irq:irq_handler_entry irq=31
0   4800  77 irq:irq_handler_exit irq=31
END
} >"$tmp/posted-guest.txt"
"$mkcap" --capture "$tmp/posted" "$tmp/posted.txt"
"$mkcap" --capture "$tmp/posted-guest" "$tmp/posted-guest.txt"
run "$kvmft" latency irq --all --context 0 -q "$tmp/posted" "$tmp/posted-guest=one"
status_is 0 "posted interrupts"
out_has '^accepted 3; measured 3; coalesced 2; injected again 1; posted 2$' "... are counted; and what was accepted or injected again"
out_has '^2\. 450 ns: MSI irq 30 to vCPU 0, posted, one; wake-up of a halted vCPU$' "... one to a halted vCPU is marked"
out_has '^3\. 200 ns: MSI irq 30 to vCPU 0, posted, one' "... so is one to a guest that runs"
run "$kvmft" latency irq --all --format json -q "$tmp/posted" "$tmp/posted-guest=one"
sums "... the parts are the whole"

# Accepted while the guest, with interrupts off, is about to halt: STI; HLT leaves it once more before it takes that. Then
# one whose handler is not seen before the guest halts twice.
{
	sed '/^0   4000/,$d' "$tmp/posted.txt"
	cat <<'END'
0   4000 101 kvm_exit exit_reason=1 isa=1
0   4010 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x30
0   4020 101 kvm_apicv_accept_irq apicid=0 dm=0 tm=0 vec=0x30
0   4100 101 kvm_entry vcpu_id=0
0   4200 101 kvm_exit exit_reason=12 isa=1
0   4300 101 kvm_entry vcpu_id=0
0   5000 101 kvm_exit exit_reason=1 isa=1
0   5010 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x30
0   5020 101 kvm_apicv_accept_irq apicid=0 dm=0 tm=0 vec=0x30
0   5100 101 kvm_entry vcpu_id=0
0   5200 101 kvm_exit exit_reason=12 isa=1
0   5300 101 kvm_entry vcpu_id=0
0   5400 101 kvm_exit exit_reason=12 isa=1
0   5500 101 kvm_entry vcpu_id=0
0   9000 101 kvm_exit exit_reason=1 isa=1
END
} >"$tmp/sti.txt"
{
	sed '/^0   4700/,$d' "$tmp/posted-guest.txt"
	echo "0   4350  77 irq:irq_handler_entry irq=30"
	echo "0   4380  77 irq:irq_handler_exit irq=30"
	echo "0   5550  77 irq:irq_handler_entry irq=30"
	echo "0   5580  77 irq:irq_handler_exit irq=30"
} >"$tmp/sti-guest.txt"
"$mkcap" --capture "$tmp/sti" "$tmp/sti.txt"
"$mkcap" --capture "$tmp/sti-guest" "$tmp/sti-guest.txt"
run "$kvmft" latency irq --all --context 0 -q "$tmp/sti" "$tmp/sti-guest=one"
out_has '^accepted 4; measured 3; injected, handler not seen 1; posted 4; handlers without an interrupt of the host 1$' \
	"a posted one goes in after the guest's HLT; what it halts twice after was another's handler"
out_has '^2\. 340 ns: irq 30 to vCPU 0, posted, one' "... as late as it was"

# It is in, and before the handler's first event the vCPU loses its CPU: that is not the guest's time.
{
	sed -n '/^meta/p' "$golden/latency-host.txt"
	cat <<'END'
0   1000 101 kvm_entry vcpu_id=0
1   2000 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x30
0   2100 101 kvm_exit exit_reason=1 isa=1
0   2200 101 kvm_inj_virq vector=0x30 soft=0 reinjected=0
0   2300 101 kvm_entry vcpu_id=0
0   2400 101 kvm_exit exit_reason=1 isa=1
0   2500 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0   5500  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
0   5600 101 kvm_entry vcpu_id=0
0   9000 101 kvm_exit exit_reason=1 isa=1
recorded sched:sched_switch sched:sched_wakeup kvm_userspace_exit
END
} >"$tmp/robbed.txt"
{
	sed -n '/^meta/p' "$golden/latency-guest.txt"
	echo "0   1100  77 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77"
	echo "0   5700  77 irq:irq_handler_entry irq=30"
	echo "0   5800  77 irq:irq_handler_exit irq=30"
} >"$tmp/robbed-guest.txt"
"$mkcap" --capture "$tmp/robbed" "$tmp/robbed.txt"
"$mkcap" --capture "$tmp/robbed-guest" "$tmp/robbed-guest.txt"
run "$kvmft" latency irq --all --context 0 -q "$tmp/robbed" "$tmp/robbed-guest=one"
out_has '^1\. 3\.7 us: irq 30 to vCPU 0, one; vCPU off its CPU$' "a vCPU that loses its CPU after the entry"
out_has 'deliver 200 ns masked 0 ns off-cpu 3 us enter 100 ns guest 400 ns' "... the guest's time is without that"
run "$kvmft" latency irq --all --format json -q "$tmp/robbed" "$tmp/robbed-guest=one"
sums "... the parts are the whole"

# Its own guest had halted, and KVM was about to tell it.
sed '/kvm_vcpu_wakeup/d; s/^0   3000 101 kvm_exit .*/&\n0   3010 101 kvm_nested_vmexit exit_reason=12 isa=1/' \
	"$tmp/posted.txt" >"$tmp/nested.txt"
"$mkcap" --capture "$tmp/nested" "$tmp/nested.txt"
run "$kvmft" latency irq --all --context 0 -q "$tmp/nested" "$tmp/posted-guest=one"
out_has '^2\. 450 ns: MSI irq 30 to vCPU 0, posted, one; vCPU busy in KVM$' "... one to a vCPU whose own guest halted: KVM's time"

# ---- vhost: an irqfd; its thread waits for a CPU ----

{
	sed -n '1,/^1   7000/p' "$golden/latency-host.txt" | sed '$d'
	cat <<'END'
recorded kvm_userspace_exit
meta task tid=200 tgid=200 comm=vhost-100
1   2050 101 sched:sched_wakeup pid=200 target_cpu=1
1   2750   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=200
1   7000 200 kvm_msi_set_irq address=0xfee00000 data=0x26
1   7100 200 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
END
	sed -n '/^0   7800/,$p' "$golden/latency-host.txt"
} >"$tmp/vhost.txt"
"$mkcap" --capture "$tmp/vhost" "$tmp/vhost.txt"
run "$kvmft" latency irq,io --all --format csv -q "$tmp/vhost" "$tmp/guest=one"
status_is 0 "a disk of vhost"
out_has '^irq,"one","irqfd irq 30",total,1,1\.050' "... its interrupt comes by an irqfd"
out_has '^io,"one","254,0 write",vmm-wait,1,0\.750' "... and its thread waited for a CPU"
out_has '^irq,"one","irqfd irq 30",wake,1,0\.700' "... from when it was woken"
sed 's/^1\(   7[01]00\) 200/0\1 101/; s/101 kvm_msi_set_irq\|101 kvm_apic_accept_irq/& common_flags=8/' "$tmp/vhost.txt" >"$tmp/vfio.txt"
"$mkcap" --capture "$tmp/vfio" "$tmp/vfio.txt"
run "$kvmft" latency irq --all --format csv -q "$tmp/vfio" "$tmp/guest=one"
out_has '^irq,"one","irqfd irq 30",total,1,1\.050' "an interrupt of the host that raises one uses an irqfd, too"

# A line, a line that is routed to a message, an IPI of another vCPU's thread.
{
	sed -n '/^meta/p' "$golden/latency-host.txt"
	cat <<'END'
0   1000 101 kvm_exit exit_reason=1 isa=1
1   1100 100 kvm_set_irq gsi=4 level=1
1   1150 100 kvm_ioapic_set_irq pin=4
1   1200 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x24
0   1300 101 kvm_inj_virq vector=0x24
0   1400 101 kvm_entry vcpu_id=0
0   2000 101 kvm_exit exit_reason=1 isa=1
1   2100 100 kvm_set_irq gsi=24 level=1
1   2150 100 kvm_msi_set_irq address=0xfee00000 data=0x25
1   2200 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x25
0   2300 101 kvm_inj_virq vector=0x25
0   2400 101 kvm_entry vcpu_id=0
0   3000 101 kvm_exit exit_reason=1 isa=1
1   3100 102 kvm_apic_ipi icr_low=0xfd dest_id=0
1   3130 102 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xfd
0   3300 101 kvm_inj_virq vector=0xfd
0   3400 101 kvm_entry vcpu_id=0
0   4000 101 kvm_exit exit_reason=1 isa=1
END
} >"$tmp/sources.txt"
"$mkcap" --capture "$tmp/sources" "$tmp/sources.txt"
run "$kvmft" latency irq --all --format csv -q "$tmp/sources"
for source in 'line 36",raise,1,0\.100' 'MSI 37",raise,1,0\.100' 'IPI 253",raise,1,0\.030'; do
	out_has "^irq,\"one\",\"$source" "from its source: $source"
done

# Accepted while the guest runs: the way out is not what the guest does with interrupts off.
{
	sed -n '/^meta/p' "$golden/latency-host.txt"
	cat <<'END'
0    500 101 kvm_exit exit_reason=1 isa=1
1    600 100 kvm_msi_set_irq address=0xfee00000 data=0x25
1    650 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x25
0    900 101 kvm_inj_virq vector=0x25
0   1000 101 kvm_entry vcpu_id=0
1   1100 100 kvm_msi_set_irq address=0xfee00000 data=0x24
1   1150 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x24
0   1450 101 kvm_exit exit_reason=1 isa=1
0   1500 101 kvm_entry vcpu_id=0
0   1900 101 kvm_exit exit_reason=7 isa=1
0   2000 101 kvm_inj_virq vector=0x24
0   2100 101 kvm_entry vcpu_id=0
0   3000 101 kvm_exit exit_reason=1 isa=1
recorded sched:sched_switch sched:sched_wakeup kvm_userspace_exit
END
} >"$tmp/kicked.txt"
"$mkcap" --capture "$tmp/kicked" "$tmp/kicked.txt"
run "$kvmft" latency irq --all --format csv -q "$tmp/kicked"
out_has '^irq,"one","MSI 36",masked,1,0\.400' "a guest that is kicked: masked from its next entry on"
out_has '^irq,"one","MSI 36",deliver,1,0\.450' "... and the rest is delivery"

# Between a message and its accept: another thread's message, an interrupt of the host, a kick, a preemption.
{
	sed -n '/^meta\|^recorded/p' "$golden/latency-host.txt"
	cat <<'END'
0   1000 101 kvm_exit exit_reason=1 isa=1
1   1100 100 kvm_msi_set_irq address=0xfee00000 data=0x24
0   1110 101 kvm_apic_ipi icr_low=0xfd dest_id=0
1   1120 100 sched:sched_wakeup common_flags=8 pid=7 target_cpu=1
1   1130 100 kvm_msi_set_irq common_flags=8 address=0xfee00000 data=0x25
1   1140 100 kvm_apic_accept_irq common_flags=8 apicid=0 dm=0 tm=0 vec=0x25
0   1150 101 sched:sched_wakeup pid=100 target_cpu=1
1   1160 102 kvm_msi_set_irq address=0xfee00000 data=0x26
0   1180 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=7
0   1250   7 sched:sched_switch prev_pid=7 prev_state=0 next_pid=101
0   1310 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xfd
1   1360 102 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
1   1400 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x24
0   1500 101 kvm_inj_virq vector=0xfd
0   1510 101 kvm_inj_virq vector=0x26
0   1520 101 kvm_inj_virq vector=0x25
0   1530 101 kvm_inj_virq vector=0x24
0   1600 101 kvm_entry vcpu_id=0
0   4000 101 kvm_exit exit_reason=1 isa=1
END
} >"$tmp/between.txt"
"$mkcap" --capture "$tmp/between" "$tmp/between.txt"
run "$kvmft" latency irq --all --format csv -q "$tmp/between"
for source in 'IPI 253",raise,1,0\.200' 'MSI 38",raise,1,0\.200' 'irqfd 37",raise,1,0\.010' 'MSI 36",raise,1,0\.300'; do
	out_has "^irq,\"one\",\"$source" "what comes between is not its source: $source"
done

# ---- what the task that was hit was at ----

# Four times robbed for 100: in a handler, in a softirq, with preemption off, and after the guest's last event.
{
	sed -n '/^meta/p' "$golden/latency-host.txt"
	for t in 2 4 6 8; do
		cat <<END
0   ${t}000 101 kvm_entry vcpu_id=0
0   ${t}500 101 kvm_exit exit_reason=1 isa=1 guest_rip=0xffffffff81000000
0   ${t}600 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=55
0   ${t}700  55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101
END
	done
	echo "0   9000 101 kvm_entry vcpu_id=0"
} >"$tmp/hit.txt"
{
	sed -n '/^meta/p' "$golden/latency-guest.txt"
	echo "meta stop tsc=7500"
	cat <<'END'
0   2100   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0   2150  77 irq:irq_handler_entry irq=4 name=uart
0   2160  77 irq:irq_handler_exit irq=4
0   2200  77 irq_vectors:local_timer_entry vector=236
0   4100  77 irq_vectors:local_timer_exit vector=236
0   4200  77 irq:softirq_entry vec=1
0   6100  77 irq:softirq_exit vec=1
0   6200  77 irq:softirq_raise vec=1 common_preempt_count=2
0   7300  77 irq_vectors:local_timer_entry vector=236
END
} >"$tmp/hit-guest.txt"
"$mkcap" --capture "$tmp/hit" "$tmp/hit.txt"
"$mkcap" --capture "$tmp/hit-guest" "$tmp/hit-guest.txt"
run "$kvmft" latency sched --all --worst 0 -q "$tmp/hit" "$tmp/hit-guest=one"
status_is 0 "a task that was hit at different things"
out_has "^ +cause: interrupt 1, softirq 1, lock or preemption off 1\$" "... and which they were"
# A handler may be what holds it.
grep -v irq_handler "$tmp/hit-guest.txt" >"$tmp/hit-less.txt"
"$mkcap" --capture "$tmp/hit-less" "$tmp/hit-less.txt"
run "$kvmft" latency sched --all --worst 0 -q "$tmp/hit" "$tmp/hit-less=one"
out_has "^ +cause: interrupt 1, softirq 1, not recorded 1\$" "... without the guest's interrupts, a lock is not sure"
out_has "^ +cause: not recorded 1\$" "... but not after the guest's capture"

# ---- the thread that raises it had lost its CPU ----

# preempted STATE: the golden host, whose thread 100 goes off its CPU in this prev_state, and is back 0.4 us later.
preempted()
{
	{
		sed -n '1,/^1   7000/p' "$golden/latency-host.txt" | sed '$d'
		echo "1   6500 100 sched:sched_switch prev_pid=100 prev_state=$1 next_pid=55"
		echo "1   6900  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=100"
		sed -n '/^1   7000/,$p' "$golden/latency-host.txt"
	} >"$tmp/preempted.txt"
	"$mkcap" --capture "$tmp/preempted" "$tmp/preempted.txt"
	run "$kvmft" latency irq --all --format csv -q "$tmp/preempted" "$tmp/guest=one"
}
for state in 0 0x100; do
	preempted $state
	out_has '^irq,"one","MSI irq 30",wake,1,0\.400,' "prev_state $state: it waited for its CPU"
done
preempted 1
is "$(grep -c ',wake,' "$out")" 0 "prev_state 1: it slept, and nothing was seen to wake it"

# ---- QEMU's own events: here from the marker of the host's capture ----

cat >"$tmp/trace-events" <<'END'
virtio_blk_req_complete(void *vdev, void *req, int status) "vdev %p req %p status %d"
virtio_blk_handle_write(void *vdev, void *req, uint64_t sector, size_t nsectors) "vdev %p req %p sector %"PRIu64" nsectors %zu"
virtio_blk_handle_read(void *vdev, void *req, uint64_t sector, size_t nsectors) "vdev %p req %p sector %"PRIu64" nsectors %zu"
END
# marked NAME: the golden host, and what QEMU says on standard input, while its thread works on CPU 1.
marked()
{
	{
		sed -n '1,/^1   7000/p' "$golden/latency-host.txt" | sed '$d'
		echo "event ftrace print 5 u64:ip text:buf"
		cat
		sed -n '/^1   7000/,$p' "$golden/latency-host.txt"
	} >"$tmp/$1.txt"
	"$mkcap" --capture "$tmp/$1" "$tmp/$1.txt"
}
marked marked <<'END'
1   2600 100 ftrace:print ip=0 buf=virtio_blk_handle_write vdev 0x50 req 0x60 sector 2048 nsectors 8
1   2700 100 ftrace:print ip=0 buf=virtio_blk_handle_write vdev 0x50 req 0x70 sector 4096 nsectors 8
1   2800 100 ftrace:print ip=0 buf=virtio_blk_handle_read vdev 0x50 req 0x80 sector 2048 nsectors 8
1   6000 100 ftrace:print ip=0 buf=virtio_blk_req_complete vdev 0x50 req 0x70 status 0
1   6700 100 ftrace:print ip=0 buf=virtio_blk_req_complete vdev 0x50 req 0x60 status 0
END
run "$kvmft" latency io --all --format csv -q --qemu "$tmp/trace-events:events" "$tmp/marked" "$tmp/guest=one"
status_is 0 "io with QEMU's events"
for stage in host,1,5.000 take,1,0.600 block,1,4.100 notify,1,0.300; do
	out_has "^io,\"one\",\"254,0 write\",$stage" "... $stage: the host's time is parted"
done
run "$kvmft" latency io --all --format json -q --qemu "$tmp/trace-events:events" "$tmp/marked" "$tmp/guest=one"
sums "... and the parts are the whole"
marked undone <<'END'
1   2600 100 ftrace:print ip=0 buf=virtio_blk_handle_write vdev 0x50 req 0x60 sector 2048 nsectors 16
1   2700 999 ftrace:print ip=0 buf=virtio_blk_handle_write vdev 0x50 req 0x60 sector 2048 nsectors 8
1   6700 100 ftrace:print ip=0 buf=virtio_blk_req_complete vdev 0x50 req 0x60 status 0
END
run "$kvmft" latency io --all --format csv -q --qemu "$tmp/trace-events:events" "$tmp/undone" "$tmp/guest=one"
is "$(grep -cE ',(take|block|notify),' "$out")" 0 "what does not fit, or is not QEMU's, parts nothing"
run "$kvmft" latency io --all --qemu "$tmp/nosuch" "$tmp/host" "$tmp/guest=one"
status_is 1 "a trace of QEMU that is not there"

# ---- high-resolution timers ----

# CLOCK_MONOTONIC is 1 ms ahead of the TSC, CLOCK_REALTIME began at 1608130130 s. 0x10 is called from the
# timer's interrupt, 0x20 is started anew, and called outside of it, as is 0x30 of CLOCK_REALTIME; 0x40 is of
# CLOCK_TAI, which is 37 s ahead of that; 0x50 stays open; 0x60 was not seen to start; 0x70 is early.
{
	sed -n '/^meta/p' "$golden/latency-guest.txt"
	cat <<'END'
meta time tsc=0 width=0 mono_raw=1000000 mono=1000000 boot=1000000 real=1608130130000000000
meta time tsc=1000000 width=0 mono_raw=2000000 mono=2000000 boot=2000000 real=1608130130001000000
0   8010   0 timer:hrtimer_start hrtimer=0x10 function=0xaa expires=1009400
0   8020   0 timer:hrtimer_start hrtimer=0x20 function=0xbb expires=1009000
0   8030   0 timer:hrtimer_start hrtimer=0x20 function=0xbb expires=1010000
0   8040   0 timer:hrtimer_start hrtimer=0x30 function=0xcc expires=1608130130000010100
0   8050   0 timer:hrtimer_start hrtimer=0x40 function=0xdd expires=1608130167000010100
0   8060   0 timer:hrtimer_start hrtimer=0x50 function=0xee expires=1009000
0   8070   0 timer:hrtimer_start hrtimer=0x70 function=0xff expires=1010750
0  10530   0 irq_vectors:local_timer_entry vector=236
0  10560   0 timer:hrtimer_expire_entry hrtimer=0x10 now=1010540 function=0xaa
0  10630   0 irq_vectors:local_timer_exit vector=236
0  10640   0 timer:hrtimer_expire_entry hrtimer=0x20 now=1010540 function=0xbb
0  10650   0 timer:hrtimer_expire_entry hrtimer=0x30 now=1608130130000010540 function=0xcc
0  10660   0 timer:hrtimer_expire_entry hrtimer=0x40 now=1608130167000010540 function=0xdd
0  10670   0 timer:hrtimer_expire_entry hrtimer=0x60 now=1010540 function=0xee
0  10680   0 timer:hrtimer_expire_entry hrtimer=0x70 now=1010540 function=0xff
END
} >"$tmp/hrt.txt"
"$mkcap" --capture "$tmp/hrt" "$tmp/hrt.txt"
run "$kvmft" latency timer --all --format csv -q "$tmp/host" "$tmp/hrt=one"
status_is 0 "timers with hrtimer_start"
for stage in total,1,1.160 expire,1,0.310 deliver,1,0.140 masked,1,0.600 enter,1,0.050 guest,1,0.060 off-cpu,1,0.000; do
	out_has "^hrtimer,\"one\",\"hrtimer 0xaa\",$stage" "... $stage of the one in the timer's interrupt"
done
out_has '^hrtimer,"one","hrtimer 0xbb",total,1,0\.640' "... one that was started anew: by what it was started to last"
out_has '^hrtimer,"one","hrtimer 0xcc",total,1,0\.550' "... one of CLOCK_REALTIME"
out_has '^hrtimer,"one","hrtimer 0xff",total,1,0\.000' "... one that is early"
printf 'ffffffff810000aa t tick_fn\nffffffff810000b0 t other_fn\n' >"$tmp/hrt.kallsyms"
sed 's/function=0x/function=0xffffffff810000/' "$tmp/hrt.txt" >"$tmp/hrt.high"
"$mkcap" --capture "$tmp/high" "$tmp/hrt.high"
run "$kvmft" blame -q --what hrtimer --guest-kallsyms "$tmp/hrt.kallsyms" "$tmp/host" "$tmp/high=one"
out_has '^1\. [^ ]* [nu]s  *hrtimer tick_fn, one vCPU 0,' "blame: the timer's function has its name"
out_has '[nu]s  *hrtimer 0xffffffff810000bb, one vCPU 0,' "... but not one that begins elsewhere"
run "$kvmft" latency timer --all --format json -q "$tmp/host" "$tmp/hrt=one"
out_has '"started":7,"expired":4,"cancelled":0,"restarted":1,"cut":0,"open":1,"not_placed":1,"outside_host":0,"outside_interrupt":3,"start_not_seen":1' "... each has come to some end"
sums "... the parts are the whole"

# ---- handlers that the guest has no events of ----

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
run "$kvmft" latency irq --all --format json --worst 0 -q "$tmp/again" "$tmp/novec=one"
out_has '"untraced":3' "a vector without events in the guest is not lost"
out_has 'no handler events of these vectors: 236 \(3\)' "... and is named"
sums "... the parts are the whole"
sed '/^0  17500/i 0 17450 0 irq_vectors:local_timer_entry vector=236' "$golden/latency-guest.txt" >"$tmp/late.txt"
"$mkcap" --capture "$tmp/late" "$tmp/late.txt"
run "$kvmft" latency irq --all --format json --worst 0 -q "$tmp/again" "$tmp/late=one"
out_has '"no_handler":1' "a handler that is missing between others is not seen"
sums "... the parts are the whole"

# ---- remedies: what a message recommends to this command, it has ----

# lacking WHAT SED-OF-META [OPTION...]: the golden pair, whose meta files lack that; each option that is named exists.
lacking()
{
	name=$1 edit=$2
	shift 2
	rm -rf "$tmp/less-host" "$tmp/less-guest"
	cp -r "$tmp/host" "$tmp/less-host"
	cp -r "$tmp/guest" "$tmp/less-guest"
	sed -i "$edit" "$tmp/less-host/meta" "$tmp/less-guest/meta"
	for operand in "$tmp/less-guest=one" "$tmp/less-guest"; do
		run "$kvmft" latency all --all --worst 0 "$@" "$tmp/less-host" "$operand"
		sed 's/record the host with[^;]*;*//; s/record with[^;]*;*//' "$err" "$out" | grep -oE -e '(^|[ (])--[a-z]+(-[a-z]+)*' |
			tr -d ' (' | sort -u >"$tmp/named"
		"$kvmft" --list-options latency | cut -f 2 | sed 's/^/--/' | sort -u | comm -23 "$tmp/named" - >"$tmp/unknown"
		is "$(cat "$tmp/unknown")" "" "no remedy that there is not: $name, ${operand##*/}"
	done
}
lacking "nothing" ""
lacking "no frequency" "/^tsc /d"
lacking "no frequency, and a time is asked for" "/^tsc /d" --than 1ms
lacking "no VM" "/^v[mc]/d"
lacking "no offset" "s/ offset=[0-9]*//"
lacking "no clock" "s/ clock=x86-tsc//"
lacking "another clock" "s/ clock=x86-tsc/ clock=local/"
lacking "no formats" "/^event /d"

# ---- every analysis in every format, with a guest and without ----

forms()
{
	with=$1
	shift
	for kind in irq sched io timer; do
		for format in text json csv html; do
			what="$kind as $format, $with"
			rm -f "$tmp/form"
			run "$kvmft" latency $kind --all --format $format -q -o "$tmp/form" "$@"
			if [ $kind = io ] && [ $# = 1 ]; then
				is "$rc $(test -e "$tmp/form" && echo made)" "4 " "$what: refused, and nothing is made"
				continue
			fi
			status_is 0 "$what"
			case $format in
			text) ok "... has a table" grep -qE '^(Interrupt|Guest task|Device|Timer) +Stage +Count' "$tmp/form" ;;
			json) ok "... is one document" grep -q "^{\"unit\":\"ns\",.*,\"$kind\":{.*}\$" "$tmp/form" ;;
			csv) ok "... has rows of 15 columns" sh -c "sed 's/,\(\"[^\"]*\),\([^\"]*\",\)/,\1;\2/;s/,\(\"[^\"]*\),\([^\"]*\",\)/,\1;\2/' '$tmp/form' |
				awk -F , '/^$kind,/ { n++ } NF != 15 { bad++ } END { exit bad || !n }'" ;;
			html) ok "... is whole" sh -c "tail -n 1 '$tmp/form' | grep -q '</html>'" ;;
			esac
		done
	done
}
forms "both sides" "$tmp/host" "$tmp/guest=one"
forms "the host alone" "$tmp/host"
"$(dirname "$mkcap")/genpair" --host "$tmp/pair-host" --guest "$tmp/pair-guest" --vcpus 3 --jump 3000000 --ms 20
run "$kvmft" latency sched --all --format json -q "$tmp/pair-host" "$tmp/pair-guest"
status_is 0 "captures of genpair"
sums "... the parts are the whole"

# ---- one of several VMs ----

# The same VM twice, beside each other.
awk '!/^(meta|[0-9])/ { next } { print }
	/^meta (vm|vcpu|task)/ {
		gsub(/100-12/, "300-12"); gsub(/=100/, "=300"); gsub(/=101/, "=301"); gsub(/=55/, "=255"); sub(/name=one/, "name=two"); print }
	/^[0-9]/ { $1 += 2; $2 += 3; if ($3 < 102) $3 += 200; gsub(/pid=101/, "pid=301"); gsub(/pid=55/, "pid=255"); sub(/target_cpu=0/, "target_cpu=2"); print }' \
	"$golden/latency-host.txt" >"$tmp/two.txt"
ok "a host of two VMs is compiled" "$mkcap" --capture "$tmp/two" "$tmp/two.txt"
# counts OPTION...: "TABLE/COUNTER N ..." and the VMs of the table of vCPUs
counts()
{
	"$kvmft" latency irq,sched,timer -q --format csv "$@" "$tmp/two" |
		sed -nE 's/^([a-z]+),"[^"]*","([^"]*)",counted,([0-9]+),.*/\1 \2=\3/p' | grep -v '=0$'
	"$kvmft" latency irq,sched,timer -q --format json "$@" "$tmp/two" | sed 's/.*"vcpus"://' | grep -oE '"vm":"[a-z]+"' | sort -u
}
counts >"$tmp/both"
counts --vm one >"$tmp/one"
counts --vm two >"$tmp/two.counts"
counts -v 0 >"$tmp/zero"
is "$(grep -c '=' "$tmp/one")" 9 "--vm: counters"
is "$(sed -n 's/.*"vm"://p' "$tmp/one" "$tmp/two.counts" | tr -d '\n')" '"one""two"' "... and the times of its vCPUs alone"
is "$(grep '=' "$tmp/one")" "$(grep '=' "$tmp/two.counts")" "... are equal for two VMs that do the same"
is "$(grep '=' "$tmp/both")" "$(awk -F = '/=/ { print $1 "=" 2 * $2 }' "$tmp/one")" "... and half of those of both"
is "$(cat "$tmp/zero")" "$(cat "$tmp/both")" "-v 0 is all there is"
run "$kvmft" latency all -q -v 9 "$tmp/two"
status_is 1 "a vCPU that is not there is no empty table"
err_has 'nothing to measure: .* of the vCPU that --vcpu names$' "... but an error"

# ---- anything in any order ----

# Events of all kinds at random, and gaps: nothing may be counted twice, or not at all.
for seed in 1 2 3 4 5; do
	for side in host guest; do
		sed -n '/^meta/p' "$golden/latency-$side.txt" >"$tmp/any-$side.txt"
		awk -v seed="$seed" -v side="$side" -f "$here/latency_any.awk" >>"$tmp/any-$side.txt"
		rm -rf "$tmp/any-$side"
		"$mkcap" --capture "$tmp/any-$side" "$tmp/any-$side.txt"
	done
	run "$kvmft" latency all --all --format json --worst 2 -q --force -o "$tmp/any.json" "$tmp/any-host" "$tmp/any-guest=one"
	cp "$tmp/any.json" "$out"
	sums "random events $seed: the parts are the whole" cut
	run "$kvmft" latency irq,sched,timer --all --format json -q "$tmp/any-host"
	sums "... of the host alone, too" cut
done

run "$kvmft" latency nonsense "$tmp/host"
status_is 2 "an analysis that there is not"
run "$kvmft" latency irq --format xml "$tmp/host"
status_is 2 "a format that there is not"
finish
