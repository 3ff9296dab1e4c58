# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Scenarios one after the other in one host, each with a folder of results of its own. TOGETHER
# (from --env) names them. What a scenario left is removed before the next one begins.

. "$VM_LIB/host.sh"

# Files of a scenario are in /tmp, where the outer machine's folders may be, too.
clean()
{
	for pid in /run/vm/*/pid; do
		[ ! -e "$pid" ] || kill -9 "$(cat "$pid")" 2>/dev/null
	done
	rm -rf /run/vm
	! grep -q ' /proc/kallsyms ' /proc/mounts || umount /proc/kallsyms
	for left in /tmp/*; do
		grep -q " ${left}[ /]" /proc/mounts || rm -rf "$left"
	done
}

# one NAME: as stage.sh would run it.
one()
{
	(
		RESULTS=$RESULTS/$1
		SCENARIO_DIR=$(realpath "$SCENARIO_DIR/../$1")
		export RESULTS SCENARIO_DIR
		mkdir -p "$RESULTS/.rig"
		cp "$all/.rig/binds" "$all/.rig/stage" "$RESULTS/.rig/"
		sed "s|^export SCENARIO_DIR=.*|export SCENARIO_DIR='$SCENARIO_DIR'|" "$all/.rig/env" >"$RESULTS/.rig/env"
		cd "$SCENARIO_DIR" && sh ./host.sh >"$RESULTS/host.log" 2>&1
		# Written whole or not at all: a run that broke off has none.
		echo $? >"$RESULTS/.rig/rc.tmp"
		mv "$RESULTS/.rig/rc.tmp" "$RESULTS/.rig/host.rc"
	)
	clean
	check "$1 came to an end" test -s "$RESULTS/$1/.rig/host.rc"
}

all=$RESULTS
for scenario in $TOGETHER; do
	note "$scenario"
	one "$scenario"
done
finish
