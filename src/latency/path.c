/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path.c: what the threads of a VM waited for while they worked for a request.
 *
 * It is asked from the end: what did the thread that had it done last wait for before that? A wait
 * for others (in poll, for a semaphore) was over when somebody woke it: if that was a thread of the
 * VM, it is asked on in its place. So a helper of QEMU's that reads from a disk is found, and a
 * thread that has nothing to do is not taken for one that waits.
 *
 * A thread is asleep in what it did last: a system call, or a fault for memory of its own.
 */
#include "path.h"

#include <errno.h>
#include <string.h>

#define WAITS 32u /* of a thread that are remembered */
#define STEPS 64u /* of one way back */

/* Of futex() in the low bits of its second argument: somebody holds a lock (linux/futex.h). */
#define FUTEX_CMD     0x7fu
#define FUTEX_WAIT    0u
#define FUTEX_LOCK_PI 6u

struct wait {
	uint64_t begin, end;
	enum path_what what;
	int32_t waker; /* 0: an interrupt, or not known */
};

enum doing { UNKNOWN, CALL, LOCK, FAULT, FAULT_IN_CALL };

struct thread {
	int64_t vm;
	bool waits;	/* since open.begin */
	bool asleep;	/* ... else it wants a CPU */
	bool cut;	/* nothing before its first wait is known */
	bool bio, page; /* of what it does: it asked a disk; a page of a file came in */
	enum doing doing;
	struct wait open, past[WAITS];
	uint64_t npast;
	uint32_t gen;
};

struct lat_path {
	struct thread *th;
	size_t cap;
	struct u64map at; /* tid → index */
	uint64_t futex;	  /* its number */
	uint32_t gen;	  /* after a gap nothing is known of any */
};

static struct thread *thread_of(const struct lat_path *p, uint64_t tid)
{
	struct thread *th;
	uint64_t at;

	if (!u64map_get(&p->at, (uint32_t)tid, &at))
		return NULL;
	th = &p->th[at];
	if (th->gen != p->gen)
		*th = (struct thread){ .vm = th->vm, .cut = true, .gen = p->gen };
	return th;
}

int lat_path_new(struct lat *l)
{
	const struct capture *cap = tl_source(l->t, 0)->cap;
	struct lat_path *p;

	if (!lat_decoder_has(l->dec[0], EV_SYSCALL)) /* nothing could be told */
		return 0;
	p = l->path = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->futex = cap->arch && !strcmp(cap->arch, "aarch64") ? 98 : 202;
	for (size_t i = 0; i < cap->ntask; i++) {
		int64_t vm = hostmap_task_vm(l->map, cap->task[i].tid);
		struct thread *th;

		if (vm < 0 || cap->task[i].tid <= 0)
			continue;
		th = u64map_elem(&p->at, (uint32_t)cap->task[i].tid, &p->th, &p->cap, sizeof(*th));
		if (!th)
			return -ENOMEM;
		th->vm = vm;
	}
	return 0;
}

void lat_path_free(struct lat *l)
{
	if (!l->path)
		return;
	free(l->path->th);
	u64map_free(&l->path->at);
	free(l->path);
}

void lat_path_forget(struct lat *l)
{
	if (l->path)
		l->path->gen++;
}

/* ---- what they do ---- */

static void wait_begins(struct thread *th, uint64_t t, bool asleep, enum path_what what)
{
	th->waits = true;
	th->asleep = asleep;
	th->open = (struct wait){ .begin = t, .what = what };
}

static void wait_ends(struct thread *th, uint64_t t, int32_t waker)
{
	if (!th->waits)
		return;
	th->waits = false;
	th->open.end = t;
	th->open.waker = waker;
	th->past[th->npast++ % WAITS] = th->open;
}

/* A call copies from and to memory: what was read in after such a fault is its, if no file's. */
static enum path_what sleeps_for(const struct thread *th)
{
	switch (th->doing) {
	case FAULT: return PATH_FAULT;
	case FAULT_IN_CALL:
		if (th->bio && !th->page)
			return PATH_FAULT;
		return th->bio ? PATH_DISK : PATH_OTHERS;
	case CALL: return th->bio ? PATH_DISK : PATH_OTHERS;
	case LOCK: return PATH_LOCK;
	case UNKNOWN: break;
	}
	return PATH_OTHERS;
}

