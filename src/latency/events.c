/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * events.c: which events the latency analyses know, and by which names their fields went.
 */
#include "priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ON_HOST = 1, ON_GUEST = 2, ON_QEMU = 4 };

/* Fields in the order of lat_in.f; "a|b": the first that the format has. */
static const struct lat_event {
	enum lat_ev kind;
	unsigned int side;
	const char *sys, *name;
	const char *field[LAT_FIELDS];
	const char *text;
} events[] = {
	{ LE_ENTRY, ON_HOST, "kvm", "kvm_entry", { 0 }, NULL },
	{ LE_EXIT, ON_HOST, "kvm", "kvm_exit", { "exit_reason", "isa", "guest_rip" }, NULL },
	{ LE_USEREXIT, ON_HOST, "kvm", "kvm_userspace_exit", { "reason", "errno" }, NULL },
	{ LE_VCPU_WAKEUP, ON_HOST, "kvm", "kvm_vcpu_wakeup", { "ns", "waited" }, NULL },
	{ LE_PIO, ON_HOST, "kvm", "kvm_pio", { "rw", "port" }, NULL },
	{ LE_MMIO, ON_HOST, "kvm", "kvm_mmio", { "type", "gpa" }, NULL },
	{ LE_FAST_MMIO, ON_HOST, "kvm", "kvm_fast_mmio", { "gpa" }, NULL },
	{ LE_MSR, ON_HOST, "kvm", "kvm_msr", { "write", "ecx", "data" }, NULL },
	{ LE_SET_IRQ, ON_HOST, "kvm", "kvm_set_irq", { "gsi", "level" }, NULL },
	{ LE_MSI, ON_HOST, "kvm", "kvm_msi_set_irq", { "address", "data" }, NULL },
	{ LE_IPI, ON_HOST, "kvm", "kvm_apic_ipi", { "icr_low", "dest_id" }, NULL },
	{ LE_ACCEPT, ON_HOST, "kvm", "kvm_apic_accept_irq", { "apicid", "vec", "dm" }, NULL },
	{ LE_APICV_ACCEPT, ON_HOST, "kvm", "kvm_apicv_accept_irq", { "apicid", "vec" }, NULL },
	{ LE_INJ, ON_HOST, "kvm", "kvm_inj_virq", { "vector|irq", "soft", "reinjected" }, NULL },
	{ LE_EOI, ON_HOST, "kvm", "kvm_eoi", { "apicid", "vector" }, NULL },
	{ LE_EOI, ON_HOST, "kvm", "kvm_pv_eoi", { "apicid", "vector" }, NULL },
	{ LE_SWITCH, ON_HOST | ON_GUEST, "sched", "sched_switch",
	  { "prev_pid", "prev_state", "next_pid" }, "next_comm" },
	{ LE_WAKE, ON_HOST, "sched", "sched_wakeup", { "pid", "target_cpu" }, NULL },
	{ LE_WAKE, ON_HOST, "sched", "sched_wakeup_new", { "pid", "target_cpu" }, NULL },
	{ LE_RQ_ISSUE, ON_HOST | ON_GUEST, "block", "block_rq_issue",
	  { "dev", "sector", "nr_sector", "bytes" }, "rwbs" },
	{ LE_RQ_COMPLETE, ON_HOST | ON_GUEST, "block", "block_rq_complete",
	  { "dev", "sector", "nr_sector" }, "rwbs" },
	{ LE_IRQ_ENTRY, ON_GUEST, "irq", "irq_handler_entry", { "irq" }, "name" },
	{ LE_IRQ_EXIT, ON_GUEST, "irq", "irq_handler_exit", { "irq" }, NULL },
	{ LE_SOFTIRQ_ENTRY, ON_GUEST, "irq", "softirq_entry", { "vec" }, NULL },
	{ LE_SOFTIRQ_EXIT, ON_GUEST, "irq", "softirq_exit", { "vec" }, NULL },
	{ LE_HRTIMER_START, ON_GUEST, "timer", "hrtimer_start", { "hrtimer", "expires" }, NULL },
	{ LE_HRTIMER_CANCEL, ON_GUEST, "timer", "hrtimer_cancel", { "hrtimer" }, NULL },
	{ LE_HRTIMER_EXPIRE, ON_GUEST, "timer", "hrtimer_expire_entry", { "hrtimer", "now", "function" }, NULL },
	{ LE_Q_READ, ON_QEMU, "qemu", "virtio_blk_handle_read", { "req", "sector", "nsectors" }, NULL },
	{ LE_Q_WRITE, ON_QEMU, "qemu", "virtio_blk_handle_write", { "req", "sector", "nsectors" }, NULL },
	{ LE_Q_DONE, ON_QEMU, "qemu", "virtio_blk_req_complete", { "req" }, NULL },
};

struct decoded {
	enum lat_ev kind; /* LE_NONE: not ours */
	struct fmt_field field[LAT_FIELDS], text;
};

