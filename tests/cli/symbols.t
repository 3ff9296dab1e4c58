#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# Symbols of guests: `kvmft record --symbols` on this machine; which addresses get names in merge, report --by rip and
# blame, by files and by captures; what must have none; files that lie.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

# ---- recorded here ----

run "$kvmft" record -q --as guest --symbols -e none -e sched:sched_process_exec -d 100ms -o "$tmp/here"
if [ "$rc" = 4 ] && { grep -q 'hides addresses' "$err" || ! [ -r /sys/kernel/tracing/instances ]; }; then
	skip "symbols of this machine" "$(cat "$err")"
else
	is "$rc" 0 "record --symbols"
	is "$(stat -c '%a %a' "$tmp/here/symbols")" "600 600" "... for its owner alone"
	is "$(head -n 1 "$tmp/here/symbols")" "kvmft-symbols 3" "... as the manual says"
	is "$(grep -c "^file name=symbols bytes=$(stat -c %s "$tmp/here/symbols")\$" "$tmp/here/meta")" 1 "... and told"
	want=$(awk '$2 ~ /[tTwW]/ && $1 !~ /^0*$/ { print $1 }' /proc/kallsyms | sort -u | wc -l)
	have=$(grep -c '^[0-9a-f]* t ' "$tmp/here/symbols")
	ok "... $have functions of $want addresses" test "$have" -gt $((want * 99 / 100)) -a "$have" -le "$want"
	"$kvmft" record -q --as guest --symbols -e none -e sched:sched_process_exec -d 100ms -o - |
		"$kvmft" receive -q -o "$tmp/streamed" 2>"$err"
	is "$?" 0 "... as a stream"
	ok "... with the same symbols" cmp "$tmp/here/symbols" "$tmp/streamed/symbols"
	is "$(stat -c %a "$tmp/streamed/symbols")" 600 "... for its owner alone"
fi
if [ -r /sys/kernel/tracing/instances ]; then
	run "$kvmft" record --as host --symbols -d 100ms -o "$tmp/host-symbols"
	is "$rc" 2 "a host has none to tell"
	err_has "guest-options '--symbols'" "... and how its guests do is said"
fi

# ---- made captures ----

cat >"$tmp/host.txt" <<'END'
meta vm id=100-12 pid=100 fd=12 name=one uuid=11111111-2222-3333-4444-555555555555
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
0  1000 101 kvm_entry vcpu_id=0 rip=0xffffffff81000100
0  2000 101 kvm_exit exit_reason=30 isa=1 vcpu_id=0 guest_rip=0xffffffff81000109
0  3000 101 kvm_entry vcpu_id=0 rip=0xffffffff8100010a
0  4000 101 kvm_exit exit_reason=30 isa=1 vcpu_id=0 guest_rip=0xffffffff8100010c
0  6000 101 kvm_entry vcpu_id=0 rip=0xffffffff8100010c
0  7000 101 kvm_exit exit_reason=10 isa=1 vcpu_id=0 guest_rip=0x55d0c0ffee00
0  7500 101 kvm_entry vcpu_id=0 rip=0x55d0c0ffee02
0  8000 101 kvm_exit exit_reason=10 isa=1 vcpu_id=0 guest_rip=0x7f0000001000
0  8500 101 kvm_entry vcpu_id=0 rip=0x7f0000001000
0  9000 101 kvm_exit exit_reason=48 isa=1 vcpu_id=0 guest_rip=0xffffffffc0000010
0  9900 101 kvm_entry vcpu_id=0 rip=0xffffffffc0000013
0 10000 101 kvm_exit exit_reason=48 isa=1 vcpu_id=0 guest_rip=0xffffffffc0002000
0 10100 101 kvm_entry vcpu_id=0 rip=0xffffffffc0002000
0 11000 101 kvm_exit exit_reason=1 isa=1 vcpu_id=0 guest_rip=0xffffffff81000200
0 11100 101 kvm_entry vcpu_id=0 rip=0xffffffff81000200
END
cat >"$tmp/kallsyms" <<'END'
ffffffff81000000 T _stext
ffffffff81000100 t do_in
ffffffff81000200 T _etext
ffffffffc0000000 t vp_notify	[virtio_pci]
END
printf 'virtio_pci 8192 1 - Live 0xffffffffc0000000\n' >"$tmp/modules"
ok "a host: compiled" "$mkcap" --capture "$tmp/host" "$tmp/host.txt"

