#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# One recording by itself, in whatever trace clock: every analysis works in that clock.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

# A vCPU is woken at 5000.03 s; its CPU leaves idle state 2 forty milliseconds later.
cat >"$tmp/idle.txt" <<-E
	2 5000000080000 900 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
	2 5000000082000 900 sched:sched_switch prev_pid=900 prev_state=1 next_pid=0
	2 5000000083000 0 power:cpu_idle state=2 cpu_id=2
	2 5000030000000 0 sched:sched_wakeup pid=900 target_cpu=2
	2 5000070000000 0 power:cpu_idle state=4294967295 cpu_id=2
	2 5000070001000 0 sched:sched_switch prev_pid=0 next_pid=900
	2 5000070002000 900 kvm_entry vcpu_id=0 rip=4096
	2 5000070003000 900 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
	2 5000070004000 900 kvm_entry vcpu_id=0 rip=4096
E

for clock in local global perf mono mono_raw boot; do
	ok "$clock" "$mkcap" --clock $clock --trace-dat "$tmp/$clock.dat" "$tmp/idle.txt"
	run "$kvmft" merge "$tmp/$clock.dat"
	status_is 0 "$clock: merge"
	out_has '^host .* 5000.000080000  kvm:kvm_exit: ' "... in seconds of that clock"
	is "$(wc -l <"$out" | tr -d ' ')" 9 "... all of it"
	run "$kvmft" blame --top 1 "$tmp/$clock.dat"
	status_is 0 "$clock: blame"
	out_has '^1\. 40 ms .* at 5000.030000000' "... the 40 ms"
	out_has 'its CPU 2 took long to leave idle state 2' "... and what had the vCPU's CPU"
	run "$kvmft" latency sched --format json "$tmp/$clock.dat"
	status_is 0 "$clock: latency sched"
	out_has '"max_ns":40001000,' "... the same"
done
if command -v trace-cmd >/dev/null; then
	run trace-cmd report -t "$tmp/mono.dat"
	out_has '5000\.000080000: .*kvm_exit' "trace-cmd prints the same time"
else
	skip "trace-cmd's times" "trace-cmd is not installed"
fi
run "$kvmft" merge --format json "$tmp/mono.dat"
out_has '"clock":"ns","unit":"ns","khz":1000000,"tsc_khz":null,"tsc_khz_source":null' "no TSC is claimed"
run "$kvmft" merge --from 5000.07 --to 5000.070001 "$tmp/mono.dat"
is "$(wc -l <"$out" | tr -d ' ')" 2 "--from and --to are that clock's"
run "$kvmft" blame --at 5000.05 --top 1 "$tmp/mono.dat"
out_has '^1\. 40 ms' "--at, too"
run "$kvmft" merge --clock host-tsc "$tmp/mono.dat"
status_is 4 "what cannot be known of it is refused"
err_has 'trace clock mono needs readings of that clock' "... with the reason"

ok "counter" "$mkcap" --clock counter --trace-dat "$tmp/counter.dat" "$tmp/idle.txt"
run "$kvmft" blame "$tmp/counter.dat"
status_is 0 "counter: blame"
err_has 'the trace clock counter is no time: what stands as cycles are its counts' "... says what its numbers are"
out_has '^1\. 40002000 cycles' "... and has them"

# A month of uptime: TSC2NSEC's multiplier is rounded, so kHz made of it are 100 ms away from what trace-cmd shows.
sed 's/ 5000/ 7000005000/' "$tmp/idle.txt" >"$tmp/month.txt"
ok "x86-tsc" "$mkcap" --capture "$tmp/month" "$tmp/month.txt"
run "$kvmft" export -q -i "$tmp/month" --tsc-khz 2599998 -o "$tmp/month.dat"
run "$kvmft" merge -q "$tmp/month.dat"
cut -d ']' -f 2 "$out" | sed 's/^ *\([0-9.]*\)  .*/\1/' >"$tmp/times"
is "$(wc -l <"$tmp/times" | tr -d ' ')" 9 "nine times"
if command -v trace-cmd >/dev/null; then
	is "$(cat "$tmp/times")" "$(trace_cmd_report -t "$tmp/month.dat" 2>&1 | sed -n 's/^.*\] *\([0-9.]*\): .*/\1/p')" \
		"with TSC2NSEC: trace-cmd's times, to the ns"
else
	skip "times by TSC2NSEC" "trace-cmd is not installed"
fi
run "$kvmft" merge -q --from "$(sed -n 4p "$tmp/times")" "$tmp/month.dat"
is "$(wc -l <"$out" | tr -d ' ')" 6 "... which --from takes"

