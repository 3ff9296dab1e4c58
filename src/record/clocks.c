/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clocks.c: what a capture says about clocks that user space cannot read: the trace clocks local,
 * global and perf against the TSC, at the beginning and at the end, and the line of
 * CLOCK_MONOTONIC_RAW.
 *
 * All of it is optional: what the kernel does not provide is missing in the capture, and a
 * conversion that needs it says so.
 *
 * The recording instance is used for it, before its first event and after its last: making and
 * removing another one would cost 6 to 8 ms of CPU, while a whole short recording costs 60. A new
 * instance has the clock local; changing it costs an RCU grace period, some 20 ms, so global and
 * perf are not read at the beginning if the boot log gives their exact distance from local.
 */
#include "record.h"
#include "kvmft/mono_raw.h"

#define TRIES 32

static const char *const sampled[RECORD_CLOCKS] = { "local", "global", "perf" };

void record_clocks_first(struct record *r)
{
	struct kclock_sample *v = r->clocks.first;

	for (size_t i = 0; i < RECORD_CLOCKS; i++) {
		if (i && r->tsc.sched_stable && v[0].width != UINT64_MAX) {
			v[i] = v[0];
			v[i].ns += (uint64_t)r->tsc.sched_offset;
		} else if (kclock_sample(r->k, sampled[i], TRIES, &v[i], NULL)) {
			v[i].width = UINT64_MAX;
		}
	}
}

static int put_sample(struct record *r, const char *clock, const struct kclock_sample *s)
{
	if (s->width == UINT64_MAX)
		return 0;
	meta_clock(&r->line, clock, s->tsc, s->width, s->ns);
	return record_put(r);
}

int record_clocks_end(struct record *r)
{
	struct kclock_sample s;
	int ret = 0;

	for (size_t i = 0; i < RECORD_CLOCKS && !ret; i++)
		if (!kclock_sample(r->k, sampled[i], TRIES, &s, NULL))
			ret = put_sample(r, sampled[i], &s);
	return ret;
}

int record_clocks_begin(struct record *r, const struct kguest_clock *g)
{
	struct mono_raw_line m;
	int ret = 0;

	for (size_t i = 0; i < RECORD_CLOCKS && !ret; i++)
		ret = put_sample(r, sampled[i], &r->clocks.first[i]);
	if (ret || mono_raw_learn(r->t, r->tsc.clocksource, g, &m, NULL))
		return ret;
	meta_raw(&r->line, &(struct cap_raw){ .over_kvmclock = m.over_kvmclock, .line = m.raw });
	meta_str(&r->line, "source", m.source);
	return record_put(r);
}
