#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft diff` with captures whose differences are known: nothing, one rate, one time, the length, a reason that
# is gone, the machine; too short ones; selections, formats, wrong use.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

# capture NAME [VARIABLE=VALUE]...: a vCPU that exits for reasons 1 (interrupt), 12 (HLT), 30 (I/O) and 32 (MSR_WRITE),
# at random times with these means, in us: gap1 ... between two of a reason, time1 ... of one. seconds, seed; gap 0:
# never. halt=sleep, halt=poll: the capture shows what a vCPU does in HLT. Before begin and after end all is quiet.
capture()
{
	name=$1
	shift
	awk -v halt= -v seconds=1 -v seed=1 -v gap1=2000 -v gap12=1500 -v gap30=3000 -v gap32=1000 \
		-v time1=5 -v time12=60 -v time30=20 -v time32=3 -v vcpus=1 "$(for v; do echo "$v"; done | awk -F= '
			BEGIN { print "BEGIN {" } { printf $2 ~ /[a-z]/ ? "%s = \"%s\";" : "%s = %s;", $1, $2 } END { print "}" }')"'
		function later(mean) { return -log(1 - rand()) * mean * 1000 }
		BEGIN {
			srand(seed)
			n = split("1 12 30 32", reason, " ")
			gap[1] = gap1; gap[12] = gap12; gap[30] = gap30; gap[32] = gap32
			time[1] = time1; time[12] = time12; time[30] = time30; time[32] = time32
			print "meta begin tsc=1000000000"
			print "meta stop tsc=" sprintf("%.0f", 1e9 + seconds * 1e9)
			print "meta vm id=100-12 pid=100 fd=12 name=one"
			for (v = 0; v < vcpus; v++)
				print "meta vcpu vm=100-12 id=" v " tid=" 101 + v " offset=0 ratio=0 frac=0 tsc=1"
			now = 1e9 + 1000
			end = 1e9 + seconds * 1e9
			if (halt) {
				print "0", now - 90, "9 sched:sched_wakeup pid=101"
				print "0", now - 80, "9 sched:sched_switch prev_pid=9 prev_state=1 next_pid=101"
				print "0", now - 70, "101 kvm_userspace_exit reason=2"
			}
			print "0", now, "101 kvm_entry vcpu_id=0"
			for (i = 1; i <= n; i++)
				next_at[i] = gap[reason[i]] ? now + later(gap[reason[i]]) : 1e30
			for (;;) {
				first = 1
				for (i = 2; i <= n; i++)
					if (next_at[i] < next_at[first])
						first = i
				r = reason[first]
				at = next_at[first] > now + 100 ? next_at[first] : now + 100
				now = at + (r == 12 && halt ? 6000 : 500) + later(time[r])
				if (now >= end)
					break
				printf "0 %.0f 101 kvm_exit exit_reason=%d isa=1 vcpu_id=0\n", at, r
				if (r == 12 && halt == "poll")
					printf "0 %.0f 101 kvm_vcpu_wakeup ns=%d waited=0 valid=1\n", now - 2000,
						now - at - 4000
				if (r == 12 && halt == "sleep") {
					printf "0 %.0f 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0\n",
						at + 2000
					printf "0 %.0f 0 sched:sched_wakeup pid=101\n", now - 2100
					printf "0 %.0f 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101\n",
						now - 2050
					printf "0 %.0f 101 kvm_vcpu_wakeup ns=%d waited=1 valid=1\n", now - 2000,
						now - at - 4000
				}
				printf "0 %.0f 101 kvm_entry vcpu_id=0\n", now
				next_at[first] += later(gap[r])
			}
		}' >"$tmp/$name.txt"
	"$mkcap" --capture "$tmp/$name" "$tmp/$name.txt" || echo "# $name: not compiled"
}

diff_of()
{
	a=$1
	b=$2
	shift 2
	run "$kvmft" diff "$tmp/$a" "$tmp/$b" "$@"
}

# rows A B [OPTION]...: name and measure of each that is beyond noise
rows()
{
	diff_of "$@" --format csv
	sed 1d "$out" | cut -d , -f 2,3 | tr '\n' ' '
}

