#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft qemu sdt`: markers of a program made from text (tests/golden/sdt.txt, tests/tools/gensdt.c).

. "$(dirname "$0")/lib.sh"

gensdt=${KVMFT_TOOLS:-$top/build/tests/tools}/gensdt
golden=$top/tests/golden
elf=$tmp/prog:with:colons

ok "an ELF file is made" "$gensdt" "$golden/sdt.txt" "$elf"
for format in text json csv; do
	run "$kvmft" qemu sdt --format "$format" "$elf"
	status_is 3 "$format: places that cannot be probed make it incomplete"
	err_has "2 places cannot be probed and are left out: its guard is not in the program's data" "... and are reported"
	sed "s|$tmp/||g" "$out" >"$tmp/$format"
	ok "... as it should be" diff -u "$golden/sdt-$format.out" "$tmp/$format"
done

# Moved after linking, and of another class: the same offsets.
ok "moved: a file" "$gensdt" "$golden/sdt.txt" "$tmp/moved" moved
run "$kvmft" qemu sdt --format json "$tmp/moved"
sed "s|$tmp/moved|prog:with:colons|" "$out" >"$tmp/out"
ok "moved: the same list" diff -u "$golden/sdt-json.out" "$tmp/out"
ok "32 bits: a file" "$gensdt" "$golden/sdt.txt" "$tmp/m32" 32
run "$kvmft" qemu sdt "$tmp/m32:demo:sizes"
status_is 0 "32 bits: a list"
out_has 'demo:sizes +1  no +arg1:s8 arg2:u8 arg3:s16 arg5:s32 arg8:u64  \(not arg4:' "32 bits: its registers"

# ---- which ----

run "$kvmft" qemu sdt "$elf:demo:s*"
status_is 0 "a pattern"
is "$(awk 'NR > 1 { print $1 }' "$out" | tr '\n' ' ')" "demo:start demo:sizes " "... is obeyed"
run "$kvmft" qemu sdt "$elf:other-lib"
is "$(awk 'NR > 1 { print $1 }' "$out")" "other-lib:done::all" "a provider alone"
run "$kvmft" qemu sdt "$elf:demo:name,arg1:string,arg2:hex"
out_has 'arg1:string arg2:x32$' "arguments as strings and in hex"
run "$kvmft" qemu sdt "$elf:demo:none"
status_is 1 "no such marker"
err_has 'no marker demo:none; there are demo:start, demo:sizes, demo:name, demo:odd, demo:nowhere' "... which there are"
err_one_line "no such marker"
run "$kvmft" qemu sdt "$elf:demo:name,arg0:string"
status_is 2 "argument 0"
run "$kvmft" qemu sdt "$elf:demo:name,arg1:float"
status_is 2 "no such type"

# ---- what is no program ----

run "$kvmft" qemu sdt "$tmp/absent:x:y"
status_is 1 "no file"
err_has "absent: cannot open the program or library: No such file" "... is reported"
run "$kvmft" qemu sdt "$top/LICENSE"
status_is 1 "a text"
err_has 'no markers can be read: it is not an ELF file' "... is reported"
err_one_line "a text"
run "$kvmft" qemu sdt "$kvmft"
status_is 1 "a program without markers"
err_has 'no SDT markers in it' "... is reported"
head -c 900 "$elf" >"$tmp/cut"
run "$kvmft" qemu sdt "$tmp/cut"
status_is 1 "a file cut short"
err_has 'its section headers make no sense' "... is reported"

finish
