/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sandbox_calls.c: the system calls that a process needs once it has begun its work, and with which
 * arguments; all others are denied.
 *
 * Found by running every command and format (tests/cli/sandbox.t), with glibc and musl. Older calls
 * are there because the C libraries of some machines use them. New ones belong here only if some
 * work is impossible without them, and then with as few arguments as possible.
 */
#include "kvmft/sandbox.h"
#include "sandbox_calls.h"

#include <asm/termbits.h> /* the size of its struct termios is part of TCGETS on some machines */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* glibc defines O_LARGEFILE as 0 where files are large anyway; the kernel's number counts. */
#if defined(__aarch64__)
#define LARGEFILE 0400000
#elif defined(__powerpc64__)
#define LARGEFILE 0200000
#else
#define LARGEFILE 0100000
#endif

#define TO_READ	 (O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_DIRECTORY | O_NOCTTY | O_PATH | LARGEFILE)
#define TO_WRITE (TO_READ | O_WRONLY | O_RDWR | O_CREAT | O_EXCL | O_TRUNC | O_APPEND)

/*
 * Of modes: no set-uid, no set-gid, no sticky bit, and nothing for others: what it may read stays
 * its own.
 */
#define OTHERS_MODES 07077
/* The leak checker passes garbage in that argument, which only counts for new files. */
#ifdef KVMFT_SANITIZED
#define OPEN_MODES 0
#else
#define OPEN_MODES OTHERS_MODES
#endif

/* What C libraries ask for; CLONE_DETACHED is musl's. */
#define THREAD                                                                        \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_DETACHED)

/* ... and for a process of its own */
#define FORK (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)

/* What is not in `of` must be 0. */
#define ONLY(of) (UINT32_MAX ^ (uint32_t)(of))

const struct sandbox_rule sandbox_rules[SANDBOX_RULES] = {
	[SANDBOX_OPENAT_READ] = { .zero = { { 2, ONLY(TO_READ) } } },
	[SANDBOX_OPEN_READ] = { .zero = { { 1, ONLY(TO_READ) } } },
	[SANDBOX_OPENAT_WRITE] = { .zero = { { 2, ONLY(TO_WRITE) }, { 3, OPEN_MODES } } },
	[SANDBOX_OPEN_WRITE] = { .zero = { { 1, ONLY(TO_WRITE) }, { 2, OPEN_MODES } } },
	[SANDBOX_MODE_1] = { .zero = { { 1, OTHERS_MODES } } },
	[SANDBOX_MODE_2] = { .zero = { { 2, OTHERS_MODES } } },
	[SANDBOX_NO_EXEC] = { .zero = { { 2, PROT_EXEC } } },
	/* Not F_SETOWN and F_SETSIG, which send signals to others. */
	[SANDBOX_FCNTL] = { .arg = 1,
			    .nvalue = 5,
			    .one_of = { F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC } },
	[SANDBOX_FCNTL_PIPE] = { .arg = 1,
				 .nvalue = 8,
				 .one_of = { F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL,
					     F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ } },
	/* Is it a terminal, and how wide? Not TIOCSTI, TIOCLINUX and the like. */
	[SANDBOX_IOCTL_TTY] = { .arg = 1, .nvalue = 2, .one_of = { TCGETS, TIOCGWINSZ } },
	/* Only of itself, and only reading: pid 0, and no new limit, a pointer in two halves. */
	[SANDBOX_PRLIMIT_LOOK] = { .zero = { { 0, UINT32_MAX },
					     { 2, UINT32_MAX },
					     { 2 | SANDBOX_HIGH, UINT32_MAX } } },
	[SANDBOX_OWN_PID] = { .pid = SANDBOX_PID_OWN },	    /* abort(), and waking threads */
	[SANDBOX_CHILD_PID] = { .pid = SANDBOX_PID_CHILD }, /* ending COMMAND */
	[SANDBOX_FORK] = { .zero = { { 0, ONLY(FORK) } } },
	[SANDBOX_THREAD] = { .zero = { { 0, ONLY(THREAD) } }, .required = CLONE_THREAD },
};

#define ANY(name, who)	     { SYS_##name, SANDBOX_ANY, who }
#define RULE(name, rule, who) { SYS_##name, SANDBOX_##rule, who }

/* By whom; the looker reads, too. */
#define READER	 (1u << SANDBOX_CALLS_READER | LOOKER)
#define RECORDER (1u << SANDBOX_CALLS_RECORDER)
#define STORE	 (1u << SANDBOX_CALLS_STORE) /* of a stream from an untrusted sender */
#define WATCHER	 (1u << SANDBOX_CALLS_WATCHER) /* gives and removes names */
/*
 * Looks at other processes: are two descriptors the same? What their memory holds is read by
 * children, which a timer ends.
 */
#define LOOKER	(1u << SANDBOX_CALLS_LOOKER)
/* Talks to monitors through open sockets, and removes the note of what was switched on. */
#define MONITOR (1u << SANDBOX_CALLS_MONITOR)
#define ALL	UINT8_MAX

