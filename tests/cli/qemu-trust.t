#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: timing
#
# Somebody else on this machine wants root, who looks for QEMUs, to speak to a socket, or to open a
# file, that he himself may not. Processes by tests/tools/fakevmm.c.

# Other QEMUs of this machine are none of its business: it has its own list of processes.
alone="unshare --pid --fork --mount-proc --kill-child"
if [ -z "$KVMFT_ALONE" ] && $alone true 2>/dev/null; then
	export KVMFT_ALONE=1
	exec $alone sh "$0"
fi

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
if [ "$(id -u)" != 0 ]; then
	skip qemu-trust "needs root"
	finish
fi
umask 022
chmod 755 "$tmp"
mkdir "$tmp/bin" "$tmp/private" "$tmp/user"
chmod 700 "$tmp/private"
chown 65534:65534 "$tmp/user"
# A build with ASan looks into /proc, which a process that became another user may not.
"${CC:-cc}" -D_GNU_SOURCE -O1 -o "$tmp/bin/qemu-system-x86_64" "$top/tests/tools/fakevmm.c" 2>"$tmp/cc.log"
if ! [ -x "$tmp/bin/qemu-system-x86_64" ]; then
	ok "fakevmm can be built" false
	sed 's/^/# /' "$tmp/cc.log"
	finish
fi
cp "$tmp/bin/qemu-system-x86_64" "$tmp/bin/daemon"
have_vm=
if [ -c /dev/kvm ] && FAKE_VM=1 timeout 1 "$tmp/bin/daemon" 2>/dev/null | grep -q ready; then
	have_vm=1
fi
started=
trap 'stop_all; rm -rf "$tmp"' EXIT

# start NAME ENVIRONMENT... -- PROGRAM OPTION...: its pid is $pid, what it is told is in $tmp/NAME.said
start()
{
	said=$tmp/$1.said
	shift
	: >"$said"
	(cd "$tmp/user" && exec env "$@") >"$said" 2>"$tmp/start.err" &
	started="$started $!"
	wait_until grep -q ready "$said"
	pid=$(sed -n 's/^ready //p' "$said")
	started="$started $pid"
	[ -n "$pid" ] || sed 's/^/# /' "$tmp/start.err"
}

stop_all()
{
	for p in $started; do
		kill -KILL "$p" 2>/dev/null
		wait "$p" 2>/dev/null
	done
	started=
}

told()
{
	sed 1d "$said"
}

# refused NAME PATTERN: root asks for the events of process $pid; $root_said must stay empty.
refused()
{
	name=$1
	run timeout 300 "$kvmft" qemu set --vm "$pid" a_one on
	status_is 1 "$name: refused"
	err_has "$2" "... with its message"
	err_has "process $pid|QEMU $pid" "... which names it"
	err_one_line "$name"
	is "$(sed 1d "$root_said")" "" "... and nothing was said to root's socket"
}

# Others may record for longer than a fakevmm lives.
exec 8>"$turn"
flock -w 900 8

