/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class_mmio.c: accesses to emulated device memory, by address and direction.
 *
 * kvm_mmio of a write is traced before the device sees it, of a read when its value is there; type
 * 0 only announces that user space has to answer a read (arch/x86/kvm/x86.c). Kernels with the
 * patches of 2012 that perf's first version came with have kvm_mmio_begin and kvm_mmio_done: where
 * a capture has both formats, they are the whole truth.
 */
#include "class.h"

enum { TP_MMIO, TP_BEGIN, TP_DONE };

enum { TYPE_UNSATISFIED, TYPE_READ, TYPE_WRITE }; /* KVM_TRACE_MMIO_* */

#define HAS_TYPE    (1u << 1)
#define WRITE_BIT   (1ull << 63)
#define BEGIN_DONE  (1u << TP_BEGIN | 1u << TP_DONE)

static uint64_t key_of(const struct class_event *e, bool write)
{
	return (e->v[0] & ~WRITE_BIT) | (write ? WRITE_BIT : 0);
}

static bool is_mmio(const struct class_event *e, unsigned int type)
{
	return e->tp == TP_MMIO && e->v[1] == type;
}

static enum class_mark begin(const struct class_event *e, uint64_t *key)
{
	bool write;

	if ((e->tps & BEGIN_DONE) == BEGIN_DONE) {
		if (e->tp != TP_BEGIN)
			return MARK_NO;
		write = e->has & HAS_TYPE ? e->v[1] == TYPE_WRITE : e->v[2];
		*key = key_of(e, write);
		return MARK_KEY;
	}
	if (!is_mmio(e, TYPE_WRITE))
		return MARK_NO;
	*key = key_of(e, true);
	return MARK_KEY;
}

static enum class_mark end(const struct class_event *e, uint64_t *key)
{
	if (e->tp == CLASS_ENTRY)
		return MARK_YES;
	if ((e->tps & BEGIN_DONE) == BEGIN_DONE)
		return e->tp == TP_DONE ? MARK_YES : MARK_NO;
	if (!is_mmio(e, TYPE_READ))
		return MARK_NO;
	*key = key_of(e, false);
	return MARK_KEY;
}

static enum class_mark perf_begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp == CLASS_EXIT)
		return MARK_YES;
	if (!is_mmio(e, TYPE_WRITE))
		return MARK_NO;
	*key = key_of(e, true);
	return MARK_KEY;
}

static enum class_mark perf_end(const struct class_event *e, uint64_t *key)
{
	if (e->tp == CLASS_ENTRY)
		return MARK_YES;
	if (!is_mmio(e, TYPE_READ))
		return MARK_NO;
	*key = key_of(e, false);
	return MARK_KEY;
}

static void describe(const struct exit_names *names __unused_arg, uint64_t key, char *buf,
		     size_t size)
{
	snprintf(buf, size, "0x%llx:%c", (unsigned long long)(key & ~WRITE_BIT),
		 key & WRITE_BIT ? 'W' : 'R');
}

const struct event_class class_mmio = {
	.name = "mmio",
	.title = "MMIO Access",
	.tp = {
		[TP_MMIO] = { "kvm_mmio", { "gpa", "type" } },
		[TP_BEGIN] = { "kvm_mmio_begin", { "gpa", "type", "rw" } },
		[TP_DONE] = { "kvm_mmio_done", { "vcpu_id" } },
	},
	.exact = { begin, end },
	.perf = { perf_begin, perf_end },
	.describe = describe,
};
