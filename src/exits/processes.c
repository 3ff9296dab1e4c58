/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * processes.c: which address spaces a guest ran, from the registers at its exits; and which tasks,
 * where it recorded itself.
 *
 * Two walks. The first one finds what holds for all of it: whether the user's CR3 is another one
 * than the kernel's, and which stacks of a kernel are whose. A halt alone is no idle task: a guest
 * also halts to wait for a lock.
 */
#include "kvmft/report.h"
#include "kvmft/events.h"
#include "kvmft/vcpu_turn.h"

#define ROWS_MAX     (1u << 16) /* of a VM: what its guest makes of them is no other's loss */
#define VOTES_MAX    (1u << 17)
#define STACKS_MAX   (1u << 17)
#define STACK_SHIFT  14 /* 16 KiB: of a task's, or of interrupts, in Linux for x86 */
#define CR3_ADDRESS  0x000ffffffffff000ull /* without PCID or PCD, PWT */
#define CR3_USER     0x1000ull /* of KPTI: the user's page table is behind the kernel's */
#define CODE_HLT     0x78u
#define MODE_NPT     1u /* VMCB, 0x90: nested paging, SEV-ES */
#define MODE_SEALED  4u
#define HALTS	     8u /* one in so many exits of an idle task's stack is, at least */
#define BASED	     8u /* one in so many exits of a process's stack has a base of FS, at least */
#define STACK_CR3S   4
#define OWNERS	     16u /* of a page table; all later ones are one */
#define LIBRARIES    0x7e0000000000ull /* Linux puts them from here on, */
#define FAR	     (64ull << 30)     /* ... each program's anywhere within 1 TiB */

/* Where a vCPU was when it exited. */
struct process_at {
	enum { AT_UNKNOWN, AT_SPACE, AT_IDLE, AT_KERNEL, AT_NESTED } is;
	uint64_t space; /* AT_IDLE, AT_KERNEL: of whoever ran before */
};

struct process_vcpu {
	struct vcpu_turn turn;
	size_t vm;
	uint32_t id;
	uint64_t entry, end; /* of the guest's last turn; 0: not known */
	uint64_t last;	     /* event of it; */
	bool blind;	     /* ... since then events are missing */
	bool out, told, nested, fault, async, asleep;
	bool user, was_user;	/* its code, and not its kernel, exited; ... the time before */
	bool injected, in_turn; /* an interrupt, in this exit; ... and so in the guest's turn */
	uint64_t off;	 /* since when it waits for a CPU; 0: it has one */
	uint64_t stolen; /* in this exit, and in a halt before it */
	uint64_t waited; /* in this exit */
	struct process_at before, now; /* now.is: AT_UNKNOWN until that is known */
	struct exit_why why;
	/* of its guest's own capture */
	bool has_task, exit_has_task;
	uint64_t task_gaps; /* how many its guest had by then */
	bool live; /* seen since the host's last gap */
	int32_t task, exit_task, task_before;
	size_t stack; /* of its kernel, at this exit: index + 1; not of interrupts */
	uint64_t cr3, fs; /* at this exit */
	uint64_t since;
	/* its interrupts' stack: index + 1, and how many exits were on it */
	size_t irq_stack;
	uint32_t irq_exits;
};

/* One of a guest's kernel, by where it is. */
struct process_stack {
	struct {
		uint64_t space;
		uint32_t exits, visits;
	} cr3[STACK_CR3S]; /* the most frequent, as far as there is room */
	uint64_t last;
	uint64_t home; /* space in which it had a base at last */
	uint32_t exits, halts, based; /* based: with a base of FS */
	bool moves; /* it was on several vCPUs */
	bool irq, owned, several;
	int32_t owner; /* ... which task, by its guest's capture: one, or several */
	size_t vcpu;   /* index */
};

/*
 * What the base of FS tells of a page table: whether it was one, in user mode, and which processes
 * had it, one after the other. A new program has its C library somewhere else.
 */
struct process_space {
	bool based, bare;
	size_t stack; /* which had a base in it at last: index + 1 */
	size_t n, cap;
	struct process_owner {
		uint64_t fs, first, last; /* first, last: host TSC */
	} *owner;
};

struct process_vote {
	uint64_t n;
	uint32_t row;
	int32_t tid;
	const char *comm;
};

