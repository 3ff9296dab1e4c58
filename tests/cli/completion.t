#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads, long
#
# bash, zsh and fish offer every command, and every option of every command, that the program has.

. "$(dirname "$0")/lib.sh"

mkdir "$tmp/bin"
ln -s "${KVMFT_PLAIN:-$kvmft}" "$tmp/bin/kvmft"
PATH=$tmp/bin:$PATH
export PATH
dir=$top/contrib/completion
# No user's settings.
HOME=$tmp
export HOME
unset XDG_CONFIG_HOME XDG_DATA_HOME ZDOTDIR

kvmft --list-options | cut -f 1 >"$tmp/commands"
ok "there are commands" test -s "$tmp/commands"
kvmft --list-options qemu | awk -F '\t' 'NF == 2 { sub(/^qemu /, "", $1); print $1 }' >"$tmp/verbs"
sed 's/^/qemu /' "$tmp/verbs" | cat "$tmp/commands" - >"$tmp/all"

# What SHELL offers for the words before the cursor (the last one is incomplete), a line each.
in_bash()
{
	bash --norc --noprofile -c '
		. "$0/kvmft.bash"
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_kvmft 2>/dev/null
		printf "%s\n" "${COMPREPLY[@]}"' "$dir" "$@"
}

in_fish()
{
	# fish reads a command line, so a last empty word is a blank at its end.
	fish --no-config -c 'source $argv[1]/kvmft.fish; complete -C "$argv[2]"' "$dir" "$*" 2>/dev/null | cut -f 1
}

# zsh completes only on a terminal: one is made for it, and what compadd is given is printed instead.
in_zsh()
{
	zsh -f "$tmp/zsh-complete" "$dir" "$*"
}

cat >"$tmp/zsh-complete" <<'END'
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1= PROMPT2= ; unsetopt zle_bracketed_paste 2>/dev/null; setopt no_beep; stty -echo rows 200 cols 200'
zpty -w z "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; compdef _kvmft kvmft"
zpty -w z 'compadd() {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
	local -a got; builtin compadd -A got "$@"; print -rl -- "OFFER "${^got}; }'
