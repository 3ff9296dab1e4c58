# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# For the .t files of this folder: TAP functions of tests/cli/lib.sh, and `rig`.

. "$(dirname "$0")/../cli/lib.sh"

# The rig runs the plain build: sanitizers take too much of an emulated machine.
plain=${KVMFT_PLAIN:-$top/build/kvmft}

# Does this test run on an Intel host? Its names of exits differ.
on_intel()
{
	case " ${RIG_OPTIONS:-} " in
	*" --cpu intel "*) ;;
	*) return 1 ;;
	esac
}

# Did the emulated machines fail, and not a test in them? QEMU's TCG loses a race now and then when
# kernels patch their code (see lost_race in run): a kernel hangs or dies, the scenario bails out.
rig_broke()
{
	[ "$rig_status" -ge 124 ] || grep -q 'Bail out!' "$tmp/rig.log"
}

# shared SCENARIO: has a boot for several scenarios, $RIG_SHARED, run this one, with kernels that are sound?
shared()
{
	[ -n "${RIG_SHARED:-}" ] && [ -z "${RIG_OPTIONS:-}" ] && [ -s "$RIG_SHARED/$1/.rig/host.rc" ] &&
		! grep -qsaE 'BUG: |Oops|Kernel panic|Bail out!' "$RIG_SHARED/$1"/*.log "$RIG_SHARED"/console-vm*.log
}

# keep_rig [NAME]: a copy of $rig in $KEEP, if that is set.
keep_rig()
{
	[ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && cp -a "$rig" "$KEEP/$(basename "$0" .t).$boots${1:-}"; }
}

# rig SCENARIO [OPTIONS]: runs a scenario into $rig; its own tests become tests here. $RIG_OPTIONS are
# options of run for a test of the same on another machine. A rig that broke is said and started again, at
# most three times; then it is a failure. Without an emulator of that CPU the test ends here, as skipped.
# What each boot left is copied to $KEEP/TEST.N, or TEST.N-broken-ATTEMPT, if $KEEP is set.
rig()
{
	name=$1 boots=$((${boots:-0} + 1))
	for attempt in 1 2 3 4; do
		rig=$tmp/rig-$name-$attempt
		if shared "$name"; then
			rig=$RIG_SHARED/$name
			cp "$rig/host.log" "$tmp/rig.log"
			rig_status=$(cat "$rig/.rig/host.rc")
			echo "# $name: beside other scenarios in one host"
			break
		fi
		rm -rf "$rig"
		# shellcheck disable=SC2086 # a list
		KVMFT=$plain "$top/tests/vm/run" "$@" ${RIG_OPTIONS:-} -o "$rig" >"$tmp/rig.log" 2>&1
		rig_status=$?
		rig_broke || break
		echo "# $name: the emulated machines broke (status $rig_status), attempt $attempt"
		grep -E 'Bail out!|^run: ' "$tmp/rig.log" | sed 's/^/# /'
		tail -n 2 "$rig/host.log" 2>/dev/null | sed 's/^/# the end of its log: /'
		keep_rig "-broken-$attempt"
	done
	if [ "$rig_status" = 77 ]; then
		skip "$name" "$(sed -nE 's/^run: (.* cannot be had: .*); the log is .*/\1/p; s/^run: (missing: .*)/\1/p' "$tmp/rig.log")"
		finish
	fi
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
	keep_rig
}

# sums NAME: the counters in the JSON of the last `kvmft latency` add up.
sums()
{
	if command -v python3 >/dev/null; then
		ok "$1" python3 "$top/tests/cli/latency_sums.py" "$out"
	else
		skip "$1" "python3 is not installed"
	fi
}

# sums_of NAME ANALYSES CAPTURE...: the same for these captures, whatever they hold; $status, if that is set, is
# the exit status.
sums_of()
{
	name=$1 kinds=$2
	shift 2
	run "$kvmft" latency "$kinds" --format json --worst 0 -q "$@"
	status_is "${status:-0}" "$name: latency $kinds"
	sums "... the parts are the whole"
}

# fact NAME: what the scenario noted.
fact()
{
	sed -n "s/^$1=//p" "$rig"/facts-* | head -n 1
}

# ablated ANALYSIS HOST [GUEST]: what latency says of captures from which events were taken out is the same, or not
# known; ablated split HOST, ablated diff HOST HOST [OPTION]...: what report --split and diff say; ablated blame DIR...:
# what blame says of what was planted
ablated()
{
	if ! command -v python3 >/dev/null; then
		skip "$1 without some events" "python3 is not installed"
		return
	fi
	case $1 in
	split | diff) asks=ablation_tables.py ;;
	blame) asks=ablation.py ;;
	*) asks=ablation_cases.py ;;
	esac
	python3 "$top/tests/vm/$asks" "$plain" "$(dirname "$plain")/tests/tools/ablate" "$@" >"$tmp/ablated" 2>&1
	result $? "$1 without some events: the same, or not known; at most 1 % of each are wrong"
	sed 's/^\([^#]\)/# \1/' "$tmp/ablated"
}
