# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A Linux guest that uses KVM's Hyper-V interface: its synthetic timers, its IPIs and TLB flushes by hypercalls.
# Recorded by default and lean; what each says of its own cost.

. "$VM_LIB/host.sh"

need_kvmft
# A Linux that finds both takes KVM.
hv=kvm=off,hv-relaxed,hv-vpindex,hv-runtime,hv-time,hv-synic,hv-stimer,hv-stimer-direct,hv-ipi,hv-tlbflush,hv-frequencies
guest_start vm1 --vcpus 2 --qemu-args "-cpu host,$hv"
guest_wait_up vm1
flag_wait guest-ready
for profile in default lean; do
	"$KVMFT" record --profile "$profile" -o "/tmp/host-$profile" -d 3s 2>"/tmp/$profile.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/host-$profile/meta" ||
		die "recording did not start: $(cat "/tmp/$profile.err")"
	flag_set "go-$profile"
	wait "$recorder"
	check "record --profile $profile exits 0" same "$?" 0
	sed 's/^/# /' "/tmp/$profile.err"
	flag_set "recorded-$profile"
	carry "/tmp/$profile.err"
	tar -cf "$RESULTS/host-$profile.tar" -C /tmp "host-$profile"
done
guest_wait_done vm1 120
finish
