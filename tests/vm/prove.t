#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft check --prove` on a real KVM: 20 of 20 runs find what the guest saw, and a wrong conversion would be found.

. "$(dirname "$0")/tap.sh"

# PROVE_ROUNDS: as many on Intel, too, where each takes a minute.
rounds=${PROVE_ROUNDS:-20}
[ -n "${PROVE_ROUNDS:-}" ] || ! on_intel || rounds=3
arm64=
case " ${RIG_OPTIONS:-} " in
*" --cpu arm64"*) arm64=1 ;;
esac
rig prove --env ROUNDS=$rounds --timeout $((1500 + 90 * rounds))
d=$rig

# value KEY [OPTION]: of each run
value()
{
	jq -r "$@" "$d/json"
}

is "$(sort -u "$d/status")" 0 "each of $rounds runs: exit 0"
is "$(value '.kernel' | wc -l)" $rounds "... and a document"
is "$(value '.guests[].verdict' | sort -u)" aligned "... each guest is aligned"
is "$(value '.guests[].outside' | sort -u)" 0 "... none of its stamps is outside"
is "$(value '[.guests[] | .checked * 100 >= .stamps * 95] | all' | sort -u)" true "... nearly all could be checked"
is "$(value '[.guests[] | .offsets > 0 and .offsets == .offsets_right] | all' | sort -u)" true \
	"... TSC offsets are KVM's, before and after the change"
if [ -n "$arm64" ]; then
	events='"kvm:kvm_sys_access", "kvm:kvm_hvc_arm64", "kvm:kvm_mmio", "kvm:kvm_wfx_arm64"'
	is "$(value '[.guests[] | .other_offset, .offsets]' -c | sort -u)" "[false,1,true,1]" "... found in the events, twice"
	is "$(value '[.guests[] | .offset_bound_cycles < .tsc_khz] | all' | sort -u)" true "... to less than 1 ms"
	is "$(value '.absent | join(" ")' | sort -u)" "msr port counter_rate offset_event" "... what arm64 has not is said"
else
	events='"kvm:kvm_write_tsc_offset", "kvm:kvm_msr", "kvm:kvm_pio", "kvm:kvm_mmio"'
	is "$(value '.guests[0].offsets' | sort -u | tail -n 1)" 4 \
		"... to the cycle, of both vCPUs, but where the second came too late to change"
	is "$(value '[.guests[] | select(.other_rate) | .ratio_right] | all' | sort -u)" true "... the ratio, where there is one"
fi
is "$(value '.lost' | sort -u)" 0 "... nothing is lost"
is "$(value '.exit_ns > 0 and .exit_recorded_ns > 0' | sort -u)" true "... what an exit takes was measured, and recorded"
is "$(value '.wakeups > 0 and .wakeup_median_ns <= .wakeup_p99_ns and .wakeup_p99_ns <= .wakeup_max_ns' | sort -u)" true \
	"... wake-ups are in order"
is "$(value "[\"kvm:kvm_entry\", \"kvm:kvm_exit\", \"sched:sched_switch\", $events] - (.events_by_name | keys)" -c | sort -u)" \
	"[]" "... with the events that matter"
is "$(value 'keys[]' | sort -u)" "$(cat "$top"/contrib/results/*.jsonl |
	jq -r --arg arch "$(value .arch | head -n 1)" 'select(.arch == $arch) | keys[]' | sort -u)" \
	"... and says what those in contrib/results say"
is "$(cat "$d/facts-host" | sed -n 's/^status=//p')" 0 "as text: exit 0"
ok "... the alignment" grep -q '^alignment    aligned ' "$d/text"
ok "... the offsets" grep -qE '^(TSC )?offset +right ' "$d/text"
is "$(cat "$d/text.err")" "" "... and nothing to remark"
is "$(awk 'length > 80' "$d/text")" "" "... in 80 columns"
ok "captures that are kept are verified as any" grep -q 'aligned within' "$d/judged"
finish
