#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# kvmft exits with a kernel's map that is too small: what was not counted is reported, and a map that was
# filled by VMs which have ended is emptied.

. "$(dirname "$0")/tap.sh"

rig exits-map --timeout 280
d=$rig/exits

is "$(cat "$d/drops.rc")" 3 "a map that is too small: exit status 3"
file_has "$d/drops.err" ' [1-9][0-9]*( or more)? exits were not counted \(the kernel.s map was full' "... says how many"
file_has "$d/drops.out" '"lost":[1-9]' "... in the table, too"
sed 's/^/# /' "$d/drops.err" | tail -n 3

is "$(cat "$d/emptied.rc")" 3 "a map full of ended VMs: exit status 3"
file_has "$d/emptied.err" 'was full of ended VMs and was emptied: exits of .* are not counted' "... is emptied, which is reported"
file_has "$d/emptied.out" '"lost_unknown":true' "... in the table, too"
# By its threads: such a short-lived VM may be gone before kvmft has looked it up.
tids=$(sed -n 's/^pid .* tids //p' "$d/vm5.out")
is "$(sed 's/{"pid"/\n&/g' "$d/emptied.out" | sed -nE 's/.*"tid":([0-9]+),.*"reason":"io",.*"count":([0-9]+),.*/\1 \2/p' |
	awk -v tids=" $tids " 'index(tids, " " $1 " ") { n += $2 } END { print n }')" 15 \
	"... and the VM after that is counted in full"
sed 's/^/# /' "$d/emptied.err"
finish
