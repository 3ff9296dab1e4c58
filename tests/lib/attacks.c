/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * attacks.c: system calls by which a process that was taken over would harm others, tried one by one.
 */
#include "lib/attacks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>

#include "kvmft/util.h"

/* In arguments: what is known when it runs. */
enum { PID = 0x7fff0001 };
/* Open in every attempt. */
enum { TTY = 100, VICTIM, DIR_FD };

#define P(x) ATTACK_ARG(x)

static char page[4096] __attribute__((aligned(4096)));
static const char name[] = "victim", other[] = "other", here[] = ".", user[] = "user.x", letter[] = "x";
static const char prog[] = "/bin/true", host[] = "hijacked";
static const char *const no_words[] = { NULL };
static const struct rlimit no_limit = { 0, 0 };
static const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };
static const struct sockaddr_storage local = { .ss_family = AF_UNIX };
static const struct iovec iov = { page, 1 };
static const struct { long type; char text[8]; } msg = { 1, "x" };
/* struct open_how, clone_args, sched_param and others of which all fields are 0 */
static const char zeros[256];
static const unsigned long how_write[3] = { O_WRONLY };
static const struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
static const struct winsize size = { 1, 1, 1, 1 };

static const struct attack attacks[] = {
	/* files: their modes, owners, names, contents */
	{ "fchmodat 04755", SYS_fchmodat, { P(AT_FDCWD), P(name), 04755 } },
	{ "fchmod 04755", SYS_fchmod, { VICTIM, 04755 } },
	{ "fchownat", SYS_fchownat, { P(AT_FDCWD), P(name), 1, 1 } },
	{ "fchown", SYS_fchown, { VICTIM, 1, 1 } },
	{ "setxattr", SYS_setxattr, { P(name), P(user), P(letter), 1 } },
	{ "lsetxattr", SYS_lsetxattr, { P(name), P(user), P(letter), 1 } },
	{ "fsetxattr", SYS_fsetxattr, { VICTIM, P(user), P(letter), 1 } },
	{ "removexattr", SYS_removexattr, { P(name), P(user) } },
	{ "utimensat", SYS_utimensat, { P(AT_FDCWD), P(name), P(times) } },
	{ "truncate", SYS_truncate, { P(name), 0 } },
	{ "ftruncate", SYS_ftruncate, { VICTIM, 0 } },
	{ "fallocate", SYS_fallocate, { VICTIM, 0, 0, 65536 } },
	{ "openat O_WRONLY", SYS_openat, { P(AT_FDCWD), P(name), O_WRONLY } },
	{ "openat O_RDWR", SYS_openat, { P(AT_FDCWD), P(name), O_RDWR } },
	{ "openat 3", SYS_openat, { P(AT_FDCWD), P(name), O_ACCMODE } },
	{ "openat O_TRUNC", SYS_openat, { P(AT_FDCWD), P(name), O_TRUNC } },
	{ "openat O_CREAT", SYS_openat, { P(AT_FDCWD), P(other), O_CREAT, 0600 } },
	{ "openat O_APPEND", SYS_openat, { P(AT_FDCWD), P(name), O_WRONLY | O_APPEND } },
	{ "openat O_TMPFILE", SYS_openat, { P(AT_FDCWD), P(here), O_TMPFILE | O_WRONLY, 0600 } },
	{ "openat2 O_WRONLY", SYS_openat2, { P(AT_FDCWD), P(name), P(how_write), sizeof(how_write) } },
	{ "memory of itself", SYS_openat, { P(AT_FDCWD), P("/proc/self/mem"), O_RDWR } },
	{ "pipe to a program", SYS_openat,
	  { P(AT_FDCWD), P("/proc/sys/kernel/core_pattern"), O_WRONLY } },
	{ "linkat", SYS_linkat, { P(AT_FDCWD), P(name), P(AT_FDCWD), P(other) } },
	{ "symlinkat", SYS_symlinkat, { P(name), P(AT_FDCWD), P(other) } },
	{ "renameat2", SYS_renameat2, { P(AT_FDCWD), P(name), P(AT_FDCWD), P(other) } },
	{ "unlinkat", SYS_unlinkat, { P(AT_FDCWD), P(name) } },
	{ "mkdirat", SYS_mkdirat, { P(AT_FDCWD), P(other), 0700 } },
	{ "mknodat", SYS_mknodat, { P(AT_FDCWD), P(other), S_IFIFO | 0600 } },
	{ "umask", SYS_umask, { 0 } },
	{ "chdir", SYS_chdir, { P("/") } },
	{ "fchdir", SYS_fchdir, { DIR_FD } },
	{ "chroot", SYS_chroot, { P(here) } },
	{ "flock", SYS_flock, { VICTIM, 2 } },
	{ "fsync", SYS_fsync, { VICTIM } },
	{ "sync", SYS_sync, { 0 } },
	{ "splice", SYS_splice, { VICTIM, 0, VICTIM, 0, 0, 0 } },
	{ "sendfile", SYS_sendfile, { VICTIM, VICTIM, 0, 0 } },
	{ "copy_file_range", SYS_copy_file_range, { VICTIM, 0, VICTIM, 0, 0, 0 } },
	{ "open_by_handle_at", SYS_open_by_handle_at, { P(AT_FDCWD), P(zeros), 0 } },
	{ "name_to_handle_at", SYS_name_to_handle_at, { P(AT_FDCWD), P(name), P(page), P(page) } },
	{ "inotify_init1", SYS_inotify_init1, { 0 } },
	{ "fanotify_init", SYS_fanotify_init, { 0, 0 } },
	/* what is open: terminals, devices, signals by a descriptor */
	{ "TCFLSH", SYS_ioctl, { TTY, TCFLSH, 0 } },
	{ "TIOCSTI", SYS_ioctl, { TTY, TIOCSTI, P(letter) } },
	{ "TIOCSTI, upper half set", SYS_ioctl, { TTY, TIOCSTI | 1ul << 32, P(letter) } },
	{ "TIOCLINUX", SYS_ioctl, { TTY, TIOCLINUX, P(page) } },
	{ "TIOCSWINSZ", SYS_ioctl, { TTY, TIOCSWINSZ, P(&size) } },
	{ "TCSETS", SYS_ioctl, { TTY, TCSETS, P(zeros) } },
	{ "TIOCSCTTY", SYS_ioctl, { TTY, TIOCSCTTY, 1 } },
	{ "TIOCEXCL", SYS_ioctl, { TTY, TIOCEXCL, 0 } },
	{ "FIOASYNC", SYS_ioctl, { TTY, FIOASYNC, P(letter) } },
	{ "FS_IOC_SETFLAGS", SYS_ioctl, { VICTIM, 0x40086602, P(zeros) } },
	{ "FICLONE", SYS_ioctl, { VICTIM, 0x40049409, VICTIM } },
	{ "F_SETOWN", SYS_fcntl, { TTY, F_SETOWN, PID } },
	{ "F_SETOWN_EX", SYS_fcntl, { TTY, F_SETOWN_EX, P(zeros) } },
	{ "F_SETSIG", SYS_fcntl, { TTY, F_SETSIG, SIGUSR1 } },
	{ "F_SETFL", SYS_fcntl, { TTY, F_SETFL, O_ASYNC } },
	{ "F_SETLEASE", SYS_fcntl, { VICTIM, F_SETLEASE, F_UNLCK } },
	{ "F_NOTIFY", SYS_fcntl, { DIR_FD, F_NOTIFY, 1 } },
	{ "F_SETLK", SYS_fcntl, { VICTIM, F_SETLK, P(zeros) } },
	/* programs and their code */
	{ "execve", SYS_execve, { P(prog), P(no_words), P(no_words) } },
	{ "execveat", SYS_execveat, { P(AT_FDCWD), P(prog), P(no_words), P(no_words), 0 } },
	{ "mmap of code", SYS_mmap, { 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, VICTIM, 0 } },
	{ "mmap of all", SYS_mmap,
	  { 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, P(-1), 0 } },
	{ "mprotect to code", SYS_mprotect, { P(page), 4096, PROT_READ | PROT_EXEC } },
	{ "pkey_mprotect", SYS_pkey_mprotect, { P(page), 4096, PROT_READ | PROT_EXEC, P(-1) } },
	{ "memfd_create", SYS_memfd_create, { P(name), 0 } },
	{ "personality", SYS_personality, { 0x0400000 } },
	{ "clone", SYS_clone, { SIGCHLD } },
	{ "clone, new user namespace", SYS_clone, { SIGCHLD | CLONE_NEWUSER } },
	{ "clone3", SYS_clone3, { P(zeros), 64 } },
	{ "unshare", SYS_unshare, { CLONE_FS } },
	{ "setns", SYS_setns, { DIR_FD, 0 } },
	{ "seccomp", SYS_seccomp, { SECCOMP_GET_ACTION_AVAIL, 0, P(zeros) } },
	{ "prctl", SYS_prctl, { 15, P(host) } },
	{ "landlock_create_ruleset", SYS_landlock_create_ruleset, { 0, 0, 1 } },
	/* other processes */
	{ "kill", SYS_kill, { PID, SIGUSR1 } },
	{ "kill -1", SYS_kill, { P(-1), P(-1) } },
	{ "tkill", SYS_tkill, { PID, SIGUSR1 } },
	{ "tgkill", SYS_tgkill, { PID, PID, SIGUSR1 } },
	{ "rt_sigqueueinfo", SYS_rt_sigqueueinfo, { PID, SIGUSR1, P(zeros) } },
	{ "rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo, { PID, PID, SIGUSR1, P(zeros) } },
	{ "pidfd_open", SYS_pidfd_open, { PID, 0 } },
	{ "pidfd_send_signal", SYS_pidfd_send_signal, { DIR_FD, 0, 0, 0 } },
	{ "pidfd_getfd", SYS_pidfd_getfd, { DIR_FD, 0, 0 } },
	{ "prlimit64 of another", SYS_prlimit64, { PID, RLIMIT_CORE, P(&no_limit), 0 } },
	{ "prlimit64 of another, to look", SYS_prlimit64, { PID, RLIMIT_CORE, 0, P(page) } },
	{ "prlimit64 of itself", SYS_prlimit64, { 0, RLIMIT_CORE, P(&no_limit), 0 } },
	{ "setpriority", SYS_setpriority, { PRIO_PROCESS, PID, 5 } },
	{ "ioprio_set", SYS_ioprio_set, { 1, PID, 2 << 13 | 7 } },
	{ "sched_setscheduler", SYS_sched_setscheduler, { PID, SCHED_OTHER, P(zeros) } },
	{ "sched_setaffinity", SYS_sched_setaffinity, { PID, 8, P("\xff\xff\xff\xff\xff\xff\xff\xff") } },
	{ "ptrace", SYS_ptrace, { PTRACE_SEIZE, PID, 0, 0 } },
	{ "process_vm_readv", SYS_process_vm_readv, { PID, P(&iov), 1, P(&iov), 1, 0 } },
	{ "process_vm_writev", SYS_process_vm_writev, { PID, P(&iov), 1, P(&iov), 1, 0 } },
	{ "process_madvise", SYS_process_madvise, { DIR_FD, P(&iov), 1, MADV_COLD, 0 } },
	{ "kcmp", SYS_kcmp, { PID, PID, 0, 0, 0 } },
	{ "move_pages", SYS_move_pages, { PID, 0, 0, 0, 0, 0 } },
	{ "migrate_pages", SYS_migrate_pages, { PID, 8, P(zeros), P(zeros) } },
	{ "setpgid", SYS_setpgid, { 0, 0 } },
	{ "setsid", SYS_setsid, { 0 } },
	{ "setuid", SYS_setuid, { 0 } },
	{ "setresgid", SYS_setresgid, { 0, 0, 0 } },
	{ "setgroups", SYS_setgroups, { 0, P(zeros) } },
	{ "capset", SYS_capset, { P(zeros), P(zeros) } },
	{ "timer_create", SYS_timer_create, { CLOCK_MONOTONIC, P(&event), P(page) } },
	{ "setitimer", SYS_setitimer, { 0, P(zeros), 0 } },
	{ "wait4", SYS_wait4, { P(-1), 0, WNOHANG, 0 } },
	/* talking to others */
	{ "socket AF_UNIX", SYS_socket, { AF_UNIX, SOCK_STREAM, 0 } },
	{ "socket AF_INET", SYS_socket, { AF_INET, SOCK_STREAM, 0 } },
	{ "socket AF_NETLINK", SYS_socket, { AF_NETLINK, SOCK_RAW, 0 } },
	{ "socketpair", SYS_socketpair, { AF_UNIX, SOCK_STREAM, 0, P(page) } },
	{ "connect", SYS_connect, { VICTIM, P(&local), 2 } },
	{ "bind", SYS_bind, { VICTIM, P(&local), 2 } },
	{ "sendmsg", SYS_sendmsg, { VICTIM, P(zeros), 0 } },
	{ "sendto", SYS_sendto, { VICTIM, P(page), 0, 0, 0, 0 } },
	{ "shmget", SYS_shmget, { 0x6b766d66, 4096, 0 } },
	{ "shmat", SYS_shmat, { P(-1), 0, 0 } },
	{ "msgget", SYS_msgget, { 0x6b766d66, 0 } },
	{ "msgsnd", SYS_msgsnd, { P(-1), P(&msg), 1, 0 } },
	{ "semget", SYS_semget, { 0x6b766d66, 1, 0 } },
	{ "mq_open", SYS_mq_open, { P(other), O_RDONLY } },
	{ "eventfd2", SYS_eventfd2, { 0, 0 } },
	{ "pipe2", SYS_pipe2, { P(page), 0 } },
	/* the kernel */
	{ "bpf", SYS_bpf, { 0, P(zeros), 32 } },
	{ "perf_event_open", SYS_perf_event_open, { P(zeros), 0, P(-1), P(-1), 0 } },
	{ "io_uring_setup", SYS_io_uring_setup, { 1, P(page) } },
	{ "io_setup", SYS_io_setup, { 1, P(page) } },
	{ "userfaultfd", SYS_userfaultfd, { 0 } },
	{ "add_key", SYS_add_key, { P("user"), P(other), P(letter), 1, P(-2) } },
	{ "request_key", SYS_request_key, { P("user"), P(other), 0, 0 } },
	{ "keyctl", SYS_keyctl, { 0, P(-3), 1 } },
	{ "mount", SYS_mount, { P(zeros), P(zeros), P(zeros), 0, 0 } },
	{ "umount2", SYS_umount2, { P(here), 0 } },
	{ "pivot_root", SYS_pivot_root, { P(other), P(other) } },
	{ "fsopen", SYS_fsopen, { P("tmpfs"), 0 } },
	{ "open_tree", SYS_open_tree, { DIR_FD, P(zeros), 0x1000 } },
	{ "move_mount", SYS_move_mount, { P(-1), P(zeros), P(-1), P(zeros), 0 } },
	{ "init_module", SYS_init_module, { P(page), 0, P(zeros) } },
	{ "finit_module", SYS_finit_module, { P(-1), P(zeros), 0 } },
	{ "delete_module", SYS_delete_module, { P(other), 0 } },
	{ "kexec_load", SYS_kexec_load, { 0, 0, 0, P(-1) } },
	{ "reboot", SYS_reboot, { 0, 0, 0, 0 } },
	{ "swapon", SYS_swapon, { P(other), 0 } },
	{ "swapoff", SYS_swapoff, { P(other) } },
	{ "acct", SYS_acct, { P(other) } },
	{ "quotactl", SYS_quotactl, { 0, P(other), 0, 0 } },
	{ "sethostname", SYS_sethostname, { P(host), P(-1) } },
	{ "setdomainname", SYS_setdomainname, { P(host), P(-1) } },
	{ "settimeofday", SYS_settimeofday, { 0, 0 } },
	{ "clock_settime", SYS_clock_settime, { P(-1), P(times) } },
	{ "adjtimex", SYS_adjtimex, { P(page) } },
	{ "clock_adjtime", SYS_clock_adjtime, { 0, P(page) } },
	{ "syslog", SYS_syslog, { 10, 0, 0 } },
	{ "vhangup", SYS_vhangup, { 0 } },
	{ "membarrier", SYS_membarrier, { 0, 0 } },
	{ "modify a thread's memory policy", SYS_mbind, { P(page), 4096, 0, 0, 0, 0 } },
#ifdef __x86_64__
	{ "open O_WRONLY", SYS_open, { P(name), O_WRONLY } },
	{ "open O_CREAT", SYS_open, { P(other), O_CREAT, 0600 } },
	{ "creat", SYS_creat, { P(name), 0600 } },
	{ "chmod 04755", SYS_chmod, { P(name), 04755 } },
	{ "chown", SYS_chown, { P(name), 1, 1 } },
	{ "lchown", SYS_lchown, { P(name), 1, 1 } },
	{ "link", SYS_link, { P(name), P(other) } },
	{ "symlink", SYS_symlink, { P(name), P(other) } },
	{ "rename", SYS_rename, { P(name), P(other) } },
	{ "unlink", SYS_unlink, { P(name) } },
	{ "mkdir", SYS_mkdir, { P(other), 0700 } },
	{ "rmdir", SYS_rmdir, { P(other) } },
	{ "mknod", SYS_mknod, { P(other), S_IFIFO | 0600 } },
	{ "utime", SYS_utime, { P(name), 0 } },
	{ "fork", SYS_fork, { 0 } },
	{ "iopl", SYS_iopl, { 0 } },
	{ "ioperm", SYS_ioperm, { 0, 0, 0 } },
	{ "modify_ldt", SYS_modify_ldt, { 0, P(page), 16 } },
	{ "arch_prctl", SYS_arch_prctl, { 0x1003, P(page) } },
#endif
};

/* ---- an attempt ---- */

static pid_t prey;

void attack_must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "attack: %s: %s\n", what, strerror(errno));
	exit(1);
}

