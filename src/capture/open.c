/* SPDX-License-Identifier: GPL-2.0-or-later */
/* open.c: opening a capture of any format, closing it, and finding a VM in it. */
#include "reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#define CTF "a CTF trace, as of LTTng: record with kvmft record, or trace-cmd record -C x86-tsc"

typedef int (*read_file_fn)(struct capture *c, int fd, uint64_t size, struct kvmft_err *err);

static bool is_perf(int fd)
{
	char magic[8] = "";

	return full_pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       (!memcmp(magic, "PERFILE2", sizeof(magic)) ||
		!memcmp(magic, "2ELIFREP", sizeof(magic)));
}

/* A capture in a tar archive. -ENOMSG: it is none. */
static int read_archive(struct capture *c, int fd, const char *sub, struct kvmft_err *err)
{
	struct cap_dir dir = { .fd = -1 };
	struct cap_part file;
	int ret = cap_dir_of_tar(fd, sub, &dir, err);

	if (ret)
		return ret;
	if (cap_tar_file(dir.tar, "meta", &file))
		ret = err_set(err, EBADMSG,
			      "a tar archive %s a capture of kvmft record: unpack it (tar xf) and "
			      "give what is in it",
			      dir.tar->cut ? "that is cut short before" : "without");
	ret = ret ?: cap_dir_read(c, &dir, err);
	if (ret)
		cap_dir_close(&dir);
	else
		close(fd); /* taken over, as it were */
	return ret;
}

/* Decides by the type of path: a directory is ours, a file is for of_file(). */
static int open_any(struct capture *c, const char *path, read_file_fn of_file,
		    struct kvmft_err *err)
{
	bool input = !strcmp(path, "-");
	const char *sub = "";
	_cleanup_close_ int fd =
		input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : cap_open_above(path, &sub);
	_cleanup_close_ int other = -1;
	struct stat st;
	uint64_t size;
	int ret = MIN(fd, 0);

	if (ret || fstat(fd, &st)) {
		ret = ret ?: -errno;
		return err_set(err, ret, "cannot open the capture: %s", strerror(-ret));
	}
	if (S_ISDIR(st.st_mode) && (other = cap_open_file(fd, "data", &size)) >= 0 &&
	    is_perf(other))
		return err_set(err, EOPNOTSUPP,
			       "made by perf record --threads, a directory of files that kvmft "
			       "does not read: record without --threads");
	util_close_fd(&other);
	if (S_ISDIR(st.st_mode) && (other = cap_open_file(fd, "metadata", &size)) >= 0)
		return err_set(err, EINVAL, "%s", CTF);
	if (S_ISDIR(st.st_mode))
		ret = cap_dir_read(c, &(struct cap_dir){ .fd = fd }, err);
	else if (*sub && (!S_ISREG(st.st_mode) || !of_file))
		return err_set(err, ENOTDIR, "cannot open the capture: %s", strerror(ENOTDIR));
	else if (*sub)
		ret = read_archive(c, fd, sub, err);
	else if (S_ISREG(st.st_mode) && of_file)
		ret = of_file(c, fd, (uint64_t)st.st_size, err);
	else if (input && of_file && (ret = cap_text_read(c, fd, err)) == -ENOMSG)
		return err_set(err, EINVAL,
			       "no trace as text, and nothing else can come through a pipe");
	else if (!input || !of_file)
		return err_set(err, EINVAL, "%s",
			       of_file ? "neither a capture directory nor a file"
				       : "no capture directory");
	if (!ret)
		fd = -1; /* taken over */
	return ret;
}

static int open_with(const char *path, read_file_fn of_file, struct capture **out,
		     struct kvmft_err *err)
{
	struct capture *c = cap_new();
	struct kvmft_err why = { 0 };
	int ret;

	if (!c)
		return err_set(err, ENOMEM, "out of memory");
	ret = cap_set_str(&c->path, path);
	ret = ret ?: open_any(c, path, of_file, &why);
	if (ret) {
		if (!why.text[0])
			err_why(&why, ret, "cannot read the capture");
		(why.code == KVMFT_LACKING ? err_lack : err_set)(err, ret, "%s: %s", path,
								 why.text);
		capture_close(c);
		return ret;
	}
	cap_note_rest(c);
	*out = c;
	return 0;
}

