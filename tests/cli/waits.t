#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# kvmft report --waits on recordings that are built, at 1 GHz, so that a cycle is a ns: what halts waited for, of Intel and
# AMD, and what is not known when evidence is taken away; and merge --format folded --of exits. tests/vm/waits.t has a
# real guest.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
RAISE="kvm_msi_set_irq kvm_set_irq kvm_apic_ipi"
WAKES="sched:sched_switch sched:sched_waking sched:sched_wakeup block:block_rq_issue block:block_rq_complete"

# halt FROM TO LINE...: of vCPU 0, with what happened meanwhile; lines are "TIME EVENT", of CPU 1 where TIME has a colon.
halts()
{
	cat <<-EOF
		0 1000 101 kvm_entry vcpu_id=0
		# the timer
		0 2000 101 HLT
		0 5000 101 kvm_apic_accept_irq apicid=0 vec=236 dm=0
		0 5100 101 kvm_inj_virq vector=236 soft=0 reinjected=0
		0 5200 101 kvm_entry vcpu_id=0
		# another vCPU: its interrupt was the first, and the timer's goes in
		1 6000 102 kvm_entry vcpu_id=1
		0 6100 101 HLT
		1 6500 102 OUT
		1 6600 102 kvm_apic_ipi icr_low=253 dest_id=0
		1 6610 102 kvm_apic_accept_irq apicid=0 vec=253 dm=0
		1 6620 102 kvm_entry vcpu_id=1
		0 6700 101 kvm_apic_accept_irq apicid=0 vec=236 dm=0
		0 6800 101 kvm_inj_virq vector=236 soft=0 reinjected=0
		0 6900 101 kvm_entry vcpu_id=0
		0 6950 101 OUT
		0 6960 101 kvm_inj_virq vector=253 soft=0 reinjected=0
		0 6970 101 kvm_entry vcpu_id=0
		# a disk: a request is completed, and that wakes the VMM
		0 7000 101 HLT
		1 7100 300 block:block_rq_complete dev=1 sector=8 nr_sector=8
		1 7110 300 sched:sched_waking pid=100
		1 7300 100 kvm_msi_set_irq address=0xfee00000 data=0x25
		1 7310 100 kvm_apic_accept_irq apicid=0 vec=37 dm=0
		0 7500 101 kvm_inj_virq vector=37 soft=0 reinjected=0
		0 7600 101 kvm_entry vcpu_id=0
		1 7700 100 sched:sched_switch prev_pid=100 prev_state=1 next_pid=0
		# a packet, by vhost
		0 8000 101 HLT
		1 8100 200 skb:skb_copy_datagram_iovec len=60
		1 8200 200 kvm_msi_set_irq address=0xfee00000 data=0x26
		1 8210 200 kvm_apic_accept_irq apicid=0 vec=38 dm=0
		0 8300 101 kvm_inj_virq vector=38 soft=0 reinjected=0
		0 8400 101 kvm_entry vcpu_id=0
		# some device
		0 9000 101 HLT
		1 9100 100 kvm_msi_set_irq address=0xfee00000 data=0x27
		1 9110 100 kvm_apic_accept_irq apicid=0 vec=39 dm=0
		0 9200 101 kvm_inj_virq vector=39 soft=0 reinjected=0
		0 9400 101 kvm_entry vcpu_id=0
		# a lock that another vCPU gave up
		0 10000 101 HLT
		1 10100 102 OUT
		1 10200 102 kvm_apic_accept_irq apicid=0 vec=0 dm=0x300
		1 10300 102 kvm_entry vcpu_id=1
		0 10500 101 kvm_entry vcpu_id=0
		# what was pending when it began
		0 11000 101 OUT
		0 11010 101 kvm_apic_accept_irq apicid=0 vec=236 dm=0
		0 11020 101 kvm_entry vcpu_id=0
		0 11100 101 HLT
		0 11200 101 kvm_entry vcpu_id=0
		0 11300 101 OUT
		0 11310 101 kvm_inj_virq vector=236 soft=0 reinjected=0
		0 11320 101 kvm_entry vcpu_id=0
		# nothing
		0 12000 101 HLT
		0 12700 101 kvm_entry vcpu_id=0
	EOF
}

