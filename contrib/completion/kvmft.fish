# SPDX-License-Identifier: GPL-2.0-or-later
#
# fish completion of kvmft. Commands and options come from `kvmft --list-options`, so that they are
# those of the program that is installed.

function __kvmft_command
    set -l words (commandline -opc)
    if test (count $words) -gt 1
        echo $words[2]
    end
end

# "NAME<TAB>help", as fish wants its candidates.
function __kvmft_options
    set -l cmd (__kvmft_command)
    kvmft --list-options $cmd 2>/dev/null | while read -l line
        set -l field (string split \t -- $line)
        printf -- '--%s\t%s\n' $field[2] $field[5]
        if test -n "$field[3]"
            printf -- '-%s\t%s\n' $field[3] $field[5]
        end
    end
end

function __kvmft_commands
    kvmft --list-options 2>/dev/null
    printf 'help\tprint help\n'
end

complete -c kvmft -n 'test -z (__kvmft_command)' -f -a '(__kvmft_commands)'
complete -c kvmft -n 'test (__kvmft_command) = help' -f -a '(__kvmft_commands)'
complete -c kvmft -n 'test -n (__kvmft_command); and string match -q -- "-*" (commandline -ct)' -f -a '(__kvmft_options)'
