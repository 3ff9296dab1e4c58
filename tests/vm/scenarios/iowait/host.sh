# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A guest reads from its disks while its VMM has what it needs, while the memory that is read into is on a slow swap
# device or packed in memory (zram), while the disk behind is slow and its cache empty, and while the VMM's main thread
# keeps the VMM's lock, which a vCPU must have to take a request itself. What the kernel itself counted of the VMM's
# threads meanwhile is carried out: before-PHASE and after-PHASE.

. "$VM_LIB/host.sh"

need_kvmft
SLOW_NS=3000000
[ -x "$(dirname "$KVMFT")/tests/tools/ioreads" ] || die "no tests/tools/ioreads: make test-tools"
modprobe null_blk nr_devices=2 gb=1 memory_backed=1 irqmode=2 completion_nsec=$SLOW_NS || die "no null_blk"
mkswap /dev/nullb0 >/dev/null && swapon /dev/nullb0 || die "no swap"
echo 0 >/sys/block/nullb1/queue/read_ahead_kb
modprobe zram num_devices=1 && echo 64M >/sys/block/zram0/disksize && mkswap /dev/zram0 >/dev/null || die "no zram"
echo 0 >/proc/sys/vm/page-cluster # a page that is needed, and none beside it
echo never >/sys/kernel/mm/transparent_hugepage/enabled
echo 1 >/proc/sys/kernel/sched_schedstats || die "the scheduler counts no waits"
fact slow_ns $SLOW_NS

truncate -s 64M /tmp/main.img /tmp/busy.img
# A doorbell of the disk "busy" is the vCPU's own work.
guest_start vm1 --mem 512 --qemu-args "-drive if=none,id=main,file=/tmp/main.img,format=raw \
-device virtio-blk-pci,drive=main,serial=main \
-drive if=none,id=busy,file=/tmp/busy.img,format=raw -device virtio-blk-pci,drive=busy,serial=busy,ioeventfd=off \
-drive if=none,id=cold,file=/dev/nullb1,format=raw -device virtio-blk-pci,drive=cold,serial=cold"
guest_wait_up vm1
flag_wait guest-ready
vmm=$(guest_pid vm1)
vcpus=$(guest_tid vm1 0),$(guest_tid vm1 1)

# threads FILE: of each thread of the VMM but its vCPUs', and of the disk: its faults, those that had to read, ms that it
# slept for I/O, how often, and ms that it wanted a CPU. And of the whole, with threads that have ended.
threads()
{
	perl -e 'my ($pid, $vcpus) = @ARGV; my %vcpu = map { $_ => 1 } split(",", $vcpus);
		sub text { local $/; open(my $f, "<", shift) or return ""; my $t = <$f>; return $t; }
		sub faults { my ($rest) = text($_[0]) =~ /.*\) (.*)/s or return; my @f = split(" ", $rest); return @f[7, 9]; }
		print join(" ", "all", faults("/proc/$pid/stat")), "\n";
		for my $path (glob("/proc/$pid/task/*")) {
			my ($tid) = $path =~ /(\d+)$/;
			my @f = faults("$path/stat") or next;
			my $sched = text("$path/sched");
			my @s = map { $sched =~ /\b$_\s*:\s*([\d.]+)/ ? $1 : die "no $_ of $tid" } qw(iowait_sum iowait_count wait_sum);
			print join(" ", $vcpu{$tid} ? "vcpu" : "thread", $tid, @f, @s), "\n";
		}' "$vmm" "$vcpus" >"$1" || die "cannot count"
	echo "disk $(cat /sys/block/nullb1/stat)" >>"$1"
}

