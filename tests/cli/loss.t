#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# What a recording itself says was lost: the same number in every command, exit code 3, and nothing is sure.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

# ---- a trace.dat's counters (CPUSTAT) against what is there ----

# dat NAME ENTRIES READ: 15 events, of which CPU 0 has 8 in two sub-buffers, and its counters those.
dat()
{
	cat >"$tmp/$1.txt" <<-E
		0 stats $2 $3
		1 stats 0 7
		0 1000 900 kvm_entry vcpu_id=0 rip=4096
		0 2000 900 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
		0 3000 900 kvm_entry vcpu_id=0 rip=4096
		0 1004000 900 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
		0 3004000 900 kvm_entry vcpu_id=0 rip=4096
		0 3005000 900 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
		0 page
		0 9004000 900 kvm_entry vcpu_id=0 rip=4096
		0 9005000 900 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
		1 1000 901 kvm_entry vcpu_id=1 rip=4096
		1 2000 901 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=1
		1 3000 901 kvm_entry vcpu_id=1 rip=4096
		1 4000 901 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=1
		1 5000 901 kvm_mmio type=2
		1 6000 901 kvm_userspace_exit reason=5
		1 7000 901 sched:sched_switch prev_pid=901 prev_state=1
	E
	ok "$1: a trace.dat" "$mkcap" --clock x86-tsc --trace-dat "$tmp/$1.dat" "$tmp/$1.txt"
}

dat whole 4 4
dat holes 4 11
for command in "report" "merge -q" "blame --tsc-khz 1000000 --top 3" "latency sched" "export -o $tmp/out.dat -i"; do
	# shellcheck disable=SC2086
	run "$kvmft" $command "$tmp/whole.dat"
	status_is 0 "${command%% *}: all that is counted is there"
	rm -f "$tmp/out.dat"
	# shellcheck disable=SC2086
	run "$kvmft" $command "$tmp/holes.dat"
	status_is 3 "${command%% *}: 7 of 22 are missing"
	err_has '15 events, 7 lost: the file counts them, but does not say where|: 7 events lost' "... and their number"
done
run "$kvmft" diff --tsc-khz 1000000 "$tmp/holes.dat" "$tmp/holes.dat"
err_has 'holes.dat: 7 events lost' "diff says so, too"

# Nothing is known of what began in another sub-buffer.
run "$kvmft" report --format json "$tmp/whole.dat"
out_has '"dropped_pairs":0,' "report: a halt over two sub-buffers"
out_has '"max_cycles":5999000' "... and its time"
run "$kvmft" report --format json "$tmp/holes.dat"
out_has '"dropped_pairs":1,' "... is none if events are missing"
is "$(grep -c '"max_cycles":5999000' "$out")" 0 "... and has no time"
for name in whole holes; do
	run "$kvmft" blame --tsc-khz 1000000 --format json --top 1 "$tmp/$name.dat"
	out_has '"cause":"page-fault"' "blame $name.dat: the fault"
	out_has "\"sure\":$([ $name = whole ] && echo true || echo false)" "... $name: is it sure?"
done

# ---- our own trace.dat agrees with itself ----

run "$kvmft" merge "$tmp/out.dat"
status_is 3 "exported with holes, read again"
err_has 'host: 15 events, 7 lost$' "... the number stays"
for opts in "" "--from 0.000002"; do
	rm -f "$tmp/again.dat"
	# shellcheck disable=SC2086
	ok "export $opts" "$kvmft" export -q $opts --tsc-khz 1000000 -o "$tmp/again.dat" -i "$tmp/whole.dat"
	run "$kvmft" merge "$tmp/again.dat"
	status_is 0 "export $opts of a whole one"
	err_has ' 0 lost$' "... lost nothing"
done

# ---- a flight recorder's own pauses are no loss, and nobody's fault ----

# Two segments: the ring was off from 10 ms to 400 ms. CPU 1 had been quiet for long before.
cat >"$tmp/first.txt" <<-E
	meta ring clock=x86-tsc trace_clock=[x86-tsc] subbuf=4096 header=16 flight=1
	meta vm id=900-1 pid=900 name=one
	0 1000000 901 kvm_entry vcpu_id=0 rip=4096
	0 1100000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
	1 1200000 902 kvm_entry vcpu_id=1 rip=4096
	0 3100000 901 kvm_entry vcpu_id=0 rip=4096
	0 9000000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
	meta segment n=0 why=trigger tsc=200000000
	meta stats when=end cpu=0 entries=7 overrun=900 commit_overrun=0 dropped=0 read=4
	meta stats when=end cpu=1 entries=0 overrun=0 commit_overrun=0 dropped=0 read=4