# host intel|amd WITHOUT [MORE]: the capture, without events of these names (an expression), and with those lines of meta
host()
{
	case $1 in
	intel) vendor=GenuineIntel hlt="exit_reason=12 isa=1" out_="exit_reason=1 isa=1" ;;
	amd) vendor=AuthenticAMD hlt="exit_reason=0x78 isa=2" out_="exit_reason=0x60 isa=2" ;;
	esac
	rm -rf "$tmp/host"
	{
		echo "meta vm id=100-12 pid=100 fd=12 name=vm1"
		echo "meta vcpu vm=100-12 id=0 tid=101 offset=0 tsc=1"
		echo "meta vcpu vm=100-12 id=1 tid=102 offset=0 tsc=1"
		echo "meta machine arch=x86_64 vendor=$vendor"
		echo "meta task tid=100 tgid=100 comm=qemu"
		echo "meta task tid=101 tgid=100 comm=vcpu0"
		echo "meta task tid=102 tgid=100 comm=vcpu1"
		echo "meta task tid=200 tgid=200 comm=vhost-100"
		echo "event skb skb_copy_datagram_iovec 19021 u64:skbaddr s32:len"
		for name in kvm_apic_accept_irq kvm_inj_virq $RAISE $WAKES skb:skb_copy_datagram_iovec; do
			echo "recorded $name"
		done | grep -vE "^recorded ($2)\$"
		{ halts; [ -z "${3:-}" ] || echo "$3"; } | grep -vE "^[0-9]+ [0-9]+ [0-9]+ ($2)( |\$)" |
			sed "s/ HLT/ kvm_exit $hlt guest_rip=0xffffffff81a00010/; s/ OUT/ kvm_exit $out_ guest_rip=0x402000/"
	} | { case $2 in skb:*) grep -v "^event skb" ;; *) cat ;; esac } >"$tmp/host.text"
	"$mkcap" --capture "$tmp/host" "$tmp/host.text" || echo "# the host is not built"
}

waits() { run "$kvmft" report --waits "$@"; }

# waited NAME [STAGE]: how often and how long in all, of CSV
waited()
{
	awk -F, -v name="\"$1\"" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		$3 == name && $4 == "total" { print $at["count"], $at["sum_us"]; n = 1 } END { if (!n) print "none" }' "$out"
}

for cpu in intel amd; do
	host $cpu 'x'
	waits --format csv "$tmp/host"
	status_is 0 "$cpu: halts"
	is "$(waited timer)" "2 3.300" "... for the timer, of which one was pending"
	is "$(waited 'another vCPU')" "2 1.300" "... for another vCPU: its interrupt was first, or it gave up a lock"
	is "$(waited disk)" "1 0.600" "... for a disk"
	is "$(waited net)" "1 0.400" "... for a packet"
	is "$(waited 'interrupt 39 (MSI) of vCPU 0')" "1 0.400" "... for a device that is not known"
	is "$(waited unknown)" "1 0.700" "... for nothing that is known"
	run "$kvmft" report -i "$tmp/host" --format csv
	is "$(awk -F, 'tolower($3) == "hlt" { print $4 }' "$out")" 8 "... which are all of them"
done

waits "$tmp/host"
out_has '^timer  *2 ' "as text"
out_has 'waits 8; for an interrupt whose device is not known 1; for nothing that was recorded 1$' "... and what was not known is counted"
waits --format json "$tmp/host"
out_has '"counts":{"waits":8,"interrupt":1,"unknown":1,"cut":0,"open":0}' "as JSON"
waits --per vcpu --format csv "$tmp/host"
is "$(waited 'vCPU 0: disk')" "1 0.600" "--per vcpu"
waits --top 2 "$tmp/host"
out_has '^[(]4 more: --top[)]$' "--top leaves rows out, and says so"