# names OPTION...: the words in brackets behind each rip of the exits, one a line
names()
{
	"$kvmft" merge "$@" 2>"$err" | sed -n '/kvm_exit/s/.*rip 0x[0-9a-f]* (\([^)]*\)).*/\1/p'
}
all='do_in+0x9
do_in+0xc
user
user
vp_notify+0x10 [virtio_pci]
no symbol
no symbol'
is "$(names --guest-kallsyms "$tmp/kallsyms" "$tmp/host")" "$all" "merge: names behind each rip"
is "$(names "$tmp/host" | wc -l)" 0 "... none where none are known"
is "$("$kvmft" merge "$tmp/host" 2>/dev/null | wc -l)" "$("$kvmft" merge --guest-kallsyms "$tmp/kallsyms" "$tmp/host" 2>/dev/null | wc -l)" \
	"... and no line more or less"
is "$("$kvmft" merge --guest-kallsyms one="$tmp/kallsyms" -e 'kvm_entry' -N 1 "$tmp/host" 2>/dev/null |
	sed 's/.*\(rip .*)\).*/\1/')" "rip 0xffffffff81000100 (do_in+0x0)" "entries, too"
run "$kvmft" merge --format json --guest-kallsyms "$tmp/kallsyms" "$tmp/host"
is "$(sed -n '/kvm_exit/s/.*"rip_symbol"/"rip_symbol"/p' "$out" | tr -d '"}' | tr '\n' ' ')" \
	"rip_symbol:do_in+0x9 rip_symbol:do_in+0xc rip_symbol:user rip_symbol:user rip_symbol:vp_notify+0x10 [virtio_pci] rip_symbol:null rip_symbol:null " \
	"JSON: rip_symbol"
run "$kvmft" merge --format html --guest-kallsyms "$tmp/kallsyms" -o "$tmp/page.html" "$tmp/host"
is "$rc" 0 "a page"
is "$(sed -n 's/.*<script[^>]*id="data"[^>]*>//p; /^[A-Za-z0-9+\/=]*$/p' "$tmp/page.html" | base64 -di 2>/dev/null |
	grep -ao 'do_in+0x9' | head -n 1)" "do_in+0x9" "... has them"

is "$(names --guest-modules "$tmp/modules" "$tmp/host" | tail -n 3 | head -n 1)" "[virtio_pci]+0x10" "modules alone"

# ---- captures of guests ----

# guest NAME: a capture of that VM, whose symbols are what comes from standard input
guest()
{
	printf '%s\n' "meta side name=guest" "0 1500 7 sched:sched_waking pid=8" >"$tmp/$1.txt"
	"$mkcap" --capture "$tmp/$1" "$tmp/$1.txt" || return 1
	cat >"$tmp/$1/symbols"
}
packed='kvmft-symbols 3
+virtio_pci ffffffffc0000000 2000
ffffffff81000000 t _stext
ffffffff81000100 t do_in
ffffffff81000200 - -
ffffffffc0000000 t vp_notify [virtio_pci]
ffffffffc0001000 - -
.'
echo "$packed" >"$tmp/packed"
guest guest <"$tmp/packed"
want=$(echo "$all" | sed '6s/.*/no symbol/')
is "$(names "$tmp/host" "$tmp/guest=one")" "$want" "a guest's capture has its own"
is "$(names --guest-kallsyms "$tmp/guest" "$tmp/host")" "$want" "... and may be given by the option"
"$kvmft" report --by rip --format csv "$tmp/host" "$tmp/guest=one" >"$out" 2>"$err"
is "$(sed -n '1s/.*total_us,//p' "$out")" "function,module,address" "report --by rip: its columns come last"
is "$(awk -F , 'NR > 1 { print $3 " " $(NF - 2) "," $(NF - 1) "," $NF }' "$out" | sort | tr '\n' ';')" \
	"CPUID user,,;EPT_VIOLATION ,,0xffffffffc0002000;EPT_VIOLATION vp_notify,virtio_pci,;EXTERNAL_INTERRUPT ,,0xffffffff81000200;IO_INSTRUCTION do_in,,;" \
	"... by function and reason"