struct process_walk {
	struct processes p; /* first */
	struct timeline *t;
	const struct hostmap *m;
	const struct fmt *fmt;
	int64_t only;
	bool met[2]; /* switches, wakeups */
	bool has_fs;
	struct u64map by_row, by_vcpu, by_vote, by_stack, by_space;
	struct process_vcpu *vcpu;
	struct process_stack *stack;
	struct process_space *space;
	struct process_vote *vote;
	struct process_row crowded;
	size_t vcpu_cap, vote_cap, stack_cap, space_cap;
	size_t *live, nlive, live_cap;
	bool learned; /* the first walk is over */
	uint64_t lost_until; /* host TSC */
	struct process_modes {
		bool user_even, user_odd;
		uint32_t rows, votes, stacks, spaces;
		uint64_t gaps; /* in its own capture */
		/* host TSC: by its own capture; 0: there is none */
		uint64_t told_until;
		bool told; /* it has begun */
	} *modes; /* by VM */
};

/* ---- what holds for all of a capture ---- */

static uint64_t stack_key(size_t vm, uint64_t rsp)
{
	return (uint64_t)vm << 50 | (rsp >> STACK_SHIFT & ((1ull << 50) - 1));
}

static uint64_t space_key(size_t vm, uint64_t space)
{
	return (uint64_t)vm << 48 | (space & ~CR3_USER) >> 12;
}

static void learn_base(struct process_walk *w, size_t vm, uint64_t space, uint64_t fs, bool user,
		       uint64_t t)
{
	struct process_space *s;
	struct process_owner *o;
	size_t i = 0;

	if (w->modes[vm].spaces > ROWS_MAX)
		return;
	s = xu64map_elem(&w->by_space, space_key(vm, space), &w->space, &w->space_cap, sizeof(*s));
	w->modes[vm].spaces += !s->based && !s->bare && !s->n;
	s->based |= user && fs;
	s->bare |= user && !fs;
	if (fs < LIBRARIES)
		return;
	while (i < s->n && (s->owner[i].fs > fs ? s->owner[i].fs - fs : fs - s->owner[i].fs) > FAR)
		i++;
	if (i == s->n && !user) /* as while it executes another program */
		return;
	if (i == OWNERS)
		i--;
	if (i == s->n) {
		o = xarray_grow(&s->owner, s->n++, &s->cap, sizeof(*o));
		*o = (struct process_owner){ .fs = fs, .first = t };
	}
	s->owner[i].last = t;
}

/*
 * Linux loads the base of FS with the thread: each of a process has data of its own there, where
 * kernel threads and idle tasks have 0. So has a process until its C library is up, on a stack that
 * had a base before or gets one; and a 32-bit program, or one without such a library, always.
 */
static bool fs_tells(const struct process_walk *w, size_t vm, uint64_t space)
{
	uint64_t at;

	return w->has_fs && (!u64map_get(&w->by_space, space_key(vm, space), &at) ||
			     w->space[at].based || !w->space[at].bare);
}

static void walk_learn(struct process_walk *w, const struct process_vcpu *v,
		       const struct tl_item *i, const struct event_type *e)
{
	const struct rec *rec = i->rec;
	size_t vm = v->vm;
	uint64_t cr3 = event_u64(e, 0, rec), modes = event_u64(e, 4, rec);
	uint64_t cpl = event_u64(e, 1, rec), space = cr3 & CR3_ADDRESS & ~CR3_USER;
	struct process_stack *s;
	size_t at = 0;

	if (!(modes & MODE_NPT) || modes & MODE_SEALED)
		return;
	if (cpl == 3) {
		w->modes[vm].user_odd |= cr3 & CR3_USER;
		w->modes[vm].user_even |= !(cr3 & CR3_USER);
	}
	if (w->has_fs && (cpl == 3 || event_u64(e, 5, rec)))
		learn_base(w, vm, space, event_u64(e, 5, rec), cpl == 3, i->host);
	if (cpl || w->modes[vm].stacks > STACKS_MAX)
		return;
	s = xu64map_elem(&w->by_stack, stack_key(vm, event_u64(e, 2, rec)), &w->stack,
			 &w->stack_cap, sizeof(*s));
	if (!s->exits) {
		s->vcpu = (size_t)(v - w->vcpu);
		w->modes[vm].stacks++;
	}
	s->moves |= s->vcpu != (size_t)(v - w->vcpu);
	for (size_t k = 1; k < STACK_CR3S && s->cr3[at].space != space; k++)
		if (s->cr3[k].space == space || s->cr3[k].exits < s->cr3[at].exits)
			at = k;
	if (s->cr3[at].space != space)
		s->cr3[at].visits = 0;
	s->cr3[at].space = space;
	s->cr3[at].visits += !s->exits || s->last != space;
	s->cr3[at].exits++;
	s->last = space;
	s->exits++;
	s->halts += event_u64(e, 3, rec) == CODE_HLT;
	s->based += w->has_fs && event_u64(e, 5, rec);
}

