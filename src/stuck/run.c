/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * run.c: `kvmft stuck` from its options to its result, and a vCPU's thread in /proc. Nothing here
 * takes a lock of the VMM's memory, which a hanging VMM may hold: that rules out cmdline, maps and
 * the like.
 */
#include "room.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

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

/* ---- a thread ---- */

/* Sums: an unthrottled cgroup adds nothing. The lowest throttled one gives its name. */
static void add_up(void *throttle, const char *dir)
{
	struct stuck_throttle *t = throttle;
	uint64_t n, ns;

	if (!vm_cgroup_throttled(dir, &n, &ns))
		return;
	t->n += n;
	t->ns += ns;
	if (!n || t->path[0])
		return;
	snprintf(t->path, sizeof(t->path), "%s", dir);
	str_printable(t->path);
}

/*
 * A guest that is halted is woken by its timer, if it has set one; KVM keeps that as an
 * hrtimer of the host, and /proc/timer_list has all of those, by what is called when they expire.
 */

static const char *const functions[] = {
	"apic_timer_fn",				/* x86: of a local APIC, */
	"pit_timer_fn",					/* ... of the PIT in KVM, */
	"stimer_timer_callback",			/* ... and what Hyper-V and Xen offer */
	"xen_timer_callback",	 "kvm_bg_timer_expire", /* arm64 */
	"kvm_hrtimer_expire",
};

static void stuck_timers_read(struct stuck_timers *t)
{
	FILE *f = fopen("/proc/timer_list", "re");
	bool ours = false;
	char line[256];
	const char *name;

	*t = (struct stuck_timers){ .known = f != NULL };
	while (f && fgets(line, sizeof(line), f)) {
		const char *in = ours ? strstr(line, "[in ") : NULL;
		long long ns = in ? strtoll(in + 4, NULL, 10) : 0;

		/* " #0: <0000000012345678>, apic_timer_fn, S:01", in some kernels with "[kvm]" */
		name = strstr(line, ">, ");
		ours = false;
		for (size_t i = 0; name && i < ARRAY_SIZE(functions); i++)
			ours |= str_starts(name + 3, functions[i]);
		if (!in)
			continue;
		t->next_ns = MIN(t->n ? t->next_ns : UINT64_MAX, (uint64_t)MAX(ns, 0LL));
		t->n++;
	}
	if (f)
		fclose(f);
}

/* Why KVM_RUN last returned, in a page of the VMM's (struct kvm_run): shown, not trusted. */

#define RUN_SIZE       64
#define RUN_REASON     8
#define RUN_UNION      32 /* io: direction u8, size u8, port u16, ...; mmio: phys_addr u64, ... */
#define RUN_IO_PORT    34
#define RUN_MMIO_WRITE 52
#define EXIT_IO	       2 /* KVM_EXIT_IO, KVM_EXIT_MMIO */
#define EXIT_MMIO      6

struct page {
	uint32_t pid, vcpu;
};

static ssize_t read_page(const void *arg, void *run, size_t size)
{
	const struct page *of = arg;
	_cleanup_free_ char *line = NULL;
	_cleanup_close_ int fd = -1;
	char path[32], want[48];
	uint64_t at = 0, from;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/maps", of->pid);
	snprintf(want, sizeof(want), "anon_inode:kvm-vcpu:%u\n", of->vcpu);
	f = fopen(path, "re");
	/* Where the page is; 0: nowhere, or more than once, by two VMs of a process. */
	while (f && getline(&line, &room, f) > 0) {
		int name = 0;

		/* All of the path: a file can have a name that ends like that. */
		if (sscanf(line, "%" SCNx64 "-%*s %*s %*s %*s %*s %n", &from, &name) != 1 ||
		    strcmp(line + name, want))
			continue;
		if (at) {
			at = 0;
			break;
		}
		at = from;
	}
	if (f)
		fclose(f);
	snprintf(path, sizeof(path), "/proc/%u/mem", of->pid);
	fd = at ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	return fd < 0 ? -ENOENT : full_pread(fd, run, size, at);
}

