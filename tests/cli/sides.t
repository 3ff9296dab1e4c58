#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `kvmft record --guest`: the sides of one recording, how they begin and end together, and guests that
# fail in every way. The guests here are this machine again, reached by a command; tests/vm/sides.t has
# real ones.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording sides
session=$tmp/run
# Others may have VMs here: this one is known by its name, and only its events are recorded.
cp "$tinyvm" "$tmp/sides$$"
tinyvm=$tmp/sides$$
ours="/comm == \"sides$$\"/"
# all_pio: how many accesses to ports that VM had, in a time line
all_pio() { grep -c " sides$$-[0-9]* .*kvm:kvm_pio" "$out"; }
mkdir "$tmp/bin"
ln -s "$kvmft" "$tmp/bin/kvmft"
# A guest is a command that runs what follows in a machine where there is a kvmft.
guest="/usr/bin/env PATH=$tmp/bin:$PATH"
opts="--as guest -e 'kvm:*$ours'"

# sides OPTION...: records the host and whatever guests the options name.
sides()
{
	rm -rf "$session"
	run timeout 100 "$kvmft" record --as host -e "kvm:*$ours" -o "$session" "$@"
}

begin_sides()
{
	rm -rf "$session"
	"$kvmft" record --as host -e "kvm:*$ours" -o "$session" "$@" >"$out" 2>"$err" </dev/null &
	recorder=$!
	wait_until all_live "$session"
}

# wait_until COMMAND...: at most 20 s.
wait_until()
{
	n=0
	while ! "$@" && [ $n -lt 200 ]; do
		sleep 0.1
		n=$((n + 1))
	done
}

all_live()
{
	grep -q '^start ' "$1/session" 2>/dev/null
}

ended()
{
	wait "$recorder"
	rc=$?
	recorder=
}

reason_of() { sed -n "s/^end side=$1 reason=\([^ ]*\).*/\1/p" "$session/session"; }
status_of() { sed -n "s/^end side=$1 .*status=\([^ ]*\).*/\1/p" "$session/session"; }

# refused NAME STATUS MESSAGE OPTION...: nothing is recorded, and nothing left.
refused()
{
	name=$1
	want=$2
	message=$3
	shift 3
	sides "$@"
	status_is "$want" "$name"
	err_has "$message" "... is reported"
	ok "... and no directory is made" test ! -e "$session"
}

# ---- together ----

sides --guest "g1=$guest" --guest-options "$opts" -- "$tinyvm" --iterations 2000
status_is 0 "a host and a guest"
is "$(ls "$session" | tr '\n' ' ')" "g1 host session " "... have a directory each"
is "$(sed -n 's/^\(side name=[^ ]* dir=[^ ]* role=[^ ]*\).*/\1/p' "$session/session" | tr '\n' ';')" \
	"side name=host dir=host role=host;side name=g1 dir=g1 role=guest;" "... which the session names"
is "$(reason_of host) $(reason_of g1)" "control control" "... and how they ended"
is "$(stat -c %a "$session" "$session/session" "$session/g1" | tr '\n' ' ')" "700 600 700 " "... that only the owner can read"
for side in host g1; do
	ok "... $side has events" test "$(data_size "$session/$side")" -gt 60000
	is "$(tail -n 1 "$session/$side/meta" | cut -d ' ' -f 1)" end "... and its end"
done
# The host records before the guest does, and after it.
is "$(sed -s -n 's/^begin tsc=//p' "$session/host/meta" "$session/g1/meta" | sort -n | head -n 1)" \
	"$(sed -n 's/^begin tsc=//p' "$session/host/meta")" "... the host begins first"
is "$(sed -s -n 's/^stop tsc=//p' "$session/host/meta" "$session/g1/meta" | sort -n | tail -n 1)" \
	"$(sed -n 's/^stop tsc=//p' "$session/host/meta")" "... and stops last"
# All of COMMAND's loops are in both.
for side in host g1; do
	run "$kvmft" merge -q "$session/$side"
	[ "$side" = host ] || run "$kvmft" export -i "$session/$side" --to text
	is "$(all_pio)" 2000 "... $side saw all that COMMAND did"
done
nothing_left_soon "a host and a guest"