static bool is_idle(const struct process_stack *s)
{
	return (uint64_t)s->halts * HALTS >= s->exits;
}

/*
 * An interrupt's or a kernel thread's: it comes back to several address spaces. That of a process
 * has another one when it ends, and between the switch of address spaces and that of stacks.
 */
static bool is_shared(const struct process_stack *s)
{
	uint32_t most = 0, again = 0;

	for (size_t i = 0; i < STACK_CR3S; i++) {
		most = MAX(most, s->cr3[i].exits);
		again += s->cr3[i].visits > 1;
	}
	return again > 1 && most < s->exits - s->exits / 10;
}

void processes_again(struct processes *p)
{
	struct process_walk *w = (struct process_walk *)p;

	w->learned = true;
	/* A vCPU has one for interrupts, which no other has; it has more exits than a thread's. */
	for (size_t i = 0; i < w->by_stack.n; i++) {
		const struct process_stack *s = &w->stack[i];
		struct process_vcpu *v = &w->vcpu[s->vcpu];

		if (is_shared(s) && !s->moves && !is_idle(s) && s->exits > v->irq_exits) {
			v->irq_stack = i + 1;
			v->irq_exits = s->exits;
		}
	}
	for (size_t i = 0; i < w->by_vcpu.n; i++)
		if (w->vcpu[i].irq_stack)
			w->stack[w->vcpu[i].irq_stack - 1].irq = true;
	for (size_t i = 1; i < tl_sources(w->t); i++) {
		const struct tl_source *s = tl_source(w->t, i);
		uint64_t end;

		if (s->guest && s->vm < p->nvm && tl_source_end(w->t, s, &end) > 0) {
			uint64_t *until = &w->modes[w->m->vm[s->vm].of].told_until;

			*until = MAX(*until, end);
		}
	}
	/* Those that took turns with a page table are one process. */
	for (size_t i = 0; i < w->by_space.n; i++) {
		struct process_owner *o = w->space[i].owner;
		size_t n = 0;

		for (size_t k = 0; k < w->space[i].n; k++)
			if (n && o[k].first < o[n - 1].last)
				o[n - 1].last = MAX(o[n - 1].last, o[k].last);
			else
				o[n++] = o[k];
		w->space[i].n = n;
	}
	for (size_t i = 0; i < p->nvm; i++)
		p->vm[i].tables = w->modes[i].user_odd && !w->modes[i].user_even;
}

void processes_new(struct timeline *t, int64_t only, struct processes **out)
{
	struct process_walk *w = xcalloc(1, sizeof(*w));
	const struct capture *cap = tl_source(t, 0)->cap;

	*out = &w->p;
	w->t = t;
	w->m = tl_hostmap(t);
	w->fmt = w->m->fmt;
	w->only = only;
	w->p.nvm = w->m->nvm;
	w->p.vm = xcalloc(w->p.nvm + 1, sizeof(*w->p.vm));
	w->modes = xcalloc(w->p.nvm + 1, sizeof(*w->modes));
	w->p.has_cr3 = event_find(w->fmt, EV_CR3, 5)->ev;
	w->has_fs = event_find(w->fmt, EV_CR3, 6)->ev;
	/* A trace.dat has the formats of events that were not recorded: there, once one is met. */
	w->p.has_sched = !cap->is_tracedat && event_find(w->fmt, EV_WAKEUP, 1)->ev &&
			 event_find(w->fmt, EV_SWITCH, 3)->ev;
	w->p.has_async = !cap->is_tracedat && event_format(w->fmt, EV_ASYNC_TOLD);
}

/* ---- rows ---- */

static struct process_row *process_row_of(struct process_walk *w, size_t vm,
					  enum process_kind kind, uint64_t id)
{
	uint64_t key = (uint64_t)vm << 48 | (uint64_t)kind << 44 |
		       (kind == PROCESS_SPACE ? (id & (OWNERS - 1)) << 40 | id >> 12 : id);
	uint64_t at = w->p.n;
	struct process_row *r;