# ---- a guest's handlers name devices ----

cat >"$tmp/guest.text" <<END
meta side name=guest
meta cpu n=0 apicid=0
0 1100 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=7
0 9410 0 irq:irq_handler_entry irq=30 name=virtio9-config
0 9420 0 irq:irq_handler_exit irq=30 ret=1
END
"$mkcap" --capture "$tmp/guest" "$tmp/guest.text"
host amd x "0 13000 101 HLT
1 13100 100 kvm_msi_set_irq address=0xfee00000 data=0x27
1 13110 100 kvm_apic_accept_irq apicid=0 vec=39 dm=0
0 13200 101 kvm_inj_virq vector=39 soft=0 reinjected=0
0 13400 101 kvm_entry vcpu_id=0"
waits --format csv "$tmp/host" "$tmp/guest=vm1"
is "$(waited 'virtio9-config (MSI)')" "1 0.400" "a guest's handler has named the device"

# ---- evidence taken away ----

host amd kvm_apic_accept_irq
waits "$tmp/host"
status_is 4 "without kvm_apic_accept_irq"
err_has 'not recorded: which interrupts ended the halts .*`kvmft record`' "... says what would have told"
host amd "kvm_msi_set_irq|kvm_set_irq|kvm_apic_ipi"
waits --format csv "$tmp/host"
is "$(waited timer) $(waited disk)" "none none" "without what raised interrupts nothing is the timer's, or a disk's"
is "$(waited 'interrupt 236 of vCPU 0')" "2 3.300" "... it is told by its number"
waits "$tmp/host"
out_has 'note: what was not recorded would be shown by `kvmft record -e default` on the host' "... and how to record it"
host amd kvm_inj_virq
waits --format json "$tmp/host"
out_has '"needs":\["host kvm:kvm_inj_virq"\]' "without kvm_inj_virq: is said"
is "$(waits --format csv "$tmp/host"; waited disk) $(waited unknown)" "none 7 6.200" "... which of those that were accepted ended a halt is not known"
host amd "sched:sched_waking|block:block_rq_issue|block:block_rq_complete"
waits --format csv "$tmp/host"
is "$(waited disk) $(waited 'interrupt 37 (MSI) of vCPU 0')" "none 1 0.600" "without its completions no device is a disk"
waits "$tmp/host"
out_has '`kvmft record -e default -e block:block_rq_issue -e block:block_rq_complete -e io` on the host' "... and how to record it"
host amd skb:skb_copy_datagram_iovec
waits --format csv "$tmp/host"
is "$(waited net) $(waited 'interrupt 38 (irqfd) of vCPU 0')" "none 1 0.400" "without packets none is of the network"
waits "$tmp/host"
out_has 'not recorded: which interrupts are of the network: `kvmft record -e default -e io -e net`' "... and how to record it"
host amd HLT
waits "$tmp/host"
status_is 4 "a guest that never halts"
err_has 'nothing to measure: .* no halts$' "... is said"

# Lost events: the halt in them is for nobody.
host amd x
awk '/ 7300 100 / { print "1 gap 5" } { print }' "$tmp/host.text" >"$tmp/gap.text"
rm -rf "$tmp/gap"
"$mkcap" --capture "$tmp/gap" "$tmp/gap.text"
waits --format csv "$tmp/gap"
status_is 3 "with lost events"
is "$(waited disk) $(waited timer)" "none 2 3.300" "... the halt at the gap is left out, and others are not"
waits --format json "$tmp/gap"
out_has '"counts":{"waits":7,"interrupt":1,"unknown":1,"cut":1,"open":0}' "... and counted"

# ---- by process ----

