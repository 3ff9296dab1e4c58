#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: records
#
# `kvmft record` at its limits: budgets, segments, the flight recorder, disks that fail in every way,
# filters by thread, and a log of all that it opened for writing.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

need_recording record-limits
KB64=65536

# limited NAME ARGUMENT...: records a VM until a limit ends it.
limited()
{
	run timeout 300 "$kvmft" record --as host -e 'kvm:*' -o "$cap" "$@" -- "$tinyvm" --ms 20000
}

reason_is()
{
	is "$(tail -n 1 "$cap/meta" | cut -d ' ' -f 1,2)" "end reason=$1" "$2"
}

# between N LO HI NAME
between()
{
	is "$([ "$1" -ge "$2" ] && [ "$1" -le "$3" ] && echo yes)" yes "$4 ($1 in $2..$3)"
}

# Stored, lost and what the merged time line has of it must agree. Exit status as given.
adds_up()
{
	told=$(told_events)
	lost=$(sed -n 's/^kvmft: .* events, .*, \([0-9]*\) lost .*/\1/p' "$err")
	by_cpu=$(sed -n 's/^kvmft: CPU [0-9]* lost \([0-9]*\) of .*/\1/p' "$err" | awk '{ n += $1 } END { print n + 0 }')
	is "$lost" "$by_cpu" "$1: lost is the sum of the CPUs"
	counted=$(($(sum_stats "$cap" read) + $(sum_stats "$cap" entries) + $(sum_stats "$cap" overrun) + $(sum_stats "$cap" dropped)))
	is "$((told + lost))" "$counted" "... stored and lost are what the kernel counted"
	run "$kvmft" merge "$cap"
	status_is "$2" "... the capture can be read"
	is "$(grep -cv ' LOST ' "$out")" "$told" "... and has as many events as reported"
}

free_bytes()
{
	stat -f -c '%a %S' "$tmp/small" | awk '{ print $1 * $2 }'
}

# ---- size, free space ----

cap=$tmp/max
limited --max-size 1M
status_is 3 "--max-size: exit 3"
reason_is max-size "... reason"
between "$(data_size "$cap")" $((1048576 - KB64 + 1)) 1048576 "... the limit within one sub-buffer"
adds_up "--max-size" 3
nothing_left "--max-size"

mkdir "$tmp/small"
if mount -t tmpfs -o size=8M,mode=700 kvmft-test "$tmp/small" 2>/dev/null; then
	mounted=$tmp/small
	cap=$tmp/small/c
	limited --min-free 6M
	status_is 3 "--min-free: exit 3"
	reason_is min-free "... reason"
	# Kept for the files of the end: 128 KB. Not used: less than a sub-buffer, and what other CPUs had been granted.
	between "$(free_bytes)" 6291456 $((6291456 + (3 + $(nproc)) * KB64)) "... so much is free"
	adds_up "--min-free" 3
	rm -rf "$cap"
	limited
	reason_is min-free "a command without a limit: ends before the disk is full"
	err_has 'lost \(min-free of [0-9.]+ KiB\)$' "... and says how much stays free"
	ok "... as it does" test "$(free_bytes)" -ge $((8 * 1048576 / 20))
	rm -rf "$cap"
	limited --min-free 0
	status_is 3 "full disk: exit 3"
	err_has 'cannot write the data of CPU [0-9]+: No space left on device; what was written before can be read$' \
		"... is reported"
	reason_is error "... meta has its end all the same"
	is "$(($(data_size "$cap") % KB64))" 0 "... whole sub-buffers"
	between "$(free_bytes)" 0 $((3 * KB64)) "... as much as fits"
	taken=$(($(sum_stats "$cap" read) - $(sum_stats "$cap" unstored)))
	run "$kvmft" merge "$cap"
	status_is 3 "... can be read"
	is "$(grep -cv ' LOST ' "$out")" "$taken" "... all that was stored, and the counters know it"
	is "$(grep -c 'are missing' "$err")" 0 "... and nothing is said to be missing from the files"
	rm -rf "$cap"
	mount -o remount,nr_inodes=2 "$tmp/small"
	limited
	status_is 1 "no inode left for the first file: exit 1"
	is "$(ls -A "$tmp/small")" "" "... and no directory stays"
	umount "$tmp/small" && mounted=
