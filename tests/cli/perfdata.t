#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# perf.data as input: made from the same events as a trace.dat it gives the same tables and lines; as the host
# of a pair; beside perf itself, of a small VM that perf records here; and what is refused.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

golden=$top/tests/golden
tools=${KVMFT_TOOLS:-$top/build/tests/tools}
events="kvm_entry kvm_exit kvm_mmio kvm_pio kvm_msr kvm_hypercall kvm_cpuid kvm_page_fault kvm_fast_mmio kvm_inj_virq \
	kvm_userspace_exit kvm_vcpu_wakeup kvm_halt_poll_ns kvm_write_tsc_offset sched:sched_switch sched:sched_wakeup \
	syscalls:sys_enter_ioctl"

# perf_data INPUT FILE [OPTION...]
perf_data()
{
	in=$1
	to=$2
	shift 2
	# shellcheck disable=SC2086 # names
	"$tools/perfdata" "$@" "$in" "$to" $events
}

# ---- the same events, in either file ----

for f in basic access split loss; do
	ok "$f: as trace.dat" "$tools/mkcap" --trace-dat "$tmp/$f.dat" "$golden/report-$f.txt"
	ok "$f: as perf.data" perf_data "$tmp/$f.dat" "$tmp/$f.perf"
done

# same_report NAME OPTION...: of all together, for perf tells of processes what a trace.dat does not.
same_report()
{
	f=$1
	shift
	set -- --per all "$@"
	"$kvmft" report -i "$tmp/$f.dat" "$@" 2>"$err" >"$tmp/want"
	want=$?
	run "$kvmft" report -i "$tmp/$f.perf" "$@"
	status_is "$want" "$f $*: same status"
	# What the kernel was, and on which CPU's clock, is not in both.
	grep -v '^# kernel:' "$tmp/want" >"$tmp/a"
	grep -v '^# kernel:' "$out" >"$tmp/b"
	ok "... same tables" sh -c "test -s '$tmp/a' && diff '$tmp/a' '$tmp/b'"
}

for format in text csv json; do
	same_report basic --percentiles --format $format
done
same_report basic --vcpu 0
same_report basic -p 101
for event in vmexit mmio ioport msr hypercall cpuid page-fault fast-mmio inject; do
	same_report access --event $event
done
for event in vmexit mmio ioport msr; do
	same_report access --event $event --semantics perf
done
same_report split --split --percentiles
same_report loss
err_has 'events lost' "... and losses are reported"
status_is 3 "... exit 3"
for f in basic split loss; do
	"$kvmft" export -q -i "$tmp/$f.dat" --to text >"$tmp/want" 2>"$err"
	run "$kvmft" export -q -i "$tmp/$f.perf" --to text
	ok "$f: same lines" sh -c "test -s '$tmp/want' && diff '$tmp/want' '$out'"
done

# ---- to other formats ----

run "$kvmft" export -i "$tmp/split.perf" -o "$tmp/back.dat"
status_is 0 "export to trace.dat"
"$kvmft" export -q -i "$tmp/split.perf" --to text >"$tmp/want" 2>"$err"
run "$kvmft" export -q -i "$tmp/back.dat" --to text
ok "... which holds the same" sh -c "test -s '$tmp/want' && diff '$tmp/want' '$out'"
if command -v trace-cmd >/dev/null; then
	is "$(trace-cmd report -i "$tmp/back.dat" 2>/dev/null | grep -c ': kvm_')" "$(grep -c ' kvm:' "$tmp/want")" \
		"... and which trace-cmd reads"
else
	skip "trace-cmd reads it" "trace-cmd is not installed"
fi
run "$kvmft" export -i "$tmp/split.perf" --to json
status_is 0 "export to JSON"
is "$(grep -c '"event":"kvm:kvm_exit"' "$out")" "$(grep -c 'kvm_exit:' "$tmp/want")" "... every exit is there"
run "$kvmft" export -i "$tmp/split.perf" --to perfetto -o "$tmp/perfetto"
status_is 0 "export to perfetto"
run "$kvmft" export -i "$tmp/split.perf" --to html -o "$tmp/html"
status_is 0 "export to html"

# ---- a part of the time ----

