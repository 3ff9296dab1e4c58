# SPDX-License-Identifier: GPL-2.0-or-later
#
# One non-recursive makefile. `make help` lists the targets and variables.

VERSION := 0.1.0

# ---- where things go ----
O          ?= build
# One name for it, however it was given: the objects' lists of dependencies have it as well.
override O := $(patsubst $(CURDIR)/%,%,$(abspath $(O)))
prefix     ?= $(or $(PREFIX),/usr/local)
bindir    ?= $(prefix)/bin
datadir    ?= $(prefix)/share
mandir     ?= $(datadir)/man
bashcompdir ?= $(datadir)/bash-completion/completions
zshcompdir  ?= $(datadir)/zsh/site-functions
fishcompdir ?= $(datadir)/fish/vendor_completions.d
docdir      ?= $(datadir)/doc/kvmft

# ---- what `make install` installs: the build that is there, however it was made ----
choices := SMALL MINIMAL ZSTD ZLIB KMOD STATIC WERROR SAN COV CC CROSS_COMPILE PKG_CONFIG CFLAGS CPPFLAGS LDFLAGS
ifeq ($(MAKECMDGOALS),install)
-include $(O)/.built
endif

# ---- tools ----
ifeq ($(origin CC),default)
CC := $(CROSS_COMPILE)gcc
endif
AR := $(CROSS_COMPILE)ar
PKG_CONFIG ?= $(CROSS_COMPILE)pkg-config
ifeq ($(shell command -v $(PKG_CONFIG) 2>/dev/null),)
PKG_CONFIG := pkg-config
endif
INSTALL ?= install
STRIP ?= $(CROSS_COMPILE)strip

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-7s %s\n'
endif

# `make -n` installs and runs nothing: a recipe with the word $(MAKE) would be run all the same.
dry_run := $(if $(findstring n,$(firstword -$(MAKEFLAGS))),1)
make_program = $(MAKE)

# ---- targets that need packages install what is missing (NODEPS=1: never) ----
needs_build := check check-all demo tour bench fuzz lint
ifneq ($(filter $(needs_build),$(MAKECMDGOALS)),)
ifeq ($(filter 1,$(NODEPS) $(dry_run)),)
deps_set := $(if $(filter check-all,$(MAKECMDGOALS)),matrix,$(if $(filter-out \
	demo,$(filter $(needs_build),$(MAKECMDGOALS))),all,demo))
ifneq ($(shell sh contrib/deps.sh $(deps_set) >&2; echo $$?),0)
$(error installing packages failed: see above, or run with NODEPS=1)
endif
endif
endif

