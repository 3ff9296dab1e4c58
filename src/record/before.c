/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * before.c: how far back the ring of a flight recorder reaches, for --before.
 *
 * How fast a ring fills up is not known beforehand. So it is checked once a second while it is on,
 * and enlarged if it holds too little, as far as memory allows and -b does not forbid it.
 */
#include "record.h"

/* Until the rings of other sides have stopped, after one has seen the trigger. */
#define MARGIN_NS 1000000000ull
#define MOST_NS	  86400000000000ull

int record_before_check(struct record *r)
{
	const struct record_config *c = r->c;

	if (!c->before.set)
		return 0;
	if (!c->flight)
		return err_usage(r->err, "option --before needs --flight-recorder");
	if (!c->before.v || c->before.v > MOST_NS)
		return err_usage(r->err, "option --before: from 1ns to 24h");
	if (!record_ticks(r, 1000000000))
		return err_lack(r->err, ENODATA,
				"--before needs a trace clock whose rate is known, not %s",
				c->clock);
	r->before.held = UINT64_MAX;
	r->before.asked = true;
	return 0;
}

/*
 * Of one ring, ns; UINT64_MAX: it has not been full since it was written out. turns: it is full
 * now, and was not only before it grew.
 */
static uint64_t held_by(struct record *r, size_t i, bool *turns)
{
	uint64_t second = record_ticks(r, 1000000000);
	struct record_seen *seen = &r->seen[i];
	struct kstats s;

	*turns = false;
	if (kinst_stats(r->k, r->drain[i].cpu, &s, NULL))
		return UINT64_MAX;
	*turns = s.overrun != seen->overrun_now;
	seen->overrun_now = s.overrun;
	if (s.overrun == seen->overrun || !s.oldest || s.now <= s.oldest || !second)
		return UINT64_MAX;
	return (uint64_t)((unsigned __int128)(s.now - s.oldest) * 1000000000 / second);
}

static uint64_t needed_kb(const struct record *r, uint64_t held)
{
	unsigned __int128 kb = (unsigned __int128)kinst_buffer_kb(r->k) *
			       (r->c->before.v + MARGIN_NS) / MAX(held, (uint64_t)1) * 5 / 4;

	return kb > UINT32_MAX ? UINT32_MAX : (uint64_t)kb + 1;
}

/* What is there grows, and continues; -b is obeyed. */
static bool grow(struct record *r, uint64_t kb)
{
	struct kvmft_err none = { .text = "" };
	uint64_t was = kinst_buffer_kb(r->k);

	if (r->c->buffer.set)
		return false;
	kb = MIN(kb, r->before.most_kb);
	if (kb <= was + was / 4 || kinst_buffer_set(r->k, kb, &none))
		return false;
	if (!r->c->quiet)
		r->note("the ring grows from %llu to %llu KiB on each CPU, for --before",
			(unsigned long long)was, (unsigned long long)kinst_buffer_kb(r->k));
	return true;
}

static void tell_short(struct record *r, uint64_t held)
{
	char would[48] = "memory allows no more"; /* of several sides none has --force */

	if (r->c->buffer.set || !r->c->control.on)
		snprintf(would, sizeof(would), "-b %lluM%s would do",
			 (unsigned long long)(needed_kb(r, held) / 1024 + 1),
			 r->c->buffer.set ? "" : " --force");
	r->note("the ring reaches back %llu.%llu s, --before asks for %llu.%llu s and a second more: %s",
		(unsigned long long)(held / 1000000000),
		(unsigned long long)(held / 100000000 % 10),
		(unsigned long long)(r->c->before.v / 1000000000),
		(unsigned long long)(r->c->before.v / 100000000 % 10), would);
	r->before.told = true;
}

void record_before_tick(struct record *r)
{
	uint64_t held = UINT64_MAX, least = UINT64_MAX;

	/* A ring that was stopped is about to be written out. */
	if (!r->before.asked || kinst_tracing_get(r->k) != 1)
		return;
	for (size_t i = 0; i < r->ncpu; i++) {
		bool turns;
		uint64_t ns = held_by(r, i, &turns);

		held = MIN(held, ns);
		least = turns ? MIN(least, ns) : least;
	}
	r->before.held = held;
	if (least == UINT64_MAX || least >= r->c->before.v + MARGIN_NS)
		return;
	if (!grow(r, needed_kb(r, least)) && !r->before.told)
		tell_short(r, least);
}

void record_before_written(struct record *r)
{
	struct kstats s;

	if (!r->before.asked)
		return;
	for (size_t i = 0; i < r->ncpu; i++)
		if (!kinst_stats(r->k, r->drain[i].cpu, &s, NULL))
			r->seen[i].overrun = r->seen[i].overrun_now = s.overrun;
	if (r->before.held < r->c->before.v) {
		r->before.cut = true;
		if (!r->before.told)
			tell_short(r, r->before.held);
	}
	r->before.held = UINT64_MAX;
}
