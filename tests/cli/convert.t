#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# kvmft convert: the numbers of the vectors through the command line, parameters from captures,
# and what it says when it cannot.

. "$(dirname "$0")/lib.sh"

vectors=$top/tests/data/clock-vectors.tsv

conv() { "$kvmft" convert "$@"; }

# value NAME WANT ARGS...: one value, one result
value()
{
	name=$1
	want=$2
	shift 2
	is "$(conv "$@" 2>&1 </dev/null)" "$want" "$name"
}

# ---- numbers that others have published ----

value "debugfs shows the offset signed, the same bits in hex" 50797581519532 \
	--from host-tsc --to guest-tsc --tsc-offset -4949202418480468 5000000000000000
value "... and as hex" 50797581519532 \
	--from host-tsc --to guest-tsc --tsc-offset 0xffee6aba03eccaac 5000000000000000
value "... and back" "5000000000000000 5000000000000000" --range \
	--from guest-tsc --to host-tsc --tsc-offset 0xffee6aba03eccaac 50797581519532
value "the offset is the guest TSC at host TSC 0" "$(printf %u 0xffee6aba03eccaac)" \
	--from host-tsc --to guest-tsc --tsc-offset -4949202418480468 0
value "kvm_sched_clock_offset - __sched_clock_offset" "$(printf %u 0x1af3075cc)" \
	--from guest-perf --to kvmclock --kernel-sched-offset 0x1abf681cf,0xfffffffffcc60c03 0
value "... given as one number" "$(printf %u 0x1af3075cc)" \
	--from guest-perf --to kvmclock --sched-offset 0x1af3075cc 0
value "... as two options" "$(printf %u 0x1af3075cc)" --from guest-global --to kvmclock \
	--sched-offset 0x1abf681cf --kernel-sched-offset 0xfffffffffcc60c03 0
value "... local knows no __sched_clock_offset" "$(printf %u 0x1abf681cf)" \
	--from guest-local --to kvmclock --kernel-sched-offset 0x1abf681cf,0xfffffffffcc60c03 0
value "perf is local plus __sched_clock_offset" 945884163 \
	--from guest-local --to guest-perf --kernel-sched-offset 0x1abf681cf,-54115837 1.0
value "local of one number" 18113039745020 \
	--from kvmclock --to guest-local --sched-offset 0x1af3075cc 18120.273901
# precedence in base + ((cyc - last) * mult + nsec) >> shift: the shift comes before the base
value "mono_raw: the base is not shifted" 1000000005 \
	--from host-tsc --to host-mono_raw --mono-raw 100,2,1,10,1000000000 100

# ---- vectors ----

# Runs every STEP-th row of a kind: columns to arguments by the function named, which prints what
# was got; "want" of the row is in $want. Counts what differs.
rows()
{
	kind=$1
	step=$2
	n=0
	wrong=0
	first=
	while read -r _ a b c d e f g h i o1 o2; do
		"$kind"
		n=$((n + 1))
		if [ "$got" != "$want" ]; then
			wrong=$((wrong + 1))
			first=${first:-"$kind $a $b $c $d $e $f $g $h $i: got '$got', want '$want'"}
		fi
	done <<ROWS
$(awk -F'\t' -v k="$kind" -v s="$step" '$1 == k && n++ % s == 0' "$vectors")
ROWS
	[ "$n" -ge 10 ] || first="only $n rows"
	is "$wrong $first" "0 " "vectors: $kind"
	echo "# $n rows"
}

try() { got=$(conv "$@" 2>&1 </dev/null); }