	if (u64map_get(&w->by_row, key, &at))
		return &w->p.row[at];
	if (vm >= 1u << 16 || w->modes[vm].rows == ROWS_MAX)
		return &w->crowded;
	w->modes[vm].rows++;
	r = xarray_grow(&w->p.row, w->p.n, &w->p.cap, sizeof(*r));
	xu64map_put(&w->by_row, key, w->p.n++);
	*r = (struct process_row){ .kind = kind, .vm = vm, .id = id };
	if (kind == PROCESS_SPACE)
		r->id &= CR3_ADDRESS;
	if (kind == PROCESS_SPACE)
		r->number = ++w->p.vm[vm].spaces;
	return r;
}

static struct process_row *row_at(struct process_walk *w, size_t vm, const struct process_at *at)
{
	static const enum process_kind kinds[] = {
		[AT_SPACE] = PROCESS_SPACE,   [AT_IDLE] = PROCESS_IDLE,
		[AT_KERNEL] = PROCESS_KERNEL, [AT_NESTED] = PROCESS_NESTED,
	};

	return process_row_of(w, vm, kinds[at->is], at->is == AT_SPACE ? at->space : 0);
}

static void count_exit(struct process_row *r, const struct process_vcpu *v, uint64_t spent)
{
	size_t i = 0;

	r->exits++;
	r->faults += v->fault;
	r->async += v->async;
	r->spent += exit_is_halt(v->why) ? 0 : spent - MIN(spent, v->waited);
	r->stolen += v->stolen;
	while (i < r->nreasons &&
	       (r->reason[i].why.isa != v->why.isa || r->reason[i].why.reason != v->why.reason))
		i++;
	if (i == PROCESS_REASONS) {
		r->other_reasons++;
		return;
	}
	r->nreasons = MAX(r->nreasons, i + 1);
	r->reason[i].why = v->why;
	r->reason[i].n++;
}

/*
 * sched_switch comes before the switch: an exit between the two is still on the stack of the task
 * before, and of either.
 */
static void walk_judge(struct process_walk *w, const struct process_row *r,
		       const struct process_vcpu *v)
{
	struct process_stack *s = v->stack ? &w->stack[v->stack - 1] : NULL;
	uint64_t key = (uint64_t)(r - w->p.row) << 32 | (uint32_t)v->exit_task;
	struct process_vote *one;

	if (s && s->owned && !s->several && s->owner == v->task_before &&
	    s->owner != v->exit_task) {
		w->p.vm[v->vm].switching++;
		return;
	}
	if (s) {
		s->several |= s->owned && s->owner != v->exit_task;
		s->owned = true;
		s->owner = v->exit_task;
	}
	if (r == &w->crowded || w->modes[r->vm].votes > VOTES_MAX)
		return;
	one = xu64map_elem(&w->by_vote, key, &w->vote, &w->vote_cap, sizeof(*one));
	one->row = (uint32_t)(r - w->p.row);
	one->tid = v->exit_task;
	w->modes[r->vm].votes += !one->n++;
}

/* ---- turns ---- */

/* Who may have run between two exits: all get it as `most`. */
static void walk_spread(struct process_walk *w, size_t vm, const struct process_at *a,
			const struct process_at *b, uint64_t time)
{
	const struct process_at all[] = { *a, { AT_SPACE, a->space },
					  *b, { AT_SPACE, b->space } };
	uint64_t done[ARRAY_SIZE(all)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const struct process_row *r;
		size_t k = 0;

		if (i % 2 && all[i - 1].is == AT_NESTED) /* which has no space */
			continue;
		r = row_at(w, vm, &all[i]);
		while (k < n && done[k] != (uint64_t)(r - w->p.row))
			k++;
		if (k < n || r == &w->crowded)
			continue;
		done[n++] = (uint64_t)(r - w->p.row);
		w->p.row[done[k]].most += time;
	}
}

