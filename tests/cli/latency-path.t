#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# `kvmft latency io`: what the VMM's threads waited for while they worked for a request. Stamps are ns; the doorbell
# is rung at 2000, and thread 100 raises the interrupt at 7000. Threads 102 and 103 are workers.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden

"$mkcap" --capture "$tmp/guest" "$golden/latency-guest.txt"

# told NAME WAITS: the host's capture has the events of standard input; WAITS are the stages' ns and the faults.
told()
{
	{
		cat <<'EVENTS'
event raw_syscalls sys_enter 901 s64:id bytes16:args
event exceptions page_fault_user 902 u64:address
event exceptions page_fault_kernel 903 u64:address
event filemap mm_filemap_add_to_page_cache 904 u64:pfn
meta task tid=102 tgid=100 comm=worker
meta task tid=103 tgid=100 comm=worker
recorded sched:sched_waking block:block_bio_queue filemap:mm_filemap_add_to_page_cache
recorded exceptions:page_fault_user exceptions:page_fault_kernel
EVENTS
		sed -n '1,/^0   2200/p' "$golden/latency-host.txt"
		echo "4   1040 101 raw_syscalls:sys_enter id=16"
		echo "4   1050 100 raw_syscalls:sys_enter id=271"
		sed 's/ call=\([a-z]*\)/ raw_syscalls:sys_enter id=\1/
			s/id=poll/id=271/; s/id=preadv/id=295/
			s/id=futex/id=202 args=0080/; s/id=idle/id=202 args=0089/; s/id=wake/id=202 args=0081/
			s/ fault$/ exceptions:page_fault_kernel/; s/ program$/ exceptions:page_fault_user/
			s/ bio$/ block:block_bio_queue dev=1/; s/ page$/ filemap:mm_filemap_add_to_page_cache pfn=1/
			s/ sleeps\(.*\)/ sched:sched_switch prev_pid=@ prev_state=2 next_pid=0\1/
			s/ robbed\(.*\)/ sched:sched_switch prev_pid=@ prev_state=0x100 next_pid=0\1/
			s/next_pid=0 next=/next_pid=/
			s/ runs=\([0-9]*\)/ sched:sched_switch prev_pid=0 prev_state=0 next_pid=\1/
			s/ wakes=/ sched:sched_waking pid=/; s/ ends=/ sched:sched_waking common_flags=8 pid=/
			s/^\([0-9]* *[0-9]* *\)\([0-9]*\)\(.*\)@/\1\2\3\2/'
		sed -n '/^1   7000/,$p' "$golden/latency-host.txt"
	} >"$tmp/host.txt"
	rm -rf "$tmp/host"
	"$mkcap" --capture "$tmp/host" "$tmp/host.txt"
	run "$kvmft" latency io --all --format csv -q "$tmp/host" "$tmp/guest=one"
	is "$(sed -n "s/^io,\"one\",.*,vmm-\([a-z]*\),1,\([0-9.]*\),.*/\1 \2/p
		s/^io,\"\",\"with unknown waits of the VMM's .*,counted,1,.*/untold/p
		s/^io,\"\",\"page faults of .*,counted,\([1-9][0-9]*\),.*/faults \1/p" "$out" |
		grep -v '^wait ' | tr '\n' ';')" "$2" "$1"
}

