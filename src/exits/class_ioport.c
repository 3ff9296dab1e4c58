/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class_ioport.c: accesses to I/O ports, by port and direction.
 *
 * kvm_pio of an OUT is traced before the access. So was that of an IN in kernels whose kvm_pio has
 * no field val; with that field, an IN is traced once its value is known, after user space: its
 * clock started at the exit. kvm_mmio_done of the kernels of 2012 ends both.
 */
#include "class.h"

enum { TP_PIO, TP_DONE };

#define HAS_VAL	  (1u << 2)
#define WRITE_BIT (1ull << 32)

static uint64_t key_of(const struct class_event *e)
{
	return (uint32_t)e->v[0] | (e->v[1] ? WRITE_BIT : 0);
}

static enum class_mark begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp != TP_PIO)
		return MARK_NO;
	*key = key_of(e);
	return e->v[1] || !(e->has & HAS_VAL) ? MARK_KEY : MARK_AT_EXIT;
}

static enum class_mark end(const struct class_event *e, uint64_t *key __unused_arg)
{
	return e->tp == CLASS_ENTRY || e->tp == TP_DONE ? MARK_YES : MARK_NO;
}

static enum class_mark perf_begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp != TP_PIO)
		return MARK_NO;
	*key = key_of(e);
	return MARK_KEY;
}

static void describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
		     size_t size)
{
	snprintf(buf, size, "0x%x:%s", (uint32_t)key, key & WRITE_BIT ? "POUT" : "PIN");
}

const struct event_class class_ioport = {
	.name = "ioport",
	.title = "IO Port Access",
	.tp = {
		[TP_PIO] = { "kvm_pio", { "port", "rw", "val" } },
		[TP_DONE] = { "kvm_mmio_done", { "vcpu_id" } },
	},
	.exact = { begin, end },
	.perf = { perf_begin, class_end_entry },
	.describe = describe,
};
