#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: check-all
#
# The rig itself, without an emulator: a host whose kernel breaks and then says nothing more is ended at once, with
# the line that tells, and started again. What only a guest says, and what a kernel survives, ends no host. A host does
# not wait for a flag that no guest is left to set.

. "$(dirname "$0")/tap.sh"

# In QEMU's place: the first start writes $tmp/host to the host's console and $tmp/guest to a guest's, and hangs as long
# as $tmp/hangs says. Then, and at any other start, the scenario passes.
cat >"$tmp/qemu" <<'END'
for word; do
	case $word in
	file:*/console-host.log) results=${word#file:} results=${results%/*} ;;
	esac
done
here=$(dirname "$0")
if [ ! -e "$results/attempt-1" ]; then
	cp "$here/host" "$results/console-host.log"
	cp "$here/guest" "$results/console-vm1.log"
	sleep "$(cat "$here/hangs")"
fi
echo 0 >"$results/.rig/host.rc"
echo "ok 1 - it runs" >"$results/host.log"
END

# boots HANGS HOST GUEST: with these lines on the consoles.
boots()
{
	echo "$1" >"$tmp/hangs"
	printf '%b\r\n' "$2" >"$tmp/host"
	printf '%b\r\n' "$3" >"$tmp/guest"
	rm -rf "$tmp/rig"
	begin=$(date +%s)
	run env KVMFT="$plain" RIG_QEMU="sh $tmp/qemu" "$top/tests/vm/run" boot -o "$tmp/rig"
	took=$(($(date +%s) - begin))
}

while read -r line; do
	boots 60 "[   12.345678] $line" ""
	status_is 0 "$line: the second boot passes"
	err_has "emulator's race \(console-host.log:\[   12.345678\] ${line%%[[(]*}.*\): attempt 2$" "... the line is told"
	ok "... after $took s of 60" test "$took" -lt 60
done <<'END'
BUG: TASK stack guard page was hit at 00000000c1a2b3c4 (stack is 00000000d5e6f708..0000000019a2b3c4)
int3: 0000 [#1] PREEMPT SMP NOPTI
END

boots 6 "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [kvmft:321]" "BUG: TASK stack guard page was hit"
status_is 125 "a soft lockup, and a guest that broke: the host runs to its end"
err_has "the scenario passed, but a kernel broke" "... which is told"
ok "... no other boot" test ! -e "$tmp/rig/attempt-1"

# waits COMMAND...: what the host's functions do in a host that has these guests: one of each command.
waits()
{
	rm -rf "$tmp/waits"
	mkdir -p "$tmp/waits/.rig"
	begin=$(date +%s)
	# shellcheck disable=SC2016 # a script
	run env VM_LIB="$top/tests/vm/lib" RESULTS="$tmp/waits" RIG_NAME=host RIG_ROLE=host RIG_GUEST_QEMU=none sh -c '
		. "$VM_LIB/host.sh"
		GUEST_RUN=$RESULTS
		for guest; do
			mkdir "$RESULTS/$guest"
			(eval "$guest") &
			echo $! >"$RESULTS/$guest/pid"
		done
		flag_wait told 100' sh "$@"
	took=$(($(date +%s) - begin))
}

waits "sleep 1" "exit 1"
status_is 1 "guests that end without the flag: the host gives up"
out_has "^Bail out! host: flag 'told' was not set, and no guest runs any more\$" "... which is told"
ok "... after $took s of 100" test "$took" -lt 100
waits "sleep 1; flag_set told"
status_is 0 "a guest that sets it and ends"
waits "exit 1" "sleep 3; flag_set told; sleep 1"
status_is 0 "one of two that ends before: the host waits for the other"
finish
