#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# kvmft clock on recordings that are built, at 1 GHz, so that a cycle is a ns: each finding is made, and is not made,
# and said to be unchecked, when what it needs is taken away. tests/vm/clock.t has real guests.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
all="kvm_write_tsc_offset kvm_pvclock_update kvm_update_master_clock kvm_track_tsc kvm_entry kvm_exit kvm_msr kvm_pio kvm_mmio kvm_fast_mmio"

# healthy: two vCPUs on CPUs 0 and 1 run, 2 s long, with a record of 1 GHz each; the VMM's thread 100 is on CPU 2.
healthy()
{
	echo "meta vm id=100-12 pid=100 fd=12 name=vm1 uuid=bf09dd35-0f10-4e26-8ee9-c7391a28ff96"
	echo "meta vcpu vm=100-12 id=0 tid=101 offset=-1000 tsc=1"
	echo "meta vcpu vm=100-12 id=1 tid=102 offset=-1000 tsc=1"
	echo "meta task tid=100 tgid=100 comm=fc_api"
	echo "meta task tid=101 tgid=100 comm=vcpu0"
	echo "meta task tid=102 tgid=100 comm=vcpu1"
	echo "recorded $all"
	awk 'BEGIN { for (v = 0; v < 2; v++) {
		print v, 500000 + v, 101 + v, "kvm_pvclock_update vcpu_id=" v, record(2, 400000, 5000000, 1)
		for (t = 1000000 + v * 1000; t < 2000000000; t += 4000000) {
			print v, t, 101 + v, "kvm_entry vcpu_id=" v, "rip=0xffffffff81000000"
			print v, t + 3000000, 101 + v, "kvm_exit exit_reason=12 guest_rip=0xffffffff81000000 isa=1 vcpu_id=" v
		}
	} }
	function record(version, tsc, ns, flags) {
		return sprintf("version=%d tsc_timestamp=%d system_time=%d tsc_to_system_mul=2147483648 tsc_shift=1 flags=%d",
			version, tsc, ns, flags)
	}'
}

# update CPU TIME TID VCPU VERSION TSC NS [FLAGS [MUL]]: a new record.
update()
{
	echo "$1 $2 $3 kvm_pvclock_update vcpu_id=$4 version=$5 tsc_timestamp=$6 system_time=$7" \
		"tsc_to_system_mul=${9:-2147483648} tsc_shift=1 flags=${8:-1}"
}

# built NAME: of the lines on stdin and those of a healthy guest, by CPU and time.
built()
{
	{ healthy; cat; } >"$tmp/$1.all"
	{
		grep -v '^[0-9]' "$tmp/$1.all"
		grep '^[0-9]' "$tmp/$1.all" | sort -s -n -k 1,1 -k 2,2
	} >"$tmp/$1.text"
	rm -rf "${tmp:?}/$1"
	# No check of its own: many of these are the end of a pipe. Without it, those that follow fail.
	"$mkcap" --capture "$tmp/$1" "$tmp/$1.text" || echo "# $1 is not built"
}

clock() { run "$kvmft" clock "$tmp/$1"; }

# only ID...: these findings, and no other.
only()
{
	is "$(sed -n 's/^      \([a-z-]*\): .*/\1/p' "$out" | sort | tr '\n' ' ')" "$*${*:+ }" "... finds: ${*:-nothing}"
}

# without NAME EVENT FINDING: the same recording without that event does not have that finding, and says why.
without()
{
	sed "/^recorded/s/ $2\\>//; /^[0-9].* $2 /d" "$tmp/$1.text" >"$tmp/less.text"
	rm -rf "$tmp/less"
	ok "$1 without $2" "$mkcap" --capture "$tmp/less" "$tmp/less.text"
	clock less
	is "$(grep -c "^      $3: " "$out")" 0 "... does not say $3"
	out_has "^  not checked: .*$3" "... but that it was not checked"
	out_has "^  not recorded: .*$2" "... for lack of $2"
	is "$rc" "${4:-4}" "... and exits with ${4:-4}"
}

built well </dev/null
clock well
status_is 0 "a healthy guest"
out_has '^vm1: well$' "... is well"
only
out_has '^  not checked: wall-clock, clocksource, sched-clock$' "... what was not checked is said"
out_has '^   0 +-1000 1000000 +[0-9]+ +0 +0 +2 +1$' "... the facts of a vCPU"
for e in kvm_write_tsc_offset kvm_pvclock_update kvm_update_master_clock kvm_entry; do
	without well $e "$(case $e in
	kvm_write*) echo offset-skew ;;
	kvm_pv*) echo kvmclock-forwards ;;
	kvm_up*) echo no-master-clock ;;
	*) echo tsc-jump ;;
	esac)"
done
# Nothing came of one that is paused; or of a host on which KVM never says that it enters a guest.
{
	sed '/^[0-9]/d' "$tmp/well.text"
	printf '%s\n' 'meta vm id=200-12 pid=200 fd=12 name=vm2' 'meta vcpu vm=200-12 id=0 tid=201 offset=-1000 tsc=1' \
		"2 1000 100 sched:sched_switch prev_pid=100 next_pid=0"
} >"$tmp/paused.text"
"$mkcap" --capture "$tmp/paused" "$tmp/paused.text"
run "$kvmft" clock --vm vm1 "$tmp/paused"
status_is 4 "no event of a guest"
out_has '^  no kvm_entry came: whether it ran, and read its clocks, is not known$' "... which is said"
is "$("$kvmft" clock --vm vm1 --format json "$tmp/paused" | grep -c '"ran":null')" 1 "... in JSON, too"
echo "2 2000 201 kvm_entry vcpu_id=0 rip=0xffffffff81000000" >>"$tmp/paused.text"
rm -r "$tmp/paused" && "$mkcap" --capture "$tmp/paused" "$tmp/paused.text"
run "$kvmft" clock --vm vm1 "$tmp/paused"
status_is 4 "... but of another one"
out_has '^  it did not run while this was recorded, so nobody read its clocks$' "... it did not run"
is "$("$kvmft" clock --vm vm1 --format json "$tmp/paused" | grep -c '"ran":false')" 1 "... in JSON, too"
sed 's/ offset=-1000//' "$tmp/well.text" >"$tmp/blind.text"
"$mkcap" --capture "$tmp/blind" "$tmp/blind.text"
clock blind
status_is 4 "without TSC offsets"
out_has '^vm1: cannot tell$' "... it cannot tell"
{ cat "$tmp/well.text"; echo "0 2100000000 101 kvm_entry vcpu_id=0"; echo "0 gap 7"
	echo "0 2200000000 101 kvm_entry vcpu_id=0"; } >"$tmp/lost.text"
