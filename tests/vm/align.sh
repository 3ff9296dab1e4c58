# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # tap.sh and the test set kvmft, rig, out, tmp
#
# For the .t files that run scenario align: what must hold of its captures on any host. Sourced after tap.sh.

merge()
{
	run "$kvmft" merge "$@" "$rig/host" "$rig/guest"
}

# count PATTERN: lines of the time line that match.
count_lines()
{
	grep -cE "$1" "$out"
}

verify()
{
	run "$kvmft" verify "$@" "$rig/host" "$rig/guest"
}

# TIME is the first word that is a number with a decimal point.
is_time='function is_time(s) { return s ~ /^[0-9]+[.][0-9]+[?]?$/ }
'

# One time line, in its order.
align_order()
{
	merge
	status_is 0 "merge exits 0"
	cp "$out" "$tmp/timeline"
	err_has '^kvmft: host: [1-9][0-9]* events, 0 lost' "host has events and lost none"
	err_has '^kvmft: vm1: [1-9][0-9]* events, 0 lost' "guest has events and lost none"
	err_has 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside' "no guest event outside"
	sed 's/^/# /' "$err"
	is "$(awk '$1 == "host" { h++ } $1 == "vm1" { g++ } END { print (h > 1000 && g > 1000) }' "$out")" 1 \
		"more than 1000 lines of each side"

	is "$(awk "$is_time"'{ n = 0; for (i = 3; i <= NF; i++) if (is_time($i)) { t = $i + 0; n = 1; break }
		if (!n || t < last) bad++; last = t } END { print (NR ? bad + 0 : "no lines") }' "$out")" 0 "lines are in order of time"

	# The host serves the guest's rdmsr 0x11, then the guest has its value: always in this order. How far apart is
	# the load of the outer machine, which may run something else in between; only the closest is an exit's cost.
	awk "$is_time"'/kvm:kvm_msr: msr_read 11 / { for (i = 3; i <= NF; i++) if (is_time($i)) t = $i; h++ }
		/msr:read_msr: 11, / { for (i = 3; i <= NF; i++) if (is_time($i)) g = $i;
			n++; if (!t || g <= t) bad++; else if (!near || g - t < near) near = g - t; t = 0 }
		END { print ((h == n && n > 0) ? bad + 0 : "host " h " guest " n), n ? int(near * 1000000) : "no", n }' "$out" >"$tmp/rdmsr"
	read -r wrong near pairs <<-EOF
		$(cat "$tmp/rdmsr")
	EOF
	sed 's/^/# rdmsr: wrong, us of the closest, all: /' "$tmp/rdmsr"
	is "$wrong" 0 "each rdmsr: host before guest"
	ok "... the closest of $pairs by less than 1 ms" test "${near:-1000}" -lt 1000

	is "$(count_lines 'block:block_rq_issue')" "$(count_lines 'block:block_rq_complete')" \
		"every block request issued was completed"

	merge --clock host-tsc
	status_is 0 "merge in host TSC"
	merge --clock guest-tsc
	status_is 0 "merge in guest TSC"
	merge --clock kvmclock
	status_is 0 "merge in kvmclock"
}

# by_hand CYCLES: options for an offset that is CYCLES more than the VM's, with the VM's ratio.
by_hand()
{
	sed -nE "s|^vcpu .* ratio=([0-9]+) frac=([0-9]+) .*|--tsc-ratio \\1/\\2 --tsc-offset $(($(fact tsc_offset) + $1))|p" \
		"$rig/host/meta" | head -n 1
}

# align_bounds LIMIT: the guest's clock is known within less than LIMIT cycles either way ($early, $late);
# every larger error is found.
align_bounds()
{
	# shellcheck disable=SC2046 # options
	merge $(by_hand 0)
	err_has ', 0 outside' "the offset of debugfs given by hand: none outside"
	for error in 150000 -150000; do
		# shellcheck disable=SC2046
		merge $(by_hand $error)
		err_has 'MISALIGNED' "an offset wrong by $error cycles is detected"
	done
	verify
	status_is 0 "verify: aligned"
	out_has '^vm1: aligned within [0-9]+ cycles' "verify: says how well"
	out_has '^  (tsc_deadline|icr|rdmsr_0x11) +[1-9][0-9]* +0 ' "verify: pairs by value, none reversed"
	sed 's/^/# /' "$out"
	early=$(sed -n 's/.*moved by more than -\([0-9]*\) cycles.*/\1/p' "$out")
	late=$(sed -n 's/.*moved by more than .* or +\([0-9]*\) cycles.*/\1/p' "$out")
	ok "verify: less than $1 cycles either way" test "${early:-999999}" -lt "$1" -a "${late:-999999}" -lt "$1"
	for error in $((early + 500)) -$((late + 500)); do
		# shellcheck disable=SC2046
		verify $(by_hand $error)
		status_is 1 "verify: an error of $error cycles is found"
		out_has '^vm1: misaligned: [1-9][0-9]* of [0-9]+ guest events lie outside' "verify: ... by the windows"
	done
}

# align_solved: the offset is found in the data.
align_solved()
{
	offset=$(fact tsc_offset)
	for error in $((early + 500)) -$((late + 500)); do
		# shellcheck disable=SC2046
		verify $(by_hand $error)
		out_has 'the one used is wrong by about' "verify: by how much one of $error cycles is wrong"
	done
	verify --solve
	status_is 0 "verify --solve: aligned"
	found=$(sed -n 's/.*solved: TSC offset \(-\{0,1\}[0-9]*\)[;,].*/\1/p' "$out")
	ok "verify --solve: debugfs' offset, within the slack ($((${found:-0} - offset)) cycles)" \
		test $((${found:-0} - offset)) -le $((early + late)) -a $((offset - ${found:-0})) -le $((early + late))
	out_has 'outside: unique' "verify --solve: no other offset would do"
}

# align_proof LIMIT: all of it, of $rig/host and $rig/guest.
align_proof()
{
	align_order
	align_bounds "$1"
	align_solved
}
