#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# What KVM on VMX tells, by the format texts of four kernels: 5.10, 6.1, 6.12 and 7.2. Each time in
# tests/golden/vmx-host.txt can be worked out by hand, and is the same whatever the kernel calls its fields. The rig
# has some of it from real hosts (tests/vm/intel*.t); this has what Bochs lacks: a TSC whose offset and ratio change at
# once, pause loops with their windows, TDs, a guest's guest, and posted interrupts before 5.17, which no event tells.

. "$(dirname "$0")/lib.sh"

golden=$top/tests/golden
mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
ok "the guest is compiled" "$mkcap" --capture "$tmp/guest" "$golden/vmx-guest.txt"

# counts: "NAME SAMPLES" of the last report in CSV, sorted
counts()
{
	awk -F , 'NR > 1 { print $3, $4 }' "$out" | LC_ALL=C sort | tr '\n' ';'
}

# stages TABLE GROUP: "STAGE NS" of a group, as far as they take time
stages()
{
	sed -n "/^$1 /,/cause:/p" "$out" | sed "s/^$1 */ /" | awk '$1 != "cause:" && $5 > 0 { print $1, $5 * 1000 }' |
		tr '\n' ';'
}

for kernel in 5.10 6.1 6.12 7.2; do
	host=$tmp/host-$kernel
	echo "# ---- $kernel ----"
	ok "the host is compiled" "$mkcap" --capture "$host" --formats "formats-$kernel-kvm.txt" "$golden/vmx-host.txt"

	# reasons, flags aside; a guest's guest apart
	run "$kvmft" report -i "$host" --format csv
	status_is 0 "report"
	is "$(counts)" "EPT_MISCONFIG 2;EPT_VIOLATION (L2) 1;EPT_VIOLATION 1;EXTERNAL_INTERRUPT 1;HLT (L2) 1;INVALID_STATE 1;MSR_WRITE 2;PAUSE_INSTRUCTION 1;PREEMPTION_TIMER 1;TDCALL 1;VMRESUME 1;" \
		"... each reason by its name, and L2's are not L1's"
	err_has '1 exits are failed VM entries' "... the flag is named"
	run "$kvmft" report -i "$host" --format csv --event fast-mmio
	is "$(counts)" "0xfebf3000:F 1;" "... a doorbell"
	run "$kvmft" report -i "$host" --format csv --event mmio
	is "$(counts)" "0xfebd0010:W 1;" "... a device's register"
	run "$kvmft" report -i "$host" --format csv --event page-fault
	is "$(counts | grep -c ' 1;')" 1 "... a page that was not there"

	# six events, of which it takes eight to tell whose they are
	run "$kvmft" merge "$host" "$tmp/guest"
	status_is 4 "whose few events are is not guessed"
	err_has 'too few events to tell .*guest=SEL\. VMs there: one \(6 events fit, 8 are needed\)$' "... and the reason is given"

	# a TSC that is half as fast again, and 51000 ahead from 60010 on
	run "$kvmft" merge --clock host-tsc "$host" "$tmp/guest=one"
	status_is 0 "merge"
	is "$(sed -n 's/^one .*\[v0\] *\([0-9]*\)  [a-z].*/\1/p' "$out" | tr '\n' ' ')" "1200 9750 9850 12300 12400 70000 " \
		"... each guest event where it was, by offset and 48 bits of ratio"
	err_has '6 guest events checked, 0 outside' "... inside"
	out_has 'EPOCH .*: TSC offset 50000, ratio 422212465065984/48' "... the change is reported"
	is "$(grep -c 'kvm_ple_window_update: ' "$out")" \
		"$(grep -c '^name: kvm_ple_window_update' "$top/tests/data/formats-$kernel-kvm.txt")" "... so are pause loops' windows"

	# the preemption timer is the APIC's; a posted interrupt, which goes in without an exit
	run "$kvmft" latency timer -q --all --worst 0 "$host" "$tmp/guest=one"
	status_is 0 "latency timer"
	out_has '^armed 1; fired 1; measured 1$' "... the deadline"
	is "$(stages "deadline of vCPU 0")" "total 250;expire 110;deliver 90;guest 50;" "... to the ns"
	run "$kvmft" latency irq -q --all --worst 0 "$host" "$tmp/guest=one"
	status_is 0 "latency irq"
	out_has '^accepted 2; measured 2(; posted 2)?$' "... both"
	case $kernel in # before 5.17 no event tells that it is posted, nor of its notification
	5.10) set -- "deliver 90" "guest 200" ;;
	*) set -- "notify 10;deliver 80" "notify 10;guest 190" ;;
	esac
	is "$(stages "236 local_timer")" "total 140;$1;guest 50;handler 100;" "... the timer's"
	is "$(stages "MSI irq 30")" "total 300;raise 100;$2;handler 100;" "... the posted one, into the guest that ran"
done

# ---- another ratio ----

# No event shows that a TSC's ratio changed; KVM's record for kvmclock does, which is for the guest's frequency. With
# the offset at 60010 the ratio became 0.75, and the last event of the guest is at 70000 * 0.75 + 50000.
sed 's/^\(meta vcpu .*\) ratio=[0-9]* \(.* at=end\)/\1 ratio=211106232532992 \2/
	/^0  60100 /i 0  60050 101 kvm_pvclock_update vcpu_id=0 version=2 tsc_timestamp=95037 system_time=60050 tsc_to_system_mul=2863311531 tsc_shift=1 flags=1' \
	"$golden/vmx-host.txt" >"$tmp/ratio.txt"
sed 's/^0 *155000 /0 102500 /' "$golden/vmx-guest.txt" >"$tmp/ratio-guest.txt"
ok "a host whose guest's TSC got another ratio is compiled" "$mkcap" --capture "$tmp/ratio" "$tmp/ratio.txt"
ok "... its guest, too" "$mkcap" --capture "$tmp/ratio-guest" "$tmp/ratio-guest.txt"
run "$kvmft" merge --clock host-tsc "$tmp/ratio" "$tmp/ratio-guest=one"
status_is 0 "merge"
is "$(sed -n 's/^one .*\[v0\] *\([0-9?]*\)  [a-z].*/\1/p' "$out" | tr '\n' ' ')" "1200 9750 9850 12300 12400 70000 " \
	"... each guest event where it was, before and after"
out_has 'EPOCH .*: TSC offset 50000, ratio 211106232532992/48$' "... the change is dated"
err_has '6 guest events checked, 0 outside' "... inside"
grep -v kvm_pvclock_update "$tmp/ratio.txt" >"$tmp/undated.txt"
ok "... without the record" "$mkcap" --capture "$tmp/undated" "$tmp/undated.txt"
run "$kvmft" merge --format json -q "$tmp/undated" "$tmp/ratio-guest=one"
out_has '"kind":"epoch".*"doubtful":true' "... all of it is in doubt"

# ---- an injection shows that interrupts are not posted ----

sed 's/^# (guest: handler 12300.*/0 13000 101 kvm_exit exit_reason=12 isa=1 vcpu_id=0\n0 13100 101 kvm_inj_virq irq?=0x30 vector?=0x30\n0 13200 101 kvm_entry vcpu_id=0/' \
	"$golden/vmx-host.txt" >"$tmp/injects.txt"
ok "a host of 5.10 that injects is compiled" "$mkcap" --capture "$tmp/injects" --formats formats-5.10-kvm.txt "$tmp/injects.txt"
run "$kvmft" latency irq -q --all --worst 0 "$tmp/injects" "$tmp/guest=one"
out_has "^accepted 3; measured 2; begun before the host's capture 1\$" "... one that was accepted before it began"
finish
