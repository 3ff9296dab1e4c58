/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record_clocks.c: what a capture says of clocks that user space cannot read: the trace clocks local,
 * global and perf beside the TSC, at the beginning and at the end, and the line behind
 * CLOCK_MONOTONIC_RAW.
 *
 * All of it is optional: where the kernel does not give it the capture lacks it, and whoever
 * converts such a clock is told.
 *
 * Each change of an instance's clock costs an RCU grace period, some 20 ms, and making and removing
 * the instance as much again. So a thread does it, beside the recording, and reads the clocks at
 * the end in the opposite order: the last one is still set.
 */
#include "record.h"

#include <string.h>

#include "mono_raw.h"

#define TRIES	   32
#define STACK_SIZE (512u << 10)

static const char *const sampled[] = { "local", "global", "perf" };

static void add_sample(struct record *r, const char *clock)
{
	struct sbuf line = { 0 };
	struct kclock_sample s;

	if (kclock_sample(r->clocks.sampler, clock, TRIES, &s, NULL))
		return;
	meta_begin(&line, "clock");
	meta_str(&line, "name", clock);
	meta_u64(&line, "tsc", s.tsc);
	meta_u64(&line, "width", s.width);
	meta_u64(&line, "ns", s.ns);
	record_store_add(r, &line);
}

static void *clocks_thread(void *record)
{
	struct record *r = record;
	struct record_clocks *c = &r->clocks;
	bool have = kclock_sampler_new(r->t, &c->sampler, NULL) == 0;

	for (size_t i = 0; have && i < ARRAY_SIZE(sampled); i++)
		add_sample(r, sampled[i]);
	while (sem_wait(&c->stop))
		; /* a signal */
	for (size_t i = ARRAY_SIZE(sampled); have && c->wanted && i; i--)
		add_sample(r, sampled[i - 1]);
	(void)kclock_sampler_free(c->sampler, &c->err);
	return NULL;
}

void record_clocks_start(struct record *r)
{
	struct record_clocks *c = &r->clocks;
	pthread_attr_t attr;

	if (sem_init(&c->stop, 0, 0) || pthread_attr_init(&attr))
		return;
	(void)pthread_attr_setstacksize(&attr, STACK_SIZE);
	/* Signals that end a recording are blocked here as in the thread that we are in. */
	c->running = !pthread_create(&c->thread, &attr, clocks_thread, r);
	pthread_attr_destroy(&attr);
}

void record_clocks_stop(struct record *r)
{
	r->clocks.wanted = true;
	if (r->clocks.running)
		(void)sem_post(&r->clocks.stop);
}

int record_clocks_end(struct record *r)
{
	struct record_clocks *c = &r->clocks;

	if (c->running)
		pthread_join(c->thread, NULL);
	c->running = false;
	if (c->err.text[0])
		cli_note("%s", c->err.text);
	c->err.text[0] = '\0';
	return record_store_news(r);
}

void record_clocks_free(struct record *r)
{
	if (!r->clocks.running)
		return;
	(void)sem_post(&r->clocks.stop);
	(void)record_clocks_end(r);
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

	return mono_raw_learn(r->t, r->tsc.clocksource, g, &m, NULL) == 0 ? put_raw(r, &m) : 0;
}
