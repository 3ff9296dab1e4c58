#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The examples of the manual are run: every line with a prompt in man/*.
#
# What only calculates must print what the page shows. What reads captures is run on small ones that are made here,
# and must succeed. What needs a machine to record ("host#", "guest#", "#") is run on a small VM when
# CHECK_ALL=1; make check looks whether its command has all its options. An example that cannot be
# run here is in not_run() with the reason; none is left out unseen.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/vmlib.sh"

mkcap=${KVMFT_TOOLS:-$top/build/tests/tools}/mkcap
golden=$top/tests/golden

if ! command -v mandoc >/dev/null; then
	skip "examples of the manual" "mandoc is not installed"
	finish
fi

# Each example in a folder of its own: page, prompt, cmd, and want, the lines that follow it.
extract()
{
	mkdir "$tmp/ex"
	for page in "$top"/man/*.[157]; do
		# Monospaced bold is struck over: col takes it away.
		mandoc -T ascii -O width=400 "$page" | col -bx | awk -v dir="$tmp/ex" -v page="$(basename "$page")" '
			function trim(s) { sub(/^ */, "", s); return s }
			/^ *(host|guest)?[#$] +[a-z]/ && !/^ *# (virtio|lost|kernel)/ {
				line = trim($0)
				while (line ~ /(\\|\|)$/ && (getline more) > 0) {
					sub(/\\$/, "", line)
					line = line " " trim(more)
				}
				prompt = line
				sub(/ .*/, "", prompt)
				sub(/^[^ ]* +/, "", line)
				at = sprintf("%s/%s.%03d", dir, page, ++n)
				printf "%s\n%s\n%s\n", page, prompt, line >at
				close(at)
				want = at ".want"
				printf "" >want
				next
			}
			/^ *$/ { want = "" }
			want { print trim($0) >want }'
	done
}

# not_run COMMAND: prints why, for those that no test runs as they stand.
not_run()
{
	case $1 in
	*STAMP* | *RECORD* | *MULT,SHIFT* | *"..."*) echo "has words to be filled in" ;;
	*/debug/kvm/*) echo "names a VM of another machine" ;;
	kernelshark*) echo "opens a window; tests/cli/export.t has KernelShark's library read such files" ;;
	systemctl*) echo "changes the machine; tests/cli/cron.t runs the unit's command" ;;
	install*) echo "changes the machine" ;;
	find* | cat* | grep* | echo* | less*) echo "not a command of kvmft" ;;
	*"ssh guest"*) echo "needs a guest with ssh" ;;
	esac
}

# ---- folders that the examples name ----

uuid=8ab13543-95fc-4a78-9056-d605a03e9033
make_captures()
{
	mkdir -p "$tmp/run/vm1" && cd "$tmp/run" || exit
	{
		sed "s/name=one/name=vm1 uuid=$uuid/" "$golden/latency-host.txt"
		# What relates the clocks.
		echo "meta time tsc=1 width=2 mono_raw=1 mono=1 boot=1 real=1795236600000000001"
		echo "meta time tsc=200000000000 width=2 mono_raw=200000000000 mono=200000000000 $(
			)boot=200000000000 real=1795236800000000000"
		echo "meta clock name=perf tsc=1 width=2 ns=1"
		echo "meta clock name=perf tsc=20000000000000 width=2 ns=20000000000000"
	} >host.txt
	{
		cat "$golden/latency-guest.txt"
		echo "meta machine uname=Linux%206.18.0 arch=x86_64 long=8 endian=little uuid=$uuid"
		echo "meta sched kvm_sched_clock_offset=2210749078"
		echo "meta pvclock cpu=0 version=6 tsc_timestamp=1000 system_time=0 mul=2147483648 shift=1 flags=1"
	} >guest.txt
	"$mkcap" --capture host host.txt && "$mkcap" --capture guest guest.txt || return
	for copy in local rec guest-vm1 vm1/kvmft-20261121T064500Z; do
		cp -R guest "$copy"
	done
	mkdir host/.keep && rm -r host/.keep
	cp -R host host-cron
	"$mkcap" --trace-dat trace.dat "$golden/report-basic.txt"
}

# has_options COMMAND: its kvmft commands have the options that the example uses.
has_options()
{
	printf '%s\n' "$1" | sed 's/ -- .*//; s/|/\n/g; s/\$(/\n/g; s/`/\n/g' | sed -n 's/^.*kvmft /kvmft /p' |
	while read -r _ name rest; do
		case $name in
		qemu) name="qemu ${rest%% *}" ;;
		esac
		# shellcheck disable=SC2086 # one word, or two of a group
		"$kvmft" --list-options $name | awk -F '\t' 'NF > 2 { print "--" $2; if ($3) print "-" $3 }' >"$tmp/known"
		[ -s "$tmp/known" ] || echo "no command $name"
		printf '%s\n' "$rest" | sed "s/'[^']*'//g" | tr -s ' ' '\n' |
			grep -E -- '^(-[a-zA-Z]|--[a-z][a-z-]*)' | sed 's/[=)].*//' |
			grep -vxF -f "$tmp/known" | sed "s/^/$name has no /"
	done
}

# Blanks and line ends as one blank.
one_line() { tr -s ' \n' ' ' | sed 's/ $//'; }

# calculates PAGE COMMAND FILE: the page shows what comes out.
calculates()
{
	sh -c "$2" </dev/null >"$out" 2>"$err"
	rc=$?
	is "$(cat "$out" "$err" | one_line)" "$(one_line <"$3.want")" "$1: $2: as in the page"
}

# reads PAGE COMMAND
reads()
{
	run sh -c "$(printf '%s' "$2" | sed 's/| less$/| cat/')"
	ok "$1: $2 (exit $rc)" test "$rc" = 0 -o "$rc" = 3
	[ "$rc" = 0 ] || [ "$rc" = 3 ] || show_run
}

extract
ok "captures for the examples" make_captures
mkdir "$tmp/bin"
ln -s "$kvmft" "$tmp/bin/kvmft"
PATH=$tmp/bin:$PATH
cd "$tmp/run" || exit
for ex in "$tmp"/ex/*.[0-9][0-9][0-9]; do
	page=$(sed -n 1p "$ex") prompt=$(sed -n 2p "$ex") cmd=$(sed -n '3,$p' "$ex")
	why=$(not_run "$cmd")
	if [ -z "${why%%not a command of kvmft}" ] && [ -n "$why" ]; then
		continue
	fi
	is "$(has_options "$cmd")" "" "$page: $cmd: has these options"
	case $prompt$cmd in
	*) [ -z "$why" ] || { skip "$page: $cmd" "$why"; continue; } ;;
	esac
	case $prompt$cmd in
	'$kvmft list'* | '$kvmft record'* | '$kvmft qemu'*) continue ;; # live
	'$'*" -i "* | '$kvmft '[!c]*) reads "$page" "$cmd" ;;
	'$'*) calculates "$page" "$cmd" "$ex" ;;
	esac
done
finish