sides --guest "g1=$guest" --guest "g2=$guest" --guest-options "$opts" --guest-options 'g2:-b 512K' -d 2s
status_is 0 "two guests, for 2 s"
length=$(sed -s -n 's/^begin tsc=/-/p; s/^stop tsc=/+/p; s/^tsc khz=\([0-9]*\).*/k\1/p' "$session/g1/meta" |
	perl -ne '/k(\d+)/ ? $k = $1 : ($s += $_); END { printf "%.1f", $s / $k / 1000 }')
ok "... last about that long ($length s)" test "${length%.*}" -ge 1 -a "${length%.*}" -le 4
is "$(ls "$session" | tr '\n' ' ')" "g1 g2 host session " "... are there"
nothing_left_soon "two guests"

sides --guest "g1=$guest" --guest-options "$opts" --guest-command "$tinyvm --iterations 500"
status_is 0 "--guest-command"
is "$(reason_of g1)" command "... ends the recording"
is "$(grep -a -c 'g1: vcpu 0 io=500' "$err")" 1 "... its output is shown, with the guest's name"
nothing_left_soon "--guest-command"

sides -q --guest "g1=$guest" --guest-options "$opts -q" -d 1s
status_is 0 "--quiet"
is "$(cat "$err")" "" "... is silent"

# Words go to the guest as they are, whatever shells stand on the way.
cat >"$tmp/bin/by-shell" <<'EOF'
#!/bin/sh
exec sh -c "$*"
EOF
chmod +x "$tmp/bin/by-shell"
sides --guest "g1=$guest by-shell" --guest-options "$opts" --guest-options "-e 'kvm:kvm_pio/port == 0x80 && size == 1/'" \
	-- "$tinyvm" --iterations 500
status_is 0 "by a shell at the other end"
ok "... a filter with blanks and signs arrives" grep -q '^event .*name=kvm_pio .*filter=port' "$session/g1/meta"

# ---- guests that cannot begin ----

refused "no kvmft in the guest" 4 "there is no kvmft.*--push" --guest "g1=/usr/bin/env PATH=/usr/bin:/bin" -d 1s
refused "no such command" 4 "no-such-command" --guest "g1=no-such-command there" -d 1s
refused "a command that fails" 1 "g1: does not record" --guest "g1=false" -d 1s
cat >"$tmp/bin/as-ssh" <<'EOF'
#!/bin/sh
printf 'ssh: no such name\r\n' >&2
exit 255
EOF
chmod +x "$tmp/bin/as-ssh"
refused "a command whose lines end as those of ssh" 1 "g1: does not record: ssh: no such name$" \
	--guest "g1=$tmp/bin/as-ssh" -d 1s
refused "one that says nothing" 1 "g1: does not record: its command was started, and then nothing came from there; --guest-timeout allows more time" \
	--guest "g1=sh -c 'exec sleep 100'" --guest-timeout 2s -d 1s
nothing_left_soon "one that says nothing"
begin=$(date +%s)
refused "one that complains without end" 1 "last was said: y" \
	--guest "g1=sh -c 'timeout 60 yes >&2'" --guest-timeout 1s -d 1s
ok "... not for ever" test $(($(date +%s) - begin)) -lt 40
err_has "g1: says more than 10000 lines: the rest is not shown" "... is not shown all of it"
ok "... but no more than that" test "$(wc -l <"$err")" -lt 10020
refused "... but that it will" 1 "nothing came from there; last was said: soon; --guest-timeout" \
	--guest "g1=sh -c 'echo soon >&2; exec sleep 100'" --guest-timeout 2s -d 1s
refused "one that says why" 1 "the door is locked" --guest "g1=sh -c 'echo the door is locked >&2; exit 255'" -d 1s
refused "one that sends something else" 1 "not a stream of kvmft record" --guest "g1=sh -c 'echo hello; sleep 3'" -d 1s
refused "an event that is not there" 4 "g1: .*no_such_event" --guest "g1=$guest" --guest-events 'kvm:no_such_event' -d 1s
refused "no such option" 1 "no-such-option" --guest "g1=$guest" --guest-options '--no-such-option' -d 1s
refused "the same name twice" 2 "twice" --guest "g1=$guest" --guest "g1=$guest" -d 1s
refused "a name that is a path" 2 "directory" --guest "a/g1=$guest" -d 1s
refused "the host's name" 2 "reserved" --guest "host=$guest" -d 1s
refused "an empty command" 2 "after =" --guest "g1=" -d 1s
refused "a quote without end" 2 "quote" --guest "g1=sh -c 'x" -d 1s
refused "options of a guest that does not exist" 2 "NAME of a --guest" --guest "g1=$guest" --guest-options 'g2:-b 1M' -d 1s
refused "--output-dir" 2 "output-dir" --guest "g1=$guest" --output-dir "$tmp" -d 1s
refused "one of two" 1 "g2: does not record" --guest "g1=$guest" --guest-options "$opts" --guest "g2=false" -d 1s
nothing_left_soon "a guest that cannot begin"
mkdir "$session.x"
run "$kvmft" record -o "$session.x" --guest "g1=$guest" -d 1s
status_is 1 "a directory that exists"
err_has "exists" "... is reported"
ok "... and stays" rmdir "$session.x"

