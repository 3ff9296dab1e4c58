# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # variables of lib.sh and vmlib.sh
#
# For the .t files of `kvmft record --guest`. Source it after need_recording.

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
	run timeout 300 "$kvmft" record --as host -e "kvm:*$ours" -o "$session" "$@"
}

begin_sides()
{
	rm -rf "$session"
	"$kvmft" record --as host -e "kvm:*$ours" -o "$session" "$@" >"$out" 2>"$err" </dev/null &
	recorder=$!
	wait_until all_live "$session"
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

# without_g1 NAME MESSAGE OPTION...: what the host recorded is kept, and no guest's.
without_g1()
{
	name=$1
	message=$2
	shift 2
	sides "$@"
	status_is 3 "$name: the host is kept, exit 3"
	err_has "$message" "... is reported"
	is "$(ls "$session" | tr '\n' ' ')$(tail -n 1 "$session/host/meta" | cut -d ' ' -f 1)" "host session end" "... and the host's capture is whole"
}

# guest_pid NAME: the recorder in the guest, or what reaches it. Not the first of several: after the
# last process number come the lowest again.
guest_pid()
{
	for p in $(pgrep -P "$recorder" -f -- "record --remote"); do
		! tr '\0' '\n' <"/proc/$p/environ" | grep -qx "SIDE=$1" || echo "$p"
	done
}

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