static void charge_turn(struct process_walk *w, const struct process_vcpu *v,
			const struct process_at *at, uint64_t time)
{
	struct process_vm *vm = &w->p.vm[v->vm];
	const struct process_at *a = &v->before;
	struct process_at who = *at;
	struct process_row *r;

	vm->guest += time;
	if (at->is == AT_UNKNOWN) {
		vm->unknown += time;
		return;
	}
	/* It ends idle or in a kernel thread: whoever ran before that, or woke up within. */
	if (a->is == AT_UNKNOWN || (at->is != AT_IDLE && at->is != AT_KERNEL))
		who = *at;
	else if (a->space != at->space)
		who.is = AT_SPACE;
	else if (at->is == AT_IDLE)
		who = *a;
	if (a->is == AT_UNKNOWN)
		vm->unknown += time;
	else
		walk_spread(w, v->vm, a, at, time);
	/*
	 * What exits in its kernel, as to set a timer, or gets an interrupt is about to switch: it
	 * did so at once. User code goes on, until any time.
	 */
	if (a->is == AT_SPACE && v->was_user && !v->in_turn &&
	    (who.is != a->is || who.space != a->space)) {
		row_at(w, v->vm, a)->cpu += time / 2;
		time -= time / 2;
	}
	r = row_at(w, v->vm, &who);
	r->cpu += time;
	if (a->is == at->is && a->space == at->space && (at->is == AT_SPACE || at->is == AT_NESTED))
		r->least += time;
}

static void charge_task(struct process_walk *w, struct process_vcpu *v, uint64_t to)
{
	struct process_row *r;

	if (v->turn.state == TURN_IN_GUEST && v->has_task && v->since && to > v->since) {
		r = process_row_of(w, v->vm, PROCESS_TASK, (uint32_t)v->task);
		r->cpu += to - v->since;
		r->least = r->most = r->cpu;
	}
	v->since = MAX(v->since, to);
}

/* All that belongs to an exit has been seen: to is the next entry. */
static void exit_done(struct process_walk *w, struct process_vcpu *v, uint64_t to)
{
	struct process_at at = v->now;
	struct process_vm *vm = &w->p.vm[v->vm];
	uint64_t spent = to > v->end ? to - v->end : 0;

	if (!v->out)
		return;
	/* With a guest's capture only while that goes on: before and after, CR3s are of others. */
	if (w->modes[v->vm].told_until &&
	    (!w->modes[v->vm].told || v->end > w->modes[v->vm].told_until)) {
		v->out = v->told = v->nested = v->fault = v->async = false;
		v->before.is = v->now.is = AT_UNKNOWN;
		v->waited = v->stolen = 0;
		return;
	}
	if (v->nested)
		at = (struct process_at){ AT_NESTED, 0 };
	if (v->entry && v->end > v->entry)
		charge_turn(w, v, &at, v->end - v->entry);
	if (v->told) {
		vm->exits++;
		vm->blind += at.is == AT_UNKNOWN;
		if (at.is != AT_UNKNOWN) {
			struct process_row *r = row_at(w, v->vm, &at);

			count_exit(r, v, spent);
			vm->crowded += r == &w->crowded;
			if (v->exit_has_task)
				walk_judge(w, r, v);
		}
		if (w->p.ran) {
			const struct process_at last = { AT_SPACE, at.space };
			const struct process_row *r = NULL;

			/* An idle task keeps the address space of who ran before it. */
			if (at.is == AT_KERNEL || at.is == AT_NESTED ||
			    (at.is == AT_SPACE && !exit_is_halt(v->why)))
				r = row_at(w, v->vm, &at);
			else if (at.is != AT_UNKNOWN && v->before.is != AT_UNKNOWN &&
				 v->before.space != at.space)
				r = row_at(w, v->vm, &last);
			if (r || exit_is_halt(v->why))
				w->p.ran(w->p.ctx, v->vm, v->id, r);
		}
		if (v->exit_has_task)
			count_exit(process_row_of(w, v->vm, PROCESS_TASK, (uint32_t)v->exit_task),
				   v, spent);
		if (!exit_is_halt(v->why))
			v->stolen = 0;
	}
	v->before = at;
	v->was_user = v->user;
	v->now.is = AT_UNKNOWN;
	v->out = v->told = v->nested = v->fault = v->async = false;
	v->waited = 0;
}

/* In its kernel, on stack s, without a base; last_*: what there was at the exit before. */
static void kernel_at(const struct process_walk *w, struct process_vcpu *v,
		      const struct process_stack *s, uint64_t last_cr3, uint64_t last_fs)
{
	const struct process_space *p = NULL;
	bool tells = fs_tells(w, v->vm, v->now.space);
	uint64_t at;

	if (u64map_get(&w->by_space, space_key(v->vm, v->now.space), &at))
		p = &w->space[at];
	/* On an interrupt's stack it is who was interrupted. */
	if (is_idle(s))
		v->now.is = AT_IDLE;
	else if (s->irq && last_cr3 == v->cr3 && !last_fs && v->before.is != AT_UNKNOWN &&
		 v->before.is != AT_NESTED)
		v->now = v->before;
	else if (s->irq ? tells : tells ? (uint64_t)s->based * BASED < s->exits : is_shared(s))
		v->now.is = AT_KERNEL;
	/*
	 * A thread that ends has neither a base nor an address space: it borrows one, as kernel
	 * threads do. One that executes another program has a new one.
	 */
	else if (tells && s->home && (s->home & CR3_ADDRESS) != v->now.space &&
		 (!p || (!p->based && !p->bare) || (p->stack && p->stack != v->stack)))
		v->now.space = s->home;
}

