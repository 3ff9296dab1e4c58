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
	done < <(compgen -W "$1" -- "$2")
}

_kvmft_files()
{
	COMPREPLY=()
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen -f -- "$1")
	compopt -o filenames 2>/dev/null
}

# The metavariable of option $2 (--long or -s) of command $1; nothing for a flag.
_kvmft_arg_of()
{
	local cmd long short arg rest

	while IFS=$'\x1f' read -r cmd long short arg rest; do
		[[ $2 == "--$long" || ( -n $short && $2 == "-$short" ) ]] && echo "$arg"
	done < <(kvmft --list-options "$1" 2>/dev/null | tr '\t' '\037')
}

# The words of "one of: a b c" in the help of an option.
_kvmft_choices()
{
	kvmft help "$1" 2>/dev/null | awk -v opt="$2" '
		/^  (-.,|   ) --/ { here = index($0, opt " ") > 0 }
		here && /one of:/ { sub(/.*one of:/, ""); print }'
}

_kvmft_argument()
{
	case $3 in
	CAPTURE | OUT) _kvmft_files "$4" ;;
	*) _kvmft_words "$(_kvmft_choices "$1" "$2")" "$4" ;;
	esac
}

_kvmft()
{
	local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]}
	local cmd=${COMP_WORDS[1]} arg

	if ((COMP_CWORD == 1)); then
		_kvmft_words "help $(kvmft --list-options 2>/dev/null | cut -f 1)" "$word"
		return
	fi
	if [[ $cmd == help ]]; then
		_kvmft_words "$(kvmft --list-options 2>/dev/null | cut -f 1)" "$word"
		return
	fi
	arg=$(_kvmft_arg_of "$cmd" "$last")
	if [[ -n $arg ]]; then
		_kvmft_argument "$cmd" "$last" "$arg" "$word"
	elif [[ $word == -* ]]; then
		_kvmft_words "$(kvmft --list-options "$cmd" 2>/dev/null | cut -f 2 | sed 's/^/--/')" "$word"
	else
		_kvmft_files "$word"
	fi
}

complete -F _kvmft kvmft
