# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# For scenarios that run `kvmft exits` beside something else; sourced after lib/host.sh.

# says FILE PATTERN: wait until a line of the file matches.
says()
{
	wait_until 30 grep -qs "$2" "$1" || die "$1 does not say $2: $(cat "$1")"
}

# background NAME ARGUMENT...: kvmft exits until something ends it; its PID in $pid.
background()
{
	name=$1
	shift
	"$KVMFT" exits --engine auto "$@" >"$name.out" 2>"$name.err" 9>&- &
	pid=$!
	says "$name.err" 'counts:'
}

# interrupt NAME PID: Ctrl-C, and its status into NAME.rc.
interrupt()
{
	kill -INT "$2"
	wait "$2"
	echo $? >"$1.rc"
}