is "$(awk -F , '/do_in/ { print $4 }' "$out") $(awk -F , '/user/ { print $4 }' "$out")" "2 2" "... with their counts"
run "$kvmft" report --by rip "$tmp/host" "$tmp/guest"
is "$rc" 0 "a guest's capture that has no UUID, where there is one VM"
err_has 'guest: its functions are taken for those of one, the only VM there$' "... whose it is taken for is said"
is "$(grep -c 'functions have no names' "$out")" 0 "... and nothing is said of missing names"
cp -r "$tmp/guest" "$tmp/stranger"
sed -i 's/^machine .*/& uuid=99999999-2222-3333-4444-555555555555/' "$tmp/stranger/meta"
run "$kvmft" report --by rip "$tmp/host" "$tmp/stranger"
is "$rc" 2 "one with the UUID of another VM gives no names"
err_has 'has a UUID that no VM of the host capture has; name one: .*stranger=SEL\. VMs there: 100-12 [(]one[)]$' "... and is asked for"
run "$kvmft" report --guest-kallsyms "$tmp/kallsyms" "$tmp/host"
is "$rc" 2 "names are for --by rip"
err_has ' option --guest-kallsyms: only --by rip ' "... the option is named as it is typed"
run "$kvmft" report --by rip "$tmp/host"
is "$(cat "$err")" "" "no guest's capture: nothing is assumed"
out_has '^# functions have no names: give --guest-kallsyms' "without symbols the remedy is below the table"
ok "without symbols by address" grep -q '^ *0xffffffff81000109 IO_INSTRUCTION *1 ' "$out"
run "$kvmft" report --by rip --event mmio "$tmp/host"
is "$rc" 2 "--by rip is of exits"

printf 'symbols gone=virtio_pci\n' >>"$tmp/guest/meta"
is "$(names "$tmp/host" "$tmp/guest=one" | sed -n 5p)" "no symbol" "a module that went has no names"

# bad WHAT: a capture of the guest with the symbols in $tmp/lie. A guest's capture is anybody's: nothing of symbols that
# are wrong is used, and nothing is printed of them.
bad()
{
	what=$1
	guest bad <"$tmp/lie"
	for how in "merge --color never" "report --by rip --format csv" "blame --at 4us --tsc-khz 1000000 --context 9"; do
		# shellcheck disable=SC2086 # words
		run "$kvmft" $how "$tmp/host" "$tmp/bad=one"
		[ "$how" != "${how#blame}" ] || is "$(grep -o 'do_in\|vp_not\|evil\|aa+\|zz+' "$out" | sort -u | tr '\n' ' ')" "" \
			"$what: no name is left, ${how%% *}"
		is "$rc" 3 "... incomplete"
		err_has 'symbols' "... which is reported"
		is "$(LC_ALL=C tr -d '\n\t -~' <"$out" | wc -c) $(LC_ALL=C tr -d '\n\t -~' <"$err" | wc -c)" "0 0" \
			"... nor anything printed that drives a terminal"
	done
}
# lie SED: the same, changed
lie() { printf '%s\n' "$packed" | sed "$1" >"$tmp/lie"; }
lie '6s/.*/&\nffffffffc0000005 t evil\x1b[2J [virtio_pci]/'
bad "control characters"
head -c 90 "$tmp/packed" >"$tmp/lie"
bad "cut inside a line"
lie '$d'
bad "cut between lines"
lie '6s/.*/&\nffffffffc0000000 t zz [virtio_pci]/'
bad "two functions at one address"
lie '6s/.*/&\nfffffffffc0000000 t zz/'
bad "an address above 64 bits"
lie '6s/.*/&\n400000 t zz/'
bad "a program's addresses"
lie '6s/.*/&\nnothing/'
bad "a line that is no symbol"
lie '1s/3/2/'
bad "another version"
head -c 20000000 /dev/zero | tr '\0' 'a' >"$tmp/lie"
bad "larger than any kernel's"
printf 'x' | guest none
rm "$tmp/none/symbols"
run "$kvmft" merge --guest-kallsyms "$tmp/none" "$tmp/host"
is "$rc" 4 "a capture without symbols is an error where it is asked for them"
err_has 'without --symbols' "... which is reported"

