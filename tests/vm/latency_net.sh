# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2034,SC2154
#
# For the latency-net*.t files: scenario net, and what is asked of each of its guests.

. "$(dirname "$0")/tap.sh"

py="$(dirname "$0")/latency_net.py"

# net_rig SECONDS [OPTIONS]: runs the scenario; ends the test where packets cannot be compared with their numbers.
net_rig()
{
	seconds=$1
	shift
	rig net --timeout "${RIG_TIMEOUT:-$seconds}" "$@"
	command -v python3 >/dev/null && return
	skip "packets against their numbers" "python3 is not installed"
	finish
}

# holds NAME ARGUMENTS...: of latency_net.py, which tells its figures
holds()
{
	name=$1
	shift
	ok "$name" python3 "$py" "$@"
	sed 's/^/# /' "$tmp/ok.log"
}

# analysed: latency net of guest $vm into $tmp/$vm.json; sets $offset and $khz
analysed()
{
	offset=$(sed -n 's/^vcpu .* offset=\([-0-9]*\).*/\1/p' "$rig/$vm-host/meta" | head -n 1)
	khz=$(sed -n 's/^tsc khz=\([0-9]*\).*/\1/p' "$rig/$vm-host/meta")
	run "$kvmft" latency net --format json --worst 100000 --context 0 -q "$rig/$vm-host" "$rig/$vm"
	status_is 0 "$vm: latency net"
	cp "$out" "$tmp/$vm.json"
	sums "... what was counted adds up"
}
