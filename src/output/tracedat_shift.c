/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tracedat_shift.c: how a reader of trace.dat files has to move a guest's TSC onto its host's.
 *
 * Readers add to a stamp the offset of the last sample whose time is not after it; the times are
 * the guest's own, and the last sample is never used. So each epoch of a vCPU's TSC offset is a
 * sample from where it begins, the first one from 0, and one more closes the list. All readers get
 * scaling wrong, and a TSC that was set back cannot be expressed in their order.
 */

#include "kvmft/export.h"

static int add_sample(struct cap_shift *s, size_t *cap, int64_t time, uint64_t tsc_offset)
{
	const struct cap_shift_sample v = { .time = time, .offset = (int64_t)(0 - tsc_offset),
					    .scaling = 1 };

	return array_add(&s->sample, &s->nsample, cap, &v, sizeof(v));
}

static int shift_of(const struct epoch_vcpu *v, struct cap_shift *s)
{
	size_t cap = 0;
	uint64_t last = 0;
	int64_t time = -1;
	int ret = 0;

	for (size_t i = 0; v && i < v->n && !ret; i++) {
		const struct epoch *e = &v->v[i];

		if (!e->has_map || (s->nsample && e->map.offset == last))
			continue;
		if (e->map.ratio && e->map.ratio != 1ull << e->map.frac)
			return -EOPNOTSUPP;
		last = e->map.offset;
		if (s->nsample && (int64_t)(e->from + last) <= time)
			return -ERANGE;
		time = s->nsample ? (int64_t)(e->from + last) : 0;
		ret = add_sample(s, &cap, time, last);
	}
	if (!ret && !s->nsample)
		return -ENODATA;
	return ret ?: add_sample(s, &cap, INT64_MAX, last);
}

static int explain(struct kvmft_err *err, const char *path, int ret)
{
	switch (ret) {
	case -EOPNOTSUPP:
		return err_set(err, EOPNOTSUPP,
			       "%s: its TSC is scaled, which no reader of "
			       "TIME_SHIFT gets right: leave --time-shift out",
			       path);
	case -ERANGE:
		return err_set(err, ERANGE,
			       "%s: its TSC was set back while it was recorded, which "
			       "TIME_SHIFT cannot tell: leave --time-shift out",
			       path);
	case -ENODATA: return err_lack(err, ENODATA, "%s: the TSC offset of a vCPU is not known: "
				       "give it with --tsc-offset", path);
	}
	return ret;
}

int export_time_shift(const struct pairing *p, const struct pairing_guest *g, struct tdw *w,
		      const struct tdw_spec *spec, struct kvmft_err *err)
{
	const struct capture *c = g->c.cap;
	const struct epoch_vm *vm = p->map->vm[g->vm].epochs;
	struct cap_shift *s;
	int ret = 0;

	if (!cap_in_tsc(c))
		return err_set(err, EOPNOTSUPP,
			       "%s: its trace clock is %s, not x86-tsc: leave --time-shift out",
			       c->path, c->clock ?: "unknown");
	s = calloc(spec->cpus + 1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	for (uint32_t i = 0; i < spec->cpus && !ret; i++)
		ret = explain(err, c->path,
			      shift_of(epoch_vm_find(vm, cap_vcpu_of_cpu(c, i)), &s[i]));
	ret = ret ?: tdw_time_shift_option(w, tdw_trace_id(p->host.cap), 0, s, spec->cpus);
	for (uint32_t i = 0; i < spec->cpus; i++)
		free(s[i].sample);
	free(s);
	return ret;
}
