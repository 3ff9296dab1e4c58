#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# The option tables, --help, --list-options and the manual agree; wrong usage is reported with exit 2.

. "$(dirname "$0")/lib.sh"

# ---- help, list and manual agree ----

run "$kvmft" --list-options
status_is 0 "list of commands"
cut -f 1 "$out" >"$tmp/commands"
ok "... is not empty" test -s "$tmp/commands"
run "$kvmft" help
status_is 0 "help"
sed -n '/^usage:/,/^exit:/s/^  \([a-z-]*\) .*/\1/p' "$out" >"$tmp/help.commands"
is "$(cat "$tmp/help.commands")" "$(cat "$tmp/commands")" "help and list have the same commands"
cp "$out" "$tmp/help.text"
ok "... fits a screen" test "$(wc -l <"$out")" -le 24
# The commands of groups, "qemu events": all that is said of a command holds for them too.
mkdir "$tmp/of"
while read -r cmd; do
	"$kvmft" --list-options "$cmd" >"$tmp/of/$cmd"
	awk -F '\t' 'NF == 2 { print $1 }' "$tmp/of/$cmd"
done <"$tmp/commands" >"$tmp/verbs"
while read -r cmd; do
	"$kvmft" --list-options "$cmd" >"$tmp/of/$cmd"
done <"$tmp/verbs"
cat "$tmp/commands" "$tmp/verbs" >"$tmp/all"
is "$(awk 'length > 80' "$tmp/help.text")" "" "kvmft help: 80 columns"
for how in -h --help; do
	run "$kvmft" $how
	status_is 0 "kvmft $how"
	ok "... prints the same" cmp "$out" "$tmp/help.text"
done

# "-o --output" per option, from each of the three places, sorted.
list_options()
{
	awk -F '\t' 'NF > 2 && $2 { print ($3 ? "-" : "") $3 " --" $2 }' "$tmp/of/$1" | LC_ALL=C sort
}

help_options()
{
	# shellcheck disable=SC2086 # one word, or two of a group
	"$kvmft" help $1 --all | sed -n '/^options:/,/^examples:/p' |
		sed -nE 's/^  (-.), (--[a-z0-9-]+).*/\1 \2/p; s/^      (--[a-z0-9-]+).*/ \1/p' | LC_ALL=C sort
}

# The part of the manual that is about a command: the page, or for "qemu events" its subsection
# "kvmft qemu events"; what such subsections tell does not count for the group.
man_part()
{
	awk -v group="${1% *}" -v want=".Ss kvmft $1" -v whole="$(echo "$1" | grep -c -v ' ')" '
		/^\.S[sh]/ { on = whole ? $0 !~ ("^\\.Ss kvmft " group " ") : $0 == want }
		on || (whole && !/^\.S[sh]/ && on == "")' "$top/man/kvmft-${1%% *}.1"
}

# Entries of the options' list: ".It Fl o , Fl Fl output Ar CAPTURE" or ".It Fl Fl vm Ar SEL".
man_entries()
{
	sed -nE 's/^\.It Fl (.) , Fl Fl ([a-z0-9-]+).*/-\1 --\2/p; s/^\.It Fl Fl ([a-z0-9-]+).*/ --\1/p' |
		LC_ALL=C sort
}

# Those of every command, and of all that read recordings or name guests' code, are in kvmft(1) alone.
man_options()
{
	{ man_part "$1" | man_entries && grep -Fx -f "$tmp/list" "$tmp/common"; } | LC_ALL=C sort
}

# The same names stand in the synopsis of the page (those with a short form by that).
man_synopsis_lacks()
{
	sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$top/man/kvmft-${1%% *}.1" >"$tmp/synopsis"
	while read -r a b; do
		grep -qFx -e "$a $b" -e " $a" "$tmp/common" && continue
		case $a in
		--*) pattern="Fl Fl ${a#--}( |\$)" ;;
		*) pattern="Fl ${a#-}( |\$)" ;;
		esac
		grep -qE -- "$pattern" "$tmp/synopsis" || echo "$a $b"
	done <"$tmp/list"
}

sed -n '/^\.Ss Common options/,/^\.Ss Conv/p' "$top/man/kvmft.1" | man_entries >"$tmp/common"
is "$("$kvmft" --list-options list | awk -F '\t' 'NF > 2 { print $2 }' | LC_ALL=C sort | tr '\n' ' ')" \
	"color format help quiet version wide " "options of every command, and one of list's own"
