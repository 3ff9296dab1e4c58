# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# One command on the host records it and its guests: by ssh, with a program that it brings along; by the guest
# agent; over links that are slow or cut; with two guests of which one is killed. Leaves sessions as *.tar.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

need_kvmft
steps=${SIDES:-qga push}
ssh=
case " $steps " in
*" push "* | *" slow "* | *" cut "* | *" full "*) ssh=1 ;;
esac
[ -z "$ssh" ] || dropbearkey -t ed25519 -f /tmp/key >"$RESULTS/key.pub" 2>/dev/null || die "no dropbearkey"
modprobe vhost_vsock || die "no vhost_vsock"
# start NAME CID: with a socket to its ssh.
start()
{
	# Here a reset does not end the machine.
	guest_start "$1" --mem 640 --env "SSH=$ssh" --qemu-args "-action reboot=reset -device vhost-vsock-pci,guest-cid=$2 -device virtio-serial \
		-chardev socket,path=/run/agent-$1.sock,server=on,wait=off,id=agent \
		-device virtserialport,chardev=agent,name=org.qemu.guest_agent.0"
}
# ssh_to CID: a command that runs a program in that guest.
ssh_to() { echo "dbclient -y -y -T -i /tmp/key -J 'socat - VSOCK-CONNECT:$1:22' root@guest"; }

# Its sshd listens a moment after the guest is up.
reached() { eval "$(ssh_to "$1")" true 2>/dev/null; }

start vm1 3
tracefs_state >/tmp/state.before
guest_wait_up vm1
flag_wait ready-vm1 60
[ -z "$ssh" ] || wait_until 120 reached 3 || die "vm1 has no ssh"
note "the guest runs"

# began SESSION SIDE...: waits until these sides record.
began()
{
	for side in $2; do
		grep -q '^begin ' "/tmp/$1/$side/meta" 2>/dev/null || return 1
	done
}
has_data() { find "/tmp/$1" -path '*/seg*/cpu*' -size +0 | grep -q .; }
# keep SESSION: one file, 9p takes a good part of a second for each.
keep() { tar -cf "$RESULTS/$1.tar" -C /tmp "$1"; }

# A guest that has no kvmft. How long copying takes is the load of the outer machine: it is waited for.
step_push()
{
	"$KVMFT" record -o /tmp/push --guest-timeout 0 --push="$PROJECT/build/static/kvmft" --guest "vm1=$(ssh_to 3)" \
		--guest-command "sh /tmp/work.sh" 2>/tmp/push.err
	check "one command records host and guest: exit 0" same "$?" 0
	sed 's/^/# /' /tmp/push.err
	keep push
	check "... and left no file in the guest" same "$(eval "$(ssh_to 3)" sh /tmp/what-is-new.sh 2>/dev/null)" "nothing"
}

# The same by the guest agent: only pieces of a file can be written there.
step_bring()
{
	"$KVMFT" record -o /tmp/bring --guest-timeout 0 --push="$PROJECT/build/static/kvmft" \
		--guest vm1=qga:/run/agent-vm1.sock --guest-command "sh /tmp/work.sh" 2>/tmp/bring.err
	check "a program is brought by the guest agent: exit 0" same "$?" 0
	sed 's/^/# /' /tmp/bring.err
	keep bring
	flag_set look-vm1
	flag_wait looked-vm1 60
	check "... and left no file in the guest" same "$(cat "$RESULTS/left-vm1")" "nothing"
}

# By the guest agent, as in a guest without a network.
step_qga()
{
	"$KVMFT" record -o /tmp/qga ${SYMBOLS:+--guest-options --symbols} --guest vm1=qga:/run/agent-vm1.sock --guest-command "sh /tmp/work.sh" 2>/tmp/qga.err
	check "by the guest agent: exit 0" same "$?" 0
	sed 's/^/# /' /tmp/qga.err
	keep qga
}

