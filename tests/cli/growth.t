#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: timing
#
# Of everything that a file can have, or claim to have, n and 4n: how the CPU time and the memory of
# readers grow. Neither may grow faster than n log n: 4n takes less than LIMIT times what n does, each the least of
# some runs; n^2 would be 16. Times below FLOOR_US count as that.

. "$(dirname "$0")/lib.sh"

tools=${KVMFT_TOOLS:-$top/build/tests/tools}
plain=${KVMFT_PLAIN:-$kvmft}
golden=$top/tests/golden
LIMIT=5.5
FLOOR_US=8000
times=3 # of each run
first=1 # time, before more are tried; check-all begins with three
# make check looks at some, and at smaller ones.
scale=1
only=" same_vms vms tasks epochs pvclocks cpus cpus_missing buffers packed v7_chain qemu_names gaps robberies text_tasks text_others text_clocks text_robbed text_fetched text_ready text_gaps text_boots text_rips losses_anywhere records apart apart_again doorbells vms_ran text_accepts text_irqs orphans reasons vcpus_ran vcpu_threads vms_robbed "
[ "${CHECK_ALL:-0}" != 1 ] || scale=4 only='' first=3
left=0

cd "$tmp" || exit 1
for side in host guest; do
	ok "$side is compiled" "$tools/mkcap" --capture base-$side "$golden/latency-$side.txt"
done

# Each make_X writes ./host, ./guest or ./file, with n of X.
# meta_lines SIDE AWK: lines for meta, of i
meta_lines()
{
	sed '$d' "base-$1/meta" >"$1/meta"
	awk -v n="$n" "BEGIN { for (i = 1; i <= n; i++) { $2 } }" >>"$1/meta"
	tail -n 1 "base-$1/meta" >>"$1/meta"
}

