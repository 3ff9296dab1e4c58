# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Records a host with a steady guest again and again, and then with one thing changed: the guest's timer slack, halt
# polling; x2apic, except on the Intel host, whose virtual APIC makes no exits for it; and only there -overcommit
# cpu-pm, because QEMU's emulated SVM always exits for HLT. All in one boot of the host. DIFF_EQUAL recordings have
# nothing changed.

. "$VM_LIB/host.sh"

EQUAL=${DIFF_EQUAL:-2}
# The speed of QEMU's emulated machine varies: a passing difference must not be taken for a change. So recordings are
# longer there, and the changes so large that a busy machine does not hide them: vCPUs poll for longer than they ever halt.
case $RIG_CPU in
intel) length=2500ms poll_ns=10000000 ;;
*) length=6s poll_ns=1000000000 ;;
esac
need_kvmft
[ -x "$(dirname "$KVMFT")/tests/tools/ticker" ] || die "no tests/tools/ticker: make tests"
poll=/sys/module/kvm/parameters/halt_poll_ns

# take NAME: makes a recording. It begins with a search for VMs, which keeps an emulated CPU busy for a while.
take()
{
	"$KVMFT" record -o "/tmp/$1" -d $length -e default -e sched:sched_switch -e sched:sched_wakeup \
		2>"/tmp/$1.err" || fail "record $1: $(cat "/tmp/$1.err")"
	guest_running "$guest" || die "$guest ended while it was recorded"
	tar -cf "$RESULTS/$1.tar" -C /tmp "$1"
	rm -rf "/tmp/$1"
}

# guest NAME [OPTION VALUE]...: starts it, and waits until it does nothing but its work, each vCPU on a CPU of its own
guest()
{
	guest=$1
	guest_start "$@"
	guest_wait_up "$1"
	flag_wait "$1-steady" 120
	for vcpu in $(seq 0 $((RIG_VCPUS - 1))); do
		taskset -p $((1 << vcpu)) "$(guest_tid "$1" "$vcpu")" >/dev/null
	done
	sleep 3
}

# DIFF_EQUAL recordings without a change, named equalNN.
step_equal()
{
	guest vm1
	for i in $(seq 1 "$EQUAL"); do
		take "equal$i"
	done
	pass "$EQUAL recordings of the same"
}

# On the Intel host a VM that was created without polling never started to poll.
step_poll()
{
	echo $poll_ns >$poll
	guest vm4
	take poll
	guest_kill vm4
	echo 0 >$poll
}

step_slack()
{
	flag_set vm1-slack
	flag_wait vm1-slack-done
	sleep 1
	take slack
	guest_kill vm1
}

step_xapic()
{
	RIG_GUEST_CPU=$RIG_GUEST_CPU,-x2apic
	guest vm3
	take xapic
	guest_kill vm3
}

step_cpupm()
{
	guest vm2 --qemu-args "-overcommit cpu-pm=on"
	take cpupm
	guest_kill vm2
}

case $RIG_CPU in
intel) steps="equal slack poll cpupm" ;;
*) steps="equal slack poll xapic" ;;
esac
note "halt_poll_ns is $(cat $poll)"
echo 0 >$poll
for step in $steps; do
	"step_$step"
	note "$step: done"
done
finish