E
cat >"$tmp/second.txt" <<-E
	1 400000000 901 kvm_entry vcpu_id=0 rip=4096
	1 400100000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
	1 401100000 901 kvm_entry vcpu_id=0 rip=4096
E
# shellcheck disable=SC2016 # its own
ok "two segments" sh -c '"$1" --capture "$2/flight" "$2/first.txt" && "$1" --capture "$2/second" "$2/second.txt" &&
	mv "$2/second/seg000000" "$2/flight/seg000001"' - "$mkcap" "$tmp"
run "$kvmft" blame --format json "$tmp/flight"
status_is 0 "blame: exit 0"
is "$(grep -o '"length_ns":[0-9]*' "$out" | tr '\n' ' ')" '"length_ns":2000000 "length_ns":1000000 ' \
	"... both faults, also that while the other CPU was quiet, and not the pause"
for command in "merge" "report"; do
	run "$kvmft" $command "$tmp/flight"
	status_is 0 "$command: nothing is lost"
done
run "$kvmft" merge "$tmp/flight"
err_has 'host: 8 events, 0 lost' "... and merge says so"

# Its ring overwrites itself: after what a segment begins with, which the kernel holds apart, its oldest events are
# gone. In one file the kernel had room to count them, in the other not; a third was never ended.
for over in 500 "" killed; do
	cp -r "$tmp/flight" "$tmp/flight-$over"
	gap=$over
	if [ "$over" = killed ]; then
		gap=500
		sed -i '/^stats when=end/d; /^end/d' "$tmp/flight-$over/meta"
	fi
	cat >"$tmp/second.txt" <<-E
		1 400000000 901 kvm_entry vcpu_id=0 rip=4096
		1 400100000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
		1 gap $gap
		1 900000000 901 kvm_entry vcpu_id=0 rip=4096
		1 900100000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
		1 901100000 901 kvm_entry vcpu_id=0 rip=4096
	E
	rm -r "$tmp/second"
	ok "overwritten, ${over:-number unknown}" sh -c '"$1" --capture "$2/second" "$2/second.txt" &&
		rm -r "$2/flight-$3/seg000001" && mv "$2/second/seg000000" "$2/flight-$3/seg000001"' - "$mkcap" "$tmp" "$over"
	run "$kvmft" blame --format json "$tmp/flight-$over"
	is "$(grep -o '"length_ns":[0-9]*' "$out" | tr '\n' ' ')" \
		'"length_ns":2000000 "length_ns":1000000 ' "... blame: what was overwritten is no spike"
	run "$kvmft" merge "$tmp/flight-$over"
	is "$(grep -c 'LOST' "$out")" 0 "... merge: nor lost"
	out_has 'NOT RECORDED on this CPU: overwritten in the flight recorder.s ring, within 499.9 ms' "... but it is told"
	out_has 'NOT RECORDED on this CPU while the ring was written out, within' "... and so is the pause"
	run "$kvmft" merge --format json "$tmp/flight-$over"
	is "$(sed -n 's/.*"kind":"end",.*"gaps":2,"lost":\([a-z0-9]*\).*/\1/p' "$out")" 0 "... in JSON, too"
	said='host: 10 events, 0 lost' want=0
	[ "$over" != killed ] || said='host: 10 events, an unknown number lost' want=3
	for command in merge blame report; do
		run "$kvmft" $command "$tmp/flight-$over"
		status_is $want "... $command"
	done
	run "$kvmft" report --from 1ms --to 1s "$tmp/flight-$over"
	status_is $want "... of a part"
	run "$kvmft" merge "$tmp/flight-$over"
	err_has "$said" "... in numbers"
done

# ---- a CPU whose events begin later, or end earlier, than those of others ----