else
	skip "small disk" "a tmpfs cannot be mounted here"
fi

# ---- a file that may not grow, in the middle of a sub-buffer ----

if command -v prlimit >/dev/null; then
	cap=$tmp/fsize
	run timeout 60 prlimit --fsize=700000 "$kvmft" record --as host -e 'kvm:*' -o "$cap" -- "$tinyvm" --ms 20000
	status_is 3 "file size limit: exit 3"
	err_has 'File too large' "... is reported"
	reason_is error "... meta has its end"
	is "$(($(data_size "$cap") % KB64))" 0 "... the short write was cut to whole sub-buffers"
	taken=$(($(sum_stats "$cap" read) - $(sum_stats "$cap" unstored)))
	run "$kvmft" merge "$cap"
	status_is 3 "... can be read"
	is "$(grep -cv ' LOST ' "$out")" "$taken" "... all that was stored, and the counters know it"
	nothing_left "file size limit"
else
	skip "file size limit" "prlimit is not installed"
fi
# Nothing is kept if the capture cannot get its name: failed, not incomplete.
if command -v strace >/dev/null; then
	run timeout 300 strace -f -qq -o /dev/null -e trace=renameat2 -e inject=renameat2:error=EIO \
		"${KVMFT_PLAIN:-$kvmft}" record --as host -d 300ms -e kvm:kvm_fpu -o "$tmp/unnamed"
	status_is 1 "a capture that cannot get its name"
	ok "... there is none" test ! -e "$tmp/unnamed"
else
	skip "a capture without a name" "strace is not installed"
fi
# No room for queued signals: threads that sleep in splice() are woken by another kind.
if command -v prlimit >/dev/null; then
	run timeout -s KILL 60 prlimit --sigpending=0 "$kvmft" record --as host -d 300ms -e kvm:kvm_fpu -o "$tmp/pending"
	status_is 0 "without room for pending signals a recording ends"
else
	skip "pending signals" "prlimit is not installed"
fi

# ---- each error, at several writes ----

# inject ERRNO WHAT WHEN TEXT EVENTS: the WHEN-th WHAT on the files of a capture fails.
inject()
{
	cap=$tmp/inject seconds=3
	[ "$2" != splice ] || seconds=30 # it ends with the error: a VM without a CPU fills a ring slowly
	rm -rf "$cap" "$tmp/vm.out"
	"$tinyvm" --ms 20000 --pause 50 >"$tmp/vm.out" 2>&1 &
	vm=$!
	wait_for_line "$tmp/vm.out" # a VM that appears later is a line of meta, too
	ASAN_OPTIONS=detect_leaks=0 run timeout 300 strace -f -qq -o "$tmp/strace.log" -P "$cap/seg000000/cpu0" \
		-P "$cap/seg000000/cpu1" -P "$cap/meta" -e trace="$2" -e inject="$2:error=$1:when=$3" \
		"$kvmft" record --as host -e "$5" -b 1M -p "$vm" -d $seconds -o "$cap"
	kill "$vm"
	wait "$vm" 2>/dev/null
	vm=
	status_is 3 "$1 at $2 $3: exit 3"
	err_has "$4" "... is reported"
	taken=$(($(sum_stats "$cap" read) - $(sum_stats "$cap" unstored)))
	run "$kvmft" merge "$cap"
	case $2 in
	splice) is "$(grep -cv ' LOST ' "$out")" "$taken" "... all that was stored can be read" ;;
	*) is "$([ "$(wc -l <"$out")" -gt 100 ] && echo yes)" yes "... what was stored can be read" ;;
	esac
	is "$(($(data_size "$cap") % KB64))" 0 "... in whole sub-buffers"
	nothing_left "$1"
}