"$tools/gen" --trace-dat "$tmp/gen.dat" --events 20000 --cpus 3
ok "larger: as perf.data" perf_data "$tmp/gen.dat" "$tmp/gen.perf"
for window in "" "--from 0.02" "--to 0.02" "--from 0.02 --to 0.03"; do
	# shellcheck disable=SC2086 # several words
	same_report gen --tsc-khz 1000000 $window
done
"$kvmft" export -q -i "$tmp/gen.perf" --to text >"$tmp/all" 2>"$err"
sed -nE '/\] +0\.02[0-9]{7} /p' "$tmp/all" >"$tmp/want"
run "$kvmft" export -q -i "$tmp/gen.perf" --to text --from 0.02 --until 0.029999999
ok "the lines of a part are the same as in all" sh -c "test $(wc -l <"$tmp/want") -gt 1000 && diff '$tmp/want' '$out'"

# ---- as a host ----

# pair NAME [OPTION...]: $tmp/NAME/host, guest and perf.data, which is the host's.
pair()
{
	dir=$tmp/$1
	shift
	mkdir "$dir"
	"$tools/genpair" --host "$dir/host" --guest "$dir/guest" "$@"
	perf_data "$dir/host" "$dir/perf.data" --conv --khz 2000000
}

offset=-900000000000
ok "a pair" pair pair
cd "$tmp/pair" || exit 1
run "$kvmft" verify --tsc-offset $offset perf.data guest=4000
status_is 0 "perf.data as the host: aligned"
# A cycle is half a ns: an exit may have been one later than the first that fits.
out_has '^  moved by more than -150[0-2] cycles .* or \+150[0-2] cycles' "... as exactly as perf's clock allows"
out_has '^pid:4000: aligned' "... the VM is known by its process"
run "$kvmft" verify --tsc-offset $((offset + 3200)) perf.data guest=4000
status_is 1 "an offset that is 1.6 us wrong: misaligned"
run "$kvmft" verify --solve perf.data guest=4000
status_is 0 "the offset solved"
run "$kvmft" merge perf.data guest
status_is 0 "no option at all: VM and offset are found in the events"
err_has 'pid:4000 [(]tids:4001,4002[)]: the only VM there' "... the VM by what perf says of its threads"
err_has ' guest events checked, 0 outside' "... aligned"
# One event has one time: perf's, whichever command prints it.
sed -nE 's/^host .*\] +([0-9.]+)  .*/\1/p' "$out" | sort -n >"$tmp/have"
"$kvmft" export -q --to text -i perf.data 2>"$err" | sed -nE 's/^host .*\] +([0-9.]+)  .*/\1/p' | sort -n >"$tmp/want"
ok "perf's times, as of the file alone" sh -c "test -s '$tmp/want' && cmp '$tmp/want' '$tmp/have'"
run "$kvmft" merge -q --from 500.05 --to 500.06 perf.data guest
out_has '\] +500\.05' "--from and --to are of that clock"
is "$(sed -E 's/.*\] +([0-9]+\.[0-9]{2})[0-9]*  .*/\1/' "$out" | sort -u)" 500.05 "... in all lines"
at=$("$kvmft" blame --top 1 perf.data 2>"$err" | sed -n 's/^1\. .* at //p')
run "$kvmft" blame --top 1 perf.data guest
out_has "^1\. .* at $at\$" "blame has them with and without the guest (at $at)"
run "$kvmft" report -i perf.data --vm 4000 --per vcpu --format csv
status_is 0 "report --vm PID"
is "$(cut -d, -f 1,2 "$out" | sort -u | tr '\n' ' ')" "pid:4000, pid:4000,0 pid:4000,1 vm,vcpu " "... with its vCPUs"
# stamps FILE OPTION...: of all lines, in cycles.
stamps()
{
	"$kvmft" merge -q --clock host-tsc "$@" 2>"$err" | sed -nE 's/.*\] +([0-9]+)  .*/\1/p' | sort -n
}

stamps host guest >"$tmp/want"
stamps --tsc-offset $offset perf.data guest=4000 >"$tmp/have"
is "$(wc -l <"$tmp/have")" "$(wc -l <"$tmp/want")" "merge: as many lines as of the host's own capture"
paste "$tmp/want" "$tmp/have" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d }
	END { print "furthest: " most; exit !(NR > 1000 && most <= 2) }' >"$tmp/far"