"$mkcap" --capture "$tmp/lost" "$tmp/lost.text"
clock lost
status_is 4 "events were lost: it may not be well"
out_has 'events were lost' "... which is said"

# ---- TSCs ----

echo "2 3204118 100 kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=-1000 next_tsc_offset=-413331" | built skew
clock skew
status_is 1 "the TSC of one vCPU"
only offset-skew tsc-jump
out_has 'vCPU 1 is 412331 cycles \(412.331 us\) behind vCPU 0 since 0.003204118: written by fc_api-100$' \
	"... how far, since when, by whom"
out_has 'TSC of vCPU 1 was set back by 412331 cycles \(412.331 us\) at 0.003204118 by fc_api-100$' "... as a jump, too"
run "$kvmft" clock --clock host-tsc "$tmp/skew"
out_has 'behind vCPU 0 since cycle 3204118: written' "... in cycles, if those are asked for"
{ echo "2 3204118 100 kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=-1000 next_tsc_offset=-413331"
	echo "meta time tsc=1 width=2 mono_raw=1 mono=1 boot=1 real=1795269900000000000"
	echo "meta time tsc=9000000000 width=2 mono_raw=9000000000 mono=9000000000 boot=9000000000 real=1795269909000000000"; } | built day
run env TZ=UTC "$kvmft" clock --clock realtime "$tmp/day"
out_has 'behind vCPU 0 since 2026-11-21 14:05:00.003204[0-9]*: written' "... or as a time of day"
run "$kvmft" clock --clock realtime "$tmp/skew"
status_is 4 "... which a recording without readings of it does not have"
run "$kvmft" clock --format json "$tmp/skew"
status_is 1 "... in JSON"
out_has '"verdict":"ill","findings":\[.*\{"id":"offset-skew","ill":true,"vcpu":1,"from_ns":3204118,"to_ns":null,"cycles":-412331,"ns":null,"count":null,"tid":100,"comm":"fc_api","why":"vCPU 1 is 412331' \
	"... all of it"
run "$kvmft" clock --format openmetrics "$tmp/skew"
out_has '^kvmft_clock_well\{vm="vm1",uuid="bf09dd35-0f10-4e26-8ee9-c7391a28ff96"\} 0$' "... as a metric"
out_has '^kvmft_clock_findings\{vm="vm1",uuid="bf09[0-9a-f-]*",finding="offset-skew"\} 1$' "... by finding"
without skew kvm_entry tsc-jump 1
# Mended later, by the guest: IA32_TSC_ADJUST.
{
	echo "2 3204118 100 kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=-1000 next_tsc_offset=-413331"
	echo "1 8001200 102 kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=-413331 next_tsc_offset=-1000"
	echo "1 8001300 102 kvm_msr write=1 ecx=0x3b data=412331 exception=0"
} | built mended
clock mended
status_is 1 "a TSC that was wrong for a while"
out_has 'behind vCPU 0 since 0.003204118 until 0.008001200: written by fc_api-100$' "... from when to when"
out_has '^   1 +-1000 .* 0 +0 ' "... and is right now"
echo "1 8001200 102 kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=-1000 next_tsc_offset=4000
1 8001300 102 kvm_msr write=1 ecx=0x10 data=12005200 exception=0" | built byguest
clock byguest
out_has 'vCPU 1 is 5000 cycles .* ahead of vCPU 0 .* written by the guest itself$' "a guest that writes its TSC"
# All are written one by one while none runs; then they are reset.
{
	for v in 0 1; do
		echo "2 210000000$v 100 kvm_write_tsc_offset vcpu_id=$v previous_tsc_offset=-1000 next_tsc_offset=-2100000000"
	done
	echo "0 2200000000 101 kvm_entry vcpu_id=0 rip=0xfff0"
	echo "0 2200000100 101 kvm_exit exit_reason=12 guest_rip=0xfff0 isa=1 vcpu_id=0"
	echo "0 2200000200 101 kvm_entry vcpu_id=0 rip=0xfe05b"
	echo "1 2200000200 102 kvm_entry vcpu_id=1 rip=0x1000"
} | built reset
clock reset
status_is 0 "a reset"
only
# Both are moved while one of them waits: neither ever runs with another TSC than the other one.
# late VCPU: that one is written, and runs, before the other is.
late()
{
	first=$1 other=$((1 - $1))
	{
		echo "2 2100000000 100 kvm_write_tsc_offset vcpu_id=$first previous_tsc_offset=-1000 next_tsc_offset=-51000"
		echo "$first 2100001000 10$((first + 1)) kvm_entry vcpu_id=$first rip=0xffffffff81000000"
		echo "$first 2100501000 10$((first + 1)) kvm_exit exit_reason=12 guest_rip=0xffffffff81000000 isa=1 vcpu_id=$first"
		echo "2 2100502000 100 kvm_write_tsc_offset vcpu_id=$other previous_tsc_offset=-1000 next_tsc_offset=-51000"
		echo "$other 2100503000 10$((other + 1)) kvm_entry vcpu_id=$other rip=0xffffffff81000000"
		echo "$other 2100903000 10$((other + 1)) kvm_exit exit_reason=12 guest_rip=0xffffffff81000000 isa=1 vcpu_id=$other"
		echo "$first 2101001000 10$((first + 1)) kvm_entry vcpu_id=$first rip=0xffffffff81000000"
	} | built late
	clock late
	only tsc-jump tsc-jump
}
late 0
late 1
# ... but if it has run meanwhile, it was one.
sed 's/^2 2100502000/0 2100200000 101 kvm_entry vcpu_id=0 rip=0xffffffff81000000\n0 2100300000 101 kvm_exit exit_reason=12 guest_rip=0xffffffff81000000 isa=1 vcpu_id=0\n&/' \
	"$tmp/late.text" | grep '^[0-9].*21[0-9]\{8\}' | built seen
