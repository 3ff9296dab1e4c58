#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# merge-qemu.t: traces of QEMU between the events of a host, and what a trace-events-all declares.
. "$(dirname "$0")/lib.sh"

golden=$top/tests/golden
tools=${KVMFT_TOOLS:-$top/build/tests/tools}
TZ=UTC
export TZ
cd "$tmp" || exit 1
"$tools/mkcap" --capture host "$golden/qemu-host.txt"

# The golden files are rewritten with GOLDEN=update, to be looked at before they are believed.
same()
{
	[ "${GOLDEN:-}" = update ] && cp "$1" "$golden/$2"
	diff "$1" "$golden/$2"
}

# What QEMU wrote to the trace marker is an event, what others wrote stays a text.
markers()
{
	{
		cat "$golden/qemu-host.txt"
		echo "event ftrace print 5 u64:ip text:buf"
		echo "1 9000 100 ftrace:print ip=0 buf=virtio_queue_notify vdev 0x5500 n 3 vq 0x5600"
		echo "1 9100 100 ftrace:print ip=0 buf=virtio_queue_notify cut"
		echo "1 9200 100 ftrace:print ip=0 buf=something else"
		echo "1 9300 999 ftrace:print ip=0 buf=virtio_queue_notify vdev 0x5500 n 4 vq 0x5600"
	} >marked.txt
	"$tools/mkcap" --capture marked marked.txt || return 1
	"$kvmft" merge marked --qemu "$golden/qemu-events.txt:events" >lines 2>notes || return 1
	grep -q '^host qemu-100 .*\[1\] .*000009000  qemu:virtio_queue_notify: vdev 0x5500 n 3 vq 0x5600$' lines &&
		grep -q '000009100  qemu:virtio_queue_notify: cut$' lines &&
		[ "$(grep -c ' ftrace:print: ' lines)" -eq 2 ] &&
		grep -q 'host: 2 events of QEMU from its trace marker: exact' notes || return 1
	"$kvmft" merge --follow marked --qemu "$golden/qemu-events.txt:events" >followed 2>notes || return 1
	cmp lines followed && grep -q 'host: 2 events of QEMU from its trace marker: exact' notes || return 1
	"$kvmft" merge marked --qemu "$golden/qemu-events.txt:events" --format json \
		--event 'qemu:virtio_queue_notify/n == 3/' >lines 2>notes || return 1
	grep '"kind":"event"' lines >found
	[ "$(wc -l <found)" -eq 1 ] && grep -q '"side":"host".*"event":"qemu:virtio_queue_notify".*"vdev":"0x5500","n":3' found
}
ok "markers of QEMU in the host's capture: events, exact; those of others stay text" markers

# host_of NAME PID TSC OFFSET: a host on which the VM runs from TSC on, and its QEMU writes a marker.
host_of()
{
	{
		echo "meta vm id=$2-12 pid=$2 fd=12 name=one"
		echo "meta vcpu vm=$2-12 id=0 tid=$(($2 + 1)) offset=$4 ratio=0 frac=48"
		echo "meta task tid=$2 tgid=$2 comm=qemu"
		echo "event ftrace print 5 u64:ip text:buf"
		echo "0 $3 $(($2 + 1)) kvm_entry vcpu_id=0"
		echo "0 $(($3 + 1000)) $(($2 + 1)) kvm_exit exit_reason=48 isa=1"
		echo "0 $(($3 + 1100)) $2 ftrace:print ip=0 buf=virtio_queue_notify vdev 0x5500 n $2 vq 0x5600"
	} >"$1.txt"
	"$tools/mkcap" --capture "$1" "$1.txt"
}

two_hosts()
{
	host_of from 100 2000 0 && host_of to 200 600000 -500000 || return 1
	printf '%s\n' "meta side name=guest" "meta cpu n=0 apicid=0" \
		"0 2500 0 sched:sched_switch prev_pid=0 prev_state=0 next_pid=77" \
		"0 100500 77 sched:sched_switch prev_pid=77 prev_state=0 next_pid=0" >guest.txt
	"$tools/mkcap" --capture guest guest.txt || return 1
	"$kvmft" merge from --host to guest=one --qemu "$golden/qemu-events.txt:events" >lines 2>notes || return 1
	grep -q '^host#1 .* 0.000003100  qemu:virtio_queue_notify: vdev 0x5500 n 100 ' lines &&
		grep -q '^host#2 .* 0.000101100  qemu:virtio_queue_notify: vdev 0x5500 n 200 ' lines &&
		grep -q 'host: 2 events of QEMU from its trace marker: exact' notes
}
ok "markers on both hosts of a guest that moved" two_hosts

