#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# A real host with an Intel CPU and its guest: merged and checked, and what VMX's own events tell.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/align.sh"

rig align --cpu intel --timeout 400
# 5 us, where 400 million instructions are a second.
align_proof 2000

# ---- exits, as VMX has them ----

# rows: "NAME COUNT" of the last report in CSV.
rows()
{
	awk -F , 'NR > 1 { print $3, $4 }' "$out" | LC_ALL=C sort
}

run "$kvmft" report -i "$rig/host" --per all --format csv
status_is 0 "report"
rows >"$tmp/reasons"
sed 's/^/# /' "$tmp/reasons"
# entered PATTERN: field 3 of each matching exit that was followed by an entry of its thread; the last exit
# may not be.
entered()
{
	sed -nE "s/^host .*-([0-9]+) +\\[[0-9]+\\] .* kvm:(kvm_entry): .*/\\1 \\2/p; s/^host .*-([0-9]+) +\\[[0-9]+\\] .* $1.*/\\1 begin \\2/p" "$tmp/timeline" |
		awk '$2 == "begin" { open[$1] = $3 } $2 == "kvm_entry" && $1 in open { print open[$1]; delete open[$1] }'
}
entered 'kvm:kvm_exit: .* reason ([^ ]*) ' | LC_ALL=C sort | uniq -c | awk '{ print $2, $1 }' >"$tmp/exits"
ok "there are some hundred exits" test "$(awk '{ n += $2 } END { print n }' "$tmp/exits")" -gt 500
is "$(cat "$tmp/reasons")" "$(cat "$tmp/exits")" "as many of each as there are events that an entry follows"
for reason in CPUID EPT_MISCONFIG EPT_VIOLATION EXTERNAL_INTERRUPT HLT MSR_READ MSR_WRITE PREEMPTION_TIMER; do
	ok "there is $reason" grep -q "^$reason [1-9]" "$tmp/reasons"
done
ok "all reasons have names" sh -c "! grep -vE '^[A-Z][A-Z_]+ ' '$tmp/reasons'"
run "$kvmft" report -i "$rig/host" --per all --format csv --event fast-mmio
doorbells=$(entered 'kvm:kvm_fast_mmio: fast mmio at gpa ([^ ]*)' | wc -l | tr -d ' ')
ok "there are doorbells" test "$doorbells" -gt 100
is "$(rows | awk '{ n += $2 } END { print n }')" "$doorbells" \
	"doorbells: every kvm_fast_mmio is in the table"
run "$kvmft" report -i "$rig/host" --per all --format csv --event cpuid
is "$(rows | grep -c '^0x2 ')" 1 "CPUID leaf 2 has no subleaves: one row"

# ---- posted interrupts, the preemption timer ----

# number NAME: from the line of counters of the last `kvmft latency`.
number()
{
	sed -nE "s/^([^;]*; )*$1 ([0-9]+)(;.*)?\$/\2/p" "$out" | tail -n 1
}
# events_of PATTERN: events that match.
events_of()
{
	grep -cE "$1" "$tmp/timeline"
}

# guest_has PATTERN: how many events of the guest match.
guest_has()
{
	grep '^vm1 ' "$tmp/timeline" | grep -cE "$1"
}

run "$kvmft" latency irq --all -q --worst 0 "$rig/host" "$rig/guest"
status_is 0 "latency irq"
is "$(number accepted) $(number posted)" \
	"$(events_of kvm:kvm_apic_accept_irq:) $(events_of kvm:kvm_apicv_accept_irq:)" \
	"every interrupt that an APIC accepted, and all were posted"
is "$(events_of kvm:kvm_inj_virq:)" 0 "... so none was injected"
is "$(number measured)" "$(guest_has ' (irq:irq_handler_entry|irq_vectors:local_timer_entry): ')" \
	"... and each handler in the guest is an interrupt's"
run "$kvmft" latency timer --all -q --worst 0 "$rig/host" "$rig/guest"
status_is 0 "latency timer"
is "$(number armed)" "$(events_of 'kvm:kvm_msr: msr_write 6e0 ')" "every deadline that the guest set"
is "$(number measured)" "$(guest_has ' irq_vectors:local_timer_entry: ')" "... measured to its handler in the guest"
ok "some of them exits by the preemption timer" grep -q '^PREEMPTION_TIMER [1-9]' "$tmp/reasons"
sums_of "the pair" all "$rig/host" "$rig/guest"
sums_of "the host alone" irq,sched,timer "$rig/host"
ok "plain build prints the same" sh -c "'$plain' merge -q '$rig/host' '$rig/guest' | cmp - '$tmp/timeline'"
finish
