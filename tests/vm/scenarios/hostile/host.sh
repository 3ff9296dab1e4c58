# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A host that is no friend: CPUs that go and come while marks are counted, a clock that is set by hours, a disk that fails
# to write, a kernel without Landlock (or with an old one), triggers of a recorder that was taken over.

. "$VM_LIB/host.sh"

need_kvmft
tracefs=/sys/kernel/tracing
cap=/tmp/cap
guest_start vm1
guest_wait_up vm1
flag_wait guest-ready
begun() { grep -q '^begin ' "$cap/meta" 2>/dev/null; }

# begin OPTION...: a recorder into $cap that records.
begin()
{
	rm -rf "$cap"
	"$KVMFT" record --as host -o "$cap" "$@" 2>/tmp/rec.err &
	recorder=$!
	wait_until 60 begun
}

# ended STATUS: by a signal
ended()
{
	kill -INT "$recorder"
	wait "$recorder"
	check "... it ends" same "$?" "$1"
	sed 's/^/# /' /tmp/rec.err
}

# marks EVENTS...: numbered marks by a writer on each CPU while CPU 1 goes and comes; the recorder is stopped once
marks()
{
	marker=$(echo "$tracefs/instances/kvmft.$recorder".*/trace_marker)
	writers=
	for cpu in 0 1; do
		wait_until 30 taskset -c "$cpu" true 2>/dev/null # a CPU that has just come may not be usable yet
		taskset -c "$cpu" perl -e 'open F, ">", $ARGV[0] or die; for (1 .. 20) { syswrite F, "SEQ $ARGV[1] $_\n" for 1 .. 500;
			mkdir "/tmp/writes.$ARGV[1]"; select undef, undef, undef, 0.2 }' "$marker" "$cpu" &
		writers="$writers $!"
		wait_until 30 test -d "/tmp/writes.$cpu"
	done
	rmdir /tmp/writes.?
	for _ in 1 2 3 4 5; do
		echo 0 >/sys/devices/system/cpu/cpu1/online || fail "CPU 1 can be taken away"
		"$@"
		echo 1 >/sys/devices/system/cpu/cpu1/online || fail "CPU 1 comes back"
		sleep 0.3
	done
	# shellcheck disable=SC2086 # a list
	wait $writers
}

stalled() { kill -STOP "$recorder"; sleep 1; kill -CONT "$recorder"; }

# counted: stored and lost are what was written, in the counters and in what is shown.
counted()
{
	"$KVMFT" merge "$cap" >/tmp/merged 2>/tmp/merged.err
	check "... the capture is read, exit $1" same "$?" "$1"
	stored=$(grep -c 'SEQ [01] ' /tmp/merged)
	lost=$(sed -n 's/.* LOST \([0-9]*\) EVENTS.*/\1/p' /tmp/merged | awk '{ n += $1 } END { print n + 0 }')
	check "... 20000 marks are $stored stored and $lost lost" same "$((stored + lost))" 20000
	check "... so say the counters" same "$(awk '/^stats when=end/ { for (i = 3; i <= NF; i++) { split($i, f, "=");
		if (f[1] ~ /^(overrun|dropped|commit_overrun|read)$/) n += f[2] } } END { print n + 0 }' "$cap/meta")" 20000
	check "... each number once at most" same "$(grep -o 'SEQ [01] [0-9]*' /tmp/merged | wc -l)" "$stored"
}

step_hotplug()
{
	begin -e sched:sched_process_hang
	check "marks are recorded while CPU 1 goes and comes" test -n "$recorder"
	marks sleep 0.3
	ended 0
	counted 0
	begin -e sched:sched_process_hang -b 128K
	check "... with a ring that is too small, and a recorder that is stopped" test -n "$recorder"
	marks stalled
	ended 3
	counted 3
	check "... some are lost" test "$lost" -gt 0
	begin
	check "all that the guest does is recorded meanwhile" test -n "$recorder"
	marks sleep 0.3
	ended 0
	"$KVMFT" report -i "$cap" >/tmp/report 2>/tmp/report.err
	check "... and counted" same "$?" 0
	sed 's/^/# /' /tmp/report.err
}

set_clock() { date -s "@$(($(date +%s) + $1))" >/dev/null; }

# by_clock CLOCK: the times of all events, and whether each is at or after the one before
by_clock()
{
	"$KVMFT" merge --clock "$1" "$cap" 2>/tmp/by.err | awk '{ for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+([.][0-9]+)?$|^[?]$/) {
		if ($i != "?" && $i + 0 < last) back++; if ($i != "?") { last = $i + 0; first = first ? first : last; known++ } break } }
		END { printf "%d events, %d backwards, %d s\n", NR, back, (known && last < 1000000000 ? last - first : 0) }'
}

