# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # rig, tmp and so on are tap.sh's and lib.sh's
#
# For foreign*.t, after foreign.sh: what kvmft makes of two files without being told how they belong together.

# status_of PAIR FILE...: exit status of what reads them; trace-cmd knows whether events were lost: it says so where
# they are missing, and the ring's counters tell of those that were overwritten, or are in the ring still.
status_of()
{
	so_pair=$1
	shift
	for so_file; do
		report_of "$so_pair" "$so_file"
		! grep -q 'EVENTS DROPPED' "$report" || echo 3
		trace-cmd report --stat -i "$rig/$so_pair/$so_file.dat" 2>&1 | awk -v stored="$(events_in "$report")" '
			/^(commit overrun|overrun|dropped events): / { lost += $NF }
			/^(entries|read events): / { kept += $NF }
			END { if (lost || kept > stored) print 3 }'
	done | sort -u | grep . || echo 0
}

# events_in FILE: of a report by trace-cmd.
events_in()
{
	grep -cE '^.*-[0-9]+ +\[[0-9]+\] *[0-9]+: ' "$1"
}

# found NAME VM [VM]: in what merge printed as JSON are the truth's VM, threads and offsets.
found()
{
	fo_name=$1
	shift
	perl "$top/tests/vm/foreign_found.pl" "$rig/$pair/facts" "$out" "$@" >"$tmp/found" 2>&1
	result $? "$fo_name"
	sed 's/^/# /' "$tmp/found"
}

# set_pair PAIR HOST GUEST: for the functions below.
set_pair()
{
	pair=$1 host=$2 guest=$3
	h=$rig/$1/$2.dat
	g=$rig/$1/$3.dat
	status=$(status_of "$1" "$2" "$3")
}

# understood PAIR HOST GUEST ANALYSES VM [VM]: merge, verify, latency, report, export and html with nothing but
# the two files. VM as for aligned.
understood()
{
	set_pair "$1" "$2" "$3"
	analyses=$4
	shift 4
	merged "$@"
	verified "$@"
	told
	exported
}

# Every event is there, and everything that was concluded is right.
merged()
{
	run "$kvmft" merge --format json "$h" "$g"
	status_is "$status" "$pair: $guest.dat: merge, no option"
	label=$(sed -n 's/^kvmft: alignment of \([^ ]*\): [1-9][0-9]* guest events checked, 0 outside.*/\1/p' "$err")
	ok "... no event outside of its vCPU's windows in ${label:-no VM}" test -n "$label"
	sed 's/^/# /' "$err"
	found "... PID, threads and TSC offsets are those that KVM had" "$@"
	report_of "$pair" "$guest"
	is "$(grep -c '"kind":"event","side":"guest"' "$out")" "$(events_in "$report")" \
		"... the guest's events are all there"
	report_of "$pair" "$host"
	is "$(grep -c '"kind":"event","side":"host"' "$out")" "$(events_in "$report")" "... the host's, too"
}

# The interval that is printed holds the true offset, and is no wider than the slack with that one; both exist where
# one offset serves all.
verified()
{
	run "$kvmft" verify "$h" "$g"
	status_is "$status" "$pair: $guest.dat: verify, no option"
	out_has "^$label: aligned within" "... its verdict"
	true_offset=$(sed -n "s/^$1_vcpu[0-9]*_offset=//p; s/^${2:-$1}_vcpu[0-9]*_offset=//p" "$rig/$pair/facts" | sort -u)
	found=$(sed -n 's/.*; any from \([-0-9]*\) to \([-0-9]*\) leaves no event outside$/\1 \2/p' "$out")
	[ -n "$found" ] && [ "$(echo "$true_offset" | wc -l)" = 1 ] || return 0
	run "$kvmft" verify --tsc-offset "$true_offset" "$h" "$g"
	status_is "$status" "... aligned with the true offset, too"
	slack=$(sed -n 's/^  moved by more than -\([0-9]*\) cycles.* or +\([0-9]*\) cycles.*/\1 \2/p' "$out")
	# shellcheck disable=SC2016 # for the inner shell
	ok "... which is within what was found, $found, and that no wider than the slack, $slack" sh -c '
		test "$1" -le "$3" && test "$3" -le "$2" && test $(($2 - $1)) -le $(($4 + $5))' \
		sh $found "$true_offset" $slack
}

