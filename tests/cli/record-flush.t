#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# --flush: what is lost when a recorder is killed is bounded in time, at a low, a bursty and a full rate; what is
# written piece by piece is all there and in order; and who has no events is not woken. CHECK_ALL=1: 200 kills.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording record-flush
plain=${KVMFT_PLAIN:-$kvmft}
if [ "${CHECK_ALL:-0}" = 1 ]; then
	kills=34 runs=100
else
	kills=1 runs=5
fi

# ---- the options ----

run "$kvmft" record --as host -o "$tmp/no" --flight-recorder --flush 1s
status_is 2 "--flush with --flight-recorder"
err_has "--flush and --sync are not for --flight-recorder" "... is refused"
run "$kvmft" record --as host -o "$tmp/no" --flush 0 --sync
status_is 2 "--sync without --flush"
err_has "--sync needs a --flush" "... is refused"

# ---- killed ----

# Processes to be recorded: they sleep and wake at this pace.
low='while :; do sleep 0.1; done'
bursty='while :; do for i in 1 2 3 4 5 6 7 8; do sleep 0; done; sleep 0.3; done'
full='while :; do sleep 0; done'

# killed NAME OPTION...: of a recording into NAME that is killed after 3 s, milliseconds of events that are there, how
# many, and how many out of order.
killed()
{
	name=$1
	shift
	rm -rf "${tmp:?}/$name"
	"$plain" record --as host -q -e sched:sched_switch -e sched:sched_waking -p "$vm" -o "$tmp/$name" "$@" &
	recorder=$!
	wait_for_line "$tmp/$name/meta"
	sleep 3
	kill -KILL $recorder
	wait $recorder 2>/dev/null
	recorder=
	"$plain" merge -q "$tmp/$name" 2>"$tmp/$name.err" |
		awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+\.[0-9]+$/) { t = $i; n++; break } }
			t < last { back++ }
			{ last = t }
			END { printf "%d %d %d\n", last * 1000, n, back }'
}

# two_killed OPTIONS OPTIONS: two at once; sets ms1, n1, back1 and ms2, n2, back2.
two_killed()
{
	# shellcheck disable=SC2086 # words
	killed one $1 >"$tmp/one.res" &
	one=$!
	# shellcheck disable=SC2086
	killed two $2 >"$tmp/two.res"
	wait $one
	read -r ms1 n1 back1 <"$tmp/one.res"
	read -r ms2 n2 back2 <"$tmp/two.res"
}

for rate in low bursty full; do
	script=
	eval "script=\$$rate"
	sh -c "$script" >"$tmp/pace.log" 2>&1 &
	vm=$!
	k=0
	short=
	while [ $k -lt $kills ]; do
		two_killed "--flush 500ms" "--flush 500ms"
		[ "$ms1" -ge 2000 ] && [ "$n1" -gt 0 ] && [ "$back1" = 0 ] || short="$short $ms1 ms,$n1,$back1"
		[ "$ms2" -ge 2000 ] && [ "$n2" -gt 0 ] && [ "$back2" = 0 ] || short="$short $ms2 ms,$n2,$back2"
		k=$((k + 1))
	done
	is "$short" "" "$((2 * kills)) times SIGKILL at a $rate rate: no more than the last half second is missing"
	if [ $rate = low ]; then
		two_killed "--flush 0" "--sync"
		is "$n1" 0 "... without --flush all is"
		ok "... with the default one, and --sync, a second" test "$ms2" -ge 1500 -a "$n2" -gt 0
		is "$(find "$tmp/two" -name 'cpu*' -size +64k | wc -l | tr -d ' ')" 0 "... pieces become one sub-buffer"
	fi
	kill -KILL $vm
	wait $vm 2>/dev/null
	vm=
done
run timeout 300 "$kvmft" reset
nothing_left_soon "after the kills"

# ---- all there, in order, whatever the pieces ----

numbered()
{
	name=$1
	shift
	mkdir -p "$tmp/seq"
	ok "$name" timeout 600 "$KVMFT_TOOLS/seqrun" --kvmft "$plain" --dir "$tmp/seq" --tracefs "$tracefs" \
		--seed "${KVMFT_SEED:-$(date +%s)}" "$@"
	rm -rf "$tmp/seq"
}

for ring in 256K 1M; do
	numbered "numbered events, ring $ring, flushed all the time" --runs $runs --pause -- -b $ring --flush 1ms
done
numbered "... in segments" --runs $runs -- -b 1M --flush 1ms --rotate 256K
numbered "... killed at any moment" --runs $runs --kill -- -b 1M --flush 2ms

# ---- at no cost ----

# Of a CPU without events no thread runs.
"$plain" record --as host -q -e kvm:kvm_exit -p $$ -o "$tmp/idle" --flush 50ms &
recorder=$!
wait_for_line "$tmp/idle/meta"
sleep 1
switches()
{
	cat /proc/$recorder/task/*/status | awk -v main="$recorder" '/^Pid:/ { p = $2 }
		/^voluntary_ctxt_switches:/ && p != main { n += $2 } END { print n }'
}
before=$(switches)
sleep 2
is "$(($(switches) - before))" 0 "40 flushes of CPUs without events wake no thread"
kill -INT $recorder
wait $recorder
is "$?" 0 "... and the recording ends well"
recorder=
nothing_left_soon "after all"
finish
