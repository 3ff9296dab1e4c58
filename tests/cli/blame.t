#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft blame`: made captures in which a vCPU stands still, or a task of the guest waits, for a known reason and a
# known time in ns: the right cause, every part of it, and parts that sum to the whole.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

# VM one with two vCPUs, a neighbour's vCPU, and tasks of the host.
facts='meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta vcpu vm=100-12 id=1 tid=102 offset=0 ratio=0 frac=48
meta vm id=200-12 pid=200 fd=12 name=two
meta vcpu vm=200-12 id=0 tid=201 offset=0 ratio=0 frac=48
meta task tid=100 tgid=100 comm=qemu
meta task tid=101 tgid=100 comm=CPU%200/KVM
meta task tid=102 tgid=100 comm=CPU%201/KVM
meta task tid=201 tgid=200 comm=CPU%200/KVM
meta task tid=55 tgid=55 comm=thief
meta task tid=19 tgid=19 comm=migration/0'

# All that causes rest on was recorded, unless a test says otherwise: whether or not it happened.
irqs='irq:softirq_entry irq:softirq_exit irq_vectors:local_timer_entry irq_vectors:local_timer_exit'
recorded='kvm_apic_accept_irq kvm_userspace_exit kvm_mmio kvm_fast_mmio kvm_vcpu_wakeup sched:sched_switch sched:sched_wakeup'
guest_recorded='sched:sched_switch sched:sched_wakeup irq:irq_handler_entry irq:irq_handler_exit irq:softirq_entry irq:softirq_exit'

# capture SIDE: one with the facts of that side, and the events of standard input.
capture()
{
	rm -rf "${tmp:?}/$1"
	{
		if [ "$1" = guest ]; then echo "recorded $guest_recorded"; else echo "recorded $recorded $irqs"; fi
		[ "$1" = guest ] && printf '%s\n' 'meta side name=guest' 'meta cpu n=0 apicid=0' 'meta cpu n=1 apicid=1' \
			'meta task tid=77 tgid=77 comm=victim' 'meta task tid=78 tgid=78 comm=hog' \
			'event ftrace print 5 u64:ip text:buf'
		[ "$1" = guest ] || echo "$facts"
		cat
	} >"$tmp/$1.txt"
	ok "the $1's capture is compiled" "$mkcap" --capture "$tmp/$1" "$tmp/$1.txt"
}

# parts [OPTION...]: the spikes of the last pair: "WHAT LENGTH CAUSE: PART TIME, ..." in ns, in their order of time.
parts()
{
	run "$kvmft" blame -q --by time --top 100 --format json "$@"
	python3 - "$out" <<'END'
import json, sys
for s in json.load(open(sys.argv[1]))["spikes"]:
    assert sum(p["time_ns"] for p in s["parts"]) == s["length_ns"], s
    assert s["end_host_tsc"] - s["begin_host_tsc"] == s["length_ns"], s
    print(s["what"], s["length_ns"], s["cause"] + ":",
          ", ".join("%s%s %d" % (p["cause"], p["name"] and " (%s)" % p["name"], p["time_ns"]) for p in s["parts"]))
END
}

if ! command -v python3 >/dev/null; then
	skip "kvmft blame" "python3 is not installed"
	finish
fi

# ---- a vCPU that stands still: every cause that the host alone can tell ----

