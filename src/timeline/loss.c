/* SPDX-License-Identifier: GPL-2.0-or-later */
/* loss.c: what a source of the time line lost, by gaps in its stream and by its counters. */
#include "kvmft/timeline.h"

static uint64_t cpu_lost(const struct capture *c, const struct cap_cpustat *st)
{
	uint64_t lost = st->dropped + st->commit_overrun + (c->flight ? 0 : st->overrun);

	/* What a limit left in the ring; a trace.dat's counters are older than its end. */
	return lost + (c->flight || c->is_tracedat ? 0 : st->entries);
}

/* trimmed: what is in removed segments was not counted among the events. */
static void loss_of(const struct capture *cap, bool trimmed, uint64_t events, uint64_t lost,
		    bool lost_unknown, struct tl_loss *loss)
{
	uint64_t counters = 0;
	bool have = false;

	/*
	 * The overrun counter includes what the pages flag; dropped and commit overrun are
	 * separate. What was read from the ring but is not in the files was lost on the way, or cut
	 * off since.
	 */
	for (size_t i = 0; i < cap->ncpu; i++) {
		const struct cap_cpustat *b = &cap->cpu[i].begin, *e = &cap->cpu[i].end;

		if (!e->valid)
			continue;
		have = true;
		counters += cpu_lost(cap, e);
		counters -= b->valid ? cpu_lost(cap, b) : 0;
	}
	/* If segments were removed on purpose, there is no way to tell. */
	if ((cap->complete || cap->is_tracedat) && !trimmed)
		counters += capture_missing(cap, events);
	/* What a flight recorder overwrote is no loss, but a gap within its data is. */
	loss->total = have ? MAX(counters, cap->flight || trimmed ? 0 : lost) : lost;
	loss->unknown = !have && (lost_unknown || !cap->complete);
}

uint64_t tl_missing(const struct tl_source *s)
{
	return s->windowed || s->qemu || !s->cap->is_tracedat ? 0
							      : capture_missing(s->cap, s->events);
}

void tl_loss(const struct tl_source *s, struct tl_loss *loss)
{
	/* Counters are for the whole capture; gaps of a flight recorder are no loss. */
	if (s->windowed && s->cap->flight)
		*loss = (struct tl_loss){ 0 };
	else if (s->windowed)
		*loss = (struct tl_loss){ .total = s->lost, .unknown = s->lost_unknown };
	else
		loss_of(s->cap, s->cap->trimmed && !s->followed, s->events, s->lost,
			s->lost_unknown, loss);
	if (s->no_end)
		loss->unknown = s->lost_unknown;
	loss->unknown |= s->missed && !s->followed;
}

void tl_loss_of(const struct capture *cap, uint64_t events, uint64_t lost, bool lost_unknown,
		struct tl_loss *loss)
{
	loss_of(cap, cap->trimmed, events, lost, lost_unknown, loss);
}

static bool is_damaged(const struct tl_source *s)
{
	for (size_t i = 0; i < s->cap->ndamage; i++)
		if (tl_source_is_damage(s, &s->cap->damage[i]))
			return true;
	return s->damaged;
}

bool tl_source_complete(const struct tl_source *s)
{
	struct tl_loss loss;

	tl_loss(s, &loss);
	return !loss.total && !loss.unknown && !s->error && !is_damaged(s) &&
	       !(s->qemu && s->unplaced);
}
