#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# kvmft clock of this host, now: of a VM whose VMM moves its kvmclock. What it finds in general is clock.t, of guests
# that work tests/vm/clock.t.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

soon()
{
	name=$1
	shift
	wait_until "$@" 2>/dev/null
	ok "$name" "$@"
}

run "$kvmft" clock --vm nosuch
case $rc in 1 | 4) ok "a VM that is not there" true ;; *) ok "a VM that is not there (exit $rc)" false ;; esac
err_one_line "a VM that is not there"
run "$kvmft" advise -d 1 "$tmp"
status_is 2 "advise: a duration and a capture"
need_recording "clocks of this host"
ok "clockvm can be built" "${CC:-cc}" -O1 -pthread -o "$tmp/clockvm" "$top/tests/vm/clockvm.c"

"$tmp/clockvm" none >"$tmp/says" 2>&1 &
vm=$!
soon "a VM runs" grep -q over "$tmp/says"
run "$kvmft" clock --vm $vm
status_is 0 "its clocks"
out_has "^$vm-[0-9]+: well$" "... are well"
out_has '^   1 +0 +[0-9]+ +- +0 +0 +- +-$' "... TSC offset and skew of each vCPU are known"
run "$kvmft" clock --vm $vm --format openmetrics
out_has '^kvmft_clock_well\{vm="[0-9-]+",uuid="[^"]*"\} 1$' "... as a metric"

run "$kvmft" advise --vm $vm -d 1 --format json
ok "what this host would change, now (exit $rc)" test "$rc" = 0 -o "$rc" = 4
nothing_left "advise of this host"

# Old segments are removed faster than each pass reads them, for as long as a VM has it so.
cd "$tmp" || exit 1
"${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap" --capture whole "$top/tests/golden/latency-host.txt"
mkdir host
"$kvmft" clock --live --watch host >"$tmp/lines" 2>"$tmp/err" &
recorder=$!
soon "what is gone before it is read is said" grep -qx "kvmft: events come faster than they are read: what clocks do meanwhile is not seen" "$tmp/err"
sleep 2
mv whole/* host
wait $recorder
is "$? $(wc -l <"$tmp/err") $(cat "$tmp/lines")" "4 1 one: cannot tell" "... once, and it goes on"
cd "$OLDPWD" || exit 1

"$kvmft" clock --watch >"$tmp/lines" 2>"$tmp/err" &
recorder=$!
soon "it watches, and says that the clocks of a VM that raises no event are well" \
	grep -qE "^$vm-[0-9]+: well$" "$tmp/lines"
sed 's/^/# /' "$tmp/lines" "$tmp/err" | head -n 20
kill $vm
# What the first one said may still be in its file.
"$tmp/clockvm" clock 64213000000 >"$tmp/second" 2>&1 &
vm=$!
soon "a VM comes, whose kvmclock is set forwards" grep -q over "$tmp/second"
soon "... which is said while it watches" grep -qE "^$vm-[0-9]+: kvmclock jumped by \+64.21[0-9]+ s at .* by clockvm-$vm\)$" "$tmp/lines"
is "$(grep -c "^$vm-.*jumped" "$tmp/lines")" 1 "... once"
kill -INT $recorder
wait $recorder
is $? 1 "Ctrl-C ends it: a clock is ill"
recorder=
is "$(cat "$tmp/err")" "" "... without a word"
nothing_left "clock --watch"
finish
