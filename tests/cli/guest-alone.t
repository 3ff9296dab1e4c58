#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# A guest's recording without its host's, or that of any Linux machine: `latency` and `blame` say what its own events
# show, in its own clock, and that the host was not recorded wherever that could have been it.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden

facts='meta side name=guest
meta cpu n=0 apicid=0
meta cpu n=1 apicid=1
meta task tid=77 tgid=77 comm=victim
meta task tid=78 tgid=78 comm=hog'

# Times are ns. victim waits 3 ms for hog, and 4 ms for an idle CPU; hog loses its CPU for 1.1 ms.
cat >"$tmp/events" <<-E
	0   1000000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
	0   2000000  78 sched:sched_wakeup pid=77 target_cpu=0
	0   5000000  78 sched:sched_switch prev_pid=78 prev_state=0 next_pid=77
	0   6000000  77 block:block_rq_issue dev=0xfe00000 sector=2048 nr_sector=8 bytes=4096
	0   6100000  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=78
	0   7000000  78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=0
	0   8050000   0 irq:irq_handler_entry irq=30
	0   8120000   0 block:block_rq_complete dev=0xfe00000 sector=2048 nr_sector=8
	0   8150000   0 irq:irq_handler_exit irq=30
	0   8160000   0 irq:softirq_entry vec=4
	0   8170000   0 irq_vectors:local_timer_entry vector=236
	0   8175000   0 irq_vectors:local_timer_exit vector=236
	0   8200000   0 irq:softirq_exit vec=4
	1   9000000  12 sched:sched_wakeup pid=77 target_cpu=0
	0  13000000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
	0  13100000  77 timer:hrtimer_start hrtimer=4096 expires=20000000
	0  20500000  77 timer:hrtimer_expire_entry hrtimer=4096 now=20400000 function=8192
	0  21000000  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0
E
{ echo "$facts"; cat "$tmp/events"; } >"$tmp/guest.txt"
{ echo "$facts" | sed s/name=guest/name=both/; cat "$tmp/events"; } >"$tmp/both.txt"
ok "that of a machine which is both, without a VM" "$mkcap" --capture "$tmp/both" "$tmp/both.txt"
cp "$tmp/both.txt" "$tmp/runs.txt"
echo "0 22000000 77 kvm_entry vcpu_id=0 rip=4096" >>"$tmp/runs.txt"
ok "... with one" "$mkcap" --capture "$tmp/runs" "$tmp/runs.txt"
ok "a guest's recording is compiled" "$mkcap" --capture "$tmp/guest" "$tmp/guest.txt"

# tables WHOSE VICTIM HOG: what latency measured; every number was worked out from the times above.
tables()
{
	out_has "^task,\"guest\",\"$2\",total,2,3000\.000,3500\.000,.*,7000\.000," "$1: victim waited 3 and 4 ms"
	out_has "^task,\"guest\",\"$2\",waiting,2,3000\.000,.*,7000\.000," "... both times from its wake-up"
	out_has "^task,\"guest\",\"$3\",preempted,1,1100\.000," "... and hog 1.1 ms from losing its CPU"
	out_has '^task,"","stolen",not recorded' "... how much of it was stolen is not recorded"
	out_has '^io,"guest","254,0 write",total,1,2120\.000,' "$1: a request took 2.12 ms"
	out_has '^io,"guest","254,0 write",complete,1,70\.000,' "... 70 us of that from its interrupt on"
	for stage in submit host deliver disk; do
		out_has "^io,\"\",\"$stage\",not recorded" "... $stage is not recorded"
	done
	out_has '^hrtimer,"guest","hrtimer 0x2000",total,1,400\.000,' "$1: a timer was 400 us late"
	out_has '^hrtimer,"","expire",not recorded' "... the host's part is not recorded"
	out_has '^handler,"guest","irq 30",total,1,100\.000,' "$1: handlers: irq 30"
	out_has '^handler,"guest","softirq 4",total,1,40\.000,' "... a softirq"
	out_has '^handler,"guest","local_timer",total,1,5\.000,' "... and what interrupted it"
	is "$(grep -cE '^(irq|sched|stealer|timer|mem|net-)' "$out")" 0 "... none of the tables that need a host"
}

