#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# `kvmft merge` with captures made here: alone, mixed up, wrong, cut, hostile. (Real pairs of host
# and guest are in tests/vm.) The guest captures are host captures that were relabelled, so that
# everything about a guest but its events is real.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}

need_recording merge
umask 022

# ---- the captures ----

host=$tmp/host
exec 8>"$turn"
flock -w 900 8
# As a guest's capture it has its CPUs for vCPUs, and the VM has vCPU 0 alone.
on_cpu=0 start_recording "$host"
flock -u 8
exec 8>&-
# Enough for more than one sub-buffer, however busy the machine is.
n=0
while [ $n -lt 200 ] && ! awk '/^(entries|read events):/ { n += $NF } END { exit n < 10000 }' \
	"$tracefs"/instances/kvmft."$recorder".*/per_cpu/cpu*/stats; do
	sleep 0.1
	n=$((n + 1))
done
kill -TERM "$recorder"
wait "$recorder"
is "$?" 0 "a host is recorded"
recorder=
kill "$vm"
wait "$vm" 2>/dev/null
id=$(sed -n "s/^vm id=\($vm-[0-9]*\) .*/\1/p" "$host/meta" | head -n 1)
ok "... and its VM is known" test -n "$id"
one=11111111-2222-3333-4444-555555555555
# Whatever else runs on this machine is taken out, and our VM gets name and UUID.
sed -i -e "/^vm /{/id=$id /!d; s/\$/ name=one uuid=$one/}" -e "/^vcpu /{/vm=$id /!d}" "$host/meta"

# relabel FROM TO SED-SCRIPT
relabel()
{
	cp -r "$1" "$2"
	sed -i "$3" "$2/meta"
}

as_guest="s/^side .*/side name=guest/; s/^\(machine .*\) uuid=[^ ]*/\1/; /^vm /d; /^vcpu /d"
relabel "$host" "$tmp/guest" "$as_guest; s/^machine .*/& uuid=$one/"
relabel "$host" "$tmp/nouuid" "$as_guest"
relabel "$host" "$tmp/stranger" "$as_guest; s/^machine .*/& uuid=99999999-2222-3333-4444-555555555555/"
relabel "$host" "$tmp/twins" "s/^vm .*/&\n&/"
awk -v id="$id" '/^vm / && !(++n % 2) { sub("id=" id, "id=9999-7"); sub("name=one", "name=two") } 1' \
	"$tmp/twins/meta" >"$tmp/meta" && cp "$tmp/meta" "$tmp/twins/meta"
relabel "$host" "$tmp/novm" "/^vm /d; /^vcpu /d; /sys=kvm name=kvm_\(entry\|exit\|write_tsc_offset\|pvclock_update\|track_tsc\|update_master_clock\)\$/d"

# failed [-4] NAME PATTERN ARGUMENT...: exit 1, or 4, and one line on stderr.
failed()
{
	code=1
	[ "$1" = -4 ] && code=4 && shift
	name=$1
	pattern=$2
	shift 2
	run "$kvmft" merge "$@"
	status_is $code "$name"
	err_has "$pattern" "... is reported"
	err_one_line "$name"
}

# ---- what works ----

run "$kvmft" merge "$host"
status_is 0 "a host alone"
lines=$(wc -l <"$out" | tr -d ' ')
is "$lines" "$(sum_stats "$host" read)" "... a line for each event"
err_has "^kvmft: host: $lines events, 0 lost$" "... and a summary"
# The time is the first word that is a number with nine decimals.
is "$(awk '{ for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+\.[0-9]+$/ && length($i) - index($i, ".") == 9) {
		if ($i + 0 < last) bad++; last = $i + 0; n++; break } }
	END { print n + 0, bad + 0 }' "$out")" "$lines 0" "... each with a time, in order"
