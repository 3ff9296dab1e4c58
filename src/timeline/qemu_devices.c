/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_devices.c: ioeventfds and the devices behind them, from QEMU's events.
 *
 * kvm_set_ioeventfd_mmio has the address and a file descriptor, but no name. memory_region_ops_read
 * and _write of the same address have the name: drivers access their doorbells before they become
 * eventfds.
 */
#include "qemu_devices.h"
#include "kvmft/events.h"

#define MAX_REGISTRATIONS 65536
#define MAX_NAMES	  4096

static bool is(const struct qtrace_item *i, const char *name)
{
	return strlen(name) == i->name_len && !memcmp(name, i->name, i->name_len);
}

static const struct qev_value *arg(const struct qtrace_item *i, const char *name)
{
	for (size_t k = 0; k < i->ev->nargs; k++)
		if (!strcmp(i->ev->arg[k].name, name))
			return &i->arg[k];
	return NULL;
}

static int region(struct qdevices *d, const struct qtrace_item *i)
{
	const struct qev_value *addr = arg(i, "addr"), *name = arg(i, "name");
	char **slot;

	if (!addr || !name || !name->s || !name->len || d->nname >= MAX_NAMES ||
	    u64map_get(&d->region, addr->num, NULL))
		return 0;
	slot = array_grow(&d->name, d->nname, &d->name_cap, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	*slot = strndup(name->s, MIN(name->len, 64u));
	if (!*slot)
		return -ENOMEM;
	str_printable(*slot);
	d->nname++;
	return u64map_put(&d->region, addr->num, d->nname);
}

static int registration(struct qdevices *d, const struct qtrace_item *i, uint64_t host, int64_t vm)
{
	const struct qev_value *addr = arg(i, "addr"), *fd = arg(i, "fd"),
			       *assign = arg(i, "assign");
	struct qdevice *v;
	uint64_t before;

	if (!addr || !fd || !assign || d->n >= MAX_REGISTRATIONS)
		return 0;
	v = array_grow(&d->v, d->n, &d->cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	*v = (struct qdevice){ .addr = addr->num, .from = host, .vm = vm,
			       .fd = assign->num ? (int32_t)fd->num : -1 };
	if (u64map_get(&d->last, addr->num, &before))
		v->before = before + 1;
	d->n++;
	return u64map_put(&d->last, addr->num, d->n - 1);
}

int qdevices_feed(struct qdevices *d, const struct qtrace_item *i, uint64_t host, int64_t vm)
{
	if (i->kind != QTRACE_EVENT || !i->has_args)
		return 0;
	if (is(i, "kvm_set_ioeventfd_mmio"))
		return registration(d, i, host, vm);
	if (is(i, "memory_region_ops_write") || is(i, "memory_region_ops_read"))
		return region(d, i);
	return 0;
}

int qdevices_name(struct qdevices *d)
{
	uint64_t at;

	for (size_t i = 0; i < d->n; i++) {
		struct sbuf b = { 0 };

		if (d->v[i].fd < 0 || d->v[i].name)
			continue;
		if (u64map_get(&d->region, d->v[i].addr, &at))
			sbuf_add(&b, d->name[at - 1]);
		else
			sbuf_addf(&b, "ioeventfd %lld", (long long)d->v[i].fd);
		d->v[i].name = sbuf_take(&b);
		sbuf_free(&b);
		if (!d->v[i].name)
			return -ENOMEM;
	}
	return 0;
}

/* The device behind an address at that time; NULL: unknown. */
static const char *device_at(const struct qdevices *d, uint64_t addr, uint64_t host, int64_t vm)
{
	uint64_t at;

	if (!u64map_get(&d->last, addr, &at))
		return NULL;
	for (at++; at; at = d->v[at - 1].before) {
		const struct qdevice *v = &d->v[at - 1];

		if (v->from <= host && (vm < 0 || v->vm < 0 || v->vm == vm))
			return v->name; /* NULL: given back */
	}
	return NULL;
}

void qdevices_bells(struct qdevices *d, const struct fmt *fmt)
{
	struct event_type t;

	event_find(fmt, EV_FAST_MMIO, 1, &t);
	d->bell[0].ev = t.ev;
	d->bell[0].gpa = t.f[0];
	event_find(fmt, EV_MMIO, 2, &t);
	d->bell[1].ev = t.ev;
	d->bell[1].gpa = t.f[1];
}

void qdevices_item(const struct qdevices *d, struct tl_item *item)
{
	uint64_t gpa;

	for (size_t i = 0; i < ARRAY_SIZE(d->bell); i++)
		if (item->ev == d->bell[i].ev && fmt_u64(&d->bell[i].gpa, item->rec, &gpa))
			item->device = device_at(d, gpa, item->host, item->vm);
}

void qdevices_free(struct qdevices *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].name);
	for (size_t i = 0; i < d->nname; i++)
		free(d->name[i]);
	free(d->v);
	free(d->name);
	u64map_free(&d->last);
	u64map_free(&d->region);
	*d = (struct qdevices){ 0 };
}