tsc_fwd()
{
	try --from host-tsc --to guest-tsc --tsc-offset "$b" --tsc-ratio "$c/$d" "$a"
	want=$o1
}
tsc_inv()
{
	try --range --from guest-tsc --to host-tsc --tsc-offset "$b" --tsc-ratio "$c/$d" "$a"
	want="$o1 $o2"
	# last = first - 1: no host cycle reads it, and the first one after it is the answer
	if awk -v a="$o1" -v b="$o2" 'BEGIN { la = length(a); lb = length(b)
			exit !(lb < la || (lb == la && b "" < a "")) }'; then
		want="$o1 $o1"
		skipped=$((skipped + 1))
	fi
}
pv_fwd()
{
	try --from guest-tsc --to kvmclock --pvclock "$b,$c,$d,$e" "$a"
	want=$o1
}
pv_inv()
{
	try --from kvmclock --to guest-tsc --pvclock "$b,$c,$d,$e" "$a"
	want=$o1
}
raw_fwd()
{
	try --from host-tsc --to host-mono_raw --mono-raw "$b,$c,$d,$e,$f" "$a"
	want=$o1
}
raw_inv()
{
	try --from host-mono_raw --to host-tsc --mono-raw "$b,$c,$d,$e,$f" "$a"
	want=$o1
}
chain()
{
	try --from guest-local --to guest-tsc --sched-offset "$b" --pvclock "$c,$d,$e,$f" "$a"
	chain1=$got
	try --from guest-local --to host-tsc --sched-offset "$b" --pvclock "$c,$d,$e,$f" \
		--tsc-offset "$g" --tsc-ratio "$h/$i" "$a"
	got="$chain1 $got"
	want="$o1 $o2"
}

rows tsc_fwd 8
skipped=0
rows tsc_inv 8
ok "vectors: tsc_inv has values that no host cycle reads" test $skipped -gt 0
rows pv_fwd 10
rows pv_inv 16
rows raw_fwd 5
rows raw_inv 4
rows chain 3

# ---- standard input ----

printf '0\n0x10\n  1.5 \r\n-1\n18446744073.709551615' >"$tmp/in"
"$kvmft" convert --from kvmclock --to guest-local --sched-offset -5 <"$tmp/in" >"$out" 2>"$err"
rc=$?
status_is 3 "a result that does not exist: exit 3"
is "$(tr '\n' ' ' <"$out")" "5 21 1500000005 ? ? " "hex, blanks, seconds, negative, no last newline"
err_has '2 of 5 values .* marked \?: 2 outside' "... counted with the reason"
err_one_line "values that do not convert"

seq 1 200000 | "$kvmft" convert --from host-tsc --to guest-tsc --tsc-offset 7 >"$out" 2>"$err"
is "$(seq 8 200007 | cmp - "$out" 2>&1)" "" "200000 lines, over many reads"
run conv --from host-tsc --to guest-tsc --tsc-offset 7
status_is 0 "no lines, no results"
# A program that writes a value and waits must get the answer before the end of file.
mkfifo "$tmp/q" "$tmp/a"
"$kvmft" convert --from host-tsc --to guest-tsc --tsc-offset 7 <"$tmp/q" >"$tmp/a" &
exec 8>"$tmp/q" 9<"$tmp/a"
echo 1 >&8
read -r answer <&9
is "$answer" 8 "a line is answered at once"
exec 8>&- 9<&-
wait $!

printf '1\n2\nabc\n4\n' >"$tmp/in"
"$kvmft" convert --from host-tsc --to guest-tsc --tsc-offset 7 <"$tmp/in" >"$out" 2>"$err"
rc=$?
status_is 1 "a line that is no number"
err_has "line 3: 'abc' is not a 64-bit number of cycles" "... with its number"
is "$(tr '\n' ' ' <"$out")" "8 9 " "... after the results before it"
printf '1\0002\n' | "$kvmft" convert --from host-tsc --to guest-tsc --tsc-offset 7 >"$out" 2>"$err"
is $? 1 "a NUL is no number"
awk 'BEGIN { for (i = 0; i < 70000; i++) printf "1" }' |
	"$kvmft" convert --from host-tsc --to guest-tsc --tsc-offset 7 >"$out" 2>"$err"
err_has 'line 1: too long' "an endless line"
timeout 300 sh -c "yes 1 | '$kvmft' convert --from host-tsc --to guest-tsc --tsc-offset 7 | head -n 1" >"$out" 2>"$err"
is "$?$(cat "$out" "$err")" 08 "a reader that leaves ends it without a word"
if [ -w /dev/full ]; then
	"$kvmft" convert --from host-tsc --to guest-tsc --tsc-offset 7 1 >/dev/full 2>"$err"
	is $? 1 "a full disk is no success"
