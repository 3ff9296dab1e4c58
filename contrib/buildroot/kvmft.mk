################################################################################
# SPDX-License-Identifier: GPL-2.0-or-later
#
# kvmft (never built with Buildroot, see Config.in)
#
################################################################################

KVMFT_VERSION = 0.1.0
KVMFT_SITE = $(TOPDIR)/dl/kvmft
KVMFT_SITE_METHOD = file
KVMFT_SOURCE = kvmft-$(KVMFT_VERSION).tar.gz
KVMFT_LICENSE = GPL-2.0-or-later
KVMFT_LICENSE_FILES = LICENSE
KVMFT_DEPENDENCIES = host-pkgconf libtraceevent libtracefs

# Without libkmod the program is built the small way, which leaves zstd out as well.
ifeq ($(BR2_PACKAGE_KMOD),y)
KVMFT_DEPENDENCIES += kmod $(if $(BR2_PACKAGE_ZSTD),zstd)
else
KVMFT_OPTS = MINIMAL=1
endif

define KVMFT_BUILD_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) $(TARGET_CONFIGURE_OPTS) $(KVMFT_OPTS) -C $(@D)
endef

define KVMFT_INSTALL_TARGET_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) $(TARGET_CONFIGURE_OPTS) $(KVMFT_OPTS) -C $(@D) \
		DESTDIR=$(TARGET_DIR) prefix=/usr install
endef

$(eval $(generic-package))