make_vms() { meta_lines host 'print "vm id=" i + 1000 "-5 pid=" i + 1000 " fd=5 name=v" i; print "vcpu vm=" i + 1000 "-5 id=0 tid=" i + 100000 " offset=" i " ratio=0 frac=48"'; }
make_same_vms() { meta_lines host 'print "vm id=" i + 1000 "-5 pid=" i + 1000 " fd=5 name=same uuid=6b766d66-7400-4000-8000-000000000001"'; }
make_vcpus() { meta_lines host 'print "vcpu vm=100-12 id=" i " tid=" i + 1000 " offset=" i " ratio=0 frac=48"'; }
make_tasks() { meta_lines host 'print "task tid=" i + 1000 " tgid=" int(i / 3) + 1000 " comm=t" i'; }
make_losses() { meta_lines host 'print "lost cpu=" i % 2 " count=1 from=" i * 10 " to=" i * 10 + 5 " first=" i " last=" i + 1'; }
# Each claims to be anywhere; of many CPUs.
make_losses_anywhere()
{
	rm -rf host
	"$makers/gen" --capture host --events $((n * 20)) --cpus 1 --subbuf 1K
	cp host/meta meta.old
	awk -v n="$n" '/^end / { for (i = 1; i <= n; i++) print "lost cpu=0 count=1 from=0 to=9223372036854775807 first=0" } { print }' meta.old >host/meta
}
make_losses_cpus()
{
	meta_lines host 'print "lost cpu=" i % int(n / 4) " count=1 from=" i * 10 " to=" i * 10 + 5 " first=" i " last=" i + 1'
	i=2
	while [ $i -lt $((n / 4)) ]; do
		: >host/seg000000/cpu$i
		i=$((i + 1))
	done
}
# CPUs of which nothing is here, so each is in doubt until the last event of all.
make_cpus_missing() { meta_lines guest 'print "stats when=end cpu=" i " entries=0 overrun=0 commit_overrun=0 dropped=0 read=1 subbufs=1"'; }
make_brackets() { meta_lines host 'print "time tsc=" i * 1000 " width=2 mono_raw=" i * 1000 " mono=" i * 1000 " boot=" i * 1000 " real=" i * 1000'; }
make_clocks() { meta_lines host 'print "clock name=local tsc=" i * 1000 " width=2 ns=" i * 1000'; }
make_pvclocks() { meta_lines guest 'print "pvclock cpu=" i % 2 " version=" 2 * i " tsc_timestamp=" i * 100 " system_time=" i * 100 " mul=2147483648 shift=1 flags=1"'; }
make_pvclocks_and_times()
{
	make_pvclocks
	awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) print "time tsc=" i * 1000 " width=2 mono_raw=" i * 1000 " mono=" i * 1000 " boot=" i * 1000 " real=" i * 1000 }' >>guest/meta
}
make_markers() { meta_lines host 'print "sdt sys=sdt_q name=m" i " provider=q marker=m" i " binary=/usr/bin/q places=1"'; }
make_qemus() { meta_lines host 'print "qemu pid=" i " version=7.2 binary=/usr/bin/qemu" i'; }
make_segments_told() { meta_lines host 'print "segment n=" i " tsc=" i * 100'; }
make_stats() { meta_lines host 'print "stats when=" (i % 2 ? "begin" : "end") " cpu=" i % 4000 " entries=1 overrun=0 commit_overrun=0 dropped=0 read=" i'; }
make_events() { meta_lines host 'print "event id=" i % 60000 + 400 " sys=s" i " name=e" i'; }
make_segments()
{
	i=0
	while [ $i -lt $((n / 10)) ]; do
		i=$((i + 1))
		cp -R host/seg000000 "host/seg$(printf %06d $i)"
	done
}
make_cmdlines() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) print i, "task" i }' >host/saved_cmdlines; }
make_strings() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) printf "0x%x : \"text %d\"\n", i * 16, i }' >host/printk_formats; }
make_epochs()
{
	rm -rf host
	{
		cat "$golden/latency-host.txt"
		awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++)
			print 1, 100000 + i * 10, 101, "kvm_write_tsc_offset vcpu_id=" i % 8, "previous_tsc_offset=" i, "next_tsc_offset=" i + 1 }'
	} >host.txt
	"$makers/mkcap" --capture host host.txt
}
# More to forget, and more gaps to forget it at: vCPUs of a host, tasks of a guest.
make_gaps()
{
	rm -rf host guest
	for side in host guest; do
		{
			cat "$golden/latency-$side.txt"
			awk -v n="$n" -v side=$side 'BEGIN {
				if (side == "host")
					for (i = 1; i <= n; i++)
						print "meta vcpu vm=100-12 id=" i + 9 " tid=" i + 1000 " offset=0 ratio=0 frac=48"
				for (i = 1; i <= n; i++) {
					t = 1000000 + i * 10
					if (side == "guest") {
						print 0, t, 9, "sched:sched_switch prev_pid=" i + 9 " prev_state=1 next_pid=" i + 10
						continue
					}
					print 1, t, i + 1000, "kvm_entry vcpu_id=" i + 9
					print 1, t + 5, i + 1000, "kvm_exit exit_reason=0x1 isa=1"
				}
				for (i = 1; i <= n / 4; i++) {
					t = 1000000 + n * 10 + i * 10
					print (side == "host") " gap 1"
					print (side == "host"), t, 9, "sched:sched_switch prev_pid=9 prev_state=1 next_pid=10"
				}
			}'
		} >text.txt
		"$makers/mkcap" --capture $side text.txt
	done
}
# VMs of which nothing is seen, and gaps over which what they do is forgotten.
make_boot_gaps()
{
	rm -rf host
	awk -v n="$n" 'BEGIN {
		for (i = 1; i <= n; i++)
			print "meta vm id=" i + 99 "-1 pid=" i + 99 " fd=1 name=v" i "\nmeta vcpu vm=" i + 99 "-1 id=0 tid=" i + 20000 " offset=0 ratio=0 frac=48"
		for (i = 1; i <= n; i++)
			print 0, i * 200, 20001, "kvm_entry vcpu_id=0 rip=65520\n0 gap 1\n0", i * 200 + 100, 20001, "kvm_exit exit_reason=10 isa=1 guest_rip=4096"
	}' >text.txt
	"$makers/mkcap" --capture host text.txt
}
# Reasons of exits that no machine has
make_reasons()
{
	rm -rf host
	awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) print 0, i * 100, "101 kvm_exit exit_reason=" i " isa=1\n0", i * 100 + 50, "101 kvm_entry vcpu_id=0" }' >host.txt
	"$makers/mkcap" --capture host host.txt
}
# VMs that wait for their CPU, beside that of a guest
make_vms_robbed()
{
	rm -rf host
	{
		cat "$golden/latency-host.txt"
		awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) { t = 1000000 + i * 100; u = i + 1000; print "meta vm id=" u "-1 pid=" u " fd=1 name=v" i "\nmeta vcpu vm=" u "-1 id=0 tid=" u " offset=0 ratio=0 frac=48"
			print 0, t, u, "kvm_exit exit_reason=1 isa=1\n0", t + 5, u, "sched:sched_switch prev_pid=" u " prev_state=0 next_pid=55\n0", t + 50, "55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=" u "\n0", t + 60, u, "kvm_entry vcpu_id=0" } }'
	} >host.txt
	"$makers/mkcap" --capture host host.txt
}
# Requests that never end, and doorbells for a few others.
make_requests()
{
	rm -rf host guest
	for side in host guest; do
		{
			cat "$golden/latency-$side.txt"
			awk -v n="$n" -v side=$side 'BEGIN {
				rq = "0 block:block_rq_issue dev=0xfd00001 nr_sector=8 bytes=4096 rwbs=R comm=x cmd="
				for (i = 1; side == "guest" && i <= n; i++)
					print 0, 1000000 + i, rq, "sector=" i * 8
				for (i = 1; i <= n; i++) {
					t = 1000000 + n + i * 100
					if (side == "guest") {
						print 0, t, rq, "sector=" (n + i) * 8
						continue
					}
					print "0", t + 10, "101 kvm_exit exit_reason=0x31 isa=1"
					print "0", t + 20, "101 kvm_fast_mmio gpa=0xfebf3000"
					print "0", t + 30, "101 kvm_entry vcpu_id=0"
				}
			}'
		} >text.txt
		"$makers/mkcap" --capture $side text.txt
	done
}
# A vCPU that is robbed of its CPU over and over: as many moments to tell of.
make_robberies()
{
	rm -rf host
	{
		cat "$golden/latency-host.txt"
		awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) {
			t = 1000000 + i * 1000
			print 0, t, "101 kvm_entry vcpu_id=0"
			print 0, t + 100, "101 kvm_exit exit_reason=1 isa=1"
			print 0, t + 200, "101 sched:sched_switch prev_pid=101 prev_state=0x100 next_pid=55"
			print 0, t + 800, "55 sched:sched_switch prev_pid=55 prev_state=1 next_pid=101"
		} }'
	} >host.txt
	"$tools/mkcap" --capture host host.txt
}
# Of CPUs that a file claims to have, with hardly any events.
make_cpus() { "$makers/gen" --trace-dat file --events $((n / 4)) --cpus $((n / 20)) --subbuf 1K; }
# Buffers that all claim the same events of n / 10 CPUs.
make_buffers() { "$makers/gen" --trace-dat file --events 1000 --cpus $((n / 10)) --subbuf 1K --buffers "$n"; }
make_fired() { meta_lines host 'print "fired why=signal tsc=" i * 100; print "segment n=" i " why=signal tsc=" i * 100 + 50 " stopped=" i * 100 + 20'; }
make_asked() { meta_lines host 'print "asked by=g" i " tsc=" i * 100; print "segment n=" i " why=control tsc=" i * 100 + 50'; }
make_cpu_facts() { meta_lines host 'print "cpu n=" i " apicid=" i'; }
make_params() { meta_lines host 'print "param module=kvm name=p" i " value=" i'; }
make_gone() { meta_lines host 'print "symbols gone=m" i'; }
make_tgids() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) print i, int(i / 2) }' >host/saved_tgids; }
make_symbols() { awk -v n="$n" 'BEGIN { for (i = 0; i < n; i++) printf "ffffffff8%07x T f%d\n", 16777216 + i * 16, i }' >file; }
make_symbols_back() { awk -v n="$n" 'BEGIN { for (i = n; i; i--) printf "ffffffff8%07x T f%d [m%d]\n", 16777216 + i * 16, i, i }' >file; }
make_fields()
{
	mkdir -p host/events/s
	{
		printf 'name: e\nID: 999\nformat:\n'
		awk -v n="$n" 'BEGIN { for (i = 0; i < n; i++) printf "\tfield:unsigned char f%d;\toffset:%d;\tsize:1;\tsigned:0;\n", i, 8 + i % 4000 }'
		printf '\nprint fmt: ""\n'
	} >host/events/s/e
	meta_lines host 'if (i == 1) print "event id=999 sys=s name=e"'
}
# Chunks of sub-buffers as large as those of a recording, which are unpacked once each.
make_packed()
{
	"$makers/gen" --capture host --events $((n * 20000)) --cpus "$n" --subbuf 64K
	"$plain" export -q -i host --to trace.dat -o plain.dat && dat_v7 plain.dat file zstd
	rm -f plain.dat
}
# Options of a version 7, before its own: n in a section, or in n.
# shellcheck disable=SC2016 # perl's
make_options()
{
	perl -we 'use strict; my ($what, $n) = @ARGV; local $/; my $d = <STDIN>;
		my %options = (
			stats => sub { [2, "CPU: $_\nentries: 1\noverrun: 1\n"] },
			guests => sub { [13, pack "Z*Q<L<4", "g$_", $_, 1, 0, 1000 + $_] },
			shifts => sub { [12, pack "Q<L<3q<3", $_, 0, 1, 1, $_, $_, 1] },
			maps => sub { [10, sprintf "%x 1 c\n1 2 lib\n", $_] },
			named => sub { [3, pack "Q<Z*Z*L<2", 0, "b$_", "local", 4096, 0] },
			chain => sub { [6, "sched:sched_switch"] },
		);
		$d =~ /^.{18}[^\0]*\0[^\0]*\0/s or die; my $at = $+[0]; my $next = unpack "x$at Q<", $d;
		my $section = sub {
			my $to = length $d;
			$d .= pack "S<2l<Q</a*", 0, 0, -1, join("", map { pack "S<L</a*", @$_ } @_) . pack "S<L<Q<", 0, 8, $next;
			$next = $to;
		};
		my @all = map { $options{$what}->() } 1 .. $n;
		$what eq "chain" ? map { $section->($_) } @all : $section->(@all);
		substr $d, $at, 8, pack "Q<", $next; print $d' "$1" "$n" <v7.dat >file
}
make_v7_stats() { make_options stats; }
make_v7_guests() { make_options guests; }
make_v7_shifts() { make_options shifts; }
make_v7_maps() { make_options maps; }
make_v7_named() { make_options named; }
make_v7_chain() { make_options chain; }
make_dat_events() { "$makers/gen" --trace-dat file --events $((n * 4)) --cpus 2 --subbuf 4K; }
# A text says nothing of VMs: each thread may be one.
make_text_tasks() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) printf " t%d-%d [000] d..1. %d.%06d: kvm_entry: vcpu 0, rip 0x1\n", i, i, 1 + i / 1000000, i % 1000000 }' >file; }
# VMs of a thread each, and as many threads that are no VM
make_text_others() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) { t = sprintf("1.%07d", 10 * i); u = sprintf("1.%07d", 10 * i + 3)
	printf " c-%d [000] %s: kvm_entry: vcpu 0, rip 0x1\n c-%d [000] %s: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0\n", i, t, i, u
	printf " o-%d [001] %s: sched_switch: prev_comm=o prev_pid=%d prev_prio=120 prev_state=S ==> next_comm=o next_pid=%d next_prio=120\n", i + n, u, i + n, i + n + 1 } }' >file; }
