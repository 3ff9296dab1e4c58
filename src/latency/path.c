/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path.c: what the threads of a VM waited for while they worked for a request.
 *
 * It is asked from the end: what did the thread that had it done last wait for before that? A wait
 * for others (in poll, for a semaphore) was over when somebody woke it: if that was a thread of the
 * VM, it is asked on in its place. So a helper of QEMU's that reads from a disk is found, and a
 * thread that has nothing to do is not taken for one that waits.
 *
 * A thread is asleep in what it did last: a system call, or a fault for memory of its own. No event
 * tells the end of a fault in a call. What a disk was asked after the fault is taken to be for it,
 * unless a page of a file came in; without that, only a call that copies much is taken to wait for
 * memory.
 */
#include "priv.h"

/* Remembered for each thread: a request of 1 MiB may fault, wait and want a CPU for 256 pages. */
#define WAITS  512u
#define FAULTS 256u
#define WOKEN  8u
#define STEPS  (2 * WAITS) /* steps back from the end of one request */

/* Of futex() in the low bits of its second argument: somebody holds a lock (linux/futex.h). */
#define FUTEX_CMD     0x7fu
#define FUTEX_WAIT    0u
#define FUTEX_LOCK_PI 6u

struct wait {
	uint64_t begin, end;
	enum path_what what;
	int32_t waker; /* who ended it; 0: an interrupt, or not known */
};

enum doing { UNKNOWN, CALL, LOCK, COPY, PROGRAM };

struct burst {
	uint64_t t; /* of the last of n faults */
	uint32_t n;
};

struct waked {
	uint64_t t;
	int32_t tid;
};

struct past {
	struct wait wait[WAITS]; /* a ring */
	struct burst fault[FAULTS];
	struct waked waked[WOKEN]; /* threads of the VM, by it: a ring */
};

struct thread {
	int64_t vm;
	bool waits;	/* since open.begin */
	bool asleep;	/* ... else it wants a CPU */
	uint64_t since; /* what it did is known; 0: it is not */
	bool faulted;	/* in what it does */
	bool asked;	/* it had asked a disk before that */
	bool bio, page; /* since then: it asked a disk; a page of a file came in */
	enum doing doing;
	struct wait open;
	uint64_t npast, nwaked;
	uint32_t nfault; /* in past.fault */
	uint32_t gen;
	struct past *past; /* made with its first event */
};

struct lat_path {
	struct thread *th;
	size_t cap;
	struct u64map at; /* tid → index */
	bool arm64;
	uint32_t gen;	  /* after a gap nothing is known of any */
};

static struct thread *path_thread_of(const struct lat_path *p, uint64_t tid)
{
	struct thread *th;
	uint64_t at;

	if (!u64map_get(&p->at, (uint32_t)tid, &at))
		return NULL;
	th = &p->th[at];
	if (th->gen != p->gen)
		*th = (struct thread){ .vm = th->vm, .gen = p->gen, .past = th->past };
	th->past = th->past ?: xcalloc(1, sizeof(*th->past));
	return th;
}

void lat_path_new(struct lat *l)
{
	const struct capture *cap = tl_source(l->t, 0)->cap;
	struct lat_path *p;

	if (!lat_decoder_has(l->dec[0], EV_SYSCALL)) /* nothing would be known */
		return;
	p = l->path = xcalloc(1, sizeof(*p));
	p->arm64 = cap->arch && !strcmp(cap->arch, "aarch64");
	for (size_t i = 0; i < cap->ntask; i++) {
		int64_t vm = hostmap_task_vm(l->map, cap->task[i].tid);
		struct thread *th;

		if (vm < 0 || cap->task[i].tid <= 0)
			continue;
		th = xu64map_elem(&p->at, (uint32_t)cap->task[i].tid, &p->th, &p->cap, sizeof(*th));
		th->vm = vm;
	}
}