cp "$out" "$tmp/text"
run "$kvmft" merge -q "$host"
is "$(wc -c <"$err" | tr -d ' ')" 0 "--quiet: nothing on stderr"
run "$kvmft" merge --clock host-tsc "$host"
status_is 0 "--clock host-tsc"
is "$(awk '{ for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+$/ && length($i) > 8) { n++; break } } END { print n }' "$out")" \
	"$lines" "... has cycles in each line"
run "$kvmft" merge -o "$tmp/new" "$host"
status_is 0 "--output"
ok "... holds the same" cmp "$tmp/new" "$tmp/text"
is "$(stat -c %a "$tmp/new")" 600 "... for its owner"
is "$(wc -c <"$out" | tr -d ' ')" 0 "... and nothing is on stdout"

run "$kvmft" merge "$host" "$tmp/guest"
is "$([ "$rc" = 0 ] || [ "$rc" = 1 ] && echo yes)" yes "guest found by UUID (exit $rc)"
err_has "one" "... is called by the name of its VM"
for sel in one "$one" "$id" "${id%-*}"; do
	run "$kvmft" merge --tsc-offset 0 "$host" "$tmp/nouuid=$sel"
	is "$([ "$rc" = 0 ] || [ "$rc" = 3 ] && echo yes)" yes "guest named by $sel"
	out_has '^one ' "... has lines"
done
is "$(wc -l <"$out" | tr -d ' ')" $((2 * lines)) "... all of both captures"

# ---- which guest? ----

run "$kvmft" merge "$host" "$tmp/nouuid"
status_is 0 "no UUID, one VM: it is that"
err_has "nouuid: one: the only VM there" "... is reported"
failed "no VM has that UUID" "has a UUID that no VM .*, so it may be another host.s; name one: .*VMs there: $id \(one\)" "$host" "$tmp/stranger"
failed "two VMs have that UUID" "several VMs by UUID.*VMs there: $id \(one\), 9999-7 \(two\)" \
	"$tmp/twins" "$tmp/guest"
failed "no VM of that name" "nosuch.*one" "$host" "$tmp/guest=nosuch"
failed "one capture twice" "guest and .*guest are one and the same capture" --tsc-offset 0 "$host" "$tmp/guest" \
	"$tmp/../$(basename "$tmp")/guest=one"
run "$kvmft" merge "$tmp/novm" "$tmp/guest"
status_is 4 "host that knows no VM"
err_has "knows no VM" "... is reported"
relabel "$tmp/guest" "$tmp/both" "s/^side .*/side name=both/"
run "$kvmft" merge --tsc-offset 0 "$host" "$tmp/guest=one"
cp "$out" "$tmp/want"
run "$kvmft" merge --tsc-offset 0 "$host" "$tmp/both=one"
status_is 0 "a capture of a nested machine as the guest"
ok "... is the same time line" cmp "$out" "$tmp/want"
relabel "$host" "$tmp/nested" "s/^side .*/side name=both/"
run "$kvmft" merge --tsc-offset 0 "$tmp/nested" "$tmp/guest=one"
status_is 0 "... as the host"
ok "... is the same time line, too" cmp "$out" "$tmp/want"
failed "guest given as host" "capture of a guest: the host's comes first" "$tmp/guest" "$host"
relabel "$host" "$tmp/other" ""
failed "host given as guest" "capture of a host, not of a guest" "$host" "$tmp/other"
failed "the host twice" "host is named as host and as guest" "$host" "$host"
run "$kvmft" merge --clock guest-tsc "$host"
status_is 2 "--clock guest-tsc without a guest"
err_has "needs a guest" "... is reported"
run "$kvmft" merge --clock kvmclock "$host"
status_is 2 "--clock kvmclock without a guest"
relabel "$host" "$tmp/nokhz" "s/^tsc khz=[0-9]* source=[^ ]*/tsc/; /^time /d"
failed -4 "--clock ns, speed of the TSC unknown" "use --clock host-tsc, or give it with --tsc-khz: the MHz" --clock ns "$tmp/nokhz"
run "$kvmft" merge "$tmp/nokhz"
status_is 0 "... but without --clock it shows cycles"

