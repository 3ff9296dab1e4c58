#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# Names of VMs and tasks that deceive their reader: they look like the host, are reversed, invisible, or run by
# a spreadsheet. In all outputs; a name as it is shown selects it.

. "$(dirname "$0")/lib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden

# named NAME: captures of a host and a guest whose VM is called so, as it is written in meta.
named()
{
	rm -rf "$tmp/host" "$tmp/guest"
	sed "s/name=one/name=$1/" "$golden/latency-host.txt" >"$tmp/host.txt"
	"$mkcap" --capture "$tmp/host" "$tmp/host.txt" && "$mkcap" --capture "$tmp/guest" "$golden/latency-guest.txt"
}

# The bytes of a word of meta.
raw()
{
	# shellcheck disable=SC2059 # made of octal numbers
	printf "$(echo "$1" | awk '{
		hex = "0123456789ABCDEF"
		for (i = 1; i <= length($0); i++) {
			c = substr($0, i, 1)
			if (c == "%") {
				printf "\\%03o", 16 * (index(hex, substr($0, i + 1, 1)) - 1) + index(hex, substr($0, i + 2, 1)) - 1
				i += 2
			} else {
				printf "%s", c
			}
		}
	}')"
}

sides()
{
	awk '{ print $1 }' "$out" | sort -u | tr '\n' ' '
}

# A name that is cut to fit is not cut within a character.
long=$(awk 'BEGIN { for (i = 0; i < 40; i++) printf "%%C3%%A9" }')
named "$long"
sed "s/comm=qemu/comm=$long/; s/comm=CPU%200\/KVM/comm=$long/; s/name=one/name=$long/" "$golden/latency-host.txt" >"$tmp/host.txt"
rm -rf "$tmp/host"
"$mkcap" --capture "$tmp/host" "$tmp/host.txt"
for command in "merge -q" "latency -q sched"; do
	# shellcheck disable=SC2086 # words
	run "$kvmft" $command "$tmp/host" "$tmp/guest=100"
	ok "$command: a long name is UTF-8 wherever it is cut" iconv -f UTF-8 -t UTF-8 -o /dev/null "$out"
	out_has "$(raw %C3%A9%C3%A9)" "... and is shown"
done

# Columns are as wide as their characters, not their bytes.
{
	grep '^meta' "$golden/latency-host.txt" | sed "s/name=one/name=$long/"
	echo "meta vm id=200-12 pid=200 fd=12 name=two"
	echo "meta vcpu vm=200-12 id=0 tid=201 offset=0 ratio=0 frac=48"
	for at in "0 101" "1 201"; do
		set -- $at
		echo "$1 1000 $2 kvm_entry vcpu_id=0"
		echo "$1 2000 $2 kvm_exit exit_reason=1 isa=1"
		echo "$1 2100 $2 sched:sched_switch prev_pid=$2 prev_state=0 next_pid=55"
		echo "$1 5000 55 sched:sched_switch prev_pid=55 prev_state=0 next_pid=$2"
		echo "$1 5100 $2 kvm_entry vcpu_id=0"
	done
} >"$tmp/two.txt"
rm -rf "$tmp/host"
"$mkcap" --capture "$tmp/host" "$tmp/two.txt"
run "$kvmft" latency -q sched "$tmp/host"
ok "latency of two VMs: a long name is UTF-8 where it is cut" iconv -f UTF-8 -t UTF-8 -o /dev/null "$out"
is "$(perl -CSD -ne 'print index($_, " 50 %"), "\n" if /^(name=|two ).* 50 %/' "$out" | sort | uniq -c | awk '{ print $1 }')" 2 \
	"... and its row is in the same columns"

# trace-cmd's guest whose QEMU has no name: it is called by its thread.
mkdir "$tmp/nameless" "$tmp/to"
perl -0777 -pe 's/vm1\0(.{28})/\0$1\0\0\0/s' "$golden/foreign/agent/host.dat" >"$tmp/nameless/host.dat"
cp "$golden/foreign/agent/host-vm1.dat" "$tmp/nameless/guest.dat"
run "$kvmft" merge -q "$tmp/nameless/host.dat" "$tmp/nameless/guest.dat"
status_is 0 "a guest with an empty name"
label=$(sides | sed 's/host//' | tr -d ' ')
ok "... is called by its thread ($label)" sh -c "echo '$label' | grep -qE '^guest-[0-9]+$'"
run "$kvmft" export -i "$tmp/nameless/host.dat" -o "$tmp/to/o.dat" "$tmp/nameless/guest.dat=$label"
status_is 0 "... can be selected by that, and exported"
is "$(ls "$tmp/to" | tr '\n' ' ')" "o-$label.dat o.dat " "... into its own file"