# Every format of simple, in simpletrace.py's layout.
dumps()
{
	for v in 0 2 3 4; do
		"$tools/genqemu" --simple "$v" "v$v" "$golden/qemu-simple.txt" || return 1
		"$tools/genqemu" --dump "v$v" "$golden/qemu-events.txt" >dump || return 1
		echo "format $v"
		cat dump
	done >dumps
	same dumps qemu-dump.out
}
ok "simple, formats 0 to 4, in simpletrace.py's layout" dumps

# Without a host: the same events and losses, for each format, and the times of the file.
alone()
{
	for v in v0 v2 v3 v4; do
		"$kvmft" merge --qemu "$v" --qemu "$golden/qemu-events.txt:events" >lines 2>notes
		[ $? -eq 3 ] && grep -q "$v: 5 events, 2 lost" notes || return 1
		grep -q ' 0\.000000100  qemu:kvm_set_ioeventfd_mmio: fd: 23 @0xfebf3000' lines || return 1
		grep -q ' 0\.001006800  LOST 2 EVENTS$' lines || return 1
		"$tools/genqemu" --dump "$v" "$golden/qemu-events.txt" | awk '!/dropped/ { print $1 }' | sort >want
		sed -nE 's/.*qemu:([a-z_]+):.*/\1/p' lines | sort >got
		[ -s got ] && [ "$(grep -c . want)" -ge "$(grep -c . got)" ] &&
			[ -z "$(comm -13 want got)" ] || return 1
	done
	"$kvmft" merge -q --qemu v4 --qemu "$golden/qemu-events.txt:events" --format json --clock mono >lines
	[ $? -eq 3 ] && grep -q '"event":"virtio_queue_notify","fields":{"vdev":"0x5500","n":0,"vq":"0x5600"}' lines || return 1
	"$kvmft" merge --qemu v4 --qemu "$golden/qemu-events.txt:events" -N 2 >lines 2>notes
	[ $? -eq 0 ] && [ "$(grep -c ' qemu:' lines)" = 2 ] && ! [ -s notes ] || return 1
	"$kvmft" merge -q --qemu "$golden/qemu-merge.log" --qemu "$golden/qemu-events.txt:events" >lines || return 1
	grep -q 'qemu:' lines || return 1
	"$kvmft" merge --qemu v4 -e virtio_queue_notify >lines 2>notes
	[ $? -eq 2 ] && grep -q 'option --event needs the capture of a host' notes || return 1
	"$kvmft" merge --qemu "$golden/qemu-host.txt" >lines 2>notes
	[ $? -eq 1 ] && ! [ -s lines ]
}
ok "a trace alone: all formats as text and JSON" alone

# Without a date they are of the day, or the year, in which the file was last written.
dateless()
{
	for h in 00 08 12 13 18 23; do
		echo "[$h:47:29.123456789] (+0.000001000) host qemu:virtio_queue_notify: { cpu_id = 1 }, { vdev = 0x5500, n = $((1$h - 100)), vq = 0x5600 }"
	done >half.ust
	TZ=UTC touch -d '2024-05-06 12:00:00' half.ust
	TZ=UTC "$kvmft" merge -q --qemu half.ust:ust --qemu "$golden/qemu-events.txt:events" --clock realtime >lines 2>notes || return 1
	[ "$(wc -l <lines)" -eq 6 ] && [ "$(grep -c '2024-05-0[56] ' lines)" -eq 6 ] || return 1
	echo "Nov 27 13:14:15 host qemu-system-x86_64[100]: virtio_queue_notify vdev 0x5500 n 1 vq 0x5600" >old.syslog
	TZ=UTC touch -d '2024-12-24 12:00:00' old.syslog
	TZ=UTC "$kvmft" merge -q --qemu old.syslog:syslog --qemu "$golden/qemu-events.txt:events" --clock realtime >lines 2>notes || return 1
	grep -q '2024-11-27 13:14:15' lines || return 1
	# Nothing is written before it happens: at the end of a year, too.
	printf '%s host qemu-system-x86_64[100]: virtio_queue_notify vdev 0x5500 n 1 vq 0x5600\n' \
		"Dec 31 23:59:59" "Jan  1 00:00:01" "Nov 28 00:00:00" >old.syslog
	TZ=UTC touch -d '2024-11-27 12:00:00' old.syslog
	TZ=UTC "$kvmft" merge -q --qemu old.syslog:syslog --qemu "$golden/qemu-events.txt:events" --clock realtime >lines 2>notes || return 1
	grep -q '2023-12-31 23:59:59' lines && grep -q '2024-01-01 00:00:01' lines && grep -q '2024-11-28 00:00:00' lines
}
ok "a trace alone without dates: every hour, and its year" dateless

