# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

# The kernel calls the instances in the order in which they were enabled, so each clock stands between
# two readings of the TSC of the same event. The first one is slow because of cold caches, and is not
# counted.
instances="tsc0 tsc1 local tsc2 global tsc3 perf tsc4 mono_raw tsc5"

recording()
{
	[ -r "/tmp/$1/meta" ] && grep -q '^begin ' "/tmp/$1/meta"
}

# The current TSC of vCPU 0, in decimal.
tsc_now()
{
	printf '%d' "0x$(rdmsr -p 0 0x10)"
}

flag_set vm1-ready
flag_wait host-recording
pids=
for name in $instances; do
	case $name in
	tsc*)	clock=x86-tsc ;;
	*)	clock=$name ;;
	esac
	"$KVMFT" record -o "/tmp/$name" --clock "$clock" -e 'msr:read_msr/msr==0x11/' \
		2>"/tmp/$name.err" &
	pids="$pids $!"
	wait_until 60 recording "$name" || die "$name: $(cat "/tmp/$name.err")"
done
i=0
while [ $i -lt 10 ]; do
	rdmsr -p $((i % 2)) 0x11 >/dev/null
	sleep 0.2
	i=$((i + 1))
done
# shellcheck disable=SC2086 # a list
kill -TERM $pids
for pid in $pids; do
	wait "$pid"
	check "vm1: a recorder exits 0" same "$?" 0
done
cat /tmp/*.err | sed 's/^/# /'

# About a minute ahead, more than the time between reading and writing on a busy machine. (Back would
# do as well for KVM, but the guest's ring buffer cannot store stamps that go back.)
"$KVMFT" record -o /tmp/jump -e 'msr:*' -e sched:sched_switch 2>/tmp/jump.err &
pid=$!
wait_until 60 recording jump || die "jump: $(cat /tmp/jump.err)"
rdmsr -p 0 0x11 >/dev/null
wrmsr -p 0 0x10 $(($(tsc_now) + 150000000000))
rdmsr -p 0 0x11 >/dev/null
rdmsr -p 1 0x11 >/dev/null
sleep 0.5
kill -TERM "$pid"
wait "$pid"
check "vm1: recorder across the jump exits 0" same "$?" 0
sed 's/^/# /' /tmp/jump.err
flag_set vm1-recorded
# shellcheck disable=SC2086 # a list
tar -cf "$RESULTS/vm1.tar" -C /tmp jump $instances
flag_wait host-done 400
finish
