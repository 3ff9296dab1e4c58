#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: timing
#
# merge --follow: captures that grow give the lines of the finished captures, each
# once; what is removed before it could be shown is reported and counted; a late side does not delay the others.
# Real recordings: follow-live.t.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}

# ---- refusals ----

while IFS='|' read -r args words; do
	# shellcheck disable=SC2086 # words without blanks
	run "$kvmft" merge $args
	status_is 2 "merge $args"
	err_has "$words" "... and why"
done <<EOF
--follow|operands are missing
--follow --host h2 h g|--host does not go with --follow: .*both hosts
--follow --solve h g|--solve does not go with --follow: .*--tsc-offset
--follow --qemu f h g|--qemu does not go with --follow: .*-e marker
--follow --context 3 h g|It needs -e
--follow --format perfetto h g|--follow writes text or json
--follow=2m h g|at most 60s
EOF
while IFS='|' read -r args words; do
	# shellcheck disable=SC2086
	run "$kvmft" trace -e kvm:kvm_exit $args
	status_is 2 "trace $args"
	err_has "$words" "... and why"
done <<EOF
--guest-options -q|--guest-options goes with --guest
--format json|--format goes with --guest
--guest vm1 --kvmclock vm1|--clock kvmclock shows the guest
--guest vm1 --clock perf|with --guest it is one of host-tsc
--guest vm1 --context 5|kvmft trace ... . grep -C N
--guest vm1 --grep kvm_exit|kvmft record, and kvmft merge with it
EOF
run "$kvmft" merge --follow "$tmp/none" "$tmp/nothing"
status_is 1 "a capture that is none"
err_has "none" "... is named"

# ---- a pair that grows, without a kernel ----

whole=$tmp/whole
mkdir "$whole" "$tmp/grow"
"$tools/genpair" --host "$whole/host" --guest "$whole/web" || exit 1
id=$(sed -n 's/^vm id=\([^ ]*\).*/\1/p' "$whole/host/meta" | head -n 1)

# grow SIDE=PART...: as much of the data as PART of 10 are, in whole sub-buffers; the first time with what stands in
# meta before the end, the last time with all of it; SIDE=PART:CPU of that CPU alone. Parts of files and sides come at one moment, however busy the
# machine is.
grow()
{
	for grown; do
		from=$whole/${grown%=*}
		to=$tmp/grow/${grown%=*}
		if [ ! -d "$to" ]; then
			mkdir -p "$to/seg000000"
			for f in "$from"/*; do
				case ${f##*/} in
				meta | seg*) ;;
				*) cp -r "$f" "$to/" ;;
				esac
			done
			sed '/when=end/,$d; /^stop/,$d; /^end/,$d' "$from/meta" >"$to/meta"
		fi
	done
	perl -e 'my ($whole, $grow) = splice @ARGV, 0, 2;
		for (@ARGV) {
			my ($side, $part, $cpu) = split /[=:]/;
			my ($size) = `cat $whole/$side/meta` =~ /^ring .*subbuf=(\d+)/m;
			for my $f (glob "$whole/$side/seg000000/" . ($cpu // "cpu*")) {
				my ($to, $all) = ($f =~ s/^\Q$whole/$grow/r, -s $f);
				my ($have, $want) = (-s $to || 0, $part == 10 ? $all : int(int($all / $size) * $part / 10) * $size);
				open my $in, "<", $f or die; open my $out, ">>", $to or die;
				seek $in, $have, 0; read $in, my $data, $want - $have; push @parts, [$out, $data];
			}
		}
		syswrite $$_[0], $$_[1] for @parts' "$whole" "$tmp/grow" "$@"
	for grown; do
		[ "${grown#*=}" = 10 ] || continue
		from=$whole/${grown%=*}
		to=$tmp/grow/${grown%=*}
		tail -n +$(($(wc -l <"$to/meta") + 1)) "$from/meta" >>"$to/meta"
		ok "${grown%=*}: the meta that grew is that of the whole" cmp "$to/meta" "$from/meta"
	done
}

# begin_grow PART: both sides anew, of the guest's data so much.
begin_grow()
{
	rm -rf "$tmp/grow"
	mkdir "$tmp/grow"
	grow host=1 "web=$1"
}

