/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dir_read.c: reading kvmft's own capture, a directory.
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
#include "kvmft/ktext.h"
#include "reader.h"

#include <inttypes.h>

static int check_version(char *line, struct kvmft_err *err)
{
	struct meta_rec rec;
	uint64_t version;

	if (!meta_parse(line, &rec) || strcmp(rec.name, "kvmft-capture") ||
	    !meta_get_u64(&rec, "version", &version) || !version)
		return err_set(err, EBADMSG, "not a kvmft capture: its meta does not begin like one");
	if (version > CAPTURE_VERSION)
		return err_set(err, EPROTONOSUPPORT,
			       "capture has format version %llu, this kvmft reads up to %d "
			       "(a newer kvmft is needed)",
			       (unsigned long long)version, CAPTURE_VERSION);
	return 0;
}

/* One line of meta, without its newline. */
static int read_line(struct capture *c, char *line, size_t len, size_t number)
{
	struct meta_rec rec;
	size_t i;

	for (i = 0; i < len; i++)
		if (line[i] < ' ' || line[i] > '~')
			break;
	if (i < len || !meta_parse(line, &rec)) {
		if (len)
			cap_note(c, "meta: line %zu is damaged", number);
		return 0;
	}
	return meta_apply(c, &rec);
}

/* cut: it ends within a line. */
static int read_meta(struct capture *c, int dirfd, bool *cut, struct kvmft_err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t left, number = 0;
	bool more = false;
	char *p, *eol;
	int ret;
	ssize_t n = cap_read_file(dirfd, "meta", CAPTURE_MAX_META, &text, &more);

	if (n < 0)
		return err_set(err, (int)n, "not a kvmft capture: cannot read meta: %s",
			       strerror((int)-n));
	p = text;
	left = (size_t)n;
	while ((eol = memchr(p, '\n', left))) {
		*eol = '\0';
		ret = number++ ? read_line(c, p, (size_t)(eol - p), number) :
				 check_version(p, err);
		if (ret == -EPROTONOSUPPORT && number > 1)
			return err_set(err, ret, CAP_BIG_ENDIAN "record there with trace-cmd");
		if (ret)
			return ret;
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

/* Fills in what the ring and machine records left open, from the kernel's own description. */
static int read_geometry(struct capture *c, int dirfd)
{
	_cleanup_free_ char *text = NULL;
	struct ktext_page p;
	bool more;
	ssize_t n = cap_read_file(dirfd, "header_page", CAPTURE_MAX_FORMAT, &text, &more);

	if (n == -ENOMEM)
		return -ENOMEM;
	if (n < 0 || !ktext_page(text, &p)) {
		cap_note(c, "header_page: %s", n < 0 ? strerror((int)-n) : "not understood");
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
	return 0;
}

static int read_printk(struct capture *c, char *text)
{
	return cap_set_printk(c, text, strlen(text));
}

static int read_kallsyms(struct capture *c, char *text)
{
	return cap_set_kallsyms(c, text, strlen(text));
}

const char *const cap_text_names[CAP_TEXTS] = {
	[CAP_TEXT_CMDLINES] = "saved_cmdlines",
	[CAP_TEXT_TGIDS] = "saved_tgids",
	[CAP_TEXT_PRINTK] = "printk_formats",
	[CAP_TEXT_KALLSYMS] = "kallsyms",
};

/* Reports what is missing of a text; n: what was read of it. */
static void check_text(struct capture *c, enum cap_text which, const char *text, size_t n)
{
	const char *name = cap_text_names[which];

	if (cap_priv(c)->text[which].told && n < cap_priv(c)->text[which].bytes)
		cap_note(c, "%s is cut: %zu of %" PRIu64 " bytes", name, n,
			 cap_priv(c)->text[which].bytes);
	else if (n && text[n - 1] != '\n')
		cap_note(c, "%s is cut short: it ends inside a line", name);
	if (strlen(text) < n)
		cap_note(c, "%s is not text after byte %zu", name, strlen(text));
}

typedef int text_parser(struct capture *c, char *text);

/* All are optional: without them only recorded task names are known. */
static int read_text(struct capture *c, int dirfd, enum cap_text which)
{
	static text_parser *const parse[] = {
		[CAP_TEXT_CMDLINES] = cap_parse_cmdlines,
		[CAP_TEXT_TGIDS] = cap_parse_tgids,
		[CAP_TEXT_PRINTK] = read_printk,
		[CAP_TEXT_KALLSYMS] = read_kallsyms,
	};
	const char *name = cap_text_names[which];
	_cleanup_free_ char *text = NULL;
	bool more = false;
	ssize_t n = cap_read_file(dirfd, name, CAP_MAX_TEXT, &text, &more);

	if (n == -ENOENT && cap_priv(c)->text[which].told)
		cap_note(c, "%s is missing", name);
	if (n == -ENOENT)
		return 0;
	if (n < 0 || more)
		cap_note(c, "%s: %s", name, more ? "too long, cut" : strerror((int)-n));
	else
		check_text(c, which, text, (size_t)n);
	return n < 0 ? 0 : parse[which](c, text);
}

static int read_texts(struct capture *c, int dirfd)
{
	int ret = 0;

	for (int i = 0; i < CAP_TEXTS && !ret; i++)
		ret = read_text(c, dirfd, (enum cap_text)i);
	return ret;
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

/* Numbers of the entries called `fmt` in a directory, ascending. */
static int list_numbers(int fd, const char *fmt, uint32_t max, uint32_t **out, size_t *count)
{
	size_t n = 0, cap = 0;
	uint32_t *v = NULL, number;
	struct dirent *de;
	DIR *dir = dir_open(fd, ".");
	int ret = 0;

	if (!dir)
		return -errno;
	while (!ret && (errno = 0, de = readdir(dir))) {
		if (!name_number(de->d_name, fmt, max, &number))
			continue;
		ret = n < CAP_MAX_SEGMENTS ? array_add(&v, &n, &cap, &number, sizeof(number))
					   : -E2BIG;
		if (ret)
			break;
	}
	if (!ret && errno)
		ret = -errno;
	closedir(dir);
	if (ret) {
		free(v);
		return ret;
	}
	if (n)
		qsort(v, n, sizeof(*v), by_number);
	*out = v;
	*count = n;
	return 0;
}

static struct cap_stream *stream_of(struct capture *c, struct u64map *map, uint32_t cpu)
{
	struct cap_stream *s;
	uint64_t i;

	if (u64map_get(map, cpu, &i))
		return &c->stream[i];
	s = cap_stream_add(c, cpu, "");
	return s && !u64map_put(map, cpu, c->nstream - 1) ? s : NULL;
}

static int read_segment(struct capture *c, int dirfd, struct u64map *map, uint32_t segment)
{
	_cleanup_free_ uint32_t *cpu = NULL;
	_cleanup_close_ int dir = -1;
	struct cap_stream *s;
	char name[64];
	size_t n, i;
	int fd, ret;

	snprintf(name, sizeof(name), "seg%06u", segment);
	dir = cap_open_dir(dirfd, name);
	ret = dir < 0 ? dir : list_numbers(dir, "cpu%u", CAPTURE_MAX_CPUS - 1, &cpu, &n);
	if (ret) {
		cap_note(c, "%s: %s", name, strerror(-ret));
		return ret == -ENOMEM ? ret : 0;
	}
	for (i = 0; i < n; i++) {
		uint64_t size = 0, holes;

		cap_data_name(name, sizeof(name), segment, cpu[i]);
		fd = cap_open_file(dir, strchr(name, '/') + 1, &size);
		if (fd < 0) {
			cap_note(c, "%s: %s", name, strerror(-fd));
			continue;
		}
		s = stream_of(c, map, cpu[i]);
		ret = s ? cap_stream_extend_file(c, s, fd, &(struct cap_extent){
				.fd = -1, .segment = segment, .len = size }, &holes) : -ENOMEM;
		close(fd);
		if (ret)
			return ret;
		if (holes)
			cap_note(c, "%s: %llu of %llu bytes were never written, and left out", name,
				 (unsigned long long)holes, (unsigned long long)size);
		if (size % c->subbuf_size)
			cap_note(c, "%s: ends inside a sub-buffer, %llu bytes cut", name,
				 (unsigned long long)(size % c->subbuf_size));
	}
	return 0;
}

COMPARE_BY(by_cpu, struct cap_stream, .cpu);

static int read_segments(struct capture *c, int dirfd)
{
	_cleanup_free_ uint32_t *seg = NULL;
	struct u64map map = { 0 };
	size_t n = 0, i;
	int ret = list_numbers(dirfd, "seg%06u", CAP_MAX_SEGMENT, &seg, &n);

	if (ret)
		return ret;
	c->first_segment = n ? seg[0] : 0;
	c->last_segment = n ? seg[n - 1] : 0;
	c->trimmed = c->first_segment > 0;
	for (i = 0; i < n && !ret; i++) {
		if (i && seg[i] != seg[i - 1] + 1 && c->flight && cap_priv(c)->asked)
			c->trimmed = true;
		else if (i && seg[i] != seg[i - 1] + 1)
			cap_note(c, "segments %u to %u are missing", seg[i - 1] + 1, seg[i] - 1);
		ret = read_segment(c, dirfd, &map, seg[i]);
	}
	if (!ret && cap_priv(c)->segments_told > (n ? seg[n - 1] + 1 : 0))
		cap_note(c, "segments up to %u are missing", cap_priv(c)->segments_told - 1);
	u64map_free(&map);
	if (c->nstream)
		qsort(c->stream, c->nstream, sizeof(*c->stream), by_cpu);
	return ret;
}

/*
 * What the recorder took from the rings must be here: a file cut between sub-buffers is cut, too.
 */
static void check_counts(struct capture *c)
{
	for (size_t i = 0; i < c->ncpu && !c->trimmed; i++) {
		const struct cap_cpu *cpu = &c->cpu[i];
		uint64_t there = 0;

		for (size_t k = 0; k < c->nstream; k++)
			if (c->stream[k].cpu == cpu->cpu)
				there += c->stream[k].nsub;
		if (cpu->end.valid && there < cpu->end.subbufs)
			cap_note(c, "CPU %u: %llu of %llu recorded sub-buffers are missing",
				 cpu->cpu, (unsigned long long)(cpu->end.subbufs - there),
				 (unsigned long long)cpu->end.subbufs);
	}
}

static void note_no_end(struct capture *c, bool cut)
{
	size_t n = c->ndamage;

	cap_note(c, "the recording was cut short: no end record%s, so what was lost is not counted",
		 cut ? ", and meta ends within a line" : "");
	if (c->ndamage > n)
		c->damage[n].no_end = true;
}

int cap_dir_read(struct capture *c, int dirfd, struct kvmft_err *err)
{
	bool cut = false;
	int ret;

	c->version = CAPTURE_VERSION;
	cap_priv(c)->dirfd = dirfd;
	ret = read_meta(c, dirfd, &cut, err);
	util_close_fd(&cap_priv(c)->formats.fd);
	ret = ret ?: read_geometry(c, dirfd);
	ret = ret ?: read_texts(c, dirfd);
	if (!ret && c->subbuf_size)
		ret = read_segments(c, dirfd);
	if (!ret && c->subbuf_size)
		check_counts(c);
	if (!ret && !c->complete)
		note_no_end(c, cut);
	else if (!ret && cut)
		cap_note(c, "meta: the last line is cut short");
	if (ret)
		cap_priv(c)->dirfd = -1; /* still the caller's */
	return ret;
}