while read -r cmd; do
	page=$top/man/kvmft-${cmd%% *}.1
	# shellcheck disable=SC2086 # one word, or two of a group
	run "$kvmft" help $cmd
	status_is 0 "help $cmd"
	cp "$out" "$tmp/help.cmd"
	is "$(grep ' $' "$out")" "" "... no line ends with a blank"
	is "$(awk 'length > 80' "$out")" "" "... in 80 columns"
	ok "... the options that matter" test "$(grep -cE '^  (-.,|   ) --' "$out")" -le 15
	for how in -h --help; do
		# shellcheck disable=SC2086
		run "$kvmft" $cmd $how
		ok "$cmd $how prints the same" cmp "$out" "$tmp/help.cmd"
	done
	# shellcheck disable=SC2086
	is "$("$kvmft" $cmd --version)" "$("$kvmft" --version)" "$cmd --version"
	list_options "$cmd" >"$tmp/list"
	ok "$cmd: the list has options" grep -q -- --help "$tmp/list"
	is "$(help_options "$cmd")" "$(cat "$tmp/list")" "$cmd: help and list have the same options"
	ok "$cmd: has a manual page" test -f "$page"
	[ -f "$page" ] || continue
	is "$(man_options "$cmd")" "$(cat "$tmp/list")" "$cmd: manual and list have the same options"
	is "$(man_synopsis_lacks "$cmd")" "" "$cmd: the manual's synopsis lacks no option"
	ok "$cmd: kvmft(1) has it" grep -q "^\.It Cm ${cmd%% *}\( \|\$\)" "$top/man/kvmft.1"
	ok "$cmd: ... and refers to its page" grep -q "^\.Xr kvmft-${cmd%% *} 1" "$top/man/kvmft.1"
	# The argument of each option is called the same in the manual.
	man_part "$cmd" >"$tmp/part"
	awk -F '\t' '$2 && $4 && $2 !~ /^(color|tsc-khz|guest-[kvm].*)$/ { print $2, $4 }' "$tmp/of/$cmd" | while read -r long arg; do
		name=${arg%%[!A-Za-z]*}
		grep -qE "^\.It .*Fl Fl $long .*Ar $name" "$tmp/part" || echo "--$long $arg"
	done >"$tmp/args"
	is "$(cat "$tmp/args")" "" "$cmd: arguments have the same names in the manual"
done <"$tmp/all"

# ---- not more options than somebody has asked for ----

while read -r cmd; do
	awk -F '\t' 'NF > 2 && $2 && $2 !~ /^(color|help|quiet|version|wide|tsc-khz|guest-(kallsyms|vmlinux|kaslr|modules))$/ { print $2 }' \
		"$tmp/of/$cmd"
done <"$tmp/all" >"$tmp/names"
ok "at most 90 names of options" test "$(sort -u "$tmp/names" | wc -l)" -le 90
ok "... and 224 options" test "$(wc -l <"$tmp/names")" -le 224

# ---- a letter is one option, whatever the command, and the manual has them all ----

while read -r cmd; do
	awk -F '\t' 'NF > 2 && $3 && $2 !~ /^(help|quiet)$/ { print $3, $2, $1 }' "$tmp/of/$cmd"
done <"$tmp/commands" >"$tmp/letters"
ok "commands have short options" test "$(wc -l <"$tmp/letters")" -gt 30
is "$(awk 'seen[$1] && seen[$1] != $2 { print } { seen[$1] = $2 }' "$tmp/letters")" "" "each letter is one option"
while read -r cmd; do
	awk -F '\t' '$2 && !$3 && NF > 2 { print $2, $1 }' "$tmp/of/$cmd"
done <"$tmp/commands" | sort -u |
	awk 'NR == FNR { has[$2] = 1; next } has[$1]' "$tmp/letters" - >"$tmp/without"
is "$(cat "$tmp/without")" "" "... wherever that option is"
sed -nE 's/^\.It Fl (.) Ta Fl Fl ([a-z-]+) Ta (.*)/\1 \2 \3/p' "$top/man/kvmft.1" |
	awk '{ for (i = 3; i <= NF; i++) print $1, $2, $i }' | sort >"$tmp/table"
is "$(sort "$tmp/letters")" "$(cat "$tmp/table")" "kvmft(1) has the table of letters"