# page_out PAGES: those of the guest's memory go to swap. What was written there stays in the cache until it is read and
# taken away once more, unchanged.
page_out()
{
	perl -e 'my ($pid, $pages) = @ARGV; my ($best, $at) = (0);
		open(my $f, "<", "/proc/$pid/maps") or die;
		while (<$f>) { /^(\w+)-(\w+) rw/ or next; my ($a, $b) = (hex $1, hex $2);
			($best, $at) = ($b - $a, $a) if $b - $a > $best; }
		open($f, "<", $pages) or die "$pages: $!";
		my @at = map { $at + hex } <$f>;
		my $fd = syscall(434, $pid + 0, 0); die "pidfd_open: $!" if $fd < 0;
		open(my $map, "<", "/proc/$pid/pagemap") or die;
		open(my $memory, "<", "/proc/$pid/mem") or die;
		my ($n, $text);
		sub take {
			for (my $i = 0; $i < @at; $i += 256) {
				my $last = $i + 255 < $#at ? $i + 255 : $#at;
				my $vec = join("", map { pack("QQ", $_, 4096) } @at[$i .. $last]);
				syscall(440, $fd, $vec, $last - $i + 1, 21, 0) >= 0 or die "process_madvise: $!";
			}
			select(undef, undef, undef, 0.3);
		}
		for (1 .. 4) {
			take();
			for (@at) { sysseek($memory, $_, 0); sysread($memory, $text, 1) == 1 or die "read: $!"; }
			take();
			$n = 0;
			for (@at) { sysseek($map, $_ / 4096 * 8, 0); sysread($map, $text, 8) == 8 or die; $n += unpack("Q", $text) >> 62 == 1; }
		}
		print "$n\n";' "$vmm" "$1" >/tmp/out || die "nothing goes to swap"
	note "$(cat /tmp/out) pages went to swap"
	fact "out_$name" "$(cat /tmp/out)"
}

# phase NAME BEFORE DURING: recorded on both sides while the guest reads; what is done before, and again and again meanwhile.
phase()
{
	name=$1
	"$KVMFT" record -o "/tmp/$name" -b 16M --vm vm1 -e default -e io 2>"/tmp/$name.err" &
	recorder=$!
	wait_until 60 grep -qs '^begin ' "/tmp/$name/meta" || die "no recording: $(cat "/tmp/$name.err")"
	flag_set "$name"
	flag_wait "$name-ready"
	$2
	threads "/tmp/before-$name"
	flag_set "$name-go"
	until flag_test "$name-read"; do
		$3 || die "$name: $3 failed"
	done
	threads "/tmp/after-$name"
	flag_wait "$name-done"
	kill -TERM "$recorder"
	wait "$recorder"
	check "host: $name: record exits 0" same "$?" 0
	sed 's/^/# /' "/tmp/$name.err"
	carry "/tmp/before-$name"
	carry "/tmp/after-$name"
	tar -cf "$RESULTS/$name.tar" -C /tmp "$name"
}

nothing() { :; }
a_while() { sleep 0.1; }
out() { page_out "$RESULTS/pages-$name"; }
# hold: writing the guest's memory to a file keeps the lock.
hold()
{
	perl -MIO::Socket::UNIX -MTime::HiRes=time,sleep -e '
		my $s = IO::Socket::UNIX->new(Peer => shift) or die "monitor: $!";
		my $held = 0;
		sub answer { my $text = ""; while ($text !~ /\(qemu\) $/) { sysread($s, $text, 65536, length $text) or die; } }
		answer();
		for (1 .. 20) {
			my $from = time;
			syswrite($s, "pmemsave 0 8388608 \"/tmp/saved\"\n");
			answer();
			$held += time - $from;
			sleep 0.01;
		}
		printf("%d\n", $held * 1e6);' /run/vm/vm1/monitor.sock >>/tmp/held
}

phase quiet nothing a_while
phase swapped out a_while
swapon -p 10 /dev/zram0 || die "no swap"
phase packed out a_while
echo 1 >/proc/sys/vm/drop_caches
phase cold nothing a_while
phase locked nothing hold
fact held_us "$(awk '{ s += $1 } END { print s }' /tmp/held)"
flag_set host-done
check "guest: all well" guest_wait_done vm1
finish
