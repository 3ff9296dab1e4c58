/* SPDX-License-Identifier: GPL-2.0-or-later */
/* open.c: opening a capture of any format, closing it, and finding a VM in it. */
#include "kvmft/util.h"
#include "reader.h"

#include <sys/mman.h>

#define MAX_PIPE   ((uint64_t)2 << 30)
#define TD_BEGIN   "\x17\x08\x44tracing"
#define PERF_BEGIN "PERFILE2"
#define KVMEXIT	   "perhaps counts of bcc's kvmexit, without times: kvmft exits has them live, report of a recording"
#define PERFETTO   "perhaps a Perfetto trace, which kvmft writes but does not read"
#define CTF	   "a CTF trace, as of LTTng: record with kvmft record, or trace-cmd record -C x86-tsc"

/*
 * Reading kvmft's own capture, a directory.
 *
 *   DIR/meta           text, only ever appended to; one record per line (see meta.c):
 *                        kvmft-capture version=1       always the first line
 *                        RECORD NAME=VALUE ...         see the list in records.c
 *                      The last line counts only with its newline. Unknown records and names
 *                      are skipped; a version above 1 is refused, so adding is free and
 *                      changing a meaning costs a new version.
 *   DIR/header_page    the kernel's events/header_page (sub-buffer layout)
 *   DIR/header_event   the kernel's events/header_event
 *   DIR/formats        the kernel's format texts, one after the other; `event` records say where;
 *                      where the one of S:N does not, its text is in a file DIR/events/S/N
 *   DIR/saved_cmdlines "TID COMM" lines of the kernel, optional
 *   DIR/saved_tgids    "TID TGID" lines of the kernel, optional
 *   DIR/printk_formats the kernel's file of that name, optional
 *   DIR/kallsyms       of the kernel's file those symbols that its stacks need, optional
 *   DIR/symbols        functions of the kernel and its modules (util/ksyms.c), optional
 *   DIR/segNNNNNN/cpuN sub-buffers of CPU N exactly as the kernel handed them out; segments
 *                      follow each other in time. Old ones may have been removed (retention),
 *                      so the lowest number need not be 0, but the rest has no holes.
 *
 * Example of a meta file:
 *
 *   kvmft-capture version=1
 *   side name=host
 *   machine uname=Linux%206.1.0 arch=x86_64 long=8 endian=little cpus=4
 *   ring clock=x86-tsc subbuf=65536 header=16 overwrite=0
 *   event id=1423 sys=kvm name=kvm_exit
 *   vm id=4711-13 pid=4711 fd=13 name=web
 *   vcpu vm=4711-13 id=0 tid=4720 offset=-81985529216486895 ratio=0 frac=48
 *   begin tsc=1234567
 *   end reason=signal tsc=2345678
 *
 * A recorder that was killed leaves no `end` record, perhaps half a line and half a sub-buffer:
 * all that is complete is read, the rest is reported as damage.
 */

/* cut: it ends within a line. */
static int read_meta(struct capture *c, const struct cap_dir *dir, bool *cut, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	uint64_t version;
	size_t left, number = 0;
	struct meta_rec rec;
	bool more = false;
	char *p, *eol;
	ssize_t n = cap_read_file(dir, "meta", CAPTURE_MAX_META, &text, &more);

	if (n < 0)
		return err_why(err, (int)n, "not a kvmft capture: cannot read meta");
	p = text;
	left = (size_t)n;
	while ((eol = memchr(p, '\n', left))) {
		*eol = '\0';
		if (!number++) {
			if (!meta_parse(p, &rec) || strcmp(rec.name, "kvmft-capture") ||
			    !meta_get_u64(&rec, "version", &version) || !version)
				return err_set(
					err, EBADMSG,
					"not a kvmft capture: its meta does not begin like one");
			if (version > CAPTURE_VERSION)
				return err_set(err, EPROTONOSUPPORT,
					       "capture has format version %" PRIu64
					       ", this kvmft reads up to %d "
					       "(a newer kvmft is needed)",
					       version, CAPTURE_VERSION);
		} else if (meta_is_line(p, (size_t)(eol - p)) && meta_parse(p, &rec)) {
			meta_apply(c, &rec);
		} else if (eol > p) {
			cap_note(c, "meta: line %zu is damaged", number);
		}
		if (cap_priv(c)->big_endian)
			return err_set(err, EPROTONOSUPPORT,
				       CAP_BIG_ENDIAN "record there with trace-cmd");
		left -= (size_t)(eol - p) + 1;
		p = eol + 1;
	}
	if (!number)
		return err_set(err, EBADMSG, "not a kvmft capture: meta has no complete line");
	if (more)
		cap_note(c, "meta: longer than %u bytes, the rest was not read", CAPTURE_MAX_META);
	*cut = left && !more;
	return 0;
}

