#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Captures that kvmft did not make: trace.dat files of which nobody wrote down which VM they are of, which threads ran
# it, and by which offset their clocks differ. The events tell.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
plain=${KVMFT_PLAIN:-$top/build/kvmft}

# make NAME VMS [AWK OPTIONS]: $tmp/NAME/host.dat and a .dat of each VM.
make()
{
	set=$tmp/$1
	vms=$2
	shift 2
	mkdir "$set"
	awk -v dir="$set" -v vms="$vms" "$@" -f "$top/tests/cli/foreign.awk" || exit 1
	for text in "$set"/*.txt; do
		"$mkcap" --clock x86-tsc --trace-dat "${text%.txt}.dat" "$text" || exit 1
	done
}

# Every offset that the last run says, and how far it may be off, against the true one.
offset_near()
{
	awk -v want="$1" '
		{
			for (i = 1; i < NF; i++)
				if ($i == "offset" && $(i + 1) ~ /^-?[0-9]+$/) {
					bound = substr($(i + 2), 3) + 0
					d = $(i + 1) - want
					if (d < 0)
						d = -d
					n++
					bad += d > bound || bound > 600
				}
		}
		END { exit !(n && !bad) }' "$err"
}

# ---- one VM ----

make one "web:-7000000000:137,138" -v seed=1 -v wakes=1
pair="$tmp/one/host.dat $tmp/one/web.dat"
# shellcheck disable=SC2086 # two words
run "$kvmft" merge $pair
status_is 0 "merge of two files, no option"
err_has "web.dat: tids:137,138 \(tids:137,138, one VM since they wake each other\): the only VM there" "... the VM"
err_has 'web.dat: TSC offset -7[0-9]+ \+-[0-9]+ cycles( \([0-9.]+ us\))?, found in [0-9]+ events' "... the offset"
ok "... which is the true one, within the limits" offset_near -7000000000
err_has 'alignment of tids:137,138: [0-9]+ guest events checked, 0 outside.*; the TSC offset was found' "... the proof"
for clock in host-tsc guest-tsc; do
	# shellcheck disable=SC2086
	run "$kvmft" merge --clock $clock $pair
	status_is 0 "merge --clock $clock"
done
# shellcheck disable=SC2086
for command in "verify" "merge --format json" "merge --format html -o $tmp/page.html" "export -o $tmp/e.dat -i"; do
	run "$kvmft" $command $pair
	status_is 0 "$command: no option but the files"
done
# shellcheck disable=SC2086
run "$kvmft" merge -q --format json $pair
out_has '"paired_by":"only-vm","threads":"tids:137,138","threads_by":"wakeups","tsc_offset_from":"events","uncertain_cycles":[0-9]+' \
	"JSON says what was concluded"
# shellcheck disable=SC2086
run "$kvmft" verify --format json $pair
out_has '"tsc_offset":-7' "JSON of verify has the solution"
run "$kvmft" merge -q --tsc-offset -7000000000 "$tmp/one/host.dat" "$tmp/one/web.dat"
status_is 0 "an offset by hand"
is "$(grep -cv "TSC frequency" "$err")" 0 "... leaves nothing to be concluded"
run "$kvmft" verify --tsc-offset -7000100000 "$tmp/one/host.dat" "$tmp/one/web.dat"
status_is 1 "a wrong one is found out"
out_has 'the one used is wrong by about -100' "... and by how much"

run "$kvmft" verify --tsc-offset -7000000000 "$tmp/one/host.dat" "$tmp/one/web.dat=tids:137"
status_is 4 "half of the events cannot be checked: no verdict"
out_has 'cannot tell: [0-9]+ guest events could be checked; not checkable: [0-9]+ \(5[0-9] %\) in it' "... the share"
out_has 'not checked at all: vCPU 1: no entry or exit' "... and the vCPU"
run "$kvmft" verify --format json --tsc-offset -7000000000 "$tmp/one/host.dat" "$tmp/one/web.dat=tids:137"
out_has '"checked_pct":[45][0-9]' "... in JSON"

run "$kvmft" convert -i "$tmp/one/host.dat" -i "$tmp/one/web.dat" --from guest-tsc --to host-tsc 50000000000
status_is 0 "convert with both files"
ok "... says its bound" offset_near -7000000000
ok "... and is within it ($(cat "$out"))" test "$(cat "$out")" -ge 56999999400 -a "$(cat "$out")" -le 57000000600
run "$kvmft" convert -i "$tmp/one/host.dat" --from guest-tsc --to host-tsc 50000000000
status_is 4 "convert of the host's file alone: no offset"

# ---- events of one CPU were lost, while others tell of the same vCPU ----

for seed in 1 2 3; do
	make "lossy$seed" "web:-7000000000:137,138" -v seed=$seed -v lossy=1
	run "$kvmft" merge "$tmp/lossy$seed/host.dat" "$tmp/lossy$seed/web.dat"
	status_is 3 "a host that lost events, seed $seed"
	ok "... the offset" offset_near -7000000000
	err_has "guest events checked, 0 outside their vCPU's windows, [0-9]+ not checkable" "... none outside"
done

# ---- the TSC was moved by a minute, and the rest of the host's record is too regular to say so ----

make vague "web:-7000000000:137,138:::148996237939" -v seed=1 -v vague=1 -v windows=1600
run "$kvmft" merge "$tmp/vague/host.dat" "$tmp/vague/web.dat"
status_is 4 "an offset that changed to an unknown one"
err_has "that of vCPU 0: it seems to have changed meanwhile" "... is not taken for one that did not"
run "$kvmft" verify "$tmp/vague/host.dat" "$tmp/vague/web.dat"
status_is 4 "... verify"
out_has "vCPU 0: no offset found: it seems to have changed meanwhile" "... says why"

# ---- two VMs, whose threads were made in turns ----

make two "web:-7000000000:258,261 db:-9000000000:259,262" -v seed=2 -v wakes=1
run "$kvmft" merge "$tmp/two/host.dat" "$tmp/two/web.dat" "$tmp/two/db.dat"
status_is 0 "two VMs, two guests"
err_has 'web.dat: tids:258,261 .*: all [0-9]+ events fit' "... each its threads"
err_has 'db.dat: tids:259,262 .*: all [0-9]+ events fit' "... the other, too"
err_has 'alignment of tids:258,261: .* 0 outside' "... aligned"
err_has 'alignment of tids:259,262: .* 0 outside' "... both"
run "$kvmft" merge "$tmp/two/host.dat" "$tmp/two/db.dat"
status_is 0 "one of two guests"
ok "... its offset" offset_near -9000000000
# Nobody wakes anybody: ids alone put the wrong threads together, the guest's events say so.
make blind "web:-7000000000:258,261 db:-9000000000:259,262" -v seed=3
run "$kvmft" merge "$tmp/blind/host.dat" "$tmp/blind/web.dat" "$tmp/blind/db.dat"
status_is 0 "no wakeups: threads are found by the guests"
err_has 'web.dat: tids:258,261 \(tids:258,261, the threads that fit its events\)' "... web's"
err_has 'db.dat: tids:259,262 ' "... db's"
run "$kvmft" merge "$tmp/blind/host.dat" "$tmp/blind/web.dat=tids:258,261"
status_is 0 "threads named by hand"
err_has 'alignment of tids:258,261: .* 0 outside' "... are a VM then"
run "$kvmft" merge "$tmp/blind/host.dat" "$tmp/blind/web.dat=tids:258,262"
status_is 4 "wrong ones"
err_one_line "wrong ones"
run "$kvmft" merge "$tmp/blind/host.dat" "$tmp/blind/web.dat=tids:258,999"
status_is 1 "a thread that runs no vCPU"
err_has "thread 999 made no kvm_entry" "... is reported"
run "$kvmft" merge "$tmp/blind/host.dat" "$tmp/blind/web.dat=tids:5-"
status_is 2 "no list of threads"

# ---- started again ----

make again "a:-7000000000:137,138:0:400 b:-5000000000:337,338:420:800" -v seed=4
for side in a b; do
	run "$kvmft" merge "$tmp/again/host.dat" "$tmp/again/$side.dat"
	status_is 0 "a VM that was started again: $side"
done
err_has 'b.dat: tids:337,338 ' "... as another VM"

# ---- reset: the same threads, another offset ----

make reset "a:-7000000000:137,138:0:400 b:-5000000000:137,138:420:800" -v seed=9
for sel in "" "=tids:137,138"; do
	run "$kvmft" merge "$tmp/reset/host.dat" "$tmp/reset/a.dat$sel" "$tmp/reset/b.dat$sel"
	status_is 0 "both boots of a VM${sel:+, named}"
	err_has 'a.dat: TSC offset -(7000|6999)[0-9]+ ' "... the first one's offset"
	err_has 'b.dat: TSC offset -(5000|4999)[0-9]+ ' "... and the second one's"
	is "$(grep -cE 'alignment of tids:137,138#[12]: [1-9][0-9]* guest events checked, 0 outside' "$err")" 2 "... fit"
done

# ---- offsets of their own, and a TSC that was written ----

make jump "web:-7000000000:137,138:0:800:5000000" -v seed=5 -v windows=800
run "$kvmft" merge "$tmp/jump/host.dat" "$tmp/jump/web.dat"
status_is 4 "the TSC of a vCPU was moved, and no event says so"
is "$(wc -c <"$out")" 0 "... nothing is printed"
run "$kvmft" verify "$tmp/jump/host.dat" "$tmp/jump/web.dat"
status_is 4 "... verify cannot tell"
out_has "one may have changed meanwhile: record the host with kvmft" "... and says what helps"

# Too few events of a vCPU with an offset of its own: that of the other one would move them out of the recording, where
# nothing contradicts.
for wakes in 0 1; do
	make apart$wakes "web:-7000000000:137,138" -v seed=10 -v wakes=$wakes
	for n in 24 40; do
		awk -v "every=$n" '
			$1 == 1 { if (n++ % every) next; $2 = sprintf("%.0f", $2 + 149000000000) }
			1' "$tmp/apart$wakes/web.txt" >"$tmp/apart$wakes/few$n.txt"
		"$mkcap" --clock x86-tsc --trace-dat "$tmp/apart$wakes/few$n.dat" "$tmp/apart$wakes/few$n.txt"
	done
	run "$kvmft" merge "$tmp/apart$wakes/host.dat" "$tmp/apart$wakes/few24.dat"
	status_is 0 "a vCPU with an offset of its own and 25 events, wakes=$wakes"
	err_has 'offsets found in the events: vCPU 0 -(7000|6999)[0-9]*, vCPU 1 14(2000|1999)[0-9]*, ' "... each is found"
	run "$kvmft" merge "$tmp/apart$wakes/host.dat" "$tmp/apart$wakes/few40.dat"
	status_is 4 "a vCPU with an offset of its own and few events, wakes=$wakes"
	err_has 'vCPU 1: ' "... which it is, and why"
	is "$(wc -c <"$out")" 0 "... nothing is printed"
done

# ---- what cannot be known ----

make same "web:-7000000000:137" -v seed=6 -v regular=1
run "$kvmft" merge "$tmp/same/host.dat" "$tmp/same/web.dat"
status_is 4 "all windows alike: no answer"
err_one_line "every window like any other"
err_has 'TSC offset .* is not recorded' "... why"
is "$(wc -c <"$out")" 0 "... and nothing is printed"
make few "web:-7000000000:137" -v seed=7 -v windows=6
run "$kvmft" merge "$tmp/few/host.dat" "$tmp/few/web.dat"
status_is 4 "too few events"
run "$kvmft" verify "$tmp/few/host.dat" "$tmp/few/web.dat"
status_is 4 "... to verify as well"
make novm "web:-7000000000:137" -v seed=8
grep -v kvm_entry "$tmp/novm/host.txt" >"$tmp/novm/none.txt"
"$mkcap" --clock x86-tsc --trace-dat "$tmp/novm/none.dat" "$tmp/novm/none.txt"
run "$kvmft" merge "$tmp/novm/none.dat" "$tmp/novm/web.dat"
status_is 4 "no kvm_entry, no VM"
err_has "knows no VM: it has no kvm_entry events and .*: record .*kvmft record" "... is reported, with a remedy"
run "$kvmft" verify "$tmp/novm/none.dat" "$tmp/novm/web.dat"
status_is 4 "... which is not what verify says of a wrong offset"

# ---- strangers: each guest fits its own host and no other ----

n=0
taken=0
fitting=0
while [ $n -lt 11 ]; do
	make "s$n" "web:-$((7 + n))000000000:137,138" -v seed=$((20 + n)) -v windows=200
	n=$((n + 1))
done
for host in 0 1 2 3 4 5 6 7 8 9 10; do
	for guest in 0 1 2 3 4 5 6 7 8 9 10; do
		"$plain" merge "$tmp/s$host/host.dat" "$tmp/s$guest/web.dat" >"$out" 2>"$err"
		rc=$?
		if [ $host = $guest ]; then
			[ $rc = 0 ] && offset_near -$((7 + guest))000000000 && fitting=$((fitting + 1))
		elif [ $rc != 4 ] || [ -s "$out" ]; then
			taken=$((taken + 1))
			sed "s/^/# $host $guest: /" "$err"
		fi
	done
done
is "$fitting" 11 "11 guests fit their host, with the true offset"
is "$taken" 0 "110 pairs of strangers are refused"

# ---- what is printed as a selector is one, everywhere ----

run "$kvmft" merge "$tmp/two/host.dat" "$tmp/two/web.dat=nosuch"
status_is 1 "no such VM"
sels=$(grep -oE '(pid|tids):[0-9,-]*[0-9]' "$err" | sort -u)
is "$(echo "$sels" | wc -l)" 2 "both VMs are listed"
for sel in $sels; do
	guest=$tmp/two/web.dat
	[ "$sel" = tids:258,261 ] || guest=$tmp/two/db.dat
	for command in merge verify; do
		run "$kvmft" $command "$tmp/two/host.dat" "$guest=$sel"
		status_is 0 "$command GUEST=$sel"
	done
	run "$kvmft" report -i "$tmp/two/host.dat" --tsc-khz 1000000 --vm "$sel"
	status_is 0 "report --vm $sel"
	out_has "VM $sel," "... has its table"
	run "$kvmft" convert -i "$tmp/two/host.dat" --vm "$sel" --tsc-offset 5 --from host-tsc --to guest-tsc 10
	status_is 0 "convert --vm $sel"
done

# ---- VMs that the report's own walk finds, and those that are looked for before it, as for a part of the time ----

# A host of N threads, 4 to a VM; every TWO-th of them runs two vCPUs, one after the other.
for host in "8 0" "600 0" "8 3"; do
	# shellcheck disable=SC2086 # two words
	set -- $host
	awk -v n="$1" -v two="$2" 'BEGIN {
		for (i = 0; i < 4 * n; i++) {
			t = 1000 + 100 * i
			tid = 100 + i % n
			vcpu = i % n % 4 + (two && i % n % two == 0 && i >= 2 * n ? 4 : 0)
			printf "0 %d %d kvm_exit exit_reason=30 isa=1\n", t, tid
			printf "0 %d %d kvm_mmio type=1 len=4 gpa=0x%x val=1\n", t + 10, tid, 4096 + i % 9
			printf "0 %d %d kvm_entry vcpu_id=%d\n", t + 20, tid, vcpu
		}
	}' >"$tmp/vms.txt"
	rm -f "$tmp/vms.dat"
	"$mkcap" --clock x86-tsc --trace-dat "$tmp/vms.dat" "$tmp/vms.txt" || exit 1
	for what in "--per vcpu" "--per vm --format json" "--per vm -e mmio" "--vm tids:100-103"; do
		# shellcheck disable=SC2086
		run "$kvmft" report --tsc-khz 1000000 $what -i "$tmp/vms.dat"
		status_is 0 "$1 threads, $2: report $what"
		out_has 'tids:100-10[34]' "... has the first VM"
		cp "$out" "$tmp/after"
		# shellcheck disable=SC2086
		run "$kvmft" report --tsc-khz 1000000 --from 0 $what -i "$tmp/vms.dat"
		ok "... and all as when it is looked for first" cmp -s "$tmp/after" "$out"
	done
done
# ---- threads that take any vCPU in turn ----

# Each exit takes 2 us, unless the thread goes on with another vCPU, or another thread had its vCPU meanwhile.
cat >"$tmp/floats.txt" <<-E
	0 1000 5001 kvm_entry vcpu_id=0 rip=4096
	0 2000 5001 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
	0 4000 5001 kvm_entry vcpu_id=0 rip=4096
	0 5000 5001 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
	1 20000 5002 kvm_entry vcpu_id=0 rip=4096
	1 21000 5002 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
	1 23000 5002 kvm_entry vcpu_id=0 rip=4096
	1 24000 5002 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
	0 30000 5001 kvm_entry vcpu_id=1 rip=4096
	0 31000 5001 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=1
	0 33000 5001 kvm_entry vcpu_id=1 rip=4096
	0 34000 5001 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=1
	1 50000 5002 kvm_entry vcpu_id=1 rip=4096
	1 51000 5002 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=1
	0 60000 5001 kvm_entry vcpu_id=1 rip=4096
	0 61000 5001 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=1
	0 63000 5001 kvm_entry vcpu_id=1 rip=4096
E
ok "threads that take any vCPU" "$mkcap" --trace-dat "$tmp/floats.dat" "$tmp/floats.txt"
run "$kvmft" report --format json "$tmp/floats.dat"
status_is 0 "... report"
out_has '"samples":7,"timed":4,.*"min_ns":2000,"max_ns":2000,' "... exits are those of one vCPU and thread"
out_has '"vm":"tids:5001,5002",' "... of one VM"
is "$(grep -o '"vm":' "$out" | wc -l | tr -d ' ')" 1 "... and no other"
out_has '"vcpus":2,' "... with two vCPUs, whichever threads had them"
run "$kvmft" report "$tmp/floats.dat"
out_has '^# 3 exits have no time: another thread entered their vCPU next, or their thread another vCPU$' "... and says why"
# What follows one vCPU says that it cannot, and does not take a thread for a vCPU.
for command in "latency sched" blame "stuck -i"; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" $command "$tmp/floats.dat"
	status_is 4 "$command: makes nothing of them"
	err_has '^kvmft [a-z]*: tids:5001,5002: its threads take any of its vCPUs in turn: ' "... and says why"
	ok "... and nothing else" test ! -s "$out"
done
# Beside a VM that has a thread for each vCPU.
{
	echo "meta vm id=5000-12 pid=5000 fd=12 name=any"
	echo "meta vcpu vm=5000-12 id=0 tid=5001 offset=0 ratio=0 frac=48"
	echo "meta vcpu vm=5000-12 id=1 tid=5002 offset=0 ratio=0 frac=48"
	echo "meta vm id=6000-12 pid=6000 fd=12 name=one"
	echo "meta vcpu vm=6000-12 id=0 tid=6001 offset=0 ratio=0 frac=48"
	cat "$tmp/floats.txt"
	echo "2 1000 6001 kvm_entry vcpu_id=0 rip=4096"
	echo "2 2000 6001 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0"
	echo "2 9000 6001 kvm_entry vcpu_id=0 rip=4096"
	echo "2 9500 6001 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0"
} >"$tmp/beside.txt"
ok "beside another VM" "$mkcap" --capture "$tmp/beside" "$tmp/beside.txt"
for command in "latency sched" blame "stuck -i"; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" $command "$tmp/beside"
	status_is 0 "$command: of the other VM"
	ok "... and that one is left out" grep -q 'any: its threads take any of its vCPUs in turn: ' "$out" "$err"
	ok "... and is in no row" sh -c "! grep -E '^any |^any:|thread 500' '$out'"
done

# ---- big-endian files: what they are, why not, and what shows them ----

mkdir "$tmp/big"
{ printf '\027\010\104tracing6\000\001\010\000\000\020\000' && head -c 5000 /dev/zero; } >"$tmp/big/trace.dat"
{ printf '2ELIFREP\000\000\000\000\000\000\000\150' && head -c 5000 /dev/zero; } >"$tmp/big/perf.data"
ok "a capture" "$mkcap" --capture "$tmp/big/capture" "$tmp/floats.txt"
sed -i 's/ endian=little/ endian=big/' "$tmp/big/capture/meta"
for file in trace.dat:trace-cmd.report perf.data:perf.script capture:record.there; do
	run "$kvmft" report "$tmp/big/${file%:*}"
	status_is 1 "${file%:*} of a big-endian machine: refused, exit 1"
	err_has "of a big-endian machine, and kvmft reads those of x86 and arm64 only: ${file#*:}" "... says what to do"
	err_one_line "${file%:*} of a big-endian machine"
done
{ printf '\377\377\377\377\377\377\377\377\362\261\167\313\012\244\051\264' && head -c 99 /dev/zero; } >"$tmp/big/qemu"
run "$kvmft" merge --qemu "$tmp/big/qemu"
status_is 1 "QEMU's trace of a big-endian machine: refused, exit 1"
err_has "is of a big-endian machine, .*x86 and arm64 only: QEMU's simpletrace.py" "... says what to do"
{ printf '\177ELF\002\002\001' && head -c 99 /dev/zero; } >"$tmp/big/elf"
run "$kvmft" qemu sdt "$tmp/big/elf"
ok "a program of a big-endian machine: refused" test "$rc" -ne 0
err_has "for a big-endian machine" "... says why"

finish
