/* SPDX-License-Identifier: GPL-2.0-or-later */
/* io.c: whole reads and writes, kernel files of unknown length; threads and signals. */
#include "kvmft/util.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>

#define THREAD_STACK (128u << 10)

/* More than the kernel moves in one call anyway (MAX_RW_COUNT is INT_MAX rounded to a page). */
#define IO_CHUNK ((size_t)1 << 30)

/* First guess for a file of unknown length: most kernel files are smaller. */
#define IO_FIRST_READ ((size_t)4096)

void util_close_fd(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

void util_close_dir(DIR **dir)
{
	int saved = errno;

	if (*dir)
		closedir(*dir);
	errno = saved;
}

static bool is_among(int v, const int *list, size_t n)
{
	while (n && list[n - 1] != v)
		n--;
	return n;
}

static bool is_kept(int fd, const int *keep, size_t n)
{
	return keep ? is_among(fd, keep, n)
		    : fd <= STDERR_FILENO || (fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

void fds_keep(const int *keep, size_t n)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	uint64_t fd;

	if (null < 0) /* kvmft-look's filter lets it only read */
		null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (dir && (e = readdir(dir)))
		if (!parse_u64(e->d_name, &fd) && fd > STDERR_FILENO && (int)fd != dirfd(dir) &&
		    (int)fd != null && !is_kept((int)fd, keep, n))
			close((int)fd);
	if (dir)
		closedir(dir);
	for (int std = 0; std <= STDERR_FILENO; std++)
		if (!is_kept(std, keep, n) && (null < 0 || dup2(null, std) < 0))
			close(std);
	if (null > STDERR_FILENO)
		close(null);
}

int full_write(int fd, const void *p, size_t n, size_t *done)
{
	const char *from = p;
	size_t at = 0;
	int err = 0;

	while (at < n) {
		ssize_t got = write(fd, from + at, MIN(n - at, IO_CHUNK));

		if (got > 0) {
			at += (size_t)got;
		} else if (!got) {
			err = -EIO; /* no progress and no reason: looping would never end */
			break;
		} else if (errno != EINTR) {
			err = -errno;
			break;
		}
	}
	if (done)
		*done = at;
	return err;
}

ssize_t full_pread(int fd, void *p, size_t n, uint64_t off)
{
	char *to = p;
	size_t at = 0;

	if (n > SSIZE_MAX || off > INT64_MAX - (uint64_t)n)
		return -EINVAL;
	while (at < n) {
		ssize_t got = pread(fd, to + at, MIN(n - at, IO_CHUNK), (off_t)(off + at));

		if (!got)
			break;
		if (got > 0)
			at += (size_t)got;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)at;
}

static ssize_t read_some(int fd, void *p, size_t n)
{
	ssize_t got;

	do {
		got = read(fd, p, MIN(n, IO_CHUNK));
	} while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

int full_read(int fd, void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t got = read_some(fd, (char *)p + done, n - done);

		if (got <= 0)
			return got ? (int)got : -EPIPE;
		done += (size_t)got;
	}
	return 0;
}

ssize_t fd_read_all(int fd, size_t max, char **out)
{
	_cleanup_free_ char *buf = NULL;
	size_t len = 0, cap = 0;

	/* st_size is 0 in tracefs and proc: only reading to the end tells the length. */
	max = MIN(max, (size_t)SSIZE_MAX / 2);
	for (;;) {
		ssize_t got;

		/* Two bytes beyond max: one shows that there is more, one is for the NUL. */
		if (cap - len < 2) {
			char *grown;

			cap = MIN(MAX(cap * 2, IO_FIRST_READ), max + 2);
			grown = realloc(buf, cap);
			if (!grown)
				return -ENOMEM;
			buf = grown;
		}
		got = read_some(fd, buf + len, cap - len - 1);
		if (got < 0)
			return got;
		if (!got)
			break;
		len += (size_t)got;
		if (len > max)
			return -EFBIG;
	}
	buf[len] = '\0';
	*out = buf;
	buf = NULL;
	return (ssize_t)len;
}

ssize_t file_read_all(int dirfd, const char *path, size_t max, char **out)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	*out = NULL;
	return fd < 0 ? -errno : fd_read_all(fd, max, out);
}

#define PATIENCE_MORE_MS 200 /* for a child that no signal ends */

pid_t fork_piped(int end[2])
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 };
	pid_t pid = -1;

	if (!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC))
		pid = fork();
	pid = pid < 0 ? -errno : pid;
	end[0] = pid ? in[1] : out[1];
	end[1] = pid ? out[0] : in[0];
	util_close_fd(&in[!pid]);
	util_close_fd(&out[!!pid]);
	for (int i = 0; pid < 0 && i < 2; i++)
		util_close_fd(&end[i]);
	return pid;
}

