# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # rig, tmp and top are tap.sh's and lib.sh's
#
# For foreign*.t, after tap.sh: what holds for captures that other tools made in scenario foreign, whatever
# kvmft does with them. A pair is a folder of $rig, with the truth in its file `facts`.

# pair_fact PAIR NAME
pair_fact()
{
	sed -n "s/^$2=//p" "$rig/$1/facts"
}

# report_of PAIR FILE: what trace-cmd prints of it, with the stamps as they were recorded.
report_of()
{
	report=$tmp/report-$1-$2
	[ -e "$report" ] || trace_cmd_report --raw-ts -i "$rig/$1/$2.dat" >"$report" 2>"$report.err"
}

# opens PAIR FILE VERSION EVENTS: trace-cmd reads it, in that version of the format, with so many events or more.
opens()
{
	report_of "$1" "$2"
	is "$(trace-cmd dump --summary -i "$rig/$1/$2.dat" 2>&1 | sed -n 's/^\t*\([0-9]*\)\t\[Version\]$/\1/p')" "$3" \
		"$1: $2.dat is of version $3"
	events=$(grep -cE '^.*-[0-9]+ +\[[0-9]+\] *[0-9]+: ' "$report")
	ok "$1: $2.dat has $events events" test "$events" -ge "$4"
}

# vcpu_threads PAIR HOST VM...: the threads that enter a guest are the vCPUs of these VMs.
vcpu_threads()
{
	vt_pair=$1
	report_of "$1" "$2"
	shift 2
	is "$(sed -n 's/^.*-\([0-9]*\) *\[[0-9]*\] *[0-9]*: kvm_entry: *vcpu \([0-9]*\)[, ].*/\2 \1/p' "$report" | sort -u)" \
		"$(for vm; do sed -n "s/^${vm}_vcpu\([0-9]*\)_tid=/\1 /p" "$rig/$vt_pair/facts"; done | sort -u)" \
		"$vt_pair: threads of vCPUs of $*"
}

# hides PAIR FILE VM: nothing in it tells the VM's UUID, name or TSC offsets.
hides()
{
	report_of "$1" "$2"
	{
		echo "$(pair_fact "$1" "$3_uuid")"
		for offset in $(sed -n "s/^$3_vcpu[0-9]*_offset=//p" "$rig/$1/facts"); do
			echo "${offset#-}"
			printf '%x\n' "$offset"
		done
	} >"$tmp/secrets"
	{
		cat "$report"
		trace-cmd dump --options -i "$rig/$1/$2.dat"
		strings -n 8 "$rig/$1/$2.dat"
	} >"$tmp/told" 2>/dev/null
	ok "$1: $2.dat is not empty, and tells no UUID and no offset of $3" test -s "$tmp/told"
	is "$(grep -cFf "$tmp/secrets" "$tmp/told"; grep -cw "$(pair_fact "$1" "$3_name")" "$tmp/told")" "0
0" "... nor its name"
}

# aligned PAIR HOST GUEST VM [VM]: with the true offsets (of both VMs, if they changed together) each guest
# event is where its vCPU ran; with others it is not. Sets least, the number of events inside; a tenth of
# that must be outside with a wrong offset.
least=1000
aligned()
{
	report_of "$1" "$2"
	al_host=$report
	report_of "$1" "$3"
	al_vcpus='' al_wrong=''
	for al_vcpu in 0 1; do
		al_offset=$(pair_fact "$1" "$4_vcpu${al_vcpu}_offset")
		al_tid=$(pair_fact "$1" "$4_vcpu${al_vcpu}_tid")
		al_wrong="$al_wrong $al_tid=$((al_offset + 150000))"
		[ -z "${5:-}" ] || al_offset=$al_offset,$(pair_fact "$1" "$5_vcpu${al_vcpu}_offset")
		al_vcpus="$al_vcpus $al_tid=$al_offset"
	done
	# shellcheck disable=SC2086 # a list
	al_counts=$(perl "$top/tests/vm/foreign_inside.pl" "$al_host" "$report" $al_vcpus)
	ok "$1: $3.dat: inside, outside and unknown with the offsets that facts tell: $al_counts" \
		sh -c 'test "$1" -gt "$0" && test "$2" -eq 0' "$least" $al_counts
	# shellcheck disable=SC2086 # a list
	al_counts=$(perl "$top/tests/vm/foreign_inside.pl" "$al_host" "$report" $al_wrong)
	ok "... and 150,000 cycles off: $al_counts" sh -c 'test "$2" -gt $(($0 / 10))' "$least" $al_counts
}
