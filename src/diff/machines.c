/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * machines.c: how the recorded machines differ, as far as the captures say.
 *
 * What only one of the captures says is no difference between the machines, but between recorders.
 */
#include "kvmft/diff.h"

#define VCPUS 512 /* of a VM, whose clocks are compared */

/* Both values, which are taken over (NULL: out of memory); kept if they differ. */
static int fact_add(struct diff *d, const char *name, char *before, char *after)
{
	struct diff_fact *f = NULL;
	int ret = before && after ? 0 : -ENOMEM;

	if (!ret && strcmp(before, after)) {
		f = array_grow(&d->fact, d->nfact, &d->fact_cap, sizeof(*f));
		ret = f ? 0 : -ENOMEM;
	}
	if (!f) {
		free(before);
		free(after);
		return ret;
	}
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->value[0] = before;
	f->value[1] = after;
	d->nfact++;
	return 0;
}

static int text(struct diff *d, const char *name, const char *before, const char *after)
{
	return before && after ? fact_add(d, name, strdup(before), strdup(after)) : 0;
}

static char *number_text(uint64_t v)
{
	char *s = NULL;

	return asprintf(&s, "%llu", (unsigned long long)v) < 0 ? NULL : s;
}

static int number(struct diff *d, const char *name, uint64_t before, uint64_t after)
{
	return before && after ? fact_add(d, name, number_text(before), number_text(after)) : 0;
}

/* Each boot measures the TSC a little differently. */
static bool far(uint64_t a, uint64_t b)
{
	return MAX(a, b) - MIN(a, b) > MAX(a, b) / 1000;
}

/* ---- parameters of modules ---- */

static const char *param(const struct capture *c, const struct cap_param *p)
{
	for (size_t i = 0; i < c->nparam; i++)
		if (!strcmp(c->param[i].module, p->module) && !strcmp(c->param[i].name, p->name))
			return c->param[i].value;
	return NULL;
}

static int params(struct diff *d, const struct capture *a, const struct capture *b)
{
	char name[128];
	int ret = 0;

	for (size_t i = 0; i < a->nparam && !ret; i++) {
		snprintf(name, sizeof(name), "%s.%s", a->param[i].module, a->param[i].name);
		ret = text(d, name, a->param[i].value, param(b, &a->param[i]));
	}
	return ret;
}

/* ---- vCPUs ---- */

/* "2 vCPUs of vm1" for each VM, so that VMs with other PIDs can be compared. */
static char *vms_text(const struct capture *c)
{
	struct sbuf b = { 0 };

	for (size_t i = 0; i < c->nvm; i++) {
		const struct cap_vm *vm = &c->vm[i];
		struct u64map ids = { 0 };

		for (size_t k = 0; k < vm->nvcpu && !b.error; k++)
			b.error = u64map_put(&ids, vm->vcpu[k].id, 0);
		sbuf_addf(&b, "%s%zu", i ? ", " : "", ids.n);
		u64map_free(&ids);
		if (vm->name)
			sbuf_addf(&b, " of %s", vm->name);
	}
	if (!b.s)
		sbuf_add(&b, "none");
	return sbuf_take(&b);
}

static int vcpu(struct diff *d, const char *vm, const struct cap_vcpu *a, const struct cap_vcpu *b)
{
	char name[64], *x = NULL, *y = NULL;

	if (!a->has_offset || !b->has_offset)
		return 0;
	snprintf(name, sizeof(name), "TSC ratio of %.24s/%u", vm, a->id);
	if (asprintf(&x, "%llu/2^%u", (unsigned long long)a->ratio, a->frac) < 0)
		x = NULL;
	if (asprintf(&y, "%llu/2^%u", (unsigned long long)b->ratio, b->frac) < 0)
		y = NULL;
	if (fact_add(d, name, x, y))
		return -ENOMEM;
	snprintf(name, sizeof(name), "TSC offset of %.24s/%u", vm, a->id);
	x = y = NULL;
	if (asprintf(&x, "%lld", (long long)a->offset) < 0)
		x = NULL;
	if (asprintf(&y, "%lld", (long long)b->offset) < 0)
		y = NULL;
	return fact_add(d, name, x, y);
}

/* The same VM: another one's TSC offset differs in any case. */
static int offsets(struct diff *d, const struct cap_vm *a, const struct cap_vm *b)
{
	int ret = 0;

	if (strcmp(a->id, b->id) || (a->uuid && b->uuid && strcmp(a->uuid, b->uuid)))
		return 0;
	for (size_t i = 0; i < MIN(a->nvcpu, (size_t)VCPUS) && !ret; i++)
		for (size_t k = 0; k < MIN(b->nvcpu, (size_t)VCPUS) && !ret; k++)
			if (a->vcpu[i].id == b->vcpu[k].id) {
				ret = vcpu(d, a->name ?: a->id, &a->vcpu[i], &b->vcpu[k]);
				break;
			}
	return ret;
}

int diff_machines(struct diff *d)
{
	const struct capture *a = d->side[0].cap, *b = d->side[1].cap;
	int ret = text(d, "kernel", a->uname, b->uname);

	ret = ret ?: text(d, "CPU vendor", a->vendor, b->vendor);
	ret = ret ?: text(d, "hypervisor", a->hypervisor, b->hypervisor);
	ret = ret ?: number(d, "CPUs recorded", a->nstream, b->nstream);
	if (!ret && far(a->tsc_khz, b->tsc_khz))
		ret = number(d, "TSC kHz", a->tsc_khz, b->tsc_khz);
	ret = ret ?: text(d, "clocksource", a->clocksource, b->clocksource);
	ret = ret ?: text(d, "trace clock", a->clock, b->clock);
	ret = ret ?: text(d, "kvmft", a->tool, b->tool);
	ret = ret ?: params(d, a, b);
	if (!ret && a->nvm && b->nvm)
		ret = fact_add(d, "vCPUs", vms_text(a), vms_text(b));
	for (size_t i = 0; i < a->nvm && !ret; i++)
		for (size_t k = 0; k < b->nvm && !ret; k++)
			ret = offsets(d, &a->vm[i], &b->vm[k]);
	return ret;
}
