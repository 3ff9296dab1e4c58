#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# The tree builds with the other compiler and in its small forms; with WERROR=1, as in CI, without a warning.

. "$(dirname "$0")/lib.sh"

make=${MAKE_PROGRAM:-make}

build()
{
	name=$1
	shift
	ok "$name" "$make" -C "$top" NODEPS=1 -j"$(nproc)" O="$tmp/build" "$@"
}

if [ "${CHECK_ALL:-0}" != 1 ]; then
	skip "clang" "make check-all has it"
elif command -v clang >/dev/null; then
	# All that is compiled, and what is linked is linked as gcc's is.
	objects=$(cd "$top" && for f in tests/*/*.c; do
		case $f in tests/unit/* | tests/tools/* | tests/lib/*) echo "$tmp/build/${f%.c}.o" ;; esac
	done)
	# shellcheck disable=SC2086 # a list
	build "clang compiles all" CC=clang CFLAGS=-O0 all "$tmp/build/tests/kill/kvmft" $objects
else
	skip "clang" "clang is not installed"
fi
# No libraries are there for musl: all sources are compiled, with the headers of the others.
if command -v musl-gcc >/dev/null; then
	mkdir "$tmp/musl"
	for h in /usr/include/linux /usr/include/asm-generic "/usr/include/$(uname -m)-linux-gnu/asm" /usr/include/libkmod.h \
		/usr/include/sqlite3.h /usr/include/zstd*.h /usr/include/zlib.h /usr/include/zconf.h /usr/include/cmocka*.h \
		/usr/include/tracefs/*.h /usr/include/traceevent /usr/include/traceevent/*.h; do
		[ ! -e "$h" ] || ln -s "$h" "$tmp/musl/"
	done
	# shellcheck disable=SC2016 # the inner shell's
	ok "musl-gcc compiles all, without a warning" sh -c 'cd "$1" &&
		ls src/main.c src/*/*.c tests/lib/*.c tests/tools/*.c tests/unit/test_*.c | grep -v cmds_small |
		xargs -n 40 -P "$(nproc)" musl-gcc -fsyntax-only -std=gnu11 -O1 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DHAVE_LIBKMOD \
			-DHAVE_ZSTD -DHAVE_ZLIB -DHAVE_SQLITE -DKVMFT_VERSION="\"0\"" -DTEST_DATA_DIR="\"\"" -Wall -Wextra -Werror \
			-Wno-missing-field-initializers -Iinclude -Isrc -Itests -isystem "$2"' sh "$top" "$tmp/musl"
else
	skip "musl" "musl-gcc is not installed (package musl-tools)"
fi
run "$make" -C "$top" NODEPS=1 O="$tmp/build" CC="gcc -m32"
status_is 2 "a compiler for 32 bits"
is "$(grep -c . "$err")" 1 "... is refused in one line"
err_has "kvmft is for 64-bit processors" "... that says why"
rm -rf "$tmp/build"
# Objects that are the same are there already, newer than their sources.
if [ -n "${KVMFT_PLAIN:-}" ]; then
	mkdir "$tmp/build"
	cp -a "${KVMFT_PLAIN%/*}/src" "${KVMFT_PLAIN%/*}/.flags" "$tmp/build"
fi
build "gcc -O2, without libkmod, zstd, zlib and sqlite3" MINIMAL=1
run "$tmp/build/kvmft" --version
status_is 0 "minimal kvmft runs"
is "$(ldd "$tmp/build/kvmft" | grep -cE 'libkmod|libzstd|libz\.')" 0 "minimal kvmft needs none of these libraries"
# 4: this machine lacks something.
run "$tmp/build/kvmft" check --host --format json
ok "minimal kvmft check (exit $rc)" test "$rc" = 0 -o "$rc" = 4
out_has '"name":"kvm-module".*built without libkmod' "... says what is known of modules"
run "$tmp/build/kvmft" export --to sqlite -o "$tmp/no.db" -i "$tmp/none"
status_is 4 "minimal kvmft writes no database"
err_has 'built without libsqlite3' "... and says why"
run "$tmp/build/kvmft" merge "$top/tests/golden/foreign/zlib/guest.dat"
status_is 4 "minimal kvmft reads no zlib"
err_has 'compressed with zlib, and this kvmft was built without zlib$' "... and says why"
# What is loaded when it is needed is noted where tools of distributions look for it.
notes()
{
	readelf --notes "$1" | awk '$1 == "FDO" && /0x407c0c0a|DLOPEN/' | grep -c .
	readelf -p .note.dlopen "$1" | grep -o '{.*}' | jq -r '.priority + " " + .soname[]' | sort
}
plain=${KVMFT_PLAIN:-$kvmft}
is "$(notes "$plain" 2>"$tmp/readelf")" "2
recommended libkmod.so.2
recommended libsqlite3.so.0" "ELF notes name the libraries that are loaded"
is "$(cd "$top" && grep -l 'dlopen(' src/*/*.c | xargs grep -l '^DLOPEN_NOTE(' | wc -l)" \
	"$(cd "$top" && grep -l 'dlopen(' src/*/*.c | wc -l)" "... each that a source loads"
is "$(notes "$tmp/build/kvmft" 2>"$tmp/readelf")" 0 "... and none of those that a build does without"
# Nothing to do the second time; one object when one file changed.
ok "second build does nothing" sh -c "! '$make' -C '$top' NODEPS=1 O='$tmp/build' MINIMAL=1 | grep -E ' (CC|LD|AR) '"
ok "install into DESTDIR" "$make" -C "$top" NODEPS=1 O="$tmp/build" MINIMAL=1 DESTDIR="$tmp/dest" prefix=/usr install
ok "... puts the program and the manual there" test -x "$tmp/dest/usr/bin/kvmft" -a -f "$tmp/dest/usr/share/man/man1/kvmft.1"
is "$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$tmp/dest/usr/share/doc/kvmft/examples/kvmft-record.service")" /usr/bin/kvmft \
	"... examples for cron and systemd"
units=SYSTEMD_UNITDIR=/lib/systemd/system
ok "install into /usr/local, with units" "$make" -C "$top" NODEPS=1 O="$tmp/build" MINIMAL=1 DESTDIR="$tmp/local" $units install
is "$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$tmp/local/lib/systemd/system/kvmft-record.service")" /usr/local/bin/kvmft \
	"... which start that program"
ok "uninstall there" "$make" -C "$top" NODEPS=1 O="$tmp/build" MINIMAL=1 DESTDIR="$tmp/local" $units uninstall
is "$(find "$tmp/local" -type f | wc -l | tr -d ' ')" 0 "... leaves nothing"
ok "uninstall" "$make" -C "$top" NODEPS=1 O="$tmp/build" MINIMAL=1 DESTDIR="$tmp/dest" prefix=/usr uninstall
is "$(find "$tmp/dest" -type f | wc -l | tr -d ' ')" 0 "... leaves nothing"
is "$(find "$tmp/dest" -name kvmft -o -name examples)" "" "... and no empty folder of kvmft's"

# ---- one folder by two names: `make check` gives the whole path ----

again=build/again.$$
object=$again/src/util/str.o
ok "an object, by the folder's whole path" "$make" -C "$top" NODEPS=1 O="$top/$again" $object
run "$make" -C "$top" NODEPS=1 -W include/kvmft/util.h O=$again $object
out_has '^ *CC +src/util/str' "... is rebuilt by its short one when a header changed"
rm -rf "${top:?}/$again"

# ---- the build for small hosts ----

rm -rf "$tmp/build"
build "gcc -Oz, for small hosts" SMALL=1 CPPFLAGS=-g0
small=$tmp/build/kvmft
run "$small" help
status_is 0 "small kvmft runs"
is "$(ldd "$small" | grep -c 'libz\.')" 0 "... and needs no zlib, whose only use is in files that it does not read"
"$kvmft" --list-options | cut -f 1 | LC_ALL=C sort >"$tmp/whole"
sed -nE '/^usage:/,/^(not|exit)/s/^  ([a-z-]+) .*/\1/p' "$out" >"$tmp/here"
sed -n '/^not in this small build:$/{n;p}' "$out" | tr -s ' ' '\n' | grep . >"$tmp/elsewhere"
is "$(LC_ALL=C sort "$tmp/here" "$tmp/elsewhere")" "$(cat "$tmp/whole")" \
	"... help names each command of the whole kvmft once, as here or elsewhere"
while read -r cmd; do
	run "$small" "$cmd" --help
	status_is 4 "small kvmft has no $cmd"
	err_has "^kvmft: this build has no '$cmd': use it where the whole kvmft is" "... and says where"
done <"$tmp/elsewhere"
while read -r cmd; do
	run "$small" help "$cmd"
	status_is 0 "small kvmft has $cmd"
done <"$tmp/here"
for option in "--qemu default" "--sdt /bin/sh"; do
	# shellcheck disable=SC2086 # two words
	run "$small" record --as host -o "$tmp/none" $option -- true
	status_is 4 "small kvmft refuses $option"
	err_has "this small build has no ${option% *}: use the whole kvmft" "... and says why"
done
run "$small" record --as host -o "$tmp/none" -e net-id -- true
status_is 4 "small kvmft refuses -e net-id"
err_has "this small build has no -e net-id: use the whole kvmft" "... and says why"
run "$small" record --as host -o "$tmp/none" --guest-processes -- true
status_is 4 "small kvmft refuses --guest-processes"
err_has "this small build has no --guest-processes: use the whole kvmft" "... and says why"
if [ "$(id -u)" = 0 ]; then
	run "$small" exits --steal 1
	status_is 4 "small kvmft refuses exits --steal"
	err_has "this small build has no --steal: use the whole kvmft" "... and says why"
else
	skip "small kvmft refuses exits --steal" "needs root"
fi
if [ "$(uname -m)" = x86_64 ]; then
	ok "install, without saying SMALL=1 again" "$make" -C "$top" NODEPS=1 O="$tmp/build" DESTDIR="$tmp/again" PREFIX=/opt install
	strip -o "$tmp/stripped" "$small"
	ok "... installs the small one, stripped, below PREFIX" cmp "$tmp/stripped" "$tmp/again/opt/bin/kvmft"
	size=$(wc -c <"$tmp/stripped")
	ok "stripped, it has at most 432 KiB ($size bytes)" test "$size" -le 442368
else
	skip "size of small kvmft" "the limit is for x86-64"
fi
finish
