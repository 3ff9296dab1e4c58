#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# `kvmft export`: what trace-cmd, KernelShark, JSON and protobuf readers make of what it writes. The
# captures are made by tests/tools/gen, which also writes a trace.dat of its own to compare with.
# (A real pair of host and guest is in tests/vm/align.t.)

. "$(dirname "$0")/lib.sh"

gen=$KVMFT_TOOLS/gen
umask 022
if ! "$gen" --capture "$tmp/host" --events 6000 --cpus 3 --subbuf 4096 ||
	! "$gen" --trace-dat "$tmp/gen.dat" --events 6000 --cpus 3 --subbuf 4096; then
	ok "captures can be made" false
	finish
fi

# gen's VM gets a UUID and a clock that is its host's; a thread gets a name that drives terminals.
uuid=11111111-2222-3333-4444-555555555555
sed -i -e "s/^vm .*/& uuid=$uuid/" -e 's/name=gen/name=one/' -e '/^vcpu /s/offset=[^ ]*/offset=0/' \
	-e 's/^begin .*/&\ntask tid=1001 tgid=999 comm=a%22b%5c%1b%5b31m%ff%0a/' "$tmp/host/meta"
printf '0xffffffff81000000 : "a\\nb"\n' >"$tmp/host/printk_formats"
cp -r "$tmp/host" "$tmp/guest"
sed -i "/^vm /d; /^vcpu /d; s/^side .*/side name=guest/; s/^machine .*/& uuid=$uuid/" "$tmp/guest/meta"

# events_of CAPTURE: each event as a line of JSON, without what only a capture has.
events_of()
{
	"$kvmft" export -q -i "$1" --to json --clock host-tsc |
		sed -n '/"kind":"event"/{s/"vm":[^,]*,//; s/"vcpu":[^,]*,//; s/"side":[^,]*,//; s/"comm":.*"t"/"t"/; p}'
}

events_of "$tmp/host" >"$tmp/want"
events=$(wc -l <"$tmp/want" | tr -d ' ')
ok "the capture has its events" test "$events" -ge 6000

# ---- usage ----

usage()
{
	name=$1
	pattern=$2
	shift 2
	run "$kvmft" export "$@"
	status_is 2 "$name: exit 2"
	err_has "$pattern" "... is reported"
	err_one_line "$name"
}

usage "trace.dat without a file" 'needs a file: -o OUT' -i "$tmp/host"
usage "no such format" "option --to: 'xml' is not one of trace.dat" -i "$tmp/host" --to xml
usage "--clock with trace.dat" 'host-tsc or, of guests, guest-tsc' -i "$tmp/host" -o "$tmp/x" --clock ns
usage "--to and OUT contradict" 'x.db is named as sqlite, and json was asked for' -i "$tmp/host" -o "$tmp/x.db" --to json
usage "OUT of no format here" 'named as csv, which is not written here' -i "$tmp/host" -o "$tmp/x.csv"
usage "--tsc-offset without a guest" 'about guests' -i "$tmp/host" -o "$tmp/x" --tsc-offset 0
ok "no file was made" test ! -e "$tmp/x"

# ---- the file ----

run "$kvmft" export -i "$tmp/host" -o "$tmp/out.dat"
status_is 0 "export to trace.dat"
err_has "^kvmft: host: $events events, 0 lost$" "... and a summary"
is "$(stat -c %a "$tmp/out.dat")" 600 "... for its owner"
cp "$tmp/out.dat" "$tmp/first.dat"
run "$kvmft" export -i "$tmp/host" -o "$tmp/out.dat"
status_is 1 "it exists"
err_has 'use --force to replace it' "... is reported"
err_one_line "it exists"
ok "... and is untouched" cmp "$tmp/out.dat" "$tmp/first.dat"
run "$kvmft" export -q --force -i "$tmp/host" -o "$tmp/out.dat"
status_is 0 "--force"
is "$(wc -c <"$err" | tr -d ' ')" 0 "--quiet: nothing on stderr"
ok "... and the same capture gives the same bytes" cmp "$tmp/out.dat" "$tmp/first.dat"
ln -s "$tmp/victim" "$tmp/link.dat"
run "$kvmft" export -i "$tmp/host" -o "$tmp/link.dat"
status_is 1 "a dangling link"
ok "... nothing was made through it" test ! -e "$tmp/victim"
if [ -c /dev/full ]; then
	run "$kvmft" export -i "$tmp/host" --to json -o /dev/full
	status_is 1 "a device is no new file"
