/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * worker.c: threads that work for a VM and are not vCPUs: the VMM's own, and vhost's. What they do
 * for a guest cannot begin before they have a CPU: when they were woken, and when they ran.
 *
 * Only threads that the capture names are known, not those that ended before it did.
 */
#include "priv.h"

struct lat_workers {
	struct lat_worker *w;
	size_t cap;
	struct u64map at; /* tid → index */
	uint32_t gen;	  /* after a gap nothing is known of any */
};

int lat_workers_new(struct lat *l)
{
	const struct capture *cap = tl_source(l->t, 0)->cap;

	l->workers = calloc(1, sizeof(*l->workers));
	if (!l->workers)
		return -ENOMEM;
	for (size_t i = 0; i < cap->ntask; i++) {
		const struct cap_task *t = &cap->task[i];
		int64_t vm = hostmap_task_vm(l->map, t->tid);
		struct lat_worker *w;

		/* vhost's own thread is not one of the VMM. */
		if (l->some_switches && t->comm && str_starts(t->comm, "vhost-") &&
		    t->tid == t->tgid)
			continue;
		if (vm < 0 || t->tid <= 0 || hostmap_thread(l->map, t->tid) ||
		    u64map_get(&l->workers->at, (uint32_t)t->tid, NULL))
			continue;
		w = u64map_elem(&l->workers->at, (uint32_t)t->tid, &l->workers->w, &l->workers->cap,
				sizeof(*w));
		if (!w)
			return -ENOMEM;
		w->vm = (size_t)vm;
		w->next = l->guest[vm].worker;
		l->guest[vm].worker = (uint32_t)(w - l->workers->w) + 1;
	}
	return 0;
}

static struct lat_worker *worker_at(const struct lat *l, size_t i)
{
	struct lat_worker *w = &l->workers->w[i];

	if (w->gen != l->workers->gen)
		*w = (struct lat_worker){ .vm = w->vm, .next = w->next, .gen = l->workers->gen };
	return w;
}

static struct lat_worker *worker_of(const struct lat *l, uint64_t tid)
{
	uint64_t at;

	return u64map_get(&l->workers->at, (uint32_t)tid, &at) ? worker_at(l, at) : NULL;
}

bool lat_worker_is(const struct lat *l, int32_t tid)
{
	return u64map_get(&l->workers->at, (uint32_t)tid, NULL);
}

void lat_worker_wake(struct lat *l, const struct lat_in *in)
{
	struct lat_worker *w = worker_of(l, in->f[0]);

	if (!w || w->running || w->waiting)
		return;
	w->waiting = true;
	w->woken = in->t;
}

void lat_worker_switch(struct lat *l, const struct lat_in *in)
{
	struct lat_worker *prev = worker_of(l, in->f[0]), *next = worker_of(l, in->f[2]);

	if (prev) {
		prev->running = prev->fresh = false;
		prev->waiting = !event_task_sleeps(in->f[1]); /* it lost its CPU, and wants one */
		prev->woken = in->t;
	}
	if (!next)
		return;
	next->running = true;
	next->ran = in->t;
	if (!next->waiting)
		return;
	next->waiting = false;
	next->fresh = true;
	lat_io_worker_runs(l, next);
}

/* How long the thread had waited for its CPU, if it raises its first interrupt since. */
bool lat_worker_raises(struct lat *l, int32_t tid, uint64_t *waited)
{
	struct lat_worker *w = worker_of(l, (uint32_t)tid);

	if (!w || !w->fresh)
		return false;
	w->fresh = false;
	*waited = w->ran - w->woken;
	return true;
}

/*
 * A doorbell was rung in the exit at `exit`. When did a thread of the VM that waited then, or was
 * woken since, get a CPU? 0: none did yet; UINT64_MAX: unknown, because one was running and may
 * have noticed it at once.
 */
uint64_t lat_worker_ran(const struct lat *l, size_t vm, uint64_t exit)
{
	uint64_t first = 0;

	for (uint32_t at = l->guest[vm].worker; at;) {
		const struct lat_worker *w = worker_at(l, at - 1);

		at = w->next;
		if (w->running && w->ran < exit)
			return UINT64_MAX;
		if (w->ran >= exit && (!first || w->ran < first))
			first = w->ran;
	}
	return first;
}

uint64_t lat_worker_since(const struct lat *l, int32_t tid)
{
	const struct lat_worker *w = worker_of(l, (uint32_t)tid);

	return w && w->running ? w->ran : 0;
}

void lat_workers_forget(struct lat *l)
{
	l->workers->gen++;
}

void lat_workers_free(struct lat *l)
{
	if (!l->workers)
		return;
	free(l->workers->w);
	u64map_free(&l->workers->at);
	free(l->workers);
}
