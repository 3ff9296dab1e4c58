#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# APICv on an Intel host: posted interrupts with their notification, and when and why it was inhibited, against what the
# VM's own program says.

. "$(dirname "$0")/tap.sh"

rig apicv --cpu intel --host-cpus 1 --timeout 1800

block=$(sed -n 's/^block //p' "$rig/truth")
echo "# planted: $block"
run "$plain" latency irq --format json -q "$rig/host"
status_is 0 "latency irq"
jq -c '.apicv_inhibited, .irq.counts' "$out" | sed 's/^/# /'
is "$(jq -c '.apicv_inhibited[] | [.by, .times, .still, .known_to_the_end]' "$out")" '["BLOCKIRQ",1,false,true]' \
	"why it was inhibited, once"
# shellcheck disable=SC2086 # four numbers
set -- $block
ok "... for as long as the program had asked, within its calls" jq -e --argjson least "$(($3 - $2))" --argjson most "$(($4 - $1))" \
	'.apicv_inhibited[0].total_ns | . >= $least and . <= $most' "$out"
run "$plain" merge -q "$rig/host"
posted=$(grep -c 'kvm:kvm_apicv_accept_irq: ' "$out")
accepted=$(grep -c 'kvm:kvm_apic_accept_irq: ' "$out")
is "$(grep -c 'kvm:kvm_inj_virq: ' "$out")" 0 "no interrupt was injected"
run "$plain" latency irq --format json -q "$rig/host"
ok "... and none is called lost" jq -e '.irq.counts | .never_injected == 0 and .posted_alone == 0' "$out"
is "$(jq '.irq.counts | .accepted + .coalesced' "$out")" "$accepted" "every interrupt that an APIC accepted"
is "$(jq '.irq.counts.inhibited' "$out")" 1 "... one while APICv was inhibited"
# A vCPU learns that at its next entry: until then what comes for it is posted, and its APIC holds it once.
is "$(jq '.irq.counts | .posted + .coalesced' "$out")" "$posted" "... and all posted, since its vCPU was not in its guest then"
ok "they have a notification" jq -e '[.irq.groups[].stages.notify.count // 0] | add >= 10' "$out"
finish
