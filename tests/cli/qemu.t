#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: timing
#
# `kvmft qemu events|set|trace-file` against monitors that lie (tests/tools/fakemon.c), and against
# a QEMU without a machine.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/qemulib.sh"

fakemon=${KVMFT_TOOLS:-$top/build/tests/tools}/fakemon
hello='{"QMP": {"version": {"qemu": {"micro": 1, "minor": 2, "major": 9}, "package": ""}, "capabilities": []}}\r\n'
caps='{"return": {}}\r\n'
version='{"return": {"qemu": {"micro": 1, "minor": 2, "major": 9}, "package": "x"}}\r\n'
event='{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RTC_CHANGE", "data": {"offset": 1}}\r\n'
three='{"return": [{"name": "b_one", "vcpu": false, "state": "disabled"}, {"name": "a_two", "vcpu": true, "state": "enabled"}, {"name": "c_out", "vcpu": false, "state": "unavailable"}]}\r\n'

# fake STEP...: a fake monitor at $sock; fake_said has what it was told, after its end.
sock=$tmp/fake.sock
fake()
{
	rm -f "$sock"
	"$fakemon" "$sock" "$@" >"$tmp/said" &
	fake_pid=$!
	wait_until listens "$sock" "$sock"
}

fake_end()
{
	kill "$fake_pid" 2>/dev/null
	wait "$fake_pid" 2>/dev/null
}

# told NAME PATTERN ARGUMENT...: fails with one line that has PATTERN; the fake monitor runs.
told()
{
	name=$1
	pattern=$2
	shift 2
	run timeout 300 "$kvmft" qemu "$@"
	status_is 1 "$name"
	err_has "$pattern" "... is reported"
	err_one_line "$name"
	fake_end
}

# ---- QMP that behaves ----

fake "$hello" @wait "$event" "$caps" @wait "$version$event" @wait "$event$three" @hold
run "$kvmft" qemu events --monitor "$sock"
status_is 0 "QMP: events, with unrequested messages in between"
is "$(cat "$out")" "enabled      a_two  (vcpu)
disabled     b_one
unavailable  c_out" "... by name, with state and property"
fake_end
is "$(sed 's/.*execute":"\([a-z_-]*\)".*/\1/' "$tmp/said" | tr '\n' ' ')" \
	"qmp_capabilities query-version trace-event-get-state " "... and asked for no more than that"

fake "$hello" @sleep=400 @wait "$caps" @sleep=400 @wait "$version" @wait @sleep=400 "$three" @hold
run "$kvmft" qemu events --monitor "$sock" --format csv b_one
status_is 0 "late answers within the time limit"
is "$(cat "$out")" "name,state,vcpu
b_one,disabled,0" "... are as good as others"
fake_end

# One object over many lines, as -qmp-pretty writes; and cut in the middle of everything.
fake '{\r\n  "QMP"' ': {}\r\n}\r\n' @wait '{"ret' 'urn": {} }' @wait "$version" @wait \
	'{"return": [{"name": "pre' @sleep=100 'tty", "state": "enabled"}]' '}\r\n' @hold
run "$kvmft" qemu events --monitor "$sock" --format json
status_is 0 "pretty and in pieces"
out_has '"name":"pretty","state":"enabled"' "... is understood"
fake_end

# ---- QMP that does not ----