fi
# 64 KiB are not enough: what was begun is removed.
run sh -c "ulimit -f 64; trap '' XFSZ; exec '$kvmft' export -i '$tmp/host' -o '$tmp/limit.dat'"
status_is 1 "no room for the file"
err_has 'cannot write .*limit.dat: File too large' "... is reported"
ok "... and no half file is left" test ! -e "$tmp/limit.dat"

# ---- trace-cmd and kvmft read it ----

have_trace_cmd=
command -v trace-cmd >/dev/null && have_trace_cmd=1
# Events as trace-cmd shows them, with raw ticks.
report()
{
	trace-cmd report --raw-ts "$@" >"$tmp/report" 2>"$tmp/report.err"
}

# The lines that depend on names of tasks are left out: gen.dat has none. Since 3.3 there are flags before the time.
report_events()
{
	sed -nE 's/^.* \[0*([0-9]+)\] +([^ ]+ +)?([0-9]+): *(kvm_[a-z_]+): */\1 \3 \4 /p' "$tmp/report"
}

if [ -n "$have_trace_cmd" ]; then
	report "$tmp/gen.dat"
	report_events >"$tmp/report.want"
	is "$(wc -l <"$tmp/report.want" | tr -d ' ')" $events "trace-cmd reads gen's file"
else
	skip "trace-cmd reads gen's file" "no trace-cmd"
fi

# same_lines A B: neither of which is empty.
same_lines()
{
	[ -s "$1" ] && cmp "$1" "$2"
}

# same_events NAME FILE
same_events()
{
	if [ -n "$have_trace_cmd" ]; then
		report "$2"
		is "$? $(cat "$tmp/report.err")" "0 " "$1: trace-cmd reads it without a word"
		report_events >"$tmp/report.got"
		ok "$1: trace-cmd shows the same events" same_lines "$tmp/report.got" "$tmp/report.want"
	else
		skip "$1: trace-cmd" "no trace-cmd"
	fi
	events_of "$2" >"$tmp/got"
	ok "$1: kvmft reads the same events" same_lines "$tmp/got" "$tmp/want"
}

same_events "version 6" "$tmp/out.dat"
rm -f "$tmp/how.dat"
run "$kvmft" export -q -i "$tmp/out.dat" -o "$tmp/how.dat"
status_is 0 "an exported file, exported again"
same_events "twice" "$tmp/how.dat"
ok "... is the same file" cmp "$tmp/how.dat" "$tmp/out.dat"
rm -f "$tmp/how.dat"
run "$kvmft" export -q -i "$tmp/gen.dat" -o "$tmp/how.dat"
status_is 0 "a foreign trace.dat, exported"
same_events "foreign" "$tmp/how.dat"

