/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * leave.c: the events of leave.h, by id.
 */
#include "kvmft/leave.h"

#include <string.h>

static const struct {
	const char *sys, *name;
} ends[] = {
	{ "irq", "irq_handler_entry" },
	{ "irq", "softirq_entry" },
	{ "sched", "sched_switch" },
};

/* An NMI is none of them: it can come before the guest as well. */
static bool leave_is(const char *sys, const char *name)
{
	size_t len = strlen(name);

	if (!strcmp(sys, "irq_vectors"))
		return len > 6 && !strcmp(name + len - 6, "_entry");
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (!strcmp(sys, ends[i].sys) && !strcmp(name, ends[i].name))
			return true;
	return false;
}

void leave_events_init(struct leave_events *l, const struct fmt *fmt)
{
	const struct fmt_event *e;

	memset(l, 0, sizeof(*l));
	for (size_t i = 0; (e = fmt_at(fmt, i)); i++)
		if (leave_is(fmt_sys(e), fmt_name(e)))
			l->bit[fmt_id(e) / 64] |= 1ull << (fmt_id(e) % 64);
}
