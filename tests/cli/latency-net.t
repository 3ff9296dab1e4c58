#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft latency net` with captures of a host and a guest that are made here: packets whose stages take known times.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap

# ---- what the captures are made of: a line "SIDE.CPU TIME TID EVENT..." ----

formats()
{
	cat <<END
event net net_dev_queue 19001 u64:skbaddr u32:len word:name
event net net_dev_start_xmit 19002 u64:skbaddr u32:len u16:queue_mapping word:name
event net net_dev_xmit 19003 u64:skbaddr u32:len s32:rc word:name
event net netif_receive_skb_entry 19004 u64:skbaddr u32:len u16:queue_mapping word:name
event net netif_receive_skb 19005 u64:skbaddr u32:len word:name
event net napi_gro_receive_entry 19006 u64:skbaddr u32:len u16:queue_mapping word:name
event napi napi_poll 19007 u64:napi s32:work s32:budget word:dev_name
event skb skb_copy_datagram_iovec 19008 u64:skbaddr u32:len
event skb consume_skb 19009 u64:skbaddr
event skb kfree_skb 19010 u64:skbaddr
event syscalls sys_enter_sendto 19011 u64:fd u64:len
event syscalls sys_exit_sendto 19012 s64:ret
event syscalls sys_enter_recvmsg 19013 u64:fd
event kvmft net_ip4_start 19015 u64:skbaddr u32:len u32:data_len bytes24:head
event kvmft net_ip4_entry 19016 u64:skbaddr u32:len u32:data_len bytes24:head
event kvmft net_ip4_gro 19017 u64:skbaddr u32:len u32:data_len bytes24:head
event syscalls sys_exit_recvmsg 19014 s64:ret
recorded skb:consume_skb
recorded net:net_dev_queue sched:sched_switch
recorded kvm_msi_set_irq kvm_apic_ipi kvm_set_irq
recorded sched:sched_waking
recorded sched:sched_wakeup
recorded kvm_mmio
recorded kvm_fast_mmio
recorded kvm_inj_virq
recorded irq:irq_handler_entry
recorded irq:softirq_entry
END
}
soft=common_flags=0x10
# at T DELAY: T + DELAY
at() { echo $(($1 + $2)); }

# sent T SKB LEN: a program of the host sends; the tap has it
sent()
{
	cat <<END
h.1 $1 50 net:net_dev_queue skbaddr=$2 len=$3 name=tap0
h.1 $(at "$1" 10) 50 net:net_dev_start_xmit skbaddr=$2 len=$3 queue_mapping=0 name=tap0
END
}
# taken T SKB LEN: vhost, which slept, takes it and tells the guest
taken()
{
	cat <<END
h.1 $(at "$1" 20) 50 sched:sched_wakeup pid=102 target_cpu=1
h.1 $(at "$1" 50) 50 sched:sched_switch prev_pid=50 prev_state=1 next_pid=102
h.1 $(at "$1" 90) 102 skb:skb_copy_datagram_iovec skbaddr=$2 len=$3
h.1 $(at "$1" 95) 102 skb:consume_skb skbaddr=$2
END
}
interrupt()
{
	cat <<END
h.1 $(at "$1" 110) 102 kvm_msi_set_irq address=0xfee00000 data=0x41
h.1 $(at "$1" 111) 102 kvm_apic_accept_irq apicid=0 vec=0x41
h.1 $(at "$1" 150) 102 sched:sched_switch prev_pid=102 prev_state=1 next_pid=0
h.0 $(at "$1" 160) 101 kvm_exit exit_reason=0x1 isa=1
h.0 $(at "$1" 170) 101 kvm_inj_virq vector=0x41
h.0 $(at "$1" 180) 101 kvm_entry vcpu_id=0
g.0 $(at "$1" 200) 0 irq:irq_handler_entry irq=30 common_flags=0x8
g.0 $(at "$1" 205) 0 irq:softirq_raise vec=3 common_flags=0x8
g.0 $(at "$1" 210) 0 irq:irq_handler_exit irq=30 common_flags=0x8
g.0 $(at "$1" 220) 0 irq:softirq_entry vec=3 $soft
END
}
# got T SKB LEN: the guest has it
got() { echo "g.0 $(at "$1" 260) 0 net:napi_gro_receive_entry skbaddr=$2 len=$3 queue_mapping=1 name=eth0 $soft"; }
# stack T SKB LEN
stack() { echo "g.0 $(at "$1" 300) 0 net:netif_receive_skb skbaddr=$2 len=$3 name=eth0 $soft"; }
# polled T WORK: ... and polled until the ring was empty
polled()
{
	cat <<END
g.0 $(at "$1" 360) 0 napi:napi_poll napi=1 work=$2 budget=64 dev_name=eth0 $soft
g.0 $(at "$1" 365) 0 irq:softirq_exit vec=3 $soft
END
}
woken() { echo "g.0 $(at "$1" 340) 0 sched:sched_waking pid=77 $soft"; }
# read T SKB: task 77 of the guest runs and reads
read_77()
{
	cat <<END
g.0 $(at "$1" 400) 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
g.0 $(at "$1" 450) 77 skb:consume_skb skbaddr=$2
g.0 $(at "$1" 500) 77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0
END
}
# rx T [LEN]: a packet of 100 bytes to the guest, 450 ns
rx()
{
	len=${2:-100}
	sent "$1" 0xa00 "$len"
	taken "$1" 0xa00 "$len"
	interrupt "$1"
	got "$1" 0x1a00 $((len - 14))
	stack "$1" 0x1a00 $((len - 14))
	woken "$1"
	polled "$1" 1
	read_77 "$1" 0x1a00
}