# ---- libraries: name the package of a missing one ----
no_build := clean help deps uninstall dist deb
ifneq ($(filter-out $(no_build),$(or $(MAKECMDGOALS),all)),)
ifneq ($(shell echo __SIZEOF_INT128__ | $(CC) $(CFLAGS) $(CPPFLAGS) -E -P -x c - 2>/dev/null),16)
$(error kvmft is for 64-bit processors: the compiler '$(CC)' is missing, or has no __int128)
endif
have_pkg = $(shell $(PKG_CONFIG) --exists '$(1)' 2>/dev/null && echo 1)
ifneq ($(call have_pkg,libtraceevent >= 1.7.1),1)
$(error libtraceevent >= 1.7.1 is missing: install libtraceevent-dev (Debian, Ubuntu) or libtraceevent-devel (Fedora), or run `make deps`)
endif
ifneq ($(call have_pkg,libtracefs >= 1.6.4),1)
$(error libtracefs >= 1.6.4 is missing: install libtracefs-dev (Debian, Ubuntu) or libtracefs-devel (Fedora), or run `make deps`)
endif
pkgs := libtracefs libtraceevent
features :=
ifeq ($(MINIMAL),1)
ZSTD := 0
ZLIB := 0
KMOD := 0
endif
ifneq ($(KMOD),0)
ifeq ($(STATIC),1)
# Debian ships no static libkmod; the module checks then read /proc and /sys alone.
else ifeq ($(call have_pkg,libkmod >= 30),1)
# Loaded when it is needed, see src/kernel/module.c: only its header is needed here.
features += -DHAVE_LIBKMOD $(shell $(PKG_CONFIG) --cflags libkmod)
kmod_libs := -ldl
else
$(error libkmod >= 30 is missing: install libkmod-dev (Debian, Ubuntu) or kmod-devel (Fedora), run `make deps`, or build without it: make KMOD=0)
endif
endif
ifneq ($(ZSTD),0)
ifeq ($(call have_pkg,libzstd),1)
pkgs += libzstd
features += -DHAVE_ZSTD
endif
endif
ifeq ($(SMALL),1)
# What it records is read elsewhere.
ZLIB := 0
endif
ifneq ($(ZLIB),0)
ifeq ($(call have_pkg,zlib),1)
pkgs += zlib
features += -DHAVE_ZLIB
endif
endif
ifneq ($(MINIMAL),1)
ifneq ($(STATIC),1)
ifeq ($(call have_pkg,sqlite3),1)
# Loaded when a database is asked for, see src/util/sqlite.c.
sqlite := 1
features += -DHAVE_SQLITE $(shell $(PKG_CONFIG) --cflags sqlite3)
endif
endif
endif
pkg_cflags := $(shell $(PKG_CONFIG) --cflags $(pkgs))
pkg_libs   := $(shell $(PKG_CONFIG) $(if $(filter 1,$(STATIC)),--static) --libs $(pkgs))
endif

# ---- flags ----
# SMALL=1: for size, without what the linker finds unused. Relocations, of which the tables of
# options and names need many, are packed where the linker and the C library can do it.
ifeq ($(SMALL),1)
CFLAGS ?= $(shell $(CC) -Oz -x c -fsyntax-only /dev/null 2>/dev/null && echo -Oz || echo -Os) -g
small_cflags := -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-unwind-tables
small_ldflags := -Wl,--gc-sections -Wl,-z,noseparate-code
relr_test := \#include <features.h>\n\#if !__GLIBC_PREREQ(2, 36)\n\#error\n\#endif\nint main(void) { return 0; }\n
ifeq ($(shell printf '$(relr_test)' | $(CC) -x c -Wl,--fatal-warnings -Wl,-z,pack-relative-relocs \
	-o /dev/null - 2>/dev/null && echo 1),1)
small_ldflags += -Wl,-z,pack-relative-relocs
endif
endif

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion
CFLAGS ?= -O2 -g
kv_cflags := -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DKVMFT_VERSION='"$(VERSION)"' \
	-Iinclude -Isrc $(WARN) -fno-strict-aliasing -fstack-protector-strong $(pkg_cflags) \
	$(small_cflags)
kv_ldflags := $(small_ldflags)
ifeq ($(WERROR),1)
kv_cflags += -Werror
endif
# Tests start sanitized programs thousands of times. At fixed addresses, and with gcc's runtimes linked in where
# they are installed (clang does that anyway), such a start takes half as long.
ifneq ($(SAN),)
san_cflags := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
kv_cflags += $(san_cflags) -fno-pie
kv_ldflags += -fsanitize=$(SAN) -no-pie
ifeq ($(shell echo 'int main(void) { return 0; }' | $(CC) $(san_cflags) -static-libasan -static-libubsan -x c \
	-Werror -o /dev/null - 2>/dev/null && echo 1),1)
kv_ldflags += -static-libasan -static-libubsan
endif
endif
ifeq ($(COV),1)
kv_cflags += --coverage -DKVMFT_COVERAGE
kv_ldflags += --coverage
endif
ifeq ($(STATIC),1)
kv_ldflags += -static
endif
kv_libs := $(pkg_libs) $(kmod_libs) -lpthread