fake @deaf
told "no greeting" "busy: no greeting within 5 s, so another client" events --monitor "$sock"
fake "$hello" @wait @hold
told "no answer" "no complete answer within 5 s" events --monitor "$sock"
fake "$hello" @wait "$caps" @wait "$version" @wait '{"return": [{"name": "b_' @hold
told "half an answer" "no complete answer within 5 s" events --monitor "$sock"
fake "$hello" @wait "$caps" @wait "$version" @wait "@endless=$event"
told "messages without end" "no complete answer within 5 s|never stops sending" events --monitor "$sock"
fake "$hello" @wait "$caps" @wait "$version" @wait '{"return": [' '@endless={"name": "x", "state": "enabled"}, '
told "an answer without end" "never stops sending|no complete answer" events --monitor "$sock"
fake "$hello" @wait "$caps" @wait "$version" @wait
told "hangs up" "QEMU has closed the connection" events --monitor "$sock"
fake ''
told "hangs up at once" "QEMU has closed the connection" events --monitor "$sock"
fake 'HTTP/1.1 400 Bad Request\r\n' @hold
told "something else" "what came is not QMP: 'HTTP/1.1 400 Bad Request'" events --monitor "$sock"
fake '{"QMP": 01}\r\n' @hold
told "broken JSON" "what came is not JSON" events --monitor "$sock"
fake '{"hello": 1}\r\n' @hold
told "another greeting" "not the greeting of QMP" events --monitor "$sock"
fake "$hello" @wait "$caps" @wait "$version" @wait '{"return": {}, "id": 99}\r\n' @hold
told "an answer to something else" "a command that was not sent" events --monitor "$sock"
fake "$hello" @wait "$caps" @wait "$version" @wait '{"return": {"a": 1}}\r\n' @hold
told "no list" "the events are not a list" events --monitor "$sock"
fake "$hello" @wait "$caps" @wait "$version" @wait '{"return": [{"name": "x", "state": "drunk"}]}\r\n' @hold
told "a state that there is not" "not an event" events --monitor "$sock"
fake "$hello" @wait "$caps" @wait "$version" @wait \
	'{"error": {"class": "CommandNotFound", "desc": "no \\u001b[31msuch thing"}}\r\n' @hold
told "an error, with control characters" "QEMU refused trace-event-get-state" events --monitor "$sock"
is "$(tr -dc '\033' <"$err" | wc -c | tr -d ' ')" 0 "... which do not reach the terminal"
deep=$(awk 'BEGIN { for (i = 0; i < 2000; i++) printf "[" }')
fake "$hello" @wait "$deep" @hold
told "nested without end" "no complete answer|not JSON" events --monitor "$sock"

# ---- set: all or nothing ----

fake "$hello" @wait "$caps" @wait "$three" @hold
told "set: an event that there is not" "has no event b_onne \(did you mean b_one\?\)" \
	set --monitor "$sock" b_one on b_onne off
is "$(grep -c set-state "$tmp/said")" 0 "... and nothing was switched"
fake "$hello" @wait "$caps" @wait "$three" @hold
told "set: an event that was compiled out" "c_out was compiled out of this QEMU \(property disable" \
	set --monitor "$sock" c_out on
fake "$hello" @wait "$caps" @wait '{"return": [{"name": "mem_trans", "state": "disabled"}, {"name": "mem_exec", "state": "disabled"}]}' @hold
told "set: the name of a tcg event" "mem has property tcg, .* mem_trans when .* mem_exec when" \
	set --monitor "$sock" mem on
# The second switch fails: the first one is taken back.
fake "$hello" @wait "$caps" @wait "$three" @wait "$caps" @wait '{"error": {"desc": "no"}}' @wait \
	'{"return": [{"name": "b_one", "state": "enabled"}, {"name": "a_two", "state": "enabled"}]}' @wait "$caps" @hold
told "set: QEMU fails in the middle" "QEMU refused trace-event-set-state: no; the former states were restored" \
	set --monitor "$sock" b_one on a_two off
is "$(grep -o 'b_one","enable":[a-z]*' "$tmp/said" | tr '\n' ' ')" 'b_one","enable":true b_one","enable":false ' \
	"... and they were"
fake "$hello" @wait "$caps" @wait "$three" @wait "$caps" @wait
told "set: QEMU goes in the middle" "closed the connection, or has ended; the former states could not be restored" \
	set --monitor "$sock" b_one on a_two off

# ---- HMP ----

greet="QEMU 9.2.1 monitor - type 'help' for more information\\r\\n(qemu) "
fake "$greet" @wait 'i\e[K\e[Dinfo version\e[K\r\n9.2.1v9\r\n(qemu) ' @wait \
	'info trace-events\e[K\r\nb : state 1\r\na : state 0\r\n(qe' @sleep=50 'mu) ' @hold
