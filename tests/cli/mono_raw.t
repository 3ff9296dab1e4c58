#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# CLOCK_MONOTONIC_RAW of live events: each `out` of a small VM is an event kvm_pio, and the VM reads
# the clock before and after. trace shows the kernel's own stamp; merge computes it from the TSC.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording "mono_raw of live events"

# is_on PID: its instance has the event by now, and traces.
is_on()
{
	[ "$(cat "$tracefs/instances/kvmft.$1."*/events/kvm/kvm_pio/enable "$tracefs/instances/kvmft.$1."*/tracing_on 2>/dev/null |
		grep -c 1)" = 2 ]
}

rounds=50
mkfifo "$tmp/go"
"$tinyvm" --wait --brackets --iterations $rounds <"$tmp/go" >"$tmp/vm.out" 2>&1 &
vm=$!
exec 9>"$tmp/go"
wait_for_line "$tmp/vm.out"
"$kvmft" trace -e kvm:kvm_pio -p "$vm" --clock mono_raw -N $rounds -d 10s >"$tmp/trace" 2>"$tmp/trace.err" &
tracer=$!
"$kvmft" record -q --as host -o "$tmp/cap" -e kvm:kvm_pio -p "$vm" 2>"$tmp/record.err" &
recorder=$!
tries=0
until { is_on "$tracer" && is_on "$recorder"; } || [ $tries -ge 200 ]; do
	sleep 0.05
	tries=$((tries + 1))
done
echo >&9
wait "$vm"
is $? 0 "the VM ran"
vm=
wait "$tracer"
is $? 0 "trace exits 0"
kill -INT "$recorder"
wait "$recorder"
is $? 0 "record exits 0"
recorder=
sed 's/^/# /' "$tmp/trace.err" "$tmp/record.err"
run "$kvmft" merge --clock mono_raw "$tmp/cap"
status_is 0 "merge"
sed -n 's/^io //p' "$tmp/vm.out" >"$tmp/brackets"
# The time is the word that is digits, a point, nine digits.
stamps()
{
	awk '/kvm_pio/ { for (i = 1; i <= NF; i++)
		if ($i ~ /^[0-9]+[.][0-9]+$/ && length($i) - index($i, ".") == 9) { sub(/[.]/, "", $i); print $i; break } }' "$1"
}
stamps "$tmp/trace" >"$tmp/trace.ns"
stamps "$out" >"$tmp/merge.ns"

# within FILE SLACK: line N lies in bracket N, give or take SLACK ns.
within()
{
	paste "$1" "$tmp/brackets" | awk -v slack="$2" -v want="$rounds" '
		{ n++; if ($1 < $2 - slack || $1 > $3 + slack) { bad++; print "outside: " $0 }
		  if (n == 1 || $3 - $2 < width) width = $3 - $2 }
		END { print n " events, " bad + 0 " outside, narrowest bracket " width " ns"; exit !(n == want && !bad) }'
}
is "$(wc -l <"$tmp/trace.ns" | tr -d ' ') $(wc -l <"$tmp/merge.ns" | tr -d ' ')" "$rounds $rounds" \
	"trace and merge show all events"
ok "trace --clock mono_raw: each between two clock_gettime()" within "$tmp/trace.ns" 0
sed 's/^/# /' "$tmp/ok.log"
# the middle of what the readings at both ends of the capture allow, each some 100 ns wide
ok "merge --clock mono_raw: the same" within "$tmp/merge.ns" 200
sed 's/^/# /' "$tmp/ok.log"
nothing_left "mono_raw"
finish
