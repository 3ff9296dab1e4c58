# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

tools=$(dirname "$KVMFT")/tests/tools
# A script is called by its own name in the kernel.
cat >/tmp/victim <<'END'
#!/bin/sh
while :; do :; done
END
chmod +x /tmp/victim
cp /tmp/victim /tmp/other

shared=
for dev in /sys/bus/pci/devices/*; do
	[ "$(cat "$dev/vendor"):$(cat "$dev/device")" != 0x1af4:0x1110 ] || shared=$dev/resource2
done
note "the memory that the host maps slowly: ${shared:-none}"

"$KVMFT" record -o /tmp/guest -b 16M 2>/tmp/guest.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/guest/meta || die "recording did not start: $(cat /tmp/guest.err)"
flag_set guest-records

taskset -c 0 /tmp/victim &
victim=$!
flag_set victim
# With the victim on vCPU 0: what the host does to it, and a task of its own guest.
flag_wait sched 120
"$tools/rob" busy hog 0 "$MS" "$TIMES" >/dev/null || fail "guest: rob"
flag_set sched-done
flag_wait sibling 120
taskset -c 1 /tmp/other &
other=$!
flag_wait sibling-done 120
kill "$other" "$victim"
wait "$other" "$victim" 2>/dev/null
flag_set quiet

flag_wait irqsoff 120
off=$(taskset -c 0 "$tools/irqsoff" "$MS" "$TIMES")
check "guest: interrupts were off" same "$?" 0
note "irqsoff: $off"
flag_set irqsoff-done

flag_wait write 120
dd if=/dev/zero of=/dev/vda bs=4k count="$TIMES" oflag=direct 2>/dev/null
flag_set write-done
flag_wait disk 120
check "guest: the slow disk is read" dd if=/dev/vdb of=/dev/null bs=4k count="$TIMES" iflag=direct
flag_set disk-done
flag_wait touch 120
check "guest: the slow memory is read" taskset -c 0 "$tools/plant" touch "$shared" "$TIMES" "$MS"
flag_set touch-done
flag_wait port 120
taskset -c 0 "$tools/plant" port 60000 &
port=$!
flag_set port-runs
flag_wait port-done 120
kill "$port"
# A program tells its own deadline.
marker=$(ls /sys/kernel/tracing/instances/kvmft.*/trace_marker)
flag_wait marker 120
for i in $(seq "$TIMES"); do
	taskset -c 0 "$tools/plant" mark "$marker" "begin of $i"
	sleep 0.1
	taskset -c 0 "$tools/plant" mark "$marker" "end of $i"
done
flag_set marker-done
flag_wait idle-done 120
kill -TERM "$recorder"
wait "$recorder"
check "guest: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/guest.err
tar -cf "$RESULTS/guest.tar" -C /tmp guest
flag_set guest-done
flag_wait host-done
finish