if [ -n "$have_trace_cmd" ]; then
	trace-cmd report "$tmp/out.dat" >"$tmp/report" 2>&1
	ok "names of tasks are there" grep -q 'CPU 0/KVM-1000' "$tmp/report"
	# 2 GHz: event times in seconds
	ok "times are in seconds" grep -qE '\] +([^ ]+ +)?0\.[0-9]{6}: kvm_exit' "$tmp/report"
	trace-cmd dump --options "$tmp/out.dat" >"$tmp/report" 2>&1
	for word in '\[x86-tsc\]' 'kvmft ' 'TRACEID' 'TSC2NSEC' 'one \[Guest name\]' '  1 1001 \[guest cpu'; do
		ok "option with $word" grep -q -- "$word" "$tmp/report"
	done
	ok "trace-cmd calls it valid" sh -c \
		"trace-cmd dump --validate '$tmp/out.dat' 2>&1 | grep -q 'is a valid trace-cmd file'"
	for how in none zstd; do
		rm -f "$tmp/how.dat"
		if dat_v7 "$tmp/out.dat" "$tmp/how.dat" $how; then
			same_events "version 7, $how" "$tmp/how.dat"
		else
			skip "version 7, $how" "this trace-cmd does not write it"
		fi
	done
	ok "printk formats are there" sh -c \
		"trace-cmd dump --summary '$tmp/out.dat' 2>&1 | grep -q 'Trace printk, [1-9]'"
	report -i "$tmp/out.dat" -i "$tmp/gen.dat"
	is "$?" 0 "together with a file of gen"
else
	skip "what trace-cmd shows" "no trace-cmd"
fi

# ---- what is lost or broken ----

data=$tmp/host/seg000000/cpu1
cp -r "$tmp/host" "$tmp/lossy"
data=$tmp/lossy/seg000000/cpu1
commit=$(od -A n -t u4 -j 12296 -N 4 "$data" | tr -d ' ')
# Sub-buffer 3 of CPU 1: its last 512 bytes are taken off, and 777 events were lost before it.
commit=$((commit - commit % 8 - 512))
perl -e 'open(F, "+<", $ARGV[0]) or die; binmode F;
	seek F, 12288 + 16, 0; read F, $d, 4080; $at = 0;
	while (1) { $n = unpack("V", substr($d, $at, 4)) & 31; $n = $n < 29 ? 4 + 4 * $n : 8;
		last if $at + $n > $ARGV[1]; $at += $n }
	seek F, 12296, 0; print F pack("Q<", $at | 0xc0000000);
	seek F, 12304 + $at, 0; print F pack("Q<", 777); close F' "$data" "$commit"
events_of "$tmp/lossy" >"$tmp/want.lossy"
run "$kvmft" export -i "$tmp/lossy" -o "$tmp/lossy.dat"
status_is 3 "lost events: exit 3"
err_has '777 lost' "... is reported"
events_of "$tmp/lossy.dat" >"$tmp/got"
ok "... the others are there" same_lines "$tmp/got" "$tmp/want.lossy"
run "$kvmft" export -q -i "$tmp/lossy.dat" --to json
status_is 3 "... and still known to be lost"
out_has '"kind":"gap".*"lost":777' "... and where"
if [ -n "$have_trace_cmd" ]; then
	trace-cmd report "$tmp/lossy.dat" >"$tmp/report" 2>"$tmp/report.err"
	is "$(grep -c 'CPU:1 \[777 EVENTS DROPPED\]' "$tmp/report") $(cat "$tmp/report.err")" "1 " \
		"... trace-cmd shows it"
fi
cp -r "$tmp/host" "$tmp/broken"
printf '\377\377\377\377' | dd of="$tmp/broken/seg000000/cpu1" bs=1 seek=8200 conv=notrunc 2>/dev/null
run "$kvmft" export -i "$tmp/broken" -o "$tmp/broken.dat"
status_is 3 "a damaged sub-buffer: exit 3"
err_has 'damaged' "... is reported"
if [ -n "$have_trace_cmd" ]; then
	report "$tmp/broken.dat"
	is "$? $(cat "$tmp/report.err")" "0 " "... and trace-cmd reads the rest without a word"
fi
run "$kvmft" export -q -i "$tmp/broken.dat" --to json
status_is 3 "... where it is a loss"
out_has '"kind":"gap".*"lost":null' "... of unknown size"
out_has '"kind":"end",.*"lost":null' "... and so in the last line"
run "$kvmft" export -q -i "$tmp/broken" --to json
out_has '"kind":"damage","side":"host".*"cpu":1.*"subbuf":2' "JSON has the place of damage"
head -c 30000 "$tmp/out.dat" >"$tmp/cut.dat"
run "$kvmft" export -q -i "$tmp/cut.dat" --to json
status_is 3 "a file that was cut: exit 3"