exit_at() { echo "0 $1 101 kvm_exit exit_reason=$2 isa=1"; }
entry_at() { echo "0 $1 101 kvm_entry vcpu_id=0"; }
{
	entry_at 1000
	# another task; one of a neighbour; the other vCPU; nobody; a signal; another CPU
	for who in 55:0x100:10 201:0x100:20 102:0x100:30 0:0x100:40 55:4:50 19:0x100:60; do
		at=${who##*:} next=${who%%:*} state=${who#*:} state=${state%:*}
		exit_at "${at}000" 1
		echo "0 ${at}100 101 sched:sched_switch prev_pid=101 prev_state=$state next_pid=$next"
		echo "0 ${at}900 $next sched:sched_switch prev_pid=$next prev_state=1 next_pid=101"
		entry_at "${at}910"
	done
	# a signal, and another task when it may go on
	exit_at 66000 1
	echo "0 66100 101 sched:sched_switch prev_pid=101 prev_state=4 next_pid=55"
	echo "0 66600 55 sched:sched_wakeup pid=101 target_cpu=0"
	echo "0 66900 55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=101"
	entry_at 66910
	# a page fault that sleeps for memory
	exit_at 70000 48
	echo "0 70100 101 sched:sched_switch prev_pid=101 prev_state=2 next_pid=0"
	echo "0 70800 0 sched:sched_wakeup pid=101 target_cpu=0"
	echo "0 70850 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101"
	entry_at 70900
	# a port: in the VMM, which waits for something meanwhile
	exit_at 80000 30
	echo "0 80010 101 kvm_pio rw=1 port=0x3f8 size=1 count=1 val=0"
	echo "0 80100 101 kvm_userspace_exit reason=2 errno=0"
	echo "0 80400 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0"
	echo "0 80700 0 sched:sched_wakeup pid=101 target_cpu=0"
	echo "0 80700 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101"
	entry_at 80900
	# an access that faults, and is a device's: known afterwards
	exit_at 90000 48
	echo "0 90200 101 kvm_mmio type=1 len=4 gpa=0xfed00000 val=0"
	entry_at 90300
	# the host's interrupt, and what it does; a lock's pause loop; an exit
	exit_at 91000 1
	echo "0 91100 101 irq:irq_handler_entry irq=17"
	echo "0 91600 101 irq:irq_handler_exit irq=17 ret=1"
	echo "0 91600 101 irq:softirq_entry vec=3"
	echo "0 91800 101 irq:softirq_exit vec=3"
	entry_at 91900
	exit_at 91920 1
	echo "0 91930 101 irq_vectors:local_timer_entry vector=236"
	echo "0 91980 101 irq_vectors:local_timer_exit vector=236"
	entry_at 91990
	exit_at 92000 40
	entry_at 92300
	exit_at 93000 10
	entry_at 93250
	# a halt is no stall
	exit_at 94000 12
	entry_at 99000
	exit_at 99500 1
} >"$tmp/events"
capture host <"$tmp/events"
parts --what stall "$tmp/host" >"$tmp/got"
cat >"$tmp/want" <<'END'
stall 910 host-task: host-task (thief-55) 800, host-irq (EXTERNAL_INTERRUPT) 110
stall 910 host-task: host-task (vCPU 0 of two) 800, host-irq (EXTERNAL_INTERRUPT) 110
stall 910 sibling: sibling (vCPU 1) 800, host-irq (EXTERNAL_INTERRUPT) 110
stall 910 throttled: throttled 800, host-irq (EXTERNAL_INTERRUPT) 110
stall 910 stopped: stopped 800, host-irq (EXTERNAL_INTERRUPT) 110
stall 910 migrated: migrated (migration/0-19) 800, host-irq (EXTERNAL_INTERRUPT) 110
stall 910 stopped: stopped 500, host-task (thief-55) 300, host-irq (EXTERNAL_INTERRUPT) 110
stall 900 page-fault: page-fault (EPT_VIOLATION, asleep) 700, page-fault (EPT_VIOLATION) 150, halt-wake (woken, its CPU still idle) 50
stall 900 exit-user: exit-user (IO_INSTRUCTION port 0x3f8) 500, vmm (IO_INSTRUCTION port 0x3f8, asleep) 300, exit-kernel (IO_INSTRUCTION port 0x3f8) 100
stall 300 exit-kernel: exit-kernel (EPT_VIOLATION at 0xfed00000) 300
stall 900 host-irq: host-irq (interrupt 17) 500, host-irq (softirq 3) 200, host-irq (EXTERNAL_INTERRUPT) 200
stall 70 host-irq: host-irq (local_timer) 50, host-irq (EXTERNAL_INTERRUPT) 20
stall 300 lock-holder: lock-holder (PAUSE_INSTRUCTION) 300
stall 250 exit-kernel: exit-kernel (CPUID) 250
END
ok "each stall has its cause, to the ns" diff "$tmp/want" "$tmp/got"

run "$kvmft" blame -q --than 500ns --by cause --what stall "$tmp/host"
status_is 0 "--by cause"
is "$(sed -n 's/^host-task  *\([0-9]*\) .*/\1/p' "$out")" 2 "... counts the spikes of one cause"
is "$(grep -c exit-kernel "$out")" 0 "... --than leaves out the shorter ones"
run "$kvmft" blame -q --than 500ns --by cause --what stall --format csv "$tmp/host"
is "$(head -n 1 "$out") $(grep ^.host-task "$out")" 'cause,spikes,sum_us,longest_us "host-task",2,1.820,0.910' "... as CSV"
run "$kvmft" blame -q --than 500ns --by cause --what stall --format json "$tmp/host"
out_has '{"name":"host-task","spikes":2,"sum_ns":1820,"longest_ns":910}' "... and JSON"
run "$kvmft" blame -q --than 1s "$tmp/host"
status_is 0 "nothing as long as --than: all is well"
is "$(cat "$err")" "" "... of which a script wants to hear nothing"
run "$kvmft" blame --than 1s "$tmp/host"
err_has 'nothing was late by as much as --than says' "... a person is told"
run "$kvmft" blame -q --than 1s --format json "$tmp/host"
out_has '"spikes":\[\]' "... JSON has none"
run "$kvmft" blame -q --at 92100ns --format csv "$tmp/host"
status_is 0 "--at"
is "$(sed -n '2s/,.*lock-holder.*/ lock-holder/p' "$out")" "stall lock-holder" "... the one of that time comes first"
run "$kvmft" blame -q --top 1 -C 2 "$tmp/host"
status_is 0 "-C"
ok "... shows the time line around it" grep -q 'kvm_exit' "$out"
ok "... within 80 columns but for that" sh -c "grep -vE '^(host |one |#)' '$out' | awk 'length > 80 { exit 1 }'"

# As record --blame asks: the last second, but for what its options say.
for when in --at=0.0001 --to=0.0001 --from=0.00001 "--from 0.00001 --to 0.0001"; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" blame -q --naming "kvmft blame host" $when "$tmp/host"
	status_is 0 "the question of record --blame with $when"
done
run "$kvmft" blame -q --naming "kvmft blame host" "$tmp/host"
err_has '^kvmft blame: --last: .* does not say when its recording ended' "... without a time"

# More parts than are kept.
{
	entry_at 1000
	exit_at 2000 1
	echo "0 2000 101 sched:sched_switch prev_pid=101 prev_state=0x100 next_pid=301"
	for i in $(seq 301 350); do
		echo "0 $((2000 + (i - 300) * 10)) $i sched:sched_switch prev_pid=$i prev_state=1 next_pid=$((i < 350 ? i + 1 : 101))"
	done
	echo "0 2510 101 irq:irq_handler_entry irq=17"
	echo "0 2517 101 irq:irq_handler_exit irq=17 ret=1"
	entry_at 2520
} >"$tmp/many"
capture host <"$tmp/many"
parts --what stall "$tmp/host" >"$tmp/got"
ok "a spike of fifty parts: all of them are shown" grep -qE '^stall 520 host-task: host-task \(others\) 270, unknown \(many others\) 20, ' "$tmp/got"
is "$(grep -oE 'host-task [^)]*\) [0-9]+' "$tmp/got" | awk '{ s += $NF } END { print s }')" 500 "... by its cause"

# Where lines of a time line are left out stands --, as grep has it.
run "$kvmft" blame -q --top 1 -C 1 "$tmp/host"
is "$(grep -c '^--$' "$out")" 0 "a time line that is whole"
{
	entry_at 1000
	exit_at 2000 1
	for i in $(seq 100); do
		echo "0 $((2000 + i * 2)) 101 irq:irq_handler_entry irq=17"
		echo "0 $((2001 + i * 2)) 101 irq:irq_handler_exit irq=17 ret=1"
	done
	entry_at 2520
} >"$tmp/long"
capture host <"$tmp/long"
run "$kvmft" blame -q --top 1 -C 1 "$tmp/host"
is "$(grep -A 1 -e '^--$' "$out" | sed -E 's/ {2,}/ /g; s/^host [^ ]+ [^ ]+ \[0\] //' | tr '\n' ';')" \
	"--;0.000002520 kvm:kvm_entry: vcpu 0, rip 0x0 intr_info 0x00000000 error_code 0x00000000;" "... and one that is not"
out_has '^\([0-9]+ lines left out\)$' "... with their number"
capture host <"$tmp/many"

# The same a million times as long, in cycles: a column of lengths.
sed -E 's/^(0 [0-9]+)/\1000000/' "$tmp/many" >"$tmp/slowly"
capture slow <"$tmp/slowly"
sed -i '/^tsc /d' "$tmp/slow/meta"
run "$kvmft" blame -q --what stall "$tmp/slow"
out_has '^ +270000000 cycles  51 %  host-task' "lengths in cycles"
is "$(awk '/ cycles +[0-9]+ %  / { print index($0, "%") }' "$out" | sort -u | wc -l)" 1 "... are a column"

# The last of a recording; of a flight recorder, the last before its snapshot.
run "$kvmft" blame -q --last 2us "$tmp/host"
status_is 4 "--last with a capture that does not say when it ended"
err_has 'does not say when its recording ended' "... is reported"
{ echo "meta stop tsc=95000"; cat "$tmp/events"; } >"$tmp/stopped"
capture host <"$tmp/stopped"
parts --last 2us --what stall "$tmp/host" | sed 's/ (.*//' >"$tmp/got"
is "$(tr '\n' ' ' <"$tmp/got")" "stall 250 exit-kernel: exit-kernel " "--last"
{
	echo "meta fired why=trigger tsc=85000"
	echo "meta segment n=0 why=trigger tsc=89000"
	echo "meta segment n=1 why=control tsc=99999 stopped=92800"
	cat "$tmp/events"
} >"$tmp/snapshots"
capture host <"$tmp/snapshots"
sed -i 's/^\(ring .*\)/\1 flight=1/' "$tmp/host/meta"
mkdir "$tmp/host/seg000001"
run "$kvmft" blame -q --last 2us --by time --format csv --what stall "$tmp/host"
status_is 0 "of a flight recorder that goes on"
is "$(awk -F , '/^stall/ { print $9 }' "$out" | uniq | tr '\n' ' ')" "host-irq lock-holder exit-kernel " \
	"... from before its snapshot on"

# What may have ended in a gap is not counted as one spike.
sed 's/^0 10100 .*/0 gap 3/' "$tmp/events" >"$tmp/gap"
capture host <"$tmp/gap"
run "$kvmft" blame -q --from 9us --to 11us "$tmp/host"
status_is 3 "no stall across a gap"
is "$(grep -vc '^#' "$out")" 0 "... no spike"
run "$kvmft" blame -q "$tmp/host"
status_is 3 "events were lost: exit code 3"

# A vCPU that had halted long before its interrupt came.
capture host <<'END'
0         1000 101 kvm_entry vcpu_id=0
0         2000 101 kvm_exit exit_reason=12 isa=1
0         2100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
1         3000 102 kvm_entry vcpu_id=1
1   3000000000 100 kvm_msi_set_irq address=0xfee00000 data=0x26
1   3000000100 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
0   3000000900   0 sched:sched_wakeup pid=101 target_cpu=0
0   3000001000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
0   3000001100 101 kvm_vcpu_wakeup ns=4800 waited=1 valid=1
0   3000001200 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0   3000001300 101 kvm_entry vcpu_id=0
1   3000002000 102 kvm_exit exit_reason=1 isa=1
END
parts --what irq "$tmp/host" >"$tmp/got"
is "$(cat "$tmp/got")" "irq 1300 halt-wake: halt-wake (halted) 1000, halt-wake (awake, on its way into the guest) 200, \
halt-wake (woken, its CPU still idle) 100" "a vCPU that halted three seconds before"

# A page that is taken from a VM is missed by its vCPUs at once; another page, another VM and another time do not count.
fault() { # CPU TID BEGIN END PAGE CODE
	echo "$1 $3 $2 kvm_exit exit_reason=48 isa=1"
	echo "$1 $(($3 + 1)) $2 kvm_page_fault fault_address=$5 error_code=$6"
	echo "$1 $4 $2 kvm_entry vcpu_id=$(($2 == 102))"
}
{
	fault 0 101 1000 1900 0x7401010 0x14
	fault 1 102 1100 1300 0x7401020 0x14
	fault 2 201 1100 1300 0x7401000 0x14
	fault 0 101 5000 5900 0x7401000 0x12
	fault 1 102 5100 5300 0x7402000 0x12
	fault 1 102 6100 6300 0x7401000 0x12
} | sort -n -k 2 >"$tmp/faults"
capture host <"$tmp/faults"
run "$kvmft" blame -q --by time --vm one --vcpu 0 "$tmp/host"
out_has '^   1 other vCPU was out for the same page at once: to run code at 0x7401000$' "the vCPU that missed the same page"
is "$(grep -c 'same page' "$out")" 1 "... not one that missed another page, or later, or of another VM"
run "$kvmft" blame -q --by time --vm one --vcpu 0 --format json "$tmp/host"
is "$(jq -c '[.spikes[] | .same_page_vcpus]' "$out")" "[1,null]" "... in JSON"
# Without that event, or where the host lost some in between, nobody is counted.
grep -v kvm_page_fault "$tmp/faults" >"$tmp/less"
capture host <"$tmp/less"
run "$kvmft" blame -q --vm one --vcpu 0 "$tmp/host"
is "$(grep -c 'same page' "$out")" 0 "not without kvm_page_fault"
{
	fault 1 102 1100 1300 0x7401020 0x14 | sed '3s/.*/1 gap 5/'
	echo "1 1500 55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=0"
	fault 0 101 2000 2900 0x7401010 0x14
} >"$tmp/less"
capture host <"$tmp/less"
run "$kvmft" blame -q --vm one --vcpu 0 "$tmp/host"
is "$(grep -c '^1\. .* stall' "$out") $(grep -c 'same page' "$out")" "1 0" "... nor after a loss, which may hide that the other one was back"

# ---- switches of VMs' threads alone, as `kvmft record` has them ----

# some: so was the last capture.
some()
{
	sed -i '/ name=sched_switch$/s/$/ filter=x/' "$tmp/host/meta"
	grep -q 'name=sched_switch filter=x' "$tmp/host/meta"
}
# It leaves an idle CPU, and waits there behind a thread that came unseen; then behind nobody, on a CPU that says itself
# that it sleeps; then it is preempted by one that others may follow, and by a vCPU, of which all is known.
cat >"$tmp/behind" <<'END'
event power cpu_idle 6 u32:state u32:cpu_id
0         1000 101 kvm_entry vcpu_id=0
0         2000 101 kvm_exit exit_reason=12 isa=1
0         2100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
1      3000000 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
1      3000100 100 sched:sched_wakeup pid=101 target_cpu=0
0     23000100  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=101
0     23000200 101 kvm_vcpu_wakeup ns=4800 waited=1 valid=1
0     23000300 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0     23000400 101 kvm_entry vcpu_id=0
0     30000000 101 kvm_exit exit_reason=12 isa=1
0     30000100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
0     30000200   0 power:cpu_idle state=2 cpu_id=0
1     31000000 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
1     31000100 100 sched:sched_wakeup pid=101 target_cpu=0
0     51000100   0 power:cpu_idle state=0xffffffff cpu_id=0
0     51000200   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
0     51000300 101 kvm_vcpu_wakeup ns=4800 waited=1 valid=1
0     51000400 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
0     51000500 101 kvm_entry vcpu_id=0
0     60000000 101 kvm_exit exit_reason=1 isa=1
0     60000000 101 sched:sched_switch prev_pid=101 prev_state=0x100 next_pid=55
0     60000800  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=101
0     60000900 101 kvm_entry vcpu_id=0
0     61000000 101 kvm_exit exit_reason=1 isa=1
0     61000000 101 sched:sched_switch prev_pid=101 prev_state=0x100 next_pid=102
0     61000800 102 sched:sched_switch prev_pid=102 prev_state=1 next_pid=101
0     61000900 101 kvm_entry vcpu_id=0
0     62000000 101 kvm_exit exit_reason=1 isa=1
END
capture host <"$tmp/behind"
ok "... whose switches have a filter" some
parts --what irq,stall "$tmp/host" >"$tmp/got"
cat >"$tmp/want" <<'END'
irq 20000400 host-task: host-task (thief-55, perhaps others) 20000000, halt-wake (halted) 200, halt-wake (awake, on its way into the guest) 200
irq 20000500 halt-wake: halt-wake (woken, its CPU 0 took long to leave idle state 2) 20000100, halt-wake (halted) 200, halt-wake (awake, on its way into the guest) 200
stall 900 host-task: host-task (thief-55, perhaps others) 800, host-irq (EXTERNAL_INTERRUPT) 100
stall 900 sibling: sibling (vCPU 1) 800, host-irq (EXTERNAL_INTERRUPT) 100
END
ok "what may have run unseen is not taken for an idle CPU" diff "$tmp/want" "$tmp/got"
run "$kvmft" blame "$tmp/host"
is "$(cat "$out" "$err" | grep -c 'record.*sched:sched_switch -e')" 0 "... and no switches have to be recorded"
"$kvmft" export -q -i "$tmp/host" -o "$tmp/host.dat" 2>"$tmp/err"
run "$kvmft" blame --what irq "$tmp/host.dat"
out_has '^ *20 ms +99 %  host-task: thief-55, perhaps others$' "... nor in an exported trace.dat"

# ---- what the guest shows ----

cat >"$tmp/both" <<'END'
0   1000 101 kvm_entry vcpu_id=0
1   1000 102 kvm_entry vcpu_id=1
0  20000 101 kvm_exit exit_reason=1 isa=1
0  20100 101 sched:sched_switch prev_pid=101 prev_state=0x100 next_pid=55
0  25100  55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=101
0  25200 101 kvm_entry vcpu_id=0
0  60000 101 kvm_exit exit_reason=12 isa=1
0  60050 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
0  64000   0 sched:sched_wakeup pid=101 target_cpu=0
0  64100   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
0  64200 101 kvm_vcpu_wakeup ns=4000 waited=1 valid=1
0  64300 101 kvm_entry vcpu_id=0
0  90000 101 kvm_exit exit_reason=1 isa=1
1  90000 102 kvm_exit exit_reason=1 isa=1
END
capture host <"$tmp/both"
capture guest <<'END'
0   1500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
1   1600   0 sched:sched_wakeup pid=77 target_cpu=0
0  10600  78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=77
0  12000  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0
0  19000   0 sched:sched_wakeup pid=77 target_cpu=0
0  25300   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0  27000  77 ftrace:print buf=begin of 1
0  28000  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0
1  50000   0 sched:sched_wakeup pid=77 target_cpu=1
1  51000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
1  52500  77 ftrace:print buf=end of 1
1  53000  77 sched:sched_switch prev_pid=77 prev_state=0x80 next_pid=0
1  59000   0 sched:sched_wakeup pid=78 target_cpu=0
0  64500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
END
parts --what wakeup,ready "$tmp/host" "$tmp/guest=one" >"$tmp/got"
cat >"$tmp/want" <<'END'
wakeup 9000 guest-sched: guest-sched (hog-78) 9000
END
ok "a task that waits behind another one" grep -qxF "$(sed -n 1p "$tmp/want")" "$tmp/got"
ok "a wait that the host is to blame for" grep -qE '^wakeup 6300 host-task: host-task \(thief-55\) 5000, ' "$tmp/got"
ok "a halted vCPU's wait" grep -qE '^wakeup 5500 halt-wake: halt-wake \(halted\) [0-9]+, ' "$tmp/got"
is "$(grep -c '^wakeup [0-9]* .*kworker' "$tmp/got")" 0 "a task that sleeps idly does not wait"
grep '^[0-9]' "$tmp/guest.txt" >"$tmp/both-guest"
# A task waits while its vCPU spins: pause loops exit, and the CPU goes to the holder of the lock and back.
{
	echo "0   1000 101 kvm_entry vcpu_id=0"
	for at in 20 22 24; do
		echo "0 ${at}000 101 kvm_exit exit_reason=40 isa=1"
		echo "0 ${at}100 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=102"
		echo "0 ${at}900 102 sched:sched_switch prev_pid=102 prev_state=0x100 next_pid=101"
		echo "0 ${at}950 101 kvm_entry vcpu_id=0"
	done
	echo "0  40000 101 kvm_exit exit_reason=1 isa=1"
} >"$tmp/spun"
capture host <"$tmp/spun"
cat >"$tmp/spun-guest" <<'END'
0   1500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
0  19500  78 sched:sched_wakeup pid=77 target_cpu=0
0  25950  78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=77
END
capture guest <"$tmp/spun-guest"
parts --what wakeup "$tmp/host" "$tmp/guest=one" >"$tmp/got"
is "$(cat "$tmp/got")" "wakeup 6450 lock-holder: lock-holder (its CPU given to vCPU 1) 2400, lock-holder (spinning) 2100, \
guest-sched (hog-78) 1500, lock-holder (PAUSE_INSTRUCTION) 450" "a vCPU that spins on a lock whose holder has no CPU"
# The same with paravirtual spinlocks: it halts at a place of its own, and vCPU 1, which comes back late, kicks it
# (delivery mode 3). One of its halts is ended by an interrupt. It may also halt where it does
# when it is idle; then only the kick shows it. From the kick on it is not the lock that it waits for.
{
	echo "0   1000 101 kvm_entry vcpu_id=0"
	for at in 20 24 28; do
		echo "0 ${at}000 101 kvm_exit exit_reason=12 isa=1 guest_rip=0xffffffff81000100"
		echo "0 ${at}100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0"
		[ $at = 24 ] || echo "1 ${at}700 102 kvm_apic_accept_irq apicid=0 dm=0x300 tm=0 vec=0"
		echo "0 ${at}800   0 sched:sched_wakeup pid=101 target_cpu=0"
		echo "0 ${at}850   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101"
		echo "0 ${at}900 101 kvm_vcpu_wakeup ns=700 waited=1 valid=1"
		echo "0 ${at}950 101 kvm_entry vcpu_id=0"
	done
	for at in 40 42 44; do
		echo "0 ${at}000 101 kvm_exit exit_reason=12 isa=1 guest_rip=0xffffffff81000200"
		[ $at != 44 ] || echo "1 ${at}700 102 kvm_apic_accept_irq apicid=0 dm=0x300 tm=0 vec=0"
		echo "0 ${at}950 101 kvm_entry vcpu_id=0"
	done
	echo "0  50000 101 kvm_exit exit_reason=1 isa=1"
	echo "1    900 102 kvm_entry vcpu_id=1"
} | sort -s -n -k1,1 -k2,2 >"$tmp/kicked"
capture host <"$tmp/kicked"
cat >"$tmp/kicked-guest" <<'END'
0   1500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
0  19500  78 sched:sched_wakeup pid=77 target_cpu=0
0  29950  78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=77
0  39000  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0
0  39900   0 sched:sched_wakeup pid=78 target_cpu=0
0  45000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
END
capture guest <"$tmp/kicked-guest"
parts --what wakeup,stall "$tmp/host" "$tmp/guest=one" >"$tmp/got"
cat >"$tmp/want" <<'END'
wakeup 10450 guest-sched: guest-sched (hog-78) 7600, lock-holder (halted, for a lock of vCPU 1) 1400, \
lock-holder (halted, for a lock) 850, halt-wake (kicked by vCPU 1, not awake yet) 300, halt-wake (woken, its CPU still idle) 150, halt-wake (awake, on its way into the guest) 150
stall 950 lock-holder: lock-holder (halted, for a lock of vCPU 1) 700, halt-wake (kicked by vCPU 1, not awake yet) 150, \
halt-wake (woken, its CPU still idle) 50, \
halt-wake (awake, on its way into the guest) 50
stall 150 halt-wake: halt-wake (woken, its CPU still idle) 50, halt-wake (halted) 50, halt-wake (awake, on its way into the guest) 50
stall 950 lock-holder: lock-holder (halted, for a lock of vCPU 1) 700, halt-wake (kicked by vCPU 1, not awake yet) 150, \
halt-wake (woken, its CPU still idle) 50, \
halt-wake (awake, on its way into the guest) 50
wakeup 5100 guest-sched: guest-sched (<idle>-0, on its way to switch) 2250, halt-wake (halted) 1900, \
lock-holder (halted, for a lock of vCPU 1) 700, halt-wake (kicked by vCPU 1, not awake yet) 250
stall 950 lock-holder: lock-holder (halted, for a lock of vCPU 1) 700, halt-wake (kicked by vCPU 1, not awake yet) 250
END
sed -i ':a; /\\$/{N; s/\\\n//; ba}' "$tmp/want"
ok "halts for a lock are its holder's, halts of an idle vCPU are not" diff "$tmp/want" "$tmp/got"

# Linux 6.1 on SVM: what the host served is seen in what it told, before its exit is traced. An idle CPU that takes
# a vCPU late has no limit, where no vCPU ever had to leave it idle.
facts="$facts
meta task tid=21 tgid=21 comm=ksoftirqd/0"
capture host <<'END'
0        1000 101 kvm_entry vcpu_id=0
0      120000 101 sched:sched_wakeup pid=55 target_cpu=0 common_flags=8
0      150000 101 kvm_exit exit_reason=0x60 isa=2
0      150100 101 kvm_entry vcpu_id=0
0      160000 101 kvm_exit exit_reason=0x78 isa=2
0      160100 101 sched:sched_switch prev_pid=101 prev_state=1 next_pid=0
0      170000   0 sched:sched_wakeup pid=101 target_cpu=0
0    20170000   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=101
0    20170100 101 kvm_entry vcpu_id=0
0    30000000 101 kvm_exit exit_reason=0x60 isa=2
0    30000100 101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=21
0    30090000  21 sched:sched_switch prev_pid=21 prev_state=1 next_pid=101
0    30090100 101 kvm_entry vcpu_id=0
0    40000000 101 kvm_exit exit_reason=0x60 isa=2
END
capture guest <<'END'
0     1500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
0   110000  78 sched:sched_wakeup pid=77 target_cpu=0
0   150200  78 sched:sched_switch prev_pid=78 prev_state=1 next_pid=77
0   159000  77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0
0   159500   0 sched:sched_wakeup pid=78 target_cpu=0
0 20170200   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
END
parts --what wakeup,stall "$tmp/host" "$tmp/guest=one" >"$tmp/got"
cat >"$tmp/want" <<'END'
wakeup 40200 host-irq: host-irq (before its exit) 30000, guest-sched (hog-78) 10100, host-irq (interrupt) 100
stall 100 host-irq: host-irq (interrupt) 100
wakeup 20010700 halt-wake: halt-wake (woken, its CPU left idle) 20000000, halt-wake (halted) 10100, \
guest-sched (<idle>-0, on its way to switch) 600
stall 90100 host-irq: host-irq (ksoftirqd/0-21) 89900, host-irq (interrupt) 200
END
sed -i ':a; /\\$/{N; s/\\\n//; ba}' "$tmp/want"
ok "interrupts that came before their exit, softirqs in their thread, and a CPU that was idle for long" \
	diff "$tmp/want" "$tmp/got"
# A timer that came late while the guest ran, or while the host served an interrupt: that is not known.
cat >"$tmp/late" <<'END'
meta machine uname=Linux%206.1.0-13 arch=x86_64
0   1000 101 kvm_entry vcpu_id=0
0   2000 101 kvm_exit exit_reason=0x7c isa=2
0   2010 101 kvm_msr write=1 ecx=0x6e0 data=10000
0   2100 101 kvm_entry vcpu_id=0
0  50000 101 kvm_exit exit_reason=0x60 isa=2
0  50010 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xec
0  50020 101 kvm_inj_virq vector=0xec soft=0 reinjected=0
0  50100 101 kvm_entry vcpu_id=0
0  60000 101 kvm_exit exit_reason=0x60 isa=2
END
all_irqs=$irqs irqs=
capture host <"$tmp/late"
irqs=$all_irqs
capture guest <<'END'
0   1500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
0  50200   0 irq_vectors:local_timer_entry vector=0xec
0  50300   0 irq_vectors:local_timer_exit vector=0xec
END
parts --what timer "$tmp/host" "$tmp/guest=one" >"$tmp/got"
is "$(cat "$tmp/got")" "timer 40200 unknown: unknown (the guest, or an interrupt of the host) 40000, host-irq (interrupt) 100, \
guest-irqs-off (hog-78) 100" "a late timer where it is not known whether the guest ran"
run "$kvmft" blame -q --what timer "$tmp/host" "$tmp/guest=one"
out_has "^# .*record.* -e 'irq_vectors:" "... and what to record"
sed 's/uname=[^ ]*/uname=Linux/' "$tmp/late" >"$tmp/nameless"
irqs=
capture host <"$tmp/nameless"
irqs=$all_irqs
parts --what timer "$tmp/host" "$tmp/guest=one" >"$tmp/again"
ok "... as if the kernel is not known, and so when it traces exits" diff "$tmp/got" "$tmp/again"
capture host <"$tmp/late"
parts --what timer "$tmp/host" "$tmp/guest=one" >"$tmp/got"
is "$(cat "$tmp/got")" "timer 40200 host-timer: host-timer (the guest ran meanwhile) 40000, host-irq (interrupt) 100, \
guest-irqs-off (hog-78) 100" "... and where softirqs of the host were recorded, but none came"
# Interrupts are off while its kernel waits for a lock: shown by where its exits are, if its symbols are known.
capture host <<'END'
0   1000 101 kvm_entry vcpu_id=0
0   2000 101 kvm_exit exit_reason=32 isa=1
0   2010 101 kvm_msr write=1 ecx=0x6e0 data=10000
0   2100 101 kvm_entry vcpu_id=0
0  10000 101 kvm_exit exit_reason=1 isa=1 guest_rip=0xffffffff81000105
0  10010 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xec
0  10200 101 kvm_entry vcpu_id=0
0  50200 101 kvm_exit exit_reason=1 isa=1 guest_rip=0xffffffff81000110
0  50300 101 kvm_inj_virq vector=0xec soft=0 reinjected=0
0  50400 101 kvm_entry vcpu_id=0
0  70000 101 kvm_exit exit_reason=1 isa=1
END
capture guest <<'END'
0   1500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
0  60400   0 irq_vectors:local_timer_entry vector=0xec
0  60500   0 irq_vectors:local_timer_exit vector=0xec
END
printf '%s\n' "ffffffff81000100 t native_queued_spin_lock_slowpath" "ffffffff81000200 t other" >"$tmp/kallsyms"
parts --what timer "$tmp/host" "$tmp/guest=one" >"$tmp/got"
parts --what timer --guest-kallsyms "one=$tmp/kallsyms" "$tmp/host" "$tmp/guest=one" >>"$tmp/got"
cat >"$tmp/want" <<'END'
timer 50400 guest-irqs-off: guest-irqs-off (hog-78) 50000, host-irq (EXTERNAL_INTERRUPT) 400
timer 50400 lock-holder: lock-holder (spinning) 40000, guest-irqs-off (hog-78) 10000, host-irq (EXTERNAL_INTERRUPT) 400
END
ok "a guest that spins on a lock with interrupts off, without and with its symbols" diff "$tmp/want" "$tmp/got"

# A window in which the guest executed nothing: it was left at the first instruction of the handler of what had been
# injected. One instruction later it did, with interrupts off.
window()
{
	capture host <<-END
		0   1000 101 kvm_entry vcpu_id=0
		0   2000 101 kvm_exit exit_reason=32 isa=1
		0   2010 101 kvm_msr write=1 ecx=0x6e0 data=10000
		0   2100 101 kvm_entry vcpu_id=0
		0  10000 101 kvm_exit exit_reason=1 isa=1 guest_rip=0xffffffff81000105
		0  10010 101 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0xec
		0  10100 101 kvm_inj_virq vector=0xec soft=0 reinjected=0
		0  10200 101 kvm_entry vcpu_id=0
		0  50200 101 kvm_exit exit_reason=1 isa=1 guest_rip=$1
		0  50400 101 kvm_entry vcpu_id=0
		0  70000 101 kvm_exit exit_reason=1 isa=1
	END
	run "$kvmft" blame -q --what timer --format json --guest-kallsyms "one=$tmp/kallsyms" "$tmp/host" "$tmp/guest=one"
	got=$(sed -n 's/.*"cause":"\([a-z-]*\)","cause_time_ns":\([0-9]*\),"sure":\([a-z]*\).*/\1 \2 \3/p' "$out")
}

echo "ffffffff82000000 T asm_sysvec_apic_timer_interrupt" >>"$tmp/kallsyms"
capture guest <<'END'
0   1500   0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=78
0  50450  78 irq_vectors:local_timer_entry vector=0xec
0  50500  78 irq_vectors:local_timer_exit vector=0xec
END
window 0xffffffff82000000
out_has 'the guest executed nothing: the host.s interrupt, or below it' "a window in which the guest executed nothing: who had the CPU"
is "$got" "unknown 40000 false" "... which is not the guest's"
window 0xffffffff82000004
is "$got" "guest-irqs-off 40050 true" "... but one instruction later it may be"

# silent MACHINE TICK...: an exit of 20 ms, meanwhile the host's tick came at these times, in ms
silent()
{
	capture host <<-END
		meta machine uname=Linux%206.12.0 arch=x86_64$1
		0   1000 101 kvm_entry vcpu_id=0
		0   2000 101 irq_vectors:local_timer_entry vector=0xec
		0   2100 101 irq_vectors:local_timer_exit vector=0xec
		0  10000 101 kvm_exit exit_reason=10 isa=1
		$(shift; for ms in "$@"; do
			echo "0 ${ms}000000 101 irq_vectors:local_timer_entry vector=0xec"
			echo "0 ${ms}000500 101 irq_vectors:local_timer_exit vector=0xec"
		done)
		0 20010000 101 kvm_entry vcpu_id=0
		0 20020000 101 kvm_exit exit_reason=1 isa=1
	END
	run "$kvmft" blame -q --what stall --format json "$tmp/host"
	got=$(sed -n 's/.*"cause":"\([a-z-]*\)","cause_time_ns":[0-9]*,"sure":\([a-z]*\).*/\1 \2/p' "$out")
}

silent ""
is "$got" "exit-kernel true" "an exit without a tick of the host, on bare metal"
silent " vendor="
is "$got" "exit-kernel false" "... not sure where nothing says that there is no hypervisor"
silent " hypervisor=KVMKVMKVM"
is "$got" "exit-kernel false" "... on a host that is a virtual machine itself, the machine below may have had its CPU"
silent " hypervisor=KVMKVMKVM" 4 8 12 16
is "$got" "exit-kernel true" "... but not while its ticks show that it had it"
capture host <"$tmp/both"
capture guest <"$tmp/both-guest"

# What the guest's own tracers measured: of the stall of vCPU 0, and of the task that ran instead.
{
	cat <<'END'
event osnoise timerlat_sample 901 u64:timer_latency u32:seqnum s32:context
event osnoise sample_threshold 902 u64:start u64:duration u64:interference
event osnoise irq_noise 903 u64:start u64:duration s32:vector text:desc
event osnoise thread_noise 904 u64:start u64:duration s32:pid
END
	sed -n '/^[0-9]/p' "$tmp/guest.txt" | sed '/^0  25300 /{
		i 0  25250   0 osnoise:irq_noise start=0 duration=5450 vector=236 desc=local_timer
		i 0  25260   0 osnoise:timerlat_sample timer_latency=6000 seqnum=1 context=0
		i 0  25270  78 osnoise:sample_threshold start=0 duration=5400 interference=1
	}; /^0  10600 /i 0  10590  78 osnoise:thread_noise start=0 duration=4000 pid=78'
} >"$tmp/noise"
capture guest <"$tmp/noise"
for kind in timerlat noise; do
	parts --what $kind "$tmp/host" "$tmp/guest=one" | sed "s/(EXTERNAL_INTERRUPT)/(irq)/" >>"$tmp/measured"
