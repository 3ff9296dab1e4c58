#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# `kvmft report` with captures that are compiled from the texts in tests/golden, and what it prints
# compared with the files beside them; selections, wrong use, empty and broken input.

. "$(dirname "$0")/lib.sh"

golden=$top/tests/golden
mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

for f in "$golden"/report-*.txt; do
	name=${f##*/report-}
	name=${name%.txt}
	ok "$name: compiled" "$mkcap" --capture "$tmp/$name" "$f"
done

report()
{
	in=$1
	shift
	run "$kvmft" report -i "$tmp/$in" "$@"
}

# expect OUT-NAME INPUT ARGUMENT...: stdout is tests/golden/report-OUT-NAME.out.
expect()
{
	want=$golden/report-$1.out
	shift
	report "$@"
	# KVMFT_BLESS=1 writes the files anew; then read the difference.
	[ -z "${KVMFT_BLESS:-}" ] || cp "$out" "$want"
	if cmp -s "$out" "$want"; then
		result 0 "$*: as in ${want##*/}"
	else
		result 1 "$*: as in ${want##*/}"
		diff "$want" "$out" | sed 's/^/# /' | head -n 40
	fi
}

# ---- tables ----

expect basic basic --per vcpu --percentiles
status_is 0 "... exit 0"
expect basic-json basic --format json
ok "... is JSON" python3 -m json.tool "$out"
expect basic-csv basic --format csv --per vcpu
err_has 'kernel: Linux 6.18.0; kvm_exit is traced right after the exit' "... notes are on stderr"
for event in mmio ioport msr hypercall cpuid page-fault fast-mmio inject; do
	expect "$event" access --event "$event"
done
expect leaves leaves --event cpuid
expect nested nested
expect nested-perf nested --semantics perf
expect nested-split nested --split
for event in vmexit mmio ioport msr; do
	expect "$event-perf" access --event "$event" --semantics perf
done
expect arm64 arm64 --per vcpu
expect arm64-perf arm64 --semantics perf
expect split split --split
expect split-csv split --split --format csv
expect 2012-mmio 2012 --event mmio
expect 2012-ioport 2012 --event ioport
expect loss loss
status_is 3 "... exit 3: events are missing"
err_has '7 events lost or more, 2 pairs dropped at gaps' "... and their number is shown"

# ---- order and selection ----

# events INPUT ARGUMENT...: the names of the rows.
events()
{
	report "$@" --format csv
	sed -n '2,$p' "$out" | cut -d, -f 3 | tr '\n' ' '
}

is "$(events basic --per all -k time)" \
	"HLT PREEMPTION_TIMER INVALID_STATE IO_INSTRUCTION 0x4e MSR_WRITE " "-k time"
report basic --per all -k time
out_has '^sorted by the total time \(-k mean_t: average\)$' "... which the header explains"
report basic --per all -k time --semantics perf
out_has '^sorted by the average time \(-k percent_time: total\)$' "... as perf sorts it"
is "$(events basic --per all -k max_t)" \
	"HLT PREEMPTION_TIMER INVALID_STATE IO_INSTRUCTION 0x4e MSR_WRITE " "-k max_t"
is "$(events basic --per all --key min_t)" \
	"HLT PREEMPTION_TIMER INVALID_STATE IO_INSTRUCTION 0x4e MSR_WRITE " "--key min_t"
is "$(events basic --per all -k mean_t)" \
	"HLT PREEMPTION_TIMER INVALID_STATE IO_INSTRUCTION 0x4e MSR_WRITE " "-k mean_t"
is "$(events basic --per all -k ev_name)" \
	"0x4e HLT INVALID_STATE IO_INSTRUCTION MSR_WRITE PREEMPTION_TIMER " "-k ev_name"
is "$(events basic --per all --top 2)" "HLT IO_INSTRUCTION " "--top 2"
report basic --top 1 --per all
out_has '^ *\.\.\.$' "--top: text shows that there is more"
out_has '^Total Samples:9, ' "--top: sums are of all"
is "$(events basic --vm two)" "MSR_WRITE PREEMPTION_TIMER " "--vm NAME"
is "$(events basic --vm 200-9)" "MSR_WRITE PREEMPTION_TIMER " "--vm PID-FD"
is "$(events basic --vm 11111111-2222-3333-4444-555555555555 --vcpu 1)" "IO_INSTRUCTION 0x4e " \
	"--vm UUID --vcpu N"
is "$(events basic -p 200)" "MSR_WRITE PREEMPTION_TIMER " "-p: a VMM"
is "$(events basic --pid 102,201 --per all)" "IO_INSTRUCTION MSR_WRITE PREEMPTION_TIMER 0x4e " \
	"--pid: threads"
report basic --vcpu 0
is "$(grep -c '^Analyze events for' "$out")" 3 "--vcpu 0 of two VMs: all, and each apart"
out_has '^Analyze events for VM two, VCPU 0:$' "... with its name"
report basic -p 100
out_has '^Analyze events for pid\(s\) 100, all VCPUs:$' "-p: the head says so"
report basic --vm none
status_is 1 "--vm: an unknown one"
err_has 'one.*two|two.*one' "... candidates are listed"
err_one_line "--vm: an unknown one"
report basic --vcpu 7
status_is 1 "--vcpu: one that is not there"
err_has '0 of thread 101' "... vCPUs are listed"
err_one_line "--vcpu: one that is not there"

# ---- events of no thread: -1 is what some readers have for nobody ----

printf '%s kvm_exit exit_reason=12 isa=1 vcpu_id=0\n' '0 1000 -1' '1 1000 0' >"$tmp/nobody.txt"
ok "events of thread -1 and 0: compiled" "$mkcap" --capture "$tmp/nobody" "$tmp/nobody.txt"
report nobody
status_is 4 "events of thread -1 and 0: of no vCPU"
err_one_line "events of thread -1 and 0"

# ---- a vCPU that another thread ran at the end than at the beginning ----

printf '%s\n' 'meta vm id=10-5 pid=10 fd=5 name=one' 'meta vcpu vm=10-5 id=0 tid=10' \
	'meta vm id=10-6 pid=10 fd=6 name=two' 'meta vcpu vm=10-6 id=0 tid=12' 'meta task tid=11 tgid=10 comm=x' \
	'meta vcpu vm=10-5 id=0 tid=11 at=end' '0 1000 11 kvm_exit exit_reason=12 isa=1 vcpu_id=0' \
	'0 2000 11 kvm_entry vcpu_id=0' >"$tmp/threads.txt"
ok "another thread at the end: compiled" "$mkcap" --capture "$tmp/threads" "$tmp/threads.txt"
report threads --vm one --per all --format csv
is "$(sed 1d "$out" | cut -d, -f 3,4)" "HLT,1" "... its exits are the VM's"

# ---- a window of time ----

report basic --from 3us --to 10us --per all --format csv
out_has '^,,HLT,2,66.67,87.72,2.000,3.000,' "--from, --to: pairs inside, both ends included"
is "$(sed 1d "$out" | cut -d, -f 3,4 | tr '\n' ' ')" "HLT,2 PREEMPTION_TIMER,1 " "... and no others"
report basic --from 0.000009 --per all --format csv
is "$(sed 1d "$out" | cut -d, -f 3,4 | tr '\n' ' ')" "HLT,1 INVALID_STATE,1 " "--from alone"
report basic --to 2us --per all --format csv
is "$(sed 1d "$out" | cut -d, -f 3,4 | tr '\n' ' ')" "IO_INSTRUCTION,1 " "--to alone"
# Stamps of a clock that was 0 when the TSC was 5000, and so when the capture began.
cp -r "$tmp/basic" "$tmp/raw"
sed -i 's/clock=x86-tsc/clock=mono_raw/; s/^begin tsc=0/begin tsc=5000/
	/^begin /a time tsc=6000 width=10 mono_raw=1005 mono=1005 boot=1005 real=1005
	/^ring /a raw last=5000 mult=8388608 shift=23 nsec=0 base=0 clocksource=tsc' "$tmp/raw/meta"
for window in "--from 3us --to 10us" "--to 2us"; do
	# shellcheck disable=SC2086 # options
	report basic $window --per all --format csv
	cp "$out" "$tmp/window"
	# shellcheck disable=SC2086
	report raw $window --per all --format csv
	ok "$window: of the trace clock mono_raw" cmp "$out" "$tmp/window"
done
report basic --from 1s
status_is 1 "--from: nothing is there"
err_has 'at that time' "... is reported"
report loss --from 9550ns
status_is 3 "a window behind the gap of one CPU, before that of another"

# ---- the same from a trace.dat, whose clock is ns ----

for f in basic access split; do
	ok "$f: as trace.dat" "$mkcap" --trace-dat "$tmp/$f.dat" "$golden/report-$f.txt"
	for event in vmexit ioport; do
		[ "$f" = access ] || [ "$event" = vmexit ] || continue
		report "$f" --format csv --per all --event "$event"
		cut -d, -f 3- "$out" >"$tmp/want"
		report "$f.dat" --format csv --per all --event "$event"
		ok "$f --event $event: a trace.dat has the same table" sh -c "cut -d, -f 3- '$out' | cmp - '$tmp/want'"
	done
done
report basic.dat
out_has '^# kernel: an unknown kernel' "an unknown kernel is reported"

# ---- beside perf kvm stat report, of the same events ----

# Rows of a table in perf's layout, in an order of their own.
rows()
{
	sed -n '/us ( +-/{ s/  */ /g; s/^ //; p; }' | LC_ALL=C sort
}

# beside_perf INPUT [OPTION]: all tables of INPUT.dat, whose clock is ns, and of the perf.data made of it.
beside_perf()
{
	ok "$1: as perf.data" "${mkcap%/*}/perfdata" ${2:+"$2"} "$tmp/$1.dat" "$tmp/$1.perf" \
		kvm_entry kvm_exit kvm_mmio kvm_pio kvm_msr
	for event in vmexit mmio ioport msr; do
		perf kvm -i "$tmp/$1.perf" stat report --event "$event" 2>&1 | rows >"$tmp/perf.rows"
		report "$1.dat" --semantics perf --per all --event "$event" --tsc-khz 1000000
		ok "$1 --event $event: perf has a table" test -s "$tmp/perf.rows"
		is "$(rows <"$out")" "$(cat "$tmp/perf.rows")" "... and it is the same to the last digit"
	done
}

case $(perf version 2>&1) in
"perf version 6.1."*)
	"${mkcap%/*}/gen" --trace-dat "$tmp/gen.dat" --events 6000 --cpus 3
	beside_perf gen
	beside_perf access --intel
	;;