static void on_cr3(struct process_walk *w, struct process_vcpu *v, const struct tl_item *i,
		   const struct event_type *e)
{
	struct process_vm *vm = &w->p.vm[v->vm];
	uint64_t modes = event_u64(e, 4, i->rec), fs = w->has_fs ? event_u64(e, 5, i->rec) : 0, at;
	uint64_t last_cr3 = v->cr3, last_fs = v->fs;
	struct process_stack *s = NULL;

	v->now = (struct process_at){ AT_UNKNOWN, 0 };
	v->stack = 0;
	vm->sealed += (modes & MODE_SEALED) != 0;
	vm->shadowed += !(modes & (MODE_NPT | MODE_SEALED));
	if (!(modes & MODE_NPT) || modes & MODE_SEALED)
		return;
	v->fs = fs;
	v->user = event_u64(e, 1, i->rec) == 3;
	v->cr3 = event_u64(e, 0, i->rec) & CR3_ADDRESS & ~(vm->tables ? CR3_USER : 0);
	v->now = (struct process_at){ AT_SPACE, v->cr3 };
	if (!event_u64(e, 1, i->rec)) {
		if (u64map_get(&w->by_stack, stack_key(v->vm, event_u64(e, 2, i->rec)), &at))
			s = &w->stack[at];
		v->stack = s && !s->irq ? at + 1 : 0;
		if (!s && !fs)
			v->now.is = AT_UNKNOWN; /* one too many: perhaps an idle task's */
		else if (!fs)
			kernel_at(w, v, s, last_cr3, last_fs);
	}
	if (u64map_get(&w->by_space, space_key(v->vm, v->cr3), &at)) {
		struct process_space *p = &w->space[at];
		const struct process_owner *o = p->owner;
		uint64_t k = 0;

		/* What borrows it has that of whoever was there before; a process its own. */
		while (k + 1 < p->n && (v->now.is == AT_SPACE ? o[k].last < i->host
							       : o[k + 1].first <= i->host))
			k++;
		if (v->now.space == v->cr3)
			v->now.space |= k;
		if (fs && v->stack)
			p->stack = v->stack;
	}
	if (fs && v->stack)
		s->home = v->now.space;
}

/* ---- items ---- */

static struct process_vcpu *process_vcpu_of(struct process_walk *w, int64_t vm, int64_t vcpu)
{
	struct process_vcpu *v;
	size_t of, at;

	if (vm < 0 || (size_t)vm >= w->p.nvm || vcpu < 0)
		return NULL;
	of = w->m->vm[vm].of;
	if (w->only >= 0 && of != w->m->vm[w->only].of)
		return NULL;
	v = xu64map_elem(&w->by_vcpu, (uint64_t)of << 32 | (uint32_t)vcpu, &w->vcpu, &w->vcpu_cap,
			 sizeof(*v));
	v->vm = of;
	v->id = (uint32_t)vcpu;
	at = (size_t)(v - w->vcpu);
	if (!v->live)
		xarray_add(&w->live, &w->nlive, &w->live_cap, &at, sizeof(at));
	v->live = true;
	v->has_task &= v->task_gaps == w->modes[of].gaps;
	return v;
}

static struct process_vcpu *vcpu_of_tid(struct process_walk *w, uint64_t tid)
{
	const struct hostmap_thread *th = tid ? hostmap_thread(w->m, (int32_t)tid) : NULL;

	return th && th->vm < w->p.nvm && !th->floats
		       ? process_vcpu_of(w, (int64_t)th->vm, th->vcpu)
		       : NULL;
}

