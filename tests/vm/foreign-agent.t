#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# Host and guest recorded by one trace-cmd through its agent in the guest: each file names the other. The
# trace-cmd that is installed, and a newer one.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/foreign.sh"
. "$(dirname "$0")/foreign_kvmft.sh"
KVMFT_CACHE=${KVMFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvmft}
note()
{
	echo "# $*" >&2
}
. "$top/tests/vm/lib/apt.sh"
. "$top/tests/vm/lib/tracecmd.sh"

# option PAIR FILE NAME: an option of the file as trace-cmd prints it, with what follows.
option()
{
	trace-cmd dump --options -i "$rig/$1/$2.dat" 2>/dev/null | sed -n "/Option $3,/,/^\t\t\[Option [^$3]/p"
}

# agent_pair PAIR VERSION PROTOCOL_FLAGS: each file names the other.
agent_pair()
{
	opens "$1" host "$2" 5000
	opens "$1" host-vm1 7 2000
	vcpu_threads "$1" host vm1_before
	id=$(option "$1" host-vm1 TRACEID | sed -n 2p)
	option "$1" host GUEST >"$tmp/guest"
	ok "$1: the host's file names the guest's, $id" grep -qix "$id \[trace id\]" "$tmp/guest"
	id=$(option "$1" host TRACEID | sed -n 2p)
	option "$1" host-vm1 TimeShift >"$tmp/shift"
	ok "... and the other way" grep -qix "$id \[peer's trace id\]" "$tmp/shift"
	is "$(sed -n "s/ \[peer's protocol flags\]//p" "$tmp/shift")" "$3" "... the protocol's flags"
}

# kvmft needs no options and concludes nothing; made to conclude it, it finds the same.
agent_understood()
{
	understood "$1" host "$2" sched vm1_before vm1_after
	run "$kvmft" merge --format json "$h" "$g"
	is "$(grep -cE 'found|the only VM|since|taken for' "$err")" 0 "... nothing had to be concluded"
	run "$kvmft" merge --solve --format json "$h" "$g"
	status_is "$status" "... solved from the events"
	found "... agrees with TIME_SHIFT and with KVM" vm1_before vm1_after
	err_has 'TSC offsets? ' "... and was found in them"
}

# Guests' threads and offsets by KVM's debugfs.
synchronized()
{
	agent_pair "$1" "$2" 0x0
	is "$(sed -n 's/^ *\([0-9]*\) \([0-9]*\) \[guest cpu, host pid\]/\1 \2/p' "$tmp/guest")" \
		"$(sed -n 's/^vm1_before_vcpu\([0-9]*\)_tid=/\1 /p' "$rig/$1/facts")" "... threads of vCPUs"
	is "$(sed -n 's/^\t\([-0-9]*\) \* 1 >> 0 @.*/\1/p; s/^\t\([-0-9]*\) 1 0 [0-9]*\[offset.*/\1/p' "$tmp/shift" | sort -u)" \
		"$(sed -n 's/^vm1_[a-z]*_vcpu[0-9]*_offset=/-/p' "$rig/$1/facts" | sed 's/^--//' | sort -u)" "... TSC offsets"
	aligned "$1" host host-vm1 vm1_before vm1_after
	agent_understood "$1" host-vm1
}

both_levels()
{
	rm -f "$tmp"/report-* # pairs have the same names each time
	rig foreign --env "FOREIGN=agent agent_v6 agent_tscwrite agent_ptp agent_blind" --timeout 1200 "$@"
	synchronized agent 7
	synchronized agent-v6 6
	# trace-cmd writes the guest's file in version 7 whatever the options say.
	trace-cmd convert --file-version 6 -i "$rig/agent-v6/host-vm1.dat" -o "$rig/agent-v6/six.dat" >/dev/null 2>&1
	opens agent-v6 six 6 2000
	agent_understood agent-v6 six
	synchronized agent-tscwrite 7
	ok "agent-tscwrite: many points of synchronization" test "$(grep -c 'offset.*scaling' "$tmp/shift")" -gt 8
	agent_pair agent-ptp 7 0x1
	for command in merge verify "latency sched"; do
		# shellcheck disable=SC2086 # words
		run "$kvmft" $command "$rig/agent-ptp/host.dat" "$rig/agent-ptp/host-vm1.dat"
		status_is 4 "agent-ptp: $command refuses clock local"
		err_has 'clock local .*x86-tsc' "... says so, and what to record"
		is "$(wc -c <"$out")" 0 "... and prints nothing"
	done
	opens agent-blind host 7 5000
	opens agent-blind host-vm1 7 2000
	if grep -q Negotiated "$rig/log-host-agent-blind"; then
		skip "agent-blind: nothing of offsets and threads" "on a busy machine a vCPU was woken: trace-cmd found them"
	else
		is "$(option agent-blind host-vm1 TimeShift)" "" "agent-blind: nothing of offsets"
		option agent-blind host GUEST >"$tmp/guest"
		ok "... and of no threads" grep -q '^0 \[Guest CPUs\]' "$tmp/guest"
	fi
	aligned agent-blind host host-vm1 vm1_before vm1_after
	understood agent-blind host host-vm1 sched vm1_before vm1_after
	strangers "$rig/agent" "$rig/agent-v6" "$rig/agent-tscwrite" "$rig/agent-blind"
}

both_levels
if newer=$(tracecmd_prepare 2>"$tmp/newer.log"); then
	both_levels --env "TRACE_CMD=$newer"
else
	skip "the same by a newer trace-cmd" "$(tail -n 1 "$tmp/newer.log")"
fi
finish
