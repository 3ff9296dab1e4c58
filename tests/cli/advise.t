#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# kvmft advise on recordings that are built, at 1 GHz, so that a cycle is a ns: each rule speaks of what is planted for
# it, with the cost that was planted, and of nothing else; not of the mended recording; and not, but by name, without
# what it needs.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
all="kvm_entry kvm_exit kvm_userspace_exit kvm_vcpu_wakeup kvm_msr kvm_pio kvm_mmio kvm_fast_mmio kvm_page_fault kvm_set_irq
	kvm_msi_set_irq kvm_apic_ipi sched:sched_switch sched:sched_wakeup power:cpu_idle kvmmmu:kvm_tdp_mmu_spte_changed
	kvmmmu:fast_page_fault"
params="halt_poll_ns=200000 nx_huge_pages=N"

# guest PLANT: two vCPUs on CPUs 0 and 1, for 2 s. In each 4 ms a vCPU runs for 1 ms, in which vCPU 0 does what is
# planted four times, 20 us each, so 2 % of a CPU; then it halts.
guest()
{
	echo "meta vm id=100-12 pid=100 fd=12 name=vm1"
	echo "meta vcpu vm=100-12 id=0 tid=101 offset=-1000 tsc=1"
	echo "meta vcpu vm=100-12 id=1 tid=102 offset=${other_offset:--1000} tsc=1"
	for task in 100.100.qemu 101.100.vcpu0 102.100.vcpu1 103.100.worker 55.55.thief; do
		echo "$task" | sed 's/\(.*\)\.\(.*\)\.\(.*\)/meta task tid=\1 tgid=\2 comm=\3/'
	done
	for p in $params; do echo "meta param module=kvm name=${p%%=*} value=${p#*=}"; done
	echo event kvmmmu fast_page_fault 19002 u64:cr2_or_gpa u32:error_code u64:old_spte u64:new_spte
	echo event kvmmmu kvm_tdp_mmu_spte_changed 19003 u64:gfn u32:level u64:old_spte u64:new_spte
	# shellcheck disable=SC2086 # a list
	echo recorded $all | sed 's/  */ /g'
	awk -v plant="$1" -v until="${2:-2000000000}" '
	# a host that has been up for long, and not
	function at(cpu, t, tid, text) { printf "%d %.0f %d %s\n", cpu, t + (plant == "thief" ? 1e12 : 0), tid, text }
	# what is done within one exit at t, and with which reason
	function within(t) {
		if (plant == "hpet") at(0, t + 1000, 101, "kvm_mmio type=1 len=4 gpa=0xfed000f0 val=1")
		if (plant == "pmtimer") at(0, t + 1000, 101, "kvm_pio rw=0 port=0x608 size=4 count=1 val=0")
		if (plant == "hvclock") at(0, t + 1000, 101, "kvm_msr write=0 ecx=0x40000020 data=1 exception=0")
		if (plant == "xapic") at(0, t + 1000, 101, "kvm_mmio type=2 len=4 gpa=0xfee00300 val=1")
		if (plant == "eoi") at(0, t + 1000, 101, "kvm_msr write=1 ecx=0x80b data=0 exception=0")
		if (plant == "device" || plant == "kernel-device") at(0, t + 1000, 101, "kvm_mmio type=2 len=4 gpa=0xfebd0000 val=1")
		if (plant == "serial") at(0, t + 1000, 101, "kvm_pio rw=1 port=0x3f8 size=1 count=1 val=65")
		if (plant == "device" || plant == "serial") at(0, t + 2000, 101, "kvm_userspace_exit reason=6 errno=0")
		if (plant == "dirty" || plant == "small" || plant == "nx")
			at(0, t + 1000, 101, "kvm_page_fault vcpu_id=0 fault_address=0x100000 error_code=" (plant == "nx" ? "0xc" : "0x2"))
		if (plant == "dirty") at(0, t + 2000, 101, "kvmmmu:fast_page_fault cr2_or_gpa=0x100000 error_code=3 old_spte=5 new_spte=7")
		if (plant == "tracked") at(0, t + 1000, 101, "kvm_page_fault vcpu_id=0 fault_address=0x100000 error_code=0x2")
		if (plant == "tracked") at(0, t + 2000, 101, "kvmmmu:fast_page_fault cr2_or_gpa=0x100000 error_code=3 old_spte=0 new_spte=7")
		if (plant == "small") at(0, t + 2000, 101, "kvmmmu:kvm_tdp_mmu_spte_changed gfn=256 level=1 old_spte=0 new_spte=7")
		if (plant == "slow") {
			at(0, t + 1000, 101, "kvm_mmio type=1 len=4 gpa=0xfed000f0 val=1")
			at(0, t + 1500, 101, "sched:sched_switch prev_pid=101 prev_state=1 next_pid=0")
			at(0, t + 19500, 0, "sched:sched_switch prev_pid=0 prev_state=0 next_pid=101")
		}
	}
	function robbed(t, by, sleeps) {
		at(0, t, 101, "kvm_exit exit_reason=1 guest_rip=0xffffffff81000000 isa=1")
		at(0, t, 101, "sched:sched_switch prev_pid=101 prev_state=0x100 next_pid=" by)
		at(0, t + 80000, by, "sched:sched_switch prev_pid=" by " prev_state=" (by ? 1 : 0) " next_pid=101")
		at(0, t + 80000, 101, "kvm_entry vcpu_id=0 rip=0xffffffff81000000")
	}
	BEGIN {
	if (plant == "thief") { # before it first runs
		at(0, 10, 101, "sched:sched_switch prev_pid=101 prev_state=0x100 next_pid=55")
		at(0, 20, 55, "sched:sched_switch prev_pid=55 prev_state=1 next_pid=101")
	}
	for (v = 0; v < 2; v++) for (t = 1000000 + v * 1000; t < 2000000000; t += 4000000) {
		p = v || t > until ? "" : plant
		cpu = p == "moves" && (t / 4000000) % 2 >= 1 ? 2 : v
		at(cpu, t, 101 + v, "kvm_entry vcpu_id=" v " rip=0xffffffff81000000")
		for (k = 1; k <= 4 && !v; k++) {
			s = t + k * 200000
			if (p == "" || p ~ /^(gone|tick|poll|brief|thief|worker|idle|deep|passer|moves)$/) continue
			reason = p == "pause" ? 40 : p == "eoi" || p == "hvclock" ? 32 : p ~ /pmtimer|serial/ ? 30 : 48
			at(0, s, 101, "kvm_exit exit_reason=" reason " guest_rip=0xffffffff81000000 isa=1")
			within(s)
			at(0, s + 20000, 101, "kvm_entry vcpu_id=0 rip=0xffffffff81000000")
		}
		if (p == "thief") robbed(t + 200000, 55)
		if (p == "worker") robbed(t + 200000, 103)
		if (p == "idle") robbed(t + 200000, 0)
		at(cpu, t + 1000000, 101 + v, "kvm_exit exit_reason=12 guest_rip=0xffffffff81000000 isa=1")
		at(cpu, t + (p == "poll" && t > 9000000 ? 1086000 : 1003000), 101 + v, "sched:sched_switch prev_pid=" 101 + v " prev_state=1 next_pid=" (p == "passer" ? 55 : 0))
		if (p == "passer") at(cpu, t + 1010000, 0, "power:cpu_idle state=1 cpu_id=0") # what was before it is not recorded
		if (p == "deep") at(cpu, t + 1010000, 0, "power:cpu_idle state=3 cpu_id=0")
		w = t + (p ~ /deep|brief|passer/ ? 3915000 : 3993000)
		if (p == "tick") at(2, w - 1000, 100, "kvm_set_irq gsi=0 level=1 irq_source_id=2")
		at(2, w, 100, "sched:sched_wakeup pid=" 101 + v " target_cpu=" cpu)
		if (p == "deep") at(cpu, t + 3994000, 0, "power:cpu_idle state=0xffffffff cpu_id=0")
		at(cpu, t + 3995000, 0, "sched:sched_switch prev_pid=0 prev_state=0 next_pid=" 101 + v)
		at(cpu, t + 3996000, 101 + v, "kvm_vcpu_wakeup ns=" (p == "brief" ? 40000 : 2996000) " waited=1 valid=1")
	} }'
}

