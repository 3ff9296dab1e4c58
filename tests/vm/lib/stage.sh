#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Runs in both levels, in the outer root, straight from init: read the environment, run the
# scenario's script of this level, leave its status in .rig/NAME.rc. In: RIG_ROLE, RIG_NAME,
# RESULTS.

export PATH=/run/applets:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LC_ALL=C RIG_ROLE RIG_NAME RESULTS
# To $RESULTS each write is a request over 9p, in a guest one over two: tar makes them as long as they can be.
export TAR_OPTIONS=--blocking-factor=500

# Modules were loaded by init; what matters is said here once, in the console log.
check_level()
{
	[ "$RIG_CPU" = arm64 ] || [ -e /dev/cpu/0/msr ] || echo "rig: no /dev/cpu/0/msr"
	[ "$RIG_ROLE" = guest ] || [ -c /dev/kvm ] || echo "rig: no /dev/kvm"
}

run_script()
{
	cd "$SCENARIO_DIR" || exit 125
	case $RIG_ROLE in
	host)
		# The second serial port is the harness's standard output; an arm64 machine has one only.
		out=/dev/ttyS1
		[ "$RIG_CPU" != arm64 ] || out=$RESULTS/host.log
		stty -F "$out" raw -echo 2>/dev/null
		sh ./host.sh >"$out" 2>&1
		;;
	guest)
		echo up >"$RESULTS/.rig/$RIG_NAME.up"
		sh "./$GUEST_SCRIPT" >"$RESULTS/guest-$RIG_NAME.log" 2>&1
		;;
	esac
	status=$?
	dmesg >"$RESULTS/dmesg-$RIG_NAME.log"
	# Written whole or not at all: the other side polls for it.
	echo "$status" >"$RESULTS/.rig/$RIG_NAME.rc.tmp"
	mv "$RESULTS/.rig/$RIG_NAME.rc.tmp" "$RESULTS/.rig/$RIG_NAME.rc"
}

. "$RESULTS/.rig/env"
if [ -r "$RESULTS/.rig/$RIG_NAME.env" ]; then
	. "$RESULTS/.rig/$RIG_NAME.env"
fi
check_level
run_script
