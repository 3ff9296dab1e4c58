/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sandbox.c: capabilities, Landlock and a seccomp filter (seccomp.c), by their system calls: none
 * of the three needs a library, and the headers of older systems lack parts of them.
 */
#include "kvmft/sandbox.h"

#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sandbox_calls.h"

/* ---- capabilities ---- */

#define CAP_BITS 64

static int caps_drop(uint64_t keep, bool bounding)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	/*
	 * The bounding set first, because that itself takes a capability. Not root: there is
	 * nothing to drop.
	 */
	for (int cap = 0; bounding && cap < CAP_BITS; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			break;
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(data); i++) {
		data[i].permitted &= (uint32_t)(keep >> (32 * i));
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* ---- Landlock: include/uapi/linux/landlock.h ---- */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule	    445
#define SYS_landlock_restrict_self  446
#endif

#define LL_VERSION_FLAG 1u
#define LL_PATH_BENEATH 1
#define LL_WORDS_MAX    ((size_t)4 << 20) /* what Linux takes by default is half of it */

enum {
	LL_EXECUTE = 1 << 0,
	LL_WRITE_FILE = 1 << 1,
	LL_READ_FILE = 1 << 2,
	LL_READ_DIR = 1 << 3,
	LL_REMOVE_DIR = 1 << 4,
	LL_REMOVE_FILE = 1 << 5,
	LL_MAKE_CHAR = 1 << 6,
	LL_MAKE_DIR = 1 << 7,
	LL_MAKE_REG = 1 << 8,
	LL_MAKE_SOCK = 1 << 9,
	LL_MAKE_FIFO = 1 << 10,
	LL_MAKE_BLOCK = 1 << 11,
	LL_MAKE_SYM = 1 << 12,
	LL_REFER = 1 << 13,
	LL_TRUNCATE = 1 << 14,
	LL_IOCTL_DEV = 1 << 15,
};

#define LL_OF_FILES (LL_EXECUTE | LL_WRITE_FILE | LL_READ_FILE | LL_TRUNCATE | LL_IOCTL_DEV)
#define LL_CREATE   (LL_MAKE_DIR | LL_MAKE_REG | LL_REMOVE_DIR | LL_REMOVE_FILE)
#define LL_ABI_1                                                                               \
	(LL_EXECUTE | LL_WRITE_FILE | LL_CREATE | LL_MAKE_CHAR | LL_MAKE_SOCK | LL_MAKE_FIFO | \
	 LL_MAKE_BLOCK | LL_MAKE_SYM)

struct ll_ruleset {
	uint64_t fs, net, scoped;
};

struct ll_beneath {
	uint64_t access;
	int32_t fd;
} __attribute__((packed));

/* What the kernel's version supports; size is how much of the struct it knows. */
static size_t ll_handled(long abi, struct ll_ruleset *r)
{
	*r = (struct ll_ruleset){ .fs = LL_ABI_1 };
	if (abi >= 2)
		r->fs |= LL_REFER;
	if (abi >= 3)
		r->fs |= LL_TRUNCATE;
	if (abi >= 5)
		r->fs |= LL_IOCTL_DEV;
	if (abi >= 4)
		r->net = 3; /* bind and connect of TCP */
	if (abi >= 6)
		r->scoped = 1; /* abstract sockets of others; not signals, because a command has to
			    * be ended */
	return abi >= 6 ? sizeof(*r) : abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
}

static bool ll_allow(int set, const struct ll_ruleset *r, const struct sandbox_dir *d)
{
	struct ll_beneath rule = { .fd = d->fd };
	struct stat st;

	if (d->fd < 0) /* it does not exist, so nothing is allowed */
		return true;
	if (d->rights & SANDBOX_READ)
		rule.access |= LL_READ_FILE | LL_READ_DIR;
	if (d->rights & SANDBOX_REMOVE)
		rule.access |= LL_REMOVE_DIR | LL_REMOVE_FILE;
	if (d->rights & SANDBOX_WRITE)
		rule.access |= LL_WRITE_FILE | LL_TRUNCATE;
	if (d->rights & SANDBOX_CREATE)
		rule.access |= LL_CREATE | LL_REFER;
	rule.access &= r->fs;
	if (fstat(d->fd, &st))
		return false;
	if (!S_ISDIR(st.st_mode))
		rule.access &= LL_OF_FILES;
	if (!rule.access || S_ISLNK(st.st_mode))
		return true;
	return !syscall(SYS_landlock_add_rule, set, LL_PATH_BENEATH, &rule, 0);
}

static bool ll_allow_path(int set, const struct ll_ruleset *r, const char *path, int flags)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC | flags);

	return ll_allow(set, r, &(struct sandbox_dir){ fd, SANDBOX_READ });
}

