#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Recordings that trace-cmd made of a real host and a real guest (tests/golden/foreign), with no option but the two files:
# every command works, and what it found is what KVM had.

. "$(dirname "$0")/lib.sh"

golden=$top/tests/golden/foreign
fact() { sed -n "s/^$2=//p" "$golden/$1/facts"; }

"$kvmft" export -q -i "$golden/pair/host.dat" --json -o "$tmp/probe" 2>"$err"
if grep -q 'zstd' "$err"; then
	skip "recordings of trace-cmd" "$(head -n 1 "$err")"
	finish
fi

# ---- made by hand on both sides ----

cp "$golden"/pair/*.dat "$tmp"
cd "$tmp" || exit
true_offset=$(fact pair vm1_before_vcpu0_offset)
pid=$(fact pair vm1_before_pid)
threads=$(fact pair vm1_before_vcpu0_tid),$(fact pair vm1_before_vcpu1_tid)

run "$kvmft" verify host.dat guest.dat
status_is 0 "verify: a pair"
err_has "guest.dat: pid:$pid .tids:$threads," "... its VM's PID and threads"
err_has "TSC offset -[0-9]* .-[0-9]* cycles" "... its offset, and by what it is uncertain"
out_has "not checkable: [0-9]* outside of the host's recording" "... what could not be checked"
run "$kvmft" verify --format json host.dat guest.dat
min=$(sed -n 's/.*"tsc_offset_min":\(-[0-9]*\).*/\1/p' "$out")
max=$(sed -n 's/.*"tsc_offset_max":\(-[0-9]*\).*/\1/p' "$out")
ok "the true offset is in what was found: $min..$max" test "${min:-0}" -le "$true_offset" -a "${max:--1}" -ge "$true_offset"
width=$(((${max:-0} - ${min:-0}) / 2))
run "$kvmft" verify --tsc-offset "$true_offset" host.dat guest.dat
status_is 0 "... and it aligns"
slack=$(sed -n 's/.*aligned within \([0-9]*\) cycles.*/\1/p' "$out")
ok "... half of what was found, $width, is no wider than the slack then, ${slack:-none}" test "$width" -le "${slack:-0}"

run "$kvmft" merge --clock host-tsc --side guest host.dat guest.dat
status_is 0 "merge"
is "$(wc -l <"$out" | tr -d ' ')" "$("$kvmft" merge --clock host-tsc --side guest --tsc-offset "$true_offset" \
	host.dat guest.dat 2>/dev/null | wc -l | tr -d ' ')" "... as many lines as with the offset by hand"
run "$kvmft" latency sched --all host.dat guest.dat
status_is 0 "latency sched"
err_has "pid:$pid" "... says which VM it took"
err_has "guest times may be off by 42549 cycles" "... and that its offset was found"
run "$kvmft" latency sched --all --format json -q host.dat guest.dat
out_has '"tsc_offset_from":"events","uncertain_' "... in JSON too"
for selector in "pid:$pid" "tids:$threads" "tids:${threads#*,},${threads%,*}"; do
	run "$kvmft" verify host.dat "guest.dat=$selector"
	status_is 0 "=$selector"
	run "$kvmft" report --vm "$selector" -i host.dat
	status_is 0 "report --vm $selector"
	run "$kvmft" latency sched -q --vm "$selector" host.dat guest.dat
	status_is 0 "latency --vm $selector, of a VM that has its guest"
done
run "$kvmft" merge -q host.dat guest.dat=228
status_is 0 "GUEST=TID of a vCPU"
run "$kvmft" report -i host.dat
status_is 0 "report"
run "$kvmft" merge --format html -o page.html host.dat guest.dat
status_is 0 "html"
run "$kvmft" export -i host.dat -o both.dat guest.dat
status_is 0 "export"
run "$kvmft" merge --format perfetto -o both.pftrace host.dat guest.dat
status_is 0 "perfetto"