step_clock()
{
	rm -rf "$cap"
	"$KVMFT" record --as host -d 8s -o "$cap" 2>/tmp/rec.err &
	recorder=$!
	wait_until 60 begun
	for by in 3600 -7200 3600; do
		sleep 1.5
		check "the clock is set by $by s" set_clock "$by"
	done
	wait "$recorder"
	check "... the recording ends after its 8 s" same "$?" 0
	sed 's/^/# /' /tmp/rec.err
	tsc=$(by_clock host-tsc)
	mono=$(by_clock mono)
	note "$mono"
	check "... by the TSC nothing goes backwards" same "${tsc#*, }" "0 backwards, 0 s"
	check "... nor by mono" same "${mono%, *}" "${tsc%, *}"
	took=${mono##*, }
	check "... which knows that it took 8 s" test "${took% s}" -ge 7 -a "${took% s}" -le 12
	real=$(by_clock realtime)
	check "... by realtime are as many" same "${real%%,*}" "${tsc%%,*}"
	check "... and it is said that it was set" grep -q 'realtime was set' /tmp/by.err
}

# What nobody may do who was taken over, whatever the kernel lacks but filters of system calls.
never='execve|execveat|mmap of code|mprotect to code|memfd_create|a process|a thread in a new user namespace|clone3|fork|unshare|setns|ptrace'
never="$never|process_vm_readv|process_vm_writev|pidfd_getfd|socketpair|connect|bind|sendmsg|bpf|perf_event_open|io_uring_setup|mount|umount2"
never="$never|move_mount|init_module|finit_module|kexec_load|reboot|chroot|fchmodat 04755|fchownat|setxattr|mknodat|symlinkat|linkat"
never="$never|become another user|settimeofday|signal its parent|capture: set-uid|capture: a link|iopl|keyctl|open the capture to all"

step_landlock()
{
	mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
	case $(cat /sys/kernel/security/lsm) in
	*landlock*) have=ok lacks= ;;
	*) have=absent lacks="; this kernel lacks: Landlock (kvmft check)" ;;
	esac
	"$KVMFT" check >/tmp/check 2>&1
	check "check: Landlock is $have" grep -qE "^landlock +$have" /tmp/check
	"$KVMFT" -v convert --from host-tsc --to guest-tsc --tsc-offset 1 1 2>&1 >/dev/null | grep '^kvmft: confined' >/tmp/layers
	check "... -v says so" grep -qF "seccomp$lacks" /tmp/layers
	mkfifo /tmp/fifo
	"$KVMFT" convert --from host-tsc --to guest-tsc --tsc-offset 1 </tmp/fifo >/tmp/converted &
	reader=$!
	exec 8>/tmp/fifo
	confined() { grep -q '^Seccomp:.*2' "/proc/$reader/status"; }
	check "a reader has a filter of system calls" wait_until 30 confined
	check "... and no capability but to read" same "$(sed -n 's/^CapEff:[[:space:]]*//p' "/proc/$reader/status")" 0000000000000004
	exec 8>&-
	wait "$reader"
	for who in recorder guest look watch qemu store reader; do
		# What their lists allow by design: kvmft-record(1), kvmft-security(7).
		case $who in
		look) may='a process|fork|memfd_create' ;;
		reader) may=memfd_create ;;
		*) may= ;;
		esac
		rm -rf /tmp/prey
		mkdir /tmp/prey
		(cd /tmp/prey && timeout 300 "$PROJECT/build/tests/tools/hijack" $who >"/tmp/$who.all" 2>"/tmp/$who.err")
		check "$who, taken over, tries all" same "$? $(cat "/tmp/$who.err")" "0 "
		sed -n 's/: done$//p' "/tmp/$who.all" >"/tmp/$who"
		check "... and runs, reaches and changes nothing that no kernel allows" same "$(grep -xE "$never" "/tmp/$who" | grep -vxE "$may" | tr '\n' ';')" ""
		note "$(wc -l <"/tmp/$who") of $(grep -c ': ' "/tmp/$who.all") succeed"
	done
	# Without Landlock a reader can read, as the manual says; with any it cannot.
	case $have in
	ok) check "with Landlock a reader opens no other file" same "$(grep -cE 'passwords|^main trace|instance' /tmp/reader)" 0 ;;
	*) check "without Landlock a reader writes to nothing" same "$(grep -cE '^write|O_WRONLY|O_CREAT|clear|stop|kprobes' /tmp/reader)" 0 ;;
	esac
}

