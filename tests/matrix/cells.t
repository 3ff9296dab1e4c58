#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The matrix of `make check-all`: compilers, sanitizers, libraries, architectures, C libraries, kernels.
# A cell builds kvmft and runs its unit tests, or boots a kernel in the rig; at the end stands a table.
#
#   CELLS="gcc arm64..." tests/matrix/cells.t    runs only those

. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/lib.sh"

make=${MAKE_PROGRAM:-make}
jobs=$(nproc)
table=$tmp/table
begin=0
ran=0
wrong=0

# begin NAME: is this cell wanted?
begin()
{
	case " ${CELLS:-$1} " in
	*" $1 "*) ;;
	*) return 1 ;;
	esac
	begin=$(date +%s)
	ran=0
	wrong=$bad
}

# row NAME WHAT: its line in the table.
row()
{
	[ "$bad" = "$wrong" ] && verdict="ok, $ran unit programs" || verdict=FAILED
	[ "$ran" != 0 ] || verdict=${verdict%%,*}
	printf '%-13s %-46s %-26s %4d s\n' "$1" "$2" "$verdict" $(($(date +%s) - begin)) >>"$table"
}

# leave NAME WHAT REASON: a cell that cannot be had here.
leave()
{
	skip "$1: $2" "$3"
	printf '%-13s %-46s skipped: %s\n' "$1" "$2" "$3" >>"$table"
}

# The unit programs below folder $2; the command $3... starts one. What a program skips is printed with its
# reason. Those that cut a file at each byte take an hour under emulation: SHORT=1 leaves them to
# the other cells.
units()
{
	cell=$1
	folder=$2
	shift 2
	for src in "$top"/tests/unit/test_*.c; do
		unit=$(basename "$src" .c)
		case ${SHORT:-0}$unit in
		1*_tracedat | 1*_cut)
			skip "$cell: $unit" "cuts files at every byte: too long under emulation, run in the other cells"
			continue
			;;
		1test_util_hash)
			skip "$cell: $unit" "starts itself, which this machine cannot; run in the other cells"
			continue
			;;
		esac
		ok "$cell: $unit" "$@" "$folder/tests/unit/$unit"
		ran=$((ran + 1))
		sed -n "s/^skipped: /# $cell: $unit: part skipped: /p" "$tmp/ok.log" | sort -u
	done
}

build_here()
{
	cell=$1
	shift
	ok "$cell: builds without a warning" "$make" -C "$top" NODEPS=1 -j"$jobs" O="$tmp/$cell" WERROR=1 "$@" tests
}

# compiler NAME WHAT VARIABLE...
compiler()
{
	cell=$1
	what=$2
	shift 2
	begin "$cell" || return
	build_here "$cell" "$@"
	units "$cell" "$tmp/$cell" timeout 900
	row "$cell" "$what"
	rm -rf "${tmp:?}/$cell"
}

# Debian has no static cmocka: the program alone, which must print what the dynamic one prints.
static_program()
{
	begin static || return
	mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
	# The linker warns of dlopen() in libtraceevent, for plugins that kvmft does not load.
	ok "static: builds" "$make" -C "$top" NODEPS=1 -j"$jobs" O="$tmp/static" STATIC=1 CC=gcc all
	is "$(ldd "$tmp/static/kvmft" 2>&1 | tr -d '\t')" "not a dynamic executable" "static: needs no library"
	for side in host guest; do
		ok "static: a $side" "$mkcap" --capture "$tmp/static/$side" "$top/tests/golden/latency-$side.txt"
	done
	for command in merge "latency all"; do
		# shellcheck disable=SC2086 # one word or two
		"$kvmft" $command "$tmp/static/host" "$tmp/static/guest=one" >"$tmp/dynamic.out" 2>"$tmp/dynamic.err"
		# shellcheck disable=SC2086
		run "$tmp/static/kvmft" $command "$tmp/static/host" "$tmp/static/guest=one"
		status_is 0 "static: $command"
		ok "static: $command prints what the dynamic one prints" cmp "$out" "$tmp/dynamic.out"
	done
	row static "gcc -O2, STATIC=1: the program"
	rm -rf "${tmp:?}/static"
}

