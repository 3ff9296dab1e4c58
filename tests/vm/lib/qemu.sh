# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Outer side of the rig: a QEMU for L1 that does not break emulated kernels.
#
# QEMU before 8.1 may translate a page while another vCPU patches it: one boot of four hangs or
# dies ("int3", soft lockup). Debian 12 has 7.2, its backports a newer one that needs no other
# libraries. Where the installed QEMU is too old that one is fetched into the cache, as kernels
# are, and started from there. In L1 the installed one runs, because with KVM it emulates no CPU.

QEMU_SUITE=bookworm-backports
QEMU_DATA="qemu-system-data seabios"

# Is QEMU $1 8.1 or later? False too if it does not start, for lack of a library.
qemu_sound()
{
	"$1" --version 2>/dev/null | awk '
		/^QEMU emulator version/ { split($4, v, "."); sound = v[1] > 8 || (v[1] == 8 && v[2] >= 1) }
		END { exit !sound }'
}

qemu_fetch()
{
	qemu_tmp=$1.tmp.$$
	rm -rf "$qemu_tmp"
	# shellcheck disable=SC2086 # a list of package names
	if apt_update "$QEMU_SUITE" && apt_fetch "$QEMU_SUITE" "$qemu_tmp" "$QEMU_PACKAGE" $QEMU_DATA &&
		qemu_sound "$qemu_tmp/tree/usr/bin/qemu-system-$QEMU_CPU"; then
		rm -rf "$1"
		mv "$qemu_tmp/tree" "$1" && rmdir "$qemu_tmp"
	else
		rm -rf "$qemu_tmp"
		touch "$1.failed"
		note "no QEMU of $QEMU_SUITE for this machine"
		return 1
	fi
}

# Print the command that starts L1's QEMU: $RIG_QEMU, else the installed one if it is sound, else
# the one in the cache, filling it first if need be; else the installed one, with a note.
qemu_prepare()
{
	if [ -n "${RIG_QEMU:-}" ]; then
		echo "$RIG_QEMU"
		return
	fi
	if qemu_sound "qemu-system-$QEMU_CPU"; then
		echo "qemu-system-$QEMU_CPU"
		return
	fi
	qemu_dir=$KVMFT_CACHE/qemu/$QEMU_SUITE
	[ "$QEMU_CPU" = x86_64 ] || qemu_dir=$qemu_dir-$QEMU_CPU
	mkdir -p "$KVMFT_CACHE/qemu"
	if (
		flock 9
		[ -x "$qemu_dir/usr/bin/qemu-system-$QEMU_CPU" ] && [ "${REFRESH:-0}" = 0 ] && exit 0
		# A machine without network must not wait for it at each run.
		[ -z "$(find "$qemu_dir.failed" -mmin -60 2>/dev/null)" ] || exit 1
		qemu_fetch "$qemu_dir"
	) 9>"$KVMFT_CACHE/qemu/.lock"; then
		echo "$qemu_dir/usr/bin/qemu-system-$QEMU_CPU -L $qemu_dir/usr/share/qemu" \
			"-L $qemu_dir/usr/share/seabios"
	else
		note "the installed QEMU emulates L1: expect a hang now and then"
		echo "qemu-system-$QEMU_CPU"
	fi
}