# A disk whose writes fail from some moment on. The page cache hides that until it is written back.
step_errors()
{
	for what in loop dm-mod dm-flakey ext4; do
		modprobe $what || { skip "a disk that fails" "no $what"; return; }
	done
	export DM_DISABLE_UDEV=1
	mkdir -p /tmp/disk /tmp/flaky
	for sync in "" --sync; do
		truncate -s 128M /tmp/disk/image
		loop=$(losetup -f --show /tmp/disk/image)
		sectors=$(blockdev --getsz "$loop")
		dmsetup create flaky --table "0 $sectors linear $loop 0" || die "no disk"
		mkfs.ext4 -q -O ^has_journal /dev/mapper/flaky
		mount /dev/mapper/flaky /tmp/flaky || die "no file system"
		cap=/tmp/flaky/cap
		# shellcheck disable=SC2086 # a word, or none
		begin $sync -e 'kvm:*' -e 'sched:*'
		check "recording $sync to a disk" begun
		sleep 1
		sync
		dmsetup suspend --nolockfs flaky
		dmsetup load flaky --table "0 $sectors flakey $loop 0 0 1000 1 error_writes"
		dmsetup resume flaky
		sleep 3
		kill -INT "$recorder" 2>/dev/null # it may have ended by itself
		wait "$recorder"
		status=$?
		sed 's/^/# /' /tmp/rec.err
		if [ -n "$sync" ]; then
			check "... it ends when writes fail" same "$status" 3
			check "... says how, and what is lost" same "$(grep -cE 'cannot write .*: Input/output error|lost [1-9][0-9]* of .* not written out' /tmp/rec.err | sed 's/[2-9]/more/')" more
		else
			note "without --sync the kernel tells nobody: exit $status"
		fi
		"$KVMFT" merge "$cap" >/tmp/merged 2>/tmp/merged.err
		check "... what was written can be read" test -s /tmp/merged
		umount /tmp/flaky
		dmsetup remove flaky
		losetup -d "$loop"
		rm /tmp/disk/image
	done
	cap=/tmp/cap
}

# What a recorder that was taken over may write into its own instance: triggers.
step_triggers()
{
	begin
	mine=$(echo "$tracefs/instances/kvmft.$recorder".*)
	mkdir "$tracefs/instances/theirs"
	e=events/sched/sched_waking
	theirs=$tracefs/instances/theirs/$e/trigger
	echo 'hist:keys=pid:name=shared' >"$theirs"
	grep '^hist' "$theirs" >/tmp/theirs
	for text in 'hist:name=shared:pause' 'hist:keys=pid:name=shared:pause' 'hist:keys=pid:name=shared:clear' '!hist:keys=pid:name=shared' \
		'enable_event:kvm:kvm_exit' snapshot stacktrace 'hist:keys=pid:size=131072' traceoff; do
		(echo "$text" >"$mine/$e/trigger") 2>/dev/null
		note "$text: $?"
	done
	check "triggers in its instance: a histogram of others is as it was" same "$(grep '^hist' "$theirs")" "$(cat /tmp/theirs)"
	check "... and so are their switches" same "$(cat "$tracefs/instances/theirs/tracing_on" "$tracefs/instances/theirs/$e/enable" | tr '\n' ' ')" "1 0* "
	kill -KILL "$recorder"
	wait "$recorder"
	gone() { [ ! -e "$mine" ]; }
	check "... killed, it leaves no instance" wait_until 20 gone
	rmdir "$tracefs/instances/theirs"
	# Texts that a later kvmft reads: synthetic events with the names of its own, whose recorder is gone.
	for text in 'kvmft_1_1_x int a; char b[]' "kvmft_$recorder int a" 'kvmft.1.1.0 u64 a'; do
		(echo "$text" >>"$tracefs/synthetic_events") 2>/dev/null
		note "synthetic event $text: $?"
	done
	"$KVMFT" reset >/tmp/reset 2>&1
	check "reset reads them" same "$?" 0
	sed 's/^/# /' /tmp/reset
	note "left: $(cat "$tracefs/synthetic_events")"
	: >"$tracefs/synthetic_events"
}

for step in ${HOSTILE:-hotplug clock landlock errors triggers}; do
	note "== $step"
	"step_$step"
done
flag_set host-done
guest_wait_done vm1
check "no instance is left" test -z "$(find "$tracefs/instances" -mindepth 1 -maxdepth 1 -name 'kvmft*')"
finish
