# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A guest that exits in known functions, recorded with its symbols, while the host records its exits.

. "$VM_LIB/host.sh"

need_kvmft
guest_start vm1
guest_wait_up vm1
"$KVMFT" record -o /tmp/host -b 16M 2>/tmp/host.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "recording did not start: $(cat /tmp/host.err)"
flag_set host-records
check "guest: all well" guest_wait_done vm1
kill -INT "$recorder"
wait "$recorder"
# An emulated machine may lose events; kvmft says so, and the test counts those that are there.
check "host: recorded" test -s /tmp/host/meta
fact host_status "$?"
tar -C /tmp -cf /tmp/host.tar host
carry /tmp/host.tar
finish