if command -v strace >/dev/null && strace -f -qq -o /dev/null true 2>/dev/null; then
	inject EIO splice 1 'cannot write the data of CPU [01]: Input/output error' 'kvm:*'
	inject EIO splice 3 'cannot write the data of CPU [01]: Input/output error' 'kvm:*'
	inject ENOSPC splice 2 'cannot write the data of CPU [01]: No space left' 'kvm:*'
	inject EDQUOT splice 2 'cannot write the data of CPU [01]: .*[Qq]uota' 'kvm:*'
	inject EFBIG splice 4 'cannot write the data of CPU [01]: File too large' 'kvm:*'
	# meta, once the capture has its name
	inject EIO write "2+" 'cannot write .*: Input/output error' kvm:kvm_pio
	inject ENOSPC write "2+" 'cannot write .*: No space left' kvm:kvm_pio
else
	skip "injected errors" "strace is not installed, or may not trace"
fi

# ---- segments ----

# Bytes of each segment, one a line, in order.
segment_sizes()
{
	for s in "$cap"/seg*; do
		data_size "$s"
	done
}

# events_of WORD: numbers of loops of the VM and of port writes in the time line must agree.
# In memory: a disk that others use may take long to make a file, and these rings are small.
mkdir "$tmp/mem"
mount -t tmpfs -o size=128M,mode=700 kvmft-test "$tmp/mem" 2>/dev/null && mounted=$tmp/mem
cap=$tmp/mem/rotate
run timeout 300 "$kvmft" record --as host -e 'kvm:*' --rotate 512K -o "$cap" -- "$tinyvm" --iterations 6000
status_is 0 "--rotate SIZE"
n=$(find "$cap" -maxdepth 1 -name 'seg*' | wc -l | tr -d ' ')
between "$n" 3 99 "... several segments"
is "$(segment_sizes | sed '$d' | awk '$1 > 524288 || $1 <= 458752' | wc -l | tr -d ' ')" 0 \
	"... each of this size within one sub-buffer"
is "$(grep -c '^segment n=' "$cap/meta")" $((n - 1)) "... meta names each"
tid=$(vcpu_tid)
adds_up "--rotate SIZE" 0
is "$(grep -c "tinyvm-$tid .*kvm:kvm_pio: pio_write at 0x80 " "$out")" 6000 "... every port write is there"
cap=$tmp/mem/rotate-time
run timeout 300 "$kvmft" record --as host -e 'kvm:*' -b 2M --rotate 200ms -o "$cap" -- "$tinyvm" --ms 1500 --pause 50
status_is 0 "--rotate DURATION"
between "$(find "$cap" -maxdepth 1 -name 'seg*' | wc -l | tr -d ' ')" 2 30 "... several segments"
adds_up "--rotate DURATION" 0
cap=$tmp/mem/rotate-quiet
run timeout 300 "$kvmft" record --as host -e 'kvm:*' -d 2500ms --rotate 500ms -o "$cap" -- sh -c '
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do "$1" --iterations 5; sleep 0.2; done' sh "$tinyvm"
between "$(find "$cap" -maxdepth 1 -name 'seg*' | wc -l | tr -d ' ')" 4 6 \
	"... of a host with few events too, whose ring would not be fetched by then"
adds_up "... nothing lost" 0
cap=$tmp/mem/progress
rm -f "$tmp/screen"
"$tinyvm" --ms 4000 --pause 100 >/dev/null 2>&1 &
vm=$!
script -qec "'$kvmft' record --as host -e 'kvm:*' -d 2500ms -o '$cap'" "$tmp/screen" >/dev/null
is "$(tr '\r' '\n' <"$tmp/screen" | grep -cE '[12] s: [0-9]+ events/s, 0 lost, [0-9.]+ [KM]?i?B on disk; [12] s left')" 2 \
	"on a terminal a line each second shows the progress"