# ---- guests that fail later ----

# Something to be recorded until all is over.
"$tinyvm" --ms 900000 >"$tmp/vm.out" 2>&1 &
vm=$!

# A guest that is called like a VM of this host is that one.
"$tinyvm" --ms 900000 --name g1 >"$tmp/vm1.out" 2>&1 &
moving=$!
begin_sides --guest "g1=$guest" --guest-options "$opts" -d 8s
kill "$moving"
wait "$moving" 2>/dev/null
ended
status_is 0 "a guest whose VM goes while it is heard of"
err_has "g1: its VM .PID $moving. is gone from this host, and the guest goes on" "... has moved, which is reported"
is "$(grep -c 'is gone from this host' "$err") $(reason_of g1)" "1 control" "... once, and it is recorded to the end"

# The recorder in the guest $1, or what reaches it.
guest_pid() { pgrep -P "$recorder" -f -- "record --remote" | head -n 1; }

begin_sides --guest "g1=$guest" --guest "g2=$guest" --guest-options "$opts" -d 4s
kill -KILL "$(guest_pid)"
ended
status_is 3 "a guest is killed: exit 3"
err_has 'g1: .*what came before is in .*run/g1' "... is reported"
is "$(reason_of g1) $(reason_of g2) $(reason_of host)" "died control control" "... the others went on"
is "$(status_of g1) $(status_of g2)" "3 0" "... with their own status"
run "$kvmft" export -i "$session/g1" --to text
ok "... what came before can be read" test "$rc" -eq 3 -o "$rc" -eq 1
nothing_left_soon "a guest that is killed"

# An agent that is there and lies.
start_liar()
{
	rm -f "$tmp/liar.sock"
	perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, sockaddr_un($ARGV[0])); listen($s, 1); accept(my $c, $s);
		sysread($c, my $q, 4096); my ($id) = $q =~ /"id":(\d+)/; $SIG{PIPE} = "IGNORE";
		while ($ARGV[1] eq "others") { syswrite($c, "\377{\"return\": 5}\n" x 100) or exit } syswrite($c, "\377{\"return\": $id}\n");
		for (1 .. 1000) { sysread($c, $q, 65536) or last; syswrite($c, eval "qq\0$ARGV[1]\0") or last }' "$tmp/liar.sock" "$1" &
	liar=$!
	wait_until test -S "$tmp/liar.sock"
}

end_liar()
{
	kill "$liar" 2>/dev/null
	wait "$liar" 2>/dev/null
}

# Half a minute is waited for an answer that does not end: meanwhile a guest is silent.
start_liar x
timeout 100 "$kvmft" record --as host -e "kvm:*$ours" -o "$tmp/slow" --guest "g1=qga:$tmp/liar.sock" -d 1s >"$tmp/slow.out" 2>&1 &
slow=$!

begin_sides --guest "g1=$guest" --guest "g2=$guest" --guest-options "$opts" -d 7s
frozen=$(guest_pid)
kill -STOP "$frozen"
wait_until grep -q 'g1: nothing has come' "$err"
err_has 'g1: nothing has come from there for 5 s' "a silent guest is reported"
ended
status_is 3 "... and given up: exit 3"
err_has 'g1: was told to end and has sent nothing for 10 s' "... is reported"
is "$(reason_of g2) $(reason_of host)" "control control" "... the others went on"
kill -CONT "$frozen" 2>/dev/null