clock seen
only offset-skew tsc-jump tsc-jump
out_has 'vCPU 1 is 50000 cycles \(50.000 us\) behind vCPU 0 since 2.100000000 until 2.100502000: written by fc_api-100$' "... from when to when"
# The reset without the reset: both jumped, and there is no skew. Where a vCPU goes on elsewhere than where it was, a
# snapshot may have been loaded.
sed 's/rip=0xfff0/rip=0xffffffff81000000/' "$tmp/reset.text" >"$tmp/back.text"
"$mkcap" --capture "$tmp/back" "$tmp/back.text"
clock back
only tsc-jump tsc-set
sed -i 's/rip=0x1000$/rip=0xffffffff81000000/' "$tmp/back.text"
rm -r "$tmp/back" && "$mkcap" --capture "$tmp/back" "$tmp/back.text"
clock back
only tsc-jump tsc-jump
# What a software KVM says and does not do.
{
	echo "meta vcpu vm=100-12 id=0 at=end offset=-1000 tsc=2000000000"
	echo "meta vcpu vm=100-12 id=1 at=end offset=-1000 tsc=2000000000"
	echo "2 3204118 100 kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=-1000 next_tsc_offset=-413331"
} | built ignored
clock ignored
status_is 0 "an offset that debugfs does not show"