# Root's own sockets: one in a directory that others may not enter, one that all may connect to.
start private FAKE_LISTEN="$tmp/private/sock" "$tmp/bin/daemon"
private=$said
start open FAKE_LISTEN="$tmp/user/open.sock" "$tmp/bin/daemon"
open=$said
chmod 777 "$tmp/user/open.sock"
# Abstract names are the machine's, and the process number here is always the same.
nowhere=kvmft-${tmp##*/}
start abstract FAKE_LISTEN="@$nowhere" "$tmp/bin/daemon"
abstract=$said
root_started=$started
started=
qemu=$tmp/bin/qemu-system-x86_64

# again: the processes of the last case go, root's stay.
again()
{
	stop_all
	rm -f "$tmp"/user/*.sock.*
}

# ---- what root was made to do ----

root_said=$private
start one FAKE_UID=65534 "$qemu" -name guest=evil -qmp "unix:$tmp/private/sock,server=on,wait=off"
refused "a program that is called QEMU" "of user 65534 is refused: it holds no VM of KVM"
run timeout 300 "$kvmft" qemu events --vm evil
status_is 1 "... by its name as well"
run timeout 300 "$kvmft" record --as guest -q --qemu a_one -d 50ms -o "$tmp/cap"
is "$([ "$rc" != 0 ] && echo yes)" yes "record --qemu: exit $rc"
err_has "process $pid .* is refused" "... names it"
is "$(sed 1d "$root_said")" "" "... and nothing was said to root's socket"
flock -u 8
exec 8>&-
again
start two FAKE_EUID=65534 "$qemu" -qmp "unix:$tmp/private/sock,server=on,wait=off"
refused "one with several users" "is refused: it runs with the rights of several users"
again

if [ -n "$have_vm" ]; then
	start three FAKE_VM=1 FAKE_UID=65534 "$qemu" -qmp "unix:$tmp/private/sock,server=on,wait=off"
	refused "a VMM with a path that its user may not open" "its user 65534 may not open it"
	again
	ln -s "$tmp/private/sock" "$tmp/user/link.sock.1"
	for path in link.sock.1 "$tmp/user/link.sock.1" ../private/sock; do
		start four FAKE_VM=1 FAKE_UID=65534 "$qemu" -monitor "unix:$path,server=on,wait=off"
		refused "the same as $path" "its user 65534 may not open it|not there"
		stop_all
	done
	again
	root_said=$open
	start five FAKE_VM=1 FAKE_UID=65534 "$qemu" -qmp "unix:$tmp/user/open.sock,server=on,wait=off"
	refused "somebody else's socket that all may open" "process [0-9]* answers there, not QEMU $pid"
	again
	root_said=$abstract
	start six FAKE_VM=1 FAKE_UID=65534 "$qemu" -chardev "socket,id=m,path=$nowhere,abstract=on,server=on" -mon chardev=m,mode=control
	refused "somebody else's abstract socket" "process [0-9]* answers there, not QEMU $pid"
	again
	root_said=$open
	start seven FAKE_VM=1 FAKE_HAND=1 FAKE_LISTEN="$tmp/user/own.sock.7" FAKE_UID=65534 "$qemu" \
		-chardev socket,id=m,fd=3,server=on -mon chardev=m,mode=control
	refused "a bad descriptor" "has no path"
	again

	# ---- and what works ----

	start right FAKE_VM=1 FAKE_UID=65534 FAKE_LATER="$tmp/user/own.sock.1" "$qemu" \
		-qmp "unix:$tmp/user/own.sock.1,server=on,wait=off"
	run timeout 300 "$kvmft" qemu set --vm "$pid" a_one on
	status_is 0 "the monitor of a VMM of another user"
	is "$(told | grep -c 'set-state')" 1 "... does as it is told"
	again
	start handed FAKE_VM=1 FAKE_LISTEN="$tmp/user/own.sock.2" FAKE_HAND=1 FAKE_UID=65534 "$qemu" \
		-chardev socket,id=m,fd=7,server=on -mon chardev=m,mode=control
	chown 65534 "$tmp/user/own.sock.2"
	run timeout 300 "$kvmft" qemu set --vm "$pid" a_one on
	status_is 0 "... on a socket that was handed to it"
	again
	start abstract FAKE_VM=1 FAKE_UID=65534 FAKE_LATER="@$nowhere-own" "$qemu" \
		-chardev "socket,id=m,path=$nowhere-own,abstract=on,server=on" -mon chardev=m,mode=control
	run timeout 300 "$kvmft" qemu set --vm "$pid" a_one on
	status_is 0 "... on an abstract one"
	again
else
	skip "a VMM of another user" "no VM can be made here"
fi
start own FAKE_LISTEN="$tmp/own.sock" "$qemu" -qmp "unix:$tmp/own.sock,server=on,wait=off"
run timeout 300 "$kvmft" qemu set --vm "$pid" a_one on
status_is 0 "a QEMU of root's own needs no KVM"
again
start user FAKE_UID=65534 FAKE_LATER="$tmp/user/own.sock.3" "$qemu" -qmp "unix:$tmp/user/own.sock.3,server=on,wait=off"
run timeout 300 "$kvmft" qemu set --monitor "$tmp/user/own.sock.3" a_one on
status_is 0 "... nor does one whose socket root names"
again
# Monitors without end, each of which takes time.
many=
n=0
while [ $n -lt 60 ]; do
	many="$many -qmp unix:$tmp/own.sock.9,server=on,wait=off"
	n=$((n + 1))
done
# shellcheck disable=SC2086 # words
start deaf FAKE_DEAF=1 FAKE_LISTEN="$tmp/own.sock.9" "$qemu" $many
run timeout 300 "$kvmft" qemu events --vm "$pid"
status_is 1 "60 monitors that do not answer: most are not waited for"
err_has "busy: no greeting within 5 s" "... which is reported"
if command -v setpriv >/dev/null; then
	again
	start user FAKE_LATER="$tmp/user/own.sock.4" setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$qemu" -qmp "unix:$tmp/user/own.sock.4,server=on,wait=off"
	cp "${KVMFT_PLAIN:-$kvmft}" "$tmp/bin/kvmft"
	run setpriv --reuid 65534 --regid 65534 --clear-groups timeout 300 "$tmp/bin/kvmft" qemu set --vm "$pid" a_one on
	status_is 0 "... nor one of one's own"
	again
	start root FAKE_LISTEN="$tmp/own2.sock" "$qemu" -qmp "unix:$tmp/own2.sock,server=on,wait=off"
	run setpriv --reuid 65534 --regid 65534 --clear-groups timeout 300 "$tmp/bin/kvmft" qemu set --vm "$pid" a_one on
	status_is 4 "a user does not speak to root's"
	err_has "belongs to user 0: run as root, or as that user" "... is reported"
fi
again
started=$root_started
stop_all

# ---- files ----

# hangs_not NAME PATTERN COMMAND...
hangs_not()
{
	name=$1
	pattern=$2
	shift 2
	run timeout 300 "$kvmft" "$@"
	status_is 1 "$name"
	err_has "$pattern" "... is reported"
	err_one_line "$name"
}

"$tools/mkcap" --capture "$tmp/host" "$top/tests/golden/qemu-host.txt" >"$tmp/mkcap.log" 2>&1
mkfifo "$tmp/fifo"
mknod "$tmp/device" c 1 3
cp "$top/tests/golden/qemu-log.log" "$tmp/log"
for thing in fifo device bin; do
	hangs_not "--qemu $thing:events" "$tmp/$thing: it is not a plain file" \
		merge --qemu "$tmp/log" --qemu "$tmp/$thing:events" "$tmp/host"
	hangs_not "--qemu $thing" "$tmp/$thing is not a regular file" merge --qemu "$tmp/$thing" "$tmp/host"
	hangs_not "list-formats $thing" "$tmp/$thing: it is not a plain file" qemu list-formats "$tmp/$thing"
done
# binary= of a capture: beside it stands what its maker likes, so nobody looks there.
mkdir "$tmp/root"
cp "$top/tests/golden/qemu-events.txt" "$tmp/root/trace-events-all"
echo "qemu pid=1 binary=$tmp/root/qemu" >>"$tmp/host/meta"
run strace -f -e trace=open,openat -o "$tmp/opened" "${KVMFT_PLAIN:-$kvmft}" merge --qemu "$tmp/log" "$tmp/host"
is "$(grep -c "$tmp/root" "$tmp/opened") $(grep -c "$tmp/log" "$tmp/opened" | sed 's/[1-9][0-9]*/some/')" "0 some" \
	"a capture does not say where declarations of QEMU are"
rm "$tmp/root/trace-events-all"
mkfifo "$tmp/root/trace-events-all"
run timeout 60 "$kvmft" merge --qemu "$tmp/log" "$tmp/host"
status_is 0 "... nor is a FIFO waited for"
# ---- a VMM holds the lock of its memory: whoever reads its command line waits as long as it likes ----

mkdir "$tmp/fuse"
if [ -z "$have_vm" ] || [ ! -c /dev/fuse ]; then
	skip "a VMM that locks its memory" "no /dev/kvm, or no /dev/fuse"
	finish
fi
again
start held FAKE_VM=1 FAKE_HOLD="$tmp/fuse" "$qemu" -name guest=evil
timeout 1 cat "/proc/$pid/cmdline" >/dev/null
is "$?" 124 "a locked memory: its command line cannot be read"
run timeout 300 "$kvmft" list
status_is 0 "... its VM is listed"
out_has "name unknown: process $pid lets nobody read its command line" "... without a name, and why"
run timeout 300 "$kvmft" qemu events --vm "$pid"
status_is 1 "... and none of its monitors is looked for"
err_has "cannot read the command line of process $pid" "... with the reason"
again
finish