# ... of which each has a change of its clock
make_text_clocks() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) { t = sprintf(" c-%d [000] 1.%07d:", i, 10 * i)
	printf "%s kvm_write_tsc_offset: vcpu=0 prev=0 next=%d\n%s kvm_entry: vcpu 0, rip 0x1\n", t, i, t } }' >file; }
make_text_vcpus() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) { printf " c-%d [000] d..1. 1.%06d: kvm_exit: vcpu %d reason npf rip 0x1 info1 0x0 info2 0x0\n", i, 2 * i, i;
	printf " c-%d [000] d..1. 1.%06d: kvm_entry: vcpu %d, rip 0x1\n", i, 2 * i + 1, i } }' >file; }
# ... that is forgotten, again and again
make_text_gaps() { awk -v n="$n" 'BEGIN { for (i = 1; i <= 2 * n; i++) { t = sprintf(" c-%d [000] %d.%07d:", i > n ? i - n : i, 1 + i / 100000, i % 100000 * 100)
	printf "%s%s kvm_entry: vcpu 0, rip 0x1\n%s kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0\n", (i > n ? "CPU:0 [LOST 5 EVENTS]\n" : ""), t, t } }' >file; }
# ... that boots
make_text_boots() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) { t = sprintf(" c-%d [000] %d.%06d:", i, 1 + i / 1000000, i % 1000000)
	printf "%s kvm_entry: vcpu 0, rip 0xfff0\n%s kvm_exit: vcpu 0 reason HLT rip 0xfff0 info1 0x0 info2 0x0\n", t, t } }' >file; }
