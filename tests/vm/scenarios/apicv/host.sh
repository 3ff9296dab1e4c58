# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A VM that inhibits APICv for a while, and takes interrupts before and after: tinyvm.c --block; it prints when.

. "$VM_LIB/host.sh"

need_kvmft
tinyvm_make /tmp/tinyvm
mkfifo /tmp/go
/tmp/tinyvm --wait --block 60 --msi --ms 600 </tmp/go >/tmp/truth 2>&1 &
vm=$!
exec 3>/tmp/go
wait_until 30 grep -q '^pid ' /tmp/truth || die "no VM: $(cat /tmp/truth)"
"$KVMFT" record -o /tmp/host 2>/tmp/record.err &
recorder=$!
wait_until 60 grep -qs '^begin ' /tmp/host/meta || die "recording did not start: $(cat /tmp/record.err)"
echo >&3
wait "$vm"
check "tinyvm exits 0" same "$?" 0
kill -TERM "$recorder"
wait "$recorder"
check "record exits 0" same "$?" 0
sed 's/^/# /' /tmp/truth /tmp/record.err
carry /tmp/truth
tar -cf "$RESULTS/host.tar" -C /tmp host
finish