# Compressed by a trace-cmd that has no zstd.
run "$kvmft" merge -q host.dat guest.dat
cp "$out" zstd.merge
run "$kvmft" merge -q host.dat "$golden/zlib/guest.dat"
if grep -q 'built without zlib' "$err"; then
	skip "zlib" "$(head -n 1 "$err")"
else
	status_is 0 "merge with zlib"
	ok "... the same" cmp zstd.merge "$out"
	run "$kvmft" latency sched -q host.dat "$golden/zlib/guest.dat"
	status_is 0 "latency with zlib"
	cp "$golden/zlib/guest.dat" broken.dat
	printf '\377\377\377\377\377\377\377\377' | dd of=broken.dat bs=1 seek=10000 conv=notrunc 2>/dev/null
	run "$kvmft" merge --clock host-tsc broken.dat
	status_is 3 "a chunk that is damaged"
	err_has 'host: [0-9]* damaged sub-buffers left out' "... is said"
fi

# trace_printk(): the kernel's text, and its arguments as vbin_printf() packs them.
cat >printk.txt <<-END
	event ftrace bputs 14 u64:ip u64:str
	event ftrace bprint 6 u64:ip u64:fmt bytes24:buf
	0 1000 900 ftrace:bprint ip=0 fmt=4096 buf=fbffffff0700000034120000010000006f6e6500ff000000
	0 2000 900 ftrace:bputs ip=18446744071580689549 str=8192
	0 3000 900 ftrace:bprint ip=0 fmt=12288 buf=4100fdff0900000030786162630000000000000000000000
	0 4000 900 ftrace:bprint ip=0 fmt=5 buf=$(printf '%048d' 0)
END
"${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap" --capture printk printk.txt
cat >printk/printk_formats <<-'END'
	0x1000 : "a %d b %-4u| %lx %s %#06x 100%%\n"
	0x2000 : "plain \"text\" %d\n"
	0x3000 : "%c %hd %i %pS %p %s %ld %q"
END
run "$kvmft" merge -q printk
is "$(sed -n 's/.*ftrace:[a-z]*: //p' "$out" | head -n 3)" 'a -5 b 7   | 100001234 one 0x00ff 100%
plain "text" %d
A -3 9 0x6362617830   0 q' "texts of trace_printk()"
out_has 'ftrace:bprint: .*fmt=5' "... and one that is not there"
run "$kvmft" merge -q --format json printk
out_has '"ip":"0xffffffff811c248d"' "... an address is a string in JSON"

# A file's header has the sizeof(long) of the machine that wrote it, header_page that of the kernel that traced.
run "$kvmft" merge "$golden/long32/host.dat"
status_is 0 "sub-buffers of a kernel of 32 bits"
err_has 'host: 80 events, 0 lost' "... all events"
is "$(sed 's/^.*\] *//' "$out" | awk 'NR == 1 || NR == 80 { print $1 }')" "1000.000000000
1000.000393000" "... at their times"

# Before Linux 5.6 the text of a marker was `char buf` of size 0.
cat >marker.txt <<-END
	event ftrace print 5 u64:ip text:buf
	0 1000 900 ftrace:print ip=0 buf=kvm_run_exit cpu_index 0, reason 2
	0 2000 900 ftrace:print ip=0 buf=resize done
END
"${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap" --capture marker marker.txt
"$kvmft" export -q -i marker -o marker.dat
run "$kvmft" merge -q marker.dat
cp "$out" marker.new
out_has 'resize done$' "a marker's text"
perl -pe 's/char buf\[\];/char buf;  /' marker.dat >marker-old.dat
ok "the format of an older kernel" sh -c '! cmp -s marker.dat marker-old.dat'
run "$kvmft" merge -q marker-old.dat
ok "... has the same text" cmp marker.new "$out"