static void feed_vcpu(struct process_walk *w, struct process_vcpu *v, const struct tl_item *i)
{
	const struct event_type *t = event_type_of(i->ev);
	enum turn_event e = turn_event_of(i->ev);
	enum turn_step step;

	if (v->has_task && i->host > w->modes[v->vm].told_until) {
		charge_task(w, v, w->modes[v->vm].told_until);
		v->has_task = false;
	}
	if (t->role == EV_CR3 && w->p.has_cr3) {
		e = TURN_LEFT;
		on_cr3(w, v, i, t);
	}
	if (e == TURN_LEFT || e == TURN_EXIT)
		charge_task(w, v, i->host);
	step = vcpu_turn_step(&v->turn, e);
	if (step == TURN_BEGAN || step == TURN_AGAIN) {
		/* It may have run on a CPU whose events were lost meanwhile. */
		if (v->blind || (v->out && v->end <= w->lost_until && w->lost_until))
			w->p.vm[v->vm].unknown +=
				i->host - MIN(i->host, v->blind ? v->last : v->end);
		v->blind = false;
		exit_done(w, v, i->host);
		if (step != TURN_AGAIN) {
			v->entry = v->since = i->host;
			v->in_turn = v->injected;
		}
		v->injected = false;
	} else if (step == TURN_ENDED || step == TURN_MISSED) {
		w->p.vm[v->vm].missed += step == TURN_MISSED;
		if (step == TURN_MISSED)
			v->entry = 0;
		v->end = i->host;
		v->out = true;
		v->exit_has_task = v->has_task;
		v->exit_task = v->task;
	}
	if (e == TURN_EXIT) {
		v->why = exit_why(&i->src->exits, tl_field(i, 0), tl_field(i, 1));
		v->fault = exit_kind(v->why) == EXIT_KIND_FAULT;
		v->told = true;
	}
	v->injected |= t->role == EV_INJECT;
	v->nested |= t->role == EV_NESTED_EXIT;
	if (t->role == EV_ASYNC_TOLD)
		w->p.has_async = v->async = true;
	v->fault &= t->role != EV_MMIO && t->role != EV_FAST_MMIO;
	v->last = i->host;
}

void processes_feed(void *processes, const struct tl_item *i)
{
	struct process_walk *w = processes;
	const struct event_type *e = event_type_of(i->kind == TL_EVENT ? i->ev : NULL);
	bool wakes = e->role == EV_WAKEUP && e->have >= 1;
	struct process_vcpu *v;

	if (i->src->qemu || i->src->link)
		return;
	if (!w->learned) {
		v = e->role == EV_CR3 && w->p.has_cr3 && !i->guest
			    ? process_vcpu_of(w, i->vm, i->vcpu)
			    : NULL;
		if (v)
			walk_learn(w, v, i, e);
		return;
	}
	if (i->kind != TL_EVENT) {
		if (i->guest) {
			w->modes[w->m->vm[i->src->vm].of].gaps++;
			return;
		}
		for (size_t k = 0; k < w->nlive; k++) {
			v = &w->vcpu[w->live[k]];
			exit_done(w, v, v->last);
			v->turn = (struct vcpu_turn){ 0 };
			v->before.is = v->now.is = AT_UNKNOWN;
			v->entry = v->off = v->stolen = v->waited = 0;
			v->out = v->told = v->nested = v->asleep = v->live = false;
			v->blind = v->last != 0;
		}
		w->nlive = 0;
		w->lost_until = MAX(w->lost_until, i->host + i->width);
		return;
	}
	if (i->guest) {
		if (e->role != EV_SWITCH || e->have < 3 || i->unplaced)
			return;
		v = process_vcpu_of(w, i->vm >= 0 ? i->vm : (int64_t)i->src->vm, i->vcpu);
		if (!v)
			return;
		w->modes[v->vm].told = true;
		charge_task(w, v, i->host);
		v->task = (int32_t)tl_field(i, 2);
		v->task_before = (int32_t)tl_field(i, 0);
		v->has_task = true;
		v->task_gaps = w->modes[v->vm].gaps;
		return;
	}
	if (!i->ev || i->marker)
		return;
	v = process_vcpu_of(w, i->vm, i->vcpu);
	if (v)
		feed_vcpu(w, v, i);
	if (wakes || (e->role == EV_SWITCH && e->have >= 3)) {
		struct process_vcpu *prev, *next;

		w->met[wakes] = true;
		w->p.has_sched |= w->met[0] && w->met[1];
		if (wakes) {
			next = vcpu_of_tid(w, tl_field(i, 0));
			if (next && next->asleep && !next->off)
				next->off = i->host;
			return;
		}
		prev = vcpu_of_tid(w, tl_field(i, 0));
		if (prev) {
			prev->asleep = event_task_sleeps(tl_field(i, 1));
			prev->off = prev->asleep ? 0 : i->host;
		}
		next = vcpu_of_tid(w, tl_field(i, 2));
		if (next && next->off && i->host > next->off) {
			next->waited += i->host - next->off;
			next->stolen += i->host - next->off;
		}
		if (next) {
			next->off = 0;
			next->asleep = false;
		}
	}
}