struct lat_decoder {
	const struct fmt *fmt;
	struct decoded *ev;
	size_t nev, ev_cap;
	uint8_t at[UINT16_MAX + 1]; /* event id → index + 1 */
	uint64_t has;		    /* bit per enum lat_ev */
};

static bool field_of(const struct fmt_event *e, const char *names, struct fmt_field *f)
{
	char name[32];

	for (;;) {
		size_t n = strcspn(names, "|");

		snprintf(name, sizeof(name), "%.*s", (int)n, names);
		if (fmt_field(e, name, f))
			return true;
		if (!names[n])
			return false;
		names += n + 1;
	}
}

static struct decoded *add(struct lat_decoder *d, const struct fmt_event *e, enum lat_ev kind)
{
	struct decoded *ev;

	if (d->nev >= UINT8_MAX - 1)
		return NULL;
	ev = array_grow(&d->ev, d->nev, &d->ev_cap, sizeof(*ev));
	if (!ev)
		return NULL;
	ev->kind = kind;
	d->at[fmt_id(e)] = (uint8_t)++d->nev;
	d->has |= 1ull << kind;
	return ev;
}

/* irq_vectors:*_entry and *_exit tell their vector; the list of their names grows with the kernel. */
static int add_vectors(struct lat_decoder *d)
{
	const struct fmt_event *e;
	struct decoded *ev;
	struct fmt_field vector;

	for (size_t i = 0; (e = fmt_at(d->fmt, i)); i++) {
		const char *end = strrchr(fmt_name(e), '_');

		if (strcmp(fmt_sys(e), "irq_vectors") || !end || !fmt_field(e, "vector", &vector))
			continue;
		if (strcmp(end, "_entry") && strcmp(end, "_exit"))
			continue;
		ev = add(d, e, strcmp(end, "_exit") ? LE_VECTOR_ENTRY : LE_VECTOR_EXIT);
		if (!ev)
			return -ENOMEM;
		ev->field[0] = vector;
	}
	return 0;
}

int lat_decoder_new(const struct fmt *fmt, bool guest, struct lat_decoder **out)
{
	struct lat_decoder *d = calloc(1, sizeof(*d));

	*out = d;
	if (!d)
		return -ENOMEM;
	d->fmt = fmt;
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		const struct fmt_event *e = fmt_find(fmt, events[i].sys, events[i].name);
		struct decoded *ev;

		if (!e || !(events[i].side & (guest ? ON_GUEST : ON_HOST)))
			continue;
		ev = add(d, e, events[i].kind);
		if (!ev)
			return -ENOMEM;
		for (size_t k = 0; k < LAT_FIELDS && events[i].field[k]; k++)
			field_of(e, events[i].field[k], &ev->field[k]);
		if (events[i].text)
			fmt_field(e, events[i].text, &ev->text);
	}
	return guest ? add_vectors(d) : 0;
}

static bool decode(const struct fmt *fmt, const struct decoded *ev, const struct tl_item *i, struct lat_in *in)
{
	in->kind = ev->kind;
	in->i = i;
	in->t = i->host;
	in->has = 0;
	for (unsigned int k = 0; k < LAT_FIELDS; k++) {
		in->f[k] = 0;
		if (ev->field[k].size && fmt_u64(fmt, &ev->field[k], i->rec, &in->f[k]))
			in->has |= 1u << k;
	}
	return true;
}

bool lat_decode(const struct lat_decoder *d, const struct tl_item *i, struct lat_in *in)
{
	uint8_t at = d->at[i->rec->id];

	return at && decode(d->fmt, &d->ev[at - 1], i, in);
}

/* QEMU's events have no formats before they are met, and few kinds matter: they are looked up by name. */
bool lat_decode_qemu(const struct tl_item *i, struct lat_in *in)
{
	for (size_t k = ARRAY_SIZE(events); i->ev && k && events[k - 1].side == ON_QEMU; k--) {
		const struct lat_event *e = &events[k - 1];
		struct decoded ev = { .kind = e->kind };

		if (strcmp(fmt_name(i->ev), e->name))
			continue;
		for (size_t n = 0; n < LAT_FIELDS && e->field[n]; n++)
			fmt_field(i->ev, e->field[n], &ev.field[n]);
		return decode(tl_fmt(i), &ev, i, in);
	}
	return false;
}

bool lat_decoder_has(const struct lat_decoder *d, enum lat_ev kind)
{
	return d->has >> kind & 1;
}

void lat_decode_text(const struct lat_decoder *d, const struct lat_in *in, char *buf, size_t size)
{
	const struct decoded *ev = &d->ev[d->at[in->i->rec->id] - 1];

	buf[0] = '\0';
	if (ev->text.size)
		fmt_str(d->fmt, &ev->text, in->i->rec, buf, size);
}

void lat_decoder_free(struct lat_decoder *d)
{
	if (!d)
		return;
	free(d->ev);
	free(d);
}