const char *const cap_text_names[CAP_TEXTS] = {
	[CAP_TEXT_CMDLINES] = "saved_cmdlines",
	[CAP_TEXT_TGIDS] = "saved_tgids",
	[CAP_TEXT_PRINTK] = "printk_formats",
	[CAP_TEXT_KALLSYMS] = "kallsyms",
};

/* All are optional: without them only recorded task names are known. */
static void cap_dir_read_text(struct capture *c, const struct cap_dir *dir, enum cap_text which)
{
	const uint64_t told = cap_priv(c)->text[which].told ? cap_priv(c)->text[which].bytes : 0;
	const char *name = cap_text_names[which];
	_cleanup_free_ char *text = NULL;
	bool more = false;
	ssize_t n = cap_read_file(dir, name, CAP_MAX_TEXT, &text, &more);

	if (n == -ENOENT && cap_priv(c)->text[which].told)
		cap_note(c, "%s is missing", name);
	if (n == -ENOENT)
		return;
	if (n < 0 || more)
		cap_note(c, "%s: %s", name, more ? "too long, cut" : strerror((int)-n));
	else if ((uint64_t)n < told)
		cap_note(c, "%s is cut: %zd of %" PRIu64 " bytes", name, n, told);
	else if (n && text[n - 1] != '\n')
		cap_note(c, "%s is cut short: it ends inside a line", name);
	if (n > 0 && !more && strlen(text) < (size_t)n)
		cap_note(c, "%s is not text after byte %zu", name, strlen(text));
	if (n < 0)
		return;
	switch (which) {
	case CAP_TEXT_CMDLINES:
	case CAP_TEXT_TGIDS: cap_parse_tasks(c, text, which == CAP_TEXT_TGIDS); break;
	case CAP_TEXT_PRINTK: cap_set_printk(c, text, strlen(text)); break;
	case CAP_TEXT_KALLSYMS: cap_set_kallsyms(c, text, strlen(text)); break;
	default: break;
	}
}

/* The number in "PREFIXnnn", if it is written exactly as `fmt` would write it. */
static bool name_number(const char *name, const char *fmt, uint32_t max, uint32_t *n)
{
	size_t skip = strcspn(fmt, "%");
	char again[64];
	uint64_t v;

	if (strncmp(name, fmt, skip) || strspn(name + skip, "0123456789") != strlen(name + skip))
		return false;
	/* Leading zeros must not select another base. */
	name += skip;
	if (!*name || parse_u64(name + MIN(strspn(name, "0"), strlen(name) - 1), &v) || v > max)
		return false;
	if (fmt[skip + 1] == '0')
		snprintf(again, sizeof(again), "%06u", (unsigned int)v);
	else
		snprintf(again, sizeof(again), "%u", (unsigned int)v);
	*n = (uint32_t)v;
	return !strcmp(again, name);
}

COMPARE_BY(by_number, uint32_t, );

/* Numbers of the entries called `fmt`. */
struct numbers {
	const char *fmt;
	uint32_t max, *v;
	size_t n, cap;
};

static int number_add(void *arg, const char *name)
{
	struct numbers *all = arg;
	uint32_t number;

	if (!name_number(name, all->fmt, all->max, &number))
		return 0;
	if (all->n == CAP_MAX_SEGMENTS)
		return -E2BIG;
	xarray_add(&all->v, &all->n, &all->cap, &number, sizeof(number));
	return 0;
}