# ---- host and guest ----

run "$kvmft" export -i "$tmp/host" -o "$tmp/pair.dat" "$tmp/guest"
status_is 0 "a pair"
err_has "one: $tmp/pair-one.dat" "... the guest's file is named"
if [ -n "$have_trace_cmd" ]; then
	trace-cmd report -t -i "$tmp/pair.dat" -i "$tmp/pair-one.dat" >"$tmp/both" 2>"$tmp/report.err"
	is "$? $(cat "$tmp/report.err")" "0 " "trace-cmd reads both without a word"
	is "$(grep -c kvm_ "$tmp/both")" $((2 * events)) "... all events of both"
	run "$kvmft" export -q --clock guest-tsc -i "$tmp/host" -o "$tmp/shift.dat" "$tmp/guest"
	status_is 0 "--clock guest-tsc"
	trace-cmd report -t "$tmp/pair-one.dat" >"$tmp/a" 2>&1
	trace-cmd report -t "$tmp/shift-one.dat" >"$tmp/b" 2>&1
	ok "... trace-cmd shows the same times" same_lines "$tmp/a" "$tmp/b"
	rm "$tmp"/shift*.dat
	run "$kvmft" export -q --clock guest-tsc --tsc-offset -900000 -i "$tmp/host" -o "$tmp/shift.dat" "$tmp/guest"
	rm "$tmp"/pair*.dat
	run "$kvmft" export -q --tsc-offset -900000 -i "$tmp/host" -o "$tmp/pair.dat" "$tmp/guest"
	trace-cmd report -t "$tmp/pair-one.dat" >"$tmp/c" 2>&1
	trace-cmd report -t "$tmp/shift-one.dat" >"$tmp/b" 2>&1
	ok "... with an offset too" same_lines "$tmp/c" "$tmp/b"
	ok "... which moves them" sh -c "! cmp -s '$tmp/a' '$tmp/b'"
else
	skip "trace-cmd and the pair" "no trace-cmd"
fi
run "$kvmft" export -q --force --tsc-ratio 8589934592/32 --clock guest-tsc -i "$tmp/host" -o "$tmp/shift.dat" "$tmp/guest"
status_is 1 "--clock guest-tsc of a scaled TSC"
err_has 'leave --clock guest-tsc out' "... is reported"
err_one_line "--clock guest-tsc of a scaled TSC"
if pkg-config --exists libkshark 2>/dev/null; then
	# shellcheck disable=SC2046 # flags
	ok "KernelShark's library" "${CC:-cc}" -o "$tmp/kshark" "$top/tests/cli/kshark.c" \
		$(pkg-config --cflags --libs libkshark)
	rm -f "$tmp"/pair*.dat
	"$kvmft" export -q -i "$tmp/host" -o "$tmp/pair.dat" "$tmp/guest"
	run "$tmp/kshark" "$tmp/pair.dat" "$tmp/pair-one.dat"
	status_is 0 "KernelShark opens the pair"
	out_has '^guest one of stream 0 is stream 1, threads 1000 1001 1002$' "... as one machine"
	is "$(sed -n 's/^stream [01] //p' "$out" | uniq | wc -l | tr -d ' ')" 1 "... at the same time"
else
	skip "KernelShark" "no libkshark-dev"
fi

# ---- JSON ----