# guest_sends T LEN, host_gets T LEN, freed T: a packet of the guest
guest_sends()
{
	cat <<END
g.0 $1 77 net:net_dev_queue skbaddr=0x2a00 len=$2 name=eth0
g.0 $(at "$1" 5) 77 net:net_dev_start_xmit skbaddr=0x2a00 len=$2 queue_mapping=0 name=eth0
h.0 $(at "$1" 30) 101 kvm_exit exit_reason=0x31 isa=1
h.0 $(at "$1" 35) 101 kvm_fast_mmio gpa=0xfebf3000
h.0 $(at "$1" 40) 101 sched:sched_wakeup pid=102 target_cpu=1
h.0 $(at "$1" 50) 101 kvm_entry vcpu_id=0
g.0 $(at "$1" 60) 77 net:net_dev_xmit skbaddr=0x2a00 len=$2 rc=0 name=eth0
END
}
host_gets()
{
	cat <<END
h.1 $(at "$1" 80) 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=102
h.1 $(at "$1" 130) 102 net:netif_receive_skb_entry skbaddr=0xb00 len=$(($2 - 14)) queue_mapping=1 name=tap0
h.1 $(at "$1" 135) 102 net:netif_receive_skb skbaddr=0xb00 len=$(($2 - 14)) name=tap0
END
}
host_reads()
{
	cat <<END
h.1 $(at "$1" 170) 102 sched:sched_waking pid=60
h.1 $(at "$1" 200) 102 sched:sched_switch prev_pid=102 prev_state=1 next_pid=60
h.1 $(at "$1" 230) 60 skb:consume_skb skbaddr=0xb00
h.1 $(at "$1" 250) 60 sched:sched_switch prev_pid=60 prev_state=1 next_pid=0
END
}
freed()
{
	echo "g.0 $(at "$1" 300) 0 skb:consume_skb skbaddr=0x2a00 $soft"
	echo "g.0 $(at "$1" 310) 0 napi:napi_poll napi=9 work=0 budget=64 dev_name=eth0 $soft"
}
# tx T: of 200 bytes, 230 ns
tx()
{
	guest_sends "$1" 200
	host_gets "$1" 200
	host_reads "$1"
	freed "$1"
}

