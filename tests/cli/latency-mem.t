#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft latency mem` with a host that is compiled from tests/golden/latency-mem.txt, where the n-th stall takes
# n * 100 ns and is of a kind that its comment names.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
text=$top/tests/golden/latency-mem.txt

# rows TABLE: name, count, sum in us of its groups in the CSV of the last run, sorted
rows()
{
	sed -n "s/^$1,\"[^\"]*\",\"\([^\"]*\)\",total,\([0-9]*\),.*/\1|\2|&/p" "$out" |
		awk -F '|' '{ n = split($3, f, ","); print $1 "|" $2 "|" f[n - 4] }' | sort
}

ok "the host is compiled" "$mkcap" --capture "$tmp/host" "$text"
run "$kvmft" latency mem --by vcpu,task,gpa,thread,time --format csv -q "$tmp/host"
status_is 0 "all tables, as CSV"
cat >"$tmp/kinds" <<END
(unknown)|2|4.800
NX huge page|1|2.800
access log|2|4.000
compaction|1|1.500
copy-on-write|2|13.100
dirty log|3|2.600
fetched meanwhile|1|3.000
file read|1|1.400
first touch|3|3.700
huge page collapse|2|2.500
huge page split|1|0.400
mapped already|1|2.100
mapped first|2|2.900
page migration|1|1.700
reclaim|1|1.600
refault, VMM|1|1.800
refault, host|1|1.900
swap-in|2|2.500
userfaultfd|2|4.200
writeback|1|2.900
END
rows mem >"$tmp/have"
ok "each stall is of its kind, and as long as it is" diff "$tmp/kinds" "$tmp/have"
echo "101@0.000001:virtio_notify vdev 0x50 vq 0x60" >"$tmp/qemu.log"
run "$kvmft" latency mem --format csv -q --qemu "$tmp/qemu.log" "$tmp/host"
rows mem >"$tmp/have"
ok "... also beside a trace of QEMU, which shows nothing of that" diff "$tmp/kinds" "$tmp/have"
run "$kvmft" latency mem --by vcpu,task,gpa,thread,time --format csv -q "$tmp/host"
rows mem-thread >"$tmp/have"
cat >"$tmp/threads" <<END
filler-55|2|4.200
khugepaged-66|1|2.000
kswapd0-77|2|3.100
kvm-nx-lpage-re-88|1|2.800
qemu-100|1|1.800
END
ok "who took the page, or woke the vCPU" diff "$tmp/threads" "$tmp/have"
is "$(rows mem-vcpu)" "0|31|61.400" "by vCPU"
is "$(rows mem-task)" "(guest not recorded)|31|61.400" "by task: the guest was not recorded"
is "$(rows mem-gpa)" "(not known)|1|1.000
0x0-0x3ffffff|30|60.400" "by address, 64 MiB; the log of dirty pages tells none"
is "$(rows mem-time | awk -F '|' '{ n += $2 } END { print (NR > 9 && NR < 26), n }')" "1 31" "by time, in 10 to 25 slices"
out_has '^mem,"","accesses to devices, no stalls",counted,1,' "an access to a device is no stall"
out_has '^mem,"","open at the end",counted,1,' "what did not end is counted"
out_has '^mem,"one","userfaultfd",asleep,2,.*,0\.010,,' "sleep is distinguished"
out_has '^mem,"one","userfaultfd",off-cpu,2,.*,0\.005,,' "... from waiting for a CPU"
out_has '^mem,"one","copy-on-write",again,1,7\.600' "... and so is the guest, where KVM gave up for now"
run "$kvmft" latency mem --by gpa --grain 2M --format csv -q "$tmp/host"
is "$(rows mem-gpa | cut -d '|' -f 1,2)" "(not known)|1
0x0-0x1fffff|25
0x400000-0x5fffff|3
0x600000-0x7fffff|1
0xa00000-0xbfffff|1" "--grain"
run "$kvmft" latency mem --format json -q "$tmp/host"
status_is 0 "as JSON"
if command -v python3 >/dev/null; then
	ok "... what was counted adds up" python3 "$(dirname "$0")/latency_sums.py" "$out"
else
	skip "... what was counted adds up" "python3 is not installed"
fi
run "$kvmft" latency mem -q "$tmp/host"
out_has "^The worst:" "as text: the worst"
out_has "12\.5 us at 0\.0002[0-9]* copy-on-write, 0x100000 of vCPU 0" "... with when, what and where"
run "$kvmft" latency mem --by vcpu -q "$tmp/host"
out_has "^0  *31 100 % .* copy-on-write\$" "... by vCPU: the kind that took most of the time, not the most common one"
run "$kvmft" latency mem --format html -q "$tmp/host"
status_is 0 "as a page"

run "$kvmft" blame --top 40 -q "$tmp/host"
for kind in userfaultfd "fetched meanwhile" "swap-in" npf; do
	out_has "100 %  page-fault: $kind\$" "blame names it: $kind"
done

# ---- with less ----