done
run "$kvmft" blame -q --budget 5us --what timerlat "$tmp/host" "$tmp/guest=one"
status_is 1 "over the budget"
err_has '1 of 1 over the budget; the worst is 6 us: the host 5.2 us, the guest.s kernel 800 ns$' "... and whose time it was"
run "$kvmft" blame -q --naming "kvmft blame host" --from 0 --budget 5us --what timerlat "$tmp/host" "$tmp/guest=one"
status_is 5 "... as record --on-over hears it, who must tell it from a failure"
grep -v sched_switch "$tmp/both" >"$tmp/less"
all_recorded=$recorded
recorded=$(echo "$recorded" | sed 's/[a-z:]*sched_switch//')
capture host <"$tmp/less"
recorded=$all_recorded
run "$kvmft" blame -q --budget 5us --what timerlat "$tmp/host" "$tmp/guest=one"
err_has 'the worst is 6 us, not sure:.* unknown [0-9.]* [un]s' "... without the host's switches it is not known"
capture host <"$tmp/both"
run "$kvmft" blame --budget 6us --what timerlat "$tmp/host" "$tmp/guest=one"
status_is 0 "within the budget"
err_has 'nothing was late by as much as --budget says' "... is said"
awk '/^[0-9]/ { $2 += 2137 } { print }' "$tmp/guest.txt" >"$tmp/lies.txt"
ok "a guest that lies about its clock" "$mkcap" --capture "$tmp/lies" "$tmp/lies.txt"
run "$kvmft" blame -q --budget 1s "$tmp/host" "$tmp/lies=one"
status_is 4 "... has kept no budget"
err_has 'one is misaligned: whether it kept the budget cannot be told' "... which is said"
run "$kvmft" blame -q --budget 1s --vm two "$tmp/host" "$tmp/lies=one"
is "$(grep -c misaligned "$err")" 0 "... of itself alone"
cat >"$tmp/want" <<'END'
timerlat 6000 host-task: host-task (thief-55) 5000, guest-irqs-off (<idle>-0) 800, host-irq (irq) 200
noise 4000 guest-code: guest-code (hog-78) 4000
noise 5450 host-task: host-task (thief-55) 5000, guest-code (<idle>-0) 250, host-irq (irq) 200
END
ok "what the guest's osnoise and timerlat tracers measured" diff "$tmp/want" "$tmp/measured"
grep '^[0-9]' "$tmp/guest.txt" | grep -v osnoise: >"$tmp/plain"
{ echo 'meta task tid=77 tgid=77 comm=victim'; cat "$tmp/plain"; } >"$tmp/plainer"
capture guest <"$tmp/plainer"
run "$kvmft" blame -q --budget 1s --from-event sched_wakeup --to-event 'sched_switch/prev_pid==999/' "$tmp/host" "$tmp/guest=one"
status_is 4 "nothing measured is no budget kept"
run "$kvmft" blame -q --budget 1s --what wakeup,io "$tmp/host" "$tmp/guest=one"
status_is 4 "... nor one of two kinds"
err_has 'io: the guest capture has no block:block_rq_issue' "... which is named"
run "$kvmft" blame -q --what timerlat "$tmp/host" "$tmp/guest=one"
status_is 4 "timerlat where no tracer ran"
err_has 'timerlat: needs a capture of the guest, with osnoise:timerlat_sample' "... is reported"
between() { parts --from-event 'ftrace:print/buf ~ "*begin*"/' --to-event 'print/buf ~ "*end*"/' "$@" "$tmp/host" "$tmp/guest=one" >"$tmp/got"; }
between
ok "between markers: asleep, then on another vCPU" grep -qxF \
	"event 25500 guest-sleep: guest-sleep 22000, guest-code (victim-77) 2500, guest-sched (<idle>-0, on its way to switch) 1000" "$tmp/got"