merged()
{
	format=$1 trace=$2
	shift 2
	"$kvmft" merge --format "$format" host --qemu "$trace" \
		--qemu "$golden/qemu-events.txt:events" "$@" >lines 2>notes
}

simple()
{
	merged text v4
	[ $? -eq 3 ] || return 1
	sed 's/^kvmft merge: //' notes >>lines
	same lines qemu-merge.out
}
ok "simple on the time line: order, device, a loss at its place, the bound" simple
ok "dropped events are reported, with their number" sh -c "grep -q 'qemu: 3 events, 2 lost' notes"

log()
{
	merged text "$golden/qemu-merge.log" -q
	[ $? -eq 3 ] && grep -q 'qemu: 2 stamps could not be placed' notes || return 1
	merged text "$golden/qemu-merge.log"
	[ $? -eq 3 ] || return 1
	sed -e 's/^kvmft merge: //' -e "s|$golden/||" notes >>lines
	same lines qemu-merge-log.out
}
ok "log lines on the time line: steps of the clock, lines without time, foreign lines" log

# Without readings of its clock in the host's capture no stamp of a trace has a place.
unplaced()
{
	rm -rf mute
	cp -r host mute
	sed -i '/^time /d' mute/meta
	"$kvmft" merge mute --qemu "$golden/qemu-merge.log" --qemu "$golden/qemu-events.txt:events" >lines 2>notes
	[ $? -eq 3 ] && [ "$(grep -c '^qemu .*? qemu:' lines)" -eq "$(grep -c '^qemu ' lines)" ] &&
		grep -q 'no readings of the clock of this trace; .*: nothing can be placed' notes
}
ok "a trace with no event that can be placed: exit 3" unplaced

sides()
{
	merged text v4 --side qemu
	[ "$(grep -vc '^qemu ' lines)" -eq 0 ] && [ "$(grep -c qemu: lines)" -eq 3 ] &&
		merged text v4 --event 'virtio_queue_notify/n == 0/'
	[ "$(grep -c . lines)" -eq 2 ] && grep -q 'virtio_queue_notify: vdev 0x5500 n 0 vq 0x5600' lines
}
ok "--side qemu, --event with a filter on QEMU's arguments" sides

json()
{
	merged json v4
	grep '"kind":"event"' lines | grep -q '"side":"qemu".*"event":"qemu:virtio_queue_notify".*"vdev":"0x5500"' &&
		grep -q '"event":"kvm:kvm_fast_mmio".*"device":"virtio-pci-notify-virtio-blk"' lines
}
ok "JSON: fields of QEMU's events, the device behind a doorbell" json

bounds()
{
	merged json v4
	tail -n 1 lines | grep -q '"kind":"end".*"qemu":\[{"name":"qemu","format":"simple","clock":"mono","bound_ns":2,"events":3,"unplaced":0,"outside":2,"steps":0}\]}$' ||
		return 1
	merged json "$golden/qemu-merge.log"
	tail -n 1 lines | grep -q '"qemu":\[{"name":"qemu","format":"log","clock":"realtime","bound_ns":502,"events":5,"unplaced":2,"outside":1,"steps":1}' || return 1
	"$kvmft" merge marked --qemu "$golden/qemu-events.txt:events" --format json >lines 2>notes
	tail -n 1 lines | grep -q '"qemu":\[{"name":"host","format":"marker","clock":"x86-tsc","bound_ns":0,"events":[12]}\]}$' ||
		return 1
	"$kvmft" merge --format json host >lines 2>notes
	! tail -n 1 lines | grep -q qemu
}
ok "JSON: the last line has each source's bound" bounds

others()
{
	merged perfetto v4 -o perfetto
	[ $? -eq 3 ] && strings perfetto | grep -q qemu:virtio_queue_notify && merged html v4
	[ $? -eq 3 ] && [ -s lines ]
}
ok "perfetto and html take them too" others

cut()
{
	size=$(wc -c <v4)
	head -c $((size - 3)) v4 >shorter
	merged text shorter
	[ $? -eq 3 ] && grep -q 'cut short' notes
}
ok "a trace that is cut: exit 3 and a line" cut