for page in "$top"/man/kvmft-*.1; do
	cmd=${page##*/kvmft-}
	ok "manual page of $cmd: there is such a command" grep -qx "${cmd%.1}" "$tmp/commands"
done

# ---- completion asks the program ----

# complete WORD...: what bash completion offers for the last word.
complete_bash()
{
	PATH=$(dirname "$kvmft"):$PATH bash -c '
		. "$1/contrib/completion/kvmft.bash"
		shift
		COMP_WORDS=("$@")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		_kvmft
		printf "%s\n" "${COMPREPLY[@]}"' bash "$top" "$@" | LC_ALL=C sort
}

if command -v bash >/dev/null; then
	is "$(complete_bash kvmft "")" "$( (cat "$tmp/commands" && echo help) | LC_ALL=C sort)" \
		"bash completion: commands"
	while read -r cmd; do
		# shellcheck disable=SC2086
		is "$(complete_bash kvmft $cmd --)" \
			"$(list_options "$cmd" | sed 's/.*--/--/' | LC_ALL=C sort)" \
			"bash completion: options of $cmd"
	done <"$tmp/all"
	is "$(complete_bash kvmft qemu "")" "$( (grep '^qemu ' "$tmp/verbs" | cut -d ' ' -f 2 && printf '%s\n' --help --version) |
		LC_ALL=C sort)" "bash completion: commands of a group"
	is "$(complete_bash kvmft reco)" "record" "bash completion: rest of a command"
	is "$(complete_bash kvmft record --max)" "--max-size" "bash completion: rest of an option"
else
	skip "bash completion" "bash is not installed"
fi

# ---- wrong usage ----

# wrong NAME PATTERN ARGUMENT...: exit 2, one line on stderr that has PATTERN, nothing on stdout.
wrong()
{
	name=$1
	pattern=$2
	shift 2
	run "$kvmft" "$@"
	status_is 2 "$name"
	err_has "$pattern" "... is reported"
	err_one_line "$name"
	is "$(wc -c <"$out" | tr -d ' ')" 0 "... nothing on stdout"
}

run "$kvmft" --version
status_is 0 "--version"
out_has '^kvmft [0-9]+\.[0-9]+\.[0-9]+$' "... names program and version"
run "$kvmft"
status_is 2 "no command"
err_has '^usage: kvmft' "... usage on stderr"
is "$(wc -c <"$out" | tr -d ' ')" 0 "... nothing on stdout"
wrong "unknown command, near one" "did you mean record\?" recrod
wrong "unknown command, far one" "see kvmft help" xyzzy-plugh
wrong "an option in its place" "unknown option '-Z'" -Z
run "$kvmft" -v
status_is 2 "no command behind -v"
err_has '^usage: kvmft' "... usage on stderr"
for word in -h --help help; do
	run "$kvmft" help "$word"
	status_is 0 "help $word"
	out_has '^usage: kvmft ' "... is help"
done
wrong "help of an unknown command" "did you mean merge\?" help mereg
run "$kvmft" --list-options nosuch
status_is 2 "options of an unknown command"
while read -r cmd; do
	# shellcheck disable=SC2086
	wrong "$cmd: unknown long option" "^kvmft $cmd: unknown option --no-such-thing" $cmd --no-such-thing
	# shellcheck disable=SC2086
	wrong "$cmd: unknown short option" "^kvmft $cmd: unknown option -Z" $cmd -Z
done <"$tmp/all"
wrong "unknown command of a group" "^kvmft qemu: unknown command 'xyzzy-plugh' \(see kvmft help qemu\)" \
	qemu xyzzy-plugh
