# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Counts exits of a small VM with known exits and of a real guest: both engines of `kvmft exits` and
# perf kvm stat at the same time, all modes, VMs that come and go, and a kvmft that is killed.
# Leaves what was printed in exits.tar, and proves that kvmft left nothing changed in the host's
# kernel.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"
. "$SCENARIO_DIR/../exits-functions.sh"

need_kvmft
dir=/tmp/exits
mkdir $dir
cd $dir || die "no $dir"
tinyvm_make /tmp/tinyvm
tracefs_state >/tmp/state.before

# ---- a VM whose exits are known, seen by three at the same time ----

mkfifo /tmp/go
/tmp/tinyvm --wait --iterations 300 --vcpus 2 </tmp/go >tinyvm.out &
vm=$!
exec 9>/tmp/go
says tinyvm.out '^pid '
perf kvm stat record -p $vm -o /tmp/perf.data >perf.log 2>&1 9>&- &
perf=$!
counts()
{
	for fd in /proc/$perf/fd/*; do
		case $(readlink "$fd") in
		*perf_event*) return 0 ;;
		esac
	done
	return 1
}
wait_until 90 counts || die "perf does not begin: $(cat perf.log)"
background kernel -p $vm -a --time --format json --engine kernel
kernel=$pid
background user -p $vm -a --time --format json --engine user
user=$pid
background kernel-counts -p $vm -a --format json --engine kernel
kernel_counts=$pid
background user-counts -p $vm -a --format json --engine user
user_counts=$pid
sleep 3
exec 9>&-
wait $vm
check "tinyvm ran" grep -q '^vcpu 1 io=300 ' tinyvm.out
for pid in $kernel $user $kernel_counts $user_counts; do
	wait "$pid" || fail "a kvmft exits failed: $(cat ./*.err)"
done
pass "kvmft exits ends with the VM"
kill -INT $perf
wait $perf
perf kvm -i /tmp/perf.data stat report >perf.out 2>&1

# ---- one that comes and goes ----

guest_start vm1

background all
all=$pid
/tmp/tinyvm --wait --iterations 100 </tmp/go >comes.out &
vm=$!
exec 9>/tmp/go
says comes.out '^pid '
says all.err "VM $(sed -n 's/^pid \([0-9]*\) .*/\1/p' comes.out)-[0-9]* started"
sleep 1
exec 9>&-
wait $vm
sleep 0.5
kill -INT $all
wait $all
check "SIGINT ends it with 0" same $? 0

# ---- a real guest ----

guest_wait_up vm1
flag_wait guest-ready
qemu=$(guest_pid vm1)
fact pid "$qemu"
tid=$(guest_tid vm1 0)
tid1=$(guest_tid vm1 1)
fact tid0 "$tid"
fact tid1 "$tid1"

# mode NAME ARGUMENT...: runs kvmft exits and keeps its status.
mode()
{
	name=$1
	shift
	"$KVMFT" exits "$@" >"$name.out" 2>"$name.err"
	echo $? >"$name.rc"
}

mode everything 2
mode pid -p "$qemu" 2
mode vcpu -p "$qemu" -v 0 1
mode no-vcpu -p "$qemu" -v 4 1
mode threads -p "$qemu" 1 -a
mode tid -t "$tid" 1
mode tids -T "$tid1,$tid" 1
mode vm --vm vm1 --time 1
mode vm-user --vm vm1 --time --engine user -v 1 1
mode latency --latency --format json 2
mode latency-vcpu --vm vm1 -v 1 --latency --format json 2
mode latency-vcpu-user --vm vm1 -v 1 --latency --format json --engine user 2
mode no-vcpu-thread -t "$qemu" 1
mode interval --vm vm1 -a --interval 500ms -N 3 --format csv
mode metrics --interval 500ms -N 2 --time --format openmetrics -o kvm.prom
mode top --top --interval 500ms -N 2
(wait_until 30 grep -qs exits/s terminal.out; printf q) | script -qfc "'$KVMFT' exits --top -I 500ms" terminal.out >/dev/null 2>terminal.err
echo $? >terminal.rc

# ---- killed in the middle, with all that it ever sets in the kernel ----

background killed --time
kill -KILL "$pid"
wait "$pid" 2>/dev/null
"$KVMFT" reset >reset.out 2>&1
check "kvmft reset removes what a killed one left" same $? 0
sed 's/^/# /' reset.out
tracefs_state >/tmp/state.after
check "tracefs is as it was" diff /tmp/state.before /tmp/state.after
check "no synthetic event is left" same "$(cat /sys/kernel/tracing/synthetic_events)" ""
flag_set host-done
tar -cf "$RESULTS/exits.tar" -C /tmp exits
check "guest: all well" guest_wait_done vm1
finish
