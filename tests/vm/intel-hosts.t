#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# The pair of intel.t from other hosts: a TSC that KVM scales, down and up; two vCPUs; shadow paging;
# newer kernels.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/align.sh"

# cell NAME OPTIONS: aligned to less than 5 us.
cell()
{
	echo "# ---- $1"
	shift
	rig align --cpu intel --timeout 500 "$@"
	align_order
	align_bounds 2000
}

# The guest's cycles are not the host's; ratio * 2^48.
for hz in 300000000 500000000; do
	cell "tsc-frequency $hz" --env "RIG_GUEST_CPU=host,-vmx,tsc-frequency=$hz"
	align_solved
	# Bochs' TSC is 400 MHz, which kernels measure to within some parts of a million.
	is "$(sed -nE 's/^vcpu .* ratio=([0-9]+) frac=48 .*/\1/p' "$rig/host/meta" | sort -u |
		awk -v want=$((hz / 100000)) '{ printf "%d\n", int($1 / 2 ^ 48 * 4000 + 0.5) == want } END { print NR }' |
		tr '\n' ' ')" "1 1 " "TSC ratio: $hz to 400 MHz, with 48 bits of fraction"
done
# Bochs hangs now and then if two CPUs run a vCPU each: both vCPUs are on one CPU here.
cell "two vCPUs" --vcpus 2
align_solved
# ... and with posted interrupts it skips half an instruction where EPT is off.
cell "shadow paging" --host-cmdline "kvm_intel.ept=0 kvm_intel.enable_apicv=0"
align_solved
run "$kvmft" report -i "$rig/host" --per all
out_has ' EXCEPTION_NMI +[1-9]' "faults are exits"
cell "kernel 6.12" --kernel 6.12
align_solved
# Guests with Linux 7 do not trace their writes of deadlines, whose values the host has, too. Without them too
# many offsets nearly fit, because in Bochs all exits take equally long.
cell "kernel 7" --kernel 7
finish