begin_sides --guest "g1=$guest" --guest "g2=$guest" --guest-options "$opts" --guest-options 'g1:-b 256K' -d 7s
frozen=$(guest_pid)
kill -STOP "$frozen"
wait_until grep -q 'g1: nothing has come' "$err"
kill -CONT "$frozen"
ended
status_is 3 "a guest that comes back: exit 3"
err_has 'g1: CPU [0-9]+ lost [0-9]+ of ' "... it says what its ring lost until then"
err_has 'g1: is back' "... is reported"
is "$(reason_of g1)" control "... and has its end"

wait "$slow"
is "$?" 1 "an agent whose answer does not end"
ok "... is not waited for" grep -qE 'no answer|is not JSON|endless' "$tmp/slow.out"
end_liar
nothing_left_soon "an agent whose answer does not end"

# A guest that fires without end and never ends, and one that takes no orders: its pipe is full.
tools=${KVMFT_TOOLS:-$top/build/tests/tools}
"$tools/mkcap" --capture "$tmp/made" "$top/tests/golden/latency-host.txt"
cat >"$tmp/bin/storm" <<EOF
#!/bin/sh
"$tools/mkstream" "capture $tmp/made" "times 20000 frame 1 0 0 text:fired\\n"
while "$tools/mkstream" "frame 7 0 0 -"; do sleep 0.2; done
EOF
cat >"$tmp/bin/deaf" <<EOF
#!/usr/bin/perl
use Fcntl;
open(my \$w, '>', '/proc/self/fd/0') or die;
fcntl(\$w, F_SETFL, O_WRONLY | O_NONBLOCK);
1 while syswrite(\$w, 'x' x 4096);
system("$tools/mkstream", "capture $tmp/made");
sleep(1) until system("$tools/mkstream", "frame 7 0 0 -");
EOF
chmod +x "$tmp/bin/storm" "$tmp/bin/deaf"
sides --guest "g1=$tmp/bin/storm" --guest "g2=$tmp/bin/deaf" --guest-timeout 400ms -d 2s
status_is 3 "guests that fire, or go on, without end, and one that takes no orders: exit 3"
ok "... the others are told once a second" \
	test "$(grep -c 'g1: its flight recorder was triggered' "$err")" -lt 10
err_has 'g1: was told to end and goes on sending .--guest-timeout allows more time.: it is given up' "... is reported"
is "$(reason_of host)" control "... the host has its end"
nothing_left_soon "guests without end"

# A guest cannot fill the host's disk.
begin_sides --guest "g1=$guest" --guest-options "$opts" --max-size 20M
ended
status_is 3 "--max-size holds for each side: exit 3"
for side in host g1; do
	ok "... for $side" test "$(data_size "$session/$side")" -le 20971520
done
nothing_left_soon "--max-size"

# ---- ends ----

begin_sides --guest "g1=$guest" --guest-options "$opts"
kill -INT "$recorder"
ended
status_is 0 "Ctrl-C ends all"
is "$(reason_of g1) $(reason_of host)" "control control" "... in order"
nothing_left_soon "Ctrl-C"

begin_sides --guest "g1=$guest" --guest-options "$opts"
frozen=$(guest_pid)
kill -STOP "$frozen"
kill -INT "$recorder"
sleep 0.5
kill -INT "$recorder"
ended
status_is 3 "a second Ctrl-C gives up a guest that does not answer"
kill -CONT "$frozen" 2>/dev/null
nothing_left_soon "a second Ctrl-C"

begin_sides --guest "g1=$guest" --guest-options "$opts"
kill -KILL "$recorder"
wait "$recorder" 2>/dev/null
recorder=
both_ended() { [ "$(sed -s -n '$p' "$session/host/meta" "$session/g1/meta" | grep -c '^end ')" = 2 ]; }
wait_until both_ended
ok "when the one that controls is killed, all sides end by themselves" both_ended
nothing_left_soon "one that is killed"

begin_sides --guest "g1=$guest" --guest-options "$opts"
kill -USR1 "$recorder"
kill -INT "$recorder"
ended
status_is 0 "SIGUSR1 is for all sides, and ends none of them"
for wrong in "--blame" "--flight-recorder --blame-options x" "--flight-recorder --blame --blame-options 'x"; do
	# shellcheck disable=SC2086 # words
	sides -d 1s --guest "g1=$guest" --guest-options "$opts" $wrong
	status_is 2 "$wrong"
done

# ---- flight recorders ----

# A line of meta that begins so, or several.
has_line() { grep -q "^$2" "$session/$1/meta"; }
tsc_of() { sed -n "s/^$2.* tsc=\([0-9]*\).*/\1/p" "$session/$1/meta" | head -n 1; }