result $? "... each within a ns of where that has it"
sed 's/^/# /' "$tmp/far"
run "$kvmft" merge --tsc-offset $offset --from 500.05 --to 500.06 perf.data guest=4000
status_is 0 "merge: a part of it"
err_has 'alignment of pid:4000: [1-9][0-9]* guest events checked, 0 outside' "... aligned"
run "$kvmft" merge --tsc-offset $offset --format json perf.data guest=4000
status_is 0 "merge to JSON"
run "$kvmft" latency irq --all --tsc-offset $offset perf.data guest=4000
status_is 4 "latency irq, whose events it lacks"
err_has 'the host capture has no kvm:kvm_apic_accept_irq: record it' "... names the first"
run "$kvmft" export -q -i perf.data --tsc-offset $offset -o both.dat guest=4000
status_is 0 "export of the pair"
ok "... the guest's file is there" test -s both-pid_4000.dat
cd "$top" || exit 1

# The events tell the offset: no option is needed.
ok "a pair whose TSC is written" pair jump --vcpus 1 --jump 3000000
run "$kvmft" verify "$tmp/jump/perf.data" "$tmp/jump/guest=4000"
status_is 0 "kvm_write_tsc_offset in a perf.data: aligned"
out_has ' 0 +0 +-' "... nothing outside"

ok "no word of the TSC" perf_data "$tmp/pair/host" "$tmp/bare.perf" --khz 2000000
run "$kvmft" merge --tsc-offset $offset "$tmp/bare.perf" "$tmp/pair/guest=4000"
status_is 4 "perf's clock alone: refused"
err_has 'does not relate perf.s clock to the TSC.*record with kvmft record' "... says why, and what to do"
err_one_line "perf's clock alone"

# A host whose trace clock is not its TSC, in a capture of kvmft's own.
for clock in local global perf; do
	mkdir "$tmp/$clock"
	"$tools/genpair" --host "$tmp/$clock/host" --guest "$tmp/$clock/guest" --host-clock $clock --jump 3000000
	run "$kvmft" verify "$tmp/$clock/host" "$tmp/$clock/guest"
	status_is 0 "a host in trace clock $clock: aligned"
	# Its readings of the clock are 100 to 130 cycles wide on either side.
	out_has '^  moved by more than -1[56][0-9][0-9] cycles .* or \+1[56][0-9][0-9] cycles' "... within what its readings allow"
done
sed -i '/^clock /d' "$tmp/local/host/meta"
run "$kvmft" merge "$tmp/local/host" "$tmp/local/guest"
status_is 4 "... without readings: refused"
err_has 'trace clock local needs readings of that clock against the TSC' "... says why"
run "$kvmft" verify "$tmp/local/host" "$tmp/local/guest"
status_is 4 "... verify does not say that it is misaligned"

# ---- a host with two VMs, of one of which there is a guest's file ----

