#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# Flight recorders on both sides of `kvmft record --guest`. Apart from sides.t, beside which others record: in
# before.t kvmft snapshot looks for all flight recorders of the machine.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording "flight recorders of several sides"
. "$(dirname "$0")/sideslib.sh"

# Something to be recorded until all is over.
"$tinyvm" --ms 900000 --pause 1000 >"$tmp/vm.out" 2>&1 &
vm=$!

# A line of meta that begins so, or several.
has_line() { grep -q "^$2" "$session/$1/meta"; }
tsc_of() { sed -n "s/^$2.* tsc=\([0-9]*\).*/\1/p" "$session/$1/meta" | head -n 1; }

begin_sides --flight-recorder -b 1M --keep 2 --guest "g1=$guest SIDE=g1" --guest "g2=$guest" --guest-options "$opts -b 1M"
sleep 1
kill -USR1 "$(guest_pid g1)"
wait_until has_line host 'segment n=0 why=control'
wait_until has_line g2 'segment n=0 why=control'
ok "a guest's flight recorder is asked for: it writes out its ring" has_line g1 'segment n=0 why=signal'
ok "... the host does" has_line host 'segment n=0 why=control'
ok "... and the other guest" has_line g2 'segment n=0 why=control'
err_has 'g1: its flight recorder was triggered; all sides write out their rings' "... is reported"
khz=$(sed -n 's/^tsc khz=\([0-9]*\).*/\1/p' "$session/host/meta")
delay=$((($(tsc_of host 'segment n=0') - $(tsc_of g1 fired)) / khz))
ok "... soon ($delay ms from the guest's signal until the host has written)" test "$delay" -lt 5000
ok "... before which the guest's ring was not yet written" test "$(tsc_of g1 fired)" -lt "$(tsc_of g1 'segment n=0')"
"$kvmft" snapshot "$recorder" >"$tmp/snapshot" 2>&1
is "$? $(grep -v ': told to' "$tmp/snapshot")" "0 " "kvmft snapshot"
ok "... says which it signalled" grep -q '^[0-9]*: told to write out its ring$' "$tmp/snapshot"
# All are told, so the host by itself or by a guest, whichever comes first.
wait_until has_line host 'segment n=1 '
ok "... the host wrote again" has_line host 'segment n=1 '
# ... and all by an order of ours.
wait_until has_line g2 'segment n=1 '
own() { sed -n 's/^segment n=\([0-9]*\) .*/\1/p' "$session/$1/meta" | tail -n 1; }
sleep 1
before_host=$(own host)
before_g2=$(own g2)
kill -USR1 "$recorder"
wait_until has_line host "segment n=$((before_host + 1)) why=control"
wait_until has_line g2 "segment n=$((before_g2 + 1)) why=control"
# One guest that is triggered over and over: each time may cost the others a segment. What it asks for within the pause,
# which grows from 1 s, costs none.
n=0
while [ $n -lt 1200 ] && ! { grep -q 'g1: .* its next trigger counts in 4 s' "$err" && [ $n -ge 40 ]; }; do
	kill -USR1 "$(guest_pid g1)"
	sleep 0.25
	n=$((n + 1))
done
counted=$(grep -c '^segment .*why=control' "$session/g2/meta")
ok "a guest that is triggered over and over ($n times): the others write less and less often ($counted times)" \
	test "$counted" -ge 3 -a $((counted * 4)) -lt $n
err_has 'g1: .* all sides write out their rings; its next trigger counts in 4 s' "... which is reported"
# What nobody else asked for stays, and of the others' the last two.
for side in host g2; do
	[ $side = host ] && kept=$((before_host + 1)) || kept=$((before_g2 + 1))
	ok "... and what $side wrote by our order stays with --keep 2" test -d "$session/$side/seg00000$kept"
	ok "... its meta says who caused the others" has_line $side 'asked by=g1 '
	is "$(find "$session/$side" -name 'seg*' | awk '{ n++ } END { print (n >= 3 && n <= 5) }')" 1 \
		"... two of each are left"
done
err_has 'host: segment [0-9]* written, .* \(trigger of g1\)' "... and so do the messages"
kill -INT "$recorder"
ended
status_is 0 "... what a flight recorder overwrites is no loss: exit 0"
run "$kvmft" merge -q "$session/host"
ok "what was kept can be read" test "$rc" = 0
nothing_left_soon "flight recorders"

# This machine shows no entries of vCPUs: that is what blame says of it.
begin_sides --flight-recorder -b 1M --trigger "kvm:kvm_write_tsc_offset$ours" --guest "g1=$guest" --guest-options "$opts -b 1M" \
	"--blame=--tsc-offset 0 --to='3600' --budget 1us" --on-over "echo over"
"$tinyvm" --iterations 10 >/dev/null
wait_until has_line g1 'segment n=0 why=control'
ok "the host's trigger stops the guest, too" has_line g1 'segment n=0 why=control'
ok "... after its own" has_line host 'fired why=trigger'
wait_until grep -q '^kvmft record: ' "$err"
ok "the answer of blame comes while that goes on" kill -0 "$recorder"
# Whose guest it is nobody can tell where others have VMs: the remedy is a command line.
err_has '^kvmft( record)?: (nothing was (late|measured)|no (event|entry) of a vCPU|.* name its VM: kvmft blame /.*/host /.*/GUEST=SEL\. )' \
	"... by itself"
is "$(cat "$out")" "" "... and the command of --on-over is not run for that"
kill -INT "$recorder"
ended
status_is 0 "... exit 0"
nothing_left_soon "a trigger"
# A remedy can be typed, whatever the session is called.
session="$tmp/my 'run'"
begin_sides --flight-recorder -b 1M --guest "g1=$guest" --guest-options "$opts -b 1M" --blame -d 300ms
ended
status_is 0 "a flight recorder that was not asked"
ok "... says how to ask what --blame would have said" grep -qF ": kvmft blame --last 1s '$tmp/my '\\''run'\\'''" "$err"
rm -rf "$session"
session=$tmp/run
finish
