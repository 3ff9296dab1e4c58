# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2034,SC2154 # for the functions of tests/matrix; top and tmp are the caller's
#
# Outer side of the rig: a QEMU for L2 that writes its trace events to a simple file as well as to a log, which
# Debian's does not. Built once by the recipe of tests/matrix, with the devices of the rig's guests and without an
# emulator; in the cache as bin/qemu-system-x86_64 and share/qemu/trace-events-all. Three minutes on two cores.
# Source it after lib/apt.sh.

. "$top/tests/matrix/qemu-source.sh"

QEMU_SOURCE_BACKENDS=simple,log

qemu_source_devices()
{
	printf 'CONFIG_%s=y\n' Q35 ACPI VIRTIO_PCI VIRTIO_BLK VIRTIO_9P SERIAL_ISA
}

qemu_source_configure()
{
	qemu_source_devices >configs/devices/x86_64-softmmu/kvmft.mak
	mkdir build && cd build &&
		PATH=/usr/bin:$PATH ../configure --target-list=x86_64-softmmu --with-devices-x86_64=kvmft \
			--without-default-features --without-default-devices --disable-debug-info --enable-kvm --disable-tcg \
			--enable-virtfs --enable-attr --enable-cap-ng --enable-trace-backends="$QEMU_SOURCE_BACKENDS" \
			-Doptimization=1
}

# Sets $qemu_trace; 1 after telling why not on stdout.
qemu_trace_prepare()
{
	qemu_trace=$KVMFT_CACHE/qemu/trace
	"$qemu_trace/bin/qemu-system-x86_64" --version >"$tmp/qemu.log" 2>&1 && return
	for qt_tool in meson ninja dpkg-source pkg-config; do
		command -v "$qt_tool" >/dev/null || { echo "$qt_tool is not installed (contrib/deps.sh matrix)"; return 1; }
	done
	for qt_header in glib-2.0/glib.h pixman-1/pixman.h libfdt.h cap-ng.h attr/libattr.h; do
		[ -e "/usr/include/$qt_header" ] || { echo "no $qt_header (contrib/deps.sh matrix)"; return 1; }
	done
	note "building a QEMU with trace back ends for the rig, once"
	rm -rf "$qemu_trace.tmp"
	if ! qemu_source_build "$qemu_trace.tmp" >"$tmp/qemu.log" 2>&1; then
		echo "building QEMU failed: $(grep -v '^$' "$tmp/qemu.log" | tail -n 1)"
		return 1
	fi
	rm -rf "$qemu_trace"
	mv "$qemu_trace.tmp" "$qemu_trace"
}
