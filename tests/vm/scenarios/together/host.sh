# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Scenarios one after the other in one host, and one guest if all goes well, each with a folder of results of its own.
# TOGETHER (from --env) names them. What a scenario left is removed before the next one begins.

. "$VM_LIB/host.sh"

# clean [STAYED]: a guest that is to go on with the next scenario is put there.
clean()
{
	if [ -n "${1:-}" ]; then
		rm -rf "$1"
		mv "$GUEST_RUN" "$1"
	else
		for pid in "$GUEST_RUN"/*/pid; do
			[ ! -e "$pid" ] || kill -9 "$(cat "$pid")" 2>/dev/null
		done
		rm -rf "$GUEST_RUN"
	fi
	! grep -q ' /proc/kallsyms ' /proc/mounts || umount /proc/kallsyms
	tmp_clear
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
	if [ "$TOGETHER" != "$1" ] && [ "$(cat "$all/$1/.rig/host.rc")" = 0 ]; then
		clean "$GUEST_STAYED"
	else
		clean
	fi
	check "$1 came to an end" test -s "$RESULTS/$1/.rig/host.rc"
}

all=$RESULTS
export RIG_TOGETHER="$all" TOGETHER
# shellcheck disable=SC2086 # a list
set -- $TOGETHER
while [ $# -gt 0 ]; do
	TOGETHER=$*
	note "$1"
	one "$1"
	shift
done
finish
