#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records its own
#
# `kvmft record --guest`: the sides of one recording, how they begin and end together, and guests that
# cannot begin; those that fail later are in sides-fail.t. The guests here are this machine again, reached by a command;
# tests/vm/sides.t has real ones.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording sides
. "$(dirname "$0")/sideslib.sh"

# ---- together ----

sides --guest "g1=$guest" --guest-options "$opts" -- "$tinyvm" --iterations 2000
status_is 0 "a host and a guest"
is "$(ls "$session" | tr '\n' ' ')" "g1 host session " "... have a directory each"
is "$(sed -n 's/^\(side name=[^ ]* dir=[^ ]* role=[^ ]*\).*/\1/p' "$session/session" | tr '\n' ';')" \
	"side name=host dir=host role=host;side name=g1 dir=g1 role=guest;" "... which the session names"
is "$(reason_of host) $(reason_of g1)" "control control" "... and how they ended"
is "$(stat -c %a "$session" "$session/session" "$session/g1" | tr '\n' ' ')" "700 600 700 " "... that only the owner can read"
for side in host g1; do
	ok "... $side has events" test "$(data_size "$session/$side")" -gt 60000
	is "$(tail -n 1 "$session/$side/meta" | cut -d ' ' -f 1)" end "... and its end"
done
# The host records before the guest does, and after it.
is "$(sed -s -n 's/^begin tsc=//p' "$session/host/meta" "$session/g1/meta" | sort -n | head -n 1)" \
	"$(sed -n 's/^begin tsc=//p' "$session/host/meta")" "... the host begins first"
is "$(sed -s -n 's/^stop tsc=//p' "$session/host/meta" "$session/g1/meta" | sort -n | tail -n 1)" \
	"$(sed -n 's/^stop tsc=//p' "$session/host/meta")" "... and stops last"
# All of COMMAND's loops are in both.
for side in host g1; do
	run "$kvmft" merge -q "$session/$side"
	[ "$side" = host ] || run "$kvmft" export -i "$session/$side" --to text
	is "$(all_pio)" 2000 "... $side saw all that COMMAND did"
done
nothing_left_soon "a host and a guest"

sides --guest "g1=$guest" --guest "g2=$guest" --guest-options "$opts" --guest-options 'g2:-b 512K' -d 2s
status_is 0 "two guests, for 2 s"
length=$(sed -s -n 's/^begin tsc=/-/p; s/^stop tsc=/+/p; s/^tsc khz=\([0-9]*\).*/k\1/p' "$session/g1/meta" |
	perl -ne '/k(\d+)/ ? $k = $1 : ($s += $_); END { printf "%.1f", $s / $k / 1000 }')
ok "... last about that long ($length s)" test "${length%.*}" -ge 1 -a "${length%.*}" -le 4
is "$(ls "$session" | tr '\n' ' ')" "g1 g2 host session " "... are there"
nothing_left_soon "two guests"

# What each process can write to: none of another side, nor the session, nor a terminal.
# writes NAME PATTERN: files that processes of that name have open for writing, whose paths match
writes()
{
	for p in "$recorder" $(pgrep -P "$recorder"); do
		[ "$(cat "/proc/$p/comm")" != "$1" ] || [ "$p" = "$recorder" ] ||
			find "/proc/$p/fd" -perm -u=w -printf '%l\n' 2>/dev/null
	done | grep -E "$2" | grep -v /seg | sed "s,$tmp/,," | sort -u | tr '\n' ' '
}

begin_sides --guest "g1=$guest" --guest "g2=$guest" --guest-options "$opts" 9>>"$tmp/lock"
is "$(writes kvmft-store "$tmp/|/dev/|pts")" "/dev/null run/g1/formats run/g1/meta run/g2/formats run/g2/meta " \
	"what stores guests' streams writes to these"