run "$kvmft" qemu events --monitor "$sock"
status_is 0 "HMP: events"
is "$(cat "$out")" "disabled     a
enabled      b" "... echo and prompt are left out"
fake_end
fake "$greet" @wait 'x\r\n9.2.1\r\n(qemu) ' @wait "x\\r\\nunknown command: 'info'\\r\\n(qemu) " @hold
told "HMP: no events" "not an event: 'unknown command" events --monitor "$sock"
fake "$greet" @wait '@endless=abc\n'
told "HMP: output without end" "never stops sending|no complete answer" events --monitor "$sock"
fake "$greet" @wait 'x\r\n9.2'
told "HMP: hangs up" "closed the connection" events --monitor "$sock"
fake 'login: ' @hold
told "HMP: something else" "what came is not QMP: 'login: '" events --monitor "$sock"
fake 'Quit' @hold
told "HMP: something like it" "not the greeting of QEMU's monitor: 'Quit'|no complete answer|no greeting" events --monitor "$sock"

# ---- trace-file, of a QEMU with back end simple ----

on='trace-file\r\nTrace file "/tmp/a b" on.\r\n(qemu) '
off='trace-file\r\nTrace file "/tmp/a b" off.\r\n(qemu) '
fake "$greet" @wait "$on" @hold
run "$kvmft" qemu trace-file --monitor "$sock"
is "$rc $(cat "$out")" '0 Trace file "/tmp/a b" on.' "trace-file: which one"
fake_end
fake "$greet" @wait "$off" @wait 'set\r\n(qemu) ' @wait "$off" @hold
run "$kvmft" qemu trace-file --monitor "$sock" set '/tmp/a "b\'
status_is 0 "trace-file set"
fake_end
is "$(sed -n 2p "$tmp/said")" 'trace-file set "/tmp/a \"b\\"' "... quotes what HMP would misread"
fake "$greet" @wait "$off" @wait 'on\r\n(qemu) ' @wait "$on" @hold
run "$kvmft" qemu trace-file --monitor "$sock" on
status_is 0 "trace-file on"
err_has "started the file anew: its former contents are gone" "... says what that means"
fake_end
fake "$greet" @wait "$off" @wait 'on\r\n(qemu) ' @wait "$off" @hold
told "trace-file on, which fails" "could not start the file" trace-file --monitor "$sock" on

# ---- usage ----

usage()
{
	name=$1
	pattern=$2
	shift 2
	run "$kvmft" qemu "$@"
	status_is 2 "$name"
	err_has "$pattern" "... is reported"
}

usage "set without anything" "nothing to switch" set
usage "set without on or off" "'a' must be followed by on or off" set a
usage "set with something else" "'a' must be followed by on or off, not 'maybe'" set a maybe
usage "a name that cannot exist" "'a b' cannot name a trace event" set "a b" on
usage "two monitors" "exclude each other" events --monitor a --vm b
usage "trace-file, unknown word" "not on, off, flush" trace-file maybe
usage "trace-file set without a path" "set needs one PATH" trace-file set
usage "a line end in a path" "control characters" trace-file set "$(printf 'a\nquit')"
printf 'good\nb ad\n' >"$tmp/events"
usage "a bad line in a file" "events, line 2: 'b ad' cannot name" set events="$tmp/events"
printf '# nothing\n\n' >"$tmp/events"
run "$kvmft" qemu set events="$tmp/events"
status_is 1 "a file without patterns"
err_has "there is no pattern in" "... is reported"
run "$kvmft" qemu set events="$tmp/nosuch"
status_is 1 "a file that is not there"
run "$kvmft" qemu events --monitor "$tmp/nosuch"
status_is 1 "a socket that is not there"
err_has "there is no such socket" "... is reported"
run "$kvmft" qemu events --monitor "$tmp/events"
err_has "nothing listens there" "a file that is not a socket"
long=$(awk 'BEGIN { for (i = 0; i < 120; i++) printf "x" }')
run "$kvmft" qemu events --monitor "$tmp/$long"
err_has "a socket's path has at most 107 bytes" "a path that is too long"

# ---- a real one ----

if ! have_qemu; then
	skip "a real QEMU" "no qemu-system-x86_64 here"
	finish
fi
mkdir "$tmp/dir"
qemu_start "$tmp/dir" -qmp unix:qmp.sock,server=on,wait=off \
	-chardev "socket,path=$tmp/dir/h,,mp.sock,id=x,server=on,wait=off" -mon x
