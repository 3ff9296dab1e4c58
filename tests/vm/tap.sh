# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# For the .t files of this folder: TAP functions of tests/cli/lib.sh, and `rig`.

. "$(dirname "$0")/../cli/lib.sh"

# The rig runs the plain build: sanitizers take too much of an emulated machine.
plain=${KVMFT_PLAIN:-$top/build/kvmft}

# rig SCENARIO [OPTIONS]: runs a scenario into $rig; its own tests become tests here. A rig that
# does not come up is a failure, with the tail of its log.
rig()
{
	rig=$tmp/rig-$1
	name=$1
	KVMFT=$plain "$top/tests/vm/run" "$@" -o "$rig" >"$tmp/rig.log" 2>&1
	rig_status=$?
	while IFS= read -r line; do
		case $line in
		"ok "*) result 0 "$name: ${line#ok * - }" ;;
		"not ok "*) result 1 "$name: ${line#not ok * - }" ;;
		1..*) ;;
		*) echo "# $line" ;;
		esac
	done <"$tmp/rig.log"
	is "$rig_status" 0 "$name: exit status of the rig"
	for tar in "$rig"/*.tar; do
		[ ! -e "$tar" ] || tar -xf "$tar" -C "$rig" --no-same-owner
	done
}

# fact NAME: what the scenario noted.
fact()
{
	sed -n "s/^$1=//p" "$rig"/facts-* | head -n 1
}
