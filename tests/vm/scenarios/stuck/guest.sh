# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A guest that works until it is told how to hang.

. "$VM_LIB/guest.sh"

# Without modules: names of the kernel itself are enough, and 9p is slow.
grep ' [tTwW] ' /proc/kallsyms | grep -v '\[' >/tmp/kallsyms
carry /tmp/kallsyms "kallsyms-$RIG_NAME"
flag_set "ready-$RIG_NAME"
until flag_test "hang-$RIG_NAME"; do
	dd if=/dev/vda of=/dev/null bs=64k count=4 iflag=direct 2>/dev/null
	sleep 0.1
done
how=$(flag_get "hang-$RIG_NAME")
flag_set "hangs-$RIG_NAME"
case $how in
halt) exec busybox halt -f ;;
panic)
	# No reboot: the kernel stays in a loop of panic().
	echo 0 >/proc/sys/kernel/panic
	echo c >/proc/sysrq-trigger
	;;
esac
finish
