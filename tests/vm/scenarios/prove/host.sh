# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# `kvmft check --prove` on a host that raises kvm_entry and kvm_exit, ROUNDS times (from --env); no guest but its own.

. "$VM_LIB/host.sh"
. "$SCENARIO_DIR/../tracefs-state.sh"

need_kvmft
cd /tmp || die "no /tmp"
tracefs_state >before
"$KVMFT" check --prove -o kept >text 2>text.err
fact status $?
carry text
carry text.err
n=1
while [ $n -le "${ROUNDS:-1}" ]; do
	"$KVMFT" check --prove --format json >json.$n 2>why
	echo "$?$(sed 's/^/ /' why)" >>status
	note "run $n of $ROUNDS: exit $(tail -n 1 status)"
	n=$((n + 1))
done
cat json.* >json
carry json
carry status
"$KVMFT" verify kept/host kept/guest0 >judged 2>&1
carry judged

tracefs_state >after
check "nothing is left changed" cmp before after
finish
