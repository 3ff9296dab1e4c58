# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Outer side of the rig: a newer trace-cmd than the installed one, never installed. Debian's of
# $TRACECMD_SUITE with all libraries that it needs, in the cache as kernels are. Source it after lib/apt.sh.

TRACECMD_SUITE=sid
TRACECMD_PACKAGES="trace-cmd libtracecmd1 libtracefs1 libtraceevent1 libc6 libzstd1 zlib1g"

# The loader of the package's own libc starts it, under the name that tasks of trace-cmd have.
tracecmd_wrap()
{
	ln "$1"/tree/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$1/tree/trace-cmd" || return
	cat >"$1/trace-cmd" <<-'END'
		#!/bin/sh
		tree=$(dirname "$(realpath "$0")")/tree
		exec "$tree/trace-cmd" --library-path "$tree/usr/lib/x86_64-linux-gnu" "$tree/usr/bin/trace-cmd" "$@"
	END
	chmod +x "$1/trace-cmd"
	"$1/trace-cmd" --version 2>/dev/null | grep -q "^trace-cmd version"
}

# Print the command; 1 after a message if it cannot be had.
tracecmd_prepare()
{
	tc_dir=$KVMFT_CACHE/trace-cmd/$TRACECMD_SUITE
	mkdir -p "$KVMFT_CACHE/trace-cmd"
	(
		flock 9
		[ ! -x "$tc_dir/trace-cmd" ] || exit 0
		rm -rf "$tc_dir.tmp"
		# shellcheck disable=SC2086 # a list of package names
		apt_update "$TRACECMD_SUITE" && apt_fetch "$TRACECMD_SUITE" "$tc_dir.tmp" $TRACECMD_PACKAGES &&
			tracecmd_wrap "$tc_dir.tmp" && mv "$tc_dir.tmp" "$tc_dir"
	) 9>"$KVMFT_CACHE/trace-cmd/.lock" || return
	echo "$tc_dir/trace-cmd"
}