void lat_path_free(struct lat *l)
{
	if (!l->path)
		return;
	for (size_t i = 0; i < l->path->at.n; i++)
		free(l->path->th[i].past);
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

static void thread_seen(struct thread *th, uint64_t t)
{
	th->since = th->since ?: t;
}

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
	th->past->wait[th->npast++ % WAITS] = th->open;
}

static enum path_what sleeps_for(const struct thread *th)
{
	if (th->doing == PROGRAM)
		return PATH_FAULT;
	if (th->bio)
		return th->faulted && !(th->page && th->doing == COPY) ? PATH_FAULT : PATH_DISK;
	if (th->doing == LOCK)
		return PATH_LOCK;
	if (th->asked)
		return PATH_DISK;
	return th->faulted && th->doing == COPY ? PATH_FAULT : PATH_OTHERS;
}

static void path_switched(const struct lat *l, const struct lat_in *in)
{
	struct lat_path *p = l->path;
	struct thread *prev = path_thread_of(p, in->f[0]), *next = path_thread_of(p, in->f[2]);
	bool by;

	if (prev) {
		bool asleep = event_task_sleeps(in->f[1]);

		thread_seen(prev, in->t);
		wait_begins(prev, in->t, asleep, asleep ? sleeps_for(prev) : PATH_CPU);
	}
	if (!next)
		return;
	thread_seen(next, in->t);
	/*
	 * A write to an eventfd wakes nobody if its reader is awake but has no CPU. If another
	 * thread of the VM that is no vCPU had that CPU, its work is what was waited for.
	 */
	by = prev && prev->vm == next->vm && next->open.what == PATH_CPU &&
	     !hostmap_thread(l->map, (int32_t)in->f[0]);
	wait_ends(next, in->t, by ? (int32_t)in->f[0] : 0);
}

static void path_woken(struct lat_path *p, const struct lat_in *in)
{
	bool in_interrupt = lat_in_interrupt(in);
	struct thread *th = path_thread_of(p, in->f[0]), *by;

	if (!th || !th->waits || !th->asleep)
		return;
	by = in_interrupt ? NULL : path_thread_of(p, (uint32_t)in->i->tid);
	wait_ends(th, in->t, by ? in->i->tid : 0);
	wait_begins(th, in->t, false, PATH_CPU);
	if (by)
		thread_seen(by, in->t);
	if (by && by->vm == th->vm)
		by->past->waked[by->nwaked++ % WOKEN] =
			(struct waked){ .t = in->t, .tid = (int32_t)in->f[0] };
}

/* read(), write() and what reads and writes more: they copy, and wait for what they read. */
static bool call_copies(const struct lat_path *p, uint64_t call)
{
	static const uint16_t x86[] = { 0, 1, 17, 18, 19, 20, 295, 296, 327, 328 },
			      arm64[] = { 63, 64, 65, 66, 67, 68, 69, 70, 286, 287 };
	const uint16_t *of = p->arm64 ? arm64 : x86;

	for (size_t i = 0; i < ARRAY_SIZE(x86); i++)
		if (of[i] == call)
			return true;
	return false;
}

static void thread_faults(struct thread *th, const struct lat_in *in)
{
	struct burst *b;

	if (in->kind == EV_USER_FAULT)
		th->doing = PROGRAM;
	th->asked |= th->bio && (!th->faulted || th->page);
	th->faulted = true;
	th->bio = th->page = false;
	/* If there is no room, two become one: none is left out, but their time is less exact. */
	b = th->past->fault;
	if (th->nfault == FAULTS) {
		for (unsigned int i = 0; i < FAULTS / 2; i++)
			b[i] = (struct burst){ b[2 * i + 1].t, b[2 * i].n + b[2 * i + 1].n };
		th->nfault = FAULTS / 2;
	}
	b[th->nfault++] = (struct burst){ in->t, 1 };
}