# without PATTERN NAME: the host without these lines
without()
{
	grep -v "$1" "$text" >"$tmp/$2.txt"
	"$mkcap" --capture "$tmp/$2" "$tmp/$2.txt"
	run "$kvmft" latency mem --format csv "$tmp/$2"
	status_is 0 "without $1"
}
without "kmem:\|event kmem" noalloc
is "$(rows mem | grep -cE '^(first touch|mapped first|copy-on-write)')" 0 "... who had no page is not guessed"
run "$kvmft" latency mem "$tmp/noalloc"
out_has "note: the host capture lacks events that tell why" "... and a note says what to record"
without "kvm_unmap_hva_range" nounmap
is "$(rows mem | grep -cE '^(copy-on-write|refault, VMM)')" 0 "... whether what is written to was copied, or taken before, is not guessed"
without "kvmmmu:\|event kvmmmu" nospte
is "$(rows mem | grep -cE 'touch|collapse|split|refault|already|dirty')" 1 "... but Intel's log still tells"
without "mm_filemap\|event filemap" nofile
is "$(rows mem | grep -E 'swap|file')" "swap-in|1|1.200" "... a read is neither of swap nor of a file"
without "hugetlb_fault" noprobe
is "$(rows mem | grep -E 'unknown|first')" "(unknown)|3|8.100
first touch|2|0.400
mapped first|2|2.900" "... a huge page may have been of hugetlbfs"
echo "meta machine hugetlb_kb=0" >>"$tmp/noprobe.txt"
"$mkcap" --capture "$tmp/nopool" "$tmp/noprobe.txt"
run "$kvmft" latency mem --format csv "$tmp/nopool"
is "$(rows mem | grep -E 'mapped first')" "mapped first|3|6.200" "... which has no memory here"
grep -v kvm_page_fault "$text" >"$tmp/nofault.txt"
"$mkcap" --capture "$tmp/nofault" "$tmp/nofault.txt"
run "$kvmft" latency mem "$tmp/nofault"
status_is 4 "without kvm_page_fault"
err_has "mem: the host capture has no kvm:kvm_page_fault" "... is reported"

sed '/^# 18/i 0 gap 5' "$text" >"$tmp/gap.txt"
"$mkcap" --capture "$tmp/gap" "$tmp/gap.txt"
run "$kvmft" latency mem --format csv -q "$tmp/gap"
status_is 3 "events were lost"
sed '/^# 2:/i 0 gap 5' "$text" >"$tmp/early.txt"
"$mkcap" --capture "$tmp/early" "$tmp/early.txt"
run "$kvmft" latency mem --format csv -q "$tmp/early"
is "$(rows mem | grep -cE '^(first touch\|1|mapped first)')" 1 "... after that a page may have been taken unseen"
sed '/^0 *2010 /a 0 gap 5' "$text" >"$tmp/cut.txt"
"$mkcap" --capture "$tmp/cut" "$tmp/cut.txt"
run "$kvmft" latency mem --format csv -q "$tmp/cut"
out_has '^mem,"","cut by lost events",counted,1,' "... within a stall: it is counted"

# Page 0x106 of which VM the host took is not known where there are two.
sed 's/^meta vm .*/&\nmeta vm id=200-12 pid=200 fd=12 name=two\nmeta vcpu vm=200-12 id=0 tid=201 offset=0 ratio=0 frac=48/' \
	"$text" >"$tmp/two.txt"
"$mkcap" --capture "$tmp/two" "$tmp/two.txt"
run "$kvmft" latency mem --format csv -q "$tmp/two"
status_is 0 "two VMs"
is "$(rows mem | grep 'refault, host')" "refault, host|1|1.900" "... whose page the host took is known by the page"
is "$(rows mem | grep 'refault, VMM')" "refault, VMM|1|1.800" "... the VMM's own is known"
sed '/^# 19/,/^# 20/s/new_spte=0x5009c03/new_spte=0x5010c03/' "$tmp/two.txt" >"$tmp/moved.txt"
"$mkcap" --capture "$tmp/moved" "$tmp/moved.txt"
run "$kvmft" latency mem --format csv -q "$tmp/moved"
is "$(rows mem | grep -c 'refault, host')" 0 "... and is not guessed where another page is there"
run "$kvmft" latency mem --vm two -q "$tmp/two"
status_is 1 "--vm of one without stalls"

grep -v kvm_mmio "$text" >"$tmp/nommio.txt"
"$mkcap" --capture "$tmp/nommio" "$tmp/nommio.txt"
run "$kvmft" latency mem --format csv -q "$tmp/nommio"
is "$(rows mem | grep -c 'mapped already')" 0 "without kvm_mmio: what changed nothing may be a device's"

# ---- the guest's task ----

cat >"$tmp/guest.txt" <<END
0 1500 7 sched:sched_switch prev_pid=7 prev_state=0 next_pid=77
0 13000 77 sched:sched_switch prev_pid=77 prev_state=0 next_pid=0
0 334500 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
END
sed -n '/^0/q; p' "$top/tests/golden/latency-guest.txt" | cat - "$tmp/guest.txt" >"$tmp/g.txt"
"$mkcap" --capture "$tmp/guest" "$tmp/g.txt"
run "$kvmft" latency mem --by task --format csv -q "$tmp/host" "$tmp/guest=one"
status_is 0 "with a guest"
is "$(rows mem-task | sed "s/^[^|]*-77|/77|/" | sort)" "77|2|0.300
<idle>/0|29|61.100" "... whose tasks are told"

# ---- usage ----

run "$kvmft" latency mem --by colour "$tmp/host"
status_is 2 "--by of no such table"
err_has "option --by: 'colour' is not one of vcpu, task, gpa, thread, time, move" "... is reported"
run "$kvmft" latency irq --by vcpu "$tmp/host"
status_is 2 "--by without mem"
run "$kvmft" latency mem --by gpa --grain 100 "$tmp/host"
status_is 2 "--grain of less than a page"
run "$kvmft" latency mem --grain 2M "$tmp/host"
status_is 2 "--grain without --by gpa"
finish
