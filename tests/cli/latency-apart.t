#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Two VMs of a host, each with a capture of its guest. Whatever the first one's events claim, what is shown of the
# second one stays as it is without them.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
soft=common_flags=0x10
cd "$tmp" || exit 1

formats()
{
	cat <<-END
		event net net_dev_start_xmit 19002 u64:skbaddr u32:len u16:queue_mapping word:name
		event net netif_receive_skb 19005 u64:skbaddr u32:len word:name
		event net napi_gro_receive_entry 19006 u64:skbaddr u32:len u16:queue_mapping word:name
		event napi napi_poll 19007 u64:napi s32:work s32:budget word:dev_name
		event skb skb_copy_datagram_iovec 19008 u64:skbaddr u32:len
		event skb consume_skb 19009 u64:skbaddr
		event net net_dev_queue 19001 u64:skbaddr u32:len word:name
		recorded net:net_dev_queue sched:sched_switch
	END
}
# The host: both VMs are in their guests, and leave them now and then.
{
	for vm in 1 2; do
		cat <<-END
			meta vm id=${vm}00-12 pid=${vm}00 fd=12 name=vm$vm
			meta vcpu vm=${vm}00-12 id=0 tid=${vm}01 offset=0 ratio=0 frac=48
			meta task tid=${vm}00 tgid=${vm}00 comm=qemu
			meta task tid=${vm}01 tgid=${vm}00 comm=CPU
		END
	done
	formats
	echo "recorded kvm_apic_accept_irq kvm_msi_set_irq kvm_inj_virq kvm_msr kvm_page_fault net:netif_receive_skb sched:sched_waking"
	echo "0 900 101 kvm_entry vcpu_id=0"
	echo "1 900 201 kvm_entry vcpu_id=0"
	# a packet to the second one
	cat <<-END
		1 60000 50 net:net_dev_start_xmit skbaddr=0xa00 len=100 queue_mapping=0 name=tap2
		1 60090 200 skb:skb_copy_datagram_iovec skbaddr=0xa00 len=100
		1 60095 200 skb:consume_skb skbaddr=0xa00
		1 60100 200 sched:sched_switch prev_pid=200 prev_state=1 next_pid=0
		1 60110 201 kvm_exit exit_reason=0x31 isa=1
		1 60120 201 kvm_fast_mmio gpa=0xfebf3000
		1 60130 0 sched:sched_wakeup pid=200 target_cpu=1
		1 60140 201 kvm_entry vcpu_id=0
	END
	# the first one has no CPU, many times
	awk 'BEGIN { for (t = 100000; t < 400000; t += 250)
		print "0", t, "101 kvm_exit exit_reason=0x1 isa=1\n0", t + 10,
			"101 sched:sched_switch prev_pid=101 prev_state=0 next_pid=61\n0", t + 20,
			"61 sched:sched_switch prev_pid=61 prev_state=0 next_pid=101\n0", t + 30, "101 kvm_entry vcpu_id=0" }'
	# ... and the second one once more
	cat <<-END
		1 800000 201 kvm_exit exit_reason=0x1 isa=1
		1 800010 201 sched:sched_switch prev_pid=201 prev_state=0 next_pid=60
		1 805010 60 sched:sched_switch prev_pid=60 prev_state=0 next_pid=201
		1 805020 201 kvm_entry vcpu_id=0
	END
	echo "0 900000 101 kvm_exit exit_reason=0x1 isa=1"
	echo "1 900000 201 kvm_exit exit_reason=0x1 isa=1"
} >host.txt