*) skip "the tables of perf kvm stat report" "this is not perf 6.1" ;;
esac

# ---- nothing to show ----

cp -r "$tmp/basic" "$tmp/arm"
# ---- ... and where only the names of exits are known: each exit has its name and its time, and no cause is named ----

# names ARCH ENTRY EXIT WANT: two exits of 3 us, of 9 us each in the guest
names()
{
	{
		echo "meta machine uname=Linux%206.18.0 arch=$1 long=8 endian=little"
		printf '%s\n%s\n' "${2%%;*}" "${3%%;*}"
		at=0
		for exit in $(echo "${3#*;}" | tr ';' ' '); do
			echo "0 $((at += 1000)) 77 ${2#*;}"
			echo "0 $((at += 9000)) 77 $(echo "$exit" | tr , ' ')"
			at=$((at + 2000))
		done
		echo "0 $((at + 1000)) 77 ${2#*;}"
	} >"$tmp/names.txt"
	rm -rf "$tmp/names"
	ok "$1: a capture" "$mkcap" --capture "$tmp/names" "$tmp/names.txt"
	run "$kvmft" report --format csv -i "$tmp/names"
	is "$(sed -n '2,$p' "$out" | cut -d , -f 3,4,11 | sort | tr '\n' ' ')" "$4" "... each exit has its name and its time"
	is "$("$kvmft" report -i "$tmp/names" 2>&1 | grep -c VMX)" 0 "... nothing is said that is true of x86"
	for command in blame "latency sched" "stuck -i"; do
		# shellcheck disable=SC2086 # a word or two
		run "$kvmft" $command "$tmp/names"
		status_is 1 "... $command"
		err_has "recorded on $1, of whose events only the names of exits are known" "... says why not"
	done
}