# made NAME SEED VM...: $tmp/NAME/host.perf, whose processes have up to a hundred threads, and a .dat of each VM.
made()
{
	dir=$tmp/$1 seed=$2
	shift 2
	mkdir "$dir"
	awk -v dir="$dir" -v seed="$seed" -v vms="$*" -f "$top/tests/cli/foreign.awk" || exit 1
	for text in "$dir"/*.txt; do
		"$tools/mkcap" --clock x86-tsc --trace-dat "${text%.txt}.dat" "$text" || exit 1
	done
	perf_data "$dir/host.dat" "$dir/host.perf" --conv --khz 2000000 --vcpus 100
}

ok "two VMs in a perf.data" made two 7 web:-7000000000:201,202 db:-9000000000:301,302
made other 8 web:-7000000000:201,202
for guest in web:pid:200 db:pid:300; do
	vm=${guest#*:} guest=${guest%%:*}
	run "$kvmft" merge "$tmp/two/host.perf" "$tmp/two/$guest.dat"
	status_is 0 "$guest of two VMs"
	err_has "$guest.dat: $vm .*: all [1-9][0-9]* events fit" "... the right one, and why"
	err_has "alignment of $vm: [1-9][0-9]* guest events checked, 0 outside" "... aligned"
done
run "$kvmft" merge "$tmp/two/host.perf" "$tmp/two/web.dat" "$tmp/two/db.dat"
status_is 0 "both of them"
is "$(grep -cE 'alignment of pid:[23]00: .* 0 outside' "$err")" 2 "... aligned"
run "$kvmft" merge "$tmp/two/host.perf" "$tmp/two/web.dat=pid:300"
status_is 4 "the wrong one, by hand: refused"
is "$(wc -c <"$out")" 0 "... nothing is printed"
run "$kvmft" merge "$tmp/two/host.perf" "$tmp/other/web.dat"
status_is 4 "a guest of neither: refused"
is "$(wc -c <"$out")" 0 "... nothing is printed"
selectors=$(sed 's/.*VMs there: //' "$err" | grep -oE 'pid:[0-9]+' | sort)
is "$selectors" "$(printf 'pid:200\npid:300')" "... with both VMs to choose from"
for selector in $selectors; do
	run "$kvmft" report -i "$tmp/two/host.perf" --vm "$selector"
	status_is 0 "... $selector, which it names, is a VM"
	run "$kvmft" merge "$tmp/two/host.perf" "$tmp/two/web.dat=$selector"
	is "$rc" "$([ "$selector" = pid:200 ] && echo 0 || echo 4)" "... and one to pair with"
done

# ---- the end of the recording is on the TSC, as its events are: handlers before it count ----

mkdir "$tmp/irq"
sed 's/^\(.\) /\1 10000/' >"$tmp/irq/host.txt" <<'END'
0 02000 101 kvm_entry vcpu_id=0
0 04000 101 kvm_exit exit_reason=1 isa=1
1 04900 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
0 05000 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0 05100 101 kvm_entry vcpu_id=0
0 09900 101 kvm_exit exit_reason=1 isa=1
END
sed 's/^\(.\) /\1 10000/' >"$tmp/irq/guest.txt" <<'END'
0 03000  77 irq:softirq_raise vec=1
0 05600  77 irq:irq_handler_entry irq=30 common_flags=9
0 05700  77 irq:irq_handler_exit irq=30 common_flags=9
0 05800  77 irq:softirq_raise vec=1
END
for side in host guest; do
	"$tools/mkcap" --clock x86-tsc --trace-dat "$tmp/irq/$side.dat" "$tmp/irq/$side.txt"
done
events="$events kvm_apic_accept_irq" perf_data "$tmp/irq/host.dat" "$tmp/irq/perf.data" --conv --khz 1000000 --vcpus 100
run "$kvmft" latency irq --all --worst 0 --tsc-offset 0 "$tmp/irq/perf.data" "$tmp/irq/guest.dat"
status_is 0 "latency irq of a perf.data and its guest"
is "$(grep '^accepted' "$out")" "accepted 1; measured 1" "... from the APIC to the guest's handler"

# ---- memory ----

# Resident memory of a kvmft, KB; how much of it is pages of libraries depends on the machine.
takes()
{
	kb=$("$KVMFT_TOOLS/cpu" "${KVMFT_PLAIN:-$kvmft}" "$@") || [ $? = 3 ] || kb="0 0"
	echo "${kb#* }"
}

# fits FILE OPTION...: a report takes no more than 64 MiB beyond what kvmft takes to say its usage.
fits()
{
	in=$1
	shift
	kb=$(takes report -i "$in" "$@")
	ok "${in##*/} $*: $kb KB, $idle of it at rest" test "$kb" -gt 1000 -a "$kb" -le $((idle + 65536))
}

if [ -n "${KVMFT_TOOLS:-}" ]; then
	idle=$(takes report --help)
	for cpus in 64 2048; do
		"$makers/gen" --trace-dat "$tmp/wide.dat" --events 300000 --cpus $cpus
		perf_data "$tmp/wide.dat" "$tmp/cpus-$cpus.perf" --vcpus 64
		fits "$tmp/cpus-$cpus.perf" --percentiles --split
		fits "$tmp/cpus-$cpus.perf" --per vcpu
	done
	"$makers/gen" --trace-dat "$tmp/wide.dat" --events 3000000 --cpus 16
	perf_data "$tmp/wide.dat" "$tmp/long.perf"
	fits "$tmp/long.perf" --percentiles --per vcpu
	rm "$tmp/wide.dat" "$tmp"/cpus-*.perf "$tmp/long.perf"