# ... and wait for one CPU, which others take in turn
make_text_robbed() { awk -v n="$n" 'function at() { return sprintf("1.%07d", ++t * 10) }
	function sw(cpu, prev, state, next_) { printf " c-%d [%03d] %s: sched_switch: prev_comm=c prev_pid=%d prev_prio=120 prev_state=%s ==> next_comm=c next_pid=%d next_prio=120\n", prev, cpu, at(), prev, state, next_ }
	BEGIN { for (i = 1; i <= n; i++) { printf " c-%d [000] %s: kvm_entry: vcpu 0, rip 0x1\n", i, at()
		printf " c-%d [000] %s: kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0\n", i, at(); sw(0, i, "R", n + 1) }
		for (i = 0; i < n; i++) sw(0, n + 1 + i % 3, "S", n + 1 + (i + 1) % 3) }' >file; }
# ... and for memory, which others fetch
make_text_fetched() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) { t = sprintf(" c-%d [000] 1.%07d: kvm", i, i * 10)
	printf "%s_entry: vcpu 0, rip 0x1\n%s_exit: vcpu 0 reason EPT_VIOLATION rip 0x1 info1 0x0 info2 0x0\n%s_page_fault: vcpu 0 rip 0x1 address 0x%x error_code 0x2\n%s_try_async_get_page: gva = 0x%x, gfn = 0x%x\n", t, t, t, i * 4096, t, i * 4096, i }
	for (i = 1; i <= n; i++) { t = sprintf(" c-%d [000] 1.%07d: kvm", i, (n + i) * 10)
		printf "%s_async_pf_completed: gva 0x%x address 0x%x\n%s_entry: vcpu 0, rip 0x1\n", t, i * 4096, i * 4096, t } }' >file; }