names riscv64 'event kvm kvm_entry 900 u64:pc;kvm_entry pc=0x80200000' \
	'event kvm kvm_exit 901 u64:sepc u64:scause;kvm_exit,sepc=1,scause=23;kvm_exit,sepc=1,scause=0x8000000000000005' \
	'IRQ_S_TIMER,1,3.000 STORE_GUEST_PAGE_FAULT,1,3.000 '
names ppc64le 'event kvm_hv kvm_guest_enter 902 u32:vcpu_id u64:pc;kvm_hv:kvm_guest_enter vcpu_id=0 pc=1' \
	'event kvm_hv kvm_guest_exit 903 u32:vcpu_id u32:trap u64:pc;kvm_hv:kvm_guest_exit,vcpu_id=0,trap=0x980,pc=1;kvm_hv:kvm_guest_exit,vcpu_id=0,trap=0xe00,pc=1' \
	'HV_DECREMENTER,1,3.000 H_DATA_STORAGE,1,3.000 '
names loongarch64 'event kvm kvm_reenter 904 u64:pc;kvm_reenter pc=1' \
	'event kvm kvm_exit 905 u64:pc u32:reason;kvm_exit,pc=1,reason=22;kvm_exit,pc=1,reason=0' 'GSPR,1,3.000 INT,1,3.000 '

