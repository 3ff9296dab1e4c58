/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_anchor.c: the anchors of either side.
 *
 * The labels on both sides need not be equal for anchors that belong together: an address on one
 * side is a queue on the other. So they are hashes, and only show that two anchors of one side are
 * about the same thing.
 */
#include "qemu_anchor.h"
#include "kvmft/events.h"

#define KVM_RUN	       0xae80
#define KVM_SIGNAL_MSI 0x4020aea5

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

static uint64_t mix_text(uint64_t hash, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = mix(hash, (uint8_t)s[i]);
	return hash;
}

static int by_lane(const void *a, const void *b)
{
	const struct qanchor *x = a, *y = b;

	return ORDER(x->kind, y->kind) ?: ORDER(x->label, y->label) ?: ORDER(x->at, y->at)
		?: ORDER(x->seq, y->seq);
}

void qanchors_sort_lanes(struct qanchors *a)
{
	if (a->n)
		qsort(a->v, a->n, sizeof(*a->v), by_lane);
}

static int anchor_add(struct qanchors *a, const struct qanchor *v)
{
	return array_add(&a->v, &a->n, &a->cap, v, sizeof(*v));
}

/* ---- the host ---- */

/* They are of use if they have their first `need` fields. */
static const struct {
	enum event_role role;
	size_t need;
} host_events[] = {
	{ EV_ENTRY, 0 }, { EV_EXIT, 0 }, { EV_USER_EXIT, 2 }, { EV_MMIO, 2 },  { EV_FAST_MMIO, 1 },
	{ EV_PIO, 2 },	 { EV_MSI, 2 },	 { EV_SET_IRQ, 2 },   { EV_PRINT, 0 },
};

#define MAX_WAITING 8 /* anchors of a vCPU whose end has not come yet */

/* A thread that runs a vCPU, or raises interrupts. */
struct host_thread {
	uint64_t exit, user; /* kvm_exit, kvm_userspace_exit since the last entry; 0: none */
	uint64_t msi;	     /* its last one */
	uint64_t printed;    /* its last marker, ... */
	size_t print;	     /* ... and the index + 1 of that anchor */
	size_t waiting[MAX_WAITING], nwaiting; /* indices of anchors */
};

struct host_side {
	struct qanchors *out;
	int64_t vm;
	struct event_type type[ARRAY_SIZE(host_events)];
	struct u64map by_tid;
	struct host_thread *t;
	size_t tcap;
};

/* An anchor of a vCPU that ends when the thread enters its guest again. */
static int host_waits(struct host_side *h, struct host_thread *t, const struct qanchor *v)
{
	if (t->nwaiting == MAX_WAITING)
		return 0;
	t->waiting[t->nwaiting++] = h->out->n;
	return anchor_add(h->out, v);
}

/*
 * Settles what waits: an access that did not reach QEMU was handled by the kernel. A doorbell
 * always is, and other accesses may be.
 */
static void host_entry(struct host_side *h, struct host_thread *t, uint64_t host)
{
	for (size_t i = 0; i < t->nwaiting; i++) {
		struct qanchor *a = &h->out->v[t->waiting[i]];

		if (!t->user) {
			a->kind = QANCHOR_BELL;
			continue;
		}
		a->hi = host;
		a->at = a->kind == QANCHOR_RUN ? host : a->at;
	}
	t->exit = t->user = 0;
	t->nwaiting = 0;
}

static int host_user(struct host_side *h, struct host_thread *t, struct qanchor *a, uint32_t tid,
		     const uint64_t f[2])
{
	int ret = 0;

	t->user = a->lo = a->at;
	a->kind = QANCHOR_RUN;
	a->label = tid;
	ret = host_waits(h, t, a);
	a->kind = QANCHOR_EXIT;
	a->label = mix(tid, f[0]);
	return ret || (int32_t)f[1] < 0 ? ret : host_waits(h, t, a);
}

/* Writes are traced before they are handled, reads after. */
static int host_access(struct host_side *h, struct host_thread *t, struct qanchor *a,
		       uint64_t where, bool write)
{
	a->label = mix(write, where);
	if (write) {
		a->kind = QANCHOR_WRITE;
		a->lo = a->at;
		return host_waits(h, t, a);
	}
	if (!t->user)
		return 0; /* served by the kernel */
	a->kind = QANCHOR_READ;
	a->lo = t->user;
	a->hi = a->at;
	return anchor_add(h->out, a);
}

/* A thread raises one after the other: this one came after the previous one was raised. */
static int host_irq(struct host_side *h, struct host_thread *t, struct qanchor *a, int32_t tid,
		    enum event_role e, const uint64_t f[2])
{
	a->kind = QANCHOR_IRQ;
	a->label = mix(mix(mix((uint32_t)tid, e), f[0]), f[1]);
	a->hi = a->at;
	a->lo = e == EV_MSI ? t->msi : 0;
	t->msi = a->at;
	return anchor_add(h->out, a);
}