zpty -w z 'finish() { print -r -- DONE-OFFERS; exit }; zle -N finish; bindkey "^X" finish; echo RE\ADY'
while zpty -r z line; do [[ $line == *READY* ]] && break; done
zpty -w -n z "$2"$'\t\C-x'
while zpty -r z line; do
	line=${line//$'\r'/}
	[[ $line == *DONE-OFFERS* ]] && break
	[[ $line == *OFFER\ * ]] && print -r -- "${${line##*OFFER }%%$'\n'*}"
done
zpty -d z
END

# Each line of file $1 is among what SHELL $2 offers for the words that follow.
offers_all()
{
	want=$1
	shell=$2
	shift 2
	"in_$shell" "$@" >"$tmp/offered"
	missing=$(grep -vxFf "$tmp/offered" "$want" | tr '\n' ' ')
	is "$missing" "" "$shell: all offered for '$*'"
}

events=/sys/kernel/tracing/available_events
# What `kvmft list` says on a machine with VMs (list.t has its columns).
mkdir "$tmp/vms"
cat >"$tmp/vms/kvmft" <<END
#!/bin/sh
[ "\$*" = "list --format csv" ] || exec "$tmp/bin/kvmft" "\$@"
printf 'vm,pid,fd,name,uuid\n77-12,77,12,web,\n77-12,77,12,web,\n78-5,78,5,"a,b",\n'
END
chmod 755 "$tmp/vms/kvmft"

for shell in bash zsh fish; do
	if ! command -v "$shell" >/dev/null; then
		skip "$shell" "$shell is not installed"
		continue
	fi
	offers_all "$tmp/commands" "$shell" kvmft ""
	offers_all "$tmp/verbs" "$shell" kvmft qemu ""
	# They all ask the program: of every third command here, of all in check-all.
	awk -v all="${CHECK_ALL:-0}" -v shell="$shell" 'all == 1 || shell == "bash" || (NR + (shell == "fish")) % 3 == 0' \
		"$tmp/all" >"$tmp/asked"
	while read -r cmd; do
		kvmft --list-options "$cmd" | awk -F '\t' 'NF > 2 && $2 { print "--" $2 }' >"$tmp/options"
		# shellcheck disable=SC2086 # one word, or two of a group
		offers_all "$tmp/options" "$shell" kvmft $cmd --
	done <"$tmp/asked"
	# Each option that has words offers all of them. (zsh needs a terminal for each question.)
	awk -v all="${CHECK_ALL:-0}" 'all == 1 || NR % 4 == 1' "$tmp/all" >"$tmp/some"
	[ $shell != bash ] || while read -r cmd; do
		kvmft --list-options "$cmd" | awk -F '\t' '$2 && $6 { print $2 "\t" $6 }' |
			while IFS='	' read -r option words; do
				echo "$words" | tr ' ' '\n' >"$tmp/choices"
				# shellcheck disable=SC2086 # one word, or two of a group
				"in_$shell" kvmft $cmd "--$option" "" | sort >"$tmp/offered"
				sort "$tmp/choices" | cmp -s - "$tmp/offered" || echo "$cmd --$option"
			done
	done <"$tmp/some" >"$tmp/differ"
	[ $shell != bash ] || is "$(cat "$tmp/differ")" "" "$shell: options with words offer them, and nothing else"
	printf '%s\n' host-tsc kvmclock realtime >"$tmp/choices"
	offers_all "$tmp/choices" "$shell" kvmft merge --clock ""
	is "$("in_$shell" kvmft merge --clock kvm)" kvmclock "$shell: one choice"
	is "$("in_$shell" kvmft export --to sq)" sqlite "$shell: a format"
	is "$("in_$shell" kvmft report -e page)" page-fault "$shell: a class"
	is "$("in_$shell" kvmft convert --from guest-mono_)" guest-mono_raw "$shell: a clock"
	printf '%s\n' irq sched io timer mem net all >"$tmp/choices"
	offers_all "$tmp/choices" "$shell" kvmft latency ""
	is "$("in_$shell" kvmft latency sch)" sched "$shell: an analysis"
	is "$("in_$shell" kvmft latency --than 1ms io,tim | sed 's/.*,//' | sort -u)" timer "$shell: ... after another one and an option"
	is "$("in_$shell" kvmft latency io sch | grep -cx sched)" 0 "$shell: ... and not where captures are named"
	is "$("in_$shell" kvmft latency mem --by gpa,ti | sed 's/.*,//' | sort -u)" time "$shell: a second word of a list"
	is "$("in_$shell" kvmft latency irq,irq | grep -c .)" 0 "$shell: ... not one that is there already"
	# =, and a colon, part words for bash.
	blank=
	[ $shell != bash ] || blank=' '
	# shellcheck disable=SC2046 # words, or one
	is "$("in_$shell" kvmft merge $(echo "--clock_=_kv" | sed "s/_/$blank/g") | sed 's/.*=//')" kvmclock "$shell: --option=word"
	if [ -r "$events" ]; then
		# shellcheck disable=SC2046
		is "$("in_$shell" kvmft record -e $(echo "sched_:_sched_swit" | sed "s/_:_/$blank:$blank/") |
			sed 's/.*://')" sched_switch "$shell: an event of this kernel"
	else
		skip "$shell: an event of this kernel" "$events cannot be read"
	fi
	is "$(PATH=$tmp/vms:$PATH && "in_$shell" kvmft record --vm "" | sort -u | tr '\n' ' ')" "77-12 78-5 web " \
		"$shell: VMs of this machine, and names that are a word"
	echo nosuch >"$tmp/choices"
	is "$("in_$shell" kvmft merge --clock nosuch | grep -c .)" 0 "$shell: nothing for what no choice begins with"
	"in_$shell" kvmft "\"x\$(touch $tmp/typed)\"" -- >/dev/null
	ok "$shell: runs nothing that is only typed" test ! -e "$tmp/typed"
done
finish
