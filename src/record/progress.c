/* SPDX-License-Identifier: GPL-2.0-or-later */
/* progress.c: what is reported of a recording while it runs. */
#include "record.h"

static uint64_t bytes_stored(struct record *r)
{
	uint64_t n;

	pthread_mutex_lock(&r->store.lock);
	n = r->store.used;
	pthread_mutex_unlock(&r->store.lock);
	return n;
}

void record_progress_tell(struct record *r)
{
	uint64_t now = util_now_ns(), events = 0, since = now - r->progress.ns;
	struct record_progress p = {
		.elapsed_ns = now - r->live_ns,
		.left_ns = UINT64_MAX,
		.bytes = bytes_stored(r),
		.sent = r->out.stream != NULL,
		.waits_for = r->flight.armed && !r->flight.fired ? r->c->trigger : NULL,
	};
	struct kstats s;

	if (!r->c->progress && !r->c->control.news)
		return;
	for (size_t i = 0; i < r->ncpu; i++)
		if (!kinst_stats(r->k, r->drain[i].cpu, &s, NULL)) {
			/* A flight recorder's ring is meant to overwrite what is old. */
			p.lost += s.commit_overrun + s.dropped + (r->c->flight ? 0 : s.overrun);
			events += s.entries + s.read + s.overrun + s.commit_overrun + s.dropped;
		}
	if (r->progress.ns && since && events >= r->progress.events)
		p.per_second = (uint64_t)((unsigned __int128)(events - r->progress.events) *
					  1000000000u / since);
	else
		p.per_second = (uint64_t)((unsigned __int128)events * 1000000000u /
					  MAX(p.elapsed_ns, (uint64_t)1));
	if (r->c->duration.set)
		p.left_ns = r->c->duration.v - MIN(r->c->duration.v, p.elapsed_ns);
	r->progress.ns = now;
	r->progress.events = events;
	if (r->c->progress)
		r->c->progress(&p);
	else
		r->c->control.news(r->c->control.ctx, RECORD_NEWS_PROGRESS, 0, &p);
}