# A guest alone: tasks, and gaps
make_text_ready() { awk -v n="$n" 'BEGIN { for (i = 1; i <= 2 * n; i++) { p = i > n ? 1 : i; printf "%s c-%d [000] 1.%07d: sched_switch: prev_comm=c prev_pid=%d prev_prio=120 prev_state=R ==> next_comm=c next_pid=%d next_prio=120\n", (i > n ? "CPU:0 [LOST 5 EVENTS]\n" : ""), p, i, p, p + 1 } }' >file; }
# Each exits once, at an address of its own.
make_text_rips() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) { printf " c-%d [000] 1.%07d: kvm_exit: vcpu 0 reason HLT rip 0x%x info1 0x0 info2 0x0\n", i, 20 * i, i * 16
	printf " c-%d [000] 1.%07d: kvm_entry: vcpu 0, rip 0x1\n", i, 20 * i + 10 } }' >file; }
# vCPUs of one VM, the last one first
make_text_down() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) printf " c-%d [000] 1.%07d: kvm_entry: vcpu %d, rip 0x1\n", i, 10 * i, n - i }' >file; }
# ... and interrupts for as many that it does not have
make_text_accepts()
{
	make_text_down
	awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) printf " c-1 [000] d..1. 2.%06d: kvm_apic_accept_irq: apicid %x vec 48 (Fixed|edge)\n", i, n + i }' >>file
}
make_text_irqs()
{
	make_text_vcpus
	awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) printf " c-1 [000] d..1. 2.%06d: kvm_apic_accept_irq: apicid %x vec 48 (Fixed|edge)\n", i, n + i }' >>file
}
# VMs of a process each, at the same descriptor: nobody knows which is whose, as the threads that made them are gone.
make_orphans()
{
	# shellcheck disable=SC2016 # perl's
	perl -we 'use strict; my $n = shift; mkdir $_ for "proc", "debug", "debug/kvm";
		sub put { open my $f, ">", $_[0] or die; print $f $_[1] }
		for my $pid (1000 .. 999 + $n) {
			my ($p, $v) = ("proc/$pid", "debug/kvm/1$pid$pid-4");
			next if -e $p;
			mkdir $_ for $p, "$p/fd", $v, "$v/vcpu0";
			put("$p/status", "Name:\tvmm\nTgid:\t$pid\nUid:\t0\t0\t0\t0\n");
			symlink "anon_inode:kvm-vm", "$p/fd/4";
			put("$v/vcpu0/pid", "0\n"), put("$v/vcpu0/tsc-offset", "0\n");
		}' "$n"
}
# ... beside that of a guest
make_vms_ran()
{
	rm -rf host guest
	{
		cat "$golden/latency-host.txt"
		awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) { t = 1000000 + i * 10; print 1, t, i + 1000, "kvm_entry vcpu_id=0"; print 1, t + 5, i + 1000, "kvm_exit exit_reason=12 isa=1" } }'
	} >host.txt
	"$makers/mkcap" --capture host host.txt && cp -R base-guest guest
}
# A guest that asks for its kvmclock anew, n times; one of n / 4 vCPUs, whose first has another TSC and does not run any more.
# clock_host AWK: a VM of m vCPUs, and its events
clock_host()
{
	rm -rf host
	awk -v n="$n" 'function vcpu(i, t, what) { print 0, t, i + 1000, "kvm_exit exit_reason=32 isa=1"; if (what) print 0, t + 1, i + 1000, what; print 0, t + 2, i + 1000, "kvm_entry vcpu_id=" i }
		function vm(m) { print "meta vm id=100-12 pid=100 fd=12 name=one"; for (i = 0; i < m; i++) print "meta vcpu vm=100-12 id=" i " tid=" i + 1000 " offset=0 ratio=0 frac=48" }
		BEGIN { '"$1"' }' >host.txt
	"$makers/mkcap" --capture host host.txt
}
make_records() { clock_host 'vm(2); for (i = 1; i <= n; i++) { t = i * 1000; vcpu(1, t, "kvm_pvclock_update vcpu_id=1 version=" 2 * i + 2 " tsc_timestamp=" t " system_time=" t " tsc_to_system_mul=2147483648 tsc_shift=1 flags=1") }'; }
make_apart() { clock_host 'm = n / 4; vm(m); for (i = 0; i < m; i++) vcpu(i, 1000 + i * 10); t = 1000 + m * 10;
	print 0, t, 1000, "kvm_write_tsc_offset vcpu_id=0 previous_tsc_offset=0 next_tsc_offset=1000000"; for (i = 1; i <= n; i++) vcpu(1 + i % (m - 1), t + i * 10)'; }
make_vcpus_ran() { clock_host 'vm(n); for (i = 0; i < n; i++) vcpu(i, 1000 + i * 10)'; }
# ... of one of its vCPUs is written apart from the other's, and back; a hundredth of n VMs
make_apart_again()
{
	rm -rf host
	awk -v n="$n" 'function vcpu(id, what) { t += 100; u = vm * 2 + 1000 + id; print 0, t, u, "kvm_exit exit_reason=32 isa=1"; if (what) print 0, t + 1, u, what; print 0, t + 2, u, "kvm_entry vcpu_id=" id }
		BEGIN { m = n / 100; for (vm = 0; vm < m; vm++) for (i = 0; i < 2; i++) print (i ? "" : "meta vm id=" vm + 100 "-12 pid=" vm + 100 " fd=12 name=v" vm "\n") "meta vcpu vm=" vm + 100 "-12 id=" i " tid=" vm * 2 + 1000 + i " offset=0 ratio=0 frac=48"
		for (k = 0; k < n; k++) { vm = k % m; odd = int(k / m) % 2; vcpu(0); vcpu(1, "kvm_write_tsc_offset vcpu_id=1 previous_tsc_offset=" !odd * 1000000 " next_tsc_offset=" odd * 1000000) } }' >host.txt
	"$makers/mkcap" --capture host host.txt
}
# ... of one vCPU, whose threads take turns, and events of its guest
make_vcpu_threads()
{
	clock_host 'm = int(n / 4); for (i = 0; i < m; i++) print (i ? "" : "meta vm id=100-12 pid=100 fd=12 name=one\n") "meta vcpu vm=100-12 id=0 tid=" i + 1000 " offset=0 ratio=0 frac=48"
		for (i = 0; i < n; i++) print 0, i * 100 + 100, i % m + 1000, "kvm_entry vcpu_id=0\n0", i * 100 + 150, i % m + 1000, "kvm_exit exit_reason=32 isa=1"'
	awk -v n="$n" 'BEGIN { print "meta side name=guest"; for (i = 0; i < n; i++) print 0, i * 100 + 120, "77 sched:sched_wakeup pid=" i }' >guest.txt
	rm -rf guest
	"$makers/mkcap" --capture guest guest.txt
}
# ... whose address spaces are forgotten
make_spaces() { clock_host 'vm(n); print "event kvmft guest_cr3 19020 u64:cr3 u64:rip u64:rsp u8:cpl u64:code u64:modes u64:fs";
	for (i = 0; i < n; i++) vcpu(i, 1000 + i * 10, "kvmft:guest_cr3 cr3=4096 rip=1 rsp=4096 cpl=3 code=0x60 modes=1 fs=" (i % 2 ? "0x7f0000001000" : "0x7f9000001000"));
	for (i = 0; i < n; i++) { print "0 gap 1"; vcpu(0, 1000 + n * 10 + i * 10) }'; }
make_text_losses() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) printf "CPU:%d [LOST %d EVENTS]\n c-1 [%03d] d..1. 1.%06d: kvm_entry: vcpu 0, rip 0x1\n", i % 8, i, i % 8, i }' >file; }
make_text_names() { awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) printf " c-1 [%03d] d..1. 1.%06d: e%d: a=%d f%d=1\n", i % 500, i, i % 9000, i, i % 100 }' >file; }
make_modules() { awk -v n="$n" 'BEGIN { for (i = 0; i < n; i++) printf "m%d 4096 0 - Live 0xffffffffc%07x\n", i, i * 4096 }' >file; }
make_qemu_names()
{
	awk -v n="$n" 'BEGIN { for (i = 0; i < n; i++) print "name", i, "event" i; for (i = 0; i < n; i++) print "event", i, 1000 + i, 7 }' >names.txt
	"$tools/genqemu" --simple 4 file names.txt
}
# A driver that gives a doorbell to its device and takes it back, n times, after it has rung it n times.
make_doorbells()
{
	{
		cat "$golden/latency-host.txt"
		echo "meta time tsc=0 width=2 mono_raw=0 mono=0 boot=0 real=0"
		echo "meta time tsc=10000000000 width=2 mono_raw=10000000000 mono=10000000000 boot=10000000000 real=10000000000"
		awk -v n="$n" 'BEGIN { for (i = 1; i <= n; i++) print 0, 100000 + i * 10, "101 kvm_fast_mmio gpa=0xfebf3000" }'
	} >host.txt
	rm -rf host
	"$makers/mkcap" --capture host host.txt || return
	awk -v n="$n" 'BEGIN { print "name 1 kvm_set_ioeventfd_mmio"
		for (i = 0; i < n; i++) printf "event 1 %d 100 23 0xfebf3000 0 %d 2 0\n", 5000000 + i, i % 2 }' >names.txt
	"$tools/genqemu" --simple 4 file names.txt
}
make_qemu_log() { awk -v n="$n" 'BEGIN { for (i = 0; i < n; i++) printf "7@%d.%06d:event%d a 0x%x\n", 1 + i / 1000000, i % 1000000, i % (n / 4 + 1), i }' >file; }
make_qemu_events() { awk -v n="$n" 'BEGIN { for (i = 0; i < n; i++) printf "event%d(int a, const char *b) \"a %%d b %%s\"\n", i }' >file; }