run "$kvmft" export -q -i "$tmp/host" --to json
status_is 0 "JSON of a host"
is "$(tr -dc '\033\377' <"$out" | wc -c | tr -d ' ')" 0 "hostile names are escaped"
cat >"$tmp/json.pl" <<'END'
use strict; use JSON::PP;
my %n; my $last = 0; my $bad = 0; my %comm;
while (<>) { my $o = decode_json($_); $n{$o->{kind}}++;
	$bad++ if $. == 1 && ($o->{kind} ne "timeline" || $o->{version} != 1 || $o->{unit} ne "ns");
	next if $o->{kind} ne "event";
	$bad++ if $o->{t} < $last; $last = $o->{t}; $comm{$o->{comm}} = 1;
	$bad++ if grep { !exists $o->{$_} } qw(side vm cpu vcpu pid comm t event fields);
	$bad++ if $o->{event} eq "kvm:kvm_exit" && (!$o->{reason} || $o->{fields}{exit_reason} !~ /^\d+$/); }
print "$bad $n{timeline} $n{event} $n{end} ", (exists $comm{"a\"b\\?[31m??"} ? "hostile" : join "|", keys %comm), "\n";
END
if perl -MJSON::PP -e 1 2>/dev/null; then
	is "$(perl "$tmp/json.pl" "$out" 2>&1)" "0 1 $events 1 hostile" "every line is JSON, complete, in order"
	"$kvmft" merge -q --format json "$tmp/host" "$tmp/guest" >"$out" 2>"$err"
	is "$(perl "$tmp/json.pl" "$out" 2>&1)" "0 1 $((2 * events)) 1 hostile" "... and of a pair"
else
	skip "every line is JSON" "no perl with JSON::PP"
fi
run "$kvmft" export -q -i "$tmp/guest" --to json
status_is 0 "JSON of a guest alone"
out_has '"side":"guest","vm":"guest","cpu":2,"vcpu":2' "... is on its own time"
run "$kvmft" export -q -i "$tmp/guest" --to json --clock kvmclock
status_is 2 "a guest alone has no kvmclock"
err_has 'alone has no such time' "... is reported"

# ---- Perfetto ----

# pf_summary TRACE: what a viewer would find, to $out.
pf_summary()
{
	protoc --decode=Trace -I "$top/tests/data" perfetto.proto <"$1" 2>"$tmp/protoc.err" |
		perl "$top/tests/cli/perfetto.pl" >"$out" 2>"$err"
	is "$(cat "$tmp/protoc.err" "$err")" "" "protoc reads it"
	out_has '^bad in all: 0$' "... and all of it makes sense"
}

cp -r "$tmp/host" "$tmp/poor"
sed -i -e 's/^tsc .*/tsc/' -e 's/^ring .*/ring subbuf=4096 header=16/' "$tmp/poor/meta"
run "$kvmft" export -q -i "$tmp/poor" -o "$tmp/poor.dat"
is "$([ "$rc" = 0 ] || [ "$rc" = 3 ] && echo yes)" yes "a capture without clock is exported (exit $rc)"
sed -i 's/^ring /&clock=x86-tsc /' "$tmp/poor/meta"
run "$kvmft" export -q -i "$tmp/poor" --to perfetto
status_is 0 "Perfetto, speed of the TSC unknown"
err_has 'what the trace calls a ns is a cycle' "... is reported"
run "$kvmft" export -q -i "$tmp/host" --to perfetto --clock host-tsc
status_is 2 "Perfetto and cycles"
err_has 'times in ns' "... is reported"
cp -r "$tmp/host" "$tmp/wide"
mv "$tmp/wide/seg000000/cpu1" "$tmp/wide/seg000000/cpu1500"
beyond=$("$kvmft" merge -q "$tmp/wide" 2>/dev/null | grep -c '\[1500\]')
for command in "export --to perfetto -i" "merge --format perfetto"; do
	run "$kvmft" $command "$tmp/wide" -q -o "$tmp/wide.pf" --force
	status_is 3 "$command: a CPU that Perfetto does not have"
	err_has "^kvmft: $beyond events are left out: their CPUs are numbered 1024 or higher" "... is reported, and how many are missing"
