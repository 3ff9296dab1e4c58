# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# VMs that start and end while the host is recorded: found while they live, and aligned with what their guests recorded.

. "$VM_LIB/host.sh"

need_kvmft
cap=/tmp/cap

begun()
{
	grep -q '^begin ' "$cap/meta"
}

# known NAME: the capture has the VM, with the true offset and thread of each of its vCPUs.
known()
{
	vm=$(sed -n "s/^vm id=\([^ ]*\) .* name=$1 uuid=$(guest_uuid "$1") .*/\1/p" "$cap/meta" | head -n 1)
	[ -n "$vm" ] || return 1
	for n in 0 1; do
		grep -q "^vcpu vm=$vm id=$n tid=$(cat "/tmp/tid-$1-$n") " "$cap/meta" &&
			grep -q "^task tid=$(cat "/tmp/tid-$1-$n") tgid=${vm%-*} " "$cap/meta" || return 1
	done
}

# whole NAME: runs this VM from boot to end within the recording.
whole()
{
	guest_start "$1" --vcpus 2 --mem 512
	guest_wait_up "$1"
	for n in 0 1; do
		guest_tid "$1" "$n" >"/tmp/tid-$1-$n"
		fact "$1_offset$n" "$(guest_tsc_offset "$1" "$n")"
	done
	flag_set "$1-go"
	guest_wait_done "$1"
	check "$1: known while the host is still recorded" known "$1"
}

# Only what is needed: each event costs an emulated machine much time.
"$KVMFT" record --as host -b 32M -e kvm:kvm_entry -e kvm:kvm_exit -o "$cap" 2>/tmp/rec.err &
recorder=$!
check "the host is recorded before there is any VM" wait_until 60 begun
check "... and has none" sh -c "! grep '^vm ' $cap/meta"
whole vm1
whole vm2
kill -INT "$recorder"
wait "$recorder"
check "record exits 0" same "$?" 0
sed 's/^/# /' /tmp/rec.err
for vm in vm1 vm2; do
	tar -xf "$RESULTS/$vm.tar" -C /tmp
	"$KVMFT" verify "$cap" "/tmp/$vm" >/tmp/verify 2>&1
	check "$vm: paired by its UUID and aligned, without any option" same "$?" 0
	sed 's/^/# /' /tmp/verify
done
finish