# Both sides live on one time line; the time from an event to its line here is measured.
step_live()
{
	cat >/tmp/age.pl <<'END'
my %n;
while (<STDIN>) {
	my $b = "\0" x 16;
	syscall(228, 1, $b); # clock_gettime(CLOCK_MONOTONIC)
	my ($s, $ns) = unpack("qq", $b);
	print;
	my ($side, $t) = /^(\S+) .*?\] *(\d+\.\d+)/ or next;
	open(my $first, ">", "/tmp/live.$side") unless $n{$side};
	push @{$n{$side}}, $s + $ns / 1e9 - $t;
}
for (sort keys %n) {
	my @a = sort { $a <=> $b } @{$n{$_}};
	printf STDERR "age of %d lines of %s: median %.3f, worst %.3f s\n", scalar @a, $_, $a[@a / 2], $a[-1];
}
END
	"$KVMFT" trace -e kvm:kvm_entry -e kvm:kvm_exit --guest vm1=qga:/run/agent-vm1.sock \
		--guest-options '-e sched:sched_switch' --guest-options '-e block:block_rq_issue' --clock mono -d 25s \
		2>/tmp/live.err | perl /tmp/age.pl >"$RESULTS/live.txt" 2>"$RESULTS/live.age" &
	recorder=$!
	wait_until 15 test -e /tmp/live.vm1 || die "no line of the guest: $(cat /tmp/live.err)"
	flag_set work-vm1
	wait "$recorder"
	sed 's/^/# /' /tmp/live.err "$RESULTS/live.age"
	cp /tmp/live.err "$RESULTS/"
	check "nothing is left in memory" same "$(ls -d /dev/shm/kvmft.* 2>/dev/null)" ""
}

# What --guest records of a guest is no larger than what is recorded inside of it.
step_apart()
{
	"$KVMFT" record -o /tmp/together --guest vm1=qga:/run/agent-vm1.sock --guest-command "sh /tmp/both.sh" \
		2>/tmp/together.err
	check "recorded inside the guest as well: exit 0" same "$?" 0
	sed 's/^/# /' /tmp/together.err
	keep together
}

# triggered NAME TRIGGER FLAG [OPTION]...: flight recorders of both sides, and what makes the guest pull the trigger.
triggered()
{
	name=$1 trigger=$2 flag=$3
	shift 3
	"$KVMFT" record -o "/tmp/$name" --flight-recorder --before 2s --guest vm1=qga:/run/agent-vm1.sock \
		--guest-options "--trigger $trigger" -d "${DURATION:-16s}" "$@" >"/tmp/$name.out" 2>"/tmp/$name.err" &
	recorder=$!
	set -- "$name"
	wait_until 60 began "$1" "host vm1" || die "they do not begin: $(cat "/tmp/$1.err")"
	sleep 5
	flag_set "$flag-vm1"
	[ "$flag" != mark ] || blamed
	wait "$recorder"
	check "$1: exit 0" same "$?" 0
	sed "s|^|# |" "/tmp/$1.err" "/tmp/$1.out"
	check "$1: all sides wrote out their rings" grep -q 'vm1: its flight recorder was triggered; all sides' "/tmp/$1.err"
	keep "$1"
}

# A trigger in the guest: the host's ring must still hold that moment, and what --before asks for.
step_flight()
{
	triggered flight block:block_rq_issue work
}

# The host stops the guest for a while; then the guest reports that it was late. Nothing is on the disk before
# that.
blamed()
{
	check "nothing is on the disk yet" same "$(find /tmp/marker -name 'cpu*' -size +0 | wc -l)" 0
	"$(dirname "$KVMFT")/tests/tools/rob" stop "$(guest_pid vm1)" 400 1 >/dev/null
	begin=$(uptime_cs)
	check "what made it late is printed while the recording goes on" wait_until 30 grep -q '^   stopped: ' /tmp/marker.out
	note "... after $(($(uptime_cs) - begin))/100 s"
	check "... and it does go on" kill -0 "$recorder"
	sed 's/^/# /' /tmp/marker.out
	check "... the command of --on-over has run, and knows where the recordings are" wait_until 10 grep -q '^over: /tmp/marker: host session vm1$' /tmp/marker.out
	check "... its exit status is said" wait_until 10 grep -q '^kvmft: --on-over: exit status 7$' /tmp/marker.err
	check "... with parts" grep -qE '^ +[0-9.]+ ms +[0-9]+ %  stopped' /tmp/marker.out
}

# A program in the guest says by a marker that something was slow. This kernel does not copy markers: the program
# writes to the marker file that the recorder names.
step_marker()
{
	DURATION=40s
	# shellcheck disable=SC2016 # for the shell that record starts
	triggered marker marker=slow mark --blame='--last 10s --budget 300ms' -e default \
		--on-over 'echo "over: $KVMFT_SESSION:" $(ls "$KVMFT_SESSION"); exit 7' -e sched:sched_switch -e sched:sched_wakeup
	check "... a file for markers is named" grep -q 'vm1: .* written to /[^ ]*/kvmft[^ ]*/trace_marker$' /tmp/marker.err
}

