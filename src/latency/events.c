/* SPDX-License-Identifier: GPL-2.0-or-later */
/* events.c: which events the latency analyses know. */
#include "priv.h"
#include "kvmft/events.h"
#include "kvmft/exit_names.h"

enum { ON_HOST = 1, ON_GUEST = 2 };

/* The first n fields of the role are those of lat_in.f; field number `text` is a text. */
static const struct lat_event {
	enum event_role role;
	unsigned int side;
	uint8_t n, text;    /* text 0: it has none */
	enum event_role as; /* of events that the analyses treat like another one */
} events[] = {
	{ EV_ENTRY, ON_HOST, .n = 0 }, { EV_EXIT, ON_HOST, .n = 3 },
	{ EV_NESTED_EXIT, ON_HOST, .n = 0 },
	{ EV_USER_EXIT, ON_HOST, .n = 2 }, { EV_VCPU_WAKEUP, ON_HOST, .n = 2 },
	{ EV_PIO, ON_HOST, .n = 2 }, { EV_MMIO, ON_HOST, .n = 2 },
	{ EV_FAST_MMIO, ON_HOST, .n = 1 }, { EV_MSR, ON_HOST, .n = 3 },
	{ EV_PAGE_FAULT, ON_HOST, .n = 2 },
	{ EV_SET_IRQ, ON_HOST, .n = 2 }, { EV_MSI, ON_HOST, .n = 2 }, { EV_IPI, ON_HOST, .n = 2 },
	{ EV_HV_EXPIRED, ON_HOST, .n = 3 }, { EV_HV_SYNIC, ON_HOST, .n = 3 },
	{ EV_ACCEPT, ON_HOST, .n = 3 }, { EV_APICV_ACCEPT, ON_HOST, .n = 2 },
	{ EV_APICV_INHIBIT, ON_HOST, .n = 2 }, { EV_DOORBELL, ON_HOST, .n = 1 },
	{ EV_GA_LOG, ON_HOST, .n = 2 }, { EV_AVIC_IPI, ON_HOST, .n = 2 },
	{ EV_AVIC_SLOW, ON_HOST, .n = 1 }, { EV_AVIC_ACCESS, ON_HOST, .n = 2 },
	{ EV_INJECT, ON_HOST, .n = 3 }, { EV_EOI, ON_HOST, .n = 2 },
	{ EV_PV_EOI, ON_HOST, .n = 2, .as = EV_EOI },
	{ EV_IRQ_LINE, ON_HOST, .n = 2, .as = EV_SET_IRQ }, { EV_VGIC, ON_HOST, .n = 3 },
	{ EV_SWITCH, ON_HOST | ON_GUEST, .n = 3, .text = 3 },
	{ EV_WAKEUP, ON_HOST | ON_GUEST, .n = 2 },
	{ EV_WAKING, ON_HOST | ON_GUEST, .n = 1 },
	{ EV_WAKEUP_NEW, ON_HOST, .n = 2, .as = EV_WAKEUP },
	{ EV_RQ_ISSUE, ON_HOST | ON_GUEST, .n = 4, .text = 4 },
	{ EV_RQ_COMPLETE, ON_HOST | ON_GUEST, .n = 3, .text = 3 },
	{ EV_IRQ_ENTRY, ON_GUEST, .n = 1, .text = 1 }, { EV_IRQ_EXIT, ON_GUEST, .n = 1 },
	{ EV_SOFTIRQ_ENTRY, ON_GUEST, .n = 1 }, { EV_SOFTIRQ_EXIT, ON_GUEST, .n = 1 },
	{ EV_HRTIMER_START, ON_GUEST, .n = 2 }, { EV_HRTIMER_CANCEL, ON_GUEST, .n = 1 },
	{ EV_HRTIMER_EXPIRE, ON_GUEST, .n = 3 },
	{ EV_SPTE, ON_HOST, .n = 4 }, { EV_FAST_FAULT, ON_HOST, .n = 4 },
	{ EV_UNMAP, ON_HOST, .n = 2 }, { EV_PAGE_ALLOC, ON_HOST, .n = 3 },
	{ EV_BIO, ON_HOST, .n = 3, .text = 3 }, { EV_FILE_PAGE, ON_HOST, .n = 1 },
	{ EV_SWAP_OUT, ON_HOST, .n = 1 }, { EV_COMPACTION, ON_HOST, .n = 0 },
	{ EV_RECLAIM, ON_HOST, .n = 0 }, { EV_MIGRATED, ON_HOST, .n = 0 },
	{ EV_COLLAPSE, ON_HOST, .n = 0 }, { EV_USERFAULT, ON_HOST, .n = 0 },
	{ EV_FILE_DIRTY, ON_HOST, .n = 0 }, { EV_ASYNC, ON_HOST, .n = 2 },
	{ EV_FETCHED, ON_HOST, .n = 2 }, { EV_ASYNC_TOLD, ON_HOST, .n = 1 },
	{ EV_ASYNC_READY, ON_HOST, .n = 1 }, { EV_HUGETLB, ON_HOST, .n = 0 },
	{ EV_SYSCALL, ON_HOST, .n = 2 }, { EV_USER_FAULT, ON_HOST, .n = 0 },
	{ EV_KERNEL_FAULT, ON_HOST, .n = 0 },
	{ EV_SOFTIRQ_RAISE, ON_GUEST, .n = 1 },
	{ EV_NET_QUEUE, ON_HOST | ON_GUEST, .n = 2, .text = 2 },
	{ EV_NET_START, ON_HOST | ON_GUEST, .n = 3, .text = 3 },
	{ EV_NET_XMIT, ON_GUEST, .n = 2 },
	{ EV_NET_ENTRY, ON_HOST | ON_GUEST, .n = 3, .text = 3 },
	{ EV_NET_RECEIVE, ON_HOST | ON_GUEST, .n = 2, .text = 2 },
	{ EV_GRO, ON_HOST | ON_GUEST, .n = 3, .text = 3 },
	{ EV_NAPI_POLL, ON_HOST | ON_GUEST, .n = 3, .text = 3 },
	{ EV_SKB_COPY, ON_HOST | ON_GUEST, .n = 2 },
	{ EV_SKB_FREE, ON_HOST | ON_GUEST, .n = 1 },
	{ EV_SKB_DROP, ON_HOST | ON_GUEST, .n = 1 },
	{ EV_HV_IPI, ON_HOST, .n = 1 }, { EV_HV_TIMER, ON_HOST, .n = 4 },
	{ EV_CALL_SEND, ON_HOST | ON_GUEST, .n = 2 },
	{ EV_CALL_RECEIVE, ON_HOST | ON_GUEST, .n = 2 },
	{ EV_CALL_END, ON_HOST | ON_GUEST, .n = 2 },
	{ EV_NET_HEAD, ON_HOST | ON_GUEST, .n = 3 },
	{ EV_VECTOR_ENTRY, ON_GUEST, .n = 2 }, { EV_VECTOR_EXIT, ON_GUEST, .n = 2 },
};