# A guest whose TSC is not KVM's: what KVM wrote is of no clock that it reads.
for exit in "1 77:is not KVM's: it exits by TDCALL" "2 1027:may not be KVM's: it exits by VMGEXIT"; do
	isa=${exit%% *} why=${exit#*:} reason=${exit#* }
	{
		cat "$tmp/skew.text"
		echo "0 3300000000 101 kvm_exit exit_reason=${reason%%:*} guest_rip=0xffffffff81000000 isa=$isa vcpu_id=0"
	} >"$tmp/foreign.text"
	rm -rf "$tmp/foreign" && "$mkcap" --capture "$tmp/foreign" "$tmp/foreign.text"
	clock foreign
	status_is 4 "an encrypted guest, exit ${reason%%:*}"
	only foreign-tsc
	out_has "^  its TSC $why\$" "... which is said"
	out_has "^      foreign-tsc: none if it is not; if it may not be, a capture of the guest" "... and what helps"
	out_has '^   1 +- +- +[0-9]+ +- +- ' "... KVM's offset is not shown"
done
"${mkcap%mkcap}genpair" --host "$tmp/theirs" --guest "$tmp/guest" --ms 40 --seed 7
sed -i -E 's/^(vcpu .* offset=)[0-9-]+/\177/' "$tmp/theirs/meta"
run "$kvmft" clock "$tmp/theirs"
status_is 4 "a guest that sets all timers to the past, by KVM's offset"
only foreign-tsc
run "$kvmft" clock "$tmp/theirs" "$tmp/guest"
status_is 4 "a guest whose events contradict KVM's offset"
only foreign-tsc
out_has "^  its TSC is not KVM's: its events contradict KVM's offset\$" "... which is said"
err_has "guest: TSC offset -[0-9]+ \+-[0-9]+ cycles .*, found in [0-9]+ events" "... and its own"

# A file may say anything.
{
	for n in 0 9223372036854775807 -9223372036854775808 1 -9223372036854775808; do
		echo "2 32041${k:-0}8 100 kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=${was:--1000} next_tsc_offset=$n"
		was=$n k=$((${k:-0} + 1))
	done
	update 0 1000500000 101 0 4 9223372036854775808 9223372036854775808
	update 1 1000600000 102 1 4 18446744073709551615 18446744073709551615 0 1
	update 0 1100500000 101 0 6 0 0
	update 1 1100600000 102 1 6 0 1 0 4294967295
	echo "0 1500000000 101 kvm_msr write=1 ecx=0x6e0 data=9223372036854775808 exception=0"
} | built hostile
for format in text json openmetrics; do
	run "$kvmft" clock --format $format "$tmp/hostile"
	status_is 1 "numbers that no clock has, as $format"
done

# ---- kvmclock ----

# At 1 s; guest TSC 999999000 was 1004599000 ns by the first record.
update 0 1000500000 101 0 4 999999000 65217600000 >"$tmp/forwards"
update 1 1000600000 102 1 4 999999000 65217600000 >>"$tmp/forwards"
echo "2 1000400000 100 kvm_update_master_clock use_master_clock=1 host_clock=1 offset_matched=1" >>"$tmp/forwards"
built forwards <"$tmp/forwards"
clock forwards
status_is 1 "kvmclock forwards"
only kvmclock-forwards
out_has 'kvmclock jumped by \+64.213001 s at 1.000500000 \(kvm_update_master_clock by fc_api-100\)$' \
	"... by how much, when, by whom; once for all vCPUs"
without forwards kvm_pvclock_update kvmclock-forwards
# It ran until 1000000000, and goes on 500 ms before that.
{
	update 0 1000500000 101 0 4 999999000 504599000
	update 1 1000600000 102 1 4 999999000 504599000
} | built backwards
clock backwards
only kvmclock-backwards
out_has 'kvmclock went backwards by 499.501 ms at 1.000500000 .*the guest had run until 1.000001000$' "kvmclock backwards"
without backwards kvm_exit kvmclock-backwards 1
out_has 'kvmclock was set back by 500.000 ms at 1.000500000 .*whether the guest ran until then is not recorded' \
	"... then it was set back, nobody knows whether it was seen"
# It stops for 64 s, and its clock with it.
{
	update 0 66000000000 101 0 4 65999999000 2004599000 3
	echo "0 66000001000 101 kvm_entry vcpu_id=0 rip=0xffffffff81000000"
} | built stood
clock stood
status_is 1 "a stop of 64 s"
only guest-stopped kvmclock-stood
out_has 'kvmclock stood still for 64.000000 s at 66.000000000 .*the guest did not run since 2.000001000$' "... its clock stood"
out_has 'the guest was told that it had been stopped, at 66.000000000$' "... which it was told"
# A snapshot of the master clock a little off is none, nor is the same record again.
{
	update 0 1000500000 101 0 4 999999000 1004609000
	update 0 1100500000 101 0 6 999999000 1004609000
} | built same
clock same
status_is 0 "a difference of 10 us"
only

# The first record that is seen: what it changed is not known, unless it was made before the recording.
bare()
{
	grep -v 'kvm_pvclock_update vcpu' "$tmp/well.text"
	update 0 2100500000 101 0 4 "$1" 4100000000 3
}
bare 2099999000 >"$tmp/bare.text"
"$mkcap" --capture "$tmp/bare" "$tmp/bare.text"
clock bare
status_is 4 "a record, and none before it"
only guest-stopped
out_has '^  not checked: kvmclock-forwards, kvmclock-backwards, kvmclock-stood' "... what it changed is not known"
out_has '^  not recorded: .*guest pvclock record of before' "... for lack of that"
bare 400000 >"$tmp/told.text"
"$mkcap" --capture "$tmp/told" "$tmp/told.text"
clock told
status_is 0 "one that is only announced again"
cat >"$tmp/guest.text" <<-END
	meta side name=guest
	meta machine uname=Linux%206.18.0 arch=x86_64 long=8 endian=little uuid=bf09dd35-0f10-4e26-8ee9-c7391a28ff96
	meta time tsc=2000000 width=2 mono_raw=5 mono=5 boot=5 real=5
	meta pvclock cpu=0 version=2 tsc_timestamp=400000 system_time=5000000 mul=2147483648 shift=1 flags=1
	0 1001000500 0 sched:sched_switch prev_pid=0 next_pid=0
END
rm -rf "$tmp/vm1" && "$mkcap" --capture "$tmp/vm1" "$tmp/guest.text"
run "$kvmft" clock "$tmp/bare" "$tmp/vm1"
only guest-stopped kvmclock-forwards
out_has 'kvmclock jumped by \+1.995401 s at 2.100500000' "... the guest's capture has the one before"
grep -v '^meta time' "$tmp/guest.text" >"$tmp/timeless.text"
rm -rf "$tmp/timeless" && "$mkcap" --capture "$tmp/timeless" "$tmp/timeless.text"
run "$kvmft" clock "$tmp/bare" "$tmp/timeless"
only guest-stopped kvmclock-forwards
out_has 'not checked: wall-clock,' "... also where no other clock of the guest was recorded"

# A VM that is made by a VMM, whose guest's memory had a record already: KVM said at 100 ms that it made the VM.
# comes NS [VERSION]: its record at 200 ms, when its TSC has run for 100 ms, is NS.
comes()
{
	grep '^meta\|^recorded' "$tmp/well.text" | sed '/vcpu.*id=1/d; /vcpu/s/ offset.*//'
	echo "2 100000000 100 kvm_update_master_clock use_master_clock=0 host_clock=1 offset_matched=0"
	echo "0 101000000 101 kvm_write_tsc_offset vcpu_id=0 previous_tsc_offset=0 next_tsc_offset=-101000000"
	echo "0 150000000 101 kvm_write_tsc_offset vcpu_id=0 previous_tsc_offset=-101000000 next_tsc_offset=500000000000"
	update 0 200000000 101 0 "${2:-10}" 500200000000 "$1"
	echo "0 200001000 101 kvm_entry vcpu_id=0 rip=0xffffffff81000000"
	echo "0 300000000 101 kvm_exit exit_reason=12 guest_rip=0xffffffff81000000 isa=1 vcpu_id=0"
}
for case in "100000000 10:1:kvmclock-anew" "700000000 10:4:restored" "100000000 2:0:"; do
	want=${case#*:}
	# shellcheck disable=SC2086 # two numbers
	comes ${case%%:*} >"$tmp/comes.text"
	rm -rf "$tmp/comes" && "$mkcap" --capture "$tmp/comes" "$tmp/comes.text"
	clock comes
	status_is "${want%%:*}" "a new VM whose kvmclock and record are ${case%%:*}"
	# shellcheck disable=SC2086 # nothing, or a word
	only ${want#*:}
	case $want in
	1*) out_has 'kvmclock began when this VM was made, at 0.100000000, but its memory had record 8 of another one' "... since when" ;;
	4*) out_has 'it was restored, or came from another host, at 0.200000000: its memory had record 8$' "... which is said"
		out_has '^  not checked: .*kvmclock-forwards' "... and not what its clock was before" ;;
	esac
done
# A snapshot that is loaded: what it had read since is gone with its memory, so it has not seen that as a jump.
{
	update 0 1000500000 101 0 6 999999000 1004599000
	update 0 1500500000 101 0 8 1499999000 1504599000
	echo "2 1600000000 100 kvm_write_tsc_offset vcpu_id=0 previous_tsc_offset=-1000 next_tsc_offset=-600000000"
	echo "2 1600000100 100 kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=-1000 next_tsc_offset=-600000000"
	update 0 1600500000 101 0 6 1000500000 1005100000
	update 1 1600500100 102 1 6 1000500000 1005100000
} | built loaded
clock loaded
status_is 4 "a snapshot that is loaded"
only restored
out_has 'a snapshot was loaded into it, at 1.600500000: its memory had record 4, not 8$' "... which is said"

# ... of which nothing was recorded before: it may be one, or its TSC was set.
sed '/kvm_pvclock_update.* version=[248] /d; /kvm_pvclock_update.* version=6 tsc_timestamp=9/d' "$tmp/loaded.text" >"$tmp/unseen.text"
"$mkcap" --capture "$tmp/unseen" "$tmp/unseen.text"
clock unseen
status_is 4 "a snapshot that is loaded, and no record of before"
only tsc-set tsc-set
out_has 'the TSC of vCPU 0 was set back by 599999000 cycles .*, or a snapshot was loaded into it$' "... which is said"
sed '/kvm_pvclock_update/d' "$tmp/loaded.text" >"$tmp/norecord.text"
"$mkcap" --capture "$tmp/norecord" "$tmp/norecord.text"
clock norecord
only tsc-jump tsc-jump

# ---- the master clock ----

{
	echo "2 900000000 100 kvm_track_tsc vcpu_id=1 nr_vcpus_matched_tsc=0 online_vcpus=2 use_master_clock=1 host_clock=1"
	echo "2 900000100 100 kvm_update_master_clock use_master_clock=0 host_clock=1 offset_matched=0"
	update 0 1000500000 101 0 4 1000499000 1005099000 0
	update 1 1000600000 102 1 4 1000599000 1005199000 0
} | built master
clock master
status_is 1 "no master clock"
only no-master-clock
out_has 'no master clock since 0.900000100: the TSCs of its vCPUs differ \(kvm_track_tsc: 1 of 2 match\)$' "... why"
{
	grep '^[0-9].*\(track_tsc\|master_clock\|version=4\)' "$tmp/master.text"
	update 1 1600600000 102 1 6 1600599000 1705199000 0
} | built differs
clock differs
only kvmclock-differs kvmclock-forwards no-master-clock
out_has 'kvmclock of vCPU 1 is 100.000 ms ahead of that of vCPU 0 since 1.600600000$' "kvmclocks of vCPUs differ"

# ---- frequency, reads, timers ----

# 1 GHz told to be 958333 kHz.
sed 's/tsc_to_system_mul=2147483648/tsc_to_system_mul=2240852500/' "$tmp/well.text" >"$tmp/fast.text"
"$mkcap" --capture "$tmp/fast" "$tmp/fast.text"
clock fast
status_is 1 "a frequency that is not the TSC's"
only frequency
out_has 'told 9583[0-9]{2} kHz, its TSC runs at 1000000 kHz \(not scaled\): kvmclock gains 43.4[0-9]{2} ms a second' "... how much"
sed '/kvm_pvclock_update vcpu/d' "$tmp/fast.text" >"$tmp/less.text"
rm -rf "$tmp/less" && "$mkcap" --capture "$tmp/less" "$tmp/less.text"
clock less
status_is 0 "... without a record"
out_has 'not checked: frequency' "... it is not checked"
# One vCPU is told so, and the other the truth; a guest that takes its TSC for what it is not.
sed '/vcpu_id=0 version/s/tsc_to_system_mul=2147483648/tsc_to_system_mul=2240852500/' "$tmp/well.text" >"$tmp/one.text"
rm -rf "$tmp/one" && "$mkcap" --capture "$tmp/one" "$tmp/one.text"
clock one
only frequency kvmclock-differs
# A vCPU whose TSC is scaled, and its record says so; the others' are not.
sed '/^meta vcpu.*id=0/s/$/ ratio=4294967296 frac=32/; /^meta vcpu.*id=1/s/$/ ratio=4724464025 frac=32/
	/vcpu_id=1 version/s/tsc_to_system_mul=2147483648/tsc_to_system_mul=1952257862/' "$tmp/well.text" >"$tmp/ratio.text"
rm -rf "$tmp/ratio" && "$mkcap" --capture "$tmp/ratio" "$tmp/ratio.text"
clock ratio
only frequency
out_has 'vCPU 1 is taken for one of 1000000 kHz, its TSC runs at 1099999 kHz \(ratio 4724464025/32\): a clock by it gains 99.999' \
	"a vCPU whose TSC runs faster than the first one's"
# A ratio that was changed, nobody knows when: at the end it is not what the record says.
{
	sed '/^meta vcpu/s/$/ ratio=4294967296 frac=32/' "$tmp/well.text"
	sed -n '/^meta vcpu/s/offset.*/at=end offset=-1000 ratio=4724464025 frac=32 tsc=2000000000/p' "$tmp/well.text"
} >"$tmp/scaled.text"
rm -rf "$tmp/scaled" && "$mkcap" --capture "$tmp/scaled" "$tmp/scaled.text"
clock scaled
status_is 1 "a ratio that is changed"
only frequency
out_has 'vCPU 0 was told 1000000 kHz, its TSC runs at 1099999 kHz \(its ratio was changed\): kvmclock gains 99.999' "... which is said"
# A write that is not kept, or was lost: what debugfs said at the end holds all the same.
{
	cat "$tmp/well.text"
	echo "meta vcpu vm=100-12 id=0 at=end offset=-1000 tsc=2000000000"
	echo "meta vcpu vm=100-12 id=1 at=end offset=-413331 tsc=2000000100"
} >"$tmp/kept.text"
rm -rf "$tmp/kept" && "$mkcap" --capture "$tmp/kept" "$tmp/kept.text"
clock kept
status_is 1 "TSCs that differ, and nothing says since when"
only offset-skew
out_has 'vCPU 1 is 412331 cycles \(412.331 us\) behind vCPU 0 since 2.000000100$' "... by what was read at the end"
out_has '^   1 +-413331 1000000 1000000 -412331 -412331 ' "... which is the fact at the end"
# A vCPU that is being made when the recording begins has neither at first, or no thread.
for first in "id=0 tid=101" "id=0"; do
	sed "s/^meta vcpu.*id=0.*/meta vcpu vm=100-12 $first\nmeta vcpu vm=100-12 id=0 tid=101 MORE/" "$tmp/well.text" |
		sed -E '/^meta vcpu/s/offset.*/& ratio=281474976710656 frac=48/
			s/^(meta vcpu.* id=0.*) MORE/\1 at=end offset=-1000 ratio=281474976710656 frac=48 tsc=2000000000/' >"$tmp/made.text"
	rm -rf "$tmp/made" && "$mkcap" --capture "$tmp/made" "$tmp/made.text"
	clock made
	only
	out_has '^   0 +-1000 +1000000 +1000000 +0 +0 ' "a vCPU that is made while it is recorded ($first): its TSC is known at the end"
done
# 2,500 reads a second, each takes 100 us.
reads()
{
	awk -v event="$1" -v rip="$2" 'BEGIN { for (n = 0; n < 500; n++) for (k = 0; k < 9; k++) {
		t = 4001000 + n * 4000000 + k * 100000
		printf "0 %d 101 kvm_entry vcpu_id=0 rip=%s\n", t - 10, rip
		printf "0 %d 101 kvm_exit exit_reason=%d guest_rip=%s isa=1 vcpu_id=0\n", t + 2, event ~ /rdtsc/ ? 16 : 31, rip
		if (event !~ /rdtsc/) printf "0 %d 101 %s\n", t + 10, event
	} }'
}
for e in "kvm_msr write=0 ecx=0x40000020 data=1 exception=0:msr 0x40000020" "kvm_pio rw=0 port=0x608 size=4 count=1 val=1:port 0x608" \
	"kvm_mmio type=1 len=4 gpa=0xfed000f0 val=1:0xfed000f0" "rdtsc:rdtsc"; do
	reads "${e%%:*}" 0xffffffff81000000 | built reads
	clock reads
	only reads-exit
	out_has "clock reads exit: 2[0-9]{3}/s of ${e##*:}.*, 2[0-9].[0-9] % of a CPU" "... ${e##*:}"
