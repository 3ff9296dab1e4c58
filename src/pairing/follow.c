/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * follow.c: passes over captures that still grow.
 *
 * Opening them again costs a walk over what the host's capture holds at that time. So those who
 * record for this keep little of it (`kvmft trace --guest`), and passes are rare enough to leave
 * most of the CPU to others.
 */
#include "kvmft/pairing.h"

#define TICK_NS 100000000ull
#define SHARE	4u /* passes take at most one n-th of a CPU */
#define SEEN \
	64u			  /* number of moments remembered: for delays up to SEEN / 2
				   * ticks */
#define PATIENCE_NS 5000000000ull /* wait for guests, once the host has ended */
#define SILENCE_NS  5000000000ull

struct late {
	char label[TL_MAX_LABEL];
	uint64_t events, longest; /* cycles */
	bool told;
};

struct follow {
	struct follow_config c;
	struct pairing p, before;
	bool opened;
	char **guests; /* those of the config that are not left out */
	size_t *id;    /* of their sources: what each of them was before any was left out */
	size_t failed; /* the guest at which the last pass failed, from 1; 0 = none */
	struct pairing_opts opts;
	struct tl_marks *marks;
	/* What the newest event was at some moments, oldest first. */
	struct {
		uint64_t ns, newest;
	} seen[SEEN];
	size_t nseen;
	uint64_t newest;
	uint64_t passed, given; /* host TSC up to which everything was given out before, and is
				 * now */
	uint64_t begin_ns, begin_cpu_ns; /* of this pass */
	uint64_t grew_ns, host_ended_ns; /* 0 = not yet */
	bool told_silent;
	struct late *late; /* by source, its id */
	size_t nlate;
};

void follow_new(const struct follow_config *c, struct follow **out)
{
	struct follow *f = xcalloc(1, sizeof(*f));

	*out = f;
	f->c = *c;
	f->opts = *c->opts;
	f->opts.growing = true;
	f->guests = xcalloc(c->n + 1, sizeof(*f->guests));
	f->id = xcalloc(c->n + 1, sizeof(*f->id));
	memcpy(f->guests, c->guests, c->n * sizeof(*f->guests));
	for (size_t i = 0; i < c->n; i++)
		f->id[i] = i + 1;
	tl_marks_new(&f->marks);
}

/* ---- guests that are left out ---- */

bool follow_leave_out(struct follow *f, struct follow_gone *gone)
{
	size_t at = f->failed - 1;

	if (!f->failed || (!f->opened && f->c.n < 2))
		return false;
	*gone = (struct follow_gone){ .opened = f->opened, .first = !at };
	for (size_t i = 0; f->opened && i < tl_sources(f->p.t); i++)
		if (tl_source(f->p.t, i)->id == f->id[at])
			gone->events = tl_source(f->p.t, i)->events;
	f->c.n--;
	memmove(f->guests + at, f->guests + at + 1, (f->c.n - at) * sizeof(*f->guests));
	/* Before the first pass no guest is known. */
	if (f->opened)
		memmove(f->id + at, f->id + at + 1, (f->c.n - at) * sizeof(*f->id));
	f->failed = 0;
	f->opts.need = PAIRING_CLOCKS; /* as with guests, also when it was the last of them */
	return true;
}

/* ---- what is due ---- */

/* The newest event of the last moment that is `delay` ago; 0: none yet. */
static uint64_t follow_due(struct follow *f, uint64_t now)
{
	size_t n = 0;
	uint64_t newest;

	while (n < f->nseen && f->seen[n].ns + f->c.delay_ns <= now)
		n++;
	newest = n ? f->seen[n - 1].newest : 0;
	/* What is older than that moment is not needed any more. */
	if (n > 1) {
		f->nseen -= n - 1;
		memmove(f->seen, f->seen + n - 1, f->nseen * sizeof(*f->seen));
	}
	return newest;
}

static void follow_see(struct follow *f, uint64_t now)
{
	uint64_t newest = 0, at;

	for (size_t i = 0; i < tl_sources(f->p.t); i++)
		if (tl_source_end(f->p.t, tl_source(f->p.t, i), &at) > 0)
			newest = MAX(newest, at);
	if (newest > f->newest || !f->grew_ns) {
		f->newest = newest;
		f->grew_ns = now;
		f->told_silent = false;
	}
	/* Passes are rare enough for the delay: one that comes too soon adds nothing. */
	if (f->nseen < SEEN && (!f->nseen || now - f->seen[f->nseen - 1].ns >=
						     MAX(TICK_NS, f->c.delay_ns * 2 / SEEN))) {
		f->seen[f->nseen].ns = now;
		f->seen[f->nseen++].newest = newest;
	}
}

