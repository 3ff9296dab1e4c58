#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# No memory at any one place, and captures that cannot be read at any one: said, and never another result. make check
# tries every eleventh place, make check-all each.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
plain=${KVMFT_PLAIN:-$kvmft}
golden=$top/tests/golden

captures()
{
	for side in host guest; do
		"$tools/mkcap" --capture "$tmp/$side" "$golden/latency-$side.txt" || return
	done
	"$tools/perfdata" "$tmp/host" "$tmp/perf.data" kvm_entry kvm_exit
}
ok "what is read" captures

# once COMMAND...: what it writes, in a file or not, is $made.
made=$tmp/made
once()
{
	rm -f "$made"
	"$@" 9<>"$tmp/asked" >"$tmp/printed" 2>"$err" </dev/null
	rc=$?
	[ -e "$made" ] || mv "$tmp/printed" "$made"
}

# must_tell NAME: after once. Done, and the result is the same; or it has failed, with a word about it.
must_tell()
{
	if [ $rc = 0 ]; then
		cmp -s "$made" "$tmp/want" || grep -q 'more keys than are kept in memory' "$made" || echo "$1: done, and another result"
	elif [ $rc = 3 ]; then
		grep -q -e 'Cannot allocate memory' -e 'Input/output error' "$err" ||
			echo "$1: incomplete, and not a word"
	elif [ $rc = 2 ] || [ $rc -gt 4 ] || ! grep -q '^kvmft [a-z]*: ' "$err"; then
		echo "$1: status $rc: $(tail -n 1 "$err")"
	fi
}

step=23
[ "${CHECK_ALL:-0}" != 1 ] || step=1
start=1

# short N COMMAND...: its N-th allocation is refused; 0: none is
short()
{
	OOM_AT=$1
	shift
	LD_PRELOAD=$tmp/oom.so OOM_AT=$OOM_AT "$plain" "$@"
}

# without_memory COMMAND...: at one place after the other where it allocates
without_memory()
{
	once short 0 "$@"
	cp "$made" "$tmp/want"
	most=$(tr -d "\000" <"$tmp/asked")
	n=$start
	while [ $n -le "$most" ]; do
		once short $n "$@"
		must_tell "allocation $n"
		n=$((n + step))
	done >"$tmp/wrong"
	is "$(head -n 5 "$tmp/wrong")" "" "$1 without one of $most allocations, from $start on"
	[ "$most" -gt 50 ] || ok "... which are too few" false
}

# shellcheck disable=SC2086 # a list
if ! ${CC:-cc} -O1 -shared -fPIC -o "$tmp/oom.so" "$top/tests/cli/oom.c" 2>"$err"; then
	ok "oom.c can be built" false
	show_run
elif once short 0 --version; ! grep -q '[0-9]' "$tmp/asked"; then
	skip "no memory" "its allocator cannot be replaced"
else
	pair="$tmp/host $tmp/guest=one"
	without_memory merge $pair
	# Symbols of a guest.
	sed 's/kvm_exit /kvm_exit guest_rip=0xffffffff81000004 /' "$golden/latency-host.txt" >"$tmp/rips.txt"
	"$tools/mkcap" --capture "$tmp/rips" "$tmp/rips.txt"
	"$tools/mkcap" --capture "$tmp/named" "$golden/latency-guest.txt"
	printf 'kvmft-symbols 3\nffffffff81000000 t all\nffffffff8100002c t some\n.\n' >"$tmp/named/symbols"
	without_memory merge -e kvm:kvm_exit "$tmp/rips" "$tmp/named=one"
	ok "... with names" grep -q 'all+0x4' "$tmp/want"
	without_memory latency all $pair
	without_memory latency all --format html -o "$made" $pair
	without_memory report -i "$tmp/perf.data"
	for n in 1 2 3 4; do
		once short $n report -i "$tmp/perf.data"
		[ $rc = 1 ] || echo "allocation $n: status $rc"
	done >"$tmp/wrong"
	is "$(cat "$tmp/wrong")" "" "... nor without its options: no wrong usage"
	# A worker that loses its messages has no result, in the sum or else.
	"$tools/mkcap" --capture "$tmp/other" "$golden/latency-host.txt"
	run env LD_PRELOAD="$tmp/oom.so" OOM_AT=0 NOTES_FAIL=1 "$plain" blame -i "$tmp/host" -i "$tmp/other"
	status_is 1 "workers whose messages are lost"
	err_has "^kvmft: $tmp/host: .*Input/output error" "... have failed"
	without_memory export --force -i "$tmp/host" -o "$made" --to sqlite "$tmp/guest=one"
fi

# unreadable COMMAND...: each pread64() in turn
unreadable()
{
	once strace -f -qq -o "$tmp/trace" -e trace=pread64 "$plain" "$@"
	cp "$made" "$tmp/want"
	most=$(grep -c pread64 "$tmp/trace")
	n=$(grep -n -m 1 'pread64([0-9]*, "kvmft-capture' "$tmp/trace")
	n=$((${n%%:*} - 1))
	while [ $n -lt "$most" ]; do
		n=$((n + 1))
		[ $((n % step)) = 0 ] || [ $step = 1 ] || [ "$most" -lt 50 ] || continue
		once strace -f -qq -o /dev/null -e trace=pread64 -e inject=pread64:error=EIO:when=$n "$plain" "$@"
		must_tell "read $n"
	done >"$tmp/wrong"
	is "$(head -n 5 "$tmp/wrong")" "" "$1 without one of $most reads"
}
if command -v strace >/dev/null && strace -f -qq -o /dev/null true 2>/dev/null; then
	# shellcheck disable=SC2086 # a list
	{
		unreadable blame -C 1 $pair
		unreadable latency all --format html $pair
		unreadable merge $pair
	}
	mkdir "$tmp/to"
	run strace -f -qq -o /dev/null -e trace=write -e inject=write:error=ENOSPC:when=1 "$plain" receive -o "$tmp/to/c"
	err_has "cannot write $tmp/to/c/meta: No space left" "no space for a new capture"
	is "$(ls -A "$tmp/to")" "" "... of which nothing is left"
	strace -o "$tmp/trace" -e trace=openat "$plain" receive -o "$tmp/to/c" </dev/null >/dev/null 2>&1
	n=$(grep -n -m 1 'new", O_RDONLY' "$tmp/trace")
	run strace -qq -o /dev/null -e trace=openat -e inject=openat:error=EMFILE:when="${n%%:*}" \
		"$plain" receive -o "$tmp/to/c"
	err_has "cannot open $tmp/to/c: Too many open files" "no descriptor for one"
	is "$(ls -A "$tmp/to")" "" "... of which nothing is left"
else
	skip "captures that cannot be read" "strace is not installed, or may not trace"
fi
finish
