#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# Another user of this machine wants the recorder, which is root, to write over, into or through
# something, or to run his code. Each attempt is refused with a message or has no effect, and what a
# recorder and a reader could do after being taken over is little.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

plain=${KVMFT_PLAIN:-$kvmft}
need_tracefs attack
if [ ! -d "$tracefs/events/kvm/kvm_exit" ]; then
	skip attack "no kvm events"
	finish
fi
if ! command -v setpriv >/dev/null; then
	skip attack "setpriv is not installed"
	finish
fi
chmod 755 "$tmp"
umask 022

# The attacker: another user.
attacker()
{
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

record()
{
	run timeout 300 "$kvmft" record --as host -q -e kvm:kvm_exit -d 50ms "$@"
}

# refused NAME PATTERN ARGUMENT...: exit 1 with one line, and the victim is as it was.
refused()
{
	name=$1
	pattern=$2
	shift 2
	record "$@"
	status_is 1 "$name: refused"
	err_has "$pattern" "... with its message"
	err_one_line "$name"
	is "$(cat "$tmp/victim") $(find "$tmp/prey" | wc -l | tr -d ' ')" "precious 1" \
		"... the victim is as it was"
}

# ---- the table: what stands in the way of the output ----

echo precious >"$tmp/victim"
mkdir "$tmp/prey"
mkdir -m 1777 "$tmp/sticky"
cd "$tmp/sticky" || exit 1
attacker ln -s "$tmp/victim" link
attacker ln -s "$tmp/prey" dirlink
attacker ln -s "$tmp/none" dangling
ln "$tmp/victim" hard
attacker mkfifo fifo
attacker mkdir dir
attacker sh -c 'echo theirs >file'
mknod device c 1 3
while read -r thing pattern; do
	refused "$thing" "$pattern" -o "$tmp/sticky/$thing"
	refused "$thing, by force" "is not a kvmft capture: it is not touched" --force -o "$tmp/sticky/$thing"
done <<-END
	link	exists: choose another name
	dirlink	exists: choose another name
	dangling	exists: choose another name
	hard	exists: choose another name
	fifo	exists: choose another name
	dir	exists: choose another name
	file	exists: choose another name
	device	exists: choose another name
END
ok "nothing was made through the dangling link" test ! -e "$tmp/none"

# The default name is as good a target.
attacker ln -s "$tmp/prey" kvmft.data
refused "link in place of kvmft.data" "kvmft.data exists and is not a kvmft capture"
rm kvmft.data

# ---- the way to it ----

attacker ln -s "$tmp/prey" theirs
mkdir "$tmp/sticky/ours" "$tmp/prey2"
ln -s "$tmp/prey2" "$tmp/sticky/rootlink"
mkdir -m 777 "$tmp/open"
mkdir "$tmp/open/sub"
refused "parent is a link" "sticky/theirs is a symbolic link: name the real directory" -o "$tmp/sticky/theirs/c"
refused "a link of another user on the way" "theirs is a symbolic link that another user made" \
	-o "$tmp/sticky/theirs/../c"
refused "parent is writable for all" "writable by others and not sticky" -o "$tmp/open/c"
refused "so is a directory on the way" "the directory above sub is writable by others" -o "$tmp/open/sub/c"
record -o "$tmp/sticky/rootlink/../viaroot"
status_is 0 "a link that root made on the way is followed"
record -o "$tmp/sticky/ours/c"
status_is 0 "a directory of ours in a sticky one will do"

# In a directory of his own: his links lead nowhere but to what is his.
mkdir -m 755 "$tmp/alice" "$tmp/theirs"
chown 65534:65534 "$tmp/alice" "$tmp/theirs"
attacker ln -s "$tmp/prey" "$tmp/alice/away"
attacker ln -s "$tmp/theirs" "$tmp/alice/own"
refused "a link from another user's directory" "away is a symbolic link that user 65534 made, to somebody else's directory: name" \
	-o "$tmp/alice/away/../prey/c"
record -o "$tmp/alice/away/./"
status_is 1 "... nor with -o DIR/"
record -o "$tmp/alice/own/../theirs/c"
status_is 0 "... to another directory of that user: followed"

# Files of readers and of exits, as well.
ok "a capture with events" "${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap" --capture "$tmp/some" "$top/tests/golden/latency-host.txt"
for dir in alice/away sticky/theirs; do
	echo "of root's" >"$tmp/prey/file"
	run timeout 300 "$kvmft" exits --format openmetrics -o "$tmp/$dir/file" --interval 0.1 0.1
	status_is 1 "exits -o by $dir: refused"
	err_has "is a symbolic link that (another user made|user 65534 made, to somebody else's directory): name the real" \
		"... with its message"
	for command in "merge --force" "export --force --to json -i"; do
		# shellcheck disable=SC2086 # words
		run "$kvmft" $command "$tmp/some" -o "$tmp/$dir/file"
		status_is 1 "$command -o by $dir: refused"
		err_has "is a symbolic link that .*: name the real directory" "... with its message"
	done
	is "$(cat "$tmp/prey/file")" "of root's" "... the victim is as it was"
done
rm "$tmp/prey/file"
for dir in alice/own sticky/rootlink sticky open; do
	run "$kvmft" merge "$tmp/some" -o "$tmp/$dir/merged"
	status_is 0 "merge -o in $dir: done"
done
rm -f "$tmp/sticky/merged" "$tmp/open/merged"

# ---- names that can be guessed ----

# The attacker takes the names of the next seconds.
mkdir -m 1777 "$tmp/timed"
now=$(date +%s)
for s in 0 1 2 3 4 5 6 7 8 9; do
	attacker ln -s "$tmp/prey" "$tmp/timed/kvmft-$(date -u -d "@$((now + s))" +%Y%m%dT%H%M%SZ)"
done
record -o "$tmp/timed/"
status_is 0 "names of -o DIR/ are taken"
ok "... another one was found" sh -c "ls -d '$tmp'/timed/kvmft-*Z-01/meta"
is "$(find "$tmp/prey" | wc -l | tr -d ' ')" 1 "... the links led nowhere"
attacker mkdir "$tmp/timed/kvmft-20000101T000000Z"
record -o "$tmp/timed/" --keep 1
status_is 0 "... and removing old captures"
is "$(find "$tmp/timed" -type l | wc -l | tr -d ' ')" 10 "... touches no link"
ok "... nor anything that is not a capture" test -d "$tmp/timed/kvmft-20000101T000000Z"
is "$(find "$tmp/timed" -name meta | wc -l | tr -d ' ')" 1 "... one capture is left"

# ---- modes, symbols ----

(
	umask 0
	record -o "$tmp/umask"
)
is "$(find "$tmp/umask" -type d ! -perm 700 -o -type f ! -perm 600 | wc -l | tr -d ' ')" 0 \
	"a umask of 0 opens nothing"
is "$(find "$tmp/umask" -iname '*kallsyms*' | wc -l | tr -d ' ')" 0 "kernel symbols are not stored"

# ---- the environment ----

# Code that leaves a mark where it is loaded or run.
cat >"$tmp/evil.c" <<-END
	#include <fcntl.h>
	__attribute__((constructor)) static void evil(void) { open("$tmp/mark", O_CREAT | O_WRONLY, 0600); }
	int tep_plugin_loader(void *tep) { evil(); return !tep; }
END
mkdir -p "$tmp/home/.local/lib/traceevent/plugins" "$tmp/home/.trace-cmd/plugins" "$tmp/bin"
for cmd in modprobe sh rmdir mount kvmft; do
	printf '#!/bin/sh\n: >%s/mark\n' "$tmp" >"$tmp/bin/$cmd"
	chmod 755 "$tmp/bin/$cmd"
done
if "${CC:-cc}" -shared -fPIC -o "$tmp/evil.so" "$tmp/evil.c" 2>"$tmp/cc.log"; then
	cp "$tmp/evil.so" "$tmp/home/.local/lib/traceevent/plugins/plugin_kvm.so"
	cp "$tmp/evil.so" "$tmp/home/.trace-cmd/plugins/plugin_kvm.so"
	for cmd in "record --as host -q -e kvm:kvm_exit -d 50ms -o $tmp/env" "merge $tmp/env" "check --host"; do
		# shellcheck disable=SC2086 # words
		run env HOME="$tmp/home" TRACEEVENT_PLUGIN_DIR="$tmp/home/.local/lib/traceevent/plugins" \
			XDG_CONFIG_HOME="$tmp/home" "$kvmft" $cmd
		ok "hostile HOME, ${cmd%% *}: its plugins are not loaded" test ! -e "$tmp/mark"
	done
	for v in LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH; do
		run env "$v=$tmp/evil.so" "$plain" record --as host -o "$tmp/ld" -d 50ms
		status_is 1 "hostile $v: refused"
		err_has "$v is set and would load other code into the recorder: env -u $v" "... with its message"
		ok "... and nothing was made" test ! -e "$tmp/ld"
		run env "$v=" "$plain" record --as host -q -e kvm:kvm_exit -o "$tmp/empty-$v" -d 50ms
		status_is 0 "... when it is empty, it does no harm"
	done
	rm -f "$tmp/mark"
else
	ok "evil.so can be built" false
	sed 's/^/# /' "$tmp/cc.log"
fi
for path in : .:/usr/bin /usr/bin: /usr/bin::/bin bin; do
	run env PATH="$path" "$kvmft" record --as host -o "$tmp/path" -d 50ms -- true
	status_is 1 "PATH=$path and a command without a slash: refused"
	err_has "PATH has an entry that is not an absolute directory: name true by its path" "... with its message"
	ok "... and nothing was made" test ! -e "$tmp/path"
done
run env PATH=: "$kvmft" record --as host -q -e kvm:kvm_exit -o "$tmp/slash" -- /bin/true
status_is 0 "... a command by its path is fine"
run env PATH="$tmp/bin" "$kvmft" reset
ok "hostile PATH: nothing in it is run" test ! -e "$tmp/mark"
run env -i "$kvmft" record --as host -q -e kvm:kvm_exit -d 50ms -o "$tmp/bare"
status_is 0 "no environment at all is fine"

# ---- contrib/fleet, whose directory may be another user's ----

fleet()
{
	run env PATH="$(dirname "$plain"):$PATH" timeout 60 sh "$top/contrib/fleet/kvmft-fleet" "$@"
}

mkdir "$tmp/prom" "$tmp/prom/of-root" "$tmp/metrics"
chown 65534:65534 "$tmp/prom"
attacker ln -s "$tmp/victim" "$tmp/prom/.kvmft_report.new"
attacker ln -s "$tmp/victim" "$tmp/prom/kvmft_report.prom"
attacker ln -s "$tmp/metrics" "$tmp/prom/link"
for dir in prom prom/of-root sticky open; do
	fleet "$tmp/$dir" 1
	status_is 1 "fleet: $dir: refused"
	err_has "others than root may change $tmp/.*: give a directory of root's" "... with the remedy"
done
is "$(cat "$tmp/victim") $(find "$tmp/prom" "$tmp/open" "$tmp/sticky" -name '*.prom' -type f)" "precious " \
	"... the victim is as it was, and nothing was made"
fleet "$tmp/prom/link" 1
status_is 0 "fleet: a directory of root's, in whatever way it is named"
# As if a VM had run; what KVM shows differs from machine to machine.
mkdir "$tmp/acted"
# shellcheck disable=SC2016 # the script's
printf '#!/bin/sh\n[ "$1" != "$FAILS" ] || exit "$RC"\necho "$1"\n' >"$tmp/acted/kvmft"
chmod 755 "$tmp/acted/kvmft"
# each line: what fails and how, its exit code, the metrics that are left
while read -r fails code want left; do
	run env PATH="$tmp/acted:$PATH" FAILS="$fails" RC="$code" sh "$top/contrib/fleet/kvmft-fleet" "$tmp/metrics" 1
	status_is "$want" "fleet: $fails ends with $code"
	is "$(find "$tmp/metrics" -type f -perm 644 | sed "s,.*kvmft_,," | sort | tr '\n' ' ')$(find "$tmp/metrics" -name '.k*')" \
		"${left:+$left }" "... these metrics are there, readable, and nothing else"
done <<-END
	nothing	0	0	advise.prom clock.prom latency.prom report.prom
	report	4	0	advise.prom clock.prom latency.prom
	nothing	0	0	advise.prom clock.prom latency.prom report.prom
	record	4	1
	nothing	0	0	advise.prom clock.prom latency.prom report.prom
	latency	1	1
	record	3	0	advise.prom clock.prom latency.prom report.prom
	report	137	1
	clock	4	0	advise.prom latency.prom report.prom
	clock	1	1
END

# ---- contrib/watchdog, whose VM may get a namesake of another user's ----

# Answers as kvmft does for a name that two have: not at all.
cat >"$tmp/acted/kvmft" <<-'END'
	#!/bin/sh
	echo "$3" >>"$0.asked"
	[ "$3" = pid:4711 ] && echo '[{"vm":"vm1","verdict":"stuck","vcpus":[{"class":"stopped","why":"w"}]}]'
END
echo 4711 >"$tmp/vm1.pid"
# watched SEL: what it logs in five rounds
watched()
{
	# shellcheck disable=SC2016 # that shell's
	run timeout 300 env KVMFT="$tmp/acted/kvmft" sh -c \
		'n=0; logger() { shift 5; echo "$*"; }; sleep() { n=$((n + 1)); [ $n -lt 5 ] || exit 7; }; . "$0"' \
		"$top/contrib/watchdog/kvmft-watchdog" "$1"
	status_is 7 "watchdog of ${1##*/}"
}

watched vm1
is "$(cat "$out")" "vm1 is not watched: kvmft stuck ends with 1" "... says once that nobody answers for that name"
watched "$tmp/vm1.pid"
is "$(tr '\n' ';' <"$out")" "$tmp/vm1.pid is stuck: stopped ;$tmp/vm1.pid: w;" "... the process that a file names has no namesake"
is "$(sort "$tmp/acted/kvmft.asked" | uniq -c | tr -s ' \n' '  ')" " 5 pid:4711 5 vm1 " "... and is what is asked for"

# ---- what is left to whoever takes over the recorder ----

# status_of PID FIELD
status_of()
{
	sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"
}

# has_lock: /proc/PID of those that have it open
has_lock()
{
	find /proc/[0-9]*/fd -lname "$tmp/lock" 2>/dev/null | sed 's,/fd/.*,,'
}

ours=$(status_of $$ CapEff)
for side in host guest; do
	# shellcheck disable=SC2016 # the command's
	"$kvmft" record --as $side -q -e kvm:kvm_exit -o "$tmp/conf-$side" -- sh -c \
		'sed -n "s/^\(CapEff\|NoNewPrivs\|Seccomp\):[[:space:]]*//p" /proc/self/status >"$0"; exec sleep 20' \
		"$tmp/command" 2>"$err" 9>>"$tmp/lock" &
	recorder=$!
	wait_for_line "$tmp/command"
	# CAP_KILL 5, CAP_SYS_RESOURCE 24
	allow=0x1000020
	is "$((0x$(status_of "$recorder" CapEff) & ~allow))" 0 "$side: recorder: no capability but a few"
	is "$((0x$(status_of "$recorder" CapPrm) & ~allow))" 0 "... and can get none back"
	is "$(status_of "$recorder" CapBnd | tr -d 0)$(status_of "$recorder" CapInh | tr -d 0)" "" "... by any exec"
	is "$(status_of "$recorder" NoNewPrivs)" 1 "... no new privileges"
	is "$(cat /proc/"$recorder"/task/*/status | grep -c '^NoNewPrivs:.*1')" \
		"$(find /proc/"$recorder"/task -mindepth 1 -maxdepth 1 | wc -l | tr -d ' ')" "... in all its threads"
	if [ -d /proc/sys/kernel/seccomp ]; then
		is "$(status_of "$recorder" Seccomp)" 2 "... a filter of system calls"
	else
		skip "a filter of system calls" "this kernel has no seccomp filters"
	fi
	# CAP_DAC_OVERRIDE 1, for the directory of the capture. On a busy machine it may still be on its way.
	left=1
	n=0
	while [ "$left" != 0 ] && [ $n -lt 100 ]; do
		watcher=$(grep -l "^PPid:[[:space:]]*$recorder\$" /proc/[0-9]*/status 2>/dev/null |
			xargs grep -sl kvmft-watch)
		[ -z "$watcher" ] || left=$((0x$(sed -n 's/^CapPrm:[[:space:]]*//p' "$watcher") & ~0x80002))
		[ "$left" = 0 ] || sleep 0.1
		n=$((n + 1))
	done
	is "$left" 0 "... the watcher has no more"
	# CAP_DAC_READ_SEARCH 2, CAP_SYS_PTRACE 19; nobody looks for VMs in a guest.
	looker=$(grep -l "^PPid:[[:space:]]*$recorder\$" /proc/[0-9]*/status 2>/dev/null | xargs grep -sl kvmft-look)
	if [ $side = host ]; then
		is "$((0x$(sed -n 's/^CapPrm:[[:space:]]*//p' "$looker") & ~0x80004))" 0 "... the process that looks for VMs has no more"
	else
		is "$looker" "" "... and nobody looks for VMs"
	fi
	is "$(tr '\n' ' ' <"$tmp/command")" "$ours 0 0 " "the command has all that we have"
	is "$(has_lock | xargs -I @ cat @/comm)" sleep "... and alone what the caller has open: a lock"
	kill -TERM "$recorder"
	wait "$recorder"
	is "$?" 0 "... and the recording ends well"
	recorder=
	rm -f "$tmp/command"
	nothing_left "confined $side"
done

# What it opens once it is confined: its capture, its instance, tracefs, the list of CPUs.
if command -v strace >/dev/null && strace -o /dev/null true 2>"$err"; then
	for more in "" "--rotate 64K"; do
		# shellcheck disable=SC2086 # words
		run strace -f -y -o "$tmp/calls" "$plain" record --as host -q -e kvm:kvm_exit $more -o "$tmp/walls${more%% *}" \
			-- sleep 2
		status_is 0 "recording $more within walls"
		if ! grep -q landlock_restrict_self "$tmp/calls"; then
			skip "... of Landlock" "this kernel has none"
			continue
		fi
		# The C library reads the kernel's overcommit mode when it frees memory, and works without it. Root of a
		# container may not look at its process 1; where there is no KVM, its debugfs is looked for. Who reads the
		# command line of another's VM that runs meanwhile has no /dev/null to hold, and holds nothing.
		is "$(grep -vE 'overcommit_memory|readlinkat|statfs|/dev/null' "$tmp/calls" | grep -cE '= -1 (EACCES|EPERM)')" 0 "... nothing is denied to it"
		awk '/landlock_restrict_self/ { on[$1] = 1 }
			on[$1] && /open/ && / = [0-9]+</ { sub(/.* = [0-9]+/, ""); print }' "$tmp/calls" |
			grep -vE "^<($tmp/|$tracefs/|/sys/devices/system/(cpu|clocksource)/)" >"$tmp/opened"
		is "$(cat "$tmp/opened")" "" "... it opens no other file"
	done
	recorder=
	nothing_left "within walls"
	# 60 VMs of a process, whose vCPUs never run: a look at the process is one at all of them.
	if [ -c /dev/kvm ] && command -v python3 >/dev/null; then
		python3 -c 'import fcntl, os, signal
kvm = os.open("/dev/kvm", os.O_RDWR)
vms = [fcntl.ioctl(kvm, 0xae01, 0) for _ in range(60)]
vcpus = [fcntl.ioctl(vm, 0xae41, 0) for vm in vms]
signal.pause()' &
		vm=$!
		sleep 1
		run strace -f -e trace=openat -o "$tmp/calls" "$plain" record --as host -q -e kvm:kvm_exit -o "$tmp/sixty" -- sleep 2
		status_is 0 "60 VMs that never run"
		is "$(grep -c "^vm .*id=$vm-" "$tmp/sixty/meta" | awk '{ print ($1 >= 60) }')" 1 "... are all in the capture"
		ok "... and looked at together" awk '/"tsc-offset"/ { n++ } END { print "# " n; exit !(n > 0 && n < 2400) }' "$tmp/calls"
		kill -KILL "$vm"
		vm=
	fi
else
	skip "recording within walls" "strace is not installed, or may not trace"
fi

# ---- files from others ----

# by_confined FILE COMMAND...: what reads of the file, each time, is a process with a filter of system calls.
by_confined()
{
	file=$1
	shift
	timeout 300 strace -f -y -e trace=read,pread64,mmap,prctl -o "$tmp/reads" "$plain" "$@" >"$out" 2>"$err"
	awk -v file="/$file>" '/PR_SET_SECCOMP/ { on[$1] = 1 } index($0, file) { if ($1 in on) inside++; else outside++ }
		END { print outside + 0, (inside > 0) }' "$tmp/reads"
}

if strace -o /dev/null true 2>"$err" && [ "$("$plain" check 2>/dev/null | awk '$1 == "seccomp" { print $2 }')" = ok ]; then
	mkdir "$tmp/pair" "$tmp/new"
	cp -r "$tmp/bare" "$tmp/pair/host"
	echo "ffffffff81000000 T start_kernel" >"$tmp/symbols"
	cp /bin/true "$tmp/program"
	is "$(by_confined meta verify "$tmp/pair")" "0 1" "meta of a directory without a session file: read by a confined process"
	is "$(by_confined meta report "$tmp/pair")" "0 1" "... in a tree"
	echo "kvmft-session version=1" >"$tmp/pair/session"
	is "$(by_confined session verify "$tmp/pair")" "0 1" "a session file: as well"
	run timeout 300 strace -f -o "$tmp/calls" -e inject=socketpair:error=EPERM:when=1 "$plain" verify "$tmp/pair"
	err_has "^kvmft verify: socketpair: " "... and by nobody else, if something forbids to ask one"
	run timeout 300 strace -f -o "$tmp/calls" -e inject=write:error=EIO:when=2 "$plain" report "$tmp/bare"
	status_is 1 "... which dies in the middle of its answer: that is no answer"
	err_has "the process that reads a file was killed" "... says so"
	# The first file of each process, so that of kvmft-watch: the directory in which it names the capture.
	run timeout 300 strace -f -o "$tmp/calls" -e inject=openat:error=EIO:when=1 "$plain" record --as host -q -e none -d 50ms \
		-o "$tmp/new/c"
	status_is 1 "a disk that fails in kvmft-watch"
	err_has "cannot open the directory of the capture: Input/output error" "... says why"
	is "$(ls -A "$tmp/new")" "" "... and nothing is left"
	is "$(by_confined symbols stuck --vm nosuch --guest-kallsyms "$tmp/symbols")" "0 1" "symbols of a guest"
	is "$(by_confined program record --as host -e none --sdt "$tmp/program" -d 50ms -o "$tmp/marked")" "0 1" \
		"a program that is searched for markers"
else
	skip "who reads files" "strace is not installed, or this kernel has no filters of system calls"
fi

mkfifo "$tmp/in"
"$kvmft" convert --from host-tsc --to guest-tsc --tsc-offset 1 <"$tmp/in" >"$out" 2>"$err" 9>>"$tmp/lock" &
reader=$!
exec 3>"$tmp/in"
echo 41 >&3
n=0
while [ "$(status_of $reader NoNewPrivs)" != 1 ] && [ $n -lt 100 ]; do
	sleep 0.05
	n=$((n + 1))
done
is "$((0x$(status_of $reader CapEff) & ~4))" 0 "reader: no capability but to read"
is "$(status_of $reader NoNewPrivs)" 1 "... no new privileges"
is "$(has_lock)" "" "... nothing that its caller had open"
exec 3>&-
wait $reader
is "$? $(cat "$out")" "0 42" "... and it does its work"

# A capture with other things in place of its files: it is read to the end, quickly, and nothing else is.
cp -r "$tmp/bare" "$tmp/trap"
f=$(find "$tmp/trap" -name 'cpu[0-9]*' -type f | head -n 1)
echo "secret secret secret" >"$tmp/secret"
ln -sf "$tmp/secret" "$f"
run timeout 300 "$kvmft" merge "$tmp/trap"
is "$([ "$rc" != 124 ] && [ "$rc" != 0 ] && echo yes)" yes "link in a capture: not followed, exit $rc"
is "$(cat "$out" "$err" | grep -c 'secret secret')" 0 "... what it points to is not shown"
rm -f "$tmp/trap/meta"
mkfifo "$tmp/trap/meta"
run timeout 300 "$kvmft" merge "$tmp/trap"
status_is 1 "FIFO in place of meta: refused at once"
err_one_line "FIFO in place of meta"
# A plain file, too, may be one that waits when it is read.
mkdir "$tracefs/instances/attack.$$"
for pipe in trace_pipe per_cpu/cpu0/trace_pipe_raw; do
	run timeout 300 "$kvmft" diff "$tracefs/instances/attack.$$/$pipe" "$tmp/bare"
	status_is 1 "diff, $pipe: not waited for"
	err_has "$pipe: the file is empty" "... says that nothing is in it"
done
rmdir "$tracefs/instances/attack.$$"
is "$(tracefs_state)" "$state_before" "tracefs is as it was before all this"
finish
