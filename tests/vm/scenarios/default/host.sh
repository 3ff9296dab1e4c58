# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Plain `kvmft record` on a host whose guest works, beside other threads that switch all the time, twice: a
# thief of known times takes the CPU of vCPU 0, and the second time another VM starts late.

. "$VM_LIB/host.sh"

MS=50
need_kvmft
rob=$(dirname "$KVMFT")/tests/tools/rob
ticker=$(dirname "$KVMFT")/tests/tools/ticker
[ -x "$rob" ] || die "no $rob: make tests"
tinyvm_make /tmp/tinyvm
guest_start vm1
guest_wait_up vm1
flag_wait guest-ready
taskset -a -p 1 "$(guest_pid vm1)" >/dev/null
taskset -p 2 "$(guest_tid vm1 0)" >/dev/null
cp "$ticker" /tmp/stranger
# On the VMM's CPU, and on that of the vCPU.
for cpu in 0 1; do
	taskset -c $cpu /tmp/stranger 1000 &
	strangers="${strangers:+$strangers }$!"
done
fact strangers "$strangers"
fact vmm "$(guest_pid vm1)"
fact vcpu0 "$(guest_tid vm1 0)"
flag_set go

switches()
{
	cat /proc/"${strangers##* }"/status /proc/"${strangers% *}"/status |
		awk '/ctxt_switches/ { n += $2 } END { print n }'
}

for i in 1 2; do
	"$KVMFT" record -o "/tmp/host$i" 2>"/tmp/host$i.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/host$i/meta" ||
		die "recording $i did not start: $(cat "/tmp/host$i.err")"
	before=$(switches)
	sleep 1
	took=$("$rob" busy thief 1 $MS 10) || die "rob failed"
	fact "thief${i}_sum_us" "$(expr "$took" : 'sum_us=\([0-9]*\)')"
	if [ $i = 2 ]; then
		# As if all the ids that the filter let through at first had gone to others. It is written anew.
		max=$(cat /proc/sys/kernel/pid_max)
		[ "$max" -le 262144 ] || max=262144
		echo $(($(cut -d ' ' -f 5 /proc/loadavg) + max / 8 + 100)) >/proc/sys/kernel/ns_last_pid
		(:)
		sleep 3
		/tmp/tinyvm --iterations 50 --pause 5000 >/tmp/late
		fact late "$(sed -n '1s/.* tids //p' /tmp/late)"
	fi
	sleep 1
	fact "switches$i" $(($(switches) - before))
	kill -TERM "$recorder"
	wait "$recorder"
	check "record $i exits 0" same "$?" 0
	sed 's/^/# /' "/tmp/host$i.err"
	tar -cf "$RESULTS/host$i.tar" -C /tmp "host$i"
	flag_set "recorded$i"
done
# shellcheck disable=SC2086 # a list
kill $strangers
guest_wait_done vm1 120
finish