/* ---- the end ---- */

static const char *comm_of(const struct process_walk *w, size_t vm, int32_t tid)
{
	for (size_t i = 1; i < tl_sources(w->t); i++) {
		const struct tl_source *s = tl_source(w->t, i);

		if (s->guest && s->vm < w->p.nvm && w->m->vm[s->vm].of == vm)
			return tid ? tl_comm(s, tid) : "idle";
	}
	return NULL;
}

COMPARE(by_row_and_comm, struct process_vote, ORDER(x->row, y->row) ?: strcmp(x->comm, y->comm));
COMPARE(by_vm_and_cpu, struct process_row,
	ORDER(x->vm, y->vm) ?: ORDER(y->cpu, x->cpu) ?: ORDER(y->exits, x->exits) ?:
	ORDER(x->kind, y->kind) ?: ORDER(x->id, y->id));

static uint64_t comm_key(const char *comm)
{
	uint64_t key[2] = { 0 };

	memcpy(key, comm, MIN(strlen(comm), sizeof(key)));
	return key[0] ^ (key[1] << 31 | key[1] >> 33);
}

void processes_finish(struct processes *p)
{
	struct process_walk *w = (struct process_walk *)p;
	_cleanup_(u64map_free) struct u64map named = { 0 };
	size_t n = w->by_vote.n;

	for (size_t i = 0; i < w->by_vcpu.n; i++)
		exit_done(w, &w->vcpu[i], w->vcpu[i].end);

	for (size_t i = 0; i < n; i++)
		w->vote[i].comm = comm_of(w, w->p.row[w->vote[i].row].vm, w->vote[i].tid) ?: "";
	if (n)
		qsort(w->vote, n, sizeof(*w->vote), by_row_and_comm);
	for (size_t i = 0, k; i < n; i = k) {
		struct process_row *r = &w->p.row[w->vote[i].row];
		uint64_t sum = 0;

		for (k = i; k < n && w->vote[k].row == w->vote[i].row &&
			    !strcmp(w->vote[k].comm, w->vote[i].comm); k++)
			sum += w->vote[k].n;
		r->judged += sum;
		if (r->kind == PROCESS_IDLE ? !strcmp(w->vote[i].comm, "idle")
					    : r->kind == PROCESS_SPACE && sum > r->agree) {
			r->agree = sum;
			r->name = r->kind == PROCESS_SPACE ? w->vote[i].comm : NULL;
		}
	}
	for (size_t i = 0; i < w->p.n; i++)
		if (w->p.row[i].name)
			xu64map_put(&named, comm_key(w->p.row[i].name), 1);
	/* A kernel thread is a task whose name no address space has. */
	for (size_t i = 0; i < n; i++)
		if (w->p.row[w->vote[i].row].kind == PROCESS_KERNEL && w->vote[i].tid &&
		    !u64map_get(&named, comm_key(w->vote[i].comm), NULL))
			w->p.row[w->vote[i].row].agree += w->vote[i].n;
	for (size_t i = 0; i < w->p.n; i++) {
		struct process_row *r = &w->p.row[i];

		if (r->kind == PROCESS_TASK)
			r->name = comm_of(w, r->vm, (int32_t)r->id);
		w->p.vm[r->vm].judged += r->judged;
		w->p.vm[r->vm].agree += r->agree;
	}
	if (p->n)
		qsort(p->row, p->n, sizeof(*p->row), by_vm_and_cpu);
}

void processes_free(struct processes *p)
{
	struct process_walk *w = (struct process_walk *)p;

	if (!w)
		return;
	for (size_t i = 0; i < w->by_space.n; i++)
		free(w->space[i].owner);
	u64map_free(&w->by_row);
	u64map_free(&w->by_vcpu);
	u64map_free(&w->by_vote);
	u64map_free(&w->by_stack);
	u64map_free(&w->by_space);
	free(w->stack);
	free(w->space);
	free(w->vcpu);
	free(w->live);
	free(w->vote);
	free(w->modes);
	free(p->vm);
	free(p->row);
	free(w);
}
