# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Recording while CPUs come and go, on a kernel with kprobes, histograms and 4K sub-buffers only.

. "$VM_LIB/host.sh"

need_kvmft
cpu1=/sys/devices/system/cpu/cpu1/online
cap=/tmp/cap

# busy SECONDS: a task on CPU 1 that sleeps and wakes.
busy()
{
	taskset 2 sh -c 'i=0; while [ $i -lt 20 ]; do sleep 0.05; i=$((i + 1)); done'
}

has_cpu1()
{
	grep -q 'CPU 1 came online' /tmp/rec.err
}

begun()
{
	grep -q '^begin ' "$cap/meta"
}

check "CPU 1 can be taken away" sh -c "echo 0 >$cpu1"
"$KVMFT" record --as host -e sched:sched_switch -o "$cap" 2>/tmp/rec.err &
recorder=$!
check "recording with CPU 1 away" wait_until 60 begun
echo 1 >"$cpu1"
check "it comes up and is recorded from then on" wait_until 10 has_cpu1
busy
check "it goes down while it is drained" sh -c "echo 0 >$cpu1"
sleep 1
check "the recorder goes on" kill -0 "$recorder"
echo 1 >"$cpu1"
busy
kill -INT "$recorder"
wait "$recorder"
check "it ends well" same "$?" 0
read1=$(sed -n 's/^stats when=end cpu=1 .* read=\([0-9]*\).*/\1/p' "$cap/meta")
check "CPU 1 has events ($read1)" test "$read1" -gt 40
"$KVMFT" merge "$cap" >/tmp/merged 2>/tmp/merged.err
check "the capture can be read, nothing is missing" same "$?" 0
check "... all events of CPU 1" same "$(grep -cE '\[0*1\] ' /tmp/merged)" "$read1"
check "no instance is left" test -z "$(ls /sys/kernel/tracing/instances)"
cat /tmp/rec.err
finish