long attack_by_number(const struct attack *a)
{
	unsigned long v[6];

	for (size_t i = 0; i < 6; i++)
		v[i] = a->a[i] == PID ? (unsigned long)prey : a->a[i];
	return syscall(a->nr, v[0], v[1], v[2], v[3], v[4], v[5]);
}

int attack_attempt(const struct attack *a, attack_call call, void (*enter)(void))
{
	int status;
	pid_t pid = fork(), self;

	attack_must(pid >= 0, "fork");
	if (!pid) {
		(void)setsid(); /* whoever hangs up a terminal has none */
		alarm(5);
		self = getpid();
		if (enter)
			enter();
		long ret = call(a);
		int e = errno;

		/* A second process that it made says nothing. */
		_exit(syscall(SYS_getpid) != self || ret >= 0 ? 0 : e);
	}
	attack_must(waitpid(pid, &status, 0) == pid, "waitpid");
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return WTERMSIG(status) == SIGSYS ? -1 : -2;
}

/* ---- the three that are attacked ---- */

/* Is there when a signal comes; told to end by SIGTERM. */
static _Noreturn void prey_main(const sigset_t *set)
{
	struct rlimit before, core;
	int sig = 0, signals = 0;

	attack_must(!getrlimit(RLIMIT_CORE, &before), "getrlimit");
	while (sig != SIGTERM)
		signals += !sigwait(set, &sig) && sig != SIGTERM;
	attack_must(!getrlimit(RLIMIT_CORE, &core), "getrlimit");
	_exit(signals || core.rlim_max != before.rlim_max);
}