# What other commands say about the pair.
told()
{
	for analysis in $analyses; do
		sums_of "$pair: $guest.dat" "$analysis" "$h" "$g"
		run "$kvmft" latency "$analysis" "$h" "$g"
		status_is "$status" "... as text"
		err_has "^kvmft: alignment of $label: .* 0 outside" "... $label is named"
	done
	run "$kvmft" merge --format html -o "$tmp/page.html" --force "$h" "$g"
	status_is "$status" "$pair: $guest.dat: html"
	ok "... all of it" sh -c "tail -n 1 '$tmp/page.html' | grep -q '</html>'"
	run "$kvmft" report --format csv -i "$h"
	status_is "$(status_of "$pair" "$host")" "$pair: $host.dat: report"
	report_of "$pair" "$host"
	exits=$(grep -c ' kvm_exit: ' "$report")
	# Of all VMs together, where there are several.
	samples=$(sed 's/"[^"]*"/vm/' "$out" | awk -F, 'NR > 1 { $1 == "" ? all += $4 : n += $4 } END { print all ? all : n + 0 }')
	# The last exit of a vCPU has no entry behind it; nothing is paired over a gap.
	dropped=$(sed -n 's/.* events lost.*, \([0-9]*\) pairs dropped at gaps.*/\1/p' "$err")
	ok "... $samples of $exits exits, ${dropped:=0} dropped" \
		test "$samples" -le "$exits" -a "$samples" -ge $((exits - ${lost_exits:-8} - dropped))
}

# What kvmft exports is a pair to trace-cmd: one names the other, and the guest's times are the host's.
exported()
{
	rm -rf "$tmp/export"
	mkdir "$tmp/export"
	run "$kvmft" export -i "$h" -o "$tmp/export/both.dat" "$g"
	status_is "$status" "$pair: $guest.dat: export"
	set -- "$tmp"/export/both-*.dat
	trace_cmd_report --raw-ts -t "$tmp/export/both.dat" >"$tmp/export/host" 2>"$tmp/export/err"
	trace_cmd_report --raw-ts -t "$1" >"$tmp/export/guest" 2>>"$tmp/export/err"
	trace_cmd_report -t -i "$tmp/export/both.dat" -i "$1" >"$tmp/export/all" 2>>"$tmp/export/err"
	is "$? $(cat "$tmp/export/err")" "0 " "... trace-cmd reads both without a word"
	report_of "$pair" "$guest"
	guest_events=$(events_in "$report")
	is "$(events_in "$tmp/export/guest")" "$guest_events" "... the guest's events"
	report_of "$pair" "$host"
	is "$(grep -cE '^.*-[0-9]+ +\[[0-9]+\] *[0-9.]+: ' "$tmp/export/all")" \
		$(($(events_in "$report") + guest_events)) "... all in one list"
	trace-cmd dump --options -i "$tmp/export/both.dat" >"$tmp/export/options" 2>&1
	tids=$(sed -n 's/^ *[0-9]* \([0-9]*\) \[guest cpu, host pid\]/\1/p' "$tmp/export/options")
	is "$(echo "$tids" | sort)" "$(sed -n 's/^vm[0-9a-z_]*_vcpu[0-9]*_tid=//p' "$rig/$pair/facts" | sort -u |
		grep -xF "$tids")" "... GUEST has the threads of vCPUs"
	is "$(echo "$tids" | wc -l)" 2 "... of both"
	set --
	for tid in $tids; do
		set -- "$@" "$tid=0"
	done
	counts=$(perl "$top/tests/vm/foreign_inside.pl" "$tmp/export/host" "$tmp/export/guest" "$@")
	# shellcheck disable=SC2086,SC2016 # a list; for the inner shell
	ok "... by trace-cmd's times, inside, outside and unknown: $counts" \
		sh -c 'test "$1" -gt 500 && test "$2" -eq 0' sh $counts
}

# strangers FOLDER...: of pairs; the host of each refuses the guests of all others, and prints nothing.
strangers()
{
	tried=0
	taken=0
	for s_host; do
		for s_guest; do
			[ "$s_host" != "$s_guest" ] || continue
			for s_file in "$s_guest"/*.dat; do
				case $s_file in
				*/host.dat) continue ;;
				esac
				tried=$((tried + 1))
				run timeout 300 "$plain" merge "$s_host/host.dat" "$s_file"
				[ "$rc" != 4 ] || [ -s "$out" ] || continue
				taken=$((taken + 1))
				echo "# exit $rc: $s_host/host.dat $s_file"
				show_run
			done
		done
	done
	ok "$tried guests were given to a host that did not run them" test "$tried" -gt 0
	is "$taken" 0 "... none is taken for its own"
}
