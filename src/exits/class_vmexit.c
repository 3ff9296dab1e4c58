/* SPDX-License-Identifier: GPL-2.0-or-later */
/* class_vmexit.c: why vCPUs exited, and for how long: kvm_exit to kvm_entry, by reason. */
#include "class.h"

#define OF_NESTED (1ull << 63)

/*
 * Key: the isa in the high half, because the numbers of two instruction sets have nothing in
 * common. Flags of VMX are ignored: a failed entry counts under its basic reason. An exit of a
 * guest's own guest is followed by kvm_nested_vmexit.
 */
static enum class_mark begin(const struct class_event *e, uint64_t *key)
{
	enum exit_isa isa = (enum exit_isa)(uint32_t)e->v[1];

	*key = OF_NESTED;
	if (e->tp != CLASS_EXIT)
		return e->tp ? MARK_NO : MARK_MORE;
	*key = (uint64_t)(uint32_t)isa << 32 | exit_reason_key(isa, e->v[0]);
	return MARK_KEY;
}

/* perf counts each number separately, including flags. */
static enum class_mark perf_begin(const struct class_event *e, uint64_t *key)
{
	if (e->tp != CLASS_EXIT)
		return MARK_NO;
	*key = e->v[1] << 32 | (uint32_t)e->v[0];
	return MARK_KEY;
}

static enum class_mark perf_before_begin(const struct class_event *e, uint64_t *key __unused_arg)
{
	return e->tp == CLASS_ENTRY ? MARK_YES : MARK_NO;
}

struct exit_why class_vmexit_why(uint64_t key)
{
	return (struct exit_why){ (enum exit_isa)(uint32_t)((key & ~OF_NESTED) >> 32),
				  (uint32_t)key };
}

static void describe(const struct exit_names *names, uint64_t key, char *buf, size_t size)
{
	const struct exit_why why = class_vmexit_why(key);
	uint32_t flags = exit_reason_flags(why.isa, key);
	char name[EXIT_NAME_MAX], text[EXIT_NAME_MAX];

	exit_reason_text(names, why.isa, why.reason, name, sizeof(name));
	snprintf(buf, size, "%s%s%s%s", name, flags ? " " : "",
		 flags ? exit_flags_text(flags, text, sizeof(text)) : "",
		 key & OF_NESTED ? " (L2)" : "");
}

const struct event_class class_vmexit = {
	.name = "vmexit",
	.title = "VM-EXIT",
	.tp = { { .name = "kvm_nested_vmexit" } },
	.optional = true,
	.exact = { begin, class_end_entry },
	.perf = { perf_begin, class_end_entry },
	.perf_before = { perf_before_begin, perf_begin },
	.describe = describe,
};
