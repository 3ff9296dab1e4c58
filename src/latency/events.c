/* SPDX-License-Identifier: GPL-2.0-or-later */
/* events.c: which events the latency analyses know. */
#include "priv.h"
#include "kvmft/events.h"
#include "kvmft/exit_names.h"

enum { ON_HOST = 1, ON_GUEST = 2, ON_QEMU = 4 };

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
	{ EV_QEMU_READ, ON_QEMU, .n = 3 },
	{ EV_QEMU_WRITE, ON_QEMU, .n = 3 }, { EV_QEMU_DONE, ON_QEMU, .n = 1 },
};

struct decoded {
	enum event_role kind; /* EV_NONE: not ours */
	unsigned int n;	      /* of field[] */
	uint32_t plain;	      /* a record that long has all fields, as fmt_number() reads them;
			       * 0: none */
	struct fmt_field field[LAT_FIELDS], text;
	bool ends; /* of EV_VECTOR_ENTRY: event_vector_ends() */
};

struct lat_decoder {
	const struct fmt *fmt;
	struct exit_names names;
	struct decoded *ev;
	size_t nev, ev_cap;
	uint8_t at[UINT16_MAX + 1]; /* event id → index + 1 */
	bool has[EV_ROLES];
	struct {
		struct exit_why why;
		uint32_t class;
		bool known;
	} exits[64]; /* those seen last, by the reason's low bits */
};

static struct decoded *decoded_add(struct lat_decoder *d, const struct fmt_event *e,
				   enum event_role kind)
{
	struct decoded *ev = xarray_grow(&d->ev, d->nev, &d->ev_cap, sizeof(*ev));

	ev->kind = kind;
	d->at[fmt_id(e)] = (uint8_t)++d->nev;
	d->has[kind] = true;
	return ev;
}

static void see_plain(struct decoded *ev)
{
	ev->plain = 1;
	for (unsigned int k = 0; k < ev->n; k++) {
		if (!fmt_numbers(&ev->field[k])) {
			ev->plain = 0;
			return;
		}
		ev->plain = MAX(ev->plain, (uint32_t)ev->field[k].off + ev->field[k].size);
	}
}

void lat_decoder_spare(struct lat_decoder *d, bool mem)
{
	for (size_t i = 0; i < d->nev; i++) {
		enum event_role r = d->ev[i].kind;

		/* Few need their fields to show what a vCPU's thread does. */
		if (r != EV_EXIT && r != EV_SWITCH && r != EV_WAKEUP && r != EV_WAKEUP_NEW &&
		    !(mem && lat_mem_is(r)))
			d->ev[i].n = 0;
	}
}

/* Without fields: what the thread of a vCPU does, and that a guest handles interrupts. */
void lat_decoder_states(struct lat_decoder *d)
{
	for (size_t id = 0; id < ARRAY_SIZE(d->at); id++) {
		enum event_role r = d->at[id] ? d->ev[d->at[id] - 1].kind : EV_NONE;

		if (r >= EV_WAKING && r != EV_WAKEUP && !(r >= EV_IRQ_ENTRY && r <= EV_VECTOR_EXIT))
			d->at[id] = 0;
	}
}

struct lat_decoder *lat_decoder_new(const struct fmt *fmt, bool guest)
{
	struct lat_decoder *d = xcalloc(1, sizeof(*d));
	static const struct {
		enum event_role role;
		uint8_t n, text;
	} roles[] = { { EV_HV_IPI, 1, 0 },	 { EV_HV_TIMER, 4, 0 },	    { EV_CALL_SEND, 2, 0 },
		      { EV_CALL_RECEIVE, 2, 0 }, { EV_CALL_END, 2, 0 },	    { EV_NET_HEAD, 3, 3 },
		      { EV_VECTOR_ENTRY, 2, 0 }, { EV_VECTOR_EXIT, 2, 0 } };

	d->fmt = fmt;
	exit_names_init(&d->names, event_format(fmt, EV_EXIT), NULL);
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct event_type t;
		struct decoded *ev;