run "$kvmft" blame --budget 1s --from-event sched_switch --to-event sched_wakeup "$tmp/host" "$tmp/guest=one"
status_is 0 "between events, within the budget"
err_has '^kvmft: [0-9]+ had begun and did not end in the recording: not measured$' "... what did not end is told"
run "$kvmft" blame -q --from-event 'sched_wakeup/pid==101/' --to-event 'sched_switch/prev_pid==0/' "$tmp/host" "$tmp/guest=one"
status_is 4 "events of no vCPU"
err_has 'all 1 are between events of no vCPU: .kvmft latency. has them' "... are latency's"
run "$kvmft" blame -q --from-event nosuch --to-event kvm_exit "$tmp/host" "$tmp/guest=one"
status_is 4 "an event that is not there"
sed 's/^0  20100 .*/0 gap 3/' "$tmp/both" >"$tmp/gap"
capture host <"$tmp/gap"
parts --what wakeup "$tmp/host" "$tmp/guest=one" >"$tmp/got"
ok "what a gap of the host hides is lost, not anyone's" grep -qE '^wakeup 6300 lost: lost [0-9]+' "$tmp/got"
capture host <"$tmp/both"
run "$kvmft" blame -q --format json --from-event 'print/buf ~ "*begin*"/' --to-event 'print/buf ~ "*end*"/' "$tmp/host" "$tmp/guest=one"
mv "$out" "$tmp/long"
run "$kvmft" blame -q --format json --from-marker begin --to-marker end "$tmp/host" "$tmp/guest=one"
ok "--from-marker and --to-marker are short for that" cmp "$tmp/long" "$out"
run "$kvmft" blame --from-marker 'a"b' --to-marker end "$tmp/host" "$tmp/guest=one"
status_is 2 "... of what needs no quoting"
run "$kvmft" blame -q --from-event 'print/buf ~ "*nosuch*"/' --to-event 'print/buf ~ "*end*"/' "$tmp/host" "$tmp/guest=one"
status_is 4 "markers that are not there"
run "$kvmft" blame --from-event 'print/buf ~ "*begin*"/' --to-event 'print/buf ~ "*end*"/' --than 1s "$tmp/host" "$tmp/guest=one"
err_has 'nothing was late by as much as --than says' "... and exist, but are closer together than --than"
run "$kvmft" blame -q --at 85us --format json "$tmp/host" "$tmp/guest=one"
status_is 0 "--at where nothing was late"

