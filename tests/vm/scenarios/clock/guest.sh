# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

clocks=/sys/devices/system/clocksource/clocksource0

flag_set vm1-ready
flag_wait work 1200
(while :; do :; done) &
busy=$!
flag_wait rest 1200
kill $busy
flag_wait slow
was=$(cat $clocks/current_clocksource)
slow=$(tr ' ' '\n' <$clocks/available_clocksource | grep -E 'hpet|acpi_pm' | head -n 1)
echo "$slow" >$clocks/current_clocksource
fact slow "$slow"
# Each exec and sleep reads the clock, and this does nothing else.
perl -MTime::HiRes=time -e 'time while 1' &
busy=$!
flag_set vm1-slow
flag_wait fast
kill $busy
echo "$was" >$clocks/current_clocksource
flag_set vm1-fast
flag_wait write
sleep 1
wrmsr -p 1 0x10 $(($(printf '%d' "0x$(rdmsr -p 1 0x10)") + 150000000))
sleep 1
pass "vm1: did as it was told"
flag_wait "done"
finish