# make NAME: captures NAME-host and NAME-guest of the lines of standard input
make_pair()
{
	cat >"$tmp/lines"
	{
		cat <<END
meta vm id=100-12 pid=100 fd=12 name=one
meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48
meta task tid=100 tgid=100 comm=qemu
meta task tid=101 tgid=100 comm=CPU%200/KVM
meta task tid=102 tgid=102 comm=vhost-100
meta task tid=50 tgid=50 comm=sender
meta task tid=60 tgid=60 comm=reader
END
		formats
		echo "0 900 101 kvm_entry vcpu_id=0"
		sed -n 's/^h\.//p' "$tmp/lines"
		echo "0 95000 101 kvm_exit exit_reason=0xc isa=1"
	} >"$tmp/$1-host.txt"
	{
		cat <<END
meta side name=guest
meta cpu n=0 apicid=0
meta task tid=77 tgid=77 comm=server
END
		formats
		echo "0 950 0 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0"
		sed -n 's/^g\.//p' "$tmp/lines"
		echo "0 94000 0 irq:softirq_exit vec=3"
	} >"$tmp/$1-guest.txt"
	for side in host guest; do
		"$mkcap" --capture "$tmp/$1-$side" "$tmp/$1-$side.txt" || echo "# mkcap failed"
	done
}
net()
{
	pair=$1
	shift
	run "$kvmft" latency net -q "$@" "$tmp/$pair-host" "$tmp/$pair-guest=one"
}
# stages TABLE: each "STAGE COUNT SUM", of its groups in the CSV of the last run, sums in ns
stages()
{
	sed -n "s/^$1,\"one\",\"[^\"]*\",//p" "$out" |
		awk -F , '{ printf "%s%s %d %.0f", (NR > 1 ? ", " : ""), $1, $2, $8 * 1000 }'
}
# counts TABLE: sent, measured, not paired, cut, open, dropped
counts() { sed -n "s/^$1,\"\",\"[^\"]*\",counted,\([0-9]*\),.*/\1/p" "$out" | tr '\n' ' ' | sed 's/ $//'; }

{ rx 10000; tx 20000; } | make_pair plain
net plain --format csv
status_is 0 "a packet each way"
is "$(stages net-rx)" "total 1 450, qdisc 1 10, wake 1 40, take 1 40, notify 1 20, deliver 1 90, napi 1 60, stack 1 80, run 1 60, read 1 50" \
	"each stage is as long as it is, to the guest"
is "$(stages net-tx)" "total 1 230, qdisc 1 5, doorbell 1 25, wake 1 50, take 1 50, stack 1 40, run 1 30, read 1 30" \
	"... and from it"
is "$(counts net-rx) / $(counts net-tx)" "1 1 0 0 0 0 / 1 1 0 0 0 0" "... and all that was sent was measured"
run "$kvmft" latency net "$tmp/plain-host" "$tmp/plain-guest=one"
out_has "tap0 > eth0, vhost  *1 100 % *450 ns" "as text"
out_has "450 ns at .* by server-77" "... with its reader"
net plain --format json
if command -v python3 >/dev/null; then
	ok "what was counted adds up" python3 "$(dirname "$0")/latency_sums.py" "$out"
else
	skip "what was counted adds up" "python3 is not installed"
fi
net plain --format html
status_is 0 "as a page"

# ---- many ----

# batch T WITHOUT LEN: three packets of one length in one poll; the guest lacks one of them.
batch()
{
	for n in 0 1 2; do
		sent $(($1 + n)) 0xa0$n 100
	done | sort -s -t ' ' -k 2n
	taken $(($1 + 2)) 0xa00 100
	for n in 1 2; do
		echo "h.1 $(at "$1" $((100 + n))) 102 skb:skb_copy_datagram_iovec skbaddr=0xa0$n len=100"
		echo "h.1 $(at "$1" $((100 + n))) 102 skb:consume_skb skbaddr=0xa0$n"
	done
	interrupt "$1"
	for n in 0 1 2; do
		[ "$n" = "$2" ] || got $(($1 + n)) 0x1a0$n "${3:-86}"
	done
	for n in 0 1 2; do
		[ "$n" = "$2" ] || stack $(($1 + 4 + n)) 0x1a0$n "${3:-86}"
	done
	for n in 0 1 2; do
		echo "g.0 $(at "$1" $((320 + n))) 0 skb:consume_skb skbaddr=0x1a0$n $soft"
	done
	if [ "$2" = none ]; then
		polled "$1" 3
	else
		polled "$1" 2
	fi
}
{ batch 10000 none; rx 20000; } | make_pair batch
net batch --format csv
is "$(counts net-rx)" "4 4 0 0 0 0" "a batch of packets of one length"
{ rx 10000; batch 20000 1; rx 30000; rx 40000; } | make_pair lost
net lost --format csv
is "$(counts net-rx)" "6 2 4 0 0 0" "one of these is missing: which one is not guessed"
{ rx 10000; batch 20000 1 | sed 's/0xa01 len=100/0xa01 len=140/'; rx 30000; } | make_pair filtered
net filtered --format csv
is "$(counts net-rx)" "5 3 2 0 0 0" "... which one is known by its length: the others are measured"
{ rx 10000; batch 20000 none 85; rx 30000; } | make_pair length
net length --format csv
err_has "net-rx: sent 5; measured 0;" "lengths that are not those that were sent: all near them may be others"
{ rx 10000; rx 20000; } | sed 's/budget=64/budget=1/' | make_pair proof
net proof --format csv
status_is 4 "nothing tells how many were on their way"
err_has "net-rx: sent 2; measured 0; not paired, as order and number prove nothing 2" "... which is counted"
{ rx 10000; rx 20000; rx 30000; rx 40000; } | sed 's/^g.0 20260.*/g.0 gap 3/' | make_pair gap
net gap --format csv
status_is 3 "lost events"
is "$(counts net-rx)" "4 3 0 1 0 0" "... cut what crosses them"
{ rx 10000; sent 20000 0xa01 100; echo "h.1 20015 50 skb:kfree_skb skbaddr=0xa01"; rx 30000; } | make_pair drop
net drop --format csv
is "$(counts net-rx)" "2 2 0 0 0 1" "one that the tap dropped"
{ rx 10000; sent 20000 0xa00 100; taken 20000 0xa00 100; interrupt 20000; } | make_pair open
net open --format csv
is "$(counts net-rx)" "2 1 0 0 1 0" "one that did not arrive before the end"
{ tx 10000; guest_sends 20000 200 | sed 's/rc=0/rc=16/'; tx 20100; } | make_pair busy
net busy --format csv
is "$(counts net-tx)" "2 2 0 0 0 0" "a device that was busy is given the same packet again"