/* ... in a directory, ascending; v is the caller's to free. */
static int list_numbers(const struct cap_dir *dir, const char *path, struct numbers *all)
{
	int ret = cap_dir_list(dir, path, number_add, all);

	if (!ret && all->n)
		array_sort(all->v, all->n, by_number);
	return ret;
}

static void read_piece(struct capture *c, const struct cap_dir *dir, struct u64map *map,
		       uint32_t segment, uint32_t cpu)
{
	struct cap_part file;
	struct cap_stream *s;
	uint64_t holes, at;
	char name[64];
	int ret;

	cap_data_name(name, sizeof(name), segment, cpu);
	ret = cap_part_open(dir, name, &file);
	if (ret) {
		cap_note(c, "%s: %s", name, strerror(-ret));
		return;
	}
	if (u64map_get(map, cpu, &at)) {
		s = &c->stream[at];
	} else {
		xu64map_put(map, cpu, c->nstream);
		s = cap_stream_add(c, cpu, "");
	}
	holes = cap_stream_extend_file(c, s, file.fd,
				       &(struct cap_extent){ .fd = dir->tar ? dir->fd : -1,
							     .segment = segment,
							     .off = file.at,
							     .len = file.size });
	util_close_fd(&file.fd);
	if (holes)
		cap_note(c, "%s: %llu of %llu bytes were never written, and left out", name,
			 (unsigned long long)holes, (unsigned long long)file.size);
	if (file.size % c->subbuf_size)
		cap_note(c, "%s: ends inside a sub-buffer, %llu bytes cut", name,
			 (unsigned long long)(file.size % c->subbuf_size));
}

COMPARE_BY(by_cpu, struct cap_stream, .cpu);

static int read_segments(struct capture *c, const struct cap_dir *dir)
{
	struct numbers seg = { .fmt = "seg%06u", .max = CAP_MAX_SEGMENT };
	struct u64map map = { 0 };
	int ret = list_numbers(dir, "", &seg), bad;
	const uint32_t *v = seg.v, n = ret ? 0 : (uint32_t)seg.n;

	c->first_segment = n ? v[0] : 0;
	c->last_segment = n ? v[n - 1] : 0;
	c->trimmed = c->first_segment > 0;
	for (uint32_t i = 0; i < n; i++) {
		struct numbers cpu = { .fmt = "cpu%u", .max = CAPTURE_MAX_CPUS - 1 };
		char name[64];

		if (i && v[i] != v[i - 1] + 1 && c->flight && cap_priv(c)->asked)
			c->trimmed = true;
		else if (i && v[i] != v[i - 1] + 1)
			cap_note(c, "segments %u to %u are missing", v[i - 1] + 1, v[i] - 1);
		snprintf(name, sizeof(name), "seg%06u", v[i]);
		bad = list_numbers(dir, name, &cpu);
		if (bad)
			cap_note(c, "%s: %s", name, strerror(-bad));
		for (size_t k = 0; k < cpu.n && !bad; k++)
			read_piece(c, dir, &map, v[i], cpu.v[k]);
		free(cpu.v);
	}
	if (!ret && cap_priv(c)->segments_told > (n ? v[n - 1] + 1 : 0))
		cap_note(c, "segments up to %u are missing", cap_priv(c)->segments_told - 1);
	free(seg.v);
	u64map_free(&map);
	return ret;
}

/* The sub-buffers of an archive in memory. */
static int in_memory(void *arg, uint64_t at, uint64_t idx, const uint8_t **buf)
{
	const struct capture *c = arg;

	*buf = cap_priv(c)->dir.tar->all.mem + at + idx * c->subbuf_size;
	return 0;
}

