/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * task.c: a vCPU's thread in /proc. Nothing here takes a lock of the VMM's memory, which a hanging
 * VMM may hold: that rules out cmdline, maps and the like.
 */
#include "room.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/syscall.h>

#define KVM_RUN_CMD 0xae80u /* KVM_RUN of linux/kvm.h */

/* In which a VMM's threads sleep; others are shown by number. */
static const struct {
	long nr;
	const char *name;
} syscalls[] = {
	{ SYS_futex, "futex" },
	{ SYS_ppoll, "ppoll" },
	{ SYS_ioctl, "ioctl" },
	{ SYS_read, "read" },
	{ SYS_write, "write" },
	{ SYS_preadv, "preadv" },
	{ SYS_pwritev, "pwritev" },
	{ SYS_pread64, "pread64" },
	{ SYS_pwrite64, "pwrite64" },
	{ SYS_fsync, "fsync" },
	{ SYS_fdatasync, "fdatasync" },
	{ SYS_nanosleep, "nanosleep" },
	{ SYS_clock_nanosleep, "clock_nanosleep" },
	{ SYS_epoll_pwait, "epoll_pwait" },
	{ SYS_recvmsg, "recvmsg" },
	{ SYS_sendmsg, "sendmsg" },
	{ SYS_rt_sigtimedwait, "rt_sigtimedwait" },
	{ SYS_munmap, "munmap" },
	{ SYS_madvise, "madvise" },
	{ SYS_clone, "clone" },
#ifdef SYS_poll
	{ SYS_poll, "poll" },
	{ SYS_epoll_wait, "epoll_wait" },
	{ SYS_select, "select" },
	{ SYS_vfork, "vfork" },
#endif
};

void stuck_task_open(struct stuck_task *t, uint32_t pid, uint32_t tid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%u/task/%u", pid, tid);
	*t = (struct stuck_task){ .dir = -1 };
	if (tid)
		t->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->dir >= 0)
		stuck_throttle_begin(t->dir, &t->throttle);
}

void stuck_task_close(struct stuck_task *t)
{
	util_close_fd(&t->dir);
	t->dir = -1;
}

/* Fields are counted as proc(5) does, from 1; the name before them may hold anything. */
static bool read_stat(struct stuck_task *t, struct stuck_cpu *c)
{
	char buf[1024], *p;
	uint64_t v[53] = { 0 };

	if (file_read_line(t->dir, "stat", buf, sizeof(buf)))
		return false;
	p = strrchr(buf, ')');
	if (!p || p[1] != ' ' || !p[2])
		return false;
	t->state = p[2];
	p += 3;
	for (size_t i = 4; i < ARRAY_SIZE(v) && *p; i++)
		v[i] = strtoull(p, &p, 10);
	/* The guest's time is in the user's share, too. */
	c->guest = v[43];
	c->user = v[14] > v[43] ? v[14] - v[43] : 0;
	c->kernel = v[15];
	return true;
}

static void read_sched(struct stuck_task *t, struct stuck_cpu *c)
{
	char buf[128];

	c->known = !file_read_line(t->dir, "schedstat", buf, sizeof(buf)) &&
		   sscanf(buf, "%" SCNu64 " %" SCNu64 " %" SCNu64, &c->run, &c->delay,
			  &c->turns) == 3;
}

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

/* The kernel function in which a halted vCPU sleeps, by the names that compilers made of it. */
static bool is_halt(const struct stuck_task *t)
{
	return !t->wchan[0] || wchan_is(t, "kvm_") || wchan_is(t, "vcpu_") ||
	       wchan_is(t, "vmx_") || wchan_is(t, "svm_");
}

static enum stuck_at asleep(struct stuck_task *t)
{
	if (file_read_line(t->dir, "wchan", t->wchan, sizeof(t->wchan)) || !strcmp(t->wchan, "0"))
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
		return is_halt(t) ? STUCK_AT_HALT : STUCK_AT_WAIT;
	return STUCK_AT_USER;
}

static enum stuck_at at_of(struct stuck_task *t)
{
	switch (t->state) {
	case 'Z':
	case 'X': return STUCK_AT_GONE;
	case 'T':
	case 't': return STUCK_AT_STOP;
	case 'R': return STUCK_AT_CPU;
	default: return asleep(t);
	}
}

enum stuck_at stuck_task_look(struct stuck_task *t)
{
	struct stuck_cpu c = { 0 };

	if (t->dir < 0)
		return STUCK_AT_GONE;
	read_sched(t, &c);
	/* It has not had a CPU since it slept: it still sleeps there. */
	if (t->looked && c.known && t->at != STUCK_AT_CPU && c.turns == t->last.turns &&
	    c.run == t->last.run)
		return t->at;
	if (!read_stat(t, &c))
		return STUCK_AT_GONE;
	if (!t->looked)
		t->first = c;
	t->looked = true;
	t->last = c;
	t->at = at_of(t);
	return t->at;
}
