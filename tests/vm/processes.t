#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Which processes a guest ran, by `record --guest-processes` on its host alone, against the guest's own sched_switch and
# what its kernel counted: spinners of different shares, a sleeper, a reader of the disk, a fork storm, one that
# executes itself, threads of one address space, and two that hand a byte to each other.

. "$(dirname "$0")/tap.sh"

rig processes --timeout 500 --env "PROCS_SECONDS=8"

run "$kvmft" report --by process --format json "$rig/host" "$rig/guest"
status_is 0 "by address space, with names"
cp "$out" "$tmp/named"
run "$kvmft" report --by task --format json "$rig/host" "$rig/guest"
status_is 0 "by the guest's own sched_switch"
cp "$out" "$tmp/truth"
is "$(wc -l <"$rig/guest-vm1.usage" | tr -d ' ')" 11 "all processes lived until they were ended"
sed 's/^/# us by the guest: /' "$rig/guest-vm1.usage"
if ! command -v python3 >/dev/null; then
	skip "CPU times and exits" "python3 is not installed"
	finish
fi

# How near the times are depends on how often the guest exits, so on the load of this machine. So do the bounds: what only
# ran between two exits of another process is in nobody's.
python3 "$top/tests/vm/processes_truth.py" "$tmp/named" "$tmp/truth" "${PROCESSES_WITHIN:-25}" >"$tmp/table"
sed 's/^/# /' "$tmp/table"
value() { sed -n "s/.*\\b$1=\\([0-9]*\\).*/\\1/p" "$tmp/table"; }
if [ "$(value rate)" -ge 200 ]; then
	is "$(value outside)" 0 "each process's CPU time is within its bounds"
	is "$(value cpu_wrong)" 0 "... and within ${PROCESSES_WITHIN:-25} % where the process kept its address space"
else
	skip "CPU times: $(value outside) outside their bounds, $(value cpu_wrong) off" "$(value rate) exits a second: too busy a machine"
fi
ok "${PROCESSES_EXITS:-95} % of the exits are of the right process ($(value exits_right) %)" \
	test "$(value exits_right)" -ge "${PROCESSES_EXITS:-95}"
ok "... of more than 1000 ($(value judged))" test "$(value judged)" -gt 1000
finish