/* Takes over dir, unless it fails. */
static int dir_read(struct capture *c, const struct cap_dir *dir, struct kvmft_err *err)
{
	bool cut = false;
	size_t ndamage;
	int ret;

	c->version = CAPTURE_VERSION;
	cap_priv(c)->dir = *dir;
	ret = read_meta(c, dir, &cut, err);
	util_close_fd(&cap_priv(c)->formats.fd);
	if (!ret) {
		_cleanup_free_ char *text = NULL;
		struct ktext_page p;
		bool more;
		ssize_t n = cap_read_file(dir, "header_page", CAPTURE_MAX_FORMAT, &text, &more);

		/*
		 * Fills in what the ring and machine records left open, from the kernel's own
		 * description.
		 */
		if (n < 0 || !ktext_page(text, &p)) {
			cap_note(c, "header_page: %s",
				 n < 0 ? strerror((int)-n) : "not understood");
		} else {
			c->long_size = c->long_size ?: p.long_size;
			c->page_header = c->page_header ?: p.header;
			if (!c->subbuf_size && cap_subbuf_ok(p.size))
				c->subbuf_size = p.size;
		}
		c->long_size = c->long_size ?: 8;
		c->page_header = c->page_header ?: 8 + c->long_size;
		if (c->page_header < 8 + c->long_size || c->page_header >= c->subbuf_size) {
			cap_note(c, "the sub-buffer size is missing: no events can be read");
			c->subbuf_size = 0;
		}
	}
	if (!ret && !c->clock)
		cap_note(c, "meta does not say which trace clock this is: stamps are taken for ns");
	for (int i = 0; i < CAP_TEXTS && !ret; i++)
		cap_dir_read_text(c, dir, (enum cap_text)i);
	if (!ret && c->subbuf_size)
		ret = read_segments(c, dir);
	if (c->trimmed && c->first_segment && c->first_segment <= cap_priv(c)->nbegun)
		c->kept_tsc = cap_priv(c)->begun[c->first_segment - 1];
	/* What the recorder took from the rings must be here: a file may be cut between two. */
	for (size_t i = 0; !ret && c->subbuf_size && i < c->ncpu && !c->trimmed; i++) {
		const struct cap_cpu *cpu = &c->cpu[i];
		uint64_t told = cpu->end.valid ? cpu->end.subbufs : 0;
		struct cap_stream *s = NULL;

		for (size_t k = 0; k < c->nstream; k++)
			if (c->stream[k].cpu == cpu->cpu)
				s = &c->stream[k];
		if (told <= (s ? s->nsub : 0))
			continue;
		s = s ?: cap_stream_add(c, cpu->cpu, "");
		s->cut = true;
		cap_note(c, "CPU %u: %llu of %llu recorded sub-buffers are missing", cpu->cpu,
			 (unsigned long long)(told - s->nsub), (unsigned long long)told);
	}
	array_sort(c->stream, c->nstream, by_cpu);
	ndamage = c->ndamage;
	if (!ret && !c->complete) {
		cap_note(
			c,
			"the recording was cut short: no end record%s, so what was lost is not counted",
			cut ? ", and meta ends within a line" : "");
		if (c->ndamage > ndamage)
			c->damage[ndamage].no_end = true;
		/* What a flight recorder writes out is whole up to then. */
		for (size_t i = 0; i < c->nstream && !c->flight; i++)
			c->stream[i].open_end = true;
	} else if (!ret && cut) {
		cap_note(c, "meta: the last line is cut short");
	}
	if (dir->tar && dir->fd < 0)
		cap_priv(c)->maker = (struct cap_maker){ .make = in_memory, .arg = c };
	if (!ret && dir->tar && dir->tar->cut)
		cap_note(c, "the tar archive is cut short, or damaged from somewhere on");
	if (ret)
		cap_priv(c)->dir = (struct cap_dir){ .fd = -1 }; /* still the caller's */
	return ret;
}

/* ---- files of any format ---- */

typedef int (*read_file_fn)(struct capture *c, int fd, uint64_t size, struct kvmft_err *err);

static int read_file(struct capture *c, int fd, uint64_t size, struct kvmft_err *err);

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
	ret = ret ?: dir_read(c, &dir, err);
	if (ret)
		cap_dir_close(&dir);
	else
		close(fd); /* taken over, as it were */
	return ret;
}

static void first_interrupt(int sig __unused_arg)
{
}

/*
 * All that comes, first. Ctrl-C ends the program that writes, too: what it has written by then is
 * read; a second one ends this, whoever writes.
 */