trixie()
{
	begin trixie || return
	# shellcheck disable=SC2046 # a list
	if ! why=$(root_prepare trixie trixie-build $(sh "$top/contrib/deps.sh" --list debian build) libcmocka-dev); then
		leave trixie "Debian 13: gcc 14, libtracefs 1.8" "$why"
		return
	fi
	what="$(in_root trixie-build "$tmp/trixie" gcc -dumpfullversion), libtracefs $(
		in_root trixie-build "$tmp/trixie" pkg-config --modversion libtracefs)"
	ok "trixie: builds without a warning" in_root trixie-build "$tmp/trixie" make NODEPS=1 -j"$jobs" O=/out \
		WERROR=1 CFLAGS=-O1 tests
	units trixie /out in_root trixie-build "$tmp/trixie"
	row trixie "Debian 13: gcc $what"
}

# cross NAME: another architecture. What it reads of captures, of arm64 hosts too, is what this machine reads, to the byte.
cross()
{
	begin "$1" || return
	cross_machine "$1"
	if ! why=$(cross_prepare); then
		leave "$1" "$cross_cpu (qemu-user)" "$why"
		return
	fi
	what="$cross_cpu (qemu-user), gcc $("$cross_triplet-gcc" -dumpversion), libtracefs $(
		PKG_CONFIG_LIBDIR=$cross_libs/pkgconfig pkg-config --modversion libtracefs)"
	# A C library that is newer than the compiler's is found when a program starts.
	ok "$1: builds without a warning" env PKG_CONFIG_LIBDIR="$cross_libs/pkgconfig" \
		PKG_CONFIG_SYSROOT_DIR="$cross_tree" "$make" -C "$top" NODEPS=1 -j"$jobs" O="$tmp/$1" WERROR=1 CFLAGS=-O1 \
		CROSS_COMPILE="$cross_triplet-" PKG_CONFIG=pkg-config LDFLAGS="-L$cross_libs -Wl,--allow-shlib-undefined \
		-Wl,-rpath-link,$cross_libs:$cross_tree/lib/$cross_triplet" tests
	run run_cross "$tmp/$1/kvmft" check --host --format json
	is "$(grep -o '"name":"seccomp"[^}]*' "$out" | grep -cv 'no list of calls')" 1 \
		"$1: there is a list of system calls for the sandbox"
	SHORT=1
	units "$1" "$tmp/$1" run_cross
	SHORT=0
	cross_reads
	[ "$1" != arm64 ] || arm64_no_clock
	row "$1" "$what"
	rm -rf "${tmp:?}/$1"
}

cross_reads()
{
	tools=${KVMFT_TOOLS:-$top/build/tests/tools}
	for text in "$top"/tests/golden/report-*.txt; do
		"$tools/mkcap" --capture "$tmp/crossing" "$text" || exit 1
		for read in "report --percentiles -i" "report --format json -i" merge "merge --format perfetto"; do
			# shellcheck disable=SC2086 # a command and its options
			ok "$cross_name: $read of ${text##*/}: as on this machine" cross_same $read
		done
		rm -rf "$tmp/crossing"
	done
	for name in arm64 basic; do
		text=$top/tests/golden/report-$name.txt
		"$tools/mkcap" --capture "$tmp/crossing" "$text" && "$kvmft" report -i "$tmp/crossing" >"$tmp/small" || exit 1
		for file in "$tmp"/crossing/seg000000/cpu*; do
			mv "$file" "$tmp/piece"
			truncate -s 4G "$file" && cat "$tmp/piece" >>"$file"
		done
		cross_far "a capture of $name" report -i
		rm -rf "$tmp/crossing"
	done
	"$tools/mkcap" --trace-dat "$tmp/crossing" "$text" && "$kvmft" report -i "$tmp/crossing" >"$tmp/small" &&
		perl "$top/tests/matrix/far.pl" "$tmp/crossing" || exit 1
	cross_far "a trace.dat" report -i
	cross_far "a trace.dat" report --format json -i
	rm -f "$tmp/crossing"
}