refused()
{
	merged text v4:nosuch
	[ $? -eq 2 ] || return 1
	merged text v4:simple:nobody
	[ $? -eq 1 ] && grep -q 'nobody' notes || return 1
	merged text nosuchfile
	[ $? -eq 1 ] || return 1
	merged text "$golden/qemu-host.txt"
	[ $? -eq 1 ] && grep -q 'no trace event of QEMU' notes || return 1
	merged text v4:simple:one
	[ $? -eq 3 ]
}
ok "unknown format, VM and file are refused; FILE:FORMAT:VM" refused

# ---- a clock that nobody read, and no clock at all ----

# shared NAME SEED COUNT KIND: NAME.txt, a host without readings of any clock; NAME.log, what its QEMU wrote;
# NAME.bare, the same without times; NAME.true, TSC of its lines. KIND: bells of two queues, ports,
# markers, or a steady bell.
shared()
{
	awk -v seed="$2" -v count="$3" -v kind="$4" -v name="$1" '
	function random(n) { seed = seed * 16807 % 2147483647; return seed % n }
	function host(tsc, cpu, tid, text) { printf "%d %.0f %d %s\n", cpu, tsc, tid, text >(name ".txt") }
	function qemu(tsc, text,    ns)
	{
		ns = tsc * 1.00001 + 7654321
		printf "100@%d.%06d:%s\n", 1608130130 + int(ns / 1e9), int(ns % 1e9 / 1e3), text >(name ".log")
		print text >(name ".bare")
		printf "%.0f\n", tsc >(name ".true")
	}
	function bell(t, q)
	{
		host(t - 200, 0, 101, "kvm_mmio type=2 len=2 gpa=" 1000000 + q * 4 " val=0")
		host(t, 0, 101, "kvm_entry vcpu_id=0")
		qemu(t + 4000 + random(9000), "virtio_queue_notify vdev 0x5500 n " q " vq 0x560" q)
		t += 20000 + random(3000)
		qemu(t, "virtio_notify vdev 0x5500 vq 0x560" q)
		host(t + 3000 + random(9000), 1, 100, "kvm_msi_set_irq address=0xfee00000 data=" 32 + q)
	}
	function port(t, p)
	{
		host(t - 200, 0, 101, "kvm_pio rw=1 port=" p " size=1 count=1 val=0")
		host(t, 0, 101, "kvm_userspace_exit reason=2 errno=0")
		qemu(t + 2000 + random(2000), "kvm_run_exit cpu_index 0, reason 2")
		qemu(t + 5000 + random(9000), "memory_region_ops_write cpu 0 mr 0x1 addr 0x" p " value 0x0 size 1")
		host(t + 16000 + random(9000), 0, 101, "kvm_entry vcpu_id=0")
	}
	function mark(t)
	{
		host(t - 1000, 1, 100, "ftrace:print ip=0 buf=before")
		qemu(t + random(2000), "qemu_event a 1")
		host(t + random(2000), 1, 100, "ftrace:print ip=0 buf=qemu_event a 1")
		host(t + 3000, 1, 100, "ftrace:print ip=0 buf=after")
	}
	BEGIN {
		print "event ftrace print 5 u64:ip text:buf" >(name ".txt")
		print "meta vm id=100-12 pid=100 fd=12 name=one" >(name ".txt")
		print "meta vcpu vm=100-12 id=0 tid=101 offset=0 ratio=0 frac=48" >(name ".txt")
		for (t = 1000000; i < count; i++) {
			t += kind == "steady" ? 5000000 : 100000 + random(20000000)
			host(t - 300, 0, 101, "kvm_exit exit_reason=48 isa=1")
			if (kind == "marks")
				mark(t)
			else if (kind == "ports")
				port(t, 70 + random(2))
			else
				bell(t, kind == "steady" ? 0 : random(2))
		}
	}'
	"$tools/mkcap" --capture "$1" "$1.txt"
}

# close_to TRUE COUNT: at least so many of QEMU's events are in `lines`, all as near to their true times, from some line
# on, as the last line has it. Events lie much farther apart.
close_to()
{
	sed -n 's/.*"side":"qemu".*"t":\([0-9]*\),.*/\1/p' lines >stamps
	bound=$(sed -n '$s/.*"bound_cycles":\([0-9]*\).*/\1/p' lines)
	[ "${bound:-0}" -gt 0 ] && [ "$(wc -l <stamps)" -ge "$2" ] && awk -v bound="$bound" '
		NR == FNR { true[n++] = $1; next }
		{ t[m++] = $1 }
		END {
			for (; skip + m <= n; skip++) {
				for (i = 0; i < m && (t[i] - true[skip + i]) ^ 2 <= bound ^ 2; i++)
					;
				if (i == m)
					exit 0
			}
			exit 1
		}' "$1" stamps
}

