# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

# A script is called by its own name in the kernel.
cat >/tmp/victim <<'END'
#!/bin/sh
while :; do :; done
END
chmod +x /tmp/victim
flag_set guest-ready
flag_wait host-recording
"$KVMFT" record -o /tmp/guest 2>/tmp/record.err &
recorder=$!
recording()
{
	[ -r /tmp/guest/meta ] && grep -q '^pvclock ' /tmp/guest/meta
}
wait_until 60 recording || die "the guest's recording did not start: $(cat /tmp/record.err)"
# One for each vCPU, so that no vCPU is idle.
/tmp/victim &
victims=$!
/tmp/victim &
victims="$victims $!"
flag_set victim-runs
flag_wait enough 120
# shellcheck disable=SC2086 # two words
kill $victims
kill -TERM "$recorder"
wait "$recorder"
check "guest: record exits 0" same "$?" 0
sed 's/^/# /' /tmp/record.err
tar -cf "$RESULTS/guest-vm1.tar" -C /tmp guest
flag_set guest-recorded
flag_wait host-done
finish