fi

# ---- wrong use ----

bad()
{
	name=$1
	want=$2
	shift 2
	run conv "$@"
	status_is 2 "$name"
	err_has "$want" "... and says so"
}

bad "no --from" 'option --from CLOCK is missing' --to host-tsc 1
bad "an unknown clock" "no clock 'kvmclok' \(did you mean kvmclock\?\); the clocks are host-tsc," \
	--from kvmclok --to host-tsc 1
bad "an unknown clock like no other" "no clock 'xyzzyxyzzy'; the clocks are" \
	--from xyzzyxyzzy --to host-tsc 1
bad "a name that both sides have" "host and guest both have a clock 'local': say host-local or guest-local" \
	--from local --to host-tsc 1
bad "x86-tsc is such a name too" "say host-tsc or guest-tsc" --from host-tsc --to x86-tsc 1
bad "a value that is no number" "value 2: '1\.5' is not a 64-bit number of cycles" \
	--from host-tsc --to guest-tsc --tsc-offset 7 1 1.5
bad "too fine a fraction" "value 1: '1\.0123456789' is not" \
	--from kvmclock --to guest-local --sched-offset 7 1.0123456789
bad "a value of more than 64 bits" "18446744073709551616" \
	--from host-tsc --to guest-tsc --tsc-offset 7 18446744073709551616
bad "a short pvclock record" "TSC,SYSTEM_TIME,MUL,SHIFT" --from guest-tsc --to kvmclock --pvclock 1,2,3 1
bad "a long one" "TSC,SYSTEM_TIME,MUL,SHIFT" --from guest-tsc --to kvmclock --pvclock 1,2,3,4,5,6 1
bad "a shift that KVM never has" "SHIFT is -31 to 31" --from guest-tsc --to kvmclock --pvclock 1,2,3,32 1
bad "a multiplier of 0" "MUL is 1 to" --from guest-tsc --to kvmclock --pvclock 1,2,0,1 1
bad "a ratio alone" "needs --tsc-offset" --from host-tsc --to guest-tsc --tsc-ratio 5/48 1
bad "a ratio with odd fraction bits" "not a ratio that KVM uses" \
	--from host-tsc --to guest-tsc --tsc-offset 1 --tsc-ratio 5/47 1
bad "one number for the way from local to perf" "does not relate guest-local to guest-perf" \
	--from guest-local --to guest-perf --sched-offset 1 1
bad "mono_raw parameters that nothing uses" "no mono_raw is converted" \
	--from host-tsc --to guest-tsc --tsc-offset 1 --mono-raw 1,2,3,4,5 1

# ---- missing links ----

lacks()
{
	name=$1
	want=$2
	shift 2
	run conv "$@"
	status_is 4 "$name"
	err_has "$want" "... names it, with a remedy"
	err_one_line "$name"
}

lacks "no TSC offset" 'cannot convert host-tsc to guest-tsc: no TSC offset: .*--tsc-offset' \
	--from host-tsc --to guest-tsc --vcpu 0 --tsc-khz 1 1
lacks "no sched offset" 'no kvm_sched_clock_offset: .*guest-offset' --from guest-local --to host-tsc \
	--tsc-offset 1 1
lacks "no pvclock record" 'no pvclock record: .*--pvclock' --from guest-local --to host-tsc \
	--tsc-offset 1 --sched-offset 2 1
lacks "nothing but samples leads to realtime" 'no samples of the host.s CLOCK_REALTIME: record' \
	--from host-realtime --to host-tsc --tsc-offset 1 1

# ---- captures ----

