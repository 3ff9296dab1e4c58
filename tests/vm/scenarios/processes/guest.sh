# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

cp "$(dirname "$KVMFT")/tests/tools/procs" /tmp/procs || die "no tests/tools/procs: make test-tools"
flag_set guest-ready
flag_wait host-recording
"$KVMFT" record -b 16M -o /tmp/guest -- /tmp/procs "${PROCS_SECONDS:-5}" /dev/vda 2>/tmp/record.err >/tmp/usage
status=$?
flag_set guest-recorded
check "guest: record exits 0" same "$status" 0
sed 's/^/# /' /tmp/record.err
cp /tmp/usage "$RESULTS/guest-vm1.usage"
tar -cf "$RESULTS/guest-vm1.tar" -C /tmp guest
flag_wait host-done
finish
