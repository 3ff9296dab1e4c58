# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# shellcheck disable=SC2154,SC2034 # of lib.sh; for those who source this
#
# For tests with a QEMU: one that has no machine, and so starts at once. Source it after lib.sh.

qemu_pid=
holding=

have_qemu()
{
	command -v qemu-system-x86_64 >/dev/null || return 1
	qemu_version=$(qemu-system-x86_64 --version | sed -n '1s/.*version \([0-9.]*\).*/\1/p')
}

# listens PATH NAME: is the socket there, and served? NAME is what it was bound as.
listens()
{
	[ -S "$1" ] && grep -q " 00010000 .* [^ ]*$2\$" /proc/net/unix
}

# qemu_start DIR OPTION...: in DIR, as VM $vm_name; returns when its monitors listen.
qemu_start()
{
	vm_name=kvmft-test-$$-$((${vm_count:-0} + 1))
	vm_count=$((${vm_count:-0} + 1))
	qemu_dir=$1
	shift
	rm -f "$qemu_dir/pid"
	(cd "$qemu_dir" && exec timeout 300 qemu-system-x86_64 -machine none -nodefaults -display none -S \
		-name "guest=$vm_name" -pidfile pid "$@") >"$tmp/qemu.log" 2>&1 &
	qemu_job=$!
	wait_until test -s "$qemu_dir/pid"
	qemu_pid=$(cat "$qemu_dir/pid")
	# The pid file comes before the monitors; these are all called DIR/NAME.sock here.
	for arg in "$@"; do
		case $arg in
		*.sock,*)
			arg=${arg%%.sock,*}.sock
			arg=${arg##*/}
			arg=$(echo "${arg##*:}" | sed 's/,,/,/')
			wait_until listens "$qemu_dir/$arg" "$arg"
			;;
		esac
	done
}

qemu_stop()
{
	[ -n "$qemu_pid" ] || return 0
	kill "$qemu_pid" 2>/dev/null
	wait "$qemu_job" 2>/dev/null
	qemu_pid=
}

trap 'qemu_stop; unhold_socket; rm -rf "$tmp"' EXIT

# states TARGET...: names of the events that are on.
states()
{
	"$kvmft" qemu events "$@" --format csv | sed -n 's/,enabled.*//p' | tr '\n' ' '
}

# events_called PATTERN [BUT]: those that this version of QEMU has, as it lists them itself, like states.
events_called()
{
	qemu-system-x86_64 -trace help | grep -E "$1" | grep -vE "${2:-^$}" | LC_ALL=C sort | tr '\n' ' '
}

# Is TEXT in this file?
strings_has()
{
	grep -qa -- "$2" "$1"
}

# Connects to a socket and stays, until unhold_socket.
hold_socket()
{
	perl -MSocket -e '
		socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;
		connect($s, sockaddr_un($ARGV[0])) or die "connect: $!";
		sysread($s, my $hello, 16) or die;
		$| = 1; print "held\n"; sleep 300' "$1" >"$tmp/held" &
	holding=$!
	wait_until test -s "$tmp/held"
}

unhold_socket()
{
	[ -n "$holding" ] || return 0
	kill "$holding" 2>/dev/null
	wait "$holding" 2>/dev/null
	holding=
}