run "$kvmft" qemu events --vm "$vm_name" --format json 'virtio_blk_*'
status_is 0 "QEMU $qemu_version: events by the VM's name, a socket relative to QEMU's directory"
out_has "\"version\":\"$qemu_version" "... reports its version"
out_has '"name":"virtio_blk_handle_read","state":"disabled"' "... and the states"
is "$(states --vm "$vm_name")" "$(states --monitor "$tmp/dir/h,mp.sock")" "QMP and HMP agree which are on"
run "$kvmft" qemu set --vm "$qemu_pid" 'virtio_blk_*' on 'virtio_blk_r?_complete' off 'virtio_blk_data*' off
status_is 0 "set with wildcards"
is "$(states --vm "$vm_name")" "$(events_called "^virtio_blk_" "^virtio_blk_(data|r._complete)")" \
	"... the last one that matches counts"
run "$kvmft" qemu set --vm "$vm_name" 'virtio_blk_data*' off 'virtio_blk_*' on
is "$(states --vm "$vm_name" | wc -w | tr -d ' ')" "$("$kvmft" qemu events --vm "$vm_name" 'virtio_blk_*' | wc -l | tr -d ' ')" \
	"... so order matters"
printf '# off first\n-virtio_*\n\n  vm_state_notify \r\n-runstate*\nvirtio_notify\n-virtio_notify_irqfd*' >"$tmp/events"
for how in "--vm $vm_name" "--monitor $tmp/dir/h,mp.sock"; do
	run "$kvmft" qemu set --vm "$vm_name" '*' off virtio_pci_notify_write on
	# shellcheck disable=SC2086 # option and argument
	run "$kvmft" qemu set $how events="$tmp/events" runstate_set on
	status_is 0 "set ${how%% *}: from a file and operands"
	is "$(states --vm "$vm_name")" "runstate_set virtio_notify vm_state_notify " \
		"... in the file's order, operands last"
done
run "$kvmft" qemu set --vm "$vm_name" virtio_blk_handel_read on
status_is 1 "an event that this QEMU does not have"
err_has "did you mean virtio_blk_handle_read" "... is reported, with the nearest"
run "$kvmft" qemu set --vm "$vm_name" 'virtio_nosuch_*' on
status_is 0 "a wildcard that matches nothing"
err_has "no event matches 'virtio_nosuch_\*'" "... is reported"
gone=$("$kvmft" qemu events --vm "$vm_name" | awk '/^unavailable/ { print $2; exit }')
if [ -n "$gone" ]; then
	run "$kvmft" qemu set --monitor "$tmp/dir/h,mp.sock" "$gone" on
	status_is 1 "HMP: an event that was compiled out"
	err_has "$gone stays off: it was compiled out" "... is seen by its staying off"
fi
if ! strings_has "$(command -v qemu-system-x86_64)" trace-file; then
	run "$kvmft" qemu trace-file --vm "$vm_name"
	status_is 4 "trace-file of a QEMU without back end simple"
	err_has "no trace back end 'simple'" "... is reported"
fi
# While somebody else is served HMP answers; while both are, nothing does.
hold_socket "$tmp/dir/qmp.sock"
run "$kvmft" qemu events --vm "$vm_name" virtio_notify
is "$rc $(cat "$out")" "0 enabled      virtio_notify" "QMP is held by another client: HMP is used"
run "$kvmft" qemu events --monitor "$tmp/dir/qmp.sock"
status_is 1 "... but not when QMP was asked for"
err_has "busy: no greeting within 5 s" "... which is reported"
unhold_socket
qemu_stop
run "$kvmft" qemu events --monitor "$tmp/dir/qmp.sock"
status_is 1 "a QEMU that has ended"
run "$kvmft" qemu events --vm "$vm_name"
ok "... is not found by name either" test "$rc" -ne 0
qemu_start "$tmp/dir"
run "$kvmft" qemu events --vm "$vm_name"
status_is 1 "a QEMU without a monitor"
err_has "its command line has no monitor; start it with -qmp unix:PATH,server=on,wait=off" "... is reported, with the remedy"
qemu_stop
qemu_start "$tmp/dir" -monitor "unix:$tmp/dir/mon.sock,server,nowait" -serial mon:null
run "$kvmft" qemu events --vm "$vm_name" virtio_notify
is "$rc $(cat "$out")" "0 disabled     virtio_notify" "old spelling: -monitor unix:PATH,server,nowait"
qemu_stop
finish
