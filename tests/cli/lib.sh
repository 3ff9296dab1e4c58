# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# TAP for tests in shell. Source it first; end with `finish`.
#
#   ok COMMAND...            passes when the command exits 0
#   is GOT WANT NAME         compares text
#   run COMMAND...           runs it: status in $rc, output in $out and $err (files)
#   status_is N NAME, out_has PATTERN NAME, err_has PATTERN NAME   look at the last run
#   skip NAME REASON         counted and printed

top=${KVMFT_TOP:-$(cd "$(dirname "$0")/../.." && pwd)}
kvmft=${KVMFT_SAN:-$top/build/kvmft}
# What makes large captures: without a sanitizer the same bytes take a fortieth of the time.
makers=$(dirname "${KVMFT_PLAIN:-$top/build/kvmft}")/tests/tools
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# What a terminal of a test shows is to be read, not to be paged.
export PAGER=cat KVMFT_PAGER=cat

# trace-cmd report, as before 3.3: without the flags before the time, which stand there even where it is too long for a
# blank between.
without_flags()
{
	sed -E 's/(\] )[.dDbX][^ ]{4}( *[0-9]+[.:])/\1\2/'
}

trace_cmd_report()
{
	trace-cmd report "$@" | without_flags
}
# Looking for leaks takes longer than most runs do: `make check` looks in each fifth of run(), check-all in all.
no_leaks=${ASAN_OPTIONS:-}:detect_leaks=0
[ "${CHECK_ALL:-0}" = 1 ] || export ASAN_OPTIONS="$no_leaks"
out=$tmp/stdout
err=$tmp/stderr
# Locked while a test of the lane "records" runs, in any make check. For tests of other lanes: what a killed recorder left
# there is removed by any recording that begins.
turn=${KVMFT_TURN:-$tmp/turn}
rc=0
runs=0
count=0
bad=0
result_of=

# A name that begins with "... " goes on where the last one that does not began: it is printed with that one.
result()
{
	count=$((count + 1))
	case $2 in
	"... "*) result_name="$result_of: ${2#... }" ;;
	*) result_name=$2 result_of=$2 ;;
	esac
	if [ "$1" = 0 ]; then
		echo "ok $count - $result_name"
	else
		echo "not ok $count - $result_name"
		bad=$((bad + 1))
	fi
}

# dat_v7 FROM TO HOW: a trace.dat of version 7, compressed with zstd, or none, as trace-cmd writes it.
dat_v7()
{
	trace-cmd convert -i "$1" -o "$2" --file-version 7 --compression "$3" >/dev/null 2>&1 && [ -s "$2" ]
}

ok()
{
	name=$1
	shift
	if "$@" >"$tmp/ok.log" 2>&1; then
		result 0 "$name"
	else
		result 1 "$name"
		sed 's/^/# /' "$tmp/ok.log"
	fi
}

is()
{
	if [ "$1" = "$2" ]; then
		result 0 "$3"
	else
		result 1 "$3"
		echo "# got:  $1"
		echo "# want: $2"
	fi
}

run()
{
	runs=$((runs + 1))
	leaks=
	[ "${ASAN_OPTIONS:-}" != "$no_leaks" ] || [ $((runs % 5)) != 0 ] || leaks=:detect_leaks=1
	ASAN_OPTIONS=${ASAN_OPTIONS:-}$leaks "$@" >"$out" 2>"$err" </dev/null
	rc=$?
}

# wait_until COMMAND...: up to two minutes, for machines with much else to do.
wait_until()
{
	polls=1200
	until "$@"; do
		polls=$((polls - 1))
		[ $polls -gt 0 ] || return 1
		sleep 0.1
	done
}

show_run()
{
	sed 's/^/# stdout: /' "$out" | head -n 20
	sed 's/^/# stderr: /' "$err" | head -n 40
}

status_is()
{
	if [ "$rc" = "$1" ]; then
		result 0 "$2"
	else
		result 1 "$2 (exit $rc, wanted $1)"
		show_run
	fi
}

file_has()
{
	if grep -qE -- "$2" "$1"; then
		result 0 "$3"
	else
		result 1 "$3 (no match for: $2)"
		show_run
	fi
}

out_has() { file_has "$out" "$1" "$2"; }
err_has() { file_has "$err" "$1" "$2"; }

# One line on stderr: what a failing command owes its user.
err_one_line()
{
	is "$(wc -l <"$err" | tr -d ' ')" 1 "$1: one line on stderr"
}

skip()
{
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

finish()
{
	echo "1..$count"
	exit $((bad > 0))
}