for vm in host Host guest QEMU; do
	ok "a VM called $vm" named $vm
	run "$kvmft" merge -q "$tmp/host" "$tmp/guest=$vm"
	status_is 0 "... is selected by its name"
	is "$(sides)" "host name=$vm " "... and shown as what it is"
	run "$kvmft" merge -q --side name=$vm "$tmp/host" "$tmp/guest=name=$vm"
	is "$(sides)" "name=$vm " "... by which it is selected"
	for format in json perfetto; do
		run "$kvmft" merge -q --format $format "$tmp/host" "$tmp/guest=name=$vm"
		ok "... as $format" grep -qa "name=$vm" "$out"
	done
done
ok "a VM called hostess" named hostess
run "$kvmft" merge -q "$tmp/host" "$tmp/guest=hostess"
is "$(sides)" "host hostess " "... is not taken for the host"

# Letters that look like those of "host": Cyrillic, fullwidth, with a combining line; and what a selector begins with.
for code in h%D0%BEst %EF%BD%88%EF%BD%8F%EF%BD%93%EF%BD%94 h%CC%B2ost caf%C3%A9 name%3Dhost pid:100 uuid%3Dx; do
	vm=$(raw "$code")
	ok "a VM called $code" named "$code"
	run "$kvmft" merge -q "$tmp/host" "$tmp/guest=name=$vm"
	is "$(sides)" "host name=$vm " "... is marked as a name"
	case $code in
	*[=:]* | *%3D*) sels=name=$vm ;;
	*) sels="$vm name=$vm" ;;
	esac
	for sel in $sels; do
		run "$kvmft" merge -q --side "$sel" "$tmp/host" "$tmp/guest=name=$vm"
		is "$(sides)" "name=$vm " "... and selected by $sel"
	done
done

# U+202E, U+2028, U+200B, U+2066 and U+E0041; as the words of meta have them
for code in %E2%80%AE %E2%80%A8 %E2%80%8B %E2%81%A6 %F3%A0%81%81; do
	raw=$(raw "$code")
	ok "$code in a name" named "a${code}b"
	for format in text json perfetto html; do
		run "$kvmft" merge -q --format $format "$tmp/host" "$tmp/guest=100-12"
		status_is 0 "... $format"
		ok "... without it" sh -c '! grep -qaF "$0" "$1"' "$raw" "$out"
	done
	for format in text json csv; do
		run "$kvmft" report -i "$tmp/host" --format $format
		ok "... report, $format" sh -c '! grep -qaF "$0" "$1"' "$raw" "$out"
		run "$kvmft" latency irq --format $format "$tmp/host"
		ok "... latency, $format" sh -c '! grep -qaF "$0" "$1"' "$raw" "$out"
	done
done

for first in %3D + - @; do
	ok "a VM called ${first}x1" named "${first}x1"
	shown=$(echo "$first" | sed 's/%3D/=/')x1
	for command in "report -i $tmp/host" "latency irq $tmp/host" "verify $tmp/host $tmp/guest=100-12"; do
		# shellcheck disable=SC2086 # words
		run "$kvmft" $command --format csv
		ok "... ${command%% *}: is no formula" grep -qF "'$shown" "$out"
		is "$(grep -cE "(^|,)\"?[=$first]x1" "$out")" 0 "... in no cell"
	done
done

# A VM that is called as the thread of another one, by a capture that has both: nobody guesses whose is meant.
for called in tids:101 101; do
	sed "s/name=two/name=$called/" "$golden/report-basic.txt" >"$tmp/basic.txt"
	rm -rf "$tmp/basic"
	ok "a VM called $called" "$mkcap" --capture "$tmp/basic" "$tmp/basic.txt"
	run "$kvmft" report -i "$tmp/basic" --vm "$called"
	status_is 1 "... --vm $called"
	err_has "VM '$called' is ambiguous in .*: 100-12 \(one\), 200-9 \($called\)" "... says of whom it may be"
	run "$kvmft" report -i "$tmp/basic" --vm 200-9
	status_is 0 "... by its PID-FD"
done
finish