is "$(tr '\r' '\n' <"$tmp/screen" | grep events/s | awk 'length > 83')" "" "... of 80 columns"
ok "... and is gone in the end" grep -q "$(printf '\033')\[Jkvmft: $cap: " "$tmp/screen"
rm -rf "$tmp/mem"/* # a fast machine records 50 MB a second here
script -qec "'$kvmft' record --as host -q -e 'kvm:*' -d 1500ms -o '$cap.q'" "$tmp/screen" >/dev/null
is "$(grep -c 'events/s' "$tmp/screen")" 0 "... not with --quiet"
kill "$vm" 2>/dev/null
wait "$vm" 2>/dev/null
vm=
rm -rf "$tmp/mem"/*
cap=$tmp/mem/keep
# All events fit into the ring, so that a busy machine loses none either.
run timeout 300 "$kvmft" record --as host -e 'kvm:*' -b 4M --rotate 256K --keep 3 -o "$cap" -- "$tinyvm" --iterations 8000
status_is 0 "--keep"
is "$(find "$cap" -maxdepth 1 -name 'seg*' | wc -l | tr -d ' ')" 3 "... the last three"
last=$(find "$cap" -maxdepth 1 -name 'seg*' | sort | tail -n 1)
is "seg$(printf %06d "$(sed -n 's/^segment n=\([0-9]*\) .*/\1/p' "$cap/meta" | tail -n 1)")" "${last##*/}" "... indeed"
run "$kvmft" merge "$cap"
status_is 0 "... can be read, and nothing is missing"
is "$([ "$(wc -l <"$out")" -gt 1000 ] && echo yes)" yes "... and has events"
nothing_left "--keep"
[ -z "$mounted" ] || umount "$mounted"
mounted=
for wrong in '--rotate 10' '--rotate 1K' '--rotate x' '--rotate 0s' '--keep 3' '--keep 0 --rotate 1M' \
	'--flight-recorder --rotate 1M' '--vcpu 0'; do
	# shellcheck disable=SC2086 # several words
	run "$kvmft" record --as host -e kvm:kvm_pio $wrong -d 0.1 -o "$tmp/none"
	status_is 2 "$wrong: wrong usage"
	err_one_line "$wrong"
done

# ---- the flight recorder ----

cap=$tmp/flight
"$tinyvm" --pause 50 --ms 20000 >"$tmp/vm.out" 2>&1 &
vm=$!
"$kvmft" record --as host -q -e 'kvm:*' --flight-recorder -b 256K --keep 3 -p "$vm" -o "$cap" 2>"$err" &
recorder=$!
n=0
while ! grep -q '^begin ' "$cap/meta" 2>/dev/null && [ $n -lt 200 ]; do
	sleep 0.05
	n=$((n + 1))
done
sleep 0.4
is "$(data_size "$cap")" 0 "flight recorder: nothing is written"
for i in 1 2 3; do
	# Again, if on a busy machine the VM has done nothing since the last.
	n=0
	while [ "$(grep -c '^segment n=.* why=signal' "$cap/meta")" -lt "$i" ] && [ $n -lt 200 ]; do
		[ $((n % 40)) -ne 0 ] || kill -USR1 "$recorder"
		sleep 0.05
		n=$((n + 1))
	done
	ok "... SIGUSR1 $i makes a segment" test "$(grep -c '^segment n=.* why=signal' "$cap/meta")" -ge "$i"
done
kill -INT "$recorder"
wait "$recorder"
rc=$?
status_is 0 "... ends well"
is "$(grep -c '^segment n=.* why=end' "$cap/meta")" 1 "... with what the ring held at the end"
is "$(find "$cap" -maxdepth 1 -name 'seg*' | wc -l | tr -d ' ')" 3 "... and keeps the last three"
is "$([ "$(segment_sizes | sort -n | tail -n 1)" -le $((2 * (258 * 1024 + 8192))) ] && echo yes)" yes \
	"... none is larger than the rings"
is "$(cat "$err")" "" "... without a word"
run "$kvmft" merge "$cap"
status_is 0 "... can be read"
out_has 'kvm:kvm_pio' "... and has events"
cap=$tmp/trigger
run timeout 300 "$kvmft" record --as host -e 'kvm:*' --flight-recorder -b 256K -p "$vm" -d 1500ms -o "$cap" \
	--trigger 'kvm:kvm_pio/port == 0x80/'
status_is 0 "--trigger"
between "$(grep -c '^segment n=.* why=trigger' "$cap/meta")" 2 20 "... makes segments"
is "$(grep -c 'why=end' "$cap/meta")" 0 "... and the end has none"
if [ -f "$tracefs/events/kvm/kvm_pio/trigger" ]; then
	run "$kvmft" merge "$cap"
	status_is 0 "... can be read"
	# The ring stops at the event: each segment but the gap behind it ends with it.
	is "$(awk '/ LOST / { if (n && last !~ /kvm_pio|kvm_emulate|kvm_fpu|userspace/) bad++ } { last = $0; n++ } END { print bad + 0 }' "$out")" \
		0 "... each piece ends where the trigger was"
