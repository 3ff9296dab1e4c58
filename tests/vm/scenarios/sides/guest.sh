# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh

. "$VM_LIB/guest.sh"

# The workload of scenario align.
cat >/tmp/work.sh <<'END'
i=0
while [ $i -lt 4 ]; do
	dd if=/dev/vda of=/dev/null bs=64k count=8 skip=$((i * 8)) iflag=direct 2>/dev/null
	dd if=/dev/zero of=/dev/vda bs=4k count=2 seek=$((i * 2)) oflag=direct 2>/dev/null
	rdmsr -p 0 0x11
	i=$((i + 1))
done
END
# The same, recorded inside the guest as well, as one would without --guest.
cat >/tmp/both.sh <<END
kvmft record -q -o /tmp/apart -- sh /tmp/work.sh && cp -r /tmp/apart "$RESULTS/apart"
END
# All places where a program could have been left.
cat >/tmp/what-is-new.sh <<'END'
find /dev/shm /run /tmp /var/tmp -newer /tmp/mark -name '*kvmft*' 2>/dev/null | grep . || echo nothing
ls -d /sys/kernel/tracing/instances/kvmft* 2>/dev/null
true
END
if [ -n "$SSH" ]; then
	modprobe vmw_vsock_virtio_transport || die "no vsock"
	mkdir -p /root/.ssh /tmp/hostkeys
	chmod 700 /root /root/.ssh
	grep '^ssh-' "$RESULTS/key.pub" >/root/.ssh/authorized_keys
	chmod 600 /root/.ssh/authorized_keys
	dropbearkey -t ed25519 -f /tmp/hostkeys/key >/dev/null 2>&1
	socat VSOCK-LISTEN:22,reuseaddr,fork EXEC:"dropbear -i -s -r /tmp/hostkeys/key" >/tmp/sshd.log 2>&1 &
fi
# As it would be installed there; --push is tried with a name that is not in PATH.
ln -s "$KVMFT" /usr/local/bin/kvmft
modprobe virtio_console || die "no virtio_console"
port() { set -- /dev/vport*p1 && test -c "$1"; }
wait_until 20 port || die "no port of the agent"
qemu-ga -m virtio-serial -p "$(ls /dev/vport*p1)" -t /tmp >/tmp/agent.log 2>&1 &
touch /tmp/mark
flag_set "ready-$RIG_NAME"
# The host may also ask for the work.
i=0
until flag_test over || [ $i -ge 4000 ]; do
	if flag_test "work-$RIG_NAME"; then
		flag_clear "work-$RIG_NAME"
		sh /tmp/work.sh
	fi
	if flag_test "look-$RIG_NAME"; then
		flag_clear "look-$RIG_NAME"
		sh /tmp/what-is-new.sh >"$RESULTS/left-$RIG_NAME"
		flag_set "looked-$RIG_NAME"
	fi
	if flag_test "mark-$RIG_NAME"; then
		flag_clear "mark-$RIG_NAME"
		sh /tmp/work.sh
		for marker in /sys/kernel/tracing/instances/kvmft.*/trace_marker; do
			echo "a slow request" >"$marker"
		done
	fi
	sleep 0.1
	i=$((i + 1))
done
# It says that it is done, then takes its instance away: on a busy machine the host is here first.
none_left() { [ -z "$(ls -d /sys/kernel/tracing/instances/kvmft* 2>/dev/null)" ]; }
check "$RIG_NAME: no recorder is left" wait_until 60 none_left
finish