else
	skip "memory" "KVMFT_TOOLS is not set"
fi

# ---- beside perf itself ----

need_recording "recordings of perf"
if ! perf record -q -e kvm:kvm_pio -o "$tmp/try" true >"$tmp/try.log" 2>&1; then
	skip "recordings of perf" "perf cannot record: $(head -n 1 "$tmp/try.log")"
	finish
fi

# perf_of FILE OPTION...: perf records the small VM for one of $moments, which is longer where the VM did not get to run.
# It rests $pause us between two exits, and stands while perf opens its events, which takes up to 5 s.
pause=300
moments="0.6 6 30"
perf_of()
{
	to=$1
	shift
	for moment in $moments; do
		first "$tinyvm" --pause $pause --ms 90000 >/dev/null 2>&1 &
		vm=$!
		sleep 0.1
		kill -STOP $vm
		perf "$@" -o "$to" -p $vm -- sh -c "kill -CONT $vm; exec sleep $moment" >"$tmp/perf.log" 2>&1
		kill -KILL $vm
		wait $vm 2>/dev/null
		vm=
		[ "$(script "$to" | head -n 11 | wc -l)" -le 10 ] || break
	done
}

# What perf script says, a line for each event: thread, CPU, time in ns, name.
script()
{
	perf script -i "$1" --ns -G -F tid,cpu,time,event 2>/dev/null | sed -nE 's/^ *([0-9]+) +\[0*([0-9]+)\] +([0-9]+)\.([0-9]+): +([a-z]+:[a-z_0-9]+): *$/\1 \2 \3\4 \5/p'
}

