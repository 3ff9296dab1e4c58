#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records its own
#
# `kvmft record --guest` with guests that fail later: whose VM goes, that are killed, that are silent, come back, or go
# on without end. What else holds of sides is in sides.t.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording "sides that fail"
. "$(dirname "$0")/sideslib.sh"

# Something to be recorded until all is over.
"$tinyvm" --ms 900000 --pause 1000 >"$tmp/vm.out" 2>&1 &
vm=$!

# A guest that is called like a VM of this host is that one.
"$tinyvm" --ms 900000 --pause 1000 --name g1 >"$tmp/vm1.out" 2>&1 &
moving=$!
begin_sides --guest "g1=$guest" --guest-options "$opts"
kill "$moving"
wait "$moving" 2>/dev/null
wait_until grep -q 'g1: its VM ' "$err"
sleep 2
kill -INT "$recorder"
ended
status_is 0 "a guest whose VM goes while it is heard of"
err_has "g1: its VM .PID $moving. is gone from this host, and the guest goes on" "... has moved, which is reported"
is "$(grep -c 'is gone from this host' "$err") $(reason_of g1)" "1 control" "... once, and it is recorded to the end"

begin_sides --guest "g1=$guest SIDE=g1" --guest "g2=$guest SIDE=g2" --guest-options "$opts"
kill -KILL "$(guest_pid g1)"
wait_until grep -q 'g1: .*what came before is in ' "$err"
kill -INT "$recorder"
ended
status_is 3 "a guest is killed: exit 3"
err_has 'g1: .*what came before is in .*run/g1' "... is reported"
is "$(reason_of g1) $(reason_of g2) $(reason_of host)" "died control control" "... the others went on"
is "$(status_of g1) $(status_of g2)" "3 0" "... with their own status"
run "$kvmft" export -i "$session/g1" --to text
ok "... what came before can be read" test "$rc" -eq 3 -o "$rc" -eq 1
nothing_left_soon "a guest that is killed"

# Half a minute is waited for an answer that does not end: meanwhile a guest is silent.
start_liar x
timeout 300 "$kvmft" record --as host -e "kvm:*$ours" -o "$tmp/slow" --guest "g1=qga:$tmp/liar.sock" -d 1s >"$tmp/slow.out" 2>&1 &
slow=$!

begin_sides --guest "g1=$guest SIDE=g1" --guest "g2=$guest SIDE=g2" --guest-options "$opts"
frozen=$(guest_pid g1)
kill -STOP "$frozen"
wait_until grep -q 'g1: nothing has come' "$err"
err_has 'g1: nothing has come from there for 5 s' "a silent guest is reported"
kill -INT "$recorder"
ended
status_is 3 "... and given up: exit 3"
err_has 'g1: was told to end and has sent nothing for 10 s' "... is reported"
is "$(reason_of g2) $(reason_of host)" "control control" "... the others went on"
kill -CONT "$frozen" 2>/dev/null

begin_sides --guest "g1=$guest SIDE=g1" --guest "g2=$guest SIDE=g2" --guest-options "$opts" --guest-options 'g1:-b 64K'
frozen=$(guest_pid g1)
kill -STOP "$frozen"
wait_until grep -q 'g1: nothing has come' "$err"
kill -CONT "$frozen"
wait_until grep -q 'g1: is back' "$err"
kill -INT "$recorder"
ended
status_is 3 "a guest that comes back: exit 3"
err_has 'g1: CPU [0-9]+ lost [0-9]+ of ' "... it says what its ring lost until then"
err_has 'g1: is back' "... is reported"
is "$(reason_of g1)" control "... and has its end"

wait "$slow"
is "$?" 3 "an agent whose answer does not end"
ok "... is not waited for" grep -qE 'no answer|is not JSON|endless' "$tmp/slow.out"
end_liar
nothing_left_soon "an agent whose answer does not end"

# A guest that fires without end and never ends, and one that takes no orders: its pipe is full.
tools=${KVMFT_TOOLS:-$top/build/tests/tools}
"$tools/mkcap" --capture "$tmp/made" "$top/tests/golden/latency-host.txt"
cat >"$tmp/bin/storm" <<EOF
#!/bin/sh
"$tools/mkstream" "capture $tmp/made" "times 20000 frame 1 0 0 text:fired\\n"
while "$tools/mkstream" "frame 7 0 0 -"; do sleep 0.2; done
EOF
cat >"$tmp/bin/deaf" <<EOF
#!/usr/bin/perl
use Fcntl;
open(my \$w, '>', '/proc/self/fd/0') or die;
fcntl(\$w, F_SETFL, O_WRONLY | O_NONBLOCK);
1 while syswrite(\$w, 'x' x 4096);
system("$tools/mkstream", "capture $tmp/made");
sleep(1) until system("$tools/mkstream", "frame 7 0 0 -");
EOF
cat >"$tmp/bin/detached" <<EOF
#!/bin/sh
setsid "$tmp/bin/storm" &
exec sleep 1000
EOF
chmod +x "$tmp/bin/storm" "$tmp/bin/deaf" "$tmp/bin/detached"
begun=$(date +%s)
sides --guest "g1=$tmp/bin/storm" --guest "g2=$tmp/bin/deaf" --guest "g3=$tmp/bin/detached" --guest-timeout 400ms -d 2s
took=$(($(date +%s) - begun))
status_is 3 "guests that fire, or go on, without end, one beside its command, and one that takes no orders: exit 3"
ok "... the others are told once a second" \
	test "$(grep -c 'g1: its flight recorder was triggered' "$err")" -le $((took + 2))
err_has 'g1: was told to end and goes on sending .--guest-timeout allows more time.: it is given up' "... is reported"
is "$(reason_of host)" control "... the host has its end"
nothing_left_soon "guests without end"

# A guest cannot fill the host's disk.
begin_sides --guest "g1=$guest" --guest-options "$opts" --max-size 20M
ended
status_is 3 "--max-size holds for each side: exit 3"
for side in host g1; do
	ok "... for $side" test "$(data_size "$session/$side")" -le 20971520
done
nothing_left_soon "--max-size"
finish
