/* SPDX-License-Identifier: GPL-2.0-or-later */
/* run.c: `kvmft stuck` from its options to its result. */
#include "room.h"

#include <poll.h>
#include <sys/resource.h>

#define DEFAULT_NS 3000000000u /* with what came before the first look, ... */
#define LEAST_NS   1000000000u /* ... but look at least this long */
#define MIN_NS	   200000000u
#define MAX_NS	   3600000000000u
#define LOOK_NS	   50000000u
/* Between two looks for each vCPU: one takes 14 us, 4 if it has slept since the last. */
#define LOOK_VCPU_NS 2000000u
#define READ_SHARE   250u /* 1/250 of a CPU is spent on reading events */
#define FEW_TICKS    10u
#define FILES_BESIDE 4096u /* besides those of vCPUs: rings and the like */

/* ---- who ---- */

static void stuck_add_vm(struct stuck *s, const struct vm *vm)
{
	_cleanup_free_ uint32_t *tid = NULL;
	size_t n = 0;

	/* Interrupts come from any thread of a VMM: of two VMs in a process they are either's. */
	if (vm_thread_ids(NULL, vm->pid, &tid, &n) == -ENOMEM)
		memory_out();
	for (size_t i = 0; i < n && vm->n_vcpus; i++)
		xu64map_put(&s->vm_of, tid[i], s->n);
	for (size_t i = 0; i < vm->n_vcpus; i++) {
		const struct vm_vcpu *vcpu = &vm->vcpu[i];
		struct stuck_vcpu *c = xarray_grow(&s->vcpu, s->n, &s->cap, sizeof(*c));

		s->n++;
		c->vm = vm;
		c->vcpu = vcpu;
		stuck_task_open(&c->task, vm->pid, vcpu->tid);
		if (vcpu->tid)
			xu64map_put(&s->by_tid, vcpu->tid, s->n - 1);
	}
}

static int find_vms(struct stuck *s)
{
	int ret;
	struct rlimit now, more;
	size_t want;

	if (vm_debugfs_mount(NULL, NULL))
		errno = 0; /* vm_scan() says what that means */
	ret = vm_scan(NULL, &s->vms, s->err);
	if (ret)
		return ret;
	if (s->c->vm)
		ret = vm_list_find(s->vms, s->c->vm, &s->only, s->err);
	else if (!s->vms->n)
		ret = vm_list_none(s->vms, s->err);
	else if (s->c->syms && s->vms->n > 1)
		ret = err_usage(s->err, "symbols of a guest: whose? Name the VM with --vm");
	/* A file is open for each vCPU: the soft limit, usually 1,024, may be too low. */
	want = FILES_BESIDE;
	for (size_t i = 0; i < s->vms->n; i++)
		want += s->vms->vm[i].n_vcpus;
	if (!getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur < want) {
		more = (struct rlimit){ want, MAX(now.rlim_max, (rlim_t)want) };
		if (setrlimit(RLIMIT_NOFILE, &more)) {
			more.rlim_cur = more.rlim_max = now.rlim_max;
			(void)!setrlimit(RLIMIT_NOFILE, &more);
		}
	}
	for (size_t i = 0; i < s->vms->n && !ret; i++)
		if (!s->only || s->only == &s->vms->vm[i])
			stuck_add_vm(s, &s->vms->vm[i]);
	return ret;
}

/* ---- looking ---- */

static void stuck_look(struct stuck *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct stuck_vcpu *c = &s->vcpu[i];

		c->obs.at[stuck_task_look(&c->task)]++;
		c->obs.looks++;
	}
}

static int look_on(struct stuck *s)
{
	uint64_t step = MAX((uint64_t)LOOK_NS, s->n * (uint64_t)LOOK_VCPU_NS), next;
	unsigned int turn = 0;
	struct pollfd p = { .fd = s->signal_fd, .events = POLLIN };
	bool asked = false;
	uint64_t left;
	int ret = 0;

	next = util_now_ns();
	/* A machine that is slow because its guests hang has to be reported in time, too. */
	s->ns = MAX(DEFAULT_NS - MIN(next - s->begin_ns, (uint64_t)DEFAULT_NS), (uint64_t)LEAST_NS);
	s->ns = s->c->ns.set ? s->c->ns.v : s->ns;
	s->begin_ns = next;
	do {
		stuck_look(s);
		ret = stuck_watch_read(s, step / READ_SHARE, false);
		if (!ret && !asked && util_now_ns() - s->begin_ns >= s->ns / 4) {
			asked = true;
			if (s->c->engine <= STUCK_ENGINE_AUTO)
				stuck_hist_some(s);
		}
		/* Not in step with timers, which wake guests. A late look is not made up for. */
		next += step / 4 * 3 + step / 16 * (turn++ * 5 % 8);
		next = MAX(next, util_now_ns());
		/* Waits until then, or for a signal. */
		left = MIN(next, s->begin_ns + s->ns);
		left -= MIN(left, util_now_ns());
		s->cut = !ret && left && poll(&p, 1, (int)((left + 999999) / 1000000)) > 0;
	} while (!ret && !s->cut && util_now_ns() < s->begin_ns + s->ns);
	stuck_look(s);
	s->end_ns = util_now_ns();
	s->ns = s->end_ns - s->begin_ns;
	ret = ret ?: stuck_watch_read(s, s->ns / READ_SHARE, true);
	return ret ?: stuck_hist_read(s);
}

