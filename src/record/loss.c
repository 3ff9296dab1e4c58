/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * loss.c: every event that was produced is in the capture or counted as lost, per CPU.
 *
 * A ring that overwrites its oldest events flags and counts them in the data. One that refuses new
 * events when it is full only counts them, so the threads read that counter each time they have
 * taken something: if it rose, that is written to meta, as the stretch of time between two
 * readings. What was taken from the kernel but did not fit on the disk is counted event by event;
 * what was left in the kernel is counted there.
 */
#include "record.h"
#include "kvmft/ring.h"

/* From here on an output is called too slow: of the time, or of what a pipe holds. */
#define SLOW_PERCENT 50u
#define SLOW_NS	     100000000u

static bool keeps_oldest(const struct record *r)
{
	return !r->c->overwrite && !r->c->flight;
}

/* ---- from the draining threads ---- */

int record_loss_join(void *record, void *subbuf, const void *more)
{
	const struct subbuf_geom g = subbuf_geom_here(((struct record *)record)->store.subbuf);

	return subbuf_join(subbuf, more, &g);
}

uint64_t record_loss_events(void *record, const void *data)
{
	const struct subbuf_geom g = subbuf_geom_here(((struct record *)record)->store.subbuf);
	struct subbuf sb;
	struct rec rec = { 0 };
	uint64_t n = 0;

	if (subbuf_begin(&sb, data, &g))
		return 0;
	while (subbuf_next(&sb, &rec) > 0)
		n++;
	return n;
}

/* Sub-buffers of the ring; the kernel rounds up, and has at least two. */
static uint64_t ring_subbufs(const struct record *r)
{
	uint64_t data = r->store.subbuf - 8 - sizeof(long);

	return MAX((record_ring_bytes(r) + data - 1) / data, (uint64_t)2);
}

static uint64_t subbufs_taken(const struct record *r, const struct drain_cpu *c)
{
	return c->bytes / r->store.subbuf + c->dropped;
}

/*
 * The ring was full when it refused, so the loss is before the sub-buffer that comes a whole ring
 * after those taken by then: at least those of the last look, at most those of now. One more may be
 * with the reader, outside the ring, and with --flush be taken in two parts.
 */
static void lost_line(struct record *r, const struct drain_cpu *c, const struct record_seen *last,
		      const struct kstats *s)
{
	const struct cap_loss loss = {
		.cpu = c->cpu,
		.count = s->dropped - last->dropped,
		.from = last->now,
		.to = s->now + s->now_step,
		.first = last->taken + ring_subbufs(r),
		.last = subbufs_taken(r, c) + ring_subbufs(r) + 2,
	};
	struct sbuf line = { 0 };

	meta_lost(&line, &loss);
	record_store_add(r, &line);
}

void record_loss_look(void *record, struct drain_cpu *c)
{
	struct record *r = record;
	struct record_seen *seen = &r->seen[c - r->drain];
	struct kstats s;

	if (!keeps_oldest(r) || kinst_stats(r->k, c->cpu, &s, NULL) || !s.now)
		return;
	if (s.dropped > seen->dropped)
		lost_line(r, c, seen, &s);
	seen->dropped = s.dropped;
	seen->now = s.now;
	seen->taken = subbufs_taken(r, c);
}

/* ---- begin and end ---- */

static int stats_read(struct record *r, uint32_t cpu, struct kstats *s)
{
	int ret = kinst_stats(r->k, cpu, s, NULL);

	return err_why(r->err, ret, "cannot read the statistics of CPU %u", cpu);
}

static int stats_record(struct record *r, const char *when, uint32_t cpu, const struct kstats *s,
			const struct drain_cpu *c)
{
	const struct cap_cpustat st = {
		.entries = s->entries, .overrun = s->overrun, .commit_overrun = s->commit_overrun,
		.dropped = s->dropped, .read = s->read,
	};

	meta_stats(&r->line, when, cpu, &st);
	if (c)
		meta_u64(&r->line, "subbufs", c->bytes / r->store.subbuf);
	if (c && c->dropped_events)
		meta_u64(&r->line, "unstored", c->dropped_events);
	return record_put(r);
}

int record_loss_begin(struct record *r)
{
	struct kstats s;
	int ret = 0;

	for (size_t i = 0; i < r->ncpu && !ret; i++) {
		ret = stats_read(r, r->drain[i].cpu, &s);
		if (!ret)
			r->seen[i].now = s.now;
		ret = ret ?: stats_record(r, "begin", r->drain[i].cpu, &s, NULL);
	}
	return ret;
}

static void add_cause(struct sbuf *b, uint64_t n, const char *what)
{
	if (n)
		sbuf_addf(b, "%s%llu %s", b->len ? ", " : "", (unsigned long long)n, what);
}

/* The ring was full: was that because the output could not take more? */
static void add_output(const struct record *r, const struct drain_cpu *c, struct sbuf *b)
{
	uint64_t total = util_now_ns() - r->live_ns, percent;

	if (!c->write_ns || !total)
		return;
	percent = MIN(c->write_ns * 100 / total, (uint64_t)100);
	sbuf_addf(b, "; the output took %llu %% of the time, up to %llu ms at once",
		  (unsigned long long)percent, (unsigned long long)c->write_max_ns / 1000000);
	if (percent >= SLOW_PERCENT || c->write_max_ns >= SLOW_NS)
		sbuf_add(b, ": it is too slow");
}

static void tell(const struct record *r, const struct drain_cpu *c, const struct kstats *s,
		 uint64_t lost, uint64_t produced)
{
	_cleanup_(sbuf_free) struct sbuf why = { 0 };

	if (!lost || (r->c->quiet && r->c->allow_lost))
		return;
	add_cause(&why, s->dropped, "found the ring full");
	add_cause(&why, r->c->flight ? 0 : s->overrun, "were overwritten in it");
	add_cause(&why, s->commit_overrun, "came while an interrupted one was being written");
	add_cause(&why, c->dropped_events + s->entries, "were not written out");
	if (s->dropped || (s->overrun && !r->c->flight))
		add_output(r, c, &why);
	r->note("CPU %u lost %llu of %llu events (%s)", c->cpu, (unsigned long long)lost,
		 (unsigned long long)produced, why.s ?: "");
}

int record_loss_end(struct record *r)
{
	bool full = false;
	int ret = 0;

	for (size_t i = 0; i < r->ncpu && !ret; i++) {
		const struct drain_cpu *c = &r->drain[i];
		struct kstats s;
		uint64_t lost;

		ret = stats_read(r, c->cpu, &s);
		ret = ret ?: stats_record(r, "end", c->cpu, &s, c);
		if (ret)
			break;
		/* What a flight recorder overwrites was not requested. */
		lost = s.dropped + s.commit_overrun + c->dropped_events;
		lost += r->c->flight ? 0 : s.overrun + s.entries;
		r->lost += lost;
		r->did_not_fit += r->c->flight ? 0 : s.entries + c->dropped_events;
		r->stored += s.read - MIN(c->dropped_events, s.read);
		tell(r, c, &s, lost, s.read + lost - c->dropped_events);
		if (c->uncounted)
			r->note("CPU %u: %llu sub-buffers were lost half written: how many events "
				"they held is unknown",
				c->cpu, (unsigned long long)c->uncounted);
		full |= s.dropped || (s.overrun && !r->c->flight);
	}
	if (full && !(r->c->quiet && r->c->allow_lost))
		r->note("to lose fewer: a larger ring (--buffer-size), or fewer events (--event with a "
			"filter, --vm)");
	return ret;
}