static bool stuck_peek(uint32_t pid, uint32_t vcpu, unsigned int ms, struct stuck_peek *p)
{
	const struct page page = { pid, vcpu };
	uint8_t run[RUN_SIZE];

	*p = (struct stuck_peek){ 0 };
	if (patient_read(read_page, &page, -1, run, sizeof(run), ms) != sizeof(run))
		return false;
	p->reason = load_u32(run + RUN_REASON);
	if (p->reason == EXIT_IO) {
		p->address = load_u16(run + RUN_IO_PORT);
		p->write = run[RUN_UNION] != 0;
	} else if (p->reason == EXIT_MMIO) {
		p->address = load_u64(run + RUN_UNION);
		p->write = run[RUN_MMIO_WRITE] != 0;
	}
	return true;
}

#define KVM_RUN_CMD 0xae80u /* KVM_RUN of linux/kvm.h */

/* In which a VMM's threads sleep; others are shown by number. */
static const struct {
	long nr;
	const char *name;
} syscalls[] = {
	{ SYS_futex, "futex" }, { SYS_ppoll, "ppoll" }, { SYS_ioctl, "ioctl" },
	{ SYS_read, "read" }, { SYS_write, "write" }, { SYS_preadv, "preadv" },
	{ SYS_pwritev, "pwritev" }, { SYS_pread64, "pread64" },
	{ SYS_pwrite64, "pwrite64" }, { SYS_fsync, "fsync" },
	{ SYS_fdatasync, "fdatasync" }, { SYS_nanosleep, "nanosleep" },
	{ SYS_clock_nanosleep, "clock_nanosleep" },
	{ SYS_epoll_pwait, "epoll_pwait" },
	{ SYS_recvmsg, "recvmsg" },
	{ SYS_sendmsg, "sendmsg" },
	{ SYS_rt_sigtimedwait, "rt_sigtimedwait" },
	{ SYS_munmap, "munmap" }, { SYS_madvise, "madvise" }, { SYS_clone, "clone" },
#ifdef SYS_poll
	{ SYS_poll, "poll" }, { SYS_epoll_wait, "epoll_wait" }, { SYS_select, "select" },
	{ SYS_vfork, "vfork" },
#endif
};

/* False: it is on a CPU. */
static bool read_syscall(struct stuck_task *t)
{
	char buf[256];
	long nr;
	uint64_t fd, cmd;
	int n;

	t->in_run = false;
	t->syscall[0] = '\0';
	if (file_read_line(t->dir, "syscall", buf, sizeof(buf)))
		return true;
	n = sscanf(buf, "%ld %" SCNx64 " %" SCNx64, &nr, &fd, &cmd);
	if (n < 1)
		return strcmp(buf, "running") != 0;
	t->in_run = n == 3 && nr == SYS_ioctl && cmd == KVM_RUN_CMD;
	snprintf(t->syscall, sizeof(t->syscall), nr < 0 ? "none" : "%ld", nr);
	for (size_t i = 0; i < ARRAY_SIZE(syscalls); i++)
		if (syscalls[i].nr == nr)
			snprintf(t->syscall, sizeof(t->syscall), "%s",
				 t->in_run ? "KVM_RUN" : syscalls[i].name);
	return true;
}

static bool wchan_is(const struct stuck_task *t, const char *prefix)
{
	return str_starts(t->wchan, prefix);
}