fi
cap=$tmp/trigger-never
run timeout 300 "$kvmft" record --as host -e 'kvm:*' --flight-recorder -b 256K -p "$vm" -d 500ms -o "$cap" \
	--trigger 'kvm:kvm_pio/port == 0x81/'
status_is 0 "--trigger that never happens"
is "$(grep -c 'why=trigger' "$cap/meta") $(grep -c 'why=end' "$cap/meta")" "0 1" "... what was last is there"
sleep 60 &
sleeper=$!
cap=$tmp/trigger-other
run timeout 300 "$kvmft" record --as host -e 'kvm:*' --flight-recorder -b 256K -p "$sleeper" -d 500ms -o "$cap" \
	--trigger kvm:kvm_pio
kill "$sleeper"
wait "$sleeper" 2>/dev/null
status_is 0 "--trigger with -p, while another process has such events"
is "$(grep -c 'why=trigger' "$cap/meta")" 0 "... which do not count"
# An exit that lasts longer; what it does is proved in the emulated host (tests/vm/flight.t).
for wrong in exit-longer= exit-longer=0 exit-longer=5q exit-longer=5ms/ exit-longer=5ms/x exit-longer=5ms//; do
	run "$kvmft" record --as host --flight-recorder -d 1ms -o "$tmp/none" --trigger "$wrong"
	status_is 2 "--trigger $wrong: wrong usage"
	err_has 'is not exit-longer=DURATION' "... is reported"
done
if [ ! -f "$tracefs/events/kvm/kvm_exit/hist" ]; then
	run "$kvmft" record --as host --flight-recorder -d 1ms -o "$tmp/none" --trigger exit-longer=5ms
	status_is 4 "--trigger exit-longer without hist triggers"
	err_has 'has no hist triggers .* use --trigger EVENT/FILTER/' "... is reported, with what works"
	nothing_left "--trigger exit-longer"
fi
run "$kvmft" record --as host -e 'kvm:*' --flight-recorder -d 1 -o "$tmp/none" --trigger 'kvm:kvm_pio/prot == 1/'
status_is 1 "--trigger with a wrong filter"
err_has '^ *\^' "... with the kernel's caret"
ok "... nothing was made" test ! -e "$tmp/none"
kill "$vm"
wait "$vm" 2>/dev/null
vm=
nothing_left "flight recorder"

# ---- threads ----

mkfifo "$tmp/go"
rm -f "$tmp/vm.out"
"$tinyvm" --wait --vcpus 2 --ms 2500 <"$tmp/go" >"$tmp/vm.out" 2>&1 &
vm=$!
exec 9>"$tmp/go"
wait_for_line "$tmp/vm.out"
tids=$(sed -n 's/^pid .* tids \(.*\)/\1/p' "$tmp/vm.out")
"$tinyvm" --pause 100 --ms 6000 >/dev/null 2>&1 9>&- &
other=$!
cap=$tmp/pid
"$kvmft" record --as host -q -e 'kvm:kvm_pio' -p "$vm" -o "$cap" 9>&- &
recorder=$!
cap2=$tmp/vcpu
"$kvmft" record --as host -q -e 'kvm:kvm_pio' --vm "$vm" --vcpu 1 -o "$cap2" 9>&- 2>"$tmp/vcpu.err" &
recorder2=$!
n=0
while ! { grep -q '^vm ' "$cap/meta" && { grep -q '^vm ' "$cap2/meta" || [ -s "$tmp/vcpu.err" ]; }; } 2>/dev/null &&
	[ $n -lt 100 ]; do
	sleep 0.05
	n=$((n + 1))
done
exec 9>&-
wait "$vm"
vm=
kill -INT "$recorder"
wait "$recorder"
is "$?" 0 "two recorders at once: the first"
kill "$other" 2>/dev/null
wait "$other" 2>/dev/null
run "$kvmft" merge "$cap"
is "$(grep -o 'tinyvm-[0-9]*' "$out" | sort -u | tr '\n' ' ')" \
	"$(echo "$tids" | tr ' ' '\n' | sed 's/^/tinyvm-/' | sort -u | tr '\n' ' ')" "-p: all threads of the process, no other"
