/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * push.c: a recorder for guests that have none.
 *
 * A static program is copied into the guest's memory (a tmpfs if there is one), into a directory
 * that only its owner can use, and removes both itself when it runs. Until then a separate process
 * is there to remove them, whatever becomes of us. Each step is a program at the other end, in
 * plain words: on the way there may or may not be a shell, which would interpret quotes and blanks.
 */
#include "sides.h"

#include <elf.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

#define TELL_MS	 2000
#define UNDO_MS	 20000 /* on a broken line; then it continues without us */
#define TAKEN	 "1"   /* the word that it runs there */
#define MAX_FILE (64u << 20)

static const char *const places[] = { "/dev/shm", "/run", "/tmp", "/var/tmp" };

/* How the guest is reached. */
struct push {
	const struct sides_config *c;
	const struct side_spec *spec;
	struct agent *agent; /* NULL: by its command */
	int hangup;	     /* the result is not wanted any more; -1 = always wanted */
	struct kvmft_err *err;
};

struct push_answer {
	int ret;
	struct kvmft_err err;
	char path[sizeof(((struct side_push *)NULL)->path)];
};

/* Runs words there; input: a file to read (-1: none), not for an agent. 0 or -errno, err. */
static int push_in_guest(struct push *p, const char *const *words, int input, struct sbuf *out)
{
	const struct side_question q = {
		.prefix = &p->spec->command, .words = words, .what = words[0],
		.input = input, .hangup = p->hangup, .max = 256, .out = out,
	};
	int ret = p->agent ? agent_run(p->agent, words, out) : side_ask(&q, p->err);

	return ret > 0 ? -EIO : ret;
}

/* Which ELF machine `uname -m` means; 0 = kvmft does not know it. */
static uint16_t elf_machine(const char *arch)
{
	return !strcmp(arch, "x86_64") ? EM_X86_64 : !strcmp(arch, "aarch64") ? EM_AARCH64 : 0;
}

/* A copy of it, in memory. -ENOEXEC: not a static program for that machine. */
static int open_static(const char *path, const char *arch)
{
	_cleanup_close_ int fd = file_open_regular(path, false), copy = -1;
	int ret = fd == -EINVAL ? -ENOEXEC : MIN(fd, 0);
	uint64_t size = 0;
	Elf64_Ehdr e;
	Elf64_Phdr ph;

	if (!ret && (full_pread(fd, &e, sizeof(e), 0) != (ssize_t)sizeof(e) ||
		     memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
		     e.e_machine != elf_machine(arch) || e.e_phnum > 64))
		ret = -ENOEXEC;
	/* Only what is loaded is copied: symbols are half of one that was not stripped. */
	for (unsigned int i = 0; !ret && i < e.e_phnum; i++) {
		uint64_t at = e.e_phoff + (uint64_t)i * e.e_phentsize;

		if (full_pread(fd, &ph, sizeof(ph), at) != (ssize_t)sizeof(ph) ||
		    ph.p_type == PT_INTERP || ph.p_offset > MAX_FILE || ph.p_filesz > MAX_FILE)
			ret = -ENOEXEC;
		else
			size = MAX(size, MAX(ph.p_offset + ph.p_filesz, at + sizeof(ph)));
	}
	if (ret || !size)
		return ret ?: -ENOEXEC;
	copy = memfd_create("kvmft-static", MFD_CLOEXEC);
	if (copy < 0)
		return -errno;
	while (size) {
		ssize_t n = sendfile(copy, fd, NULL, size);

		if (n <= 0)
			return n ? -errno : -EIO;
		size -= (uint64_t)n;
	}
	ret = copy;
	copy = -1;
	return ret;
}

static int find_static(const char *arch)
{
	static const char *const names[] = { "kvmft-static-%s", "../lib/kvmft/kvmft-static-%s" };
	char path[4200];
	ssize_t n = readlink("/proc/self/exe", path, 4096);
	int fd;

	/* In the folder of this program. */
	while (n > 0 && path[n - 1] != '/')
		n--;
	for (size_t i = 0; n > 0 && i < ARRAY_SIZE(names); i++) {
		snprintf(path + n, sizeof(path) - (size_t)n, names[i], arch);
		fd = open_static(path, arch);
		if (fd >= 0)
			return fd;
	}
	/* This one may be static itself. */
	return open_static("/proc/self/exe", arch);
}