told "the main thread alone, no wait" "" <<'END'
1   1100 100 call=poll
END
told "its first event comes after the doorbell: what it did before is not known" "untold;" <<'END'
4   gap 1
4   1070   0 sched:sched_wakeup pid=999
1   4100   0 runs=100
END
told "a fault of its own that reads" "cpu 0.100;fault 0.900;faults 1;" <<'END'
1   3000 100 program
1   3010 100 bio
1   3100 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
END
told "a fault of its own that waits for what another one reads" "cpu 0.100;fault 0.900;faults 1;" <<'END'
1   3000 100 program
1   3100 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
END
run "$kvmft" latency io --all --context 0 -q "$tmp/host" "$tmp/guest=one"
out_has '^  of that waits: vmm-fault 13 %, vmm-cpu 1 %$' "... which says why the host took so long"
run "$kvmft" latency io -q "$tmp/host" "$tmp/guest=one"
out_has '  *of that vmm-fault 900 ns$' "... also of the worst"
# For a cause all has to be recorded that could show another one.
{
	cat "$tmp/host.txt"
	echo "1 900000 55 kvm_userspace_exit reason=5"
	echo "1 900100 55 block:block_rq_issue dev=9 sector=1 nr_sector=8 bytes=4096"
	echo "1 900200 55 block:block_rq_complete dev=9 sector=1 nr_sector=8"
} >"$tmp/all.txt"
"$mkcap" --capture "$tmp/all" "$tmp/all.txt"
run "$kvmft" blame --than 1us --top 100 -q "$tmp/all" "$tmp/guest=one"
out_has ' 900 ns  *[0-9]* %  vmm: its thread had a page fault$' "... and of what blame says"
told "faults before the request are not its; one that is served at once is no wait" "faults 1;" <<'END'
1   1900 100 program
1   3000 100 program
END
told "memory read in, in a call that copies" "cpu 0.100;fault 0.900;faults 1;" <<'END'
1   2900 100 call=preadv
1   3000 100 fault
1   3010 100 bio
1   3100 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
1   4200 100 call=poll
END
told "... memory that another thread reads in" "cpu 0.100;fault 0.900;faults 1;" <<'END'
1   2900 100 call=preadv
1   3000 100 fault
1   3100 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
END
told "a call that sleeps after a fault served at once: not told" "cpu 0.100;sleep 0.900;faults 1;" <<'END'
1   2900 100 call=poll
1   3000 100 fault
1   3100 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
END
told "a lock, after memory was read in" "cpu 0.200;fault 0.400;lock 0.500;faults 1;" <<'END'
1   2900 100 call=futex
1   3000 100 fault
1   3050 100 bio
1   3100 100 sleeps
0   3500 101 ends=100
1   3600   0 runs=100
1   3650 100 call=futex
1   3700 100 sleeps
0   4200 101 wakes=100
1   4300   0 runs=100
END
told "a lock after a fault of the same call" "cpu 0.100;lock 0.900;faults 1;" <<'END'
1   2900 100 call=futex
1   3000 100 fault
1   3100 100 sleeps
0   4000 101 wakes=100
1   4100   0 runs=100
END
told "memory of a lock that is a file's" "cpu 0.100;fault 0.900;faults 1;" <<'END'
1   2900 100 call=futex
1   3000 100 fault
1   3005 100 page
1   3010 100 bio
1   3100 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
END
told "a disk, and no fault" "cpu 0.100;disk 0.900;" <<'END'
1   2900 100 call=preadv
1   3000 100 page
1   3010 100 bio
1   3100 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
END
told "a fault between two waits for the disk that the call asked" "cpu 0.200;disk 0.900;faults 1;" <<'END'
1   2900 100 call=preadv
1   3000 100 page
1   3010 100 bio
1   3100 100 sleeps
0   3500 101 ends=100
1   3600   0 runs=100
1   3700 100 fault
1   3800 100 sleeps
0   4300 101 ends=100
1   4400   0 runs=100
END
told "two faults that read, and what the call reads then" "cpu 0.300;fault 0.700;disk 0.500;faults 2;" <<'END'
1   2900 100 call=preadv
1   3000 100 fault
1   3010 100 bio
1   3100 100 sleeps
0   3500 101 ends=100
1   3600   0 runs=100
1   3700 100 fault
1   3710 100 bio
1   3800 100 sleeps
0   4100 101 ends=100
1   4200   0 runs=100
1   4210 100 page
1   4220 100 bio
1   4300 100 sleeps
0   4800 101 ends=100
1   4900   0 runs=100
END
told "an interrupt's disk is not the thread's" "cpu 0.100;sleep 0.900;" <<'END'
1   2900 100 call=preadv
1   3010 100 block:block_bio_queue common_flags=16 dev=1
1   3100 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
END
told "robbed of its CPU in a fault" "cpu 0.900;faults 1;" <<'END'
1   3000 100 program
1   3100 100 robbed
1   4000   0 runs=100
END
told "robbed of it by a vCPU" "cpu 0.900;" <<'END'
1   3100 100 robbed next=101
1   4000 101 sleeps next=100
END
told "a wait that began before the request counts from there" "cpu 0.100;fault 2.000;faults 1;" <<'END'
1   1500 100 program
1   1510 100 bio
1   1600 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
1   4200 100 program
END
told "a worker's fault, while the main thread sleeps" "cpu 0.220;fault 0.800;faults 1;" <<'END'
2   1000 102 call=idle
2   1010 102 sleeps
2   1020 103 call=idle
2   1030 103 sleeps
1   1100 100 call=poll
1   1200 100 sleeps
2   2050 101 wakes=100
1   2150   0 runs=100
1   2300 100 wakes=102
1   2320 100 call=poll
1   2330 100 sleeps
1   2370   0 runs=102
1   2500 102 call=preadv
1   2600 102 fault
1   2610 102 bio
1   2700 102 sleeps
0   3500 101 ends=102
1   3550   0 runs=102
1   3600 102 call=wake
1   3610 102 wakes=100
1   3650 102 call=idle
1   3660 102 sleeps next=100
END
told "of two workers the one that had it done is asked; the faults are both's" "cpu 0.150;disk 0.800;faults 1;" <<'END'
2   1000 102 call=idle
2   1010 102 sleeps
2   1020 103 call=idle
2   1030 103 sleeps
1   1100 100 call=poll
1   1200 100 sleeps
2   2050 101 wakes=100
1   2150   0 runs=100
1   2300 100 wakes=102
1   2310 100 wakes=103
1   2320 100 call=poll
1   2330 100 sleeps next=102
2   2420   0 runs=103
1   2500 102 call=preadv
2   2500 103 call=preadv
1   2600 102 page
2   2600 103 fault
1   2610 102 bio
2   2610 103 bio
1   2700 102 sleeps
2   2700 103 sleeps
0   3500 101 ends=102
1   3550   0 runs=102
1   3600 102 call=wake
1   3610 102 wakes=100
1   3650 102 call=idle
1   3660 102 sleeps next=100
0   6000 101 ends=103
2   6000   0 runs=103
END
told "a worker has the CPU that the main thread wants: its work, and its faults" "cpu 0.100;faults 2;" <<'END'
2   1000 102 call=idle
2   1010 102 sleeps
2   1020 103 call=idle
2   1030 103 sleeps
1   1100 100 call=poll
1   1200 100 sleeps
2   2050 101 wakes=100
1   2150   0 runs=100
1   2300 100 wakes=102
1   2330 100 robbed next=102
1   2500 102 call=preadv
1   2600 102 fault
1   2700 102 fault
1   3650 102 call=idle
1   3660 102 sleeps next=100
END
told "a worker beside the main thread, which waits for nothing" "cpu 0.100;faults 2;" <<'END'
2   1000 102 call=idle
2   1010 102 sleeps
2   1020 103 call=idle
2   1030 103 sleeps
1   1100 100 call=poll
1   1200 100 sleeps
2   2050 101 wakes=100
1   2150   0 runs=100
1   2300 100 wakes=102
2   2350   0 runs=102
2   2500 102 call=preadv
2   2600 102 fault
2   2700 102 fault
2   3650 102 call=idle
2   3660 102 sleeps
END
told "lost events before the request, in which a wait began: not told" "untold;" <<'END'
1    900 100 program
1    950 100 sleeps
1   gap 5
1   1100   0 sched:sched_wakeup pid=999
1   4100   0 runs=100
END
told "... what begins after them is" "cpu 0.100;fault 0.900;faults 1;" <<'END'
1    900 100 program
1   gap 5
1   1100   0 sched:sched_wakeup pid=999
1   1200   0 runs=100
1   3000 100 program
1   3010 100 bio
1   3100 100 sleeps
0   4000 101 ends=100
1   4100   0 runs=100
END
told "lost events between a fault and the end of its wait" "" <<'END'
1   3000 100 program
1   3010 100 bio
1   3100 100 sleeps
1   gap 5
1   4100   0 runs=100
END
err_has 'issued 1; completed 0; cut by lost events 1;' "... the request is cut, and counted"

# ---- requests without data have no sector when they are done ----

told "a request of which all is known" "cpu 0.900;" <<'END'
1   3100 100 robbed
1   4000   0 runs=100
END
sed 's/rwbs=[^ ]*//; s/nr_sector=8\( bytes=4096\)*/nr_sector=0 rwbs=FF/; /issue/s/sector=2048/sector=0/
	/complete/s/sector=2048/sector=0xffffffffffffffff/' "$golden/latency-guest.txt" >"$tmp/flush.txt"
"$mkcap" --capture "$tmp/flush" "$tmp/flush.txt"
run "$kvmft" latency io --all --context 0 -q "$tmp/host" "$tmp/flush=one"
out_has '^  1 measured: half up to 6\.6 us' "a flush is measured"
out_has '6\.6 us: 254,0 flush, one; ' "... and told as one"
finish