# edges NAME [LINE...]: a vCPU leaves CPU 1, and is seen on CPU 0 800 ms later: it may have run where nothing is recorded.
edges()
{
	cat >"$tmp/edges.txt" <<-E
		meta ring clock=x86-tsc trace_clock=[x86-tsc] subbuf=4096 header=16 flush=1000000
		meta vm id=900-1 pid=900 name=one
		${2:-#}
		${3:-#}
		1 800200000 901 kvm_entry vcpu_id=0 rip=4096
		1 800201000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
		0 1000 901 kvm_entry vcpu_id=0 rip=4096
		0 2000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
		0 800000000 901 kvm_entry vcpu_id=0 rip=4096
		0 800100000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
		0 900100000 901 kvm_entry vcpu_id=0 rip=4096
		0 900200000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
		0 900300000 901 kvm_entry vcpu_id=0 rip=4096
	E
	ok "$1" "$mkcap" --capture "$tmp/$1" "$tmp/edges.txt"
}
# edges_seen NAME CAUSE NS: what blame says of the 800 ms, and the longest exit of report
edges_seen()
{
	run "$kvmft" blame --format json "$tmp/$1"
	is "$(grep -o '"length_ns":799998000,"cause":"[a-z-]*"' "$out")" "\"length_ns\":799998000,\"cause\":\"$2\"" "$1: blame"
	run "$kvmft" report --format json "$tmp/$1"
	is "$(grep -o '"max_ns":[0-9]*' "$out" | head -1)" "\"max_ns\":$3" "$1: report"
}
edges whole
edges_seen whole unknown 799998000
edges overwritten "1 gap"
edges_seen overwritten lost 99899000
run "$kvmft" merge "$tmp/overwritten"
out_has 'LOST EVENTS of this CPU, their number is unknown within 800.2 ms' "... since the other CPU's first event"
edges removed
mv "$tmp/removed/seg000000" "$tmp/removed/seg000007"
edges_seen removed lost 99899000
edges begun "meta segment n=1 tsc=1500"
mv "$tmp/begun/seg000000" "$tmp/begun/seg000001"
edges_seen begun unknown 799998000
run "$kvmft" merge "$tmp/begun"
out_has 'NOT RECORDED on this CPU: removed with an older segment, or overwritten, within 500 ns' "... until that segment began"
status_is 0 "... on purpose"
# Killed, after CPU 1 had been read last: what is sure of it is the time until ten times --flush before the end.
edges killed
sed -i '/^stats when=end/d; /^end/d' "$tmp/killed/meta"
edges_seen killed unknown 799998000
run "$kvmft" merge "$tmp/killed"
out_has 'PERHAPS NOT RECORDED on this CPU: the recording was cut short, within 10 ms' "... the end of CPU 1"
status_is 3 "... and it is no success"
sed -i 's/ flush=1000000//' "$tmp/killed/meta"
run "$kvmft" blame --format json "$tmp/killed"
out_has '"length_ns":100000,"cause":"lost"' "... without that, all after its last event"
# perf writes one ring after the other: of what is damaged from somewhere on, there is more of some.
cat >"$tmp/perf.txt" <<-E
	0 1000 901 kvm_entry vcpu_id=0 rip=4096
	0 2000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
	0 802000 901 kvm_entry vcpu_id=0 rip=4096
	1 1500 902 kvm_entry vcpu_id=1 rip=4096
	1 200000 901 kvm_entry vcpu_id=0 rip=4096
	1 201000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0
E
ok "perf.data" "$mkcap" --trace-dat "$tmp/perf.dat" "$tmp/perf.txt"
ok "... of perf" "${mkcap%/*}/perfdata" "$tmp/perf.dat" "$tmp/perf.data" kvm_entry kvm_exit
run "$kvmft" report --format json "$tmp/perf.data"
out_has '"max_ns":601000,' "... whole"
# shellcheck disable=SC2016 # perl's
perl -0777 -ne '$d = $_; $p = unpack "x40 Q<"; $p += unpack "S<", substr $d, $p + 6, 2 for 1 .. 4;
	substr($d, $p + 6, 2) = "\3\0"; print $d' \
	"$tmp/perf.data" >"$tmp/damaged.data"
run "$kvmft" report --format json "$tmp/damaged.data"
err_has ' 1 pairs dropped at gaps' "... without the end of CPU 1"
is "$(grep -c '"max_ns":800000' "$out")" 0 "... the vCPU may have run there"
# Full at the end: the counter's losses are behind the last event.
edges full "meta lost cpu=1 count=5 from=800201000 to=900300000 first=1 last=1"
run "$kvmft" merge "$tmp/full"
out_has 'LOST 5 EVENTS of this CPU within 100.1 ms' "losses at the end last until the end"
edges_seen full unknown 799998000

# ---- facts that are not there ----

cp -r "$tmp/whole" "$tmp/clockless"
sed -i 's/^ring clock=[^ ]* trace_clock=[^ ]*/ring/' "$tmp/clockless/meta"
run "$kvmft" report "$tmp/clockless"
status_is 3 "a recording that does not say its clock"
err_has 'meta does not say which trace clock this is: stamps are taken for ns' "... what its times are then"

# ---- what guests do a second ----

# It is counted in the last snapshot, from where all CPUs' rings reach back: not over the pause, nor over what a busy
# CPU's ring had overwritten while that of a quiet one kept all.
# exits CPU FROM: 0.4 s of them, one each 20 us
exits()
{
	awk -v cpu="$1" -v from="$2" 'BEGIN { for (i = 0; i < 20000; i++) printf \
		"%d %.0f 901 kvm_entry vcpu_id=0 rip=4096\n%d %.0f 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0\n",
		cpu, from + i * 20000, cpu, from + i * 20000 + 5000 }'
}
{
	sed -n '/meta ring/p; /meta vm/p; /meta segment/p' "$tmp/first.txt"
	echo 'meta vcpu vm=900-1 id=0 tid=901 offset=0 ratio=0 frac=48'
	exits 0 1000000
} >"$tmp/rate.txt"
{
	echo '1 410000000 950 sched:sched_switch prev_pid=950 prev_state=1 next_pid=0'
	echo '0 450000000 901 kvm_exit exit_reason=48 isa=1 guest_rip=4096 vcpu_id=0'
	echo '0 gap'
	exits 0 90000000000
	echo '1 90399000000 950 sched:sched_switch prev_pid=950 prev_state=1 next_pid=0'
} >"$tmp/second.txt"
rm -r "$tmp/second"
# shellcheck disable=SC2016 # its own
ok "a snapshot after 90 s" sh -c '"$1" --capture "$2/rate" "$2/rate.txt" && "$1" --capture "$2/second" "$2/second.txt" &&
	mv "$2/second/seg000000" "$2/rate/seg000001"' - "$mkcap" "$tmp"
ok "... as trace.dat" "$kvmft" export -q -i "$tmp/rate" -o "$tmp/rate.dat"
for of in rate rate.dat; do
	run "$kvmft" stuck --tsc-khz 1000000 -i "$tmp/$of"
	out_has ' [45][0-9]{4}/s: EPT_VIOLATION' "$of: stuck, exits a second"
	err_has 'only its last snapshot is looked at' "... of its last snapshot, which is said"
	run "$kvmft" diff --tsc-khz 1000000 "$tmp/$of" "$tmp/$of"
	out_has '^before .*: 0.400 s, [0-9]* exits' "... diff, too"
	out_has '^# .* only its last snapshot is compared' "... and says so"
	run "$kvmft" merge "$tmp/$of"
	status_is 0 "... merge"
	is "$(grep -c LOST "$out")" 0 "... its gaps are no loss"
	out_has 'NOT RECORDED on this CPU: overwritten' "... but told"
done

# A guest that was recorded meanwhile: what its host had overwritten is not known, and not lost.
cat >"$tmp/guest.txt" <<-E
	meta side name=guest
	0 400020000 50 sched:sched_wakeup pid=60 target_cpu=0
	0 900050000 50 sched:sched_switch prev_pid=50 prev_state=0 next_pid=60
E
ok "a guest beside a flight recorder" "$mkcap" --capture "$tmp/guest" "$tmp/guest.txt"
sed -i '/^vm /a vcpu vm=900-1 id=0 tid=901 offset=0 ratio=0 frac=48' "$tmp/flight-500/meta"
run "$kvmft" blame -q --what wakeup "$tmp/flight-500" "$tmp/guest=one"
status_is 0 "... blame"
out_has ' 9[0-9] %  unknown: the flight recorder had overwritten it' "... its wait"
is "$(grep -c lost "$out")" 0 "... is not lost"

# ---- a disk that fails once: the process that finds spikes for Perfetto reads the captures more often ----

"${mkcap%mkcap}genpair" --host "$tmp/eh" --guest "$tmp/eg" --ms 400 --seed 5 >/dev/null 2>&1
merge_eio()
{
	run strace -f -o "$tmp/reads" -e trace=pread64 "$@" "${KVMFT_PLAIN:-$kvmft}" merge -q --force -o "$tmp/out.pftrace" \
		"$tmp/eh" "$tmp/eg"
}
merge_eio
status_is 0 "reads of the process of merge and of that which finds spikes"
awk '/pread64\(/ { n[$1]++ } END { for (p in n) print n[p] }' "$tmp/reads" | sort -n >"$tmp/counts"
most=$(tail -n 1 "$tmp/counts")
nth=$(tail -n 2 "$tmp/counts" | head -n 1)
ok "... $nth, and $most of the latter" test "$nth" -lt "$most"
while [ $((nth += 1)) -le "$most" ]; do
	merge_eio -e inject=pread64:error=EIO:when="$nth"
	status_is 1 "its read $nth fails: no file with fewer spikes"
	err_has 'finding spikes: .*Input/output error$' "... says why"
done

finish