/* ---- into the guest ---- */

int side_random_name(char *buf, size_t size, const char *folder, struct kvmft_err *err)
{
	uint64_t r[2];

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return err_set(err, EIO, "cannot get a random number");
	snprintf(buf, size, "%s/kvmft-%016llx%016llx", folder, (unsigned long long)r[0],
		 (unsigned long long)r[1]);
	return 0;
}

static int write_file(struct push *p, int fd, const char *path)
{
	char of[sizeof(((struct side_push *)NULL)->path) + 4];
	const char *const dd[] = { "dd", of, "bs=65536", NULL };

	if (p->agent) {
		uint8_t piece[AGENT_PIECE];
		uint64_t handle, at = 0;
		ssize_t n = 0;
		int ret = agent_file_open(p->agent, path, "w", &handle), end;

		/* What was not written yet is reported by the agent when the file is closed. */
		if (ret)
			return ret;
		while (!ret && (n = full_pread(fd, piece, sizeof(piece), at)) > 0) {
			ret = agent_file_write(p->agent, handle, piece, (size_t)n);
			at += (uint64_t)n;
		}
		if (!ret && n < 0)
			ret = err_why(p->agent->err, (int)n, "cannot read the program");
		end = ret == -EINTR ? 0 : agent_file_close(p->agent, handle);
		return ret ?: end;
	}
	snprintf(of, sizeof(of), "of=%s", path);
	return lseek(fd, 0, SEEK_SET) < 0 ? err_why(p->err, errno, "cannot read the program")
					  : push_in_guest(p, dd, fd, NULL);
}

static void push_undo(struct push *p, const char *dir)
{
	const char *const words[] = { "rm", "-rf", dir, NULL };

	p->hangup = -1;
	if (p->agent)
		p->agent->hangup = -1;
	(void)!push_in_guest(p, words, -1, NULL);
}

/* Written, and executable: some systems mount such places noexec. */
static int push_to(struct push *p, int fd, const char *dir, const char *path)
{
	const char *const make[] = { "mkdir", "-m", "700", dir, NULL };
	const char *const mode[] = { "chmod", "700", path, NULL };
	const char *const run[] = { path, "--version", NULL };
	int ret = push_in_guest(p, make, -1, NULL), hangup = p->hangup;
	struct kvmft_err first;

	ret = ret ?: write_file(p, fd, path);
	ret = ret ?: push_in_guest(p, mode, -1, NULL);
	ret = ret ?: push_in_guest(p, run, -1, NULL);
	if (!ret)
		return 0;
	/* Of all that went wrong, the first is reported. */
	first = *p->err;
	push_undo(p, dir);
	p->hangup = hangup;
	if (p->agent)
		p->agent->hangup = hangup;
	*p->err = first;
	return ret;
}

static int bring(struct push *p, char *dir, size_t dir_size, char *path, size_t size)
{
	static const char *const words[] = { "uname", "-sm", NULL };
	_cleanup_(sbuf_free) struct sbuf out = { 0 };
	_cleanup_close_ int fd = -1;
	struct kvmft_err first = { .text = "" };
	int ret = push_in_guest(p, words, -1, &out);
	const char *arch;

	if (ret)
		return ret;
	sbuf_add(&out, "");
	if (!out.s || strncmp(out.s, "Linux ", 6))
		return err_lack(p->err, ENOEXEC, "uname -sm does not say Linux: '%.40s'", out.s ?: "");
	out.s[strcspn(out.s, "\r\n")] = '\0';
	arch = out.s + 6;
	if (!elf_machine(arch))
		return err_lack(p->err, ENOEXEC, "it is %.31s, for which there is no kvmft", arch);
	fd = *p->c->push ? open_static(p->c->push, arch) : find_static(arch);
	if (fd < 0 && *p->c->push)
		return err_set(p->err, -fd, "--push=%s: %s", p->c->push,
			       fd == -ENOEXEC ? "is not a static program for the guest's machine"
					      : strerror(-fd));
	if (fd < 0)
		return err_lack(p->err, ENOENT,
				"--push: there is no static kvmft for %s beside this one: make "
				"STATIC=1 SMALL=1, and name it with --push=FILE, or as "
				"kvmft-static-%s",
				arch, arch);
	for (size_t i = 0; i < ARRAY_SIZE(places) && ret != -EINTR; i++) {
		ret = side_random_name(dir, dir_size, places[i], p->err);
		if (ret)
			return ret;
		/* Its name shows that it was copied there: see drop_program(). */
		snprintf(path, size, "%s%s", dir, strrchr(dir, '/'));
		ret = push_to(p, fd, dir, path);
		if (!ret)
			return 0;
		first = i ? first : *p->err;
	}
	return err_set(p->err, -ret, "cannot copy a program into the guest: %s", first.text);
}

