#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# What cuts a part out of merge's time line: --event, --context, --side, --vcpu, --from, --to; and
# dates. The captures are made by tests/tools/genpair, so all counts are known from the whole time line.

. "$(dirname "$0")/lib.sh"

genpair=${KVMFT_TOOLS:-$top/build/tests/tools}/genpair
TZ=UTC
export TZ
"$genpair" --host "$tmp/host" --guest "$tmp/guest" --vcpus 3 --jump 3000000 --ms 60
# Two readings of the host's clocks instead of its own, 0.06 s apart: 2026-11-21 06:42:39.5 at the beginning.
sed -i "/^time /d" "$tmp/host/meta"
sed -i '/^begin /i\
time tsc=1000000000000 width=100 mono_raw=1000000000 mono=1000000000 boot=1000000000 real=1795243359500000000' \
	"$tmp/host/meta"
sed -i '/^end /i\
time tsc=1000120000000 width=100 mono_raw=1060000000 mono=1060000000 boot=1060000000 real=1795243359560000000' \
	"$tmp/host/meta"

# merge OPTION...: lines in $out
merge()
{
	run "$kvmft" merge "$@" "$tmp/host" "$tmp/guest"
}

lines()
{
	wc -l <"$out" | tr -d ' '
}

# Columns are as wide as what is shown needs.
squeeze() { tr -s ' '; }

# only NAME PATTERN OPTION...: exactly the lines of the whole time line that match are shown.
only()
{
	name=$1
	pattern=$2
	shift 2
	merge "$@"
	status_is 0 "$name"
	grep -E -- "$pattern" "$tmp/all" | squeeze >"$tmp/want"
	grep -v EPOCH "$out" | squeeze >"$tmp/got"
	ok "... shows the lines it should ($(wc -l <"$tmp/want" | tr -d ' '))" \
		sh -c "test -s '$tmp/want' && cmp '$tmp/want' '$tmp/got'"
}

merge
status_is 0 "all of it"
out_has 'EPOCH of this vCPU.s clock: TSC offset -899997000000' "the TSC that was written is a line"
grep -v EPOCH "$out" >"$tmp/all"

only "--side host" '^host ' --side host
only "--side guest" '^syn ' --side guest
only "--side by name" '^syn ' --side syn
only "--event" ' kvm:kvm_exit: ' --event kvm_exit
only "--event with system, short" ' kvm:kvm_exit: ' -e kvm:kvm_exit
only "--event twice, wildcards" ' (kvm:kvm_e(xit|ntry)|msr:write_msr): ' -e 'kvm_e[xn]*' -e 'msr:w*'
only "--event with a filter" ' msr:read_msr: c0000080, value 3$' -e 'read_msr/val==3/'
only "filter: hex, &&, <" ' msr:read_msr: c0000080, value [01]$' -e 'msr:*/msr == 0xc0000080 && val < 2/'
only "filter: ||, parentheses, !" ' msr:read_msr: c0000080, value [0123]$' \
	-e 'read_msr/!(val > 2 || val == 1) || val == 1 || val>=3/'
only "filter: &" ' msr:read_msr: c0000080, value [13]$' -e 'read_msr/val & 1/'
only "filter: !=" ' msr:read_msr: c0000080, value [123]$' -e 'read_msr/val != 0/'
only "filter: a common field" '^syn .*-101 .* msr:' --side syn -e '*/common_pid==101/'
only "--vcpu" '(\[v1\]|-4002 )' --vcpu 1
only "--vcpu with a list" '(\[v[02]\]|-400[13] )' --vcpu 0,2-2
only "all of them" '^syn .*\[v2\].* msr:write_msr: ' --side syn --vcpu 2 -e write_msr
merge -e 'read_msr/nosuchfield==1/'
is "$(grep -vc EPOCH "$out")" 0 "filter: a field that is not there matches nothing"
err_has '^kvmft: read_msr has no field nosuchfield$' "... and that is reported"
status_is 1 "... nothing matched: exit 1"
err_has '^kvmft merge: nothing matched$' "... and why"
run "$kvmft" merge -e 'read_msr/vbl==1/' "$tmp/host" "$tmp/guest"
err_has '^kvmft: read_msr has no field vbl \(did you mean val\?\)$' "... similar fields are named"
merge -e kvm_exti
err_has '^kvmft: no event named kvm_exti was found \(did you mean kvm_exit\?\)$' "--event: a name that does not exist is reported"
status_is 1 "... exit 1"
merge -q -e kvm_exti -e kvm_exit
err_has '^kvmft: no event named kvm_exti was found \(did you mean kvm_exit\?\)$' "... with -q too, as a slip"
status_is 0 "... 0 where others matched"
merge -e kvm_exit -e kvm_entry
cp "$out" "$tmp/two"
merge -e kvm_exit,kvm_entry
ok "names with a comma, as perf has them" cmp "$out" "$tmp/two"
is "$(grep -cE 'named kvm_exit ' "$err")" 0 "... and not what it left nothing of"
merge -C 0 -e 'kvm:*msr' -e 'kvm_exit/vcpu==1/'
is "$(grep -cE 'no event named kvm:' "$err")" 0 "--context: nor what is there"
err_has '^kvmft: kvm_exit has no field vcpu$' "... a typo in the second one is reported"
merge -e 'kvm_e*/vcpu_id==77/'
is "$(grep -cE 'named|no field' "$err")" 0 "a value that is not there is no slip"
merge --vcpu 9
status_is 1 "--vcpu: one that is not there"
err_has '^kvmft: no event of the named vCPUs was found$' "... is reported"
merge -q -e nosuch
status_is 1 "-q: nothing matched"
is "$(sed -n '$p' "$err")" "kvmft merge: nothing matched" "... is reported"

