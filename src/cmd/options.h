/* SPDX-License-Identifier: GPL-2.0-or-later */
/* options.h: options that several commands have, for a member of that type in their struct. */
#pragma once

#include "kvmft/cli.h"
#include "kvmft/pager.h"
#include "kvmft/pairing.h"
#include "kvmft/qemu.h"

/* struct pairing_clock */
#define PAIRING_CLOCK_OPTIONS(st, m)                                           \
	OPTION(0, "tsc-offset", OPT_BITS, st, m.tsc_offset, "N",               \
	       "the guest's TSC offset, instead of what the captures say"),    \
		OPTION(0, "tsc-ratio", OPT_STR, st, m.tsc_ratio, "R/F",        \
		       "the guest's TSC scaling ratio and its fraction bits"), \
		OPTION(0, "solve", OPT_FLAG, st, m.solve, NULL,                \
		       "find the TSC offset in the events, whatever the captures say")

/* struct spans_opts */
#define SPANS_OPTIONS(st, m)                                                                  \
	OPTION(0, "from-event", OPT_STR, st, m.from, "EVENT",                                 \
	       "the time from this event, [SYSTEM:]NAME[/FILTER/] of either side, ..."),      \
		OPTION(0, "to-event", OPT_STR, st, m.to, "EVENT", "... to the next of these"), \
		OPTION('k', "key", OPT_STR, st, m.key, "FIELD[=FIELD]",                         \
		       "only where this field of both has the same value; of the second, after =\n" \
		       "(default: of the same thread or, failing that, the last of the VM)")

/* struct guest_syms_opts */
#define GUEST_SYMS_OPTIONS(st, m)                                                                 \
	OPTION(0, "guest-kallsyms", OPT_LIST, st, m.kallsyms, "[SEL=]FILE",                       \
	       "names of a guest's functions: its /proc/kallsyms, read as root since it booted,\n" \
	       "or a capture of it with --symbols; SEL names the VM where there are several"),    \
		OPTION(0, "guest-vmlinux", OPT_LIST, st, m.vmlinux, "[SEL=]FILE",                 \
		       "... or its kernel's ELF file with symbols, ..."),                         \
		OPTION(0, "guest-kaslr", OPT_LIST, st, m.kaslr, "[SEL=]N",                        \
		       "... which KASLR moved up by N bytes"),                              \
		OPTION(0, "guest-modules", OPT_LIST, st, m.modules, "[SEL=]FILE",                 \
		       "its /proc/modules: names the module where a function is not known")

/* const char * */
#define VM_OPTION(st, m) \
	OPTION(0, "vm", OPT_STR, st, m, "SEL", "only this VM: UUID, name, PID or PID-FD")

/* int format, an index of names */
#define FORMAT_OPTION(st, names) \
	OPTION_CHOICE(0, "format", st, format, "FORMAT", names, "how to print (default: text)")

/* struct opt_u64 */
#define RATE_OPTION(struct_, member) \
	OPTION(0, "tsc-khz", OPT_U64, struct_, member, "KHZ", \
	       "frequency of the host's TSC, instead of what the captures say")

/* struct sides_config */
#define SIDES_OPTIONS(st, m)                                                                      \
	OPTION(0, "guest-options", OPT_LIST, st, m.options, "[NAME:]OPTIONS",                     \
	       "further options of record in guests, or in the one called NAME"),                 \
	OPTION(0, "guest-timeout", OPT_DURATION, st, m.timeout, "DURATION",                       \
	       "give up on a guest that sends nothing for that long at its start (default: 60s)"),        \
	OPTION(0, "push", OPT_FLAG, st, m.push, NULL,                                             \
	       "copy a static kvmft into guests that have none, and remove it afterwards"),                \
	OPTION(0, "push-file", OPT_STR, st, m.push_file, "FILE",                                  \
	       "the one to copy (default: kvmft-static-MACHINE beside this kvmft)")

#define COLOR_HELP "colours (default: auto, on a terminal without NO_COLOR)"
#define WIDE_HELP  "on a terminal: do not cut long lines"

/* For the process that reads what is being recorded: see captures_live(). */
#define LIVE_OPTION(st, m)                                                                         \
	{ .name = "live",                                                                          \
	  .type = OPT_FLAG,                                                                        \
	  .offset = offsetof(st, m),                                                               \
	  .help = "the capture is still being recorded",                                           \
	  .flags = OPT_HIDDEN }

/* struct page_opts */
#define PAGE_OPTIONS(st, m)                                                            \
	OPTION_CHOICE(0, "color", st, m.color, "WHEN", color_names, COLOR_HELP), \
		OPTION(0, "wide", OPT_FLAG, st, m.wide, NULL, WIDE_HELP)

/* struct qemu_target */
#define QEMU_TARGET_OPTIONS(st, member)                                                            \
	OPTION(0, "vm", OPT_STR, st, member.vm, "SEL",                                             \
	       "the QEMU of this VM: UUID, name, PID or PID-FD (default: the only one)"),          \
	OPTION(0, "monitor", OPT_STR, st, member.monitor, "SOCKET",                                \
	       "use the monitor on this socket, QMP or HMP"),                                     \
	OPTION(0, "timeout", OPT_DURATION, st, member.timeout, "DURATION",                         \
	       "wait this long for each answer of QEMU (default: 5s)")
