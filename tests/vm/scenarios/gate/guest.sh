# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Does as many stretches of operations as each line of its second serial port says, with as many exits besides in every
# third one. It waits for these without an exit, and answers there.

. "$VM_LIB/guest.sh"

cp "$(dirname "$KVMFT")/tests/tools/ops" /tmp/ops || die "no tests/tools/ops: make test-tools"
stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
flag_set guest-ready
while read -r more stretches <&3 && [ "$more" != end ]; do
	/tmp/ops /dev/vda "$more" "${GATE_LENGTH:-1000}" "$stretches" || die "ops: $?"
	echo "done" >&3
done
finish
