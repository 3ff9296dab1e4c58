#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft latency irq` of arm64 hosts, whose GIC tells of lines that go up: private ones, and those of the VM, of
# which no event tells the vCPU. Stamps are ns, formats those of kernels.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
here=$(dirname "$0")

# compiled NAME OPTIONS: a capture of $tmp/NAME.txt.
compiled()
{
	name=$1
	shift
	rm -rf "${tmp:?}/$name"
	[ "$name" = "${name#host}" ] || grep -q sched_wakeup "$tmp/$name.txt" || cat >>"$tmp/$name.txt" <<-'END'
		event sched sched_switch 3101 s32:prev_pid s64:prev_state s32:next_pid
		event sched sched_wakeup 3102 s32:pid
		event kvm kvm_userspace_exit 3103 u32:reason s32:errno
		recorded sched:sched_switch sched:sched_wakeup kvm_userspace_exit
	END
	ok "$name is compiled" "$mkcap" --capture "$tmp/$name" "$@" "$tmp/$name.txt"
}

# told HOST [GUEST]...: what was counted; the JSON adds up.
told()
{
	run "$kvmft" latency irq --all --worst 0 --format json -q "$@"
	status_is 0 "latency irq"
	if command -v python3 >/dev/null; then
		ok "... the parts are the whole" python3 "$here/latency_sums.py" "$out"
	else
		skip "... the parts are the whole" "python3 is not installed"
	fi
	run "$kvmft" latency irq --all --worst 0 -q "$@"
	counted=$(sed -n '/^accepted/,/^$/p' "$out" | tr -s '\n ' ' ')
}

# stages GROUP: "STAGE NS" of a group, as far as they take time
stages()
{
	sed -n "/^$1 /,/cause:/p" "$out" | sed "s/^$1 */ /" |
		awk '$1 != "cause:" && $5 > 0 { print $1, $5 * 1000 }' | tr '\n' ';'
}

# arrows TEXT NS...: from where a line went up to the handlers, in their order; those that latency measures.
arrows()
{
	what=$1
	shift
	if ! command -v protoc >/dev/null; then
		skip "$what" "no protoc"
		return
	fi
	run "$kvmft" merge -q --format perfetto "$tmp/host${1%%:*}" "$tmp/guest${1%%:*}=one"
	status_is 0 "Perfetto"
	protoc --decode=Trace -I "$top/tests/data" perfetto.proto <"$out" | perl "$here/perfetto.pl" >"$tmp/found"
	shift
	is "$(sed -n 's/^arrow of \([0-9]*\) ns .*/\1/p' "$tmp/found" | tr '\n' ' ')" "$*${*:+ }" "... $what"
	is "$(tail -n 1 "$tmp/found")" "bad in all: 0" "... and all of it makes sense"
}

# One vCPU: it runs, a timer's physical interrupt stops it; it halts, and a device's line goes up, which the VMM
# sets or KVM for it; a timer whose line goes down before the vCPU is entered; one that is still up as it is loaded
# again.
host1()
{
	cat <<'END'
event kvm kvm_vcpu_wakeup 902 u64:ns u8:waited u8:valid
meta machine uname=Linux%206.1.0 arch=aarch64 long=8 endian=little
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta task tid=100 tgid=100 comm=qemu
meta task tid=101 tgid=100 comm=CPU%200/KVM
0   900 101 kvm_vcpu_wakeup ns=1 waited=0 valid=1
0  1000 101 kvm_entry vcpu_pc=0xffff800008000000
0  2000 101 vgic_update_irq_pending vcpu_id=0 irq=27 level=1
0  2100 101 kvm_exit ret=0 esr_ec=0 vcpu_pc=0xffff800008000004
0  2500 101 vgic_update_irq_pending vcpu_id=0 irq=27 level=1
0  2510 101 vgic_update_irq_pending vcpu_id=0 irq=30 level=0
0  2600 101 kvm_entry vcpu_pc=0xffff800008000004
0  4000 101 kvm_exit ret=2 esr_ec=1 vcpu_pc=0xffff800008000008
1  5000 100 kvm_irq_line type=1 vcpu_idx=0 irq_num=33 level=1
1  5040 100 vgic_update_irq_pending vcpu_id=0 irq=33 level=1
0  6000 101 kvm_entry vcpu_pc=0xffff80000800000c
0  7000 101 kvm_exit ret=2 esr_ec=1 vcpu_pc=0xffff800008000008
1  7100 100 kvm_irq_line type=1 vcpu_idx=0 irq_num=33 level=0
1  7110 100 vgic_update_irq_pending vcpu_id=0 irq=33 level=0
1  7200 100 kvm_set_irq gsi=2 level=1 irq_source_id=0
1  7230 100 vgic_update_irq_pending vcpu_id=0 irq=34 level=1
1  7240 100 kvm_set_irq gsi=2 level=0 irq_source_id=0
1  7250 100 vgic_update_irq_pending vcpu_id=0 irq=34 level=0
1  7300 100 kvm_set_irq gsi=2 level=1 irq_source_id=0
1  7310 100 vgic_update_irq_pending vcpu_id=0 irq=34 level=1
0  7400 101 vgic_update_irq_pending vcpu_id=0 irq=27 level=1
0  7500 101 vgic_update_irq_pending vcpu_id=0 irq=27 level=0
0  8000 101 kvm_entry vcpu_pc=0xffff80000800000c
0  9000 101 kvm_exit ret=0 esr_ec=0 vcpu_pc=0xffff80000800000c
END
}

