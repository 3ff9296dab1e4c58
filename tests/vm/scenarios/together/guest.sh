# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# The guest of scenarios together: what each says, when its host has begun it.

. "$VM_LIB/guest.sh"

all=$RESULTS
for scenario in $TOGETHER; do
	(
		RESULTS=$all/$scenario
		SCENARIO_DIR=$(realpath "$SCENARIO_DIR/../$scenario")
		export RESULTS SCENARIO_DIR
		wait_until 900 flag_test "$RIG_NAME-begin" || die "$scenario does not begin"
		. "$RESULTS/.rig/$RIG_NAME.env"
		cd "$SCENARIO_DIR" || exit 1
		echo up >"$RESULTS/.rig/$RIG_NAME.up"
		sh "./$GUEST_SCRIPT" >"$RESULTS/guest-$RIG_NAME.log" 2>&1
		echo $? >"$RESULTS/.rig/rc.$RIG_NAME"
		tmp_clear
		mv "$RESULTS/.rig/rc.$RIG_NAME" "$RESULTS/.rig/$RIG_NAME.rc"
	)
	pass "$scenario"
done
finish
