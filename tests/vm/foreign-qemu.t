#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Trace events of the guest's QEMU beside two files of trace-cmd's: a log with the time of day, a log without any
# time, and a simple file.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/foreign.sh"
. "$(dirname "$0")/foreign_kvmft.sh"
KVMFT_CACHE=${KVMFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvmft}
note()
{
	echo "# $*" >&2
}
. "$top/tests/vm/lib/apt.sh"
. "$top/tests/vm/lib/qemu-trace.sh"

steps="qemulog qemubare"
if why=$(qemu_trace_prepare); then
	steps="$steps qemusimple"
fi
rig foreign --env "FOREIGN=$steps" --env "QEMU_TRACE=$KVMFT_CACHE/qemu/trace" --timeout 600

for pair in $steps; do
	opens "$pair" host 7 10000
	opens "$pair" guest 7 2000
	vcpu_threads "$pair" host vm1
	aligned "$pair" host guest vm1
	understood "$pair" host guest "irq sched io timer" vm1
	is "$(grep -cvE '^([0-9]+@[0-9.]+:)?(virtio|kvm)_' "$rig/$pair/qemu.log")" 0 "$pair: the log has no other lines"
done

set --
for pair in $steps; do
	set -- "$@" "$rig/$pair"
done
strangers "$@"

# clock WHEN NAME: ns of a clock of the host when the recording began or ended.
clock()
{
	pair_fact "$1" "clocks_$2" | sed -n "s/.*$3=[0-9]*:\([0-9]*\).*/\1/p"
}

requests=$(awk -F '[@.:]' -v begin="$(clock qemulog begin real)" -v end="$(clock qemulog end real)" \
	'/:virtio_blk_req_complete/ { ns = $2 * 1e9 + $3 * 1e3; n += ns > begin && ns < end } END { print n + 0 }' \
	"$rig/qemulog/qemu.log")
ok "qemulog: $requests requests while both levels were recorded" test "$requests" -ge 12
is "$(grep -c '@' "$rig/qemubare/qemu.log")" 0 "qemubare: no time in any line"
if [ -d "$rig/qemusimple" ]; then
	"${KVMFT_TOOLS:-$top/build/tests/tools}/genqemu" --dump "$rig/qemusimple/simple" \
		"$KVMFT_CACHE/qemu/trace/share/qemu/trace-events-all" >"$tmp/simple" 2>"$tmp/simple.err"
	is "$(grep -oE '^[a-z0-9_]+' "$tmp/simple" | sort | uniq -c)" \
		"$(grep -oE '^[a-z0-9_]+' "$rig/qemusimple/qemu.log" | sort | uniq -c)" "qemusimple: the log says the same"
else
	skip "qemusimple" "$why"
fi
finish