# ---- no capture at all ----

failed "no such file" "$tmp/nothing: cannot open the capture: No such file" "$tmp/nothing"
mkdir "$tmp/empty"
failed "empty directory" "$tmp/empty: not a kvmft capture" "$tmp/empty"
echo hello >"$tmp/text.txt"
failed "text file" "$tmp/text.txt: " "$tmp/text.txt"
: >"$tmp/zero"
failed "empty file" "$tmp/zero: " "$tmp/zero"
mkfifo "$tmp/fifo"
failed "FIFO" "$tmp/fifo: neither a capture directory nor a file" "$tmp/fifo"
failed "guest that is no capture" "$tmp/empty: not a kvmft capture" "$host" "$tmp/empty"
relabel "$host" "$tmp/future" "1s/.*/kvmft-capture version=2/"
failed "capture of a newer version" "format version 2, this kvmft reads up to 1" "$tmp/future"
relabel "$host" "$tmp/anon" "1s/.*/something else=1/"
failed "meta of something else" "not a kvmft capture" "$tmp/anon"

# ---- outputs ----

failed "output exists" "use --force to replace it" -o "$tmp/text.txt" "$host"
is "$(cat "$tmp/text.txt")" hello "... and is untouched"
run "$kvmft" merge --force -o "$tmp/text.txt" "$host"
status_is 0 "--force"
ok "... replaces it" cmp "$tmp/text.txt" "$tmp/text"
ln -s "$tmp/victim" "$tmp/link"
failed "output is a dangling link" "cannot replace .*: it is not a plain file" -o "$tmp/link" "$host"
ok "... nothing was made through it" test ! -e "$tmp/victim"
failed "output in no directory" "cannot open directory .*/no/such: No such file or directory: make it first" -o "$tmp/no/such/out" "$host"
failed "input missing: output is not made" "cannot open the capture" -o "$tmp/late" "$tmp/nothing"
ok "... really" test ! -e "$tmp/late"
"$kvmft" merge "$host" 2>"$err" | head -n 1 >"$out"
is "$(wc -l <"$out" | tr -d ' ')" 1 "| head gets its line"
is "$(grep -cviE '^kvmft: (host|alignment)' "$err")" 0 "... and no error is reported"
# The exit status, from a shell that can tell: a pipe whose reader is gone.
mkfifo "$tmp/pipe"
head -c 1 "$tmp/pipe" >/dev/null &
"$kvmft" merge "$host" >"$tmp/pipe" 2>"$err"
is "$?" 0 "... exit 0"
wait $!
if [ -c /dev/full ]; then
	"$kvmft" merge "$host" >/dev/full 2>"$err"
	is "$?" 1 "full device: exit 1"
	err_has 'No space left on device' "... is reported"
else
	skip "full device" "no /dev/full"
fi

# ---- captures that are cut or broken: what is whole is shown, the rest is reported ----

# The data file with the most in it.
data=$(cd "$host" && find . -name 'cpu[0-9]*' -type f -printf '%s %p\n' | sort -rn | sed -n '1s/.* //p')
subbuf=$(sed -n 's/^ring .* subbuf=\([0-9]*\).*/\1/p' "$host/meta")
size=$(stat -c %s "$host/$data")
ok "there is more than one sub-buffer" test "$size" -gt "$subbuf"

# incomplete NAME PATTERN CAPTURE: exit 3, the reason, and some lines.
incomplete()
{
	run "$kvmft" merge "$3"
	status_is 3 "$1"
	err_has "$2" "... is reported"
	is "$([ "$(wc -l <"$out")" -gt 0 ] && echo yes)" yes "... the rest is shown"
}

