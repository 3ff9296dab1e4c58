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
    set -l last $words[-1]
    kvmft --list-options (__kvmft_command) 2>/dev/null | while read -l line
        set -l field (string split \t -- $line)
        if test -n "$field[4]"; and contains -- "$last" "--$field[2]" "-$field[3]"
            echo $line
        end
    end
end

function __kvmft_in_choice
    not __kvmft_needs_command
    and string match -q -r '[^\t]$' -- (__kvmft_pending)
end

# Of a list's line: its words, each after those that are typed already if there may be several.
function __kvmft_words_of
    set -l field (string split \t -- $argv[1])
    set -l front
    if string match -q -r '^LIST$|,\.\.\.$' -- $field[4]
        set front (string match -r '^.*,' -- (commandline -ct))
    end
    for word in (string split ' ' -- $field[6])
        echo "$front$word"
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
    and string match -q -- '-*' (commandline -ct)
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