begin_sides --flight-recorder -b 1M --guest "g1=$guest" --guest "g2=$guest" --guest-options "$opts -b 1M"
sleep 1
kill -USR1 "$(guest_pid)"
wait_until has_line host 'segment n=0 why=control'
wait_until has_line g2 'segment n=0 why=control'
ok "a guest's flight recorder is asked for: it writes out its ring" has_line g1 'segment n=0 why=signal'
ok "... the host does" has_line host 'segment n=0 why=control'
ok "... and the other guest" has_line g2 'segment n=0 why=control'
err_has 'g1: its flight recorder was triggered; all sides write out their rings' "... is reported"
khz=$(sed -n 's/^tsc khz=\([0-9]*\).*/\1/p' "$session/host/meta")
delay=$((($(tsc_of host 'segment n=0') - $(tsc_of g1 fired)) / khz))
ok "... soon ($delay ms from the guest's signal until the host has written)" test "$delay" -lt 5000
ok "... before which the guest's ring was not yet written" test "$(tsc_of g1 fired)" -lt "$(tsc_of g1 'segment n=0')"
"$kvmft" snapshot "$recorder" >"$tmp/snapshot" 2>&1
is "$?" 0 "kvmft snapshot"
ok "... says which it signalled" grep -q '^[0-9]*: told to write out its ring$' "$tmp/snapshot"
# All are told, so the host by itself or by a guest, whichever comes first.
wait_until has_line host 'segment n=1 '
ok "... the host wrote again" has_line host 'segment n=1 '
kill -INT "$recorder"
ended
status_is 0 "... what a flight recorder overwrites is no loss: exit 0"
run "$kvmft" merge -q "$session/host"
ok "what was kept can be read" test "$rc" = 0
nothing_left_soon "flight recorders"

# This machine shows no entries of vCPUs: that is what blame says of it.
begin_sides --flight-recorder -b 1M --trigger "kvm:kvm_write_tsc_offset$ours" --guest "g1=$guest" --guest-options "$opts -b 1M" \
	--blame --blame-options "--tsc-offset 0 --last '5s'"
"$tinyvm" --iterations 10 >/dev/null
wait_until has_line g1 'segment n=0 why=control'
ok "the host's trigger stops the guest, too" has_line g1 'segment n=0 why=control'
ok "... after its own" has_line host 'fired why=trigger'
wait_until grep -q '^kvmft record: ' "$err"
ok "the answer of blame comes while that goes on" kill -0 "$recorder"
# Whose guest it is nobody can tell where others have VMs: the remedy is a command line.
err_has '^kvmft record: (nothing was late|no event of a vCPU|.* name its VM: kvmft blame /.*/host /.*/GUEST=SEL\. )' \
	"... by itself"
kill -INT "$recorder"
ended
status_is 0 "... exit 0"
nothing_left_soon "a trigger"
# A remedy can be typed, whatever the session is called.
session="$tmp/my 'run'"
begin_sides --flight-recorder -b 1M --guest "g1=$guest" --guest-options "$opts -b 1M" --blame -d 300ms
ended
status_is 0 "a flight recorder that was not asked"
ok "... says how to ask what --blame would have said" grep -qF ": kvmft blame --last 1s '$tmp/my '\\''run'\\'''" "$err"
rm -rf "$session"
session=$tmp/run

# ---- by the guest agent ----

# QEMU's guest agent itself, of this machine in the place of a guest.
agent=
start_agent()
{
	rm -f "$tmp/agent.sock"
	PATH=$1:/usr/sbin:/usr/bin:/bin qemu-ga -m unix-listen -p "$tmp/agent.sock" -t "$tmp" $2 >"$tmp/agent.log" 2>&1 &
	agent=$!
	wait_until test -S "$tmp/agent.sock"
}
end_agent()
{
	kill -KILL "$agent"
	wait "$agent" 2>/dev/null
}
spools() { ls -d /dev/shm/kvmft-* 2>/dev/null | wc -l | tr -d ' '; }
kill "$vm"
wait "$vm" 2>/dev/null
vm=