mkdir "$tmp/host" "$tmp/guest" "$tmp/host2"
for d in host guest host2; do cp "$top/tests/data/header_page-x86_64.txt" "$tmp/$d/header_page"; done
cat >"$tmp/host/meta" <<'META'
kvmft-capture version=1
side name=host
machine uname=Linux arch=x86_64 long=8 endian=little cpus=1
ring clock=x86-tsc subbuf=4096 header=16
tsc khz=2500000 source=test clocksource=tsc
begin tsc=1000000000
vm id=100-10 pid=100 fd=10 name=vm1 uuid=11111111-2222-3333-4444-555555555555 vmm=qemu
vcpu vm=100-10 id=0 tid=101 offset=-500000000 ratio=0 frac=0 tsc=1000000000
vcpu vm=100-10 id=1 tid=102 offset=-500000000 ratio=0 frac=0 tsc=1000000000
time tsc=1000000000 width=100 mono_raw=400000000 mono=400000010 boot=400000020 real=1700000000000000000
time tsc=3500000000 width=100 mono_raw=1400000000 mono=1400000010 boot=1400000020 real=1700000001000000000
end reason=signal tsc=3600000000
META
cat >"$tmp/guest/meta" <<'META'
kvmft-capture version=1
side name=guest
machine uname=Linux arch=x86_64 long=8 endian=little cpus=1 uuid=11111111-2222-3333-4444-555555555555
ring clock=local subbuf=4096 header=16
tsc khz=2500000 source=test clocksource=kvm-clock
cpu n=0 apicid=0
sched kvm_sched_clock_offset=1000 kernel_sched_clock_offset=-50 is_tsc=0 source=kprobe
pvclock cpu=0 version=2 tsc_timestamp=400000000 system_time=200000000 mul=3435973836 shift=-1 flags=1
begin tsc=600000000
time tsc=600000000 width=100 mono_raw=280000000 mono=280000010 boot=280000020 real=1700000000040000000
time tsc=3000000000 width=100 mono_raw=1240000000 mono=1240000010 boot=1240000020 real=1700000001000000000
end reason=signal tsc=3100000000
META
sed 's/id=1 tid=102 offset=-500000000/id=1 tid=102 offset=-400000000/' "$tmp/host/meta" >"$tmp/host2/meta"
h=$tmp/host
g=$tmp/guest

value "the offset of a host capture" 1500000000 --from host-tsc --to guest-tsc -i "$h" 2000000000
value "... of the VM named" 1500000000 --from host-tsc --to guest-tsc -i "$h" --vm 100-10 2000000000
value "by hand wins" 2000000005 --from host-tsc --to guest-tsc -i "$h" --tsc-offset 5 2000000000
value "the sched offset and record of a guest capture" 599999998 \
	--from guest-local --to guest-tsc -i "$g" 279998999
value "-i takes a guest's capture, too" 279998950 --from kvmclock --to guest-perf -i "$g" 280000000
value "from the guest's local clock to the host's TSC" "1100002502 1100002503" --range \
	--from guest-local --to host-tsc -i "$h" -i "$g" 280000000
value "to kvmclock by the record in force" 639999999 \
	--from host-tsc --to kvmclock -i "$h" -i "$g" 2000000000
# Samples: the true value must lie in the range, and the range within what bracket and slew allow.
# host realtime 1700000000.5 = host TSC 2250000050, guest TSC 1750000050, guest mono_raw 740000000.
around()
{
	name=$1
	truth=$2
	slack=$3
	shift 3
	run conv --range "$@"
	read -r lo hi <"$out"
	ok "$name" test "$lo" -le "$truth" -a "$hi" -ge "$truth" -a $((hi - lo)) -le "$slack"
}
around "host realtime to guest mono_raw, through both TSCs" 740000000 1000 \
	--from host-realtime --to guest-mono_raw -i "$h" -i "$g" 1700000000.5
# Trace clocks sampled by record: local = TSC / 2.5 + 10^9, perf = local + 46 s.
mkdir "$tmp/sampled" "$tmp/tscguest"
cp "$h/header_page" "$tmp/sampled"
sed '/^end /d' "$h/meta" >"$tmp/sampled/meta"
cat >>"$tmp/sampled/meta" <<'META'
clock name=local tsc=1000000000 width=100 ns=1400000020
clock name=perf tsc=1000000000 width=100 ns=47400000020
clock name=sundial tsc=1000000000 width=100 ns=5
clock name=local tsc=3500000000 width=100 ns=2400000020
clock name=perf tsc=3500000000 width=100 ns=48400000020
raw last=1000000050 mult=1717986918 shift=32 nsec=0 base=400000000 clocksource=tsc source=test
end reason=signal tsc=3600000000
META
around "host local, sampled" 2250000050 600 --from host-local --to host-tsc -i "$tmp/sampled" 1900000020
around "host perf to host local, both sampled" 1900000020 600 \
	--from host-perf --to host-local -i "$tmp/sampled" 47900000020