/* As they are before an attack. */
void attack_victims(void)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	attack_must(fd >= 0 && write(fd, "precious", 8) == 8 && dup2(fd, VICTIM) == VICTIM, name);
	close(fd);
	(void)remove(other);
}

void attack_set_up(void)
{
	sigset_t set;
	int pty = posix_openpt(O_RDWR | O_NOCTTY), fd;
	struct termios raw;

	attack_must(pty >= 0 && !grantpt(pty) && !unlockpt(pty), "a terminal");
	fd = open(ptsname(pty), O_RDWR | O_NOCTTY);
	attack_must(fd >= 0 && !tcgetattr(fd, &raw), "a terminal");
	cfmakeraw(&raw);
	attack_must(!tcsetattr(fd, TCSANOW, &raw) && dup2(fd, TTY) == TTY, "a terminal");
	attack_victims();
	attack_must(dup2(open(here, O_RDONLY | O_DIRECTORY), DIR_FD) == DIR_FD, here);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	attack_must(!sigprocmask(SIG_BLOCK, &set, NULL), "signals");
	prey = fork();
	attack_must(prey >= 0, "fork");
	if (!prey)
		prey_main(&set);
}

void attack_tell(void)
{
	int status = 0, typed = 0;
	struct stat st;

	attack_must(!ioctl(TTY, FIONREAD, &typed), "FIONREAD");
	printf("typed into the terminal: %d\n", typed);
	attack_must(!kill(prey, SIGTERM) && waitpid(prey, &status, 0) == prey, "the process");
	printf("process: %s\n", WIFEXITED(status) && !WEXITSTATUS(status) ? "unharmed" : "harmed");
	if (stat(name, &st))
		printf("victim: gone\n");
	else
		printf("victim: mode %o, owner %u, %lld bytes, %lu names, from %s\n", (unsigned int)st.st_mode & 07777,
		       st.st_uid, (long long)st.st_size, (unsigned long)st.st_nlink,
		       st.st_mtim.tv_sec == 1 ? "1970" : "now");
	printf("other: %s\n", access(other, F_OK) ? "not made" : "made");
}

/* The C library's own strerrorname_np() is glibc's alone. */
static const char *error_name(int error)
{
	switch (error) {
	case EPERM:
		return "EPERM";
	case EACCES:
		return "EACCES";
	case ENOSYS:
		return "ENOSYS";
	}
	return strerror(error);
}

const char *attack_word(int ret)
{
	return ret > 0 ? error_name(ret) : ret == 0 ? "done" : ret == -1 ? "killed" : "died";
}

pid_t attack_prey(void)
{
	return prey;
}

void attack_all(void (*enter)(void), bool renew)
{
	for (size_t i = 0; i < ARRAY_SIZE(attacks); i++) {
		if (renew)
			attack_victims();
		printf("%s: %s\n", attacks[i].name,
		       attack_word(attack_attempt(&attacks[i], attack_by_number, enter)));
	}
}