# cost COMMAND...: least microseconds and kilobytes
cost()
{
	i=0
	while [ $i -lt $times ]; do
		timeout 120 "$tools/cpu" "$plain" "$@"
		i=$((i + 1))
	done | awk 'NF == 2 { if (!n++ || $1 < t) t = $1; if (n == 1 || $2 < m) m = $2 } END { print t + 0, m + 0 }'
}

# grown COMMAND...: into costs; whether they are in proportion
grown()
{
	: >costs
	for factor in 1 4; do
		n=$((from * factor))
		rm -rf host guest file
		cp -R base-host host
		cp -R base-guest guest
		"make_$name" >made.log 2>&1 || return 1
		cost "$@" >>costs
	done
	awk -v limit=$LIMIT -v floor=$FLOOR_US '{ t[NR] = $1; m[NR] = $2 }
		END { exit !(NR == 2 && t[1] > 0 && t[2] > 0 && t[2] <= limit * (t[1] > floor ? t[1] : floor) && m[2] <= limit * m[1]) }' costs
}

# grows NAME N COMMAND...
grows()
{
	name=$1
	case ${only:- $1 } in
	*" $name "*) ;;
	*)
		left=$((left + 1))
		return
		;;
	esac
	from=$(($2 * scale))
	shift 2
	# What else a machine does makes a time greater, never smaller: the least of more runs, before it is said to have failed.
	for times in $first 9 27; do
		grown "$@" && break
	done
	grew=$? times=3
	result $grew "$name: $from, four times as many: $*"
	awk '{ t = t sep $1 / 1000; m = m sep $2; sep = ", " } END { print "# " t " ms; " m " kB" }' costs
}