# by CPU and time
in_order()
{
	grep -v '^[0-9]' "$1"
	grep '^[0-9]' "$1" | sort -s -n -k 1,1 -k 2,2
}

# built NAME PLANT [UNTIL]
built()
{
	guest "$2" ${3:+"$3"} >"$tmp/$1.all"
	in_order "$tmp/$1.all" >"$tmp/$1.text"
	rm -rf "${tmp:?}/$1"
	"$mkcap" --capture "$tmp/$1" "$tmp/$1.text" || echo "# $1 is not built"
}

# says NAME WANT: ids and thousandths of all advice
says()
{
	run "$kvmft" advise --format json "$tmp/$1"
	status_is 0 "$1"
	is "$(jq -r '.vms[0].advice[] | "\(.id) \(.permille)"' "$out" | tr '\n' ' ')" "$2" "... ${2:-nothing}"
}

built healthy none
says healthy ""
run "$kvmft" advise "$tmp/healthy"
is "$(sed 's/^vm1: 1.99[0-9] s/vm1: 2 s/' "$out")" "vm1: 2 s of 2 vCPUs: nothing to change that costs 1.0 % of a CPU or more
  not judged: clocks: \`kvmft clock\` says what that takes" "one line, if there is nothing to say, and what was not looked at"
for rule in hpet=clock-reads pmtimer=clock-reads hvclock=clock-reads xapic=xapic eoi=apicv-off device=vmm-device \
	serial=serial dirty=dirty-log small=small-pages pause=pause; do
	built "${rule%%=*}" "${rule%%=*}"
	says "${rule%%=*}" "${rule#*=} 20 "
done
is "$(jq -c '.vms[0].advice[0] | [.count, .spent_ns]' "$out")" "[2000,40000000]" "as often and as long as planted"
# ... and why, if the event that tells is there: the PIT's, of a guest that ran for 1.999 s
{ cat "$tmp/eoi.all"; echo "0 900000 100 kvm_apicv_inhibit_changed reason=9 set=1 inhibits=0x200"; } >"$tmp/inhibit.all"
in_order "$tmp/inhibit.all" >"$tmp/inhibit.text"
"$mkcap" --capture "$tmp/inhibit" "$tmp/inhibit.text"
run "$kvmft" advise "$tmp/inhibit"
out_has 'the local APIC itself .inhibited for 199[0-9] ms by PIT_REINJ.: ' "what inhibits AVIC is named, and since when"
{ cat "$tmp/inhibit.all"; echo "0 1900000000 100 kvm_apicv_inhibit_changed reason=9 set=0 inhibits=0"; } >"$tmp/freed.all"
in_order "$tmp/freed.all" >"$tmp/freed.text"
"$mkcap" --capture "$tmp/freed" "$tmp/freed.text"
run "$kvmft" advise "$tmp/freed"
out_has 'the local APIC itself: ' "... until it is taken back"
for rule in thief=crowded worker=emulator-shares idle=throttled deep=idle-deep; do
	built "${rule%%=*}" "${rule%%=*}"
	says "${rule%%=*}" "${rule#*=} 20 "
done
out_has '"why":"[^"]* .state 3 500.' "... by whom"
built tick tick # of 4 ms it works for 1 ms, and some us of KVM's
says tick "tick 251 "
built poll poll # 80 us longer than it takes to sleep, twice which is not counted
says poll "poll-waste 19 "
params="halt_poll_ns=0 nx_huge_pages=Y"
built poll0 poll
says poll0 ""
built brief brief # 85 us from its wake-up to its entry
says brief "poll-off 21 "
built nx nx
says nx "nx-huge-pages 20 "
params="halt_poll_ns=200000 nx_huge_pages=N"
built moves moves
run "$kvmft" advise --format json "$tmp/moves"
is "$(jq -c '.vms[0].advice[] | [.id, .permille, .count > 400]' "$out")" '["migrates",null,true]' "moves: what they cost is not known"
other_offset=-500000
built skew none
run "$kvmft" advise "$tmp/skew"
out_has '^  1\. its clocks are ill offset-skew$' "ill clocks are named"
other_offset=

# ---- mended, or without what it takes ----

built kernel-device kernel-device
says kernel-device ""
built no-nx nx
says no-nx ""
built slow slow # of 20 us it had a CPU for 2
says slow ""
built early hpet 250000000 # only in the first eighth: how much it costs later is not known
says early ""
is "$(jq -c '.vms[0].not_sure' "$out")" '[]' "... on average it costs less than the limit"
built half hpet 1250000000
run "$kvmft" advise "$tmp/half"
out_has '^  not sure: clock-reads: [0-9.]+ to [0-9.]+ % of a CPU: record for longer$' "half the time: not sure"
out_has 'nothing to change that surely costs 1.0 %' "... and nothing that is"
head -n 60 "$tmp/hpet.text" >"$tmp/short.text"
ok "a recording of some us" "$mkcap" --capture "$tmp/short" "$tmp/short.text"
run "$kvmft" advise "$tmp/short"
out_has 'too short to judge$' "... says so"
says hpet "clock-reads 20 "
run "$kvmft" advise "$tmp/hpet"
out_has '^  1\. reads of clocks exit: 2000 times, [0-9]+/s \(0xfed000f0 \(HPET\) 2000\): 2\.0 % of a CPU, [0-9]+ ms per second of its guest.s time$' \
	"a sentence with its evidence"
out_has '^      clock-reads: saves 1\.[0-9] to 2\.[0-9] % of a CPU$' "... what it saves"
out_has '^      libvirt: .*hpet' "... what to type"
built tracked tracked # when it was last used is looked at, not what it writes
says tracked ""
built passer passer # its CPU was idle again
says passer ""

# without PLANT RULE EVENT: what a rule needs was not recorded
without()
{
	before=$all
	all=$(echo "$all" | sed "s/\\b$3\\b//")
	guest "$1" | grep -v "$3 " | grep -v "^event .* ${3#*:} " >"$tmp/x.all"
	all=$before
	in_order "$tmp/x.all" >"$tmp/x.text"
	rm -rf "$tmp/x"
	ok "$1, without $3" "$mkcap" --capture "$tmp/x" "$tmp/x.text"
	run "$kvmft" advise --format json "$tmp/x"
	is "$(jq -c "[.vms[0] | (.advice | map(.id) | index(\"$2\")), (.not_sure | index(\"$2\")), (.not_judged | index(\"$2\") != null)]" "$out")" \
		"[null,null,true]" "... $2 is not judged"
	run "$kvmft" advise "$tmp/x"
	out_has "^  not recorded: .*${3#*:}" "... and the event is named"
	out_has 'record it with .kvmft record -e default' "... with how to record it"
}
for rule in hpet=clock-reads xapic=xapic eoi=apicv-off device=vmm-device serial=serial dirty=dirty-log small=small-pages pause=pause \
	thief=crowded worker=emulator-shares idle=throttled deep=idle-deep tick=tick poll=poll-waste; do
	without "${rule%%=*}" "${rule#*=}" sched:sched_switch
done
without hpet clock-reads kvm_mmio
without eoi apicv-off kvm_msr
without device vmm-device kvm_userspace_exit
without serial serial kvm_pio
without tick tick kvm_set_irq
without poll poll-waste kvm_vcpu_wakeup
without thief crowded sched:sched_wakeup
without deep idle-deep power:cpu_idle
without small small-pages kvmmmu:kvm_tdp_mmu_spte_changed
without dirty dirty-log kvmmmu:fast_page_fault
params=
built unset poll
run "$kvmft" advise "$tmp/unset"
out_has '^  not judged: poll-waste, poll-off, nx-huge-pages$' "without parameters"
out_has "^  not recorded: parameters of KVM's modules$" "... they are named"
out_has '^  record it with .kvmft record -e default. on the host$' "... with what records them"
params="halt_poll_ns=200000 nx_huge_pages=N"
guest hpet | grep -v sched_switch >"$tmp/x.all"
in_order "$tmp/x.all" | sed 's/ sched:sched_switch//' >"$tmp/x.text"
ok "without sched_switch" "$mkcap" --capture "$tmp/unseen" "$tmp/x.text"
awk '{ print } /^0 1001000000 / && !n++ { print "0 gap 10" }' "$tmp/hpet.text" >"$tmp/gap.text"
ok "events are lost" "$mkcap" --capture "$tmp/gap" "$tmp/gap.text"
run "$kvmft" advise "$tmp/gap"
status_is 3 "... exit status"
out_has '^  1\. reads of clocks exit: (1999|2000) times' "... the rest is counted"
run "$kvmft" advise --format openmetrics "$tmp/hpet"
out_has '^kvmft_advice_cost\{vm="vm1",.*rule="clock-reads"\} 0\.020$' "OpenMetrics"
run "$kvmft" advise --tsc-khz 2000000
status_is 2 "a rate, and no capture"
"$kvmft" advise --format json "$tmp/hpet" >"$tmp/json" 2>&1
ok "JSON is JSON" jq -e . "$tmp/json"

# ---- what was foretold, and what happened ----

predicted()
{
	run "$kvmft" diff --predict "$1" "$tmp/$2" "$tmp/$3"
	status_is "$4" "$1: $2, $3"
	out_has "$5" "... $5"
}
built gone gone
built half hpet 1000000000
predicted clock-reads hpet gone 0 '^clock-reads: foretold that it saves 1\.[0-9] to 2\.[0-9] % of a CPU; all exits take .* % of a CPU less: as foretold$'
predicted clock-reads hpet hpet 1 'not as foretold$'
predicted clock-reads hpet half 1 'not as foretold$'
predicted crowded thief healthy 0 'all waits take [0-9]+ to [0-9]+ ms per second less: as foretold$'
predicted clock-reads healthy hpet 4 'less: cannot tell$'
run "$kvmft" diff --predict clock "$tmp/hpet" "$tmp/healthy"
status_is 2 "--predict of no rule"
run "$kvmft" diff --predict serial --all "$tmp/hpet" "$tmp/healthy"
status_is 2 "--predict with what it does not use"
run "$kvmft" diff --predict clock-reads "$tmp/unseen" "$tmp/healthy"
status_is 4 "--predict without evidence"

# ---- the manual has each rule ----

page=$top/man/kvmft-advise.1
for id in $(sed -n 's/.*\] = { "\([a-z-]*\)", ADVICE_.*/\1/p' "$top/src/advise/advise.c"); do
	file_has "$page" "^\.It Cm $id\$" "the manual has $id"
done
finish