/* Any event of the first host. */
void lat_path_event(struct lat *l, const struct lat_in *in)
{
	struct lat_path *p = l->path;
	struct thread *th;

	if (in->i->src->index)
		return;
	if (in->kind == EV_SWITCH)
		path_switched(l, in);
	else if (in->kind == EV_WAKEUP || in->kind == EV_WAKING)
		path_woken(p, in);
	if (!(lat_path_is(in->kind) || in->kind == EV_BIO || in->kind == EV_FILE_PAGE) ||
	    lat_in_interrupt(in))
		return;
	th = path_thread_of(p, (uint32_t)in->i->tid);
	if (!th)
		return;
	thread_seen(th, in->t);
	switch (in->kind) {
	case EV_SYSCALL: {
		uint64_t futex = p->arm64 ? 98 : 202, command = in->f[1] & FUTEX_CMD;

		th->faulted = th->asked = th->bio = th->page = false;
		if (in->f[0] == futex && in->has & 2 &&
		    (command == FUTEX_WAIT || command == FUTEX_LOCK_PI))
			th->doing = LOCK;
		else
			th->doing = call_copies(p, in->f[0]) ? COPY : CALL;
		break;
	}
	case EV_USER_FAULT:
	case EV_KERNEL_FAULT: thread_faults(th, in); break;
	case EV_BIO: th->bio = true; break;
	case EV_FILE_PAGE: th->page = true; break;
	default: break;
	}
}

/* ---- the way back ---- */

/* The last wait of th that began before t; NULL: none. *known: there was none since from. */
static const struct wait *wait_before(const struct thread *th, uint64_t from, uint64_t t,
				      bool *known)
{
	const struct wait *w;

	*known = true;
	if (th->waits && th->open.begin < t)
		return &th->open;
	for (uint64_t i = th->npast; i && th->npast - i < WAITS; i--) {
		w = &th->past->wait[(i - 1) % WAITS];
		if (w->begin < t)
			return w;
	}
	*known = th->npast <= WAITS && th->since && th->since <= from;
	return NULL;
}

/* Faults of th in [from, to]. Each is counted once. */
static uint32_t faults_in(const struct thread *th, uint64_t from, uint64_t to)
{
	uint32_t n = 0;

	for (uint32_t i = th->nfault; i--;) {
		struct burst *b = &th->past->fault[i];

		if (b->t < from)
			break;
		if (b->t > to)
			continue;
		n += b->n;
		b->n = 0;
	}
	return n;
}

/* ... and of threads that it gave work to: it need not have waited if both worked at once. */
static uint32_t faults_for(const struct lat_path *p, const struct thread *th, uint64_t from,
			   uint64_t to)
{
	uint32_t n = faults_in(th, from, to);

	for (uint64_t i = th->nwaked; i && th->nwaked - i < WOKEN; i--) {
		const struct waked *w = &th->past->waked[(i - 1) % WOKEN];
		const struct thread *other = path_thread_of(p, (uint32_t)w->tid);

		if (w->t < from)
			break;
		if (w->t <= to && other)
			n += faults_in(other, w->t, to);
	}
	return n;
}

bool lat_path_waits(const struct lat *l, int32_t tid, uint64_t from, uint64_t to,
		    struct path_told *told)
{
	const struct lat_path *p = l->path;
	const struct thread *th = p ? path_thread_of(p, (uint32_t)tid) : NULL, *other;
	uint64_t t = to;
	bool known;

	*told = (struct path_told){ 0 };
	if (!th)
		return false;
	told->faults = faults_for(p, th, from, to);
	for (unsigned int n = 0; n < STEPS && t > from; n++) {
		const struct wait *w = wait_before(th, from, t, &known);
		uint64_t end;

		if (!w || (w != &th->open && w->end <= from))
			return known;
		end = w == &th->open && th->waits ? t : MIN(w->end, t);
		if (end <= from)
			return true;
		other = (w->what == PATH_OTHERS || w->what == PATH_CPU) && w->waker && w->end <= t
				? path_thread_of(p, (uint32_t)w->waker)
				: NULL;
		if (other && other != th && other->vm == th->vm) {
			t = end;
			th = other;
			told->faults += faults_for(p, th, from, t);
			continue;
		}
		told->waited[w->what] += end - MAX(w->begin, from);
		t = MAX(w->begin, from);
	}
	return t <= from;
}
