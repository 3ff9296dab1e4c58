/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x86.h: what all hosts that are x86 have in common; private to their files. Names of exit reasons
 * are VMX_EXIT_REASONS and SVM_EXIT_REASONS of arch/x86/include/uapi/asm/{vmx,svm}.h as Linux 6.18
 * has them. tests/unit/test_events_exit_names.c compares the tables with the text that such a
 * kernel exports.
 */
#pragma once

#include "arch.h"

extern const char *const x86_machines[];
extern const struct event_def x86_exit;
extern const struct event_irqs x86_irqs;

#define X86 .machine = x86_machines, .exit = &x86_exit, .irqs = &x86_irqs