run "$kvmft" blame -q --what io "$tmp/host" "$tmp/guest=one"
status_is 4 "a kind of spike that the captures cannot show"
err_has 'io: the guest capture has no block:block_rq_issue' "... is reported with the remedy"
run "$kvmft" blame -q --vcpu 7 "$tmp/host" "$tmp/guest=one"
status_is 1 "a vCPU that is not there"
err_has 'no event of a vCPU that --vcpu names' "... is reported"
# What is late at a moment may have begun long before, and what reaches into a window is whole.
for when in "--at 50us" "--from 40us --to 45us"; do
	# shellcheck disable=SC2086 # words
	between $when
	ok "$when: all of what reaches there" grep -q '^event 25500 ' "$tmp/got"
done

# ---- in a trace for Perfetto: the same spikes, by length and how sure their causes are ----

cat >"$tmp/slices.py" <<'END'
import re, sys
spikes, began, got = set(), {}, []
for packet in re.split(r"^packet ", sys.stdin.read(), flags=re.M)[1:]:
    number = lambda key: int(re.search(r"\b%s: (\d+)" % key, packet).group(1))
    if 'name: "spikes"' in packet:
        spikes.add(number("uuid"))
    elif re.search(r"^    track: ", packet, re.M) and number("track") in spikes:
        track = number("track")
        if number("type") == 1:
            parts = [int(v) for v in re.findall(r'uint_value: (\d+)\n\s*name: "[^"]*, ns"', packet)]
            assert track not in began, "slices of a track overlap"
            unsure = re.search(r'string_value: "no"\n\s*name: "sure"', packet) is not None
            began[track] = number("timestamp"), sum(parts), re.search(r'"late"', packet) is not None, unsure
        else:
            begin, parts, late, unsure = began.pop(track)
            assert late and number("timestamp") - begin == parts, packet
            got.append((parts, unsure))