static enum stuck_at at_of(struct stuck_task *t)
{
	switch (t->state) {
	case 'Z':
	case 'X': return STUCK_AT_GONE;
	case 'T':
	case 't': return STUCK_AT_STOP;
	case 'R': return STUCK_AT_CPU;
	default:
		if (file_read_line(t->dir, "wchan", t->wchan, sizeof(t->wchan)) ||
		    !strcmp(t->wchan, "0"))
			t->wchan[0] = '\0';
		str_printable(t->wchan);
		if (!read_syscall(t))
			return STUCK_AT_CPU;
		if (wchan_is(t, "do_freezer_trap") || wchan_is(t, "__refrigerator") ||
		    wchan_is(t, "get_signal"))
			return STUCK_AT_FREEZE;
		if (t->state == 'D')
			return STUCK_AT_WAIT;
		if (t->in_run)
			/* Where a halted vCPU sleeps in the kernel, by compilers' names of it. */
			return (!t->wchan[0] || wchan_is(t, "kvm_") || wchan_is(t, "vcpu_") ||
				wchan_is(t, "vmx_") || wchan_is(t, "svm_"))
				       ? STUCK_AT_HALT
				       : STUCK_AT_WAIT;
		return STUCK_AT_USER;
	}
}

static enum stuck_at stuck_task_look(struct stuck_task *t)
{
	struct stuck_cpu c = { 0 };
	char buf[1024], *p;
	uint64_t v[53] = { 0 };

	if (t->dir < 0)
		return STUCK_AT_GONE;
	c.known = !file_read_line(t->dir, "schedstat", buf, sizeof(buf)) &&
		  sscanf(buf, "%" SCNu64 " %" SCNu64 " %" SCNu64, &c.run, &c.delay, &c.turns) == 3;
	/* It has not had a CPU since it slept: it still sleeps there. */
	if (t->looked && c.known && t->at != STUCK_AT_CPU && c.turns == t->last.turns &&
	    c.run == t->last.run)
		return t->at;
	/* Fields are counted as proc(5) does, from 1; the name before them may hold anything. */
	if (file_read_line(t->dir, "stat", buf, sizeof(buf)))
		return STUCK_AT_GONE;
	p = strrchr(buf, ')');
	if (!p || p[1] != ' ' || !p[2])
		return STUCK_AT_GONE;
	t->state = p[2];
	p += 3;
	for (size_t i = 4; i < ARRAY_SIZE(v) && *p; i++)
		v[i] = strtoull(p, &p, 10);
	/* The guest's time is in the user's share, too. */
	c.guest = v[43];
	c.user = v[14] > v[43] ? v[14] - v[43] : 0;
	c.kernel = v[15];
	if (!t->looked)
		t->first = c;
	t->looked = true;
	t->last = c;
	t->at = at_of(t);
	return t->at;
}

/* ---- who ---- */