# lines FILE [COMMAND...]
lines()
{
	li_file=$1
	shift
	[ $# -gt 0 ] || set -- export -q --to text -i
	"$kvmft" "$@" "$li_file" 2>"$err" | sed -nE '/  ftrace:kernel_stack:/d; s/^host .*-([0-9]+) +\[0*([0-9]+)\] +([0-9]+)\.([0-9]+)  ([a-z]+:[a-z_0-9]+):.*$/\1 \2 \3\4 \5/p'
}

same_as_script()
{
	script "$1" >"$tmp/want"
	lines "$1" >"$tmp/have"
	ok "$2: perf has events" test "$(wc -l <"$tmp/want")" -gt 10
	ok "... one by one the same, in the same order" cmp "$tmp/want" "$tmp/have"
	lines "$1" merge -q >"$tmp/have"
	ok "... merge has perf's times, too" cmp "$tmp/want" "$tmp/have"
}

perf_of "$tmp/all.data" record -q -e 'kvm:*'
same_as_script "$tmp/all.data" "perf record -e kvm:*"
perf_of "$tmp/stat.data" kvm stat record
same_as_script "$tmp/stat.data" "perf kvm stat record"
perf_of "$tmp/chain.data" record -q -g -e kvm:kvm_pio -e kvm:kvm_mmio
same_as_script "$tmp/chain.data" "with call chains"
# The kernel's callers, whose addresses have the highest bit.
perf script -i "$tmp/chain.data" -F tid,time,event,ip 2>/dev/null |
	sed -nE 's/^\t *([0-9a-f]{16})$/0x\1/p; s/^ *[0-9]+ .*:.*/event/p' >"$tmp/want"
"$kvmft" merge -q "$tmp/chain.data" 2>"$err" | sed -nE '/ kvm:/s/.*/event/p; s/.*ftrace:kernel_stack: //p' |
	sed 's/ <- /\n/g' >"$tmp/have"
ok "... each caller in the kernel" cmp "$tmp/want" "$tmp/have"
ok "... there are some" test "$(grep -c 0x "$tmp/have")" -gt 20
perf_of "$tmp/mix.data" record -q --sample-cpu -e kvm:kvm_pio -e cpu-clock
same_as_script "$tmp/mix.data" "with samples of another kind"
perf_of "$tmp/thread.data" record -q --per-thread -e kvm:kvm_pio -e kvm:kvm_userspace_exit
same_as_script "$tmp/thread.data" "--per-thread"
for clock in mono raw; do
	perf_of "$tmp/$clock.data" record -q -k $clock -e kvm:kvm_pio
	same_as_script "$tmp/$clock.data" "-k $clock"
done

# Samples of all kinds fill many pieces, in which records begin and end anywhere.
pause=0
moments="0.2 2 20"
few="-e kvm:kvm_pio -e kvm:kvm_mmio -e kvm:kvm_userspace_exit"
# shellcheck disable=SC2086 # options
perf_of "$tmp/z.data" record -q -z -m 1M $few
ok "perf record -z: packed" sh -c "perf report --header-only -i '$tmp/z.data' 2>/dev/null | grep -q '# compressed : Zstd'"
same_as_script "$tmp/z.data" "perf record -z"
pause=300
# perf writes it to a pipe, from which it comes to a file.
for o in -q -z; do
	"$tinyvm" --pause $pause --ms 60000 >/dev/null 2>&1 &
	vm=$!
	sleep 0.1
	kill -STOP $vm
	perf record -q $o $few -o - -p $vm -- sh -c "kill -CONT $vm; exec sleep 0.6" 2>"$tmp/perf.log" |
		cat >"$tmp/pipe.data"
	kill -KILL $vm
	wait $vm 2>/dev/null
	vm=
	same_as_script "$tmp/pipe.data" "perf record $o -o -"
	"$kvmft" merge -q "$tmp/pipe.data" >"$tmp/whole" 2>/dev/null
	whole=$? # 3 where perf lost some
	cat "$tmp/pipe.data" | "$kvmft" merge -q - >"$out" 2>"$err"
	ok "... straight from the pipe" cmp "$tmp/whole" "$out"
	# A packed record with nothing in it, which perf never writes, before each that is packed.
	perl -e 'local $/; $_ = <STDIN>; my $at = unpack "x8Q", $_; print substr $_, 0, $at;
		while ($at + 8 <= length) { my ($type, $n) = unpack "x$at Lx2S", $_; last if $n < 8;
			$n += unpack "x$at x8L", $_ if $type == 66;
			print pack "LSS", 81, 0, 8 if $type == 81 || $type == 83; print substr $_, $at, $n; $at += $n }' \
		<"$tmp/pipe.data" >"$tmp/nothing.data"
	run "$kvmft" merge -q "$tmp/nothing.data"
	is "$rc $(grep -c . "$out")" "$whole $(grep -c . "$tmp/whole")" "... with empty packed records: all events"
	# Before the first that is packed 300 MB of records of no kind, in some 30 kB.
	if [ "$o" = -z ] && command -v zstd >/dev/null; then
		perl -e 'print pack("LSSx65520", 200, 0, 65528) x 16 for 1 .. 300' | zstd -q -3 >"$tmp/bomb.zst"
		perl -e 'local $/; my $z = <STDIN>; open F, $ARGV[0]; $_ = <F>; my $at = unpack "x8Q", $_; my $done;
			print substr $_, 0, $at;
			while ($at + 8 <= length) { my ($type, $n) = unpack "x$at Lx2S", $_; last if $n < 8;
				$n += unpack "x$at x8L", $_ if $type == 66;
				print map { pack("LSS", 81, 0, 8 + length) . $_ } $z =~ /.{1,60000}/sg
					if ($type == 81 || $type == 83) && !$done++;
				print substr $_, $at, $n; $at += $n }' "$tmp/pipe.data" <"$tmp/bomb.zst" >"$tmp/nothing.data"
		run "$kvmft" merge -q "$tmp/nothing.data"
		status_is 1 "... $(stat -c %s "$tmp/nothing.data") bytes that are 300 MB unpacked"
		err_has 'unpacks to over 1 GiB, or to 250 times its size' "... are refused"
	fi
	truncate -s $(($(stat -c %s "$tmp/pipe.data") - 1001)) "$tmp/pipe.data"
	# What stands whole before the cut: nothing, where perf was slow and wrote all that it packed at once.
	perl -e 'local $/; $_ = <STDIN>; my $at = unpack "x8Q", $_;
		while ($at + 8 <= length) { my ($type, $n) = unpack "x$at Lx2S", $_; last if $n < 8;
			$n += unpack "x$at x8L", $_ if $type == 66;
			last if $at + $n > length; $at += $n } print substr $_, 0, $at' \
		<"$tmp/pipe.data" >"$tmp/whole.data"
	"$kvmft" merge -q "$tmp/whole.data" >"$tmp/whole" 2>/dev/null
	[ -s "$tmp/whole" ] && whole=3 || whole=1
	run "$kvmft" merge "$tmp/pipe.data"
	is "$rc" $whole "... cut: exit $whole"
	# A CPU that was not heard of until then has a line that says so.
	grep -v 'PERHAPS NOT RECORDED' "$out" | cmp -s "$tmp/whole" -
	result $? "... the events before the cut"
	err_has 'damaged record at byte [0-9]+: the [0-9]+ bytes from|packed records are damaged, or cut' "... says so"
done

# Too small a ring: what perf lost is what kvmft says was lost.
pause=0
# shellcheck disable=SC2086 # options
perf_of "$tmp/lost.data" record -q -m 1 $few
perf report -D -i "$tmp/lost.data" 2>/dev/null | grep -a 'PERF_RECORD_LOST' >"$tmp/lost"
want=$(sed -nE 's/.*lost samples *: *([0-9]+).*/\1/p' "$tmp/lost" | awk '{ n += $1 } END { print n + 0 }')
run "$kvmft" export -i "$tmp/lost.data" --to text
ok "perf lost something" test "$want" -gt 0
err_has "host: $(script "$tmp/lost.data" | wc -l) events, $want lost\$" "events stored and lost are perf's ($want lost)"
status_is 3 "... exit 3"

pause=300

# refused FILE PATTERN NAME
refused()
{
	run "$kvmft" report -i "$1"
	status_is 1 "$3: refused"
	err_has "$2" "... says why"
	err_one_line "$3"
}

perf_of "$tmp/dir.data" record -q --threads -e kvm:kvm_pio
refused "$tmp/dir.data" 'perf record --threads.*record without --threads' "perf record --threads"
refused "$tmp/dir.data/data" 'perf record --threads.*record without --threads' "... the file in it that has the header"
perf_of "$tmp/over.data" record -q --overwrite -e kvm:kvm_pio
refused "$tmp/over.data" 'record without' "perf record --overwrite"
moments=0.2 # there is no exit to wait for
perf_of "$tmp/hw.data" record -q -e cpu-clock
refused "$tmp/hw.data" 'no tracepoints.*perf record -e' "no tracepoints"
perf record -q -e cpu-clock -o - true >"$tmp/pipe.data" 2>"$tmp/perf.log"
refused "$tmp/pipe.data" 'no tracepoints.*perf record -e' "no tracepoints, from a pipe"
"$tinyvm" --pause $pause --ms 60000 >/dev/null 2>&1 &
vm=$!
# The shell becomes perf: then its id is known.
sh -c "exec perf record -q -e kvm:kvm_pio -p $vm -o '$tmp/killed.data'" >"$tmp/perf.log" 2>&1 &
recorder=$!
for _ in $(seq 100); do
	[ -s "$tmp/killed.data" ] && break
	sleep 0.1
done
sleep 0.3
kill -KILL $recorder $vm
wait $recorder $vm 2>/dev/null
recorder='' vm=
refused "$tmp/killed.data" 'perf was killed, or the file was truncated; stop perf with' "perf was killed"
# The name of the architecture stands behind the events, after the kernel's release.
LC_ALL=C sed 's/x86_64\x00/riscv64/g' "$tmp/stat.data" >"$tmp/arm.data"
refused "$tmp/arm.data" 'recorded on riscv64: .*x86' "another architecture"
size=$(stat -c %s "$tmp/stat.data")
truncate -s $((size - 100)) "$tmp/stat.data"
run "$kvmft" export -q -i "$tmp/stat.data" --to text
is "$([ "$rc" = 1 ] || [ "$rc" = 3 ]; echo $?)" 0 "the end of the file is cut off: not exit 0"
truncate -s $((size / 2)) "$tmp/stat.data"
refused "$tmp/stat.data" 'its end, where perf writes the event formats, is missing' "half of the file"
finish
