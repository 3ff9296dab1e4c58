# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A guest reads from its disks while its VMM has what it needs, while memory of the VMM's is on a slow swap device,
# and while its main thread keeps the VMM's lock, which a vCPU must have to take a request itself.

. "$VM_LIB/host.sh"

need_kvmft
SWAP_NS=3000000
modprobe null_blk nr_devices=1 gb=1 memory_backed=1 irqmode=2 completion_nsec=$SWAP_NS || die "no null_blk"
mkswap /dev/nullb0 >/dev/null && swapon /dev/nullb0 || die "no swap"
fact swap_ns $SWAP_NS
dd if=/dev/zero of=/tmp/second.img bs=1M count=32 2>/dev/null
# A doorbell of the second disk is the vCPU's own work.
guest_start vm1 --mem 512 --cmdline init_on_alloc=0 --qemu-args "-drive if=none,id=second,file=/tmp/second.img,format=raw \
-device virtio-blk-pci,drive=second,ioeventfd=off"
guest_wait_up vm1
flag_wait guest-ready
vmm=$(guest_pid vm1)

majors()
{
	sed 's/.*) //' "$1" | cut -d ' ' -f 10
}

# faults: page faults of the VMM that had to read something, but for its vCPUs'
faults()
{
	sum=$(majors /proc/"$vmm"/stat)
	for vcpu in 0 1; do
		sum=$((sum - $(majors /proc/"$vmm"/task/"$(guest_tid vm1 $vcpu)"/stat)))
	done
	echo $sum
}

# page_out: what QEMU has mapped most of is the guest's memory.
page_out()
{
	perl -e 'my ($pid) = @ARGV; my ($best, $at) = (0);
		open(my $f, "<", "/proc/$pid/maps") or die;
		while (<$f>) { /^(\w+)-(\w+) rw/ or next; my ($a, $b) = (hex $1, hex $2);
			($best, $at) = ($b - $a, $a) if $b - $a > $best; }
		my $fd = syscall(434, $pid + 0, 0); die "pidfd_open: $!" if $fd < 0;
		my $vec = pack("QQ", $at, $best);
		for (1 .. 4) { syscall(440, $fd, $vec, 1, 21, 0) >= 0 or die "process_madvise: $!"; sleep 1 }' "$vmm"
}

# phase NAME: recorded on both sides until the guest has read; WHAT is done meanwhile, again and again.
phase()
{
	name=$1
	shift
	"$KVMFT" record -o "/tmp/$name" -b 16M --vm vm1 -e default -e io 2>"/tmp/$name.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/$name/meta" || die "no recording: $(cat "/tmp/$name.err")"
	before=$(faults)
	flag_set "$name"
	until flag_test "$name-done"; do
		"$@" || die "$name: $* failed"
	done
	fact "faults_$name" $(($(faults) - before))
	kill -TERM "$recorder"
	wait "$recorder"
	check "host: $name: record exits 0" same "$?" 0
	sed 's/^/# /' "/tmp/$name.err"
	tar -cf "$RESULTS/$name.tar" -C /tmp "$name"
}

held_us=0
hold()
{
	from=$(date +%s%N)
	guest_monitor vm1 'pmemsave 0 67108864 "/tmp/saved"' >/dev/null
	held_us=$((held_us + ($(date +%s%N) - from) / 1000))
	sleep 0.2
}

phase quiet sleep 0.1
# What the guest had and gave back it uses next, and without init_on_alloc does not write to it before.
flag_wait freed 120
page_out || die "nothing goes to swap"
sleep 3
phase swapped sleep 0.1
phase locked hold
fact held_us $held_us
flag_set host-done
check "guest: all well" guest_wait_done vm1
swapoff /dev/nullb0
finish
