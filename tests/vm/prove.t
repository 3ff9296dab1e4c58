#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# `kvmft check --prove` on a real KVM: 20 of 20 runs find what the guest saw, and a wrong conversion would be found.

. "$(dirname "$0")/tap.sh"

# PROVE_ROUNDS: as many on Intel, too, where each takes a minute.
rounds=${PROVE_ROUNDS:-20}
[ -n "${PROVE_ROUNDS:-}" ] || ! on_intel || rounds=3
rig prove --env ROUNDS=$rounds --timeout $((1500 + 90 * rounds))
d=$rig

# value KEY: of each run
value()
{
	jq -r "$1" "$d/json"
}

is "$(sort -u "$d/status")" 0 "each of $rounds runs: exit 0"
is "$(value '.kernel' | wc -l)" $rounds "... and a document"
is "$(value '.guests[].verdict' | sort -u)" aligned "... each guest is aligned"
is "$(value '.guests[].outside' | sort -u)" 0 "... none of its stamps is outside"
is "$(value '[.guests[] | .checked * 100 >= .stamps * 95] | all' | sort -u)" true "... nearly all could be checked"
is "$(value '[.guests[] | .offsets > 0 and .offsets == .offsets_right] | all' | sort -u)" true \
	"... TSC offsets are KVM's to the cycle, before and after the change"
is "$(value '.guests[0].offsets' | sort -u | tail -n 1)" 4 "... of both vCPUs, but where the second came too late to change"
is "$(value '[.guests[] | select(.other_rate) | .ratio_right] | all' | sort -u)" true "... the ratio, where there is one"
is "$(value '.lost' | sort -u)" 0 "... nothing is lost"
is "$(value '.exit_ns > 0 and .exit_recorded_ns > 0' | sort -u)" true "... what an exit takes was measured, and recorded"
is "$(value '.wakeups > 20 and .wakeup_median_ns <= .wakeup_p99_ns and .wakeup_p99_ns <= .wakeup_max_ns' | sort -u)" true \
	"... wake-ups are in order"
is "$(value '.events_by_name | has("kvm:kvm_entry") and has("kvm:kvm_exit") and has("sched:sched_switch") and
	has("kvm:kvm_write_tsc_offset")' | sort -u)" true "... with the events that matter"
is "$(jq -r 'keys[]' "$d/json" | sort -u)" "$(jq -r 'keys[]' "$top"/contrib/results/*.jsonl | sort -u)" \
	"... and says what those in contrib/results say"
is "$(cat "$d/facts-host" | sed -n 's/^status=//p')" 0 "as text: exit 0"
ok "... the alignment" grep -q '^alignment    aligned ' "$d/text"
ok "... the offsets" grep -q '^TSC offset   right ' "$d/text"
is "$(cat "$d/text.err")" "" "... and nothing to remark"
is "$(awk 'length > 80' "$d/text")" "" "... in 80 columns"
ok "captures that are kept are verified as any" grep -q 'aligned within' "$d/judged"
finish