# What any command printed is accepted by every other one, on the same file. In cycles times have no unit, and a
# recording is long enough for diff after 2 * 10^8 of them.
awk 'BEGIN { for (i = 0; i < 200; i++) {
	t = 5000000000000 + i * 2000000
	printf "2 %.0f 900 kvm_entry vcpu_id=0 rip=4096\n", t
	printf "2 %.0f 900 kvm_exit exit_reason=32 isa=1 guest_rip=4096 vcpu_id=0\n", t + 1000000
} }' >"$tmp/long.txt"
for clock in x86-tsc counter uptime local; do
	f=$tmp/long.$clock.dat
	ok "$clock, longer" "$mkcap" --clock $clock --trace-dat "$f" "$tmp/long.txt"
	run "$kvmft" merge -q "$f"
	cut -d ']' -f 2 "$out" | sed 's/^ *\([0-9.]*\)  .*/\1/' >"$tmp/times"
	from=$(sed -n 101p "$tmp/times") to=$(sed -n 300p "$tmp/times")
	run "$kvmft" merge -q --from "$from" --to "$to" "$f"
	is "$(wc -l <"$out" | tr -d ' ')" 200 "$clock: merge --from $from --to $to"
	run "$kvmft" export -q --to text -i "$f" --from "$from" --until "$to"
	is "$(wc -l <"$out" | tr -d ' ')" 200 "... export"
	run "$kvmft" report --format csv -i "$f" --from "$from" --to "$to"
	is "$(sed -n 's/^[^,]*,,MSR_WRITE,\([0-9]*\),.*/\1/p' "$out")" 99 "... report"
	run "$kvmft" diff --format json --from "$from" --to "$to" "$f" "$f"
	out_has '"length_ns":199000000,"slices":40,"slice_ns":5000000,"exits":99,' "... diff"
	run "$kvmft" latency sched --from "$from" --to "$to" "$f"
	err_has 'host: 200 events' "... latency"
	at=$(sed -n 102p "$tmp/times")
	run "$kvmft" blame --from "$from" --to "$to" "$f"
	out_has "at $at\$" "... blame"
	run "$kvmft" blame --at "$at" --top 1 "$f"
	out_has "at $at\$" "... blame --at"
	run "$kvmft" stuck -i "$f"
	status_is 0 "... stuck"
	if [ $clock = local ]; then
		out_has '501/s: MSR_WRITE' "... knows how often it exits"
	else
		out_has 'exits/s not known' "... says what is not known"
		err_has "how long its clock's ticks are is not known" "... and why"
	fi
done
run "$kvmft" stuck -i "$tmp/long.x86-tsc.dat" --tsc-khz 2000000
out_has '1002/s: MSR_WRITE' "stuck --tsc-khz"
run "$kvmft" diff --all "$tmp/long.counter.dat" "$tmp/long.counter.dat"
out_has '^before .*: 399000000 cycles, 199 exits' "diff of counts"
out_has '^MSR_WRITE +mean time +1000000 cycles +1000000 cycles ' "... in cycles"
run "$kvmft" diff "$tmp/long.counter.dat" "$tmp/long.local.dat"
status_is 4 "... not with ns"
run "$kvmft" report --from 1s -i "$tmp/long.x86-tsc.dat"
status_is 2 "seconds of what has none"

# Two clocks are related by an offset, which must be recorded or found in the events.
run "$kvmft" merge "$tmp/mono.dat" "$tmp/local.dat=tids:900"
status_is 4 "a pair"
err_has 'the clock offset in ns of tids:900 is not recorded, and the events do not tell it: .*; record both at once with .kvmft record. or trace-cmd record -A, ' "... needs events that do"

# What would help there has another name on arm64, which has no TSC.
ok "arm64" "$mkcap" --capture "$tmp/arm64.dat" "$top/tests/golden/report-arm64.txt"
sed -i 's/x86-tsc/counter/g' "$tmp/arm64.dat/meta"
for host in "arm64:mono_raw (trace-cmd: -C mono_raw)" "long.counter:x86-tsc (trace-cmd: -C x86-tsc)"; do
	run "$kvmft" merge "$tmp/${host%%:*}.dat" "$tmp/local.dat"
	status_is 4 "a host in a count, ${host%%:*}"
	ok "... the clock to record with" grep -F "trace clock counter cannot be aligned: record with --clock ${host#*:}" "$err"
done

# A TSC offset is in cycles: where the clocks of both sides count ns, it is not theirs.
{
	echo "2 5000000070000 900 kvm_write_tsc_offset vcpu_id=0 previous_tsc_offset=0 next_tsc_offset=77"
	cat "$tmp/idle.txt"
} >"$tmp/offset.txt"
ok "a host that saw a TSC offset" "$mkcap" --clock local --trace-dat "$tmp/offset.dat" "$tmp/offset.txt"
run "$kvmft" merge "$tmp/offset.dat" "$tmp/mono.dat=tids:900"
status_is 4 "... and a guest"
err_has 'the clock offset in ns of tids:900 is not recorded' "... which it does not relate"

# arm64's kvm_entry does not say which vCPU it is; the names that VMMs give their threads do.
cat >"$tmp/arm.txt" <<-END
	meta task tid=901 tgid=0 comm=CPU%203/KVM
	meta task tid=902 tgid=0 comm=CPU%204/KVM%20x
	0 1000000000 901 kvm_entry vcpu_pc=4096
	0 1000020000 901 kvm_exit ret=0 esr_ec=0 vcpu_pc=4096
	0 1060020000 901 kvm_entry vcpu_pc=4096
	0 1060030000 902 kvm_entry vcpu_pc=4096
	0 1060040000 902 kvm_exit ret=0 esr_ec=0 vcpu_pc=4096