/* ---- the result ---- */

/* Of a thread in the VMM; its memory is not read while one of it hangs in the kernel. */
static void peek(const struct stuck *s, struct stuck_vcpu *c)
{
	bool blocked = false;

	for (size_t i = 0; i < s->n; i++)
		blocked |= s->vcpu[i].vm->pid == c->vm->pid && s->vcpu[i].obs.at[STUCK_AT_WAIT];
	if ((c->obs.at[STUCK_AT_USER] || c->obs.ticks_user >= FEW_TICKS) && !blocked)
		c->obs.peeked = stuck_peek(c->vm->pid, c->vcpu->id, &c->peek);
	c->obs.peek = c->peek.reason;
}

static int result(struct stuck *s, struct sbuf *out)
{
	bool lacks;

	if (s->cut && s->ns < MIN_NS)
		return err_set(s->err, EINTR, "ended by a signal, too soon to tell anything");
	for (size_t i = 0; i < s->n; i++) {
		struct stuck_vcpu *c = &s->vcpu[i];
		const struct stuck_cpu *a = &c->task.first, *b = &c->task.last;
		struct stuck_obs *o = &c->obs;

		o->ns = s->ns;
		o->has_sched = b->known;
		o->run_ns = b->run - a->run;
		o->turns = b->turns - a->turns;
		o->delay_ns = b->delay - a->delay;
		o->ticks_user = b->user > a->user ? b->user - a->user : 0;
		o->ticks_kernel = b->kernel - a->kernel;
		o->ticks_guest = b->guest - a->guest;
		if (c->task.dir >= 0)
			stuck_throttle_end(c->task.dir, &c->task.throttle);
		o->throttled = c->task.throttle.n;
		o->blind = s->blind;
		o->is_timer = event_irqs(s->ev.fmt)->is_timer;
		o->futex = !strcmp(c->task.syscall, "futex");
		o->read = s->ev.read;
		o->lost = s->lost;
		if (!o->recorded)
			peek(s, c);
		stuck_judge(o, s->syms, &c->v);
		if (c->v.class == STUCK_HALTED && !o->recorded && !s->timers.known)
			stuck_timers_read(&s->timers);
	}
	if (s->cut)
		s->note("ended by a signal: what was seen until then");
	if (s->vms->n_hidden && !s->only)
		s->note("processes that may not be inspected%s: %zu",
			geteuid() ? " (run as root)" : "", s->vms->n_hidden);
	lacks = s->recording && stuck_recording_note(s);
	stuck_print(s, out);
	return lacks ? KVMFT_INCOMPLETE : KVMFT_OK;
}

static int stuck_prepare(struct stuck *s)
{
	const struct opt_u64 *ns = &s->c->ns;
	int ret;

	if (ns->set && (ns->v < MIN_NS || ns->v > MAX_NS))
		return err_usage(s->err, "option --seconds: not within 0.2 and 3600");
	/* Before anything is set in the kernel, so that Ctrl-C finds us ready to remove it. */
	s->signal_fd = session_signals(s->err);
	if (s->signal_fd < 0)
		return s->signal_fd;
	ret = ktracefs_open(NULL, KTRACEFS_MOUNT, &s->t, s->err);
	if (ret)
		return ret;
	kreset_leftovers(s->t, s->note);
	ret = find_vms(s);
	return ret ?: stuck_watch_begin(s);
}

int stuck_run(const struct stuck_config *c, note_fn *note, struct sbuf *out, struct kvmft_err *err)
{
	struct stuck s = {
		.c = c, .note = note, .err = err, .signal_fd = -1, .begin_ns = c->begin_ns
	};
	int ret = c->input ? stuck_recording_open(&s) : stuck_prepare(&s);

	s.syms = c->syms;
	if (!ret && !c->input)
		ret = look_on(&s);
	stuck_watch_end(&s);
	ret = ret ?: result(&s, out);
	stuck_watch_end(&s);
	for (size_t i = 0; i < s.n; i++) {
		stuck_task_close(&s.vcpu[i].task);
		stuck_obs_free(&s.vcpu[i].obs);
		free(s.vcpu[i].ran);
	}
	stuck_recording_free(s.recording);
	free(s.vcpu);
	u64map_free(&s.by_tid);
	u64map_free(&s.vm_of);
	free(s.ev.buf);
	fmt_free(s.ev.fmt);
	kevent_list_free(&s.ev.list);
	kcpus_free(&s.ev.cpus);
	if (!s.recording)
		vm_list_free(s.vms);
	ktracefs_close(s.t);
	session_signals_end(&s.signal_fd);
	return ret;
}