assert not began
print(sorted(got))
END
if command -v protoc >/dev/null; then
	run "$kvmft" blame -q --top 200 --format json "$tmp/host" "$tmp/guest=one"
	want=$(python3 -c 'import json, sys; print(sorted((s["length_ns"], not s["sure"] and s["cause"] not in ("unknown", "lost"))
		for s in json.load(open(sys.argv[1]))["spikes"]))' "$out")
	ok "some of them have a cause that is not sure" sh -c 'case $1 in *True*) ;; *) false ;; esac' - "$want"
	ok "... and some have no such" sh -c 'case $1 in *False*) ;; *) false ;; esac' - "$want"
	# Of all, the process that writes judges them; of a part (here all of it), the one that finds them.
	for format in perfetto "perfetto --from 0"; do
		# shellcheck disable=SC2086 # words
		run "$kvmft" merge -q --force --format $format -o "$tmp/host.pftrace" "$tmp/host" "$tmp/guest=one"
		status_is 0 "merge --format $format"
		protoc --decode=Trace -I "$top/tests/data" perfetto.proto <"$tmp/host.pftrace" >"$tmp/text"
		is "$(python3 "$tmp/slices.py" <"$tmp/text")" "$want" "... has the spikes of blame, their parts within"
	done
else
	skip "spikes for Perfetto" "protoc is not installed"
