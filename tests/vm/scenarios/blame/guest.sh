# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Records, and does what the host asks for: in_guest there.

. "$VM_LIB/guest.sh"

# shellcheck disable=SC2034 # commands of the host use them
tools=$(dirname "$KVMFT")/tests/tools
# A script is called by its own name in the kernel.
cat >/tmp/victim <<'END_VICTIM'
#!/bin/sh
while :; do :; done
END_VICTIM
chmod +x /tmp/victim
cp /tmp/victim /tmp/other

# The memory that the host maps slowly, and the one that it takes away.
shared='' taken=''
for dev in /sys/bus/pci/devices/*; do
	[ "$(cat "$dev/vendor"):$(cat "$dev/device")" = 0x1af4:0x1110 ] || continue
	[ -n "$shared" ] && taken=$dev/resource2 || shared=$dev/resource2
done
note "memory of the host's: $shared, $taken"

"$KVMFT" record -o /tmp/guest -b 16M --symbols ${EVENTS:+-e default} ${EVENTS:+-e "$EVENTS"} 2>/tmp/guest.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/guest/meta || die "recording did not start: $(cat /tmp/guest.err)"
# shellcheck disable=SC2034
marker=$(ls /sys/kernel/tracing/instances/kvmft.*/trace_marker)
flag_set guest-records

number=1
while :; do
	flag_wait "ask-$number" 300
	command=$(flag_get "ask-$number")
	[ "$command" != end ] || break
	note "$command"
	eval "$command" || fail "guest: $command"
	flag_set "did-$number"
	number=$((number + 1))
done
kill -TERM "$recorder"
wait "$recorder"
check "guest: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/guest.err
tar -cf "$RESULTS/guest.tar" -C /tmp guest
flag_set guest-done
flag_wait host-done
finish