done
if command -v protoc >/dev/null; then
	run "$kvmft" export -q -i "$tmp/host" -o "$tmp/host.pb" "$tmp/guest"
	status_is 0 "a trace for Perfetto"
	is "$(stat -c %a "$tmp/host.pb")" 600 "... for its owner"
	ok "protoc --decode_raw reads it" sh -c "protoc --decode_raw <'$tmp/host.pb' >'$tmp/raw' 2>&1"
	pf_summary "$tmp/host.pb"
	for track in host 'host / CPU 2' 'vCPUs of one / vCPU 1, thread 1001' 'guest one / lost events'; do
		out_has "^track $track\$" "track $track"
	done
	exits=$(grep -c '"event":"kvm:kvm_exit"' "$tmp/want")
	is "$(sed -n -e '/: guest: /d' -e 's/^slices of vCPUs of one .*: //p' "$out" | awk '{ n += $1 } END { print n }')" \
		"$exits" "each exit is a slice"
	out_has '^slices of vCPUs of one / vCPU 0, thread 1000: guest: ' "... and what is between is the guest"
	out_has '^slices of vCPUs of one / vCPU 0, thread 1000: hlt: ' "... called by its reason"
	out_has "^argument exit_reason: $exits\$" "... with its fields"
	out_has '^attribute kvmft.alignment: [0-9]* guest events checked, [0-9]* outside' "how well the clocks agree"
	sed -n 's/^events of \([a-z]*\): /\1 /p' "$out" | sort >"$tmp/native"
	"$kvmft" merge -q "$tmp/host" "$tmp/guest" |
		sed -n 's/^\([a-z]*\) .*\] *[0-9.]*  [a-z_]*:\([a-zA-Z0-9_]*\):.*/\1 \2/p' |
		sort | uniq -c | awk '{ print $2, $3, $1 }' | sort >"$tmp/merged"
	ok "each event is an ftrace event of its machine" same_lines "$tmp/native" "$tmp/merged"
	is "$(wc -l <"$tmp/native" | tr -d ' ')" "$(grep -c . "$tmp/merged")" "... and there are some"
	out_has '^slices of host / CPU 0: one vCPU 0: ' "the guest is on the host's CPU"
	# same NAME A B: but for the spikes, which merge has.
	same()
	{
		pf_summary "$2"
		sed -n '/ spikes/d; /^\(track\|events\|machine\|begin\|slices of\|counter\|attribute\)/p' "$out" | sort >"$tmp/one"
		pf_summary "$3"
		sed -n '/ spikes/d; /^\(track\|events\|machine\|begin\|slices of\|counter\|attribute\)/p' "$out" | sort >"$tmp/other"
		ok "$1" same_lines "$tmp/one" "$tmp/other"
	}
	"$kvmft" merge -q --format perfetto "$tmp/host" "$tmp/guest" >"$tmp/merge.pf" 2>"$err"
	same "merge makes the same" "$tmp/host.pb" "$tmp/merge.pf"
	"$kvmft" export -q -i "$tmp/lossy" --to perfetto >"$tmp/lossy.pf"
	pf_summary "$tmp/lossy.pf"
	out_has '^counter host / lost events: 777$' "lost events are counted"
	out_has '^lost before events of host CPU [0-9]*: 1$' "... and their CPU is named"
	"$kvmft" export -q -i "$tmp/broken" --to perfetto >"$tmp/broken.pf"
	pf_summary "$tmp/broken.pf"
	out_has '^counter host / lost events: 1$' "damage is counted"
	# Accepted again before the handler of the first, and two devices: each handler has the arrow of its own.
	{
		sed -n '/^meta/p' "$top/tests/golden/latency-host.txt"
		cat <<-END
			1  1000 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
			0  1100 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
			1  1150 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x26
			1  1160 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=0x31
			0  1170 101 kvm_inj_virq vector=0x26 soft=0 reinjected=1
			0  1200 101 kvm_entry vcpu_id=0
			0  1400 101 kvm_exit exit_reason=12 isa=1
			0  1500 101 kvm_inj_virq vector=0x31 soft=0 reinjected=0
			0  1600 101 kvm_entry vcpu_id=0
			0  1800 101 kvm_exit exit_reason=12 isa=1
			0  1900 101 kvm_inj_virq vector=0x26 soft=0 reinjected=0
			0  2000 101 kvm_entry vcpu_id=0
			0  9000 101 kvm_exit exit_reason=12 isa=1
		END
	} >"$tmp/twice.txt"
	{
		sed -n '/^meta/p' "$top/tests/golden/latency-guest.txt"
		for at in "1300 30" "1700 31" "2100 30"; do
			echo "0 ${at% *} 77 irq:irq_handler_entry irq=${at#* } name=nic-${at#* }"
			echo "0 $((${at% *} + 50)) 77 irq:irq_handler_exit irq=${at#* }"
		done
	} >"$tmp/handlers.txt"
	"$KVMFT_TOOLS/mkcap" --capture "$tmp/twice" "$tmp/twice.txt"
	"$KVMFT_TOOLS/mkcap" --capture "$tmp/handlers" "$tmp/handlers.txt"
	"$kvmft" export -q -i "$tmp/twice" --to perfetto "$tmp/handlers=one" >"$tmp/twice.pf"
	is "$(grep -ao 'irq 3[01] nic-3[01]' "$tmp/twice.pf" | sort -u | tr '\n' ,)" "irq 30 nic-30,irq 31 nic-31," \
		"interrupts of devices have their names"
	pf_summary "$tmp/twice.pf"
	is "$(sed -n 's/^arrow of \([0-9]*\) .*/\1/p' "$out" | tr '\n' ' ')" "300 540 950 " "one accepted twice, another device between"
	# No injections: the processor delivers. What went in is over, and of two the higher vector goes first.
	{
		sed -n '/^meta/p' "$top/tests/golden/latency-host.txt"
		for accepts in "1000 0x2d" "2000 0x2d" "3000 0x2e 3010 0x2d" "4000 0x2e"; do
			echo "$accepts" | tr ' ' '\n' | while read -r at && read -r vector; do
				echo "1 $at 100 kvm_apic_accept_irq apicid=0 dm=0 tm=0 vec=$vector"
			done
			echo "0 $((${accepts%% *} + 50)) 101 kvm_entry vcpu_id=0"
			echo "0 $((${accepts%% *} + 500)) 101 kvm_exit exit_reason=12 isa=1"
		done
	} >"$tmp/posted.txt"
	{
		sed -n '/^meta/p' "$top/tests/golden/latency-guest.txt"
		for at in "2100 31" "3100 32" "3200 31" "4200 32"; do
			[ "${at% *}" != 4200 ] || echo "0 4100 77 sched:sched_wakeup pid=77"
			echo "0 ${at% *} 77 irq:irq_handler_entry irq=${at#* } common_flags=9"
			echo "0 $((${at% *} + 50)) 77 irq:irq_handler_exit irq=${at#* } common_flags=9"
		done
	} >"$tmp/handlers.txt"
	for side in posted handlers; do
		"$KVMFT_TOOLS/mkcap" --capture "$tmp/$side.in" "$tmp/$side.txt"
	done
	"$kvmft" export -q -i "$tmp/posted.in" --to perfetto "$tmp/handlers.in=one" >"$tmp/posted.pf"
	pf_summary "$tmp/posted.pf"
	is "$(sed -n 's/^arrow of \([0-9]*\) .*/\1/p' "$out" | tr '\n' ' ')" "100 100 190 " "interrupts that no event injects"
	# What a guest wrote to its trace: Perfetto reads some texts as slices, and other ones as errors.
	{
		echo "event ftrace print 5 u64:ip text:buf"
		sed -n '/^meta/p' "$top/tests/golden/latency-guest.txt"
		for text in "B|77|work" "C|77|depth|3" "E|77" "Exit of the loop" "fio began" "B"; do
			n=$((${n:-1000} + 100))
			echo "0 $n 77 ftrace:print ip=0 buf=$text"
		done
	} >"$tmp/texts.txt"
	"$KVMFT_TOOLS/mkcap" --capture "$tmp/texts" "$tmp/texts.txt"
	"$kvmft" export -q -i "$tmp/texts" --to perfetto >"$tmp/texts.pf"
	is "$(protoc --decode=Trace -I "$top/tests/data" perfetto.proto <"$tmp/texts.pf" |
		sed -n '/ print {/,/}/s/ *buf: "\(.*\)"/\1/p' | tr '\n' ';')" 'B|77|work;C|77|depth|3;E|77;' \
		"texts that Perfetto has a meaning for are its prints"
	pf_summary "$tmp/texts.pf"
	out_has '^events of .*: print 6$' "... the others are events as any"
	"$kvmft" export -q -i "$tmp/guest" --to perfetto >"$tmp/guest.pf"
	pf_summary "$tmp/guest.pf"
	out_has '^machine 0: guest$' "a guest alone"
	out_has '^events of guest: kvm_exit [1-9]' "... has its events"