capture base
capture same seed=2
capture long seed=3 seconds=3
capture rate seed=4 gap30=1500
capture times seed=5 time12=120
capture gone seed=6 gap30=0
capture dear seed=21 gap1=6000 gap32=700 time32=300
capture sleep seed=22 halt=sleep time12=500
capture poll seed=23 halt=poll time12=500 gap30=1000
capture often seed=24 halt=sleep time12=500 gap12=700
capture tiny seed=7 seconds=0.05

# ---- nothing changed ----

diff_of base same
status_is 0 "two of the same: exit 0"
out_has '^no difference beyond noise$' "... no difference beyond noise"
out_has '^before .*/base: 1\.000 s, [0-9]+ exits of 1 VM, 1 vCPU$' "... which captures are compared"
out_has '^machines: alike' "... on machines that are alike"
out_has '^([0-9]+) of \1 rows are within noise: --all shows them$' "... all are within noise"
diff_of base base
out_has '^no difference beyond noise$' "a capture and itself"
status_is 0 "... exit 0"
is "$(rows base long)" "" "three times as long, and no other rate"
for seed in 11 12 13 14 15 16 17 18 19 20; do
	capture "again$seed" "seed=$seed"
	[ -z "$(rows base "again$seed")" ] || echo "again$seed" >>"$tmp/alarms"
done
ok "ten more of the same: at most one has a difference" test "$(cat "$tmp/alarms" 2>/dev/null | wc -l)" -le 1

# ---- one thing changed ----

is "$(rows base rate | cut -d ' ' -f 1)" "IO_INSTRUCTION,rate" "a rate that doubled leads"
is "$(rows base rate | tr ' ' '\n' | grep -cv '^IO_INSTRUCTION\|^$')" 0 "... and nothing else did"
diff_of base rate
status_is 0 "... exit 0"
out_has '^IO_INSTRUCTION +per second +3[0-9][0-9]\.[0-9] +[67][0-9][0-9]\.[0-9] +\+(8|9|10|11|12)[0-9]\.[0-9]% +0\.[67][0-9]% <0\.001$' \
	"... with both values"
is "$(rows rate base | cut -d ' ' -f 1)" "IO_INSTRUCTION,rate" "... and the other way round"
is "$(rows base times | tr ' ' '\n' | grep -v '^$' | cut -d , -f 1 | sort -u)" "HLT" "times that doubled: of HLT alone"
is "$(rows base times | tr ' ' '\n' | grep -c 'mean\|p50')" 2 "... by mean and median"
is "$(rows base times | tr ' ' '\n' | grep -c 'rate')" 0 "... and no rate"
diff_of base gone
out_has '^IO_INSTRUCTION +per second +[0-9.]+ +0\.00 +gone +0\.[67][0-9]% <0\.001$' "a reason that is gone"
diff_of gone base
out_has '^IO_INSTRUCTION +per second +0\.00 +[0-9.]+ +new +0\.[67][0-9]% <0\.001$' "... that is new"

# How sure is one thing, how large another: it differs, but surely by 200 %?
diff_of base rate --than 200
ok "a change of 100 %, where 200 % is asked for" grep -qE '^IO_INSTRUCTION +per second .* <0\.001 -$' "$out"
out_has '^[1-9][0-9]* rows? differs? .chance below 1 %., none surely by 200 % .others: -.$' "... is one, if not so large"
ok "... and is not called noise" sh -c "! grep -q 'no difference' '$out'"
diff_of base same --than 1
out_has '^half of the rows would have shown a change of [0-9.]+ %$' "nothing differs: what would have been seen"
out_has '^to show one of 1 %, record about [0-9.]+ [a-z]+ on each side$' "... and how long to record"
diff_of base rate --than 200 --format json
ok "JSON says the same" python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
rows = [r for r in d["rows"] if r["beyond_noise"]]
assert d["differs"] and d["surely_by_than"] == 0 and d["beyond_noise"] == len(rows) > 0, d
assert d["than"] == 2 and 0 < d["smallest_shown"] < 2 and d["for_than_ns"] is None, d
assert all(r["chance"] < 0.011 for r in rows) and any(r["smallest_shown"] for r in rows)' "$out"

# ---- what leads ----

# "GROUP..." of what is beyond noise
groups()
{
	diff_of "$@" --format csv
	awk -F, 'NR > 1 && $12 == 1 { printf "%s ", $10 }' "$out"
}