guest1()
{
	cat <<'END'
meta side name=guest
meta machine uname=Linux%206.1.0 arch=aarch64 long=8 endian=little
meta cpu n=0 apicid=0
0  1100  0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
0  1200 77 irq:irq_handler_entry irq=4 name=IPI common_flags=9
0  1250 77 irq:irq_handler_exit irq=4 common_flags=9
0  2700 77 irq:irq_handler_entry irq=11 name=arch_timer common_flags=9
0  2900 77 irq:irq_handler_exit irq=11 common_flags=9
0  6050 77 irq:irq_handler_entry irq=4 name=IPI common_flags=9
0  6060 77 irq:irq_handler_exit irq=4 common_flags=9
0  6150 77 irq:irq_handler_entry irq=40 name=uart-pl011 common_flags=9
0  6250 77 irq:irq_handler_exit irq=40 common_flags=9
0  8020 77 irq:irq_handler_entry irq=41 name=virtio0 common_flags=9
0  8090 77 irq:irq_handler_exit irq=41 common_flags=9
0  8500 77 irq:irq_handler_entry irq=50 name=virtio1-req.0 common_flags=9
0  8510 77 irq:irq_handler_exit irq=50 common_flags=9
END
}

guest1 >"$tmp/guest1.txt"
host1 >"$tmp/host1.txt"
compiled guest1
for kernel in 6.1 6.12; do
	echo "# ---- $kernel"
	compiled host1 --formats "formats-$kernel-arm64.txt"
	told "$tmp/host1" "$tmp/guest1=one"
	is "$counted" "accepted 4; measured 3; never injected 1; coalesced 1; handlers without an interrupt of the host 3 " \
		"... what went down, went up once more, or was sent by a vCPU or a message"
	is "$(stages 'irq 11 arch_timer')" "total 700;deliver 600;guest 100;handler 200;" \
		"... a timer, from its line to its handler, although it was still up later"
	is "$(stages 'line irq 40 uart-pl011')" "total 1150;raise 40;deliver 960;guest 150;handler 100;" \
		"... a device's line that the VMM raised"
	is "$(stages 'line irq 41 virtio0')" "total 820;raise 30;deliver 770;guest 20;handler 70;" "... and one of KVM's"
	run "$kvmft" latency irq "$tmp/host1" "$tmp/guest1=one"
	out_has '^note: .*vCPUs send' "... a note says which interrupts have no event"
	arrows "the same interrupts have arrows in Perfetto" 1 700 1110 790
	run "$kvmft" latency timer "$tmp/host1" "$tmp/guest1=one"
	status_is 4 "latency timer"
	err_has 'no event has its deadlines' "... why not"
done

run "$kvmft" verify "$tmp/host1" "$tmp/guest1=one"
out_has "^  all .* lie in the" "verify"
is "$(grep -c kvm_msr "$out")" 0 "... does not ask for events of MSRs, which no arm64 has"
# A request whose interrupt is a message: no event shows that, and the one before it is another device's.
sed '/^0  1000/i event kvm kvm_mmio 19100 u32:type u32:len u64:gpa u64:val
	/^0  6000/a 0  6400 101 kvm_exit ret=2 esr_ec=0x24 vcpu_pc=0\n0  6410 101 kvm_mmio type=2 len=4 gpa=0x1000 val=0\n0  6500 101 kvm_entry vcpu_pc=0' \
	"$tmp/host1.txt" >"$tmp/host-io.txt"
guest1 | sed '/^0  8020/i 0  6300 77 block:block_rq_issue dev=0xfe00000 sector=2048 nr_sector=8 bytes=4096
	/^0  8510/i 0  8505 77 block:block_rq_complete dev=0xfe00000 sector=2048 nr_sector=8' >"$tmp/guest-io.txt"
compiled host-io --formats formats-6.12-arm64.txt
compiled guest-io
run "$kvmft" latency io "$tmp/host-io" "$tmp/guest-io=one"
out_has 'submit 4 %, not known 95 %' "io: where its time went is not known"
out_has '^254,0 .* not known$' "... which the row says"
out_has ': submit 100 ns, not known' "... and the worst"