# cross_far NAME COMMAND: what lies beyond 4 GiB of a file, most of which was never written, is read alike, and as
# where nothing is before it.
cross_far()
{
	far=$1
	shift
	ok "$cross_name: $far, beyond 4 GiB: $1: as on this machine" cross_same "$@"
	[ $# != 2 ] || ok "$cross_name: ... and as in a small file" cmp "$tmp/small" "$tmp/got"
}

# Output and exit status.
cross_same()
{
	want=0 got=0
	"$kvmft" "$@" "$tmp/crossing" >"$tmp/want" 2>"$tmp/want.err" || want=$?
	run_cross "$tmp/$cross_name/kvmft" "$@" "$tmp/crossing" >"$tmp/got" 2>"$tmp/got.err" || got=$?
	[ -s "$tmp/want" ] && [ "$got" = "$want" ] && cmp "$tmp/want" "$tmp/got" && cmp "$tmp/want.err" "$tmp/got.err"
}

# Recording where the kernel has no clock that aligns: reported, with exit code 4. The kernel below QEMU is an
# x86 one, so its list of clocks is hidden by that of an old arm64 kernel, for this process alone.
arm64_no_clock()
{
	if [ ! -e /sys/kernel/tracing/trace_clock ] || [ "$(id -u)" != 0 ]; then
		skip "arm64: record" "no tracefs, or not root"
		return
	fi
	echo "[local] global counter uptime perf mono boot tai" >"$tmp/clocks"
	cat >"$tmp/record.sh" <<-END
		mount --bind "$tmp/clocks" /sys/kernel/tracing/trace_clock || exit 99
		. "$top/tests/matrix/lib.sh"
		cross_machine arm64
		run_cross "$tmp/arm64/kvmft" record --as host -o "$tmp/arm64-capture" -d 1s
	END
	run env top="$top" KVMFT_CACHE="$KVMFT_CACHE" unshare -m sh "$tmp/record.sh"
	status_is 4 "arm64: record lacks something"
	err_has "no trace clock mono_raw" "arm64: ... the clock mono_raw"
}

# No libtraceevent or libtracefs is made for musl in Debian, and their sources are not on all mirrors: all
# sources are compiled, with the headers of the glibc build, and what needs neither library is run.
musl()
{
	what="musl (static): what needs no library"
	begin musl || return
	if ! why=$(need musl-gcc musl-tools && cmocka_prepare); then
		leave musl "$what" "$why"
		return
	fi
	mkdir -p "$tmp/musl/include" "$tmp/musl/tests/unit"
	for h in /usr/include/linux /usr/include/asm-generic "/usr/include/$(uname -m)-linux-gnu/asm" \
		/usr/include/libkmod.h /usr/include/zstd.h /usr/include/zlib.h /usr/include/zconf.h /usr/include/sqlite3.h /usr/include/tracefs/*.h /usr/include/traceevent /usr/include/traceevent/*.h; do
		[ ! -e "$h" ] || ln -sf "$h" "$tmp/musl/include/"
	done
	ok "musl: all sources compile without a warning" musl_objects
	for src in "$top"/tests/unit/test_util_*.c "$top"/tests/unit/test_clock_*.c \
		"$top"/tests/unit/test_capture_[dms]*.c "$top"/tests/unit/test_ring_subbuf*.c; do
		unit=$(basename "$src" .c)
		ok "musl: $unit is linked" musl_cc -static -o "$tmp/musl/$unit" "$src" "$tmp/musl/all.a" "$tmp/musl/cmocka.o"
		ok "musl: $unit" timeout 300 "$tmp/musl/$unit"
		ran=$((ran + 1))
	done
	row musl "$what"
	rm -rf "${tmp:?}/musl"
}

musl_cc()
{
	musl-gcc -std=gnu11 -O1 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DHAVE_LIBKMOD \
		-DKVMFT_VERSION='"0"' -DTEST_DATA_DIR="\"$top/tests/data\"" -I"$top/include" -I"$top/src" \
		-I"$top/tests" -isystem "$tmp/musl/include" -isystem "$roots/cmocka/include" "$@"
}

# A member of an archive is linked only where something needs it.
musl_objects()
{
	(
		cd "$top" || exit # html.c includes a file by its path
		for src in "$top"/src/*/*.c "$top"/tests/lib/*.c; do
			object=$tmp/musl/$(basename "$(dirname "$src")")-$(basename "$src" .c).o
			case $src in
			*/cmds_small.c) ;;
			*/tests/lib/*) musl_cc -c -o "$object" "$src" ;;
			*) musl_cc -Wall -Wextra -Werror -c -o "$object" "$src" ;;
			esac || exit
		done
		ar rcs "$tmp/musl/all.a" "$tmp"/musl/*.o
		# What cmocka's own build would find out.
		musl-gcc -std=gnu99 -O1 -D_GNU_SOURCE -DHAVE_STDINT_H -DHAVE_INTTYPES_H -DHAVE_STRINGS_H -DHAVE_TIME_H \
			-DHAVE_SETJMP_H -DHAVE_SIGNAL_H -DHAVE_UNISTD_H -DHAVE_STRUCT_TIMESPEC -DHAVE_SNPRINTF \
			-DHAVE_VSNPRINTF -DHAVE_CLOCK_GETTIME_REALTIME -DHAVE_STRSIGNAL \
			-I"$roots/cmocka/include" -c -o "$tmp/musl/cmocka.o" "$roots/cmocka/src/cmocka.c"
	)
}

# kernel NAME: the scenario align, host and guest with this kernel. As in tests/vm/tap.sh, a rig whose
# emulated kernels broke is started again.
kernel()
{
	begin "kernel-$1" || return
	if ! "$top/tests/vm/run" --kernel "$1" --prepare boot >"$tmp/prepare.log" 2>&1; then
		leave "kernel-$1" "host and guest in the rig" "$(tail -n 1 "$tmp/prepare.log")"
		return
	fi
	what="host and guest $(cat "$KVMFT_CACHE/kernels/$1/version")"
	for _ in 1 2 3 4; do
		rm -rf "$tmp/rig"
		KVMFT=${KVMFT_PLAIN:-$top/build/kvmft} timeout 400 "$top/tests/vm/run" --kernel "$1" --timeout 300 \
			-o "$tmp/rig" align >"$tmp/rig.log" 2>&1
		rig_status=$?
		[ "$rig_status" -ge 124 ] || grep -q '^Bail out!' "$tmp/rig.log" || break
	done
	is "$rig_status" 0 "kernel-$1: scenario align"
	for tar in "$tmp/rig"/*.tar; do
		[ ! -e "$tar" ] || tar -xf "$tar" -C "$tmp/rig" --no-same-owner
	done
	run "$kvmft" merge "$tmp/rig/host" "$tmp/rig/guest"
	status_is 0 "kernel-$1: merge"
	err_has 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside' "kernel-$1: no guest event outside"
	row "kernel-$1" "$what"
}

compiler gcc "gcc $(gcc -dumpversion 2>/dev/null), -O2" CC=gcc
if command -v clang >/dev/null; then
	compiler clang "clang $(clang -dumpversion), -O2" CC=clang
	compiler clang-san "clang, ASan and UBSan" CC=clang SAN=address,undefined CFLAGS="-O1 -g"
else
	leave clang "clang" "clang is not installed"
fi
compiler lto "gcc -O2 -flto, as some distributions build" CC=gcc CFLAGS="-O2 -g -flto=auto" LDFLAGS=-flto=auto
compiler gcc-san "gcc, ASan and UBSan" CC=gcc SAN=address,undefined CFLAGS="-O1 -g"
compiler small "gcc -Os, SMALL=1" CC=gcc SMALL=1
compiler smallest "gcc -Os, SMALL=1 MINIMAL=1" CC=gcc SMALL=1 MINIMAL=1
static_program
trixie
for machine in arm64 riscv64 ppc64el; do
	cross "$machine"
done
musl
for k in 6.1 6.12 sid; do
	kernel "$k"
done
sed 's/^/# /' "$table"
finish