by_events()
{
	for kind in bells ports marks; do
		shared "$kind" 7 150 "$kind" || return 1
		"$kvmft" merge --format json "$kind" --qemu "$kind.log" >lines 2>notes || return 1
		grep -q 'qemu: placed by [0-9]* events that both sides show, off by at most [0-9]* cycles' notes &&
			close_to "$kind.true" 150 && [ "$bound" -lt 25000 ] || return 1
	done
	tail -n 1 lines | grep -q '"unplaced":0,"outside":0,"steps":0,"by":"events","shown":'
}
ok "no reading of the clock: by doorbells and interrupts, by ports, by markers, within the bound" by_events

# The recording is a part of what QEMU tells, in the middle of it.
part_of()
{
	sed -n '1,3p' bells.txt >part.txt
	sed -n '200,560p' bells.txt >>part.txt
	"$tools/mkcap" --capture part part.txt || return 1
	"$kvmft" merge --format json part --qemu bells.log >lines 2>notes || return 1
	close_to bells.true 100 && tail -n 1 lines | grep -q '"outside":1[0-9][0-9],'
}
ok "... of a recording that saw a part of it" part_of

# The order of lines alone places nothing.
no_times()
{
	"$kvmft" merge --format json bells --qemu bells.bare >lines 2>notes
	[ $? -eq 3 ] && grep -q 'events without a time stamp.*-msg timestamp=on' notes &&
		! grep -q '"by":' lines
}
ok "no times: no place, and how QEMU writes them" no_times

# Nothing is placed by what may be chance.
undecided()
{
	shared other 99 150 bells && shared steady 3 150 steady || return 1
	for pair in bells:other.log steady:steady.log bells:ports.log; do
		"$kvmft" merge "${pair%:*}" --qemu "${pair#*:}" >lines 2>notes
		[ $? -eq 3 ] && grep -q 'stamps could not be placed' notes || return 1
		grep -q 'both sides show' notes || return 1
	done
}
ok "... another machine's, one as regular as a clock: refused with exit 3" undecided

formats()
{
	"$kvmft" qemu list-formats "$golden/qemu-events.txt" >lines || return 1
	echo >>lines
	"$kvmft" qemu list-formats --format csv "$golden/qemu-events.txt" >>lines || return 1
	echo >>lines
	"$kvmft" qemu list-formats --format json "$golden/qemu-events.txt" 'foo_*' >>lines || return 1
	sed -i "s|$golden/||" lines
	same lines qemu-formats.out
}
ok "list-formats: properties, arguments and formats as text, CSV and JSON" formats

broken()
{
	printf 'good(int a) "%%d"\nbad line\n' >broken
	"$kvmft" qemu list-formats broken >lines 2>notes
	[ $? -eq 3 ] && grep -q 'line 2' notes || return 1
	"$kvmft" qemu list-formats "$golden/qemu-host.txt" >lines 2>notes
	[ $? -eq 1 ] && grep -q 'declares no trace event' notes
}
ok "list-formats: bad lines are reported, a file without events is refused" broken

# What was never written costs no time: a log that is cut while QEMU goes on, or a QEMU that means harm.
holes()
{
	"$tools/genqemu" --simple 4 hole.simple "$golden/qemu-simple.txt" || return 1
	cp "$golden/qemu-merge.log" hole.log
	for format in log simple; do
		"$kvmft" merge -q --qemu hole.$format:$format --qemu "$golden/qemu-events.txt:events" >"whole.$format" 2>notes
		[ $? -le 3 ] && [ -s "whole.$format" ] || return 1
		truncate -s 1T hole.$format
		timeout 60 "$kvmft" merge -q --qemu hole.$format:$format --qemu "$golden/qemu-events.txt:events" >lines 2>notes
		[ $? -le 3 ] && [ -s lines ] && head -n "$(wc -l <"whole.$format")" lines | cmp - "whole.$format" || return 1
	done
	{ cat "$golden/qemu-merge.log" && truncate -s 1T /dev/stdout && cat "$golden/qemu-merge.log"; } >>hole2.log
	timeout 60 "$kvmft" merge -q --qemu hole2.log:log --qemu "$golden/qemu-events.txt:events" >lines || return 1
	[ "$(wc -l <lines)" -eq $((2 * $(wc -l <whole.log))) ]
}
ok "a terabyte of which nothing was written: behind the events, or between them" holes
rm -f hole.log hole.simple hole2.log
finish
