#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Recordings that hold a part of the events: what can be counted is counted, and no time is made up.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

# two vCPUs; 900 has 3 exits, an MSR_WRITE among them, 901 has one
cat >"$tmp/events" <<-E
	0 1000000 900 kvm_entry vcpu_id=0 rip=4096
	0 2000000 900 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
	1 2500000 901 kvm_exit exit_reason=30 isa=1 guest_rip=8192 vcpu_id=1
	1 2600000 901 kvm_pio port=128 rw=1 size=1 count=1 val=0
	1 2700000 901 kvm_userspace_exit reason=2 errno=0
	1 2800000 901 kvm_entry vcpu_id=1 rip=8194
	0 3000000 900 kvm_entry vcpu_id=0 rip=4096
	0 4000000 900 kvm_exit exit_reason=32 isa=1 guest_rip=4352 vcpu_id=0
	0 4100000 900 kvm_userspace_exit reason=6 errno=4294967292
	0 5000000 900 kvm_entry vcpu_id=0 rip=4354
	0 6000000 900 kvm_exit exit_reason=12 isa=1 guest_rip=4096 vcpu_id=0
	1 7000000 901 kvm_pio port=128 rw=1 size=1 count=1 val=0
E

# part NAME PATTERN: a capture of the lines that match
part()
{
	grep -E "$2" "$tmp/events" | tr -d '\t' >"$tmp/$1.txt"
	ok "$1" "$mkcap" --trace-dat "$tmp/$1.dat" "$tmp/$1.txt"
}

# rows FILE [OPTION...]
rows()
{
	run "$kvmft" report --format csv --per all -i "$@"
	status_is 0 "${1##*/}: report"
}

# rows_are "EVENT,SAMPLES..." NAME
rows_are()
{
	is "$(sed 1d "$out" | cut -d , -f 3,4)" "$1" "$2"
}

untimed='without kvm_exit and kvm_entry, both, it is not known how long an event took'

part all .
rows "$tmp/all.dat"
rows_are "HLT,1
IO_INSTRUCTION,1
MSR_WRITE,1" "all of it: of the last exit, whose entry is to come, nothing is known"
rows "$tmp/all.dat" --event userspace
rows_are "IO,1
errno 4,1" "reasons of returns to user space"

part exits kvm_exit
rows "$tmp/exits.dat"
rows_are "HLT,2
IO_INSTRUCTION,1
MSR_WRITE,1" "exits alone: all of them, the last of each thread, too"
err_has "$untimed: 4 in 4 ms, 1000/s" "... without times, which is said"
is "$(cut -d , -f 7-9 "$out" | sort -u)" ",,
min_us,max_us,avg_us" "... and none is printed"
run "$kvmft" report --by rip --format csv --per all -i "$tmp/exits.dat"
is "$(sed 1d "$out" | cut -d , -f 3,4,14 | sort)" "HLT,2,0x1000
IO_INSTRUCTION,1,0x2000
MSR_WRITE,1,0x1100" "... --by rip"
run "$kvmft" report -i "$tmp/exits.dat"
out_has ' HLT  *2  *50.00%  *-  *-  *-  *- *$' "... as text"

part entries kvm_entry
rows "$tmp/entries.dat"
rows_are "vCPU 0,3
vCPU 1,1" "entries alone"
err_has 'kvm_exit was not recorded: this is --event entry$' "... what it is"
err_has "$untimed: 4 in 4 ms" "... without times"
run "$kvmft" report --by rip --format csv --per all -i "$tmp/entries.dat"
out_has ',vCPU 0,2,50.00,.*,0x1000$' "... --by rip"
out_has ',vCPU 1,1,25.00,.*,0x2002$' "... of each vCPU"