/*
 * QEMU's back ends are called one after the other, in unknown order: its event is after the
 * thread's previous marker and before its next one.
 */
static int host_print(struct host_side *h, struct host_thread *t, struct qanchor *a,
		      const struct tl_item *i, const struct fmt_field *buf)
{
	struct fmt_value text;
	size_t n = 0;

	fmt_value(buf, i->rec, &text);
	if (text.kind != FMT_STRING)
		return 0;
	while (n < text.len && text.p[n] && text.p[n] != ' ' && text.p[n] != '\n')
		n++;
	if (t->print)
		h->out->v[t->print - 1].hi = a->at;
	h->out->prints = true;
	a->kind = QANCHOR_PRINT;
	a->label = mix_text(0, (const char *)text.p, n);
	a->lo = t->printed;
	t->printed = a->at;
	t->print = h->out->n + 1;
	return anchor_add(h->out, a);
}

static int host_vcpu_event(struct host_side *h, struct host_thread *t, struct qanchor *a,
			   enum event_role e, int32_t tid, const uint64_t f[2])
{
	switch (e) {
	case EV_ENTRY: host_entry(h, t, a->at); return 0;
	case EV_EXIT:
		t->exit = a->at;
		t->user = t->nwaiting = 0; /* nothing is known about an exit whose entry was lost */
		return 0;
	case EV_USER_EXIT: return host_user(h, t, a, (uint32_t)tid, f);
	case EV_MMIO: return f[0] ? host_access(h, t, a, f[1], f[0] == 2) : 0;
	case EV_PIO: return host_access(h, t, a, f[1], f[0]);
	default: /* a doorbell */
		*a = (struct qanchor){ .at = a->at,
				       .lo = a->at,
				       .hi = a->hi,
				       .kind = QANCHOR_BELL,
				       .label = mix(true, f[0]) };
		return anchor_add(h->out, a);
	}
}

static int host_event(struct host_side *h, const struct tl_item *i, size_t at)
{
	enum event_role e = host_events[at].role;
	struct qanchor a = { .at = i->host, .hi = UINT64_MAX };
	struct host_thread *t;
	uint64_t f[2] = { 0 };

	for (size_t k = 0; k < host_events[at].need; k++)
		if (!fmt_u64(&h->type[at].f[k], i->rec, &f[k]))
			return 0;
	if (h->out->n + 2 > QANCHOR_MAX)
		return 0;
	t = u64map_elem(&h->by_tid, (uint32_t)i->tid, &h->t, &h->tcap, sizeof(*t));
	if (!t)
		return -ENOMEM;
	if (e == EV_PRINT)
		return host_print(h, t, &a, i, &h->type[at].f[0]);
	if (e == EV_MSI || e == EV_SET_IRQ)
		return host_irq(h, t, &a, i->tid, e, f);
	if (h->vm >= 0 && i->vm != h->vm)
		return 0;
	return host_vcpu_event(h, t, &a, e, i->tid, f);
}

static int host_item(struct host_side *h, const struct tl_item *i)
{
	/* Entries, exits and interrupts may have been lost: nothing follows from earlier ones. */
	for (size_t k = 0; i->kind != TL_EVENT && k < h->by_tid.n; k++)
		h->t[k] = (struct host_thread){ 0 };
	if (i->kind != TL_EVENT)
		return 0;
	h->out->first = MIN(h->out->first, i->host);
	h->out->last = i->host;
	for (size_t e = 0; i->ev && e < ARRAY_SIZE(host_events); e++)
		if (i->ev == h->type[e].ev)
			return host_event(h, i, e);
	return 0;
}

COMPARE_BY(by_time, struct qanchor, .at);

/* Drops anchors whose end never came. */
static void host_settle(struct host_side *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->out->n; i++) {
		const struct qanchor *a = &h->out->v[i];

		if (a->hi != UINT64_MAX || a->kind == QANCHOR_BELL)
			h->out->v[n++] = *a;
	}
	h->out->n = n;
	if (n)
		qsort(h->out->v, n, sizeof(*h->out->v), by_time);
}

int qanchors_host(struct hostmap *map, int64_t vm, struct qanchors *out, struct kvmft_err *err)
{
	struct host_side h = { .out = out, .vm = vm };
	const struct tl_item *item;
	struct timeline *t;
	int ret;

	out->first = UINT64_MAX;
	for (size_t e = 0; e < ARRAY_SIZE(host_events); e++)
		event_find(map->fmt, host_events[e].role, host_events[e].need, &h.type[e]);
	ret = tl_new(map, &t, err);
	ret = ret ?: tl_start(t, err);
	while (!ret && (ret = tl_next(t, &item)) > 0)
		ret = host_item(&h, item);
	tl_free(t);
	host_settle(&h);
	u64map_free(&h.by_tid);
	free(h.t);
	return ret < 0 ? ret : 0;
}

/* ---- QEMU ---- */