# ---- a guest that began before the host, by an offset given by hand ----

cp -r "$tmp/host" "$tmp/late"
sed -i 's/^begin tsc=.*/begin tsc=1000080000000/' "$tmp/late/meta"
run "$kvmft" merge --tsc-offset -900000000000 --side guest "$tmp/late" "$tmp/guest"
status_is 0 "a guest that began before the host"
out_has '^syn .* 0\.0000[0-9]* ' "... seconds count from its beginning"
is "$(grep -cE ' [0-9]{5,}\.[0-9]{9} ' "$out")" 0 "... and do not match in another century"

# ---- filters ----

merge -e 'kvm_exit/!(exit_reason==hlt)/'
status_is 1 "a number is compared with a text"
err_has "the field exit_reason is a number, and 'hlt' is not" "... is reported, and does not match when negated"
merge -e 'kvm_exit/!(exit_reson==1)/'
status_is 1 "a misspelt field, negated"
err_has "did you mean exit_reason" "... is reported"
merge -e 'kvm_exit/exit_reson==1 || vcpu_id==0/'
status_is 0 "... or something that is true"
merge -e kvm
status_is 0 "a system alone"
is "$(grep -c "kvm:" "$out")" "$(grep -vc EPOCH "$out")" "... is all of it"
run "$kvmft" merge -q -v 0 "$tmp/host"
status_is 0 "-v of a host alone"
ok "... the threads of that vCPU" test "$(lines)" -gt 100

# ---- time ----

at()
{
	awk -v n="$1" 'NR == n { for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+[.][0-9]+$/) { print $i; exit } }' "$tmp/all"
}
from=$(at 1000)
to=$(at 1500)
awk -v from="$from" -v to="$to" '{ for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+[.][0-9]+$/) { if ($i >= from && $i <= to) print
	next } }' "$tmp/all" | squeeze >"$tmp/want"
merge
epochs=$(grep -c EPOCH "$out")
merge --from "$(at 6000)"
ok "clocks changed before that" test "$epochs" -gt 0
is "$(grep -c EPOCH "$out")" 1 "... which is one line"
out_has '^syn .*\[v[0-9]\] +before .*EPOCHS? of' "... dated before"
merge --clock guest-tsc --to 1
is "$(grep -vc ' before the VM ' "$out")" 0 "rows from before the guest's TSC began say so"
merge --from "$from" --to "$to"
status_is 0 "--from and --to"
grep -v EPOCH "$out" | squeeze >"$tmp/got"
ok "... both included" cmp "$tmp/want" "$tmp/got"
merge --from 20ms --to 21ms
ok "... with a unit" test "$(lines)" -gt 10 -a "$(lines)" -lt 500
merge --clock host-tsc --from 1000040000000 --to 1000041000000
ok "... in cycles" test "$(lines)" -gt 10 -a "$(lines)" -lt 500
merge --from 2 --to 1
status_is 2 "--to before --from"
merge -N 0
status_is 2 "no events at all"
err_has "option --count: must be at least 1" "... is not one event"
merge --from yesterday
status_is 2 "--from that is not a time"
merge --clock host-tsc --from 1.5
status_is 2 "--from in seconds, clock in cycles"

merge --clock realtime
status_is 0 "--clock realtime"
is "$(grep -cE ' 2026-11-21 06:42:39\.5[0-9]{8}  [a-z]+:' "$out")" "$(wc -l <"$tmp/all" | tr -d ' ')" \
	"... date and time of each event"
