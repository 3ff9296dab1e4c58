/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * push.c: a recorder for guests that have none.
 *
 * A static program goes into the guest's memory (a tmpfs where there is one), under a name that
 * nobody can know beforehand, and removes itself when it runs. Each step is a program of its own at
 * the other end, of plain words: what is on the way may be a shell, which takes quotes and spaces
 * apart, or may not.
 */
#include "sides.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const char *const places[] = { "/dev/shm", "/run", "/tmp", "/var/tmp" };

/* Which ELF machine `uname -m` means; 0 = kvmft does not know it. */
static uint16_t elf_machine(const char *arch)
{
	return !strcmp(arch, "x86_64") ? EM_X86_64 : !strcmp(arch, "aarch64") ? EM_AARCH64 : 0;
}

/* What the guest is: its machine, as `uname -m` has it. */
static int guest_machine(const struct side_spec *spec, char *arch, size_t size,
			 struct kvmft_err *err)
{
	static const char *const words[] = { "uname", "-sm", NULL };
	_cleanup_(sbuf_free) struct sbuf out = { 0 };
	struct kvmft_err why = { .text = "" };
	int ret = side_ask(&spec->command, words, words[0], -1, 256, &out, &why);
	char *end;

	if (ret)
		return err_set(err, ret > 0 ? EIO : -ret, "%s: %s", spec->name, why.text);
	sbuf_add(&out, "");
	end = out.s ? out.s + strcspn(out.s, "\r\n") : NULL;
	if (!end || strncmp(out.s, "Linux ", 6))
		return err_lack(err, ENOEXEC, "%s: uname -sm does not say Linux: '%.40s'",
				spec->name, out.s ? out.s : "");
	*end = '\0';
	snprintf(arch, size, "%s", out.s + 6);
	if (elf_machine(arch))
		return 0;
	return err_lack(err, ENOEXEC, "%s is %s, for which there is no kvmft", spec->name, arch);
}

/* ---- the program ---- */

static bool has_interpreter(int fd, const Elf64_Ehdr *e)
{
	for (unsigned int i = 0; i < e->e_phnum && i < 64; i++) {
		Elf64_Phdr ph;
		uint64_t at = e->e_phoff + (uint64_t)i * e->e_phentsize;

		if (full_pread(fd, &ph, sizeof(ph), at) != (ssize_t)sizeof(ph))
			return true;
		if (ph.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* 0; -ENOEXEC: no static program for that machine. */
static int check_elf(int fd, const char *arch)
{
	Elf64_Ehdr e;

	if (full_pread(fd, &e, sizeof(e), 0) != (ssize_t)sizeof(e) ||
	    memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_machine != elf_machine(arch) || has_interpreter(fd, &e))
		return -ENOEXEC;
	return 0;
}

/* The folder of this program. */
static int own_folder(char *buf, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", buf, size - 1);
	char *slash;

	if (n <= 0)
		return -ENOENT;
	buf[n] = '\0';
	slash = strrchr(buf, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

static int open_static(const char *path, const char *arch)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = check_elf(fd, arch);
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

static int find_static(const char *arch)
{
	static const char *const names[] = { "%s/kvmft-static-%s", "%s/../lib/kvmft/kvmft-static-%s" };
	char folder[4096], path[4200];
	int fd = own_folder(folder, sizeof(folder));

	for (size_t i = 0; !fd && i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), names[i], folder, arch);
		fd = open_static(path, arch);
		if (fd >= 0)
			return fd;
		fd = 0;
	}
	/* This one may be static itself. */
	return open_static("/proc/self/exe", arch);
}

static int open_program(const struct sides_config *c, const char *arch, struct kvmft_err *err)
{
	int fd = c->push_file ? open_static(c->push_file, arch) : find_static(arch);

	if (fd >= 0)
		return fd;
	if (c->push_file)
		return err_set(err, -fd, "--push-file %s: %s", c->push_file,
			       fd == -ENOEXEC ? "is no static program for the guest's machine"
					      : strerror(-fd));
	return err_lack(err, ENOENT,
			"--push: there is no static kvmft for %s beside this one: make STATIC=1 "
			"SMALL=1, and name it with --push-file, or as kvmft-static-%s",
			arch, arch);
}

/* ---- into the guest ---- */

static int random_name(char *buf, size_t size, const char *folder)
{
	uint64_t r[2];

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return -EIO;
	snprintf(buf, size, "%s/kvmft-%016llx%016llx", folder, (unsigned long long)r[0],
		 (unsigned long long)r[1]);
	return 0;
}

static int ask(const struct side_spec *spec, const char *const *words, int input,
	       struct kvmft_err *err)
{
	int ret = side_ask(&spec->command, words, words[0], input, 0, NULL, err);

	return ret > 0 ? -EIO : ret;
}

void side_push_undo(const struct side_spec *spec, const char *path)
{
	const char *const words[] = { "rm", "-f", path, NULL };

	(void)!ask(spec, words, -1, NULL);
}

/* Written, and able to run: some systems mount such places noexec. */
static int push_to(const struct side_spec *spec, int fd, const char *path, struct kvmft_err *err)
{
	char of[128];
	const char *const dd[] = { "dd", of, "bs=65536", NULL };
	const char *const mode[] = { "chmod", "700", path, NULL };
	const char *const run[] = { path, "--version", NULL };
	int ret;

	snprintf(of, sizeof(of), "of=%s", path);
	ret = lseek(fd, 0, SEEK_SET) < 0 ? -errno : ask(spec, dd, fd, err);
	ret = ret ? ret : ask(spec, mode, -1, err);
	ret = ret ? ret : ask(spec, run, -1, err);
	if (ret)
		side_push_undo(spec, path);
	return ret;
}

int side_push(const struct sides_config *c, const struct side_spec *spec, char **path,
	      struct kvmft_err *err)
{
	char arch[32], name[96];
	_cleanup_close_ int fd = -1;
	struct kvmft_err first = { .text = "" };
	int ret;

	if (spec->agent)
		return err_usage(err, "--push is not for a guest that is reached by its agent");
	ret = guest_machine(spec, arch, sizeof(arch), err);
	fd = ret ? -1 : open_program(c, arch, err);
	if (ret || fd < 0)
		return ret ? ret : fd;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		ret = random_name(name, sizeof(name), places[i]);
		ret = ret ? ret : push_to(spec, fd, name, i ? err : &first);
		if (ret)
			continue;
		*path = strdup(name);
		return *path ? 0 : err_set(err, ENOMEM, "out of memory");
	}
	return err_set(err, -ret, "%s: cannot bring a program into the guest: %s", spec->name,
		       first.text);
}
