/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decode.c: the events that blame uses. */
#include "priv.h"

static const enum event_role host_roles[] = {
	EV_ENTRY, EV_EXIT, EV_USER_EXIT, EV_VCPU_WAKEUP, EV_PIO, EV_MMIO, EV_FAST_MMIO, EV_SWITCH,
	EV_ACCEPT, EV_IRQ_ENTRY, EV_IRQ_EXIT, EV_SOFTIRQ_ENTRY, EV_SOFTIRQ_EXIT, EV_CPU_IDLE,
	EV_WAKEUP, EV_INJECT, EV_INJECT_FAULT, EV_RQ_ISSUE, EV_RQ_COMPLETE, EV_VGIC,
};
static const enum event_role guest_roles[] = {
	EV_SWITCH, EV_WAKEUP, EV_WAKEUP_NEW, EV_IRQ_ENTRY, EV_SOFTIRQ_ENTRY, EV_PRINT,
	EV_TIMERLAT, EV_TIMERLAT_ENTRY,
	EV_NOISE_SAMPLE, EV_NOISE_THREAD, EV_NOISE_IRQ, EV_NOISE_SOFTIRQ, EV_NOISE_NMI,
};

static void decoder_init(struct blame_decoder *d, const struct fmt *fmt, bool guest)
{
	const enum event_role *roles = guest ? guest_roles : host_roles;
	size_t n = guest ? ARRAY_SIZE(guest_roles) : ARRAY_SIZE(host_roles);

	exit_names_init(&d->names, event_format(fmt, EV_EXIT), NULL);
	for (size_t i = 0; i < n; i++)
		if (event_find(fmt, roles[i], 0, &d->ev[roles[i]]))
			d->role[fmt_id(d->ev[roles[i]].ev)] = (uint8_t)roles[i];
	for (size_t i = 0; !guest && fmt_at(fmt, i); i++) {
		enum event_role r = event_role_of(fmt_at(fmt, i));

		if (r == EV_VECTOR_ENTRY || r == EV_VECTOR_EXIT)
			d->role[fmt_id(fmt_at(fmt, i))] = (uint8_t)r;
	}
}

int blame_decoders(const struct timeline *t, struct blame_decoder **out)
{
	struct blame_decoder *d = calloc(tl_sources(t), sizeof(*d));

	*out = d;
	if (!d)
		return -ENOMEM;
	for (size_t i = 0; i < tl_sources(t); i++)
		if (!tl_source(t, i)->qemu)
			decoder_init(&d[i], tl_source(t, i)->fmt, tl_source(t, i)->guest);
	return 0;
}
