#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What README.md says a build or a command takes at most, in bytes or of memory, is true of this tree, and no more than
# twice (memory, which differs from run to run) or 1.2 times (sizes) what it takes; and libraries are those it needs.
#
#   SHOW=1 tests/matrix/figures.t     prints what was measured as rows
#
# Sizes and libraries depend on the compiler and the C library: compared where these are Debian 12's.

. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/../cli/vmlib.sh"

make=${MAKE_PROGRAM:-make}
plain=${KVMFT_PLAIN:-$top/build/kvmft}

# figure ROW VALUE UNIT [LIBRARIES]: the row of README's tables that begins with ROW has a bound that fits that value.
figure()
{
	[ -z "${SHOW:-}" ] || echo "# | $1 | $2 $3 |${4:+ $4 |}"
	row=$(grep -F "| $1 |" "$top/README.md")
	told=$(printf '%s\n' "$row" | sed -n "s/^| [^|]* | \([0-9.,]*\) $3 .*/\1/p" | tr -d ,)
	ok "README: $1: at most ${told:-nothing} $3, measured $2" awk -v told="${told:-0}" -v is="$2" \
		-v most="$([ "$3" = MB ] && echo 2 || echo 1.2)" 'BEGIN { exit !(is > 0 && is <= told && told <= is * most) }'
	[ -z "$4" ] || is "$(printf '%s\n' "$row" | cut -d '|' -f 4)" " $4 " "README: $1: libraries"
}

libraries()
{
	list=$(ldd "$1" 2>/dev/null | sed -n 's/^[ \t]*\(lib[a-z]*\)[-.0-9]*\.so.*/\1/p' | LC_ALL=C sort | tr '\n' ' ')
	echo "${list:-none}" | sed 's/ $//; s/ /, /g'
}

# size ROW [VARIABLE...]
size()
{
	row=$1
	shift
	if ! "$make" -C "$top" NODEPS=1 -j"$(nproc)" O="$tmp/build" "$@" all >"$tmp/build.log" 2>&1; then
		ok "$row can be built" tail -n 5 "$tmp/build.log"
		return
	fi
	strip -o "$tmp/stripped" "$tmp/build/kvmft"
	figure "$row" "$(($(wc -c <"$tmp/stripped") / 1000))" KB "$(libraries "$tmp/build/kvmft")"
}

if [ "$(. /etc/os-release && echo "$ID$VERSION_ID")" = debian12 ] && [ "$(uname -m)" = x86_64 ]; then
	size '`make`'
	size '`make MINIMAL=1`' MINIMAL=1
	size '`make SMALL=1`' SMALL=1
	size '`make SMALL=1 MINIMAL=1`' SMALL=1 MINIMAL=1
	size '`make STATIC=1`' STATIC=1
else
	skip "sizes" "README's are of Debian 12, x86-64"
fi

# memory ROW KIB: in MB, and at most 8 MiB.
memory()
{
	figure "$1" "$(awk -v kib="${2:-0}" 'BEGIN { printf "%.1f", kib * 1024 / 1e6 }')" MB
	ok "... at most 8 MiB" test "${2:-9999}" -le 8192
}

high_water() { awk '$1 == "VmHWM:" { print $2 }' "$1"; }

exits_load=$(dirname "$plain")/tests/tools/exits_load
"$exits_load" 1000 40 >/dev/null 2>"$err"
memory '`exits`, 1,000 vCPUs with 40 reasons each' "$(high_water "$err")"
"$exits_load" --time 1000 40 >/dev/null 2>"$err"
memory '... with `--time`' "$(high_water "$err")"

need_recording "memory of record"
"$tinyvm" --ms 20000 >/dev/null 2>&1 &
vm=$!
"$plain" record --as host -q -o "$tmp/capture" 2>"$err" &
recorder=$!
sleep 3
high=$(high_water "/proc/$recorder/status")
kill -INT "$recorder"
wait "$recorder"
memory '`record` of a host' "$high"
finish