fi

# It is not known which VM the guest is. record --blame prints the user's paths, not its own.
capture host <<'END'
0   1000 101 kvm_entry vcpu_id=0
1   1000 201 kvm_entry vcpu_id=0
0  90000 101 kvm_exit exit_reason=1 isa=1
1  90000 201 kvm_exit exit_reason=1 isa=1
END
run "$kvmft" blame -q "$tmp/host" "$tmp/guest"
status_is 4 "a guest of one of two VMs"
err_has "name its VM: $tmp/guest=SEL\. VMs there: " "... is reported, with how to name it"
run "$kvmft" blame -q --naming "kvmft blame run/host run/GUEST=SEL" "$tmp/host" "$tmp/guest"
err_has 'name its VM: kvmft blame run/host run/GUEST=SEL\. VMs there: ' "... by record --blame, too"

# ---- wrong usage ----

for wrong in "--what nosuch" "--top 0" "--by nosuch" "--from-event a" "--key x" "--budget 1us --than 1us" "--at 1 --from 0" "--what=" "--at abc" \
	"-C 2 --format csv" "-C 2 --by cause" "--format html" "--clock nosuch" "--last 1s --at 1" "--last 1s --from 0"; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" blame $wrong "$tmp/host"
	status_is 2 "$wrong"
done
run "$kvmft" blame --than 1us --from-event x --to-event y --what irq "$tmp/host"
status_is 2 "events and --what"
finish
