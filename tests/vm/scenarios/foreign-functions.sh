# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# For scenarios that record both levels with tools other than kvmft; sourced after lib/host.sh or
# lib/guest.sh. What a capture must not tell, offsets, PIDs and names of VMs, is kept beside it in
# PAIR/facts, which only tests read.

TRACE_CMD=${TRACE_CMD:-trace-cmd}

# tool_begin NAME COMMAND...: a recorder in the background, until it says that it records. Its PID in
# $recorder.
tool_begin()
{
	tool_log=/tmp/$1.log
	shift
	stdbuf -oL "$@" >"$tool_log" 2>&1 </dev/null &
	recorder=$!
	wait_until 300 grep -qs 'Hit Ctrl' "$tool_log" || die "no recording by $*: $(cat "$tool_log")"
}

# tool_ended PID: a child that was not waited for yet is a zombie.
tool_ended()
{
	case $(cat "/proc/$1/stat" 2>/dev/null) in
	'' | *") Z "*) return 0 ;;
	esac
	return 1
}

# tool_end NAME [PID]: Ctrl-C. What the recorder said stays in $RESULTS.
tool_end()
{
	kill -INT "${2:-$recorder}"
	wait_until 180 tool_ended "${2:-$recorder}" || die "$1: the recorder does not end: $(cat "/tmp/$1.log")"
	wait "${2:-$recorder}"
	check "$RIG_NAME: $1: the recorder exits 0" same "$?" 0
	cp "/tmp/$1.log" "$RESULTS/log-$RIG_NAME-$1"
	grep -E 'overrun|entries|dropped|lost|rror|ailed' "/tmp/$1.log" | sed 's/^/# /'
}

# record_begin NAME [ARGUMENT...]: as engineers do it by hand.
record_begin()
{
	rb_name=$1
	shift
	tool_begin "$rb_name" "$TRACE_CMD" record -C "${FOREIGN_CLOCK:-x86-tsc}" -o "/tmp/$rb_name.dat" "$@"
}

# record_end NAME FILE [PID]: into FILE of $RESULTS.
record_end()
{
	tool_end "$1" "${3:-}"
	mkdir -p "$RESULTS/${2%/*}"
	mv "/tmp/$1.dat" "$RESULTS/$2" || die "no $1.dat"
}

# ---- host ----

# in_guest NAME COMMAND: starts a command of guest.sh's; done_in_guest NAME waits for it.
in_guest()
{
	eval "in_guest_$1=\$((\${in_guest_$1:-0} + 1))"
	ig_number=
	eval "ig_number=\$in_guest_$1"
	flag_set "$1-do-$ig_number" "$2"
}

done_in_guest()
{
	ig_number=
	eval "ig_number=\$in_guest_$1"
	flag_wait "$1-did-$ig_number" "${2:-240}"
	check "$1: $(flag_get "$1-do-$ig_number")" same "$(flag_get "$1-did-$ig_number")" 0
}

# pair_begin NAME: a folder of $RESULTS and the facts of it.
pair_begin()
{
	pair=$1
	rm -rf "${RESULTS:?}/$pair"
	mkdir "$RESULTS/$pair"
	note "$pair after $(uptime_cs) cs"
	pair_fact kernel "$(uname -r)"
	pair_fact host_tsc_khz "$(tsc_khz)"
	pair_fact trace_cmd "$("$TRACE_CMD" --version | sed -n 's/^trace-cmd version \([^ ]*\).*/\1/p')"
}

pair_fact()
{
	echo "$1=$2" >>"$RESULTS/$pair/facts"
}

# Thread of vCPU $2, by QEMU itself: the names of its threads tell only where it was told to name them.
vcpu_tid()
{
	guest_monitor "$1" info cpus | sed -n "s/.*CPU #$2: thread_id=\\([0-9]*\\).*/\\1/p"
}

# pair_vm NAME [AS]: all that is known of a guest now, under the name AS.
pair_vm()
{
	pv_as=${2:-$1}
	pv_dir=$(guest_debugfs "$1") || die "$1 is not in debugfs"
	pair_fact "${pv_as}_name" "$1"
	pair_fact "${pv_as}_pid" "$(guest_pid "$1")"
	pair_fact "${pv_as}_uuid" "$(guest_uuid "$1")"
	for pv_vcpu in "$pv_dir"/vcpu*; do
		pv_number=${pv_vcpu##*/vcpu}
		pair_fact "${pv_as}_vcpu${pv_number}_tid" "$(vcpu_tid "$1" "$pv_number")"
		pair_fact "${pv_as}_vcpu${pv_number}_offset" "$(cat "$pv_vcpu/tsc-offset")"
		for pv_file in tsc-scaling-ratio tsc-scaling-ratio-frac-bits; do
			[ ! -r "$pv_vcpu/$pv_file" ] ||
				pair_fact "${pv_as}_vcpu${pv_number}_$pv_file" "$(cat "$pv_vcpu/$pv_file")"
		done
	done
}

# pair_same_offsets NAME [AS]: are they still as they were noted? If not, emulation made the guest's
# kernel fault, and it rebooted by itself.
pair_same_offsets()
{
	for ps_vcpu in "$(guest_debugfs "$1")"/vcpu*; do
		ps_number=${ps_vcpu##*/vcpu}
		grep -q "^${2:-$1}_vcpu${ps_number}_offset=$(cat "$ps_vcpu/tsc-offset")\$" "$RESULTS/$pair/facts" ||
			die "$pair: the offset of vCPU $ps_number of $1 changed by itself"
	done
	pass "$pair: the offsets of $1 are as they were"
}

# guest_needed NAME [OPTION VALUE]...: started and waiting for commands.
guest_needed()
{
	[ -e "$GUEST_RUN/$1" ] || guest_start "$@"
	guest_wait_up "$1"
	flag_wait "$1-ready"
}

# guest_end NAME: by itself.
guest_end()
{
	in_guest "$1" end
	check "$1: all well" guest_wait_done "$1"
}
