/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sandbox_calls.c: the system calls that a process needs once it has begun its work, and with which
 * arguments; all others are denied.
 *
 * Found by running every command and format (tests/cli/sandbox.t), with glibc and musl. Older calls
 * are there because the C libraries of some machines use them. New ones belong here only if some
 * work is impossible without them, and then with as few arguments as possible.
 */
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

#define ANY(name)	 { SYS_##name, SANDBOX_ANY }
#define RULE(name, rule) { SYS_##name, SANDBOX_##rule }
#define END		 { SANDBOX_CALLS_END, 0 }

const struct sandbox_call sandbox_base[] = {
	/* what is open */
	ANY(read),
	ANY(readv),
	ANY(pread64),
	ANY(write),
	ANY(writev),
	ANY(pwrite64),
	ANY(lseek),
	ANY(close),
	ANY(dup),
	ANY(dup3),
	RULE(ioctl, IOCTL_TTY),
	ANY(fstat),
	/* what there is */
	ANY(newfstatat),
	ANY(statx),
	ANY(faccessat),
	ANY(readlinkat),
	ANY(getdents64),
	ANY(fstatfs),
	/* memory; none of it can be executed */
	ANY(brk),
	RULE(mmap, NO_EXEC),
	RULE(mprotect, NO_EXEC),
	ANY(munmap),
	ANY(mremap),
	ANY(madvise),
	/* itself, and the time */
	ANY(futex),
	ANY(clock_gettime),
	ANY(clock_getres),
	ANY(clock_nanosleep),
	ANY(nanosleep),
	ANY(gettimeofday),
	ANY(getrandom),
	ANY(getpid),
	ANY(gettid),
	ANY(getuid),
	ANY(geteuid),
	ANY(getgid),
	ANY(getegid),
	ANY(uname),
	ANY(sysinfo),
	ANY(sched_yield),
	ANY(sched_getaffinity),
	RULE(prlimit64, PRLIMIT_LOOK),
	/* signals, its own */
	ANY(rt_sigaction),
	ANY(rt_sigprocmask),
	ANY(rt_sigpending),
	ANY(rt_sigreturn),
	ANY(sigaltstack),
	ANY(restart_syscall),
	RULE(tgkill, OWN_PID),
	ANY(exit),
	ANY(exit_group),
#ifdef SYS_faccessat2
	ANY(faccessat2),
#endif
#ifdef SYS_open
	ANY(stat),
	ANY(lstat),
	ANY(access),
	ANY(readlink),
	ANY(time),
#endif
	END,
};

const struct sandbox_call sandbox_reader[] = {
	RULE(openat, OPENAT_READ), RULE(fcntl, FCNTL), ANY(memfd_create),
#ifdef SYS_open
	RULE(open, OPEN_READ),
#endif
#ifdef KVMFT_SANITIZED
	ANY(set_robust_list), ANY(rseq), ANY(clone), ANY(wait4), ANY(pipe2), ANY(getppid),
#endif
	END,
};

const struct sandbox_call sandbox_recorder[] = {
	RULE(openat, OPENAT_WRITE),
	RULE(mkdirat, MODE_2),
	ANY(unlinkat),
	RULE(fchmod, MODE_1),
	ANY(ftruncate),
	ANY(fallocate),
	ANY(fsync),
	ANY(fdatasync),
	/* from the kernel to the files */
	ANY(splice),
	ANY(pipe2),
	RULE(fcntl, FCNTL_PIPE),
/* threads, and what the main thread waits for */
#ifdef KVMFT_SANITIZED
	ANY(clone),
#else
	RULE(clone, THREAD),
#endif
	ANY(set_robust_list),
	ANY(rseq),
	ANY(ppoll),
	ANY(eventfd2),
	ANY(signalfd4),
	ANY(timerfd_create),
	ANY(timerfd_settime),
	ANY(wait4),
	RULE(kill, CHILD_PID),
	ANY(getppid),
	ANY(kcmp),
#ifdef SYS_open
	RULE(open, OPEN_WRITE),
	RULE(mkdir, MODE_1),
	ANY(unlink),
	ANY(rmdir),
	ANY(poll),
#endif
	END,
};

/* For storing a stream from an untrusted sender. */
const struct sandbox_call sandbox_store[] = {
	RULE(openat, OPENAT_WRITE), RULE(mkdirat, MODE_2), ANY(unlinkat),      RULE(fchmod, MODE_1),
	ANY(ftruncate),		    ANY(fallocate),	   ANY(splice),	       RULE(fcntl, FCNTL),
	ANY(ppoll),		    ANY(getppid),
#ifdef KVMFT_SANITIZED
	ANY(clone),		    ANY(wait4),		   ANY(pipe2),
#endif
#ifdef SYS_open
	RULE(open, OPEN_WRITE),	    RULE(mkdir, MODE_1),   ANY(unlink),	       ANY(rmdir),
	ANY(poll),
#endif
	END,
};

/* The watcher, which gives and removes names. */
const struct sandbox_call sandbox_watcher[] = {
	RULE(openat, OPENAT_WRITE), ANY(unlinkat), RULE(fcntl, FCNTL), ANY(renameat2), ANY(getppid),
	ANY(flock),
#ifdef KVMFT_SANITIZED
	ANY(clone), ANY(wait4), ANY(pipe2),
#endif
#ifdef SYS_renameat
	ANY(renameat),
#endif
#ifdef SYS_open
	RULE(open, OPEN_WRITE), ANY(unlink), ANY(rmdir), ANY(rename),
#endif
	END,
};

/*
 * For looking at other processes: are two descriptors the same? What their memory holds is read by
 * children, which a timer ends.
 */
const struct sandbox_call sandbox_looker[] = {
	ANY(kcmp),
	ANY(setitimer),
	ANY(ppoll),
#ifndef KVMFT_SANITIZED /* then any may make processes */
	RULE(clone, FORK),
	ANY(set_robust_list),
	ANY(wait4),
	ANY(pipe2),
#ifdef SYS_fork
	ANY(fork),
#endif
#endif
#ifdef SYS_open
	ANY(poll),
#endif
	END,
};

/* For talking to monitors through open sockets, and removing the note of what was switched on. */
const struct sandbox_call sandbox_monitor[] = {
	RULE(openat, OPENAT_READ),
	ANY(unlinkat),
	RULE(fcntl, FCNTL),
	ANY(getcwd),
	ANY(ppoll),
	ANY(sendto),
	ANY(recvfrom),
#ifdef SYS_send
	ANY(send),
	ANY(recv),
#endif
	ANY(getppid),
#ifdef KVMFT_SANITIZED
	ANY(clone),
	ANY(wait4),
	ANY(pipe2),
#endif
#ifdef SYS_open
	RULE(open, OPEN_READ),
	ANY(unlink),
	ANY(poll),
#endif
	END,
};

/* The leak checker runs in a process of its own and traces; a symbolizer writes its reports. */
const struct sandbox_call sandbox_sanitizer[] = {
#ifdef KVMFT_SANITIZED
	ANY(ptrace),
	ANY(prctl),
	ANY(execve),
	ANY(sched_setaffinity),
	ANY(tkill),
	ANY(setpgid),
#ifdef SYS_arch_prctl
	ANY(arch_prctl),
	ANY(getdents),
	ANY(fork),
	ANY(vfork),
	ANY(pipe),
	ANY(dup2),
	ANY(getrlimit),
	ANY(setrlimit),
#endif
#endif
	END,
};