is "$(groups base dear | cut -d ' ' -f 1-3)" "MSR_WRITE EXTERNAL_INTERRUPT time" "what costs most is first, not what became another's third"
is "$(groups sleep poll)" "HLT IO_INSTRUCTION time sched " "polling"
diff_of sleep poll
out_has '^HLT +polling +0\.00% +[1-9][0-9]\.[0-9]+% +from 0 +[1-9][0-9]\.[0-9]{2}% <0\.001$' "... in HLT leads, with what it costs"
ok "... with what it was before below it" grep -qE '^ +asleep +[0-9.]+% +0\.00% +-100\.0% +<0\.001$' "$out"
out_has '^exits: polling +of a CPU ' "... then the time of all exits"
is "$(groups sleep often | cut -d ' ' -f 1)" "HLT" "a vCPU that halts more often: HLT leads"
is "$(diff_of sleep often --format csv; awk -F, 'NR == 2 { print $3 }' "$out")" "rate" "... by how often, though sleep is most of its time"

is "$(rows base rate --than 200)" "" "--than: what is less does not matter"
is "$(rows base rate --from 100ms --to 900ms | cut -d ' ' -f 1)" "IO_INSTRUCTION,rate" "--from, --to"
diff_of base rate --from 100ms --to 900ms
out_has 'base: 0\.800 s' "... and shows it"

# ---- limits ----

# ops NAME SEED EXITS: requests (I/O) at random times, with EXITS writes of MSRs each on average
ops()
{
	awk -v seed="$2" -v exits="$3" 'BEGIN {
		srand(seed)
		print "meta begin tsc=1000000000\nmeta stop tsc=2000000000\nmeta vm id=100-12 pid=100 fd=12 name=one"
		print "meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=0 tsc=1\n0 1000001000 101 kvm_entry vcpu_id=0"
		for (now = 1e9 + 1000;;) {
			now += -log(1 - rand()) * 2e6
			n = int(exits + (rand() + rand() + rand() + rand() - 2) * exits / 12 + rand())
			for (i = 0; i <= n; i++) {
				if (now > 1999e6)
					exit
				printf "0 %.0f 101 kvm_exit exit_reason=%d isa=1 vcpu_id=0\n", now, i ? 32 : 30
				now += 2000 + rand() * 3000
				printf "0 %.0f 101 kvm_entry vcpu_id=0\n", now
				now += 2000 + rand() * 6000
			}
		}
	}' >"$tmp/$1.txt"
	"$mkcap" --capture "$tmp/$1" "$tmp/$1.txt" || echo "# $1: not compiled"
}

ops ops0 1 20
per_op="--op kvm_exit/exit_reason==30/"
for seed in 2 3 4 5 6; do
	ops "ops$seed" "$seed" 20
	# shellcheck disable=SC2086 # two words
	diff_of ops0 "ops$seed" $per_op --fail-if 'exits/op > +2 %' --fail-if 'exits/op < -2 %' --fail-if 'exits/s > +2 %'
	status_is 4 "equal pair $seed: exits per second cannot tell"
	is "$(grep -c '^FAIL' "$out")" 0 "... and nothing fails"
	ops "more$seed" "10$seed" 21
	# shellcheck disable=SC2086 # two words
	diff_of ops0 "more$seed" $per_op --fail-if 'exits/op > +2 %'
	status_is 1 "one exit more in 20, pair $seed"
	out_has '^FAIL +exits/op > \+2 %: 2[01]\.[0-9]+, then 2[12]\.[0-9]+, \+[2-9]\.[0-9] % \+-[0-9.]+ %$' "... fails, with both values"