static _Noreturn void patient_child(patient_fn *fn, const void *arg, const int keep[2], void *buf,
				    size_t size, unsigned int ms)
{
	const struct itimerval t = { .it_value = { ms / 1000, (suseconds_t)(ms % 1000) * 1000 } };
	sigset_t none;
	ssize_t n;

	sigemptyset(&none);
	(void)signal(SIGALRM, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* Who waits for a lock of another's memory only hears deadly signals. */
	if (setitimer(ITIMER_REAL, &t, NULL))
		_exit(errno);
	fds_keep(keep, 2);
	n = fn(arg, buf, size);
	if (n >= 0)
		n = full_write(keep[0], buf, (size_t)n, NULL);
	_exit((int)-n);
}

ssize_t patient_read(patient_fn *fn, const void *arg, int keep, void *buf, size_t size,
		     unsigned int ms)
{
	_cleanup_close_ int in = -1;
	struct pollfd p = { .events = POLLIN };
	int fds[2], status = 0, ready;
	ssize_t got = 1;
	size_t n = 0;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	in = p.fd = fds[0];
	child = fork();
	if (!child)
		patient_child(fn, arg, (const int[]){ fds[1], keep }, buf, size, ms);
	util_close_fd(&fds[1]);
	if (child < 0)
		return -errno;
	while (got > 0 && n < size) {
		ready = poll(&p, 1, (int)ms + PATIENCE_MORE_MS);
		if (!ready) {
			(void)waitpid(child, NULL, WNOHANG);
			return -ETIMEDOUT;
		}
		got = ready > 0 ? read(in, (char *)buf + n, size - n) : -1;
		n += (size_t)MAX(got, 0);
		if (got < 0 && errno == EINTR)
			got = 1;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? -ETIMEDOUT : -EIO;
	return WEXITSTATUS(status) ? -WEXITSTATUS(status) : (ssize_t)n;
}

int file_open_regular(const char *path, bool own)
{
	/*
	 * Opened as a place first: opening a device may have effects, and opening a FIFO needs a
	 * writer.
	 */
	_cleanup_close_ int at = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	int fd;

	if (at < 0 || fstat(at, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	/* Root and we ourselves can change it, nobody else. */
	if (own &&
	    !((st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & (S_IWGRP | S_IWOTH))))
		return -EPERM;
	fd = open(TEXTF("/proc/self/fd/%d", at), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

ssize_t file_read_regular(const char *path, size_t max, bool own, char **out)
{
	_cleanup_close_ int fd = file_open_regular(path, own);

	*out = NULL;
	return fd < 0 ? fd : fd_read_all(fd, max, out);
}

int file_read_line(int dirfd, const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = 0;

	if (fd < 0)
		return -errno;
	while (len < size) {
		ssize_t got = read_some(fd, buf + len, size - len);
		char *end;

		if (got < 0)
			return (int)got;
		end = memchr(buf + len, '\n', (size_t)got);
		if (!got || end) {
			buf[end ? (size_t)(end - buf) : len] = '\0';
			return 0;
		}
		len += (size_t)got;
	}
	return -EFBIG;
}

/* comm may hold blanks and parentheses: fields are counted from the last ')'. */
int proc_stat(int procfd, uint32_t pid, struct proc_stat *st)
{
	_cleanup_close_ int fd = openat(procfd, TEXTF("%u/stat", pid), O_RDONLY | O_CLOEXEC);
	char text[1024];
	const char *p;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = full_pread(fd, text, sizeof(text) - 1, 0);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	p = strrchr(text, ')');
	/* 3 state, 4 ppid, then up to 21; 22 is starttime (proc(5)) */
	return p && sscanf(p + 1,
			   " %c %" SCNu32 " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
			   " %*s %*s %*s %" SCNu64,
			   &st->state, &st->ppid, &st->start) == 3
		       ? 0
		       : -EINVAL;
}

int file_read_u64(int dirfd, const char *path, uint64_t *v)
{
	char line[64];
	char *from = line;
	size_t len;
	int err = file_read_line(dirfd, path, line, sizeof(line));

	if (err)
		return err;
	from += strspn(line, " \t");
	len = strlen(from);
	while (len && strchr(" \t\r", from[len - 1]))
		from[--len] = '\0';
	return parse_u64(from, v);
}

DIR *dir_open(int dirfd, const char *path)
{
	_cleanup_close_ int fd =
		openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		fd = -1; /* taken over */
	return dir;
}

int file_write_text(int dirfd, const char *path, const char *text)
{
	/* No O_TRUNC: in tracefs, opening kprobe_events with it removes everybody's probes. */
	_cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	size_t n = strlen(text);
	ssize_t got;

	if (fd < 0)
		return -errno;
	do {
		got = write(fd, text, n);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	return (size_t)got == n ? 0 : -EIO;
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *arg, int wake)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int ret = -pthread_attr_init(&attr);

	if (ret)
		return ret;
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	sigfillset(&all);
	if (wake)
		sigdelset(&all, wake);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = -pthread_create(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return ret;
}

/* Neither end a process nor are for anybody but the kernel to send; or main() ignores them. */
static const int harmless[] = { SIGCHLD, SIGCONT, SIGURG,  SIGWINCH, SIGTSTP, SIGTTIN,
				SIGTTOU, SIGPIPE, SIGXFSZ, SIGILL,   SIGTRAP, SIGABRT,
				SIGBUS,	 SIGFPE,  SIGSEGV, SIGSYS,   SIGKILL, SIGSTOP };
/* What a shell makes its jobs ignore, and yet is sent to end them. */
static const int meant[] = { SIGINT, SIGQUIT, SIGTERM, SIGUSR1 };

void signal_ends(sigset_t *set)
{
	struct sigaction now;

	sigemptyset(set);
	/* A blocked signal comes even if it is ignored: not one that the caller ignores. */
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		if (!is_among(sig, harmless, ARRAY_SIZE(harmless)) && !sigaction(sig, NULL, &now) &&
		    (now.sa_handler == SIG_DFL || is_among(sig, meant, ARRAY_SIZE(meant))))
			sigaddset(set, sig);
}

bool signal_told(void)
{
	sigset_t ends, pending;
	bool told = false;

	signal_ends(&ends);
	sigdelset(&ends, SIGUSR1); /* a recorder's snapshot */
	if (sigpending(&pending))
		return false;
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		told |= sigismember(&pending, sig) == 1 && sigismember(&ends, sig) == 1;
	return told;
}

int signal_fd_open(int also)
{
	sigset_t set;
	int fd;

	signal_ends(&set);
	if (also)
		sigaddset(&set, also);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}