# Two lines at once: which handler is whose was seen when they were alone. Of lines that never were nothing tells.
{
	sed -n '/^meta/p' "$tmp/host1.txt"
	echo "0   500 101 kvm_entry vcpu_pc=0"
	for up in "10000 33 33" "20000 34 34" "30000 33 34" "40000 35 36"; do
		# shellcheck disable=SC2086 # words
		set -- $up
		cat <<END
0  $(($1 + 100)) 101 kvm_exit ret=0 esr_ec=0 vcpu_pc=0
1  $(($1 + 200)) 100 vgic_update_irq_pending vcpu_id=0 irq=$2 level=1
1  $(($1 + 300)) 100 vgic_update_irq_pending vcpu_id=0 irq=$3 level=1
0  $(($1 + 400)) 101 kvm_entry vcpu_pc=0
END
	done
	echo "0 50000 101 kvm_exit ret=0 esr_ec=0 vcpu_pc=0"
} >"$tmp/host3.txt"
{
	sed -n '/^meta/p' "$tmp/guest1.txt"
	for run in "10500 40" "20500 41" "30500 41" "30600 40" "40500 42" "40600 43"; do
		# shellcheck disable=SC2086 # words
		set -- $run
		echo "0 $1 77 irq:irq_handler_entry irq=$2 name=virtio common_flags=9"
		echo "0 $(($1 + 50)) 77 irq:irq_handler_exit irq=$2 common_flags=9"
	done
} >"$tmp/guest3.txt"
compiled host3 --formats formats-6.1-arm64.txt
compiled guest3
arrows "of two at once those that are known" 3 300 300 200 400

# Without the guest: up to the entry.
told "$tmp/host1"
is "$counted" "accepted 4; measured 3; never injected 1; coalesced 1 " "the host alone"
is "$(stages 27)" "total 600;deliver 600;" "... a timer, to the entry"
is "$(stages 'line 33')" "total 1000;raise 40;deliver 960;" "... a line"

# Two vCPUs, and a line that the guest moves from one to the other: the first one on each tells where it goes, and is
# not measured. It is moved after the second.
{
	echo 'recorded kvm_set_irq'
	sed -n '/^meta/p' "$tmp/host1.txt"
	cat <<'END'
meta vcpu vm=100-12 id=1 tid=102 offset=0 ratio=0 frac=48
meta task tid=102 tgid=100 comm=CPU%201/KVM
0   900 101 kvm_entry vcpu_pc=0
2   900 102 kvm_entry vcpu_pc=0
END
	for i in 1 2 3 4 5; do
		cat <<END
0  $((i * 10000 + 1000)) 101 kvm_exit ret=0 esr_ec=0 vcpu_pc=0
2  $((i * 10000 + 1000)) 102 kvm_exit ret=0 esr_ec=0 vcpu_pc=0
1  $((i * 10000 + 2000)) 100 kvm_irq_line type=1 vcpu_idx=0 irq_num=33 level=1
1  $((i * 10000 + 2010)) 100 vgic_update_irq_pending vcpu_id=0 irq=33 level=1
1  $((i * 10000 + 2020)) 100 vgic_update_irq_pending vcpu_id=0 irq=33 level=0
0  $((i * 10000 + 4000)) 101 kvm_entry vcpu_pc=0
2  $((i * 10000 + 4000)) 102 kvm_entry vcpu_pc=0
END
	done
	echo "0 60000 101 kvm_exit ret=0 esr_ec=0 vcpu_pc=0"
} >"$tmp/host2.txt"
{
	sed -n '/^meta/p' "$tmp/guest1.txt"
	echo "meta cpu n=1 apicid=1"
	echo "0   950  0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77"
	for i in 1 2 3 4 5; do
		cpu=$((i < 3))
		cat <<END
$cpu  $((i * 10000 + 4100)) 77 irq:irq_handler_entry irq=40 name=uart-pl011 common_flags=9
$cpu  $((i * 10000 + 4150)) 77 irq:irq_handler_exit irq=40 common_flags=9
0  $((i * 10000 + 4200)) 77 sched:sched_switch prev_pid=77 prev_state=0 next_pid=77
1  $((i * 10000 + 4200)) 77 sched:sched_switch prev_pid=77 prev_state=0 next_pid=77
END
	done
} >"$tmp/guest2.txt"
compiled host2 --formats formats-6.1-arm64.txt
compiled guest2
told "$tmp/host2" "$tmp/guest2=one"
is "$counted" "accepted 5; measured 2; injected, handler not seen 1; for an unknown vCPU 2; handlers without an interrupt of the host 3 " \
	"a line that moves: measured where it had been seen before"
is "$(stages 'line irq 40 uart-pl011')" "total 2100;raise 10;deliver 1990;guest 100;handler 50;" "... to the ns"
arrows "none, as nothing tells which vCPU the line goes to" 2
run "$kvmft" latency irq "$tmp/host2"
status_is 4 "the host alone"
err_has 'nothing could be measured. irq: accepted 5; measured 0; for an unknown vCPU 5' \
	"... is not enough: the guest alone tells where it went"
finish