done
# What another VM claims to have done is no operation of this one.
{
	cat "$tmp/ops0.txt"
	printf '%s\n' "meta vm id=200-12 pid=200 fd=12 name=two" "meta vcpu vm=200-12 id=0 tid=201 offset=0 ratio=0 frac=0 tsc=1" \
		"1 1000000000 201 kvm_entry vcpu_id=0" "1 1900000000 201 kvm_exit exit_reason=1 isa=1 vcpu_id=0"
} >"$tmp/pair.txt"
# Its events are in the time of each Nth entry, or before that.
for guest in one:10:50:101 few:10:50:201 many:1:50:201 lies:10:-50:101; do
	IFS=: read -r name nth off tid <<-END
		$guest
	END
	awk -v nth="$nth" -v off="$off" -v tid="$tid" 'BEGIN { print "meta side name=guest\nmeta cpu n=0 apicid=0" }
		tid == 201 && $3 == 101 { $3 = 201; }
		$3 == tid && $4 == "kvm_entry" && n++ % nth == 0 && $2 > 1000002000 && $2 < 1899000000 { printf "0 %.0f 77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0\n", $2 + off }' \
		"$tmp/ops0.txt" >"$tmp/$name.txt"
done
for capture in pair one few many lies; do
	"$mkcap" --capture "$tmp/$capture" "$tmp/$capture.txt"
done
for of in "--vm one:0" ":1"; do
	# shellcheck disable=SC2086 # two words
	diff_of "pair,$tmp/one=one,$tmp/few=two" "pair,$tmp/one=one,$tmp/many=two" --op sched_switch ${of%:*} \
		--fail-if 'exits/op < -50 %'
	status_is "${of#*:}" "another VM claims ten times as many operations${of%:*}"
done
diff_of "pair,$tmp/one=one" "pair,$tmp/lies=one" --op sched_switch --fail-if 'exits/op < -50 %' --fail-if 'exits/s < -50 %'
status_is 4 "a guest that lies about its clock"
out_has '^CANNOT TELL .*exits/op.*: a guest is misaligned' "... is no measure"
out_has '^PASS +exits/s' "... of what it says"
# shellcheck disable=SC2086 # two words
diff_of ops0 ops2 $per_op --fail-if 'exits/op > +9 %'
status_is 0 "what is surely below a limit passes"
out_has '^PASS .*it would fail from \+[0-9.]+ % on' "... and says what would not"
# shellcheck disable=SC2086 # two words
diff_of ops0 more2 $per_op --fail-if 'exits/op > +2 %' --fail-if 'exits/s < -60%' --fail-if 'HLT/s > 1%' --format junit
status_is 1 "JUnit"
ok "... is XML with a failure, a skipped one and one that passed" python3 -c '
import sys, xml.etree.ElementTree as x
t = x.parse(sys.argv[1]).getroot()
kinds = [[c.tag for c in case] for case in t]
assert t.attrib["name"] and t.attrib["errors"] == "0", t.attrib # the schema of Jenkins wants them
assert t.attrib["tests"] == "3" and t.attrib["failures"] == "1" and t.attrib["skipped"] == "1", t.attrib
assert kinds == [["failure"], ["system-out"], ["skipped"]], kinds' "$out"
diff_of base rate --fail-if 'IO_INSTRUCTION/s > +20 %' --fail-if 'hlt p50 > 90 %' --fail-if 'guest share < -30 %' --format json
status_is 1 "limits of any row"
is "$(jq -c '[.limits[] | .verdict]' "$out")" '["fail","pass","pass"]' "... in JSON"
diff_of base times --fail-if 'HLT p50 > +30 %' --fail-if 'HLT mean > +30 %'
is "$(grep -c '^FAIL' "$out")" 2 "... of times"
diff_of times base --fail-if 'HLT p50 > +30 %' --fail-if 'HLT mean > +30 %'
status_is 0 "... that fell"
diff_of base,long,again11 same,again12,again13 --fail-if 'exits/s > +5 %'
err_has 'long' "a recording that is not there"
diff_of "base,$tmp/long,$tmp/again11" "same,$tmp/again12" --fail-if 'exits/s > +12 %'
status_is 0 "several recordings of a side"
out_has '/base and 2 more: 5\.000 s, ' "... are as long as all together"
out_has '^PASS' "... and tell more than one"
diff_of base same --fail-if 'timer p99 > 5 %' --fail-if 'latency timer p99 > 5 %'
status_is 4 "what was not recorded"
is "$(grep -c '^CANNOT TELL.*neither recording has such a row' "$out")" 2 "... cannot be told"
diff_of base same --fail-if 'nosuch/s > 5 %' --format json
is "$(jq -c '.limits[0] | [.verdict, has("before"), has("chance")]' "$out")" '["cannot tell",false,false]' "... no number in JSON"
# us NAME US: a text whose stamps are in us, of exits that take US
us()
{
	awk -v us="$2" 'BEGIN { for (t = 50; t < 50.5; t += 0.001) {
		printf " CPU 0/KVM-900 [002] %.6f: kvm_exit: vcpu 0 reason MSR_WRITE rip 0x1 info1 0x0 info2 0x0\n", t
		printf " CPU 0/KVM-900 [002] %.6f: kvm_entry: vcpu 0, rip 0x1\n", t + us / 1e6 } }' >"$tmp/$1"
}
us two 2
us three 3
us twenty 20
for measure in p50 p99 mean; do
	diff_of two three --fail-if "MSR_WRITE $measure > +20 %"
	status_is 4 "stamps in us: whether $measure grew by one cannot be told"
	diff_of two twenty --fail-if "MSR_WRITE $measure > +20 %"
	status_is 1 "... by 18 it can"