else
	skip "Perfetto" "no protoc"
fi
# As few bytes as Perfetto's recorder has for them where it writes events in full.
"$kvmft" merge -q --format perfetto --tsc-khz 2595000 "$top/tests/golden/foreign/pair/host.dat" \
	"$top/tests/golden/foreign/pair/guest.dat" >"$tmp/real.pf" 2>"$err"
run perl "$top/tests/cli/perfetto_size.pl" "$tmp/real.pf"
status_is 0 "events of real files: $(tr '\n' ' ' <"$out")"
ok "... have 50 bytes at most, with all their fields" awk '/^events/ { n = $2 + 0 > 1000 && $3 <= 50 } END { exit !n }' "$out"

sed 's/x86-tsc/local/g' "$tmp/guest/meta" >"$tmp/meta" && cp "$tmp/meta" "$tmp/guest/meta"
run "$kvmft" export -q -i "$tmp/guest" --to json
status_is 0 "a capture in ns"
is "$(sed -n 2p "$out" | sed 's/.*"t":\([0-9]*\),.*/\1/')" \
	"$(sed -n 1p "$tmp/want" | sed 's/.*"t":\([0-9]*\),.*/\1/')" "... shows its stamps"
# ---- a window ----

# A third of the capture, from its own lines.
"$kvmft" export -q -i "$tmp/host" --to text >"$tmp/all.txt"
time_of() { sed -n "$1"'s/.*\] *\([0-9.]*\)  .*/\1/p' "$tmp/all.txt"; }
from=$(time_of 2000)
until=$(time_of 4000)
awk -v from="$from" -v to="$until" '{ split($0, a, "]"); split(a[2], b, " "); if (b[1] >= from && b[1] <= to) print }' \
	"$tmp/all.txt" >"$tmp/some.txt"
run "$kvmft" export -q -i "$tmp/host" --to text --from "$from" --until "$until"
status_is 0 "a window: exit 0"
ok "... has the lines of that time" cmp -s "$out" "$tmp/some.txt"
run "$kvmft" export -q -i "$tmp/host" -o "$tmp/window.dat" --from "$from" --until "$until"
status_is 0 "a window as trace.dat: exit 0"
is "$("$kvmft" export -q -i "$tmp/window.dat" --to text --clock host-tsc | wc -l | tr -d ' ')" \
	"$(wc -l <"$tmp/some.txt" | tr -d ' ')" "... has as many events"
usage "a window that ends before it begins" 'option --until: .* is before --from' -i "$tmp/host" --to text \
	--from "$until" --until "$from"


mkdir "$tmp/nothing"
(cd "$tmp/nothing" && "$kvmft" export --to text) >"$out" 2>"$err"
is "$?" 1 "no kvmft.data, and no -i"
err_has '^kvmft export: no kvmft.data here: name a capture with -i, or make one' "... says what to do"
finish
