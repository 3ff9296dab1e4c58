#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `kvmft record --guest` on a real host with real guests, by ssh and by the guest agent.

. "$(dirname "$0")/tap.sh"

for program in dropbear dbclient dropbearkey socat qemu-ga; do
	if ! command -v "$program" >/dev/null; then
		skip "sides" "no $program: contrib/deps.sh test installs dropbear-bin, socat and qemu-guest-agent"
		finish
	fi
done
ok "a static program for guests that have none" "${MAKE_PROGRAM:-make}" -C "$top" -s STATIC=1 SMALL=1 NODEPS=1 O=build/static

# Each connection takes ten seconds there: most of the steps are left to check-all.
steps="qga push"
[ -z "${CHECK_ALL:-}" ] || steps="qga push slow cut full two"
rig sides --timeout 400 --env "SIDES=$steps"

# proof SESSION: all of its guests lie in their windows.
proof()
{
	run "$kvmft" verify "$rig/$1"
	status_is "${2:-0}" "$1: aligned"
	run "$kvmft" merge "$rig/$1"
	status_is "${2:-0}" "$1: merge"
	err_has 'alignment of vm1: [1-9][0-9]* guest events checked, 0 outside' "... 0 events outside"
}

proof push
is "$(grep -c '^vm1 .*block:block_rq_issue' "$out")" "$(grep -c '^vm1 .*block:block_rq_complete' "$out")" "... requests and their ends"
ok "... all that was asked for" test "$(grep -c '^vm1 .*block:block_rq_issue' "$out")" -ge 36
is "$(sed -n 's/^side name=vm1 .*uuid=\([^ ]*\).*/\1/p' "$rig/push/session")" \
	"$(sed -n 's/^vm .*name=vm1 uuid=\([^ ]*\).*/\1/p' "$rig/push/host/meta" | head -n 1)" "... the session knows the VM"
proof qga
if [ -n "${CHECK_ALL:-}" ]; then
	proof two 3
	err_has 'alignment of vm2: [1-9][0-9]* guest events checked, 0 outside' "... of the guest that was killed, too"
	run "$kvmft" verify "$rig/slowly"
	ok "slowly: aligned, whatever was lost" test "$rc" = 0 -o "$rc" = 3
	proof cut 3
else
	skip "slow and cut links, a full disk, two guests" "make check-all runs them"
fi
finish