is "$(grep -c kvm_pio "$out")" "$(awk '/^vcpu/ { split($3, a, "="); n += a[2] } END { print n }' "$tmp/vm.out")" \
	"... every event of them"
kill -INT "$recorder2" 2>/dev/null
wait "$recorder2"
rc2=$?
if grep -q 'no vCPU' "$tmp/vcpu.err"; then
	skip "--vcpu" "debugfs shows no vCPUs here"
else
	is "$rc2" 0 "two recorders at once: the second"
	run "$kvmft" merge "$cap2"
	tid=${tids#* }
	is "$(grep -o 'tinyvm-[0-9]*' "$out" | sort -u | tr '\n' ' ')" "tinyvm-$tid " "--vcpu: its thread, no other"
fi

# ---- no limit at all ----

cap=$tmp/unlimited
"$kvmft" record --as host -e kvm:kvm_pio -o "$cap" 2>"$err" &
recorder=$!
for _ in $(seq 300); do grep -q '^kvmft: recording into' "$err" && break || sleep 0.1; done
kill "$recorder"
wait "$recorder"
is "$?" 0 "a recording without any limit, until SIGTERM"
err_has '^kvmft: recording into .*unlimited until SIGTERM, or less than [0-9.]+ [KMGT]iB is free there \(--max-size, -d\)$' \
	"... says so once, and where it would end"
"$kvmft" record --as host -e kvm:kvm_pio -o "$cap.2" -d 10ms 2>"$err"
is "$(grep -c 'recording into' "$err")" 0 "... and nothing where -d says it"

# ---- what the command gets ----

cap=$tmp/cpus
run timeout 300 "$kvmft" record --as host -q -e kvm:kvm_pio -o "$cap" -- \
	sh -c 'sed -n "s/^Max open files *\\([0-9]*\\) .*/\\1/p" /proc/self/limits; umask'
status_is 0 "a command"
is "$(tail -n 2 "$out" | tr '\n' ' ')" "$(sed -n 's/^Max open files *\([0-9]*\) .*/\1/p' /proc/self/limits) $(umask) " "... has its own limits and umask"

# ---- what it opens for writing, and what becomes of tracefs ----

if command -v strace >/dev/null && strace -f -qq -o /dev/null true 2>/dev/null; then
	cap=$tmp/traced
	ASAN_OPTIONS=detect_leaks=0 run timeout 300 strace -f -qq -y -o "$tmp/strace.log" \
		-e trace=open,openat,creat,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,truncate,chmod,fchmodat,link,linkat,symlink,symlinkat,mount \
		"$kvmft" record --as host -q -e 'kvm:*' -d 300ms --rotate 64K --keep 2 -o "$cap"
	status_is 0 "recording under strace"
	is "$(grep -c 'instances/kvmft\.' "$tmp/strace.log" | awk '{ print ($1 > 10) }')" 1 "... the log has our instance"
	# What is left after our instance, our capture, and /dev/null.
	grep -E 'O_WRONLY|O_RDWR|O_CREAT|^[0-9]+ +(creat|mkdir|rmdir|unlink|rename|truncate|chmod|fchmod|link|symlink|mount)' \
		"$tmp/strace.log" | grep -vE ' = -1 ' |
		grep -vE '/instances/kvmft\.[0-9.]+[">/]|<'"$cap"'[>/]|"'"$cap"'|"traced"|/\.traced\.[0-9]*\.new[>/]|"\.traced\.[0-9]*\.new", (0700|AT_FDCWD|[0-9]+<[^>]*>, "traced")|/dev/null|/proc/self/' >"$tmp/foreign"
	# Only its own lines: added, and taken away again.
	grep -vE '"kprobe_events"' "$tmp/foreign" >"$tmp/foreign2"
	is "$(cat "$tmp/foreign2")" "" "... no other file was opened for writing, made or removed"
else
	skip "log of writes" "strace is not installed, or may not trace"
fi
is "$(tracefs_state)" "$state_before" "tracefs is as it was before all this"
finish