sed -i 's/arch=x86_64/arch=s390x/' "$tmp/arm/meta"
report arm
status_is 1 "a host of an unknown architecture: exit 1"
err_has 'recorded on s390x, and the meaning of KVM.s events is only known for x86-vmx, x86-svm' "... is reported"
run "$kvmft" merge "$tmp/arm"
out_has 'kvm:kvm_exit' "... merge lists its events, as the message says"
sed -i 's/arch=s390x //' "$tmp/arm/meta"
report arm
status_is 0 "... without its architecture: by its events"

# By CPU time: without what a vCPU slept; without scheduler events a halt may have been all that.
report split -k cpu
is "$(sed -n '/Where time went/,/ all /s/^ *\([A-Z_]*\) .*us.*/\1/p' "$out" | grep . | tr '\n' ' ')" "HLT IO_INSTRUCTION EXTERNAL_INTERRUPT " "-k cpu: polling counts"
report split -k cpu --tsc-khz 4000000
is "$(sed -n '/Where time went/,/ all /s/^ *\([A-Z_]*\) .*us.*/\1/p' "$out" | grep . | tr '\n' ' ')" "HLT IO_INSTRUCTION EXTERNAL_INTERRUPT " "... at any frequency of the TSC"
report basic -k cpu
is "$(sed -n '/Samples%/,/Total/s/^ *\([A-Z_]*\) .*%.*/\1/p' "$out" | sed -n '2,7p' | tr '\n' ' ')" \
	"PREEMPTION_TIMER INVALID_STATE IO_INSTRUCTION  HLT MSR_WRITE " "... a halt of which nothing is known does not lead"
report split -k cpu --event mmio
status_is 2 "... only of exits"
report split --event mmio
status_is 4 "no kvm_mmio in the capture"
err_has 'no kvm_mmio events in .*: record them with -e kvm:kvm_mmio' "... is reported"
err_one_line "no kvm_mmio in the capture"
report access.dat --event mmio --vcpu 3
status_is 1 "nothing selected of a trace.dat"
grep -v kvm_entry "$golden/report-basic.txt" >"$tmp/noentry.txt"
"$mkcap" --capture "$tmp/noentry" "$tmp/noentry.txt"
report noentry
status_is 0 "no kvm_entry"
out_has '^# without kvm_exit and kvm_entry, both, it is not known how long' "... is reported"
printf '0 1000 1 sched:sched_switch prev_pid=1 next_pid=2\n' >"$tmp/sched.txt"
"$mkcap" --capture "$tmp/sched" "$tmp/sched.txt"
report sched
status_is 4 "no kvm events at all"
err_has 'no kvm_exit and kvm_entry events' "... is reported"
err_one_line "no kvm events at all"
cp -r "$tmp/sched" "$tmp/guest"
sed -i 's/^side name=host/side name=guest/' "$tmp/guest/meta"
report guest
status_is 1 "a guest's capture"
err_has 'capture of a guest' "... is reported"
report missing
status_is 1 "no capture"
err_one_line "no capture"

# ---- a clock that cannot be converted: see also tsc-rate.t ----

cp -r "$tmp/basic" "$tmp/nokhz"
sed -i '/^tsc /d' "$tmp/nokhz/meta"
report nokhz --tsc-khz 500000 --format csv --vm one --vcpu 0
out_has '^one,0,HLT,4,80.00,95.24,2.000,8.000,5.000,25.82,20.000$' "--tsc-khz: half the speed, twice the time"
sed -i 's/^ring clock=x86-tsc/ring clock=counter/' "$tmp/nokhz/meta"
report nokhz
status_is 0 "a clock that is not a time"
out_has '^# the trace clock counter is no time: what stands as cycles are its counts$' "... counts are counts"

# ---- wrong usage ----

for args in "--event nonsense" "--semantics perf --event cpuid" "--split --event mmio" \
	"--split --semantics perf" "-k nonsense" "--top 0" "--vcpu x" "-p x" "--per cpu" "--format xml" \
	"--tsc-khz 0" "-p ," "--from 2 --to 1" "--from x"; do
	# shellcheck disable=SC2086 # several words
	report basic $args
	status_is 2 "$args: exit 2"
	err_one_line "$args"
