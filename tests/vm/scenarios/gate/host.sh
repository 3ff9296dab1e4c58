# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Records a guest that does one operation again and again, while another program wants the CPUs in bursts. In every
# third of GATE_STRETCHES stretches of 1000 operations there are 5 % more exits per operation.

. "$VM_LIB/host.sh"

need_kvmft
mkfifo /tmp/line.in /tmp/line.out
guest_start vm1 --vcpus 1 --qemu-args "-device isa-serial,chardev=line -chardev pipe,id=line,path=/tmp/line"
guest_wait_up vm1
flag_wait guest-ready
exec 3>/tmp/line.in 4</tmp/line.out

# take NAME MORE STRETCHES
take()
{
	"$KVMFT" record -o "/tmp/$1" -b 16M 2>"/tmp/$1.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/$1/meta" || die "the recording did not start: $(cat "/tmp/$1.err")"
	echo "$2 $3" >&3
	read -r answer <&4
	note "$1: the guest says $answer"
	kill -TERM "$recorder"
	wait "$recorder"
	check "record $1: exit 0" same "$?" 0
	tar -cf "$RESULTS/$1.tar" -C /tmp "$1"
}

"$(dirname "$KVMFT")/tests/tools/procs" half /dev/null &
load=$!
take first 0 2
# 5 % in 20 operations are as many as one has.
more=$("$KVMFT" merge -e kvm:kvm_exit -e 'kvm:kvm_pio/port==0x5a0/' /tmp/first 2>/tmp/merge.err |
	awk '/kvm_pio/ { ops++ } /kvm_exit/ && ops { exits++ } END { if (ops) printf "%.0f\n", exits / ops }')
[ -n "$more" ] || die "no operations: $(cat /tmp/merge.err)"
note "$more exits per operation"
take long "$more" "${GATE_STRETCHES:-60}"
kill $load
echo end >&3
check "guest: all well" guest_wait_done vm1
finish