static void switched(struct lat_path *p, const struct lat_in *in)
{
	struct thread *prev = thread_of(p, in->f[0]), *next = thread_of(p, in->f[2]);

	if (prev) {
		bool asleep = in->f[1] & TASK_REPORT;

		wait_begins(prev, in->t, asleep, asleep ? sleeps_for(prev) : PATH_CPU);
	}
	if (next)
		wait_ends(next, in->t, 0);
}

static void woken(struct lat_path *p, const struct lat_in *in)
{
	struct thread *th = thread_of(p, in->f[0]);
	bool in_interrupt = fmt_flags(in->i->src->fmt, in->i->rec) & IN_INTERRUPT;

	if (!th || !th->waits || !th->asleep)
		return;
	wait_ends(th, in->t, in_interrupt ? 0 : in->i->tid);
	wait_begins(th, in->t, false, PATH_CPU);
}

static void does(struct thread *th, enum doing what)
{
	th->doing = what;
	th->bio = th->page = false;
}

static void called(const struct lat_path *p, struct thread *th, const struct lat_in *in)
{
	uint64_t command = in->f[1] & FUTEX_CMD;
	bool lock = in->f[0] == p->futex && in->has & 2 &&
		    (command == FUTEX_WAIT || command == FUTEX_LOCK_PI);

	does(th, lock ? LOCK : CALL);
}

/* Any event of the first host. */
void lat_path_event(struct lat *l, const struct lat_in *in)
{
	struct lat_path *p = l->path;
	struct thread *th;

	if (in->i->src->index)
		return;
	if (in->kind == EV_SWITCH)
		switched(p, in);
	else if (in->kind == EV_WAKEUP || in->kind == EV_WAKING)
		woken(p, in);
	if (!(lat_path_is(in->kind) || in->kind == EV_BIO || in->kind == EV_FILE_PAGE) ||
	    fmt_flags(in->i->src->fmt, in->i->rec) & IN_INTERRUPT)
		return;
	th = thread_of(p, (uint32_t)in->i->tid);
	if (!th)
		return;
	switch (in->kind) {
	case EV_SYSCALL: called(p, th, in); break;
	case EV_USER_FAULT: does(th, FAULT); break;
	case EV_KERNEL_FAULT: does(th, FAULT_IN_CALL); break;
	case EV_BIO: th->bio = true; break;
	case EV_FILE_PAGE: th->page = true; break;
	default: break;
	}
}

/* ---- the way back ---- */

/* The last wait of th that began before t; NULL: there is none. *known: that is sure. */
static const struct wait *wait_before(const struct thread *th, uint64_t t, bool *known)
{
	const struct wait *w;

	*known = true;
	if (th->waits && th->open.begin < t)
		return &th->open;
	for (uint64_t i = th->npast; i && th->npast - i < WAITS; i--) {
		w = &th->past[(i - 1) % WAITS];
		if (w->begin < t)
			return w;
	}
	*known = th->npast <= WAITS && !th->cut;
	return NULL;
}

bool lat_path_waits(const struct lat *l, int32_t tid, uint64_t from, uint64_t to,
		    uint64_t waited[PATH_WHATS])
{
	const struct lat_path *p = l->path;
	const struct thread *th = p ? thread_of(p, (uint32_t)tid) : NULL, *other;
	uint64_t t = to;
	bool known;

	memset(waited, 0, PATH_WHATS * sizeof(*waited));
	if (!th)
		return false;
	for (unsigned int n = 0; n < STEPS && t > from; n++) {
		const struct wait *w = wait_before(th, t, &known);
		uint64_t end;

		if (!w || (w != &th->open && w->end <= from))
			return known;
		end = w == &th->open && th->waits ? t : MIN(w->end, t);
		if (end <= from)
			return true;
		other = w->what == PATH_OTHERS && w->waker && w->end <= t ?
				thread_of(p, (uint32_t)w->waker) :
				NULL;
		if (other && other != th && other->vm == th->vm) {
			t = end;
			th = other;
			continue;
		}
		waited[w->what] += end - MAX(w->begin, from);
		t = MAX(w->begin, from);
	}
	return t <= from;
}