done
report basic --event nonsense
err_has 'vmexit, mmio, ioport, msr, hypercall, cpuid, page-fault, fast-mmio, inject, userspace, entry' "--event: classes are listed"

# ---- damage ----

cp -r "$tmp/basic" "$tmp/cut"
truncate -s 4000 "$tmp/cut/seg000000/cpu0"
report cut
is "$([ "$rc" = 3 ] || [ "$rc" = 1 ]; echo $?)" 0 "cut data is not exit 0"
cp -r "$tmp/basic" "$tmp/bad"
printf '\377\377' | dd of="$tmp/bad/seg000000/cpu0" bs=1 seek=8 conv=notrunc 2>/dev/null
report bad
status_is 3 "a damaged sub-buffer: exit 3"
out_has '^# 1 damaged sub-buffers' "... is in the notes"
"$kvmft" report -i "$tmp/basic" >/dev/full 2>"$err"
is "$?" 1 "full disk: exit 1"
err_one_line "full disk"
awk 'BEGIN { print "0 500 101 kvm_entry vcpu_id=0"; for (i = 0; i < 3000; i++) {
	t = 1000 + 2000 * i; print "0 " t " 101 kvm_exit exit_reason=48 isa=1"
	print "0 " t + 10 " 101 kvm_page_fault fault_address=" i * 4096; print "0 " t + 500 " 101 kvm_entry vcpu_id=0" } }' \
	>"$tmp/many.txt"
"$mkcap" --capture "$tmp/many" "$tmp/many.txt"
is "$("$kvmft" report -i "$tmp/many" --event page-fault 2>"$err" | grep -cE '^ *0x[0-9a-f]+ ')" 3000 "a long table is whole"
{ "$kvmft" report -i "$tmp/many" --event page-fault 2>"$err"; echo $? >"$tmp/rc"; } | head -n 1 >/dev/null
is "$(cat "$tmp/rc") $(wc -c <"$err" | tr -d ' ')" "0 0" "a reader that goes away early is no error"

# A machine full of small VMs: its keys are no more than there is memory for.
"$makers/gen" --capture "$tmp/wide" --events 100000 --cpus 2048
report wide
status_is 0 "2048 vCPUs"
is "$(grep -c others "$out")" 0 "... each reason of each has a place"
samples=$(sed -n 's/^Total Samples:\([0-9]*\),.*/\1/p' "$out")
is "$(awk '$3 ~ /%$/ { n += $2 } END { print n }' "$out")" "$samples" "... and the rows add up"
# Tables of single vCPUs.
report wide --per vcpu --format csv
status_is 0 "2048 vCPUs, each with a table"
is "$(awk -F, '$2 != "" { n += $4 } END { print n }' "$out")" "$samples" "... they add up to the same"
# shellcheck disable=SC2016 # awk's
is "$(awk -F, '$2 != "" && $1 $2 != last { if (seen[$1, $2]++) bad++; last = $1 $2; n++ } END { print (n > 1000), bad + 0 }' "$out")" \
	"1 0" "... in the order of VMs, each once"
rm -r "$tmp/wide"

# A guest that exits at more addresses, and for more, than there is memory for: the next one has its rows all the same.
awk 'function exits(tid, rip, gpa) { t += 30; print 0, t, tid, "kvm_exit exit_reason=48 isa=1 guest_rip=" rip
		print 0, t + 10, tid, "kvm_mmio type=2 len=4 gpa=" gpa " val=0"; print 0, t + 20, tid, "kvm_entry vcpu_id=0" }
	BEGIN { for (v = 1; v < 3; v++)
			print "meta vm id=" v "00-12 pid=" v "00 fd=12 name=vm" v "\nmeta vcpu vm=" v "00-12 id=0 tid=" v "01 offset=0 ratio=0 frac=48"
		for (i = 0; i < 200000; i++) exits(101, 4096 + 16 * i, 16777216 + 4096 * i)
		for (i = 0; i < 6; i++) exits(201, 7 + i % 3, 7 + i % 3) }' >"$tmp/crowd.txt"
"$makers/mkcap" --capture "$tmp/crowd" "$tmp/crowd.txt"
for rows in "--event mmio" "--by rip"; do
	# shellcheck disable=SC2086 # words
	report crowd $rows --vm vm2 --per vm --format csv
	is "$(grep -c others "$out") $(grep -c 0x9 "$out")" "0 1" "$rows: none of what another VM has, or makes, is without its row"