# ---- sources ----
only_small := $(addprefix src/,capture/small.c cmd/cmds_small.c live/small.c record/small.c stuck/small.c)
# Not in the small one; most of it the linker would leave out as well, but it is a third of what there is to compile.
only_whole := $(filter-out $(addprefix src/,blame/find.c exits/counts.c latency/events.c latency/io.c \
	$(addprefix qemu/,events.c line.c monitor_binary.c trace.c)),$(wildcard $(addprefix src/, \
	$(addsuffix /*.c,advise blame boot clockcheck diff exits latency many prove qemu sdt sides) cmd/cmds.c cmd/gone.c \
	live/exits_steal.c record/cost.c record/qemu.c record/probes.c stuck/recording.c capture/tar.c capture/tracetext_*.c \
	$(addsuffix *.c,$(addprefix cmd/,advise blam boot check_ clock convert_ export many merge qemu) \
	$(addprefix output/,advise blaming clockcheck database diff lat_ processes qemu_traces report_ steal tracedat when)))))
only_sqlite := $(addprefix src/,util/sqlite.c output/database.c)
lib_src  := $(filter-out $(if $(filter 1,$(SMALL)),$(only_whole),$(only_small)) $(if $(sqlite),,$(only_sqlite)),$(sort $(wildcard src/*/*.c)))
lib_obj  := $(lib_src:%.c=$(O)/%.o)
main_obj := $(O)/src/main.o
lib      := $(O)/libkvmft.a
prog     := $(O)/kvmft

test_lib_src := $(sort $(wildcard tests/lib/*.c))
test_lib_obj := $(test_lib_src:%.c=$(O)/%.o)
unit_src := $(sort $(wildcard tests/unit/test_*.c))
unit     := $(unit_src:%.c=$(O)/%)
# Some read counters and leaves of an x86 processor.
machine  := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
x86_src  := $(addprefix tests/tools/,ioreads.c plant.c ticker.c udpnum.c)
tool_src := $(filter-out $(if $(filter x86_64,$(machine)),,$(x86_src)),$(sort $(wildcard tests/tools/*.c)))
tools    := $(tool_src:%.c=$(O)/%)
# kvmft, and the program that attacks its sandbox, with a filter that kills where kvmft's says no
kill_obj := $(O)/tests/kill/seccomp.o
killed   := $(O)/tests/kill/kvmft $(O)/tests/kill/sandbox
all_obj  := $(lib_obj) $(main_obj) $(test_lib_obj) $(unit:%=%.o) $(tools:%=%.o) $(kill_obj)

define newline


endef

.PHONY: all tests test-tools unit-tests check check-all demo tour bench fuzz lint install install-static uninstall dist deb clean deps help FORCE
.SECONDARY: $(all_obj)
.DELETE_ON_ERROR:

all: $(prog)

# What a compiler or a flag makes is made anew when they change: objects by .flags, programs by .link.
define stamp
@mkdir -p $(@D)
@echo '$(subst ','\'',$(1))' | cmp -s - $@ || echo '$(subst ','\'',$(1))' > $@
endef
$(O)/.flags: FORCE
	$(call stamp,$(CC) $(kv_cflags) $(CFLAGS))
$(O)/.link: FORCE
	$(call stamp,$(CC) $(features) $(kv_ldflags) $(LDFLAGS) $(kv_libs))

# Only these differ with the libraries that there are: a build without them shares all other objects.
optional := $(addprefix $(O)/,src/kernel/module.o src/capture/unpack.o src/util/sqlite.o src/cmd/export.o tests/unit/test_capture_cut.o \
	tests/unit/test_capture_tracedat.o)
$(optional): obj_cflags += $(features)
$(optional): $(O)/.link

# Tables of tests leave out what is 0; cmocka 2 deprecates what cmocka 1 has no other name for.
$(O)/tests/%.o: obj_cflags += -Wno-missing-field-initializers -Wno-deprecated-declarations -Itests -DTEST_DATA_DIR='"$(CURDIR)/tests/data"'

$(O)/%.o: %.c $(O)/.flags
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(kv_cflags) $(obj_cflags) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

# Assembled into it: the compiler's list of dependencies does not know.
$(O)/src/output/html.o: src/output/html/page.html

$(lib): $(lib_obj)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(prog): $(main_obj) $(lib) $(O)/.link
	$(say) LD $@
	$(Q)$(CC) $(kv_ldflags) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(kv_libs)
	$(if $(dry_run),,$(file >$(O)/.built,$(foreach v,$(choices),$(if $(filter undefined default,$(origin $(v))),,$(v) := \
		$($(v))$(newline)))))

$(unit): %: %.o $(test_lib_obj) $(lib) $(O)/.link
	$(say) LD $@
	$(Q)$(CC) $(kv_ldflags) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(kv_libs) -lcmocka

$(tools): %: %.o $(test_lib_obj) $(lib) $(O)/.link
	$(say) LD $@
	$(Q)$(CC) $(kv_ldflags) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(kv_libs)

$(kill_obj): src/util/seccomp.c $(O)/.flags
	@mkdir -p $(@D)
	$(say) CC $@
	$(Q)$(CC) $(kv_cflags) $(CFLAGS) $(CPPFLAGS) -DKVMFT_SANDBOX_KILL -MMD -MP -c -o $@ $<

# What is named first is not taken from the library.
$(O)/tests/kill/kvmft: $(kill_obj) $(main_obj) $(lib)
$(O)/tests/kill/sandbox: $(kill_obj) $(O)/tests/tools/sandbox.o $(test_lib_obj) $(lib)
$(killed): $(O)/.link
	$(say) LD $@
	$(Q)$(CC) $(kv_ldflags) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(kv_libs)

-include $(all_obj:.o=.d)

# ---- tests ----
test-tools: $(prog) $(tools) $(killed)

tests: test-tools $(unit)

unit-tests: $(prog) $(unit)

check:
	$(Q)sh tests/check '$(make_program)' '$(O)'

check-all:
	$(Q)CHECK_ALL=1 sh tests/check '$(make_program)' '$(O)'

# After a change of commands or options; tests/cli/skill.t fails until it is done.
skill: $(prog)
	$(Q)$(prog) help --json | python3 contrib/skill/generate >contrib/skill/SKILL.md

demo: $(prog)
	$(Q)KVMFT=$(abspath $(prog)) sh contrib/demo

# The captures of kvmft-tour(7); WALKS='first stolen': only these.
tour: test-tools
	$(Q)KVMFT=$(abspath $(prog)) sh contrib/tour $(WALKS)

bench:
	$(Q)sh tests/bench/run '$(make_program)' '$(O)'

fuzz:
	$(Q)sh tests/fuzz/run '$(make_program)' '$(O)'

lint:
	$(Q)sh contrib/lint '$(O)'

deps:
	$(Q)sh contrib/deps.sh all

# ---- installation ----
manuals := $(sort $(wildcard man/*.[157]))
units := contrib/systemd/kvmft-record.service contrib/systemd/kvmft-record.timer
# As examples, or, when asked, where systemd finds them: not enabled.
units_to = $(or $(SYSTEMD_UNITDIR),$(docdir)/examples)
examples := $(sort $(wildcard $(addprefix contrib/,fleet/* perfetto/* watchdog/* skill/SKILL.md)))
# Where each file goes, for install and uninstall alike.
installed = $(bindir)/kvmft $(foreach m,$(manuals),$(mandir)/man$(subst .,,$(suffix $m))/$(notdir $m)) \
	$(bashcompdir)/kvmft $(zshcompdir)/_kvmft $(fishcompdir)/kvmft.fish $(docdir)/examples/kvmft.cron \
	$(addprefix $(units_to)/,$(notdir $(units))) $(examples:contrib/%=$(docdir)/examples/%)
# What no other program puts files into.
own_dirs = $(addprefix $(docdir)/,$(addprefix examples/,fleet perfetto skill watchdog) examples) $(docdir) $(dir $(static_to))

install: $(prog)
	$(INSTALL) -d $(addprefix $(DESTDIR),$(sort $(dir $(installed))))
	$(INSTALL) -m 755 $(prog) $(DESTDIR)$(bindir)/kvmft
	$(STRIP) $(DESTDIR)$(bindir)/kvmft
	for m in $(manuals); do $(INSTALL) -m 644 $$m $(DESTDIR)$(mandir)/man$${m##*.}/ || exit 1; done
	$(INSTALL) -m 644 contrib/completion/kvmft.bash $(DESTDIR)$(bashcompdir)/kvmft
	$(INSTALL) -m 644 contrib/completion/_kvmft $(DESTDIR)$(zshcompdir)/_kvmft
	$(INSTALL) -m 644 contrib/completion/kvmft.fish $(DESTDIR)$(fishcompdir)/kvmft.fish
	$(INSTALL) -m 644 contrib/cron/kvmft $(DESTDIR)$(docdir)/examples/kvmft.cron
	$(INSTALL) -m 644 $(units) $(DESTDIR)$(units_to)
	for e in $(examples); do mode=644; [ ! -x $$e ] || mode=755; \
		$(INSTALL) -m $$mode $$e $(DESTDIR)$(docdir)/examples/$${e#contrib/} || exit 1; done
	sed -i 's,/usr/bin/kvmft,$(bindir)/kvmft,' $(DESTDIR)$(units_to)/kvmft-record.service

# What `record --guest --push` brings into guests, where it looks for it.
static_to = $(bindir)/../lib/kvmft/kvmft-static-$(machine)
install-static:
	$(Q)$(MAKE) STATIC=1 SMALL=1 O=$(O)/static
	$(INSTALL) -d $(DESTDIR)$(bindir) $(dir $(DESTDIR)$(static_to))
	$(INSTALL) -m 755 $(O)/static/kvmft $(DESTDIR)$(static_to)
	$(STRIP) $(DESTDIR)$(static_to)

uninstall:
	rm -f $(addprefix $(DESTDIR),$(installed)) $(DESTDIR)$(static_to)
	-rmdir $(addprefix $(DESTDIR),$(own_dirs)) 2>/dev/null || :

# ---- packages ----
# The files that git tracks, or all but build folders where there is no git; the same bytes each time.
dist:
	$(Q)mkdir -p $(O)
	$(Q)sh contrib/dist '$(VERSION)' '$(O)/kvmft-$(VERSION).tar.gz'

deb: dist
	$(Q)sh contrib/deb '$(O)/kvmft-$(VERSION).tar.gz' '$(VERSION)' '$(O)'

clean:
	rm -rf $(O)

help:
	@echo 'targets:'
	@echo '  all        build $$(O)/kvmft (default)'
	@echo '  check      install what is missing, build, run all tests; last line: N passed, N failed, N skipped'
	@echo '  install-static  what record --guest --push brings into guests'
	@echo '  check-all  check plus the long matrices (kernels, compilers)'
	@echo '  demo       record a real host and a real guest, merge and verify'
	@echo '  tour       the captures of kvmft-tour(7), in $$(O)/tour (WALKS=...: only these walks)'
	@echo '  bench      speed ratios against peers, measured in one run'
	@echo '  fuzz       run all fuzz targets (FUZZ_SECONDS each)'
	@echo '  lint       style, static analysis, layering, manual pages'
	@echo '  deps       install the packages that build, tests and demo need'
	@echo '  dist       $$(O)/kvmft-$(VERSION).tar.gz, the sources'
	@echo '  deb        a Debian package in $$(O)'
	@echo '  install uninstall clean help'
	@echo 'variables:'
	@echo '  O=DIR V=1 DESTDIR= prefix= (or PREFIX=) bindir= mandir= bashcompdir= zshcompdir= fishcompdir= docdir='
	@echo '  SYSTEMD_UNITDIR=DIR (install the units there; default: as examples in docdir)'
	@echo '  STRIP=: (install with debug information); install without variables installs what was built last'
	@echo '  CC= CFLAGS= CROSS_COMPILE= WERROR=1 STATIC=1 COV=1'
	@echo '  SMALL=1 (for size, only the commands for the machine that is traced)'
	@echo '  SAN=address,undefined KMOD=0 ZSTD=0 ZLIB=0 MINIMAL=1 (all, and no sqlite) NODEPS=1 (never install packages)'
