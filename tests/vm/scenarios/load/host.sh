# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A small VM on two CPUs that others want all the time. Two vCPUs of it that sleep often: host.tar, and as a fact how long
# the kernel says that they wanted a CPU meanwhile (schedstat's run_delay). Then one that makes 40 exits for each port that
# it writes to, LOAD_PAIRS times, and 42 half as often: equalN and moreN.

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
kill -KILL $vm
tar -cf "$RESULTS/host.tar" -C /tmp host

# serve NAME CPUIDS
serve()
{
	"$KVMFT" record --as host -q -o "/tmp/$1" -e kvm:kvm_entry -e kvm:kvm_exit -e kvm:kvm_pio -- \
		/tmp/tinyvm --iterations "${LOAD_LOOPS:-600}" --cpuid "$2" >/tmp/serve.out 2>&1 || fail "$1: $(cat /tmp/serve.out)"
}
n=0
while [ $n -lt "${LOAD_PAIRS:-40}" ]; do
	n=$((n + 1))
	serve "equal$n" 37
	[ $((n % 2)) = 1 ] || serve "more$n" 39
done
# shellcheck disable=SC2086 # a list
kill -KILL $busy
(cd /tmp && tar -cf "$RESULTS/gate.tar" equal* more*)
finish