done
sed '300i0 gap 5' "$tmp/same.txt" >"$tmp/lossy.txt"
"$mkcap" --capture "$tmp/lossy" "$tmp/lossy.txt"
diff_of base lossy --fail-if 'exits/s > +50 %'
status_is 3 "lost events"
out_has '^CANNOT TELL .*events were lost' "... nothing is told of limits"
for wrong in 'exits > 5 %' 'exits/s > 5' 'exits/s' '> 5 %' 'exits/op > 5 %' 'exits/s > -100 %' 'exits/s > 1e9 %'; do
	diff_of base same --fail-if "$wrong"
	status_is 2 "--fail-if '$wrong'"
done
diff_of base same --op no_such_event
status_is 4 "an operation that never was"
err_has "has no event 'no_such_event', which is what --op counts" "... is no operation"

# ---- cannot tell ----

diff_of base tiny
status_is 4 "a short capture is not enough"
err_has 'cannot tell: .*/tiny is only 0\.050 s long; .* 200 ms or more' "... and says so"
ok "... without a table" test ! -s "$out"
err_one_line "a short one"
diff_of tiny base
err_has '/tiny is only' "... whichever it is"
diff_of base same --to 100ms
status_is 4 "a short window cannot either"

# ---- machines ----

{
	cat "$tmp/same.txt"
	echo "meta param module=kvm name=halt_poll_ns value=0"
	echo "meta param module=kvm name=tdp_mmu value=Y"
	echo "meta param module=kvm_amd name=avic value=%1b[31mN"
} >"$tmp/m1.txt"
sed 's/value=0$/value=200000/; s/value=%1b.*/value=Y/; s/offset=0 /offset=-77 /' "$tmp/m1.txt" >"$tmp/m2.txt"
echo "meta vcpu vm=100-12 id=1 tid=102" >>"$tmp/m2.txt"
for m in m1 m2; do
	ok "$m: compiled" "$mkcap" --capture "$tmp/$m" "$tmp/$m.txt"
done
diff_of m1 m2
status_is 0 "other machines"
out_has '^differs kvm\.halt_poll_ns: 0, then 200000$' "... a parameter of kvm"
out_has '^differs vCPUs: 1 of one, then 2 of one$' "... how many vCPUs"
out_has '^differs TSC offset of one/0: 0, then -77$' "... the TSC offset"
ok "... not what is the same" test "$(grep -c tdp_mmu "$out")" = 0
ok "... and nothing that a terminal would obey" test "$(tr -cd '\033' <"$out" | wc -c)" = 0
out_has '^no difference beyond noise$' "... and nothing else"
ok "lines fit 80 columns" test "$(sed 1,2d "$out" | awk 'length > n { n = length } END { print n + 0 }')" -le 80

# ---- forms ----

diff_of base rate --all
status_is 0 "--all"
out_has '^HLT +mean time .* ~$' "... has what is within noise"
diff_of base rate --format json
ok "JSON" python3 -m json.tool "$out"
ok "... says what differs" grep -q '"differs":true' "$out"
ok "... and all rows" test "$(grep -o '"beyond_noise":false' "$out" | wc -l)" -gt 5
cp "$out" "$tmp/json"
diff_of base rate --format json
ok "... the same again" cmp "$out" "$tmp/json"
diff_of base rate --format csv
is "$(head -n 1 "$out")" "kind,name,measure,unit,before,after,surely,chance,beyond_noise,group,effect,lead,surely_by_than,smallest_shown" "CSV"
for f in base rate; do
	ok "$f: as trace.dat" "$mkcap" --trace-dat "$tmp/$f.dat" "$tmp/$f.txt"