struct lat_decoder {
	const struct lat_event *of[EV_ROLES]; /* NULL: not ours */
	uint8_t n[EV_ROLES];		      /* ... how many fields are read */
	bool has[EV_ROLES];
};

static enum event_role event_kind(const struct lat_event *e)
{
	return e->as ?: e->role;
}

void lat_decoder_spare(struct lat_decoder *d, bool mem)
{
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		enum event_role r = event_kind(&events[i]);

		/* Few need their fields to show what a vCPU's thread does. */
		if (r != EV_EXIT && r != EV_SWITCH && r != EV_WAKEUP && !(mem && lat_mem_is(r)))
			d->n[events[i].role] = 0;
	}
}

/* Without fields: what the thread of a vCPU does, and that a guest handles interrupts. */
void lat_decoder_states(struct lat_decoder *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		enum event_role r = event_kind(&events[i]);

		if (r >= EV_WAKING && r != EV_WAKEUP && !(r >= EV_IRQ_ENTRY && r <= EV_VECTOR_EXIT))
			d->of[events[i].role] = NULL;
	}
}

struct lat_decoder *lat_decoder_new(const struct fmt *fmt, bool guest)
{
	struct lat_decoder *d = xcalloc(1, sizeof(*d));

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		d->n[events[i].role] = events[i].n;
		if (events[i].side & (guest ? ON_GUEST : ON_HOST))
			d->of[events[i].role] = &events[i];
	}
	for (size_t i = 0; fmt_at(fmt, i); i++) {
		const struct lat_event *e = d->of[event_role_of(fmt_at(fmt, i))];

		if (e) /* an allocation without its flags, as a text has it, tells nothing */
			d->has[event_kind(e)] = e->role != EV_PAGE_ALLOC ||
						event_type_of(fmt_at(fmt, i))->plain[3];
	}
	return d;
}

static inline void decode_fields(const struct event_type *e, unsigned int n,
				 const struct tl_item *i, struct lat_in *in)
{
	in->i = i;
	in->t = i->host;
	in->has = 0;
	memset(in->f, 0, sizeof(in->f));
	if (e->plain[n] && i->rec->len >= e->plain[n]) {
		for (unsigned int k = 0; k < n; k++)
			in->f[k] = fmt_number(&e->f[k], i->rec);
		in->has = (1u << n) - 1;
		return;
	}
	for (unsigned int k = 0; k < n; k++) {
		if (e->f[k].size && fmt_u64(&e->f[k], i->rec, &in->f[k]))
			in->has |= 1u << k;
	}
}

bool lat_decode(struct lat_decoder *d, const struct tl_item *i, struct lat_in *in)
{
	const struct event_type *e = event_type_of(i->ev);
	struct exit_why why;

	if (!d->of[e->role])
		return false;
	in->kind = event_kind(d->of[e->role]);
	decode_fields(e, d->n[e->role], i, in);
	if (in->kind == EV_EXIT) {
		why = exit_why(&i->src->exits, in->f[0], in->f[1]);
		in->f[0] = why.reason;
		in->f[1] = why.isa;
		in->f[3] = exit_kind(why) | (exit_is_log_full(why) ? LAT_EXIT_LOG_FULL : 0);
	}
	return true;
}

bool lat_decode_qemu(const struct tl_item *i, struct lat_in *in)
{
	in->kind = event_role_of(i->ev);
	if (in->kind < EV_QEMU_READ || in->kind > EV_QEMU_DONE)
		return false;
	decode_fields(event_type_of(i->ev), in->kind == EV_QEMU_DONE ? 1 : 3, i, in);
	return true;
}

bool lat_decoder_has(const struct lat_decoder *d, enum event_role kind)
{
	return d->has[kind];
}

void lat_decode_text(const struct lat_decoder *d, const struct lat_in *in, char *buf, size_t size)
{
	const struct event_type *e = event_type_of(in->i->ev);
	uint8_t text = d->of[e->role]->text;

	buf[0] = '\0';
	if (text)
		fmt_str(&e->f[text], in->i->rec, buf, size);
}
