/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vcpu_turn.c: which events begin and end turns. */
#include "kvmft/vcpu_turn.h"
#include "kvmft/events.h"

/* Not an NMI, which can also come before the guest runs. */
static const enum event_role ends[] = {
	EV_IRQ_ENTRY, EV_SOFTIRQ_ENTRY, EV_SWITCH, EV_VECTOR_ENTRY,
};

void turn_events_init(struct turn_events *t, const struct fmt *fmt)
{
	const struct fmt_event *e;

	*t = (struct turn_events){
		.entry = event_format(fmt, EV_ENTRY), .exit = event_format(fmt, EV_EXIT),
	};
	for (size_t i = 0; (e = fmt_at(fmt, i)); i++)
		for (size_t k = 0; k < ARRAY_SIZE(ends); k++)
			if (event_is(e, ends[k]))
				t->left[fmt_id(e) / 64] |= 1ull << (fmt_id(e) % 64);
}