/*
 * What is installed with a program: the declarations of a QEMU that was built here. No link: it
 * could lead anywhere, and only the program was named.
 */
static bool ll_allow_beside(int set, const struct ll_ruleset *r, const char *path)
{
	static const char *const places[] = { "", "../share/qemu/", "../share/qemu-kvm/" };
	const char *slash = strrchr(path, '/');
	char beside[4096];
	bool done = true;

	for (size_t i = 0; i < ARRAY_SIZE(places) && done; i++) {
		snprintf(beside, sizeof(beside), "%.*s%strace-events-all",
			 slash ? (int)(slash + 1 - path) : 0, path, places[i]);
		done = ll_allow_path(set, r, beside, O_NOFOLLOW);
	}
	return done;
}

/*
 * PATH, lists of them, PATH=SEL, SEL=PATH, PATH:FORMAT, --option=PATH, -oPATH; what names no file
 * does no harm.
 */
static bool ll_allow_word(int set, const struct ll_ruleset *r, char *word)
{
	bool done = ll_allow_path(set, r, word, 0) && ll_allow_beside(set, r, word);
	char *comma = strchr(word, ',');

	if (comma && done) {
		*comma = '\0';
		done = ll_allow_word(set, r, word) && ll_allow_word(set, r, comma + 1);
		*comma = ',';
	}
	if (done && word[0] == '-' && word[1] && word[1] != '-')
		done = ll_allow_path(set, r, word + 2, 0);
	for (char *is = strpbrk(word, "=:"); is && done; is = strpbrk(is + 1, "=:")) {
		const char separator = *is;

		done = ll_allow_path(set, r, is + 1, 0);
		*is = '\0';
		done = done && ll_allow_path(set, r, word, 0) && ll_allow_beside(set, r, word);
		*is = separator;
	}
	return done;
}

/* What the command line names, what is read without being named, and what is installed for all. */
static bool ll_allow_operands(int set, const struct ll_ruleset *r)
{
	static const char *const always[] = {
		"kvmft.data",	       "/etc/localtime",	"/usr/share/zoneinfo",
		"/usr/share/qemu",     "/usr/share/qemu-kvm",	"/usr/local/share/qemu",
		"/sys/devices/system/cpu",
	};
	_cleanup_free_ char *line = NULL;
	ssize_t n = file_read_all(AT_FDCWD, "/proc/self/cmdline", LL_WORDS_MAX, &line);
	bool done = n > 0;

	for (size_t i = 0; i < ARRAY_SIZE(always) && done; i++)
		done = ll_allow_path(set, r, always[i], 0);
	for (char *word = line; done && word < line + n; word += strlen(word) + 1)
		done = ll_allow_word(set, r, word);
	return done;
}

long sandbox_landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LL_VERSION_FLAG);

	if (abi < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	return abi;
}

static int landlock_enter(const struct sandbox *s)
{
	long abi = sandbox_landlock_abi();
	_cleanup_close_ int set = -1;
	struct ll_ruleset r;
	size_t size;

#ifdef KVMFT_COVERAGE /* counts are written next to the object files at the end */
	abi = 0;
#endif
	if (abi <= 0)
		return abi ? (int)abi : -ENOSYS;
	size = ll_handled(abi, &r);
#ifndef KVMFT_SANITIZED /* which read about this process at their end */
	r.fs |= s->reads ? LL_READ_FILE | LL_READ_DIR : 0;
#endif
	set = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
	if (set < 0)
		return -errno;
	for (size_t i = 0; i < s->ndir; i++)
		if (!ll_allow(set, &r, &s->dir[i]))
			return -errno;
	if ((r.fs & LL_READ_FILE) && s->operands && !ll_allow_operands(set, &r))
		return -errno;
	return syscall(SYS_landlock_restrict_self, set, 0) < 0 ? -errno : 0;
}

/* ---- all of it ---- */

static const char *const layer_names[] = { "capabilities", "Landlock", "seccomp" };

/*
 * Layers that the kernel lacks are left out; one that it has but that cannot be applied is an
 * error.
 */
