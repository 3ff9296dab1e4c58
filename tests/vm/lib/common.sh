# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Functions for scenario scripts of both levels; lib/host.sh and lib/guest.sh source it.
# Output is TAP: host.sh's reaches the caller of run, guest.sh's is kept in guest-NAME.log.

TESTS=0
FAILED=0

die()
{
	echo "Bail out! $RIG_NAME: $*"
	exit 1
}

note()
{
	echo "# $*"
}

pass()
{
	TESTS=$((TESTS + 1))
	echo "ok $TESTS - $*"
}

fail()
{
	TESTS=$((TESTS + 1))
	FAILED=$((FAILED + 1))
	echo "not ok $TESTS - $*"
}

# skip DESCRIPTION REASON: a visible skip, counted as done.
skip()
{
	TESTS=$((TESTS + 1))
	echo "ok $TESTS - $1 # SKIP $2"
}

# check DESCRIPTION COMMAND...: one test. What the command prints follows as comments when
# it fails. Returns the command's verdict. A die in the command ends the script, not only the
# subshell it ran in: the rig broke, and no test failed.
check()
{
	check_name=$1
	shift
	if check_out=$("$@" 2>&1); then
		pass "$check_name"
		return 0
	fi
	case $check_out in
	*"Bail out! $RIG_NAME: "*)
		echo "$check_out"
		exit 1
		;;
	esac
	fail "$check_name"
	[ -z "$check_out" ] || echo "$check_out" | sed 's/^/# /'
	return 1
}

# same GOT WANTED: for check; says both when they differ.
same()
{
	[ "$1" = "$2" ] && return 0
	echo "got:    $1"
	echo "wanted: $2"
	return 1
}

# Last line of a script: print the plan, exit 0 if all passed.
finish()
{
	echo "1..$TESTS"
	[ "$FAILED" -eq 0 ] && [ "$TESTS" -gt 0 ]
	exit
}

# Has a guest's kernel said that it will not come back? Then there is no point in waiting (and run
# starts the scenario again).
guest_kernel_hung()
{
	[ "$RIG_ROLE" = host ] &&
		grep -qsaE 'int3: 0000|soft lockup|Kernel panic' "${RIG_TOGETHER:-$RESULTS}"/console-*.log
}

# Seconds that QEMU has had a CPU when it wanted one, of which run keeps a note (Bochs' clock counts nothing else).
emulator_ran()
{
	cat "$RESULTS/.rig/ran" 2>/dev/null
}

# wait_until SECONDS COMMAND...: poll until the command succeeds. On a busy machine that takes longer than the clocks of
# the emulated one know: so when they say that it is time, the emulator's must agree.
wait_until()
{
	until_limit=$(($(uptime_cs) + $1 * 100))
	until_ran=$1
	[ "$1" -lt 30 ] || until_ran=$(($1 + $(emulator_ran || echo 0)))
	until_round=0
	shift
	until "$@"; do
		[ "$(uptime_cs)" -lt "$until_limit" ] || [ "$(emulator_ran || echo "$until_ran")" -lt "$until_ran" ] || return 1
		until_round=$((until_round + 1))
		[ $((until_round % 32)) -ne 0 ] || ! guest_kernel_hung || return 1
		sleep 0.1
	done
}

# Monotonic hundredths of a second; the wall clock may step.
uptime_cs()
{
	read -r cs_up _ </proc/uptime
	echo "${cs_up%.*}${cs_up#*.}" | sed 's/^0*\(.\)/\1/'
}

# Flags are small files in the shared folder: flag_set in one level ends flag_wait in another.
# flag_set FLAG [VALUE]
flag_set()
{
	echo "${2:-1}" >"$RESULTS/.rig/flag-$1.tmp.$RIG_NAME"
	mv "$RESULTS/.rig/flag-$1.tmp.$RIG_NAME" "$RESULTS/.rig/flag-$1"
}

flag_test()
{
	[ -e "$RESULTS/.rig/flag-$1" ]
}

flag_clear()
{
	rm -f "$RESULTS/.rig/flag-$1"
}

flag_get()
{
	cat "$RESULTS/.rig/flag-$1"
}

# In the host, a flag to wait for is a guest's to set: when all of them have ended, nobody will.
flag_set_or_never()
{
	flag_test "$1" || { [ "$RIG_ROLE" = host ] && guests_gone; }
}

# flag_wait FLAG [SECONDS]: 0 when the flag is set, else the script ends with a message.
flag_wait()
{
	wait_until "${2:-120}" flag_set_or_never "$1" ||
		die "flag '$1' was not set within ${2:-120} s"
	flag_test "$1" || die "flag '$1' was not set, and no guest runs any more"
}

# carry PATH [NAME]: copy a file or folder from this level's tmpfs to $RESULTS/NAME.
carry()
{
	cp -r "$1" "$RESULTS/${2:-${1##*/}}" || die "cannot carry out $1"
}

# fact NAME VALUE: a line NAME=VALUE in $RESULTS/facts-LEVEL.
fact()
{
	echo "$1=$2" >>"$RESULTS/facts-$RIG_NAME"
}

# Files of a scenario are in /tmp, where the outer machine's folders may be, too.
tmp_clear()
{
	for tc_left in /tmp/*; do
		grep -q " ${tc_left}[ /]" /proc/mounts || rm -rf "$tc_left"
	done
}

need_kvmft()
{
	[ -x "$KVMFT" ] || die "no program under test at $KVMFT (make, or KVMFT=/path/to/kvmft)"
}

clocksource()
{
	cat /sys/devices/system/clocksource/clocksource0/current_clocksource
}

# TSC rate in kHz as the kernel found it; fails when the log does not say.
tsc_khz()
{
	dmesg | sed -n 's/.*tsc: .*Detected \([0-9]*\)\.\([0-9]\{3\}\) MHz.*/\1\2/p' |
		tail -n 1 | grep .
}
