# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A guest that works until it is told how to hang.

# What keeps a healthy guest busy, one kind at a time.
works()
{
	case $1 in
	user) while :; do :; done ;;
	kernel)
		# Clearing memory is one instruction, whose time Bochs' clock does not count.
		case $RIG_CPU in
		intel) dd if=/dev/urandom of=/dev/null bs=1M ;;
		*) dd if=/dev/zero of=/dev/null bs=16M ;;
		esac
		;;
	disk) while :; do dd if=/dev/vda of=/dev/null bs=4k count=1000 iflag=direct; done ;;
	network)
		modprobe virtio_net
		for dev in /sys/class/net/e*; do
			dev=${dev##*/}
			ip link set "$dev" up
			ip addr add 10.0.2.15/24 dev "$dev"
		done
		while :; do busybox ping -A -q -c 1000 10.0.2.2; done
		;;
	timers) exec perl -e 'select undef, undef, undef, 0.00025 while 1' ;;
	esac
}

if [ "${1:-}" = works ]; then
	works "$2"
	exit
fi

. "$VM_LIB/guest.sh"

# Without modules: names of the kernel itself are enough, and 9p is slow.
grep ' [tTwW] ' /proc/kallsyms | grep -v '\[' >/tmp/kallsyms
carry /tmp/kallsyms "kallsyms-$RIG_NAME"
flag_set "ready-$RIG_NAME"

worker=
until flag_test "hang-$RIG_NAME"; do
	if flag_test "work-$RIG_NAME"; then
		kind=$(flag_get "work-$RIG_NAME")
		flag_clear "work-$RIG_NAME"
		# What it began ends with it.
		[ -z "$worker" ] || kill -KILL "-$worker"
		worker=
		if [ "$kind" != none ]; then
			setsid sh "$0" works "$kind" >/dev/null 2>&1 &
			worker=$!
		fi
		sleep 1
		flag_set "works-$RIG_NAME"
	fi
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
