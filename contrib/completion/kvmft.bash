# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# bash completion of kvmft. Commands and options come from `kvmft --list-options`, so that they are
# those of the program that is installed.

_kvmft_words()
{
	COMPREPLY=()
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen -P "$3" -W "$1" -- "${2#"$3"}")
}

_kvmft_files()
{
	COMPREPLY=()
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen -f -- "$1")
	compopt -o filenames 2>/dev/null
}

# Column $3 of the list for option $2 (--long or -s) of command $1: 3 is its metavariable (nothing for a
# flag), 5 the words that it may be, if they are known. Option -- is the first operand.
_kvmft_column()
{
	local -a column

	while IFS=$'\x1f' read -ra column; do
		[[ $2 == "--${column[1]}" || ( -n ${column[2]} && $2 == "-${column[2]}" ) ]] &&
			printf '%s\n' "${column[$3]}"
	done < <(kvmft --list-options "$1" 2>/dev/null | tr '\t' '\037')
}

# What this machine has of metavariable $1; of events of a system, $2, what is after it.
_kvmft_here()
{
	case $1 in
	EVENT*) sed -n "s/^$2//p" /sys/kernel/tracing/available_events ;;
	SEL) kvmft list --format csv | awk -F , 'NR > 1 { print $1; if ($4 ~ /^[[:alnum:]_.-]+$/) print $4 }' ;;
	esac 2>/dev/null
}

# _kvmft_argument COMMAND OPTION METAVARIABLE WORD [SYSTEM:]
_kvmft_argument()
{
	local front='' word words=''

	case $3 in
	LIST | *,...) [[ $4 == *,* ]] && front=${4%,*}, ;;
	esac
	case $3 in
	CAPTURE | INPUT | OUT | FILE | DIR | PATH | BINARY | SOCKET) _kvmft_files "$4" ;;
	*)
		for word in $(_kvmft_column "$1" "$2" 5) $(_kvmft_here "$3" "$5"); do
			[[ ,$front == *,"$word",* ]] || words+="$word "
		done
		_kvmft_words "$words" "$4" "$front"
		;;
	esac
}

# Is the word that is typed the first operand of command $1, of which the words are known?
_kvmft_first()
{
	local words known

	known=" $(_kvmft_column "$1" -- 5) "
	[[ $known == "  " ]] && return 1
	for words in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
		[[ $known == *" ${words%%,*} "* ]] && return 1
	done
	return 0
}

# The second words of the commands of group $1: nothing for a command that is no group.
_kvmft_verbs()
{
	kvmft --list-options "$1" 2>/dev/null | cut -f 1 | sed -n "s/^$1 //p"
}

_kvmft()
{
	local at=$COMP_CWORD word=${COMP_WORDS[COMP_CWORD]} last system=
	local cmd=${COMP_WORDS[1]} arg verbs

	if ((COMP_CWORD == 1)); then
		_kvmft_words "help $(kvmft --list-options 2>/dev/null | cut -f 1)" "$word"
		return
	fi
	if [[ $cmd == help ]]; then
		_kvmft_words "$(kvmft --list-options 2>/dev/null | cut -f 1)" "$word"
		return
	fi
	verbs=$(_kvmft_verbs "$cmd")
	if [[ -n $verbs && $COMP_CWORD -eq 2 ]]; then
		_kvmft_words "$verbs --help --version" "$word"
		return
	fi
	[[ -n $verbs ]] && cmd="$cmd ${COMP_WORDS[2]}"
	# system:event is three words to bash, of which the last one is completed, and so is --option=word.
	[[ $word == : ]] && word= && ((at++))
	if [[ ${COMP_WORDS[at - 1]} == : ]]; then
		((at -= 2))
		system=${COMP_WORDS[at]}:
	fi
	[[ $word == = ]] && word= && ((at++))
	last=${COMP_WORDS[at - 1]}
	[[ $last == = ]] && last=${COMP_WORDS[at - 2]}
	arg=$(_kvmft_column "$cmd" "$last" 3)
	if [[ -n $arg ]]; then
		_kvmft_argument "$cmd" "$last" "$arg" "$word" "$system"
	elif [[ $word == -* ]]; then
		_kvmft_words "$(kvmft --list-options "$cmd" 2>/dev/null | awk -F '\t' '$2 { print "--" $2 }')" "$word"
	elif _kvmft_first "$cmd"; then
		_kvmft_argument "$cmd" -- "$(_kvmft_column "$cmd" -- 3)" "$word"
	else
		_kvmft_files "$word"
	fi
}

complete -F _kvmft kvmft