merge="merge -q host guest=one"
grows vms 4000 merge -q host guest=one
for what in vcpus tasks losses brackets clocks markers qemus segments_told stats events cmdlines strings epochs; do
	# shellcheck disable=SC2086 # words
	grows $what 4000 $merge
done
grows losses_anywhere 500 merge -q host
# A CPU's losses cost it nothing but its own.
n=8000
cp -R base-host host
make_losses_cpus
cost merge -q host >costs
rm -rf host
ok "$n losses of $((n / 4)) CPUs: $(cut -d ' ' -f 2 costs) kB" awk '{ exit !($1 > 0 && $2 < 60000) }' costs
# What an archive says of its members costs no more than some of these.
mkdir members
awk 'BEGIN { for (i = 0; i < 4000; i++) print "members/" i }' | xargs touch
for format in ustar posix; do
	tar cf file --format=$format -C base-host . -C .. members
	cost merge -q file
	rm file
done >costs
ok "4000 members of an archive, each with a description: $(cut -d ' ' -f 1 costs | tr '\n' ' ')us" \
	awk -v floor=$FLOOR_US '{ t[NR] = $1 } END { exit !(t[1] > 0 && t[2] < 8 * (t[1] > floor ? t[1] : floor)) }' costs
# More vCPUs than a VM may have cost no more than as many tasks.
n=60000
for name in tasks vcpus; do
	cp -R base-host host
	make_$name
	cost merge -q host base-guest=one
	rm -rf host
done >costs
ok "$n lines of vcpu, a VM has far fewer" awk '{ t[NR] = $1 } END { exit !(t[1] > 0 && t[2] < 2 * t[1]) }' costs
grows same_vms 4000 merge -q host guest
grows pvclocks 4000 merge -q host guest=one
grows pvclocks_and_times 4000 convert --from guest-tsc --to kvmclock -i host -i guest 5000
grows cpus_missing 400 merge -q host guest=one
grows segments 400 merge -q host guest=one
for command in "report --tsc-khz 1000000 -i" "merge -q" "verify"; do
	# shellcheck disable=SC2086 # words
	grows cpus 4000 $command file