/* What people have beside recordings: how it begins, and what to do with it. */
static const struct {
	uint16_t at, len;
	const char *magic, *text;
} others[] = {
	{ 0, 10, "/* CTF 1.8", CTF },
	{ 0, 4, "\x57\x1d\xd1\x75", CTF },
	{ 0, 4, "\xc1\x1f\xfc\xc1", CTF },
	{ 0, 8, "\xff\xff\xff\xff\xff\xff\xff\xff",
	  "a trace of QEMU's back end simple: give it with --qemu, beside a host's recording" },
	{ 0, 4, "\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first (unzstd)" },
	{ 0, 4, "PK\3\4", "a zip archive: unpack it and give what is in it" },
	{ 0, 6,
	  "\xfd"
	  "7zXZ",
	  "compressed with xz: unpack it first (unxz)" },
	{ 0, 3, "BZh", "compressed with bzip2: unpack it first (bunzip2)" },
	{ 0, 15, "SQLite format 3", "a database, which sqlite3 reads: see kvmft-sql(7)" },
	{ 0, 4,
	  "\x7f"
	  "ELF",
	  "a program or a core dump" },
	{ 0, 9, "<!DOCTYPE", "a page for a browser" },
	{ 0, 1, "\x0a", "perhaps a Perfetto trace, which kvmft writes but does not read" },
	{ 0, 1, "{", "JSON, which kvmft writes but does not read" },
};

static int refuse_other(int fd, struct kvmft_err *err)
{
	char head[264] = "";

	(void)!full_pread(fd, head, sizeof(head), 0);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!memcmp(head + others[i].at, others[i].magic, others[i].len))
			return err_set(err, EBADMSG, "%s", others[i].text);
	return err_set(err, EBADMSG,
		       "neither a capture directory nor a trace.dat, perf.data or trace as text");
}

static int read_file(struct capture *c, int fd, uint64_t size, struct kvmft_err *err)
{
	static const char magic[TD_MAGIC + 1] = "\x17\x08\x44tracing";
	char head[TD_MAGIC] = "";
	int ret;

	if (is_perf(fd))
		return cap_perfdata_read(c, fd, size, err);
	(void)!full_pread(fd, head, sizeof(head), 0);
	if (!size || !memcmp(head, magic, sizeof(head))) /* empty: it says so */
		return cap_tracedat_read(c, fd, size, err);
	ret = cap_text_read(c, fd, err);
	ret = ret == -ENOMSG ? read_archive(c, fd, "", err) : ret;
	return ret == -ENOMSG ? refuse_other(fd, err) : ret;
}

int capture_open(const char *path, struct capture **out, struct kvmft_err *err)
{
	return open_with(path, read_file, out, err);
}

int capture_open_dir(const char *path, struct capture **out, struct kvmft_err *err)
{
	return open_with(path, NULL, out, err);
}

static void free_priv(struct cap_priv *p)
{
	size_t i;

	if (!p)
		return;
	cap_dir_close(&p->dir);
	util_close_fd(&p->fd);
	for (i = 0; i < p->ninstance; i++)
		free(p->instance[i]);
	free(p->instance);
	u64map_free(&p->task_by_tid);
	u64map_free(&p->vm_by_id);
	u64map_free(&p->vcpu_last);
	u64map_free(&p->damage_by_text);
	cap_unpacker_free(p->unpacker);
	if (p->maker.free)
		p->maker.free(p->maker.arg);
	free(p);
}

static void free_lists(struct capture *c)
{
	size_t i;

	for (i = 0; i < c->nformat; i++) {
		free(c->format[i].sys);
		free(c->format[i].name);
		free(c->format[i].text);
	}
	for (i = 0; i < c->nstream; i++)
		free(c->stream[i].ext);
	for (i = 0; i < c->nvm; i++) {
		free(c->vm[i].id);
		free(c->vm[i].name);
		free(c->vm[i].uuid);
		free(c->vm[i].vmm);
		free(c->vm[i].vcpu);
	}
	for (i = 0; i < c->nqemu; i++) {
		free(c->qemu[i].version);
		free(c->qemu[i].binary);
	}
	for (i = 0; i < c->ntask; i++)
		free(c->task[i].comm);
	for (i = 0; i < c->ndamage; i++)
		free(c->damage[i].text);
	for (i = 0; i < c->nshift; i++)
		free(c->shift[i].sample);
	free(c->format);
	free(c->cpu);
	free(c->stream);
	free(c->vm);
	for (i = 0; i < c->nparam; i++) {
		free(c->param[i].module);
		free(c->param[i].name);
		free(c->param[i].value);
	}
	free(c->param);
	free(c->qemu);
	free(c->pvclock);
	free(c->pause);
	free(c->bracket);
	free(c->sample);
	free(c->task);
	free(c->loss);
	free(c->damage);
	free(c->shift);
}

void capture_close(struct capture *c)
{
	if (!c)
		return;
	free_lists(c);
	free_priv(c->priv);
	free(c->path);
	free(c->end_reason);
	free(c->lacks);
	free(c->clock);
	free(c->uname);
	free(c->arch);
	free(c->hypervisor);
	free(c->uuid);
	free(c->clocksource);
	free(c->vendor);
	free(c->tool);
	free(c->tsc_khz_source);
	free(c->sched_source);
	free(c->printk);
	free(c->kallsyms);
	for (size_t i = 0; i < c->ngone; i++)
		free(c->gone[i]);
	free(c->gone);
	free(c);
}