# ---- with the truth ----

# truth SEED LOSE PERCENT NAME [OPTION]...: two queues, both ways, with one in LOSE packets lost
truth()
{
	seed=$1 lose=$2 percent=$3 name=$4
	shift 4
	python3 "$(dirname "$0")/latency_net.py" make "$seed" 600 "$lose" "$tmp/random-host.txt" "$tmp/random-guest.txt" \
		"$tmp/truth.json" "$@" <"$tmp/formats" || echo "# no captures were made"
	for side in host guest; do
		rm -rf "$tmp/random-$side"
		"$mkcap" --capture "$tmp/random-$side" "$tmp/random-$side.txt" || echo "# mkcap failed"
	done
	net random --format json --worst 10000 --context 0
	ok "$name" python3 "$(dirname "$0")/latency_net.py" check "$out" "$tmp/truth.json" "$percent"
	sed 's/^/# /' "$tmp/ok.log"
	ok "... what was counted adds up" python3 "$(dirname "$0")/latency_sums.py" "$out"
}
if command -v python3 >/dev/null; then
	formats >"$tmp/formats"
	truth 1 0 100 "batches in two queues, both ways: all are paired"
	truth 118 40 85 "... some are lost on their way: none is taken for another one"
	truth 2 0 85 "something is always on its way: lengths tell the most" busy
	truth 2 40 60 "... and some are lost" busy
	truth 5 0 50 "some come from elsewhere: none is taken for one that was sent" foreign=50
	truth 1 40 80 "devices drop some, or are busy" drop=20 again=20
	truth 1 0 100 "with headers" ids
	truth 118 40 90 "... some are lost" ids
	truth 2 40 80 "... and something is always on its way" busy ids
	if [ "${CHECK_ALL:-0}" = 1 ]; then
		truth 114 8 60 "many are lost"
		truth 114 8 60 "... with headers" ids
		truth 5 0 80 "some come from elsewhere, with headers" ids foreign=50
		truth 1 40 80 "devices drop some, or are busy, with headers" ids drop=20 again=20
	else
		skip "four more" "make check-all has them"
	fi
else
	skip "batches in two queues" "python3 is not installed"
fi

# ---- other ways ----

{
	rx 10000
	echo "h.1 19900 50 net:napi_gro_receive_entry skbaddr=0xa00 len=86 queue_mapping=0 name=eth9 $soft"
	rx 20000 | sed "/^h.1 200[01]0 50 /s/$/ $soft/"
} | make_pair forward
net forward --format csv
is "$(stages net-rx | cut -d , -f 1,2)" "total 2 1000, forward 1 100" "from a NIC of the host"
{
	tx 10000
	guest_sends 20000 200
	host_gets 20000 200
	echo "h.1 20150 102 net:net_dev_queue skbaddr=0xb00 len=200 name=eth9"
	echo "h.1 20160 102 net:net_dev_start_xmit skbaddr=0xb00 len=200 queue_mapping=0 name=eth9"
	echo "h.1 20170 102 skb:consume_skb skbaddr=0xb00"
	freed 20000
} | make_pair nic
net nic --format csv
is "$(stages net-tx)" \
	"total 2 390, qdisc 2 10, doorbell 2 50, wake 2 100, take 2 100, stack 1 40, run 1 30, read 1 30, forward 1 30" \
	"to a NIC of the host"
