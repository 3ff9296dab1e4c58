# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Measures what counting exits costs: CPU time of a vCPU per exit that KVM handles by itself (cpuid),
# with nobody looking, with the bare tracepoint, a bare hist trigger, and each way of counting, in turns. An emulated
# machine is slow and disturbed, so each turn counts by its fastest loop (on Bochs all are the same). For `make bench`: leaves
# lines "MODE NS_PER_EXIT READER_NS_PER_EXIT RSS_KB START_MS" in cost.txt. ROUNDS (from --env) turns,
# the first of which is for warming up.

. "$VM_LIB/host.sh"

need_kvmft
tracefs=/sys/kernel/tracing
tinyvm_make /tmp/tinyvm
: >/tmp/cost.txt
loops=60
cpuids=200
exits=$((loops * (cpuids + 3)))
cd /tmp || die "no /tmp"

# The instance of the bare tracepoint, whose ring nobody reads, and of the bare trigger.
bare=$tracefs/instances/bench
mkdir $bare || die "cannot make an instance"

# With keys as in kvmft's.
trigger=hist:keys=common_pid,exit_reason:size=4096

# has_perf_event PID
has_perf_event()
{
	for fd in /proc/"$1"/fd/*; do
		case $(readlink "$fd") in
		*perf_event*) return 0 ;;
		esac
	done
	return 1
}

# Has it printed something, or ended?
kvmexit_decided()
{
	grep -qs KVM_EXIT_REASON /tmp/reader.out || ! kill -0 "$pid" 2>/dev/null
}

# counts ENGINE [OPTION]: starts kvmft and waits for its first output in a read(), which costs next to
# nothing.
counts()
{
	rm -f /tmp/reader.says
	mkfifo /tmp/reader.says
	exec 3<>/tmp/reader.says
	begun=$(uptime_cs)
	"$KVMFT" exits --engine "$@" >/tmp/reader.out 2>/tmp/reader.says 3>&- &
	pid=$!
	while read -r line <&3; do
		case $line in
		*counts:*) return 0 ;;
		"kvmft exits: "*) echo "$line" >/tmp/reader.err; return 1 ;;
		esac
	done
}

# begin MODE: starts it; its PID in $pid ("" = none), how long that took in $start_ms.
begin()
{
	pid=
	begun=$(uptime_cs)
	begun_well=true
	case $1 in
	off) ;;
	tracepoint) echo 1 >$bare/events/kvm/kvm_exit/enable ;;
	trigger) echo $trigger >$bare/events/kvm/kvm_exit/trigger ;;
	kernel | user) counts "$1" || begun_well=false ;;
	kernel-time | user-time) counts "${1%-time}" --time || begun_well=false ;;
	perf-live)
		perf kvm stat live </dev/zero >/tmp/reader.out 2>/tmp/reader.err &
		pid=$!
		;;
	kvmexit)
		PYTHONUNBUFFERED=1 BCC_KERNEL_SOURCE=$headers "$kvmexit" >/tmp/reader.out 2>/tmp/reader.err &
		pid=$!
		;;
	esac
	case $1 in
	perf-live) wait_until 90 has_perf_event "$pid" ;;
	# It compiles its program at every start, for minutes here.
	kvmexit) wait_until 300 kvmexit_decided && grep -qs KVM_EXIT_REASON /tmp/reader.out ;;
	*) $begun_well ;;
	esac || { note "$1 does not begin: $(tail -n 1 /tmp/reader.err)"; return 1; }
	start_ms=$((($(uptime_cs) - begun) * 10))
	# perf is not ready yet when its events exist.
	[ "$1" != perf-live ] || sleep 2
}

# reader_ns: its CPU time so far, 0 without one
reader_ns()
{
	cat /proc/"${pid:-none}"/task/*/schedstat 2>/dev/null | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

# end MODE: the reader's memory in $rss, and ends it.
end()
{
	rss=0
	case $1 in
	tracepoint) echo 0 >$bare/events/kvm/kvm_exit/enable ;;
	trigger) echo "!$trigger" >$bare/events/kvm/kvm_exit/trigger ;;
	esac
	[ -n "$pid" ] || return 0
	rss=$(awk '/^VmHWM:/ { print $2 }' "/proc/$pid/status")
	kill -INT "$pid"
	wait "$pid"
}

# measure MODE ROUND
measure()
{
	begin "$1" || { [ -z "$pid" ] || kill "$pid" 2>/dev/null; return 1; }
	reader_before=$(reader_ns)
	ns=$(/tmp/tinyvm --iterations $loops --cpuid $cpuids | sed -n 's/.*loop_ns=//p')
	reader=$((($(reader_ns) - reader_before) / exits))
	end "$1"
	[ "$2" = 0 ] || echo "$1 $((ns / (cpuids + 3))) $reader $rss $start_ms" \
		>>/tmp/cost.txt
}

modes="off tracepoint trigger kernel user kernel-time user-time"
if command -v perf >/dev/null; then
	modes="$modes perf-live"
else
	note "perf kvm stat live: perf is not installed"
fi
kvmexit=$(command -v kvmexit-bpfcc || command -v kvmexit)
headers=/usr/src/linux-headers-$(uname -r)
if [ -z "$kvmexit" ]; then
	note "bcc kvmexit: not installed (bpfcc-tools)"
elif [ ! -d "$headers" ]; then
	note "bcc kvmexit: cannot compile its program, no $headers (linux-headers-$(uname -r))"
else
	modes="$modes kvmexit"
fi
modes=${MODES:-$modes}

round=0
while [ $round -lt "${ROUNDS:-8}" ]; do
	for mode in $modes; do
		# A start of kvmexit takes longer than all the others together.
		[ "$mode" != kvmexit ] || [ $round -eq 1 ] || continue
		measure "$mode" $round || modes=$(echo "$modes" | sed "s/ $mode//")
	done
	round=$((round + 1))
	carry /tmp/cost.txt
done
rmdir $bare
carry /tmp/cost.txt
check "there are results" test -s /tmp/cost.txt
finish
