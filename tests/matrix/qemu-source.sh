# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# A QEMU that can write its trace events in every way, for tests/matrix/qemu.t.
#
# Distributions build one trace back end in, Debian `log`. This one is Debian's source package with
# all of them, and with as little else as a PC with a virtio disk needs; it stays in the cache of the
# rig, with the list of its trace events where an installed QEMU has it. About 15 minutes on two cores.

QEMU_SOURCE_BACKENDS=simple,ftrace,log,syslog,dtrace
QEMU_SOURCE_NEEDS="meson:meson ninja:ninja-build dpkg-source:dpkg-dev dtrace:systemtap-sdt-dev
	glib-2.0.pc:libglib2.0-dev pixman-1.pc:libpixman-1-dev"

# The devices of the PC that is built.
qemu_source_devices()
{
	printf 'CONFIG_%s=y\n' I440FX ACPI VIRTIO_PCI VIRTIO_BLK
}

qemu_source_configure()
{
	qemu_source_devices >configs/devices/x86_64-softmmu/kvmft.mak
	mkdir build && cd build &&
		PATH=/usr/bin:$PATH ../configure --target-list=x86_64-softmmu --with-devices-x86_64=kvmft \
			--without-default-features --without-default-devices --disable-debug-info \
			--enable-kvm --enable-tcg --enable-trace-backends="$QEMU_SOURCE_BACKENDS" -Doptimization=1
}

# qemu_source_build FOLDER: FOLDER/bin/qemu-system-x86_64, FOLDER/share/qemu/trace-events-all.
qemu_source_build()
{
	apt_source "$QEMU_SUITE" "$1/src" qemu &&
		(cd "$1"/src/qemu-*/ && qemu_source_configure &&
			ninja -j "$(nproc)" qemu-system-x86_64 trace/trace-events-all) &&
		mkdir -p "$1/bin" "$1/share/qemu" &&
		strip -g -o "$1/bin/qemu-system-x86_64" "$1"/src/qemu-*/build/qemu-system-x86_64 &&
		cp "$1"/src/qemu-*/build/trace/trace-events-all "$1/share/qemu/" &&
		"$1/bin/qemu-system-x86_64" --version
}