done
reads "kvm_pio rw=0 port=0x608 size=4 count=1 val=1" 0x7fef0000 | built firmware
clock firmware
status_is 0 "firmware that waits by the PM timer"
reads "kvm_msr write=0 ecx=0x40000020 data=1 exception=0" 0xffffffff81000000 | built msr
without msr kvm_msr reads-exit
out_has '^vm1: cannot tell$' "... which is not to be well"
# timers OF LATE: so many of so many are late.
timers()
{
	awk -v of="$1" -v late="$2" 'BEGIN { for (n = 1; n < 200; n++) printf "0 %d 101 kvm_msr write=1 ecx=0x6e0 data=%.0f exception=0\n",
		n * 4000000 + 100, n * 4000000 + (n % of < late ? -64000000 - n * 10000 : 5000000) }'
}
timers 3 2 | built late
clock late
only deadline-past
out_has 'vCPU 0 set 133 of 199 timers to a time that its TSC had passed, by up to 65.989 ms' "timers in the past"
without late kvm_msr deadline-past
# What timers cost: 2,250 a second, each 98 us.
reads "kvm_msr write=1 ecx=0x6e0 data=9000000000 exception=0" 0xffffffff81000000 | built timers
clock timers
status_is 0 "a guest that sets timers"
only
out_has '^  timers exit: 22[0-9]{2}/s of msr 0x6e0, 2[0-9]\.[0-9] % of a CPU$' "... and what they cost"
run "$kvmft" clock --format json "$tmp/timers"
out_has '"timer_exits":4499,"timer_exits_ns":[0-9]{9},' "... in JSON"
sed 's/exit_reason=31/exit_reason=52/; / kvm_msr write=1/d' "$tmp/timers.text" >"$tmp/preempted.text"
rm -rf "$tmp/preempted" && "$mkcap" --capture "$tmp/preempted" "$tmp/preempted.text"
clock preempted
out_has '^  timers exit: 22[0-9]{2}/s of the preemption timer, 2[0-9]\.[0-9] % of a CPU$' "... by the preemption timer"
timers 5 2 | built busy
clock busy
status_is 0 "a vCPU that waits for a CPU is late with some"