run "$kvmft" latency all --format csv "$tmp/both"
tables "of both" victim-77 hog-78
run "$kvmft" blame --top 1 "$tmp/both"
out_has '^1\. 4 ms .*victim-77, guest vCPU 0' "... blame"
ok "... as a trace.dat" "$mkcap" --trace-dat "$tmp/both.dat" "$tmp/both.txt"
for f in both both.dat runs; do
	for o in text json; do
		run "$kvmft" merge --format $o "$tmp/$f"
		is "$(grep -oE '^(host|guest) |"side":"(host|guest)"' "$out" | tr -dc 'a-z\n' | sort -u)" \
			"$([ $o = text ] || echo side)$([ $f = runs ] && echo host || echo guest)" "... merge --format $o $f: whose events"
	done
done
run "$kvmft" latency all --format csv "$tmp/runs"
is "$(grep -c '^task' "$out")" 0 "a machine with a VM is a host"

run "$kvmft" latency sched,irq,timer,io --format csv -q "$tmp/guest"
status_is 0 "latency of a guest"
tables "a guest" victim-77 hog-78
run "$kvmft" latency all "$tmp/guest"
status_is 0 "latency all"
out_has '^note: the host was not recorded' "... the host is missing, a note says"
is "$(tr '\n' ' ' <"$out" | tr -s ' ' | grep -c 'would be shown by .kvmft record -e default ')" 1 "... and how to record it"
err_has '^kvmft: mem is left out: the host was not recorded' "... mem is left out for that"
err_has '^kvmft: guest: 18 events, 0 lost' "... the summary calls it a guest"
run "$kvmft" latency mem "$tmp/guest"
status_is 4 "mem alone"
err_has 'the host was not recorded' "... needs the host"
run "$kvmft" latency sched --all "$tmp/guest"
out_has 'stolen +not recorded: host kvm:\*' "--all: the stage that only the host has"
run "$kvmft" merge "$tmp/guest"
status_is 0 "merge of it"
is "$(grep -c '^guest ' "$out")" 18 "... all of it is the guest's"

# ---- in other clocks, and without a side ----

# names of tasks are in the capture alone
for clock in local mono x86-tsc; do
	ok "$clock" "$mkcap" --clock $clock --trace-dat "$tmp/$clock.dat" "$tmp/events"
	rate=
	[ $clock != x86-tsc ] || rate='--tsc-khz 1000000'
	# shellcheck disable=SC2086 # an option and its value
	run "$kvmft" latency sched,irq,timer,io --format csv -q $rate "$tmp/$clock.dat"
	status_is 0 "a trace.dat in $clock"
	tables "trace.dat in $clock" '.*-77' '.*-78'
	run "$kvmft" merge -q "$tmp/$clock.dat"
	is "$(grep -c '^guest ' "$out")" 18 "... merge calls it a guest"
done

# A host that says so, or has an event of KVM, is none.
{ echo 'meta side name=host'; cat "$tmp/events"; } >"$tmp/host.txt"
{ cat "$tmp/events"; echo '0 21000001 101 kvm_entry vcpu_id=0'; } >"$tmp/part.txt"
for name in host part; do
	lacks='kvm_entry and kvm_exit'
	[ $name = host ] || lacks=kvm_exit
	"$mkcap" --capture "$tmp/$name" "$tmp/$name.txt"
	run "$kvmft" latency sched "$tmp/$name"
	status_is 4 "$name: a host without $lacks"
	err_has "the host capture has no $lacks: record both" "... is refused as before"
	run "$kvmft" merge -q "$tmp/$name"
	is "$(grep -c '^guest ' "$out")" 0 "... and stays the host"
done

# ---- blame ----

# spikes CAPTURE: "WHAT LENGTH CAUSE: PART (NAME) TIME, ..."; none may be sure, and all say that the host is needed.
spikes()
{
	run "$kvmft" blame -q --by time --format json "$1"
	python3 - "$out" <<'END'
import json, sys
for s in json.load(open(sys.argv[1]))["spikes"]:
    assert sum(p["time_ns"] for p in s["parts"]) == s["length_ns"], s
    assert not s["sure"] and "host kvm:*" in s["needs"], s
    print(s["what"], s["length_ns"], s["cause"] + ":",
          ", ".join("%s%s %d" % (p["cause"], p["name"] and " (%s)" % p["name"], p["time_ns"]) for p in s["parts"]))
END
}

if ! command -v python3 >/dev/null; then
	skip "kvmft blame" "python3 is not installed"
	finish
fi
not='the host was not recorded'
spikes "$tmp/guest" >"$tmp/got"
cat >"$tmp/want" <<-E
	wakeup 3000000 guest-sched: guest-sched (hog-78) 3000000
	ready 1100000 guest-sched: guest-sched (victim-77) 1100000
	io 2120000 unknown: unknown ($not) 2120000
	wakeup 4000000 unknown: unknown ($not) 4000000
	hrtimer 400000 unknown: unknown ($not) 400000