if command -v qemu-ga >/dev/null; then
	before=$(spools)
	start_agent "$tmp/bin"
	sides --guest "g1=qga:$tmp/agent.sock" --guest-options "$opts" -- "$tinyvm" --iterations 20000
	status_is 0 "by the guest agent"
	for side in host g1; do
		run "$kvmft" export -q -i "$session/$side" --to text
		is "$(all_pio)" 20000 "... $side saw all that COMMAND did"
	done
	is "$(reason_of g1) $(status_of g1)" "control 0" "... and has its end"
	nothing_left_soon "by the guest agent"
	end_agent
	# An agent that runs what never begins.
	mkdir "$tmp/mute"
	printf '#!/bin/sh\nexec sleep 30\n' >"$tmp/mute/kvmft"
	chmod +x "$tmp/mute/kvmft"
	start_agent "$tmp/mute"
	refused "an agent whose kvmft never begins" 1 "g1: does not record: its agent was asked to run kvmft, and then nothing came" \
		--guest "g1=qga:$tmp/agent.sock" --guest-timeout 3s -d 1s
	end_agent
	start_agent "$tmp/bin"
	no_spools() { [ "$(spools)" = "$before" ]; }
	wait_until no_spools
	is "$(spools)" "$before" "... and no file"

	cat >"$tmp/bin/ask" <<EOF
#!/bin/sh
printf '%s' "\$2" | socat -t 9 - UNIX-CONNECT:$tmp/agent.sock
EOF
	chmod +x "$tmp/bin/ask"
	if command -v socat >/dev/null; then
		sides --guest "g1=qga:$tmp/bin/ask DOMAIN" --guest-options "$opts" -- "$tinyvm" --iterations 1000
		status_is 0 "by a command that asks the agent, as virsh"
		run "$kvmft" export -q -i "$session/g1" --to text
		is "$(all_pio)" 1000 "... all is there"
	else
		skip "by a command that asks the agent" "socat is not installed"
	fi
	refused "the agent: an event that is not there" 4 "no_such_event" --guest "g1=qga:$tmp/agent.sock" \
		--guest-events 'kvm:no_such_event' -d 1s
	begin_sides --guest "g1=qga:$tmp/agent.sock" --guest-options "$opts"
	kill -KILL "$recorder"
	wait "$recorder" 2>/dev/null
	recorder=
	nothing_left_soon "the agent: one that controls is killed"
	wait_until no_spools
	is "$(spools)" "$before" "... and no file"
	begin_sides --guest "g1=qga:$tmp/agent.sock" --guest-options "$opts" -d 3s
	end_agent
	ended
	status_is 3 "the agent is killed: exit 3"
	err_has 'g1: .*what came before is in' "... is reported"
	is "$(reason_of host)" control "... the host went on"
	nothing_left_soon "the agent is killed"
	start_agent /nowhere
	refused "the agent: no kvmft in the guest" 4 "there is no kvmft" --guest "g1=qga:$tmp/agent.sock" -d 1s
	end_agent
	start_agent "$tmp/bin" "-b guest-exec"
	refused "the agent: may not start programs" 1 "guest-exec.*disabled" --guest "g1=qga:$tmp/agent.sock" -d 1s
	end_agent
else
	skip "by the guest agent" "qemu-ga is not installed: contrib/deps.sh test"
fi
refused "no agent" 1 "cannot connect to the guest agent" --guest "g1=qga:$tmp/none.sock" -d 1s
refused "the agent: no socket named" 2 "after qga:" --guest "g1=qga:" -d 1s

# Each answer has to be refused, or to end by itself.
lies()
{
	start_liar "$1"
	# shellcheck disable=SC2086 # options
	refused "an agent that answers $2" 1 "$3" ${4:-} --guest "g1=qga:$tmp/liar.sock" -d 1s
	end_liar
}
lies 'hello\n' "text" 'is not JSON'
lies others "others, and them without end" 'endless answers to other requests'
lies '{}\n' "nothing" 'not a valid answer'
lies '{\"return\": {\"pid\": \"x\"}}\n' "no number" 'not a valid answer'
lies '{\"error\": {\"desc\": \"go away\"}}\n' "with an error" 'go away'
lies '@{[q(a) x 3000000]}' "3 MB" 'endless'
lies '{\"return\": {\"pid\": 1, \"exited\": true, \"exitcode\": 0}}\n' "too much" 'nothing arrived|not a valid answer|does not record'

# ---- --push ----

