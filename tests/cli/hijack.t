#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# What a recorder, or a helper of it, could do after being taken over: tests/tools/hijack.c confines itself as they do
# and tries. What is possible must be on the lists here, which kvmft-record(1) explains under "Privileges".

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_tracefs hijack
plain=${KVMFT_PLAIN:-$kvmft}
hijack=$(dirname "$plain")/tests/tools/hijack
have=$("$plain" check 2>/dev/null | awk '$1 ~ /^(landlock|seccomp)$/ && $2 == "ok"' | wc -l | tr -d ' ')

if [ ! -x "$hijack" ]; then
	ok "the attacker is built without sanitizers: make tests" false
	finish
fi

# try WHO: what it did, in "$tmp/WHO"
try()
{
	rm -rf "$tmp/prey"
	mkdir "$tmp/prey"
	(cd "$tmp/prey" && timeout 300 "$hijack" "$1") >"$tmp/$1.all" 2>"$err"
	is "$? $(cat "$err")" "0 " "$1"
	sed -n 's/: done$//p' "$tmp/$1.all" | sort >"$tmp/$1"
	nothing_left "$1"
}

# only WHO [MUST]: it did all of MUST, and besides that only what the standard input lists.
only()
{
	try "$1"
	sort >"$tmp/may"
	is "$(comm -23 "$tmp/$1" "$tmp/may" | tr '\n' ';')" "" "... nothing else is possible"
	for line in recorder:"signal COMMAND" recorder:"capture: a new file" recorder:"own instance: its events" \
		guest:"list processes" store:"capture: a new file" look:"another's descriptors" watch:"remove an idle instance of others"; do
		[ "${line%%:*}" != "$1" ] || ok "... ${line#*:} is" grep -qxF "${line#*:}" "$tmp/$1"
	done
	is "$(sed -n 's/^process: //p; s/^typed into the terminal: //p' "$tmp/$1.all" | tr '\n' ' ')" "0 unharmed " \
		"... the terminal and the process are as they were"
	echo "# $1: $(wc -l <"$tmp/$1") of $(grep -c ': ' "$tmp/$1.all") attempts succeed, $(wc -l <"$tmp/free") without walls"
}

try free
ok "without walls more than 150 attempts succeed" test "$(wc -l <"$tmp/free")" -gt 150
if [ "$have" != 2 ]; then
	skip "within walls" "this kernel has no Landlock, or no filters of system calls"
	finish
fi

# What is open is written to; threads, pipes and descriptors are made.
cat >"$tmp/recorder.may" <<-END
	read about CPUs
	names of tasks
	own instance: read
	own instance: its events
	own instance: its options
	own instance: whose events
	capture: a new file
	capture: meta
	capture: a new folder
	signal COMMAND
	remove an idle instance of others
	ftruncate
	fallocate
	fsync
	splice
	openat 3
	F_SETFL
	eventfd2
	pipe2
END
only recorder <"$tmp/recorder.may"
# It lists the threads of all; Landlock hides their files.
{
	cat "$tmp/recorder.may"
	echo "list processes"
	echo "another's descriptors"
} >"$tmp/guest.may"
only guest <"$tmp/guest.may"
# Its command line names nothing that is there. What comes packed or through a pipe is in memory without a name.
only reader <<-END
	read about CPUs
	memfd_create
END
# What stores a guest's stream: that capture and what is open.
only store <<-END
	ftruncate
	fallocate
	splice
	openat 3
	capture: a new file
	capture: meta
	capture: a new folder
END
cd "$tmp" || exit 1
run timeout 300 "$hijack" answer
status_is 0 "answers of helpers that lie: lengths, exit codes, lines of meta, texts without an end, flags; a reader to kvmft-output"
is "$(sed 's/.*: //' "$out" | tr '\n' ' ')" "1 1 1 1 1 1 1 1 1 " "... are none, or made harmless"
# It may read any file: Landlock would hide whose VM is whose, and without that a mount namespace of its own would hide
# nothing, as each process shows its root in /proc.
only look <<-END
	where another's descriptor leads
	another's files, by its root
	read passwords
	a new terminal
	others' instance: shrink it by reading
	list /root
	read about CPUs
	debugfs
	list processes
	another's environment
	another's memory, to read
	another's descriptors
	main trace: read
	main trace: take its events
	main trace: take its pages
	names of tasks
	instances: list
	others' instance: take its events
	others' instance: read
	own instance: read
	kcmp
	a process
	clone
	fork
	memfd_create
	pipe2
	setitimer
END
# Reads, and removes what is left in tracefs and beside the capture.
only watch <<-END
	flock
	read passwords
	a new terminal
	others' instance: shrink it by reading
	own instance: copy the markers of all
	own instance: take the printks of all
	list /root
	read about CPUs
	debugfs
	list processes
	another's descriptors
	kprobes
	uprobes
	synthetic events
	main trace: read
	main trace: take its events
	main trace: take its pages
	names of tasks
	instances: list
	others' instance: take its events
	others' instance: read
	others' instance: stop it
	others' instance: its events
	own instance: read
	own instance: its events
	own instance: its options
	own instance: whose events
	own instance: its size
	own instance: its tracer
	own instance: functions
	remove an idle instance of others
	capture: a new file
	capture: meta
	capture: a file moved out of it
	beside the capture: a new file
	beside the capture: a file
	remove a folder beside the capture
	remove a file beside the capture
	openat O_WRONLY
	openat O_RDWR
	openat 3
	openat O_TRUNC
	openat O_CREAT
	openat O_APPEND
	open O_WRONLY
	open O_CREAT
	renameat2
	rename
	unlinkat
	unlink
END
only qemu <<-END
	list processes
	another's descriptors
	openat 3
END
is "$(tracefs_state)" "$state_before" "tracefs is as it was before all this"
finish
