# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Two vCPUs of a small VM that sleep often, on two CPUs with four that want them all the time, recorded. Leaves host.tar,
# and as a fact how long the kernel says that the vCPUs wanted a CPU meanwhile (schedstat's run_delay).

. "$VM_LIB/host.sh"

need_kvmft
tinyvm_make /tmp/tinyvm
/tmp/tinyvm --ms 3600000 --vcpus 2 --cpuid 20 --pause 2000 >/tmp/vm.out &
vm=$!
busy=
for _ in 1 2 3 4; do
	sh -c 'while :; do :; done' &
	busy="$busy $!"
done
wait_until 60 grep -q '^pid ' /tmp/vm.out || die "no VM"
tids=$(sed -n 's/^pid .* tids //p' /tmp/vm.out)
delay() { for t in $tids; do cat "/proc/$vm/task/$t/schedstat"; done | awk '{ n += $2 } END { printf "%.0f\n", n }'; }

# Stopped, it wants no CPU: all that it waits is in the recording.
kill -STOP $vm
sleep 1
"$KVMFT" record --as host -b 16M -o /tmp/host 2>/tmp/record.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "not recorded: $(cat /tmp/record.err)"
before=$(delay)
kill -CONT $vm
sleep "${STEAL_SECONDS:-10}"
kill -STOP $vm
sleep 1
fact run_delay $(($(delay) - before))
kill -TERM $recorder
wait $recorder
check "recorded" same "$?" 0
sed 's/^/# /' /tmp/record.err
# shellcheck disable=SC2086 # a list
kill -KILL $vm $busy
tar -cf "$RESULTS/host.tar" -C /tmp host
finish
