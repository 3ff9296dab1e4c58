# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Does what host.sh asks for, until it asks for something else.

. "$VM_LIB/guest.sh"

tools=$(dirname "$KVMFT")/tests/tools
source=/sys/devices/system/clocksource/clocksource0/current_clocksource
work_clock()
{
	echo "$1" >$source
	"$tools/ticker" 4000 &
}
work_idle() { :; }
work_serial()
{
	while :; do
		echo "a line that is as long as those of the kernel: 0123456789 0123456789 0123456789" >"$1"
		usleep 50000
	done &
}
work_disk()
{
	while :; do
		busybox dd if=/dev/vda of=/dev/null bs=64k count=4 2>/dev/null
		echo 3 >/proc/sys/vm/drop_caches
		usleep 200000
	done &
}
work_reads()
{
	[ "$1" != /dev/sda ] || modprobe -a ahci sd_mod
	wait_until 30 test -b "$1"
	while :; do
		busybox dd if="$1" of=/dev/null bs=4k count=50 iflag=direct 2>/dev/null
		busybox usleep 100000
	done &
}
work_dirty() { "$tools/procs" memory /dev/null & }
work_spin() { sh -c 'while :; do :; done' & }

n=1
while flag_wait "$RIG_NAME-work$n" 900 && what=$(flag_get "$RIG_NAME-work$n") && [ "$what" != end ]; do
	# shellcheck disable=SC2086 # words
	work_$what
	flag_set "$RIG_NAME-begun$n"
	flag_wait "$RIG_NAME-done$n" 900
	[ -z "${!:-}" ] || kill $! 2>/dev/null
	n=$((n + 1))
done
finish
