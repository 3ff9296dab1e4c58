# SPDX-License-Identifier: GPL-2.0-or-later
#
# fish completion of kvmft. Commands and options come from `kvmft --list-options`, so that they are
# those of the program that is installed.

# The command of the line; of a group its two words, "qemu events".
function __kvmft_command
    set -l words (commandline -opc)
    if test (count $words) -gt 2; and test -n "$(__kvmft_verbs $words[2])"
        echo $words[2] $words[3]
    else if test (count $words) -gt 1
        echo $words[2]
    end
end

# "NAME<TAB>help" of the commands of a group; nothing for a command that is no group.
function __kvmft_verbs
    kvmft --list-options $argv[1] 2>/dev/null | string replace -r -f "^$argv[1] " ''
end

function __kvmft_needs_verb
    set -l words (commandline -opc)
    test (count $words) -eq 2; and test -n "$(__kvmft_verbs $words[2])"
end

function __kvmft_needs_command
    set -l cmd (__kvmft_command)
    test -z "$cmd" -o "$cmd" = help
end

# The list's line of the option whose argument is being typed.
function __kvmft_pending
    set -l words (commandline -opc)
    set -l last (string match -r '^--[^=]+(?==)' -- (commandline -ct); or printf '%s\n' $words[-1])
    kvmft --list-options (__kvmft_command) 2>/dev/null | while read -l line
        set -l field (string split \t -- $line)
        if test -n "$field[4]"; and contains -- "$last" "--$field[2]" "-$field[3]"
            echo $line
        end
    end
end

function __kvmft_in_choice
    not __kvmft_needs_command
    and string match -q -r '[^\t]$|\t(EVENT|SEL)[^\t]*\t[^\t]*\t$' -- (__kvmft_pending)
end

# What this machine has of a metavariable.
function __kvmft_here
    switch $argv[1]
        case 'EVENT*'
            cat /sys/kernel/tracing/available_events 2>/dev/null
        case SEL
            kvmft list --format csv 2>/dev/null |
                awk -F , 'NR > 1 { print $1; if ($4 ~ /^[[:alnum:]_.-]+$/) print $4 }'
    end
end

# Of a list's line: its words, after --option= if that is typed, and if there may be several, each after those that are
# typed already, and none of them again.
function __kvmft_words_of
    set -l field (string split \t -- $argv[1])
    set -l typed (commandline -ct)
    set -l option (string match -r '^--[^=]+=' -- $typed)
    set -l front
    if string match -q -r '^LIST$|,\.\.\.$' -- $field[4]
        set front (string match -r '^.*,' -- (string replace -- "$option" '' $typed))
    end
    for word in (string split -n ' ' -- $field[6]) (__kvmft_here $field[4])
        contains -- $word (string split ',' -- $front); or echo "$option$front$word"
    end
end

function __kvmft_choices
    __kvmft_words_of (__kvmft_pending)
end

# The list's line of the first operand, if that is a list of words.
function __kvmft_operand
    kvmft --list-options (__kvmft_command) 2>/dev/null | string match -r '^[^\t]*\t\t.*'
end

function __kvmft_in_operand
    __kvmft_needs_command; and return 1
    __kvmft_in_option; and return 1
    test -z "$(__kvmft_pending)"; or return 1
    set -l operand (__kvmft_operand)
    test -n "$operand"; or return 1
    for word in (commandline -opc)[3..-1]
        contains -- (string split ',' -- $word)[1] (string split ' ' -- (string split \t -- $operand)[6])
        and return 1
    end
    return 0
end

function __kvmft_in_option
    not __kvmft_needs_command
    and string match -q -r -- '^-[^=]*$' (commandline -ct)
end

# "NAME<TAB>help", as fish wants its candidates.
function __kvmft_options
    set -l cmd (__kvmft_command)
    kvmft --list-options $cmd 2>/dev/null | while read -l line
        set -l field (string split \t -- $line)
        test (count $field) -gt 2; and test -n "$field[2]"; or continue
        echo --$field[2]\t$field[5]
        if test -n "$field[3]"
            echo -- -$field[3]\t$field[5] | string replace -r '^-- ' ''
        end
    end
end

function __kvmft_commands
    kvmft --list-options 2>/dev/null
    echo help\t'print help'
end

complete -c kvmft -n __kvmft_needs_command -f -a '(__kvmft_commands)'
complete -c kvmft -n __kvmft_needs_verb -f -a '(__kvmft_verbs (__kvmft_command))'
complete -c kvmft -n __kvmft_in_option -f -a '(__kvmft_options)'
complete -c kvmft -n __kvmft_in_choice -f -a '(__kvmft_choices)'
complete -c kvmft -n __kvmft_in_operand -f -a '(__kvmft_words_of (__kvmft_operand))'