/* ---- the process that does it ---- */

static int reach(struct push *p, struct agent *a)
{
	if (!p->spec->agent)
		return 0;
	p->agent = a;
	return agent_open(a, p->spec, p->hangup, p->err);
}

/* The agent talks to one client at a time. */
static void leave(struct push *p)
{
	if (p->agent)
		agent_close(p->agent);
	p->agent = NULL;
}

struct push_start {
	const struct sides_config *c;
	const struct side_spec *spec;
};

static int push_main(void *arg)
{
	const struct push_start *s = arg;
	struct push_answer answer = { .err.text = "" };
	struct push p = { .c = s->c, .spec = s->spec, .hangup = STDIN_FILENO, .err = &answer.err };
	struct agent agent = { .fd = -1 };
	sigset_t set;
	char dir[64], word;

	/* A signal must not make this leave files there; it ends the parent as well. */
	signal_ends(&set);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)close_from(STDERR_FILENO + 1);
	answer.ret = reach(&p, &agent);
	answer.ret = answer.ret ?: bring(&p, dir, sizeof(dir), answer.path, sizeof(answer.path));
	leave(&p);
	(void)!full_write(STDOUT_FILENO, &answer, sizeof(answer), NULL);
	if (answer.ret || read(STDIN_FILENO, &word, 1) == 1)
		return KVMFT_OK;
	p.hangup = -1;
	if (!reach(&p, &agent))
		push_undo(&p, dir);
	leave(&p);
	return KVMFT_OK;
}

int side_push_start(const struct sides_config *c, struct side *s, struct kvmft_err *err)
{
	int in[2], out[2], pid = side_pipe(in, err), words;

	if (pid)
		return pid;
	s->push.to = in[1];
	pid = side_pipe(out, err);
	if (pid) {
		close(in[0]);
		return pid;
	}
	pid = side_run(push_main, &(struct push_start){ c, s->spec }, in[0], out[1], &words, err);
	close(in[0]);
	close(out[1]);
	s->push.from = out[0];
	if (pid < 0)
		return pid;
	close(words); /* it has none */
	s->push.pid = pid;
	return 0;
}

int side_push_take(struct side *s, struct kvmft_err *err)
{
	struct push_answer a = { .ret = -EIO };

	if (full_read(s->push.from, &a, sizeof(a)))
		return err_set(err, EIO, "%s: the process that copies a program there was killed",
			       s->name);
	if (!a.ret) {
		memcpy(s->push.path, a.path, sizeof(a.path));
		return 0;
	}
	err_set(err, -a.ret, "%s: %s", s->name, a.err.text);
	err->code = a.err.code;
	return a.ret;
}

void side_push_end(struct side *s, bool runs, note_fn *note)
{
	if (runs && s->push.to >= 0)
		(void)!full_write(s->push.to, TAKEN, 1, NULL);
	util_close_fd(&s->push.to);
	util_close_fd(&s->push.from);
	for (int ms = 0; s->push.pid > 0 && ms < UNDO_MS; ms += 20) {
		if (waitpid(s->push.pid, NULL, WNOHANG))
			s->push.pid = 0;
		else
			(void)poll(NULL, 0, 20);
		if (s->push.pid && ms == TELL_MS)
			note("%s: process %d removes there what was copied: waiting for it, at most "
			     "%d s", s->name, s->push.pid, UNDO_MS / 1000);
	}
}
