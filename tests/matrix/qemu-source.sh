# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2154 # tmp is the caller's
#
# A QEMU that writes its trace events in every way, for qemu.t; source it after lib.sh.
#
# Distributions build one trace back end in, Debian `log`. This one is Debian's source package with
# all of them, and with as little else as a PC with a virtio disk needs. It stays in the cache of the
# rig, as installed: bin/qemu-system-x86_64 and share/qemu/trace-events-all. Building it takes seven
# minutes on two cores.

QEMU_SOURCE_BACKENDS=simple,ftrace,log,syslog,dtrace

# The devices of the PC that is built.
qemu_source_devices()
{
	printf 'CONFIG_%s=y\n' I440FX ACPI VIRTIO_PCI VIRTIO_BLK
}

# Debian's meson wants Debian's Python.
qemu_source_configure()
{
	qemu_source_devices >configs/devices/x86_64-softmmu/kvmft.mak
	mkdir build && cd build &&
		PATH=/usr/bin:$PATH ../configure --target-list=x86_64-softmmu --with-devices-x86_64=kvmft \
			--without-default-features --without-default-devices --disable-debug-info \
			--enable-kvm --enable-tcg --enable-trace-backends="$QEMU_SOURCE_BACKENDS" -Doptimization=1
}

# qemu_source_build FOLDER, which is new.
qemu_source_build()
{
	mkdir -p "$1/bin" "$1/share/qemu"
	apt_source bookworm "$1/src" qemu &&
		(cd "$1"/src/qemu-*/ && qemu_source_configure &&
			PATH=/usr/bin:$PATH timeout 5400 ninja -j "$(nproc)" qemu-system-x86_64 trace/trace-events-all) &&
		strip -g -o "$1/bin/qemu-system-x86_64" "$1"/src/qemu-*/build/qemu-system-x86_64 &&
		cp "$1"/src/qemu-*/build/trace/trace-events-all "$1/share/qemu/" &&
		"$1/bin/qemu-system-x86_64" --version && rm -rf "$1/src"
}

# Sets $qemu_source; 1 after telling why not on stdout.
qemu_source_prepare()
{
	qemu_source=$KVMFT_CACHE/qemu/source
	"$qemu_source/bin/qemu-system-x86_64" --version >"$tmp/qemu.log" 2>&1 && return
	need meson meson && need ninja ninja-build && need dpkg-source dpkg-dev &&
		need dtrace systemtap-sdt-dev && need pkg-config pkg-config || return
	pkg-config --exists glib-2.0 pixman-1 && [ -e /usr/include/libfdt.h ] ||
		{ echo "no headers to build QEMU with (libglib2.0-dev libpixman-1-dev libfdt-dev)"; return 1; }
	note "building a QEMU with all trace back ends, once"
	rm -rf "$qemu_source.tmp"
	if ! qemu_source_build "$qemu_source.tmp" >"$tmp/qemu.log" 2>&1; then
		echo "building QEMU failed: $(grep -v '^$' "$tmp/qemu.log" | tail -n 1)"
		return 1
	fi
	rm -rf "$qemu_source"
	mv "$qemu_source.tmp" "$qemu_source"
}
