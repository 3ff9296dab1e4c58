# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# The flight recorder whose trigger is an exit that lasts longer than a bound: a VM that is stopped for
# a while (so its vCPU comes back late), a filter that does not match, and a recorder that is killed
# with all that it has set in the kernel.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

need_kvmft
cd /tmp || die "no /tmp"
tinyvm_make /tmp/tinyvm
tracefs_state >/tmp/state.before
tinyvm_pid=

begun()
{
	grep -qs '^begin ' "$1/meta"
}

triggers()
{
	grep -c '^segment n=.* why=trigger' "$1/meta"
}

# flight NAME TRIGGER: a recorder, running; its PID in $recorder.
flight()
{
	"$KVMFT" record --as host -e kvm:kvm_exit -e kvm:kvm_entry --flight-recorder -b 256K -o "$1" \
		--trigger "$2" 2>"$1.err" &
	recorder=$!
	wait_until 30 begun "$1" || die "$1: $(cat "$1.err")"
}

# A vCPU stays out for 4 s. Emulation also stops one now and then, but not for 3 s.
flight late exit-longer=3s
late=$recorder
flight never 'exit-longer=3s/exit_reason == 0xfffe/'
never=$recorder
/tmp/tinyvm --pause 3500000 --iterations 2 >/tmp/idle.out 2>&1
check "halts of 3.5 s, as an idle vCPU has them, do not count" same "$(grep -c 'hlt=2' /tmp/idle.out) $(triggers late)" "1 0"
# Nothing but out: never halted.
/tmp/tinyvm --code e680ebfc --ms 20000 >/tmp/vm.out 2>&1 &
tinyvm_pid=$!
sleep 3
before=$(triggers late)
kill -STOP $tinyvm_pid
sleep 4
kill -CONT $tinyvm_pid
told()
{
	[ "$(triggers late)" -gt "$before" ]
}
check "an exit of 4 s is more than 3 s: the ring is written out" wait_until 20 told
check "... and none from before" same "$before" 0
sleep 1
kill -INT $late
wait $late
check "... the recorder ends well" same $? 0
check "... one segment, by the trigger" same "$(grep -c '^segment ' late/meta) $(triggers late)" "1 1"
kill -INT $never
wait $never
check "a filter that no exit matches: ends well" same $? 0
check "... no trigger" same "$(triggers never)" 0
cat late.err never.err | sed 's/^/# /'
"$KVMFT" merge late >late.txt 2>late.note
check "the capture can be read" test "$(wc -l <late.txt)" -gt 10
check "... and ends with the late entry" sh -c 'tail -n 1 late.txt | grep kvm:kvm_entry'
{ tail -n 3 late.txt; cat late.note; } | cut -c 1-100 | sed 's/^/# /'

tar -cf "$RESULTS/flight.tar" -C /tmp late

# Killed: the watcher removes the instance and what its triggers need.
flight killed exit-longer=1s
kill -KILL $recorder
wait $recorder 2>/dev/null
gone()
{
	[ -z "$(ls /sys/kernel/tracing/instances)" ] && [ -z "$(cat /sys/kernel/tracing/synthetic_events)" ]
}
check "killed: instance and synthetic event are removed" wait_until 20 gone
kill -KILL $tinyvm_pid
tracefs_state >/tmp/state.after
check "tracefs is as it was" diff /tmp/state.before /tmp/state.after
finish
