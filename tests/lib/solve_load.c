/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "lib/solve_load.h"

#include <string.h>

#define HOST_BEGIN 50000000000ull
#define SLACK	   700
#define PERIOD	   5000000ull
#define TICK	   3000000ull

struct load {
	struct solve *s;
	size_t events;
	uint32_t seed;
};

static uint64_t rnd(struct load *l, uint64_t from, uint64_t to)
{
	l->seed = l->seed * 1664525u + 1013904223u;
	return from + (l->seed >> 4) % (to - from + 1);
}

static int window(struct load *l, uint64_t entry, uint64_t exit)
{
	solve_add_window(l->s, 0, entry, exit);
	return 0;
}

static int event(struct load *l, uint64_t host)
{
	solve_add_event(l->s, 0, host + SOLVE_LOAD_OFFSET);
	return 0;
}

/* A vCPU that runs and sleeps; its events, unless they are another's, in its windows. */
static uint64_t busy(struct load *l, size_t n, bool own, int *ret)
{
	uint64_t t = HOST_BEGIN;

	for (size_t i = 0; i < n && !*ret;) {
		uint64_t entry = t;

		t += SLACK;
		for (uint64_t k = rnd(l, 0, 3); k && i < n && !*ret; k--, i++) {
			if (own)
				*ret = event(l, t);
			t += rnd(l, 0, 9000);
		}
		t += SLACK;
		if (!*ret)
			*ret = window(l, entry, t);
		t += rnd(l, 0, 7) ? rnd(l, 3000, 20000) : rnd(l, 100000, 3000000);
	}
	return t;
}

static int aligned(struct load *l)
{
	int ret = 0;

	busy(l, l->events, true, &ret);
	return ret;
}

/* The events of another vCPU of the same kind. */
static int stranger(struct load *l)
{
	int ret = 0;
	uint64_t t = HOST_BEGIN;

	busy(l, l->events, false, &ret);
	l->seed += 77;
	for (size_t i = 0; i < l->events && !ret;) {
		for (uint64_t k = rnd(l, 0, 3); k && i < l->events && !ret; k--, i++) {
			ret = event(l, t);
			t += rnd(l, 0, 9000);
		}
		t += rnd(l, 0, 7) ? rnd(l, 3000, 20000) : rnd(l, 100000, 3000000);
	}
	return ret;
}

static int random_stamps(struct load *l)
{
	int ret = 0;
	uint64_t end = busy(l, l->events, false, &ret);

	for (size_t i = 0; i < l->events && !ret; i++)
		ret = event(l, HOST_BEGIN + (end - HOST_BEGIN) / l->events * i + rnd(l, 0, 100000));
	return ret;
}

/* All windows alike: an event that fits one fits all. */
static int regular(struct load *l)
{
	int ret = 0;

	for (size_t i = 0; i < l->events && !ret; i++) {
		uint64_t entry = HOST_BEGIN + i / 5 * PERIOD;

		if (i % 5 == 0)
			ret = window(l, entry, entry + 20000);
		if (!ret)
			ret = event(l, entry + SLACK + i % 5 * 4000);
	}
	return ret;
}

/* Windows of a few cycles at places that many offsets serve nearly. */
static int hostile(struct load *l)
{
	int ret = 0;

	for (size_t i = 0; i < l->events && !ret; i++) {
		uint64_t at = HOST_BEGIN + i * 4096 + (i % 17 ? 0 : 2048);

		ret = window(l, at, at + 1500 + (i % 3) * 200);
		if (!ret)
			ret = event(l, HOST_BEGIN + i * 4096 + rnd(l, 0, 1600));
	}
	return ret;
}

/* Nearly always in the guest: few offsets can be excluded by an event. */
static int dense(struct load *l)
{
	uint64_t t = HOST_BEGIN;
	int ret = 0;

	for (size_t i = 0; i < l->events && !ret; i++) {
		uint64_t len = rnd(l, 100000, 400000);

		ret = window(l, t, t + len);
		if (!ret)
			ret = event(l, t + rnd(l, 0, len));
		t += len + 1200;
	}
	return ret;
}

/*
 * An idle guest: a tick each millisecond, and now and then something else, with 2 to 34 stamps in
 * each of the short stays; `other` of 1000 stays are no tick's.
 */
static int ticking(struct load *l, uint64_t other)
{
	uint64_t tick = HOST_BEGIN, t = HOST_BEGIN, n;
	int ret = 0;

	for (size_t i = 0; i < l->events && !ret;) {
		bool extra = rnd(l, 1, 1000) <= other;
		uint64_t entry = extra ? t + rnd(l, 10000, TICK - 600000) : tick + rnd(l, 0, 3000);

		if (!extra)
			tick += TICK;
		if (entry < t)
			continue;
		t = entry + SLACK;
		for (n = rnd(l, 2, 34); n && i < l->events && !ret; n--, i++) {
			ret = event(l, t);
			t += rnd(l, 600, 5000);
		}
		t += SLACK;
		if (!ret)
			ret = window(l, entry, t);
	}
	return ret;
}

static int ticks(struct load *l)
{
	return ticking(l, 100);
}

static int idle(struct load *l)
{
	return ticking(l, 10);
}

/* The host does the same twice, and the guest's events are those of one time: two offsets fit. */
static int twice(struct load *l)
{
	uint64_t base = HOST_BEGIN, t = base;
	uint32_t seed = l->seed;
	int ret = 0;

	for (int round = 0; round < 2; round++, base = t) {
		l->seed = seed;
		for (size_t i = 0; i < l->events && !ret;) {
			uint64_t entry = t, n = rnd(l, 2, 34);

			for (t += SLACK; n && i < l->events && !ret; n--, i++) {
				ret = round ? 0 : event(l, t);
				t += rnd(l, 600, 5000);
			}
			t += SLACK;
			ret = ret ? ret : window(l, entry, t);
			t += TICK - (t - base) % TICK + rnd(l, 0, 3000);
		}
	}
	return ret;
}

static const struct {
	const char *name;
	int (*make)(struct load *l);
} kinds[] = {
	{ "aligned", aligned }, { "stranger", stranger }, { "random", random_stamps },
	{ "regular", regular }, { "hostile", hostile },	  { "dense", dense },
	{ "ticks", ticks },	{ "idle", idle },	{ "twice", twice },
};

const char *solve_load_kind(size_t i)
{
	return i < ARRAY_SIZE(kinds) ? kinds[i].name : NULL;
}

int solve_load(struct solve *s, const char *kind, size_t events, uint32_t seed)
{
	struct load l = { .s = s, .events = events, .seed = seed };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i].name, kind))
			return kinds[i].make(&l);
	return -1;
}