merge --clock realtime --from '2026-11-21 06:42:39.52' --to 06:42:39.521
ok "... --from with a date, --to without" test "$(lines)" -gt 10 -a "$(lines)" -lt 500
is "$(grep -vcE ' 06:42:39\.52(0|1000000)' "$out")" 0 "... just these"
merge --clock realtime --from '2611-06-12 06:17:13.25'
status_is 2 "--from in a year that 64 bits of ns do not reach, and would be 2026 in"
# Times of clocks that are known by readings, too, mean what the lines show.
for clock in mono_raw mono boot realtime; do
	merge -q --clock $clock
	cp "$out" "$tmp/shown"
	awk '!/EPOCH/ && NR % 400 == 7 { match($0, /\] +([0-9-]+ )?[0-9:.]+  /); t = substr($0, RSTART + 1, RLENGTH - 3); sub(/^ +/, "", t); print t }' \
		"$tmp/shown" >"$tmp/times"
	bad=0
	while read -r t; do
		merge -q --clock $clock --from "$t" --to "$t"
		grep -v EPOCH "$out" | tr -s ' ' >"$tmp/got"
		grep -F " $t  " "$tmp/shown" | tr -s ' ' | cmp -s - "$tmp/got" || bad=$((bad + 1))
	done <"$tmp/times"
	is "$(wc -l <"$tmp/times" | awk '{ print ($1 > 5 ? "many" : $1) }'), $bad wrong" "many, 0 wrong" "--clock $clock --from T --to T: the lines of T"
done

# ---- matches ----

only "--context 0" ' kvm:kvm_write_tsc_offset: ' -e kvm_write_tsc_offset -C 0
err_has '^kvmft: 1 matches$' "... counts"
merge -e kvm_write_tsc_offset --context 4
at=$(grep -n kvm_write_tsc_offset "$tmp/all" | cut -d: -f1)
sed -n "$((at - 4)),$((at + 4))p" "$tmp/all" | squeeze >"$tmp/want"
grep -v EPOCH "$out" | squeeze >"$tmp/got"
ok "--context: four lines before and after" cmp "$tmp/want" "$tmp/got"
grep -n EPOCH "$out" | sed 's/^/# /'
grep -n -B 7 -A 7 ' msr:write_msr: ' "$tmp/all" | sed 's/^[0-9][0-9]*[:-]//' | squeeze >"$tmp/want"
merge -e write_msr -C 7
grep -v EPOCH "$out" | squeeze >"$tmp/got"
ok "... the same as grep does, where contexts overlap" cmp "$tmp/want" "$tmp/got"
grep -E '^syn ' "$tmp/all" | grep -B 2 -A 2 ' msr:write_msr: ' | squeeze >"$tmp/want"
merge --side syn -e write_msr -C 2
grep -v EPOCH "$out" | squeeze >"$tmp/got"
ok "... of the lines that other options leave" cmp "$tmp/want" "$tmp/got"
merge --format json -e write_msr -C 1
status_is 0 "JSON too"
out_has '"event":"msr:write_msr"' "... holds the matches"

# Threads are looked up by their last bits first: 101, 357 and 613 have them in common, and the last runs no vCPU.
cat >"$tmp/near.txt" <<'END'
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta vcpu vm=100-12 id=1 tid=357 offset=0 ratio=0 frac=48
0 1000 101 kvm_entry vcpu_id=0
1 1100 357 kvm_entry vcpu_id=1
0 1200 613 kvm_msr write=1 ecx=1 data=1
1 1300 357 kvm_exit exit_reason=1 isa=1
0 1400 101 kvm_exit exit_reason=1 isa=1
END
"${genpair%genpair}mkcap" --capture "$tmp/near" "$tmp/near.txt" || exit 1
for pick in "0 1000 1400" "1 1100 1300"; do
	run "$kvmft" merge -q --clock host-tsc --format json --vcpu "${pick%% *}" "$tmp/near"
	is "$(sed -n 's/.*"t":\([0-9]*\),"event".*/\1/p' "$out" | xargs)" "${pick#* }" \
		"events of vCPU ${pick%% *}, whose thread's number resembles others'"
done

# ---- wrong ----

# wrong NAME PATTERN OPTION...
wrong()
{
	name=$1
	pattern=$2
	shift 2
	merge "$@"
	status_is 2 "$name"
	err_has "$pattern" "... is reported"
	err_one_line "$name"
}

wrong "no such side" "neither host nor guest" --side nobody
wrong "a bad vCPU" "not a list such as" --vcpu 1-x
wrong "context without events" "needs -e" --context 3
wrong "filter that is cut" "is not EVENT or EVENT/FILTER/" -e 'read_msr/val==1'
wrong "filter without operator" "one of == != .* is missing" -e 'read_msr/val/'
wrong "filter without value" "a value is missing" -e 'read_msr/val==/'
wrong "parenthesis not closed" "'\)' is missing" -e 'read_msr/(val==1/'
wrong "something behind it" "not understood" -e 'read_msr/val==1 val==2/'
wrong "order of text" "text can be compared" -e 'read_msr/val<x/'
deep=$(printf '%0200d' 0 | tr 0 '(')
wrong "parentheses without end" "nested too deeply" -e "read_msr/$deep/"
run "$kvmft" merge -e kvm_exit --context 10001 "$tmp/host"
status_is 2 "more context than is kept: wrong usage"
err_has 'at most 10000' "... is reported"
finish