for p in $(pgrep -P "$recorder" -x kvmft-store); do
	is "$(find "/proc/$p/fd" -lname "$session/*" -printf '%l\n' | sed "s,$session/,,; s,/.*,," | sort -u | wc -l)" 1 "... to one of them each"
done
is "$(writes kvmft "$session|lock")" "run/host/formats run/host/meta " "what records the host, to its capture alone"
kill -INT "$recorder"
ended
status_is 0 "... and it ends well"
nothing_left_soon "what is open"

sides --guest "g1=$guest" --guest-options "$opts" --guest-command "$tinyvm --iterations 500"
status_is 0 "--guest-command"
is "$(reason_of g1)" command "... ends the recording"
is "$(grep -a -c 'g1: vcpu 0 io=500' "$err")" 1 "... its output is shown, with the guest's name"
nothing_left_soon "--guest-command"

sides -q --guest "g1=$guest" --guest-options "$opts -q" -d 1s
status_is 0 "--quiet"
is "$(cat "$err")" "" "... is silent"

# Words go to the guest as they are, whatever shells stand on the way.
cat >"$tmp/bin/by-shell" <<'EOF'
#!/bin/sh
exec sh -c "$*"
EOF
chmod +x "$tmp/bin/by-shell"
sides --guest "g1=$guest by-shell" --guest-options "$opts" --guest-options "-e 'kvm:kvm_pio/port == 0x80 && size == 1/'" \
	-- "$tinyvm" --iterations 500
status_is 0 "by a shell at the other end"
ok "... a filter with blanks and signs arrives" grep -q '^event .*name=kvm_pio .*filter=port' "$session/g1/meta"

# ---- guests that cannot begin ----

without_g1 "no kvmft in the guest" "there is no kvmft.*--push" --guest "g1=/usr/bin/env PATH=/usr/bin:/bin" -d 1s
without_g1 "no such command" "no-such-command" --guest "g1=no-such-command there" -d 1s
without_g1 "a command that fails" "g1: does not record" --guest "g1=false" -d 1s
cat >"$tmp/bin/as-ssh" <<'EOF'
#!/bin/sh
printf 'ssh: no such name\r\n' >&2
exit 255
EOF
chmod +x "$tmp/bin/as-ssh"
without_g1 "a command whose lines end as those of ssh" "g1: does not record: ssh: no such name$" \
	--guest "g1=$tmp/bin/as-ssh" -d 1s
without_g1 "one that says nothing" "g1: does not record: its command was started, and then nothing came from there; --guest-timeout allows more time" \
	--guest "g1=sh -c 'exec sleep 100'" --guest-timeout 2s -d 1s
nothing_left_soon "one that says nothing"
begin=$(date +%s)
without_g1 "one that complains without end" "last was said: y" \
	--guest "g1=sh -c 'timeout 60 yes >&2'" --guest-timeout 1s -d 1s
ok "... not for ever" test $(($(date +%s) - begin)) -lt 40
err_has "g1: says more than 10000 lines: the rest is not shown" "... is not shown all of it"
ok "... but no more than that" test "$(wc -l <"$err")" -lt 10020
without_g1 "... but that it will" "nothing came from there; last was said: soon; --guest-timeout" \
	--guest "g1=sh -c 'echo soon >&2; exec sleep 100'" --guest-timeout 2s -d 1s
without_g1 "one that says why" "the door is locked" --guest "g1=sh -c 'echo the door is locked >&2; exit 255'" -d 1s
without_g1 "one that sends something else" "not a stream of kvmft record" --guest "g1=sh -c 'echo hello; sleep 3'" -d 1s
without_g1 "an event that is not there" "g1: .*no_such_event" --guest "g1=$guest" --guest-options '-e kvm:no_such_event' -d 1s
without_g1 "no such option" "no-such-option" --guest "g1=$guest" --guest-options '--no-such-option' -d 1s
refused "the same name twice" 2 "twice" --guest "g1=$guest" --guest "g1=$guest" -d 1s
refused "a name that is a path" 2 "directory" --guest "a/g1=$guest" -d 1s
refused "the host's name" 2 "reserved" --guest "host=$guest" -d 1s
refused "an empty command" 2 "after =" --guest "g1=" -d 1s
refused "a quote without end" 2 "quote" --guest "g1=sh -c 'x" -d 1s
refused "options of a guest that does not exist" 2 "NAME of a --guest" --guest "g1=$guest" --guest-options 'g2:-b 1M' -d 1s
refused "-o DIR/" 2 "the / at its end does not go with --guest" --guest "g1=$guest" -o "$tmp/" -d 1s
sides --guest "g1=$guest" --guest-options "$opts" --guest "g2=false" -- "$tinyvm" --iterations 500
status_is 3 "one of two: exit 3"
err_has "g2: does not record" "... is reported"
err_has "run: 2 sides .command.: kvmft merge" "... the others record together"
run "$kvmft" merge -q "$session/host"
is "$(all_pio)" 500 "... what COMMAND did"
run "$kvmft" merge -q "$session"
err_has "g2" "... and it is missed when they are read"
nothing_left_soon "a guest that cannot begin"
mkdir "$session.x"
run "$kvmft" record -o "$session.x" --guest "g1=$guest" -d 1s
status_is 1 "a directory that exists"
err_has "exists" "... is reported"
ok "... and stays" rmdir "$session.x"

# ---- ends ----

# Something to be recorded until all is over.
"$tinyvm" --ms 900000 --pause 1000 >"$tmp/vm.out" 2>&1 &
vm=$!

begin_sides --guest "g1=$guest" --guest-options "$opts"
kill -INT "$recorder"
ended
status_is 0 "Ctrl-C ends all"
is "$(reason_of g1) $(reason_of host)" "control control" "... in order"
nothing_left_soon "Ctrl-C"

begin_sides --guest "g1=$guest SIDE=g1" --guest-options "$opts"
frozen=$(guest_pid g1)
kill -STOP "$frozen"
kill -INT "$recorder"
sleep 0.5
kill -INT "$recorder"
ended
status_is 3 "a second Ctrl-C gives up a guest that does not answer"
kill -CONT "$frozen" 2>/dev/null
nothing_left_soon "a second Ctrl-C"

begin_sides --guest "g1=$guest" --guest-options "$opts"
kill -KILL "$recorder"
wait "$recorder" 2>/dev/null
recorder=
both_ended() { [ "$(sed -s -n '$p' "$session/host/meta" "$session/g1/meta" | grep -c '^end ')" = 2 ]; }
wait_until both_ended
ok "when the one that controls is killed, all sides end by themselves" both_ended
nothing_left_soon "one that is killed"

begin_sides --guest "g1=$guest" --guest-options "$opts"
kill -USR1 "$recorder"
kill -INT "$recorder"
ended
status_is 0 "SIGUSR1 is for all sides, and ends none of them"
# shellcheck disable=SC2089 # the quote is one that does not end
for wrong in "--blame" "--flight-recorder --blame='x" \
	"--on-over true" "--flight-recorder --blame --on-over true" "--flight-recorder --blame=--last=2s --on-over true"; do
	# shellcheck disable=SC2086,SC2090 # words
	sides -d 1s --guest "g1=$guest" --guest-options "$opts" $wrong
	status_is 2 "$wrong"
done
finish