static const struct {
	const char *name;
	enum qanchor_kind kind;
	/* Only this argument says what it is about; NULL: all of them. raw: its number. */
	const char *about;
	uint32_t raw;
	uint64_t ioctl; /* its argument "type" must have this value; 0: it has none */
} qemu_events[] = {
	{ "virtio_queue_notify", QANCHOR_BELL, NULL, 0, 0 },
	{ "virtio_notify", QANCHOR_IRQ, NULL, 0, 0 },
	{ "virtio_notify_irqfd", QANCHOR_IRQ, NULL, 0, 0 },
	{ "kvm_vm_ioctl", QANCHOR_IRQ, "type", 0, KVM_SIGNAL_MSI },
	{ "kvm_run_exit", QANCHOR_EXIT, NULL, 0, 0 },
	{ "kvm_vcpu_ioctl", QANCHOR_RUN, "cpu_index", 0, KVM_RUN },
	{ "memory_region_ops_write", QANCHOR_WRITE, "addr", 2, 0 },
	{ "memory_region_ops_read", QANCHOR_READ, "addr", 2, 0 },
};

/* The number after its name in a text, as in "addr 0x70 value". */
static bool text_arg(const struct qtrace_item *i, const char *name, uint64_t *value)
{
	size_t len = strlen(name), at = 0;
	char number[24];

	for (; at + len + 1 < i->text_len; at++)
		if ((!at || i->text[at - 1] == ' ') && !memcmp(i->text + at, name, len) &&
		    i->text[at + len] == ' ')
			break;
	if (at + len + 1 >= i->text_len)
		return false;
	at += len + 1;
	len = MIN(i->text_len - at, sizeof(number) - 1);
	memcpy(number, i->text + at, len);
	number[len] = '\0';
	*value = strtoull(number, NULL, 0);
	return number[0] >= '0' && number[0] <= '9';
}

/* An argument by name, or by number if it is not declared. */
static bool qemu_arg(const struct qtrace_item *i, const char *name, uint32_t raw, uint64_t *value)
{
	for (size_t k = 0; i->has_args && k < i->ev->nargs; k++)
		if (!strcmp(i->ev->arg[k].name, name)) {
			*value = i->arg[k].num;
			return true;
		}
	if (!i->has_args && i->text)
		return text_arg(i, name, value);
	if (i->has_args || raw >= i->nraw)
		return false;
	*value = i->raw[raw];
	return true;
}

static uint64_t qemu_label(const struct qtrace_item *i)
{
	uint64_t hash = 0;

	if (i->has_args)
		for (size_t k = 0; k < i->ev->nargs; k++)
			hash = i->arg[k].s ? mix_text(hash, i->arg[k].s, i->arg[k].len)
					   : mix(hash, i->arg[k].num);
	else if (i->text)
		hash = mix_text(hash, i->text, i->text_len);
	else
		for (uint32_t k = 0; k < i->nraw; k++)
			hash = mix(hash, i->raw[k]);
	return hash;
}

static bool qemu_known(const struct qtrace_item *i, struct qanchor *a)
{
	uint64_t type;

	for (size_t e = 0; e < ARRAY_SIZE(qemu_events); e++) {
		if (strlen(qemu_events[e].name) != i->name_len ||
		    memcmp(qemu_events[e].name, i->name, i->name_len))
			continue;
		/* The argument "type" has number 0 in events of VMs and 1 in those of vCPUs. */
		if (qemu_events[e].ioctl &&
		    (!qemu_arg(i, "type", qemu_events[e].kind == QANCHOR_RUN, &type) ||
		     type != qemu_events[e].ioctl))
			return false;
		a->kind = (uint8_t)qemu_events[e].kind;
		if (!qemu_events[e].about)
			a->label = qemu_label(i);
		else if (!qemu_arg(i, qemu_events[e].about, qemu_events[e].raw, &a->label))
			return false;
		a->label = mix(mix(a->label, e), (uint32_t)i->tid);
		return true;
	}
	return false;
}

static int qemu_event(const struct qtrace_item *i, bool prints, struct qanchors *out)
{
	struct qanchor a = { .at = i->ns, .seq = (uint32_t)out->n };
	int ret;

	out->unit = MAX(out->unit, i->unit);
	ret = qemu_known(i, &a) ? anchor_add(out, &a) : 0;
	a.kind = QANCHOR_PRINT;
	a.label = mix_text(0, i->name, i->name_len);
	return ret || !prints ? ret : anchor_add(out, &a);
}

int qanchors_qemu(struct qtrace *trace, bool prints, struct qanchors *out)
{
	struct qtrace_item i;
	int ret = 0;

	while (out->n + 2 <= QANCHOR_MAX && (ret = qtrace_next(trace, &i)) > 0) {
		if (i.kind != QTRACE_EVENT || i.clock == QTRACE_NO_CLOCK)
			continue;
		ret = qemu_event(&i, prints, out);
		if (ret < 0)
			break;
	}
	return MIN(ret, 0);
}

void qanchors_free(struct qanchors *a)
{
	free(a->v);
	*a = (struct qanchors){ 0 };
}