static void stuck_add_vm(struct stuck *s, const struct vm *vm)
{
	_cleanup_free_ uint32_t *tid = NULL;
	size_t n = 0;

	/* Interrupts come from any thread of a VMM: of two VMs in a process they are either's. */
	if (vm->n_vcpus && vm->pid != s->walked &&
	    vm_thread_ids(NULL, vm->pid, &tid, &n) == -ENOMEM)
		memory_out();
	for (size_t i = 0; i < n; i++)
		xu64map_put(&s->vm_of, tid[i], s->n);
	s->walked = vm->n_vcpus ? vm->pid : s->walked;
	for (size_t i = 0; i < vm->n_vcpus; i++) {
		const struct vm_vcpu *vcpu = &vm->vcpu[i];
		struct stuck_vcpu *c = xarray_grow(&s->vcpu, s->n, &s->cap, sizeof(*c));

		s->n++;
		c->vm = vm;
		c->vcpu = vcpu;
		c->task.dir = -1;
		if (!vcpu->tid)
			continue;
		c->task.dir = open(TEXTF("/proc/%u/task/%u", vm->pid, vcpu->tid),
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		/* How often, and how long, a thread's cgroups were throttled in between. */
		if (c->task.dir >= 0)
			vm_cgroups(c->task.dir, add_up, &c->task.throttle);
		xu64map_put(&s->by_tid, vcpu->tid, s->n - 1);
	}
}

static int find_vms(struct stuck *s)
{
	int ret;
	struct rlimit now, more;
	size_t want;

	vm_debugfs_mount();
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
	uint64_t step = MAX((uint64_t)LOOK_NS, s->n * (uint64_t)LOOK_VCPU_NS), next, left;
	unsigned int turn = 0;
	struct pollfd p = { .fd = s->signal_fd, .events = POLLIN };
	bool asked = false;
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

/*
 * Of a thread in the VMM; its memory is not read while one of it hangs in the kernel, nor longer
 * than a process may take, which may have it locked or many mappings.
 */
static void vcpu_peek(struct stuck *s, struct stuck_vcpu *c)
{
	uint64_t begin = util_now_ns();
	unsigned int ms;

	if (c->vm->pid != s->peeked) {
		s->peek_ms = MAX(s->patience_ms / 2, VM_PATIENCE_LEAST_MS);
		for (const struct stuck_vcpu *i = c; i < s->vcpu + s->n && i->vm->pid == c->vm->pid;
		     i++)
			s->peek_ms = i->obs.at[STUCK_AT_WAIT] ? 0 : s->peek_ms;
	}
	s->peeked = c->vm->pid;
	if ((c->obs.at[STUCK_AT_USER] || c->obs.ticks_user >= FEW_TICKS) && s->peek_ms)
		c->obs.peeked = stuck_peek(c->vm->pid, c->vcpu->id, s->peek_ms, &c->peek);
	ms = MIN(s->peek_ms, (unsigned int)((util_now_ns() - begin) / 1000000));
	s->peek_ms -= ms;
	s->patience_ms -= MIN(s->patience_ms, ms);
	c->obs.peek = c->peek.reason;
}

static int stuck_result(struct stuck *s, struct sbuf *out)
{
	char hidden[160];
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
		if (c->task.dir >= 0) {
			struct stuck_throttle *t = &c->task.throttle, now = { 0 };

			vm_cgroups(c->task.dir, add_up, &now);
			now.n = now.n > t->n ? now.n - t->n : 0;
			now.ns = now.ns > t->ns ? now.ns - t->ns : 0;
			*t = now;
		}
		o->throttled = c->task.throttle.n;
		o->blind = s->blind;
		o->is_timer = event_irqs(s->ev.fmt)->is_timer;
		o->futex = !strcmp(c->task.syscall, "futex");
		o->read = s->ev.read;
		o->lost = s->lost;
		if (!o->recorded)
			vcpu_peek(s, c);
		stuck_judge(o, s->syms, &c->v);
		if (c->v.class == STUCK_HALTED && !o->recorded && !s->timers.known)
			stuck_timers_read(&s->timers);
	}
	if (s->cut)
		s->c->remark("ended by a signal: what was seen until then");
	if (s->vms->n_hidden && !s->only)
		s->note("%s", vm_list_hidden(s->vms, hidden, sizeof(hidden)));
	lacks = s->recording && stuck_recording_note(s);
	stuck_print(s, out);
	return lacks ? KVMFT_INCOMPLETE : KVMFT_OK;
}

static int stuck_prepare(struct stuck *s)
{
	const struct opt_u64 *ns = &s->c->ns;
	int ret;

	if (ns->set && (ns->v < MIN_NS || ns->v > MAX_NS))
		return err_usage(s->err, "option --duration: not within 0.2 and 3600 s");
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
		.c = c, .note = note, .err = err, .signal_fd = -1, .begin_ns = c->begin_ns,
		.patience_ms = VM_PATIENCE_MS,
	};
	int ret = c->input ? stuck_recording_open(&s) : stuck_prepare(&s);

	s.syms = c->syms;
	if (!ret && !c->input)
		ret = look_on(&s);
	stuck_watch_end(&s);
	ret = ret ?: stuck_result(&s, out);
	stuck_watch_end(&s);
	for (size_t i = 0; i < s.n; i++) {
		util_close_fd(&s.vcpu[i].task.dir);
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