done
is "$(rows base.dat rate.dat | cut -d ' ' -f 1)" "IO_INSTRUCTION,rate" "two trace.dat"

# ---- wrong use ----

run "$kvmft" diff "$tmp/base"
status_is 2 "one capture"
diff_of base same -e nosuch
status_is 2 "a class that is not there"
diff_of base same --vm two
status_is 1 "a VM that is not there"
diff_of base same -e msr
status_is 4 "a class without events"
err_one_line "a class without events"
printf '0 1000 1 sched:sched_switch prev_pid=1 next_pid=2\n' >"$tmp/sched.txt"
"$mkcap" --capture "$tmp/sched" "$tmp/sched.txt"
diff_of base sched
status_is 4 "a capture without exits"
err_has 'no kvm_exit and kvm_entry events in .*/sched' "... is reported"
diff_of base none
status_is 1 "a capture that is not there"
err_one_line "a capture that is not there"

# ---- tables of perf and of report, as text ----

cat >"$tmp/perf.txt" <<-E
	15:52:35.709821

	Analyze events for all VMs, all VCPUs:

	             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time

	      IO_INSTRUCTION      55654    78.67%    42.39%      3.54us     74.94us     13.63us ( +-   0.24% )
	unknown kvm exit code:131072 on VMX
	             UNKNOWN       7000    10.06%     0.74%      1.46us     16.58us      1.00us ( +-   0.30% )
	             UNKNOWN       1000    10.06%     0.74%      1.46us     16.58us      9.00us ( +-   0.30% )
	             PF excp        117    21.39%     2.38%      0.78us  34187.94us    294.36us ( +-  99.26% )

	Total Samples:63771, Total events handled time:20043311.08us.
E
cat >"$tmp/mail.txt" <<-E
	> >
	> >              VM-EXIT    Samples  Samples%     Time%    Min Time    Max
	> > Time         Avg time
	> >
	> >            IO_INSTRUCTION      27827    89.96%    81.10%      0.42us
	> > 68.42us      27.26us ( +-   0.07% )
	> >             HLT      1       3.66%    0.28%  4162.52us  4162.52us   4162.52us
	> > ( +-  nan% )
	> >
	> > Total Samples:30000, Total events handled time:1436343.94us.
E
cat >"$tmp/old.txt" <<-E
	             VM-EXIT    Samples  Samples%     Time%         Avg time
	     IO_INSTRUCTION      55654    66.58%     5.95%     13.63us ( +-   6.54% )
E
csv='name,samples_before,samples_after,mean_before_us,mean_after_us,mean_within_error'
run "$kvmft" diff --format csv "$tmp/perf.txt" "$tmp/mail.txt"
status_is 3 "tables of perf: samples that are in no row are missing"
err_has '2172 of 30000 samples are in no row' "... is reported"
is "$(sort "$out")" "$(printf '%s\n' 'HLT,,1,,4162.520,' 'IO_INSTRUCTION,55654,27827,13.630,27.260,0' \
	'PF excp,117,,294.360,,' 'UNKNOWN,8000,,2.000,,' "$csv" | sort)" "... quoted, wrapped, with names twice: each value"
