# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

check "clocksource is kvm-clock" same "$(clocksource)" kvm-clock
check "kprobe_events" test -w /sys/kernel/tracing/kprobe_events
check "all vCPUs online" same "$(nproc)" "$RIG_VCPUS"
check "msr device" rdmsr 0x10
check "disk" dd if="$GUEST_DISK" of=/dev/null bs=64k count=4
fact clocksource "$(clocksource)"
fact kernel "$(uname -r)"
flag_set guest-ready
flag_wait host-done
finish