guest_head()
{
	cat <<-END
		meta side name=guest
		meta cpu n=0 apicid=0
		meta time tsc=500 width=2 mono_raw=500 mono=500 boot=500 real=1700000000000000500
		meta time tsc=950000 width=2 mono_raw=950000 mono=950000 boot=950000 real=1700000000000950000
	END
	formats
	echo "recorded irq:irq_handler_entry irq:softirq_raise"
	echo "0 950 0 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0"
}
# The second one: a timer, a request, the packet.
{
	guest_head
	cat <<-END
		0 40000 0 timer:hrtimer_start hrtimer=0x5000 expires=55000 function=0x77
		0 50000 77 block:block_rq_issue dev=0xfd00001 sector=4096 nr_sector=8 bytes=4096 rwbs=R comm=x cmd=
		0 55100 0 timer:hrtimer_expire_entry hrtimer=0x5000 now=55090 function=0x77
		0 60200 0 irq:softirq_entry vec=3 $soft
		0 60260 0 net:napi_gro_receive_entry skbaddr=0x1a00 len=86 queue_mapping=1 name=eth0 $soft
		0 60300 0 net:netif_receive_skb skbaddr=0x1a00 len=86 name=eth0 $soft
		0 60320 0 skb:consume_skb skbaddr=0x1a00 $soft
		0 60360 0 napi:napi_poll napi=1 work=1 budget=64 dev_name=eth0 $soft
		0 60365 0 irq:softirq_exit vec=3 $soft
		0 65000 77 block:block_rq_complete dev=0xfd00001 sector=4096 nr_sector=8 error=0 rwbs=R cmd=
		0 898000 0 irq:softirq_exit vec=3 $soft
	END
} >two.txt
{
	guest_head
	echo "0 899000 0 irq:softirq_exit vec=3 $soft"
} >quiet.txt
# The first one: lies.
{
	guest_head
	# a timer and a request whose keys could be those of the second one, whatever way they are made
	for bit in 40 48 56 60; do
		echo "0 300$bit 0 timer:hrtimer_start hrtimer=$(printf '0x%x' $((0x5000 ^ 1 << bit))) expires=890000 function=0x77"
		echo "0 300$bit 0 block:block_rq_issue dev=0xfd00001 sector=$((4096 ^ 1 << bit)) nr_sector=8 bytes=4096 rwbs=R comm=x cmd="
	done
	for bit in 40 48 56 60; do
		echo "0 501$bit 0 block:block_rq_issue dev=0xfd00001 sector=$((4096 ^ 1 << bit)) nr_sector=8 bytes=4096 rwbs=R comm=x cmd="
	done
	echo "0 52000 0 timer:hrtimer_start hrtimer=0x5000 expires=890000 function=0x77"
	echo "0 52000 0 block:block_rq_issue dev=0xfd00001 sector=4096 nr_sector=8 bytes=4096 rwbs=R comm=x cmd="
	# lost events
	echo "0 gap 7"
	echo "0 60250 0 irq:softirq_exit vec=3 $soft"
	echo "0 gap 7"
	echo "0 60270 0 irq:softirq_exit vec=3 $soft"
	# more queues than there can be, and a task for each time without a CPU
	awk 'BEGIN {
		for (i = 0; i < 4500; i++)
			print 0, 61000 + i, "5 net:net_dev_start_xmit skbaddr=" i * 256 + 1, "len=100 queue_mapping=" i, "name=eth0"
		for (i = 0; i < 1200; i++)
			print 0, 99900 + i * 250, i + 1000, "sched:sched_switch prev_pid=" i + 1000, "prev_state=0 next_pid=" i + 1001
	}'
	echo "0 899000 0 irq:softirq_exit vec=3 $soft"
} >liar.txt
# ... and another, that ends none of its requests: more than all guests may have open.
{
	guest_head
	awk 'BEGIN { for (i = 0; i < 66000; i++)
		print 0, 20000 + int(i / 4), "0 block:block_rq_issue dev=0xfd00001 sector=" i, "nr_sector=1 bytes=512 rwbs=R comm=x cmd=" }'
	echo "0 899000 0 irq:softirq_exit vec=3 $soft"
} >greedy.txt
for what in host quiet liar greedy two; do
	ok "$what is compiled" "$mkcap" --capture $what $what.txt
done

# two KIND FIRST: what is shown of the second one, beside FIRST
two() { "$kvmft" latency "$1" -q --vm vm2 --format csv host "$2=vm1" two=vm2 2>/dev/null; }
for kind in sched io timer net; do
	two $kind quiet >quiet.csv
	cp quiet.csv quiet.csv.$kind
	two $kind liar >liar.csv
	ok "$kind: something is measured" grep -q . quiet.csv
	is "$(cat liar.csv)" "$(cat quiet.csv)" "$kind: the same, whatever the first guest claims"
done
two io greedy >greedy.csv
is "$(cat greedy.csv)" "$(cat quiet.csv.io)" "io: the same, however many requests the first guest leaves open"
# Tables of all VMs have room for each.
for first in quiet liar; do
	"$kvmft" latency sched -q --format json host $first=vm1 two=vm2 >$first.json 2>/dev/null
	ok "sched of all, beside $first: the second one is in the table" grep -q '"vm2"' $first.json
done
if command -v python3 >/dev/null; then
	ok "... and all of the first one's" python3 "$top/tests/cli/latency_sums.py" liar.json
else
	skip "... and all of the first one's" "python3 is not installed"
fi
ok "... though there is no room for each of its tasks" grep -q '"vm":"vm1","name":"(others)"' liar.json
"$kvmft" blame -q --format csv --vm vm2 host quiet=vm1 two=vm2 >quiet.csv 2>/dev/null
"$kvmft" blame -q --format csv --vm vm2 host liar=vm1 two=vm2 >liar.csv 2>/dev/null
ok "blame: something is found" grep -q vm2 quiet.csv
is "$(cat liar.csv)" "$(cat quiet.csv)" "blame: the same"
# ... and one with more formats of handlers than a kernel has.
cp -R quiet many
mkdir -p many/events/irq_vectors
sed '$d' quiet/meta >many/meta
i=0
while [ $i -lt 300 ]; do
	i=$((i + 1))
	{
		printf 'name: v%d_entry\nID: %d\nformat:\n' $i $((2000 + i))
		printf '\tfield:%s;\toffset:%d;\tsize:%d;\tsigned:0;\n' "unsigned short common_type" 0 2 \
			"unsigned char common_flags" 2 1 "unsigned char common_preempt_count" 3 1 "int common_pid" 4 4
		printf '\n\tfield:int vector;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: "vector=%%d", REC->vector\n'
	} >many/events/irq_vectors/v${i}_entry
	echo "event id=$((2000 + i)) sys=irq_vectors name=v${i}_entry" >>many/meta
done
tail -n 1 quiet/meta >>many/meta
two io many >many.csv
is "$(cat many.csv)" "$(cat quiet.csv.io)" "io: the same, however many formats of handlers the first guest has"
"$kvmft" blame -q --format csv --vm vm2 host many=vm1 two=vm2 >many.csv 2>/dev/null
is "$(cat many.csv)" "$(cat quiet.csv)" "... blame"
run "$kvmft" latency net host liar=vm1 two=vm2
status_is 3 "net of all: too many queues are no error"
out_has "not paired, as order and number prove nothing" "... what goes through them is counted"
finish
