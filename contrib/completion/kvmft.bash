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

_kvmft_argument()
{
	local front=

	case $3 in
	LIST | *,...) [[ $4 == *,* ]] && front=${4%,*}, ;;
	esac
	case $3 in
	CAPTURE | INPUT | OUT | FILE | DIR | PATH | BINARY | SOCKET) _kvmft_files "$4" ;;
	*) _kvmft_words "$(_kvmft_column "$1" "$2" 5)" "$4" "$front" ;;
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
	local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]}
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
	# --option=word is three words to bash.
	[[ $word == = ]] && word=
	[[ $last == = ]] && last=${COMP_WORDS[COMP_CWORD - 2]}
	arg=$(_kvmft_column "$cmd" "$last" 3)
	if [[ -n $arg ]]; then
		_kvmft_argument "$cmd" "$last" "$arg" "$word"
	elif [[ $word == -* ]]; then
		_kvmft_words "$(kvmft --list-options "$cmd" 2>/dev/null | awk -F '\t' '$2 { print "--" $2 }')" "$word"
	elif _kvmft_first "$cmd"; then
		_kvmft_argument "$cmd" -- "$(_kvmft_column "$cmd" -- 3)" "$word"
	else
		_kvmft_files "$word"
	fi
}

complete -F _kvmft kvmft
