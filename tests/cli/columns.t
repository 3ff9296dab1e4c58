#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# The columns of text lines: as wide as their contents, the same in all lines, and nothing is cut.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden

# compiled NAME: a capture of standard input.
compiled() { cat >"$tmp/$1.txt" && rm -rf "${tmp:?}/$1" && "$mkcap" --capture "$tmp/$1" "$tmp/$1.txt"; }
# events: the column in which the names of events begin, each once.
events() { awk '{ print match($0, / [a-z_]+:[a-z_]+:/) + 1 }' "$out" | sort -nu | tr '\n' ' '; }

compiled host <"$golden/latency-host.txt"
compiled guest <"$golden/latency-guest.txt"

run "$kvmft" merge --vcpu 0 -q "$tmp/host" "$tmp/guest=one"
is "$(sed -n 1,2p "$out" | cut -c 1-50)" "host CPU 0/KVM-101 [0]  0.000001000  kvm:kvm_entry
one  <idle>-0      [v0] 0.000001100  sched:sched_s" "a line is no wider than it must be"
is "$(events)" "38 " "... and all are alike"
run "$kvmft" merge --side guest -q "$tmp/host" "$tmp/guest=one"
is "$(head -n 1 "$out" | cut -c 1-40)" "one <idle>-0  [v0] 0.000001100  sched:sc" "what is not shown needs no room"
run "$kvmft" merge --clock host-tsc --side guest -q "$tmp/host" "$tmp/guest=one"
is "$(head -n 1 "$out" | cut -c 1-32)" "one <idle>-0  [v0]  1100  sched:" "cycles: as many digits as the last stamp"

# ---- a VM with a long name ----

named() { sed "s/ name=one/ name=$1/" "$golden/latency-host.txt" | compiled "host-$1"; }
named exactly-twenty-bytes
run "$kvmft" merge --side guest -q "$tmp/host-exactly-twenty-bytes" "$tmp/guest=exactly-twenty-bytes"
out_has '^exactly-twenty-bytes <idle>-0 ' "a name of 20 bytes"
named twenty-one-bytes-of-it
run "$kvmft" merge -q "$tmp/host-twenty-one-bytes-of-it" "$tmp/guest=twenty-one-bytes-of-it"
out_has '^twenty-one-bytes-of~ <idle>-0 ' "one that is longer is cut, and marked"
out_has '^host                 CPU 0/KVM-101 ' "... and others have room beside it"
cp -r "$tmp/guest" "$tmp/again"
run "$kvmft" merge -q "$tmp/host-twenty-one-bytes-of-it" "$tmp/guest=twenty-one-bytes-of-it" "$tmp/again=twenty-one-bytes-of-it"
out_has '^twenty-one-bytes-of-it#1 <idle>-0 ' "two that would be alike are not cut"

# ---- more lines than are looked at first; names, CPUs and times that come later ----

{
	echo "meta task tid=7 tgid=7 comm=a"
	echo "meta task tid=4194303 tgid=7 comm=fifteen-bytes-x"
	awk 'BEGIN { for (i = 1; i <= 600; i++) printf "%d %d 7 kvm_cpuid function=1\n", i % 2, i * 1000 }'
	echo "0 10000000000 4194303 kvm_cpuid function=2"
	echo "11 10000001000 7 kvm_cpuid function=3"
} | compiled late
run "$kvmft" merge -q "$tmp/late"
is "$(wc -l <"$out" | tr -d ' ')" 602 "no line is lost where the widths are known"
is "$(grep -c '^host a-7 \[0[01]\]  0\.000[0-9]* *kvm:' "$out")" 600 "the first ones know how many CPUs there are, and the last time"
out_has '^host fifteen-bytes-x-4194303 \[00\] 10\.000000000  kvm:' "a name that comes later is whole"
out_has '^host a-7                     \[11\] 10\.000001000  kvm:' "... and all have room for it from there on"
run "$kvmft" merge -q --clock host-tsc "$tmp/late"
out_has '^host a-7 \[01\]        1000  kvm:' "... right under each other"
run "$kvmft" merge -q --from 9 "$tmp/late"
is "$(head -n 1 "$out" | cut -c 1-50)" "host fifteen-bytes-x-4194303 [00] 10.000000000  kv" "few lines need no room for others"

# ---- what is no event, and unknown times ----

sed '/^0   3000/a 0 gap 5' "$golden/latency-host.txt" | compiled gap
run "$kvmft" merge -q "$tmp/gap" "$tmp/guest=one"
out_has '^host -             \[0\]  0\.000003000  LOST 5 EVENTS of this CPU' "lost events are in the same columns"
sed 's/^\(0   8120.*\)/1   8120  77 block:block_rq_complete dev=0xfe00000 sector=2048 nr_sector=8/' "$golden/latency-guest.txt" |
	sed 's/^meta cpu n=0 apicid=0/&\nmeta cpu n=1 apicid=9/' | compiled other
run "$kvmft" merge -q "$tmp/host" "$tmp/other=one"
out_has '^one  victim-77     \[v9\] 0\.0[0-9]*\? [a-z]+:' "a stamp without a place: its mark takes no column"
is "$(events)" "38 " "... and moves nothing"
run env TZ=UTC "$kvmft" merge -q --clock realtime "$tmp/host"
status_is 4 "realtime without readings"
sed '1a meta time tsc=0 width=0 mono_raw=5 mono=5 boot=5 real=1608130130000000000\nmeta time tsc=1000000 width=0 mono_raw=1000005 mono=1000005 boot=1000005 real=1608130130001000000' \
	"$golden/latency-host.txt" | compiled dated
run env TZ=UTC "$kvmft" merge -q --clock realtime "$tmp/dated"
is "$(head -n 1 "$out" | cut -c 1-60)" "host CPU 0/KVM-101 [0] 2020-12-16 14:48:50.000001000  kvm:kv" "a date, one blank before it"
# The wall clock was set back by an hour between two readings: there is no half past.
sed '1a meta time tsc=0 width=0 mono_raw=5 mono=5 boot=5 real=1608130130000000000\nmeta time tsc=8000 width=0 mono_raw=8005 mono=8005 boot=8005 real=1608130130000008000\nmeta time tsc=12000 width=0 mono_raw=12005 mono=12005 boot=12005 real=1608126530000012000\nmeta time tsc=1000000 width=0 mono_raw=1000005 mono=1000005 boot=1000005 real=1608126530001000000' \
	"$golden/latency-host.txt" | compiled set
run env TZ=UTC "$kvmft" merge -q --clock realtime "$tmp/set"
is "$(grep -c ' 14:48:50\.00000[0-8]' "$out") $(grep -c ' 13:48:50\.00001[2-8]' "$out") $(grep -c ' ?  ' "$out")" "9 12 12" \
	"a clock that was set has no time between the readings around that"
err_has "set: realtime was set, or stood still, during the recording: between its readings before and after that no time is known" \
	"... which is said"
run "$kvmft" merge --side nobody -q "$tmp/host"
status_is 2 "nothing to show at all"
run "$kvmft" merge -e no_such_event -q "$tmp/host"
is "$(wc -c <"$out" | tr -d ' ')" 0 "no line, no columns"
finish
