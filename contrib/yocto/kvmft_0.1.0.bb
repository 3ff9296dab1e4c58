# SPDX-License-Identifier: GPL-2.0-or-later
#
# Yocto. Never built with bitbake; the archive comes from `make dist`.

SUMMARY = "KVM tracer on ftrace that aligns hosts and guests"
LICENSE = "GPL-2.0-or-later"
LIC_FILES_CHKSUM = "file://LICENSE;md5=b234ee4d69f5fce4486a80fdaf4a4263"

DEPENDS = "libtraceevent libtracefs"
SRC_URI = "file://kvmft-${PV}.tar.gz"

inherit pkgconfig

PACKAGECONFIG ??= "kmod"
PACKAGECONFIG[kmod] = ",,kmod zstd"
EXTRA_OEMAKE = "'CC=${CC}' 'CFLAGS=${CFLAGS}' 'LDFLAGS=${LDFLAGS}' 'AR=${AR}' prefix=${prefix} \
	${@bb.utils.contains('PACKAGECONFIG', 'kmod', '', 'MINIMAL=1', d)}"

do_install() {
	oe_runmake install DESTDIR=${D}
}

FILES:${PN} += "${datadir}/bash-completion ${datadir}/zsh ${datadir}/fish"