END
ok "arm64" "$mkcap" --formats formats-6.1-arm64.txt --capture "$tmp/arm" "$tmp/arm.txt"
run "$kvmft" latency sched --format json --vm tids:901 "$tmp/arm"
out_has '"vcpus":\[\{"vm":"[^"]*","vcpu":3,' "... vCPU 3, by its thread's name"
run "$kvmft" report --per vcpu --format csv -i "$tmp/arm"
is "$(grep -c ',4,' "$out")" 0 "... and none by a name that no VMM gives"

# The time of day: by trace-cmd record --date, and by perf record -k. 1767225600 is 2026-01-01 00:00:00 UTC.
ok "a trace.dat with a date" "$mkcap" --date 1767220600000000 --trace-dat "$tmp/date.dat" "$tmp/idle.txt"
files="$tmp/date.dat"
if "${KVMFT_TOOLS:-$top/build/tests/tools}/perfdata" --day 1767220600000000000 "$tmp/date.dat" "$tmp/date.perf" kvm_entry kvm_exit; then
	files="$files $tmp/date.perf"
fi
for f in $files; do
	TZ=UTC run "$kvmft" merge --clock realtime "$f"
	status_is 0 "${f##*/}: merge --clock realtime"
	out_has '\] +2026-01-01 00:00:00.000080000  kvm:kvm_exit: ' "... date and time of day"
	for from in 2026-01-01T00:00:00.07Z 2026-01-01T01:00:00.07+01:00 @1767225600.07; do
		run "$kvmft" merge --from $from "$f"
		is "$(wc -l <"$out" | tr -d ' ') $(grep -c '5000.070004000  kvm:kvm_entry' "$out")" \
			"$(run "$kvmft" merge --from 5000.07 "$f"; wc -l <"$out" | tr -d ' ') 1" "... --from $from"
		run "$kvmft" report --from $from -i "$f"
		out_has 'HLT +1 ' "... of report, too"
	done
	TZ=UTC run "$kvmft" report --from 00:00:00.07 -i "$f"
	out_has 'HLT +1 ' "... without a date it is that day"
done
TZ=UTC run "$kvmft" blame --clock realtime --top 1 "$tmp/date.dat"
out_has '^1\. 40 ms .* at 2026-01-01 00:00:00.030000000' "blame has it"
if command -v trace-cmd >/dev/null; then
	run trace-cmd report -t "$tmp/date.dat"
	out_has ' 1767225600\.000080000: ' "... and trace-cmd"
fi
ok "cycles have no date" "$mkcap" --clock x86-tsc --date 1767220600000000 --trace-dat "$tmp/cycles.dat" "$tmp/idle.txt"
LC_ALL=C sed s/1767220600000000/17672206x0000000/ "$tmp/date.dat" >"$tmp/nodate.dat"
ok "a date that is no number" test "$(cmp -l "$tmp/date.dat" "$tmp/nodate.dat" | wc -l)" = 1
for f in mono cycles nodate; do
	run "$kvmft" merge --clock realtime "$tmp/$f.dat"
	status_is 4 "$f.dat: no time of day"
	err_has 'has no readings of realtime .*trace-cmd record --date' "... what would give it"
done

# What is no recording is called what it is, and what to do with it.
cd "$tmp" || exit 1
mkdir -p ctf lttng/kernel
printf '/* CTF 1.8 */' | tee ctf/metadata >lttng/kernel/metadata
tar cf run.tar ctf
printf '{"a":1}' >page.json
"$kvmft" export -q --to perfetto -i "$tmp/mono.dat" -o page.pftrace
printf '[    0.000000] Linux version 6.1.0\n[    0.000000] Command line: quiet\n' >boot.log
printf 'PID      TID      KVM_EXIT_REASON                     COUNT\n1273551  1273568  EXIT_REASON_MSR_WRITE               6\n' >exits.txt
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n' >lfs.dat
printf '\0\5\26\7\0\2\0\0Mac OS X' >._a.dat
for other in "ctf:a CTF trace, as of LTTng: record with" "ctf/metadata:a CTF trace" "lttng:a CTF trace" "run.tar:a tar archive without a capture of kvmft record: unpack it" \
	"page.pftrace:perhaps a Perfetto trace, which kvmft writes" "page.json:JSON, which kvmft writes but does not read" "/bin/sh:a program or a core dump" \
	"boot.log:perhaps the kernel's log \\(dmesg\\)" "exits.txt:perhaps counts of bcc's kvmexit, without times: kvmft exits" \
	"lfs.dat:what git has instead of the file: git lfs pull" "._a.dat:what macOS keeps beside a file: give the file itself"; do
	run "$kvmft" merge "${other%%:*}"
	status_is 1 "merge ${other%%:*}"
	err_has "merge: ${other%%:*}: ${other#*:}" "... says what it is"
done
finish