int cap_stdin_file(struct kvmft_err *err)
{
	const struct sigaction once = { .sa_handler = first_interrupt,
					.sa_flags = (int)SA_RESETHAND };
	struct sigaction was;
	uint8_t piece[16384];
	struct stat st;
	ssize_t n = 1;
	int mem, ret;

	if (fstat(STDIN_FILENO, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return 0;
	mem = memfd_create("kvmft-input", MFD_CLOEXEC);
	ret = mem < 0 ? -errno : 0;
	(void)sigaction(SIGINT, &once, &was);
	for (uint64_t size = 0; !ret && n && size <= MAX_PIPE; size += (uint64_t)MAX(n, 0)) {
		n = read(STDIN_FILENO, piece, sizeof(piece));
		if (n < 0 && errno != EINTR)
			ret = -errno;
		ret = ret ?: full_write(mem, piece, (size_t)MAX(n, 0), NULL);
	}
	(void)sigaction(SIGINT, &was, NULL);
	if (!ret && n)
		ret = err_set(err, EFBIG, "over 2 GiB through a pipe: give a file");
	/* As if it had been a file: "-" can be opened again. The sandbox has no dup2(). */
	if (!ret) {
		close(STDIN_FILENO);
		ret = lseek(mem, 0, SEEK_SET) ||
				      fcntl(mem, F_DUPFD_CLOEXEC, STDIN_FILENO) != STDIN_FILENO
			      ? -EIO
			      : 0;
	}
	util_close_fd(&mem);
	return ret;
}

/* Decides by the type of path: a directory is ours, a file is for of_file(). */
static int open_any(struct capture *c, const char *path, read_file_fn of_file,
		    struct kvmft_err *err)
{
	const bool input = !strcmp(path, "-");
	int ret = input && of_file ? cap_stdin_file(err) : 0;
	const char *sub = "";
	_cleanup_close_ int fd =
		input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : cap_open_above(path, &sub);
	_cleanup_close_ int other = -1;
	char magic[8];
	struct stat st;
	uint64_t size;

	if (ret)
		return ret;
	ret = MIN(fd, 0);
	if (ret || fstat(fd, &st)) {
		ret = ret ?: -errno;
		return err_why(err, ret, "cannot open the capture");
	}
	if (S_ISDIR(st.st_mode) && (other = cap_open_file(fd, "data", &size)) >= 0 &&
	    full_pread(other, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	    !memcmp(magic, PERF_BEGIN, sizeof(magic)))
		return err_set(err, EOPNOTSUPP, "%s", CAP_PERF_THREADS);
	util_close_fd(&other);
	if (S_ISDIR(st.st_mode) && ((other = cap_open_file(fd, "metadata", &size)) >= 0 ||
				    (other = cap_open_file(fd, "kernel/metadata", &size)) >= 0))
		return err_set(err, EINVAL, "%s", CTF);
	if (S_ISDIR(st.st_mode))
		ret = dir_read(c, &(struct cap_dir){ .fd = fd }, err);
	else if (*sub && (!S_ISREG(st.st_mode) || !of_file))
		return err_why(err, ENOTDIR, "cannot open the capture");
	else if (*sub)
		ret = read_archive(c, fd, sub, err);
	else if (S_ISREG(st.st_mode) && of_file)
		ret = of_file(c, fd, (uint64_t)st.st_size, err);
	else
		return err_set(err, EINVAL, "%s",
			       of_file ? "neither a capture directory nor a file"
				       : "no capture directory");
	if (!ret)
		fd = -1; /* taken over */
	return ret;
}

COMPARE(loss_cmp, struct cap_loss,
	ORDER(x->cpu, y->cpu) ?: ORDER(x->first, y->first) ?: ORDER(x->from, y->from));

static int open_with(const char *path, read_file_fn of_file, struct capture **out,
		     struct kvmft_err *err)
{
	struct capture *c = cap_new();
	struct kvmft_err why = { 0 };
	int ret;

	cap_set_str(&c->path, path);
	ret = open_any(c, path, of_file, &why);
	if (ret) {
		if (!why.text[0])
			err_why(&why, ret, "cannot read the capture");
		(why.code == KVMFT_LACKING ? err_lack : err_set)(err, ret, "%s: %s", path,
								 why.text);
		capture_close(c);
		return ret;
	}
	/* perf writes all of a ring, and then what it finds in the next one. */
	for (size_t i = 0; i < c->nstream && c->is_perfdata && !c->complete; i++)
		c->stream[i].open_end = true;
	cap_note_rest(c);
	array_sort(c->loss, c->nloss, loss_cmp);
	*out = c;
	return 0;
}

/* What people have beside recordings: how it begins, and what to do with it. */
static const struct {
	uint16_t len;
	const char *magic, *text;
} others[] = {
	{ 10, "/* CTF 1.8", CTF },
	{ 4, "\x57\x1d\xd1\x75", CTF },
	{ 4, "\xc1\x1f\xfc\xc1", CTF },
	{ 8, "\xff\xff\xff\xff\xff\xff\xff\xff",
	  "a trace of QEMU's back end simple: give it with --qemu, beside a host's recording" },
	{ 4, "\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first (unzstd)" },
	{ 2, "\x1f\x8b", "compressed with gzip, and neither a recording nor text, or cut (a stream: zcat "
			  "FILE | kvmft receive)" },
	{ 13, "kvmft-stream ", "a stream: kvmft receive -o DIR <FILE" },
	{ 4, "PK\3\4", "a zip archive: unpack it and give what is in it" },
	{ 6, "\xfd" "7zXZ", "compressed with xz: unpack it first (unxz)" },
	{ 3, "BZh", "compressed with bzip2: unpack it first (bunzip2)" },
	{ 15, "SQLite format 3", "a database, which sqlite3 reads: see kvmft-sql(7)" },
	{ 4, "\x7f" "ELF", "a program or a core dump" },
	{ 16, "Display kvm exit", KVMEXIT },
	{ 4, "PID ", KVMEXIT },
	{ 1, "[", "perhaps the kernel's log (dmesg), in which are no events" },
	{ 9, "<!DOCTYPE", "a page for a browser" },
	{ 23, "version https://git-lfs", "what git has instead of the file: git lfs pull" },
	{ 4, "\0\5\26\7", "what macOS keeps beside a file: give the file itself" },
	{ 4, "\n\nP\1", PERFETTO }, /* a packet of 10 bytes */
	{ 2, "\n\n", "text, but no trace as text that kvmft knows" },
	{ 1, "\x0a", PERFETTO },
	{ 1, "{", "JSON, which kvmft writes but does not read" },
};

static bool is_recording(const void *head, size_t n)
{
	return n >= TD_MAGIC && (!memcmp(head, TD_BEGIN, TD_MAGIC) || !memcmp(head, PERF_BEGIN, 8));
}

/* A trace.dat or perf.data that gzip or zstd has packed: a file in memory. -ENOMSG: it is none. */
static int unpack_recording(struct capture *c, int fd, struct kvmft_err *err)
{
	struct cap_part all = { .fd = -1 };
	int ret = cap_unpack_file(fd, is_recording, &all, err), mem = -1;

	if (!ret && (mem = memfd_create("kvmft-input", MFD_CLOEXEC)) < 0)
		ret = -errno;
	ret = ret ?: full_write(mem, all.mem, all.size, NULL);
	free(all.mem);
	ret = ret ?: read_file(c, mem, all.size, err);
	util_close_fd(ret ? &mem : &fd); /* what is left is the capture's */
	return ret;
}

static bool is_table(const void *head, size_t n)
{
	return memmem(head, n, "Sample%", 7) || memmem(head, n, "Samples%", 8);
}

/* The text of a table, into c. -ENOMSG: it is none. */
static int read_table(struct capture *c, int fd, uint64_t size, struct kvmft_err *err)
{
	struct cap_part all = { .fd = -1 };
	int ret = size ? cap_unpack_file(fd, is_table, &all, err) : -ENOMSG;

	if (ret == -ENOMSG && size <= CAP_TABLE_MAX) {
		free(all.mem);
		all = (struct cap_part){ .mem = xmalloc(size + 1), .size = size };
		if (full_pread(fd, all.mem, size, 0) == (ssize_t)size && is_table(all.mem, size))
			ret = 0;
	}
	if (!ret && all.cut)
		ret = err_set(err, EBADMSG, "packed data are damaged, or cut");
	if (!ret && all.size <= CAP_TABLE_MAX) {
		cap_priv(c)->table = xstrndup((const char *)all.mem, all.size);
		cap_priv(c)->fd = fd;
	} else {
		ret = ret ?: -ENOMSG;
	}
	free(all.mem);
	return ret;
}

int capture_table(const char *path, char **text, struct kvmft_err *err)
{
	struct capture *c = cap_new();
	int ret = open_any(c, path, read_table, err);

	if (!ret) {
		*text = cap_priv(c)->table;
		cap_priv(c)->table = NULL;
	}
	capture_close(c);
	return ret;
}

static int read_file(struct capture *c, int fd, uint64_t size, struct kvmft_err *err)
{
	char head[264] = "";
	int ret;

	(void)!full_pread(fd, head, sizeof(head) - 1, 0);
	if (!memcmp(head, PERF_BEGIN, 8) || !memcmp(head, "2ELIFREP", 8))
		return cap_perfdata_read(c, fd, size, err);
	if (!size || !memcmp(head, TD_BEGIN, TD_MAGIC)) /* empty: it says so */
		return cap_tracedat_read(c, fd, size, err);
	ret = read_archive(c, fd, "", err);
	ret = ret == -ENOMSG ? unpack_recording(c, fd, err) : ret;
	ret = ret == -ENOMSG ? cap_text_read(c, fd, err) : ret;
	if (ret != -ENOMSG)
		return ret;
	if (read_table(c, fd, size, err) != -ENOMSG)
		return err_set(err, EBADMSG,
			       "a table of what was recorded, not a recording: kvmft diff compares "
			       "it with another one, or with a recording");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!memcmp(head, others[i].magic, others[i].len))
			return err_set(err, EBADMSG, "%s", others[i].text);
	return err_set(err, EBADMSG,
		       "neither a capture directory nor a trace.dat, perf.data or trace as text "
		       "(of QEMU: --qemu FILE)");
}

int capture_open(const char *path, struct capture **out, struct kvmft_err *err)
{
	return open_with(path, read_file, out, err);
}

int capture_open_dir(const char *path, struct capture **out, struct kvmft_err *err)
{
	return open_with(path, NULL, out, err);
}

void capture_close(struct capture *c)
{
	struct cap_priv *p = c ? c->priv : NULL;
	size_t i;

	if (!c)
		return;
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
	for (i = 0; i < c->nparam; i++) {
		free(c->param[i].module);
		free(c->param[i].name);
		free(c->param[i].value);
	}
	strings_free(c->gone, c->ngone);
	strings_free(p->instance, p->ninstance);
	cap_dir_close(&p->dir);
	util_close_fd(&p->fd);
	u64map_free(&p->task_by_tid);
	u64map_free(&p->vm_by_id);
	u64map_free(&p->vcpu_last);
	u64map_free(&p->damage_by_text);
	cap_unpacker_free(p->unpacker);
	if (p->maker.free)
		p->maker.free(p->maker.arg);
	void *const all[] = {
		c->format,     c->cpu,	    c->stream,	       c->vm,
		c->param,      c->qemu,	    c->pvclock,	       c->pause,
		c->bracket,    c->sample,   c->task,	       c->loss,
		c->damage,     c->shift,    c->path,	       c->end_reason,
		c->lacks,      c->clock,    c->uname,	       c->arch,
		c->hypervisor, c->uuid,	    c->clocksource,    c->end_clocksource,
		c->vendor,     c->tool,	    c->tsc_khz_source, c->sched_source,
		c->printk,     c->kallsyms, p->table,	       p->begun,
		p,	       c,
	};

	for (i = 0; i < ARRAY_SIZE(all); i++)
		free(all[i]);
}
