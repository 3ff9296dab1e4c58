#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# A real host and a real guest record stacks: at exits, where a vCPU's thread leaves its CPU (the
# switch's filter is the trigger's), and of block requests in the guest.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/align.sh"

rig align --env STACKS=1 --timeout 200
align_proof 250000

# lines SYSTEM:EVENT: of the host, in a time line.
lines()
{
	grep '^host ' "$tmp/line" | grep -c " $1: "
}

run "$kvmft" merge -q "$rig/host"
status_is 0 "the host alone"
cp "$out" "$tmp/line"
is "$(wc -l <"$out" | tr -d ' ')" \
	"$(sed -n 's/^stats when=end .* read=\([0-9]*\).*/\1/p' "$rig/host/meta" | awk '{ n += $1 } END { print n }')" \
	"... has each event that was read from the ring, stacks among them"
is "$(($(lines ftrace:kernel_stack) > $(lines kvm:kvm_exit)))" 1 "... and a stack for each exit, and for switches"
is "$(grep ' ftrace:kernel_stack: ' "$out" | grep -c 0x)" 0 "... of named functions only"
run "$kvmft" report -i "$rig/host" --by stack --format csv
status_is 0 "report by stack"
# On each CPU one stack may be missing: tracing was switched off between an event and its stack.
is "$(awk -F, '$1 == "kvm:kvm_exit" { n += $3 } END { print (n > 0 && '"$(lines kvm:kvm_exit)"' - n <= 2) }' "$out")" 1 \
	"... has all exits"
out_has '^kvm:kvm_exit,npf,.* <- kvm_arch_vcpu_ioctl_run \[kvm\] <- kvm_vcpu_ioctl \[kvm\] <- ' \
	"... under KVM_RUN, with modules' names"
is "$(awk -F, '$1 == "sched:sched_switch"' "$out" | grep -vc kvm_)" 0 "stacks of switches are of vCPU threads alone"
run "$kvmft" merge -q --side vm1 --format folded "$rig/host" "$rig/guest"
status_is 0 "guest's stacks, folded"
out_has '^vm1:dd;.*;submit_bio.*;blk_mq_.* [1-9][0-9]*$' "... say who issued its requests"
finish