run "$kvmft" diff "$tmp/perf.txt" "$tmp/mail.txt"
out_has '^IO_INSTRUCTION +55654 27827 +-50% +13.63us +27.26us +\+100%$' "... changes"
out_has 'whether a change is chance is not known' "... without a verdict"
run "$kvmft" diff --format json "$tmp/old.txt" "$tmp/old.txt"
status_is 0 "a table of 2012"
out_has '^\{"sure":false,"chance":null,"rows":\[\{"name":"IO_INSTRUCTION","samples_before":55654,' "... as JSON"
"$kvmft" report "$tmp/base" >"$tmp/base.txt"
"$kvmft" report "$tmp/same" >"$tmp/same.txt"
run "$kvmft" diff "$tmp/base.txt" "$tmp/same.txt"
status_is 0 "tables of report"
out_has ' [+-][0-9.]+%~?$' "... have changes"
ok "a recording of accesses" "$mkcap" --trace-dat "$tmp/access" "$top/tests/golden/report-access.txt"
for o in "base --semantics perf" "access -e mmio" "base "; do
	of=${o%% *} o=${o#* }
	# shellcheck disable=SC2086 # words
	"$kvmft" report $o "$tmp/$of" >"$tmp/base.txt" 2>"$err"
	[ "$o" != "--semantics perf" ] || sed -i '/^#/d' "$tmp/base.txt" # as perf prints it
	for f in "base.txt $of" "$of base.txt"; do
		run "$kvmft" diff --format csv "$tmp/${f% *}" "$tmp/${f#* }"
		status_is 0 "a table of report $o, and its recording: $f"
		is "$(awk -F, 'NR > 1 && ($2 != $3 || $4 - $5 > 0.006 || $5 - $4 > 0.006)' "$out")" "" "... the same values"
		ok "... there are some" test "$(wc -l <"$out")" -gt 1
	done
done
err_has '/base: its times are counted as kvmft report does, which made .*/base.txt' "... says whose times"
run "$kvmft" diff "$tmp/perf.txt" "$tmp/same"
err_has '/same: its times are counted as perf kvm does, which made .*/perf.txt' "... perf's"
out_has '^IO_INSTRUCTION +55654 +[0-9]+ ' "... and compares them"
run "$kvmft" diff --vm nobody "$tmp/perf.txt" "$tmp/same"
status_is 1 "... of a VM that is not in the recording"
run "$kvmft" diff "$tmp/perf.txt" "$tmp/sched"
status_is 4 "... and a recording without exits"
sed '/kvm_entry/d' "$top/tests/golden/report-access.txt" >"$tmp/exits.txt"
ok "... with exits alone" "$mkcap" --capture "$tmp/exits" "$tmp/exits.txt"
run "$kvmft" diff "$tmp/perf.txt" "$tmp/exits"
status_is 4 "... which are not counted as perf does"
err_has '/exits: not one of what .*/perf.txt counts, .*: record all events' "... says so"
sed 's/VM-EXIT/MMIO/' "$tmp/old.txt" >"$tmp/mmio.txt"
run "$kvmft" diff "$tmp/old.txt" "$tmp/mmio.txt"
status_is 1 "tables of two kinds"
err_has 'a table of other things' "... are not compared"
sed 1q "$tmp/old.txt" >"$tmp/empty.txt"
run "$kvmft" diff "$tmp/old.txt" "$tmp/empty.txt"
status_is 1 "a table without rows"
# Where the frequency of the TSC is not known
cp -R "$tmp/base" "$tmp/nokhz" && sed -i '/^tsc /d' "$tmp/nokhz/meta"
"$kvmft" report "$tmp/nokhz" >"$tmp/cycles.txt" 2>"$err"
run "$kvmft" diff "$tmp/cycles.txt" "$tmp/cycles.txt"
status_is 0 "tables in cycles"
out_has '^Name .* Mean cycles ' "... in that unit"
out_has '^HLT +676 +676 +[+]0.0% +57975 +57975 ' "... with counts and means"
run "$kvmft" diff "$tmp/cycles.txt" "$tmp/nokhz"
status_is 0 "a table in cycles, and its recording"
run "$kvmft" diff "$tmp/cycles.txt" "$tmp/base.txt"
status_is 4 "one in cycles, one in time"
err_has 'in cycles, those of .*/base.txt are not: make both with --tsc-khz' "... are not compared"
# perf's browser, since Linux 6.4; what cannot be read is counted
cat >"$tmp/screen.txt" <<-E
	Event name                Samples   Sample%    Time (ns)     Time%   Max Time (ns)   Min Time (ns)  Mean Time (ns)
	IO_INSTRUCTION             500     54.00%    6815000    40.00%     74940         3540          13630
	PF excp                      2      1.00%    3000000    60.00%     2000000       1000000     1500000
E
run "$kvmft" diff --format csv "$tmp/old.txt" "$tmp/screen.txt"
status_is 0 "the table of perf's browser"
is "$(sort "$out")" "$(printf '%s\n' 'IO_INSTRUCTION,55654,500,13.630,13.630,' 'PF excp,,2,,1500.000,' "$csv" | sort)" "... each value"
{ cat "$tmp/screen.txt"; echo "HLT   7   1.00%   30="; } >"$tmp/in"
run "$kvmft" diff "$tmp/in" "$tmp/old.txt"
status_is 3 "a row that is torn"
err_has '/in: 1 rows cannot be read, and are left out' "... is counted"
{ cat "$tmp/old.txt"; printf '\nLost events: 2\n'; } >"$tmp/in"
run "$kvmft" diff "$tmp/in" "$tmp/old.txt"
status_is 3 "what perf lost"
err_has '/in: events were lost when it was recorded' "... is told"
# a change within the errors of both means is marked
for n in '10.00us ( +- 20.00% )' '12.00us ( +- 10.00% )' '30.00us ( +- 10.00% )' '12.00us'; do
	printf 'VM-EXIT Samples Samples%% Time%% Avg time\nHLT 100 1.00%% 1.00%% %s\n' "$n" >"$tmp/e.txt"
	[ -s "$tmp/e10.txt" ] || cp "$tmp/e.txt" "$tmp/e10.txt"
	run "$kvmft" diff "$tmp/e10.txt" "$tmp/e.txt"
	case $n in
	1*%*) out_has '%~$' "mean $n: within what both may be off" ;;
	*) is "$(grep -c '%~$' "$out")" 0 "mean $n: not" ;;
	esac