cp -r "$host" "$tmp/cut"
truncate -s $((size - 100)) "$tmp/cut/$data"
incomplete "data file cut inside a sub-buffer" "ends inside a sub-buffer, $((subbuf - 100)) bytes cut" "$tmp/cut"
cp -r "$host" "$tmp/short"
truncate -s $((size - subbuf)) "$tmp/short/$data"
incomplete "data file cut between sub-buffers" "^kvmft: host: [0-9]+ events, [1-9][0-9]* lost" "$tmp/short"
relabel "$host" "$tmp/noend" '$d'
incomplete "no end record" "cut short: no end record" "$tmp/noend"
cp -r "$host" "$tmp/second"
truncate -s -5 "$tmp/second/meta"
incomplete "last line of meta cut" "no end record, and meta ends within a line" "$tmp/second"
relabel "$host" "$tmp/badline" '3i\
=== nonsense'
incomplete "damaged line in meta" "meta: line 3 is damaged" "$tmp/badline"
cp -r "$host" "$tmp/commit"
printf '\377\377\377\377' | dd of="$tmp/commit/$data" bs=1 seek=8 conv=notrunc 2>/dev/null
incomplete "commit word that is too large" "1 damaged sub-buffers left out" "$tmp/commit"
out_has 'DAMAGED' "... and is in the time line"
cp -r "$host" "$tmp/noformat"
rm "$tmp/noformat/formats"
incomplete "file of formats missing" "formats: kvm:kvm_userspace_exit: No such file" "$tmp/noformat"
relabel "$host" "$tmp/oneformat" 's/\(name=kvm_userspace_exit at=\)[0-9]*/\199999999/'
incomplete "format of an event missing" "formats: kvm:kvm_userspace_exit: No data" "$tmp/oneformat"
relabel "$host" "$tmp/apart" 's/\(name=kvm_userspace_exit\) at=[0-9]* len=[0-9]*/\1/'
incomplete "format of an event nowhere" "events/kvm/kvm_userspace_exit: No such file" "$tmp/apart"
mkdir -p "$tmp/apart/events/kvm"
sed -n '/^name: kvm_userspace_exit$/,/^print fmt/p' "$host/formats" >"$tmp/apart/events/kvm/kvm_userspace_exit"
run "$kvmft" merge "$tmp/apart"
is "$rc" 0 "format of an event in a file of its own"
truncate -s -5 "$tmp/apart/events/kvm/kvm_userspace_exit"
incomplete "format of an event cut short" "format of kvm:kvm_userspace_exit: cut short" "$tmp/apart"
cp -r "$host" "$tmp/linked"
rm "$tmp/linked/$data"
ln -s "$host/$data" "$tmp/linked/$data"
run "$kvmft" merge "$tmp/linked"
# 1 when it held all there was
is "$([ "$rc" = 3 ] || [ "$rc" = 1 ] && echo yes)" yes "data file that is a symbolic link (exit $rc)"
err_has "$(basename "$data"): " "... is reported"
relabel "$host" "$tmp/name" "s/name=one/name=a%1b%5b31mb/"
run "$kvmft" merge --tsc-offset 0 "$tmp/name" "$tmp/guest"
is "$(cat "$out" "$err" | tr -dc '\033' | wc -c | tr -d ' ')" 0 "escape sequences of a capture are not printed"

# Random bytes anywhere must neither crash nor hang it.
seed=1
bad_status=
while [ $seed -le 40 ]; do
	rm -rf "$tmp/fuzz"
	cp -r "$host" "$tmp/fuzz"
	for file in meta "$data" header_page formats; do
		length=$(stat -c %s "$tmp/fuzz/$file")
		awk -v seed="$seed" -v n="$length" 'BEGIN { srand(seed); for (i = 0; i < 4; i++)
			printf "%d %o\n", int(rand() * (n < 20000 ? n : 20000)), int(rand() * 256) }' |
		while read -r at byte; do
			# shellcheck disable=SC2059 # an octal escape
			printf "\\$byte" | dd of="$tmp/fuzz/$file" bs=1 seek="$at" conv=notrunc 2>/dev/null
		done
	done
	timeout 300 "$kvmft" merge "$tmp/fuzz" >/dev/null 2>"$err"
	status=$?
	case $status in
	0 | 1 | 3 | 4) ;;
	*)
		bad_status="$bad_status seed $seed: exit $status;"
		sed 's/^/# /' "$err" | head -n 20
		;;
	esac
	seed=$((seed + 1))