# ping's socket is given a copy, whose address nobody told.
{
	rx 10000
	rx 20000 | sed "s/^g.0 20450.*/g.0 20450 77 skb:skb_copy_datagram_iovec skbaddr=0x7777 len=86/
		s/^g.0 20360/g.0 20350 0 skb:kfree_skb skbaddr=0x1a00 $soft\n&/"
} | make_pair copy
net copy --format csv
is "$(stages net-rx | grep -o 'run.*')" "run 2 120, read 2 100" "a copy of the packet that its reader was woken for"
# ---- system calls ----

{
	rx 10000 | sed "s/^g.0 10500.*/g.0 10490 77 syscalls:sys_enter_recvmsg fd=4\\n&/"
	echo "h.1 19985 50 syscalls:sys_enter_sendto fd=3 len=58"
	rx 20000 | sed "s/^g.0 20450.*/&\ng.0 20470 77 syscalls:sys_exit_recvmsg ret=58/"
} | make_pair calls
net calls --format csv
is "$(stages net-rx)" "total 2 935, send 1 15, qdisc 2 20, wake 2 80, take 2 80, notify 2 40, deliver 2 180, napi 2 120, stack 2 160, run 2 120, read 2 100, return 1 20" \
	"system calls of both tasks are part of it"
# ping's guest waited, which empties its socket, sends 64 bytes, and is still awake when the answer comes.
pings()
{
	cat <<END
g.0 $1 77 syscalls:sys_enter_recvmsg fd=3
g.0 $(at "$1" 2) 77 sched:sched_switch prev_pid=77 prev_state=1 next_pid=0
g.0 $(at "$1" 4) 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77
g.0 $(at "$1" 6) 77 syscalls:sys_exit_recvmsg ret=-512
g.0 $(at "$1" 8) 77 syscalls:sys_enter_sendto fd=3 len=64
END
	guest_sends $(($1 + 20)) 98
	host_gets $(($1 + 20)) 98
	host_reads $(($1 + 20))
	freed $(($1 + 20))
	echo "g.0 $(at "$1" 390) 77 syscalls:sys_exit_sendto ret=64"
}
# answered T N: N answers come at T, the last one is read
answered()
{
	for t in $(seq "$1" 500 $(($1 + 500 * ($2 - 1)))); do
		rx "$t" 98 | sed "/^g.0 [0-9]* 77 /d; /sched_waking pid=77/d; /^g.0 [0-9]* 0 sched/d
			s/^g.0 [0-9]*60 0 napi:.*/g.0 $(at "$t" 350) 0 skb:kfree_skb skbaddr=0x1a00 $soft\n&/"
	done
	cat <<END
g.0 $(at "$t" 400) 77 syscalls:sys_enter_recvmsg fd=3
g.0 $(at "$t" 420) 77 skb:skb_copy_datagram_iovec skbaddr=0x7777 len=84
g.0 $(at "$t" 440) 77 syscalls:sys_exit_recvmsg ret=84
END
}
{ rx 10000; pings 20000; pings 22000; answered 23000 1; } | make_pair awake
net awake --format csv
is "$(stages net-rx | grep -o 'stack.*')" "stack 2 120, run 1 60, ask 1 100, read 2 70, return 1 20" \
	"one that is awake is known to read what it alone can read"
is "$(stages net-tx | cut -d , -f 1-3)" "total 2 484, send 2 24, qdisc 2 10" "... which it sent"
{ rx 10000; pings 20000; pings 22000; answered 23000 2; } | make_pair two
net two --format csv
is "$(stages net-rx | grep -o 'stack.*')" "stack 3 260, run 1 60, read 1 50" "... not which of two"
{ rx 10000; pings 20000; pings 22000 | sed '/prev_state=1/d'; answered 23000 1; } | make_pair unknown
net unknown --format csv
is "$(stages net-rx | grep -o 'stack.*')" "stack 2 170, run 1 60, read 1 50" "... if it was not seen to wait before"
{ rx 10000; { pings 20000; pings 22000; } | sed 's/len=64/len=70/'; answered 23000 1; } | make_pair other
net other --format csv
is "$(stages net-rx | grep -o 'stack.*')" "stack 2 170, run 1 60, read 1 50" "... if it is no raw socket"

