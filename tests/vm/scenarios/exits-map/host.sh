# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# The kernel's map of `kvmft exits` when it is too small, and when VMs that ended have filled it.
# Leaves what was printed in exits.tar.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"
. "$SCENARIO_DIR/../exits-functions.sh"

need_kvmft
dir=/tmp/exits
mkdir $dir
cd $dir || die "no $dir"
tinyvm_make /tmp/tinyvm
tracefs_state >/tmp/state.before

# Full at once: what does not fit is not counted, and that is reported.
background drops --map-size 128 -I 500ms --format json --engine kernel
drops=$pid
check "a VM with 60 vCPUs ran" /tmp/tinyvm --iterations 2 --vcpus 60
sleep 1
interrupt drops "$drops"

# Full of VMs that have ended: it is emptied, and the next VM counted.
background emptied --map-size 256 -I 500ms --format json --engine kernel --time
emptied=$pid
for vcpus in 33 33; do
	/tmp/tinyvm --iterations 3 --vcpus $vcpus >"vm$vcpus.out" || die "no VM with $vcpus vCPUs"
	sleep 1.5
done
check "the map is emptied" wait_until 60 grep -qs 'was emptied' emptied.err
/tmp/tinyvm --iterations 3 --vcpus 5 >vm5.out || die "no VM with 5 vCPUs"
sleep 1.5
interrupt emptied "$emptied"

tracefs_state >/tmp/state.after
check "tracefs is as it was" diff /tmp/state.before /tmp/state.after
tar -cf "$RESULTS/exits.tar" -C /tmp exits
finish