done
rm -r "$tmp/crowd" "$tmp/crowd.txt"

# fits CAPTURE ARGUMENT...: a report takes no more than 64 MiB.
fits()
{
	in=$1
	shift
	kb=$("$KVMFT_TOOLS/cpu" "${KVMFT_PLAIN:-$kvmft}" report -i "$tmp/$in" "$@") || [ $? = 3 ] || kb="0 0"
	kb=${kb#* }
	ok "$in $*: $kb KB" test "$kb" -gt 1000 -a "$kb" -le 65536
}

# Whatever the file: as many CPUs as a capture may have, and half of them; more addresses than there is memory for.
for cpus in 8192 4096; do
	if [ "$cpus" = 4096 ] && [ "${CHECK_ALL:-0}" != 1 ]; then
		skip "$cpus CPUs" "make check-all has them"
		break
	fi
	"$makers/gen" --capture "$tmp/cpus-$cpus" --events 300000 --cpus $cpus
	fits cpus-$cpus
	fits cpus-$cpus --percentiles --split
	fits cpus-$cpus --event mmio --percentiles
	report cpus-$cpus
	status_is 0 "$cpus CPUs"
	is "$(grep -c others "$out")" 0 "$cpus CPUs: the table of all has each reason"
	fits cpus-$cpus --per vcpu --percentiles --split
	report cpus-$cpus --per vcpu --format csv
	status_is 0 "$cpus CPUs, each with a table"
	is "$(grep -c others "$out")" 0 "$cpus CPUs: so have those of each vCPU"
	rm -r "$tmp/cpus-$cpus"
done
"$makers/gen" --capture "$tmp/keys" --events 3000000 --cpus 64
fits keys --event mmio
fits keys --event mmio --percentiles --per vcpu
fits keys --event page-fault --percentiles -k ev_name
report keys --event mmio --percentiles
status_is 0 "more addresses than there is memory for"
out_has '^ *[(]others[)] ' "... the rest is one row"
out_has '^# more keys than are kept in memory: [0-9]* samples are in one row, [(]others[)]$' "... and that is reported"
samples=$(sed -n 's/^Total Samples:\([0-9]*\),.*/\1/p' "$out")
is "$(awk '$3 ~ /%$/ { n += $2 } END { print n }' "$out")" "$samples" "... rows add up"
if grep -q 'samples are in no histogram' "$out"; then
	out_has ' -           -           - $' "... a row whose histogram lacks samples has no percentiles"
fi
rm -r "$tmp/keys"

# More threads than there is memory for: what is left out is counted.
awk 'BEGIN { for (i = 0; i < 16500; i++) { t = 1000 + 100 * i; tid = 1000 + i
	print "meta vcpu vm=100-12 id=" i " tid=" tid
	print "0 " t " " tid " kvm_entry vcpu_id=" i; print "0 " t + 10 " " tid " kvm_exit exit_reason=" i % 60 " isa=1"
	print "0 " t + 20 " " tid " kvm_entry vcpu_id=" i } }' >"$tmp/threads.txt"
sed -i '1i meta vm id=100-12 pid=100 fd=12 name=one' "$tmp/threads.txt"
ok "16500 threads: compiled" "$mkcap" --capture "$tmp/threads" "$tmp/threads.txt"
report threads
status_is 3 "... exit 3"
out_has '^Total Samples:16384,' "... 16384 of them are counted"
out_has '^# more threads than are kept in memory: 348 events of the later ones are left out$' "... and what is left out"
err_has '0 events lost' "... which is not lost"
fits threads --percentiles --split
fits threads --per vcpu
rm -r "$tmp/threads" "$tmp/threads.txt"

# A format that makes no sense costs its events, which is told.
cp -R "$tmp/basic" "$tmp/format"
sed -i "s/offset:0;/offset:9;/" "$tmp/format/events/kvm/kvm_exit"
report format
status_is 4 "a damaged format: nothing to count"
err_has "format: format of kvm:kvm_exit: no common_type at offset 0" "... the reason is named"
run "$kvmft" merge "$tmp/format"
status_is 3 "... what can be shown is incomplete"
out_has "no format in the capture" "... and shown"
err_has "host: format of kvm:kvm_exit: no common_type at offset 0" "... with the reason"

mkdir "$tmp/nothing"
(cd "$tmp/nothing" && "$kvmft" report) >"$out" 2>"$err"
is "$?" 1 "no kvmft.data, and no -i"
err_has '^kvmft report: no kvmft.data here: name a capture with -i, or make one' "... says what to do"
finish