part pio kvm_pio
rows "$tmp/pio.dat"
rows_are "0x80:POUT,2" "accesses alone"
err_has 'kvm_exit was not recorded: this is --event ioport$' "... what it is"
err_has "$untimed: 2 in 4.4 ms" "... and not the time from one to the next"
part user kvm_userspace_exit
rows "$tmp/user.dat"
rows_are "IO,1
errno 4,1" "returns alone"
run "$kvmft" report --by rip -i "$tmp/user.dat"
status_is 4 "--by rip of what has none"
err_has 'no kvm_exit or kvm_entry in .* says where the guest was$' "... says why"
run "$kvmft" report --event msr -i "$tmp/user.dat"
status_is 4 "a class that was not recorded"
err_has 'no kvm_msr events in .*: record them with -e kvm:kvm_msr$' "... and how to record it"

# What counts in cycles, or has no times at all, has no ms and no rate.
grep kvm_entry "$tmp/events" | tr -d '\t' >"$tmp/cycles.txt"
ok "entries in cycles" "$mkcap" --clock x86-tsc --trace-dat "$tmp/cycles.dat" "$tmp/cycles.txt"
run "$kvmft" report -i "$tmp/cycles.dat"
out_has "$untimed: 4 in [0-9]+ cycles\$" "... are not counted by the second"
run "$kvmft" report --tsc-khz 1000000 -i "$tmp/cycles.dat"
out_has "$untimed: 4 in 4 ms, 1000/s\$" "... but with the frequency"
printf ' x-9 [001] kvm_exit: reason %s rip 0x7c00\n' CPUID HLT HLT >"$tmp/none.txt"
run "$kvmft" report -i "$tmp/none.txt"
out_has "$untimed: 3 in 2 cycles\$" "a text without times"
head -n 2 "$tmp/events" | tr -d '\t' >"$tmp/one.txt"
ok "the last exit alone" "$mkcap" --trace-dat "$tmp/one.dat" "$tmp/one.txt"
run "$kvmft" report -i "$tmp/one.dat"
err_has 'no samples of vmexit for what was selected, of 1 exits and 1 entries \(an exit counts when' "... is no sample, and why"

# With one of both, what lies between is known in part.
part entered 'kvm_(entry|pio)'
run "$kvmft" report --event ioport --format json --per all -i "$tmp/entered.dat"
out_has '"samples":1,"timed":1,.*"max_ns":200000,' "an access before an entry has a length, of the last one nothing is known"

# long NAME EVENT N: 0.4 s of one event; of exits one in N is MSR_WRITE
long()
{
	awk -v name="$2" -v n="$3" 'BEGIN { for (i = 0; i < 4000; i++) {
		t = 1000000 + i * 100000
		if (name ~ /exit|both/)
			print 0, t, 900, "kvm_exit exit_reason=" (i % n ? 12 : 32) " isa=1 guest_rip=4096 vcpu_id=0"
		if (name == "both")
			print 0, t + 1000, 900, "kvm_entry vcpu_id=0 rip=4096"
		if (name == "kvm_mmio")
			print 0, t, 900, "kvm_mmio type=2 len=4 gpa=" 4096 + i % n " val=0" } }' >"$tmp/$1.txt"
	ok "$1" "$mkcap" --trace-dat "$tmp/$1.dat" "$tmp/$1.txt"
}

long before kvm_exit 4
long after kvm_exit 2
long both both 4
long devices kvm_mmio 2
run "$kvmft" diff "$tmp/before.dat" "$tmp/after.dat"
status_is 0 "diff of exits alone"
out_has 'MSR_WRITE +per second +2500.* 5001.* \+100' "... compares how many"
out_has '^# .*before.dat: without kvm_entry it is not known how long exits took: how many are compared' "... and says what is missing"
is "$(grep -cE 'of a CPU |mean time|median' "$out")" 0 "... no times"
for f in "both before" "before both"; do
	run "$kvmft" diff "$tmp/${f% *}.dat" "$tmp/${f#* }.dat"
	status_is 4 "... $f: one of them has times"
	err_has 'both.dat has kvm_entry, so that it says how long exits took; .*before.dat has not: compare those' "... which"
done
run "$kvmft" diff --event mmio "$tmp/devices.dat" "$tmp/devices.dat"
status_is 4 "... nor of a class without exits, whose times would end at whatever came next"
finish