		if (!(events[i].side & (guest ? ON_GUEST : ON_HOST)) ||
		    !event_find(fmt, events[i].role, 0, &t))
			continue;
		ev = decoded_add(d, t.ev, events[i].as ? events[i].as : events[i].role);
		ev->n = events[i].n;
		memcpy(ev->field, t.f, ev->n * sizeof(*t.f));
		if (events[i].text)
			ev->text = t.f[events[i].text];
		if (events[i].role == EV_SYSCALL) {
			struct fmt_field *args = &ev->field[1];

			/* Of a system call's arguments the second tells what a futex() is for. */
			if (args->is_array && args->elem && args->size >= 2 * args->elem) {
				args->off += args->elem;
				args->size = args->elem;
				args->is_array = false;
			}
		}
		see_plain(ev);
	}
	/* the first two of a host alone, the vectors of a guest */
	for (size_t i = guest ? 2 : 0; i < ARRAY_SIZE(roles) - (guest ? 0 : 2); i++) {
		const struct fmt_event *e;
		struct decoded *decoded;
		struct event_type type;

		/* All events of a role, as irq_vectors has more; no kernel has more than fit. */
		for (size_t k = 0; d->nev < UINT8_MAX && (e = fmt_at(d->fmt, k)); k++) {
			if (!event_is(e, roles[i].role) ||
			    !event_resolve(e, roles[i].role, 1, &type))
				continue;
			decoded = decoded_add(d, e, roles[i].role);
			decoded->n = roles[i].n;
			decoded->ends = roles[i].role == EV_VECTOR_ENTRY &&
					event_vector_ends(fmt, e);
			memcpy(decoded->field, type.f, decoded->n * sizeof(*type.f));
			if (roles[i].text)
				decoded->text = type.f[roles[i].text];
		}
	}
	return d;
}

static inline void decode_fields(const struct decoded *ev, const struct tl_item *i,
				 struct lat_in *in)
{
	in->kind = ev->kind;
	in->i = i;
	in->t = i->host;
	in->has = 0;
	memset(in->f, 0, sizeof(in->f));
	if (ev->plain && i->rec->len >= ev->plain) {
		for (unsigned int k = 0; k < ev->n; k++)
			in->f[k] = fmt_number(&ev->field[k], i->rec);
		in->has = (1u << ev->n) - 1;
		return;
	}
	for (unsigned int k = 0; k < ev->n; k++) {
		if (ev->field[k].size && fmt_u64(&ev->field[k], i->rec, &in->f[k]))
			in->has |= 1u << k;
	}
}

static uint32_t exit_class(struct lat_decoder *d, struct exit_why why)
{
	unsigned int at = why.reason % ARRAY_SIZE(d->exits);

	if (!d->exits[at].known || d->exits[at].why.reason != why.reason ||
	    d->exits[at].why.isa != why.isa) {
		d->exits[at].why = why;
		d->exits[at].class = exit_kind(why) |
				     (exit_is_log_full(why) ? LAT_EXIT_LOG_FULL : 0);
		d->exits[at].known = true;
	}
	return d->exits[at].class;
}

bool lat_decode(struct lat_decoder *d, const struct tl_item *i, struct lat_in *in)
{
	uint8_t at = d->at[i->rec->id];
	struct exit_why why;

	if (!at)
		return false;
	decode_fields(&d->ev[at - 1], i, in);
	in->ends = d->ev[at - 1].ends;
	if (in->kind == EV_EXIT) {
		why = exit_why(&d->names, in->f[0], in->f[1]);
		in->f[0] = why.reason;
		in->f[1] = why.isa;
		in->f[3] = exit_class(d, why);
	}
	return true;
}

/* QEMU's events have no formats before they are seen: the few that matter are known by name. */
bool lat_decode_qemu(const struct tl_item *i, struct lat_in *in)
{
	for (size_t k = ARRAY_SIZE(events); i->ev && k && events[k - 1].side == ON_QEMU; k--) {
		const struct lat_event *e = &events[k - 1];
		struct decoded ev = { .kind = e->role, .n = e->n };
		struct event_type t;

		if (strcmp(fmt_name(i->ev), event_name(e->role)))
			continue;
		event_resolve(i->ev, e->role, 0, &t);
		memcpy(ev.field, t.f, e->n * sizeof(*t.f));
		decode_fields(&ev, i, in);
		return true;
	}
	return false;
}

bool lat_decoder_has(const struct lat_decoder *d, enum event_role kind)
{
	return d->has[kind];
}

void lat_decode_text(const struct lat_decoder *d, const struct lat_in *in, char *buf, size_t size)
{
	const struct decoded *ev = &d->ev[d->at[in->i->rec->id] - 1];

	buf[0] = '\0';
	if (ev->text.size)
		fmt_str(&ev->text, in->i->rec, buf, size);
}

size_t lat_decode_bytes(const struct lat_decoder *d, const struct lat_in *in, void *buf,
			size_t size)
{
	const struct fmt_field *f = &d->ev[d->at[in->i->rec->id] - 1].text;
	const struct rec *r = in->i->rec;
	size_t n = MIN(f->size, size);

	if (f->is_dynamic || f->off > r->len || n > r->len - f->off)
		return 0;
	memcpy(buf, r->data + f->off, n);
	return n;
}

void lat_decoder_free(struct lat_decoder *d)
{
	if (!d)
		return;
	free(d->ev);
	free(d);
}