# ---- bridges ----

# host_gets and host_reads, with a bridge that hands it on to the host
{
	tx 10000
	guest_sends 20000 200
	host_gets 20000 200
	echo "h.1 20140 102 net:netif_receive_skb_entry skbaddr=0xb00 len=186 queue_mapping=1 name=br0"
	echo "h.1 20145 102 net:netif_receive_skb skbaddr=0xb00 len=186 name=br0"
	host_reads 20000
	freed 20000
	tx 30000
} | make_pair bridge
net bridge --format csv
is "$(stages net-tx)" "total 3 690, qdisc 3 15, doorbell 3 75, wake 3 150, take 3 150, stack 3 120, run 3 90, read 3 90" \
	"a bridge of the host's hands it to a task"
# ... and a task of the host that sends through it
{
	rx 10000
	cat <<END
h.1 19950 50 syscalls:sys_enter_sendto fd=3 len=58
h.1 19960 50 net:net_dev_queue skbaddr=0xa00 len=100 name=br0
h.1 19970 50 net:net_dev_start_xmit skbaddr=0xa00 len=100 queue_mapping=0 name=br0
END
	rx 20000
} | make_pair through
net through --format csv
is "$(stages net-rx | cut -d , -f 1-3)" "total 2 950, send 1 50, qdisc 2 20" "a bridge in the way of a system call"
# The host's NIC merges two packets into one, which is passed on.
{
	rx 10000
	echo "h.1 19900 0 net:napi_gro_receive_entry skbaddr=0xa00 len=86 queue_mapping=0 name=eth9 $soft"
	echo "h.1 19920 0 net:napi_gro_receive_entry skbaddr=0xa10 len=86 queue_mapping=0 name=eth9 $soft"
	echo "h.1 19930 0 net:netif_receive_skb skbaddr=0xa00 len=144 name=eth9 $soft"
	rx 20000 158 | sed "/^h.1 200[01]0 50 /s/ 50 \(.*\)/ 0 \1 $soft/"
} | make_pair merged
net merged --format csv
is "$(stages net-rx | cut -d , -f 1,2)" "total 2 1000, forward 1 100" "what a NIC merged is one packet from then on"

# Two of each: lengths and numbers tell which is which.
second() { sed 's/tap0/tap1/; s/eth0/eth1/; s/0xa0/0xc0/; s/0x1a/0x3a/; s/napi=1/napi=2/'; }
for n in 1 2 3 4 5 6; do
	rx ${n}0000 $((100 + n))
	rx ${n}5000 $((300 + n)) | second
done | make_pair several
net several --format csv
is "$(counts net-rx)" "12 12 0 0 0 0" "two devices of a guest"
is "$(sed -n 's/^net-rx,"one","\([^"]*\)",total,\([0-9]*\),.*/\1 \2/p' "$out" | sort | tr '\n' ';')" \
	"tap0 > eth0, vhost 6;tap1 > eth1, vhost 6;" "... are told apart"

# ---- with less ----

without()
{
	for side in host guest; do
		grep -v "$1" "$tmp/plain-$side.txt" >"$tmp/less-$side.txt"
		rm -rf "$tmp/less-$side"
		"$mkcap" --capture "$tmp/less-$side" "$tmp/less-$side.txt"
	done
	net less --format csv
}
without "skb_copy_datagram_iovec"
status_is 4 "without an event that it needs"
err_has "the host capture has no skb_copy_datagram_iovec" "... which is reported"
err_has "record -e default -e net" "... and what to record"
without "napi_poll"
status_is 4 "... of the guest"
run "$kvmft" latency net -q "$tmp/plain-host"
status_is 4 "without a guest"
without sched_waking
status_is 4 "without sched_waking, who was given a packet is not known"
without 'netif_receive_skb_entry\|irq:softirq_raise'
status_is 0 "without what only tells more"
is "$(stages net-rx)" "total 1 450, qdisc 1 10, wake 1 40, take 1 40, napi 1 170, stack 1 80, run 1 60, read 1 50" "... there is less to tell"
finish
