/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_clock.c: the clock of `kvmft trace`.
 *
 * The instance has the trace clock that is shown, so that the kernel itself does the work; only
 * seconds since the start and a guest's kvmclock are computed here, from x86-tsc, or the former
 * from mono_raw if there is no such clock.
 */
#include "trace.h"
#include "kvmft/output.h"

#define TSC_CLOCK "x86-tsc"

static int choose_since_start(struct trace *t)
{
	struct ktsc_facts f;
	int ret;

	t->khz = 1000000; /* of ns */
	if (strcmp(t->clock, TSC_CLOCK))
		return 0;
	ret = ktsc_facts_read(t->t, &f);
	if (ret)
		return err_why(t->err, ret, "cannot read CPU facts");
	t->khz = f.khz;
	if (!t->khz)
		return err_lack(
			t->err, ENODATA,
			"cannot tell how fast the TSC runs: use --tsc, or --clock mono_raw");
	return 0;
}

int trace_clock_choose(struct trace *t)
{
	const struct trace_config *c = t->c;
	int ret;
	bool wall = c->clock && !strcmp(c->clock, "realtime");

	t->clock = c->tsc || c->kvmclock ? TSC_CLOCK : kclock_default();
	if (c->clock && !wall)
		t->clock = c->clock;
	ret = ktracefs_clock_check(t->t, t->clock, t->err);
	if (ret)
		return ret;
	if (wall)
		t->time = TRACE_REALTIME;
	else if (c->kvmclock)
		t->time = TRACE_KVMCLOCK;
	else if (!c->tsc && !c->clock)
		t->time = TRACE_SINCE_START;
	else
		t->time = clock_trace_is_ns(t->clock) ? TRACE_NS : TRACE_UNITS;
	return t->time == TRACE_SINCE_START || wall ? choose_since_start(t) : 0;
}

/* A bracket in the clock of stamps. */
static uint64_t stamp_of(const struct trace *t, const struct clock_bracket *b)
{
	return strcmp(t->clock, TSC_CLOCK) ? b->mono_raw : b->tsc;
}

uint64_t trace_clock_now(const struct trace *t)
{
	struct clock_bracket b;

	return kbracket_read(1, &b) ? 0 : stamp_of(t, &b);
}

/* Read again once a second. */
static bool wall_value(struct trace *t, uint64_t ts, uint64_t *v)
{
	int64_t cycles = (int64_t)(ts - stamp_of(t, &t->wall));

	if ((!t->wall.tsc || cycles > (int64_t)(t->khz * 1000)) && kbracket_read(8, &t->wall))
		return false;
	cycles = (int64_t)(ts - stamp_of(t, &t->wall));
	*v = t->wall.real + (uint64_t)((__int128)cycles * 1000000 / (__int128)t->khz);
	return true;
}

bool trace_clock_value(struct trace *t, uint64_t ts, int32_t tid, uint64_t *v)
{
	*v = ts;
	if (t->time == TRACE_KVMCLOCK && !trace_kvmclock_value(t, ts, tid, v))
		return false;
	if (t->time == TRACE_REALTIME && !wall_value(t, ts, v))
		return false;
	if (t->time == TRACE_SINCE_START)
		*v = tsc_cycles_to_ns(ts > t->start ? ts - t->start : 0, t->khz);
	/* Wraps on purpose: offsets are two's complement. */
	*v += t->c->clock_offset.set ? t->c->clock_offset.v : 0;
	return true;
}