# One that never answers, one that never ends to, and one that closes its output, and does not end.
printf '#!/bin/sh\ntrap "" TERM\nsleep 30 & wait; wait; sleep 30\n' >"$tmp/silent"
printf '#!/bin/sh\nexec yes Linux\n' >"$tmp/endless"
printf '#!/bin/sh\nexec >&- 2>&-\nexec sleep 30\n' >"$tmp/closed"
chmod 755 "$tmp/silent" "$tmp/endless" "$tmp/closed"
for how in silent endless closed; do
	refused "--push to a guest that is $how" 1 "g1: no program could be copied there within 3" \
		--push --guest "g1=$tmp/$how" --guest-timeout 1s -d 1s
	is "$(pgrep -f "g1=$tmp/$how")" "" "... and no process of ours is left"
done

static=$top/build/static/kvmft
# A directory of a program, or of what passes through files: it belongs to a recorder.
brought() { find /dev/shm /run /tmp /var/tmp -maxdepth 1 -name 'kvmft-[0-9a-f]*' 2>/dev/null | grep -E -c '/kvmft-[0-9a-f]{32}$'; }
nothing_brought() { [ "$(brought)" = "$before" ]; }
is_brought() { find /dev/shm -maxdepth 2 -path '*/kvmft-*/kvmft-*' -size +100k 2>/dev/null | grep -q .; }
pushed()
{
	status_is 0 "--push $1"
	ok "... brings a program that records" test "$(data_size "$session/g1")" -gt 60000
	wait_until nothing_brought
	is "$(brought)" "$before" "... and leaves nothing"
}
push="--push --push-file $static"
if [ -x "$static" ]; then
	before=$(brought)
	sides --guest "g1=/usr/bin/env PATH=/usr/bin:/bin" $push --guest-options "$opts" -- "$tinyvm" --iterations 500
	pushed "by a command"
	refused "--push-file of a program that is not static" 1 "not a static program" --push --push-file "$tinyvm" \
		--guest "g1=$guest" -d 1s
	if command -v qemu-ga >/dev/null; then
		start_agent /nowhere
		sides --guest "g1=qga:$tmp/agent.sock" --guest "g2=/usr/bin/env PATH=/usr/bin:/bin" $push --guest-options "$opts" \
			-- "$tinyvm" --iterations 500
		pushed "by the guest agent, and by a command at once"
		ok "... in both guests" test "$(data_size "$session/g2")" -gt 60000
		refused "--push: what is wrong later" 1 "no-such-option" $push --guest "g1=qga:$tmp/agent.sock" \
			--guest-options --no-such-option -d 1s
		is "$(brought)" "$before" "... leaves nothing, either"
		# Whoever starts it goes while the program is on its way.
		for sig in TERM KILL; do
			"$kvmft" record --as host -o "$session" --guest "g1=qga:$tmp/agent.sock" $push -d 1s >"$out" 2>"$err" </dev/null &
			recorder=$!
			wait_until is_brought
			ok "--push and SIG$sig: the program is there" is_brought
			kill -$sig "$recorder"
			ended
			wait_until nothing_brought
			is "$(brought)" "$before" "... and then it is not"
			rm -rf "$session"
		done
		end_agent
		lies '{\"return\": {\"pid\": 1, \"exited\": true, \"exitcode\": 0, \"out-data\": \"TGludXggeDg2XzY0\"}}\n' \
			"that each program went well" 'guest-file-open: not a valid answer' "$push"
		for what in guest-exec guest-file-write; do
			start_agent /nowhere "-b $what"
			refused "--push where $what is not allowed" 1 "$what.*disabled" $push --guest "g1=qga:$tmp/agent.sock" -d 1s
			is "$(brought)" "$before" "... leaves nothing"
			end_agent
		done
		if command -v socat >/dev/null; then
			start_agent /nowhere
			sides --guest "g1=qga:$tmp/bin/ask DOMAIN" $push --guest-options "$opts" -- "$tinyvm" --iterations 500
			pushed "by a command that asks the agent, as virsh"
			end_agent
		fi
	else
		skip "--push by the guest agent" "qemu-ga is not installed: contrib/deps.sh test"
	fi
else
	skip "--push" "no $static: make check-all builds one"
fi
refused "--push-file without --push" 2 "goes with --push" --push-file /bin/true --guest "g1=$guest" -d 1s
refused "--push to something that is no Linux" 4 "does not say Linux" --push --guest "g1=echo" -d 1s
finish