done
ok "a trace.dat" "$plain" export -q -i base-host --to trace.dat -o plain.dat
if dat_v7 plain.dat v7.dat none; then
	for what in stats guests shifts maps named chain; do
		grows v7_$what 8000 merge -q file
		grows v7_$what 8000 report -i file
	done
else
	skip "options of version 7" "no trace-cmd that writes it"
fi
if dat_v7 plain.dat zstd.dat zstd; then
	grows packed 16 merge -q file
else
	skip packed "no trace-cmd that writes zstd"
fi
for command in "report --tsc-khz 1000000 -i" "merge -q" "export --to trace.dat --force -o out.dat -i"; do
	# shellcheck disable=SC2086 # words
	grows buffers 1000 $command file
done
for what in fired asked cpu_facts params gone tgids; do
	# shellcheck disable=SC2086 # words
	grows $what 4000 $merge
done
grows fields 250 merge -q host guest=one
grows fired 4000 blame host guest=one
for what in symbols symbols_back; do
	grows $what 8000 stuck -i host --vm one --guest-kallsyms file
done
grows vms 4000 report --split -i host
grows vcpus 4000 report --split -i host
grows losses 4000 verify host guest=one
grows brackets 4000 convert --from host-tsc --to host-mono -i host 5000
grows tasks 4000 latency all host guest=one
grows gaps 1000 blame host guest=one
grows gaps 4000 merge -q host guest=one
grows gaps 4000 latency all host guest=one
grows requests 8000 latency io host guest=one
grows robberies 2000 latency sched --worst 100000 --context 0 host guest=one
grows dat_events 10000 merge -q file
for what in tasks vcpus losses names; do
	grows text_$what 4000 merge -q file
	grows text_$what 4000 report -i file
done
grows text_tasks 4000 blame file
grows text_clocks 10000 merge -q file
grows text_tasks 10000 diff --all file file
grows text_others 10000 latency all file
grows text_robbed 1000 latency sched file
grows text_fetched 4000 latency mem file
grows text_ready 4000 latency sched file
grows text_vcpus 4000 latency all file
grows text_accepts 4000 merge -q --format perfetto --force -o out.pf file
# A VM takes no more memory than its lines do, a few times over, and its row of metrics no look at all others.
grows text_others 5000 latency --format openmetrics --from-event 'kvm:*' --to-event 'kvm:*' file
ok "what lies between two events: $(cut -d ' ' -f 2 costs | tail -n 1) kB for $(wc -c <file) bytes" \
	awk -v bytes="$(wc -c <file)" 'END { exit !($2 > 0 && $2 * 1000 < 40 * bytes) }' costs
grows text_boots 1000 boot file
grows boot_gaps 2000 boot host
grows text_rips 4000 report --by rip --percentiles file
grows text_irqs 2000 stuck file
if unshare -m true 2>"$err"; then
	real=$plain plain=unshare
	# shellcheck disable=SC2016 # for that shell
	grows orphans 250 -m sh -c 'mount --bind debug /sys/kernel/debug && mount --bind proc /proc && exec "$0" list' "$real"
	plain=$real
else
	skip orphans "no mount namespaces"
fi
for what in text_down text_tasks; do
	grows $what 2000 report --per vcpu file
done
grows reasons 500 report --split -i host
grows text_down 2000 clock file
grows vms_ran 2500 clock host guest=one
grows vcpus_ran 2000 merge -q --solve host guest=one
grows vcpu_threads 4000 convert -i host -i guest --from guest-tsc --to host-tsc 1002000
grows vms_robbed 1000 latency all host guest=one
grows vms_robbed 1000 report --split --per vcpu -i host
grows records 4000 clock host
grows apart 4000 clock host
# What a watcher does again and again.
grows apart_again 8000 clock --live --format text --watch host
grows text_gaps 4000 merge -q --format folded --of exits file
grows text_gaps 4000 advise file
grows spaces 4000 report --by process host
grows text_gaps 250 latency --format openmetrics all file
for command in "advise" "report -i" "latency all" "diff"; do
	# shellcheck disable=SC2046,SC2086 # words
	grows text_gaps 2000 $command file $([ "$command" != diff ] || echo file)
done
grows modules 4000 stuck -i host --vm one --guest-kallsyms file
grows qemu_names 4000 merge -q --qemu file:simple host
grows doorbells 4000 merge -q --qemu "$golden/qemu-events.txt:events" --qemu file:simple host
grows qemu_log 10000 merge -q --qemu file:log host
grows qemu_events 4000 qemu list-formats file
[ $left = 0 ] || skip "$left more" "make check-all has them"
finish
