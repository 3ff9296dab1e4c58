/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shift.c: the TSC offsets of a guest from its trace.dat, as trace-cmd writes them when it records
 * host and guest together (option TIME_SHIFT); the host's own file does not have them.
 *
 * A sample is { time, offset, scaling }: from that guest TSC on, the host's is guest TSC + offset.
 * So KVM's offset is its negative, and the ratio is KVM's own, which no other reader applies in the
 * right direction.
 */

#include "kvmft/hostmap.h"

#define MAX_CHANGES 64	 /* of one vCPU: each costs a walk over all events of its CPU */
#define MAX_LINES   1024 /* ... where samples are joined by lines */

static struct tsc_map map_of(const struct cap_shift *s, const struct cap_shift_sample *v)
{
	struct tsc_map map = { .offset = 0 - (uint64_t)v->offset };

	if (s->frac) { /* else the ratio is 1 */
		map.ratio = (uint64_t)v->scaling;
		map.frac = s->frac > 0 && s->frac < 64 ? (uint8_t)s->frac : 64; /* 64: refused */
	}
	return map;
}

/* The basis of the search below. */
struct widest {
	uint64_t change, until, last, first, gap;
};

static int see_gap(void *arg, const struct rec *rec)
{
	struct widest *w = arg;
	uint64_t gap = w->last && rec->ts > w->last ? rec->ts - w->last : 0;

	if (rec->ts >= w->until && gap > w->change) {
		w->first = w->until;
	} else if (rec->ts < w->until && gap > w->gap) {
		w->first = rec->ts;
		w->gap = gap;
	}
	w->last = rec->ts;
	return w->last >= w->until;
}

/*
 * trace-cmd samples from time to time; the offset may have changed before it saw that. If events
 * before and after guest TSC `until`, when it looked, are further apart than the change, it is
 * exact. Else the new offset begins with the event whose stamp exceeds the previous one by more
 * than the change, and by most.
 */
static uint64_t first_after(const struct capture *guest, uint32_t cpu, uint64_t change,
			    uint64_t until)
{
	const struct cap_stream *st = NULL;
	struct widest w = { .change = change, .until = until, .first = until, .gap = change };

	for (size_t i = 0; i < guest->nstream && !st; i++)
		if (guest->stream[i].cpu == cpu && !*guest->stream[i].instance)
			st = &guest->stream[i];
	if (st && change && !(change >> 63))
		(void)!rstream_each(guest, st, see_gap, &w);
	return w.first;
}

/* Guest from host time on the line from one sample to another: a ratio and an offset. */
static struct tsc_map shift_line(const struct cap_shift_sample *a, const struct cap_shift_sample *b)
{
	struct tsc_map map = { .offset = 0 - (uint64_t)a->offset };
	__int128 guest = (__int128)b->time - a->time, host = guest + b->offset - a->offset;
	uint64_t begin = (uint64_t)a->time + (uint64_t)a->offset;

	if (guest <= 0 || host <= guest / 2 || host > guest * 2 || host == guest)
		return map;
	map.frac = 48;
	map.ratio = (uint64_t)(((unsigned __int128)guest << map.frac) / (unsigned __int128)host);
	map.offset =
		(uint64_t)a->time - (uint64_t)(((unsigned __int128)begin * map.ratio) >> map.frac);
	return map;
}

void hostmap_add_shift(struct hostmap *m, size_t vm, const struct capture *guest)
{
	/* Bit 0: PTP's, to be interpolated, not KVM's. */
	if (!guest->nshift || !m->cap->trace_id || guest->shift_peer != m->cap->trace_id ||
	    ((guest->shift_flags & 1) && !guest->unit_ns) || !cap_in_tsc(guest))
		return;
	for (size_t i = 0; i < guest->nshift; i++) {
		uint32_t vcpu = cap_vcpu_of_cpu(guest, (uint32_t)i);

		if (!guest->shift[i].nsample || epoch_vm_has_map(m->vm[vm].epochs, vcpu))
			continue;
		if (guest->shift_flags & 1) {
			const struct cap_shift *s = &guest->shift[i];
			size_t step = s->nsample / MAX_LINES + 1;

			/* What PTP found holds from sample to sample along a line. */
			for (size_t k = 0; !k || k + 1 < s->nsample; k += step) {
				const struct cap_shift_sample *a = &s->sample[k];
				struct tsc_map map =
					shift_line(a, &s->sample[MIN(k + step, s->nsample - 1)]);
				uint64_t from = k ? (uint64_t)a->time + (uint64_t)a->offset : 0;

				if (!tsc_map_check(&map))
					hostmap_force_vcpu(m, vm, vcpu, from, &map);
			}
		} else {
			const struct cap_shift *s = &guest->shift[i];
			uint32_t cpu = (uint32_t)i;
			unsigned int changes = 0;
			uint64_t lo, hi, from;
			struct tsc_map map = map_of(s, &s->sample[0]);

			if (tsc_map_check(&map)) /* nonsense: the vCPU stays without */
				continue;
			hostmap_force_vcpu(m, vm, vcpu, 0, &map);
			for (size_t k = 1; k < s->nsample && changes < MAX_CHANGES; k++) {
				struct tsc_map next = map_of(s, &s->sample[k]);

				if (next.offset == map.offset)
					continue;
				from = first_after(guest, cpu, next.offset - map.offset,
						   (uint64_t)s->sample[k].time);
				map.offset = next.offset;
				changes++;
				if (!tsc_to_host(&map, from, &lo, &hi) && lo)
					hostmap_force_vcpu(m, vm, vcpu, lo, &map);
			}
		}
	}
	hostmap_rebuild(m, vm);
}