# ---- with a guest ----

{
	cat "$tmp/well.text"
	echo "meta time tsc=1000000 width=2 mono_raw=1000000 mono=1000000 boot=1000000 real=1795828490000000000"
	echo "meta time tsc=1900000000 width=2 mono_raw=1900000000 mono=1900000000 boot=1900000000 real=1795828491899000000"
} >"$tmp/wall.text"
"$mkcap" --capture "$tmp/wall" "$tmp/wall.text"
# guest SECONDS CLOCKSOURCE [KHZ]: its capture, with a wall clock that far from the host's.
guest()
{
	cat <<-END
	meta side name=guest
	meta machine uname=Linux%206.18.0 arch=x86_64 long=8 endian=little uuid=bf09dd35-0f10-4e26-8ee9-c7391a28ff96
	meta tsc khz=${3:-1000000} source=dmesg%20detected clocksource=$2
	meta time tsc=1000000000 width=2 mono_raw=5 mono=5 boot=5 real=$((1795828490999001000 + $1 * 1000000000))
	0 1001000500 0 sched:sched_switch prev_pid=0 next_pid=0
	END
}
for case in "0 kvm-clock:0:" "-64 tsc:1:wall-clock" "0 hpet:1:clocksource" \
	"0 tsc 990000:1:frequency" "0 tsc 1000100:0:"; do
	want=${case#*:}
	# shellcheck disable=SC2086 # two words
	guest ${case%%:*} >"$tmp/guest.text"
	rm -rf "$tmp/vm1" && "$mkcap" --capture "$tmp/vm1" "$tmp/guest.text"
	run "$kvmft" clock "$tmp/wall" "$tmp/vm1"
	status_is "${want%%:*}" "a guest with ${case%%:*}"
	# shellcheck disable=SC2086 # nothing, or a word
	only ${want#*:}
done
# changed CLOCKSOURCE MORE: a guest that had the TSC at first, and that at the end.
changed()
{
	{ guest 0 tsc; echo "meta end reason=duration tsc=1002000000 clocksource=$1"; echo "$2"; } >"$tmp/guest.text"
	rm -rf "$tmp/vm1" && "$mkcap" --capture "$tmp/vm1" "$tmp/guest.text"
	run "$kvmft" clock "$tmp/wall" "$tmp/vm1"
}
# Its events show how far KVM's offset may be off. One of a hundred where its vCPU is not in the guest: that may be any
# error, and nothing is known to be well.
for outside in 0 1; do
	{ guest 0 kvm-clock; awk -v outside=$outside 'BEGIN { for (n = 0; n < 100; n++) print 0, 1001000600 + n * 100,
		"0 sched:sched_switch prev_pid=0 next_pid=0"
		if (outside) print "0 1004500000 0 sched:sched_switch prev_pid=0 next_pid=0" }'; } >"$tmp/guest.text"
	rm -rf "$tmp/vm1" && "$mkcap" --capture "$tmp/vm1" "$tmp/guest.text"
	run "$kvmft" clock "$tmp/wall" "$tmp/vm1"
	status_is $((outside * 4)) "a guest's events, $outside outside"
	only
	err_has "alignment of vm1: 10[0-9] guest events checked, $outside outside .*; slack " "... which is said, and how far they can tell"
done
changed tsc
status_is 0 "a guest that keeps its clocksource"
changed kvm-clock
status_is 1 "a guest that gives up its clocksource while it is recorded"
only clocksource
out_has "^  its clocksource changed from tsc to kvm-clock while it recorded$" "... from which, and to which"
changed hpet
only clocksource clocksource
out_has "^  its clocksource is hpet: reading the time exits$" "... to one that exits, which is said as well"
# sched local GLOBAL: its sched_clock is kvmclock less 900 ns, and its other clocks 50 ns more than that; read then.
sched()
{
	changed tsc "meta sched kvm_sched_clock_offset=900 kernel_sched_clock_offset=50
meta pvclock cpu=0 version=4 tsc_timestamp=400000 system_time=5000000 mul=2147483648 shift=1 flags=1
meta clock name=local tsc=1000400000 width=2 ns=$1
meta clock name=global tsc=1000400000 width=2 ns=$2"
}
sched 1004999100 1004999150
status_is 0 "a sched_clock by its kvmclock"
only
out_has '^  its kvm_sched_clock_offset is 900 ns, __sched_clock_offset 50 ns: its trace clocks agree$' "... is shown"
run "$kvmft" clock --format json "$tmp/wall" "$tmp/vm1"
out_has '"kvm_sched_clock_offset":900,"sched_clock_offset":50,' "... in JSON, too"
for case in "1004949100 1004999150" "1004999100 1004949150"; do
	# shellcheck disable=SC2086 # two words
	sched $case
	status_is 1 "... that is 50 us behind: $case"
	only sched-clock
	out_has '^  its sched_clock\(\) is 50.000 us behind what its constants make of the kvmclock that it had$' "... how far"
	out_has '__sched_clock_offset 50 ns$' "... and its clocks do not agree"
done
guest -64 tsc >"$tmp/guest.text"
rm -rf "$tmp/vm1" && "$mkcap" --capture "$tmp/vm1" "$tmp/guest.text"
run "$kvmft" clock "$tmp/wall" "$tmp/vm1"
out_has '^  kvmclock runs \+0 ppb \(\+-[0-9]+\) against the host.s CLOCK_REALTIME$' "kvmclock beside the host's clocks"
sed '/^meta time tsc=19/s/1899000000/1899001000/' "$tmp/wall.text" >"$tmp/fast.text"
rm -rf "$tmp/fast" && "$mkcap" --capture "$tmp/fast" "$tmp/fast.text"
run "$kvmft" clock --format json "$tmp/fast"
out_has '"boottime_ppb":0,"boottime_ppb_off":[0-9]+,"realtime_ppb":-526,"realtime_ppb_off":[0-9]+,"timer_exits":0,' "... that NTP makes fast"
run "$kvmft" clock "$tmp/wall" "$tmp/vm1"
out_has 'its CLOCK_REALTIME is 63.999999 s behind the host.s at 1.000001000$' "... how far"

# ---- where the host's time line shows it, without a guest ----

run "$kvmft" merge "$tmp/mended"
status_is 0 "merge of a host alone"
is "$(sed -n 's/.* \[-*\] *\([0-9.]*\)  EPOCH of the clock of vCPU 1 of vm1: TSC offset \(-[0-9]*\).*/\1 \2/p' "$out" | tr '\n' ' ')" \
	"0.000500000 -1000 0.003204118 -413331 0.008001200 -1000 " "... has a line for each change of a clock"
run "$kvmft" merge --format json "$tmp/mended"
is "$(grep -c '"kind":"epoch","vm":"vm1","vcpu":1,.*"tsc_offset":-413331' "$out")" 1 "... in JSON, too"
run "$kvmft" merge --format perfetto -o "$tmp/mended.pb" "$tmp/mended"
ok "... and for Perfetto" grep -qa 'EPOCH: TSC offset -413331' "$tmp/mended.pb"
run "$kvmft" merge --format html -o "$tmp/mended.html" "$tmp/mended"
sed -n 's/.* id="data">//; t on; b; :on; :more; /</!{N; b more}; s/<.*//; p' "$tmp/mended.html" | base64 -d >"$tmp/page" 2>/dev/null
ok "... and in the page" grep -qa 'kvmft:EPOCH' "$tmp/page"
run "$kvmft" merge "$tmp/wall" "$tmp/vm1"
is "$(grep -c 'EPOCH of the clock of' "$out")" 0 "... where a guest's capture is, its own lines have it"

# ---- where events were lost ----

# Of recordings of the above in which events are lost, in the middle, of a CPU, here and there, no more is found. (tsc-set only says
# what may have been.)
ids() { "${KVMFT_PLAIN:-$kvmft}" clock "$1" 2>/dev/null | sed -n '/tsc-set/d; s/^      \([a-z-]*\): .*/\1/p' | sort -u; }
ways=0 more=
for name in skew mended reset late seen loaded comes; do
	[ -d "$tmp/$name" ] || continue
	ids "$tmp/$name" >"$tmp/whole.ids"
	for way in "--cpu 0 --from 1000000000 --to 2100500000" "--cpu 1 --from 1000000000 --to 2100500000" "--cpu 2" "--cpu 1" \
		"--from 1500000000 --to 2100200000" "--from 100000 --to 1500000" "--holes 40 --seed 1" "--holes 40 --seed 2" \
		"--holes 200 --seed 3" "--begins 1000000000" "--begins 1599000000"; do
		rm -rf "$tmp/part" && cp -r "$tmp/$name" "$tmp/part"
		# shellcheck disable=SC2086 # options
		"${KVMFT_TOOLS:-$top/build/tests/tools}/ablate" $way "$tmp/part" >/dev/null || continue
		ways=$((ways + 1))
		more="$more$(ids "$tmp/part" | comm -13 "$tmp/whole.ids" - | sed "s/^/$name $way: /")"
	done
done
is "$more" "" "events are lost in $ways ways: nothing else is found"
ok "... in some" test $ways -ge 50

# ---- other inputs, wrong usage ----

"$mkcap" --trace-dat "$tmp/guest.dat" --clock x86-tsc "$tmp/byguest.text"
run "$kvmft" clock --tsc-khz 1000000 "$tmp/guest.dat"
status_is 1 "a trace.dat"
only tsc-jump
"$mkcap" --trace-dat "$tmp/skew.dat" --clock x86-tsc "$tmp/skew.text"
run "$kvmft" clock --tsc-khz 1000000 "$tmp/skew.dat"
status_is 4 "... with a write by a thread of an unknown VM"
out_has 'clock events of a thread whose VM is not known were left out' "... which is said"
"$mkcap" --trace-dat "$tmp/forwards.dat" "$tmp/forwards.text"
run "$kvmft" clock "$tmp/forwards.dat"
status_is 1 "a trace.dat in its own clock"
out_has 'kvmclock jumped by \+64.213001 s at 1.000500000 ' "... by how much"
"$mkcap" --trace-dat "$tmp/well.dat" --clock x86-tsc "$tmp/well.text"
run "$kvmft" clock "$tmp/well.dat"
status_is 4 "a healthy trace.dat: formats are no evidence"
run "$kvmft" clock --vm nosuch "$tmp/well"
status_is 1 "a VM that is not there"
err_one_line "a VM that is not there"
run "$kvmft" clock --watch --live --format json "$tmp/skew"
status_is 1 "its lines as JSON"
out_has '^\{"vm":"vm1","verdict":"ill"\}$' "... the verdict"
out_has '^\{"vm":"vm1","verdict":"ill","id":"offset-skew","ill":true,"vcpu":1,.*"remedy":"[^"]*"\}$' "... a finding"
# What is watched is kept for a while only: later the events with which it began are gone, but not what they began.
{
	grep '^meta' "$tmp/master.text"
	echo "recorded $all"
	for t in 2100000000 2200000000; do
		echo "0 $t 101 kvm_entry vcpu_id=0 rip=0xffffffff81000000"
		update 0 $((t + 1000)) 101 0 $((t / 50000000)) $((t - 1000)) $((t + 4600000)) 0
		echo "0 $((t + 2000)) 101 kvm_exit exit_reason=12 guest_rip=0xffffffff81000000 isa=1 vcpu_id=0"
	done
} >"$tmp/later.text"
"$mkcap" --capture "$tmp/later" "$tmp/later.text"
cp -R "$tmp/master" "$tmp/live"
sed -i '/^end /d' "$tmp/live/meta"
"$kvmft" clock --watch --live "$tmp/live" >"$tmp/lines" &
watch=$! n=0
while ! grep -q 'no master' "$tmp/lines" && [ $n -lt 600 ]; do
	sleep 0.1
	n=$((n + 1))
done
rm -r "$tmp/live/seg000000"
mv "$tmp/later/seg000000" "$tmp/later/meta" "$tmp/live"
wait $watch
is $? 1 "it is watched until its capture ends"
is "$(grep -c 'no master clock' "$tmp/lines")" 1 "... a finding whose beginning is kept no longer is not said again"
run "$kvmft" clock --watch "$tmp/well"
status_is 2 "--watch of a recording"
run "$kvmft" clock --watch --format openmetrics
status_is 2 "... as metrics"
run "$kvmft" clock --tsc-khz 1000
status_is 2 "a frequency of this host, which is known"
echo "0 1000 5 sched:sched_switch prev_pid=0 next_pid=5" >"$tmp/none.text"
"$mkcap" --capture "$tmp/none" "$tmp/none.text"
run "$kvmft" clock "$tmp/none"
status_is 4 "a capture without VMs"
err_has 'record kvm_entry on the host' "... what to do"
{
	echo "meta machine uname=Linux%206.12.0 arch=aarch64 long=8 endian=little"
	echo "meta vm id=100-12 pid=100 fd=12 name=vm1"
	echo "meta vcpu vm=100-12 id=0 tid=101"
	echo "0 1000000 101 kvm_entry vcpu_id=0"
} >"$tmp/arm.text"
"$mkcap" --capture "$tmp/arm" "$tmp/arm.text"
run "$kvmft" clock "$tmp/arm"
status_is 4 "an arm64 host"
err_has "only clocks of x86 guests can be checked" "... what is not known there"
{
	echo "event kvm kvm_exit 901 u32:ret u32:esr_ec u64:vcpu_pc"
	echo "meta vm id=100-12 pid=100 fd=12 name=vm1"
	echo "meta vcpu vm=100-12 id=0 tid=101"
	echo "0 1000000 101 kvm_entry vcpu_id=0"
	echo "0 1003000 101 kvm_exit ret=0 esr_ec=0 vcpu_pc=0"
} >"$tmp/arm.text"
rm -rf "$tmp/arm" && "$mkcap" --capture "$tmp/arm" "$tmp/arm.text"
run "$kvmft" clock "$tmp/arm"
status_is 4 "... that does not say that it is one, as in a trace.dat"
err_has "only clocks of x86 guests can be checked" "... is known by its exits"
# ---- more vCPUs and records than any host has ----

{
	echo "meta vm id=100-12 pid=100 fd=12 name=vm1"
	awk 'BEGIN { for (v = 0; v < 3000; v++) print "meta vcpu vm=100-12 id=" v " tid=" 101 + v " offset=-1000 tsc=1" }'
	echo "meta vm id=9000-12 pid=9000 fd=12 name=vm2"
	echo "meta vcpu vm=9000-12 id=0 tid=9001 offset=-1000 tsc=1"
	awk 'function record(at, tid, id) { printf "0 %d %d kvm_pvclock_update vcpu_id=%d version=2 tsc_timestamp=%d system_time=%d tsc_to_system_mul=2147483648 tsc_shift=1 flags=1\n",
		at, tid, id, at - 1000, at - 1000 + id }
		BEGIN { record(3000, 9001, 0); for (n = 1; n < 1500; n++) record(n * 4000, 101 + n, n) }'
	echo "0 6000000 101 kvm_entry vcpu_id=0"
	echo "0 6000500 9001 kvm_entry vcpu_id=0"
} >"$tmp/many.text"
ok "a capture of 3,000 vCPUs and 1,499 records for all of them" "$mkcap" --capture "$tmp/many" "$tmp/many.text"
for at in 300000 6000500; do
	for vm in vm1 vm2; do
		run "$kvmft" convert --from host-tsc --to kvmclock -i "$tmp/many" --vm $vm $at
		echo "$vm $(tr '\n' ' ' <"$out")$rc"
	done
done >"$tmp/converted"
is "$(tr '\n' ',' <"$tmp/converted")" "vm1 299075 0,vm2 299000 0,vm1 ? 3,vm2 5999500 0," "... ends what is known of that guest's kvmclock, and nothing of another's"
clock many
status_is 4 "... and hides no other VM"
out_has "^vm2: cannot tell" "... of the host"

awk 'BEGIN { for (n = 1; n < 1900; n++) printf "0 %d 101 kvm_pvclock_update vcpu_id=0 version=%d tsc_timestamp=%d system_time=%.0f tsc_to_system_mul=2147483648 tsc_shift=1 flags=1\n",
	1000000 + n * 4000, 2 * n + 2, 1000000 + n * 4000, 1000000 + n * 4000 + n * n * 100000 }' | built jumps
clock jumps
status_is 1 "a kvmclock that jumps more than 1,000 times"
out_has "^  \.\.\. and [1-9][0-9]* more$" "... of which 1,000 are shown, and the others counted"

finish