# followed NAME OPTION...: what follows, while both grow. The parts of CPUs do not end at the same time: none may lag
# longer than the delay. Where one did, as kvmft says, the machine is too busy for that, and it is done more slowly.
followed()
{
	name=$1
	shift
	for delay in 1200 6000 30000; do
		follow_once "$@"
		grep -q 'events come late' "$err" || break
		echo "# $name: late by more than $delay ms"
	done
}

follow_once()
{
	begin_grow 1
	timeout 300 "$kvmft" merge --follow=${delay}ms "$@" "$tmp/grow/host" "$tmp/grow/web=$id" >"$out" 2>"$err" &
	job=$!
	for part in 2 3 4 5 6 7 8 9; do
		sleep "$((delay / 3000)).$((delay / 300 % 10))"
		grow host=$part web=$part
	done
	early=$(wc -l <"$out")
	grow host=10 web=10
	wait $job
	rc=$?
}

# A reader that is slow at first: the next pass is not as long in coming as three times what this one waited for it.
begin_grow 8
grow host=8
ok "lines for more than a pipe holds" test "$("$kvmft" merge -q "$tmp/grow/host" "$tmp/grow/web=$id" 2>/dev/null | wc -c)" -gt 100000
{
	timeout 9 "$kvmft" merge --follow=100ms "$tmp/grow/host" "$tmp/grow/web=$id" 2>"$err"
	echo $? >"$tmp/rc"
} | {
	sleep 3
	cat >"$out"
} &
sleep 1
grow host=10 web=10
wait $!
is "$(cat "$tmp/rc")" 0 "followed by a reader that slept for 3 s: ends within 9 s"
"$kvmft" merge "$whole/host" "$whole/web=$id" >"$tmp/want" 2>"$tmp/want.err"
is "$(wc -l <"$out")" "$(wc -l <"$tmp/want")" "... with all lines"
followed "text"
status_is 0 "followed to the end"
# A task's name is wider, or a number longer, than was known at first: blanks may differ.
sed 's/  */ /g' "$tmp/want" >"$tmp/want.1"
sed 's/  */ /g' "$out" >"$tmp/got.1"
ok "... the lines of the whole" cmp "$tmp/want.1" "$tmp/got.1"
ok "... most of them long before the end ($early)" test "$early" -gt $(($(wc -l <"$tmp/want") / 3))
is "$(cat "$err")" "$(cat "$tmp/want.err")" "... its summary, with the alignment"
"$kvmft" merge --format json "$whole/host" "$whole/web=$id" >"$tmp/want" 2>"$tmp/want.err"
followed "JSON" --format json
status_is 0 "followed as JSON"
# The first line tells of the captures, which were not whole by then.
sed 1d "$tmp/want" >"$tmp/want.1"
sed 1d "$out" >"$tmp/got.1"
ok "... the objects of the whole" cmp "$tmp/want.1" "$tmp/got.1"
is "$(grep -c '"kind":"timeline"' "$out")" 1 "... one head"
followed "some" --side guest -N 7
status_is 0 "some lines of one side"
is "$(wc -l <"$out" | tr -d ' ')" 7 "... are as many as asked for"
# What is requested with each of these has lines that came in several parts.
grep='kvm:kvm_msr/!(data & 0x3f)/'
while IFS='|' read -r what options; do
	eval "set -- $options"
	"$kvmft" merge "$@" "$whole/host" "$whole/web=$id" 2>/dev/null | sed 's/  */ /g' >"$tmp/want.1"
	followed "$what" "$@"
	status_is 0 "$what"
	sed 's/  */ /g' "$out" >"$tmp/got.1"
	ok "... the lines of the whole ($(wc -l <"$tmp/want.1"))" cmp "$tmp/want.1" "$tmp/got.1"
	ok "... which are many" test "$(wc -l <"$tmp/want.1")" -gt 400
done <<EOF
what stands around matches|-e '$grep' -C 40
from one time to another|--from 30ms --to 150ms
EOF
run timeout 300 "$kvmft" merge --follow "$whole/host" "$whole/web=$id"
status_is 0 "captures that have ended"
sed 's/  */ /g' "$out" >"$tmp/got.1"
"$kvmft" merge "$whole/host" "$whole/web=$id" 2>/dev/null | sed 's/  */ /g' >"$tmp/want.1"
ok "... are shown at once" cmp "$tmp/want.1" "$tmp/got.1"
run "$kvmft" merge -N 3 "$whole/host" "$whole/web=$id"
status_is 0 "merge -N"
is "$(wc -l <"$out" | tr -d ' ')" 3 "... shows so many lines"