done
is "$bad_status" "" "40 captures with random bytes: exit 0, 1, 3 or 4"

# ---- captures that somebody made to cost much ----

"$tools/genpair" --host "$tmp/ph" --guest "$tmp/pg" || exit 1
pair=$(sed -n 's/^vm id=\([^ ]*\).*/\1/p' "$tmp/ph/meta" | head -n 1)
"$kvmft" merge "$tmp/ph" "$tmp/pg=$pair" >"$tmp/want" 2>/dev/null
file=$tmp/ph/seg000000/cpu0
size=$(stat -c %s "$file")
truncate -s 64G "$file"
run timeout 300 "$kvmft" merge "$tmp/ph" "$tmp/pg=$pair"
status_is 3 "64 GB of a file that were never written"
ok "... cost no time, and no line" cmp "$tmp/want" "$out"
err_has "host: seg000000/cpu0: [0-9]+ of 68719476736 bytes were never written, and left out" "... and are reported"
truncate -s "$size" "$file"
# In the middle: all that is left of the second half is where it was.
cut=$((size / 4096 / 2 * 4096))
tail -c +$((cut + 1)) "$file" >"$tmp/back-half"
truncate -s "$cut" "$file"
truncate -s $((cut + 1073741824)) "$file"
cat "$tmp/back-half" >>"$file"
run timeout 300 "$kvmft" merge "$tmp/ph" "$tmp/pg=$pair"
status_is 3 "a hole in the middle"
ok "... leaves what is around it" cmp "$tmp/want" "$out"
err_has "seg000000/cpu0: 1073741824 of $((size + 1073741824)) bytes were never written" "... and is reported to the byte"
truncate -s "$cut" "$file"
cat "$tmp/back-half" >>"$file"

cp "$tmp/ph/meta" "$tmp/meta"
perl -e 'print "vcpu vm=x-1 id=bad tid=1\n" x 200000' >>"$tmp/ph/meta"
run timeout 300 "$kvmft" merge "$tmp/ph" "$tmp/pg=$pair"
status_is 3 "200,000 bad records"
err_has "host: meta: record vcpu without a valid id .200000 times.$" "... are counted"
is "$(grep -c 'record vcpu' "$err")" 1 "... in one line"

# ---- what tells which VM it is ----

# Two VMs, of which the host has other events than entries and exits.
sed 's/ uuid=[^ ]*//; s/name=kvm_entry/name=kvm_antry/; s/name=kvm_exit/name=kvm_axit/' "$tmp/meta" |
	sed '/^vm id/{p;s/id=[0-9]*/id=5000/;s/pid=[0-9]*/pid=5000/;s/name=[^ ]*/name=other/}
		/^vcpu/{p;s/vm=[0-9]*/vm=5000/;s/tid=4/tid=5/}' >"$tmp/ph/meta"
sed -i 's/ uuid=[^ ]*//' "$tmp/pg/meta"
mv "$tmp/ph/events/kvm/kvm_entry" "$tmp/ph/events/kvm/kvm_antry"
mv "$tmp/ph/events/kvm/kvm_exit" "$tmp/ph/events/kvm/kvm_axit"
sed -i 's/kvm_entry/kvm_antry/; s/kvm_exit/kvm_axit/' "$tmp/ph/events/kvm/kvm_antry" "$tmp/ph/events/kvm/kvm_axit"
run "$kvmft" merge "$tmp/ph" "$tmp/pg"
status_is 4 "a host without entries and exits cannot be matched to a guest"
err_has "nothing tells which VM its events come from; .*syn .no kvm_entry or kvm_exit of it.*other .no kvm_entry" "... and why"
finish