static int layer_done(unsigned int layer, int ret, unsigned int *layers, struct kvmft_err *err)
{
	if (!ret)
		*layers |= 1u << layer;
	if (!ret || ret == -ENOSYS)
		return 0;
	return err_why(err, ret, "cannot confine itself by %s", layer_names[layer]);
}

int sandbox_enter(const struct sandbox *s, unsigned int *layers, struct kvmft_err *err)
{
	int ret;

	*layers = 0;
	/*
	 * Without this, Landlock and seccomp are only for root, and a set-uid program would be a
	 * way out.
	 */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return err_why(err, errno, "cannot confine itself by no_new_privs");
	ret = layer_done(0, caps_drop(s->caps, s->bounding), layers, err);
	if (!ret && s->files)
		ret = layer_done(1, landlock_enter(s), layers, err);
	return ret ?: layer_done(2, sandbox_seccomp(sandbox_calls, s->calls, s->child), layers,
				 err);
}

int sandbox_enter_reader(unsigned int *layers, struct kvmft_err *err)
{
	const struct sandbox s = {
		.caps = SANDBOX_CAP(CAP_DAC_READ_SEARCH),
		.files = true,
		.reads = true,
		.operands = true,
		.calls = SANDBOX_CALLS_READER,
	};

	return sandbox_enter(&s, layers, err);
}

unsigned int sandbox_have(void)
{
	unsigned int have = SANDBOX_CAPS;

	if (sandbox_landlock_abi() > 0)
		have |= SANDBOX_LANDLOCK;
	/* EFAULT: it tries to read the filter, which is not there. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) < 0 && errno == EFAULT &&
	    sandbox_has_calls())
		have |= SANDBOX_SECCOMP;
	return have;
}

/*
 * A confined process that parses what a process with rights needs of a file.
 */

struct head {
	int ret;
	size_t len; /* of what follows */
	struct kvmft_err err;
};

static _Noreturn void child_answer(sandbox_fn *fn, void *ctx, int file, int to)
{
	const int keep[] = { to, file, STDERR_FILENO };
	struct head h = { .err = { .text = "" } };
	struct sbuf out = { 0 };
	unsigned int layers;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	fds_keep(keep, ARRAY_SIZE(keep));
	h.ret = sandbox_enter_reader(&layers, &h.err);
	h.ret = h.ret ?: fn(ctx, &out, &h.err);
	h.ret = h.ret ?: out.error;
	h.len = h.ret ? 0 : out.len;
	_exit(full_write(to, &h, sizeof(h), NULL) ||
	      (h.len && full_write(to, out.s, h.len, NULL)));
}

static int answer_read(int from, size_t max, struct sbuf *out, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	ssize_t n = fd_read_all(from, sizeof(struct head) + max, &text);
	struct head h;

	if (n == -ENOMEM || n == -EFBIG)
		return err_set(err, (int)-n, "what a file holds takes more than %zu MB of memory", max >> 20);
	if (n >= (ssize_t)sizeof(h))
		memcpy(&h, text, sizeof(h));
	if (n < (ssize_t)sizeof(h) || h.len != (size_t)n - sizeof(h))
		return err_set(err, EIO, "the process that reads a file was killed");
	if (!h.ret) {
		sbuf_add_mem(out, text + sizeof(h), (size_t)n - sizeof(h));
		return out->error ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	h.err.text[sizeof(h.err.text) - 1] = '\0';
	str_printable(h.err.text);
	*err = h.err;
	err->code = h.err.code > KVMFT_OK && h.err.code <= KVMFT_LACKING ? h.err.code : 0;
	return h.ret < 0 && h.ret >= -4095 ? h.ret : -EBADMSG;
}

int sandbox_ask(sandbox_fn *fn, void *ctx, int file, size_t max, struct sbuf *out,
		struct kvmft_err *err)
{
	int fds[2], ret;
	pid_t pid;

	/* No filter of ours allows sockets to readers: then this process is confined itself. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return errno == EPERM && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
			       ? fn(ctx, out, err)
			       : err_why(err, errno, "socketpair");
	pid = fork();
	if (!pid)
		child_answer(fn, ctx, file, fds[1]);
	ret = pid < 0 ? err_why(err, errno, "cannot start a process that reads") : 0;
	close(fds[1]);
	ret = ret ?: answer_read(fds[0], max, out, err);
	close(fds[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return ret;
}