const struct sandbox_call sandbox_calls[] = {
	/* what is open */
	ANY(read, ALL),
	ANY(readv, ALL),
	ANY(pread64, ALL),
	ANY(write, ALL),
	ANY(writev, ALL),
	ANY(pwrite64, ALL),
	ANY(lseek, ALL),
	ANY(close, ALL),
	ANY(dup, ALL),
	ANY(dup3, ALL),
	RULE(ioctl, IOCTL_TTY, ALL),
	ANY(fstat, ALL),
	/* what there is */
	ANY(newfstatat, ALL),
	ANY(statx, ALL),
	ANY(faccessat, ALL),
	ANY(readlinkat, ALL),
	ANY(getdents64, ALL),
	ANY(fstatfs, ALL),
	/* memory; none of it can be executed */
	ANY(brk, ALL),
	RULE(mmap, NO_EXEC, ALL),
	RULE(mprotect, NO_EXEC, ALL),
	ANY(munmap, ALL),
	ANY(mremap, ALL),
	ANY(madvise, ALL),
	/* itself, and the time */
	ANY(futex, ALL),
	ANY(clock_gettime, ALL),
	ANY(clock_getres, ALL),
	ANY(clock_nanosleep, ALL),
	ANY(nanosleep, ALL),
	ANY(gettimeofday, ALL),
	ANY(getrandom, ALL),
	ANY(getpid, ALL),
	ANY(gettid, ALL),
	ANY(getuid, ALL),
	ANY(geteuid, ALL),
	ANY(getgid, ALL),
	ANY(getegid, ALL),
	ANY(uname, ALL),
	ANY(sysinfo, ALL),
	ANY(sched_yield, ALL),
	ANY(sched_getaffinity, ALL),
	RULE(prlimit64, PRLIMIT_LOOK, ALL),
	/* signals, its own */
	ANY(rt_sigaction, ALL),
	ANY(rt_sigprocmask, ALL),
	ANY(rt_sigpending, ALL),
	ANY(rt_sigreturn, ALL),
	ANY(sigaltstack, ALL),
	ANY(restart_syscall, ALL),
	RULE(tgkill, OWN_PID, ALL),
	ANY(exit, ALL),
	ANY(exit_group, ALL),
#ifdef SYS_faccessat2
	ANY(faccessat2, ALL),
#endif
	/* files */
	RULE(openat, OPENAT_READ, READER | MONITOR),
	RULE(openat, OPENAT_WRITE, RECORDER | STORE | WATCHER),
	RULE(fcntl, FCNTL, READER | STORE | WATCHER | MONITOR),
	RULE(fcntl, FCNTL_PIPE, RECORDER),
	ANY(memfd_create, READER),
	RULE(mkdirat, MODE_2, RECORDER | STORE),
	ANY(unlinkat, RECORDER | STORE | WATCHER | MONITOR),
	RULE(fchmod, MODE_1, RECORDER | STORE),
	ANY(ftruncate, RECORDER | STORE),
	ANY(fallocate, RECORDER | STORE),
	ANY(fsync, RECORDER),
	ANY(fdatasync, RECORDER),
	ANY(renameat2, WATCHER),
	ANY(flock, WATCHER),
	ANY(getcwd, MONITOR),
#ifdef SYS_renameat
	ANY(renameat, WATCHER),
#endif
#ifdef SYS_open
	ANY(stat, ALL),
	ANY(lstat, ALL),
	ANY(access, ALL),
	ANY(readlink, ALL),
	ANY(time, ALL),
	RULE(open, OPEN_READ, READER | MONITOR),
	RULE(open, OPEN_WRITE, RECORDER | STORE | WATCHER),
	RULE(mkdir, MODE_1, RECORDER | STORE),
	ANY(unlink, RECORDER | STORE | WATCHER | MONITOR),
	ANY(rmdir, RECORDER | STORE | WATCHER),
	ANY(rename, WATCHER),
	ANY(poll, RECORDER | STORE | LOOKER | MONITOR),
#endif
	/* from the kernel, or the sender, to the files; what is waited for */
	ANY(splice, RECORDER | STORE),
	ANY(ppoll, RECORDER | STORE | LOOKER | MONITOR),
	ANY(eventfd2, RECORDER),
	ANY(signalfd4, RECORDER),
	ANY(timerfd_create, RECORDER),
	ANY(timerfd_settime, RECORDER),
	ANY(setitimer, LOOKER),
	ANY(sendto, MONITOR),
	ANY(recvfrom, MONITOR),
#ifdef SYS_send
	ANY(send, MONITOR),
	ANY(recv, MONITOR),
#endif
	/* threads and processes */
	RULE(kill, CHILD_PID, RECORDER),
	ANY(kcmp, RECORDER | LOOKER),
#ifndef KVMFT_SANITIZED
	RULE(clone, THREAD, RECORDER),
	RULE(clone, FORK, LOOKER),
	ANY(set_robust_list, RECORDER | LOOKER),
	ANY(rseq, RECORDER),
	ANY(wait4, RECORDER | LOOKER),
	ANY(pipe2, RECORDER | LOOKER),
	ANY(getppid, RECORDER | STORE | WATCHER | MONITOR),
#ifdef SYS_fork
	ANY(fork, LOOKER),
#endif
#else
	/* The leak checker is a process of its own and traces; a symbolizer writes reports. */
	ANY(clone, ALL),
	ANY(set_robust_list, ALL),
	ANY(rseq, ALL),
	ANY(wait4, ALL),
	ANY(pipe2, ALL),
	ANY(getppid, ALL),
	ANY(ptrace, ALL),
	ANY(prctl, ALL),
	ANY(execve, ALL),
	ANY(sched_setaffinity, ALL),
	ANY(tkill, ALL),
	ANY(setpgid, ALL),
#ifdef SYS_arch_prctl
	ANY(arch_prctl, ALL),
	ANY(getdents, ALL),
	ANY(fork, ALL),
	ANY(vfork, ALL),
	ANY(pipe, ALL),
	ANY(dup2, ALL),
	ANY(getrlimit, ALL),
	ANY(setrlimit, ALL),
#endif
#endif
	{ SANDBOX_CALLS_END, 0, 0 },
};