# ---- files that do not fit ----

for f in /dev/null "$tmp/modules" /dev/zero "$tmp/missing"; do
	run "$kvmft" merge --guest-kallsyms "$f" "$tmp/host"
	is "$rc" 1 "--guest-kallsyms $f"
	err_one_line
done
truncate -s 1T "$tmp/hole"
for option in kallsyms modules vmlinux; do
	run timeout 60 "$kvmft" merge --guest-$option "$tmp/hole" "$tmp/host"
	is "$rc" 1 "--guest-$option: a file of a terabyte, of which nothing is on the disk"
	err_one_line
done
rm "$tmp/hole"
sed 's/^[0-9a-f]*/0000000000000000/' "$tmp/kallsyms" >"$tmp/hidden"
run "$kvmft" merge --guest-kallsyms "$tmp/hidden" "$tmp/host"
is "$rc" 1 "addresses that are hidden"
err_has kptr_restrict "... and why is said"
run "$kvmft" merge --guest-vmlinux "$tmp/kallsyms" "$tmp/host"
is "$rc" 1 "a vmlinux that is none"
err_has 'not an ELF file' "... which is reported"
run "$kvmft" merge --guest-kaslr 0x1000 "$tmp/host"
is "$rc" 2 "--guest-kaslr alone"
run "$kvmft" merge --guest-vmlinux /dev/null --guest-kaslr 12fox "$tmp/host"
is "$rc" 2 "--guest-kaslr that is no number"
run "$kvmft" merge --guest-kallsyms two="$tmp/kallsyms" "$tmp/host"
is "$rc" 1 "symbols of a VM that is not there"
err_has "one" "... and those that are, are named"
run "$kvmft" merge --guest-kallsyms "$tmp/kallsyms" --guest-kallsyms one="$tmp/kallsyms" "$tmp/host"
is "$rc" 2 "twice for the same VM"

# ---- several VMs ----

sed '1a meta vm id=200-9 pid=200 fd=9 name=two\nmeta vcpu vm=200-9 id=0 tid=201' "$tmp/host.txt" >"$tmp/two.txt"
cat >>"$tmp/two.txt" <<'END'
1  1000 201 kvm_entry vcpu_id=0 rip=0xffffffff81000100
1  2000 201 kvm_exit exit_reason=30 isa=1 vcpu_id=0 guest_rip=0xffffffff81000109
1  3000 201 kvm_entry vcpu_id=0 rip=0xffffffff8100010a
END
sed 's/do_in/other_in/' "$tmp/kallsyms" >"$tmp/kallsyms2"
ok "two VMs: compiled" "$mkcap" --capture "$tmp/two" "$tmp/two.txt"
run "$kvmft" merge --guest-kallsyms "$tmp/kallsyms" "$tmp/two"
is "$rc" 2 "of two VMs the one has to be named"
err_has 'SEL=FILE' "... which is reported"
is "$(names --guest-kallsyms two="$tmp/kallsyms2" "$tmp/two")" "other_in+0x9" "names for one of them"
"$kvmft" report --by rip --format csv --guest-kallsyms one="$tmp/kallsyms" --guest-kallsyms name=two="$tmp/kallsyms2" \
	--per vm "$tmp/two" >"$out" 2>"$err"
is "$(grep -c '^two,.*other_in' "$out") $(grep -c '^two,.*do_in' "$out") $(grep -c '^one,.*other_in' "$out")" "1 0 0" \
	"each has its own"
sed 's/exit_reason=10/exit_reason=24/' "$tmp/host.txt" >"$tmp/nested.txt"
ok "a guest with guests: compiled" "$mkcap" --capture "$tmp/nested" "$tmp/nested.txt"
is "$(names --guest-kallsyms "$tmp/kallsyms" "$tmp/nested" | wc -l)" 0 "its addresses may be its guests': no names"
file_has "$err" "guests of its own" "... which is reported"
finish