mkdir "$tmp/bad"
echo "no capture" >"$tmp/bad/meta"
run timeout 300 "$kvmft" merge --follow "$whole/host" "$tmp/bad" "$whole/web=$id"
status_is 3 "a guest that is none, among others"
err_has "bad: not a kvmft capture.*; the other guests are shown without this one" "... is named"
sed 's/  */ /g' "$out" >"$tmp/got.1"
ok "... and the others are shown" cmp "$tmp/want.1" "$tmp/got.1"
run timeout 300 "$kvmft" merge --follow "$whole/host" "$tmp/bad"
status_is 1 "... but not when it is the only one"

# comes PATTERN FILE: such a line, at last.
comes()
{
	tries=0
	until grep -q "$1" "$2" || [ $tries -ge 150 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
}

# A capture that goes is no reason to lose the others.
for gone in web web/meta; do
	begin_grow 4
	grow host=5
	# Its old contents must not be taken for new ones.
	: >"$out"
	: >"$err"
	timeout 300 "$kvmft" merge --follow=100ms "$tmp/grow/host" "$tmp/grow/web=$id" >"$out" 2>"$err" &
	job=$!
	comes '^syn ' "$out"
	rm -r "$tmp/grow/${gone:?}"
	comes 'left out' "$err"
	early=$(wc -l <"$out")
	grow host=10
	wait $job
	rc=$?
	status_is 3 "a guest whose $gone goes while it is followed"
	is "$(grep -c 'left out from now on' "$err")" 1 "... is reported once"
	err_has "web: .*: left out from now on, [1-9][0-9]* events of it were shown; the others go on" "... by its name"
	shown=$(sed -n 's/.*left out from now on, \([0-9]*\) events.*/\1/p' "$err")
	is "$(grep -c '^syn ' "$out")" "$shown" "... all that was shown of it is counted"
	ok "... the host goes on" test "$(wc -l <"$out")" -gt "$early"
	"$kvmft" merge "$whole/host" 2>/dev/null | wc -l >"$tmp/want.1"
	is "$(grep -c '^host ' "$out")" "$(tr -d ' ' <"$tmp/want.1")" "... to its end"
	err_has "host: [0-9]+ events, 0 lost$" "... with its summary"
done
# Not to be read, as when a host's old segments are removed before each pass reads them
begin_grow 4
: >"$out"
: >"$err"
timeout 300 "$kvmft" merge --follow=100ms "$tmp/grow/host" "$tmp/grow/web=$id" >"$out" 2>"$err" &
job=$!
comes '^syn ' "$out"
mv "$tmp/grow/host/meta" "$tmp/meta"
comes 'faster' "$err"
mv "$tmp/meta" "$tmp/grow/host/meta"
grow host=10 web=10
wait $job
rc=$?
status_is 0 "a host that cannot be read for a time"
is "$(grep -c '^kvmft: events come faster than they are read' "$err")" 1 "... is reported once"
is "$(wc -l <"$out")" "$("$kvmft" merge -q "$whole/host" "$whole/web=$id" | wc -l)" "... and shown from there on"
begin_grow 5
: >"$out"
timeout 300 "$kvmft" merge --follow=100ms --clock guest-tsc --side web "$tmp/grow/host" "$tmp/grow/web=$id" >"$out" 2>"$err" &
job=$!
comes . "$out"
rm "$tmp/grow/web/meta"
wait $job
rc=$?
status_is 1 "... but not when the clock goes with it"
err_has "web: not a kvmft capture: cannot read meta" "... which is named"

# A shell's jobs in the background ignore SIGINT: that is for those who ask for it.
followed_to_signal()
{
	begin_grow 5
	: >"$out" # not the lines of the one before
	timeout -s KILL 30 perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' \
		"$kvmft" merge --follow=100ms "$tmp/grow/host" "$tmp/grow/web=$id" >"$out" 2>"$err" &
	job=$!
	comes '^syn ' "$out"
}
for sig in INT TERM; do
	followed_to_signal
	kill -$sig "$(pgrep -P $job)"
	wait $job
	rc=$?
	status_is 0 "SIG$sig ends what is followed in order"
	err_has "host: $(grep -c '^host ' "$out") events, 0 lost .up to now: its recording has no end yet.$" "... with the host's summary"
	err_has "syn: $(grep -c '^syn ' "$out") events, 0 lost .up to now" "... the guest's"
	err_has "alignment of syn: [0-9]+ guest events checked, 0 outside" "... and the alignment"
	"$kvmft" merge "$tmp/grow/host" "$tmp/grow/web=$id" 2>/dev/null |
		grep -vc 'PERHAPS NOT RECORDED' >"$tmp/want.1" # that it was cut short is known to a reader alone
	is "$(wc -l <"$out")" "$(cat "$tmp/want.1")" "... all that there is was shown"
done
mkfifo "$tmp/stuck"
begin_grow 9
timeout -s KILL 30 "$kvmft" merge --follow "$tmp/grow/host" "$tmp/grow/web=$id" >"$tmp/stuck" 2>"$err" &
job=$!
exec 9<"$tmp/stuck"
# FIONREAD: once it writes
for _ in $(seq 250); do
	perl -e 'ioctl STDIN, 0x541b, my $n = pack "i", 0; exit !unpack "i", $n' <&9 && break
	sleep 0.1
done
kill -TERM "$(pgrep -P $job)"
sleep 0.5
ok "one whose reader reads nothing is still there" kill -0 "$(pgrep -P $job)"
kill -TERM "$(pgrep -P $job)"
wait $job
rc=$?
exec 9<&-
status_is 143 "... until a second signal"

# more_than N: waits for so many lines
more_than()
{
	tries=0
	while [ "$(wc -l <"$out")" -le "$1" ] && [ $tries -lt 300 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
}

# A guest whose data come late: the host's lines do not wait for them.
begin_grow 0
timeout 300 "$kvmft" merge --follow=200ms "$tmp/grow/host" "$tmp/grow/web=$id" >"$out" 2>"$err" &
job=$!
sleep 0.6
grow host=9
more_than 100
early=$(wc -l <"$out")
grow web=10
grow host=10
wait $job
rc=$?
status_is 0 "a late guest"
ok "... did not hold up the host ($early lines)" test "$early" -gt 100
err_has ": events come late" "... it is said when it is seen"
err_has "[0-9]+ events came late, by" "... and how late, at the end"
"$kvmft" merge "$whole/host" "$whole/web=$id" 2>/dev/null | sed 's/  */ /g' | sort >"$tmp/want.1"
sed 's/  */ /g' "$out" | sort >"$tmp/got.1"
ok "... no line is missing, none is twice" cmp "$tmp/want.1" "$tmp/got.1"

# One CPU of a host whose data come late: guest events are checked as far as the windows are known, not by older ones.
begin_grow 2
timeout 300 "$kvmft" merge --follow=200ms "$tmp/grow/host" "$tmp/grow/web=$id" >"$out" 2>"$err" &
job=$!
sleep 0.6
early=$(wc -l <"$out")
grow web=6 host=6:cpu0
more_than "$early"
grow host=7
sleep 1.5
grow host=10 web=10
wait $job
rc=$?
status_is 0 "a CPU of the host that is late"
err_has 'alignment of .*(, [0-9]+ not checkable|cannot tell)' "... leaves guest events unchecked"
is "$(grep -c 'MISALIGNED' "$err")" 0 "... and is not taken for misaligned"


# Killed, both it and the process that names its file: nothing is left beside that.
begin_grow 0
mkdir "$tmp/killed"
"$kvmft" merge --follow -o "$tmp/killed/out" "$tmp/grow/host" "$tmp/grow/web=$id" 2>"$err" &
job=$!
namer=
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	namer=$(pgrep -P $job)
	[ -z "$namer" ] || break
	sleep 0.25
done
is "$(cat "/proc/$namer/comm")" kvmft-output "a process will name the file"
kill -KILL $job "$namer"
wait $job
is "$(ls -A "$tmp/killed")" "" "killed together they leave no file"
finish