/* ---- when ---- */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the end ---- */

static bool all_ended(struct follow *f, uint64_t now)
{
	if (!f->p.host.cap->complete)
		return false;
	f->host_ended_ns = f->host_ended_ns ?: now;
	for (size_t i = 0; i < f->p.nguest; i++)
		if (!f->p.guest[i].c.cap->complete)
			return now - f->host_ended_ns > PATIENCE_NS;
	return true;
}

/* ---- a pass ---- */

/* What was open stays valid, and complete, until the captures could be opened again. */
static int open_captures(struct follow *f, struct kvmft_err *err)
{
	struct pairing next;
	int ret;

	pairing_close(&f->before);
	memset(&f->before, 0, sizeof(f->before));
	ret = pairing_prepare(&next, f->c.host, f->guests, f->c.n, &f->opts, err);
	f->failed = ret ? next.failed : 0;
	for (size_t i = 0; !ret && i < f->c.n; i++)
		tl_source(next.t, i + 1)->id = f->id[i];
	if (ret) {
		pairing_close(&next);
		return ret;
	}
	if (f->p.t)
		tl_inherit(next.t, f->p.t);
	if (f->p.t)
		tl_stop(f->p.t);
	f->before = f->p;
	f->p = next;
	return 0;
}

int follow_pass(struct follow *f, struct follow_pass *pass, struct kvmft_err *err)
{
	bool enough;
	uint64_t to;
	int ret;
	uint64_t until = f->begin_ns + MAX(TICK_NS, (cpu_ns() - f->begin_cpu_ns) * SHARE);
	uint64_t now = util_now_ns();
	uint64_t left = f->begin_ns && until > now ? until - now : 0;
	struct timespec t = { .tv_sec = (time_t)(left / 1000000000),
			      .tv_nsec = (long)(left % 1000000000) };

	/*
	 * What a pass waits for whoever reads its lines, or for a CPU, leaves that to others
	 * already.
	 */
	if (left)
		(void)nanosleep(&t, NULL);
	f->begin_ns = util_now_ns();
	f->begin_cpu_ns = cpu_ns();
	ret = open_captures(f, err);
	*pass = (struct follow_pass){ .p = &f->p, .first = !f->opened, .guest = f->failed };
	if (ret)
		return ret;
	if (!f->opened) {
		f->nlate = tl_sources(f->p.t);
		f->late = xcalloc(f->nlate, sizeof(*f->late));
		for (size_t i = 0; i < f->nlate; i++)
			memcpy(f->late[i].label, tl_source(f->p.t, i)->label, TL_MAX_LABEL);
	}
	f->opened = true;
	f->passed = f->given;
	f->given = MAX(f->given, follow_due(f, f->begin_ns));
	follow_see(f, f->begin_ns);
	enough = f->c.is_enough();
	if (enough)
		tl_follow_no_end(f->p.t);
	pass->last = enough || all_ended(f, f->begin_ns);
	to = pass->last ? UINT64_MAX : f->given;
	tl_follow(f->p.t, f->marks, to);
	if (!pass->last && !f->told_silent && f->begin_ns - f->grew_ns >= SILENCE_NS) {
		f->told_silent = true;
		f->c.note(
			"no event for 5 s: %s is still being recorded, or its recorder was killed; "
			"Ctrl-C ends this",
			f->c.host);
	}
	return 0;
}

/* ---- what came late ---- */

bool follow_late(struct follow *f, const struct tl_item *item)
{
	struct late *l = &f->late[item->src->id];

	/* A gap begins where the event before it is. */
	if (item->kind != TL_EVENT || item->host >= f->passed)
		return false;
	l->events++;
	l->longest = MAX(l->longest, f->passed - item->host);
	if (!l->told)
		f->c.note("%s: events come late, and stand below newer ones of other sides",
			  l->label);
	l->told = true;
	return true;
}

void follow_tell(const struct follow *f)
{
	for (size_t i = 0; i < f->nlate; i++) {
		const struct late *l = &f->late[i];
		_cleanup_(sbuf_free) struct sbuf b = { 0 };

		if (!l->events)
			continue;
		pairing_add_magnitude(&b, l->longest, f->p.host.cap);
		f->c.note("%s: %llu events came late, by %s at most", l->label,
			  (unsigned long long)l->events, b.s ?: "?");
	}
}

void follow_free(struct follow *f)
{
	if (!f)
		return;
	pairing_close(&f->before);
	pairing_close(&f->p);
	tl_marks_free(f->marks);
	free(f->late);
	free(f->guests);
	free(f->id);
	free(f);
}