host amd x "0 13000 101 HLT
0 13100 101 kvm_apic_accept_irq apicid=0 vec=236 dm=0
0 13400 101 kvm_entry vcpu_id=0"
waits --by process "$tmp/host"
status_is 4 "--by process without CR3"
err_has 'not recorded: which process a guest ran: `kvmft record --guest-processes`' "... says what would have told"
sed '/HLT/d' "$tmp/host.text" >"$tmp/cr3.text"
{
	echo "event kvmft guest_cr3 19020 u64:cr3 u64:rip u64:rsp u8:cpl u64:code u64:modes"
	sed '/^event skb/,$!d; s/^\(0 [0-9]*\) 101 kvm_exit exit_reason=0x78.*/&\n\1 101 kvmft:guest_cr3 cr3=0x10000000 rip=0x401000 rsp=0xffffc90000004000 cpl=0 code=0x78 modes=1/; s/^\(0 [0-9]*\) 101 kvm_exit exit_reason=0x60.*/&\n\1 101 kvmft:guest_cr3 cr3=0x20000000 rip=0x401000 rsp=0x7fff0000 cpl=3 code=0x60 modes=1/' \
		"$tmp/host.text"
} >"$tmp/rest.text"
{ grep '^meta' "$tmp/host.text"; cat "$tmp/rest.text"; } >"$tmp/cr3.text"
rm -rf "$tmp/cr3"
"$mkcap" --capture "$tmp/cr3" "$tmp/cr3.text" || echo "# the host is not built"
waits --by process --format csv "$tmp/cr3"
status_is 0 "--by process"
is "$(waited 'as-2: another vCPU')" "2 1.300" "... who was seen to run after a halt waited"
is "$(waited '(not seen): disk')" "1 0.600" "... or nobody"

# ---- exits as stacks ----

fold() { run "$kvmft" merge --format folded "$@"; }
fold --of exits "$tmp/host"
status_is 0 "exits as stacks"
is "$(grep -c . "$out") $(awk '{ n += $NF } END { print n }' "$out")" "2 14" "... all of them are there"
out_has '^vm1;0xffffffff81a00010;hlt 9$' "... with the RIP and the reason"
fold --of exit-time "$tmp/host"
out_has '^vm1;0xffffffff81a00010;hlt 7100$' "... and ns"
printf 'ffffffff81a00000 T idle_loop\nffffffff81a00100 T behind\n' >"$tmp/syms"
fold --of exits --guest-kallsyms "$tmp/syms" "$tmp/host"
out_has '^vm1;idle_loop;hlt 9$' "... with functions of the guest"
awk '/^event skb/ { print "event ftrace kernel_stack 4 s32:size u32:pad u64:caller u64:c1" } { print }
	$3 == 101 && $4 == "kvm_exit" && !done { print $1, $2, $3, "ftrace:kernel_stack size=2 caller=0xffffffff81000010 c1=0xffffffff81000110"; done = 1 }' \
	"$tmp/host.text" >"$tmp/stack.text"
rm -rf "$tmp/stack"
"$mkcap" --capture "$tmp/stack" "$tmp/stack.text"
printf 'ffffffff81000000 T vcpu_block\nffffffff81000100 T kvm_run\n' >"$tmp/stack/kallsyms"
fold --of exits "$tmp/stack"
out_has '^vm1;0xffffffff81a00010;hlt;kvm_run.*;vcpu_block.* 1$' "... and the host's stack where that was recorded"
out_has '^vm1;0xffffffff81a00010;hlt 8$' "... others without"
fold --of exits --vcpu 1 "$tmp/host"
is "$(awk '{ n += $NF } END { print n }' "$out")" 2 "--vcpu selects"
fold "$tmp/host"
status_is 4 "without --of: stacks, of which there are none"
run "$kvmft" merge --of exits "$tmp/host"
status_is 2 "--of without --format folded"
host amd "HLT|OUT"
fold --of exits "$tmp/host"
status_is 4 "exits of a guest that has none"
err_has 'no kvm_exit and kvm_entry' "... is said"

# ---- options ----

for o in "--key time" "--vcpu 0" "--split" "--from 1" "--event ioport" "--by rip" "--by task" "--format openmetrics"; do
	# shellcheck disable=SC2086 # an option and its value
	waits $o "$tmp/host"
	status_is 2 "--waits and $o exclude each other"
done
finish
