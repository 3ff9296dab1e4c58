/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class_msr.c: accesses to model specific registers, by register and direction.
 *
 * kvm_msr is traced after the access, so its clock started at the exit. (SVM before Linux 6.12 has
 * accesses that come before their kvm_exit: the pairing begins those at kvm_msr.)
 */
#include "class.h"

#define WRITE_BIT (1ull << 32)

static uint64_t key_of(const struct class_event *e)
{
	return (uint32_t)e->v[0] | (e->v[1] ? WRITE_BIT : 0);
}

static enum class_mark begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp != 0)
		return MARK_NO;
	*key = key_of(e);
	return MARK_AT_EXIT;
}

static enum class_mark perf_begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp != 0)
		return MARK_NO;
	*key = key_of(e);
	return MARK_KEY;
}

static void describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
		     size_t size)
{
	snprintf(buf, size, "0x%x:%c", (uint32_t)key, key & WRITE_BIT ? 'W' : 'R');
}

const struct event_class class_msr = {
	.name = "msr",
	.title = "MSR Access",
	.tp = { { "kvm_msr", { "ecx", "write" } } },
	.exact = { begin, class_end_entry },
	.perf = { perf_begin, class_end_entry },
	.describe = describe,
};