E
ok "blame: who had the guest's CPU; else the host was not recorded" diff "$tmp/want" "$tmp/got"
run "$kvmft" blame "$tmp/guest"
status_is 0 "blame"
out_has '^   guest-sched: .* \(not sure\)$' "... what the guest shows is not sure"
out_has '^# .*would make it sure: .kvmft record -e default. on the host$' "... and a note has the command"
run "$kvmft" blame --what stall "$tmp/guest"
err_has 'stall: the host was not recorded' "what only a host shows is said to be missing"

# ---- evidence taken away ----

# without PATTERN: the same guest, recorded without these events.
without()
{
	grep -vE "$1" "$tmp/guest.txt" >"$tmp/less.txt"
	rm -rf "${tmp:?}/less"
	"$mkcap" --capture "$tmp/less" "$tmp/less.txt"
}

without softirq
spikes "$tmp/less" >"$tmp/got"
ok "without softirqs: nobody knows that it was not one" \
	grep -q '^wakeup 3000000 unknown: unknown (not recorded: .*a handler of the guest) 3000000' "$tmp/got"
without sched_wakeup
run "$kvmft" latency sched --format csv -q "$tmp/less"
out_has '^task,"","waiting",not recorded' "without sched_wakeup: waits from a wake-up are not recorded"
out_has '^task,"guest","hog-78",preempted,1,1100\.000,' "... those of tasks that lost their CPU are"
without sched_switch
run "$kvmft" latency sched "$tmp/less"
status_is 4 "without sched_switch: no waits"
err_has 'the recording has no sched:sched_switch' "... it says why"
without irq
run "$kvmft" latency irq,io --format csv "$tmp/less"
status_is 3 "without irq events: not all that was asked for"
err_has 'irq is left out: the recording has no irq:irq_handler_entry' "... handlers are left out"
out_has '^io,"guest","254,0 write",total,1,2120\.000,' "... a request is measured all the same"
is "$(grep -c '^io,"guest",.*,complete,' "$out")" 0 "... but not from its interrupt on"

# What was woken before a gap may have run in it.
sed 's/^\(0 *5000000 .*\)/0 gap 3\n\1/' "$tmp/guest.txt" >"$tmp/gap.txt"
ok "with a gap" "$mkcap" --capture "$tmp/gap" "$tmp/gap.txt"
run "$kvmft" latency sched --format csv -q "$tmp/gap"
status_is 3 "events were lost"
out_has '^task,"guest","victim-77",total,1,4000\.000,' "... the wait across the gap is not measured"
out_has '^task,"","cut by lost events",counted,1' "... but counted"
spikes "$tmp/gap" >"$tmp/got"
is "$(grep -c '^wakeup 3000000' "$tmp/got")" 0 "... and not explained"

# A guest that recorded all that it has: formats of KVM, too, and not one event of it.
if command -v trace-cmd >/dev/null; then
	{ echo "$facts" | grep -v side; cat "$tmp/events"; echo "0 22000000 77 kvm_entry vcpu_id=0 rip=4096"; } >"$tmp/all.txt"
	ok "with KVM's formats" "$mkcap" --trace-dat "$tmp/all" "$tmp/all.txt"
	run "$kvmft" latency sched "$tmp/all"
	status_is 4 "... and an event of KVM: a host"
	(cd "$tmp" && trace-cmd split -i all -o split 0 0.0215) >/dev/null 2>&1
	set -- "$tmp"/split* # with or without a number behind it
	run "$kvmft" latency sched --format csv -q "$1"
	status_is 0 "... and none: a guest alone"
	out_has '^task,"guest","<...>-77",total,2,3000\.000,3500\.000,' "... its waits"
	is "$("$kvmft" blame -q "$1" 2>&1 | grep -c '^1\. 4 ms')" 1 "... and its spikes"
else
	skip "a guest's trace.dat with KVM's formats" "trace-cmd is not installed"
fi

# ---- with its host ----

for side in host guest; do
	"$mkcap" --capture "$tmp/pair-$side" "$golden/latency-$side.txt"
done
run "$kvmft" latency all --all --format csv "$tmp/pair-host" "$tmp/pair-guest=one"
ok "a pair has the tables that it had" diff "$golden/latency.out" "$out"
run "$kvmft" blame -q --format json "$tmp/pair-host" "$tmp/pair-guest=one"
is "$(grep -c 'host was not recorded\|host kvm:\*' "$out")" 0 "... and its host counts as recorded"
finish