wrong "no command of a group" "operands are missing" qemu
wrong "near option" "did you mean --buffer-size\?" record --bufer-size 8M
wrong "an option of another command is no slip" "unknown option --format \(see kvmft help export\)" export --format json
wrong "... nor of one of two letters" "unknown option --vm \(see kvmft help export\)" export --vm vm1
wrong "snapshot of no process id" "'12x' is not a process id" snapshot 1 12x
wrong "an option that is no more" "there is no option --no-pager: KVMFT_PAGER=cat" merge --no-pager a b
wrong "... by its letter" "there is no option -o: > OUT" blame -o file a b
wrong "... with a list of numbers" "there is no option --sched-line: -i HOST: a capture has" convert --sched-line 1,2,3
wrong "... of one command" "there is no option --tsc-khz: kvmft record, and" trace --tsc-khz 1
wrong "... of two commands" "no option --push-file: --push=FILE" record --push-file f
wrong "... of perf, by its letter" "there is no option -a: all CPUs are recorded" record -a
wrong "... of another command, by its letter" "no option -i: captures are operands" merge -i a
wrong "... of two names for one thing" "no option --top: --worst N" latency sched --top 3 a
wrong "... of QEMU itself" "no option -t: PATTERN on, or events=FILE" qemu set -trace events=f
wrong "a command of QEMU's monitor" "unknown command 'info': kvmft qemu events" qemu info trace-events
wrong "an option before the command" "unknown option .-q.: those of a command stand after it" -q report
wrong "... that became a value" "no option --per-vm: --per vm" exits --per-vm
wrong "... of a command of a group" "no option --events: events=FILE" qemu set --events f
wrong "... that another option does" "no option --before-guest: BEFORE,MORE,GUEST" diff --before-guest g a b
wrong "... of a command of perf's" "unknown command 'kvm': kvmft report for a recording" kvm stat report
wrong "... of trace-cmd, with an argument" "there is no option --filter: -e EVENT/FILTER/" record --filter=x
wrong "... with a list of numbers" "there is no option --sched-line: -i HOST: a capture has" convert --sched-line 1,2,3
wrong "... of one command" "unknown option -a" report -a
wrong "a command of perf kvm" "unknown command 'stat': kvmft report for a recording, kvmft exits" stat report
wrong "... is none of options" "unknown option --stat" report --stat
wrong "... not of another" "unknown option --tsc-offset" diff --tsc-offset 1 a b
wrong "near word" "is not one of irq, sched, io, timer, mem, net, all \(did you mean irq\?\)" latency irqs a
wrong "near --help" "did you mean --help" record --hlep
wrong "near option of reset" "did you mean --dry-run\?" reset --dryrun
wrong "--tsc-khz where nothing is read" "unknown option --tsc-khz" list --tsc-khz 1
wrong "a word of what every command has" "option --color: 'blue' is not one of auto, always, never" list --color blue
wrong "a number of it" "option --tsc-khz: 'x' is not an unsigned number" verify --tsc-khz x a b
wrong "option without its argument, long" "option --output needs an argument" record --output
wrong "option without its argument, short" "option -o needs an argument" record -o
wrong "argument for a flag" "option --quiet takes no argument" record --quiet=yes
wrong "argument for --help" "option --help takes no argument" record --help=yes
wrong "beginning of two options" "option --m is ambiguous" record --m=x
wrong "help of an unknown command of a group" "^kvmft qemu: unknown command 'xyzzy-plugh'" help qemu xyzzy-plugh
wrong "too many operands" "too many operands: kvmft exits \[OPTIONS\] \[DURATION\]$" exits 1 2
wrong "operands for a command without" "too many operands" reset something
wrong "operands are missing" "operands are missing" merge
wrong "an option after operands is one" "'nosuch' is not one of text, json" merge a b --format nosuch
wrong "... of convert too, where it is no number" "option --to needs an argument" \
	convert --from host-tsc --to guest-tsc --tsc-offset 0 5 --to
wrong "... and not behind --" "operands" list -- --format

for size in 8X -1 "" 1.5M 16E 99999999999999999999 "8 M" 010q; do
	wrong "size '$size'" "option --buffer-size: '$size' is not a size" record -b "$size"
done
wrong "size of --max-size" "option --max-size: 'lots' is not a size" record --max-size lots
wrong "size of --min-free" "option --min-free: '-5' is not a size" record --min-free -5
for time in soon -1 "" 1x "5 m" 10ss 1e3; do
	wrong "duration '$time'" "option --duration: '$time' is not a duration" record -d "$time"
done
for number in one "" 0x 18446744073709551616 -9223372036854775809 1.5; do
	wrong "number '$number'" "option --tsc-offset: '$number' is not a 64-bit number" \
		merge --tsc-offset "$number" a b
done
wrong "word of a choice" "option --clock: 'sundial' is not one of host-tsc, guest-tsc, kvmclock, ns" \
	merge --clock sundial a b
for ratio in 5 x/48 1/64 1/ /48; do
	wrong "ratio '$ratio'" "option --tsc-ratio: " merge --tsc-ratio "$ratio" a b
done
wrong "unknown format" "option --format: 'pdf' is not one of text, json, perfetto," merge --format pdf a b
wrong "no such machine" "host, guest" record --as moon -o "$tmp/c"
ok "... and nothing was made" test ! -e "$tmp/c"

# Control characters in what the user typed do not reach the terminal.
run "$kvmft" "$(printf 'bad\033[31m')"
status_is 2 "escape sequence as a command"
is "$(tr -dc '\033' <"$err" | wc -c | tr -d ' ')" 0 "... is not printed raw"

# A full disk is noticed.
if [ -c /dev/full ]; then
	for args in "help" "help record" "--version" "--list-options"; do
		# shellcheck disable=SC2086 # words on purpose
		"$kvmft" $args >/dev/full 2>"$err"
		is "$?" 1 "kvmft $args to a full device exits 1"
	done
else
	skip "full device" "no /dev/full"
fi
finish
