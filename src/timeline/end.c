/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * end.c: when the recording of a source ended, told before it is walked.
 */
#include "kvmft/own_tsc.h"
#include "priv.h"

/* A stamp of one of its CPUs, on the first host's TSC. */
static bool place(const struct timeline *t, const struct tl_source *s, uint32_t cpu, uint64_t ts, uint64_t *host)
{
	const struct epoch_vcpu *e;
	uint64_t lo, width;

	if (s->link)
		return migrate_to_line(s->link, ts, host);
	if (!s->guest && !s->alone && t->map->own) {
		if (!own_tsc_place(t->map->own, ts, host, &width))
			return false;
		*host += width;
		return true;
	}
	if (!s->guest || s->alone) {
		*host = ts;
		return true;
	}
	e = epoch_vm_find(t->map->vm[s->vm].epochs, cap_vcpu_of_cpu(s->cap, cpu));
	return e && epoch_result_usable(guest_time_to_host(t->gtime[s->index], e, ts, &lo, host));
}

/* What the recorder said of that, in cycles of the source's machine. */
static bool said(const struct timeline *t, const struct tl_source *s, uint64_t *host)
{
	const struct epoch_vm *vm = s->guest && !s->alone ? t->map->vm[s->vm].epochs : NULL;
	const struct epoch_vcpu *e = vm && vm->n ? vm->vcpus[0] : NULL;
	uint64_t lo;

	if (!s->cap->stop_tsc)
		return false;
	if (!s->guest || s->alone) {
		*host = s->cap->stop_tsc;
		return !s->link || migrate_to_line(s->link, s->cap->stop_tsc, host);
	}
	return e && epoch_result_usable(epoch_guest_to_host(e, s->cap->stop_tsc, &lo, host));
}

bool tl_source_end(const struct timeline *t, const struct tl_source *s, uint64_t *host)
{
	bool any = false;

	*host = 0;
	if (said(t, s, host))
		return true;
	for (size_t i = 0; i < s->cap->nstream; i++) {
		uint64_t ts, at;

		if (rstream_end(s->cap, &s->cap->stream[i], &ts) || !ts || !place(t, s, s->cap->stream[i].cpu, ts, &at))
			continue;
		*host = MAX(*host, at);
		any = true;
	}
	return any;
}