# The guest is reset while it is recorded.
step_reset()
{
	"$KVMFT" record -o /tmp/reset --guest vm1=qga:/run/agent-vm1.sock -d 20s 2>/tmp/reset.err &
	recorder=$!
	wait_until 60 began reset "host vm1" || die "they do not begin: $(cat /tmp/reset.err)"
	sleep 4
	flag_clear ready-vm1
	guest_monitor vm1 system_reset >/dev/null
	wait "$recorder"
	check "a guest is reset: exit 3" same "$?" 3
	sed 's/^/# /' /tmp/reset.err
	check "... is reported" grep -q '^kvmft: vm1: ' /tmp/reset.err
	check "... the host went on to the end" grep -q '^end reason=control' /tmp/reset/host/meta
	keep reset
	flag_wait ready-vm1 120
}

# Two guests, one of which dies.
step_two()
{
	start vm2 4
	guest_wait_up vm2
	flag_wait ready-vm2 60
	"$KVMFT" record -o /tmp/two --guest vm1=qga:/run/agent-vm1.sock --guest vm2=qga:/run/agent-vm2.sock \
		--guest-options "-q" -d 12s 2>/tmp/two.err &
	recorder=$!
	wait_until 60 began two "host vm1 vm2" || die "they do not begin: $(cat /tmp/two.err)"
	flag_set work-vm1
	flag_set work-vm2
	sleep 4
	guest_kill vm2
	wait "$recorder"
	check "a guest is killed: exit 3" same "$?" 3
	sed 's/^/# /' /tmp/two.err
	check "... is reported" grep -q 'vm2: .*what came before is in /tmp/two/vm2' /tmp/two.err
	check "... the other went on" grep -q '^end side=vm1 reason=control status=0' /tmp/two/session
	check "... to the end" grep -q '^end reason=control' /tmp/two/vm1/meta
	keep two
}

# A link of 100 kB/s.
step_slow()
{
	cat >/tmp/slow <<'END'
#!/bin/sh
# Passes on the output of a command, no faster than that.
"$@" | perl -e 'while (sysread(STDIN, my $b, 10000)) { syswrite(STDOUT, $b); select(undef, undef, undef, 0.1) }'
END
	chmod +x /tmp/slow
	"$KVMFT" record -o /tmp/slow.run --guest "vm1=/tmp/slow $(ssh_to 3)" --guest-options "-b 64K" \
		--guest-command "sh /tmp/work.sh" 2>/tmp/slow.err
	status=$?
	sed 's/^/# /' /tmp/slow.err
	check "a link of 100 kB/s: exit 0 or 3" test "$status" = 0 -o "$status" = 3
	check "... the guest's end came" grep -q '^end reason=command' /tmp/slow.run/vm1/meta
	mv /tmp/slow.run /tmp/slowly
	keep slowly
}

# A link that is cut.
step_cut()
{
	"$KVMFT" record -o /tmp/cut --guest "vm1=$(ssh_to 3)" -d 20s 2>/tmp/cut.err &
	recorder=$!
	wait_until 60 began cut "host vm1" || die "they do not begin: $(cat /tmp/cut.err)"
	wait_until 10 has_data cut/vm1 || die "no event comes: $(cat /tmp/cut.err)"
	# The process that carries the link is stopped, as if a cable was pulled.
	carrier=$(pgrep -x socat | head -n 1) # not by its words: others have them, too
	kill -STOP "$carrier"
	wait "$recorder"
	check "a link is cut: exit 3" same "$?" 3
	sed 's/^/# /' /tmp/cut.err
	check "... is reported" grep -q 'vm1: nothing has come from there for 5 s' /tmp/cut.err
	check "... the guest is given up in the end" grep -q 'vm1: was given up' /tmp/cut.err
	keep cut
}

# The host's disk is full.
step_full()
{
	kill -KILL "$carrier"
	mkdir /tmp/small
	mount -t tmpfs -o size=3m,mode=700 none /tmp/small
	"$KVMFT" record -o /tmp/small/run --guest "vm1=$(ssh_to 3)" --guest-command "sh /tmp/work.sh" 2>/tmp/full.err
	status=$?
	sed 's/^/# /' /tmp/full.err
	check "the disk is full: exit 1 or 3" test "$status" = 1 -o "$status" = 3
	check "... is reported" grep -q 'No space left' /tmp/full.err
}

for step in $steps; do
	note "host and guest are recorded: $step, at $(uptime_cs) cs"
	"step_$step"
done
tracefs_state >/tmp/state.after
check "tracefs is as it was" diff /tmp/state.before /tmp/state.after
flag_set over
check "guest: all well" guest_wait_done vm1
finish