around "guest TSC to the host's perf clock" 47900000020 600 \
	--from guest-tsc --to host-perf -i "$tmp/sampled" 1750000050
value "mono_raw by the kernel's own line" "899999999 899999999" --range \
	--from host-tsc --to host-mono_raw -i "$tmp/sampled" 2250000050
sed -i 's/^raw .*base=4/raw last=1000000050 mult=1717986918 shift=32 nsec=0 base=5/' "$tmp/sampled/meta"
around "... not by one that contradicts the samples" 900000000 600 \
	--from host-tsc --to host-mono_raw -i "$tmp/sampled" 2250000050
sed 's/^sched .*/sched is_tsc=1/; /^pvclock/d; /^end /d' "$g/meta" >"$tmp/tscguest/meta"
cat >>"$tmp/tscguest/meta" <<'META'
clock name=local tsc=600000000 width=100 ns=240000020
clock name=local tsc=3000000000 width=100 ns=1200000020
META
around "local of a guest without kvmclock" 2250000050 600 \
	--from guest-local --to host-tsc -i "$h" -i "$tmp/tscguest" 700000020
around "host TSC to host mono" 900000010 600 --from host-tsc --to host-mono -i "$h" 2250000050
around "host mono_raw to host boot: no guest needed" 900000020 1200 \
	--from host-mono_raw --to host-boot -i "$h" 0.9
run conv --from host-tsc --to host-mono -i "$h" 9000000000
status_is 0 "outside of the samples"
err_has '1 of 1 results lie outside of the samples' "... is reported"

(cd "$tmp" && cp -r host kvmft.data && "$kvmft" convert --from host-tsc --to guest-tsc 2000000000) >"$out" 2>&1
is "$(cat "$out")" 1500000000 "kvmft.data is the default"

run conv --from host-tsc --to guest-tsc -i "$tmp/host2" 2000000000
status_is 1 "vCPUs that differ"
err_has 'clocks of vCPU 0 and 1 of VM vm1 differ: choose one with --vcpu' "... are never guessed"
value "... but chosen" 1600000000 --from host-tsc --to guest-tsc -i "$tmp/host2" --vcpu 1 2000000000
run conv --from host-tsc --to guest-tsc -i "$h" --vcpu 7 1
err_has 'VM vm1 has no vCPU 7' "an unknown vCPU"
run conv --from host-tsc --to guest-tsc -i "$h" --vm nobody 1
err_has "nobody.*100-10" "an unknown VM, with the candidates"
lacks "no record in the captures: epochs are no reason to ask for the offset" \
	'no pvclock record for VM vm1: ' --from host-tsc --to kvmclock -i "$h" 2000000000
run conv --from host-tsc --to guest-tsc -i "$h" 10 2000000000
status_is 3 "a time before the capture"
is "$(tr '\n' ' ' <"$out")" "? 1500000000 " "... is ? and the next one goes on"
err_has '1 of 2 values .* no TSC offset, pvclock record or sample is known' "... with the reason"
run conv --from host-tsc --to guest-tsc -i "$h" -i "$h" 1
err_has 'is the capture of a host: -i takes one of a host, and one' "two hosts"
run conv --from host-tsc --to guest-tsc -i "$g" -i "$g" 1
err_has 'is the capture of a guest: -i takes' "two guests"
value "in the other order" 1100002502 --from guest-local --to host-tsc -i "$g" -i "$h" 280000000
cp -r "$h" "$tmp/torn"
printf 'vcpu vm=100-10 id=zero offset=7 tsc=1900000000\n' >>"$tmp/torn/meta"
run conv --from host-tsc --to guest-tsc -i "$tmp/torn" 2000000000
status_is 3 "a capture with a damaged clock: exit 3"
err_has 'torn: meta: record vcpu without a valid id' "... and what is damaged"
run conv --from host-tsc --to guest-tsc -i "$tmp/nothing" 1
status_is 1 "a capture that is not there"

finish
