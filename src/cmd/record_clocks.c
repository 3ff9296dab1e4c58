/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record_clocks.c: what a capture says of clocks that user space cannot read: the trace clocks local,
 * global and perf beside the TSC, at the beginning and at the end, and the line behind
 * CLOCK_MONOTONIC_RAW.
 *
 * All of it is optional: where the kernel does not give it the capture lacks it, and whoever
 * converts such a clock is told.
 */
#include "record.h"

#include <string.h>

#include "mono_raw.h"

#define TRIES 32

static const char *const sampled[] = { "local", "global", "perf" };

static int put_sample(struct record *r, const char *clock, const struct kclock_sample *s)
{
	meta_begin(&r->line, "clock");
	meta_str(&r->line, "name", clock);
	meta_u64(&r->line, "tsc", s->tsc);
	meta_u64(&r->line, "width", s->width);
	meta_u64(&r->line, "ns", s->ns);
	return record_put(r);
}

static int sample_all(struct record *r)
{
	struct kclock_sample s;
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sampled) && !ret; i++)
		if (kclock_sample(r->sampler, sampled[i], TRIES, &s, NULL) == 0)
			ret = put_sample(r, sampled[i], &s);
	return ret;
}

static int put_raw(struct record *r, const struct mono_raw_line *m)
{
	meta_begin(&r->line, "raw");
	meta_u64(&r->line, "last", m->raw.last);
	meta_u64(&r->line, "mult", m->raw.mult);
	meta_u64(&r->line, "shift", m->raw.shift);
	meta_u64(&r->line, "nsec", m->raw.nsec);
	meta_u64(&r->line, "base", m->raw.base);
	meta_str(&r->line, "clocksource", m->over_kvmclock ? "kvm-clock" : "tsc");
	meta_str(&r->line, "source", m->source);
	return record_put(r);
}

int record_clocks_begin(struct record *r, const struct kguest_clock *g)
{
	struct mono_raw_line m;
	int ret = 0;

	if (mono_raw_learn(r->t, r->tsc.clocksource, g, &m, NULL) == 0)
		ret = put_raw(r, &m);
	if (!ret && kclock_sampler_new(r->t, &r->sampler, NULL) == 0)
		ret = sample_all(r);
	return ret;
}

int record_clocks_end(struct record *r)
{
	return r->sampler ? sample_all(r) : 0;
}