done
cat "$tmp/old.txt" "$tmp/mail.txt" >"$tmp/two.txt"
run "$kvmft" diff "$tmp/two.txt" "$tmp/old.txt"
err_has 'two.txt: several tables, the first is read' "two in one file"
run "$kvmft" report "$tmp/base.txt"
status_is 1 "report, of a table"
err_has ': a table of what was recorded, not a recording: kvmft diff compares it' "... says what it is, and the way"
# a table through a pipe, and packed
gzip -c "$tmp/screen.txt" >"$tmp/screen.gz"
run "$kvmft" diff --format csv "$tmp/old.txt" "$tmp/screen.txt"
cp "$out" "$tmp/want"
run "$kvmft" diff --format csv "$tmp/old.txt" "$tmp/screen.gz"
ok "a packed table" cmp "$tmp/want" "$out"
for f in screen.txt screen.gz; do
	# shellcheck disable=SC2002 # for the pipe
	cat "$tmp/$f" | "$kvmft" diff --format csv "$tmp/old.txt" - >"$out" 2>"$err"
	ok "$f through a pipe" cmp "$tmp/want" "$out"
	"$kvmft" diff --format csv "$tmp/old.txt" - <"$tmp/$f" >"$out" 2>"$err"
	ok "... as standard input" cmp "$tmp/want" "$out"
done
run "$kvmft" diff --format csv "$tmp/base.txt" "$tmp/access"
cp "$out" "$tmp/want"
"$kvmft" merge "$tmp/access" 2>"$err" | "$kvmft" diff --format csv "$tmp/base.txt" - >"$out" 2>"$err"
ok "a recording through a pipe, beside a table" cmp "$tmp/want" "$out"
run "$kvmft" diff - -
status_is 2 "standard input for both sides"
head -c -20 "$tmp/screen.gz" >"$tmp/cut.gz"
run "$kvmft" diff "$tmp/old.txt" "$tmp/cut.gz"
status_is 1 "a packed table that is cut"
err_has 'cut.gz: packed data are damaged, or cut' "... is not compared"
run "$kvmft" report "$tmp/screen.gz"
err_has ': a table of what was recorded, not a recording: kvmft diff compares it' "report, of a packed table"
printf 'VM-EXIT Samples Samples%%\n\033]0;x 18446744073709551616 1%% 1%% 1us\n\033]0;y 5 1%% 1%% 99999999999999999999us\n' >"$tmp/h.txt"
run "$kvmft" diff "$tmp/h.txt" "$tmp/h.txt"
status_is 1 "numbers beyond 64 bits are no rows"
is "$(cat "$out" "$err" | LC_ALL=C grep -c "$(printf '\033')")" 0 "... and nothing reaches the terminal"
finish