# The same two files as if recorded with trace-cmd's default clock: nothing leads from that to the TSC, and their own
# times are related by an offset. The numbers of x86-tsc stand for the ns.
run "$kvmft" verify --format json host.dat guest.dat
solved=$(sed -n 's/.*"solution":{"tsc_offset":\(-[0-9]*\).*/\1/p' "$out")
ok "the offset of the pair, $solved" test -n "$solved"
"$kvmft" export -q -i host.dat -o local-host.dat
"$kvmft" export -q -i guest.dat -o local-guest.dat
perl -pi -e 's/\[x86-tsc\]/[local]  /g' local-host.dat local-guest.dat
run "$kvmft" merge local-host.dat local-guest.dat
status_is 0 "two files with clock local"
err_has "clock offset in ns $solved .-[0-9.]* us, found in" "... the offset is found in the events, as before"
err_has ', 0 outside their' "... and proved"
is "$(grep -c cycles "$err")" 0 "... in ns"
run "$kvmft" merge --clock host-tsc local-host.dat local-guest.dat
status_is 4 "... but not on the TSC"
"$kvmft" export -q -i local-host.dat -o placed.dat local-guest.dat
set -- placed-*.dat
run "$kvmft" verify placed.dat "$1"
status_is 0 "... exported, each in the host's clock"
out_has 'solved: clock offset in ns (-|)[0-9]{1,5};' "... between which there is no offset"
perl -pe 's/\[local\]  /[mono]   /g' local-guest.dat >mono-guest.dat
run "$kvmft" merge local-host.dat mono-guest.dat
err_has "clock offset in ns $solved " "another clock of the guest, at the same rate"
perl -pe 's/\[local\]  /[counter]/g' local-guest.dat >counter-guest.dat
run "$kvmft" merge local-host.dat counter-guest.dat
status_is 4 "a clock of the guest that is no time"
err_has 'local-host.dat: trace clock local needs readings of that clock against the TSC' "... says what it takes"

# With trace-cmd's own TIME_SHIFT, of KVM and of PTP, there is nothing to search for.
"$kvmft" export -q -i host.dat --clock guest-tsc -o shift.dat guest.dat
perl -pi -e 's/\[x86-tsc\]/[local]  /g' shift.dat shift-*.dat
set -- shift-*.dat
run "$kvmft" merge shift.dat "$1"
status_is 0 "TIME_SHIFT in clock local"
err_has ', 0 outside their' "... is used"
is "$(grep -c 'found in' "$err")" 0 "... and nothing is solved"
perl -0777 -e 'my ($host, $guest) = map { open my $f, "<", $_; <$f> } @ARGV;
	my ($id) = $host =~ /\x0b\0\x08\0\0\0(.{8})/s;
	$guest =~ s/\Q$id\E\0\0\0\0/$id\x01\0\0\0/; print $guest' shift.dat "$1" >ptp.dat
ok "the same, to be interpolated" sh -c "! cmp -s '$1' ptp.dat"
run "$kvmft" merge shift.dat ptp.dat
err_has ', 0 outside their' "... is used"
is "$(grep -c 'found in' "$err")" 0 "... and nothing is solved"

# Where the option stood that says where the events are.
cp host.dat damaged.dat
printf '\377\377\377\377\377\377\377\377' | dd of=damaged.dat bs=1 seek=6274 conv=notrunc 2>/dev/null
for command in merge verify blame; do
	run "$kvmft" $command damaged.dat guest.dat
	status_is 4 "$command, a file that is damaged"
	err_has "knows no VM: .*; and damaged.dat: section 18 is missing" "... is the reason, not what was recorded"
done

# ---- trace-cmd's own ----

run "$kvmft" verify "$golden/agent/host.dat" "$golden/agent/host-vm1.dat"
status_is 0 "trace-cmd record -A"
out_has "^vm1: aligned within" "... its VM's name"
is "$(wc -l <"$err" | tr -d ' ')" 0 "... nothing had to be assumed"

# ---- of two hosts ----

run "$kvmft" merge "$golden/agent/host.dat" "$golden/pair/guest.dat"
status_is 4 "a guest that the host did not run"
run "$kvmft" merge "$golden/pair/host.dat" "$golden/agent/host-vm1.dat"
status_is 4 "... the other way round"
finish
