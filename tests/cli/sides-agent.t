#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records its own
#
# `kvmft record --guest` by a guest's agent, with agents that lie, and --push. What holds of any guest is in sides.t.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording "sides by the guest agent"
. "$(dirname "$0")/sideslib.sh"

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
	without_g1 "an agent whose kvmft never begins" "g1: does not record: its agent was asked to run kvmft, and then nothing came" \
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
	without_g1 "the agent: an event that is not there" "no_such_event" --guest "g1=qga:$tmp/agent.sock" \
		--guest-options '-e kvm:no_such_event' -d 1s
	begin_sides --guest "g1=qga:$tmp/agent.sock" --guest-options "$opts"
	kill -KILL "$recorder"
	wait "$recorder" 2>/dev/null
	recorder=
	nothing_left_soon "the agent: one that controls is killed"
	wait_until no_spools
	is "$(spools)" "$before" "... and no file"
	# What passes its stream on, while nobody reads that, must notice that nobody ever will.
	begin_sides --guest "g1=qga:$tmp/agent.sock" --guest-options "$opts"
	"$tinyvm" --ms 600000 >/dev/null &
	vm=$!
	kill -STOP $(pgrep -P $recorder -x kvmft-store)
	full() { for relay in $(pgrep -P $recorder); do grep -q pipe_write "/proc/$relay/wchan" && return; done; }
	ok "the agent: its stream fills the pipe" wait_until full
	kill -KILL $recorder $(pgrep -P $recorder -x kvmft-store)
	kill $vm
	wait $recorder $vm 2>/dev/null
	recorder=
	ok "... and it ends when those are killed that control and store" wait_until sh -c "! kill -0 $relay 2>/dev/null"
	nothing_left_soon "the agent: one that controls and one that stores are killed"
	begin_sides --guest "g1=qga:$tmp/agent.sock" --guest-options "$opts" -d 3s
	end_agent
	ended
	status_is 3 "the agent is killed: exit 3"
	err_has 'g1: .*what came before is in' "... is reported"
	is "$(reason_of host)" control "... the host went on"
	nothing_left_soon "the agent is killed"
	start_agent /nowhere
	without_g1 "the agent: no kvmft in the guest" "there is no kvmft" --guest "g1=qga:$tmp/agent.sock" -d 1s
	end_agent
	start_agent "$tmp/bin" "-b guest-exec"
	without_g1 "the agent: may not start programs" "guest-exec.*disabled" --guest "g1=qga:$tmp/agent.sock" -d 1s
	end_agent
else
	skip "by the guest agent" "qemu-ga is not installed: contrib/deps.sh test"
fi
without_g1 "no agent" "cannot connect to the guest agent" --guest "g1=qga:$tmp/none.sock" -d 1s
refused "the agent: no socket named" 2 "after qga:" --guest "g1=qga:" -d 1s
refused "... nor a colon" 2 "after qga:" --guest "g1=qga" -d 1s

# Each answer has to be refused, or to end by itself.
lies()
{
	start_liar "$1"
	# shellcheck disable=SC2086 # options
	if [ -n "${4:-}" ]; then # the program is brought before anything is recorded
		refused "an agent that answers $2" 1 "$3" $4 --guest "g1=qga:$tmp/liar.sock" -d 1s
	else
		without_g1 "an agent that answers $2" "$3" --guest "g1=qga:$tmp/liar.sock" -d 1s
	fi
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
push="--push=$static"
if [ -x "$static" ]; then
	before=$(brought)
	sides --guest "g1=/usr/bin/env PATH=/usr/bin:/bin" $push --guest-options "$opts" -- "$tinyvm" --iterations 500
	pushed "by a command"
	refused "--push of a program that is not static" 1 "not a static program" --push="$tinyvm" \
		--guest "g1=$guest" -d 1s
	if command -v qemu-ga >/dev/null; then
		start_agent /nowhere
		sides --guest "g1=qga:$tmp/agent.sock" --guest "g2=/usr/bin/env PATH=/usr/bin:/bin" $push --guest-options "$opts" \
			-- "$tinyvm" --iterations 500
		pushed "by the guest agent, and by a command at once"
		ok "... in both guests" test "$(data_size "$session/g2")" -gt 60000
		without_g1 "--push: what is wrong later" "no-such-option" $push --guest "g1=qga:$tmp/agent.sock" \
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
refused "--push to something that is no Linux" 4 "does not say Linux" --push --guest "g1=echo" -d 1s
finish
